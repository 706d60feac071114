//! Names of tables and columns.
//!
//! Owns: which names are legal. Table names are words; column names may be nearly anything, as the service accepts
//! them, which is laxer than its documentation. Must not: know where a name came from.

use super::failure::Failure;
use super::limits::NAME_BYTES_MAX;

/// A table's name: letters, digits and underscores, no digit first, 1 to 255 bytes.
pub(super) fn check_table_name(name: &str) -> Result<(), Failure> {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let begins = name
        .bytes()
        .next()
        .is_some_and(|byte| !byte.is_ascii_digit());
    if begins && name.bytes().all(word) && name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    Err(Failure::invalid(format!("Invalid table name: '{name}'.")))
}

/// A column's name: 1 to 255 bytes that do not begin with `#`.
pub(super) fn check_column_name(name: &str) -> Result<(), Failure> {
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with('#') {
        return Ok(());
    }
    Err(Failure::invalid(format!("Invalid column name: '{name}'.")))
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
            let failure = check_table_name(bad).unwrap_err();
            assert_eq!(failure.message, format!("Invalid table name: '{bad}'."));
        }
    }

    #[test]
    fn column_names_are_nearly_anything() {
        for good in ["a", "9", "a b", "消息", "a#", "\n", &"x".repeat(255)] {
            check_column_name(good).unwrap();
        }
        for bad in ["", "#a", &"x".repeat(256)] {
            let failure = check_column_name(bad).unwrap_err();
            assert_eq!(failure.message, format!("Invalid column name: '{bad}'."));
        }
    }
}
