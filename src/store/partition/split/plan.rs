//! Which partitions end and which begin in a split or merge.
//!
//! Owns: the step from one map to the next. Promises: a partition whose range stays goes on as it is; a child has a
//! new number, a log behind those of its parents, and two parents at most. Must not: touch a disk.

use super::super::directory::map::{Map, Share, equal_ranges};
use tideline_base::ids::{PartitionId, Position};

/// A change of the partitions of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reshape {
    /// The ranges that are to be there, which tile all hashes.
    ranges: Vec<(u64, u64)>,
}

/// What a reshape does to a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Outcome {
    /// The map behind it.
    pub(in super::super) map: Map,
    /// Those that end.
    pub(in super::super) parents: Vec<PartitionId>,
    /// Those that begin.
    pub(in super::super) children: Vec<PartitionId>,
}

impl Reshape {
    /// So many partitions with equal ranges.
    #[must_use]
    pub fn equal(partitions: u16) -> Reshape {
        Reshape {
            ranges: equal_ranges(partitions.max(1)).collect(),
        }
    }

    /// One partition becomes two halves; `None` = there is no such one, or it owns a single hash.
    #[must_use]
    pub fn split(map: &Map, id: PartitionId) -> Option<Reshape> {
        let share = map.share(id).filter(|_| map.is_live(id))?;
        let (first, last) = (share.first, share.last);
        let middle = first + (last - first) / 2;
        let mut ranges = ranges_of(map);
        let at = ranges.iter().position(|range| *range == (first, last))?;
        ranges.splice(at..=at, [(first, middle), (middle + 1, last)]);
        (first < last).then_some(Reshape { ranges })
    }

    /// Two neighbours become one; `None` = they are none.
    #[must_use]
    pub fn merge(map: &Map, one: PartitionId, other: PartitionId) -> Option<Reshape> {
        let ids: Vec<PartitionId> = map.ids().collect();
        let at = ids
            .windows(2)
            .position(|two| *two == [one, other] || *two == [other, one])?;
        let mut ranges = ranges_of(map);
        let merged = (ranges[at].0, ranges[at + 1].1);
        ranges.splice(at..at + 2, [merged]);
        Some(Reshape { ranges })
    }

    /// The partitions of a map that end by it.
    #[must_use]
    pub fn parents(&self, map: &Map) -> Vec<PartitionId> {
        let stays = |id: &PartitionId| self.ranges.contains(&range_of(map, *id));
        map.ids().filter(|id| !stays(id)).collect()
    }

    /// The map of afterwards, if the parents' logs end at these positions and the children's begin above `above`. `Err`
    /// says why there is none.
    pub(in super::super) fn outcome(
        &self,
        map: &Map,
        ends: &impl Fn(PartitionId) -> Position,
        above: Position,
        keeps_logs: bool,
    ) -> Result<Outcome, String> {
        let parents = self.parents(map);
        let mut shares: Vec<Share> = map.shares().cloned().collect();
        for share in shares
            .iter_mut()
            .filter(|share| parents.contains(&share.id))
        {
            (share.ends, share.keeps_log) = (Some(ends(share.id)), keeps_logs);
        }
        let stay = ranges_of(map);
        let mut children = Vec::new();
        for (first, last) in self.ranges.iter().filter(|range| !stay.contains(range)) {
            let overlaps = |share: &&Share| share.first <= *last && share.last >= *first;
            let own = shares.iter().filter(|share| parents.contains(&share.id));
            let mut own: Vec<(PartitionId, Option<Position>)> = own
                .filter(overlaps)
                .map(|share| (share.id, share.ends))
                .collect();
            loop {
                let now = own.split_off(own.len().saturating_sub(2));
                let ends = now.iter().filter_map(|(_, ends)| *ends).max();
                let ends = ends.unwrap_or_default();
                let id = next_number(&shares)?;
                let is_last = own.is_empty();
                shares.push(Share {
                    id,
                    first: *first,
                    last: *last,
                    parents: now.iter().map(|(id, _)| *id).collect(),
                    begins: ends.max(above).next(),
                    // One in between, for readers of logs: it has nothing and has ended already.
                    ends: (!is_last).then_some(ends),
                    keeps_log: false,
                });
                if is_last {
                    children.push(id);
                    break;
                }
                own.push((id, Some(ends)));
            }
        }
        Ok(Outcome {
            map: Map::of(shares)?,
            parents,
            children,
        })
    }
}

fn next_number(shares: &[Share]) -> Result<PartitionId, String> {
    let last = shares.iter().map(|share| share.id.0).max();
    let next = last.map_or(Some(0), |last| last.checked_add(1));
    next.map(PartitionId)
        .ok_or_else(|| "all 65,536 numbers of partitions were used".to_owned())
}

fn range_of(map: &Map, id: PartitionId) -> (u64, u64) {
    map.share(id)
        .map_or((0, u64::MAX), |share| (share.first, share.last))
}

