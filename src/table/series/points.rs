//! Points as rows of a table, and pages of them.
//!
//! Owns: the form of a point's row: key, time, and a column for each field, named after field and type. Promises: a
//! point's version is its own time, so that it ends when that is so long ago; a page holds points of one series, within
//! the times that were asked for, whatever its token says. Must not: write or read rows.

use tideline_model::series::{InvalidSeries, Point, PointsAsked, SeriesKey, point_column};
use tideline_model::{
    Condition, Direction, Error, GetRange, KeyColumn, KeyType, KeyValue, PrimaryKey, PutCell,
    RowChange, RowWrite, Selection, Value,
};

use super::columns::key_of;
use super::{SeriesTable, TIME};

impl SeriesTable {
    /// The row of a point that was checked.
    pub fn row(&self, point: Point) -> Result<RowWrite, Error> {
        let Point {
            key,
            time_us,
            mut fields,
        } = point;
        let mut key = key_of(&self.part, &key)?;
        key.push((TIME.to_owned(), KeyValue::Integer(time_us)));
        for column in self.key_fields() {
            let at = fields.iter().position(|(name, _)| *name == column.name);
            let missing = || InvalidSeries::MissingField(column.name.clone());
            let (name, value) = fields.remove(at.ok_or_else(|| Error::Series(missing()))?);
            let value = key_value(column, value)?;
            value.check(&name, tideline_model::KeyUse::Write)?;
            key.push((name, value));
        }
        if fields.is_empty() {
            return Err(Error::Series(InvalidSeries::NoFields));
        }
        let cells = fields.into_iter().map(|(name, value)| PutCell {
            name: point_column(&name, &value),
            version: Some(time_us.div_euclid(1_000)),
            value,
        });
        RowWrite::new(key, RowChange::Put(cells.collect()), Condition::default())
    }

    /// The range of points that are asked for.
    pub fn range(&self, asked: PointsAsked) -> Result<GetRange, Error> {
        if asked.begin_us >= asked.end_us {
            return Err(Error::Series(InvalidSeries::Range));
        }
        let prefix = key_of(&self.part, &asked.key)?;
        // A bound is below all points of its time.
        let bound = |time_us: i64| {
            let mut key = prefix.clone();
            key.push((TIME.to_owned(), KeyValue::Integer(time_us)));
            let fields = self.key_fields().iter();
            key.extend(fields.map(|column| (column.name.clone(), KeyValue::InfMin)));
            key
        };
        // Where the time is the last column, the ends of a range backwards belong to it the other way about.
        let shift = i64::from(asked.is_backward && self.key_fields().is_empty());
        let (low, high) = (
            bound(asked.begin_us.saturating_sub(shift)),
            bound(asked.end_us.saturating_sub(shift)),
        );
        let (mut start, end, direction) = match asked.is_backward {
            false => (low, high, Direction::Forward),
            true => (high, low, Direction::Backward),
        };
        if let Some(next) = asked.next {
            start = self.goes_on(next, &prefix, (asked.begin_us, asked.end_us))?;
        }
        Ok(GetRange {
            direction,
            start,
            end,
            limit: Some(asked.limit),
            selection: Selection::newest(Some(1))?.of(asked.columns)?,
        })
    }

    /// The key that a page goes on from, if it is one of the points that were asked for.
    fn goes_on(
        &self,
        next: PrimaryKey,
        prefix: &PrimaryKey,
        (begin_us, end_us): (i64, i64),
    ) -> Result<PrimaryKey, Error> {
        let is_point = next.len() == self.points.primary_key.len()
            && next.starts_with(prefix)
            && matches!(next[prefix.len()].1, KeyValue::Integer(at) if (begin_us..end_us).contains(&at));
        match is_point {
            true => Ok(next),
            false => Err(Error::Series(InvalidSeries::Token)),
        }
    }

    /// The partition key of a series, as limits of rates know it.
    pub fn account(&self, key: &SeriesKey) -> Result<PrimaryKey, Error> {
        key_of(&self.part, key)
    }

    fn key_fields(&self) -> &[KeyColumn] {
        &self.points.primary_key[2 + self.part.keys.len()..]
    }

    /// Whether only clients that know of tables with columns of their own can use it.
    #[must_use]
    pub fn has_own_columns(&self) -> bool {
        !self.key_fields().is_empty() || !self.described().keys.is_empty()
    }
}

fn key_value(column: &KeyColumn, value: Value) -> Result<KeyValue, Error> {
    match (column.kind, value) {
        (KeyType::Integer, Value::Integer(number)) => Ok(KeyValue::Integer(number)),
        (KeyType::String, Value::String(text)) => Ok(KeyValue::String(text)),
        (KeyType::Binary, Value::Binary(bytes)) => Ok(KeyValue::Binary(bytes)),
        _ => {
            let why = InvalidSeries::FieldType(column.name.clone());
            Err(Error::Series(why))
        }
    }
}
