//! The names of local transactions.
//!
//! Owns: the form of an ID. Promises: an ID can't be guessed; each has one text, and no other text is an ID. Must not:
//! know which transactions are open.

use std::fmt;

/// Names a transaction from its start on; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(uuid::Uuid);

impl TransactionId {
    /// One that nobody has.
    #[must_use]
    pub fn random() -> TransactionId {
        TransactionId(uuid::Uuid::new_v4())
    }

    /// Reads the text that `Display` writes; `None` if it is no ID's.
    #[must_use]
    pub fn parse(text: &str) -> Option<TransactionId> {
        let id = TransactionId(uuid::Uuid::try_parse(text).ok()?);
        (id.0.get_version_num() == 4 && id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0.hyphenated())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_text() {
        let id = TransactionId::random();
        let text = id.to_string();
        assert_eq!(TransactionId::parse(&text), Some(id));
        let others = [
            String::new(),
            "fake_transaction_id".to_owned(),
            text.to_uppercase() + " ",
            text.replace('-', ""),
            format!("{{{text}}}"),
            uuid::Uuid::nil().to_string(),
        ];
        for other in others {
            assert_eq!(TransactionId::parse(&other), None, "{other}");
        }
    }
}
