//! The suites in other languages, each against the real binary.
//!
//! Owns: the list of them. Promises: they may run side by side; what several of them need is made once. Must not: know
//! what a suite tests.

mod centrifuge;
mod clients;
mod console;
mod node_bed;
mod packages;
mod protocol;
mod python_bed;
mod tablestore;
