//! The search indexes of a data directory, as a gateway calls them.
//!
//! Owns: [`Searches`]: which indexes are filled, and the calls on them. Promises: an index that a definition names is
//! filled, one that none names is removed; a search waits for what was answered before it, at most as long as its
//! caller does; so many run at a time, and so many more wait. Must not: know a wire.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use tideline_base::bounds::{Bound, Holder, Resource};
use tideline_base::ids::TableId;
use tideline_base::metrics;
use tideline_model::Error;
use tideline_model::search::{InvalidSearch, SearchIndex};
use tideline_table::{Table, Tables};

use crate::collect::Share;
use crate::follow::{Follower, Seen, Writers};
use crate::index::{bytes_in, remove};
use crate::scans::Scans;

/// What operators set.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether a search waits for what was answered before it.
    pub waits: bool,
    /// Rows a second that are brought into an index of those that were there; 0 = as fast as it goes.
    pub build_rows_per_second: u64,
    /// Bytes of log that are kept for an index at most.
    pub log_bytes_max: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            waits: true,
            build_rows_per_second: 20_000,
            log_bytes_max: 1 << 30,
        }
    }
}

/// How an index is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Whether rows that were there before it are still brought in.
    pub is_building: bool,
    /// It has everything that was written before this time, ms since 1970.
    pub current_ms: u64,
    /// How many rows it has.
    pub rows: u64,
    /// What its files take.
    pub bytes: u64,
}

/// See the top. Cheap to clone.
#[derive(Clone)]
pub struct Searches {
    pub(crate) inner: Arc<Inner>,
    pub(crate) holder: Option<Holder>,
}

pub(crate) struct Inner {
    pub(crate) tables: Tables,
    pub(crate) options: Options,
    pub(crate) scans: Scans,
    data: PathBuf,
    running: Mutex<BTreeMap<TableId, Arc<Running>>>,
    /// No definition names them any more; their files go after their followers have ended.
    leaving: Mutex<Vec<Arc<Running>>>,
    /// Searches that run.
    turns: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
    pub(crate) figures: Arc<metrics::Search>,
    writers: Arc<Writers>,
}

/// An index that is filled.
pub(crate) struct Running {
    pub(crate) seen: watch::Receiver<Arc<Seen>>,
    asked: watch::Sender<u64>,
    folder: PathBuf,
    stop: CancellationToken,
    is_stuck: Arc<AtomicBool>,
    follower: JoinHandle<()>,
}

impl Running {
    /// Asks for everything that is in the logs now.
    pub(crate) fn ask(&self) {
        self.asked.send_modify(|count| *count += 1);
    }
}

/// The folder of all indexes in a data directory.
pub(crate) const FOLDER: &str = "search";
/// The folder of an index in a data directory.
pub(crate) fn folder_of(data: &Path, index: TableId) -> PathBuf {
    data.join(FOLDER).join(index.0.to_string())
}

/// How long after one look at the definitions the next one comes, if nothing has changed.
const LOOK_EVERY: Duration = Duration::from_secs(10);

impl Searches {
    /// Starts to fill the indexes of a data directory's tables on the current runtime.
    #[must_use]
    pub fn start(data: &Path, tables: &Tables, options: Options, tasks: &TaskTracker) -> Searches {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let searches = Searches {
            inner: Arc::new(Inner {
                tables: tables.clone(),
                options,
                scans: Scans::default(),
                data: data.to_owned(),
                running: Mutex::default(),
                leaving: Mutex::default(),
                turns: Arc::new(Semaphore::new(processors)),
                tasks: tasks.clone(),
                writers: Arc::default(),
                stop: CancellationToken::new(),
                figures: Arc::new(tables.search_source().metrics().search()),
            }),
            holder: None,
        };
        let (all, stop) = (searches.clone(), searches.inner.stop.clone());
        tasks.spawn(async move { stop.run_until_cancelled(all.look()).await });
        searches
    }

    /// The same, for a caller.
    #[must_use]
    pub fn of_caller(&self, holder: Option<Holder>) -> Searches {
        Searches {
            inner: Arc::clone(&self.inner),
            holder,
        }
    }

    /// A bound over all callers.
    pub(crate) fn bound(&self, resource: Resource) -> &Arc<Bound> {
        let partitions = self.inner.tables.search_source();
        partitions.bounds().of(resource)
    }

    /// What a search of the caller may hold.
    pub(crate) fn memory(&self) -> Share {
        Share::new(self.bound(Resource::SearchBytes).share(self.holder))
    }

    /// Ends the tasks, which commit first; the next start goes on from there.
    pub fn stop(&self) {
        self.inner.stop.cancel();
    }

