//! Making a stream with its genesis, and reading all of one. For a person's commands and for tests, never for nodes:
//! theirs is a credential that may make no stream.
//!
//! Owns: the order of these steps. Promises: a stream that was made begins with the genesis, and nothing else made it.
//! Must not: change a stream that is there.

use tideline_base::clock::Clock;
use tideline_base::ids::Position;
use tideline_cluster::guards::{check_name, check_stream};
use tideline_cluster::{CommitTime, Content, Frame, Genesis, Place};

use crate::api::Info;
use crate::link::{Access, Link};
use crate::names::Names;

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The stream's name.
    pub stream: String,
    /// Where its genesis is.
    pub began: Position,
}

/// Makes the stream of a log with its genesis, which follows `before`. `copies`: on how many servers.
pub fn create(
    access: &Access,
    genesis: &Genesis,
    before: &Place,
    copies: u8,
) -> Result<Made, String> {
    check_name("cluster", &genesis.cluster)?;
    block_on(async {
        let link = connected(access, genesis).await?;
        let stream = link.names.stream.clone();
        match link.info().await {
            Info::Missing => {}
            Info::Found(_) => return Err(format!("there is a stream {stream} already")),
            Info::Unclear(what) => return Err(what),
        }
        link.create(before.position, copies)
            .await
            .map_err(|what| format!("stream {stream} was not made: {what}"))?;
        let draft = before.draft(Content::Genesis(genesis.clone()));
        let time = CommitTime::default().next(Clock::system().now_ms());
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

/// The genesis of a log, which a node needs before it has a directory. Any node may read it.
pub fn genesis(access: &Access, cluster: &str, partition: u16) -> Result<Frame, String> {
    check_name("cluster", cluster)?;
    block_on(async {
        let link = connected_to(access, Names::new(cluster, partition)).await?;
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
        // A replica may be behind, or away.
        let mut found = link.fetch(first).await;
        for _ in 0..20 {
            if matches!(found, Ok(Some(_))) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            found = link.fetch(first).await;
        }
        let is_genesis = |frame: &Frame| matches!(frame.sealed.content, Content::Genesis(_));
        found?.filter(is_genesis).ok_or_else(|| {
            format!("stream {stream} does not begin with its genesis, or no server has that now")
        })
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
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                found = link.fetch(position).await;
            }
            frames.push((position, found?));
        }
        Ok(frames)
    })
}

/// A link that is up.
async fn connected(access: &Access, genesis: &Genesis) -> Result<Link, String> {
    connected_to(access, Names::new(&genesis.cluster, genesis.partition)).await
}

async fn connected_to(access: &Access, names: Names) -> Result<Link, String> {
    let (link, mut arrivals) = Link::open(access, names).await?;
    for _ in 0..1_000 {
        if link.is_up() {
            return Ok(link);
        }
        let wait = tokio::time::sleep(std::time::Duration::from_millis(10));
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
