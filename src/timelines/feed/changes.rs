//! Following all changes of many timelines, or of a table, for a back end.
//!
//! Owns: a reader's place in each log, and whose turn it is. Promises: changes of one timeline and of one row come in
//! the order of their commits, each once; a reader that is slow costs nothing but its places: what it has not asked for
//! is in the logs. Must not: hold the logs; a named cursor does (`src/table/stream/cursors.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::select_all;
use tokio::time::{Instant, sleep_until};

use crate::timeline::{TimelineChange, Timelines};
use tideline_base::ids::{PartitionId, Position};
use tideline_model::{ChangeKind, ChangeRef, ChangeSink, ChangedCell, Error, KeyValue, Value};
use tideline_table::{
    FollowError, Followed, PageBounds, Place, Places, Scope, ShardId, TablePage, Tables, Tail,
    in_turn,
};

/// Where a reader begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At the first change that is kept.
    Start,
    /// Behind all that there is.
    Now,
    /// Where a reader was.
    At(Places),
}

/// A reader of changes.
pub struct ChangeReader {
    tables: Tables,
    timelines: Timelines,
    followed: Followed,
    places: Places,
    /// The partition whose log is read next, among those there are.
    turn: usize,
    /// When the logs were read to their ends last.
    read_at: Option<Instant>,
    /// It reads no further.
    end: Option<Places>,
    /// Bytes that the logs had come to when its place was last sent to the client.
    told_bytes: u64,
}

/// Changes that a reader gets together.
#[derive(Clone, Debug, PartialEq)]
pub enum Changes {
    /// Of timelines.
    Timelines(Vec<TimelineChange>),
    /// Of a table's rows.
    Rows(RowChanges),
}

/// Changes, and the reader's position behind them.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeGroup {
    /// In order, of one partition; perhaps none.
    pub changes: Changes,
    /// Where to go on.
    pub places: Places,
    /// The same as a text for clients.
    pub position: String,
    /// Whether there was more.
    pub is_more: bool,
}

/// Changes of rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowChanges(pub Vec<RowChange>);

/// A change of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct RowChange {
    /// What was done.
    pub kind: ChangeKind,
    /// When it was committed, µs since 1970.
    pub time_us: u64,
    /// The primary key, in the table's order.
    pub key: Vec<(String, Value)>,
    /// The cells that changed.
    pub cells: Vec<RowCell>,
    /// What the stream's original columns held before.
    pub original: Option<Vec<RowCell>>,
}

/// A cell of a change.
#[derive(Clone, Debug, PartialEq)]
pub struct RowCell {
    /// The column.
    pub name: String,
    /// `None` = of all versions.
    pub version: Option<i64>,
    /// `None` = deleted.
    pub value: Option<Value>,
}

/// While others write without end, their batches gather for so long; the first one after a rest is read at once.
const GATHER: Duration = Duration::from_millis(10);

/// A place that moves without a change is sent when so much was written: else a cursor would hold logs that it has
/// passed.
const TELL_BYTES: u64 = 1 << 20;

fn logged_bytes(tables: &Tables) -> u64 {
    tables.logs().iter().map(|(_, log)| log.bytes()).sum()
}

impl ChangeReader {
    /// A reader that begins there, or with a named cursor at its place. A cursor that is not there yet is made.
    pub async fn open(
        (tables, timelines): (&Tables, &Timelines),
        followed: Followed,
        begin: &Begin,
        cursor: Option<&str>,
    ) -> Result<ChangeReader, FollowError> {
        let first = tables.places(&followed, *begin == Begin::Now).await?;
        let mut places = match begin {
            Begin::Start | Begin::Now => first.clone(),
            Begin::At(places) => {
                tables.check_places(places)?;
                places.clone()
            }
        };
        if let Some(cursor) = cursor {
            places = tables.open_cursor(cursor, &followed, places).await?;
            tables.check_places(&places)?;
        }
        if places.scope != first.scope {
            // Of another table, or of an earlier stream of this one.
            return Err(match (&places.scope, cursor) {
                (Scope::Stream(_), Some(_)) => FollowError::PositionLost,
                _ => FollowError::WrongPosition,
            });
        }
        Ok(ChangeReader {
            tables: tables.clone(),
            timelines: timelines.clone(),
            followed,
            places,
            turn: 0,
            read_at: None,
            end: None,
            told_bytes: logged_bytes(tables),
        })
    }

