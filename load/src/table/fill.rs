//! Before the measurement: every row is written once, in batches.
//!
//! Owns: BatchWriteRow. Promises: every row was acknowledged by itself, with the right capacity units; rows that are
//! too wide for one request come in parts. Must not: count for the latencies.

use std::cell::RefCell;
use std::time::Instant;

use futures_util::future::try_join_all;
use prost::Message;
use tideline_wire::tablestore::Operation;
use tideline_wire::tablestore::plainbuffer::encode_row;
use tideline_wire::tablestore::proto::{
    BatchWriteRowRequest, BatchWriteRowResponse, OperationType, RowInBatchWriteRowRequest,
    TableInBatchWriteRowRequest,
};
use tokio::time::sleep;

use super::COLUMNS_MAX;
use super::api::{BREATH, BUSY, patient, text};
use super::sheet::{Sheet, Write};
use super::talk::{Board, anyway, check_units};
use crate::client::pipe::Pipe;
use crate::outcome::checks::Checks;
use crate::run::Better;

/// Connections that write.
const WRITERS: usize = 16;
/// Rows of a batch, as many as the protocol allows, and bytes of values if there is more than one.
const ROWS_MAX: usize = 200;
const BATCH_BYTES: usize = 1_000_000;

impl Board {
    /// Writes every row once.
    pub(super) async fn fill(&self) -> Result<(), String> {
        let (run, sheet, width) = (&self.run, &self.sheet, self.args.columns);
        run.tell("writing rows");
        let began = Instant::now();
        let parts = (0..sheet.rows).flat_map(|row| {
            let begins = (0..width).step_by(COLUMNS_MAX);
            begins.map(move |begin| (row, begin..width.min(begin + COLUMNS_MAX)))
        });
        let parts = RefCell::new(parts.map(|(row, columns)| sheet.send(row, columns)));
        let bytes = width.min(COLUMNS_MAX) * self.args.value_bytes();
        let most = (BATCH_BYTES / bytes).clamp(1, ROWS_MAX);
        let write = || async {
            let mut pipe = self.api.connect().await.map_err(text)?;
            loop {
                let batch: Vec<Write> = parts.borrow_mut().by_ref().take(most).collect();
                if batch.is_empty() {
                    return Ok::<_, String>(());
                }
                patient(self.write(&mut pipe, batch)).await?;
            }
        };
        try_join_all((0..WRITERS).map(|_| write())).await?;
        let rate = sheet.rows as f64 / began.elapsed().as_secs_f64().max(0.001);
        run.figure("preloaded_per_second", rate, "1/s", Better::Higher);
        Ok(())
    }

    /// Writes a batch, and repeats the rows that the server was too busy for.
    async fn write(&self, pipe: &mut Pipe, mut batch: Vec<Write>) -> Result<(), String> {
        loop {
            let body = encode(&self.sheet, &batch).encode_to_vec();
            let reply = self.api.call(pipe, Operation::BatchWriteRow, &body).await?;
            let reply = BatchWriteRowResponse::decode(&*reply).map_err(text)?;
            batch = unwritten(&self.sheet, batch, reply, &self.run.checks)?;
            if batch.is_empty() {
                return Ok(());
            }
            sleep(BREATH).await;
        }
    }
}

fn encode(sheet: &Sheet, batch: &[Write]) -> BatchWriteRowRequest {
    let row = |write: &Write| {
        let kind = match write.columns.len() == sheet.columns.len() {
            true => OperationType::Put,
            false => OperationType::Update,
        };
        RowInBatchWriteRowRequest {
            r#type: Some(kind.into()),
            row_change: Some(encode_row(&sheet.row(write))),
            condition: anyway(),
            return_content: None,
        }
    };
    let table = TableInBatchWriteRowRequest {
        table_name: Some(sheet.name.clone()),
        rows: batch.iter().map(row).collect(),
    };
    BatchWriteRowRequest {
        tables: vec![table],
        ..BatchWriteRowRequest::default()
    }
}

/// Checks the answer to a batch and enters its rows; returns those that the server was too busy for.
fn unwritten(
    sheet: &Sheet,
    batch: Vec<Write>,
    reply: BatchWriteRowResponse,
    checks: &Checks,
) -> Result<Vec<Write>, String> {
    let tables = reply.tables.into_iter();
    let tables = tables.filter(|table| table.table_name == sheet.name);
    let rows: Vec<_> = tables.flat_map(|table| table.rows).collect();
    if rows.len() != batch.len() {
        let (came, sent) = (rows.len(), batch.len());
        return Err(format!("{came} answers to a batch of {sent} rows"));
    }
    let mut left = Vec::new();
    for (write, reply) in batch.into_iter().zip(rows) {
        let row = write.row;
        match (reply.is_ok, reply.error) {
            (true, None) => {
                sheet.ack(&write);
                let units = [0, sheet.units(1, write.columns.len())];
                let checked = check_units(&reply.consumed.unwrap_or_default(), units, checks);
                checked.map_err(|what| format!("row {row}: {what}"))?;
            }
            (false, Some(error)) if error.code == BUSY => left.push(write),
            (_, error) => return Err(format!("row {row}: refused: {error:?}")),
        }
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use tideline_wire::tablestore::proto::{
        CapacityUnit, ConsumedCapacity, Error, RowInBatchResponse, TableInBatchResponse,
    };

    use super::super::sheet::tests::sheet;
    use super::*;

    fn acked(write: i32) -> RowInBatchResponse {
        let (read, write) = (Some(0), Some(write));
        let capacity_unit = CapacityUnit { read, write };
        RowInBatchResponse {
            is_ok: true,
            consumed: Some(ConsumedCapacity { capacity_unit }),
            ..RowInBatchResponse::default()
        }
    }

    fn failed(code: &str) -> RowInBatchResponse {
        let code = code.to_owned();
        RowInBatchResponse {
            error: Some(Error {
                code,
                message: None,
            }),
            ..RowInBatchResponse::default()
        }
    }

    #[test]
    fn each_row_of_a_batch_has_its_own_answer() {
        let sheet = sheet("put");
        let batch = [5, 6].map(|row| sheet.send(row, 0..4)).to_vec();
        let check = |table: &str, rows: &[RowInBatchResponse]| {
            let table_name = table.to_owned();
            let rows = rows.to_vec();
            let tables = vec![TableInBatchResponse { table_name, rows }];
            let reply = BatchWriteRowResponse { tables };
            unwritten(&sheet, batch.clone(), reply, &Checks::default())
        };
        let good = acked(1);
        assert_eq!(check("t", &[good.clone(), good.clone()]), Ok(Vec::new()));
        let busy = check("t", &[good.clone(), failed(BUSY)]);
        assert_eq!(busy, Ok(batch[1..].to_vec()));
        for (table, other, what) in [
            ("t", vec![], "an answer is missing"),
            ("t", vec![good.clone(); 2], "an answer too much"),
            ("u", vec![good.clone()], "answers of another table"),
            ("t", vec![acked(2)], "more units than the row counts"),
            (
                "t",
                vec![failed("OTSOutOfColumnCountLimit")],
                "a row is refused",
            ),
            (
                "t",
                vec![RowInBatchResponse::default()],
                "neither done nor refused",
            ),
        ] {
            check(table, &[vec![good.clone()], other].concat()).expect_err(what);
        }
    }
}
