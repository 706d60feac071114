//! JetStream's answers, from JSON to types.
//!
//! Owns: which fields and error codes are read, and what each means to a node. Promises: an answer that is not
//! understood decides nothing. Must not: send a request.

use serde::Deserialize;
use serde::de::IgnoredAny;
use tideline_base::ids::Position;
use tideline_cluster::Answer;
use tideline_cluster::guards::{Peer, ServerSettings, StreamSettings};

/// The stream is not there.
const NOT_FOUND: u64 = 10_059;
const WRONG_LAST: u64 = 10_071;
/// No room: of the disk, of the account.
const FULL: [u64; 2] = [10_047, 10_023];
/// The stream's own store has refused it. Where that is a limit, all servers refuse alike. Anything else proves
/// nothing: before 2.14 a leader said so of its own disk when the others had stored the frame (nats-server,
/// `server/stream.go`).
const NOT_STORED: u64 = 10_077;
const LIMITS: [&str; 2] = ["maximum messages exceeded", "maximum bytes exceeded"];

#[derive(Debug, Deserialize)]
pub(crate) struct ApiError {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

#[derive(Debug, Deserialize)]
struct Ack {
    #[serde(default)]
    stream: String,
    #[serde(default)]
    seq: u64,
    error: Option<ApiError>,
}

/// What an answer to a publish says.
pub(crate) fn answer(payload: &[u8], stream: &str) -> Answer {
    let Ok(ack) = serde_json::from_slice::<Ack>(payload) else {
        return Answer::Failed;
    };
    let Some(error) = ack.error else {
        let is_ours = ack.stream == stream && ack.seq > 0;
        return match is_ours {
            true => Answer::Stored(Position(ack.seq)),
            false => Answer::Failed,
        };
    };
    // `wrong last sequence: 17`
    let last = error.description.rsplit(' ').next();
    let last = last.and_then(|last| last.parse().ok());
    match (error.err_code, last) {
        (WRONG_LAST, Some(last)) => Answer::WrongLast(Position(last)),
        (NOT_STORED, _) if LIMITS.contains(&&*error.description) => Answer::Full,
        (code, _) if FULL.contains(&code) => Answer::Full,
        _ => Answer::Failed,
    }
}

/// What `STREAM.INFO` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamState {
    pub(crate) settings: StreamSettings,
    pub(crate) first: Position,
    pub(crate) last: Position,
    /// The servers that have a copy.
    pub(crate) peers: Vec<Peer>,
}

/// The answer to `STREAM.INFO`.
pub(crate) enum Info {
    Found(Box<StreamState>),
    /// There is no such stream, as far as the servers know.
    Missing,
    /// Anything else, in words.
    Unclear(String),
}

#[derive(Deserialize)]
struct RawInfo {
    error: Option<ApiError>,
    config: Option<RawConfig>,
    state: Option<RawState>,
    cluster: Option<RawCluster>,
}

#[derive(Deserialize)]
struct RawState {
    first_seq: u64,
    last_seq: u64,
}

#[derive(Deserialize)]
struct RawCluster {
    leader: Option<String>,
    #[serde(default)]
    replicas: Vec<RawPeer>,
}

