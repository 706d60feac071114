//! How a node gets what the stream does not have any more: a snapshot of another node.
//!
//! Owns: when one is needed, which node is asked, and how it travels. Promises: a node that follows is asked before the
//! owner is; what this node has goes only when a whole snapshot is there, of the same log, that reaches to where the
//! stream begins. Must not: know what is in a snapshot.
//!
//! ```text
//! body = 0 … (while the snapshot is being made) 1, u32 length of the list of files, the list, the files in its order
//! ```

mod give;

use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tideline_cluster::{Content, Frame, Genesis};
use tideline_jetstream::{Begins, begins};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::StartError;
use crate::clock::Clock;
use crate::commands::address::Address;
use crate::config::ClusterKey;
use crate::data_directory::StoreFailure;
use crate::ids::{PartitionId, Position};
use crate::partition::{BackupManifest, clear_unfinished, directory_map, install, mirror};
use crate::tls;

pub(super) use give::{Giving, give};

/// What a snapshot must be.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// It must reach to before this: the first frame that the stream has.
    first: Position,
    /// What the log's first frame says, if that is known.
    genesis: Option<Genesis>,
}

/// The one partition of a cluster.
const PARTITION: PartitionId = PartitionId(0);

/// Whether this node needs a snapshot before it can follow the log.
pub(super) async fn wanted(key: &ClusterKey, data: &Path) -> Result<Option<Wanted>, StartError> {
    let (key, data) = (key.clone(), data.to_owned());
    let looked = spawn_blocking(move || look(&key, &data)).await;
    looked.unwrap_or_else(|error| Err(StartError::Setting(error.to_string())))
}

/// Blocks.
fn look(key: &ClusterKey, data: &Path) -> Result<Option<Wanted>, StartError> {
    let unfit = |what: String| StartError::Setting(format!("cluster: {what}"));
    let opened = |error| StartError::Store(StoreFailure::Open(error));
    if clear_unfinished(data).map_err(|error| unfit(error.to_string()))? {
        tracing::warn!(data = %data.display(), "a snapshot was not taken to its end: another one is taken");
    }
    let login = key.login().map_err(|error| StartError::Setting(error.0))?;
    let access = key.access(login);
    let look = |patience| begins(&access, &key.name, PARTITION.0, patience);
    let Some(_) = directory_map(data).map_err(opened)? else {
        let begins = look(NEW_WAIT).map_err(unfit)?;
        // What was before a genesis further on is in no stream.
        if begins.genesis.is_some() && begins.first == Position(1) {
            return Ok(None);
        }
        let genesis = begins.genesis.as_ref().and_then(genesis_of);
        return wanted_of(&key.name, &begins, genesis);
    };
    let Some((place, first)) = mirror(data).map_err(opened)? else {
        // No member's: the opening says so.
        return Ok(None);
    };
    let genesis = genesis_of(&first);
    // Another log's stream is not followed, and what is here stays.
    let is_ours = |found: &Frame| genesis_of(found) == genesis;
    match look(LOOK_WAIT) {
        Ok(begins)
            if begins.first > place.position.next()
                && begins.genesis.as_ref().is_none_or(is_ours) =>
        {
            wanted_of(&key.name, &begins, genesis)
        }
        Ok(_) => Ok(None),
        Err(why) => {
            tracing::info!(why, "where the stream begins is not to be seen yet");
            Ok(None)
        }
    }
}

/// What a snapshot must be, if there is still a node that may give one.
fn wanted_of(
    cluster: &str,
    begins: &Begins,
    genesis: Option<Genesis>,
) -> Result<Option<Wanted>, StartError> {
    let first = begins.first;
    match begins.is_ended {
        true => Err(StartError::Setting(format!(
            "cluster: {cluster} was dissolved, and one of its directories is served alone"
        ))),
        false => Ok(Some(Wanted { first, genesis })),
    }
}

fn genesis_of(frame: &Frame) -> Option<Genesis> {
    match &frame.sealed.content {
        Content::Genesis(genesis) => Some(genesis.clone()),
        _ => None,
    }
}

/// Why the last node that was asked gave none, or what was wrong with what it gave.
pub(super) type Refused = Arc<Mutex<Option<String>>>;

