//! What `tests/fuzz` reaches of the store. Only in builds with the feature `faults`.
//!
//! Owns: the list. Promises: each takes any bytes. Must not: be called by anything but that test.

use tideline_base::faults::Decoder;

/// Decoders by name.
pub const TARGETS: [&[Decoder]; 2] = [
    crate::image::fuzz::TARGETS,
    crate::log::local::fuzz::TARGETS,
];
