//! What of a credential counts after it: for messages that are to be appended later.
//!
//! Owns: [`Given`], which is stored with them. Promises: what the rules give to all users, to others and to members is
//! that of the time when the message is due; only what the credential gave is that of its own time. Must not: store a
//! credential.

use std::sync::Arc;

use super::asker::{Asker, Claim};
use super::grants::Grants;
use super::identity::{Identity, KEY_SENDER, Who};
use super::rights::Rights;
use super::rules::Gate;

/// What a credential gave on one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    rights: Rights,
    /// It was a key, which has its own rights only.
    by_key: bool,
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
            by_key: matches!(identity.who, Who::Key { .. }),
        }
    }

    /// Who asks with it when the time has come: the sender, by the rules of then.
    #[must_use]
    pub fn asker(self, gate: Option<&Arc<Gate>>, sender: &str, name: &str, needs: Rights) -> Asker {
        let (Some(gate), false) = (gate, sender.is_empty()) else {
            return Asker::from(sender);
        };
        let (who, for_user) = match (self.by_key, sender.strip_prefix(KEY_SENDER)) {
            (true, Some(key)) => {
                let (id, name) = (Arc::from(""), Arc::from(key));
                (Who::Key { id, name }, None)
            }
            (true, None) => {
                let (id, name) = (Arc::from(""), Arc::from(""));
                (Who::Key { id, name }, Some(Arc::from(sender)))
            }
            (false, _) => (Who::User(Arc::from(sender)), None),
        };
        let identity = Identity {
            who,
            for_user,
            grants: Arc::new(Grants::on_one(name, self.rights)),
        };
        let claim = Claim::new(identity, Arc::clone(gate));
        Asker::with_claim(Arc::new(claim), needs)
    }

    /// As it is stored.
    #[must_use]
    pub fn to_number(self) -> u64 {
        u64::from(self.rights.to_bits()) << 1 | u64::from(self.by_key)
    }

    /// As it was stored; `None` = it was not.
    #[must_use]
    pub fn of_number(number: u64) -> Option<Given> {
        let bits = u16::try_from(number >> 1).ok()?;
        Some(Given {
            rights: Rights::of_bits(bits)?,
            by_key: number & 1 == 1,
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
        let gate = Arc::new(Gate::new(Rules::default()));
        let rights = Rights::NONE.with(Right::Append);
        let given = Given {
            rights,
            by_key: false,
        };
        assert_eq!(Given::of_number(given.to_number()), Some(given));
        assert_eq!(Given::of_number(u64::MAX), None);
        let asker = given.asker(Some(&gate), "ann", "room", rights);
        let has = |right| {
            let rights = asker.rights(b"room", Membership::default());
            rights.has(right)
        };
        assert!(has(Right::Append) && !has(Right::Read));
        let policy = PolicyRights {
            others: Rights::NONE.with(Right::Read),
            ..PolicyRights::default()
        };
        gate.replace(Rules::new(Grants::default(), vec![policy]));
        assert!(has(Right::Append) && has(Right::Read));
        assert!(asker.rights(b"other", Membership::default()) == Rights::NONE.with(Right::Read));
        let by_key = Given {
            by_key: true,
            ..given
        };
        let asker = by_key.asker(Some(&gate), "$key/shop", "room", rights);
        assert_eq!((asker.user(), asker.sender()), ("", "$key/shop"));
        assert!(asker.rights(b"room", Membership::default()) == rights);
        assert_eq!(given.asker(None, "ann", "room", rights), Asker::from("ann"));
    }
}
