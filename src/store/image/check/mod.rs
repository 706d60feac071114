//! The image looked at with distrust.
//!
//! Owns: what must hold of LMDB's file and of what is in it. Promises: damage is reported with its place, never
//! followed. Must not: write.

pub(super) mod file_check;
pub(super) mod salvage;
mod spans;
pub(super) mod verify;
