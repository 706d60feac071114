//! What must hold between inboxes, follows and the timelines that they lead to.
//!
//! Owns: these rules. Promises: each contradiction is reported with its place; a difference that the relay may still
//! mend is not reported. Must not: write.

use std::collections::HashMap;

use crate::timeline::StoredEntry;
use tideline_table::ReadError;

use super::super::conversations::lists;
use super::super::feeds::followers;
use super::super::feeds::follows::Follow;
use super::super::tables::{FOLLOWS, Home};
use super::dump::{all, read};
use super::verify::{Report, StoredPeople};

impl StoredPeople<'_> {
    /// Each entry of an inbox leads to a message of its timeline, once and in the timeline's order; each follow and its
    /// follower say the same. Gives the number of entries.
    pub(in super::super) fn check_feeds(&self, report: &mut Report<'_>) -> Result<u64, ReadError> {
        let mut count = 0;
        for id in 0..self.partitions.len() {
            count += self.check_inboxes(id, report)?;
            self.check_follows(id, report)?;
        }
        Ok(count)
    }

    fn check_inboxes(&self, id: usize, report: &mut Report<'_>) -> Result<u64, ReadError> {
        let (mut count, mut current) = (0, String::new());
        let shown = self.partitions[id].id;
        let mut last: HashMap<(String, String), u64> = HashMap::new();
        self.timelines[id].inbox_entries(&mut |inbox, number, entry| {
            if inbox != current {
                inbox.clone_into(&mut current);
                last.clear();
            }
            count += 1;
            let mut problem = |what: &str| {
                (report.problem)(format!(
                    "partition {shown}, {inbox:?}: entry {number} {what}"
                ))
            };
            let Some(entry) = entry else {
                problem("can't be read");
                return Ok(());
            };
            let of = (entry.timeline.clone(), entry.epoch.clone());
            let before = last.insert(of, entry.sequence);
            if before.is_some_and(|before| before >= entry.sequence) {
                problem("leads to a message that came before");
            }
            if let Some(what) = self.leads_astray(&entry)? {
                problem(what);
            }
            Ok(())
        })?;
        Ok(count)
    }

    /// What is wrong with where an entry leads.
    fn leads_astray(&self, entry: &StoredEntry) -> Result<Option<&'static str>, ReadError> {
        let source = &self.timelines[self.place_of(&entry.timeline)];
        let Some(name) = source.name(&entry.timeline)? else {
            return Ok(Some("leads to a timeline that never was"));
        };
        if !name.exists || name.head.epoch != entry.epoch {
            return Ok(None);
        }
        if entry.sequence > name.head.head {
            return Ok(Some("leads beyond the timeline's head"));
        }
        let timestamp = source.timestamp(&entry.timeline, entry.sequence)?;
        let differs = timestamp.is_some_and(|timestamp| timestamp != entry.timestamp);
        Ok(differs.then_some("has another time than its message"))
    }

    fn check_follows(&self, id: usize, report: &mut Report<'_>) -> Result<(), ReadError> {
        let shown = self.partitions[id].id;
        for row in all(self.partitions[id].view, FOLLOWS) {
            let ([user, timeline], follow): ([String; 2], _) = read(&row?, Follow::decode)?;
            let mut problem = |what: &str| {
                (report.problem)(format!(
                    "partition {shown}, user {user:?}: the follow of {timeline:?} {what}"
                ));
            };
            if self.place_of(Home::new(&user).name()) != id {
                problem("is not where the user's rows are");
            }
            let source = self.place_of(&timeline);
            let name = self.timelines[source].name(&timeline)?;
            let is_its = |incarnation| incarnation == follow.incarnation;
            let Some(name) = name.filter(|name| name.exists && is_its(name.incarnation)) else {
                continue;
            };
            if follow.from > name.head.head + 1 {
                problem("begins beyond the timeline's head");
            }
            let follower = self.timelines[source].follower(&timeline, &user)?;
            let of = (timeline.clone(), user.clone());
            let changed = self.partitions[id].changed.follows.get(&of);
            let is_known = !self.is_pending(followers::KIND.number, (id, source), changed);
            let changed = self.partitions[source].changed.followers.get(&of);
            let is_back = is_known && !self.is_pending(lists::KIND.number, (source, id), changed);
            match follower {
                None if is_known => problem("is not known to the timeline"),
                Some((number, _)) if is_known && number != follow.number => {
                    problem("is another one than the timeline knows");
                }
                Some((_, from)) if is_back && from > follow.inbox_from => {
                    problem("takes messages from the inbox that are not there");
                }
                _ => {}
            }
        }
        Ok(())
    }
}
