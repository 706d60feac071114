//! Trees of tombstones: how many of a timeline's messages above a sequence are gone, all of them and each sender's.
//!
//! Owns: the rows of the trees. Promises: a tombstone is in the tree of all and in its sender's, written in one batch;
//! the tombstones above a sequence are counted from at most one row of each level. Must not: decide what becomes a
//! tombstone; a message is added once.
//!
//! ```text
//! level 0    a leaf: which of 256 sequences are tombstones      $n: a bitmap of 32 bytes, the lowest sequence first
//! level 1-3  a node: how many are in each of its 256 children   $n: (child, count) pairs; count in 4 bytes
//! ```
//! Block b of level l is about the 256^(l+1) sequences from b · 256^(l+1) on; so four levels reach 4 · 10⁹ with one
//! root, and there are more roots beyond.

use tideline_model::ValueRef;
use tideline_table::{Key, Malformed, ReadError, Row, RowWriter, Source, Txn, damaged, put};

use super::super::rows::head::HeadRow;
use super::super::rows::tables::Name;
use super::super::write::version;

/// The set of all tombstones. No sender's: messages of nobody are in this set only.
pub(super) const ALL: &str = "";
pub(super) const LEVELS: u8 = 4;
const COUNTS: &str = "$n";
const LEAF_BYTES: usize = 32;
const PAIR_BYTES: usize = 5;

/// How many tombstones are in each child of a node, or at each sequence of a leaf; without zeros, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Counts(Vec<(u8, u32)>);

impl Counts {
    pub(super) fn add(&mut self, child: u8) {
        match self.0.binary_search_by_key(&child, |(child, _)| *child) {
            Ok(at) => self.0[at].1 += 1,
            Err(at) => self.0.insert(at, (child, 1)),
        }
    }

    /// How many are in the children from `first` on.
    pub(super) fn from(&self, first: u16) -> u64 {
        let counted = self
            .0
            .iter()
            .filter(|(child, _)| u16::from(*child) >= first);
        counted.map(|(_, count)| u64::from(*count)).sum()
    }

    /// How many are in one child.
    pub(super) fn at(&self, child: u8) -> u32 {
        let found = self.0.binary_search_by_key(&child, |(child, _)| *child);
        found.map_or(0, |at| self.0[at].1)
    }

    fn encode(&self, level: u8) -> RowWriter {
        let mut bytes = Vec::with_capacity(LEAF_BYTES);
        if level == 0 {
            bytes.resize(LEAF_BYTES, 0);
            for (child, _) in &self.0 {
                bytes[usize::from(child / 8)] |= 1 << (child % 8);
            }
        } else {
            for (child, count) in &self.0 {
                bytes.push(*child);
                bytes.extend_from_slice(&count.to_be_bytes());
            }
        }
        RowWriter::of(COUNTS, ValueRef::Binary(&bytes))
    }

    pub(in super::super) fn decode(level: u8, value: &[u8]) -> Result<Counts, Malformed> {
        let cell = Row::parse(value)?.column(COUNTS)?.ok_or(Malformed)?;
        let ValueRef::Binary(bytes) = cell.value else {
            return Err(Malformed);
        };
        if level == 0 {
            let bits: &[u8; LEAF_BYTES] = bytes.try_into().map_err(|_| Malformed)?;
            let is_set = |child: &u8| bits[usize::from(child / 8)] & 1 << (child % 8) != 0;
            return Ok(Counts(
                (0..=u8::MAX)
                    .filter(is_set)
                    .map(|child| (child, 1))
                    .collect(),
            ));
        }
        let (pairs, rest) = bytes.as_chunks::<PAIR_BYTES>();
        let pair = |[child, count @ ..]: &[u8; PAIR_BYTES]| (*child, u32::from_be_bytes(*count));
        let counts: Vec<_> = pairs.iter().map(pair).collect();
        let is_in_order = counts.is_sorted_by(|a, b| a.0 < b.0);
        if rest.is_empty() && is_in_order && counts.iter().all(|(_, count)| *count > 0) {
            Ok(Counts(counts))
        } else {
            Err(Malformed)
        }
    }
}

/// A timeline's history, whose trees these are.
pub(super) type Of<'a> = (&'a Name, &'a HeadRow);

/// How many tombstones of `set` are above the sequence `low`.
pub(super) fn above(
    rows: &impl Source,
    (name, head): Of<'_>,
    set: &str,
    low: u64,
) -> Result<u64, ReadError> {
    let key = |level, block| name.gone_key(head.incarnation, set, level, block);
    let mut count = 0;
    for level in 0..LEVELS {
        let (block, child) = place(low, level);
        count += load(rows, &key(level, block), level)?.from(u16::from(child) + 1);
        if place(head.last, level).0 == block {
            return Ok(count);
        }
    }
    let root = LEVELS - 1;
    for block in place(low, root).0 + 1..=place(head.last, root).0 {
        count += load(rows, &key(root, block), root)?.from(0);
    }
    Ok(count)
}

/// Looks single sequences up. Those of one leaf cost one read if they come together.
pub(super) struct Leaves<'r, S> {
    rows: &'r S,
    of: Of<'r>,
    leaf: Option<(u64, Counts)>,
}

impl<'r, S: Source> Leaves<'r, S> {
    pub(super) fn new(rows: &'r S, of: Of<'r>) -> Leaves<'r, S> {
        Leaves {
            rows,
            of,
            leaf: None,
        }
    }

    /// Whether the message is a tombstone.
    pub(super) fn has(&mut self, sequence: u64) -> Result<bool, ReadError> {
        let (block, child) = place(sequence, 0);
        if !matches!(&self.leaf, Some((at, _)) if *at == block) {
            let (name, head) = self.of;
            let key = name.gone_key(head.incarnation, ALL, 0, block);
            self.leaf = Some((block, load(self.rows, &key, 0)?));
        }
        Ok(self
            .leaf
            .as_ref()
            .is_some_and(|(_, leaf)| leaf.at(child) > 0))
    }
}

