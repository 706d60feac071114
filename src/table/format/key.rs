//! Row keys: a table's ID, then the encoded primary key columns.
//!
//! Owns: the layout of a key. Promises: keys of one table sort by its columns and lie together; the first column is the
//! partition key and can be cut off without decoding. Must not: know which tables there are.

use tideline_base::ids::TableId;
use tideline_base::ordered;
use tideline_base::ordered::Reader;

use super::super::Malformed;

const TABLE_BYTES: usize = 4;

/// A row's key, or a bound of a range of rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Vec<u8>);

impl Key {
    /// A key of `table` that starts with columns that are encoded already, with room for `more` bytes behind them.
    #[must_use]
    pub fn new(table: TableId, columns: &[u8], more: usize) -> Key {
        let mut bytes = Vec::with_capacity(TABLE_BYTES + columns.len() + more);
        bytes.extend_from_slice(&table.0.to_be_bytes());
        bytes.extend_from_slice(columns);
        Key(bytes)
    }

    /// Adds a text column.
    #[must_use]
    pub fn string(mut self, value: &str) -> Key {
        ordered::push_string(&mut self.0, value);
        self
    }

    /// Makes it the bound below all rows whose next column is a text from these bytes on.
    #[must_use]
    pub fn text_from(mut self, bytes: &[u8]) -> Key {
        ordered::push_text_from(&mut self.0, bytes);
        self
    }

    /// Adds an integer column that is not negative.
    #[must_use]
    pub fn number(mut self, value: u64) -> Key {
        ordered::push_u64(&mut self.0, value);
        self
    }

    /// A key with one integer column more.
    #[must_use]
    pub fn numbered(&self, value: u64) -> Key {
        let mut bytes = Vec::with_capacity(self.0.len() + ordered::INTEGER_BYTES_MAX);
        bytes.extend_from_slice(&self.0);
        Key(bytes).number(value)
    }

    /// Adds columns that are encoded already.
    #[must_use]
    pub fn columns(mut self, encoded: &[u8]) -> Key {
        self.0.extend_from_slice(encoded);
        self
    }

    /// Makes it the bound below all rows that have these columns.
    #[must_use]
    pub fn below_all(mut self) -> Key {
        ordered::push_inf_min(&mut self.0);
        self
    }

    /// Makes it the bound above all rows that have these columns.
    #[must_use]
    pub fn above_all(mut self) -> Key {
        ordered::push_inf_max(&mut self.0);
        self
    }

    /// The key's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key's bytes, to be kept.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// The table and the encoded columns of a key.
#[must_use]
pub fn split_key(key: &[u8]) -> Option<(TableId, &[u8])> {
    let (table, columns) = key.split_first_chunk::<TABLE_BYTES>()?;
    Some((TableId(u32::from_be_bytes(*table)), columns))
}

/// The part of a key up to the end of its partition key.
pub(in super::super) fn partition_prefix(key: &[u8]) -> Result<&[u8], Malformed> {
    let (_, columns) = split_key(key).ok_or(Malformed)?;
    let first = Reader::new(columns).skip()?;
    Ok(&key[..TABLE_BYTES + first.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_by_table_then_columns_and_bounds_enclose_them() {
        let mut name = Vec::new();
        ordered::push_string(&mut name, "ab");
        let row = Key::new(TableId(3), &name, 9).number(7);
        assert_eq!(row, Key::new(TableId(3), &[], 0).string("ab").number(7));
        assert!(row < Key::new(TableId(3), &name, 9).number(8));
        assert!(row < Key::new(TableId(4), &[], 9).string("a").number(1));
        let all = Key::new(TableId(3), &name, 1);
        assert!(all.clone().below_all() < row && row < all.clone().above_all());
        assert!(all.above_all() < Key::new(TableId(3), &[], 9).string("abc").number(0));
        assert_eq!(
            split_key(row.as_bytes()),
            Some((TableId(3), &row.as_bytes()[4..]))
        );
        assert_eq!(
            partition_prefix(row.as_bytes()),
            Ok(&row.as_bytes()[..4 + name.len()])
        );
        let from = |bytes: &[u8]| Key::new(TableId(3), &[], 0).text_from(bytes);
        assert!(from(b"a") < row && from(b"ab") < row && from(b"ab\0") > row && from(b"ac") > row);
        assert!(from(b"ab\0") < Key::new(TableId(3), &[], 0).string("ab!"));
        assert!(partition_prefix(&[0, 0, 0, 1, 0x30, b'a']).is_err());
    }
}
