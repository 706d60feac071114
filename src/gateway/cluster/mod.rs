//! A node of a cluster: what it says of itself, how a person has it own the log, and what it answers while another
//! one does.
//!
//! Owns: `/v1/cluster` and the standby's listener. Promises: only an administrator's call changes anything here; what
//! is stored goes to another node of the cluster only. Must not: know a log; the [`Cluster`] behind it does.

pub(super) mod hail;
pub(super) mod nodes;
mod own;
mod pass;
pub(super) mod passed;
mod secret;
mod snapshot;
mod standby;
pub(super) mod successor;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Method, Request, StatusCode};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::Shared;
use super::entrance::Ends;
use super::entrance::door;
use super::http::respond::{Answer, empty, full, no_page, not_allowed, say};
use tideline_model::access::{Claim, Right, Who};
use tideline_wire::{Failure, Reason};

pub use nodes::{Nodes, Place};
pub use own::AccessNow;
pub use secret::NodeSecret;
pub use snapshot::NotGiven;
pub use standby::Standby;

/// Where all of it is.
pub(super) const PATH: &str = "/v1/cluster";

/// Whether a request's path is one of them.
pub(super) fn is_for(path: &str) -> bool {
    let rest = path.strip_prefix(PATH);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// The cluster's name.
    pub cluster: String,
    /// The node's.
    pub node: String,
    /// The version of its program.
    pub version: String,
    /// What it is now.
    pub role: NodeRole,
    /// Why it is that, if it is `joining` or `stopped`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The node that owns the log, as far as this one knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Where clients reach that node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_url: Option<String>,
    /// The term.
    pub term: u64,
    /// The last frame that it has applied.
    pub applied: u64,
    /// The last frame that it knows to be in the log.
    pub known: u64,
    /// Since when it is what it is, ms since 1970.
    #[serde(default)]
    pub since_ms: u64,
    /// For how long nobody has heard the owner, as far as this node can tell, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_ms: Option<u64>,
    /// How many other standbys have their turn before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u64>,
    /// Why it would not own the log by itself if the owner was gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unready: Option<String>,
    /// Why it can't be relied on at the moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
    /// Something that a person should know, and that stops nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Of the settings that all nodes must have alike.
    pub digests: BTreeMap<String, String>,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeRole {
    /// It looks for the log, or reads what it has missed for the first time.
    Joining,
    /// It applies what another one writes.
    Follower,
    /// It writes.
    Owner,
    /// It has stopped for good.
    Stopped,
}

impl NodeRole {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            NodeRole::Joining => "joining",
            NodeRole::Follower => "follower",
            NodeRole::Owner => "owner",
            NodeRole::Stopped => "stopped",
        }
    }
}

impl NodeStatus {
    /// Why calls are not served here, in a line.
    #[must_use]
    pub fn why_not(&self) -> String {
        let NodeStatus {
            node, owner, role, ..
        } = self;
        let reason = self.reason.as_deref().unwrap_or("it reads the log");
        let owner = match (owner, &self.owner_url) {
            (Some(owner), _) if owner == node => {
                format!("it was the last owner, and owns no more: {TAKE_OVER}")
            }
            (Some(owner), Some(url)) => format!("the owner is {owner}, at {url}"),
            (Some(owner), None) => format!("the owner is {owner}"),
            (None, _) => format!("nobody owns the log: {TAKE_OVER}"),
        };
        match role {
            NodeRole::Owner => "becoming the owner".to_owned(),
            NodeRole::Follower => format!("node {node} follows; {owner}"),
            NodeRole::Joining => format!("node {node} joins: {reason}; {owner}"),
            NodeRole::Stopped => {
                format!("node {node} has stopped: {reason}; restart it when that is mended")
            }
        }
    }

    /// The refusal of a call that needs the owner.
    pub(super) fn refusal(&self) -> Failure {
        let is_elsewhere = self.owner.as_ref() != Some(&self.node);
        let owner = self.owner_url.clone().filter(|_| is_elsewhere);
        let failure = Failure::new(Reason::Unavailable).saying(self.why_not());
        failure.retry_after(RETRY_MS).owned_by(owner)
    }
}

const TAKE_OVER: &str = "a standby takes over, or `tideline cluster take-over` makes a node own it";
/// A client asks again so much later.
const RETRY_MS: u32 = 1_000;

/// A node's part in the log, as HTTP needs it. Neither call waits for the log.
pub trait Cluster: fmt::Debug + Send + Sync + 'static {
    /// How it is.
    fn status(&self) -> NodeStatus;
    /// Has it claim the log once it has applied all of it.
    fn take_over(&self);
    /// Has it hand the log over, to a node if one is named. `Err`: it does not own it, or there is no such node.
    fn resign(&self, to: Option<String>) -> Result<(), String>;
    /// Has it own the log only if it is told to, and hand it over; or ends that.
    fn drain(&self, is_drained: bool);
    /// Begins to give a snapshot to whoever shows this, piece by piece; `of_follower`: not while it owns the log.
    fn snapshot(&self, shown: &str, of_follower: bool) -> Result<mpsc::Receiver<Bytes>, NotGiven>;
}

/// What is asked.
enum Asked {
    Status,
    TakeOver,
    Resign(Option<String>),
    Drain(bool),
    /// Of a node that follows, or of any.
    Snapshot(bool),
}

