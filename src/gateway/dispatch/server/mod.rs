//! Calls on the server itself: backups, sessions, keys, partitions, webhooks, the log, and in this file status, history
//! and signs of life.
//!
//! Owns: the way from each decoded call to the layer that does it. Promises: status and history say nothing of what
//! clients have stored. Must not: look at a figure; the server's health does.

pub(super) mod backup;
pub(super) mod key;
pub(super) mod log;
pub(super) mod partition;
pub(super) mod seen;
pub(in super::super) mod session;
pub(super) mod webhook;

use std::sync::Arc;

use super::super::cluster::Cluster;
use super::{Caller, Shared, Work};
use crate::health::{Past, STEP_MS};
use tideline_base::faults;
use tideline_wire::server::session::Pong;
use tideline_wire::{Reply, server};

pub(super) fn pong(shared: &Shared) -> Reply {
    assert!(!faults::is_named("panic_at_ping"), "panic_at_ping");
    let time = shared.clock.now_ms();
    Reply::Ping(Pong { time })
}

pub(super) fn status(shared: &Arc<Shared>, caller: &Caller) -> Work {
    let shared = Arc::clone(shared);
    let you = you(caller);
    Work::Read(Box::pin(async move {
        let look = shared.health.now().await;
        let readiness = shared.pages.readiness(shared.timelines.can_commit());
        Ok(Reply::ServerStatus(Box::new(server::StatusNow {
            name: machine(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: shared.health.started_at(),
            listen: shared.address.to_string(),
            auth: shared.door.is_some(),
            ready: readiness.is_ok(),
            reason: readiness.err().map(str::to_owned),
            you,
            notices: look.notices.clone(),
            storage: look.storage,
            cluster: shared.options.cluster.as_deref().map(cluster),
        })))
    }))
}

fn cluster(cluster: &dyn Cluster) -> server::ClusterNow {
    let status = cluster.status();
    server::ClusterNow {
        name: status.cluster,
        node: status.node,
        owner: status.owner,
        term: status.term,
        lag: status.known - status.applied,
    }
}

pub(super) fn history(shared: &Arc<Shared>, request: &server::History) -> Work {
    let past = shared.health.past(request.since.unwrap_or(0));
    let Past {
        from,
        series,
        bounds,
        appends,
    } = past;
    let series = series
        .into_iter()
        .map(|(name, values)| (name.to_owned(), values));
    let counts = appends.into_iter().map(|counts| counts.map(Vec::from));
    Work::Now(Ok(Reply::ServerHistory(server::Past {
        step_ms: STEP_MS,
        from,
        series: series.collect(),
        append_seconds: server::Buckets {
            bounds,
            counts: counts.collect(),
        },
    })))
}

fn machine() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

fn you(caller: &Caller) -> server::You {
    let claim = caller.asker.claim();
    server::You {
        user: caller.user().ok(),
        key: claim.and_then(|claim| claim.identity().key_name().map(str::to_owned)),
        rights: claim.map(|claim| claim.grants()),
    }
}
