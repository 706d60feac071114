//! SQL on the wire: what SQLQuery asks and is answered.
//!
//! Owns: its messages. Promises: a statement that leaves this module has text, and its client reads the form in which
//! rows are answered. Must not: read a statement.

mod columns;

use bytes::Bytes;
use prost::Message as _;

use super::failure::{Code, Failure};
use super::proto;
use super::request::table::missing;
use super::units::consumed;
use columns::encode;
pub use columns::{SqlCells, SqlColumn};
use tideline_model::Consumed;

/// SQLQuery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlQuery {
    /// What to do.
    pub statement: String,
    /// Whether the client knows columns of dates and times; to others they are texts.
    pub knows_times: bool,
}

impl SqlQuery {
    pub(super) fn from_body(body: Bytes) -> Result<SqlQuery, Failure> {
        let message = proto::SqlQueryRequest::decode(body)?;
        let statement = message.query.ok_or_else(missing)?;
        // Without a version the original's is the oldest, which no SDK asks for.
        if message.version != Some(proto::SqlPayloadVersion::SqlFlatBuffers.into()) {
            return Err(Failure::with(
                Code::UnsupportedOperation,
                "Operation not supported: rows of SQL in another form than SQL_FLAT_BUFFERS.",
            ));
        }
        if message.search_token.is_some_and(|token| !token.is_empty()) {
            let text = "Operation not supported: search_token of SQL.";
            return Err(Failure::with(Code::UnsupportedOperation, text));
        }
        Ok(SqlQuery {
            statement,
            knows_times: message.sql_version.unwrap_or(0) >= 1,
        })
    }
}

/// What kind of statement is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlStatement {
    /// SELECT.
    Select,
    /// CREATE TABLE.
    CreateTable,
    /// SHOW.
    Show,
    /// DESCRIBE.
    Describe,
    /// DROP MAPPING TABLE.
    DropTable,
    /// ALTER TABLE.
    AlterTable,
    /// INSERT, UPDATE, DELETE: SDKs know no number for them.
    Write,
}

/// What a statement used of a table, or of a search index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlConsumed {
    /// The table.
    pub table: String,
    /// The search index that led to the rows, if one did.
    pub index: Option<String>,
    /// The units.
    pub consumed: Consumed,
}

/// The answer to SQLQuery.
#[derive(Clone, Debug)]
pub struct SqlReply {
    /// What was asked.
    pub statement: SqlStatement,
    /// Columns, encoded; `None` = the statement answers none.
    rows: Option<Bytes>,
    /// What it used.
    pub used: Vec<SqlConsumed>,
}

impl SqlReply {
    /// An answer, encoded: of many rows that takes a while. No columns = the statement answers none.
    #[must_use]
    pub fn new(
        statement: SqlStatement,
        (columns, row_count): (&[SqlColumn], usize),
        used: Vec<SqlConsumed>,
    ) -> SqlReply {
        SqlReply {
            statement,
            rows: (!columns.is_empty()).then(|| encode(columns, row_count)),
            used,
        }
    }

    pub(super) fn message(self) -> proto::SqlQueryResponse {
        let (mut consumes, mut search_consumes) = (Vec::new(), Vec::new());
        for used in self.used {
            let (table_name, consumed) = (Some(used.table), Some(consumed(used.consumed)));
            match used.index {
                None => consumes.push(proto::TableConsumedCapacity {
                    table_name,
                    consumed,
                    ..Default::default()
                }),
                index_name => search_consumes.push(proto::SearchConsumedCapacity {
                    table_name,
                    index_name,
                    consumed,
                    ..Default::default()
                }),
            }
        }
        use proto::SqlStatementType as Type;
        let kind = match self.statement {
            SqlStatement::Select => Some(Type::SqlSelect),
            SqlStatement::CreateTable => Some(Type::SqlCreateTable),
            SqlStatement::Show => Some(Type::SqlShowTable),
            SqlStatement::Describe => Some(Type::SqlDescribeTable),
            SqlStatement::DropTable => Some(Type::SqlDropTable),
            SqlStatement::AlterTable => Some(Type::SqlAlterTable),
            SqlStatement::Write => None,
        };
        proto::SqlQueryResponse {
            consumes,
            rows: self.rows,
            version: Some(proto::SqlPayloadVersion::SqlFlatBuffers.into()),
            r#type: kind.map(Into::into),
            search_consumes,
        }
    }
}
