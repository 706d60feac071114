//! What gathers of a timeline's members between two pushes.
//!
//! Owns: the newest state of each member that changed, and the newest receipt of each that has read. Promises: bounded:
//! too many changes are a number, and receipts stop above a number of members. Must not: read a batch; the tailer does.

use std::collections::BTreeMap;

use super::Body;
use crate::timeline::{MemberChange, MemberRow, Standing};

/// How far a member has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The member.
    pub user: String,
    /// Up to here they have read.
    pub read: u64,
    /// Up to here they have received.
    pub received: u64,
}

#[derive(Debug, Default)]
pub(super) struct Membership {
    /// As far as it is known.
    standing: Standing,
    /// The incarnation and version up to which changes were heard from the log, or seen by the first look at the store.
    /// A later look may see more, which the log has still to tell to earlier readers: so it does not count here.
    heard: Option<(u64, u64)>,
    /// The members that changed; `None` = the member has left.
    changed: BTreeMap<String, Option<MemberRow>>,
    /// How far users have read; only of members.
    receipts: BTreeMap<String, Receipt>,
    /// There were more changes than can be named.
    is_many: bool,
}

impl Membership {
    /// What a look at the store showed.
    pub(super) fn learn(&mut self, standing: Standing) {
        self.heard.get_or_insert_with(|| place(standing));
        if place(standing) >= place(self.standing) {
            self.standing = standing;
        }
    }

    /// Takes in what one batch did to members. `standing` is that behind the batch, if it changed.
    pub(super) fn apply(&mut self, changes: Vec<MemberChange>, standing: Option<Standing>) {
        let heard = self.heard.unwrap_or_default();
        for MemberChange {
            user,
            row,
            incarnation: of,
            ..
        } in changes
        {
            let row = match row {
                // A member's marks move without a new version.
                Some(row) if (of, row.version) <= heard => {
                    self.receipt(user, &row);
                    continue;
                }
                row => row,
            };
            if row.is_none() {
                self.receipts.remove(&user);
            }
            if self.changed.len() < NAMED_MAX || self.changed.contains_key(&user) {
                self.changed.insert(user, row);
            } else {
                self.is_many = true;
            }
        }
        if let Some(standing) = standing {
            self.heard = self.heard.max(Some(place(standing)));
            self.learn(standing);
        }
    }

    fn receipt(&mut self, user: String, row: &MemberRow) {
        if self.standing.members > RECEIPTS_MEMBERS_MAX {
            return;
        }
        // One that is there may have joined since, with marks of its own.
        let receipt = Receipt {
            user: user.clone(),
            read: row.read,
            received: row.received,
        };
        self.receipts.insert(user, receipt);
    }

    /// Something waits to be pushed.
    pub(super) fn has_news(&self) -> bool {
        !self.changed.is_empty() || !self.receipts.is_empty()
    }

    /// What is to be pushed of members.
    pub(super) fn take_changes(&mut self) -> Option<Body> {
        let changed = std::mem::take(&mut self.changed);
        let is_many = std::mem::take(&mut self.is_many);
        (!changed.is_empty()).then(|| Body::Members {
            standing: self.standing,
            changes: (!is_many).then(|| changed.into_iter().collect()),
        })
    }

    /// What is to be pushed of receipts.
    pub(super) fn take_receipts(&mut self) -> Option<Body> {
        let receipts = std::mem::take(&mut self.receipts);
        (!receipts.is_empty()).then(|| Body::Receipts {
            receipts: Some(receipts.into_values().collect()),
        })
    }
}

fn place(at: Standing) -> (u64, u64) {
    (at.incarnation, at.version)
}

/// With more changes in one push only the numbers are there.
const NAMED_MAX: usize = 100;
/// In larger timelines there are no receipts.
const RECEIPTS_MEMBERS_MAX: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn change(user: &str, version: u64, read: u64) -> MemberChange {
        let row = MemberRow {
            joined: 1,
            joined_at: 1,
            role: "member".to_owned(),
            attributes: Vec::new(),
            visible_from: 1,
            read,
            received: read + 1,
            cleared: 0,
            hides: 0,
            version,
        };
        MemberChange {
            timeline: "t".to_owned(),
            incarnation: 1,
            user: user.to_owned(),
            row: (version > 0).then_some(row),
            moved: false,
        }
    }

    fn standing(version: u64, members: u64) -> Standing {
        Standing {
            incarnation: 1,
            version,
            members,
        }
    }

    #[test]
    fn changes_and_receipts_are_told_apart() {
        let mut gathered = Membership::default();
        gathered.learn(standing(5, 3));
        // Marks of an old member, then of one that joins in the batch in which another leaves.
        let batch = vec![
            change("ada", 2, 7),
            change("ben", 6, 0),
            change("cleo", 0, 0),
        ];
        gathered.apply(batch, Some(standing(7, 3)));
        gathered.apply(vec![change("ben", 6, 4), change("ada", 2, 8)], None);
        let Some(Body::Members {
            standing: at,
            changes,
        }) = gathered.take_changes()
        else {
            panic!("members changed")
        };
        let changes = changes.unwrap();
        assert_eq!((at, changes.len()), (standing(7, 3), 2));
        assert!(changes[0].1.is_some() && changes[1] == ("cleo".to_owned(), None));
        let Some(Body::Receipts { receipts }) = gathered.take_receipts() else {
            panic!("members have read")
        };
        let read: Vec<_> = receipts
            .unwrap()
            .into_iter()
            .map(|one| (one.user, one.read))
            .collect();
        assert_eq!(read, [("ada".to_owned(), 8), ("ben".to_owned(), 4)]);
        assert!(!gathered.has_news() && gathered.take_changes().is_none());
    }

    /// The log is behind what a second reader has seen in the store; the first one knows it from the log only.
    #[test]
    fn a_second_reader_hides_nothing_from_the_first() {
        let mut gathered = Membership::default();
        gathered.learn(standing(5, 3));
        gathered.learn(standing(7, 5));
        gathered.apply(vec![change("ben", 6, 0)], Some(standing(6, 4)));
        gathered.apply(vec![change("cleo", 7, 0)], Some(standing(7, 5)));
        let Some(Body::Members { changes, .. }) = gathered.take_changes() else {
            panic!("members joined")
        };
        assert_eq!(changes.unwrap().len(), 2);
        assert!(gathered.take_receipts().is_none());
        gathered.apply(vec![change("cleo", 7, 4)], None);
        assert!(gathered.take_changes().is_none() && gathered.take_receipts().is_some());
    }

    #[test]
    fn many_changes_are_numbers_and_large_timelines_have_no_receipts() {
        let mut gathered = Membership::default();
        let join = |number: u64| change(&format!("u{number:04}"), number, 0);
        gathered.apply((1..=100).map(join).collect(), Some(standing(100, 100)));
        let Some(Body::Members { changes, .. }) = gathered.take_changes() else {
            panic!("members changed")
        };
        assert_eq!(changes.unwrap().len(), 100);
        gathered.apply(
            (101..=1_001).map(join).collect(),
            Some(standing(1_001, 1_001)),
        );
        gathered.apply(vec![change("u0001", 1, 9)], None);
        let Some(Body::Members {
            changes,
            standing: at,
        }) = gathered.take_changes()
        else {
            panic!("members changed")
        };
        assert_eq!((changes, at), (None, standing(1_001, 1_001)));
        assert!(gathered.take_receipts().is_none());
        gathered.apply(vec![change("u1001", 0, 0)], Some(standing(1_002, 1_000)));
        gathered.apply(vec![change("u0001", 1, 9)], None);
        assert!(gathered.take_receipts().is_some());
    }
}