fn ranges_of(map: &Map) -> Vec<(u64, u64)> {
    map.ids().map(|id| range_of(map, id)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Equal(u16),
        Split(usize),
        Merge(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (1u16..7).prop_map(Step::Equal),
            (0usize..9).prop_map(Step::Split),
            (0usize..9).prop_map(Step::Merge),
        ];
        proptest::collection::vec(step, 1..12)
    }

    proptest! {
        #[test]
        fn each_hash_has_an_owner_with_rising_positions(
            roots in 1u16..5,
            steps in steps(),
            hashes in proptest::collection::vec(any::<u64>(), 1..20),
            written in any::<u64>(),
        ) {
            let mut map = Map::new(roots);
            let mut tail = std::collections::BTreeMap::new();
            for (turn, step) in steps.into_iter().enumerate() {
                let ids: Vec<_> = map.ids().collect();
                let reshape = match step {
                    Step::Equal(count) => Some(Reshape::equal(count)),
                    Step::Split(at) => Reshape::split(&map, ids[at % ids.len()]),
                    Step::Merge(at) if ids.len() > 1 => {
                        let at = at % (ids.len() - 1);
                        Reshape::merge(&map, ids[at + 1], ids[at])
                    }
                    Step::Merge(_) => None,
                };
                let Some(reshape) = reshape else { continue };
                // What each live partition wrote meanwhile.
                for id in &ids {
                    let begins = map.share(*id).unwrap().begins.0;
                    let more = (written >> (u64::from(id.0) % 60)) % 5 + turn as u64 % 2;
                    tail.insert(*id, Position(begins - 1 + more));
                }
                let outcome = reshape.outcome(&map, &|id| tail[&id], Position::ZERO, true).unwrap();
                let before = std::mem::replace(&mut map, outcome.map);
                for hash in &hashes {
                    let (old, new) = (before.owner(*hash), map.owner(*hash));
                    prop_assert!(map.share(new).unwrap().owns(*hash));
                    if outcome.parents.contains(&old) {
                        prop_assert!(outcome.children.contains(&new));
                        prop_assert!(map.share(new).unwrap().begins > tail[&old]);
                        let known = |id| (id == old).then_some(Position(7));
                        let others = |id| known(id).or_else(|| outcome.parents.contains(&id).then_some(Position(9)));
                        prop_assert_eq!(map.inherited(others).get(&new).copied(), Some(Position(7)));
                    } else {
                        prop_assert_eq!(old, new);
                    }
                }
                let (mut now, mut then): (Vec<_>, Vec<_>) = (map.ids().collect(), ids);
                now.retain(|id| !outcome.children.contains(id));
                then.retain(|id| !outcome.parents.contains(id));
                prop_assert_eq!(now, then);
            }
        }
    }

    #[test]
    fn what_stays_is_left_alone_and_more_than_two_meet_in_steps() {
        let ends = |id: PartitionId| Position(10 + u64::from(id.0));
        let map = Map::new(4);
        let three = Reshape::merge(&map, PartitionId(1), PartitionId(2)).unwrap();
        let three = three.outcome(&map, &ends, Position::ZERO, false).unwrap();
        let [one, two, three_, five] = [0, 4, 3, 9].map(PartitionId);
        assert_eq!(three.map.ids().collect::<Vec<_>>(), [one, two, three_]);
        assert_eq!(three.parents, [PartitionId(1), PartitionId(2)]);
        let merged = three.map.share(two).unwrap();
        assert_eq!(
            (&merged.parents, merged.begins),
            (&three.parents, Position(13))
        );
        assert!(Reshape::merge(&map, PartitionId(1), PartitionId(3)).is_none());
        assert!(Reshape::split(&map, five).is_none());
        assert!(Reshape::split(&three.map, PartitionId(1)).is_none());

        let whole = Reshape::equal(1)
            .outcome(&map, &ends, Position::ZERO, true)
            .unwrap();
        let [only] = whole.children[..] else {
            panic!("one child")
        };
        assert_eq!(only, PartitionId(6));
        let shares: Vec<_> = [4, 5, 6]
            .map(|id| whole.map.share(PartitionId(id)).unwrap())
            .map(|share| {
                (
                    share.parents.iter().map(|id| id.0).collect::<Vec<_>>(),
                    share.begins.0,
                    share.ends,
                )
            })
            .into();
        let ended = Some(Position(13));
        assert_eq!(
            shares,
            [
                (vec![2, 3], 14, ended),
                (vec![1, 4], 14, ended),
                (vec![0, 5], 14, None)
            ]
        );
        let same = Reshape::equal(4)
            .outcome(&map, &ends, Position::ZERO, true)
            .unwrap();
        assert!(same.map == map && same.parents.is_empty() && same.children.is_empty());
    }
}
