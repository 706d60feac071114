//! What lies at users: memberships, read positions, unread counts (V9).
//!
//! Owns: the model of them. Promises: what was on its way while a list was made may be in it or not; a count is
//! compared at the head that is told beside it. Must not: know hidden or cleared messages; histories with them have
//! no lists.

use std::collections::{BTreeMap, HashMap};

use crate::record::{Answer, Call, Conversation};
use crate::report::{Anomaly, Place};
use crate::state::{Asked, Mark, Membership, State};

impl State {
    pub(crate) fn asked_of_people(&mut self, call: &Call) -> Asked {
        let mut asked = Asked::default();
        match call {
            Call::Mark {
                user,
                timeline,
                sequence,
            } => {
                asked.timeline = self.stored.timeline(timeline);
                let mark = self.mark(user, asked.timeline);
                mark.high = mark.high.max(*sequence);
            }
            Call::Join { user, timeline } | Call::Leave { user, timeline } => {
                asked.timeline = self.stored.timeline(timeline);
                if matches!(call, Call::Leave { .. }) {
                    // Who comes back begins anew.
                    *self.mark(user, asked.timeline) = Mark {
                        low: 0,
                        high: u64::MAX,
                    };
                }
                self.membership(user, asked.timeline).open += 1;
            }
            Call::List { user } => {
                let user = self.stored.users.number(user);
                asked.marks = self.people.marks.get(&user).cloned().unwrap_or_default();
            }
            _ => {}
        }
        asked
    }

    fn mark(&mut self, user: &str, timeline: u32) -> &mut Mark {
        let marks = self.people.marks.entry(self.stored.users.number(user));
        marks.or_default().entry(timeline).or_default()
    }

    fn membership(&mut self, user: &str, timeline: u32) -> &mut Membership {
        let of = (self.stored.users.number(user), timeline);
        self.people.members.entry(of).or_default()
    }

    pub(crate) fn told_people(
        &mut self,
        call: &Call,
        asked: &Asked,
        since: u64,
        answer: &Answer,
        proof: &[Place],
    ) {
        match call {
            Call::Mark { user, sequence, .. } => {
                let mark = self.mark(user, asked.timeline);
                mark.low = mark.low.max(*sequence);
            }
            Call::Join { user, .. } | Call::Leave { user, .. } => {
                let membership = self.membership(user, asked.timeline);
                membership.open -= 1;
                membership.is_member = matches!(call, Call::Join { .. });
            }
            Call::List { user } => {
                let user = self.stored.users.number(user);
                for one in &answer.conversations {
                    self.unread(user, one, &asked.marks, since, proof);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn refused_people(&mut self, call: &Call, asked: &Asked) {
        if let Call::Join { user, .. } | Call::Leave { user, .. } = call {
            self.membership(user, asked.timeline).open -= 1;
        }
    }

    /// Compares read position and count of a conversation in a list that was asked for at `since`.
    fn unread(
        &mut self,
        user: u32,
        one: &Conversation,
        marks: &HashMap<u32, Mark>,
        since: u64,
        proof: &[Place],
    ) {
        let Conversation {
            timeline,
            head,
            read,
            visible_from,
            unread,
        } = one;
        let number = self.stored.timeline(timeline);
        let low = marks.get(&number).map_or(0, |mark| mark.low);
        self.position(user, number, *read, low, proof);
        let of = &mut self.stored.timelines[number as usize];
        let low = (*read)
            .max(visible_from.max(&of.floor).saturating_sub(1))
            .min(*head);
        let others = (head - low).saturating_sub(of.of_sender(user, low, *head));
        let (mut gone, mut going) = (0, 0);
        for (sequence, acknowledged) in of.dead.range(low + 1..head.saturating_add(1).max(low + 1))
        {
            if of
                .row(*sequence)
                .is_some_and(|row| row.sender != user && row.content == 0)
            {
                let is_gone = since == u64::MAX || acknowledged.is_some_and(|at| at < since);
                *(if is_gone { &mut gone } else { &mut going }) += 1;
            }
        }
        let most = others.saturating_sub(gone);
        let least = most.saturating_sub(going);
        let report = &mut self.stored.report;
        report.looked("unread counts", 1);
        if !(least..=most).contains(unread) {
            let what = format_args!(
                "{timeline}: {unread} unread at head {head}, read {read}, instead of {most}"
            );
            report.found(Anomaly::WrongUnread, what, proof);
        }
    }

    fn position(&mut self, user: u32, timeline: u32, read: u64, low: u64, proof: &[Place]) {
        let marks = self.people.marks.get(&user);
        let high = marks
            .and_then(|marks| marks.get(&timeline))
            .map_or(0, |mark| mark.high);
        if read < low || read > high {
            let name = &self.stored.timelines[timeline as usize].name;
            let what = format_args!("{name}: read position {read} instead of {low} to {high}");
            self.stored.report.found(Anomaly::WrongMark, what, proof);
        }
    }

    /// No more comes: members, positions and lists of the final dump are the model's.
    pub(crate) fn end_people(&mut self) {
        let members = std::mem::take(&mut self.stored.members);
        let stored = members
            .iter()
            .map(|(place, timeline, user, read)| ((*user, *timeline), (*place, *read)));
        let stored: BTreeMap<_, _> = stored.collect();
        for ((user, timeline), (place, read)) in &stored {
            let mark = self
                .people
                .marks
                .get(user)
                .and_then(|marks| marks.get(timeline));
            let low = mark.map_or(0, |mark| mark.low);
            self.position(*user, *timeline, *read, low, &[*place]);
        }
        let due = |of: &Membership| (of.open == 0).then_some(of.is_member);
        for (of, membership) in &self.people.members {
            let place = stored.get(of).map(|stored| stored.0);
            let differs = due(membership).is_some_and(|is_member| is_member != place.is_some());
            // A dump without members does not show them.
            if differs && !stored.is_empty() {
                let name = &self.stored.timelines[of.1 as usize].name;
                let what = format_args!("{name}: a member too many or too few");
                let place = place.unwrap_or_default();
                self.stored.report.found(Anomaly::WrongList, what, &[place]);
            }
        }
        for (place, user, list) in std::mem::take(&mut self.stored.lists) {
            let marks = self.people.marks.get(&user).cloned().unwrap_or_default();
            for one in &list {
                self.unread(user, one, &marks, u64::MAX, &[place]);
            }
            let listed = list.iter().map(|one| self.stored.timeline(&one.timeline));
            let listed = Vec::from_iter(listed);
            let of_user = self.people.members.range((user, 0)..=(user, u32::MAX));
            let wrong = of_user.filter(|((_, timeline), membership)| {
                due(membership).is_some_and(|is_member| is_member != listed.contains(timeline))
            });
            for ((_, timeline), _) in wrong {
                let name = &self.stored.timelines[*timeline as usize].name;
                let what = format_args!("{name}: missing in a list, or should not be in it");
                self.stored.report.found(Anomaly::WrongList, what, &[place]);
            }
        }
    }
}