    /// The same up to these places, or a little further.
    #[must_use]
    pub fn up_to(self, end: Places) -> ChangeReader {
        ChangeReader {
            end: Some(end),
            ..self
        }
    }

    /// Whether it has read to its end.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let stand = self.stand();
        let is_there = |(partition, log): &(PartitionId, Tail)| {
            stand.is_past(*partition, stand.place(*partition, log))
        };
        stand.logs.iter().all(is_there)
    }

    /// Whether so much was written since its place was last sent (some 1 MiB) that the logs should not be kept for it.
    #[must_use]
    pub fn has_moved(&self) -> bool {
        logged_bytes(&self.tables).saturating_sub(self.told_bytes) >= TELL_BYTES
    }

    /// Notes that its place is sent now.
    pub fn told(&mut self) {
        self.told_bytes = logged_bytes(&self.tables);
    }

    /// Where it is.
    #[must_use]
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// The same as a text for clients.
    #[must_use]
    pub fn position(&self) -> String {
        self.tables.position_text(&self.places)
    }

    /// Where it is in each log, as the partitions are now.
    fn stand(&self) -> Stand {
        let map = self.tables.map();
        let places = self.places.over(&map);
        Stand {
            logs: self.tables.logs(),
            in_turn: in_turn(&places, &map),
            end: self.end.as_ref().map(|end| end.over(&map)),
            places,
        }
    }

    /// Waits until a log is ahead of the reader, or the partitions change; never ends once all are closed. Cancel-safe.
    pub async fn news(&self) {
        if let Some(read_at) = self.read_at {
            sleep_until(read_at + GATHER).await;
        }
        let mut maps = self.tables.watch_partitions();
        // Waits without a hold on the partitions: nothing may come for hours, and some of them may end.
        let waits: Vec<_> = {
            let stand = self.stand();
            let wait = |(partition, log): &(PartitionId, Tail)| {
                let before = Position(stand.place(*partition, log).position.0 - 1);
                let past = log.past(before);
                Box::pin(async move {
                    if !past.await {
                        std::future::pending::<()>().await;
                    }
                })
            };
            stand.logs.iter().map(wait).collect()
        };
        tokio::select! {
            _ = select_all(waits) => {}
            // New partitions have logs of their own.
            Ok(()) = maps.changed() => {}
        }
    }

    /// What comes next; without changes if there is nothing.
    pub async fn read(&mut self, bounds: PageBounds) -> Result<ChangeGroup, FollowError> {
        let mut stand = self.stand();
        for step in 0..stand.logs.len() {
            let turn = (self.turn + step) % stand.logs.len();
            let (partition, log) = &stand.logs[turn];
            let place = stand.place(*partition, log);
            let is_read = place.position > log.position() || stand.is_past(*partition, place);
            if is_read || !stand.in_turn.contains(partition) {
                continue;
            }
            let (changes, next, is_more) = self.page(*partition, place, bounds).await?;
            self.places.set(*partition, next);
            if is_more || !changes.is_empty() {
                self.turn = turn + 1;
                return Ok(self.group(changes));
            }
            // The partition has perhaps ended here: then its children's logs may be read now.
            let logs = std::mem::take(&mut stand.logs);
            stand = Stand {
                logs,
                ..self.stand()
            };
        }
        // The next changes may be in a log that is no longer kept.
        self.tables.check_places(&self.places)?;
        self.read_at = Some(Instant::now());
        Ok(self.group(Changes::Timelines(Vec::new())))
    }

    async fn page(
        &self,
        partition: PartitionId,
        place: Place,
        bounds: PageBounds,
    ) -> Result<(Changes, Place, bool), FollowError> {
        match (&self.followed, &self.places.scope) {
            (Followed::Table(_), Scope::Stream(stream)) => {
                let history = self.places.history;
                let shard = ShardId { history, partition };
                let page = self.tables.changes((stream, shard), place, bounds).await;
                let page: TablePage<RowChanges> = match page {
                    Ok(page) => page,
                    // Gone with its stream.
                    Err(Error::StreamTrimmed) => {
                        self.tables.stream(stream).await?;
                        return Err(FollowError::PositionLost);
                    }
                    Err(error) => return Err(error.into()),
                };
                Ok((Changes::Rows(page.changes), page.next, page.is_more))
            }
            (Followed::Timelines(prefix), _) => {
                let of = &self.timelines;
                let page = of.changes(partition, place, prefix, bounds).await?;
                Ok((Changes::Timelines(page.changes), page.next, page.is_more))
            }
            (Followed::Table(_), Scope::Timelines) => Err(FollowError::WrongPosition),
        }
    }

    fn group(&mut self, changes: Changes) -> ChangeGroup {
        let map = self.tables.map();
        self.places = self.places.clone().settled(&map);
        let stand = self.stand();
        let is_behind = |(partition, log): &(PartitionId, Tail)| {
            stand.place(*partition, log).position <= log.position()
        };
        ChangeGroup {
            changes,
            places: self.places.clone(),
            position: self.position(),
            is_more: stand.logs.iter().any(is_behind),
        }
    }
}

