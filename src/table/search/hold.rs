//! What of the logs is kept for search indexes.
//!
//! Owns: the hold that follows from what their followers say. Promises: while an index has not said its place, all logs
//! are kept that were; without search indexes none is. Must not: make an index anew; its follower does, when its log is
//! gone.

use std::collections::BTreeMap;

use tideline_base::ids::{PartitionId, Position, TableId};
use tideline_model::Error;
use tideline_store::partition::Holder;

use crate::stream::within;
use crate::tables::Tables;

impl Tables {
    /// Says what an index needs of the logs; `None` = nothing any more, or it begins anew.
    pub fn set_search_place(&self, index: TableId, place: Option<BTreeMap<PartitionId, Position>>) {
        let mut places = self.search_needs().lock();
        match place {
            Some(place) => places.insert(index, place),
            None => places.remove(&index),
        };
    }

    /// Holds the logs of the partitions that there are as the indexes need it, all together about `log_bytes_max` at
    /// most. An index that would need more is made anew.
    pub async fn hold_for_search(&self, log_bytes_max: u64) -> Result<(), Error> {
        let indexes = self.search_ids().await?;
        let share = log_bytes_max / self.partitions().ids().count().max(1) as u64;
        let places = self.search_needs().lock();
        for partition in self.partitions().ids() {
            let behind = |index: &TableId| match places.get(index) {
                None => Some(Position::ZERO),
                Some(place) => place.get(&partition).copied(),
            };
            let above = indexes.iter().filter_map(behind).min();
            let tail = self.partitions().tail(partition);
            let above = above.map(|above| above.max(within(&tail.pieces(), share)));
            tail.hold(Holder::Search, above);
        }
        Ok(())
    }

    /// Of the partitions that have ended, those whose logs an index still reads.
    pub(crate) async fn search_reads(&self) -> Result<impl Fn(PartitionId) -> bool, Error> {
        let indexes = self.search_ids().await?;
        let places = self.search_needs().lock().clone();
        Ok(move |partition| {
            let mut of_indexes = indexes.iter().map(|index| places.get(index));
            of_indexes.any(|place| place.is_none_or(|place| place.contains_key(&partition)))
        })
    }

    async fn search_ids(&self) -> Result<Vec<TableId>, Error> {
        let tables = self.searched().await?;
        let indexes = tables.iter().flat_map(|table| &table.search_indexes);
        Ok(indexes.map(|index| index.id).collect())
    }
}
