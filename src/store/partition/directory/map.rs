//! Which partition owns which partition keys: now, when the directory was new, and in between.
//!
//! Owns: the hash of partition keys (part of the format), the ranges of hashes that partitions own, and the lineage of
//! partitions that have ended. Promises: the ranges of the live partitions tile all hashes; a number is never used
//! again; the positions of a partition's log lie above those of its parents' logs, so that what happens to one key has
//! rising positions, whichever partition owns the key. Must not: touch a disk.

use std::collections::{BTreeMap, BTreeSet};

use tideline_base::ids::{HistoryId, PartitionId, Position};

/// Where a data directory begins: what all its epochs are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its history.
    pub history: HistoryId,
    /// How many partitions it had when it was new, numbered from 0.
    pub roots: u16,
}

impl Origin {
    /// The partition that owned a partition key when the directory was new. It never changes.
    #[must_use]
    pub fn root(&self, partition_key: &[u8]) -> PartitionId {
        if self.roots == 1 {
            return PartitionId(0);
        }
        let slot = (u128::from(hash(partition_key)) * u128::from(self.roots)) >> 64;
        PartitionId(u16::try_from(slot).expect("a slot is below the number of partitions"))
    }
}

/// What one partition owns, or owned, and where its log is among others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The partition.
    pub id: PartitionId,
    /// The lowest hash that it owns.
    pub first: u64,
    /// The highest one.
    pub last: u64,
    /// The partitions from which it took its keys over: none, one or two.
    pub parents: Vec<PartitionId>,
    /// The first position of its log: above all positions of its parents' logs.
    pub begins: Position,
    /// The last position of its log, if it has ended.
    pub ends: Option<Position>,
    /// Of one that has ended: its log is still there, for readers of streams.
    pub keeps_log: bool,
}

impl Share {
    /// Whether it never had a log: it only stands between others, for readers of logs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_some_and(|ends| ends < self.begins)
    }

    /// Whether a key with this hash belongs to it.
    #[must_use]
    pub fn owns(&self, hash: u64) -> bool {
        (self.first..=self.last).contains(&hash)
    }
}

/// All partitions of a directory, the live ones and those that have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    shares: BTreeMap<PartitionId, Share>,
    /// The live ones by the first hash that they own.
    live: Vec<(u64, PartitionId)>,
}

impl Map {
    /// So many partitions in a new directory; at least one.
    #[must_use]
    pub fn new(partitions: u16) -> Map {
        let root = |(id, (first, last))| Share {
            id: PartitionId(id),
            first,
            last,
            parents: Vec::new(),
            begins: Position(1),
            ends: None,
            keeps_log: false,
        };
        let shares = (0..).zip(equal_ranges(partitions)).map(root);
        Map::of(shares.collect()).expect("equal ranges tile all hashes")
    }

    /// The map of these; `Err` says what does not fit.
    pub fn of(shares: Vec<Share>) -> Result<Map, String> {
        let mut live: Vec<(u64, PartitionId)> = Vec::new();
        let mut by_id = BTreeMap::new();
        for share in shares {
            if share.ends.is_none() {
                live.push((share.first, share.id));
            }
            let id = share.id;
            if by_id.insert(id, share).is_some() {
                return Err(format!("partition {id} is there twice"));
            }
        }
        live.sort_unstable();
        let map = Map {
            shares: by_id,
            live,
        };
        map.check_tiling()?;
        map.shares.values().try_for_each(|share| map.check(share))?;
        Ok(map)
    }

    fn check_tiling(&self) -> Result<(), String> {
        let mut next = Some(0);
        for (first, id) in &self.live {
            if next != Some(*first) {
                return Err(format!(
                    "the range of partition {id} does not begin where the one before it ends"
                ));
            }
            next = self.shares[id].last.checked_add(1);
        }
        match (next, self.live.is_empty()) {
            (None, false) => Ok(()),
            _ => Err("the ranges of the partitions do not reach the end".to_owned()),
        }
    }