/// Where a reader is in each log.
struct Stand {
    logs: Vec<(PartitionId, Tail)>,
    places: BTreeMap<PartitionId, Place>,
    /// Only the logs of these may be read now.
    in_turn: BTreeSet<PartitionId>,
    end: Option<BTreeMap<PartitionId, Place>>,
}

impl Stand {
    fn place(&self, partition: PartitionId, log: &Tail) -> Place {
        let known = self.places.get(&partition).copied();
        known.unwrap_or_else(|| Place::before(log.first()))
    }

    /// Whether a place is behind where the reader ends.
    fn is_past(&self, partition: PartitionId, place: Place) -> bool {
        let Some(end) = &self.end else {
            return false;
        };
        // A partition of which the end says nothing began after it.
        end.get(&partition).is_none_or(|end| place >= *end)
    }
}

impl Changes {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Changes::Timelines(changes) => changes.len(),
            Changes::Rows(changes) => changes.0.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ChangeSink for RowChanges {
    fn push(&mut self, change: ChangeRef<'_>) {
        let named = change.columns.iter().zip(change.key);
        let key = named.map(|(column, value)| (column.name.clone(), key_value(value)));
        let cell = |cell: &ChangedCell<'_>| match *cell {
            ChangedCell::Put(cell) => of_cell(&cell),
            ChangedCell::DeleteOne { name, version } => RowCell {
                name: name.to_owned(),
                version: Some(version),
                value: None,
            },
            ChangedCell::DeleteAll { name } => RowCell {
                name: name.to_owned(),
                version: None,
                value: None,
            },
        };
        self.0.push(RowChange {
            kind: change.kind,
            time_us: change.time_us,
            key: key.collect(),
            cells: change.cells.iter().map(cell).collect(),
            original: change
                .original
                .map(|cells| cells.iter().map(of_cell).collect()),
        });
    }
}

fn of_cell(cell: &tideline_model::Cell<'_>) -> RowCell {
    RowCell {
        name: cell.name.to_owned(),
        version: Some(cell.version),
        value: Some(cell.value.to_value()),
    }
}

/// Only values are stored in keys.
fn key_value(value: &KeyValue) -> Value {
    match value {
        KeyValue::Integer(number) => Value::Integer(*number),
        KeyValue::Binary(bytes) => Value::Binary(bytes.clone()),
        KeyValue::String(text) => Value::String(text.clone()),
        KeyValue::InfMin | KeyValue::InfMax | KeyValue::AutoIncrement => {
            Value::String(String::new())
        }
    }
}
