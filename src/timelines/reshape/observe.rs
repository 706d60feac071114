//! The partitions as operators are shown them.
//!
//! Owns: what is put together about each. Promises: parents come before children. Must not: change anything.

use std::sync::Arc;

use super::{Inner, Reshaper, blocking};
use tideline_base::ids::{PartitionId, Position};
use tideline_store::partition::{Doing, Share};

/// A partition as operators are shown it.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Its number.
    pub id: PartitionId,
    /// The lowest and the highest hash that it owns, or owned.
    pub hashes: (u64, u64),
    /// Whose keys it took over.
    pub parents: Vec<PartitionId>,
    /// The first position of its log.
    pub begins: Position,
    /// The last one, if it has ended.
    pub ends: Option<Position>,
    /// What its rows take; 0 if it has ended.
    pub bytes: u64,
    /// What its log takes.
    pub log_bytes: u64,
    /// What it does; `None` = it has ended.
    pub live: Option<Live>,
}

/// What a partition that is served does.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// By itself.
    pub doing: Doing,
    /// How late its pushes are, ms.
    pub feed_lag_ms: u64,
    /// How late what is derived from its changes is, ms, and how many bytes are left to do.
    pub relay_lag: (u64, u64),
    /// Messages that are not in the inboxes of all their users yet.
    pub jobs: u64,
}

impl Reshaper {
    /// All live partitions, and the ended ones whose logs are kept; parents before children.
    pub async fn list(&self) -> Vec<Shown> {
        let inner = Arc::clone(&self.inner);
        blocking(move || {
            let partitions = &inner.partitions;
            let map = partitions.map();
            let is_kept = |share: &&Share| share.ends.is_none() || share.keeps_log;
            let show = |share: &Share| Shown {
                id: share.id,
                hashes: (share.first, share.last),
                parents: share.parents.clone(),
                begins: share.begins,
                ends: share.ends,
                bytes: match share.ends {
                    None => partitions.bytes_of(share.id),
                    Some(_) => 0,
                },
                log_bytes: partitions.log_bytes(share.id),
                live: share.ends.map_or_else(|| inner.live(share.id), |_| None),
            };
            map.shares().filter(is_kept).map(show).collect()
        })
        .await
    }
}

impl Inner {
    fn live(&self, id: PartitionId) -> Option<Live> {
        Some(Live {
            doing: self.partitions.doing(id)?,
            feed_lag_ms: self.feed.lag_ms(id),
            relay_lag: self.relay.lag(id, self.clock.now_ms()),
            jobs: self.jobs.count(id),
        })
    }
}
