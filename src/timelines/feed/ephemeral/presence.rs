//! The users who are online in one timeline.
//!
//! Owns: the users and devices that subscribe, those that have just left, and what changed since the last push.
//! Promises: a user counts once, whatever the number of connections, and for five seconds after the last one left; a
//! join or a leave costs a look-up whatever the size of the group; what is kept of changes is bounded. Must not: know
//! watchers, or decide when to push.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::LINGER;
use crate::feed::mailbox::Who;
use tideline_base::metrics::Gauge;

#[derive(Debug)]
pub(in crate::feed) struct Presence {
    users: BTreeMap<Arc<str>, Connections>,
    /// Connections that have left and still count, with the end of their time.
    leaving: VecDeque<(Instant, Arc<Who>)>,
    /// Users that came or went since the last push: whether they were online then.
    changed: BTreeMap<Arc<str>, bool>,
    /// Since the last push there were more than can be named.
    is_crowd: bool,
    /// How many were online at the last push.
    pushed: usize,
    /// Counts the users of what is kept.
    gauge: Option<Gauge>,
}

#[derive(Debug, Default)]
struct Connections {
    count: u32,
    /// Named devices and their connections.
    devices: Vec<(Arc<str>, u32)>,
}

/// The users who are online, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Online {
    /// How many users.
    pub online: usize,
    /// The first of them by name, each with the names of their devices.
    pub users: Vec<(Arc<str>, Vec<Arc<str>>)>,
}

/// Users that came and went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Online now, and not at the push before.
    pub joined: Vec<Arc<str>>,
    /// The other way round.
    pub left: Vec<Arc<str>>,
}

impl Names {
    pub(super) fn bytes(&self) -> usize {
        let all = self.joined.iter().chain(&self.left);
        all.map(|name| name.len() + 16).sum()
    }
}

impl Presence {
    /// The users who are there now.
    pub(in crate::feed) fn of(
        there: impl Iterator<Item = Arc<Who>>,
        gauge: Option<Gauge>,
    ) -> Presence {
        let mut presence = Presence {
            users: BTreeMap::new(),
            leaving: VecDeque::new(),
            changed: BTreeMap::new(),
            is_crowd: false,
            pushed: 0,
            gauge,
        };
        there.for_each(|who| presence.join(&who));
        presence.changed.clear();
        presence.pushed = presence.users.len();
        presence
    }

    /// A connection subscribes.
    pub(in crate::feed) fn join(&mut self, who: &Arc<Who>) {
        let connections = self.users.entry(Arc::clone(&who.user)).or_default();
        connections.count += 1;
        if let Some(device) = &who.device {
            let devices = &mut connections.devices;
            match devices.iter().position(|(name, _)| name == device) {
                Some(at) => devices[at].1 += 1,
                None if devices.len() < DEVICES_MAX => devices.push((Arc::clone(device), 1)),
                None => {}
            }
        }
        if connections.count == 1 {
            self.count(1.0);
            self.note(&who.user, false);
        }
    }

    /// A connection has left. Gives when it does not count any more.
    pub(in crate::feed) fn leave(&mut self, who: Arc<Who>, now: Instant) -> Instant {
        let until = now + LINGER;
        self.leaving.push_back((until, who));
        until
    }

    /// What is to be pushed; `None` = nothing has changed.
    pub(in crate::feed) fn changes(&mut self, now: Instant) -> Option<(usize, Option<Names>)> {
        while self.leaving.front().is_some_and(|(until, _)| *until <= now) {
            if let Some((_, who)) = self.leaving.pop_front() {
                self.left(&who);
            }
        }
        let online = self.users.len();
        let was_crowd = std::mem::replace(&mut self.is_crowd, online > NAMED_MAX);
        let before = std::mem::replace(&mut self.pushed, online);
        let mut names = Names::default();
        for (user, was) in std::mem::take(&mut self.changed) {
            match (was, self.users.contains_key(&user)) {
                (false, true) => names.joined.push(user),
                (true, false) => names.left.push(user),
                _ => {}
            }
        }
        if was_crowd || self.is_crowd {
            // Readers that knew the names ask for them again when a crowd has become small.
            let says = before != online || !self.is_crowd;
            return says.then_some((online, None));
        }
        (names != Names::default()).then_some((online, Some(names)))
    }

