//! What of the logs is kept for search indexes.
//!
//! Owns: the hold that follows from what their followers say. Promises: while an index has not said its place, all logs
//! are kept that were; without search indexes none is. Must not: make an index anew; its follower does, when its log is
//! gone.

use std::collections::BTreeMap;

use tideline_base::ids::{PartitionId, Position, TableId};
use tideline_model::Error;
use tideline_store::partition::{Holder, Map};

use crate::stream::{bytes_above, within};
use crate::tables::Tables;

/// What an index still reads; `None` = nobody knows, so all.
struct Need(Option<BTreeMap<PartitionId, Position>>);

impl Need {
    /// The place of an index, and all that has begun behind the partitions that it names: it comes to these later.
    fn of(place: Option<&BTreeMap<PartitionId, Position>>, map: &Map) -> Need {
        let mut named = place.cloned();
        if let Some(named) = &mut named {
            // Those that begin later have higher numbers.
            for share in map.shares() {
                if share
                    .parents
                    .iter()
                    .any(|parent| named.contains_key(parent))
                {
                    named.entry(share.id).or_insert(Position::ZERO);
                }
            }
        }
        Need(named)
    }

    fn behind(&self, partition: PartitionId) -> Option<Position> {
        match &self.0 {
            None => Some(Position::ZERO),
            Some(named) => named.get(&partition).copied(),
        }
    }
}

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
        let map = self.partitions().map();
        let places = self.search_needs().lock();
        let needs: Vec<_> = indexes
            .iter()
            .map(|index| Need::of(places.get(index), &map))
            .collect();
        let held = self.partitions().ids().map(|partition| {
            let above = needs.iter().filter_map(|need| need.behind(partition)).min();
            let tail = self.partitions().tail(partition);
            let pieces = tail.pieces();
            (tail, pieces, above)
        });
        let held: Vec<_> = held.collect();
        let of_one = |(_, pieces, above): &(_, Vec<_>, Option<Position>)| {
            above.map_or(0, |above| bytes_above(pieces, above))
        };
        let is_over = held.iter().map(of_one).sum::<u64>() > log_bytes_max;
        for (tail, pieces, above) in held {
            let lowest = if is_over {
                within(&pieces, share)
            } else {
                Position::ZERO
            };
            tail.hold(Holder::Search, above.map(|above| above.max(lowest)));
        }
        Ok(())
    }

    /// Of the partitions that have ended, those whose logs an index still reads.
    pub(crate) async fn search_reads(&self) -> Result<impl Fn(PartitionId) -> bool, Error> {
        let indexes = self.search_ids().await?;
        let map = self.partitions().map();
        let places = self.search_needs().lock();
        let needs = indexes
            .iter()
            .map(|index| Need::of(places.get(index), &map));
        let needs: Vec<_> = needs.collect();
        Ok(move |partition| needs.iter().any(|need| need.behind(partition).is_some()))
    }

    async fn search_ids(&self) -> Result<Vec<TableId>, Error> {
        let tables = self.searched().await?;
        let indexes = tables.iter().flat_map(|table| &table.search_indexes);
        Ok(indexes.map(|index| index.id).collect())
    }
}

#[cfg(test)]
mod tests {
    use tideline_store::partition::Share;

    use super::*;

    #[test]
    fn an_index_needs_the_logs_that_begin_behind_those_it_reads() {
        // 0 was split into 1 and 2; 1 into 3 and 4; 5 was there from the start.
        let half = u64::MAX / 2;
        let share = |id, (first, last): (u64, u64), parents: &[u16], ends| Share {
            id: PartitionId(id),
            first,
            last,
            parents: parents.iter().map(|id| PartitionId(*id)).collect(),
            begins: Position(10 * u64::from(id) + 1),
            ends,
            keeps_log: true,
        };
        let quarter = half / 2;
        let map = Map::of(vec![
            share(0, (0, half), &[], Some(Position(10))),
            share(1, (0, quarter), &[0], Some(Position(20))),
            share(2, (quarter + 1, half), &[0], None),
            share(3, (0, 7), &[1], None),
            share(4, (8, quarter), &[1], None),
            share(5, (half + 1, u64::MAX), &[], None),
        ]);
        let map = map.unwrap();
        let place = |ids: &[u16]| {
            ids.iter()
                .map(|id| (PartitionId(*id), Position(9)))
                .collect()
        };
        let needs = |ids: &[u16]| {
            let need = Need::of(Some(&place(ids)), &map);
            (0..6)
                .map(|id| need.behind(PartitionId(id)).map(|at| at.0))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            needs(&[0]),
            [Some(9), Some(0), Some(0), Some(0), Some(0), None]
        );
        assert_eq!(
            needs(&[1, 5]),
            [None, Some(9), None, Some(0), Some(0), Some(9)]
        );
        assert_eq!(needs(&[2, 3]), [None, None, Some(9), Some(9), None, None]);
        // The control: of one that nobody knows, all.
        assert_eq!(
            Need::of(None, &map).behind(PartitionId(5)),
            Some(Position::ZERO)
        );
    }
}
