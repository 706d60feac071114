//! The connection to NATS, and the requests that go over it.
//!
//! Owns: subjects and headers of requests, how long an answer may take. Promises: a frame is published at most once for
//! each call, and never without the sequence that it expects; nothing waits in a buffer for a lost connection. Must
//! not: judge an answer's meaning for the log.

use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event, HeaderMap, Message, StatusCode, Subscriber};
use bytes::Bytes;
use serde_json::json;
use tideline_base::ids::Position;
use tideline_cluster::Frame;
use tideline_cluster::guards::ServerSettings;
use tokio::sync::mpsc;

use crate::api::{self, Info};
use crate::names::Names;
use crate::patient::{self, FIRST_WAIT, LONGEST_WAIT};

/// A connection that does not answer for twice this time is given up.
const PING_EVERY: Duration = Duration::from_millis(1_500);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const RECONNECT_DELAY: Duration = Duration::from_millis(100);
const FLUSH_TIMEOUT: Duration = Duration::from_millis(450);
/// A stream's making waits for its leader.
const CREATE_TIMEOUT: Duration = Duration::from_secs(10);
/// Commands that wait for the socket. A ping that fails ends the connection long before there are as many.
const COMMANDS_MAX: usize = 1_024;
const REFUSAL_CHARS_MAX: usize = 200;
/// Messages that wait for this node; pulls ask for fewer.
const MESSAGES_MAX: usize = 4_096;
/// A consumer whose node is gone goes after this time.
const CONSUMER_IDLE: Duration = Duration::from_secs(30);
/// Frames that one pull asks for.
pub(crate) const PULL_FRAMES: u64 = 256;
/// And their bytes; the largest frame fits twice.
const PULL_BYTES: u64 = 16 * 1024 * 1024;
const PULL_EXPIRES: Duration = Duration::from_secs(30);
/// A pull that waits says so in this rhythm.
pub(crate) const PULL_BEAT: Duration = Duration::from_secs(1);

/// Where the NATS servers are, and who this node is there.
#[derive(Clone, Default)]
pub struct Access {
    /// As `nats://10.0.0.1:4222` or `tls://n1.example:4222`. The first one that answers is taken.
    pub servers: Vec<String>,
    /// User and password.
    pub user: Option<(String, String)>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Access { servers, user: _ } = self;
        write!(out, "Access({servers:?})")
    }
}

/// See the file's opening.
#[derive(Clone)]
pub(crate) struct Link {
    client: Client,
    pub(crate) names: Names,
    /// Where answers come: this, a dot and what they answer.
    inbox: String,
}

/// What comes over a link.
pub(crate) struct Arrivals {
    pub(crate) answers: Subscriber,
    pub(crate) beats: Subscriber,
    /// Connected and disconnected.
    pub(crate) events: mpsc::Receiver<Event>,
}

impl Link {
    /// Begins to connect, and goes on until there is a connection.
    pub(crate) async fn open(access: &Access, names: Names) -> Result<(Link, Arrivals), String> {
        let (sender, events) = mpsc::channel(64);
        let mut options = ConnectOptions::new()
            .name("tideline")
            .retry_on_initial_connect()
            .max_reconnects(None)
            .ignore_discovered_servers()
            .ping_interval(PING_EVERY)
            .connection_timeout(CONNECT_TIMEOUT)
            .reconnect_delay_callback(|_| RECONNECT_DELAY)
            .client_capacity(COMMANDS_MAX)
            .subscription_capacity(MESSAGES_MAX)
            .event_callback(move |event| {
                let sender = sender.clone();
                async move {
                    // The receiver is gone when the driver is.
                    let _ = sender.send(event).await;
                }
            });
        if let Some((user, password)) = access.user.clone() {
            options = options.user_and_password(user, password);
        }
        let client = options.connect(access.servers.clone()).await;
        let client = client.map_err(|error| error.to_string())?;
        let inbox = client.new_inbox();
        let subscribed = |error: async_nats::SubscribeError| error.to_string();
        let answers = client.subscribe(format!("{inbox}.>")).await;
        let beats = client.subscribe(names.beats.clone()).await;
        let arrivals = Arrivals {
            answers: answers.map_err(subscribed)?,
            beats: beats.map_err(subscribed)?,
            events,
        };
        let link = Link {
            client,
            names,
            inbox,
        };
        Ok((link, arrivals))
    }

