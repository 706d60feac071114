//! What the environment variable `TIDELINE_FAULT` names, for tests: points at which the process ends as if by a kill,
//! pauses, and promises that are broken. Only in builds with the feature `faults`.
//!
//! Owns: how the variable is read: names between commas, each perhaps with a number, as in `relay_answered:3`.
//! Promises: without the feature it names nothing. Must not: know the names; those are where they have an effect.

#[cfg(feature = "faults")]
pub mod turns;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A decoder that `tests/fuzz` gives any bytes, by name.
pub type Decoder = (&'static str, fn(&[u8]));

/// One name of the variable.
pub struct Named {
    /// Without its number.
    pub name: String,
    /// At how many arrivals from now a point of this name ends the process: the number behind the name, else 1.
    pub countdown: AtomicU32,
}

/// Everything that the variable names.
pub fn named() -> &'static [Named] {
    static NAMED: OnceLock<Vec<Named>> = OnceLock::new();
    if !cfg!(feature = "faults") {
        return &[];
    }
    NAMED.get_or_init(|| read(&std::env::var("TIDELINE_FAULT").unwrap_or_default()))
}

/// Whether the variable has this name, or the walk that this thread is of.
pub fn is_named(name: &str) -> bool {
    #[cfg(feature = "faults")]
    if turns::is_planted(name) {
        return true;
    }
    named().iter().any(|one| one.name == name)
}

/// Here another thread of a walk over all orders goes on, perhaps (`turns`). Elsewhere it is nothing.
pub fn point() {
    #[cfg(feature = "faults")]
    turns::pass();
}

/// Whether the variable names this point, and this is the arrival that it names.
pub fn comes(point: &str) -> bool {
    let named = named().iter().find(|one| one.name == point);
    named.is_some_and(|one| one.countdown.fetch_sub(1, Ordering::SeqCst) == 1)
}

/// Ends the process then.
pub fn reached(point: &str) {
    if comes(point) {
        std::process::abort();
    }
}

fn read(text: &str) -> Vec<Named> {
    let one = |part: &str| {
        let (name, number) = part.split_once(':').unwrap_or((part, "1"));
        Named {
            name: name.to_owned(),
            countdown: AtomicU32::new(number.parse().unwrap_or(1)),
        }
    };
    text.split(',').map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_with_their_numbers() {
        let read = read("relay_answered:3,relay_twice");
        let read = read.into_iter();
        let read: Vec<_> = read
            .map(|one| (one.name, one.countdown.into_inner()))
            .collect();
        let expected = [("relay_answered", 3), ("relay_twice", 1)];
        assert_eq!(read, expected.map(|(name, count)| (name.to_owned(), count)));
    }
}
