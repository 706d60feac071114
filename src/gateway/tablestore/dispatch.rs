//! From a checked request to the call of the tables that does it, and to its reply.
//!
//! Owns: the match on operations, and those on tables. Promises: what a call holds of tables counts as its caller's.
//! Must not: know an encoding or a header.

use std::sync::Arc;

use super::rights::{self, Caller};
use super::row::{Outcome, refusal};
use super::{batch, export, row, search, series, sql, stream};
use crate::Shared;
use tideline_model::Definition;
use tideline_table::{Table, Tables};
use tideline_wire::tablestore::{Reply, Request, StartTransaction};

/// Does a request.
#[allow(clippy::too_many_lines)] // one line or two for each operation
pub(super) async fn call(
    (shared, tables): (&Arc<Shared>, &Tables),
    caller: &Caller,
    request: Request,
) -> Outcome {
    rights::check(shared, caller, &request).await?;
    match request {
        Request::CreateTable(new) => tables.create(new).await.map(|()| Reply::Done),
        Request::UpdateTable(name, update) => {
            let table = tables.update(&name, update).await;
            table.map(|table| Reply::Updated(definition(&table)))
        }
        Request::DescribeTable(name) => {
            let table = tables.describe(&name).await;
            table.map(|table| {
                let mut told = definition(&table);
                told.indexes
                    .retain(|index| rights::shows(caller, &index.meta.name));
                Reply::Table(told)
            })
        }
        Request::ListTable => tables.list().await.map(|mut names| {
            names.retain(|name| rights::shows(caller, name));
            Reply::Tables(names)
        }),
        Request::DeleteTable(name) => tables.delete(&name).await.map(|()| Reply::Done),
        Request::AddDefinedColumn(name, columns) => {
            let done = tables.add_defined_columns(&name, columns).await;
            done.map(|_| Reply::Done)
        }
        Request::DeleteDefinedColumn(name, columns) => {
            let done = tables.delete_defined_columns(&name, columns).await;
            done.map(|_| Reply::Done)
        }
        Request::CreateIndex(new) => {
            let made = tables.create_index(&new.table, new.index, new.of_all).await;
            made.map(|()| Reply::Done)
        }
        Request::DropIndex(table, index) => {
            let dropped = tables.drop_index(&table, &index).await;
            dropped.map(|()| Reply::Done)
        }
        Request::CreateSearchIndex(new) => search::create(tables, new).await,
        Request::UpdateSearchIndex(change) => search::update(tables, change).await,
        Request::DeleteSearchIndex(of) => search::delete(tables, of).await,
        Request::ListSearchIndex(of) => search::list(tables, caller, of.as_deref()).await,
        Request::DescribeSearchIndex(of) => search::describe((shared, tables), &of).await,
        Request::Search(search) => search::search((shared, tables), *search).await,
        Request::ComputeSplits(of) => search::splits((shared, tables), &of).await,
        Request::ParallelScan(scan) => search::scan((shared, tables), *scan).await,
        Request::Sql(asked) => return sql::query((shared, tables), caller, asked).await,
        Request::GetRow(get) => return row::get((shared, tables), caller, get).await,
        Request::WriteRow(write) => return row::write((shared, tables), write).await,
        Request::BatchGetRow(read) => return batch::read((shared, tables), caller, read).await,
        Request::BatchWriteRow(write) => return batch::write((shared, tables), write).await,
        Request::GetRange(range) => return row::range((shared, tables), caller, range).await,
        Request::ListStream(table) => stream::list(tables, caller, table.as_deref()).await,
        Request::DescribeStream(ask) => stream::describe(tables, ask).await,
        Request::GetShardIterator(ask) => stream::iterator(tables, &ask).await,
        Request::GetStreamRecord(ask) => stream::records(tables, ask).await,
        Request::StartTransaction(StartTransaction { table, key }) => {
            let table = row::find(shared, &table).await?;
            let started = tables.start_transaction(&table, key).await;
            started.map(Reply::Started)
        }
        Request::Series(asked) => return series::call((shared, tables), caller, *asked).await,
        Request::ExportTable(export) => return export::read(shared, export).await,
        Request::CommitTransaction(id) => tables.commit_transaction(id).await.map(|()| Reply::Done),
        Request::AbortTransaction(id) => {
            let aborted = tables.abort_transaction(id).await;
            aborted.map(|()| Reply::Aborted(id))
        }
    }
    .map_err(refusal)
}

fn definition(table: &Table) -> Box<Definition> {
    Box::new(table.definition.clone())
}
