//! Rights, and sets of them.
//!
//! Owns: which rights there are, and which of them count only beside another. Promises: a set is one integer, and what
//! is asked of it is a comparison of bits. Must not: know which caller has a right, or on which names.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Makes the enum, its names and the list of all.
macro_rules! rights {
    ($($(#[doc = $doc:literal])+ $right:ident = $name:literal,)+) => {
        /// What somebody may do with a timeline, a table or the server.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
        )]
        pub enum Right {
            $($(#[doc = $doc])+ #[serde(rename = $name)] $right,)+
        }

        impl Right {
            /// All of them.
            pub const ALL: &'static [Right] = &[$(Right::$right,)+];

            /// Its name in tokens, keys and the configuration.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Right::$right => $name,)+ }
            }

            /// What it allows, in a line.
            #[must_use]
            pub fn summary(self) -> &'static str {
                match self { $(Right::$right => concat!($($doc),+).trim_ascii(),)+ }
            }

            /// The right of a name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Right> {
                match name {
                    $($name => Some(Right::$right),)+
                    _ => None,
                }
            }
        }
    };
}

rights! {
    /// Learn that a timeline exists, and read all of it.
    Read = "read",
    /// Append messages.
    Append = "append",
    /// React to messages.
    React = "react",
    /// Send signals.
    Signal = "signal",
    /// Make timelines, also by an append or a subscription.
    Create = "create",
    /// Edit and delete one's own messages. Only beside `read`.
    Edit = "edit",
    /// Edit and delete anybody's messages, and pin. Only beside `read`.
    Moderate = "moderate",
    /// Add, change and remove members. Only beside `read`.
    Members = "members",
    /// Change meta and settings, trim and delete. Only beside `read`.
    Manage = "manage",
    /// Read tables and their streams.
    TablesRead = "tables:read",
    /// Write rows of tables.
    TablesWrite = "tables:write",
    /// Make, change and drop tables.
    TablesManage = "tables:manage",
    /// Read metrics and the console. Only on `*`.
    Observe = "observe",
    /// Everything, on every name. Only of keys, and only on `*`.
    Admin = "admin",
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of rights.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Rights(u16);

impl Rights {
    /// No right at all.
    pub const NONE: Rights = Rights(0);
    /// Every right.
    pub const ALL: Rights = Rights((1 << Right::ALL.len()) - 1);
    /// They mean something only beside the right to read.
    const BESIDE_READ: Rights = Rights::NONE
        .with(Right::Edit)
        .with(Right::Moderate)
        .with(Right::Members)
        .with(Right::Manage);

    /// These and one more.
    #[must_use]
    pub const fn with(self, right: Right) -> Rights {
        Rights(self.0 | 1 << right as u16)
    }

    /// These but one.
    #[must_use]
    pub const fn without(self, right: Right) -> Rights {
        Rights(self.0 & !(1 << right as u16))
    }

    /// What is in either.
    #[must_use]
    pub const fn or(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }

    /// Whether nothing is in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a right is in it. It may be without effect: see [`Rights::in_force`].
    #[must_use]
    pub const fn has(self, right: Right) -> bool {
        self.0 & 1 << right as u16 != 0
    }

    /// Whether any of the other is in it.
    #[must_use]
    pub const fn has_any(self, other: Rights) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether everything in the other is in this one, too.
    #[must_use]
    pub const fn covers(self, other: Rights) -> bool {
        other.0 & !self.0 == 0
    }

    /// What the sum of all that somebody was given comes to: `admin` is everything, and without `read` some rights are
    /// nothing. To be asked of the sum, because what one source gives may need another's `read`.
    #[must_use]
    pub const fn in_force(self) -> Rights {
        if self.has(Right::Admin) {
            return Rights::ALL;
        }
        match self.has(Right::Read) {
            true => self,
            false => Rights(self.0 & !Rights::BESIDE_READ.0),
        }
    }

    /// As an integer, to be stored: the bits are part of the format.
    pub(super) const fn to_bits(self) -> u16 {
        self.0
    }

    /// As it was stored; `None` = it was not.
    pub(super) fn of_bits(bits: u16) -> Option<Rights> {
        Rights::ALL.covers(Rights(bits)).then_some(Rights(bits))
    }

    /// The rights in it, in the order of [`Right::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL
            .iter()
            .copied()
            .filter(move |right| self.has(*right))
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<T: IntoIterator<Item = Right>>(rights: T) -> Rights {
        rights.into_iter().fold(Rights::NONE, Rights::with)
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
pub(in crate::access) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(in crate::access) fn any_rights() -> impl Strategy<Value = Rights> {
        (0..=Rights::ALL.0).prop_map(Rights)
    }

    #[test]
    fn names_are_unique_and_lead_back() {
        for right in Right::ALL {
            assert_eq!(Right::from_name(right.name()), Some(*right));
            let text = serde_json::to_string(right).unwrap();
            assert_eq!(text, format!("\"{right}\""));
        }
        assert_eq!(Right::from_name("Read"), None);
        assert_eq!(Rights::ALL.iter().count(), Right::ALL.len());
    }

    proptest! {
        #[test]
        fn some_rights_count_only_beside_read_and_admin_is_all(rights in any_rights()) {
            let in_force = rights.in_force();
            for right in Right::ALL {
                let beside_read = matches!(
                    right,
                    Right::Edit | Right::Moderate | Right::Members | Right::Manage
                );
                let expected = rights.has(Right::Admin)
                    || rights.has(*right) && (!beside_read || rights.has(Right::Read));
                prop_assert_eq!(in_force.has(*right), expected);
            }
            prop_assert_eq!(in_force.in_force(), in_force);
            prop_assert_eq!(rights.iter().collect::<Rights>(), rights);
        }

        #[test]
        fn sets_behave_as_sets(one in any_rights(), two in any_rights()) {
            let both = one.or(two);
            prop_assert!(both.covers(one) && both.covers(two));
            prop_assert_eq!(one.covers(two), two.iter().all(|right| one.has(right)));
            // More rights are never less in force.
            prop_assert!(both.in_force().covers(one.in_force()));
        }
    }
}
