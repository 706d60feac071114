//! How far a target's writes in one partition follow the changes of another.
//!
//! Owns: the cursor's row, in the partition that is written to. Promises: the closure that writes what was derived
//! checks the cursor and moves it, so a repeat does nothing, from whichever sender. Must not: know what is written.
//!
//! ```text
//! 40 relays   (target, source partition, history ID as text)   $place, $position
//! ```
//! A cursor counts only in the history that it names: after a restore it is another one. Of each source's log that
//! leads to it a partition has some of its own.

use bytes::Bytes;

use crate::timeline::RELAYS;
use tideline_base::ids::{HistoryId, PartitionId, Position};
use tideline_base::ordered::Reader;
use tideline_table::{
    Key, Partitions, Purpose, ReadError, Source, Txn, View, columns, delete, load, put, read_row,
    scan_all,
};

const WHAT: &str = "not a relay's cursor";

/// A place in a source's log: all of the batches up to a position, and what the next batch leads to in this destination
/// below a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    pub(super) position: Position,
    pub(super) place: u64,
}

columns! { At {
    "$place" always: place,
    "$position" always: position.0,
} }

/// What a destination knows of a source when a route begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The cursor of this history.
    Here(At),
    /// Cursors of other histories only: what was derived may be of a past that is none any more.
    Elsewhere,
    /// Nothing was ever derived.
    Nothing,
}

/// A cursor as it is stored, of whatever history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCursor {
    /// The target's number.
    pub target: u32,
    /// Whose log it is in.
    pub source: PartitionId,
    /// The history ID, as text.
    pub history: String,
    /// All batches up to there are done.
    pub position: Position,
    /// So many effects of the next batch are done, too.
    pub place: u64,
}

/// All cursors of what is written to one partition.
pub fn stored_cursors(view: &View) -> Result<Vec<StoredCursor>, ReadError> {
    let read = |columns: &[u8], value: &[u8]| {
        let mut reader = Reader::new(columns);
        let (target, source) = (reader.u64()?, reader.u64()?);
        let At { position, place } = At::decode(value)?;
        Ok(StoredCursor {
            target: u32::try_from(target)?,
            source: PartitionId(u16::try_from(source)?),
            history: reader.string()?.into_owned(),
            position,
            place,
        })
    };
    scan_all(view, &Key::new(RELAYS, &[], 1))
        .map(|row| read_row(&row?, WHAT, read))
        .collect()
}

/// The cursor of a partition that takes over from several which had these: everything that a source's log leads to in
/// them is written, so behind the farthest nothing leads to any of them.
#[must_use]
pub fn farthest(rows: &[Option<Bytes>]) -> Option<Bytes> {
    let at = |row: &&Bytes| At::decode(row).ok();
    rows.iter().flatten().max_by_key(at).cloned()
}

/// Removes the cursors that a partition has in logs of ended partitions: all that these logs lead to is written. What
/// fails is tried again at the next start or change of the partitions.
pub(super) async fn forget_ended(partitions: Partitions, destination: PartitionId) {
    let map = partitions.map();
    let ended = move |view: &View| -> Result<Vec<StoredCursor>, ReadError> {
        let mut cursors = stored_cursors(view)?;
        // A partition that was born since is not in the map, and needs its cursor.
        cursors.retain(|cursor| map.was(cursor.source) && !map.is_live(cursor.source));
        Ok(cursors)
    };
    let ended = partitions
        .read(destination, ended)
        .await
        .unwrap_or_default();
    if ended.is_empty() {
        return;
    }
    let bytes = ended.len() * KEY_BYTES;
    let forget = move |txn: &mut Txn<'_>| {
        for cursor in &ended {
            let key = CursorKey::all(cursor.target, cursor.source).string(&cursor.history);
            delete(txn, key);
        }
        Ok::<_, ReadError>(())
    };
    let _ = partitions
        .submit(Purpose::Derives, destination, bytes, forget)
        .await;
}

/// About what a key holds in the queue.
const KEY_BYTES: usize = 128;

/// The name of a cursor.
#[derive(Clone, Debug)]
pub(super) struct CursorKey {
    all: Key,
    own: Key,
}

impl CursorKey {
    pub(super) fn new(target: u32, source: PartitionId, history: HistoryId) -> CursorKey {
        let all = CursorKey::all(target, source);
        let own = all.clone().string(&history.to_string());
        CursorKey { all, own }
    }

    /// What the names of a target's cursors in a source's log begin with.
    fn all(target: u32, source: PartitionId) -> Key {
        let targets = Key::new(RELAYS, &[], 64).number(u64::from(target));
        targets.number(u64::from(source.0))
    }

    /// Looks into the destination.
    pub(super) fn find(&self, view: &View) -> Result<Found, ReadError> {
        if let Some(at) = self.load(view)? {
            return Ok(Found::Here(at));
        }
        let others = scan_all(view, &self.all).next();
        Ok(match others.transpose()? {
            Some(_) => Found::Elsewhere,
            None => Found::Nothing,
        })
    }

    pub(super) fn load(&self, rows: &impl Source) -> Result<Option<At>, ReadError> {
        load(rows, &self.own, WHAT, At::decode)
    }

    pub(super) fn store(&self, txn: &mut Txn<'_>, at: At) {
        let now = txn.now_ms().cast_signed();
        put(txn, self.own.clone(), at.encode(), now);
    }
}
