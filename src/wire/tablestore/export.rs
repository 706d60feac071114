//! ExportTable, an operation of our own: one step of `tideline export`.
//!
//! Owns: what a step asks for. Must not: know which partitions there are.

use super::failure::Failure;
use super::proto;
use super::request::cells::decode_key;
use super::request::table::{missing, table_name};
use tideline_base::ids::{PartitionId, Position};
use tideline_model::{KeyUse, PrimaryKey};

/// ExportTable.
#[derive(Clone, Debug)]
pub struct ExportTable {
    /// The table.
    pub table: String,
    /// Of which partition; `None` = of the first.
    pub partition: Option<PartitionId>,
    /// What the first value of the rows' keys begins with.
    pub prefix: Option<String>,
    /// What of it.
    pub what: Export,
}

/// What a step of an export reads.
#[derive(Clone, Debug)]
pub enum Export {
    /// Rows from a key on, or from the first one.
    Rows(Option<PrimaryKey>),
    /// What was changed above a position.
    Changes(Position),
}

impl ExportTable {
    pub(super) fn from_message(message: proto::ExportTableRequest) -> Result<Self, Failure> {
        let table = table_name(message.table_name)?;
        let partition = message.partition.map(u16::try_from).transpose();
        let partition = partition.map_err(|_| missing())?.map(PartitionId);
        let start = message.start_primary_key.as_ref();
        let start = start.map(|key| decode_key(key, KeyUse::Read)).transpose()?;
        Ok(ExportTable {
            table,
            partition,
            prefix: message.prefix,
            what: match message.position {
                Some(position) => Export::Changes(Position(position)),
                None => Export::Rows(start),
            },
        })
    }
}
