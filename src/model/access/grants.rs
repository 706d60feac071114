//! Grants: which rights are given on which names.
//!
//! Owns: how they are said in tokens, keys and the configuration, and their sum for a name. Promises: a grant that
//! makes no sense is refused with its place and its reason, never ignored. Must not: know where they were read from,
//! but for `admin`, which only keys have.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pattern::{Pattern, PatternError};
use super::rights::{Right, Rights};

/// A grant as it is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantText {
    /// A name, or a prefix and `*`; a segment `{user}` is the caller's user.
    pub on: String,
    /// What may be done there.
    pub allow: Vec<String>,
}

/// Grants of one source, parsed. Rights of several that match add up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    grants: Box<[Grant]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Grant {
    on: Pattern,
    rights: Rights,
}

/// Where they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantsFrom {
    /// An API key.
    Key,
    /// A token, or the configuration for all users.
    User,
}

/// Why grants were refused, and which of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantError {
    /// More than [`GRANTS_MAX`].
    TooMany(usize),
    /// Not a pattern.
    Pattern(usize, PatternError),
    /// Not the name of a right.
    UnknownRight(usize, usize),
    /// `admin` of one that is no key.
    OnlyOfKeys(usize, usize),
    /// `observe` or `admin` on anything but `*`.
    OnlyOnAll(usize, usize),
    /// Not `PATTERN=RIGHT,RIGHT`; only of texts.
    Text,
}

impl GrantError {
    /// The path of what is wrong, below the list.
    #[must_use]
    pub fn field(&self) -> String {
        match self {
            GrantError::TooMany(_) | GrantError::Text => String::new(),
            GrantError::Pattern(at, _) => format!("[{at}].on"),
            GrantError::UnknownRight(at, right)
            | GrantError::OnlyOfKeys(at, right)
            | GrantError::OnlyOnAll(at, right) => format!("[{at}].allow[{right}]"),
        }
    }
}

impl fmt::Display for GrantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GrantError::TooMany(count) => write!(f, "{count} grants, at most {GRANTS_MAX}"),
            GrantError::Pattern(_, error) => error.fmt(f),
            GrantError::UnknownRight(..) => f.write_str("no such right"),
            GrantError::OnlyOfKeys(..) => f.write_str("only keys can have admin"),
            GrantError::OnlyOnAll(..) => f.write_str("observe and admin are given on * only"),
            GrantError::Text => f.write_str("a grant is PATTERN=RIGHT,RIGHT"),
        }
    }
}

/// Grants of one source: a decision looks at each.
pub const GRANTS_MAX: usize = 256;

impl Grants {
    /// Reads the grants of a source.
    ///
    /// # Errors
    /// The first that is wrong, and why.
    pub fn parse(texts: &[GrantText], from: GrantsFrom) -> Result<Grants, GrantError> {
        if texts.len() > GRANTS_MAX {
            return Err(GrantError::TooMany(texts.len()));
        }
        let mut grants = Vec::with_capacity(texts.len());
        for (at, GrantText { on, allow }) in texts.iter().enumerate() {
            let on = Pattern::parse(on).map_err(|error| GrantError::Pattern(at, error))?;
            let mut rights = Rights::NONE;
            for (place, name) in allow.iter().enumerate() {
                let right = Right::from_name(name);
                let right = right.ok_or(GrantError::UnknownRight(at, place))?;
                if right == Right::Admin && from != GrantsFrom::Key {
                    return Err(GrantError::OnlyOfKeys(at, place));
                }
                if matches!(right, Right::Admin | Right::Observe) && !on.is_everything() {
                    return Err(GrantError::OnlyOnAll(at, place));
                }
                rights = rights.with(right);
            }
            grants.push(Grant { on, rights });
        }
        Ok(Grants {
            grants: grants.into(),
        })
    }

    /// Rights on one name.
    #[must_use]
    pub(super) fn on_one(name: &str, rights: Rights) -> Grants {
        let on = Pattern::exactly(name);
        Grants {
            grants: Box::new([Grant { on, rights }]),
        }
    }

    /// What is given on a name to a user; not yet what counts of it: [`Rights::in_force`].
    #[must_use]
    pub fn on(&self, name: &[u8], user: Option<&str>) -> Rights {
        let rights = self
            .grants
            .iter()
            .filter(|grant| grant.on.matches(name, user));
        rights.fold(Rights::NONE, |sum, grant| sum.or(grant.rights))
    }

    /// What is given on `*`: rights that are about no name.
    #[must_use]
    pub fn on_everything(&self) -> Rights {
        let rights = self.grants.iter().filter(|grant| grant.on.is_everything());
        rights.fold(Rights::NONE, |sum, grant| sum.or(grant.rights))
    }

