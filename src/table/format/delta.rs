//! Deltas: changes of some cells of a row, and how they compose.
//!
//! Owns: the delta format and composition. Promises: composing is associative down to the bytes, because a delta has
//! one normal form: per column either "all gone" and then only puts, or puts and single deletions, each version once.
//! Existence is explicit: only a put makes a row, and a row stays when its last column goes. Must not: know versions to
//! keep, expiry, or tables.
//!
//! ```text
//! delta = 02, flags, base version (8 bytes), cells        flags: 01 it makes the row if there is none
//! ```

use std::cmp::Ordering;

use bytes::Bytes;

use super::super::Malformed;
use super::cell::{Cells, Content, push_cell};
use super::row::{EXISTS, HEADER_BYTES, ROW, push_header, split_header};
use tideline_base::entry::EntryKind;
use tideline_model::ValueRef;
use tideline_store::partition::Entry;

/// First byte of a delta.
pub(in super::super) const DELTA: u8 = 2;

/// Collects changes of a row's cells; they count in the order in which they are added.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct DeltaWriter<'a> {
    changes: Vec<(&'a str, i64, Content<'a>)>,
}

impl<'a> DeltaWriter<'a> {
    /// Puts a version of a column; makes the row if there is none.
    pub(in super::super) fn put(&mut self, name: &'a str, version: i64, value: ValueRef<'a>) {
        self.changes.push((name, version, Content::Put(value)));
    }

    /// Deletes one version of a column, if it is there.
    pub(in super::super) fn delete_one(&mut self, name: &'a str, version: i64) {
        self.changes.push((name, version, Content::DeleteOne));
    }

    /// Deletes all versions of a column.
    pub(in super::super) fn delete_all(&mut self, name: &'a str) {
        self.changes.push((name, 0, Content::DeleteAll));
    }

    /// The delta's bytes, in normal form.
    pub(in super::super) fn finish(mut self) -> Vec<u8> {
        self.changes.sort_by_key(|(name, ..)| *name); // stable: within a column the order of the calls counts
        let mut exists = false;
        let mut columns: Vec<Column<'_>> = Vec::new();
        for (name, version, change) in self.changes {
            let mut one = Column::new(name);
            match change {
                Content::Put(value) => {
                    exists = true;
                    one.cells.push((version, Some(value)));
                }
                Content::DeleteOne => one.cells.push((version, None)),
                Content::DeleteAll => one.cleared = true,
            }
            match columns.pop() {
                Some(last) if last.name == name => columns.push(last.then(one)),
                Some(last) => columns.extend([last, one]),
                None => columns.push(one),
            }
        }
        let all = Changes { exists, columns };
        all.encode(DELTA)
    }
}

/// Composes `newer`, a delta, with the entry right below it; see [`tideline_store::partition::Rules::compose`]. What
/// can't be read is left as it is, for the read that meets it to report.
pub(in super::super) fn compose(older: &Entry, newer: &Entry) -> Entry {
    let Ok(changes) = Changes::decode(&newer.value, DELTA) else {
        return older.clone();
    };
    let (kind, format, below) = match older.kind {
        EntryKind::Put => (EntryKind::Put, ROW, Changes::decode(&older.value, ROW)),
        EntryKind::Delta => (
            EntryKind::Delta,
            DELTA,
            Changes::decode(&older.value, DELTA),
        ),
        EntryKind::Tombstone if changes.exists => (EntryKind::Put, ROW, Ok(Changes::default())),
        EntryKind::Tombstone => return older.clone(),
    };
    let Ok(below) = below else {
        return older.clone();
    };
    let mut whole = below.then(changes);
    if format == ROW {
        whole.settle();
    }
    Entry {
        kind,
        value: Bytes::from(whole.encode(format)),
    }
}

