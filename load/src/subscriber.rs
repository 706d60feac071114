//! A subscriber: follows many timelines on one connection by a habit, until all that was written has come.
//!
//! Owns: when it joins, leaves, is cut and resumes; the record for the checker of histories. Promises: the record holds
//! what came exactly as it came, so that the checker sees each gap and repetition. Must not: mend anything.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::exit::Stop;
use crate::follower::{Event, Follower, Place, Stage};
use crate::history::{Mark, Rule, Span};
use crate::judge::{Saw, Shared};
use crate::random::Random;

/// How often a subscriber looks what is due.
const LOOK: Duration = Duration::from_millis(25);
/// A subscribe that was refused, or did not come through, is repeated after this.
const AGAIN: Duration = Duration::from_millis(100);
/// So long it stays out of a timeline that it left: long enough that messages come meanwhile.
const OUT: Duration = Duration::from_millis(50);
/// Without news for this long after the writing it gives up, and the checker sees what is missing.
const PATIENCE: Duration = Duration::from_secs(15);

/// When and how a subscriber listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    /// From before the first message to the end.
    FromTheStart,
    /// Joins when a part of a timeline is written, leaves it later, and resumes.
    Midway,
    /// Loses its connection so often while there is writing, and resumes.
    Cut(u32),
}

struct Subscriber<'a> {
    shared: &'a Shared,
    name: String,
    follower: Follower,
    /// As the follower's places.
    dues: Vec<Due>,
    cuts_left: u32,
    /// All positions together after the writing, and since when they are so.
    quiet: (u64, Instant),
    random: Random,
    spans: BTreeMap<usize, Vec<Span>>,
}

/// What is due in one timeline.
struct Due {
    join_at: u64,
    leave_at: Option<u64>,
    /// No join before this.
    not_before: Instant,
}

/// Follows timelines, given with the lengths that they may get, and records everything until all that the run's writers
/// wrote has come, or nothing comes for too long.
pub(crate) async fn run(
    shared: Arc<Shared>,
    name: String,
    habit: Habit,
    follows: BTreeMap<usize, u64>,
    seed: u64,
) -> Result<Saw, Stop> {
    let now = Instant::now();
    let midway = habit == Habit::Midway;
    let due = |length: &u64| Due {
        join_at: if midway { length / 3 } else { 0 },
        leave_at: midway.then_some(length * 2 / 3),
        not_before: now,
    };
    let mut subscriber = Subscriber {
        shared: &shared,
        name,
        follower: Follower::new(&shared.timelines, follows.keys().copied()),
        dues: follows.values().map(due).collect(),
        cuts_left: match habit {
            Habit::Cut(cuts) => cuts,
            _ => 0,
        },
        quiet: (u64::MAX, now),
        random: Random::new(seed),
        spans: follows.keys().map(|one| (*one, Vec::new())).collect(),
    };
    let mut away = None;
    while !subscriber.finished() {
        if let Err(error) = subscriber.session(&mut away).await {
            shared.wait(&mut away, &error).await?;
        }
    }
    Ok((subscriber.name, subscriber.spans))
}

impl Subscriber<'_> {
    fn written(&self) -> bool {
        self.shared.written.load(Ordering::Acquire)
    }

    fn progress(&self, timeline: usize) -> u64 {
        self.shared.progress[timeline].load(Ordering::Relaxed)
    }

    fn finished(&mut self) -> bool {
        if !self.written() {
            return false;
        }
        let places = self.follower.places();
        let positions = places.iter().map(|place| place.position).sum();
        let reached = |place: &Place| {
            place.position >= self.progress(place.timeline) && place.stage != Stage::Leaving
        };
        let all = places.iter().all(reached);
        if self.quiet.0 != positions {
            self.quiet = (positions, Instant::now());
        }
        all || self.quiet.1.elapsed() > PATIENCE
    }

    /// One connection's life; ends without error when it is cut on purpose or all is done.
    async fn session(&mut self, away: &mut Option<Instant>) -> io::Result<()> {
        self.follower.connect(&self.shared.url, None).await?;
        *away = None;
        let now = Instant::now();
        self.dues.iter_mut().for_each(|due| due.not_before = now);
        let cut_at = now + Duration::from_millis(self.random.between(50, 600));
        let cutting = self.cuts_left > 0 && !self.written();
        let mut look = tokio::time::interval(LOOK);
        loop {
            let (follower, spans) = (&mut self.follower, &mut self.spans);
            let read = tokio::select! {
                read = follower.read(|event| hear(spans, event)) => read,
                _ = look.tick() => {
                    if self.finished() {
                        return Ok(());
                    }
                    if cutting && Instant::now() >= cut_at {
                        self.cuts_left -= 1;
                        return Ok(());
                    }
                    self.act();
                    Ok(())
                }
            };
            for fault in self.follower.faults() {
                let what = format!("{}: {fault}", self.name);
                self.shared.verdict().fault(Rule::Wire, &what);
            }
            read?;
        }
    }

    /// Joins and leaves what is due.
    fn act(&mut self) {
        let (now, written) = (Instant::now(), self.written());
        for at in 0..self.dues.len() {
            let place = self.follower.places()[at];
            let begun = written || self.progress(place.timeline) >= self.dues[at].join_at;
            let due = &mut self.dues[at];
            if place.stage == Stage::Out && begun && now >= due.not_before {
                due.not_before = now + AGAIN;
                let limit = 1 + self.random.below(200);
                self.follower.join(at, Some(limit));
            } else if place.stage == Stage::Live
                && due.leave_at.is_some_and(|leave| place.position >= leave)
            {
                due.leave_at = None;
                due.not_before = now + OUT;
                self.follower.leave(at);
            }
        }
    }
}

fn hear(spans: &mut BTreeMap<usize, Vec<Span>>, event: Event<'_>) -> Result<(), String> {
    match event {
        Event::Joined {
            timeline, after, ..
        } => {
            let marks = Vec::new();
            let spans = spans.get_mut(&timeline).ok_or("not followed")?;
            spans.push(Span { after, marks });
        }
        Event::Heard(heard) => {
            let span = spans.get_mut(&heard.timeline).and_then(|of| of.last_mut());
            let span = span.ok_or("messages before a subscription")?;
            for message in heard.messages()? {
                let mark = Mark::of(message).map_err(|odd| odd.to_string())?;
                let id = String::new();
                span.marks.push(Mark { id, ..mark });
            }
        }
        Event::Refused(_, refusal) if refusal.data.retry => {}
        Event::Draining => {}
        other => return other.expected(),
    }
    Ok(())
}
