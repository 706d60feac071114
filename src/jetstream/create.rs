//! Making a stream with its genesis, and reading all of one. For a person's commands and for tests, never for nodes:
//! theirs is a credential that may make no stream.
//!
//! Owns: the order of these steps. Promises: a stream that was made begins with the genesis; an attempt that was
//! interrupted is gone on with. Must not: change a stream that has frames.

use tideline_base::clock::Clock;
use tideline_base::faults;
use tideline_base::ids::Position;
use tideline_cluster::guards::{check_name, check_stream};
use tideline_cluster::{CommitTime, Content, Frame, Genesis, Place};

use crate::api::Info;
use crate::link::{Access, Link};
use crate::names::Names;

/// What a stream begins with.
#[derive(Clone, Debug)]
pub struct Beginning {
    /// What the first frame says.
    pub genesis: Genesis,
    /// What it follows: the last frame of a log that is adopted, or nothing.
    pub before: Place,
    /// The commit time there.
    pub time: CommitTime,
    /// On how many servers each frame is kept.
    pub copies: u8,
}

impl Beginning {
    fn seal(&self) -> Frame {
        let Beginning {
            genesis,
            before,
            time,
            copies: _,
        } = self;
        let draft = before.draft(Content::Genesis(genesis.clone()));
        Frame::seal(&draft, time.next(Clock::system().now_ms()), &[])
    }
}

/// Makes the stream of a new log with its genesis. Gives the stream's name.
pub fn create(access: &Access, beginning: &Beginning) -> Result<String, String> {
    match begin(access, beginning)? {
        (stream, Begun::Made(_)) => Ok(stream),
        (stream, Begun::There(_)) => Err(format!("there is a stream {stream} already")),
    }
}

/// The first frame of the stream that goes on where a log ends. The stream is made, unless it is there: the caller sees
/// whether that frame follows this log.
pub fn adopt(access: &Access, beginning: &Beginning) -> Result<Frame, String> {
    match begin(access, beginning)?.1 {
        Begun::Made(first) | Begun::There(first) => Ok(first),
    }
}

/// A stream's first frame.
enum Begun {
    /// This call, or an earlier one that was interrupted, has made the stream.
    Made(Frame),
    /// It had frames before this call.
    There(Frame),
}

fn begin(access: &Access, beginning: &Beginning) -> Result<(String, Begun), String> {
    let Genesis {
        cluster, partition, ..
    } = &beginning.genesis;
    check_name("cluster", cluster)?;
    block_on(async {
        let link = connected_to(access, Names::new(cluster, *partition)).await?;
        let begun = begin_on(&link, beginning).await?;
        Ok((link.names.stream.clone(), begun))
    })
}

async fn begin_on(link: &Link, beginning: &Beginning) -> Result<Begun, String> {
    let Beginning {
        before: Place { position, .. },
        copies,
        ..
    } = beginning;
    let stream = &link.names.stream;
    if let Info::Missing = link.info().await {
        faults::reached("adopt_step");
        let made = link.create(*position, *copies).await;
        made.map_err(|what| format!("stream {stream} was not made: {what}"))?;
    }
    let state = match link.info().await {
        Info::Found(state) => state,
        Info::Missing => return Err(format!("stream {stream} is gone again")),
        Info::Unclear(what) => return Err(what),
    };
    // An empty one that begins here is left of an attempt that was interrupted.
    if state.last >= state.first || state.last != *position {
        let last = soon(link, state.last).await?;
        if last.is_some_and(|last| last.sealed.content == Content::Ends) {
            return Err(format!(
                "stream {stream} is that of a cluster that was dissolved: name another cluster, or delete the stream"
            ));
        }
        return Ok(Begun::There(first_of(link, state.first).await?));
    }
    check_stream(&state.settings, &link.names.subject)?;
    faults::reached("adopt_step");
    let first = beginning.seal();
    let stored = link.publish_first(&first).await;
    faults::reached("adopt_step");
    match stored {
        Ok(at) if at == first.sealed.position => Ok(Begun::Made(first)),
        // It may be there, of this call or of an earlier one.
        unclear => match first_of(link, position.next()).await {
            Ok(found) if found == first => Ok(Begun::Made(found)),
            Ok(found) => Ok(Begun::There(found)),
            Err(_) => Err(format!(
                "stream {stream} did not take its first frame ({unclear:?}): type this again"
            )),
        },
    }
}

/// The genesis, which is at a stream's first sequence.
async fn first_of(link: &Link, first: Position) -> Result<Frame, String> {
    let found = soon(link, first).await?;
    let is_genesis = |frame: &Frame| matches!(frame.sealed.content, Content::Genesis(_));
    found.filter(is_genesis).ok_or_else(|| {
        let stream = &link.names.stream;
        format!("stream {stream} does not begin with its genesis, or no server has that now")
    })
}

/// The frame at a position. A replica may be behind, or away: it is asked for a second.
async fn soon(link: &Link, position: Position) -> Result<Option<Frame>, String> {
    let mut found = link.fetch(position).await;
    for _ in 0..20 {
        if matches!(found, Ok(Some(_))) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        found = link.fetch(position).await;
    }
    found
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
        first_of(&link, first).await
    })
}

/// All frames of a stream in order, as direct gets find them; what is no frame is `None`.
pub fn read_all(
    access: &Access,
    genesis: &Genesis,
) -> Result<Vec<(Position, Option<Frame>)>, String> {
    block_on(async {
        let names = Names::new(&genesis.cluster, genesis.partition);
        let link = connected_to(access, names).await?;
        let Info::Found(state) = link.info().await else {
            return Err(format!("stream {} is not to be seen", link.names.stream));
        };
        let mut frames = Vec::new();
        for sequence in state.first.0..=state.last.0 {
            let position = Position(sequence);
            frames.push((position, soon(&link, position).await?));
        }
        Ok(frames)
    })
}

/// A link that is up.
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
