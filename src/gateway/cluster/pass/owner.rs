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
            role,
            owner,
            term,
            reason,
            ..
        } = status;
        let is_me = owner.as_ref() == Some(&nodes.me);
        let place = owner.as_ref().and_then(|owner| nodes.places.get(owner));
        match (role, place) {
            (NodeRole::Stopped, _) => Owner::Unknown,
            // It has no log yet. One that has, and was the owner a moment ago, reads whose it is now.
            (NodeRole::Joining, None) if reason.is_some() => Owner::Unknown,
            // It was the last owner, and owns no more.
            (NodeRole::Joining | NodeRole::Follower, Some(_)) if is_me => Owner::Awaited,
            (_, Some(place)) => Owner::At(*term, Arc::clone(place)),
            (_, None) => Owner::Awaited,
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

#[cfg(test)]
mod tests {
    use rustls::{ClientConfig, RootCertStore};
    use serde_json::json;

    use super::*;
    use crate::NodeSecret;

    #[test]
    fn a_node_that_has_the_log_waits_for_an_owner() {
        let place = Place {
            host: "n1".to_owned(),
            port: 1,
            authority: "n1:1".to_owned(),
            is_secure: false,
        };
        let places = ["n1", "n2"].map(|name| (name.to_owned(), place.clone()));
        let tls = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
        let (tls, secret) = (tls.with_no_client_auth(), NodeSecret::new("c", "p"));
        let nodes = Nodes::new("n2".to_owned(), places.into(), tls, secret);
        let seen = |role: &str, owner: Option<&str>, reason: Option<&str>| {
            let status = json!({
                "cluster": "c", "node": "n2", "version": "", "term": 3, "applied": 0, "known": 0, "digests": {},
                "role": role, "owner": owner, "reason": reason,
            });
            Owner::of(&serde_json::from_value(status).unwrap(), &nodes)
        };
        for role in ["joining", "follower", "owner"] {
            assert_eq!(seen(role, None, None), Owner::Awaited, "{role}");
            let at = Owner::At(3, Arc::new(place.clone()));
            assert_eq!(seen(role, Some("n1"), None), at, "{role}");
        }
        for role in ["joining", "follower"] {
            assert_eq!(seen(role, Some("n2"), None), Owner::Awaited, "{role}");
        }
        assert!(matches!(seen("owner", Some("n2"), None), Owner::At(3, _)));
        assert_eq!(seen("joining", None, Some("a snapshot")), Owner::Unknown);
        assert_eq!(seen("stopped", Some("n1"), Some("x")), Owner::Unknown);
    }
}