    fn check(&self, share: &Share) -> Result<(), String> {
        let Share { id, .. } = share;
        if share.first > share.last {
            return Err(format!("the range of partition {id} is empty"));
        }
        if share.begins == Position::ZERO {
            return Err(format!("the log of partition {id} can't begin with 0"));
        }
        if share.parents.len() > 2 {
            return Err(format!("partition {id} has more than two parents"));
        }
        for parent in &share.parents {
            let ends = self.shares.get(parent).and_then(|parent| parent.ends);
            let fits = ends.is_some_and(|ends| ends < share.begins) && parent < id;
            if !fits {
                return Err(format!(
                    "partition {parent} can't be a parent of partition {id}"
                ));
            }
        }
        Ok(())
    }

    /// The live partitions, in the order of their ranges.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = PartitionId> {
        self.live.iter().map(|(_, id)| *id)
    }

    /// All that there ever were, by their numbers.
    pub fn shares(&self) -> impl DoubleEndedIterator<Item = &Share> {
        self.shares.values()
    }

    /// One of them.
    #[must_use]
    pub fn share(&self, id: PartitionId) -> Option<&Share> {
        self.shares.get(&id)
    }

    /// The ended partitions whose logs are kept. Those that ended last come first, as their children's numbers say.
    #[must_use]
    pub fn kept(&self) -> Vec<PartitionId> {
        let parents = self.shares().rev().flat_map(|child| &child.parents);
        let is_kept = |id: &PartitionId| self.share(*id).is_some_and(|one| one.keeps_log);
        let mut seen = BTreeSet::new();
        let kept = parents.copied().filter(is_kept);
        kept.filter(|id| seen.insert(*id)).collect()
    }

    /// Whether it is there and has not ended.
    #[must_use]
    pub fn is_live(&self, id: PartitionId) -> bool {
        self.share(id).is_some_and(|share| share.ends.is_none())
    }

    /// The same, but the logs of these, which have ended, are not kept any more.
    pub(in super::super) fn without_logs(&self, ids: &[PartitionId]) -> Map {
        let mut map = self.clone();
        for share in map.shares.values_mut() {
            share.keeps_log &= !ids.contains(&share.id);
        }
        map
    }

    /// The partition that owns a partition key.
    #[must_use]
    pub fn place(&self, partition_key: &[u8]) -> PartitionId {
        match *self.live {
            [(_, only)] => only,
            _ => self.owner(hash(partition_key)),
        }
    }

    /// The partition that owns a hash.
    #[must_use]
    pub fn owner(&self, hash: u64) -> PartitionId {
        let after = self.live.partition_point(|(first, _)| *first <= hash);
        self.live[after - 1].1
    }

    /// The partition of what belongs to the directory and to no key: it owns the lowest hash.
    #[must_use]
    pub fn home(&self) -> PartitionId {
        self.live[0].1
    }

    /// What a reader that knew places in logs knows of each partition's: its own, or the lowest of its parents' if all
    /// are known. Behind that place lies everything of the partition's keys that the reader has not seen. Parents come
    /// first, so each partition is looked at once, also where many ways lead back to it.
    pub fn inherited(
        &self,
        known: impl Fn(PartitionId) -> Option<Position>,
    ) -> BTreeMap<PartitionId, Position> {
        let mut places = BTreeMap::new();
        for share in self.shares() {
            let parents = share
                .parents
                .iter()
                .map(|parent| places.get(parent).copied());
            let place = known(share.id).or_else(|| {
                let parents: Option<Vec<Position>> = parents.collect();
                parents?.into_iter().min()
            });
            if let Some(place) = place {
                places.insert(share.id, place);
            }
        }
        places
    }

    /// The ended partitions that nobody needs. Needed are those whose log is kept, those that are asked for, and all
    /// that came from one of these, with the partitions that they were merged with. Those that ended lately stay, too,
    /// and those below `roots`: they say what the new directory was.
    #[must_use]
    pub fn forgettable(
        &self,
        roots: u16,
        is_asked: impl Fn(PartitionId) -> bool,
    ) -> Vec<PartitionId> {
        let is_late = |child: &&Share| child.id.0.saturating_add(LATE) > self.newest();
        let late = self.shares().filter(is_late);
        let mut needed: BTreeSet<PartitionId> = late.flat_map(|one| one.parents.clone()).collect();
        let is_needed = |one: &&Share| one.ends.is_none() || one.keeps_log || is_asked(one.id);
        needed.extend(self.shares().filter(is_needed).map(|one| one.id));
        let mut before = 0;
        while needed.len() > before {
            before = needed.len();
            for child in self.shares() {
                if child.parents.iter().any(|parent| needed.contains(parent)) {
                    needed.insert(child.id);
                    needed.extend(&child.parents);
                }
            }
        }
        let ids = self.shares.keys().copied();
        ids.filter(|id| id.0 >= roots && !needed.contains(id))
            .collect()
    }

    /// The highest number that was ever given.
    fn newest(&self) -> u16 {
        self.shares.keys().next_back().map_or(0, |id| id.0)
    }

    /// Whether there is or was such a partition, even if it is forgotten.
    #[must_use]
    pub fn was(&self, id: PartitionId) -> bool {
        id.0 <= self.newest()
    }

    /// The same without these, which have ended. Their children have no parents any more.
    pub(in super::super) fn without(&self, forgotten: &[PartitionId]) -> Map {
        let mut map = self.clone();
        map.shares.retain(|id, _| !forgotten.contains(id));
        for share in map.shares.values_mut() {
            if share
                .parents
                .iter()
                .any(|parent| forgotten.contains(parent))
            {
                share.parents.clear();
            }
        }
        map
    }
}

