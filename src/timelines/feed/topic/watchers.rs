//! The watchers of one timeline.
//!
//! Owns: the list of watchers, and the timeline's lanes where a subscription asked for some. Promises: a watcher is
//! called by its place until it leaves; only those that subscribe count as online. Must not: hold a topic's state.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::super::ephemeral::{Due, Following, Lane, Lanes, Online, Presence, With};
use super::super::mailbox::{Mailbox, Who, lock};
use super::windows::{Lengths, Windows};
use crate::timeline::Standing;

#[derive(Debug, Default)]
pub(in super::super) struct Watchers {
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    entries: Vec<Option<Watcher>>,
    free: Vec<usize>,
    /// Of those that ask for parts.
    windows: Windows,
    /// `None` = nobody has asked for any.
    lanes: Option<Arc<Lanes>>,
}

#[derive(Debug)]
struct Watcher {
    mailbox: Arc<Mailbox>,
    slot: u32,
    /// It has become a subscription; until then it waits for the answer of the store.
    subscribes: bool,
    with: With,
    /// How long it lets parts gather, ticks.
    window: u8,
}

impl Watchers {
    /// Adds a watcher; the number returned takes it away again.
    pub(in super::super) fn join(&self, mailbox: &Arc<Mailbox>, slot: u32) -> usize {
        let mut list = lock(&self.list);
        let entry = Some(Watcher {
            mailbox: Arc::clone(mailbox),
            slot,
            subscribes: false,
            with: With::default(),
            window: 0,
        });
        if let Some(place) = list.free.pop() {
            list.entries[place] = entry;
            place
        } else {
            list.entries.push(entry);
            list.entries.len() - 1
        }
    }

    /// Takes a watcher away; `true` if it was the last one.
    pub(in super::super) fn leave(&self, place: usize, now: Instant) -> (bool, Due) {
        let mut list = lock(&self.list);
        let entry = list.entries[place].take();
        if let Some(asked) = entry.as_ref().filter(|one| one.with.has(Lane::Parts)) {
            list.windows.leave(asked.window);
        }
        list.free.push(place);
        let is_last = list.free.len() == list.entries.len();
        let due = match (&list.lanes, entry) {
            (Some(lanes), Some(watcher)) if watcher.subscribes => {
                let leaving = watcher.mailbox.who().and_then(|who| lanes.leave(who, now));
                let unasked = lanes.unfollow(watcher.with, now);
                earlier(leaving, unasked)
            }
            _ => None,
        };
        (is_last, due)
    }

    /// A watcher asks for parts: it is woken by them, after they have gathered for so many ticks.
    pub(in super::super) fn ask_parts(&self, place: usize, window: u8) {
        let mut list = lock(&self.list);
        if let Some(watcher) = &mut list.entries[place]
            && !watcher.with.has(Lane::Parts)
        {
            (watcher.with, watcher.window) = (watcher.with.and(Lane::Parts), window);
            list.windows.join(window);
        }
    }

    /// Whether somebody asks for parts.
    pub(in super::super) fn asks_parts(&self) -> bool {
        !lock(&self.list).windows.is_empty()
    }

    /// Parts have come: wakes those that let none gather now. `due` gets the tick at which the others' time is over,
    /// and is to call [`Watchers::parts_gathered`] then.
    pub(in super::super) fn parts_came(&self, tick: u64, due: impl FnMut(u64)) {
        let mut list = lock(&self.list);
        let lengths = list.windows.came(tick, due);
        list.wake_for_parts(lengths);
    }

    /// Wakes those for which parts have gathered long enough.
    pub(in super::super) fn parts_gathered(&self, tick: u64) {
        let mut list = lock(&self.list);
        let lengths = list.windows.over(tick);
        list.wake_for_parts(lengths);
    }