/// A row or delta with the columns `wanted` only, which are in order; `None` = it can't be read.
pub(in super::super) fn narrow(entry: &Entry, wanted: &[&str]) -> Option<Entry> {
    let format = format_of(entry.kind)?;
    let (flags, base, cells) = split_header(&entry.value, format).ok()?;
    let mut cells = Cells::new(cells, base);
    let mut out = Vec::with_capacity(HEADER_BYTES + 64);
    push_header(&mut out, format, flags, base);
    for name in wanted {
        let mut next = cells.seek(name).ok()?;
        let mut first = Some(*name);
        while let Some(cell) = next.filter(|cell| cell.name == *name) {
            let own = (cell.version != base).then(|| cell.version.abs_diff(base));
            push_cell(&mut out, first.take(), own, cell.content);
            // What comes behind the column is looked at again: it may be the next one that is wanted.
            let before = cells.clone();
            next = cells.next_cell().ok()?;
            if next.as_ref().is_some_and(|cell| cell.name != *name) {
                cells = before;
                break;
            }
        }
    }
    Some(Entry {
        kind: entry.kind,
        value: out.into(),
    })
}

/// The cells of a row or delta.
pub(in super::super) fn cells_of(value: &[u8]) -> Result<Cells<'_>, Malformed> {
    let format = value
        .first()
        .copied()
        .filter(|format| [ROW, DELTA].contains(format));
    let (_, base, cells) = split_header(value, format.ok_or(Malformed)?)?;
    Ok(Cells::new(cells, base))
}

/// The first byte of such an entry.
fn format_of(kind: EntryKind) -> Option<u8> {
    match kind {
        EntryKind::Put => Some(ROW),
        EntryKind::Delta => Some(DELTA),
        EntryKind::Tombstone => None,
    }
}

/// The lowest and the highest version of the cells of a row or delta; `None` = there are none, or they can't be read.
pub(in super::super) fn span(entry: &Entry) -> Option<(i64, i64)> {
    let format = format_of(entry.kind)?;
    let (_, base, cells) = split_header(&entry.value, format).ok()?;
    let mut cells = Cells::new(cells, base);
    let mut span = None;
    while let Some(cell) = cells.next_cell().ok()? {
        if cell.content != Content::DeleteAll {
            let (lowest, highest) = span.unwrap_or((cell.version, cell.version));
            span = Some((cell.version.min(lowest), cell.version.max(highest)));
        }
    }
    span
}

/// Changes in normal form; a row is changes without deletions.
#[derive(Default)]
struct Changes<'a> {
    exists: bool,
    /// In the order of their names.
    columns: Vec<Column<'a>>,
}

/// The changes of one column.
struct Column<'a> {
    name: &'a str,
    /// Nothing older shows through.
    cleared: bool,
    /// Newest first, each version once; `None` = deleted (never, if `cleared`).
    cells: Vec<(i64, Option<ValueRef<'a>>)>,
}

