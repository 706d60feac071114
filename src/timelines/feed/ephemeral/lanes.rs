//! The lanes of one watched timeline, from the first subscription that asks for one.
//!
//! Owns: the pushes of each lane, presence, and when something is to be put together. Promises: what gathers is pushed
//! at most once a second; joins, leaves, signals and reads cost a short lock and a look-up; when nobody asks any more
//! everything is gone within seconds. Must not: wake anybody, or hold a timer; the topic and `schedule.rs` do.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::membership::Membership;
use super::ring::{Found, Ring};
use super::{
    Body, Ephemeral, GATHER, INTERVAL, LANES, LINGER, Lane, Online, Pace, Presence,
    SIGNALS_PER_SECOND, Total, With,
};
use crate::feed::mailbox::{Mailbox, Who, lock};
use crate::timeline::{MemberChange, Standing};
use tideline_base::metrics::Gauge;

/// When [`Lanes::gather`] is to be called, unless that is known already.
pub(in crate::feed) type Due = Option<Instant>;

#[derive(Debug)]
pub(in crate::feed) struct Lanes {
    total: Total,
    presence_users: Gauge,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Subscriptions that asked for each lane.
    asked: [usize; LANES],
    rings: [Ring; LANES],
    pace: Pace,
    presence: Option<Presence>,
    /// Of a timeline where somebody asks about members.
    membership: Option<Box<Membership>>,
    /// When presence goes, unless somebody asks for it again.
    presence_until: Option<Instant>,
    /// When the next gathering is.
    due: Option<Instant>,
    gathered: Option<Instant>,
}

/// A subscription's places in the lanes that it asked for.
#[derive(Debug)]
pub(in crate::feed) struct Following {
    lanes: Arc<Lanes>,
    with: With,
    places: [u64; LANES],
}

/// What a reader takes of a lane.
#[derive(Debug)]
pub enum Pulled {
    /// The next push.
    Whole(Arc<Ephemeral>),
    /// The newest push; what came before was missed, so only its numbers mean something to this reader.
    Numbers(Arc<Ephemeral>),
}

/// What became of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::feed) enum Sent {
    /// It is on its way.
    Pushed,
    /// Nobody asked for signals of this timeline.
    Unheard,
    /// There are too many signals in this timeline, or in all of them together.
    Dropped,
}

impl Lanes {
    pub(in crate::feed) fn new(total: Total, presence_users: Gauge) -> Lanes {
        Lanes {
            total,
            presence_users,
            state: Mutex::default(),
        }
    }

    /// A subscription asks for lanes. `there` are all that subscribe, itself included.
    pub(in crate::feed) fn follow(
        self: &Arc<Lanes>,
        with: With,
        there: impl Iterator<Item = Arc<Who>>,
        standing: Option<Standing>,
    ) -> Following {
        let mut state = lock(&self.state);
        if with.asks_membership() {
            self.total.1.fetch_add(1, Ordering::SeqCst);
            let membership = state.membership.get_or_insert_default();
            membership.learn(standing.unwrap_or_default());
        }
        for lane in Lane::ALL {
            state.asked[lane as usize] += usize::from(with.has(lane));
        }
        if with.has(Lane::Presence) {
            state.presence_until = None;
            let gauge = &self.presence_users;
            state
                .presence
                .get_or_insert_with(|| Presence::of(there, Some(gauge.clone())));
        }
        Following {
            lanes: Arc::clone(self),
            with,
            places: std::array::from_fn(|lane| state.rings[lane].end()),
        }
    }

    /// A subscription that had asked for these lanes has ended.
    pub(in crate::feed) fn unfollow(&self, with: With, now: Instant) -> Due {
        let mut state = lock(&self.state);
        if with.asks_membership() {
            self.total.1.fetch_sub(1, Ordering::SeqCst);
        }
        for lane in Lane::ALL {
            state.asked[lane as usize] -= usize::from(with.has(lane));
        }
        let is_unasked = state.asked[Lane::Presence as usize] == 0;
        if is_unasked && with.has(Lane::Presence) {
            // Not at once: to begin anew costs a look at every subscription.
            state.presence_until = Some(now + LINGER);
        }
        match is_unasked {
            true => state.want(now + LINGER),
            false => None,
        }
    }

    /// A connection subscribes, with lanes or without.
    pub(in crate::feed) fn join(&self, who: &Arc<Who>, now: Instant) -> Due {
        let mut state = lock(&self.state);
        state.presence.as_mut()?.join(who);
        state.want(now + GATHER)
    }

    /// A connection's subscription has ended.
    pub(in crate::feed) fn leave(&self, who: Arc<Who>, now: Instant) -> Due {
        let mut state = lock(&self.state);
        let until = state.presence.as_mut()?.leave(who, now);
        state.want(until)
    }

    /// A batch changed members; `standing` is that behind it, unless only their marks moved.
    pub(in crate::feed) fn members(
        &self,
        changes: Vec<MemberChange>,
        standing: Option<Standing>,
        now: Instant,
    ) -> Due {
        let mut state = lock(&self.state);
        let membership = state.membership.as_mut()?;
        membership.apply(changes, standing);
        match membership.has_news() {
            true => state.want(now + GATHER),
            false => None,
        }
    }