    /// A watcher becomes a subscription, perhaps with lanes.
    pub(in super::super) fn subscribe(
        &self,
        place: usize,
        (with, standing): (With, Option<Standing>),
        now: Instant,
        lanes: impl FnOnce() -> Lanes,
    ) -> (Option<Following>, Due) {
        let mut list = lock(&self.list);
        let List {
            entries,
            lanes: kept,
            ..
        } = &mut *list;
        let Some(watcher) = &mut entries[place] else {
            return (None, None);
        };
        let with = with.lanes();
        watcher.subscribes = true;
        watcher.with = match watcher.with.has(Lane::Parts) {
            true => with.and(Lane::Parts),
            false => with,
        };
        let due = match (&*kept, watcher.mailbox.who()) {
            (Some(lanes), Some(who)) => lanes.join(&who, now),
            _ => None,
        };
        if with.is_empty() {
            return (None, due);
        }
        let lanes = kept.get_or_insert_with(|| Arc::new(lanes()));
        (Some(lanes.follow(with, there(entries), standing)), due)
    }

    /// The user of a subscription's connection is another one now; `before` is the earlier one.
    pub(in super::super) fn renamed(
        &self,
        place: usize,
        before: Option<Arc<Who>>,
        now: Instant,
    ) -> Due {
        let list = lock(&self.list);
        let (Some(lanes), Some(watcher)) = (&list.lanes, &list.entries[place]) else {
            return None;
        };
        let joins = watcher.mailbox.who().and_then(|who| lanes.join(&who, now));
        let leaves = before.and_then(|who| lanes.leave(who, now));
        earlier(joins, leaves)
    }

    /// The lanes, if somebody has asked for some.
    pub(in super::super) fn lanes(&self) -> Option<Arc<Lanes>> {
        lock(&self.list).lanes.clone()
    }

    /// Puts together what has gathered in the lanes, and wakes their readers.
    pub(in super::super) fn gather(&self, now: Instant) -> Due {
        let lanes = self.lanes()?;
        let (woken, due) = lanes.gather(now);
        if !woken.is_empty() {
            self.wake_with(woken);
        }
        let mut list = lock(&self.list);
        if list.lanes.as_ref().is_some_and(|lanes| lanes.is_idle()) {
            list.lanes = None;
        }
        due
    }

    /// The users who are online, so many of them by name: those of the presence lane if a subscription asked for it,
    /// else those with a subscription at the moment.
    pub(in super::super) fn online(&self, limit: usize) -> Online {
        let there: Vec<_> = {
            let list = lock(&self.list);
            if let Some(online) = list.lanes.as_ref().and_then(|lanes| lanes.online(limit)) {
                return online;
            }
            there(&list.entries).collect()
        };
        Presence::of(there.into_iter(), None).online(limit)
    }

    /// Those that are subscriptions: each one's mailbox, and its slot there.
    pub(in super::super) fn subscribers(&self) -> Vec<(Arc<Mailbox>, u32)> {
        let list = lock(&self.list);
        let all = list.entries.iter().flatten();
        let subscribing = all.filter(|watcher| watcher.subscribes);
        let place = |watcher: &Watcher| (Arc::clone(&watcher.mailbox), watcher.slot);
        subscribing.map(place).collect()
    }

    /// Tells every watcher that there may be something; how many there are.
    pub(in super::super) fn wake(&self) -> usize {
        let list = lock(&self.list);
        for watcher in list.entries.iter().flatten() {
            watcher.mailbox.post(watcher.slot);
        }
        list.entries.len() - list.free.len()
    }

    /// Wakes the subscriptions that asked for one of these lanes: there may be something.
    pub(in super::super) fn wake_with(&self, with: With) {
        let list = lock(&self.list);
        let all = list.entries.iter().flatten();
        for watcher in all.filter(|watcher| watcher.with.meets(with)) {
            watcher.mailbox.post(watcher.slot);
        }
    }
}

impl List {
    /// Wakes the watchers with windows of these lengths that ask for parts.
    fn wake_for_parts(&self, lengths: Lengths) {
        if lengths.is_empty() {
            return;
        }
        for watcher in self.entries.iter().flatten() {
            if watcher.with.has(Lane::Parts) && lengths.has(watcher.window) {
                watcher.mailbox.post(watcher.slot);
            }
        }
    }
}

