//! A data directory, opened: partitions, and timelines and tables on them; and its splits and merges while no server
//! runs.
//!
//! Owns: the order of opening, and what must be done before partitions end. Promises: before a change begins it says
//! what it will take; a directory whose partitions can't be split or merged is left as it was. Must not: know how
//! partitions are made (`src/store/partition/split/offline.rs`), or serve.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use crate::bounds::Bounds;
use crate::clock::Clock;
use crate::config::Config;
use crate::ids::Position;
use crate::metrics::Metrics;
use crate::partition::{
    self, Estimate, Map, OpenError, Partitions, ReadError, Reshape, Rules, directory_map,
};
use crate::people::{Jobs, People};
use crate::relay::Relay;
use crate::reshape::Asked;
use crate::table::{Catalog, Tables};
use crate::timeline::Timelines;

/// What lies on a data directory.
pub(crate) struct Store {
    pub(crate) partitions: Partitions,
    pub(crate) timelines: Timelines,
    pub(crate) tables: Tables,
}

/// Why a directory could not be opened or changed; the text is one line for the operator.
#[derive(Debug)]
pub enum StoreFailure {
    /// It can't be opened, or its partitions can't be split or merged.
    Open(OpenError),
    /// The tables' definitions can't be read.
    Tables(ReadError),
    /// There is no such change.
    NoSuchChange(String),
    /// The report of what is done could not be written.
    Output(io::Error),
}

impl fmt::Display for StoreFailure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreFailure::Open(error @ OpenError::Damaged { .. }) => write!(
                out,
                "{error}; `tideline verify` tells how far it goes, docs/OPERATIONS.md (\"After a crash\") what can be done"
            ),
            StoreFailure::Open(error) => write!(out, "{error}"),
            StoreFailure::Tables(error) => write!(out, "cannot read the tables: {}", error.0),
            StoreFailure::NoSuchChange(what) => out.write_str(what),
            StoreFailure::Output(error) => write!(out, "cannot write: {error}"),
        }
    }
}

impl std::error::Error for StoreFailure {}

impl From<OpenError> for StoreFailure {
    fn from(error: OpenError) -> StoreFailure {
        StoreFailure::Open(error)
    }
}

/// Opened partitions, and the catalog that their compaction asks: it knows nothing before tables are opened on them.
pub(crate) struct Opened {
    pub(crate) partitions: Partitions,
    catalog: Catalog,
}

impl Opened {
    /// Recovery. `open` gets the directory, its options, the rules and the clock.
    pub(crate) async fn by<T: Send + 'static>(
        config: &Config,
        (bounds, metrics, clock): (&Arc<Bounds>, &Arc<Metrics>, &Arc<Clock>),
        open: impl FnOnce(
            &Path,
            partition::Options,
            Arc<dyn Rules>,
            Arc<Clock>,
        ) -> Result<(Partitions, T), OpenError>
        + Send
        + 'static,
    ) -> Result<(Opened, T), StoreFailure> {
        let dir = config.data.clone();
        let options = partition::Options {
            bounds: Arc::clone(bounds),
            ..config.partition_options(metrics)
        };
        let catalog = Catalog::default();
        let rules = People::rules(&config.timeline_limits(), catalog.clone());
        let clock = Arc::clone(clock);
        // Recovery reads much and waits for the disk.
        let (partitions, rest) = blocking(move || open(&dir, options, rules, clock)).await?;
        let opened = Opened {
            partitions,
            catalog,
        };
        Ok((opened, rest))
    }
}

impl Store {
    /// Recovery, then timelines and tables on the partitions.
    pub(crate) async fn open(
        config: &Config,
        bounds: &Arc<Bounds>,
        metrics: &Arc<Metrics>,
        clock: &Arc<Clock>,
    ) -> Result<Store, StoreFailure> {
        let open = |dir: &Path, options, rules, clock| {
            Ok((Partitions::open(dir, options, rules, clock)?, ()))
        };
        let (opened, ()) = Opened::by(config, (bounds, metrics, clock), open).await?;
        Store::on(opened, config, clock).await
    }

