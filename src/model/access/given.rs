//! What of a credential counts after it: for messages that are to be appended later.
//!
//! Owns: [`Given`], which is stored with them. Promises: what the rules give to all users, to others and to members is
//! that of the time when the message is due; only what the credential gave is that of its own time, and nothing of it
//! counts if it was taken back since. Must not: store a credential.

use std::sync::Arc;

use super::asker::{Asker, Claim};
use super::grants::Grants;
use super::identity::{Identity, KEY_SENDER, Who};
use super::rights::Rights;
use super::rules::CurrentRules;

/// What a credential gave on one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    rights: Rights,
    /// The ID of the key that it was, which has its own rights only.
    key: Option<Arc<str>>,
    /// When the token that it was was issued, ms, if it says so.
    issued_at: Option<u64>,
}

impl Given {
    /// What an asker's credential gives on a name; nothing without one.
    #[must_use]
    pub fn of(asker: &Asker, name: &str) -> Given {
        let Some(claim) = asker.claim() else {
            return Given::default();
        };
        let identity = claim.identity();
        Given {
            rights: identity.grants.on(name.as_bytes(), identity.user()),
            key: identity.key().map(Arc::from),
            issued_at: claim.issued_at(),
        }
    }

    /// The asker when the time has come: the sender, by the rules of that time.
    #[must_use]
    pub fn asker(
        &self,
        rules: Option<&Arc<CurrentRules>>,
        sender: &str,
        name: &str,
        needs: Rights,
    ) -> Asker {
        let (Some(rules), false) = (rules, sender.is_empty()) else {
            return Asker::from(sender);
        };
        let (who, for_user) = match (&self.key, sender.strip_prefix(KEY_SENDER)) {
            (Some(id), Some(key)) => {
                let (id, name) = (Arc::clone(id), Arc::from(key));
                (Who::Key { id, name }, None)
            }
            (Some(id), None) => {
                let (id, name) = (Arc::clone(id), Arc::from(""));
                (Who::Key { id, name }, Some(Arc::from(sender)))
            }
            (None, _) => (Who::User(Arc::from(sender)), None),
        };
        let identity = Identity {
            who,
            for_user,
            grants: Arc::new(Grants::on_one(name, self.rights)),
        };
        let claim = Claim::earlier(identity, Arc::clone(rules), self.issued_at);
        Asker::with_claim(Arc::new(claim), needs)
    }

    /// As it is stored: rights and whether it was a key, when the token was issued (0 = it does not say), the key.
    #[must_use]
    pub fn stored(&self) -> (u64, u64, &str) {
        let number = u64::from(self.rights.to_bits()) << 1 | u64::from(self.key.is_some());
        let key = self.key.as_deref().unwrap_or_default();
        (number, self.issued_at.unwrap_or(0), key)
    }

    /// As it was stored; `None` = it was not.
    #[must_use]
    pub fn of_stored((number, issued_at, key): (u64, u64, &str)) -> Option<Given> {
        let bits = u16::try_from(number >> 1).ok()?;
        Some(Given {
            rights: Rights::of_bits(bits)?,
            key: (number & 1 == 1).then(|| Arc::from(key)),
            issued_at: Some(issued_at).filter(|at| *at != 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::decide::Membership;
    use super::super::rights::Right;
    use super::super::rules::{PolicyRights, Rules};
    use super::*;

    #[test]
    fn what_was_given_counts_beside_the_rules_of_then() {
        let rules = Arc::new(CurrentRules::new(Rules::default()));
        let rights = Rights::NONE.with(Right::Append);
        let given = Given {
            rights,
            issued_at: Some(1_000),
            ..Given::default()
        };
        assert_eq!(Given::of_stored(given.stored()), Some(given.clone()));
        assert_eq!(Given::of_stored((u64::MAX, 0, "")), None);
        let asker = given.asker(Some(&rules), "ann", "room", rights);
        let has = |right| {
            let rights = asker.rights(b"room", Membership::default());
            rights.has(right)
        };
        assert!(has(Right::Append) && !has(Right::Read));
        let policy = PolicyRights {
            others: Rights::NONE.with(Right::Read),
            ..PolicyRights::default()
        };
        rules.replace(Rules::new(Grants::default(), vec![policy]));
        assert!(has(Right::Append) && has(Right::Read));
        assert!(asker.rights(b"other", Membership::default()) == Rights::NONE.with(Right::Read));
        let by_key = Given {
            rights,
            key: Some("abc".into()),
            ..Given::default()
        };
        assert_eq!(Given::of_stored(by_key.stored()), Some(by_key.clone()));
        let asker = by_key.asker(Some(&rules), "$key/shop", "room", rights);
        assert_eq!((asker.user(), asker.sender()), ("", "$key/shop"));
        assert!(asker.rights(b"room", Membership::default()) == rights);
        assert_eq!(given.asker(None, "ann", "room", rights), Asker::from("ann"));
    }

    #[test]
    fn what_was_taken_back_since_gives_nothing() {
        let rules = Arc::new(CurrentRules::new(Rules::default()));
        let rights = Rights::NONE.with(Right::Append);
        let of = |key: Option<&str>, issued_at| {
            let given = Given {
                rights,
                key: key.map(Arc::from),
                issued_at,
            };
            let asker = given.asker(Some(&rules), "ann", "room", rights);
            asker.rights(b"room", Membership::default()) == rights
        };
        assert!(of(None, None) && of(Some("gone"), None));
        rules.ask_whether_withdrawn(|identity, issued_at| match identity.key() {
            Some(key) => key == "gone",
            None => issued_at.is_none_or(|at| at < 2_000),
        });
        assert!(of(Some("there"), None) && !of(Some("gone"), None));
        assert!(of(None, Some(2_000)) && !of(None, Some(1_999)) && !of(None, None));
    }
}
