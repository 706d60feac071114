//! The operations on time series.
//!
//! Owns: the steps of one call: the table, the rates, the rows, and what they used. Promises: a point is answered when
//! it is on disk, and its series is known by then; a row that fails does so alone, with its place in the request. Must
//! not: know how a series is stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rate::Meter;
use super::rights::{Caller, shows};
use super::row::{Outcome, rates, refusal};
use crate::Shared;
use tideline_model::series::{
    InvalidSeries, Point, PointsAsked, SeriesAsked, SeriesKey, SeriesMeta,
};
use tideline_model::{Consumed, Error, RowWrite};
use tideline_search::Hits;
use tideline_table::{Answers, RangePage, SeriesRows as Metas, SeriesTable, Tables};
use tideline_wire::tablestore::plainbuffer::RowBuffer;
use tideline_wire::tablestore::{Failure, Reply, SeriesReply, SeriesRequest, SeriesRows};

pub(super) async fn call(
    (shared, tables): (&Shared, &Tables),
    caller: &Caller,
    asked: SeriesRequest,
) -> Outcome {
    let done = match asked {
        SeriesRequest::Create(new) => tables.create_series(new).await.map(|()| Reply::Done),
        SeriesRequest::List => tables.list_series().await.map(|all| {
            let all = all.iter().map(SeriesTable::described);
            let shown = all.filter(|table| shows(caller, &table.name));
            Reply::Series(SeriesReply::Tables(shown.collect()))
        }),
        SeriesRequest::Describe(name) => {
            let table = tables.series(&name).await;
            table.map(|table| Reply::Series(SeriesReply::Table(table.described())))
        }
        SeriesRequest::Update(name, update) => {
            let updated = tables.update_series(&name, update).await;
            updated.map(|()| Reply::Done)
        }
        SeriesRequest::Delete(name) => tables.delete_series(&name).await.map(|()| Reply::Done),
        SeriesRequest::Rows(name, knows_columns, rows) => {
            let table = tables.series(&name).await.map_err(refusal)?;
            if table.has_own_columns() && !knows_columns {
                return Err(refusal(Error::Series(InvalidSeries::Version)));
            }
            return on_rows((shared, tables), &table, rows)
                .await
                .map(Reply::Series);
        }
    };
    done.map_err(refusal)
}

async fn on_rows(
    (shared, tables): (&Shared, &Tables),
    table: &SeriesTable,
    rows: SeriesRows,
) -> Result<SeriesReply, Failure> {
    match rows {
        SeriesRows::Put(points, notes) => put((shared, tables), table, points, notes).await,
        SeriesRows::Get(asked) => get((shared, tables), table, asked).await,
        SeriesRows::Query(asked) => query((shared, tables), table, asked).await,
        SeriesRows::UpdateMetas(metas) => update((shared, tables), table, metas).await,
        SeriesRows::DeleteMetas(keys) => delete((shared, tables), table, keys).await,
    }
}

/// Notes the series, then writes the points: what has points is known, whatever comes between.
async fn put(
    (shared, tables): (&Shared, &Tables),
    table: &SeriesTable,
    points: Vec<Point>,
    notes: bool,
) -> Result<SeriesReply, Failure> {
    let mut rows: Vec<(SeriesKey, RowWrite)> = Vec::with_capacity(points.len());
    for point in points {
        let key = point.key.clone();
        rows.push((key, table.row(point).map_err(refusal)?));
    }
    let mut series: BTreeMap<SeriesKey, Result<(), Failure>> = BTreeMap::new();
    if notes {
        series.extend(rows.iter().map(|(key, _)| (key.clone(), Ok(()))));
        let keys: Vec<SeriesKey> = series.keys().cloned().collect();
        let noted = tables.note_series(table, &keys).await.map_err(refusal)?;
        for (noted, answer) in series.values_mut().zip(noted) {
            match answer {
                Ok(used) => rates(shared).count(used),
                Err(error) => *noted = Err(refusal(error)),
            }
        }
    }
    let mut failed = Vec::new();
    let (mut meters, mut writes) = (Vec::new(), Vec::new());
    for (at, (key, write)) in rows.into_iter().enumerate() {
        let noted = series.get(&key).cloned().unwrap_or(Ok(()));
        let meter = rates(shared).meter(&table.points, &write.key);
        match noted.and(meter) {
            Ok(meter) => {
                meters.push((at, meter));
                writes.push((Arc::clone(&table.points), write));
            }
            Err(failure) => failed.push((at, failure)),
        }
    }
    let written = tables.write_batch(writes, false).await.map_err(refusal)?;
    let used = written.into_iter().map(|one| one.map(|row| row.consumed));
    spent(meters, used.collect(), &mut failed);
    failed.sort_unstable_by_key(|(at, _)| *at);
    Ok(SeriesReply::Failed(failed))
}

