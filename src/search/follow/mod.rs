//! What fills an index: the rows that were there, then the logs of all partitions.
//!
//! Owns: one task for each index. Promises: what it commits has every row of its table as of the place that the commit
//! names, or later; a panic or an error of the engine ends with the index made anew, never with a wrong one; a log that
//! does not go back to its place means the same. Must not: hold up a write: it only reads.
//!
//! A partition is read so, turn by turn: a page of the rows that were there as of a view, then the log up to that view
//! at least. In the other order a page would bring back what was changed meanwhile.

mod floors;
mod seen;
mod sweep;
mod turn;
mod wait;
mod writers;

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use tideline_base::{faults, metrics};
use tideline_model::Error;
use tideline_model::search::SearchIndex;
use tideline_table::{Table, Tables};

use crate::index::place::Place;
use crate::index::{Broken, Index, remove};
use floors::Floors;
pub(crate) use seen::{Seen, Shown, Snapshot};
pub(crate) use sweep::since;
pub(crate) use writers::Writers;

/// See the top.
pub(crate) struct Follower {
    pub(crate) tables: Tables,
    pub(crate) table: Arc<Table>,
    pub(crate) definition: SearchIndex,
    pub(crate) folder: PathBuf,
    /// See [`crate::Options::build_rows_per_second`].
    pub(crate) build_rows_per_second: u64,
    /// What searches see.
    pub(crate) seen: watch::Sender<Arc<Seen>>,
    /// How many searches have asked for news.
    pub(crate) asked: watch::Receiver<u64>,
    /// A search had asked before the turn that runs, and no commit has what was in the logs then.
    pub(crate) is_asked: bool,
    pub(crate) stop: CancellationToken,
    pub(crate) figures: Arc<metrics::Search>,
    /// Set while it can't be filled.
    pub(crate) is_stuck: Arc<AtomicBool>,
    /// When it was last looked for expired rows, ms since 1970.
    pub(crate) swept_ms: u64,
    /// When a search that has failed has the index opened again.
    pub(crate) next_check: Instant,
    pub(crate) writers: Arc<Writers>,
}

/// Why a follower stops for now.
enum Halt {
    /// The tables could not be read: again later, from here, with what was put.
    Tables(Error),
    /// The disk has little room: again later, from here, with what was put.
    Full,
    /// The index can't go on: opened again later, from its last commit.
    Later(String),
    /// It has to be made anew.
    Anew(String),
    /// Nobody needs it filled any more.
    Stopped,
}

impl From<Error> for Halt {
    fn from(error: Error) -> Halt {
        match error {
            Error::StreamTrimmed => Halt::Anew("the log does not go back to its place".to_owned()),
            error => Halt::Tables(error),
        }
    }
}

impl From<Broken> for Halt {
    fn from(broken: Broken) -> Halt {
        match broken {
            Broken::Later(why) => Halt::Later(why),
            Broken::Damaged(why) => Halt::Anew(why),
        }
    }
}

/// After a failure.
const REST_MIN: Duration = Duration::from_millis(100);
const REST_MAX: Duration = Duration::from_secs(10);
/// Uncommitted documents are committed after so long, also if nobody asks.
const COMMIT_EVERY: Duration = Duration::from_secs(1);
/// Commits that searches ask for are at least so far apart.
const COMMIT_PAUSE: Duration = Duration::from_millis(50);
/// A place without documents is committed after so long, if a part of a log can go then.
const PLACE_EVERY: Duration = Duration::from_secs(30);
/// A search that fails has the index opened again, which holds all of it against its checksums; no more often.
const CHECK_EVERY: Duration = Duration::from_secs(60);
/// A writer is let go after so long without anything to write.
const IDLE: Duration = Duration::from_secs(20);

/// An index and its place while it is filled.
struct Work {
    index: Index,
    place: Place,
    committed: Instant,
    written: Instant,
    /// The place as the last commit has it.
    kept: Place,
    /// When the next page of rows that were there may be read.
    next_page: Instant,
    /// Set by a search that has failed.
    has_failed: Arc<AtomicBool>,
    floors: Floors,
    /// While its writer may be open.
    turn: Option<OwnedSemaphorePermit>,
}