/// The parents of so many newest partitions are remembered, for readers that were away. One change makes fewer.
const LATE: u16 = 256;

/// What places a partition key. Part of the format: XXH3 of its bytes.
#[must_use]
pub fn hash(partition_key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(partition_key)
}

/// All hashes in so many equal ranges, each from its first to its last.
pub(in super::super) fn equal_ranges(count: u16) -> impl Iterator<Item = (u64, u64)> {
    let count = u128::from(count);
    let first = move |slot: u128| (slot << 64).div_ceil(count);
    let hash = |number: u128| u64::try_from(number).expect("below 2^64");
    (0..count).map(move |slot| (hash(first(slot)), hash(first(slot + 1) - 1)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn share(id: u16, range: (u64, u64), parents: &[u16], begins: u64, ends: Option<u64>) -> Share {
        Share {
            id: PartitionId(id),
            first: range.0,
            last: range.1,
            parents: parents.iter().map(|id| PartitionId(*id)).collect(),
            begins: Position(begins),
            ends: ends.map(Position),
            keeps_log: false,
        }
    }

    proptest! {
        #[test]
        fn a_new_directory_places_as_its_origin_does(
            roots in 1u16..300,
            keys in proptest::collection::vec(any::<Vec<u8>>(), 1..30),
        ) {
            let map = Map::new(roots);
            let origin = Origin { history: HistoryId([0; 16]), roots };
            let ids: Vec<_> = (0..roots).map(PartitionId).collect();
            prop_assert_eq!(map.ids().collect::<Vec<_>>(), ids);
            for key in keys {
                let place = map.place(&key);
                prop_assert_eq!(place, origin.root(&key));
                prop_assert!(map.share(place).unwrap().owns(hash(&key)));
            }
            for (first, last) in equal_ranges(roots) {
                prop_assert_eq!(map.owner(first), map.owner(last));
            }
        }
    }

    const HALF: u64 = 1 << 63;

    #[test]
    fn children_own_what_their_parents_did() {
        // 0 was split into 1 and 2; 2 was split into 3 and 4; 1 and 3 became 5.
        let quarter = HALF + (1 << 62);
        let shares = vec![
            share(0, (0, u64::MAX), &[], 1, Some(10)),
            share(1, (0, HALF - 1), &[0], 11, Some(20)),
            share(2, (HALF, u64::MAX), &[0], 11, Some(15)),
            share(3, (HALF, quarter - 1), &[2], 16, Some(16)),
            share(4, (quarter, u64::MAX), &[2], 16, None),
            share(5, (0, quarter - 1), &[1, 3], 21, None),
        ];
        let map = Map::of(shares).unwrap();
        assert_eq!(map.ids().collect::<Vec<_>>(), [5, 4].map(PartitionId));
        assert_eq!(map.home(), PartitionId(5));
        assert_eq!(map.owner(quarter - 1), PartitionId(5));
        assert_eq!(map.owner(quarter), PartitionId(4));
        assert!(map.is_live(PartitionId(4)) && !map.is_live(PartitionId(2)));
        assert!(!map.is_live(PartitionId(6)));
        let from = |known: &[(u16, u64)], id| {
            let known: BTreeMap<_, _> = known.iter().copied().collect();
            let places = map.inherited(|id| known.get(&id.0).map(|at| Position(*at)));
            places.get(&PartitionId(id)).map(|at| at.0)
        };
        assert_eq!(from(&[(0, 7)], 5), Some(7));
        assert_eq!(from(&[(1, 18), (2, 14)], 5), Some(14));
        assert_eq!(from(&[(1, 18), (3, 16)], 5), Some(16));
        assert_eq!(from(&[(1, 18)], 5), None);
        assert_eq!(from(&[(5, 30), (0, 7)], 5), Some(30));
        assert_eq!(from(&[(5, 30)], 4), None);
    }

    /// 0 was split into 1 and 2, these became 3, and so on: so many pairs.
    fn pairs(count: u16) -> Map {
        let all = (0, u64::MAX);
        let mut shares = vec![share(0, all, &[], 1, Some(10))];
        for pair in 0..count {
            let (last, begins) = (pair * 3, u64::from(pair) * 20 + 11);
            let halves = [(1, (0, HALF - 1)), (2, (HALF, u64::MAX))];
            shares.extend(halves.map(|(number, range)| {
                share(last + number, range, &[last], begins, Some(begins + 9))
            }));
            let ends = (pair + 1 < count).then_some(begins + 19);
            shares.push(share(
                last + 3,
                all,
                &[last + 1, last + 2],
                begins + 10,
                ends,
            ));
        }
        Map::of(shares).unwrap()
    }

    #[test]
    fn what_nobody_needs_is_forgotten_and_the_rest_is_whole() {
        let map = pairs(200);
        let ids = |ids: std::ops::RangeInclusive<u16>| ids.map(PartitionId).collect::<Vec<_>>();
        let forgotten = map.forgettable(1, |_| false);
        assert_eq!(forgotten, ids(1..=342));
        assert_eq!(map.forgettable(1, |id| id.0 == 5), ids(1..=3));
        assert!(map.forgettable(1, |id| id.0 == 0).is_empty());
        assert!(pairs(80).forgettable(1, |_| false).is_empty());
        let left = map.without(&forgotten);
        let shares: Vec<Share> = left.shares().cloned().collect();
        assert_eq!(shares.len(), 601 - 342);
        assert_eq!(Map::of(shares), Ok(left.clone()));
        let from = |known: u16| {
            let places = left.inherited(|id| (id.0 == known).then_some(Position(7)));
            places.contains_key(&PartitionId(600))
        };
        assert!(from(345) && from(600) && !from(0) && !from(342));
        assert!(left.was(PartitionId(3)) && !left.was(PartitionId(601)));
        // They go on from there.
        assert!(left.forgettable(1, |_| false).is_empty());
        let mut asked = left.without_logs(&[]);
        asked.shares.get_mut(&PartitionId(400)).unwrap().keeps_log = true;
        assert_eq!(asked.kept(), [PartitionId(400)]);
        assert_eq!(asked.without_logs(&[PartitionId(400)]), left);
    }

    #[test]
    fn what_does_not_tile_or_descend_is_refused() {
        let whole = || share(0, (0, u64::MAX), &[], 1, None);
        let ended = || share(0, (0, u64::MAX), &[], 1, Some(10));
        let low = |parents: &[u16], begins| share(1, (0, HALF - 1), parents, begins, None);
        let high = |first| share(2, (first, u64::MAX), &[0], 11, None);
        assert!(Map::of(vec![ended(), low(&[0], 11), high(HALF)]).is_ok());
        for wrong in [
            vec![],
            vec![ended()],
            vec![whole(), whole()],
            vec![ended(), low(&[0], 11)],
            vec![ended(), low(&[0], 11), high(HALF + 1)],
            vec![ended(), low(&[0], 11), high(HALF - 1)],
            vec![ended(), low(&[0], 10), high(HALF)],
            vec![ended(), low(&[7], 11), high(HALF)],
            vec![ended(), low(&[0, 0, 0], 11), high(HALF)],
            vec![share(0, (0, u64::MAX), &[], 0, None)],
            vec![whole(), share(1, (5, 4), &[], 1, Some(1))],
        ] {
            assert!(Map::of(wrong.clone()).is_err(), "{wrong:?}");
        }
    }
}
