//! Named cursors: how far readers of changes are, kept by the server.
//!
//! Owns: their rows, which are placed by their names. Promises: a cursor is of one source for its life and moves
//! forward only, unless its owner asks for another place; what lies behind it is kept in the logs, as long as that
//! takes no more than it may (`hold.rs`). Must not: read a change.
//!
//! ```text
//! 49 cursors  (name)   $position, $prefix (of timelines) or $table         version = when it was set last
//! ```

use tideline_base::ids::{PartitionId, TableId};
use tideline_base::ordered::Reader;
use tideline_model::{Error, ValueRef};
use tideline_store::partition::{Purpose, ReadError, SubmitError, Tail, Txn, View};

use super::super::access::{load, put, read_row, scan_all};
use super::super::format::key::Key;
use super::super::format::row::{Row, RowWriter};
use super::super::tables::Tables;
use super::super::{Malformed, access};
use super::places::Place;
use super::places::{Places, Scope};
use super::stream_of;

pub(in super::super) const CURSORS: TableId = TableId(49);
/// What webhooks could not deliver (`src/gateway/webhook/dead.rs`); a row's partition follows from the webhook's name.
pub const DEAD_LETTERS: TableId = TableId(50);

/// What the names of webhooks' cursors begin with.
pub const WEBHOOK: &str = "$webhook/";
/// The cursor that keeps the log for a webhook's dead letters is named `$webhook/NAME/dead`.
pub const DEAD: &str = "/dead";

/// There may be about so many: a list of them, or a look at what they hold of the logs, reads all.
const CURSORS_MAX: usize = 1_000;

const POSITION: &str = "$position";
const PREFIX: &str = "$prefix";
const TABLE: &str = "$table";
const WHAT: &str = "not a cursor";

/// Whose changes somebody follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// Those of the timelines whose IDs begin so; never of the server's own.
    Timelines(String),
    /// Those of the table of this name.
    Table(String),
}

/// A named cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Its name.
    pub name: String,
    /// Whose changes it is in.
    pub followed: Followed,
    /// Where.
    pub places: Places,
    /// When it was set last, ms.
    pub committed_at: u64,
}

/// Why changes can't be followed, or a cursor not be moved.
#[derive(Clone, Debug)]
pub enum FollowError {
    /// There is no such table.
    TableNotFound,
    /// The table has no stream.
    NoStream,
    /// No text that was given out for these changes.
    WrongPosition,
    /// The log has let go of what follows the position, or it was of another history.
    PositionLost,
    /// There is no such cursor.
    CursorNotFound,
    /// The cursor is in other changes.
    CursorOfOthers,
    /// There may be so many cursors.
    TooManyCursors(usize),
    /// The tables can't do it.
    Store(Error),
}

