//! The identity of a caller.
//!
//! Owns: identities as a verified credential gives them. Promises: made once for each credential, shared by reference,
//! never changed: a renewed credential is a new identity. Must not: hold a secret or a token's text.

use std::sync::Arc;

use super::grants::Grants;

/// The caller, the user it acts for, and what its credential gives it. What the configuration gives to all users, and
/// policies to others and members, is not in it: it can change while the credential stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// By what they were known.
    pub who: Who,
    /// Of [`Who::Anybody`] the user that is believed; of a key the user that it acts for. `None` of [`Who::User`].
    pub for_user: Option<Arc<str>>,
    /// The credential's own.
    pub grants: Arc<Grants>,
}

/// By what a caller is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// There is no `[auth]`: every caller may do everything, and is believed to be the user that it names.
    Anybody,
    /// A user with a token: its `sub`.
    User(Arc<str>),
    /// A back end with an API key.
    Key {
        /// The key's ID.
        id: Arc<str>,
        /// Its name, which several may share.
        name: Arc<str>,
    },
}

/// What the sender of a key that acts for nobody begins with.
pub const KEY_SENDER: &str = "$key/";

impl Identity {
    /// A caller without `[auth]`.
    #[must_use]
    pub fn anybody(user: Option<Arc<str>>) -> Identity {
        Identity {
            who: Who::Anybody,
            for_user: user,
            grants: Arc::default(),
        }
    }

    /// The user of the call, if it has one.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        match &self.who {
            Who::User(user) => Some(user),
            Who::Anybody | Who::Key { .. } => self.for_user.as_deref(),
        }
    }

    /// The ID of the key that calls.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match &self.who {
            Who::Key { id, .. } => Some(id),
            Who::Anybody | Who::User(_) => None,
        }
    }

    /// The name of the key that calls.
    #[must_use]
    pub fn key_name(&self) -> Option<&str> {
        match &self.who {
            Who::Key { name, .. } => Some(name),
            Who::Anybody | Who::User(_) => None,
        }
    }

    /// What is stamped on messages; empty = nothing.
    #[must_use]
    pub fn sender(&self) -> Arc<str> {
        match (&self.who, &self.for_user) {
            (Who::User(user), _) | (_, Some(user)) => Arc::clone(user),
            (Who::Key { name, .. }, None) => format!("{KEY_SENDER}{name}").into(),
            (Who::Anybody, None) => "".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_acts_for_its_user_or_for_itself() {
        let mut key = Identity {
            who: Who::Key {
                id: "abc".into(),
                name: "shop".into(),
            },
            for_user: None,
            grants: Arc::default(),
        };
        assert_eq!((key.user(), &*key.sender()), (None, "$key/shop"));
        key.for_user = Some("ann".into());
        assert_eq!((key.user(), &*key.sender()), (Some("ann"), "ann"));
        key.who = Who::User("bob".into());
        key.for_user = None;
        assert_eq!((key.user(), &*key.sender()), (Some("bob"), "bob"));
        let anybody = Identity::anybody(None);
        assert_eq!((anybody.user(), &*anybody.sender()), (None, ""));
    }
}
