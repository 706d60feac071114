//! What `tests/fuzz` reaches of the gateway. Only in builds with the feature `faults`.
//!
//! Owns: the list. Promises: each takes any bytes. Must not: be called by anything but that test.

use tideline_base::faults::Decoder;

/// Decoders by name.
pub const TARGETS: [&[Decoder]; 4] = [
    &[("dead_letter", dead_letter)],
    crate::credentials::fuzz::TARGETS,
    crate::http::fuzz::TARGETS,
    crate::session::fuzz::TARGETS,
];

/// The columns of its row behind their length, then its value.
fn dead_letter(input: &[u8]) {
    if let Some((length, bytes)) = input.split_first() {
        let (columns, value) = bytes.split_at(bytes.len().min(usize::from(*length)));
        let _ = crate::webhook::dead::decode(columns, value);
    }
}
