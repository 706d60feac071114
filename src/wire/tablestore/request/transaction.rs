//! Local transactions: their start, and the IDs by which later requests name them.
//!
//! Owns: what a request says of a transaction. Promises: an ID that leaves this module has the form of one. Must not:
//! know which transactions are open.

use super::super::failure::Failure;
use super::super::proto;
use super::cells::decode_key;
use super::table::{missing, table_name};
use tideline_model::{KeyUse, PrimaryKey, TransactionId};

/// StartLocalTransaction.
#[derive(Clone, Debug)]
pub struct StartTransaction {
    /// The table.
    pub table: String,
    /// The partition key's column alone.
    pub key: PrimaryKey,
}

impl StartTransaction {
    pub(in super::super) fn from_message(
        message: proto::StartLocalTransactionRequest,
    ) -> Result<StartTransaction, Failure> {
        let table = table_name(message.table_name)?;
        let key = decode_key(&message.key.ok_or_else(missing)?, KeyUse::Read)?;
        if key.len() > 1 {
            let text = "StartLocalTransaction support only one primary key.";
            return Err(Failure::invalid(text));
        }
        Ok(StartTransaction { table, key })
    }
}

/// The ID that a request gives, if it gives one.
pub(in super::super) fn transaction(
    text: Option<String>,
) -> Result<Option<TransactionId>, Failure> {
    text.map(|text| parse(&text)).transpose()
}

/// The ID that a request has to give.
pub(in super::super) fn the_transaction(text: Option<String>) -> Result<TransactionId, Failure> {
    parse(&text.ok_or_else(missing)?)
}

fn parse(text: &str) -> Result<TransactionId, Failure> {
    let invalid = || Failure::invalid("TransactionID is invalid.");
    TransactionId::parse(text).ok_or_else(invalid)
}
