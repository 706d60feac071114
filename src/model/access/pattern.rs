//! Patterns of names: which timelines and tables a grant is about.
//!
//! Owns: their syntax and the comparison. Promises: parsed once, compared by bytes and never expanded as text, so a
//! user's name can't bring syntax into a pattern; no `*` reaches a name that starts with `$`. Must not: know rights.

use std::fmt;

/// A name, or a prefix and `*`; a segment between slashes may be `{user}`, which is the caller's user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: Box<str>,
    parts: Box<[Part]>,
    /// It ended with `*`.
    open: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    User,
}

/// Why a text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// It is empty.
    Empty,
    /// It is longer than a name can be with its `*`.
    TooLong,
    /// A control character, which no name has.
    Control,
    /// A `*` that is not the last character.
    Star,
    /// A `*` behind a `$`: the server's own names are given one by one.
    ServersOwn,
    /// A brace that is not of a whole segment `{user}`.
    Braces,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PatternError::Empty => "a pattern must not be empty",
            PatternError::TooLong => "a pattern is at most 255 bytes and a *",
            PatternError::Control => "no name has control characters",
            PatternError::Star => "a * stands only at the end of a pattern",
            PatternError::ServersOwn => "no * reaches into names that start with $",
            PatternError::Braces => {
                "braces stand only as {user}, which is a whole segment between slashes"
            }
        })
    }
}

/// Bytes of a timeline's name.
const NAME_BYTES_MAX: usize = 255;
const USER: &str = "{user}";

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Pattern, PatternError> {
        let open = text.ends_with('*');
        let fixed = text.strip_suffix('*').unwrap_or(text);
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        if fixed.len() > NAME_BYTES_MAX {
            return Err(PatternError::TooLong);
        }
        if fixed.contains(char::is_control) {
            return Err(PatternError::Control);
        }
        if fixed.contains('*') {
            return Err(PatternError::Star);
        }
        if open && fixed.starts_with('$') {
            return Err(PatternError::ServersOwn);
        }
        // Behind the last slash the `*` belongs to the segment, too: `{user}*` would reach other users.
        let is_whole = |segment: &str, is_last: bool| segment == USER && !(is_last && open);
        let (mut parts, mut plain) = (Vec::new(), String::new());
        let last = fixed.split('/').count() - 1;
        for (at, segment) in fixed.split('/').enumerate() {
            if at > 0 {
                plain.push('/');
            }
            if is_whole(segment, at == last) {
                parts.extend((!plain.is_empty()).then(|| Part::Text(plain.as_str().into())));
                plain.clear();
                parts.push(Part::User);
            } else if segment.contains(['{', '}']) {
                return Err(PatternError::Braces);
            } else {
                plain.push_str(segment);
            }
        }
        parts.extend((!plain.is_empty()).then(|| Part::Text(plain.as_str().into())));
        Ok(Pattern {
            text: text.into(),
            parts: parts.into(),
            open,
        })
    }

    /// One name, whatever is in it.
    pub(super) fn exactly(name: &str) -> Pattern {
        Pattern {
            text: name.into(),
            parts: Box::new([Part::Text(name.into())]),
            open: false,
        }
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is `*` alone: all names but the server's own.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.open && self.parts.is_empty()
    }

    /// Whether a name is among those that it says, to a user.
    #[must_use]
    pub fn matches(&self, name: &[u8], user: Option<&str>) -> bool {
        // Only a pattern that starts with `$` itself reaches there.
        let says_dollar =
            matches!(self.parts.first(), Some(Part::Text(text)) if text.starts_with('$'));
        if name.first() == Some(&b'$') && !says_dollar {
            return false;
        }
        let mut rest = name;
        for part in &self.parts {
            let text = match part {
                Part::Text(text) => text,
                Part::User => match user.filter(|user| can_be_segment(user)) {
                    Some(user) => user,
                    None => return false,
                },
            };
            match rest.strip_prefix(text.as_bytes()) {
                Some(behind) => rest = behind,
                None => return false,
            }
        }
        self.open || rest.is_empty()
    }

    /// The names that it says to a user, as the text with which they begin, and whether more may follow. `None` = no
    /// name. Those that start with `$` are not among them unless the text does.
    #[must_use]
    pub fn range(&self, user: Option<&str>) -> Option<(Vec<u8>, bool)> {
        let mut fixed = Vec::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => fixed.extend_from_slice(text.as_bytes()),
                Part::User => {
                    let user = user.filter(|user| can_be_segment(user))?;
                    fixed.extend_from_slice(user.as_bytes());
                }
            }
        }
        self.matches(&fixed, user).then_some((fixed, self.open))
    }
}