/// Adds a message that becomes a tombstone to its trees. A row that several of a batch are about is in the log once.
pub(super) fn add(
    txn: &mut Txn<'_>,
    of: Of<'_>,
    (sequence, sender): (u64, &str),
) -> Result<(), ReadError> {
    let now = version(txn.now_ms());
    for (key, node) in nodes_with(txn, of, (sequence, sender))? {
        put(txn, key, node, now);
    }
    Ok(())
}

/// The nodes of a message, with it among the tombstones.
fn nodes_with(
    rows: &impl Source,
    (name, head): Of<'_>,
    (sequence, sender): (u64, &str),
) -> Result<Vec<(Key, RowWriter)>, ReadError> {
    let mut nodes = Vec::new();
    for set in sets(sender) {
        for level in 0..LEVELS {
            let (block, child) = place(sequence, level);
            let key = name.gone_key(head.incarnation, set, level, block);
            let mut counts = load(rows, &key, level)?;
            counts.add(child);
            nodes.push((key, counts.encode(level)));
        }
    }
    Ok(nodes)
}

/// The sets that a sender's message belongs to.
pub(super) fn sets(sender: &str) -> impl Iterator<Item = &str> {
    [ALL].into_iter().chain((sender != ALL).then_some(sender))
}

/// Where a sequence is in a level: the block, and the child of it.
pub(super) fn place(sequence: u64, level: u8) -> (u64, u8) {
    let child = sequence >> (8 * level);
    (child >> 8, child.to_be_bytes()[7])
}

pub(super) fn load(rows: &impl Source, key: &Key, level: u8) -> Result<Counts, ReadError> {
    let Some(value) = rows.row(key)? else {
        return Ok(Counts::default());
    };
    decoded(level, key.as_bytes(), &value)
}

pub(super) fn decoded(level: u8, key: &[u8], value: &[u8]) -> Result<Counts, ReadError> {
    Counts::decode(level, value).map_err(|_| damaged(key, "not a node of tombstones"))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use tideline_model::Direction;
    use tideline_table::Rows;

    /// Rows without a store.
    #[derive(Default)]
    struct Map(BTreeMap<Key, Bytes>);

    impl Source for Map {
        fn row(&self, key: &Key) -> Result<Option<Bytes>, ReadError> {
            Ok(self.0.get(key).cloned())
        }

        fn columns(
            &self,
            _: &Key,
            _: Option<&[&str]>,
        ) -> Result<tideline_store::partition::Found, ReadError> {
            unreachable!("whole rows are read")
        }

        fn between(&self, _: &Key, _: &Key, _: Direction) -> Rows<'_> {
            unreachable!("single rows are read")
        }
    }

    fn sequences() -> impl Strategy<Value = u64> {
        let around = |middle: u64| middle.saturating_sub(600).max(1)..middle + 600;
        prop_oneof![
            around(300),
            around(65_536),
            around(1 << 24),
            around(1 << 32),
            1u64..1 << 34,
        ]
    }

    proptest! {
        #[test]
        fn trees_count_what_is_above_whatever_the_order(
            gone in proptest::collection::btree_map(sequences(), 0usize..3, 1..200),
            lows in proptest::collection::vec(sequences(), 1..20),
        ) {
            let name = Name::new("room");
            let senders = ["", "ann", "ben"];
            let last = *gone.keys().max().unwrap();
            let head = HeadRow { last, ..HeadRow::new(7) };
            let mut rows = Map::default();
            for (sequence, by) in gone.iter().rev() {
                let place = (*sequence, senders[*by]);
                for (key, node) in nodes_with(&rows, (&name, &head), place).unwrap() {
                    rows.0.insert(key, node.finish(1).into());
                }
            }
            for low in lows.into_iter().chain([0]).filter(|low| *low < last) {
                for (by, set) in senders.iter().enumerate() {
                    let counts = |(sequence, of): &(&u64, &usize)| {
                        **sequence > low && (set.is_empty() || **of == by)
                    };
                    let expected = gone.iter().filter(counts).count() as u64;
                    prop_assert_eq!(above(&rows, (&name, &head), set, low).unwrap(), expected);
                }
            }
            let mut leaves = Leaves::new(&rows, (&name, &head));
            for sequence in gone.keys().flat_map(|sequence| [*sequence, sequence + 1]) {
                prop_assert_eq!(leaves.has(sequence).unwrap(), gone.contains_key(&sequence));
            }
            let highest: BTreeSet<_> = rows.0.keys().map(|key| {
                let (_, columns) = tideline_table::split_key(key.as_bytes()).unwrap();
                let (_, rest) = crate::timeline::rows::tables::incarnation_of(columns).unwrap();
                super::super::last_of_node(rest).unwrap()
            }).collect();
            prop_assert!(highest.last().unwrap() >= &last);
        }

        #[test]
        fn nodes_come_back_and_damage_is_refused(
            counts in proptest::collection::btree_map(any::<u8>(), 1u32..1 << 25, 0..256),
            bytes: Vec<u8>,
        ) {
            let node = Counts(counts.into_iter().collect());
            prop_assert_eq!(Counts::decode(1, &node.encode(1).finish(1)), Ok(node.clone()));
            let leaf = Counts(node.0.into_iter().map(|(child, _)| (child, 1)).collect());
            prop_assert_eq!(Counts::decode(0, &leaf.encode(0).finish(1)), Ok(leaf));
            for level in 0..LEVELS {
                let _ = Counts::decode(level, &bytes).is_ok();
            }
        }
    }
}