    /// A user says something in passing. `from` does not get it back.
    pub(in crate::feed) fn signal(
        &self,
        body: Body,
        from: Option<&Arc<Mailbox>>,
        now: Instant,
    ) -> (Sent, Due) {
        let mut state = lock(&self.state);
        if state.asked[Lane::Signals as usize] == 0 {
            return (Sent::Unheard, None);
        }
        if state.pace.take(SIGNALS_PER_SECOND, now).is_err() {
            return (Sent::Dropped, None);
        }
        if !self.total.has_room(&body) {
            return (Sent::Dropped, None);
        }
        state.rings[Lane::Signals as usize].push(self.total.make(body, from, now));
        (Sent::Pushed, state.want(now + LINGER))
    }

    /// Puts together what has gathered, and lets go of what is old. Gives the lanes whose readers are to be woken.
    pub(in crate::feed) fn gather(&self, now: Instant) -> (With, Due) {
        let mut state = lock(&self.state);
        if state.due.is_none_or(|due| due > now) {
            // It was put forward and has been done.
            return (With::default(), None);
        }
        state.due = None;
        state.gathered = Some(now);
        if state.presence_until.is_some_and(|until| until <= now) {
            (state.presence, state.presence_until) = (None, None);
        }
        if let Some(before) = now.checked_sub(LINGER) {
            for lane in Lane::ALL {
                let newest = state.newest(lane);
                state.rings[lane as usize].forget(before, newest);
            }
        }
        let presence = state.presence.as_mut();
        let presence = presence.and_then(|presence| presence.changes(now));
        let presence = presence.map(|(online, names)| Body::Presence { online, names });
        let membership = state.membership.as_mut();
        let (members, receipts) = membership.map_or((None, None), |membership| {
            (membership.take_changes(), membership.take_receipts())
        });
        let mut woken = With::default();
        let made = [
            (Lane::Presence, presence),
            (Lane::Members, members),
            (Lane::Receipts, receipts),
        ];
        for (lane, body) in made {
            let asked = state.asked[lane as usize] > 0;
            let Some(mut body) = body.filter(|_| asked) else {
                continue;
            };
            if !self.total.has_room(&body) {
                body = body.in_short();
            }
            state.rings[lane as usize].push(self.total.make(body, None, now));
            woken = woken.and(lane);
        }
        if state.asked == [0; LANES] {
            state.membership = None;
        }
        (woken, state.want_next())
    }

    /// Nobody asks for anything, and nothing is kept.
    pub(in crate::feed) fn is_idle(&self) -> bool {
        let state = lock(&self.state);
        state.asked == [0; LANES]
            && state.presence.is_none()
            && state.rings.iter().all(|ring| ring.oldest(0).is_none())
    }

    /// The users who are online, so many by name, where that is kept.
    pub(in crate::feed) fn online(&self, limit: usize) -> Option<Online> {
        let state = lock(&self.state);
        state
            .presence
            .as_ref()
            .map(|presence| presence.online(limit))
    }
}

impl State {
    /// Sees to it that it is gathered at this time, or a second after the last time.
    fn want(&mut self, at: Instant) -> Due {
        let soonest = self.gathered.map_or(at, |gathered| gathered + INTERVAL);
        let at = at.max(soonest);
        if self.due.is_some_and(|due| due <= at) {
            return None;
        }
        self.due = Some(at);
        self.due
    }

    fn want_next(&mut self) -> Due {
        let presence = self.presence.as_ref();
        let wanted = [
            presence.and_then(Presence::next_leaving),
            self.presence_until,
        ];
        let oldest = |lane| self.rings[lane as usize].oldest(self.newest(lane));
        let kept = Lane::ALL.into_iter().filter_map(oldest);
        let kept = kept.map(|oldest| oldest + LINGER).min();
        let next = wanted.into_iter().chain([kept]).flatten().min();
        next.and_then(|at| self.want(at))
    }

    /// How many pushes stay however old they are: a reader may miss signals, but must learn that others have changed.
    fn newest(&self, lane: Lane) -> usize {
        usize::from(lane != Lane::Signals && self.asked[lane as usize] > 0)
    }
}

impl Following {
    /// What this reader gets next; `own` is its connection. Also gives how many pushes it has missed.
    pub(in crate::feed) fn pull(&mut self, own: &Arc<Mailbox>) -> Option<(Pulled, Lane, u64)> {
        let state = lock(&self.lanes.state);
        for lane in Lane::ALL {
            if !self.with.has(lane) {
                continue;
            }
            let (ring, place) = (&state.rings[lane as usize], &mut self.places[lane as usize]);
            while let Some(Found { push, missed }) = ring.next(place) {
                if missed > 0 && lane != Lane::Signals {
                    let newest = ring.newest(place)?;
                    return Some((Pulled::Numbers(newest), lane, missed));
                }
                if !push.is_from(own) {
                    return Some((Pulled::Whole(push), lane, missed));
                }
            }
        }
        None
    }
}
