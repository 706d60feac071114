//! The names that an identity may read by name, as ranges in their order.
//!
//! Owns: [`Coverage`]. Promises: what is outside of it can be read as a member only, so a walk that keeps to it skips
//! what is hidden without looking at it. Must not: know memberships.

use super::decide::{Membership, rights};
use super::identity::{Identity, Who};
use super::rights::Right;
use super::rules::Rules;

/// Ranges of names, apart from each other and in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// From this name on, and up to this one without it; `None` = to the end.
    ranges: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Coverage {
    /// All names.
    #[must_use]
    pub fn everything() -> Coverage {
        Coverage {
            ranges: vec![(Vec::new(), None)],
        }
    }

    /// What an identity may read by name.
    #[must_use]
    pub fn of(identity: &Identity, rules: &Rules) -> Coverage {
        // Whether a name may be read changes only where the names of a grant or a policy begin or end.
        let user = identity.user();
        let mut bounds = vec![Vec::new(), b"$".to_vec(), b"%".to_vec()];
        let mut bound = |fixed: Vec<u8>, open: bool| {
            let end = match open {
                true => behind_all_with(&fixed),
                // Nothing lies between a name and the name with a zero byte behind it.
                false => Some([&fixed[..], &[0]].concat()),
            };
            bounds.push(fixed);
            bounds.extend(end);
        };
        for (fixed, open) in identity.grants.ranges(user) {
            bound(fixed, open);
        }
        if matches!(identity.who, Who::User(_)) {
            for (fixed, open) in rules.for_users().ranges(user) {
                bound(fixed, open);
            }
            for policy in rules.policies() {
                bound(policy.prefix.as_bytes().to_vec(), true);
            }
        }
        bounds.sort_unstable();
        bounds.dedup();
        let mut ranges: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
        for (at, from) in bounds.iter().enumerate() {
            let name = Membership::default();
            if !rights(identity, rules, from, name).has(Right::Read) {
                continue;
            }
            let to = bounds.get(at + 1).cloned();
            match ranges.last_mut() {
                Some((_, end)) if end.as_deref() == Some(from) => *end = to,
                _ => ranges.push((from.clone(), to)),
            }
        }
        Coverage { ranges }
    }

    /// The same without the server's own names.
    #[must_use]
    pub fn of_users(mut self) -> Coverage {
        self.ranges.retain(|(from, _)| !from.starts_with(b"$"));
        self
    }

    /// Whether a name is in it.
    #[must_use]
    pub fn has(&self, name: &[u8]) -> bool {
        let is_in = |(from, to): &(Vec<u8>, Option<Vec<u8>>)| {
            name >= from.as_slice() && to.as_ref().is_none_or(|to| name < to.as_slice())
        };
        self.ranges.iter().any(is_in)
    }

    /// The ranges, from each one's first name up to its end without it; `None` = there is none.
    pub fn ranges(&self) -> impl DoubleEndedIterator<Item = (&[u8], Option<&[u8]>)> {
        self.ranges
            .iter()
            .map(|(from, to)| (from.as_slice(), to.as_deref()))
    }
}

/// The first text that is above all that begin with this one; `None` = there is none.
fn behind_all_with(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}
