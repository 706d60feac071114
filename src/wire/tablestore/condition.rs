//! What has to hold of a row before it is written.
//!
//! Owns: row existence and column conditions. Promises: a condition that leaves this module has a legal filter of rows.
//! Must not: look at rows.

use super::failure::Failure;
use super::filter::Predicate;
use super::proto;
use super::table::missing;

/// What a write demands of the row's existence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existence {
    /// Nothing.
    #[default]
    Ignore,
    /// There is one.
    Expected,
    /// There is none.
    Unexpected,
}

/// What has to hold of the row before a write.
#[derive(Clone, Debug, Default)]
pub struct Condition {
    /// Of its existence.
    pub existence: Existence,
    /// Of its columns.
    pub columns: Option<Predicate>,
}

impl Condition {
    pub(super) fn decode(message: proto::Condition) -> Result<Condition, Failure> {
        let code = message.row_existence.ok_or_else(missing)?;
        let existence = match proto::RowExistenceExpectation::try_from(code) {
            Ok(proto::RowExistenceExpectation::Ignore) => Existence::Ignore,
            Ok(proto::RowExistenceExpectation::ExpectExist) => Existence::Expected,
            Ok(proto::RowExistenceExpectation::ExpectNotExist) => Existence::Unexpected,
            Err(_) => {
                let text = format!("Invalid row-existence expectation: {code}.");
                return Err(Failure::invalid(text));
            }
        };
        let columns = message.column_condition.filter(|bytes| !bytes.is_empty());
        Ok(Condition {
            existence,
            columns: columns.as_ref().map(Predicate::decode).transpose()?,
        })
    }
}

impl Existence {
    /// As the service's messages name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Existence::Ignore => "IGNORE",
            Existence::Expected => "EXPECT_EXIST",
            Existence::Unexpected => "EXPECT_NOT_EXIST",
        }
    }
}
