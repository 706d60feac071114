//! The end of a cluster: its log is closed for good, and a node's directory is served alone from then on.
//!
//! Owns: the order of the steps. Promises: the directory leaves when it has all of the log and nobody can write to that
//! any more; what was interrupted is gone on with by the same call. Must not: serve.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::membership::Membership;
use crate::clock::Clock;
use crate::config::{ClusterKey, Config};
use crate::faults;
use crate::metrics::Metrics;
use crate::partition::{Belongs, OpenError, belongs, leave};
use crate::people::People;
use crate::table::Catalog;

/// Ends the cluster, so that the data directory of `config` is served alone. What is refused is one sentence.
/// `is_forced`: also where the cluster has ended already, by another directory.
pub async fn dissolve(key: &ClusterKey, config: &Config, is_forced: bool) -> Result<(), String> {
    let shown = config.data.display();
    let rules = People::rules(&config.timeline_limits(), Catalog::default());
    match belongs(&config.data, &rules).map_err(|error| error.to_string())? {
        Belongs::Dissolved => return Ok(()),
        Belongs::Nobody => {
            return Err(format!("{shown} belongs to no cluster: it is served alone"));
        }
        Belongs::Cluster(name) if name != key.name => {
            return Err(format!(
                "{shown} is a part of cluster {name}, not of {}",
                key.name
            ));
        }
        Belongs::Cluster(_) => {}
    }
    let (metrics, clock) = (Arc::new(Metrics::default()), Arc::new(Clock::system()));
    let begun = Membership::begin(key, config, (&Arc::default(), &metrics, &clock), false).await;
    let (membership, opened) = begun.map_err(|error| error.to_string())?;
    faults::reached("dissolve_step");
    let (partitions, text) = (&opened.partitions, |error: OpenError| error.to_string());
    let leaves = |term| partitions.leaves_in(term).map_err(text);
    let closed = membership.close_log(&leaves).await;
    faults::reached("dissolve_step");
    opened.partitions.close().await;
    membership.end().await;
    drop((opened, membership));
    closed?;
    let until = Instant::now() + LETS_GO;
    loop {
        match leave(&config.data, is_forced) {
            // What was stopped lets go of the directory soon.
            Err(OpenError::InUse { .. }) if Instant::now() < until => sleep(LOOK_EVERY).await,
            left => return left.map_err(|error| error.to_string()),
        }
    }
}

const LETS_GO: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);
