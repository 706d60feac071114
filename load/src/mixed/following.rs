//! A subscriber: follows many timelines on one connection by a habit, until all that was written has come.
//!
//! Owns: when it joins, leaves, is cut and resumes; the record for the checker of histories. Promises: a recording
//! holds what came exactly as it came, so that the checker sees each gap and repetition. Must not: mend anything.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::exit::Stop;
use crate::follower::{Event, Follower, Place, Stage, Timelines};
use crate::random::Random;

/// How often a subscriber looks what is due.
const LOOK: Duration = Duration::from_millis(25);
/// A subscribe that was refused, or did not come through, is repeated after this.
const AGAIN: Duration = Duration::from_millis(100);
/// So long it stays out of a timeline that it left: long enough that messages come meanwhile.
const OUT: Duration = Duration::from_millis(50);

/// When and how a subscriber listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// From before the first message to the end.
    FromTheStart,
    /// Joins when a part of a timeline is written, leaves it later, and resumes.
    Midway,
    /// Loses its connection again and again, and resumes.
    Cut,
}

/// How one subscriber works.
#[derive(Clone)]
pub struct Options {
    /// Its name in the reports.
    pub name: String,
    /// Its habit.
    pub habit: Habit,
    /// The timelines it follows: index in the run's list, expected length (a guess, for joining midway).
    pub follows: Vec<(usize, u64)>,
    /// For the times of its cuts.
    pub seed: u64,
    /// How often a cut one is cut, while there is writing.
    pub cuts: u32,
    /// The shortest and the longest time between cuts, ms.
    pub cut_after_ms: (u64, u64),
    /// Without news for this long after the writing it gives up, and the checker sees what is missing.
    pub patience: Duration,
}

/// What becomes of what a subscriber hears.
pub trait Ear {
    /// Something came; the error is a fault.
    fn hear(&mut self, event: Event<'_>) -> Result<(), String>;

    /// A broken promise.
    fn fault(&mut self, what: String);

    /// A connection began, or ended.
    fn connected(&mut self, _begun: bool) {}
}

/// Follows until everything that the run's writers wrote has come, or nothing comes for too long. Returns how far it
/// got in each timeline.
///
/// # Errors
///
/// There is no server for too long.
pub async fn follow(
    shared: &Shared,
    options: &Options,
    ear: &mut impl Ear,
) -> Result<Vec<Place>, Stop> {
    let cut = options.habit == Habit::Cut;
    let mut subscriber = Subscriber::new(shared, options, if cut { options.cuts } else { 0 });
    let mut backoff = Backoff::new(shared.patience);
    while !subscriber.finished() {
        ear.connected(true);
        let ended = subscriber.session(&mut backoff, ear).await;
        ear.connected(false);
        if let Err(error) = ended {
            backoff.wait(&error.to_string()).await?;
        }
    }
    Ok(subscriber.follower.places().to_vec())
}

struct Subscriber<'a> {
    shared: &'a Shared,
    options: &'a Options,
    follower: Follower,
    /// As the follower's places.
    dues: Vec<Due>,
    cuts_left: u32,
    /// When nothing new was last seen after the writing, and all positions together then.
    waiting: (Option<Instant>, u64),
    random: Random,
}

/// What is due in one timeline.
struct Due {
    join_at: u64,
    leave_at: Option<u64>,
    /// No join before this.
    not_before: Instant,
}