    /// When the next connection that has left does not count any more.
    pub(in crate::feed) fn next_leaving(&self) -> Option<Instant> {
        self.leaving.front().map(|(until, _)| *until)
    }

    /// The users who are online, so many of them by name.
    pub(in crate::feed) fn online(&self, limit: usize) -> Online {
        let named = |(user, connections): (&Arc<str>, &Connections)| {
            let mut devices: Vec<_> = connections
                .devices
                .iter()
                .map(|at| Arc::clone(&at.0))
                .collect();
            devices.sort_unstable();
            (Arc::clone(user), devices)
        };
        Online {
            online: self.users.len(),
            users: self.users.iter().take(limit).map(named).collect(),
        }
    }

    fn left(&mut self, who: &Who) {
        let Some(connections) = self.users.get_mut(&who.user) else {
            return;
        };
        connections.count -= 1;
        if let Some(device) = &who.device {
            connections.devices.retain_mut(|(name, count)| {
                *count -= u32::from(name == device);
                *count > 0
            });
        }
        if connections.count == 0 {
            self.note(&who.user, true);
            self.users.remove(&who.user);
            self.count(-1.0);
        }
    }

    fn count(&self, more: f64) {
        if let Some(gauge) = &self.gauge {
            gauge.increment(more);
        }
    }

    /// A user comes or goes; `was` = they were online until now.
    fn note(&mut self, user: &Arc<str>, was: bool) {
        self.is_crowd |= self.users.len() > NAMED_MAX;
        if self.is_crowd {
            self.changed.clear();
        } else {
            self.changed.entry(Arc::clone(user)).or_insert(was);
        }
    }
}

impl Drop for Presence {
    #[allow(clippy::cast_precision_loss)] // a gauge
    fn drop(&mut self) {
        self.count(-(self.users.len() as f64));
    }
}

