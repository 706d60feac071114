//! The suites in other languages, each against the real binary.
//!
//! Owns: the lock that lets one run at a time, as each takes all processors for some of its time. The protocol's, the
//! longest, takes no lock: what it leaves idle, the others use. Must not: know what a suite tests.

mod centrifuge;
mod clients;
mod console;
mod durable;
mod node_bed;
mod packages;
mod protocol;
mod python_bed;
mod tablestore;

use std::sync::{Mutex, MutexGuard, PoisonError};

static ONE: Mutex<()> = Mutex::new(());

/// Waits until no other suite runs.
fn alone() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