impl<'a> Changes<'a> {
    fn decode(value: &'a [u8], format: u8) -> Result<Changes<'a>, Malformed> {
        let (flags, base, cells) = split_header(value, format)?;
        let mut cells = Cells::new(cells, base);
        let mut columns: Vec<Column<'a>> = Vec::new();
        while let Some(cell) = cells.next_cell()? {
            if columns.last().is_none_or(|column| column.name != cell.name) {
                if columns.last().is_some_and(|column| column.name > cell.name) {
                    return Err(Malformed);
                }
                columns.push(Column::new(cell.name));
            }
            let column = columns.last_mut().ok_or(Malformed)?;
            let is_falling = column.cells.last().is_none_or(|last| last.0 > cell.version);
            match cell.content {
                Content::Put(value) if is_falling => column.cells.push((cell.version, Some(value))),
                Content::DeleteOne if is_falling && format == DELTA && !column.cleared => {
                    column.cells.push((cell.version, None));
                }
                Content::DeleteAll
                    if format == DELTA && !column.cleared && column.cells.is_empty() =>
                {
                    column.cleared = true;
                }
                _ => return Err(Malformed),
            }
        }
        Ok(Changes {
            exists: flags & EXISTS != 0,
            columns,
        })
    }

    /// These changes and `newer` after them, as one.
    fn then(self, newer: Changes<'a>) -> Changes<'a> {
        let mut columns = Vec::with_capacity(self.columns.len() + newer.columns.len());
        let mut below = self.columns.into_iter().peekable();
        let mut above = newer.columns.into_iter().peekable();
        loop {
            let order = match (below.peek(), above.peek()) {
                (Some(older), Some(newer)) => older.name.cmp(newer.name),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            if order == Ordering::Greater {
                columns.extend(above.next());
                continue;
            }
            let newer = above.next_if(|_| order == Ordering::Equal);
            columns.extend(below.next().map(|older| match newer {
                Some(newer) => older.then(newer),
                None => older,
            }));
        }
        Changes {
            exists: self.exists || newer.exists,
            columns,
        }
    }

    /// Nothing is older: deletions have done their work.
    fn settle(&mut self) {
        self.exists = true;
        for column in &mut self.columns {
            column.cleared = false;
            column.cells.retain(|(_, value)| value.is_some());
        }
        self.columns.retain(|column| !column.cells.is_empty());
    }

    fn encode(&self, format: u8) -> Vec<u8> {
        let cells = self.columns.iter().flat_map(|column| &column.cells);
        let base = cells
            .clone()
            .map(|(version, _)| *version)
            .min()
            .unwrap_or(0);
        let bytes: usize = cells
            .map(|(_, value)| 12 + value.map_or(0, ValueRef::cell_bytes_about))
            .sum();
        let names: usize = self
            .columns
            .iter()
            .map(|column| column.name.len() + 4)
            .sum();
        let mut out = Vec::with_capacity(HEADER_BYTES + bytes + names);
        push_header(&mut out, format, if self.exists { EXISTS } else { 0 }, base);
        for column in &self.columns {
            let mut name = Some(column.name);
            if column.cleared {
                push_cell(&mut out, name.take(), None, Content::DeleteAll);
            }
            for (version, value) in &column.cells {
                let own = (*version != base).then(|| version.abs_diff(base));
                let content = value.map_or(Content::DeleteOne, Content::Put);
                push_cell(&mut out, name.take(), own, content);
            }
        }
        out
    }
}

impl<'a> Column<'a> {
    fn new(name: &'a str) -> Column<'a> {
        Column {
            name,
            cleared: false,
            cells: Vec::new(),
        }
    }

    /// These changes and `newer`, of the same column, after them.
    fn then(mut self, newer: Column<'a>) -> Column<'a> {
        if newer.cleared {
            return newer;
        }
        // Changes that come one after the other, newest first, are not to be copied for each of them.
        let (last, next) = (self.cells.last(), newer.cells.first());
        if next.is_some_and(|next| last.is_none_or(|last| last.0 > next.0)) {
            let cleared = self.cleared;
            let shown = |(_, value): &(i64, Option<ValueRef<'a>>)| value.is_some() || !cleared;
            self.cells.extend(newer.cells.into_iter().filter(shown));
            return self;
        }
        let mut cells = Vec::with_capacity(self.cells.len() + newer.cells.len());
        let mut below = self.cells.into_iter().peekable();
        for (version, value) in newer.cells {
            while let Some(older) = below.next_if(|older| older.0 > version) {
                cells.push(older);
            }
            below.next_if(|older| older.0 == version);
            if value.is_some() || !self.cleared {
                cells.push((version, value));
            }
        }
        cells.extend(below);
        Column {
            name: self.name,
            cleared: self.cleared,
            cells,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::Row;
    use tideline_model::{Value, arbitrary};

    #[derive(Clone, Debug)]
    enum Step {
        Put(String, i64, Value),
        DeleteOne(String, i64),
        DeleteAll(String),
    }

    /// (column, version negated) -> value; `None` = no row.
    type Model = Option<BTreeMap<(String, i64), Value>>;

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let name = prop_oneof!["[ab]", "c{1,3}"];
        let step = prop_oneof![
            3 => (name.clone(), -3i64..4, arbitrary::value()).prop_map(|(n, v, x)| Step::Put(n, v, x)),
            2 => (name.clone(), -3i64..4).prop_map(|(n, v)| Step::DeleteOne(n, v)),
            1 => name.prop_map(Step::DeleteAll),
        ];
        proptest::collection::vec(step, 0..8)
    }

    fn delta(steps: &[Step]) -> Entry {
        let mut writer = DeltaWriter::default();
        for step in steps {
            match step {
                Step::Put(name, version, value) => writer.put(name, *version, value.into()),
                Step::DeleteOne(name, version) => writer.delete_one(name, *version),
                Step::DeleteAll(name) => writer.delete_all(name),
            }
        }
        Entry {
            kind: EntryKind::Delta,
            value: writer.finish().into(),
        }
    }

    fn model(row: &mut Model, steps: &[Step]) {
        for step in steps {
            match (step, &mut *row) {
                (Step::Put(name, version, value), _) => {
                    let cells = row.get_or_insert_default();
                    cells.insert((name.clone(), -version), value.clone());
                }
                (Step::DeleteOne(name, version), Some(row)) => {
                    row.remove(&(name.clone(), -version));
                }
                (Step::DeleteAll(name), Some(row)) => row.retain(|(other, _), _| other != name),
                (Step::DeleteOne(..) | Step::DeleteAll(_), None) => {}
            }
        }
    }

    fn read(entry: &Entry) -> Model {
        (entry.kind == EntryKind::Put).then(|| {
            let row = Row::parse(&entry.value).unwrap();
            row.cells()
                .map(Result::unwrap)
                .map(|cell| ((cell.name.to_owned(), -cell.version), cell.value.to_value()))
                .collect()
        })
    }

    fn tombstone() -> Entry {
        Entry {
            kind: EntryKind::Tombstone,
            value: Bytes::new(),
        }
    }

    proptest! {
        #[test]
        fn deltas_do_what_their_steps_say(lists in proptest::collection::vec(steps(), 1..5)) {
            let (mut entry, mut row) = (tombstone(), None);
            for steps in &lists {
                // A list that first deletes and then makes the row differs from its steps one by one in nothing
                // visible.
                entry = compose(&entry, &delta(steps));
                model(&mut row, steps);
                prop_assert_eq!(read(&entry), row.clone());
            }
        }

        #[test]
        fn composing_is_associative(
            below in proptest::option::of(steps()),
            lists in proptest::collection::vec(steps(), 3..5),
        ) {
            let base = below.map_or_else(tombstone, |steps| compose(&tombstone(), &delta(&steps)));
            let deltas: Vec<_> = lists.iter().map(|steps| delta(steps)).collect();
            let from_below = deltas.iter().fold(base.clone(), |older, newer| compose(&older, newer));
            let (first, rest) = deltas.split_first().unwrap();
            let all = rest.iter().fold(first.clone(), |older, newer| compose(&older, newer));
            prop_assert_eq!(&compose(&base, &all), &from_below);
            let upper = rest[1..].iter().fold(rest[0].clone(), |older, newer| compose(&older, newer));
            prop_assert_eq!(&compose(first, &upper), &all);
            let joined: Vec<_> = lists.concat();
            prop_assert_eq!(&delta(&joined), &all);
        }

        #[test]
        fn what_was_narrowed_composes_to_the_same_columns(
            below in proptest::option::of(steps()),
            lists in proptest::collection::vec(steps(), 1..5),
            wanted in proptest::collection::btree_set(prop_oneof!["[abd]", "c{1,3}"], 0..3),
        ) {
            let wanted: Vec<_> = wanted.iter().map(String::as_str).collect();
            let less = |entry: &Entry| match entry.kind {
                EntryKind::Tombstone => entry.clone(),
                _ => narrow(entry, &wanted).unwrap(),
            };
            let base = below.map_or_else(tombstone, |steps| compose(&tombstone(), &delta(&steps)));
            let deltas: Vec<_> = lists.iter().map(|steps| delta(steps)).collect();
            let over = |base: Entry, deltas: &[Entry]| {
                deltas.iter().fold(base, |older, newer| compose(&older, newer))
            };
            let narrowed: Vec<_> = deltas.iter().map(less).collect();
            let (all, some) = (over(base.clone(), &deltas), over(less(&base), &narrowed));
            let asked = |row: Model| row.map(|cells| {
                let is_asked = |key: &(String, i64)| wanted.contains(&key.0.as_str());
                cells.into_iter().filter(|(key, _)| is_asked(key)).collect::<BTreeMap<_, _>>()
            });
            prop_assert_eq!(read(&some), asked(read(&all)));
        }

        #[test]
        fn damage_never_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..40),
            steps in steps(),
            at: prop::sample::Index,
            byte: u8,
        ) {
            let good = delta(&steps);
            let mut bad = good.value.to_vec();
            let at = at.index(bad.len());
            bad[at] = byte;
            for value in [bytes, bad] {
                let bad = Entry { kind: EntryKind::Delta, value: value.clone().into() };
                let put = Entry { kind: EntryKind::Put, value: value.into() };
                compose(&good, &bad);
                let _ = (narrow(&bad, &["a"]), narrow(&put, &["a"]), span(&bad), span(&put));
                compose(&bad, &good);
                compose(&put, &good);
            }
        }
    }
}