    /// Whether something that is sent now goes out.
    pub(crate) fn is_up(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// What an arrival answers to, without the inbox.
    pub(crate) fn topic<'a>(&self, message: &'a Message) -> &'a str {
        let rest = message.subject.strip_prefix(self.inbox.as_str());
        rest.and_then(|rest| rest.strip_prefix('.'))
            .unwrap_or_default()
    }

    /// Publishes a frame, expecting the sequence before its position, unless `is_anywhere` (a planted bug). The answer
    /// arrives at `a.` and the position. `false`: it was not sent.
    pub(crate) async fn publish(
        &self,
        position: Position,
        bytes: Bytes,
        is_anywhere: bool,
    ) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Stream", self.names.stream.as_str());
        if !is_anywhere {
            let expected = (position.0 - 1).to_string();
            headers.insert("Nats-Expected-Last-Sequence", expected.as_str());
        }
        let subject = self.names.subject.clone();
        let reply = format!("{}.a.{position}", self.inbox);
        let sent = self
            .client
            .publish_with_reply_and_headers(subject, reply, headers, bytes);
        self.is_up() && sent.await.is_ok()
    }

    /// Says something to all nodes.
    pub(crate) async fn say(&self, beat: Vec<u8>) {
        if self.is_up() {
            // One that is lost is followed by the next.
            let _ = self
                .client
                .publish(self.names.beats.clone(), beat.into())
                .await;
        }
    }

    /// Asks any replica for a frame. The answer arrives at `g.` and the position.
    pub(crate) async fn get(&self, position: Position) {
        let topic = format!("g.{position}");
        let subject = self.direct();
        self.ask(subject, &topic, &json!({ "seq": position.0 }))
            .await;
    }

    /// Takes all frames up to a position out of the stream.
    pub(crate) async fn purge(&self, upto: Position) {
        let subject = format!("$JS.API.STREAM.PURGE.{}", self.names.stream);
        let body = json!({ "seq": upto.next().0 });
        self.ask(subject, "p", &body).await;
    }

    fn direct(&self) -> String {
        format!("$JS.API.DIRECT.GET.{}", self.names.stream)
    }

    async fn ask(&self, subject: String, topic: &str, body: &serde_json::Value) {
        if self.is_up() {
            let reply = format!("{}.{topic}", self.inbox);
            let sent = self
                .client
                .publish_with_reply(subject, reply, body.to_string().into());
            // Whoever asked asks again.
            let _ = sent.await;
        }
    }

    /// The frame at a position, as any replica has it. It may be large, and the link slow.
    pub(crate) async fn fetch(
        &self,
        position: Position,
        patience: Duration,
    ) -> Result<Option<Frame>, String> {
        patient::ask(patience, LONGEST_WAIT, || async {
            let body = json!({ "seq": position.0 }).to_string();
            let got = self.question(self.direct(), body.into(), patience).await?;
            match got.status {
                Some(StatusCode::NOT_FOUND) => Ok(None),
                Some(status) if status != StatusCode::OK => Err(status.to_string()),
                _ => Ok(at(&got, position).and_then(Frame::read)),
            }
        })
        .await
    }

    /// What the servers say of the stream, once they say it.
    pub(crate) async fn info(&self, patience: Duration) -> Info {
        let found = patient::ask(patience, FIRST_WAIT, || async {
            let subject = format!("$JS.API.STREAM.INFO.{}", self.names.stream);
            let answer = self.question(subject, Bytes::new(), patience).await?;
            match api::info(&answer.payload) {
                Info::Unclear(what) => Err(what),
                clear => Ok(clear),
            }
        });
        found.await.unwrap_or_else(Info::Unclear)
    }

    async fn question(
        &self,
        subject: String,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Message, String> {
        if !self.is_up() {
            return Err("there is no connection to NATS".to_owned());
        }
        let request = async_nats::Request::new().payload(body);
        let request = request.timeout(Some(timeout));
        let answer = self.client.send_request(subject, request).await;
        answer.map_err(|error| error.to_string())
    }

    /// The server at the other end, as it greeted.
    pub(crate) fn server(&self) -> Option<ServerSettings> {
        let info = self.client.try_server_info()?;
        Some(ServerSettings {
            name: info.server_name,
            version: info.version,
            max_payload: info.max_payload as u64,
            sync_always: None,
        })
    }

    /// Makes a consumer that begins behind a position.
    pub(crate) async fn consume(&self, consumer: &str, after: Position) -> Result<(), String> {
        let stream = &self.names.stream;
        let config = json!({
            "name": consumer,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": after.next().0,
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": u64::try_from(CONSUMER_IDLE.as_nanos()).unwrap_or(u64::MAX),
            "num_replicas": 1,
            "mem_storage": true,
        });
        let body = json!({ "stream_name": stream, "config": config, "action": "create" });
        let subject = format!("$JS.API.CONSUMER.CREATE.{stream}.{consumer}");
        self.request(subject, &body, Duration::from_secs(2)).await?;
        Ok(())
    }

    /// Drops a consumer. It would go by itself a little later.
    pub(crate) async fn drop_consumer(&self, consumer: &str) {
        let stream = &self.names.stream;
        let subject = format!("$JS.API.CONSUMER.DELETE.{stream}.{consumer}");
        self.ask(subject, "d", &json!({})).await;
    }

    /// Asks a consumer for more frames. They arrive at `f.` and the number, and so does what the consumer says of the
    /// pull.
    pub(crate) async fn pull(&self, consumer: &str, number: u64) {
        let stream = &self.names.stream;
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let body = json!({
            "batch": PULL_FRAMES,
            "max_bytes": PULL_BYTES,
            "expires": nanos(PULL_EXPIRES),
            "idle_heartbeat": nanos(PULL_BEAT),
        });
        self.ask(subject, &format!("f.{number}"), &body).await;
    }

    /// Makes the stream, whose first sequence will be the one behind `before`.
    pub(crate) async fn create(&self, before: Position, copies: u8) -> Result<(), String> {
        let Names {
            stream, subject, ..
        } = &self.names;
        let body = json!({
            "name": stream,
            "subjects": [subject],
            "retention": "limits",
            "storage": "file",
            "discard": "new",
            "num_replicas": copies,
            "max_msgs": -1,
            "max_msgs_per_subject": -1,
            "max_bytes": -1,
            "max_age": 0,
            "max_msg_size": -1,
            "deny_delete": true,
            "deny_purge": false,
            "allow_direct": true,
            "first_seq": before.next().0,
        });
        let subject = format!("$JS.API.STREAM.CREATE.{stream}");
        self.request(subject, &body, CREATE_TIMEOUT).await
    }

    async fn request(
        &self,
        subject: String,
        body: &serde_json::Value,
        timeout: Duration,
    ) -> Result<(), String> {
        let answer = self.question(subject, body.to_string().into(), timeout);
        let answer = answer.await?;
        api::failure(&answer.payload).map_or(Ok(()), Err)
    }

    /// The acknowledgement of a frame that is published on its own.
    pub(crate) async fn publish_first(&self, frame: &Frame) -> Result<Position, String> {
        let mut headers = HeaderMap::new();
        let position = frame.sealed.position;
        let expected = (position.0 - 1).to_string();
        headers.insert("Nats-Expected-Stream", self.names.stream.as_str());
        headers.insert("Nats-Expected-Last-Sequence", expected.as_str());
        let request = async_nats::Request::new()
            .headers(headers)
            .payload(frame.bytes.clone())
            .timeout(Some(CREATE_TIMEOUT));
        let subject = self.names.subject.clone();
        let answer = self.client.send_request(subject, request).await;
        let answer = answer.map_err(|error| error.to_string())?;
        match api::answer(&answer.payload, &self.names.stream) {
            tideline_cluster::Answer::Stored(stored) => Ok(stored),
            other => Err(format!("{other:?}")),
        }
    }

    /// Sends what waits for the socket.
    pub(crate) async fn flush(&self) {
        let flushed = tokio::time::timeout(FLUSH_TIMEOUT, self.client.flush());
        // Without a connection there is nothing to wait for.
        let _ = flushed.await;
    }
}

/// Why there is no connection, if an event says so. What servers say of it may be of any length.
pub(crate) fn refusal(event: &Event) -> Option<String> {
    let why = match event {
        Event::ServerError(error) => error.to_string(),
        Event::ClientError(error) => error.to_string(),
        _ => return None,
    };
    Some(why.chars().take(REFUSAL_CHARS_MAX).collect())
}

/// The bytes that a direct get brought, if they are from the position that was asked for.
pub(crate) fn at(message: &Message, position: Position) -> Option<Bytes> {
    let headers = message.headers.as_ref()?;
    let sequence = headers.get("Nats-Sequence")?.as_str().parse().ok()?;
    (Position(sequence) == position).then(|| message.payload.clone())
}
