//! GetRange: rows between two primary keys, either way, of all partitions in the order of keys.
//!
//! Owns: bounds and pages. Promises: a page ends after the asked number of rows, after so many scanned rows or bytes or
//! where its expressions would look at too much, and says where the next one begins; rows that have expired are left
//! out. Must not: hold its views longer than a page.

use std::iter;

use bytes::Bytes;

use tideline_base::ids::PartitionId;
use tideline_model::{
    Asking, Consumed, Direction, Error, GetRange, KeyValue, PrimaryKey, RowRef, RowSink, Selection,
    units,
};
use tideline_store::partition::{Partitions, ReadError, View};

use super::super::Malformed;
use super::super::access::{Source, damaged};
use super::super::format::primary_key::{check, decode, key_of};
use super::super::schema::Table;
use super::super::virtual_table::Walk;

/// After so many scanned rows a page ends.
pub const SCANNED_ROWS_MAX: usize = 5_000;
/// A page ends after so many bytes of what it asks for.
pub const SCANNED_BYTES_MAX: usize = 4 << 20;
/// A page ends after rows of so many bytes, whatever it asks for of them: all of each row is read.
const READ_BYTES_MAX: usize = 32 << 20;

/// A page of rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RangePage<Rows> {
    /// In the direction's order.
    pub rows: Rows,
    /// Where the next page begins; `None` = there is nothing more.
    pub next: Option<Vec<KeyValue>>,
    /// What scanning used.
    pub consumed: Consumed,
}

/// A range that was checked.
pub(in super::super) struct Span {
    direction: Direction,
    /// Inclusive.
    low: Vec<KeyValue>,
    /// Exclusive.
    high: Vec<KeyValue>,
    /// What both bounds begin with, if that tells where their rows are.
    pub(in super::super) partition: Option<Vec<KeyValue>>,
    limit: usize,
    selection: Selection,
}

impl Span {
    pub(in super::super) fn new(table: &Table, range: GetRange) -> Result<Span, Error> {
        let GetRange {
            direction,
            start,
            end,
            limit,
            selection,
        } = range;
        let mut start = check(&table.primary_key, start)?;
        let mut end = check(&table.primary_key, end)?;
        let begin = &start[..table.place_columns()];
        let is_one = end.starts_with(begin) && !begin.iter().any(KeyValue::is_infinite);
        let partition = is_one.then(|| begin.to_vec());
        let order = key_of(table.id, &start).cmp(&key_of(table.id, &end));
        let (low, high) = match direction {
            Direction::Forward if order.is_ge() => return Err(Error::RangeForward),
            Direction::Backward if order.is_le() => return Err(Error::RangeBackward),
            Direction::Forward => (start, end),
            Direction::Backward => {
                // The start belongs to the range and the end does not: bounds that lie just behind both.
                start.push(KeyValue::InfMin);
                end.push(KeyValue::InfMin);
                (end, start)
            }
        };
        Ok(Span {
            direction,
            low,
            high,
            partition,
            limit: limit.unwrap_or(usize::MAX),
            selection,
        })
    }

    /// Everything from a key on whose first value begins with a prefix, all versions.
    pub(in super::super) fn from(
        table: &Table,
        start: Option<PrimaryKey>,
        prefix: Option<&str>,
    ) -> Result<Span, Error> {
        let bound = |first: KeyValue| {
            let values = iter::once(first).chain(iter::repeat(KeyValue::InfMin));
            let names = table.primary_key.iter().map(|column| column.name.clone());
            check(&table.primary_key, names.zip(values).collect())
        };
        let (low, high) = match prefix {
            None => (KeyValue::InfMin, KeyValue::InfMax),
            Some(prefix) => (KeyValue::String(prefix.to_owned()), end_of(prefix)),
        };
        let mut low = bound(low)?;
        if let Some(start) = start {
            low = low.max(check(&table.primary_key, start)?);
        }
        Ok(Span {
            direction: Direction::Forward,
            low,
            high: bound(high)?,
            partition: None,
            limit: usize::MAX,
            selection: Selection::default(),
        })
    }

    /// Whether it has expressions.
    pub(in super::super) fn is_costly(&self) -> bool {
        self.selection.is_costly()
    }

    /// Reads a page from views of all partitions that the range may touch.
    pub(in super::super) fn read<'v, Rows: RowSink>(
        &self,
        table: &'v Table,
        views: &[&'v View],
        now_ms: i64,
        asking: &Asking<'_>,
    ) -> Result<RangePage<Rows>, Error> {
        let walk = |view: &&'v View| table.rows(view, &self.low, &self.high, self.direction);
        let walk = merged(views.iter().map(walk).collect(), self.direction);
        self.page(table, walk, now_ms, asking)
    }

