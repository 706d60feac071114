//! ExportTable: one step of `tideline export`.
//!
//! Owns: the answer's encoding. Must not: keep anything between two steps.

use bytes::Bytes;

use super::row::{Outcome, find, refusal};
use crate::Shared;
use tideline_model::KeyValue;
use tideline_table::{Exported, Table};
use tideline_wire::tablestore::plainbuffer::RowBuffer;
use tideline_wire::tablestore::proto::ExportTableResponse;
use tideline_wire::tablestore::{Export, ExportTable, Reply};

pub(super) async fn read(shared: &Shared, export: ExportTable) -> Outcome {
    let table = find(shared, &export.table).await?;
    let tables = &shared.tablestore.tables;
    let partitions = tables.partition_ids();
    let partition = export.partition.unwrap_or(partitions[0]);
    let page: Exported<RowBuffer> = match export.what {
        Export::Rows(start) => {
            let prefix = export.prefix.as_deref();
            tables.export_rows(&table, partition, start, prefix).await
        }
        Export::Changes(from) => {
            let prefix = export.prefix;
            tables.export_changes(&table, partition, from, prefix).await
        }
    }
    .map_err(refusal)?;
    Ok(Reply::Exported(ExportTableResponse {
        table_id: table.id.0,
        partitions: partitions.iter().map(|id| u32::from(id.0)).collect(),
        position: page.position.0,
        rows: page.rows.into_bytes(),
        gone: keys(&table, &page.gone),
        gone_below: keys(&table, &page.gone_below),
        next_start_primary_key: page.next.map(|key| keys(&table, &[key])),
        is_last: page.is_last,
    }))
}

fn keys<'k>(table: &Table, keys: impl IntoIterator<Item = &'k Vec<KeyValue>>) -> Bytes {
    let mut buffer = RowBuffer::default();
    for key in keys {
        buffer.push_key(&table.primary_key, key);
    }
    buffer.into_bytes()
}
