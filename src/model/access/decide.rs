//! The decision: what an identity may do with a name.
//!
//! Owns: how rights add up, and what a missing right is answered with. Promises: a pure function of identity, rules,
//! name, membership and the rights that are asked for; everything that is refused or shown anywhere is decided here.
//! Must not: look anything up.

use super::identity::{Identity, Who};
use super::rights::{Right, Rights};
use super::rules::Rules;

/// What the caller is in a timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Membership<'a> {
    /// The caller's role there; `None` = no member, or there is no such timeline.
    pub role: Option<&'a str>,
    /// Other users may neither read nor write it.
    pub members_only: bool,
}

impl Membership<'_> {
    /// Whether it is not for this user; an empty one is a back end, which is nobody's member.
    pub(super) fn shuts_out(self, user: &str) -> bool {
        self.members_only && self.role.is_none() && !user.is_empty()
    }
}

/// What a call is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is done.
    Allowed,
    /// `forbidden`: the caller may know that there is such a name.
    Forbidden,
    /// As if there were no such name.
    Hidden,
}

/// Whose a user's inbox is, is in its name.
pub const INBOX: &str = "$inbox/";

/// Whether a name is that of another user's inbox, which is hidden from everybody but a back end (an empty user),
/// whatever their rights.
#[must_use]
pub fn is_inbox_of_another(name: &[u8], user: &str) -> bool {
    let owner = name.strip_prefix(INBOX.as_bytes());
    !user.is_empty() && owner.is_some_and(|owner| owner != user.as_bytes())
}

/// All rights that count for an identity on a name.
#[must_use]
pub fn rights(
    identity: &Identity,
    rules: &Rules,
    name: &[u8],
    membership: Membership<'_>,
) -> Rights {
    let user = identity.user();
    if membership.shuts_out(user.unwrap_or_default()) {
        return Rights::NONE;
    }
    let own = identity.grants.on(name, user);
    let sum = match &identity.who {
        Who::Anybody => Rights::ALL,
        // A key has its own rights only, for whomever it acts.
        Who::Key { .. } => own,
        Who::User(_) => {
            let policy = rules.policy(name);
            let others = policy.map_or(Rights::NONE, |policy| policy.others);
            let role = membership.role;
            let role = role.map_or(Rights::NONE, |role| rules.of_role(name, role));
            own.or(rules.for_users().on(name, user)).or(others).or(role)
        }
    };
    let is_own_inbox =
        || user.is_some_and(|user| name.strip_prefix(INBOX.as_bytes()) == Some(user.as_bytes()));
    match name.first() == Some(&b'$') && is_own_inbox() {
        true => sum.with(Right::Read).in_force(),
        false => sum.in_force(),
    }
}

/// Decides on a call that needs any of some rights. If it needs none, the right to read is enough.
#[must_use]
pub fn decide(rights: Rights, asked: Rights) -> Decision {
    let is_enough = match asked.is_empty() {
        true => rights.has(Right::Read),
        false => rights.has_any(asked),
    };
    match (is_enough, rights.has(Right::Read)) {
        (true, _) => Decision::Allowed,
        (false, true) => Decision::Forbidden,
        (false, false) => Decision::Hidden,
    }
}

/// Rights that are about the server and no name.
#[must_use]
pub fn everywhere(identity: &Identity, rules: &Rules) -> Rights {
    let own = identity.grants.on_everything();
    match &identity.who {
        Who::Anybody => Rights::ALL,
        Who::Key { .. } => own.in_force(),
        Who::User(_) => own.or(rules.for_users().on_everything()).in_force(),
    }
}
