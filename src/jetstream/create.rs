//! Making a stream with its genesis, and reading all of one. For a person's commands and for tests, never for nodes:
//! theirs is a credential that may make no stream.
//!
//! Owns: the order of these steps. Promises: a stream that was made begins with the genesis, and nothing else made it.
//! Must not: change a stream that is there.

use std::time::{Duration, Instant};

use tideline_base::clock::Clock;
use tideline_base::ids::Position;
use tideline_cluster::guards::{check_name, check_stream};
use tideline_cluster::{CommitTime, Content, Frame, Genesis, Place};

use crate::api::Info;
use crate::link::{Access, Link};
use crate::names::Names;

/// A connection is waited for so long.
const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The stream's name.
    pub stream: String,
    /// Where its genesis is.
    pub began: Position,
}

/// Makes the stream of a new log with its genesis, which follows `before`. `copies`: on how many servers.
pub fn create(
    access: &Access,
    genesis: &Genesis,
    before: &Place,
    copies: u8,
) -> Result<Made, String> {
    create_after(access, genesis, (before, CommitTime::default()), copies)
}

/// The same of a log that goes on behind a frame with this time.
pub fn create_after(
    access: &Access,
    genesis: &Genesis,
    (before, after): (&Place, CommitTime),
    copies: u8,
) -> Result<Made, String> {
    check_name("cluster", &genesis.cluster)?;
    block_on(async {
        let link = connected(access, genesis).await?;
        let stream = link.names.stream.clone();
        is_missing(&link).await?;
        link.create(before.position, copies)
            .await
            .map_err(|what| format!("stream {stream} was not made: {what}"))?;
        let draft = before.draft(Content::Genesis(genesis.clone()));
        let time = after.next(Clock::system().now_ms());
        let first = Frame::seal(&draft, time, &[]);
        let stored = link.publish_first(&first).await;
        let began = stored
            .map_err(|what| format!("stream {stream} did not take its first frame: {what}"))?;
        match link.info().await {
            Info::Found(state) => check_stream(&state.settings, &link.names.subject)?,
            Info::Missing => return Err(format!("stream {stream} is gone again")),
            Info::Unclear(what) => return Err(what),
        }
        Ok(Made { stream, began })
    })
}

/// Where a log's stream begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begins {
    /// The first sequence that is kept.
    pub first: Position,
    /// The genesis, if that is still there.
    pub genesis: Option<Frame>,
}

/// Where the stream of a log begins, which any node may ask. Waits so long for a connection.
pub fn begins(
    access: &Access,
    cluster: &str,
    partition: u16,
    patience: Duration,
) -> Result<Begins, String> {
    check_name("cluster", cluster)?;
    block_on(async {
        let link = connected_to(access, Names::new(cluster, partition), patience).await?;
        let stream = link.names.stream.clone();
        let first = match link.info().await {
            Info::Found(state) => state.first,
            Info::Missing => {
                return Err(format!(
                    "there is no stream {stream}: make it by `tideline cluster create`"
                ));
            }
            Info::Unclear(what) => return Err(what),
        };
        // A replica may be behind, or away; and what is first may be trimmed at this moment.
        let mut found = link.fetch(first).await;
        for _ in 0..20 {
            if matches!(found, Ok(Some(_))) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            found = link.fetch(first).await;
        }
        let found =
            found?.ok_or_else(|| format!("no server has the first frame of {stream} now"))?;
        let is_genesis = matches!(found.sealed.content, Content::Genesis(_));
        Ok(Begins {
            first,
            genesis: is_genesis.then_some(found),
        })
    })
}

/// Refuses a log whose stream is there.
pub fn refuse_existing(access: &Access, cluster: &str, partition: u16) -> Result<(), String> {
    check_name("cluster", cluster)?;
    block_on(async {
        let names = Names::new(cluster, partition);
        let link = connected_to(access, names, CONNECT_WAIT).await?;
        is_missing(&link).await
    })
}

async fn is_missing(link: &Link) -> Result<(), String> {
    match link.info().await {
        Info::Missing => Ok(()),
        Info::Found(_) => {
            let stream = &link.names.stream;
            Err(format!("there is a stream {stream} already"))
        }
        Info::Unclear(what) => Err(what),
    }
}

/// The genesis of a log, which a node needs before it has a directory.
pub fn genesis(access: &Access, cluster: &str, partition: u16) -> Result<Frame, String> {
    let begins = begins(access, cluster, partition, CONNECT_WAIT)?;
    begins.genesis.ok_or_else(|| {
        let stream = Names::new(cluster, partition).stream;
        format!("stream {stream} does not begin with its genesis any more")
    })
}

/// All frames of a stream in order, as direct gets find them; what is no frame is `None`.
pub fn read_all(
    access: &Access,
    genesis: &Genesis,
) -> Result<Vec<(Position, Option<Frame>)>, String> {
    block_on(async {
        let link = connected(access, genesis).await?;
        let Info::Found(state) = link.info().await else {
            return Err(format!("stream {} is not to be seen", link.names.stream));
        };
        let mut frames = Vec::new();
        for sequence in state.first.0..=state.last.0 {
            let position = Position(sequence);
            let mut found = link.fetch(position).await;
            // A replica may be behind, or away.
            for _ in 0..20 {
                if matches!(found, Ok(Some(_))) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                found = link.fetch(position).await;
            }
            frames.push((position, found?));
        }
        Ok(frames)
    })
}

/// A link that is up.
async fn connected(access: &Access, genesis: &Genesis) -> Result<Link, String> {
    let names = Names::new(&genesis.cluster, genesis.partition);
    connected_to(access, names, CONNECT_WAIT).await
}

async fn connected_to(access: &Access, names: Names, patience: Duration) -> Result<Link, String> {
    let (link, mut arrivals) = Link::open(access, names).await?;
    let until = Instant::now() + patience;
    while Instant::now() < until {
        if link.is_up() {
            return Ok(link);
        }
        let wait = tokio::time::sleep(Duration::from_millis(10));
        tokio::select! {
            _ = arrivals.events.recv() => {}
            () = wait => {}
        }
    }
    let servers = access.servers.join(", ");
    Err(format!("no NATS server answers at {servers}"))
}

fn block_on<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_err(|error| error.to_string())?.block_on(work)
}