/// A user's name that holds a slash would be more than a segment; a `*` is refused lest somebody else reads it as one.
fn can_be_segment(user: &str) -> bool {
    !user.is_empty() && !user.contains(['/', '*'])
}

#[cfg(test)]
pub(in crate::access) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, name: &str, user: &str) -> bool {
        let user = (!user.is_empty()).then_some(user);
        Pattern::parse(pattern)
            .unwrap()
            .matches(name.as_bytes(), user)
    }

    #[test]
    fn names_prefixes_and_users() {
        for (pattern, name, user, expected) in [
            ("room/1", "room/1", "", true),
            ("room/1", "room/10", "", false),
            ("room/1", "room/", "", false),
            ("room/*", "room/10", "", true),
            ("room/*", "room/", "", true),
            ("room/*", "room", "", false),
            ("*", "anything", "", true),
            ("*", "$inbox/ann", "", false),
            ("$inbox/ann", "$inbox/ann", "", true),
            ("$inbox/{user}", "$inbox/ann", "ann", true),
            ("{user}", "ann", "ann", true),
            ("{user}", "$ann", "$ann", false),
            ("{user}/*", "ann/notes", "ann", true),
            ("{user}/*", "annie/notes", "ann", false),
            ("{user}/*", "ann/notes", "", false),
            ("home/{user}/x", "home/ann/x", "ann", true),
            ("home/{user}/x", "home/ann/y", "ann", false),
            ("home/{user}", "home/ann2", "ann", false),
            // A user can't be more than a segment, or bring syntax in.
            ("home/{user}/*", "home/a/b/c", "a/b", false),
            ("home/{user}", "home/*", "*", false),
            ("home/{user}", "home/{user}", "{user}", true),
        ] {
            assert_eq!(
                matches(pattern, name, user),
                expected,
                "{pattern} {name} {user}"
            );
        }
    }

    #[test]
    fn malformed_patterns_are_refused() {
        let long = "x".repeat(256);
        for (text, error) in [
            ("", PatternError::Empty),
            (&long, PatternError::TooLong),
            ("a\nb", PatternError::Control),
            ("a*b", PatternError::Star),
            ("**", PatternError::Star),
            ("*/a", PatternError::Star),
            ("$*", PatternError::ServersOwn),
            ("$inbox/*", PatternError::ServersOwn),
            ("dm-{user}", PatternError::Braces),
            ("{user}-dm", PatternError::Braces),
            ("{user}*", PatternError::Braces),
            ("a/{user}*", PatternError::Braces),
            ("a/{name}", PatternError::Braces),
            ("a/{user", PatternError::Braces),
            ("a}b", PatternError::Braces),
        ] {
            assert_eq!(Pattern::parse(text), Err(error), "{text}");
        }
        Pattern::parse(&"x".repeat(255)).unwrap();
        Pattern::parse(&format!("{}*", "x".repeat(255))).unwrap();
    }

    /// Texts in which patterns, names and users meet often.
    pub(in crate::access) fn small_text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("a"),
            Just("b"),
            Just("/"),
            Just("$"),
            Just("*"),
            Just("{user}"),
            Just("{"),
            Just("ab")
        ];
        prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
    }

    /// The rule as a text is read by a person: replace the user's segments, then compare.
    fn by_hand(text: &str, name: &str, user: &str) -> bool {
        let (fixed, open) = match text.strip_suffix('*') {
            Some(fixed) => (fixed, true),
            None => (text, false),
        };
        let mut segments = Vec::new();
        for segment in fixed.split('/') {
            let fits = !user.is_empty() && !user.contains('/') && !user.contains('*');
            match segment {
                "{user}" if fits => segments.push(user),
                "{user}" => return false,
                other => segments.push(other),
            }
        }
        let fixed = segments.join("/");
        let is_hidden = name.starts_with('$') && !text.starts_with('$');
        !is_hidden
            && if open {
                name.starts_with(&fixed)
            } else {
                name == fixed
            }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]
        #[test]
        fn a_pattern_matches_as_a_person_reads_it(
            text in small_text(), name in small_text(), user in small_text(),
        ) {
            let Ok(pattern) = Pattern::parse(&text) else { return Ok(()) };
            let given = (!user.is_empty()).then_some(user.as_str());
            let matched = pattern.matches(name.as_bytes(), given);
            prop_assert_eq!(matched, by_hand(&text, &name, &user));
            if name.starts_with('$') && text.ends_with('*') {
                prop_assert!(!matched, "a star reached into the server's own names");
            }
            let in_range = pattern.range(given).is_some_and(|(fixed, open)| {
                let is_own = name.starts_with('$') && !fixed.starts_with(b"$");
                let name = name.as_bytes();
                !is_own && if open { name.starts_with(&fixed) } else { name == fixed }
            });
            prop_assert_eq!(in_range, matched);
        }
    }
}
