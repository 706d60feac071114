//! `tideline cluster rebuild`: the stream of a log that NATS has lost, made again behind what a node's mirror has.
//!
//! Owns: which directory is taken, and whether clients go on with their epochs. Promises: a stream that is there is
//! left as it is, and refused; unless every node's directory was looked at, and one has all that the last owner
//! acknowledged, the directory gets a new history, by which clients hear that something may be missing. Must not: be
//! done while a node runs.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use tideline_cluster::rebuild::{MirrorEnd, plan};
use tideline_cluster::{CommitTime, Content, Frame, Genesis, Place};
use tideline_jetstream::{Beginning, create, refuse_existing};
use tokio::runtime::Runtime;

use super::super::output::Output;
use super::settings;
use crate::clock::Clock;
use crate::config::{Config, login};
use crate::data_directory::Opened;
use crate::ids::{HistoryId, PartitionId, Position};
use crate::metrics::Metrics;
use crate::partition::{
    MemberOptions, Partitions, accept_copy, has_all_it_owned, is_acceptance_under_way, mirror,
    set_mirror,
};
use crate::people::People;
use crate::table::Catalog;

/// What `rebuild` is told.
#[derive(Debug, Args)]
pub struct RebuildArgs {
    /// The settings of one of the nodes, with [cluster].
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The login that may make streams, as `nats-config` has written it.
    #[arg(long, value_name = "FILE")]
    login: PathBuf,
    /// The data directory of a node that is stopped. Name those of all nodes, each with --from: the best one is taken.
    #[arg(long, value_name = "DIR", required = true)]
    from: Vec<PathBuf>,
    /// On how many NATS servers each frame is kept; with fewer than three, one that is lost takes the log with it.
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=5))]
    copies: u8,
}

/// The one partition of a cluster.
const PARTITION: PartitionId = PartitionId(0);
const FORWARD_MS_MAX: u64 = 15_000;
const FRAME_BYTES_MAX: usize = 7 << 20;

/// What a node's directory has of the log.
struct Mirror {
    data: PathBuf,
    /// Behind its last frame.
    place: Place,
    time: CommitTime,
    genesis: Genesis,
    history: HistoryId,
    is_owners: bool,
}

/// Does it.
pub(super) fn rebuild(args: &RebuildArgs, out: &mut Output) -> Result<(), String> {
    let RebuildArgs {
        config,
        login: login_file,
        from,
        copies,
    } = args;
    let (config, cluster) = settings(config)?;
    let access = cluster.access(login(login_file)?);
    refuse_existing(&access, &cluster.name, PARTITION.0)?;
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    let mut mirrors = Vec::new();
    let mut seen = BTreeSet::new();
    for data in from {
        let there = data.canonicalize();
        let there = there.map_err(|why| format!("{}: {why}", data.display()))?;
        if !seen.insert(there) {
            let shown = data.display();
            return Err(format!(
                "{shown} is named twice: name each node's directory once"
            ));
        }
        let found = runtime.block_on(look(&config, data));
        let found = found.map_err(|why| format!("{}: {why}", data.display()))?;
        if found.genesis.cluster != cluster.name {
            let (shown, of) = (data.display(), found.genesis.cluster);
            return Err(format!("{shown} is a part of cluster {of}"));
        }
        mirrors.push(found);
    }
    let ends: Vec<MirrorEnd> = mirrors.iter().map(Mirror::end).collect();
    let plan = plan(&ends)?;
    let is_it = |mirror: &&Mirror| mirror.name() == plan.node;
    let best = mirrors.iter().find(is_it);
    let best = best.ok_or_else(|| "no mirror was given".to_owned())?;
    let are_all = mirrors.len() >= cluster.nodes.len();
    let keeps = plan.keeps_history && are_all;
    let history = match keeps {
        true => best.history,
        false => renew(&config, &best.data)?,
    };
    let end = best.place.position;
    let genesis = Genesis {
        history,
        rebuilt: Some((end, best.place.digest)),
        ..best.genesis.clone()
    };
    let Place {
        log, chained, term, ..
    } = best.place;
    let before = Place::before_genesis(log, end, chained, term);
    let beginning = Beginning {
        genesis,
        before: before.clone(),
        time: best.time,
        copies: *copies,
    };
    let (stream, first) = create(&access, &beginning)?;
    let set = set_mirror(&best.data, &before, &first, false);
    set.map_err(|error| error.to_string())?;
    let shown = best.data.display();
    let epochs = match (keeps, are_all) {
        (true, _) => "clients go on with their epochs".to_owned(),
        (false, true) => {
            format!("no directory has surely all that was acknowledged: history {history} is new")
        }
        (false, false) => format!(
            "{} of {} directories were looked at: history {history} is new",
            mirrors.len(),
            cluster.nodes.len()
        ),
    };
    let told = writeln!(
        out,
        "stream {stream} is made, and goes on behind {end}, the end of {shown}; {epochs}. Start its node, type `tideline cluster \
         take-over` for it, and start the others with empty data directories: they take a snapshot"
    );
    told.map_err(|error| error.to_string())
}

