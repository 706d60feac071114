//! What a cluster's nodes say of themselves: `tideline cluster status` and `check`.
//!
//! Owns: the calls of `/v1/cluster`, and what is printed of their answers. Promises: all nodes are asked at once, and
//! one that does not answer is shown as such. Must not: change anything.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use futures_util::future::join_all;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Method, Request, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::super::address::Address;
use super::super::output::Output;
use super::settings;
use crate::clock::Clock;
use crate::config::ClusterKey;
use crate::gateway::{NodeRole, NodeStatus};
use crate::tls;

/// Whose nodes, and how they are reached.
#[derive(Debug, Args)]
pub struct NodesArgs {
    /// The settings of one of the nodes, with [cluster]. With [auth] an administrator's key must be in TIDELINE_KEY.
    #[arg(long, value_name = "FILE")]
    pub(super) config: PathBuf,
    /// Authorities, in PEM, whose certificates the nodes may have, instead of the system's.
    #[arg(long, value_name = "FILE")]
    pub(super) ca_file: Option<PathBuf>,
}

/// The nodes of a cluster.
pub(super) struct Nodes {
    pub(super) cluster: ClusterKey,
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    key: Option<String>,
}

/// What each node says, by its name.
pub(super) type Answers = Vec<(String, Result<NodeStatus, String>)>;

impl Nodes {
    pub(super) fn of(args: &NodesArgs) -> Result<Nodes, String> {
        let (_, cluster) = settings(&args.config)?;
        let is_secure = cluster.nodes.values().any(|url| url.starts_with("https:"));
        // Without TLS there is no certificate to check, so no authorities are needed.
        let tls = match is_secure {
            true => tls::client(args.ca_file.as_deref()).map_err(|error| error.to_string())?,
            false => tls::client_of_nobody(),
        };
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls);
        let connector = connector.https_or_http().enable_http1().build();
        Ok(Nodes {
            cluster,
            http: Client::builder(TokioExecutor::new()).build(connector),
            key: std::env::var("TIDELINE_KEY").ok(),
        })
    }

    /// Asks one node.
    pub(super) async fn call(
        &self,
        node: &str,
        method: Method,
        path: &str,
    ) -> Result<Bytes, String> {
        let url = self.cluster.nodes.get(node);
        let url = url.ok_or_else(|| format!("{node} is no node of the cluster"))?;
        let origin = Address::parse(url)?.origin;
        let mut request = Request::builder().method(method);
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let request = request.uri(format!("{origin}/v1/cluster{path}"));
        let request = request.body(Full::default());
        let request = request.map_err(|error| error.to_string())?;
        let answer = timeout(PATIENCE, async {
            let answer = self.http.request(request).await.map_err(|error| {
                // The error itself tells only at which step it was.
                let mut cause: &dyn std::error::Error = &error;
                while let Some(source) = cause.source() {
                    cause = source;
                }
                cause.to_string()
            })?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX);
            let body = body.collect().await.map_err(|error| error.to_string())?;
            Ok::<_, String>((status, body.to_bytes()))
        });
        let answer = answer.await.map_err(|_| "no answer in time".to_owned())?;
        match answer? {
            (StatusCode::OK | StatusCode::NO_CONTENT, body) => Ok(body),
            (StatusCode::UNAUTHORIZED, _) => Err(NO_KEY.to_owned()),
            // A text is not about the key, but about the address by which it was called.
            (StatusCode::FORBIDDEN, body) if body.starts_with(b"{") => Err(NO_KEY.to_owned()),
            (status, body) => {
                let text = String::from_utf8_lossy(&body);
                Err(format!("{status}: {}", text.trim_end()))
            }
        }
    }

    /// What one node says.
    pub(super) async fn status(&self, node: &str) -> Result<NodeStatus, String> {
        let body = self.call(node, Method::GET, "").await?;
        let status: NodeStatus =
            serde_json::from_slice(&body).map_err(|error| format!("not a node: {error}"))?;
        let named = (&*status.cluster, &*status.node);
        match named == (&*self.cluster.name, node) {
            true => Ok(status),
            false => Err(format!("it is {} of cluster {}", named.1, named.0)),
        }
    }

    /// What all of them say.
    pub(super) async fn all(&self) -> Answers {
        let asked = self.cluster.nodes.keys();
        let asked = asked.map(|node| async { (node.clone(), self.status(node).await) });
        join_all(asked).await
    }
}

pub(super) const NO_KEY: &str = "an administrator's key is asked for, in TIDELINE_KEY";
/// A node answers at once.
const PATIENCE: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// What such commands run on.
pub(super) fn runtime() -> Result<Runtime, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_err(|error| error.to_string())
}

/// A node in a line.
fn line(node: &str, said: &Result<NodeStatus, String>, now_ms: u64) -> String {
    let status = match said {
        Ok(status) => status,
        Err(why) => return format!("{node}: no answer ({why})"),
    };
    let NodeStatus {
        role,
        term,
        applied,
        known,
        reason,
        notice,
        warning,
        owner,
        version,
        since_ms,
        silent_ms,
        rank,
        unready,
        ..
    } = status;
    let mut line = format!("{node}: {}, term {term}, at {applied}", role.name());
    match (role, owner) {
        (NodeRole::Owner | NodeRole::Stopped, _) => {}
        (_, owner) => {
            let owner = owner.as_deref().unwrap_or("nobody");
            line += &format!(", {} behind, of {owner}", known.saturating_sub(*applied));
        }
    }
    if let (Some(silent_ms), Some(rank)) = (silent_ms, rank) {
        line += &format!(" which was heard {silent_ms} ms ago, rank {rank}");
    }
    let seconds = now_ms.saturating_sub(*since_ms) / 1_000;
    if *since_ms > 0 {
        line += &format!(", since {seconds} s");
    }
    if let Some(why) = unready {
        line += &format!(" (would not claim: {why})");
    }
    for why in reason.iter().chain(notice).chain(warning) {
        line += &format!(" ({why})");
    }
    line + &format!(", version {version}")
}

