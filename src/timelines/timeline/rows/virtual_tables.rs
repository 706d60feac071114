//! Timelines as tables: what the protocol shows of messages and timelines, as rows of two virtual tables.
//!
//! Owns: the names of these tables and of their columns, and how ranges of them are walked. Promises: a row is made of
//! what `message.get` or `timeline.get` answers, so the two ways of reading never differ; messages of a timeline that
//! was deleted, or that were trimmed, are skipped without being looked at, however many there are. Must not: write.
//!
//! ```text
//! timeline_message  (timeline_id, sequence_id)  the entry's columns, MESSAGE_COLUMNS    version = the message's timestamp
//! timeline_meta     (timeline_id)               the meta's columns, META_COLUMNS        version = the meta's last update
//! ```
//! Our columns begin with `__`, which no client's column does; what is 0, empty or none is absent.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use tideline_base::ids::{PartitionId, TableId};
use tideline_model::access::Coverage;
use tideline_model::{
    ColumnType, DefinedColumn, Definition, Direction, KeyColumn, KeyType, KeyValue, TableOptions,
    Throughput, Value, ValueRef,
};
use tideline_table::{
    Batch, Key, ReadError, RowWriter, Table, Touched, View, VirtualRows, Walk, key_of,
};

use super::super::follow::touched;
use super::super::read::covered;
use super::super::read::page::Held;
use super::super::time::shown;
use super::super::write::edit::load_whole;
use super::super::{Message, TimelineInfo, Timelines};
use super::head::HeadRow;
use super::tables::{HEADS, MESSAGE_TABLE, MESSAGES, META_TABLE, METAS, Name, SEQUENCE_END};

const TIMELINE_ID: &str = "timeline_id";
const SEQUENCE_ID: &str = "sequence_id";

/// Beside the entry's, in the order of their names.
const MESSAGE_COLUMNS: [(&str, ColumnType); 18] = [
    ("__abandoned", ColumnType::Boolean),
    ("__change", ColumnType::Integer),
    ("__deleted", ColumnType::Boolean),
    ("__edited_at", ColumnType::Integer),
    ("__epoch", ColumnType::String),
    ("__expired", ColumnType::Boolean),
    ("__expires_at", ColumnType::Integer),
    ("__message_id", ColumnType::String),
    ("__open", ColumnType::Boolean),
    ("__outcome", ColumnType::String),
    ("__parts", ColumnType::Integer),
    ("__pinned", ColumnType::Boolean),
    ("__reactions", ColumnType::String),
    ("__reason", ColumnType::String),
    ("__recalled_by", ColumnType::String),
    ("__sender", ColumnType::String),
    ("__stopped_by", ColumnType::String),
    ("__timestamp", ColumnType::Integer),
];

/// Beside the meta's, in the order of their names.
const META_COLUMNS: [(&str, ColumnType); 8] = [
    ("__change_head", ColumnType::Integer),
    ("__created_at", ColumnType::Integer),
    ("__epoch", ColumnType::String),
    ("__floor", ColumnType::Integer),
    ("__head", ColumnType::Integer),
    ("__last_at", ColumnType::Integer),
    ("__updated_at", ColumnType::Integer),
    ("__version", ColumnType::Integer),
];

/// What all names of our columns begin with.
const OURS: &str = "__";

impl Timelines {
    /// The virtual tables that show the timelines.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        let all = Coverage::everything();
        let messages = Arc::new(MessageTable(self.clone(), all.clone()));
        let metas = Arc::new(MetaTable(self.clone(), all));
        vec![message_table(messages), meta_table(metas)]
    }

    /// A virtual table with only the timelines that are covered, or `None`. What an inbox names, its entries decide.
    #[must_use]
    pub fn covered(&self, table: &Table, coverage: Coverage) -> Option<Table> {
        let coverage = coverage.of_users();
        let rows: Arc<dyn VirtualRows> = match table.id {
            MESSAGES => Arc::new(MessageTable(self.clone(), coverage)),
            METAS => Arc::new(MetaTable(self.clone(), coverage)),
            _ => return None,
        };
        Some(Table::with_virtual_rows(table.definition.clone(), rows))
    }
}

pub(super) fn message_table(rows: Arc<dyn VirtualRows>) -> Table {
    let key = [
        (TIMELINE_ID, KeyType::String),
        (SEQUENCE_ID, KeyType::Integer),
    ];
    table((MESSAGES, MESSAGE_TABLE), &key, &MESSAGE_COLUMNS, rows)
}

pub(super) fn meta_table(rows: Arc<dyn VirtualRows>) -> Table {
    let text = (TIMELINE_ID, KeyType::String);
    table((METAS, META_TABLE), &[text], &META_COLUMNS, rows)
}