    /// Timelines and tables on opened partitions.
    pub(crate) async fn on(
        opened: Opened,
        config: &Config,
        clock: &Arc<Clock>,
    ) -> Result<Store, StoreFailure> {
        let Opened {
            partitions,
            catalog,
        } = opened;
        let (limits, policies) = (config.timeline_limits(), config.policies());
        let own_indexes = config.own_search_indexes();
        let clock = Arc::clone(clock);
        // It reads the definitions of all tables.
        blocking(move || {
            let timelines =
                Timelines::with_policies(partitions.clone(), limits, policies, Arc::clone(&clock));
            let shown = timelines.tables().into_iter().map(|table| {
                let mut own = own_indexes.iter();
                match own.find(|(of, _)| *of == table.name) {
                    Some((_, index)) => table.with_own_index(index.clone()),
                    None => table,
                }
            });
            let tables = Tables::open(partitions.clone(), catalog, shown.collect(), clock);
            Ok(Store {
                tables: tables.map_err(StoreFailure::Tables)?,
                partitions,
                timelines,
            })
        })
        .await
    }
}

/// How many partitions the directory has, or will have when it is made.
pub(crate) fn partitions_of(config: &Config) -> Result<usize, StoreFailure> {
    let made = usize::from(config.partitions.max(1));
    Ok(directory_map(&config.data)?.map_or(made, |map| map.ids().len()))
}

/// Gives a directory the number of partitions that is configured, if it has another one. A directory that is still to
/// be made, or 0, asks for nothing.
pub(crate) async fn fit_partitions(config: &Config) -> Result<(), StoreFailure> {
    let map = directory_map(&config.data)?;
    let has = map.map_or(0, |map| map.ids().len());
    if config.partitions == 0 || has == 0 || has == usize::from(config.partitions) {
        return Ok(());
    }
    let reshape = |_: &Map| Ok(Reshape::equal(config.partitions));
    let mut say = |estimate: &Estimate| {
        let Estimate { bytes, room, .. } = *estimate;
        tracing::info!(
            has,
            wanted = config.partitions,
            bytes,
            room,
            "the directory is given another number of partitions before it is served"
        );
        Ok(())
    };
    change(config, reshape, &mut say).await
}

/// Changes the partitions of a directory that nobody serves. `say` gets what that takes before it is begun.
async fn change(
    config: &Config,
    reshape: impl FnOnce(&Map) -> Result<Reshape, StoreFailure>,
    say: &mut dyn FnMut(&Estimate) -> Result<(), StoreFailure>,
) -> Result<(), StoreFailure> {
    // Those of before count nothing that anybody will look at.
    let (metrics, clock) = (Arc::new(Metrics::default()), Arc::new(Clock::system()));
    let store = Store::open(config, &Arc::default(), &metrics, &clock).await?;
    let partitions = store.partitions.clone();
    let changed = store.change(config, &metrics, reshape, say).await;
    partitions.close().await;
    changed
}

impl Store {
    async fn change(
        self,
        config: &Config,
        metrics: &Arc<Metrics>,
        reshape: impl FnOnce(&Map) -> Result<Reshape, StoreFailure>,
        say: &mut dyn FnMut(&Estimate) -> Result<(), StoreFailure>,
    ) -> Result<(), StoreFailure> {
        let Store {
            partitions,
            timelines,
            tables,
        } = self;
        let reshape = reshape(&partitions.map())?;
        let (estimated, of) = (partitions.clone(), reshape.clone());
        let estimate = blocking(move || estimated.estimate(&of)).await;
        say(&estimate)?;
        // Without room nothing is begun; the work below takes some, too.
        estimate.check()?;
        let tasks = TaskTracker::new();
        let (targets, jobs) = People::targets(&partitions, &timelines);
        let relay = Relay::start(
            &partitions,
            targets,
            config.relay_options(),
            metrics,
            &tasks,
        );
        jobs.start(&tasks);
        through(&partitions, &relay, &jobs).await;
        relay.stop();
        jobs.stop();
        tasks.close();
        tasks.wait().await;
        let streams = tables.streams(None).await;
        let unread = |error| StoreFailure::Tables(ReadError(format!("{error:?}")));
        let streams = streams.map_err(unread)?;
        let cursors = tables.all_cursors().await.map_err(unread)?;
        let is_searched = !tables.searched().await.map_err(unread)?.is_empty();
        let keeps_logs = !streams.is_empty() || !cursors.is_empty() || is_searched;
        blocking(move || partitions.reshape(&reshape, keeps_logs)).await?;
        Ok(())
    }
}