impl Mirror {
    fn name(&self) -> String {
        self.data.display().to_string()
    }

    fn end(&self) -> MirrorEnd {
        MirrorEnd {
            node: self.name(),
            end: self.place.position,
            term: self.place.term,
            digest: self.place.digest,
            is_owners: self.is_owners,
            stored: self.place.position,
        }
    }
}

/// Opens a node's directory as the node would, which cuts what is torn, and closes it.
async fn look(config: &Config, data: &Path) -> Result<Mirror, String> {
    let failed = |error: crate::partition::OpenError| error.to_string();
    if is_acceptance_under_way(data) {
        // An earlier rebuild was interrupted while the directory got its new history.
        renew(config, data)?;
    }
    let found = mirror(data).map_err(failed)?;
    let (place, first) =
        found.ok_or_else(|| "it is no data directory of a cluster's node".to_owned())?;
    let owned = has_all_it_owned(data).map_err(failed)?;
    let (before, genesis) = (place.position, genesis_of(&first)?);
    let config = Config {
        data: data.to_owned(),
        ..config.clone()
    };
    let member = MemberOptions {
        first: None,
        forward_ms_max: FORWARD_MS_MAX,
        frame_bytes_max: FRAME_BYTES_MAX,
    };
    let open = move |dir: &Path, options, rules, clock| {
        Partitions::open_member(dir, options, rules, clock, member)
    };
    let (metrics, clock) = (Arc::new(Metrics::default()), Arc::new(Clock::system()));
    let opened = Opened::by(&config, (&Arc::default(), &metrics, &clock), open).await;
    let (opened, seat) = opened.map_err(|error| error.to_string())?;
    let partitions = opened.partitions;
    let place = seat.place.clone();
    if place.is_ended {
        return Err(
            "its cluster was dissolved, and one of its directories is served alone".to_owned(),
        );
    }
    let last = Position(place.position.0 - 1);
    let batches = partitions.tail(PARTITION).batches(last, 1);
    let batches = batches.map_err(|error| error.0)?;
    let ms = batches.last().map_or(0, |last| last.commit_ms + 1);
    let history = partitions.history();
    partitions.close().await;
    drop((seat, partitions));
    // What came behind it may not have been all.
    let is_owners = owned && place.position == before;
    set_mirror(data, &place, &first, is_owners).map_err(failed)?;
    Ok(Mirror {
        data: data.to_owned(),
        place,
        time: CommitTime { ms, in_ms: 0 },
        genesis,
        history,
        is_owners,
    })
}

fn genesis_of(first: &Frame) -> Result<Genesis, String> {
    match &first.sealed.content {
        Content::Genesis(genesis) => Ok(genesis.clone()),
        _ => Err("its log has no genesis".to_owned()),
    }
}

/// Gives the directory another history, by which clients are told.
fn renew(config: &Config, data: &Path) -> Result<HistoryId, String> {
    let rules = People::rules(&config.timeline_limits(), Catalog::default());
    accept_copy(data, &rules).map_err(|error| error.to_string())
}