fn table(
    (id, name): (TableId, &str),
    key: &[(&str, KeyType)],
    columns: &[(&str, ColumnType)],
    rows: Arc<dyn VirtualRows>,
) -> Table {
    let key_column = |&(name, kind): &(&str, KeyType)| KeyColumn {
        name: name.to_owned(),
        kind,
        auto_increment: false,
    };
    let column = |&(name, kind): &(&str, ColumnType)| DefinedColumn {
        name: name.to_owned(),
        kind,
    };
    let definition = Definition {
        id,
        name: name.to_owned(),
        primary_key: key.iter().map(key_column).collect(),
        defined_columns: columns.iter().map(column).collect(),
        indexes: Vec::new(),
        search_indexes: Vec::new(),
        mappings: Vec::new(),
        series: None,
        options: TableOptions::default(),
        reserved: Throughput::default(),
        created_us: 0,
        increased_us: 0,
        decreased_us: 0,
        stream: None,
        local_transactions: false,
    };
    Table::with_virtual_rows(definition, rows)
}

/// Messages that can be read, tombstones too.
struct MessageTable(Timelines, Coverage);

impl VirtualRows for MessageTable {
    fn place(&self, partition_key: &KeyValue) -> PartitionId {
        self.0.place(text(partition_key))
    }

    fn row(&self, view: &View, key: &[KeyValue]) -> Result<Option<Bytes>, ReadError> {
        let timeline = text(&key[0]);
        let (name, sequence) = (Name::new(timeline), first_from(key));
        let head = HeadRow::existing(view, &name)?;
        let is_seen = |head: &HeadRow| head.holds(sequence) && self.1.has(timeline.as_bytes());
        let Some(head) = head.filter(is_seen) else {
            return Ok(None);
        };
        let message = shown(load_whole(view, &name, &head, sequence)?, self.0.time());
        Ok(Some(message_row(&message, &self.epoch(timeline, &head))))
    }

    fn rows<'v>(
        &'v self,
        view: &'v View,
        low: &[KeyValue],
        high: &[KeyValue],
        direction: Direction,
    ) -> Walk<'v> {
        let bounds = (low.to_vec(), high.to_vec());
        // The timelines that the bounds name may have messages within.
        let (from, to) = (key_of(HEADS, &low[..1]), key_of(HEADS, &high[..1]));
        let heads = covered::heads(view, &self.1, (from, to.above_all()), direction);
        Box::new(heads.flat_map(move |row| {
            let walk = row
                .and_then(|row| HeadRow::named(&row))
                .map(|(timeline, head)| {
                    let asked = sequences(&timeline, &bounds);
                    self.messages(view, &timeline, &head, asked, direction)
                });
            walk.unwrap_or_else(|error| Box::new(iter::once(Err(error))))
        }))
    }

    fn touched(&self, batch: &Batch) -> Result<Vec<Touched>, ReadError> {
        touched::messages(batch)
    }
}

impl MessageTable {
    fn epoch(&self, timeline: &str, head: &HeadRow) -> String {
        self.0.inner.epochs.text(timeline, head.incarnation)
    }

    /// The asked messages of one timeline; if it holds none of them, only a place.
    fn messages<'v>(
        &'v self,
        view: &'v View,
        timeline: &str,
        head: &HeadRow,
        asked: Range<u64>,
        direction: Direction,
    ) -> Walk<'v> {
        let name = Name::new(timeline);
        let key = |name: &Name, sequence| {
            let key = Key::new(MESSAGES, name.as_bytes(), 9).number(sequence);
            Bytes::from(key.into_bytes())
        };
        // A timeline that was deleted has none.
        let held = asked.start.max(head.floor)..asked.end.min(head.last + 1);
        if !held.is_empty() {
            let epoch = self.epoch(timeline, head);
            let held = Held::new(view, (&name, head), held, direction, None);
            return Box::new(held.map(move |message| {
                let message = shown(message?, self.0.time());
                let row = message_row(&message, &epoch);
                Ok((key(&name, message.sequence), Some(row)))
            }));
        }
        // One place will do for both ways: it lies in the range, and is the only one of its timeline.
        let first = asked.take(1);
        Box::new(first.map(move |first| Ok((key(&name, first), None))))
    }
}

/// Timelines that exist.
struct MetaTable(Timelines, Coverage);

impl VirtualRows for MetaTable {
    fn place(&self, partition_key: &KeyValue) -> PartitionId {
        self.0.place(text(partition_key))
    }

    fn row(&self, view: &View, key: &[KeyValue]) -> Result<Option<Bytes>, ReadError> {
        let timeline = text(&key[0]);
        let head = HeadRow::load(view, &Name::new(timeline))?;
        let head = head.filter(|_| self.1.has(timeline.as_bytes()));
        head.map_or(Ok(None), |head| self.meta(view, timeline, &head))
    }

