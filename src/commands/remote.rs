//! Commands that ask a running server, by `POST /v1/rpc`, one call after the other.
//!
//! Owns: the calls, and what is printed of their answers. Promises: a server's refusal is printed in its words; the
//! caller's own key is taken from the environment, never from an argument, which others see, and is in no error. Must
//! not: open a data directory.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::address::Address;
use crate::store::Change;
use crate::tls;
use crate::wire::server::partition::{ChangeState, Listed};

/// Which running server is asked.
#[derive(Debug, Args)]
pub struct RunningServer {
    /// The running server, as in http://127.0.0.1:7070; then no data directory is named. With [auth] an administrator's
    /// key must be in TIDELINE_KEY.
    #[arg(long, visible_alias = "server", value_name = "URL", global = true)]
    #[arg(value_parser = Address::parse)]
    pub url: Option<Address>,
    /// Authorities, in PEM, whose certificates the server may have, instead of the system's.
    #[arg(long, value_name = "FILE", global = true)]
    pub ca_file: Option<PathBuf>,
}

/// Where calls go, and what they show.
pub struct Endpoint {
    url: String,
    key: Option<HeaderValue>,
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// A running server, for commands that wait for each answer.
pub struct Remote {
    endpoint: Endpoint,
    runtime: Runtime,
}

/// Why a call had no result, in a line.
pub type RemoteError = Box<dyn std::error::Error + Send + Sync>;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Where the caller's key is taken from.
const KEY: &str = "TIDELINE_KEY";

impl Endpoint {
    /// A server, with the key in the environment, if there is one.
    pub fn new(at: &Address, authorities: Option<&Path>) -> Result<Endpoint, RemoteError> {
        // Without TLS there is no certificate to check, so no authorities are needed.
        let tls = match at.secure {
            true => tls::client(authorities)?,
            false => tls::client_of_nobody(),
        };
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls);
        let connector = connector.https_or_http().enable_http1().build();
        let key = std::env::var(KEY).ok().map(|key| {
            let mut header = HeaderValue::from_str(&format!("Bearer {}", key.trim()))
                .map_err(|_| format!("what {KEY} holds is no key"))?;
            header.set_sensitive(true);
            Ok::<_, String>(header)
        });
        Ok(Endpoint {
            url: at.rpc.clone(),
            key: key.transpose()?,
            http: Client::builder(TokioExecutor::new()).build(connector),
        })
    }

    /// The result of a call.
    pub async fn ask(&self, method: &str, params: &Value) -> Result<Value, RemoteError> {
        let answered = timeout(PATIENCE, self.answer(method, params)).await;
        let answered = answered
            .map_err(RemoteError::from)
            .and_then(|answer| answer);
        let mut answer = answered.map_err(|error| {
            // The error itself tells only at which step it was.
            let cause = error.source().and_then(|error| error.source());
            let cause = cause.map_or_else(|| error.to_string(), ToString::to_string);
            format!("{}: {cause}", self.url)
        })?;
        if let Some(error) = answer.get("error") {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (reason, message) = (text(&error["data"]["reason"]), text(&error["message"]));
            let field = text(&error["data"]["field"]);
            return Err(format!("{method} {field}: {reason}: {message}").into());
        }
        Ok(answer["result"].take())
    }

    async fn answer(&self, method: &str, params: &Value) -> Result<Value, RemoteError> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut request = Request::post(&self.url)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.to_string())))?;
        if let Some(key) = &self.key {
            request.headers_mut().insert(AUTHORIZATION, key.clone());
        }
        let answer = self.http.request(request).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX);
        let body = body.collect().await?.to_bytes();
        // A refusal of the request as a whole has an error in its body, too.
        match serde_json::from_slice::<Value>(&body) {
            Ok(answer) if status.is_success() || answer.get("error").is_some() => Ok(answer),
            _ => Err(format!("{status}: {}", body.escape_ascii()).into()),
        }
    }
}

impl Remote {
    /// The server that the arguments name.
    pub fn new(at: &Address, authorities: Option<&Path>) -> Result<Remote, RemoteError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Remote {
            endpoint: Endpoint::new(at, authorities)?,
            runtime,
        })
    }

    /// The result of a call.
    pub fn call(&self, method: &str, params: &Value) -> Result<Value, RemoteError> {
        self.runtime.block_on(self.endpoint.ask(method, params))
    }
}

/// Prints a running server's partitions, and the last change of them.
pub fn list_served(server: &Remote, out: &mut dyn Write) -> Result<(), RemoteError> {
    let listed = listed(server)?;
    for one in &listed.partitions {
        let number = one.partition;
        write!(
            out,
            "partition {number}: hashes {} to {}",
            one.first, one.last
        )?;
        write!(out, ", log from {}", one.begins)?;
        if let Some(ends) = one.ends {
            write!(out, " to {ends}, ended")?;
        }
        let parents: Vec<String> = one.parents.iter().map(ToString::to_string).collect();
        if !parents.is_empty() {
            write!(out, ", from {}", parents.join(" and "))?;
        }
        writeln!(
            out,
            "; log {} bytes, rows {} bytes",
            one.log_bytes, one.bytes
        )?;
    }
    if let Some(change) = &listed.change {
        let of: Vec<String> = change.partitions.iter().map(ToString::to_string).collect();
        let state = format!("{:?}", change.state).to_lowercase();
        write!(out, "last change: of {}, {state}", of.join(" and "))?;
        if let Some(pause_ms) = change.pause_ms {
            write!(out, ", calls waited for {pause_ms} ms")?;
        }
        if let Some(error) = &change.error {
            write!(out, ": {error}")?;
        }
        writeln!(out)?;
    }
    Ok(out.flush()?)
}

/// Has a running server change its partitions, and waits until it is done.
pub fn change_served(
    server: &Remote,
    change: Change,
    out: &mut dyn Write,
) -> Result<(), RemoteError> {
    match change {
        Change::Split(id) => server.call("partition.split", &json!({"partition": id}))?,
        Change::Merge(one, other) => {
            server.call("partition.merge", &json!({"partition": one, "with": other}))?
        }
    };
    loop {
        let change = listed(server)?.change;
        match change.as_ref().map(|change| change.state) {
            Some(ChangeState::Copying | ChangeState::CatchingUp | ChangeState::Cutting) => {
                sleep(LOOK_EVERY);
            }
            Some(ChangeState::Done) => return list_served(server, out),
            Some(ChangeState::Failed) => {
                let error = change.and_then(|change| change.error);
                return Err(error.unwrap_or_default().into());
            }
            None => return Err("the server was started anew meanwhile".into()),
        }
    }
}

fn listed(server: &Remote) -> Result<Listed, RemoteError> {
    Ok(serde_json::from_value(
        server.call("partition.list", &json!({}))?,
    )?)
}

/// How often it is looked how far a change is.
const LOOK_EVERY: Duration = Duration::from_millis(200);
