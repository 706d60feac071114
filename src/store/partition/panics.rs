//! Panics in code that is called for one call only.
//!
//! Owns: catching one. Promises: it is logged once, with its text; the caller counts it. Must not: be put around what
//! owns a part of the store: nobody knows what state that is in then.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `run`; `None` = it panicked. `what` panicked is for the log. What `run` has half changed must not be used
/// again.
pub fn caught<R>(what: &str, run: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => Some(result),
        Err(panic) => {
            tracing::error!(panic = text_of(&*panic), "{what} panicked");
            None
        }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a text")
}