    /// The definition of an index of a table.
    ///
    /// # Errors
    /// There is none.
    pub fn definition<'t>(&self, table: &'t Table, name: &str) -> Result<&'t SearchIndex, Error> {
        let mut indexes = table.search_indexes.iter();
        // Those of virtual tables are the server's own.
        let found = indexes.find(|index| index.name == name && !table.is_virtual());
        found.ok_or_else(|| Error::Search(InvalidSearch::NoIndex(name.to_owned())))
    }

    /// How an index is.
    pub async fn standing(&self, index: TableId) -> Standing {
        let Some(running) = self.running(index) else {
            return Standing {
                is_building: true,
                ..Standing::default()
            };
        };
        running.ask();
        let seen = Arc::clone(&running.seen.borrow());
        let folder = running.folder.clone();
        let bytes = spawn_blocking(move || bytes_in(&folder)).await.unwrap_or(0);
        let Some(shown) = &seen.0 else {
            return Standing {
                is_building: true,
                bytes,
                ..Standing::default()
            };
        };
        Standing {
            is_building: shown.place.is_building(),
            current_ms: shown.current_ms,
            rows: shown.snapshot.searcher.num_docs(),
            bytes,
        }
    }

    pub(crate) fn running(&self, index: TableId) -> Option<Arc<Running>> {
        self.inner.lock().get(&index).cloned()
    }

    /// Runs a search when it is its turn, if that comes in time, on a thread that may block.
    pub(crate) async fn run<R: Send + 'static>(
        &self,
        until: Instant,
        search: impl FnOnce() -> tantivy::Result<R> + Send + 'static,
    ) -> Result<R, Error> {
        let inner = &self.inner;
        let Ok(_present) = self.bound(Resource::Searches).take(self.holder, 1) else {
            inner.figures.refused.increment(1);
            return Err(Error::Busy);
        };
        let turn = timeout_at(until.into(), Arc::clone(&inner.turns).acquire_owned()).await;
        let Ok(turn) = turn else {
            inner.figures.refused.increment(1);
            return Err(Error::Busy);
        };
        let done = spawn_blocking(move || {
            // To the end also if the caller goes away meanwhile.
            let _turn = turn;
            search()
        });
        match done.await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => Err(Error::Unavailable(format!("a search failed: {error}"))),
            Err(error) => Err(Error::Unavailable(format!("a search failed: {error}"))),
        }
    }

    /// Brings the gauges up to date.
    pub fn observe(&self) {
        let running = self.inner.lock();
        let count = |is: &dyn Fn(&Running) -> bool| running.values().filter(|one| is(one)).count();
        let is_building = |one: &Running| {
            let seen = one.seen.borrow();
            let mut shown = seen.0.iter();
            shown.all(|shown| shown.place.is_building())
        };
        let is_stuck = |one: &Running| one.is_stuck.load(Ordering::Relaxed);
        let figures = &self.inner.figures;
        figures.indexes.count(running.len() as u64);
        figures.building.count(count(&is_building) as u64);
        figures.stuck.count(count(&is_stuck) as u64);
    }

    /// Looks at the definitions whenever they may have changed, for ever.
    async fn look(&self) {
        loop {
            match self.settle().await {
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!(?error, "search indexes can't be looked at; tried again")
                }
            }
            let changed = self.inner.tables.search_indexes_change();
            let is_quiet = self.inner.lock().is_empty() && self.inner.leaving().is_empty();
            let longest = match is_quiet {
                true => LOOK_EVERY,
                false => LOOK_EVERY / 10,
            };
            let _ = tokio::time::timeout(longest, changed).await;
        }
    }

    /// Fills what definitions name, removes what none names, and holds the logs for what is filled.
    async fn settle(&self) -> Result<(), Error> {
        let tables = self.inner.tables.searched().await?;
        let named = tables.iter().flat_map(|table| {
            let indexes = table.search_indexes.iter();
            indexes.map(|index| (index.id, (Arc::clone(table), index.clone())))
        });
        let mut named: BTreeMap<TableId, (Arc<Table>, SearchIndex)> = named.collect();
        let mut gone = Vec::new();
        self.inner.lock().retain(|id, running| {
            let stays = named.remove(id).is_some();
            if !stays {
                running.stop.cancel();
                gone.push((*id, Arc::clone(running)));
            }
            stays
        });
        for (id, running) in gone {
            self.inner.tables.set_search_place(id, None);
            self.inner.leaving().push(running);
        }
        for (id, (table, definition)) in named {
            let running = self.fill(table, definition);
            self.inner.lock().insert(id, Arc::new(running));
        }
        self.sweep().await;
        let bytes_max = self.inner.options.log_bytes_max;
        self.inner.tables.hold_for_search(bytes_max).await
    }

    fn fill(&self, table: Arc<Table>, definition: SearchIndex) -> Running {
        let folder = folder_of(&self.inner.data, definition.id);
        let (shows, seen) = watch::channel(Arc::<Seen>::default());
        let (asked, asks) = watch::channel(0);
        let stop = self.inner.stop.child_token();
        let is_stuck = Arc::new(AtomicBool::new(false));
        let follower = Follower {
            tables: self.inner.tables.clone(),
            table,
            definition,
            folder: folder.clone(),
            build_rows_per_second: self.inner.options.build_rows_per_second,
            seen: shows,
            asked: asks,
            is_asked: false,
            stop: stop.clone(),
            figures: Arc::clone(&self.inner.figures),
            is_stuck: Arc::clone(&is_stuck),
            swept_ms: 0,
            next_check: tokio::time::Instant::now(),
            writers: Arc::clone(&self.inner.writers),
        };
        let follower = self.inner.tasks.spawn(follower.run());
        Running {
            follower,
            seen,
            asked,
            folder,
            stop,
            is_stuck,
        }
    }

    /// Removes the files of indexes that no definition names.
    async fn sweep(&self) {
        let folder = self.inner.data.join(FOLDER);
        let mut kept: Vec<PathBuf> = {
            let running = self.inner.lock();
            running.values().map(|one| one.folder.clone()).collect()
        };
        {
            let mut leaving = self.inner.leaving();
            leaving.retain(|one| !one.follower.is_finished());
            kept.extend(leaving.iter().map(|one| one.folder.clone()));
        }
        let sweep = move || {
            let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            for path in entries.map(|entry| entry.path()) {
                if kept.contains(&path) {
                    continue;
                }
                if let Err(error) = remove(&path) {
                    tracing::warn!(%error, "files of a search index that is gone can't be removed");
                }
            }
        };
        let _ = spawn_blocking(sweep).await;
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<TableId, Arc<Running>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leaving(&self) -> MutexGuard<'_, Vec<Arc<Running>>> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
