//! Below which numbers messages were taken out of an index already.
//!
//! Owns: what each change of a trimmed timeline would have looked for again. Promises: a removal is left out only if
//! nothing with a lower number was put since; a timeline that is deleted has no floor. Must not: outlive its index, as
//! it was opened.

use std::collections::HashMap;

/// See the top.
#[derive(Debug, Default)]
pub(super) struct Floors(HashMap<String, i64>);

/// Timelines that are kept in mind.
const KEPT_MAX: usize = 10_000;
/// What is taken out with the whole timeline is not kept in mind: another one may get its name.
const WHOLE: i64 = i64::MAX;

impl Floors {
    /// Whether everything below a number is out.
    pub(super) fn has_lowered(&self, timeline: &str, number: i64) -> bool {
        number < WHOLE && self.0.get(timeline).is_some_and(|floor| *floor >= number)
    }

    /// Everything below a number is out now.
    pub(super) fn lowered(&mut self, timeline: &str, number: i64) {
        if number == WHOLE {
            self.0.remove(timeline);
            return;
        }
        if self.0.len() >= KEPT_MAX {
            self.0.clear();
        }
        self.0.insert(timeline.to_owned(), number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_of_a_name_that_was_used_before_has_a_floor_of_its_own() {
        let mut floors = Floors::default();
        assert!(!floors.has_lowered("a", 5));
        floors.lowered("a", 5);
        assert!(floors.has_lowered("a", 5) && floors.has_lowered("a", 3));
        assert!(!floors.has_lowered("a", 6) && !floors.has_lowered("b", 1));
        assert!(!floors.has_lowered("a", WHOLE));
        floors.lowered("a", WHOLE);
        assert!(!floors.has_lowered("a", 3) && !floors.has_lowered("a", WHOLE));
    }
}
