//! Making a stream with its genesis, and reading all of one. For a person's commands and for tests, never for nodes:
//! theirs is a credential that may make no stream.
//!
//! Owns: the order of these steps, the same for a log that is new, adopted or rebuilt. Promises: a stream that was made
//! begins with the genesis; a new call goes on with an interrupted one. Must not: change a stream that has frames.

use std::time::{Duration, Instant};

use tideline_base::clock::Clock;
use tideline_base::faults;
use tideline_base::ids::Position;
use tideline_cluster::guards::{check_name, check_stream};
use tideline_cluster::{CommitTime, Content, Frame, Genesis, Place};

use crate::api::{Info, StreamState};
use crate::link::{Access, Link, refusal};
use crate::names::Names;

/// A connection is waited for so long.
const CONNECT_WAIT: Duration = Duration::from_secs(10);
/// The servers' word of the stream.
const ANSWER_WAIT: Duration = Duration::from_secs(1);
/// A frame, which may be large, over a link that may be slow.
const FRAME_WAIT: Duration = Duration::from_secs(20);
/// A frame that a replica does not have is asked for again so often, with so long between: for a second.
const TRIES: u32 = 20;
const AGAIN: Duration = Duration::from_millis(50);

/// What a stream is to begin with.
#[derive(Clone, Debug)]
pub struct Beginning {
    /// What the first frame says.
    pub genesis: Genesis,
    /// What it follows: the last frame of a log that is adopted or rebuilt, or nothing.
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

/// Makes the stream of a log that has none. Gives the stream's name, and its first frame.
pub fn create(access: &Access, beginning: &Beginning) -> Result<(String, Frame), String> {
    match begin(access, beginning)? {
        (stream, Begun::Made(first)) => Ok((stream, first)),
        (stream, Begun::There(_)) => Err(is_there(&stream)),
    }
}

/// The first frame of the stream that goes on where a log ends. The stream is made, unless it is there: the caller sees
/// whether that frame follows this log.
pub fn adopt(access: &Access, beginning: &Beginning) -> Result<Frame, String> {
    match begin(access, beginning)? {
        (_, Begun::Made(first)) => Ok(first),
        (stream, Begun::There(begins)) => begins.genesis.ok_or_else(|| {
            format!(
                "{}, and its first frame is gone: start a node with an empty data directory, and it takes a snapshot",
                is_there(&stream)
            )
        }),
    }
}

fn is_there(stream: &str) -> String {
    format!("there is a stream {stream} already")
}

/// What a stream begins with.
enum Begun {
    /// This call, or an earlier one that was interrupted, has made the stream.
    Made(Frame),
    /// It had frames before this call.
    There(Begins),
}

fn begin(access: &Access, beginning: &Beginning) -> Result<(String, Begun), String> {
    let Genesis {
        cluster, partition, ..
    } = &beginning.genesis;
    block_on(async {
        let link = connected(access, (cluster, *partition), CONNECT_WAIT).await?;
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
    if let Info::Missing = link.info(ANSWER_WAIT).await {
        faults::reached("adopt_step");
        let made = link.create(*position, *copies).await;
        made.map_err(|what| format!("stream {stream} was not made: {what}"))?;
    }
    let state = match link.info(ANSWER_WAIT).await {
        Info::Found(state) => state,
        Info::Missing => return Err(format!("stream {stream} is gone again")),
        Info::Unclear(what) => return Err(what),
    };
    // An empty one that begins here is left of an attempt that was interrupted.
    if has_frames(&state) || state.last != *position {
        let begins = begins_on(link, &state).await?;
        if begins.is_ended {
            return Err(format!(
                "stream {stream} is that of a cluster that was dissolved: name another cluster, or delete the stream"
            ));
        }
        return Ok(Begun::There(begins));
    }
    check_stream(&state.settings, &link.names.subject)?;
    faults::reached("adopt_step");
    let first = beginning.seal();
    let stored = link.publish_first(&first).await;
    faults::reached("adopt_step");
    match stored {
        Ok(at) if at == first.sealed.position => Ok(Begun::Made(first)),
        // It may be there, of this call or of an earlier one.
        unclear => match soon(link, position.next()).await {
            Ok(Some(found)) if found == first => Ok(Begun::Made(first)),
            Ok(Some(found)) => Ok(Begun::There(Begins::with(position.next(), found))),
            Ok(None) | Err(_) => Err(format!(
                "stream {stream} did not take its first frame ({unclear:?}): type this again"
            )),
        },
    }
}

fn has_frames(state: &StreamState) -> bool {
    state.last >= state.first
}

/// Where a log's stream begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begins {
    /// The first sequence that is kept.
    pub first: Position,
    /// The genesis, if that is still there.
    pub genesis: Option<Frame>,
    /// Its last frame closes the log for good.
    pub is_ended: bool,
}

impl Begins {
    fn with(first: Position, frame: Frame) -> Begins {
        let is_genesis = matches!(frame.sealed.content, Content::Genesis(_));
        Begins {
            first,
            genesis: is_genesis.then_some(frame),
            is_ended: false,
        }
    }
}

/// Where the stream of a log begins, which any node may ask. Waits so long for a connection, and for an answer.
pub fn begins(
    access: &Access,
    cluster: &str,
    partition: u16,
    patience: Duration,
) -> Result<Begins, String> {
    block_on(async {
        let until = Instant::now() + patience;
        let link = connected(access, (cluster, partition), patience).await?;
        let left = until.saturating_duration_since(Instant::now());
        match link.info(left.max(ANSWER_WAIT)).await {
            Info::Found(state) => begins_on(&link, &state).await,
            Info::Missing => Err(format!(
                "there is no stream {}: make it by `tideline cluster create`",
                link.names.stream
            )),
            Info::Unclear(what) => Err(what),
        }
    })
}

async fn begins_on(link: &Link, state: &StreamState) -> Result<Begins, String> {
    let (state, first) = first_of(link, state).await?;
    let last = soon(link, state.last).await?;
    Ok(Begins {
        is_ended: last.is_some_and(|last| last.sealed.content == Content::Ends),
        ..Begins::with(state.first, first)
    })
}

/// The first frame that a stream has, and the stream's state with it. What was first may be trimmed at this moment:
/// then it is another one.
async fn first_of(link: &Link, state: &StreamState) -> Result<(StreamState, Frame), String> {
    let mut state = state.clone();
    for _ in 0..TRIES {
        if let Some(first) = link.fetch(state.first, FRAME_WAIT).await? {
            return Ok((state, first));
        }
        tokio::time::sleep(AGAIN).await;
        if let Info::Found(now) = link.info(ANSWER_WAIT).await {
            state = *now;
        }
    }
    let stream = &link.names.stream;
    Err(format!("no server has the first frame of {stream} now"))
}

/// Refuses a log whose stream has frames.
pub fn refuse_existing(access: &Access, cluster: &str, partition: u16) -> Result<(), String> {
    block_on(async {
        let link = connected(access, (cluster, partition), CONNECT_WAIT).await?;
        match link.info(ANSWER_WAIT).await {
            Info::Found(state) if has_frames(&state) => Err(is_there(&link.names.stream)),
            Info::Found(_) | Info::Missing => Ok(()),
            Info::Unclear(what) => Err(what),
        }
    })
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
        let log = (genesis.cluster.as_str(), genesis.partition);
        let link = connected(access, log, CONNECT_WAIT).await?;
        let Info::Found(state) = link.info(ANSWER_WAIT).await else {
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

/// The frame at a position. A replica may be behind, or away: it is asked for a second.
async fn soon(link: &Link, position: Position) -> Result<Option<Frame>, String> {
    let mut found = link.fetch(position, FRAME_WAIT).await;
    for _ in 0..TRIES {
        if matches!(found, Ok(Some(_))) {
            break;
        }
        tokio::time::sleep(AGAIN).await;
        found = link.fetch(position, FRAME_WAIT).await;
    }
    found
}

/// A link to the stream of a partition of a cluster, which is up.
async fn connected(
    access: &Access,
    (cluster, partition): (&str, u16),
    patience: Duration,
) -> Result<Link, String> {
    check_name("cluster", cluster)?;
    let (link, mut arrivals) = Link::open(access, Names::new(cluster, partition)).await?;
    let until = Instant::now() + patience;
    let mut refused = None;
    while Instant::now() < until {
        if link.is_up() {
            return Ok(link);
        }
        let wait = tokio::time::sleep(Duration::from_millis(10));
        tokio::select! {
            Some(event) = arrivals.events.recv() => refused = refusal(&event).or(refused),
            () = wait => {}
        }
    }
    let servers = access.servers.join(", ");
    let why = refused.map_or(String::new(), |why| format!(": {why}"));
    Err(format!("no NATS server answers at {servers}{why}"))
}

fn block_on<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_err(|error| error.to_string())?.block_on(work)
}