/// Shows them.
pub(super) fn status(args: &NodesArgs, out: &mut Output) -> Result<(), String> {
    let nodes = Nodes::of(args)?;
    let answers = runtime()?.block_on(nodes.all());
    tell(&answers, out)
}

fn tell(answers: &Answers, out: &mut Output) -> Result<(), String> {
    let now_ms = Clock::system().now_ms();
    for (node, said) in answers {
        writeln!(out, "{}", line(node, said, now_ms)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Shows them, and fails with the first thing that is wrong.
pub(super) fn check(args: &NodesArgs, out: &mut Output) -> Result<(), String> {
    let nodes = Nodes::of(args)?;
    let answers = runtime()?.block_on(nodes.all());
    tell(&answers, out)?;
    judge(&answers)
}

/// The owner. Of several that say so only the one of the highest term can write: others have not heard of it yet.
pub(super) fn owner(answers: &Answers) -> Option<&NodeStatus> {
    let heard = answers.iter().filter_map(|(_, said)| said.as_ref().ok());
    let owners = heard.filter(|one| one.role == NodeRole::Owner);
    owners.max_by_key(|one| one.term)
}

/// What is wrong with a cluster.
fn judge(answers: &Answers) -> Result<(), String> {
    let mut heard = Vec::new();
    for (node, said) in answers {
        heard.push(
            said.as_ref()
                .map_err(|why| format!("{node} does not answer: {why}"))?,
        );
    }
    if let Some(stopped) = heard.iter().find(|one| one.role == NodeRole::Stopped) {
        return Err(stopped.why_not());
    }
    let told = |one: &&NodeStatus| one.notice.clone().or(one.warning.clone());
    if let Some(told) = heard.iter().find_map(told) {
        return Err(told);
    }
    let owners = heard.iter().filter(|one| one.role == NodeRole::Owner);
    let owners: Vec<&str> = owners.map(|one| &*one.node).collect();
    if owners.len() != 1 {
        return Err(match owners.len() {
            0 => "nobody owns the log: if that stays so, see why each node would not claim, or make one own it by \
                  `tideline cluster take-over`"
                .to_owned(),
            _ => format!(
                "{} say that they own the log: ask again",
                owners.join(" and ")
            ),
        });
    }
    let Some((first, rest)) = heard.split_first() else {
        return Ok(());
    };
    for other in rest {
        let differing = first
            .digests
            .iter()
            .find(|(section, digest)| other.digests.get(*section) != Some(*digest));
        if let Some((section, _)) = differing {
            return Err(format!(
                "{section} is set otherwise on {} than on {}: all nodes need the same",
                other.node, first.node
            ));
        }
        if other.version != first.version {
            return Err(format!(
                "{} is version {}, and {} is {}",
                first.node, first.version, other.node, other.version
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(node: &str, role: NodeRole) -> (String, Result<NodeStatus, String>) {
        let status = NodeStatus {
            cluster: "chat".to_owned(),
            node: node.to_owned(),
            version: "1".to_owned(),
            role,
            reason: None,
            owner: Some("n1".to_owned()),
            owner_url: None,
            term: 3,
            applied: 7,
            known: 9,
            since_ms: 1_000,
            silent_ms: None,
            rank: None,
            unready: None,
            notice: None,
            warning: None,
            digests: [("policy".to_owned(), "a".to_owned())].into(),
        };
        (node.to_owned(), Ok(status))
    }

    #[test]
    fn a_check_names_what_is_wrong() {
        let good = || vec![said("n1", NodeRole::Owner), said("n2", NodeRole::Follower)];
        assert_eq!(judge(&good()), Ok(()));
        assert_eq!(
            line("n2", &good()[1].1, 9_900),
            "n2: follower, term 3, at 7, 2 behind, of n1, since 8 s, version 1"
        );
        let Ok(mut standby) = said("n2", NodeRole::Follower).1 else {
            unreachable!("it answers");
        };
        (standby.silent_ms, standby.rank) = (Some(90), Some(0));
        standby.unready = Some("it is drained".to_owned());
        assert_eq!(
            line("n2", &Ok(standby), 9_900),
            "n2: follower, term 3, at 7, 2 behind, of n1 which was heard 90 ms ago, rank 0, since 8 s (would not claim: it \
             is drained), version 1"
        );
        let wrong = |change: &dyn Fn(&mut Answers)| {
            let mut answers = good();
            change(&mut answers);
            judge(&answers).unwrap_err()
        };
        let silent = wrong(&|all| all[1].1 = Err("refused".to_owned()));
        assert!(silent.contains("n2 does not answer: refused"));
        let none = wrong(&|all| all[0] = said("n1", NodeRole::Follower));
        assert!(none.contains("nobody owns"));
        let two = wrong(&|all| all[1] = said("n2", NodeRole::Owner));
        assert!(two.contains("n1 and n2"));
        let mut two = vec![said("n1", NodeRole::Owner), said("n2", NodeRole::Owner)];
        two[1].1.as_mut().unwrap().term = 4;
        assert_eq!(owner(&two).unwrap().node, "n2");
        let cut = wrong(&|all| all[0].1.as_mut().unwrap().notice = Some("cut off".to_owned()));
        assert_eq!(cut, "cut off");
        let other = wrong(&|all| {
            let policy = all[1].1.as_mut().unwrap().digests.get_mut("policy");
            *policy.unwrap() = "b".to_owned();
        });
        assert!(other.starts_with("policy is set otherwise on n2"));
    }
}