/// Takes one. Asks until a node gives one.
pub(super) async fn take(
    key: &ClusterKey,
    data: &Path,
    clock: &Clock,
    (wanted, refused): (&Wanted, &Refused),
) -> Result<(), StartError> {
    let secret = key.secret().map_err(|error| StartError::Setting(error.0))?;
    let ca_file = key.nodes_ca_file.as_deref();
    let mut told = String::new();
    let mut pause = AGAIN;
    loop {
        for of_follower in [true, false] {
            for (node, url) in key.nodes.iter().filter(|(node, _)| **node != key.node) {
                let shown = secret.shown(&key.node, clock.now_ms());
                let path = if of_follower { FOLLOWERS } else { ANY };
                let given = ask(url, path, &shown, ca_file).await;
                let (taken, is_copy) = match given {
                    Ok(body) => (received(key, data, wanted, body).await, true),
                    Err(why) => (Err(why), false),
                };
                if let Err(why) = &taken {
                    let why = format!("{node}: {why}");
                    *refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                }
                match taken {
                    Ok(position) => {
                        tracing::info!(node, position, "took a snapshot, and goes on with the log");
                        return Ok(());
                    }
                    // Perhaps it is only the owner, which is asked next.
                    Err(why) if of_follower => {
                        tracing::info!(node, why, "this node gives no snapshot; asking on");
                    }
                    Err(why) if why != told => {
                        tracing::warn!(node, why, "this node gives no snapshot; asking on");
                        told = why;
                    }
                    Err(_) => {}
                }
                if is_copy {
                    // Each is a whole copy at the giver, and what was in its way here may last.
                    tokio::time::sleep(pause).await;
                    pause = AGAIN_MAX.min(2 * pause);
                }
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn ask(
    url: &str,
    path: &str,
    shown: &str,
    ca_file: Option<&Path>,
) -> Result<Incoming, String> {
    let origin = Address::parse(url)?.origin;
    let tls = match origin.starts_with("https:") {
        true => tls::client(ca_file).map_err(|error| error.to_string())?,
        false => tls::client_of_nobody(),
    };
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls);
    let connector = connector.https_or_http().enable_http1().build();
    let http = Client::builder(TokioExecutor::new()).build(connector);
    let request = Request::get(format!("{origin}{path}")).header("authorization", shown);
    let request = request.body(Empty::<Bytes>::new());
    let request = request.map_err(|error| error.to_string())?;
    let answer = timeout(PIECE_WAIT, http.request(request)).await;
    let answer = answer.map_err(|_| "no answer in time".to_owned())?;
    let answer = answer.map_err(|error| error.to_string())?;
    match answer.status() {
        StatusCode::OK => Ok(answer.into_body()),
        status => {
            let body = http_body_util::Limited::new(answer.into_body(), TEXT_BYTES_MAX);
            let body = timeout(PIECE_WAIT, body.collect()).await;
            let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes());
            let text = String::from_utf8_lossy(&body.unwrap_or_default()).into_owned();
            Err(format!("{status}: {}", text.trim_end()))
        }
    }
}

/// Makes the directory of what comes; where its log ends.
async fn received(
    key: &ClusterKey,
    data: &Path,
    wanted: &Wanted,
    mut body: Incoming,
) -> Result<u64, String> {
    let (pieces, coming) = mpsc::channel(PIECES_MAX);
    let (name, data, wanted) = (key.name.clone(), data.to_owned(), wanted.clone());
    let making = spawn_blocking(move || made(&name, &data, &wanted, &mut Coming::new(coming)));
    loop {
        // An end, an error and silence are the same to who reads: the files are not whole.
        let Ok(Some(Ok(frame))) = timeout(PIECE_WAIT, body.frame()).await else {
            break;
        };
        if let Ok(piece) = frame.into_data()
            && pieces.send(piece).await.is_err()
        {
            break;
        }
    }
    drop(pieces);
    making.await.unwrap_or_else(|error| Err(error.to_string()))
}

fn made(cluster: &str, data: &Path, wanted: &Wanted, coming: &mut Coming) -> Result<u64, String> {
    let failed = |error: io::Error| error.to_string();
    let mut one = [0];
    while one[0] == give::WAIT {
        coming.read_exact(&mut one).map_err(failed)?;
    }
    let mut bytes = [0; 4];
    coming.read_exact(&mut bytes).map_err(failed)?;
    let bytes = u32::from_be_bytes(bytes);
    if one[0] != give::FOLLOWS || bytes > LIST_BYTES_MAX {
        return Err("what it gives is no snapshot".to_owned());
    }
    let mut list = vec![0; bytes as usize];
    coming.read_exact(&mut list).map_err(failed)?;
    let manifest = BackupManifest::parse(&list, &"snapshot").map_err(|error| error.to_string())?;
    let end = manifest.partitions.first().map_or(0, |one| one.position);
    if Position(end).next() < wanted.first {
        let first = wanted.first;
        return Err(format!(
            "its log ends at {end}, and the stream begins at {first}"
        ));
    }
    let allows = |first: &Frame| match genesis_of(first) {
        Some(genesis)
            if genesis.cluster == cluster
                && wanted.genesis.as_ref().is_none_or(|of| *of == genesis) =>
        {
            Ok(())
        }
        _ => Err("its log is another one".to_owned()),
    };
    install(&manifest, coming, data, allows).map_err(|error| error.to_string())?;
    Ok(end)
}

/// What comes, to be read where one may block.
struct Coming {
    pieces: mpsc::Receiver<Bytes>,
    piece: Bytes,
}

impl Coming {
    fn new(pieces: mpsc::Receiver<Bytes>) -> Coming {
        let piece = Bytes::new();
        Coming { pieces, piece }
    }
}

impl Read for Coming {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let count = into.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut into[..count]);
        Ok(count)
    }
}

const FOLLOWERS: &str = "/v1/cluster/snapshot?of=follower";
const ANY: &str = "/v1/cluster/snapshot";
/// A giver says something at least each few seconds.
const PIECE_WAIT: Duration = Duration::from_secs(60);
/// Pieces that wait to be written.
const PIECES_MAX: usize = 4;
const LIST_BYTES_MAX: u32 = 64 << 20;
const TEXT_BYTES_MAX: usize = 64 << 10;
const AGAIN: Duration = Duration::from_secs(1);
/// The longest pause behind snapshots that came and could not be taken.
const AGAIN_MAX: Duration = Duration::from_secs(64);
/// A connection to NATS is waited for so long by a node that has nothing yet …
const NEW_WAIT: Duration = Duration::from_secs(10);
/// … and by one that can also find out later.
const LOOK_WAIT: Duration = Duration::from_secs(2);
