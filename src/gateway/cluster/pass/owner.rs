//! The node to which calls go now.
//!
//! Owns: what is known of it. Promises: a change is seen within [`LOOK_EVERY`]. Must not: guess who lives: the log says
//! who owns it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use super::super::nodes::{Nodes, Place};
use super::super::{Cluster, NodeRole, NodeStatus};

/// See the file's opening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Nobody owns the log at the moment; somebody will soon.
    Awaited,
    /// This node knows of none.
    Unknown,
    /// It owns the log of this term.
    At(u64, Arc<Place>),
}

impl Owner {
    fn of(status: &NodeStatus, nodes: &Nodes) -> Owner {
        let NodeStatus {
            role, owner, term, ..
        } = status;
        let is_me = owner.as_ref() == Some(&nodes.me);
        let place = owner.as_ref().and_then(|owner| nodes.places.get(owner));
        match (role, place) {
            (NodeRole::Stopped, _) | (NodeRole::Joining, None) => Owner::Unknown,
            // It was the last owner, and owns no more.
            (NodeRole::Joining | NodeRole::Follower, Some(_)) if is_me => Owner::Awaited,
            (_, Some(place)) => Owner::At(*term, Arc::clone(place)),
            (NodeRole::Follower | NodeRole::Owner, None) => Owner::Awaited,
        }
    }
}

/// Follows what a node says of itself, for as long as somebody wants to know.
pub(super) fn follow(
    cluster: Arc<dyn Cluster>,
    nodes: Arc<Nodes>,
    tasks: &TaskTracker,
) -> watch::Receiver<Owner> {
    let (now, receiver) = watch::channel(Owner::of(&cluster.status(), &nodes));
    tasks.spawn(async move {
        loop {
            tokio::select! {
                () = now.closed() => return,
                () = sleep(LOOK_EVERY) => {}
            }
            let owner = Owner::of(&cluster.status(), &nodes);
            now.send_if_modified(|now| {
                let is_other = *now != owner;
                *now = owner;
                is_other
            });
        }
    });
    receiver
}

/// Resolves a moment after the log has another owner than the one of this term: time for what that one still says.
pub(super) async fn deposed(mut owner: watch::Receiver<Owner>, term: u64) {
    let is_other = |owner: &Owner| match owner {
        Owner::At(now, _) => *now != term,
        Owner::Awaited | Owner::Unknown => false,
    };
    if owner.wait_for(is_other).await.is_err() {
        // Nobody looks any more.
        return std::future::pending().await;
    }
    sleep(LAST_WORDS).await;
}

const LOOK_EVERY: Duration = Duration::from_millis(25);
/// An owner that has handed the log over answers what it has begun, and ends its connections.
const LAST_WORDS: Duration = Duration::from_secs(2);
