//! From a checked request to the call of the tables that does it, and to its reply.
//!
//! Owns: the match over operations, and those on tables. Promises: what this server does not have (streams, indexes) is
//! refused, never left out in silence. Must not: know an encoding or a header.

use std::sync::Arc;

use super::refusal::refusal;
use super::row::Outcome;
use super::{answer, ask, batch, row};
use crate::gateway::Shared;
use crate::wire::tablestore::table::{CreateTable, StreamSpec, UpdateTable};
use crate::wire::tablestore::{Failure, Reply, Request};

/// Does a request.
pub(super) async fn call(shared: &Arc<Shared>, request: Request) -> Outcome {
    let tables = &shared.tablestore.tables;
    match request {
        Request::CreateTable(create) => create_table(shared, create).await,
        Request::UpdateTable(update) => update_table(shared, update).await,
        Request::DescribeTable(name) => {
            let table = tables.describe(&name).await.map_err(refusal)?;
            Ok(Reply::Table(Box::new(answer::description(&table))))
        }
        Request::ListTable => {
            let names = tables.list().await.map_err(refusal)?;
            Ok(Reply::Tables(names))
        }
        Request::DeleteTable(name) => {
            tables.delete(&name).await.map_err(refusal)?;
            Ok(Reply::Done)
        }
        Request::AddDefinedColumn(name, columns) => {
            let columns = columns.into_iter().map(ask::defined_column).collect();
            let done = tables.add_defined_columns(&name, columns).await;
            done.map_err(refusal)?;
            Ok(Reply::Done)
        }
        Request::DeleteDefinedColumn(name, columns) => {
            let done = tables.delete_defined_columns(&name, columns).await;
            done.map_err(refusal)?;
            Ok(Reply::Done)
        }
        Request::GetRow(get) => row::get(shared, get).await,
        Request::WriteRow(write) => row::write(shared, write).await,
        Request::BatchGetRow(read) => batch::read(shared, read).await,
        Request::BatchWriteRow(write) => batch::write(shared, write).await,
        Request::GetRange(range) => row::range(shared, range).await,
    }
}

async fn create_table(shared: &Shared, create: CreateTable) -> Outcome {
    no_stream(create.stream.as_ref())?;
    if !create.indexes.is_empty() {
        return Err(Failure::invalid("Indexes are not supported."));
    }
    if create.local_transactions {
        return Err(Failure::invalid("Local transactions are not supported."));
    }
    if create.encrypted {
        let text = "Server side encryption is not supported.";
        return Err(Failure::invalid(text));
    }
    let done = shared.tablestore.tables.create(ask::new_table(create));
    done.await.map_err(refusal)?;
    Ok(Reply::Done)
}

async fn update_table(shared: &Shared, update: UpdateTable) -> Outcome {
    no_stream(update.stream.as_ref())?;
    let tables = &shared.tablestore.tables;
    let change = ask::table_update(&update);
    // Saying that there is to be no stream changes nothing.
    let table = match change.is_empty() {
        true => tables.describe(&update.table).await,
        false => tables.update(&update.table, change).await,
    };
    let table = table.map_err(refusal)?;
    Ok(Reply::Updated(Box::new(answer::state(&table))))
}

fn no_stream(stream: Option<&StreamSpec>) -> Result<(), Failure> {
    match stream {
        Some(spec) if spec.enabled => Err(Failure::invalid("Streams are not supported.")),
        _ => Ok(()),
    }
}
