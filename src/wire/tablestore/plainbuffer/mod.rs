//! PlainBuffer, the encoding of rows and keys inside of Tablestore's protobuf messages.
//!
//! Owns: the types of rows, cells and variants as they travel, and why a buffer is refused. Promises: what is decoded
//! encodes to the same row, any bytes give a row or an [`Error`], checksums are checked, and no length that a buffer
//! claims is believed before the bytes are there. Must not: know which cells an operation allows; `write` and `read`
//! do.
//!
//! ```text
//! buffer  = header:u32 row*                     everything little endian, header = 0x75
//! row     = 01 cell+ [02 cell+] [08] [0B extension] 09 checksum:1
//! cell    = 03 [04 length:i32 name] [05 length:i32 variant] [06 operation:1] [07 timestamp:i64] 0A checksum:1
//! variant = type:1 payload
//! ```

mod checksum;
mod cursor;
mod decode;
mod encode;

use std::fmt;

use bytes::Bytes;

pub use decode::{decode_row, decode_rows, decode_variant};
pub use encode::{RowBuffer, encode_change, encode_row, encode_rows, encode_variant};

const HEADER: u32 = 0x75;
const TAG_PRIMARY_KEY: u8 = 0x01;
const TAG_ATTRIBUTES: u8 = 0x02;
const TAG_CELL: u8 = 0x03;
const TAG_NAME: u8 = 0x04;
const TAG_VALUE: u8 = 0x05;
const TAG_OPERATION: u8 = 0x06;
const TAG_TIMESTAMP: u8 = 0x07;
const TAG_DELETE_MARKER: u8 = 0x08;
const TAG_ROW_CHECKSUM: u8 = 0x09;
const TAG_CELL_CHECKSUM: u8 = 0x0a;
const TAG_EXTENSION: u8 = 0x0b;
const TAG_SEQUENCE: u8 = 0x0c;
const TAG_SEQUENCE_EPOCH: u8 = 0x0d;
const TAG_SEQUENCE_TIME: u8 = 0x0e;
const TAG_SEQUENCE_ROW: u8 = 0x0f;

const TYPE_INTEGER: u8 = 0x00;
const TYPE_DOUBLE: u8 = 0x01;
const TYPE_BOOLEAN: u8 = 0x02;
const TYPE_STRING: u8 = 0x03;
const TYPE_NULL: u8 = 0x06;
const TYPE_BINARY: u8 = 0x07;
const TYPE_INF_MIN: u8 = 0x09;
const TYPE_INF_MAX: u8 = 0x0a;
const TYPE_AUTO_INCREMENT: u8 = 0x0b;

const DELETE_ALL_VERSIONS: u8 = 0x01;
const DELETE_ONE_VERSION: u8 = 0x03;
const INCREMENT: u8 = 0x04;

/// A value with its type, or a mark in its place.
#[derive(Clone, Debug, PartialEq)]
pub enum Variant {
    /// A signed integer.
    Integer(i64),
    /// A double; not a number and infinities travel too, and are refused behind this.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// UTF-8 text.
    String(String),
    /// Nothing; no operation takes it.
    Null,
    /// Bytes.
    Binary(Bytes),
    /// Below every value, in the bounds of a range.
    InfMin,
    /// Above every value, in the bounds of a range.
    InfMax,
    /// The place of a number that the server gives.
    AutoIncrement,
}

impl Variant {
    /// The type as the service's messages name it.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Variant::Integer(_) => "VT_INTEGER",
            Variant::Double(_) => "VT_DOUBLE",
            Variant::Boolean(_) => "VT_BOOLEAN",
            Variant::String(_) => "VT_STRING",
            Variant::Null => "VT_NULL",
            Variant::Binary(_) => "VT_BLOB",
            Variant::InfMin => "VT_INF_MIN",
            Variant::InfMax => "VT_INF_MAX",
            Variant::AutoIncrement => "VT_AUTO_INCREMENT",
        }
    }
}

/// What a cell does to its column; a cell without one puts its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellOperation {
    /// Removes the column.
    DeleteAllVersions,
    /// Removes the version with the cell's timestamp.
    DeleteOneVersion,
    /// Adds the cell's value.
    Increment,
}