#[derive(Deserialize)]
struct RawPeer {
    name: String,
    #[serde(default)]
    current: bool,
    #[serde(default)]
    offline: bool,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
#[allow(clippy::struct_excessive_bools)] // as JetStream has them
struct RawConfig {
    name: String,
    subjects: Vec<String>,
    retention: String,
    storage: String,
    discard: String,
    num_replicas: u8,
    max_age: u64,
    max_msgs: i64,
    max_msgs_per_subject: i64,
    max_msg_size: i64,
    persist_mode: String,
    no_ack: bool,
    sealed: bool,
    deny_delete: bool,
    deny_purge: bool,
    allow_direct: bool,
    allow_rollup_hdrs: bool,
    allow_msg_ttl: bool,
    allow_msg_counter: bool,
    allow_msg_schedules: bool,
    mirror: Option<IgnoredAny>,
    sources: Option<Vec<IgnoredAny>>,
    subject_transform: Option<IgnoredAny>,
    republish: Option<IgnoredAny>,
}

impl From<RawConfig> for StreamSettings {
    fn from(raw: RawConfig) -> StreamSettings {
        StreamSettings {
            name: raw.name,
            subjects: raw.subjects,
            retention: raw.retention,
            storage: raw.storage,
            discard: raw.discard,
            num_replicas: raw.num_replicas,
            max_age: raw.max_age,
            max_msgs: raw.max_msgs,
            max_msgs_per_subject: raw.max_msgs_per_subject,
            max_msg_size: raw.max_msg_size,
            persist_mode: raw.persist_mode,
            no_ack: raw.no_ack,
            sealed: raw.sealed,
            deny_delete: raw.deny_delete,
            deny_purge: raw.deny_purge,
            allow_direct: raw.allow_direct,
            allow_rollup_hdrs: raw.allow_rollup_hdrs,
            allow_msg_ttl: raw.allow_msg_ttl,
            allow_msg_counter: raw.allow_msg_counter,
            allow_msg_schedules: raw.allow_msg_schedules,
            mirror: raw.mirror.is_some(),
            sources: raw.sources.is_some_and(|sources| !sources.is_empty()),
            subject_transform: raw.subject_transform.is_some(),
            republish: raw.republish.is_some(),
        }
    }
}

/// Reads an answer to `STREAM.INFO` or `STREAM.CREATE`.
pub(crate) fn info(payload: &[u8]) -> Info {
    let raw: RawInfo = match serde_json::from_slice(payload) {
        Ok(raw) => raw,
        Err(error) => return Info::Unclear(error.to_string()),
    };
    match (raw.error, raw.config, raw.state) {
        (Some(error), _, _) if error.err_code == NOT_FOUND => Info::Missing,
        (Some(error), _, _) => Info::Unclear(error.description),
        (None, Some(config), Some(state)) => {
            let cluster = raw.cluster;
            let leader = cluster.as_ref().and_then(|cluster| cluster.leader.clone());
            let leader = leader.map(|name| Peer {
                name,
                is_online: true,
                is_current: true,
            });
            let replicas = cluster.into_iter().flat_map(|cluster| cluster.replicas);
            let replicas = replicas.map(|peer| Peer {
                name: peer.name,
                is_online: !peer.offline,
                is_current: peer.current,
            });
            Info::Found(Box::new(StreamState {
                settings: config.into(),
                // An empty one may say 0.
                first: Position(state.first_seq.max(1)),
                last: Position(state.last_seq),
                peers: leader.into_iter().chain(replicas).collect(),
            }))
        }
        _ => Info::Unclear("an answer without a stream".to_owned()),
    }
}

/// What went wrong with a request that has no other use for its answer.
pub(crate) fn failure(payload: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Reply {
        error: Option<ApiError>,
    }
    match serde_json::from_slice::<Reply>(payload) {
        Ok(reply) => reply.error.map(|error| error.description),
        Err(error) => Some(error.to_string()),
    }
}

/// What a server's monitoring port says at `/varz`.
pub(crate) fn server(payload: &[u8]) -> Option<ServerSettings> {
    #[derive(Deserialize)]
    struct Varz {
        server_name: String,
        version: String,
        max_payload: u64,
        jetstream: Option<JetStream>,
    }
    #[derive(Deserialize)]
    struct JetStream {
        config: Option<Config>,
    }
    #[derive(Deserialize)]
    struct Config {
        // Left out where it is off.
        #[serde(default)]
        sync_always: bool,
    }
    let varz: Varz = serde_json::from_slice(payload).ok()?;
    let config = varz.jetstream.and_then(|jetstream| jetstream.config);
    Some(ServerSettings {
        name: varz.server_name,
        version: varz.version,
        max_payload: varz.max_payload,
        sync_always: config.map(|config| config.sync_always),
    })
}

/// The number of the consumer that a message is of, which is the end of its name.
pub(crate) fn consumer(reply: &str) -> Option<u64> {
    let tokens: Vec<&str> = reply.split('.').collect();
    let name = match tokens.len() {
        9 => tokens[3],
        11.. => tokens[5],
        _ => return None,
    };
    name.rsplit('-').next()?.parse().ok()
}

/// The sequence in the subject that a consumed message may be acknowledged to, if it is of this stream.
pub(crate) fn sequence(reply: &str, stream: &str) -> Option<Position> {
    let tokens: Vec<&str> = reply.split('.').collect();
    let (at, named) = match tokens.len() {
        9 => (5, 2),
        11.. => (7, 4),
        _ => return None,
    };
    let is_ours = tokens.starts_with(&["$JS", "ACK"]) && tokens[named] == stream;
    let sequence = is_ours.then(|| tokens[at].parse().ok()).flatten();
    sequence.map(Position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_a_publish_mean_one_thing_or_nothing() {
        let read = |text: &str| answer(text.as_bytes(), "TL_chat_0");
        let stored = Answer::Stored(Position(7));
        assert_eq!(read(r#"{"stream":"TL_chat_0","seq":7}"#), stored);
        assert_eq!(read(r#"{"stream":"other","seq":7}"#), Answer::Failed);
        let error = |code: u64, text: &str| {
            let text = format!(
                r#"{{"error":{{"code":400,"err_code":{code},"description":"{text}"}},"stream":"TL_chat_0","seq":0}}"#
            );
            read(&text)
        };
        let wrong = error(10_071, "wrong last sequence: 17");
        assert_eq!(wrong, Answer::WrongLast(Position(17)));
        assert_eq!(error(10_071, "wrong last sequence"), Answer::Failed);
        for full in FULL {
            assert_eq!(error(full, "no room"), Answer::Full);
        }
        assert_eq!(error(10_077, "maximum bytes exceeded"), Answer::Full);
        let disk = "write 1.blk: no space left on device";
        assert_eq!(error(10_077, disk), Answer::Failed);
        assert_eq!(error(10_060, "expected stream"), Answer::Failed);
        for text in ["", "{}", "[]", "{\"seq\":-1}", "+OK"] {
            assert_eq!(read(text), Answer::Failed, "{text}");
        }
    }

    #[test]
    fn sequences_are_read_of_both_forms_of_replies() {
        let old = "$JS.ACK.TL_chat_0.c.1.17.1.1700000000000000000.4";
        let new = "$JS.ACK._.AHASH.TL_chat_0.c.1.17.1.1700000000000000000.4.rand";
        for reply in [old, new] {
            assert_eq!(sequence(reply, "TL_chat_0"), Some(Position(17)));
            assert_eq!(sequence(reply, "TL_chat_1"), None);
            let of_third = reply.replace(".c.", ".n1-3-9c-3.");
            assert_eq!((consumer(reply), consumer(&of_third)), (None, Some(3)));
        }
        assert_eq!(sequence("_INBOX.x", "TL_chat_0"), None);
    }

    #[test]
    fn what_a_server_leaves_out_is_not_taken_for_good() {
        let varz = |jetstream: &str| {
            let text = format!(
                r#"{{"server_name":"a","version":"2.15.1","max_payload":8388608{jetstream}}}"#
            );
            server(text.as_bytes()).expect("it is one").sync_always
        };
        assert_eq!(
            varz(r#","jetstream":{"config":{"sync_always":true}}"#),
            Some(true)
        );
        assert_eq!(varz(r#","jetstream":{"config":{}}"#), Some(false));
        assert_eq!(varz(r#","jetstream":{}"#), None);
        assert_eq!(varz(""), None);
        assert_eq!(server(b"<html>"), None);
    }
}
