//! What `tests/fuzz` reaches of the timelines. Only in builds with the feature `faults`.
//!
//! Owns: the list. Promises: each takes any bytes. Must not: be called by anything but that test.

use tideline_base::faults::Decoder;

/// Decoders by name.
pub const TARGETS: [&[Decoder]; 2] = [crate::timeline::fuzz::TARGETS, crate::people::fuzz::TARGETS];
