//! The store: bytes under ordered keys, in partitions.
//!
//! Owns: the commit log, the memtables and the image of each partition, and the directory that they lie in. Promises:
//! those of [`partition`], through which alone the crates above come. Must not: know what a row is.

#[cfg(feature = "faults")]
pub mod fuzz;
mod image;
mod log;
pub mod partition;
mod squeeze;
