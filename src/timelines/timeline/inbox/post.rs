//! Messages that go into inboxes, as a batch tells of them.
//!
//! Owns: the record that says so, and reading it back. Promises: the batch alone is enough, and gives the same posts in
//! the same order each time; of each the member version at its place. Must not: read the store.

use std::collections::HashMap;

use tideline_table::{Action, Batch, Change, Malformed, Txn, record, split_key, version_of};

use super::super::rows::head::HeadRow;
use super::super::rows::tables::{HEADS, MEMBER_CHANGES, MESSAGES, POSTS, incarnation_of};
use tideline_base::ordered::Reader;

/// A message that goes into inboxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Post {
    /// Its timeline.
    pub timeline: String,
    /// Which of its name.
    pub incarnation: u64,
    /// Its number.
    pub sequence: u64,
    /// Its time, ms.
    pub timestamp: u64,
    /// The member version at its place: a user that had joined by then, and had not left, gets it.
    pub version: u64,
}

/// Says of messages that were just put that they go into inboxes: `entries` of them, from the entry `first` on.
pub(in super::super) fn record_posts(txn: &mut Txn<'_>, first: u32, entries: u32) {
    record(txn, POSTS, Action::Put, first, entries);
}

/// The messages of a batch that go into inboxes, in the order of its records.
///
/// # Errors
/// If a record or row of the batch can't be read.
pub fn posts(batch: &Batch) -> Result<Vec<Post>, Malformed> {
    let mut versions = Versions::default();
    let (mut found, mut places) = (Vec::new(), Vec::new());
    for record in batch.changes() {
        let change = Change::decode(record)?;
        if change.table != POSTS {
            continue;
        }
        let entries = batch.entries_in(change.indexes()).ok_or(Malformed)?;
        for (index, entry) in change.indexes().zip(entries) {
            let (table, columns) = split_key(entry.key).ok_or(Malformed)?;
            if table != MESSAGES {
                return Err(Malformed);
            }
            let timeline = Reader::new(columns).string()?;
            let (incarnation, mut rest) = incarnation_of(columns)?;
            let sequence = rest.u64()?;
            versions.want(columns)?;
            places.push((index, columns));
            found.push(Post {
                version: 0,
                timeline: timeline.into_owned(),
                incarnation,
                sequence,
                timestamp: version_of(entry.value)?,
            });
        }
    }
    versions.read(batch)?;
    for (post, (index, columns)) in found.iter_mut().zip(places) {
        post.version = versions.at(index, columns)?;
    }
    Ok(found)
}

/// The member versions of some of a batch's timelines, by place.
#[derive(Default)]
struct Versions<'b> {
    /// By encoded name.
    of: HashMap<&'b [u8], OfTimeline>,
}

#[derive(Default)]
struct OfTimeline {
    /// Entry and version of each change, in order. A version has a row of its own, so its entry is at its place.
    changes: Vec<(usize, u64)>,
    /// Behind the batch.
    last: u64,
}

impl<'b> Versions<'b> {
    /// Those of the timeline that a key's columns begin with are wanted.
    fn want(&mut self, columns: &'b [u8]) -> Result<(), Malformed> {
        self.of.entry(name_of(columns)?).or_default();
        Ok(())
    }

    fn read(&mut self, batch: &'b Batch) -> Result<(), Malformed> {
        if self.of.is_empty() {
            return Ok(());
        }
        for (index, entry) in batch.entries().enumerate() {
            let Some((table @ (HEADS | MEMBER_CHANGES), columns)) = split_key(entry.key) else {
                continue;
            };
            let Some(timeline) = self.of.get_mut(name_of(columns)?) else {
                continue;
            };
            if table == HEADS {
                timeline.last = HeadRow::decode(entry.value)?.member_version;
            } else {
                let (_, mut rest) = incarnation_of(columns)?;
                let version = rest.u64()?;
                timeline.changes.push((index, version));
            }
        }
        Ok(())
    }

    /// At an entry of the timeline that a key's columns begin with.
    fn at(&self, entry: usize, columns: &[u8]) -> Result<u64, Malformed> {
        let timeline = self.of.get(name_of(columns)?).ok_or(Malformed)?;
        let changes = &timeline.changes;
        let before = changes.partition_point(|(index, _)| *index < entry);
        Ok(match (before.checked_sub(1), changes.first()) {
            (Some(at), _) => changes[at].1,
            (None, Some((_, first))) => first - 1,
            // Whatever is written to a timeline, its head row is in the same batch.
            (None, None) => timeline.last,
        })
    }
}

fn name_of(columns: &[u8]) -> Result<&[u8], Malformed> {
    Reader::new(columns).skip()
}
