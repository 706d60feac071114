//! What of a merged row stays, and what is dropped for good.
//!
//! Owns: the question to the row rules, and when a tombstone is still needed. Promises: what a run below may still hold
//! never comes back. Must not: write, or know what a row means.

use std::cell::RefCell;

use bytes::Bytes;

use super::super::catalog::Catalog;
use super::super::{DropContext, Entry, Reclaimed, Rules, Verdict};
use tideline_base::entry::EntryKind;

/// Decides what of a merged entry stays.
pub(in super::super) struct Sieve<'a> {
    rules: &'a dyn Rules,
    now_ms: u64,
    read: &'a dyn Fn(&[u8]) -> Option<Bytes>,
    /// Of all runs; those below the oldest input are looked at.
    catalog: &'a Catalog,
    oldest_input: u64,
    includes_oldest: bool,
    last_read: RefCell<Option<(Bytes, Option<Bytes>)>>,
}

impl<'a> Sieve<'a> {
    pub(in super::super) fn new(
        catalog: &'a Catalog,
        oldest_input: u64,
        rules: &'a dyn Rules,
        now_ms: u64,
        read: &'a dyn Fn(&[u8]) -> Option<Bytes>,
    ) -> Sieve<'a> {
        let oldest = catalog.runs.last().map(|run| run.number);
        Sieve {
            rules,
            now_ms,
            read,
            catalog,
            oldest_input,
            includes_oldest: oldest == Some(oldest_input),
            last_read: RefCell::default(),
        }
    }

    /// How many bytes a rewrite would free of an entry. What would stay as a tombstone is not counted: once rewritten,
    /// a row must not ask for it again.
    pub(in super::super) fn freed_bytes(&self, key: &[u8], entry: &Entry) -> usize {
        let whole = key.len() + entry.value.len();
        if entry.kind == EntryKind::Tombstone {
            return if self.none_below(key) { whole } else { 0 };
        }
        let settled;
        let mut entry = entry;
        if entry.kind == EntryKind::Delta && self.none_below(key) {
            settled = self.rules.compose(key, &tombstone(), entry);
            entry = &settled;
        }
        match self.verdict(key, entry, self.includes_oldest) {
            Verdict::Keep => 0,
            Verdict::Replace(less, _) => entry.value.len().saturating_sub(less.value.len()),
            Verdict::Drop(_) if self.none_below(key) => whole,
            Verdict::Drop(_) => entry.value.len(),
        }
    }

    /// Whether no run below the inputs can hold `key`, as far as bounds tell.
    fn none_below(&self, key: &[u8]) -> bool {
        self.includes_oldest
            || !self
                .catalog
                .sources()
                .skip_while(|source| source.run.number != self.oldest_input)
                .skip(1)
                .any(|source| source.covers(key) && source.run.part_of(key).is_some())
    }

    fn read(&self, key: &[u8]) -> Option<Bytes> {
        if let Some((last, answer)) = &*self.last_read.borrow()
            && last == key
        {
            return answer.clone();
        }
        let answer = (self.read)(key);
        let last = (Bytes::copy_from_slice(key), answer.clone());
        *self.last_read.borrow_mut() = Some(last);
        answer
    }

    /// What the row rules say about an entry.
    fn verdict(&self, key: &[u8], entry: &Entry, oldest: bool) -> Verdict {
        let read = |key: &[u8]| self.read(key);
        let context = DropContext {
            now_ms: self.now_ms,
            oldest,
            read: &read,
        };
        self.rules.verdict(key, entry, &context)
    }

    /// What is to be written for a merged entry; `None` = nothing. What a verdict gives up is counted in `reclaimed`.
    pub(in super::super) fn settle(
        &self,
        key: &[u8],
        entry: Entry,
        reclaimed: &mut Reclaimed,
    ) -> Option<Entry> {
        let mut entry = entry;
        // For puts, by far the most, only ask about older runs when the answer is needed.
        let oldest = match entry.kind {
            EntryKind::Put => self.includes_oldest,
            EntryKind::Delta | EntryKind::Tombstone => self.none_below(key),
        };
        if oldest && entry.kind == EntryKind::Delta {
            entry = self.rules.compose(key, &tombstone(), &entry);
        }
        if entry.kind == EntryKind::Tombstone {
            return (!oldest).then_some(entry);
        }
        match self.verdict(key, &entry, oldest) {
            Verdict::Keep => Some(entry),
            Verdict::Replace(less, reason) => {
                let bytes = entry.value.len().saturating_sub(less.value.len());
                reclaimed.add(reason, 0, bytes as u64);
                Some(less)
            }
            Verdict::Drop(reason) => {
                reclaimed.add(reason, 1, (key.len() + entry.value.len()) as u64);
                (!self.none_below(key)).then(tombstone)
            }
        }
    }
}

fn tombstone() -> Entry {
    Entry {
        kind: EntryKind::Tombstone,
        value: Bytes::new(),
    }
}
