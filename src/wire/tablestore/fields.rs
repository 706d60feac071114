//! Counting the fields of protobuf messages before they are decoded.
//!
//! Owns: the walk over a message's outermost fields. Promises: allocates nothing, so that what is refused for its
//! number of fields costs nothing; a field of two bytes may otherwise become hundreds in memory. Must not: know
//! messages.

use prost::bytes::Buf;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::failure::Failure;

/// Calls `each` with the number of every field, and with its content where that is bytes, a text or a message.
///
/// # Errors
/// What is not a message; the first error of `each`.
pub(super) fn walk<'a>(
    message: &'a [u8],
    mut each: impl FnMut(u32, &'a [u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut rest = message;
    while rest.has_remaining() {
        let (number, wire) = decode_key(&mut rest)?;
        let field = rest;
        skip_field(wire, number, &mut rest, DecodeContext::default())?;
        let mut content = &field[..field.len() - rest.len()];
        if wire == WireType::LengthDelimited {
            decode_varint(&mut content)?;
        }
        each(number, content)?;
    }
    Ok(())
}

/// How many fields of this number a message has.
///
/// # Errors
/// What is not a message.
pub(super) fn count(message: &[u8], number: u32) -> Result<usize, Failure> {
    let mut count = 0;
    walk(message, |found, _| {
        count += usize::from(found == number);
        Ok(())
    })?;
    Ok(count)
}
