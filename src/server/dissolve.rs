//! The end of a cluster: its log is closed for good, and a node's directory is served alone from then on.
//!
//! Owns: the order of the steps. Promises: the directory leaves when it has all of the log and nobody can write to that
//! any more; the same call goes on with what was interrupted. Must not: serve.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::membership::{Begins, Membership};
use super::snapshot;
use crate::clock::Clock;
use crate::config::{ClusterKey, Config};
use crate::faults;
use crate::gateway::Cluster as _;
use crate::metrics::Metrics;
use crate::partition::{Belongs, OpenError, Partitions, Role, belongs, leave};
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
    let wanted = snapshot::wanted(key, &config.data).await;
    if wanted.map_err(|error| error.to_string())?.is_some() {
        return Err(format!(
            "{shown} lacks what has gone from the stream: name another node's directory, or start its node beside \
             another one, for a snapshot"
        ));
    }
    let (metrics, clock) = (Arc::new(Metrics::default()), Arc::new(Clock::system()));
    // It claims only because it is told to.
    let begins = Begins::Deposed { is_drained: true };
    let by = (&Arc::default(), &metrics, &clock);
    let begun = Membership::begin(key, config, by, begins, &CancellationToken::new()).await;
    let (membership, opened) = begun.map_err(|error| error.to_string())?;
    faults::reached("dissolve_step");
    let closed = close_log(&membership, &opened.partitions).await;
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

/// Closes the log for good: this node has all of it, owns it, and writes the last frame, unless that is there.
/// Before, the directory notes that it is the one that leaves.
async fn close_log(member: &Membership, partitions: &Partitions) -> Result<(), String> {
    let mut role = member.role();
    let (mut at, mut since) = (0, Instant::now());
    // The term in which this node has asked for the log.
    let (mut asked, mut is_ending) = (None, false);
    loop {
        let now = role.borrow_and_update().clone();
        let known = member.status().known;
        match now {
            Role::Ended => return Ok(()),
            Role::Stopped(why) => return Err(why),
            Role::Follows { term, .. } if asked.is_none() && member.has_all() => {
                asked = Some(term);
                member.take_over();
            }
            Role::Follows {
                owner: Some(owner),
                term,
            } if owner != member.status().node && asked.is_some_and(|asked| term > asked) => {
                return Err(format!(
                    "{owner} has claimed the log meanwhile: stop that node"
                ));
            }
            Role::Owns { .. } if faults::is_named("dissolve_quietly") => return Ok(()),
            Role::Owns { term } if !is_ending => {
                let noted = partitions.leaves_in(term);
                noted.map_err(|error| error.to_string())?;
                is_ending = true;
                member.end_log();
            }
            Role::Owns { .. } | Role::Follows { .. } => {}
        }
        // Much of it may have to be read.
        if member.applied() > at {
            (at, since) = (member.applied(), Instant::now());
        }
        if since.elapsed() > CLOSES {
            return Err(format!(
                "the log does not answer; what is here ends at {at}, and {known} is known to be in it"
            ));
        }
        let _ = timeout(LOOK_EVERY, role.changed()).await;
    }
}

/// A log that does not go on for so long is not closed.
const CLOSES: Duration = Duration::from_secs(60);
const LETS_GO: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);
