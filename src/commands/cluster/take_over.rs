//! `tideline cluster take-over`: a person has a node own the log.
//!
//! Owns: when that is refused, and what is told while it is waited for. Promises: an owner that lives is asked to hand
//! over first; the node claims only behind everything that it knows of. Must not: decide who owns: the log does.

use std::io::Write as _;
use std::time::Duration;

use clap::Args;
use hyper::Method;
use tokio::time::{Instant, sleep};

use super::super::output::Output;
use super::ask::{Nodes, NodesArgs, owner, runtime};
use crate::gateway::{NodeRole, NodeStatus};

/// What `take-over` is told.
#[derive(Debug, Args)]
pub struct TakeOverArgs {
    /// The node that is to own the log.
    #[arg(value_name = "NODE")]
    node: String,
    /// Also while another node owns it and lives.
    #[arg(long)]
    force: bool,
    /// How long it is waited for, in seconds; the node goes on trying for a minute afterwards, unless another one has
    /// claimed the log meanwhile.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
    #[command(flatten)]
    nodes: NodesArgs,
}

/// Does it.
pub(super) fn take_over(args: &TakeOverArgs, out: &mut Output) -> Result<(), String> {
    let nodes = Nodes::of(&args.nodes)?;
    runtime()?.block_on(take(args, &nodes, out))
}

async fn take(args: &TakeOverArgs, nodes: &Nodes, out: &mut Output) -> Result<(), String> {
    let node = &args.node;
    let unheard = |why: String| format!("{node} does not answer: {why}");
    let mut status = nodes.status(node).await.map_err(unheard)?;
    let all = nodes.all().await;
    let owner = owner(&all).map(|owner| &owner.node);
    // A later owner has a higher one.
    let terms = all.iter().filter_map(|(_, said)| said.as_ref().ok());
    let mut before = terms
        .map(|one| one.term)
        .max()
        .unwrap_or(0)
        .max(status.term);
    match status.role {
        _ if owner == Some(node) => {
            return say(out, &format!("{node} owns the log already"));
        }
        NodeRole::Stopped => return Err(status.why_not()),
        NodeRole::Owner | NodeRole::Joining | NodeRole::Follower => {}
    }
    if let Some(owner) = owner {
        if !args.force {
            let behind = behind(&status);
            return Err(format!(
                "{owner} owns the log and lives; {node} is {behind}. With --force {owner} hands it over"
            ));
        }
        let path = format!("/resign?to={node}");
        match nodes.call(owner, Method::POST, &path).await {
            Ok(_) => {
                say(out, &format!("{owner} hands the log over"))?;
                lets_go(nodes, owner).await;
            }
            Err(why) => say(out, &format!("{owner} does not hand the log over: {why}"))?,
        }
    }
    say(out, &format!("{node} is {}", behind(&status)))?;
    let until = Instant::now() + Duration::from_secs(args.wait);
    let mut asked = nodes.call(node, Method::POST, "/take-over").await;
    let mut again = Instant::now() + ASK_EVERY;
    while status.role != NodeRole::Owner || status.term <= before {
        if let Some(other) = &status.owner
            && other != node
            && status.term > before
        {
            return Err(format!(
                "{other} owns the log since, in term {}",
                status.term
            ));
        }
        if Instant::now() > until {
            asked?;
            return Err(format!(
                "{node} does not own the log yet: it is {}, of {}; it goes on trying for a minute",
                behind(&status),
                status.owner.as_deref().unwrap_or("nobody")
            ));
        }
        sleep(LOOK_EVERY).await;
        // A node that changed its role just then may have forgotten it.
        if asked.is_err() || Instant::now() > again {
            asked = nodes.call(node, Method::POST, "/take-over").await;
            again = Instant::now() + ASK_EVERY;
        }
        // It may change its role just now.
        if let Ok(now) = nodes.status(node).await {
            // It reads claims of before.
            if status.role == NodeRole::Joining && now.role != NodeRole::Owner {
                before = before.max(now.term);
            }
            status = now;
        }
        if status.role == NodeRole::Stopped {
            return Err(status.why_not());
        }
    }
    say(
        out,
        &format!("{node} owns the log, in term {}", status.term),
    )
}

/// Waits a while until the owner has handed it over: a claim before that would have calls refused that have begun.
async fn lets_go(nodes: &Nodes, owner: &str) {
    let until = Instant::now() + LETS_GO;
    while let Ok(status) = nodes.status(owner).await
        && status.role == NodeRole::Owner
        && Instant::now() < until
    {
        sleep(LOOK_SOON).await;
    }
}

fn behind(status: &NodeStatus) -> String {
    match status.known.saturating_sub(status.applied) {
        0 => format!("not behind, at {}", status.applied),
        frames => format!("{frames} frames behind, at {}", status.applied),
    }
}

fn say(out: &mut Output, line: &str) -> Result<(), String> {
    let told = writeln!(out, "{line}").and_then(|()| out.flush());
    told.map_err(|error| error.to_string())
}

const LETS_GO: Duration = Duration::from_secs(3);
const LOOK_SOON: Duration = Duration::from_millis(10);
const LOOK_EVERY: Duration = Duration::from_millis(100);
const ASK_EVERY: Duration = Duration::from_secs(5);
