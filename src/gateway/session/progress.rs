//! What a session tells of itself to those who look after the server.
//!
//! Owns: how lag is measured, and the answers to what others ask. Promises: a session that nobody asks does no more
//! than note what is in flight when that changes. Must not: change anything that it tells of.

use super::super::live::Pulse;
use super::Session;
use super::subscriptions::Subscriptions;
use super::subscriptions::slot::Slot;
use tideline_timelines::feed::{About, Inquiry, Progress, Reached};

impl Session {
    /// Answers what was asked since the last turn.
    pub(super) fn answer_inquiries(&mut self) {
        for Inquiry { about, answer } in self.subscriptions.mailbox.inquiries() {
            // The asker may have gone.
            let _ = answer.send(self.progress(&about));
        }
    }

    fn progress(&self, about: &About) -> Progress {
        let now_ms = self.shared.clock.now_ms();
        let stalled = self.outbox.stalled();
        let stalled_ms = stalled.map_or(0, |since| since.elapsed().as_millis());
        let stalled_ms = u64::try_from(stalled_ms).unwrap_or(u64::MAX);
        let mut positions = self.subscriptions.reached(about, now_ms);
        let lag_ms = self.subscriptions.lag_ms(now_ms).max(stalled_ms);
        for one in &mut positions {
            // What was put into the outbox has not gone out.
            one.lag_ms = one.lag_ms.max(stalled_ms);
        }
        Progress {
            session: match &self.caller.live {
                Some(live) => live.id.clone(),
                None => String::new(),
            },
            lag_ms,
            positions,
        }
    }

    /// Notes for others what is under way, if that has changed.
    pub(super) fn tell_pulse(&mut self) {
        let Some(live) = &self.caller.live else {
            return;
        };
        let has_more = !self.subscriptions.turn.is_empty() || self.jobs.fetches > 0;
        let pulse = Pulse {
            subscriptions: self.subscriptions.len(),
            in_flight: self.jobs.calls,
            is_behind: has_more || self.outbox.stalled().is_some(),
        };
        if self.pulse != pulse {
            self.pulse = pulse;
            live.beat(pulse);
        }
    }
}

impl Slot {
    fn reached(&self, now_ms: u64) -> Option<Reached> {
        let live = self.live.as_ref()?;
        Some(Reached {
            timeline: self.name.clone(),
            position: live.subscription.cursor().sequence,
            lag_ms: self.lag_ms(now_ms),
        })
    }

    pub(super) fn lag_ms(&self, now_ms: u64) -> u64 {
        match &self.live {
            Some(live) if (self.in_turn || live.reading) && live.caught_up_ms != 0 => {
                now_ms.saturating_sub(live.caught_up_ms)
            }
            _ => 0,
        }
    }
}

impl Subscriptions {
    /// News has come for a slot. Up to now a subscription that waits for nothing had everything.
    pub(super) fn hear(&mut self, place: u32, now_ms: u64) {
        if let Some(slot) = self.slots.get_mut(place)
            && !slot.in_turn
            && let Some(live) = &mut slot.live
            && live.has_caught_up
            && !live.reading
        {
            live.caught_up_ms = live.caught_up_ms.max(now_ms);
        }
        self.mark(place);
    }

    fn lag_ms(&self, now_ms: u64) -> u64 {
        let lags = self.slots.iter().map(|(_, slot)| slot.lag_ms(now_ms));
        lags.max().unwrap_or(0)
    }

    fn reached(&self, about: &About, now_ms: u64) -> Vec<Reached> {
        match about {
            About::Whole => Vec::new(),
            About::Slot(place) => {
                let slot = self.slots.get(*place);
                slot.and_then(|slot| slot.reached(now_ms))
                    .into_iter()
                    .collect()
            }
            About::Names(after, limit) => {
                let slots = self.slots.iter().map(|(_, slot)| slot);
                let is_asked =
                    |slot: &&Slot| after.as_deref().is_none_or(|after| &*slot.name > after);
                let asked = slots.filter(is_asked);
                let mut all: Vec<_> = asked.filter_map(|slot| slot.reached(now_ms)).collect();
                all.sort_unstable_by(|one, other| one.timeline.cmp(&other.timeline));
                all.truncate(*limit);
                all
            }
        }
    }
}
