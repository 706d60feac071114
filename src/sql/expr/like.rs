//! LIKE.
//!
//! Owns: patterns. Promises: a text is matched in its length times the pattern's, at most; capitals count. Must not:
//! know expressions.

use crate::refusal::Refusal;
use crate::work;

/// Bytes of a pattern.
pub(super) const BYTES_MAX: usize = 1_024;

/// A part of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    One(char),
    AnyOne,
    Any,
}

/// A pattern: `%` is any text, `_` any character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Part>);

impl Pattern {
    pub(crate) fn new(text: &str, escape: Option<char>) -> Result<Pattern, Refusal> {
        if text.len() > BYTES_MAX {
            return Refusal::invalid(format!("a pattern of LIKE has at most {BYTES_MAX} bytes"));
        }
        let mut parts = Vec::new();
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            parts.push(match character {
                _ if Some(character) == escape => Part::One(characters.next().unwrap_or(character)),
                '%' if parts.last() == Some(&Part::Any) => continue,
                '%' => Part::Any,
                '_' => Part::AnyOne,
                other => Part::One(other),
            });
        }
        Ok(Pattern(parts))
    }

    /// The text that all matches begin with, and whether anything may follow it.
    pub(crate) fn prefix(&self) -> (String, bool) {
        let begins = self.0.iter().map_while(|part| match part {
            Part::One(character) => Some(*character),
            Part::AnyOne | Part::Any => None,
        });
        let prefix: String = begins.collect();
        let rest = &self.0[prefix.chars().count()..];
        (prefix, rest == [Part::Any])
    }

    /// Whether nothing in it stands for something else.
    pub(crate) fn is_plain(&self) -> bool {
        self.0.iter().all(|part| matches!(part, Part::One(_)))
    }

    pub(crate) fn matches(&self, text: &str) -> Result<bool, Refusal> {
        let (mut at, mut rest) = (0, text);
        // Behind the last `%`: its place in the pattern, and the text that it has not taken.
        let mut back: Option<(usize, &str)> = None;
        loop {
            work::spend(1)?;
            let next = rest.chars().next();
            match (self.0.get(at), next) {
                (Some(Part::Any), _) => {
                    at += 1;
                    back = Some((at, rest));
                    continue;
                }
                (Some(Part::One(wanted)), Some(found)) if *wanted == found => {}
                (Some(Part::AnyOne), Some(_)) => {}
                (None, None) => return Ok(true),
                _ => {
                    let Some((behind, left)) = back else {
                        return Ok(false);
                    };
                    let Some(skipped) = left.chars().next() else {
                        return Ok(false);
                    };
                    let left = &left[skipped.len_utf8()..];
                    (at, rest, back) = (behind, left, Some((behind, left)));
                    continue;
                }
            }
            at += 1;
            rest = &rest[next.map_or(0, char::len_utf8)..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("%", "", true),
            ("a%", "abc", true),
            ("a%", "bc", false),
            ("%c", "abcabc", true),
            ("%b_", "abab", false),
            ("%b_", "ababx", true),
            ("_", "ä", true),
            ("__", "ä", false),
            (r"\%", "%", true),
            (r"\%", "a", false),
            ("a%b%c", "a1b2b3c", true),
            ("A", "a", false),
        ] {
            let pattern = Pattern::new(pattern, Some('\\')).unwrap();
            assert_eq!(
                pattern.matches(text).unwrap(),
                expected,
                "{pattern:?} {text}"
            );
        }
        assert_eq!(
            Pattern::new("ab%", None).unwrap().prefix(),
            ("ab".to_owned(), true)
        );
        assert_eq!(
            Pattern::new("ab%c", None).unwrap().prefix(),
            ("ab".to_owned(), false)
        );
    }
}