    fn rows<'v>(
        &'v self,
        view: &'v View,
        low: &[KeyValue],
        high: &[KeyValue],
        direction: Direction,
    ) -> Walk<'v> {
        let bounds = (key_of(HEADS, low), key_of(HEADS, high));
        let heads = covered::heads(view, &self.1, bounds, direction);
        Box::new(heads.map(move |row| {
            let (timeline, head) = HeadRow::named(&row?)?;
            let key = Key::new(METAS, Name::new(&timeline).as_bytes(), 0);
            let row = self.meta(view, &timeline, &head)?;
            Ok((key.into_bytes().into(), row))
        }))
    }

    fn touched(&self, batch: &Batch) -> Result<Vec<Touched>, ReadError> {
        touched::metas(batch)
    }

    fn told(&self, batch: &Batch) -> Result<Vec<String>, ReadError> {
        touched::told(batch)
    }
}

impl MetaTable {
    fn meta(
        &self,
        view: &View,
        timeline: &str,
        head: &HeadRow,
    ) -> Result<Option<Bytes>, ReadError> {
        if head.dropped {
            return Ok(None);
        }
        let site = self.0.site(self.0.place(timeline));
        let info = site.info(view, timeline.to_owned(), head)?;
        Ok(Some(meta_row(&info)))
    }
}

/// The asked sequences of one timeline.
fn sequences(timeline: &str, (low, high): &(Vec<KeyValue>, Vec<KeyValue>)) -> Range<u64> {
    let of_timeline = |bound: &[KeyValue]| match &bound[0] {
        KeyValue::String(name) if name == timeline => Some(first_from(bound)),
        _ => None,
    };
    of_timeline(low).unwrap_or(0)..of_timeline(high).unwrap_or(SEQUENCE_END)
}

/// The first sequence that is not below a key or bound.
fn first_from(key: &[KeyValue]) -> u64 {
    let behind = u64::from(key.len() > 2);
    match key[1] {
        KeyValue::InfMin => 0,
        KeyValue::Integer(number) => u64::try_from(number)
            .map_or(0, |number| number + behind)
            .min(SEQUENCE_END),
        KeyValue::InfMax => SEQUENCE_END,
        _ => unreachable!("checked against the schema"),
    }
}

fn text(value: &KeyValue) -> &str {
    match value {
        KeyValue::String(text) => text,
        _ => unreachable!("checked against the schema"),
    }
}

pub(super) fn message_row(message: &Message, epoch: &str) -> Bytes {
    let Message {
        sequence: _,
        traceparent: _,
        timestamp,
        message_id,
        sender,
        entry,
        hidden: _,
        deleted,
        recalled_by,
        reason,
        expired,
        change,
        edited_at,
        pinned,
        reactions,
        expires_at,
        open,
        parts,
        outcome,
        stopped_by,
        abandoned,
    } = message;
    let reactions = reactions.as_ref().filter(|all| !all.by_name.is_empty());
    let reactions = reactions.map(|all| all.json_text());
    let ours = [
        abandoned.then_some(ValueRef::Boolean(true)),
        (*change > 0).then(|| (*change).into()),
        deleted.then_some(ValueRef::Boolean(true)),
        edited_at.map(ValueRef::from),
        Some(ValueRef::String(epoch)),
        expired.then_some(ValueRef::Boolean(true)),
        expires_at.map(ValueRef::from),
        Some(ValueRef::String(message_id)),
        open.as_ref().map(|_| ValueRef::Boolean(true)),
        outcome.map(|outcome| ValueRef::String(outcome.name())),
        parts.map(ValueRef::from),
        pinned.then_some(ValueRef::Boolean(true)),
        reactions.as_deref().map(ValueRef::String),
        reason.as_deref().map(ValueRef::String),
        recalled_by.as_deref().map(ValueRef::String),
        (!sender.is_empty()).then_some(ValueRef::String(sender)),
        stopped_by.as_deref().map(ValueRef::String),
        Some((*timestamp).into()),
    ];
    let entry = entry.as_deref().unwrap_or_default();
    row(entry, MESSAGE_COLUMNS.iter().zip(ours), *timestamp)
}

pub(super) fn meta_row(info: &TimelineInfo) -> Bytes {
    let ours = [
        Some(info.change_head.into()),
        Some(info.created_at.into()),
        Some(ValueRef::String(&info.epoch)),
        Some(info.floor.into()),
        Some(info.head.into()),
        info.last_at.map(ValueRef::from),
        Some(info.updated_at.into()),
        Some(info.version.into()),
    ];
    row(&info.meta, META_COLUMNS.iter().zip(ours), info.updated_at)
}

/// A client's columns and ours as a row, all of one version.
fn row<'r>(
    columns: &[(String, Value)],
    ours: impl Iterator<Item = (&'r (&'static str, ColumnType), Option<ValueRef<'r>>)>,
    version: u64,
) -> Bytes {
    let mut row = RowWriter::new(256);
    let ours_from = columns.partition_point(|(name, _)| name.as_str() < OURS);
    let (before, behind) = columns.split_at(ours_from);
    row.put_all(before);
    for ((name, _), value) in ours {
        if let Some(value) = value {
            row.put(name, value);
        }
    }
    row.put_all(behind);
    row.finish(version.cast_signed()).into()
}
