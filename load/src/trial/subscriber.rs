//! A subscriber: follows many timelines on one connection by a habit, until all that was written has come.
//!
//! Owns: when it joins, leaves, is cut and resumes; the record for the checker of histories. Promises: the record holds
//! what came exactly as it came, so that the checker sees each gap and repetition. Must not: mend anything.

use std::io;
use std::time::Duration;

use tokio::time::{Instant, interval};

use super::{SUBSCRIBERS, Trial, wait};
use crate::client::pipe::Way;
use crate::exit::Stop;
use crate::follower::{Event, Follower, Place, Stage};
use crate::random::Random;
use crate::recording::shown;
use crate::run::Phase;
use tideline_history::What;

/// How often a subscriber looks what is due. It stays out of a timeline that it left for about as long.
const LOOK: Duration = Duration::from_millis(50);
/// Without news for this long after the writing it gives up, and the checker sees what is missing.
const PATIENCE: Duration = Duration::from_secs(15);

/// When and how a subscriber listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Habit {
    /// From before the first message to the end.
    FromTheStart,
    /// Joins when a part of a timeline is written, leaves it later, and resumes.
    Midway,
    /// Loses its connection again and again while there is writing, and resumes.
    Cut,
}

struct Subscriber<'a> {
    trial: &'a Trial,
    habit: Habit,
    follower: Follower,
    /// By the follower's places: join when so much is written, leave behind this number.
    dues: Vec<(u64, Option<u64>)>,
    /// All positions together after the writing, and since when they are so.
    quiet: (u64, Instant),
    random: Random,
    /// Its name in the history.
    name: String,
}

/// Follows its share of the timelines, and records everything until all that was written has come, or nothing comes for
/// too long.
pub(super) async fn run(trial: &Trial, habit: Habit, number: usize) -> Result<(), Stop> {
    let follows = (number..trial.lengths.len()).step_by(SUBSCRIBERS);
    let due = |timeline: usize| match (habit, trial.lengths[timeline]) {
        (Habit::Midway, length) => (length / 3, Some(length * 2 / 3)),
        _ => (0, None),
    };
    let mut subscriber = Subscriber {
        trial,
        habit,
        follower: Follower::new(&trial.timelines, follows.clone()),
        dues: follows.map(due).collect(),
        quiet: (u64::MAX, trial.began),
        random: Random::new(trial.run.seed_of(number as u64)),
        name: format!("{habit:?}-{number}"),
    };
    let mut heard = Instant::now();
    while !subscriber.is_through() {
        if let Err(error) = subscriber.session(&mut heard).await {
            wait(heard, &error).await?;
        }
    }
    trial.recording.event(&subscriber.name, What::Settled);
    Ok(())
}

impl Subscriber<'_> {
    fn is_through(&mut self) -> bool {
        if self.trial.run.phase() != Phase::Ending {
            return false;
        }
        let places = self.follower.places();
        let reached = |place: &Place| {
            let length = self.trial.acknowledged[place.timeline].get();
            place.position >= length && place.stage != Stage::Leaving
        };
        let positions = places.iter().map(|place| place.position).sum();
        if self.quiet.0 != positions {
            self.quiet = (positions, Instant::now());
        }
        places.iter().all(reached) || self.quiet.1.elapsed() > PATIENCE
    }

    /// One connection's life; ends without error when it is cut on purpose or all is through.
    async fn session(&mut self, heard: &mut Instant) -> io::Result<()> {
        let run = &self.trial.run;
        self.follower.connect(&run.url, Way::Plain).await?;
        // Before it is due it subscribes to nothing and hears nothing.
        *heard = Instant::now();
        let cut_at = Instant::now() + Duration::from_millis(50 + self.random.below(550));
        let cutting = self.habit == Habit::Cut && run.phase() != Phase::Ending;
        let mut look = interval(LOOK);
        loop {
            let (trial, name) = (self.trial, &self.name);
            let fault = |what| run.checks.fault(what);
            tokio::select! {
                read = self.follower.read(|event| hear(trial, name, event), fault) => {
                    read?;
                    *heard = Instant::now();
                }
                now = look.tick() => {
                    if self.is_through() || cutting && now >= cut_at {
                        return Ok(());
                    }
                    self.act();
                }
            }
        }
    }

    /// Joins and leaves what is due.
    fn act(&mut self) {
        for (at, (join_at, leave_at)) in self.dues.iter_mut().enumerate() {
            let place = self.follower.places()[at];
            let length = self.trial.acknowledged[place.timeline].get();
            let is_due = length >= *join_at || self.trial.run.phase() == Phase::Ending;
            if place.stage == Stage::Out && is_due {
                let limit = 1 + self.random.below(200);
                self.follower.join(at, Some(limit));
            }
            let is_done = |leave_at: &mut u64| place.position >= *leave_at;
            if place.stage == Stage::Live && leave_at.take_if(is_done).is_some() {
                self.follower.leave(at);
            }
        }
    }
}

fn hear(trial: &Trial, name: &str, event: Event<'_>) -> Result<(), String> {
    let called = |timeline: usize| trial.timelines[timeline].clone();
    match event {
        Event::Joined {
            timeline, after, ..
        } => {
            trial.run.add("resumes", u64::from(after > 0));
            let what = What::Subscribe(called(timeline), after);
            trial.recording.event(name, what);
        }
        Event::Heard(heard) => {
            let messages = heard.messages()?.into_iter().map(shown);
            let messages = messages.collect::<Result<_, _>>()?;
            let what = What::Push(called(heard.timeline), messages);
            trial.recording.event(name, what);
        }
        Event::Refused(refusal) if refusal.data.retry => {}
        Event::Draining => {}
        other => return other.expected(),
    }
    Ok(())
}