    /// The names on which something is given to a user, as [`Pattern::range`] says them.
    pub fn ranges(&self, user: Option<&str>) -> impl Iterator<Item = (Vec<u8>, bool)> {
        self.grants
            .iter()
            .filter_map(move |grant| grant.on.range(user))
    }

    /// As they are said.
    #[must_use]
    pub fn to_texts(&self) -> Vec<GrantText> {
        let text = |grant: &Grant| GrantText {
            on: grant.on.text().to_owned(),
            allow: grant
                .rights
                .iter()
                .map(|right| right.name().to_owned())
                .collect(),
        };
        self.grants.iter().map(text).collect()
    }
}

impl GrantText {
    /// Reads `PATTERN=RIGHT,RIGHT`, as commands take it. The right side has no `=`, so the last one divides.
    ///
    /// # Errors
    /// If there is no `=`; the rest is checked by [`Grants::parse`].
    pub fn from_text(text: &str) -> Result<GrantText, GrantError> {
        let (on, allow) = text.rsplit_once('=').ok_or(GrantError::Text)?;
        Ok(GrantText {
            on: on.to_owned(),
            allow: allow
                .split(',')
                .map(|right| right.trim().to_owned())
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::pattern::tests::small_text;
    use super::super::rights::tests::any_rights;
    use super::*;

    fn parse(texts: &[&str], from: GrantsFrom) -> Result<Grants, GrantError> {
        let texts: Vec<GrantText> = texts
            .iter()
            .map(|text| GrantText::from_text(text).unwrap())
            .collect();
        Grants::parse(&texts, from)
    }

    #[test]
    fn rights_of_all_that_match_add_up() {
        let texts = [
            "room/*=read",
            "room/1=append,edit",
            "room/2=react",
            "*=observe",
        ];
        let grants = parse(&texts, GrantsFrom::User).unwrap();
        let on = |name: &str| grants.on(name.as_bytes(), None);
        let names = |rights: Rights| rights.iter().map(Right::name).collect::<Vec<_>>();
        assert_eq!(names(on("room/1")), ["read", "append", "edit", "observe"]);
        assert_eq!(names(on("room/3")), ["read", "observe"]);
        assert_eq!(names(on("$inbox/ann")), [""; 0]);
        assert_eq!(names(grants.on_everything()), ["observe"]);
        let back = Grants::parse(&grants.to_texts(), GrantsFrom::User).unwrap();
        assert_eq!(back, grants);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_place() {
        use GrantsFrom::{Key, User};
        for (text, from, error, field) in [
            (
                "a=read,writ",
                User,
                GrantError::UnknownRight(1, 1),
                "[1].allow[1]",
            ),
            ("a=", User, GrantError::UnknownRight(1, 0), "[1].allow[0]"),
            (
                "*=admin",
                User,
                GrantError::OnlyOfKeys(1, 0),
                "[1].allow[0]",
            ),
            ("a*=admin", Key, GrantError::OnlyOnAll(1, 0), "[1].allow[0]"),
            (
                "a=read,observe",
                User,
                GrantError::OnlyOnAll(1, 1),
                "[1].allow[1]",
            ),
            (
                "dm-{user}=read",
                User,
                GrantError::Pattern(1, PatternError::Braces),
                "[1].on",
            ),
        ] {
            let refused = parse(&["*=read", text], from).unwrap_err();
            assert_eq!(refused.field(), field, "{text}");
            assert_eq!(refused, error, "{text}");
        }
        parse(&["*=admin,observe"], Key).unwrap();
        parse(&["*=observe"], User).unwrap();
        assert_eq!(GrantText::from_text("room/*"), Err(GrantError::Text));
        let many = vec!["a=read"; GRANTS_MAX + 1];
        assert_eq!(parse(&many, Key), Err(GrantError::TooMany(GRANTS_MAX + 1)));
        let given: Result<GrantText, _> = serde_json::from_str(r#"{"on":"a","allow":[],"x":1}"#);
        given.unwrap_err();
    }

    proptest! {
        #[test]
        fn a_sum_is_what_each_grant_gives(
            given in prop::collection::vec((small_text(), any_rights()), 0..6),
            name in small_text(), user in small_text(),
        ) {
            let user = (!user.is_empty()).then_some(user.as_str());
            let mut texts = Vec::new();
            let mut expected = Rights::NONE;
            for (on, rights) in given {
                let allow = rights.iter().map(|right| right.name().to_owned()).collect();
                let text = GrantText { on, allow };
                if Grants::parse(std::slice::from_ref(&text), GrantsFrom::Key).is_err() {
                    continue;
                }
                if Pattern::parse(&text.on).unwrap().matches(name.as_bytes(), user) {
                    expected = expected.or(rights);
                }
                texts.push(text);
            }
            let grants = Grants::parse(&texts, GrantsFrom::Key).unwrap();
            prop_assert_eq!(grants.on(name.as_bytes(), user), expected);
        }
    }
}
