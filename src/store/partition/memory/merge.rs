//! Many sorted sources, one sorted answer: the k-way merge under every range and every flush.
//!
//! Owns: the order of sources (newest first) and the composition of one key's entries. Promises: each key comes once,
//! with everything older than its first put or tombstone masked. Must not: know where a source's entries come from.

use bytes::Bytes;

use super::super::{ReadError, Rules};
use tideline_base::entry::{Entry, EntryKind};

pub use tideline_model::Direction;

/// Keys in order, each with its entries newest first.
pub(in super::super) type Entries<'a> =
    Box<dyn Iterator<Item = Result<(Bytes, Vec<Entry>), ReadError>> + 'a>;

/// The entries of one key, newest first, down to the first that masks the rest.
#[derive(Default)]
pub(in super::super) struct Stack {
    deltas: Vec<Entry>,
    base: Option<Entry>,
}

impl Stack {
    /// Takes the next older entry; whether still older ones matter.
    pub(in super::super) fn push(&mut self, entry: Entry) -> bool {
        if self.base.is_some() {
            return false;
        }
        match entry.kind {
            EntryKind::Delta => self.deltas.push(entry),
            EntryKind::Put | EntryKind::Tombstone => self.base = Some(entry),
        }
        self.base.is_none()
    }

    /// Whether older entries can't matter any more.
    pub(in super::super) fn is_complete(&self) -> bool {
        self.base.is_some()
    }

    /// How many deltas lie on top so far.
    pub(in super::super) fn deltas(&self) -> usize {
        self.deltas.len()
    }

    /// Keeps only the newest `count` deltas: the others are also in what comes next.
    pub(in super::super) fn keep_deltas(&mut self, count: usize) {
        self.deltas.truncate(count);
    }

    /// The row that the entries make, with nothing older below them.
    pub(in super::super) fn settle(mut self, key: &[u8], rules: &dyn Rules) -> Option<Bytes> {
        self.base.get_or_insert_with(Entry::tombstone);
        let row = self.collapse(key, rules)?;
        (row.kind == EntryKind::Put).then_some(row.value)
    }

    /// One entry that does what all of them do to whatever is older. `None` = there were none.
    pub(in super::super) fn collapse(mut self, key: &[u8], rules: &dyn Rules) -> Option<Entry> {
        // Neighbours first: a wide row below many changes is composed once.
        while self.deltas.len() > 1 {
            let pairs = self.deltas.chunks(2).map(|pair| match pair {
                [newer, older] => rules.compose(key, older, newer),
                rest => rest[0].clone(),
            });
            self.deltas = pairs.collect();
        }
        match (self.base, self.deltas.pop()) {
            (Some(base), Some(delta)) => Some(rules.compose(key, &base, &delta)),
            (base, delta) => base.or(delta),
        }
    }
}

/// One sorted input of a merge, with its next row in hand.
struct Source<'a> {
    entries: Entries<'a>,
    head: Option<(Bytes, Vec<Entry>)>,
}

/// Merges sources, newest first, into stacks.
pub(in super::super) struct Merge<'a> {
    sources: Vec<Source<'a>>,
    direction: Direction,
    failed: Option<ReadError>,
}

impl<'a> Merge<'a> {
    /// `sources`: newest first, each in the direction's order.
    pub(in super::super) fn new(sources: Vec<Entries<'a>>, direction: Direction) -> Merge<'a> {
        let mut merge = Merge {
            sources: Vec::with_capacity(sources.len()),
            direction,
            failed: None,
        };
        for entries in sources {
            merge.sources.push(Source {
                entries,
                head: None,
            });
            merge.advance(merge.sources.len() - 1);
        }
        merge
    }

    fn advance(&mut self, index: usize) {
        let source = &mut self.sources[index];
        source.head = match source.entries.next() {
            None => None,
            Some(Ok(row)) => Some(row),
            Some(Err(error)) => {
                self.failed = Some(error);
                None
            }
        };
    }

    fn next_key(&self) -> Option<Bytes> {
        let keys = self
            .sources
            .iter()
            .filter_map(|source| source.head.as_ref().map(|row| &row.0));
        match self.direction {
            Direction::Forward => keys.min().cloned(),
            Direction::Backward => keys.max().cloned(),
        }
    }
}

impl Iterator for Merge<'_> {
    type Item = Result<(Bytes, Stack), ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            // A source that broke off would make older entries visible: nothing more comes.
            self.sources.clear();
            return Some(Err(error));
        }
        let key = self.next_key()?;
        let mut stack = Stack::default();
        for index in 0..self.sources.len() {
            let Some((_, entries)) = self.sources[index].head.take_if(|(head, _)| *head == key)
            else {
                continue;
            };
            for entry in entries {
                stack.push(entry);
            }
            self.advance(index);
        }
        Some(Ok((key, stack)))
    }
}
