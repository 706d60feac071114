//! Attribute values, as the store, the timelines and the wire all name them.

use bytes::Bytes;

/// The value of an attribute cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// UTF-8 text.
    String(String),
    /// A 64-bit integer.
    Integer(i64),
    /// A finite double.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// Bytes.
    Binary(Bytes),
    /// A nested array or object, kept as compact JSON text and not interpreted.
    Json(String),
}
