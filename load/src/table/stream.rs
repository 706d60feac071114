//! `stream`: the changes of one table, read from its stream again and again, beside other tables that were written in
//! between.
//!
//! Owns: the measurement: each connection reads the whole stream in a closed loop, page by page. Promises: what is read
//! is every change that was acknowledged, once and in order. Must not: write while it measures: what reading costs is
//! to be seen by itself.

use std::rc::Rc;

use clap::value_parser;
use prost::Message;
use serde::Serialize;
use tideline::wire::tablestore::Operation;
use tideline::wire::tablestore::plainbuffer::{Cell, Row, Variant, decode_row, encode_row};
use tideline::wire::tablestore::proto::{
    BatchWriteRowRequest, BatchWriteRowResponse, CapacityUnit, CreateTableRequest,
    CreateTableResponse, DeleteTableRequest, DeleteTableResponse, DescribeStreamRequest,
    DescribeStreamResponse, GetShardIteratorRequest, GetShardIteratorResponse,
    GetStreamRecordRequest, GetStreamRecordResponse, ListStreamRequest, ListStreamResponse,
    OperationType, PrimaryKeySchema, PrimaryKeyType, ReservedThroughput, RowInBatchWriteRowRequest,
    StreamSpecification, TableInBatchWriteRowRequest, TableMeta, TableOptions,
};
use tokio::task::{JoinSet, spawn_local};

use super::api::{Account, Api, text};
use super::talk::anyway;
use crate::exit::Stop;
use crate::pipe::Pipe;
use crate::profile::{Profile, need_files};
use crate::run::{Better, Phase, Run};

/// Arguments of `stream`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Stream {
    /// Who asks; keys are no part of a result
    #[command(flatten)]
    #[serde(skip)]
    pub account: Account,
    /// Readers, each with a connection
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u64).range(1..))]
    pub readers: u64,
    /// Changes of the table whose stream is read
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(u64).range(1..))]
    pub changes: u64,
    /// Other tables
    #[arg(long, default_value_t = 0, value_parser = value_parser!(u64).range(..=60))]
    pub others: u64,
    /// Changes of each of them for one of the table's
    #[arg(long, default_value_t = 1.0)]
    pub share: f64,
    /// Bytes of the value in a row
    #[arg(long, default_value_t = 200)]
    pub row_bytes: usize,
}

/// Rows of a write, as many as the protocol allows.
const ROWS_MAX: u64 = 200;
/// The column of every row.
const COLUMN: &str = "value";

/// What all readers share.
struct Board {
    run: Rc<Run>,
    args: Stream,
    api: Api,
}

impl Profile for Stream {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        need_files(run, self.readers)?;
        let board = Rc::new(Board {
            run: Rc::clone(run),
            args: self.clone(),
            api: Api::new(&run.url, &self.account)?,
        });
        board.create().await.map_err(Stop::Unreachable)?;
        // From here on the server answers, and what it answers wrong is a fault.
        if let Err(what) = board.measure().await {
            run.checks.fault(format_args!("{what}"));
        }
        if let Err(what) = board.delete().await {
            run.checks.fault(format_args!("deleting the tables: {what}"));
        }
        Ok(())
    }
}

impl Board {
    /// A table's name has no hyphens. Number 0 is the one whose stream is read.
    fn name(&self, table: u64) -> String {
        format!("load_{}_{table}", self.run.tag.replace('-', "_"))
    }

    async fn create(&self) -> Result<(), String> {
        let mut pipe = self.api.connect().await.map_err(text)?;
        for table in 0..=self.args.others {
            let none = CapacityUnit {
                read: Some(0),
                write: Some(0),
            };
            let request = CreateTableRequest {
                table_meta: Some(TableMeta {
                    table_name: Some(self.name(table)),
                    primary_key: vec![PrimaryKeySchema {
                        name: Some("number".to_owned()),
                        r#type: Some(PrimaryKeyType::Integer.into()),
                        option: None,
                    }],
                    defined_column: Vec::new(),
                }),
                reserved_throughput: Some(ReservedThroughput {
                    capacity_unit: Some(none),
                }),
                table_options: Some(TableOptions {
                    time_to_live: Some(-1),
                    max_versions: Some(1),
                    ..TableOptions::default()
                }),
                stream_spec: Some(StreamSpecification {
                    enable_stream: Some(true),
                    expiration_time: Some(24),
                    columns_to_get: Vec::new(),
                }),
                ..CreateTableRequest::default()
            };
            let CreateTableResponse {} = self
                .call(&mut pipe, Operation::CreateTable, &request)
                .await?;
        }
        Ok(())
    }

    async fn delete(&self) -> Result<(), String> {
        let mut pipe = self.api.connect().await.map_err(text)?;
        for table in 0..=self.args.others {
            let table_name = Some(self.name(table));
            let request = DeleteTableRequest { table_name };
            let DeleteTableResponse {} = self
                .call(&mut pipe, Operation::DeleteTable, &request)
                .await?;
        }
        Ok(())
    }

    async fn call<A: Message + Default>(
        &self,
        pipe: &mut Pipe,
        operation: Operation,
        request: &impl Message,
    ) -> Result<A, String> {
        let body = request.encode_to_vec();
        self.api.call(pipe, operation, &body).await
    }

    async fn measure(self: &Rc<Board>) -> Result<(), String> {
        self.write().await?;
        let mut pipe = self.api.connect().await.map_err(text)?;
        let begin = self.begin(&mut pipe).await?;
        let run = &self.run;
        let mut readers = JoinSet::new();
        let mut counted = Vec::new();
        for _ in 0..self.args.readers {
            let (board, begin) = (Rc::clone(self), begin.clone());
            let count = Rc::new(std::cell::Cell::new(0));
            counted.push(Rc::clone(&count));
            readers.spawn_local(async move { board.read(begin, &count).await });
        }
        run.measure().await;
        while let Some(read) = readers.join_next().await {
            read.map_err(text)??;
        }
        let count = counted.iter().map(|count| count.get()).sum();
        run.rate("changes_per_second", count);
        if let Some(used) = run.value("server_cpu_seconds") {
            let per = count as f64 / used.max(0.01);
            run.figure("changes_per_server_cpu_second", per, "1/s", Better::Higher);
        }
        Ok(())
    }
}