fn there(entries: &[Option<Watcher>]) -> impl Iterator<Item = Arc<Who>> {
    let subscribed = entries
        .iter()
        .flatten()
        .filter(|watcher| watcher.subscribes);
    subscribed.filter_map(|watcher| watcher.mailbox.who())
}

/// The lanes give a time only if it is earlier than the one that is known: of two the last one counts.
fn earlier(first: Due, second: Due) -> Due {
    second.or(first)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::feed::ephemeral::{Body, Names, Pulled, Sent, Total};
    use tideline_base::metrics::Metrics;

    /// A connection with one subscription.
    struct Reader<'w> {
        watchers: &'w Watchers,
        mailbox: Arc<Mailbox>,
        place: usize,
        following: Option<Following>,
    }

    impl<'w> Reader<'w> {
        fn new(watchers: &'w Watchers, user: &str, with: With) -> Reader<'w> {
            let mailbox = Arc::new(Mailbox::default());
            mailbox.set_who(Some(who(user)));
            let place = watchers.join(&mailbox, 0);
            let lanes = || Lanes::new(Total::default(), Metrics::default().feed.presence_users);
            let (following, _) = watchers.subscribe(place, (with, None), Instant::now(), lanes);
            Reader {
                watchers,
                mailbox,
                place,
                following,
            }
        }

        fn pull(&mut self) -> Option<Pulled> {
            Some(self.following.as_mut()?.pull(&self.mailbox)?.0)
        }

        /// The presence that it is pushed next.
        fn presence(&mut self) -> Option<(usize, Option<Names>)> {
            let (push, is_whole) = match self.pull()? {
                Pulled::Whole(push) => (push, true),
                Pulled::Numbers(push) => (push, false),
            };
            match &push.body {
                Body::Presence { online, names } => {
                    Some((*online, names.clone().filter(|_| is_whole)))
                }
                _ => None,
            }
        }

        fn is_woken(&self) -> bool {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let taken = self.mailbox.poll_take(&mut context, &mut Vec::new());
            taken.is_ready()
        }
    }

    impl Drop for Reader<'_> {
        fn drop(&mut self) {
            self.watchers.leave(self.place, Instant::now());
        }
    }

    fn who(user: &str) -> Arc<Who> {
        Arc::new(Who {
            user: user.into(),
            device: None,
        })
    }

    fn with(lanes: &[Lane]) -> With {
        lanes
            .iter()
            .fold(With::default(), |with, lane| with.and(*lane))
    }

    fn gather(watchers: &Watchers, at: Instant) {
        let due = watchers.gather(at);
        assert!(due.is_none_or(|due| due >= at + seconds(1)));
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_timeline_where_nobody_asks_has_no_lanes() {
        let (watchers, begin) = (Watchers::default(), Instant::now());
        let plain = Reader::new(&watchers, "ada", With::default());
        assert!(plain.following.is_none() && watchers.lanes().is_none());
        assert_eq!(watchers.online(9).online, 1);
        drop(Reader::new(&watchers, "ben", with(&Lane::ALL)));
        // For a while, because to begin anew is a look at all watchers.
        gather(&watchers, begin + seconds(4));
        assert_eq!(watchers.online(9).online, 2);
        gather(&watchers, begin + seconds(60));
        assert!(watchers.lanes().is_none());
        assert_eq!(watchers.online(9).online, 1);
        // A watcher that does not subscribe, as a waiting call, is not online.
        let waiting = Arc::new(Mailbox::default());
        waiting.set_who(Some(who("cleo")));
        watchers.join(&waiting, 0);
        assert_eq!(watchers.online(9).online, 1);
    }

    #[test]
    fn readers_that_are_too_slow_get_the_number() {
        let (watchers, begin) = (Watchers::default(), Instant::now());
        let presence = with(&[Lane::Presence]);
        let mut quick = Reader::new(&watchers, "ada", presence);
        let mut slow = Reader::new(&watchers, "ben", presence);
        let plain = Reader::new(&watchers, "cleo", With::default());
        let mut there = Vec::new();
        for number in 0..100 {
            there.push(Reader::new(
                &watchers,
                &format!("u{number}"),
                With::default(),
            ));
            gather(&watchers, begin + seconds(2 * number + 2));
            assert!(quick.is_woken());
            let (online, names) = quick.presence().unwrap();
            assert_eq!(online, 3 + there.len());
            assert!(names.is_some_and(|names| !names.joined.is_empty()));
        }
        assert!(slow.is_woken() && !plain.is_woken());
        assert_eq!(slow.presence(), Some((103, None)));
        assert!(slow.pull().is_none() && quick.pull().is_none());
    }

    #[test]
    fn signals_are_bounded_and_do_not_come_back() {
        let (watchers, now) = (Watchers::default(), Instant::now());
        let presence = Reader::new(&watchers, "ada", with(&[Lane::Presence]));
        let lanes = watchers.lanes().unwrap();
        let send = |from: Option<&Reader<'_>>| {
            let body = Body::Signal {
                who: who("ben"),
                columns: Vec::new(),
            };
            lanes.signal(body, from.map(|from| &from.mailbox), now).0
        };
        assert_eq!(send(None), Sent::Unheard);
        let mut one = Reader::new(&watchers, "ben", with(&[Lane::Signals]));
        let mut other = Reader::new(&watchers, "ben", with(&[Lane::Signals]));
        assert_eq!((send(Some(&one)), send(None)), (Sent::Pushed, Sent::Pushed));
        watchers.wake_with(with(&[Lane::Signals]));
        assert!(one.is_woken() && !presence.is_woken());
        assert!(one.pull().is_some() && one.pull().is_none());
        assert!(other.pull().is_some() && other.pull().is_some() && other.pull().is_none());
        let sent = (0..50).filter(|_| send(None) == Sent::Pushed).count();
        assert_eq!(sent, 18, "twenty at once");
        // Too old for a reader that comes so late.
        gather(&watchers, now + seconds(60));
        assert!(other.pull().is_none());
    }

    /// What presence costs with 10,000 users online that all ask for it, whatever the churn. Run it with
    /// `cargo test --release -p tideline-timelines --features faults ten_thousand -- --ignored --nocapture`.
    #[test]
    #[ignore = "prints figures"]
    #[allow(clippy::disallowed_macros)] // figures for people
    fn presence_of_ten_thousand() {
        let watchers = Watchers::default();
        let name = |number: usize| format!("user-{number:06}");
        let all = |with: With| -> Vec<Reader<'_>> {
            let begun = Instant::now();
            let one = |number| Reader::new(&watchers, &name(number), with);
            let all = (0..10_000).map(one).collect();
            println!("10,000 subscribe: {:?}", begun.elapsed());
            all
        };
        let online = |what: &str| {
            let begun = Instant::now();
            assert_eq!(watchers.online(100).users.len(), 100);
            println!("presence.get, {what}: {:?}", begun.elapsed());
        };
        let plain = all(With::default());
        online("not kept");
        drop(plain);
        let mut readers = all(with(&[Lane::Presence]));
        online("kept");
        let mailbox = Arc::new(Mailbox::default());
        let mut clock = Instant::now();
        for churn in [0, 1, 100, 1_000, 10_000] {
            clock += seconds(60);
            let begun = Instant::now();
            for number in 0..churn {
                mailbox.set_who(Some(who(&name(20_000 + number))));
                let place = watchers.join(&mailbox, 0);
                let lanes = || unreachable!("they are there");
                watchers.subscribe(place, (With::default(), None), clock, lanes);
                watchers.leave(place, clock);
            }
            let churned = begun.elapsed();
            // After a second all that came and went still count, after ten they don't.
            let gathers = [1, 10].map(|later| {
                let begun = Instant::now();
                watchers.gather(clock + seconds(later));
                begun.elapsed()
            });
            let begun = Instant::now();
            let pushes = readers.iter_mut().filter_map(Reader::presence).count();
            let took = begun.elapsed();
            println!("{churn} come and go: {churned:?}; gathered: {gathers:?}");
            println!("  {pushes} pushes taken: {took:?}");
        }
    }
}