impl<'a> Subscriber<'a> {
    fn new(shared: &'a Shared, options: &'a Options, cuts_left: u32) -> Subscriber<'a> {
        let mut follows = options.follows.clone();
        follows.sort_unstable();
        let midway = options.habit == Habit::Midway;
        let due = |(_, length): &(usize, u64)| Due {
            join_at: if midway { length / 3 } else { 0 },
            leave_at: midway.then_some(length * 2 / 3),
            not_before: Instant::now(),
        };
        Subscriber {
            shared,
            options,
            dues: follows.iter().map(due).collect(),
            follower: Follower::new(
                &shared.timelines,
                follows.iter().map(|(timeline, _)| *timeline),
            ),
            cuts_left,
            waiting: (None, 0),
            random: Random::new(options.seed),
        }
    }

    fn finished(&mut self) -> bool {
        if !self.shared.written.load(Ordering::Acquire) {
            return false;
        }
        let places = self.follower.places();
        let positions = places.iter().map(|place| place.position).sum();
        if self.waiting.0.is_none() || self.waiting.1 != positions {
            self.waiting = (Some(Instant::now()), positions);
        }
        let reached = |place: &Place| {
            let length = self.shared.progress[place.timeline].load(Ordering::Relaxed);
            place.position >= length && place.stage != Stage::Leaving
        };
        let impatient = |since: Instant| since.elapsed() > self.options.patience;
        places.iter().all(reached) || self.waiting.0.is_some_and(impatient)
    }

    /// One connection's life; ends without error when it is cut on purpose or all is done.
    async fn session(&mut self, backoff: &mut Backoff, ear: &mut impl Ear) -> io::Result<()> {
        self.follower.connect(&self.shared.url, None).await?;
        backoff.reset();
        for due in &mut self.dues {
            due.not_before = Instant::now();
        }
        let (least, most) = self.options.cut_after_ms;
        let pause = Duration::from_millis(self.random.between(least, most));
        let cutting = self.cuts_left > 0 && !self.shared.written.load(Ordering::Acquire);
        let cut_at = cutting.then(|| Instant::now() + pause);
        let mut look = tokio::time::interval(LOOK);
        loop {
            let read = tokio::select! {
                read = self.follower.read(|event| ear.hear(event)) => read,
                _ = look.tick() => {
                    if self.finished() {
                        return Ok(());
                    }
                    if cut_at.is_some_and(|at| Instant::now() >= at) {
                        self.cuts_left -= 1;
                        return Ok(());
                    }
                    self.act();
                    Ok(())
                }
            };
            for fault in self.follower.faults() {
                ear.fault(format!("{}: {fault}", self.options.name));
            }
            read?;
        }
    }

    /// Joins and leaves what is due.
    fn act(&mut self) {
        let written = self.shared.written.load(Ordering::Acquire);
        let now = Instant::now();
        for (at, due) in self.dues.iter_mut().enumerate() {
            let Place {
                timeline,
                position,
                stage,
            } = self.follower.places()[at];
            let progress = self.shared.progress[timeline].load(Ordering::Relaxed);
            if stage == Stage::Out && (progress >= due.join_at || written) && now >= due.not_before
            {
                due.not_before = now + AGAIN;
                let limit = 1 + self.random.below(200);
                self.follower.join(at, Some(limit));
            } else if stage == Stage::Live && due.leave_at.is_some_and(|leave| position >= leave) {
                due.leave_at = None;
                due.not_before = now + OUT;
                self.follower.leave(at);
            }
        }
    }
}

/// What all writers and subscribers of a run share.
pub struct Shared {
    /// Where to connect.
    pub url: String,
    /// The timelines.
    pub timelines: Arc<Timelines>,
    /// Acknowledged messages, by timeline.
    pub progress: Vec<AtomicU64>,
    /// The writers are done: `progress` is how long each timeline is.
    pub written: AtomicBool,
    /// When the run began: the zero of all `_ns`.
    pub began: Instant,
    /// How long a server that is away is waited for.
    pub patience: Duration,
}

impl Shared {
    /// What a run on these timelines shares.
    #[must_use]
    pub fn new(
        url: String,
        timelines: impl IntoIterator<Item = String>,
        patience: Duration,
    ) -> Arc<Shared> {
        let timelines = Timelines::new(timelines);
        Arc::new(Shared {
            url,
            progress: timelines.iter().map(|_| AtomicU64::new(0)).collect(),
            timelines,
            written: AtomicBool::new(false),
            began: Instant::now(),
            patience,
        })
    }

    /// ns since the run began.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Pauses between attempts to connect, longer each time, until the patience is used up.
pub struct Backoff {
    pause: Duration,
    waiting_since: Option<Instant>,
    patience: Duration,
}

impl Backoff {
    /// Starts with 10 ms, doubles up to 500 ms.
    #[must_use]
    pub fn new(patience: Duration) -> Backoff {
        Backoff {
            pause: Duration::from_millis(10),
            waiting_since: None,
            patience,
        }
    }

    /// The server answered.
    pub fn reset(&mut self) {
        *self = Backoff::new(self.patience);
    }

    /// Waits before the next attempt, or says that it has been long enough.
    pub async fn wait(&mut self, why: &str) -> Result<(), Stop> {
        let since = self.waiting_since.get_or_insert_with(Instant::now);
        if since.elapsed() > self.patience {
            let patience = self.patience;
            return Err(Stop::Unreachable(format!(
                "no server for {patience:?}: {why}"
            )));
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(Duration::from_millis(500));
        Ok(())
    }
}
