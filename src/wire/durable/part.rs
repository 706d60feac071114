//! The place of a message among those of its append.
//!
//! Owns: message IDs that say it: `ds:APPEND:NUMBER/COUNT`. Promises: other IDs are read as `None`. Must not: make the
//! append's name.

use std::fmt;

/// A message among those of its append, if these are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// The append.
    pub append: &'a str,
    /// From 1.
    pub number: u64,
    /// How many there are.
    pub count: u64,
}

impl<'a> Part<'a> {
    /// What a message's ID says.
    #[must_use]
    pub fn of(message_id: &'a str) -> Option<Part<'a>> {
        let (append, part) = message_id.strip_prefix("ds:")?.split_once(':')?;
        let (number, count) = part.split_once('/')?;
        let (number, count) = (number.parse().ok()?, count.parse().ok()?);
        (1..=count).contains(&number).then_some(Part {
            append,
            number,
            count,
        })
    }
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ds:{}:{}/{}", self.append, self.number, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_comes_back() {
        let part = Part {
            append: "x",
            number: 2,
            count: 3,
        };
        assert_eq!(Part::of(&part.to_string()), Some(part));
        for none in ["", "m-1", "ds:x:0/3", "ds:x:4/3", "ds:x:a/3", "ds:x"] {
            assert_eq!(Part::of(none), None, "{none}");
        }
    }
}
