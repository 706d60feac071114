//! Frames of a WebSocket client, for tests that speak without a library.
//!
//! Owns: their form. Must not: be kind: whatever first byte is asked for is written.

#![allow(clippy::unwrap_used)] // lengths that were just compared

/// A client's frame: masked with zeros, so that the bytes stay readable.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..=125 => bytes.push(0x80 | u8::try_from(length).expect("up to 125")),
        length @ 126..=65_535 => {
            bytes.push(0x80 | 126);
            bytes.extend(u16::try_from(length).expect("16 bits").to_be_bytes());
        }
        length => {
            bytes.push(0x80 | 127);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
    bytes.extend([0; 4]);
    bytes.extend(payload);
    bytes
}
