//! Names of tables and columns.
//!
//! Owns: which names are legal. Table names are words; column names may be nearly anything, as the service accepts
//! them, which is laxer than its documentation. Must not: know where a name came from.

use super::Error;
use super::limits::NAME_BYTES_MAX;

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
