//! What is known of each series, as rows of a table: noting a series that has points, attributes, and reading them.
//!
//! Owns: the form of these rows, and when one is written anew. Promises: a series with a point that was answered is
//! known, unless it was deleted since; to note one loses no attribute, whoever changes it meanwhile. Must not: look for
//! series; a search in the table's index does.

use std::collections::BTreeMap;

use tideline_model::series::{InvalidSeries, SeriesKey, SeriesMeta, SeriesPart};
use tideline_model::{
    Comparator, Condition, Consumed, Error, Existence, KeyValue, Predicate, PrimaryKey, PutCell,
    Relation, RowChange, RowRef, RowSink, RowWrite, Selection, Value, ValueRef,
};

use super::columns::{json_of, key_of, pairs_of, series_of};
use super::{ATTRIBUTES, SeriesTable, UPDATED};
use crate::batch::Answers;
use crate::tables::Tables;

/// After so long a series with new points is noted again, µs: long before it could end.
const NOTE_EVERY_US: i64 = 86_400_000_000;

/// Series as reads and searches find them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesRows(Vec<(Vec<KeyValue>, BTreeMap<String, String>, i64)>);

impl SeriesRows {
    /// The series, of this table.
    pub fn metas<'s>(self, table: &'s SeriesTable) -> impl Iterator<Item = SeriesMeta> + use<'s> {
        let rows = self.0.into_iter();
        rows.map(|(key, attributes, updated_us)| SeriesMeta {
            key: series_of(&table.part, &key),
            attributes,
            updated_us,
        })
    }
}

impl RowSink for SeriesRows {
    fn push(&mut self, row: RowRef<'_>) {
        let attributes = match row.versions(ATTRIBUTES).next() {
            Some(ValueRef::String(json)) => pairs_of(json),
            _ => BTreeMap::new(),
        };
        let updated_us = match row.versions(UPDATED).next() {
            Some(ValueRef::Integer(at)) => at,
            _ => 0,
        };
        self.0.push((row.key.to_vec(), attributes, updated_us));
    }
}

impl SeriesTable {
    pub(crate) fn meta_key(&self, key: &SeriesKey) -> Result<PrimaryKey, Error> {
        let part = SeriesPart {
            is_meta: true,
            ..self.part.clone()
        };
        key_of(&part, key)
    }
}

impl Tables {
    /// Notes series of which points are about to be written; answers in their order.
    pub async fn note_series(
        &self,
        table: &SeriesTable,
        series: &[SeriesKey],
    ) -> Result<Answers<Consumed>, Error> {
        let keys = series.iter().map(|key| table.meta_key(key));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let asked = (
            table.metas.clone(),
            keys.clone(),
            Selection::newest(Some(1))?,
        );
        let got = self.get_batch::<SeriesRows>(vec![asked]).await?;
        let now_us = self.now_ms().saturating_mul(1_000);
        let mut answers = Vec::with_capacity(series.len());
        let (mut places, mut writes) = (Vec::new(), Vec::new());
        for (at, (key, got)) in keys.into_iter().zip(got.into_iter().flatten()).enumerate() {
            let got = match got {
                Ok(got) => got,
                Err(error) => {
                    answers.push(Err(error));
                    continue;
                }
            };
            answers.push(Ok(got.consumed));
            let known = got.rows.0.into_iter().next();
            let noted = known.as_ref().map(|(_, _, updated_us)| *updated_us);
            if noted.is_some_and(|at| now_us < at.saturating_add(NOTE_EVERY_US)) {
                continue;
            }
            let attributes = known.map(|(_, attributes, _)| attributes);
            let attributes = attributes.unwrap_or_default();
            let write = RowWrite::new(key, meta_row(&attributes, now_us), as_seen(noted))?;
            places.push(at);
            writes.push((table.metas.clone(), write));
        }
        let written = self.write_batch(writes, false).await?;
        for (at, written) in places.into_iter().zip(written) {
            match (written, &mut answers[at]) {
                (Ok(written), Ok(used)) => used.write = written.consumed.write,
                // Another write was faster: the series is noted.
                (Err(Error::ConditionFailed), _) | (Ok(_), Err(_)) => {}
                (Err(error), answer) => *answer = Err(error),
            }
        }
        Ok(answers)
    }

    /// Sets the attributes of series, also of new ones; answers in their order.
    pub async fn change_series(
        &self,
        table: &SeriesTable,
        series: Vec<SeriesMeta>,
    ) -> Result<Answers<Consumed>, Error> {
        if !table.part.allows_attributes {
            return Err(Error::Series(InvalidSeries::Attributes));
        }
        let now_us = self.now_ms().saturating_mul(1_000);
        let change = |SeriesMeta {
                          key, attributes, ..
                      }| (key, meta_row(&attributes, now_us));
        let changes = series.into_iter().map(change);
        self.write_series(table, changes.collect()).await
    }

    /// Forgets what is known of series; their points stay. Answers in their order.
    pub async fn forget_series(
        &self,
        table: &SeriesTable,
        series: Vec<SeriesKey>,
    ) -> Result<Answers<Consumed>, Error> {
        let changes = series.into_iter().map(|key| (key, RowChange::Delete));
        self.write_series(table, changes.collect()).await
    }

    async fn write_series(
        &self,
        table: &SeriesTable,
        changes: Vec<(SeriesKey, RowChange)>,
    ) -> Result<Answers<Consumed>, Error> {
        let writes = changes.into_iter().map(|(key, change)| {
            let key = table.meta_key(&key)?;
            let write = RowWrite::new(key, change, Condition::default())?;
            Ok((table.metas.clone(), write))
        });
        let writes = writes.collect::<Result<Vec<_>, Error>>()?;
        let written = self.write_batch(writes, false).await?.into_iter();
        Ok(written.map(|one| Ok(one?.consumed)).collect())
    }
}

pub(crate) fn meta_row(attributes: &BTreeMap<String, String>, now_us: i64) -> RowChange {
    let cell = |name: &str, value| PutCell {
        name: name.to_owned(),
        version: None,
        value,
    };
    RowChange::Put(vec![
        cell(ATTRIBUTES, Value::String(json_of(attributes))),
        cell(UPDATED, Value::Integer(now_us)),
    ])
}

/// That a series is as it was seen: not there, or last changed then.
pub(crate) fn as_seen(noted: Option<i64>) -> Condition {
    let Some(at) = noted else {
        return Condition {
            existence: Existence::NotExist,
            columns: None,
        };
    };
    let relation = Relation {
        column: UPDATED.to_owned(),
        comparator: Comparator::Equal,
        value: Value::Integer(at),
        pass_if_missing: false,
        latest_version_only: true,
        transfer: None,
    };
    Condition {
        existence: Existence::Exist,
        columns: Some(Predicate::Single(relation)),
    }
}
