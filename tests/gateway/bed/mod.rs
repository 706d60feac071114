//! A server on a port of its own and clients that speak to it through real sockets, for the gateway's tests.
//!
//! Owns: the server's life and a small client. Promises: every wait ends (with a failure) after ten seconds. Must not:
//! know what a test is about.

#![allow(unreachable_pub, missing_docs)] // not a crate of its own
#![allow(clippy::unwrap_used)] // a failed wait is a failed test
#![allow(dead_code)] // each test file uses its part

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tideline::config::Config;
use tideline::server::Server;
use tideline::wire::Dialect;
use tideline::wire::jsonrpc::DIALECTS;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

/// Longer than anything takes; only a hang gets there.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The numbers of the messages in a reply or a push.
pub fn sequences(messages: &Value) -> Vec<u64> {
    let messages = messages.as_array().unwrap();
    messages
        .iter()
        .map(|message| message["sequence"].as_u64().unwrap())
        .collect()
}

pub struct Bed {
    pub server: Server,
    pub dir: tempfile::TempDir,
}

impl Bed {
    pub async fn start() -> Bed {
        Bed::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut Config)) -> Bed {
        Bed::speaking(&DIALECTS, change).await
    }

    pub async fn speaking(
        dialects: &'static [&'static dyn Dialect],
        change: impl FnOnce(&mut Config),
    ) -> Bed {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config {
            data: dir.path().join("data"),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            drain_ms_max: 5_000,
            ..Config::default()
        };
        change(&mut config);
        config.check().unwrap();
        let server = Server::speaking(&config, dialects).await.unwrap();
        Bed { server, dir }
    }

    /// Stops the server; the test has dropped its clients, or they would be waited for.
    pub async fn stop(self) {
        within(self.server.stop()).await;
    }

    pub async fn client(&self) -> Client {
        Client::connect(self.server.address(), None).await
    }

    pub async fn raw(&self) -> TcpStream {
        TcpStream::connect(self.server.address()).await.unwrap()
    }

    /// Sends a whole request and reads until the server closes or falls silent behind a complete answer.
    pub async fn http(&self, request: impl AsRef<str>) -> String {
        let mut socket = self.raw().await;
        socket.write_all(request.as_ref().as_bytes()).await.unwrap();
        read_answer(&mut socket).await
    }

    /// A raw WebSocket: the handshake is done, frames are up to the test.
    pub async fn upgraded(&self) -> TcpStream {
        let mut socket = self.raw().await;
        socket.write_all(HANDSHAKE.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(within(socket.read_u8()).await.unwrap());
        }
        assert!(
            head.starts_with(b"HTTP/1.1 101"),
            "{}",
            String::from_utf8_lossy(&head)
        );
        socket
    }

    pub async fn post(&self, body: &Value) -> Value {
        let request = rpc_request("connection: close\r\n", &body.to_string());
        let answer = self.http(request).await;
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(body).unwrap()
        }
    }
}

/// A whole `POST /v1/rpc` with more headers, each of which ends its line.
pub fn rpc_request(headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /v1/rpc HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         {headers}content-length: {length}\r\n\r\n{body}"
    )
}

pub const HANDSHAKE: &str = "GET /v1/connect HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\n\
    upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("something hangs")
}

/// Reads one HTTP answer whole.
pub async fn read_answer(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse::<usize>().unwrap());
            if body.len() >= length {
                return text;
            }
        }
        if within(socket.read_buf(&mut bytes)).await.unwrap_or(0) == 0 {
            return String::from_utf8_lossy(&bytes).into_owned();
        }
    }
}

/// Reads frames until the close and gives its code; `None` if the connection ended without one.
pub async fn close_code(socket: &mut TcpStream) -> Option<u16> {
    within(async {
        loop {
            let first = socket.read_u8().await.ok()?;
            let length = match socket.read_u8().await.ok()? {
                126 => u64::from(socket.read_u16().await.ok()?),
                127 => socket.read_u64().await.ok()?,
                length => u64::from(length),
            };
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            socket.read_exact(&mut payload).await.ok()?;
            if first & 0x0f == 8 {
                return Some(u16::from_be_bytes([payload[0], payload[1]]));
            }
        }
    })
    .await
}

pub struct Client {
    pub socket: WebSocketStream<TcpStream>,
    next_id: u64,
    answers: VecDeque<Value>,
    pushes: VecDeque<Value>,
}

impl Client {
    pub async fn connect(address: SocketAddr, protocol: Option<&'static str>) -> Client {
        Client::over(TcpStream::connect(address).await.unwrap(), protocol).await
    }

    pub async fn over(socket: TcpStream, protocol: Option<&'static str>) -> Client {
        let address = socket.peer_addr().unwrap();
        let mut request = format!("ws://{address}/v1/connect")
            .into_client_request()
            .unwrap();
        if let Some(protocol) = protocol {
            request
                .headers_mut()
                .insert("sec-websocket-protocol", protocol.parse().unwrap());
        }
        let (socket, _) = within(tokio_tungstenite::client_async(request, socket))
            .await
            .unwrap();
        Client {
            socket,
            next_id: 0,
            answers: VecDeque::new(),
            pushes: VecDeque::new(),
        }
    }

    pub async fn send(&mut self, text: impl Into<String>) {
        within(self.socket.send(Message::text(text.into())))
            .await
            .unwrap();
    }

    /// Sends a request without waiting; gives its id.
    pub async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params});
        self.send(request.to_string()).await;
        self.next_id
    }

    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        self.answer(id).await
    }

    /// The result of a call that must succeed.
    pub async fn ok(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The reason of a call that must fail.
    pub async fn refused(&mut self, method: &str, params: Value) -> String {
        let answer = self.call(method, params).await;
        answer["error"]["data"]["reason"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer}"))
            .to_owned()
    }

    pub async fn append(&mut self, timeline: &str, text: &str) -> u64 {
        let params = json!({"timeline": timeline, "entry": {"text": text}});
        self.ok("message.append", params).await["sequence"]
            .as_u64()
            .unwrap()
    }

    /// The answer to a request, whatever else comes before it.
    pub async fn answer(&mut self, id: u64) -> Value {
        loop {
            if let Some(place) = self.answers.iter().position(|answer| answer["id"] == id) {
                return self.answers.remove(place).unwrap();
            }
            self.receive().await;
        }
    }

    /// The next push.
    pub async fn push(&mut self) -> Value {
        while self.pushes.is_empty() {
            self.receive().await;
        }
        self.pushes.pop_front().unwrap()
    }

    /// The pushes that have come.
    pub fn drain(&mut self) -> Vec<Value> {
        self.pushes.drain(..).collect()
    }

    /// Whether nothing was pushed up to the answer of a ping.
    pub async fn is_quiet(&mut self) -> bool {
        self.ok("ping", json!({})).await;
        self.pushes.is_empty()
    }

    async fn receive(&mut self) {
        let message = self.frame().await.expect("the connection ended");
        let Message::Text(text) = message else { return };
        let value: Value = serde_json::from_str(&text).unwrap();
        if value.get("method").is_some() {
            self.pushes.push_back(value);
        } else {
            self.answers.push_back(value);
        }
    }

    /// The next frame as it comes; `None` = the end.
    pub async fn frame(&mut self) -> Option<Message> {
        within(self.socket.next()).await.and_then(Result::ok)
    }

    /// Reads to the end and gives the close code.
    pub async fn closed(&mut self) -> Option<u16> {
        loop {
            match self.frame().await {
                Some(Message::Close(frame)) => return frame.map(|frame| frame.code.into()),
                Some(_) => {}
                None => return None,
            }
        }
    }
}