impl Follower {
    /// Fills the index until it is to stop.
    pub(crate) async fn run(mut self) {
        let (mut rest, mut kept) = (REST_MIN, None);
        loop {
            let began = Instant::now();
            // A search that reads it meanwhile has a commit, which nothing half done changes.
            let filled = AssertUnwindSafe(self.fill(&mut kept)).catch_unwind().await;
            let halt = match filled {
                Ok(Ok(never)) => match never {},
                Ok(Err(halt)) => halt,
                Err(_) => Halt::Anew("its follower panicked".to_owned()),
            };
            if self.stop.is_cancelled() {
                // Also if its files have gone under it.
                return;
            }
            if began.elapsed() > REST_MAX {
                rest = REST_MIN;
            }
            if !matches!(halt, Halt::Stopped) {
                self.is_stuck.store(true, Ordering::Relaxed);
                self.figures.failures.increment(1);
            }
            let (index, table) = (&self.definition.name, &self.table.name);
            match halt {
                Halt::Tables(error) => {
                    tracing::warn!(
                        ?error,
                        index,
                        table,
                        "rows of a search index can't be read; tried again"
                    );
                }
                Halt::Full => tracing::warn!(
                    index,
                    table,
                    "a search index leaves the last of the disk to others; the disk is full, make room"
                ),
                Halt::Later(why) => {
                    tracing::warn!(
                        why,
                        index,
                        table,
                        "a search index can't go on; opened again later"
                    );
                }
                Halt::Stopped => return,
                Halt::Anew(why) => {
                    tracing::warn!(why, index, table, "a search index is made anew");
                    self.figures.rebuilds.increment(1);
                    self.seen.send_replace(Arc::default());
                    self.tables.set_search_place(self.definition.id, None);
                    let folder = self.folder.clone();
                    let removed = spawn_blocking(move || remove(&folder)).await;
                    if let Ok(Err(error)) = removed {
                        tracing::warn!(%error, index, table, "files of a search index can't be removed");
                    }
                }
            }
            if self.stop.run_until_cancelled(sleep(rest)).await.is_none() {
                return;
            }
            rest = (rest * 2).min(REST_MAX);
        }
    }

    /// Goes on with what was kept, and keeps what can go on.
    async fn fill(&mut self, kept: &mut Option<Work>) -> Result<Infallible, Halt> {
        loop {
            let mut now = match kept.take() {
                Some(work) => work,
                None => self.open().await?,
            };
            if now.has_failed.load(Ordering::Relaxed) && Instant::now() >= self.next_check {
                self.next_check = Instant::now() + CHECK_EVERY;
                return Err(Halt::Later("a search in it has failed".to_owned()));
            }
            assert!(!faults::comes("search_follower_panics"));
            if self.asked.has_changed().unwrap_or(false) {
                self.asked.borrow_and_update();
                self.is_asked = true;
            }
            let turned = self.turn(&mut now).await;
            if let Err(halt @ (Halt::Tables(_) | Halt::Full)) = turned {
                // What was read until then is shown, and others may write.
                *kept = Some(self.settle(now, false).await?);
                return Err(halt);
            }
            let is_through = turned?;
            let now = self.sweep(now).await?;
            let now = self.settle(now, is_through).await?;
            if self.stop.is_cancelled() {
                self.end(now).await?;
                return Err(Halt::Stopped);
            }
            if is_through {
                let stop = self.stop.clone();
                stop.run_until_cancelled(self.wait(&now)).await;
            }
            *kept = Some(now);
        }
    }

    async fn open(&mut self) -> Result<Work, Halt> {
        let (folder, definition) = (self.folder.clone(), self.definition.clone());
        let partitions = self.tables.search_source();
        let history = partitions.history();
        let turn = self.stop.run_until_cancelled(self.writers.opening()).await;
        let _turn = turn.flatten().ok_or(Halt::Stopped)?;
        let opened = blocking(move || Index::open(&folder, &definition, history)).await?;
        let (index, place) = opened;
        let map = partitions.map();
        let is_new = place.is_none();
        let place = match place {
            Some(place) if place.fits(&map, |id| Some(partitions.log(id)?.position())) => place,
            Some(_) => {
                return Err(Halt::Anew(
                    "it is ahead of the logs, or its partitions are gone".to_owned(),
                ));
            }
            None if index.searcher().num_docs() > 0 => {
                return Err(Halt::Anew(
                    "it is of another directory or format".to_owned(),
                ));
            }
            None => Place::begin(self.definition.id, history, &map),
        };
        let now = Instant::now();
        let work = Work {
            kept: place.clone(),
            index,
            place,
            committed: now,
            written: now,
            next_page: now,
            has_failed: Arc::default(),
            floors: Floors::default(),
            turn: None,
        };
        if !is_new {
            self.hold(&work.place);
        }
        Ok(work)
    }