impl Tables {
    /// A cursor's place. One that is not there yet is made at `begin`.
    pub async fn open_cursor(
        &self,
        name: &str,
        followed: &Followed,
        begin: Places,
    ) -> Result<Places, FollowError> {
        let _streams = self.begin_streams().await;
        self.hold_for_now();
        let (cursor, partition) = (name.to_owned(), self.place_of_cursor(name));
        let known = self
            .partitions()
            .read(partition, move |view| load_cursor(view, &cursor));
        if let Some(known) = known.await? {
            return known.of(followed);
        }
        let count = self.all_cursors().await?.len();
        if count >= CURSORS_MAX {
            return Err(FollowError::TooManyCursors(CURSORS_MAX));
        }
        let (name, followed) = (name.to_owned(), followed.clone());
        let make = move |txn: &mut Txn<'_>| match load_cursor(txn, &name)? {
            Some(known) => known.of(&followed),
            None => {
                let now = txn.now_ms().cast_signed();
                store(txn, &name, &followed, (&begin, now));
                Ok(begin)
            }
        };
        let made = self
            .partitions()
            .submit(Purpose::Adds, partition, CURSOR_BYTES, make);
        Ok(made.await?)
    }

    /// Moves a cursor forward, with `force` also back; whether it moved.
    pub async fn commit_cursor(
        &self,
        name: &str,
        to: Places,
        force: bool,
    ) -> Result<bool, FollowError> {
        self.check_places(&to)?;
        let (partition, name) = (self.place_of_cursor(name), name.to_owned());
        let map = self.partitions().map();
        let commit = move |txn: &mut Txn<'_>| {
            let known = load_cursor(txn, &name)?.ok_or(FollowError::CursorNotFound)?;
            // Of another stream of the same table it may be: that one ended.
            let is_other_stream = force && matches!(to.scope, Scope::Stream(_));
            if known.places.scope != to.scope && !is_other_stream {
                return Err(FollowError::WrongPosition);
            }
            let to = match force || known.places.history != to.history {
                true => to,
                false => to.further(&known.places, &map),
            };
            let moved = to != known.places;
            if moved {
                let now = txn.now_ms().cast_signed();
                store(txn, &name, &known.followed, (&to, now));
            }
            Ok(moved)
        };
        let committed = self
            .partitions()
            .submit(Purpose::LetsGo, partition, CURSOR_BYTES, commit);
        Ok(committed.await?)
    }

    /// Moves a cursor over others' commits, unless it has moved meanwhile. When its reader set it last stays as it was.
    pub(super) async fn carry_cursor(
        &self,
        cursor: &Cursor,
        to: Places,
    ) -> Result<(), FollowError> {
        let (partition, was) = (self.place_of_cursor(&cursor.name), cursor.clone());
        let carry = move |txn: &mut Txn<'_>| {
            if load_cursor(txn, &was.name)?.as_ref() == Some(&was) {
                let at = was.committed_at.cast_signed();
                store(txn, &was.name, &was.followed, (&to, at));
            }
            Ok::<_, FollowError>(())
        };
        let carried = self
            .partitions()
            .submit(Purpose::LetsGo, partition, CURSOR_BYTES, carry);
        Ok(carried.await?)
    }

    /// Forgets a cursor; whether there was one.
    pub async fn forget_cursor(&self, name: &str) -> Result<bool, FollowError> {
        let (partition, name) = (self.place_of_cursor(name), name.to_owned());
        let forget = move |txn: &mut Txn<'_>| {
            let known = load_cursor(txn, &name)?.is_some();
            if known {
                access::delete(txn, key(&name));
            }
            Ok::<_, FollowError>(known)
        };
        let forgotten =
            self.partitions()
                .submit(Purpose::MakesRoom, partition, CURSOR_BYTES, forget);
        Ok(forgotten.await?)
    }

    /// All cursors, by name.
    pub async fn all_cursors(&self) -> Result<Vec<Cursor>, Error> {
        let mut all = Vec::new();
        for partition in self.partitions().ids() {
            all.extend(self.partitions().read(partition, cursors).await?);
        }
        all.sort_unstable_by(|a: &Cursor, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// The first places that are kept, or with `now` those behind all that is there. Of a table: in its stream.
    pub async fn places(&self, followed: &Followed, now: bool) -> Result<Places, FollowError> {
        let (scope, stream) = match followed {
            Followed::Timelines(_) => (Scope::Timelines, None),
            Followed::Table(name) => {
                let found = self.describe(name).await;
                let table = found.map_err(|error| match error {
                    Error::TableNotFound => FollowError::TableNotFound,
                    other => FollowError::Store(other),
                })?;
                let stream = stream_of(&table).ok_or(FollowError::NoStream)?;
                (Scope::Stream(stream.id.clone()), Some(table))
            }
        };
        let place = |(partition, tail): (PartitionId, Tail)| {
            let shard = super::ShardId {
                history: self.partitions().history(),
                partition,
            };
            let position = match (now, &stream) {
                (true, _) => Some(tail.position().next()),
                (false, None) => Some(tail.first()),
                (false, Some(table)) => self.begin(table, shard),
            };
            // The log ended before the stream began: nothing of it is to be read.
            let none = tail.position().next();
            (partition, Place::before(position.unwrap_or(none)))
        };
        let places = self.logs().into_iter().map(place);
        Ok(Places::new(self.partitions().history(), scope, places))
    }

    /// Refuses places that nobody was given here, and those whose log is gone.
    pub fn check_places(&self, places: &Places) -> Result<(), FollowError> {
        if places.history != self.partitions().history() {
            return Err(FollowError::PositionLost);
        }
        let map = self.partitions().map();
        for (partition, place) in places.over(&map) {
            let Some(tail) = self.partitions().log(partition) else {
                let ends = map.share(partition).and_then(|share| share.ends);
                match ends.is_some_and(|ends| place.position > ends) {
                    true => continue,
                    false if map.was(partition) => return Err(FollowError::PositionLost),
                    false => return Err(FollowError::WrongPosition),
                }
            };
            if place.position > tail.position().next() {
                return Err(FollowError::WrongPosition);
            }
            if place.position < tail.first() {
                return Err(FollowError::PositionLost);
            }
        }
        Ok(())
    }

    fn place_of_cursor(&self, name: &str) -> PartitionId {
        self.partitions().place(name.as_bytes())
    }
}

impl Cursor {
    /// Whether it is no reader's, but holds the log from the first of a webhook's dead letters on.
    pub(super) fn is_held(&self) -> bool {
        self.name.starts_with(WEBHOOK) && self.name.ends_with(DEAD)
    }

    fn of(self, followed: &Followed) -> Result<Places, FollowError> {
        match self.followed == *followed {
            true => Ok(self.places),
            false => Err(FollowError::CursorOfOthers),
        }
    }
}

fn key(name: &str) -> Key {
    Key::new(CURSORS, &[], name.len() + 4).string(name)
}

/// The cursors that lie in a partition.
fn cursors(view: &View) -> Result<Vec<Cursor>, ReadError> {
    let read = |columns: &[u8], value: &[u8]| {
        let name = Reader::new(columns).string()?;
        decode(name.into_owned(), value)
    };
    scan_all(view, &Key::new(CURSORS, &[], 1))
        .map(|row| read_row(&row?, WHAT, read))
        .collect()
}

fn load_cursor(rows: &impl access::Source, name: &str) -> Result<Option<Cursor>, ReadError> {
    load(rows, &key(name), WHAT, |value| {
        decode(name.to_owned(), value)
    })
}

fn store(txn: &mut Txn<'_>, name: &str, followed: &Followed, (places, at): (&Places, i64)) {
    let mut row = RowWriter::new(CURSOR_BYTES);
    row.put(POSITION, ValueRef::String(&places.to_string()));
    match followed {
        Followed::Timelines(prefix) => row.put(PREFIX, ValueRef::String(prefix)),
        Followed::Table(table) => row.put(TABLE, ValueRef::String(table)),
    }
    put(txn, key(name), row, at);
}

fn decode(name: String, value: &[u8]) -> Result<Cursor, Malformed> {
    let row = Row::parse(value)?;
    let (mut places, mut followed) = (None, None);
    for cell in row.columns() {
        let cell = cell?;
        let ValueRef::String(text) = cell.value else {
            return Err(Malformed);
        };
        match cell.name {
            POSITION => places = Places::parse(text),
            PREFIX => followed = Some(Followed::Timelines(text.to_owned())),
            TABLE => followed = Some(Followed::Table(text.to_owned())),
            _ => return Err(Malformed),
        }
    }
    Ok(Cursor {
        name,
        followed: followed.ok_or(Malformed)?,
        places: places.ok_or(Malformed)?,
        committed_at: row.base().cast_unsigned(),
    })
}

/// About what a call on a cursor holds in the queue.
const CURSOR_BYTES: usize = 1_024;

impl From<Error> for FollowError {
    fn from(error: Error) -> FollowError {
        match error {
            Error::StreamTrimmed => FollowError::PositionLost,
            Error::StreamNotFound => FollowError::NoStream,
            error => FollowError::Store(error),
        }
    }
}

impl From<ReadError> for FollowError {
    fn from(error: ReadError) -> FollowError {
        FollowError::Store(error.into())
    }
}

impl From<SubmitError<FollowError>> for FollowError {
    fn from(error: SubmitError<FollowError>) -> FollowError {
        match error {
            SubmitError::Rejected(error) => error,
            SubmitError::TooLarge { .. } => FollowError::Store(Error::Internal),
            SubmitError::Failed(error) => FollowError::Store(error.into()),
        }
    }
}
