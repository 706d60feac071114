//! The rules of single names, key values, attribute values and versions.
//!
//! Owns: which names are legal, and which values may be used where. Table names are words; column names may be nearly
//! anything, as the service accepts them, which is laxer than its documentation. Must not: know where they came from.

use super::limits::{KEY_VALUE_BYTES_MAX, NAME_BYTES_MAX, VALUE_BYTES_MAX, VERSION_END};
use super::{Error, KeyValue, Value, ValueRef};

/// What a text without control characters matches, for schemas.
pub const NO_CONTROL: &str = "^[^\\x00-\\x1f\\x7f-\\x9f]*$";

/// A table's name: letters, digits and underscores, no digit first, 1 to 255 bytes.
pub fn check_table_name(name: &str) -> Result<(), Error> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let first = name.bytes().next();
    let begins = first.is_some_and(|byte| !byte.is_ascii_digit());
    if begins && name.bytes().all(is_word) && name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    Err(Error::InvalidTableName(name.to_owned()))
}

/// A column's name: 1 to 255 bytes that do not begin with `#`.
pub fn check_column_name(name: &str) -> Result<(), Error> {
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with('#') {
        return Ok(());
    }
    Err(Error::InvalidColumnName(name.to_owned()))
}

/// Checks the version that a client gives a cell.
pub fn check_version(version: i64) -> Result<(), Error> {
    match (0..VERSION_END).contains(&version) {
        true => Ok(()),
        false => Err(Error::VersionOutOfRange),
    }
}

/// What a key is used for, which decides what may stand in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    /// To read a row.
    Read,
    /// To write a row.
    Write,
    /// As the bound of a range.
    Bound,
}

impl KeyValue {
    /// Checks that a value of the column `name` may be used so.
    pub fn check(&self, name: &str, used: KeyUse) -> Result<(), Error> {
        match (self, used) {
            (KeyValue::InfMin | KeyValue::InfMax, KeyUse::Read | KeyUse::Write) => {
                return Err(Error::KeyValue(self.clone()));
            }
            (KeyValue::AutoIncrement, KeyUse::Read | KeyUse::Bound) => {
                return Err(Error::AutoIncrementInRead);
            }
            _ => {}
        }
        if self.size() > KEY_VALUE_BYTES_MAX {
            return Err(Error::KeyTooLong {
                column: name.to_owned(),
                length: self.size(),
            });
        }
        Ok(())
    }
}

impl Value {
    /// The value, if an attribute may have it; `column` is the attribute's name.
    pub fn checked(self, column: &str) -> Result<Value, Error> {
        match &self {
            Value::Double(number) if number.is_nan() => return Err(Error::NotANumber),
            Value::Double(number) if number.is_infinite() => return Err(Error::Infinite),
            _ => {}
        }
        let length = ValueRef::from(&self).size();
        if length > VALUE_BYTES_MAX {
            return Err(Error::ValueTooLong {
                column: column.to_owned(),
                length,
            });
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_names_are_words() {
        for good in ["a", "_", "A_9", &"x".repeat(255)] {
            check_table_name(good).unwrap();
        }
        for bad in ["", "9a", "a-b", "a b", "ä", "#a", &"x".repeat(256)] {
            let error = Error::InvalidTableName(bad.to_owned());
            assert_eq!(check_table_name(bad), Err(error));
        }
    }

    #[test]
    fn column_names_are_nearly_anything() {
        for good in ["a", "9", "a b", "消息", "a#", "\n", &"x".repeat(255)] {
            check_column_name(good).unwrap();
        }
        for bad in ["", "#a", &"x".repeat(256)] {
            let error = Error::InvalidColumnName(bad.to_owned());
            assert_eq!(check_column_name(bad), Err(error));
        }
    }
}