/// Takes what rows used from their accounts; says which failed.
fn spent(
    meters: Vec<(usize, Meter<'_>)>,
    answers: Answers<Consumed>,
    failed: &mut Vec<(usize, Failure)>,
) {
    for ((at, meter), answer) in meters.into_iter().zip(answers) {
        match answer {
            Ok(used) => meter.spend(used),
            Err(error) => failed.push((at, refusal(error))),
        }
    }
}

async fn get(
    (shared, tables): (&Shared, &Tables),
    table: &SeriesTable,
    asked: PointsAsked,
) -> Result<SeriesReply, Failure> {
    let range = table.range(asked).map_err(refusal)?;
    let meter = rates(shared).meter(&table.points, &range.start)?;
    let page = tables.get_range(&table.points, range).await;
    let page: RangePage<RowBuffer> = page.map_err(refusal)?;
    meter.spend(page.consumed);
    let columns = || table.points.primary_key.clone();
    let next = page.next.map(|key| (columns(), key));
    Ok(SeriesReply::Points(page.rows, next))
}

async fn query(
    (shared, tables): (&Shared, &Tables),
    table: &SeriesTable,
    asked: SeriesAsked,
) -> Result<SeriesReply, Failure> {
    let searches = shared.tablestore.searches.of_caller(tables.holder());
    let search = table.search(asked);
    let found = searches.search::<Metas>(&table.metas, table.index(), search);
    let Hits {
        rows,
        total,
        is_all,
        next,
        ..
    } = found.await.map_err(refusal)?;
    // There is no place in the answer to say that it is not all.
    if !is_all {
        return Err(refusal(Error::Busy));
    }
    let metas = rows.into_iter().flat_map(|(row, _)| row.metas(table));
    Ok(SeriesReply::Metas(metas.collect(), total, next))
}

async fn update(
    (shared, tables): (&Shared, &Tables),
    table: &SeriesTable,
    metas: Vec<SeriesMeta>,
) -> Result<SeriesReply, Failure> {
    let mut failed = Vec::new();
    let (meters, metas) = metered(shared, table, metas, |meta| &meta.key, &mut failed)?;
    let done = tables.change_series(table, metas).await;
    spent(meters, done.map_err(refusal)?, &mut failed);
    failed.sort_unstable_by_key(|(at, _)| *at);
    Ok(SeriesReply::Failed(failed))
}

async fn delete(
    (shared, tables): (&Shared, &Tables),
    table: &SeriesTable,
    keys: Vec<SeriesKey>,
) -> Result<SeriesReply, Failure> {
    let mut failed = Vec::new();
    let (meters, keys) = metered(shared, table, keys, |key| key, &mut failed)?;
    let done = tables.forget_series(table, keys).await;
    spent(meters, done.map_err(refusal)?, &mut failed);
    failed.sort_unstable_by_key(|(at, _)| *at);
    Ok(SeriesReply::Failed(failed))
}

/// The rows of which the partition key has units left, each with its place and account.
#[allow(clippy::type_complexity)] // two lists side by side
fn metered<'s, T>(
    shared: &'s Shared,
    table: &SeriesTable,
    rows: Vec<T>,
    key: impl Fn(&T) -> &SeriesKey,
    failed: &mut Vec<(usize, Failure)>,
) -> Result<(Vec<(usize, Meter<'s>)>, Vec<T>), Failure> {
    let (mut meters, mut kept) = (Vec::new(), Vec::new());
    for (at, row) in rows.into_iter().enumerate() {
        let account = table.account(key(&row)).map_err(refusal)?;
        match rates(shared).meter(&table.metas, &account) {
            Ok(meter) => {
                meters.push((at, meter));
                kept.push(row);
            }
            Err(failure) => failed.push((at, failure)),
        }
    }
    Ok((meters, kept))
}