    /// Takes the table as it is defined by now: how long rows live may change.
    async fn refresh(&mut self) -> Result<(), Halt> {
        let tables = self.tables.searched().await?;
        let defined = tables.into_iter().find(|table| table.id == self.table.id);
        if let Some(table) = defined {
            self.table = table;
        }
        Ok(())
    }

    /// Commits what is due, and shows it.
    async fn settle(&mut self, mut work: Work, is_through: bool) -> Result<Work, Halt> {
        let since = work.committed.elapsed();
        let is_asked_for = self.is_asked && is_through && since >= COMMIT_PAUSE;
        let is_late = since >= COMMIT_EVERY;
        let is_due = work.index.is_changed() && (is_late || is_asked_for);
        let is_moved = since >= PLACE_EVERY && self.frees(&work);
        if is_due || is_moved {
            self.may_write(&mut work).await?;
            work = blocking(move || {
                work.index.commit(&work.place)?;
                Ok(work)
            })
            .await?;
            self.committed(&mut work);
        }
        if !work.index.is_changed() {
            self.is_asked &= !is_through;
            let shown = Shown {
                snapshot: Snapshot {
                    searcher: work.index.searcher(),
                    has_failed: Arc::clone(&work.has_failed),
                },
                place: work.place.clone(),
                current_ms: self.tables.search_ms(),
            };
            self.is_stuck.store(false, Ordering::Relaxed);
            self.seen.send_replace(Arc::new(Seen(Some(shown))));
            let is_idle = work.written.elapsed() >= IDLE;
            if work.turn.is_some() && (is_idle || self.writers.are_wanted()) {
                work = blocking(move || {
                    work.index.rest()?;
                    Ok(work)
                })
                .await?;
                work.turn = None;
            }
        }
        Ok(work)
    }

    /// Whether a commit of the place as it is lets go of a part of a log.
    fn frees(&self, work: &Work) -> bool {
        let (kept, now) = (work.kept.positions(), work.place.positions());
        let partitions = self.tables.search_source();
        let mut all = kept.iter();
        all.any(|(id, kept)| match now.get(id) {
            None => true,
            Some(now) => partitions.log(*id).is_some_and(|log| {
                let pieces = log.pieces();
                let mut begins = pieces.iter().map(|(first, _)| *first);
                begins.any(|first| first > kept.next() && first <= now.next())
            }),
        })
    }

    /// A commit was made, of the place as it is.
    fn committed(&self, work: &mut Work) {
        self.figures.commits.increment(1);
        work.kept = work.place.clone();
        work.committed = Instant::now();
        self.hold(&work.kept);
    }

    /// Waits until its writer may be open.
    async fn may_write(&self, work: &mut Work) -> Result<(), Halt> {
        if work.turn.is_none() {
            let turn = self.stop.run_until_cancelled(self.writers.turn()).await;
            work.turn = Some(turn.flatten().ok_or(Halt::Stopped)?);
        }
        Ok(())
    }

    /// Commits what is not committed, and lets go of the files. Merges are not waited for: the next commits make them.
    async fn end(&self, mut work: Work) -> Result<(), Halt> {
        blocking(move || {
            if work.index.is_changed() || work.place != work.kept {
                work.index.commit(&work.place)?;
            }
            Ok(())
        })
        .await
    }

    /// Says what is still needed of the logs.
    fn hold(&self, place: &Place) {
        let positions = place.positions();
        self.tables
            .set_search_place(self.definition.id, Some(positions));
    }
}

/// Runs a step of the engine where it may block. One that panics leaves the index to be made anew.
async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, Broken> + Send + 'static,
) -> Result<R, Halt> {
    match spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        Err(error) => Err(Halt::Anew(format!("a step of it failed: {error}"))),
    }
}