/// A column of a key, or a version of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Not empty.
    pub name: String,
    /// None in cells that delete.
    pub value: Option<Variant>,
    /// None puts.
    pub operation: Option<CellOperation>,
    /// The version, milliseconds.
    pub timestamp: Option<i64>,
}

impl Cell {
    /// A cell of a primary key.
    #[must_use]
    pub fn key(name: impl Into<String>, value: Variant) -> Cell {
        Cell {
            name: name.into(),
            value: Some(value),
            operation: None,
            timestamp: None,
        }
    }

    /// A version of an attribute column.
    #[must_use]
    pub fn version(name: impl Into<String>, value: Variant, timestamp: i64) -> Cell {
        Cell {
            timestamp: Some(timestamp),
            ..Cell::key(name, value)
        }
    }
}

/// The place of a change in its stream; compares as the changes follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sequence {
    /// Grows when the clock stepped back.
    pub epoch: i32,
    /// Microseconds since 1970.
    pub timestamp: i64,
    /// Among the rows of one write.
    pub row: i32,
}

/// A row, a change of one, or a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// In the order of the table's schema.
    pub primary_key: Vec<Cell>,
    /// As sent.
    pub attributes: Vec<Cell>,
    /// The row is to be deleted.
    pub delete_marker: bool,
    /// In the records of a stream.
    pub sequence: Option<Sequence>,
}

impl Row {
    /// A key alone, as in bounds and in answers that give a key.
    #[must_use]
    pub fn key(primary_key: Vec<Cell>) -> Row {
        Row {
            primary_key,
            ..Row::default()
        }
    }
}

/// Why bytes are not a PlainBuffer. The texts are the service's where it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The buffer ends where something must follow, or a length passes its end.
    Truncated,
    /// A tag, length or flag that is not allowed here.
    Malformed,
    /// It begins with something else.
    Header(u32),
    /// Bytes behind a value, in its cell.
    Leftover,
    /// A cell's or row's checksum is not that of its content.
    Checksum {
        /// As sent.
        sent: u8,
        /// As computed.
        computed: u8,
    },
    /// A row that ends without checksum.
    RowWithoutChecksum,
    /// A cell that ends without checksum.
    CellWithoutChecksum(String),
    /// An unknown type of value.
    UnknownVariant(u8),
    /// A text that is longer than its variant.
    StringLength(i32),
    /// A text that is not UTF-8.
    NotUtf8(String),
    /// A row without key.
    NoPrimaryKey,
    /// More cells than any row that is written may have.
    TooManyCells,
    /// A key column without name.
    UnnamedKey,
    /// An attribute column without name.
    UnnamedAttribute,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Truncated | Error::Malformed => {
                f.write_str("Cannot deserialize the request data.")
            }
            Error::Header(actual) => write!(
                f,
                "Cell data broken, mismatch header, actual: {actual} , expect: {HEADER}."
            ),
            Error::Leftover => {
                f.write_str("Cell data broken, has more data in cell, but they can't be parsed.")
            }
            Error::Checksum { sent, computed } => write!(
                f,
                "Cell data broken, checksum is mismatch, {sent} :{computed} :"
            ),
            Error::RowWithoutChecksum => f.write_str("Invalid row: missing checksum."),
            Error::CellWithoutChecksum(name) => {
                write!(f, "Invalid Column({name}): missing checksum.")
            }
            Error::UnknownVariant(_) => {
                f.write_str("data format is invalid, unknown variant type occured.")
            }
            Error::StringLength(length) => {
                write!(f, "Cell data broken, wrong string format, size: {length}.")
            }
            Error::NotUtf8(name) => write!(f, "Value of column {name} must be UTF8 encoding."),
            Error::NoPrimaryKey => f.write_str("Cell data broken, PK is empty."),
            Error::TooManyCells => {
                f.write_str("The number of columns in one row exceeded the limit.")
            }
            Error::UnnamedKey => f.write_str("No name is given for primary key."),
            Error::UnnamedAttribute => f.write_str("Invalid column name: ''."),
        }
    }
}

impl std::error::Error for Error {}