impl Asked {
    fn of(request: &Request<Incoming>) -> Result<Asked, Answer> {
        let uri = request.uri();
        let (wanted, asked) = match uri.path().strip_prefix(PATH) {
            Some("") => (Method::GET, Asked::Status),
            Some("/take-over") => (Method::POST, Asked::TakeOver),
            Some("/drain") => (Method::POST, Asked::Drain(true)),
            Some("/undrain") => (Method::POST, Asked::Drain(false)),
            Some("/resign") => {
                let to = match uri.query() {
                    None => None,
                    Some(query) => Some(query.strip_prefix("to=").ok_or_else(no_parameter)?),
                };
                (Method::POST, Asked::Resign(to.map(str::to_owned)))
            }
            Some("/snapshot") => match uri.query() {
                None => (Method::GET, Asked::Snapshot(false)),
                Some("of=follower") => (Method::GET, Asked::Snapshot(true)),
                Some(_) => return Err(say(StatusCode::BAD_REQUEST, "the only one is of=follower")),
            },
            _ => return Err(no_page()),
        };
        match *request.method() == wanted {
            true => Ok(asked),
            false if wanted == Method::GET => Err(not_allowed("GET")),
            false => Err(not_allowed("POST")),
        }
    }

    fn needs(&self) -> Right {
        match self {
            Asked::Status => Right::Observe,
            Asked::TakeOver | Asked::Resign(_) | Asked::Drain(_) | Asked::Snapshot(_) => {
                Right::Admin
            }
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Asked::Status => "cluster.status",
            Asked::TakeOver => "cluster.take-over",
            Asked::Resign(_) => "cluster.resign",
            Asked::Drain(true) => "cluster.drain",
            Asked::Drain(false) => "cluster.undrain",
            Asked::Snapshot(_) => "cluster.snapshot",
        }
    }

    /// A snapshot, if one is asked for: nodes have no key, but a secret of their own.
    fn given(&self, headers: &HeaderMap, cluster: &dyn Cluster) -> Option<Answer> {
        let Asked::Snapshot(of_follower) = *self else {
            return None;
        };
        Some(
            match cluster.snapshot(snapshot::shown(headers), of_follower) {
                Ok(pieces) => snapshot::answer(pieces),
                Err(NotGiven::Stranger) => {
                    say(StatusCode::FORBIDDEN, "a snapshot is for nodes only")
                }
                Err(NotGiven::Refused(why)) => say(StatusCode::CONFLICT, &why),
            },
        )
    }

    /// Does it for a caller that may.
    fn perform(self, cluster: &dyn Cluster) -> Answer {
        let done = match self {
            Asked::Status => {
                // All of it is text and numbers.
                let body = serde_json::to_vec(&cluster.status()).unwrap_or_default();
                return full(StatusCode::OK, "application/json", body);
            }
            Asked::TakeOver => {
                cluster.take_over();
                Ok(())
            }
            Asked::Resign(to) => cluster.resign(to),
            Asked::Drain(is_drained) => {
                cluster.drain(is_drained);
                Ok(())
            }
            // It was given before.
            Asked::Snapshot(_) => Ok(()),
        };
        match done {
            Ok(()) => empty(StatusCode::NO_CONTENT),
            Err(why) => say(StatusCode::CONFLICT, &why),
        }
    }
}

fn no_parameter() -> Answer {
    say(StatusCode::BAD_REQUEST, "the only parameter is to")
}

/// Refuses a caller without the right, and notes who has changed something.
fn permit(claim: Option<&Arc<Claim>>, asked: &Asked) -> Result<(), Failure> {
    let Some(claim) = claim else {
        return Err(Reason::Forbidden.into());
    };
    let may = claim.everywhere().has(asked.needs());
    if asked.needs() == Right::Admin {
        let (who, method) = (&claim.identity().who, asked.name());
        let (user, key) = match who {
            Who::User(user) => (Some(&**user), None),
            Who::Key { id, .. } => (None, Some(&**id)),
            Who::Anybody => (None, None),
        };
        let outcome = if may { "ok" } else { Reason::Forbidden.name() };
        tracing::info!(target: "audit", method, user, key, outcome);
    }
    match may {
        true => Ok(()),
        false => Err(Reason::Forbidden.into()),
    }
}

/// Answers what is asked of the owner.
pub(super) async fn serve(
    request: &Request<Incoming>,
    ends: &Ends,
    shared: &Arc<Shared>,
) -> Answer {
    let Some(cluster) = &shared.options.cluster else {
        return say(StatusCode::NOT_FOUND, "this server is in no cluster");
    };
    let asked = match Asked::of(request) {
        Ok(asked) => asked,
        Err(answer) => return answer,
    };
    if let Some(given) = asked.given(request.headers(), &**cluster) {
        return given;
    }
    if let Some(door) = &shared.door {
        let visitor = ends.visitor(request.headers(), shared);
        let admitted = door.admit(request.headers(), visitor).await;
        let claimed = admitted.map(|credential| door.claim_of_request(&credential));
        let permitted = claimed.and_then(|claim| permit(Some(&claim), &asked));
        if let Err(failure) = permitted {
            return door::refusal(&failure);
        }
    }
    asked.perform(&**cluster)
}
