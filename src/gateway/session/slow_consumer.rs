//! How long a session is patient with its client: pings, and when a client that does not read is cut.
//!
//! Owns: the timer, and when a client is given up. Promises: a client is judged by what it did while this process was
//! there and listened: time in which the process was away or did not read does not count. Must not: read or write
//! more than a ping.

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::protocol::frame::coding::Control;

use super::super::dispatch::shape::size;
use super::super::http::timeouts::is_late;
use super::subscriptions::Subscriptions;
use super::{End, Session};
use tideline_wire::Close;

impl Session {
    /// Counts what waits for a client that does not read, and sees to it that the timer is there in time.
    pub(super) fn look_soon(&mut self) {
        let stalled = self.outbox.stalled();
        let page_bytes = size(self.shared.options.limits.outbound_frame_bytes_max);
        let pages = self.jobs.pages() * page_bytes;
        let waits = stalled.map_or(0, |_| self.outbox.bytes() + pages);
        self.unread.force(waits);
        let is_pressing = !self.unread.is_small();
        let since = self.reader.since();
        let due = [
            is_pressing.then(|| Instant::now() + PRESSED_TIME),
            since.map(|since| since + self.shared.options.request_time_max),
            self.login
                .as_ref()
                .and_then(|login| login.due(&self.shared, Instant::now())),
            self.centrifuge_due(),
        ];
        for due in due.into_iter().flatten() {
            if due < self.timer.deadline() {
                self.timer.as_mut().reset(due);
            }
        }
    }

    pub(super) fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<End> {
        while self.timer.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            if is_late(self.timer.deadline()) {
                self.excuse(now);
            }
            if let Some(disconnect) = self.end_what_is_over() {
                return Poll::Ready(End::Disconnect(disconnect));
            }
            if let Some(code) = self.tick(now) {
                return Poll::Ready(End::Close(code));
            }
            self.arm(now);
            // A ping may have been queued.
            if let Poll::Ready(Err(_)) = self.outbox.poll_write(&mut self.socket, context) {
                return Poll::Ready(End::Gone);
            }
        }
        Poll::Pending
    }

    /// The process was away, not the client: everybody's time begins anew.
    fn excuse(&mut self, now: Instant) {
        self.heard = now;
        self.reader.excuse(now);
        self.outbox.excuse(now.into_std());
        self.subscriptions.excuse(self.shared.clock.now_ms());
    }

    /// Pings, and the limits of patience. A client that is out of time is looked at once more: bytes that have come may
    /// not have been announced to this task yet.
    fn tick(&mut self, now: Instant) -> Option<Close> {
        if !self.reads() || self.is_stream() {
            // It is the server that does not read, or the client has nothing to say.
            self.heard = now;
            self.reader.excuse(now);
        }
        let verdict = self.verdict(now);
        let was_doubted = std::mem::replace(&mut self.is_doubted, verdict.is_some());
        if verdict.is_some() && was_doubted {
            return verdict;
        }
        self.count_if_behind();
        self.warn_of_end();
        if now >= self.ping_at {
            self.ping_at = now + self.shared.options.heartbeat;
            if self.outbox.stalled().is_none() {
                self.ping();
            }
        }
        None
    }

    /// Shows whether the client does not keep up, long before it is cut for that.
    fn count_if_behind(&mut self) {
        let patience = self.shared.options.slow_consumer / 4;
        let is_behind = self.lags(patience, patience);
        if is_behind != self.behind.is_some() {
            let gauge = &self.shared.metrics.gateway.readers_behind;
            self.behind = is_behind.then(|| gauge.hold(1));
        }
    }

    /// Whether the socket has taken nothing for `stalled`, or a subscription lags by more than `behind`.
    fn lags(&self, stalled: Duration, behind: Duration) -> bool {
        let since = self.outbox.stalled();
        let now_ms = self.shared.clock.now_ms();
        since.is_some_and(|since| since.elapsed() >= stalled)
            || self.subscriptions.is_behind(now_ms, behind)
    }

    fn verdict(&self, now: Instant) -> Option<Close> {
        let options = &self.shared.options;
        let is_pressed = !self.unread.is_small() && self.unread.is_full();
        let patience = match is_pressed {
            true => options.slow_consumer.min(PRESSED_TIME),
            false => options.slow_consumer,
        };
        let login = self.login.as_ref();
        if login.is_some_and(|login| login.is_over(&self.shared, now)) {
            return Some(Close::Unauthenticated);
        }
        if self.lags(patience, options.slow_consumer) {
            if is_pressed {
                self.shared.answers.refuse();
            }
            return Some(Close::SlowConsumer);
        }
        let request = self.reader.since().filter(|_| self.reads());
        if request.is_some_and(|since| now.duration_since(since) >= options.request_time_max) {
            return Some(Close::SlowRequest);
        }
        (now.duration_since(self.heard) >= 2 * options.heartbeat).then_some(Close::Idle)
    }

    fn ping(&mut self) {
        if let Some(own) = &self.centrifuge {
            self.outbox.push(own.ping());
            return;
        }
        if self.is_stream() {
            return self.comment();
        }
        self.outbox.control(Control::Ping, Bytes::new());
    }

    pub(super) fn arm(&mut self, now: Instant) {
        let options = &self.shared.options;
        let look = (options.slow_consumer / 4).max(TICK_MIN);
        let silent = self.heard + 2 * options.heartbeat;
        let next = self.ping_at.min(now + look).min(silent);
        let next = if self.is_doubted { now } else { next };
        self.timer.as_mut().reset(next);
        self.look_soon();
        let soonest = now + TICK_MIN;
        if self.timer.deadline() < soonest {
            self.timer.as_mut().reset(soonest);
        }
    }
}

impl Subscriptions {
    /// Whether some subscription that had caught up lags by more than `limit`.
    fn is_behind(&self, now_ms: u64, limit: Duration) -> bool {
        self.slots.iter().any(|(_, slot)| {
            let live = slot.live.as_ref();
            live.is_some_and(|live| live.has_caught_up)
                && Duration::from_millis(slot.lag_ms(now_ms)) > limit
        })
    }

    /// The time before now does not count as lag.
    fn excuse(&mut self, now_ms: u64) {
        let lives = self.slots.iter_mut();
        for live in lives.filter_map(|(_, slot)| slot.live.as_mut()) {
            if live.caught_up_ms != 0 {
                live.caught_up_ms = now_ms;
            }
        }
    }
}

const TICK_MIN: Duration = Duration::from_millis(20);
/// When all connections together hold as many unread bytes as they may, a client that has not read for this long is
/// cut.
const PRESSED_TIME: Duration = Duration::from_secs(5);