/// With more users online only their number is pushed.
const NAMED_MAX: usize = 1_000;
/// Devices of one user that are named.
const DEVICES_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn who(user: &str, device: &str) -> Arc<Who> {
        Arc::new(Who {
            user: user.into(),
            device: (!device.is_empty()).then(|| device.into()),
        })
    }

    fn nobody() -> Presence {
        Presence::of(std::iter::empty(), None)
    }

    fn names(joined: &[&str], left: &[&str]) -> Option<Names> {
        let all = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect();
        Some(Names {
            joined: all(joined),
            left: all(left),
        })
    }

    #[test]
    fn a_user_counts_once_and_for_five_seconds_after() {
        let (mut presence, begin) = (nobody(), Instant::now());
        let at = |ms| begin + Duration::from_millis(ms);
        presence.join(&who("ada", "phone"));
        presence.join(&who("ada", "desk"));
        presence.join(&who("ben", ""));
        assert_eq!(
            presence.changes(at(0)),
            Some((2, names(&["ada", "ben"], &[])))
        );
        assert_eq!(presence.changes(at(1)), None);
        let devices = vec![Arc::from("desk"), Arc::from("phone")];
        let all = vec![(Arc::from("ada"), devices), (Arc::from("ben"), vec![])];
        let online = |users| Online { online: 2, users };
        assert_eq!(presence.online(10), online(all.clone()));
        assert_eq!(presence.online(1), online(all[..1].to_vec()));
        // The user does not leave while one of two devices stays, nor if the only one comes back in time.
        presence.leave(who("ada", "phone"), at(1_000));
        presence.leave(who("ben", ""), at(1_000));
        presence.join(&who("ben", ""));
        assert_eq!(presence.next_leaving(), Some(at(6_000)));
        assert_eq!(presence.changes(at(5_999)), None);
        assert_eq!(presence.online(1).users[0].1.len(), 2);
        assert_eq!(presence.changes(at(6_000)), None);
        assert_eq!(presence.online(1).users[0].1, [Arc::from("desk")]);
        presence.leave(who("ben", ""), at(7_000));
        assert_eq!(
            presence.changes(at(12_000)),
            Some((1, names(&[], &["ben"])))
        );
        assert_eq!(presence.next_leaving(), None);
    }

    #[test]
    fn a_crowd_is_a_number() {
        let (mut presence, begin) = (nobody(), Instant::now());
        let name = |number: usize| who(&format!("u{number:05}"), "");
        (0..NAMED_MAX).for_each(|number| presence.join(&name(number)));
        let (online, named) = presence.changes(begin).unwrap();
        assert_eq!(
            (online, named.unwrap().joined.len()),
            (NAMED_MAX, NAMED_MAX)
        );
        presence.join(&name(NAMED_MAX));
        assert_eq!(presence.changes(begin), Some((NAMED_MAX + 1, None)));
        // At the mark again: once more without names, then with them.
        presence.leave(name(0), begin);
        assert_eq!(presence.changes(begin + LINGER), Some((NAMED_MAX, None)));
        presence.leave(name(1), begin);
        let left = (NAMED_MAX - 1, names(&[], &["u00001"]));
        assert_eq!(presence.changes(begin + LINGER), Some(left));
        // A crowd between two pushes, though the number is as before.
        presence.join(&name(0));
        presence.join(&name(1));
        presence.leave(name(2), begin);
        presence.leave(name(3), begin);
        assert_eq!(
            presence.changes(begin + LINGER),
            Some((NAMED_MAX - 1, None))
        );
        assert_eq!(presence.changes(begin + LINGER), None);
        assert!(presence.changed.is_empty());
    }

    proptest! {
        /// A reader that applies what is pushed knows which users are online; against a plain count of connections.
        #[test]
        fn what_is_pushed_adds_up(
            steps in prop::collection::vec((0u8..3, 0usize..4, 0usize..3, 0u64..3_000), 1..120),
        ) {
            let (mut presence, begin) = (nobody(), Instant::now());
            let mut now = begin;
            let mut there: HashMap<(usize, usize), u32> = HashMap::new();
            let mut gone: Vec<(Instant, usize)> = Vec::new();
            let mut reader: BTreeSet<String> = BTreeSet::new();
            for (step, user, device, wait) in steps {
                now += Duration::from_millis(wait);
                let one = who(&user.to_string(), &device.to_string());
                match step {
                    0 => {
                        presence.join(&one);
                        *there.entry((user, device)).or_default() += 1;
                    }
                    1 => if let Some(count) = there.get_mut(&(user, device)).filter(|count| **count > 0) {
                        *count -= 1;
                        gone.push((presence.leave(one, now), user));
                    },
                    _ => if let Some((online, pushed)) = presence.changes(now) {
                        let pushed = pushed.unwrap();
                        for user in &pushed.joined {
                            prop_assert!(reader.insert(user.to_string()));
                        }
                        for user in &pushed.left {
                            prop_assert!(reader.remove(&**user));
                        }
                        prop_assert_eq!(online, reader.len());
                    },
                }
                if step == 2 {
                    let counts = there.iter().filter(|(_, count)| **count > 0).map(|((user, _), _)| *user);
                    let lingers = gone.iter().filter(|(until, _)| *until > now).map(|(_, user)| *user);
                    let model: BTreeSet<String> = counts.chain(lingers).map(|user| user.to_string()).collect();
                    prop_assert_eq!(&reader, &model);
                    prop_assert_eq!(presence.online(9).online, model.len());
                }
            }
        }
    }
}