    /// Reads a page of a table whose rows are stored, in one view or transaction.
    pub(in super::super) fn read_stored<Rows: RowSink>(
        &self,
        table: &Table,
        rows: &impl Source,
        now_ms: i64,
        asking: &Asking<'_>,
    ) -> Result<RangePage<Rows>, Error> {
        let walk = table.stored_rows(rows, &self.low, &self.high, self.direction);
        self.page(table, walk, now_ms, asking)
    }

    fn page<Rows: RowSink>(
        &self,
        table: &Table,
        walk: Walk<'_>,
        now_ms: i64,
        asking: &Asking<'_>,
    ) -> Result<RangePage<Rows>, Error> {
        let mut page = RangePage::default();
        let mut found = Counted::default();
        let (mut scanned, mut bytes, mut read) = (0, 0, 0);
        for row in walk {
            let (key, value) = row?;
            let bad = |_: Malformed| damaged(&key, "not a row of a table");
            if scanned >= SCANNED_ROWS_MAX || read >= READ_BYTES_MAX {
                page.next = Some(decode(&key).map_err(bad)?);
                break;
            }
            scanned += 1;
            let Some(value) = value else {
                continue;
            };
            read += value.len();
            let Some(judged) = table.judge(&value, now_ms).map_err(bad)? else {
                continue;
            };
            let values = decode(&key).map_err(bad)?;
            if found.count >= self.limit || bytes >= SCANNED_BYTES_MAX {
                page.next = Some(values);
                break;
            }
            let living = judged.living;
            match self
                .selection
                .give(table, &values, living, asking, &mut found)
            {
                Ok(given) => bytes += given,
                // The rows before this one are a page. The first row of a page must fit, or no page would come further.
                Err(_) if scanned > 1 && !asking.is_light => {
                    page.next = Some(values);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        page.rows = found.rows;
        page.consumed.read = units(bytes);
        Ok(page)
    }
}

/// The lowest value above all texts with a prefix.
fn end_of(prefix: &str) -> KeyValue {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        // Of a range the step passes over what is no character.
        if let Some(next) = (last..=char::MAX).nth(1) {
            end.push(next);
            return KeyValue::String(end);
        }
    }
    KeyValue::InfMax
}

/// Rows, and how many they are.
#[derive(Default)]
struct Counted<Rows> {
    rows: Rows,
    count: usize,
}

impl<Rows: RowSink> RowSink for Counted<Rows> {
    fn push(&mut self, row: RowRef<'_>) {
        self.rows.push(row);
        self.count += 1;
    }
}

/// Views of all partitions that a range may touch beside `first`, whose view is there already; `None` = `first` has
/// ended, and its rows are in others.
pub(in super::super) fn others(
    partitions: &Partitions,
    first: PartitionId,
    is_everywhere: bool,
) -> Result<Option<Vec<View>>, ReadError> {
    if !is_everywhere {
        return Ok(Some(Vec::new()));
    }
    let mut ids: Vec<PartitionId> = partitions.ids().collect();
    let Some(at) = ids.iter().position(|id| *id == first) else {
        return Ok(None);
    };
    ids.remove(at);
    let views = ids.into_iter().map(|id| partitions.view(id));
    views.collect::<Result<_, _>>().map(Some)
}

/// The walks of all partitions as one, in the order of keys. A key is in one partition only.
fn merged<'v>(walks: Vec<Walk<'v>>, direction: Direction) -> Walk<'v> {
    let mut sources: Vec<_> = walks.into_iter().map(Iterator::peekable).collect();
    let mut has_failed = false;
    Box::new(iter::from_fn(move || {
        if has_failed {
            return None;
        }
        let mut best: Option<(usize, Option<Bytes>)> = None;
        for (at, source) in sources.iter_mut().enumerate() {
            let key = match source.peek() {
                None => continue,
                // An error comes out at once: what it hides might come next.
                Some(Err(_)) => None,
                Some(Ok((key, _))) => Some(key.clone()),
            };
            let is_better = match &best {
                None => true,
                Some((_, other)) => match direction {
                    Direction::Forward => key < *other,
                    Direction::Backward => key.is_none() || (other.is_some() && key > *other),
                },
            };
            if is_better {
                best = Some((at, key));
            }
        }
        let (at, _) = best?;
        let row = sources[at].next();
        has_failed = matches!(row, Some(Err(_)));
        row
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_below_the_next_text() {
        for (prefix, end) in [
            ("", None),
            ("a", Some("b")),
            ("room/", Some("room0")),
            ("\u{d7ff}", Some("\u{e000}")),
            ("a\u{10ffff}", Some("b")),
            ("\u{10ffff}", None),
        ] {
            let end = end.map_or(KeyValue::InfMax, |end| KeyValue::String(end.to_owned()));
            assert_eq!(end_of(prefix), end, "{prefix:?}");
        }
    }
}
