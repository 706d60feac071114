//! One keep-alive connection to Tablestore's API: a signed POST, its answer checked as the SDKs check it.
//!
//! Owns: headers, signatures, statuses. Promises: an answer that comes out is whole and signed by who knows the key;
//! one request is on the way at a time, as SDKs do it. Must not: know what is asked, or try again.

use std::fmt;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{HOST, HeaderMap};
use hyper::{Method, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use prost::Message;
use tideline::wire::tablestore::Operation;
use tideline::wire::tablestore::proto;
use tideline::wire::tablestore::signature::{
    AUTHORIZATION, SignedHeaders, Signer, check_answer, request_headers,
};
use tokio::net::TcpStream;
use tokio::task::spawn_local;

use crate::frame::address;
use crate::machine::wall_micros;

/// Who asks, and whom.
#[derive(Clone, Debug, clap::Args)]
pub struct Account {
    /// Key ID that requests are signed with
    #[arg(long, default_value = "development")]
    pub key_id: String,
    /// Its secret
    #[arg(long, default_value = "development")]
    pub key_secret: String,
    /// Instance
    #[arg(long, default_value = "tideline")]
    pub instance: String,
}

/// Why there is no answer, or none that counts.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The connection ended, or speaks something else.
    Lost(String),
    /// The server refused.
    Refused {
        /// What SDKs switch on.
        code: String,
        /// What they show.
        message: String,
    },
    /// An answer that an SDK would not accept.
    Wrong(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Lost(text) => write!(out, "the connection was lost: {text}"),
            Trouble::Refused { code, message } => write!(out, "refused: {code}: {message}"),
            Trouble::Wrong(text) => write!(out, "an answer that is none: {text}"),
        }
    }
}

/// A connection.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    account: Account,
}

/// A request that is encoded and signed.
pub(super) struct Ready {
    request: hyper::Request<Full<Bytes>>,
    signer: Signer,
}

impl Connection {
    /// Connects to the server behind a `ws://` address; the listener is the same.
    pub(super) async fn open(url: &str, account: &Account) -> Result<Connection, Trouble> {
        let lost = |error: &dyn fmt::Display| Trouble::Lost(error.to_string());
        let uri: Uri = url.parse().map_err(|error| lost(&error))?;
        let host = address(&uri).ok_or_else(|| lost(&"not a ws:// address"))?;
        let stream = TcpStream::connect(&host)
            .await
            .map_err(|error| lost(&error))?;
        stream.set_nodelay(true).map_err(|error| lost(&error))?;
        let opened = handshake(TokioIo::new(stream)).await;
        let (sender, connection) = opened.map_err(|error| lost(&error))?;
        // Its errors come to whoever waits for an answer, too.
        spawn_local(connection);
        Ok(Connection {
            sender,
            host,
            account: account.clone(),
        })
    }

    /// Encodes and signs a request.
    pub(super) fn ready(
        &self,
        operation: Operation,
        message: &impl Message,
    ) -> Result<Ready, Trouble> {
        let Account {
            key_id,
            key_secret,
            instance,
        } = &self.account;
        let body = Bytes::from(message.encode_to_vec());
        let path = format!("/{}", operation.name());
        let signer = Signer::new(key_id, key_secret, &path);
        let mut request = hyper::Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(HOST, &self.host);
        for (name, value) in request_headers(&signer, instance, wall_micros() / 1_000, &body) {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body));
        let request = request.map_err(|error| Trouble::Wrong(error.to_string()))?;
        Ok(Ready { request, signer })
    }

    /// Sends it and waits for the whole answer, which is not checked yet.
    pub(super) async fn send(&mut self, ready: Ready) -> Result<Answer, Trouble> {
        let lost = |error: hyper::Error| Trouble::Lost(error.to_string());
        self.sender.ready().await.map_err(lost)?;
        let answer = self
            .sender
            .send_request(ready.request)
            .await
            .map_err(lost)?;
        let (head, body) = answer.into_parts();
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body: body.collect().await.map_err(lost)?.to_bytes(),
            signer: ready.signer,
        })
    }

    /// All of it, for what is not measured.
    pub(super) async fn call<A: Message + Default>(
        &mut self,
        operation: Operation,
        message: &impl Message,
    ) -> Result<A, Trouble> {
        let ready = self.ready(operation, message)?;
        self.send(ready).await?.read()
    }
}

/// An answer as it came.
pub(super) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    signer: Signer,
}

impl Answer {
    /// Whether it grants what was asked.
    pub(super) fn is_granted(&self) -> bool {
        self.status == StatusCode::OK
    }

    /// Checks digest and signature, and decodes it.
    pub(super) fn read<A: Message + Default>(self) -> Result<A, Trouble> {
        let wrong = |error: &dyn fmt::Display| Trouble::Wrong(error.to_string());
        if !self.is_granted() {
            let status = self.status;
            let error = proto::Error::decode(self.body);
            let error = error.map_err(|error| wrong(&format_args!("status {status}: {error}")))?;
            return Err(Trouble::Refused {
                message: error.message.unwrap_or_default(),
                code: error.code,
            });
        }
        let pairs = self.headers.iter();
        let pairs = pairs.map(|(name, value)| (name.as_str(), value.as_bytes()));
        let authorization = self.headers.get(AUTHORIZATION);
        let authorization = authorization.and_then(|value| value.to_str().ok());
        check_answer(
            &self.signer,
            &SignedHeaders::new(pairs),
            authorization.unwrap_or_default(),
            &self.body,
        )
        .map_err(|failure| wrong(&failure))?;
        A::decode(self.body).map_err(|error| wrong(&error))
    }
}
