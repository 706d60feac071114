//! Whether stream and servers are such that a frame, once acknowledged, stays.
//!
//! Owns: what is asked of them, and of whom. Promises: a refusal is one sentence with what to do; a server that is down
//! refuses nothing, because it acknowledges nothing. Must not: change a stream or a server.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tideline_base::ids::Position;
use tideline_cluster::guards::{ServerSettings, check_server, check_stream, notice};
use tideline_cluster::{Content, LOOK_PATIENCE_MS, StreamFacts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::api::{self, Info, StreamState};
use crate::link::Link;

/// What must hold of servers.
#[derive(Clone, Debug, Default)]
pub struct Demands {
    /// The servers' monitoring addresses, as `10.0.0.1:8222`: all that hold a copy of the stream.
    pub monitors: Vec<String>,
    /// A person answers for servers that do not report their `sync_interval`.
    pub is_unverified: bool,
    /// The largest frame that must fit.
    pub frame_bytes_max: u64,
}

/// What a message has beside its frame: subject and headers.
const MESSAGE_BYTES: u64 = 64 * 1024;
/// Servers without a word of the stream for so long are worth a notice.
const INFO_PATIENCE: Duration = Duration::from_secs(2);
/// A look is given up after this time.
pub(crate) const LOOK_PATIENCE: Duration = Duration::from_millis(LOOK_PATIENCE_MS);
/// So many frames are asked for at once: more of them, on a slow link, would have the connection look dead.
const FRAMES_AT_ONCE: usize = 2;
const MONITOR_TIMEOUT: Duration = Duration::from_secs(1);
/// A monitoring port that says more is not one.
const MONITOR_BYTES_MAX: u64 = 256 * 1024;

/// The outcome of a look at stream and servers.
pub(crate) enum Survey {
    /// All is well; perhaps with a notice.
    Good(Option<String>),
    /// Not to be known now, in words.
    Unclear(String),
    /// Nothing may be written here.
    Refused(String),
}

/// Looks at the stream's settings and at the servers that hold it.
pub(crate) async fn survey(link: &Link, demands: &Demands) -> Survey {
    let stream = match link.info(INFO_PATIENCE).await {
        Info::Found(stream) => stream,
        Info::Missing => {
            let name = &link.names.stream;
            return Survey::Unclear(format!("there is no stream {name}"));
        }
        Info::Unclear(what) => return Survey::Unclear(what),
    };
    if let Err(refused) = check_stream(&stream.settings, &link.names.subject) {
        return Survey::Refused(refused);
    }
    let Some(connected) = link.server() else {
        return Survey::Unclear("no server has greeted yet".to_owned());
    };
    let reports = join_all(demands.monitors.iter().map(|at| monitored(at))).await;
    let mut servers = Vec::new();
    let mut silent = None;
    for report in reports {
        match report {
            Ok(server) => servers.push(server),
            Err(why) => silent = Some(why),
        }
    }
    match judge(&stream, connected, &servers, demands) {
        // A monitoring port that is away for a moment is no reason to stop.
        Err(Verdict::Unknown(_)) if silent.is_some() => Survey::Unclear(silent.unwrap_or_default()),
        Err(Verdict::Unknown(refused) | Verdict::Bad(refused)) => Survey::Refused(refused),
        Ok(()) => Survey::Good(notice(&stream.settings)),
    }
}

enum Verdict {
    Bad(String),
    /// A server does not say.
    Unknown(String),
}

/// Judges the servers that hold the stream, and the one at the other end.
fn judge(
    stream: &StreamState,
    connected: ServerSettings,
    reported: &[ServerSettings],
    demands: &Demands,
) -> Result<(), Verdict> {
    let bytes_min = demands.frame_bytes_max + MESSAGE_BYTES;
    // What it says of itself beside its sync is believed without a monitoring port.
    check_server(&connected, bytes_min, true).map_err(Verdict::Bad)?;
    let holders = stream.peers.iter().filter(|peer| peer.is_online);
    let mut holders: Vec<&str> = holders.map(|peer| peer.name.as_str()).collect();
    if stream.peers.is_empty() {
        // One server by itself names no peers.
        holders.push(&connected.name);
    }
    for name in holders {
        let unreported = ServerSettings {
            name: name.to_owned(),
            sync_always: None,
            ..connected.clone()
        };
        let found = reported.iter().find(|server| server.name == name);
        let server = found.unwrap_or(&unreported);
        let unknown = server.sync_always.is_none();
        check_server(server, bytes_min, demands.is_unverified).map_err(
            |refused| match unknown {
                true => Verdict::Unknown(refused),
                false => Verdict::Bad(refused),
            },
        )?;
    }
    Ok(())
}

/// What a server's monitoring port reports.
async fn monitored(address: &str) -> Result<ServerSettings, String> {
    let ask = async {
        let mut socket = TcpStream::connect(address).await?;
        let head = format!("GET /varz HTTP/1.0\r\nHost: {address}\r\n\r\n");
        socket.write_all(head.as_bytes()).await?;
        let mut answer = Vec::new();
        let mut limited = socket.take(MONITOR_BYTES_MAX);
        limited.read_to_end(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let failed = |why: &str| format!("NATS' monitoring address {address} does not report: {why}");
    let answer = match tokio::time::timeout(MONITOR_TIMEOUT, ask).await {
        Ok(answer) => answer.map_err(|error| failed(&error.to_string()))?,
        Err(_) => return Err(failed("no answer")),
    };
    let body = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let body = body.and_then(|at| answer.get(at + 4..));
    let server = body.and_then(api::server);
    let server = server.ok_or_else(|| failed("its answer is not that of a NATS server"))?;
    match server.sync_always {
        Some(_) => Ok(server),
        // It acknowledges nothing now; one that has just been started says so for a moment.
        None => Err(failed("its JetStream does not run, or not yet")),
    }
}

/// What a look finds; `None`: not to be known now.
pub(crate) async fn look(
    link: &Link,
    number: u64,
    positions: &[Position],
    began: Position,
) -> Option<Result<StreamFacts, String>> {
    let missing = |number| StreamFacts {
        number,
        first: Position(1),
        last: Position::ZERO,
        genesis: None,
        crcs: vec![None; positions.len()],
    };
    let stream = match link.info(LOOK_PATIENCE).await {
        Info::Found(stream) => stream,
        Info::Missing => return Some(Ok(missing(number))),
        Info::Unclear(_) => return None,
    };
    if let Err(refused) = check_stream(&stream.settings, &link.names.subject) {
        return Some(Err(refused));
    }
    let (first, last) = (stream.first, stream.last);
    let wanted: Vec<Position> = positions.iter().copied().chain([began]).collect();
    let found = stream::iter(wanted).map(|position| async move {
        let frame = match position >= first && position <= last {
            true => link.fetch(position, LOOK_PATIENCE).await?,
            false => None,
        };
        Ok::<_, String>(frame.map(|frame| (frame.sealed.crc, frame.sealed.content)))
    });
    let found = found.buffered(FRAMES_AT_ONCE).try_collect::<Vec<_>>();
    let mut found = found.await.ok()?;
    let genesis = match found.pop().flatten() {
        Some((_, Content::Genesis(genesis))) => Some(genesis),
        _ => None,
    };
    let crcs = found
        .iter()
        .map(|frame| frame.as_ref().map(|(crc, _)| *crc));
    Some(Ok(StreamFacts {
        number,
        first,
        last,
        genesis,
        crcs: crcs.collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tideline_cluster::guards::Peer;

    fn server(name: &str, sync_always: Option<bool>) -> ServerSettings {
        ServerSettings {
            name: name.to_owned(),
            version: "2.15.1".to_owned(),
            max_payload: 8 * 1024 * 1024,
            sync_always,
        }
    }

    fn judged(peers: &[(&str, bool)], reported: &[ServerSettings], is_unverified: bool) -> String {
        let Info::Found(mut stream) =
            api::info(br#"{"config":{},"state":{"first_seq":1,"last_seq":1}}"#)
        else {
            panic!("it is one");
        };
        let peer = |(name, is_online): &(&str, bool)| Peer {
            name: (*name).to_owned(),
            is_online: *is_online,
            is_current: true,
        };
        stream.peers = peers.iter().map(peer).collect();
        let demands = Demands {
            monitors: Vec::new(),
            is_unverified,
            frame_bytes_max: 7 * 1024 * 1024,
        };
        match judge(&stream, server("a", None), reported, &demands) {
            Ok(()) => "good".to_owned(),
            Err(Verdict::Unknown(what)) => format!("unknown: {what}"),
            Err(Verdict::Bad(what)) => format!("bad: {what}"),
        }
    }

    #[test]
    fn a_server_whose_jetstream_has_not_begun_is_waited_for() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
            let listener = listener.expect("a port");
            let address = listener.local_addr().expect("an address").to_string();
            let begun = r#","jetstream":{"config":{"sync_always":true}}"#;
            for (jetstream, is_known) in [("", false), (r#","jetstream":{}"#, false), (begun, true)] {
                let serve = async {
                    let (mut socket, _) = listener.accept().await.expect("a connection");
                    let answer = format!(
                        "HTTP/1.0 200 OK\r\n\r\n{{\"server_name\":\"a\",\"version\":\"2.15.1\",\"max_payload\":8388608{jetstream}}}"
                    );
                    let asked = socket.read(&mut [0; 1_000]).await;
                    assert!(asked.is_ok_and(|length| length > 0));
                    socket.write_all(answer.as_bytes()).await.expect("sent");
                };
                let (report, ()) = tokio::join!(monitored(&address), serve);
                assert_eq!(report.is_ok(), is_known, "{report:?}");
            }
        });
    }

    #[test]
    fn every_server_with_a_copy_must_sync_always() {
        let peers = [("a", true), ("b", true)];
        let both = [server("a", Some(true)), server("b", Some(true))];
        assert_eq!(judged(&peers, &both, false), "good");
        let said = judged(&peers, &both[..1], false);
        assert!(
            said.starts_with("unknown: NATS server b does not report"),
            "{said}"
        );
        assert_eq!(judged(&peers, &both[..1], true), "good");
        assert_eq!(
            judged(&[("a", true), ("b", false)], &both[..1], false),
            "good"
        );
        let lazy = [server("a", Some(true)), server("b", Some(false))];
        let said = judged(&peers, &lazy, true);
        assert!(
            said.starts_with("bad: NATS server b does not sync"),
            "{said}"
        );
        assert!(judged(&[], &[], false).starts_with("unknown: NATS server a"));
    }
}