/// Waits until what the relay derives, and the long work that it leaves, is done.
async fn through(partitions: &Partitions, relay: &Relay, jobs: &Jobs) {
    let mut told = Instant::now();
    loop {
        let ends = || -> Vec<Position> {
            let ids = partitions.ids();
            ids.map(|id| partitions.tail(id).position()).collect()
        };
        let before = ends();
        // In this order: what the one has left to do it leaves to the other.
        if relay.is_through() && jobs.is_idle() && before == ends() {
            return;
        }
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            tracing::info!("waiting for lists and inboxes to get what was written");
        }
        sleep(LOOK_EVERY).await;
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(20);
const TELL_EVERY: Duration = Duration::from_secs(10);

async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

fn reshape(asked: Asked, map: &Map) -> Result<Reshape, StoreFailure> {
    let (reshape, what) = match asked {
        Asked::Split(id) => (
            Reshape::split(map, id),
            format!("there is no partition {id}"),
        ),
        Asked::Merge(one, other) => (
            Reshape::merge(map, one, other),
            format!("partitions {one} and {other} are not neighbours"),
        ),
    };
    reshape.ok_or(StoreFailure::NoSuchChange(what))
}

/// Does a change of a directory that nobody serves, and tells of it.
pub(crate) async fn change_partitions(
    config: &Config,
    asked: Asked,
    out: &mut dyn Write,
) -> Result<(), StoreFailure> {
    if directory_map(&config.data)?.is_none() {
        let path = config.data.clone();
        return Err(OpenError::NothingThere { path }.into());
    }
    let mut say = |estimate: &Estimate| {
        let told = writeln!(out, "{estimate}").and_then(|()| out.flush());
        told.map_err(StoreFailure::Output)
    };
    change(config, |map| reshape(asked, map), &mut say).await?;
    list_partitions(&config.data, out)
}

/// Lists the partitions of a directory that nobody serves.
pub(crate) fn list_partitions(data: &Path, out: &mut dyn Write) -> Result<(), StoreFailure> {
    let map = directory_map(data)?.ok_or_else(|| OpenError::NothingThere {
        path: data.to_owned(),
    })?;
    let mut list = || -> io::Result<()> {
        for share in map
            .shares()
            .filter(|share| share.ends.is_none() || share.keeps_log)
        {
            let folder = data.join(format!("partition-{:04}", share.id.0));
            let (log, image) = (
                bytes_below(&folder.join("log"))?,
                bytes_below(&folder.join("image"))?,
            );
            let hashes = (
                format!("{:016x}", share.first),
                format!("{:016x}", share.last),
            );
            let about = about(
                &share.id,
                hashes,
                (&share.begins, share.ends),
                &share.parents,
            );
            writeln!(out, "{about}; log {log} bytes, image {image} bytes")?;
        }
        out.flush()
    };
    list().map_err(StoreFailure::Output)
}

/// A partition in words: whose keys it has, and where its log begins and ends.
pub(crate) fn about<T: fmt::Display, H: fmt::Display, P: fmt::Display>(
    number: &T,
    (first, last): (H, H),
    (begins, ends): (&P, Option<P>),
    parents: &[T],
) -> String {
    let mut about = format!("partition {number}: hashes {first} to {last}, log from {begins}");
    if let Some(ends) = ends {
        about += &format!(" to {ends}, ended");
    }
    let parents: Vec<String> = parents.iter().map(ToString::to_string).collect();
    if !parents.is_empty() {
        about += &format!(", from {}", parents.join(" and "));
    }
    about
}

/// What the files of a folder take; 0 if it is not there.
fn bytes_below(folder: &Path) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut bytes = 0;
    for entry in entries {
        bytes += entry?.metadata()?.blocks() * 512;
    }
    Ok(bytes)
}
