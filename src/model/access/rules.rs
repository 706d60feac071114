//! What the configuration gives, apart from any credential: to all users, and by how a timeline's name begins.
//!
//! Owns: the rights of policies, and [`CurrentRules`], where those in force are. Promises: of a name the policy with
//! the longest matching prefix counts, and it alone; a reload is in force for every decision that begins after it. Must
//! not: know settings of timelines, or where the configuration is.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::grants::Grants;
use super::identity::Identity;
use super::rights::Rights;

/// The rights of one policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyRights {
    /// How the names begin; empty = all but the server's own.
    pub prefix: String,
    /// Of users that are no members.
    pub others: Rights,
    /// Of members whose role has none of its own.
    pub members: Rights,
    /// Of members, by their role.
    pub roles: BTreeMap<String, Rights>,
    /// The role of the user that creates a timeline; `None` = that user does not become a member.
    pub creator: Option<String>,
}

/// What the configuration gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// To every user with a token, beside what the token gives.
    for_users: Grants,
    /// The longest prefix first.
    policies: Box<[PolicyRights]>,
}

impl Rules {
    /// These rules; no two policies have one prefix.
    #[must_use]
    pub fn new(for_users: Grants, mut policies: Vec<PolicyRights>) -> Rules {
        policies.sort_by_key(|policy| std::cmp::Reverse(policy.prefix.len()));
        Rules {
            for_users,
            policies: policies.into(),
        }
    }

    /// What every user with a token is given.
    pub(super) fn for_users(&self) -> &Grants {
        &self.for_users
    }

    pub(super) fn policies(&self) -> &[PolicyRights] {
        &self.policies
    }

    /// The policy of a name; the server's own names have none.
    #[must_use]
    pub fn policy(&self, name: &[u8]) -> Option<&PolicyRights> {
        if name.first() == Some(&b'$') {
            return None;
        }
        let matches = |policy: &&PolicyRights| name.starts_with(policy.prefix.as_bytes());
        self.policies.iter().find(matches)
    }

    /// What a role gives to members of a timeline.
    #[must_use]
    pub fn of_role(&self, name: &[u8], role: &str) -> Rights {
        self.policy(name).map_or(Rights::NONE, |policy| {
            policy.roles.get(role).copied().unwrap_or(policy.members)
        })
    }
}

/// The rules in force. There is one for a server with `[auth]`, and none without.
#[derive(Debug)]
pub struct CurrentRules {
    rules: ArcSwap<Rules>,
    /// How often they were replaced.
    turn: watch::Sender<u64>,
    withdrawn: OnceLock<Withdrawn>,
}

/// Whether a credential was taken back: of a token, by when it was issued.
struct Withdrawn(Box<dyn Fn(&Identity, Option<u64>) -> bool + Send + Sync>);

impl fmt::Debug for Withdrawn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Withdrawn")
    }
}

impl CurrentRules {
    /// With these rules to begin with.
    #[must_use]
    pub fn new(rules: Rules) -> CurrentRules {
        CurrentRules {
            rules: ArcSwap::from_pointee(rules),
            turn: watch::Sender::new(0),
            withdrawn: OnceLock::new(),
        }
    }

    /// From now on what a credential gave earlier counts only until `withdrawn` says that it was taken back. Called
    /// once, at the start.
    pub fn ask_whether_withdrawn(
        &self,
        withdrawn: impl Fn(&Identity, Option<u64>) -> bool + Send + Sync + 'static,
    ) {
        let asked = self.withdrawn.set(Withdrawn(Box::new(withdrawn)));
        assert!(asked.is_ok(), "asked once");
    }

    pub(super) fn has_withdrawn(&self, identity: &Identity, issued_at: Option<u64>) -> bool {
        let asked = self.withdrawn.get();
        asked.is_some_and(|Withdrawn(ask)| ask(identity, issued_at))
    }

    /// The rules in force now.
    #[must_use]
    pub fn now(&self) -> Arc<Rules> {
        self.rules.load_full()
    }

    /// Replaces them: every decision that begins after this returns is by the new rules.
    pub fn replace(&self, rules: Rules) {
        self.rules.store(Arc::new(rules));
        self.turn.send_modify(|turn| *turn += 1);
    }

    /// Tells of every replacement from now on.
    #[must_use]
    pub fn replaced(&self) -> watch::Receiver<u64> {
        self.turn.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::super::rights::Right;
    use super::*;

    #[test]
    fn the_longest_policy_counts_alone() {
        let policy = |prefix: &str, others: &[Right], roles: &[(&str, Right)]| PolicyRights {
            prefix: prefix.to_owned(),
            others: others.iter().copied().collect(),
            members: Rights::NONE.with(Right::Read),
            roles: roles
                .iter()
                .map(|(role, right)| ((*role).to_owned(), Rights::NONE.with(*right)))
                .collect(),
            creator: None,
        };
        let all = policy("", &[Right::Read], &[("owner", Right::Manage)]);
        let rooms = policy("room/", &[], &[]);
        let current = CurrentRules::new(Rules::new(Grants::default(), vec![all, rooms]));
        let rules = current.now();
        let others = |name: &[u8]| rules.policy(name).map(|policy| policy.others.is_empty());
        assert_eq!(others(b"room/1"), Some(true));
        assert_eq!(others(b"room"), Some(false));
        assert_eq!(others(b"$inbox/ann"), None);
        assert!(rules.of_role(b"x", "owner").has(Right::Manage));
        assert!(
            !rules.of_role(b"x", "owner").has(Right::Read),
            "the role's alone"
        );
        assert!(rules.of_role(b"x", "guest").has(Right::Read));
        assert!(rules.of_role(b"room/1", "owner").has(Right::Read));
        let mut replaced = current.replaced();
        current.replace(Rules::default());
        assert!(replaced.has_changed().unwrap() && *replaced.borrow_and_update() == 1);
        assert_eq!(current.now().of_role(b"x", "guest"), Rights::NONE);
    }
}
