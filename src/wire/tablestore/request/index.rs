//! What requests say about secondary indexes, and how they are described.
//!
//! Owns: requests about one index, and its message in answers. Promises: an index that leaves this module keeps every
//! rule that needs no table. Must not: know which tables and columns there are.

use super::super::failure::Failure;
use super::super::proto;
use super::table::{index_meta, missing, table_name};
use tideline_model::{IndexDefinition, IndexKind, IndexMeta, IndexState};

/// An index that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateIndex {
    /// Of this table.
    pub table: String,
    /// What it is.
    pub index: IndexMeta,
    /// Whether it is also of the rows that are there.
    pub of_all: bool,
}

impl CreateIndex {
    pub(in super::super) fn from_message(
        message: proto::CreateIndexRequest,
    ) -> Result<Self, Failure> {
        Ok(CreateIndex {
            table: table_name(message.main_table_name)?,
            index: index_meta(message.index_meta.ok_or_else(missing)?)?,
            of_all: message.include_base_data.unwrap_or(false),
        })
    }
}

/// An index as its table is described: what was asked for, not what it was completed to.
pub(in super::super) fn index_message(index: &IndexDefinition) -> proto::IndexMeta {
    let (kind, mode) = match index.meta.kind {
        IndexKind::Global => (
            proto::IndexType::ItGlobalIndex,
            proto::IndexUpdateMode::IumAsyncIndex,
        ),
        IndexKind::Local => (
            proto::IndexType::ItLocalIndex,
            proto::IndexUpdateMode::IumSyncIndex,
        ),
    };
    let phase = match index.state {
        IndexState::Building => proto::IndexSyncPhase::Full,
        IndexState::Complete | IndexState::Since => proto::IndexSyncPhase::Incr,
    };
    proto::IndexMeta {
        name: Some(index.meta.name.clone()),
        primary_key: index.meta.key.clone(),
        defined_column: index.meta.columns.clone(),
        index_update_mode: Some(mode.into()),
        index_type: Some(kind.into()),
        index_sync_phase: Some(phase.into()),
    }
}
