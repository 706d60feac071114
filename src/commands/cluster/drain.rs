//! `tideline cluster drain` and `undrain`: a node gives the log away, and does not claim it again.
//!
//! Owns: what is told while that is waited for. Promises: it is said who owns the log then, or why nobody else can.
//! Must not: choose the next owner; the node does.

use std::io::Write as _;
use std::time::Duration;

use clap::Args;
use hyper::Method;
use tokio::time::{Instant, sleep};

use super::super::output::Output;
use super::ask::{Nodes, NodesArgs, runtime};
use crate::gateway::{NodeRole, NodeStatus};

/// What `drain` is told.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// The node.
    #[arg(value_name = "NODE")]
    node: String,
    /// How long it is waited for until another node owns the log, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
    #[command(flatten)]
    nodes: NodesArgs,
}

/// What `undrain` is told.
#[derive(Debug, Args)]
pub struct UndrainArgs {
    /// The node.
    #[arg(value_name = "NODE")]
    node: String,
    #[command(flatten)]
    nodes: NodesArgs,
}

/// Drains a node.
pub(super) fn drain(args: &DrainArgs, out: &mut Output) -> Result<(), String> {
    let nodes = Nodes::of(&args.nodes)?;
    let said = runtime()?.block_on(drained(args, &nodes))?;
    writeln!(out, "{said}").map_err(|error| error.to_string())
}

async fn drained(args: &DrainArgs, nodes: &Nodes) -> Result<String, String> {
    let node = &args.node;
    let unheard = |why: String| format!("{node} does not answer: {why}");
    let before = nodes.status(node).await.map_err(unheard)?;
    if before.role == NodeRole::Stopped {
        return Err(before.why_not());
    }
    let until = Instant::now() + Duration::from_secs(args.wait);
    let mut again = Instant::now();
    loop {
        if Instant::now() >= again {
            let asked = nodes.call(node, Method::POST, "/drain").await;
            // A node that has just begun another role may not hear it.
            again = Instant::now() + ASK_EVERY;
            if before.role != NodeRole::Owner {
                asked?;
                return Ok(format!(
                    "{node} is drained: it owns the log only if it is told to"
                ));
            }
        }
        sleep(LOOK_EVERY).await;
        match nodes.status(node).await {
            Ok(NodeStatus {
                role,
                owner: Some(owner),
                term,
                ..
            }) if role != NodeRole::Owner && owner != *node => {
                return Ok(format!(
                    "{node} is drained; {owner} owns the log, in term {term}"
                ));
            }
            _ if Instant::now() > until => break,
            _ => {}
        }
    }
    let mut others = Vec::new();
    for (other, said) in nodes.all().await.iter().filter(|(other, _)| other != node) {
        let why = match said {
            Ok(NodeStatus {
                unready, reason, ..
            }) => {
                let why = unready.as_ref().or(reason.as_ref());
                why.map_or("it is ready", |why| why.as_str()).to_owned()
            }
            Err(why) => format!("no answer ({why})"),
        };
        others.push(format!("{other}: {why}"));
    }
    Err(format!(
        "no other node owns the log yet: {}",
        others.join("; ")
    ))
}

/// Ends that.
pub(super) fn undrain(args: &UndrainArgs, out: &mut Output) -> Result<(), String> {
    let (nodes, node) = (Nodes::of(&args.nodes)?, &args.node);
    runtime()?.block_on(nodes.call(node, Method::POST, "/undrain"))?;
    writeln!(out, "{node} takes its turn again").map_err(|error| error.to_string())
}

const LOOK_EVERY: Duration = Duration::from_millis(50);
const ASK_EVERY: Duration = Duration::from_secs(5);
