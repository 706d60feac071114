//! Commands that ask a running server, by `POST /v1/rpc`, one call after the other.
//!
//! Owns: the calls, and what is printed of their answers. Promises: what a server refuses is told in its words. Must
//! not: open a data directory.

use std::io::Write;
use std::thread::sleep;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper::header::CONTENT_TYPE;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::store::Change;
use crate::wire::partition::{ChangeState, Listed};

/// A running server.
pub struct Remote {
    url: String,
    runtime: Runtime,
    http: Client<HttpConnector, Full<Bytes>>,
}

/// Why a call had no result, in a line.
pub type RemoteError = Box<dyn std::error::Error + Send + Sync>;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
const ANSWER_BYTES_MAX: usize = 64 << 20;

impl Remote {
    /// The server at a URL like `http://127.0.0.1:7070`.
    pub fn new(url: &str) -> Result<Remote, RemoteError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Remote {
            url: format!("{}/v1/rpc", url.trim_end_matches('/')),
            runtime,
            http: Client::builder(TokioExecutor::new()).build_http(),
        })
    }

    /// The result of a call.
    pub fn call(&self, method: &str, params: &Value) -> Result<Value, RemoteError> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = Request::post(&self.url)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.to_string())))?;
        let answered = async {
            let answer = self.http.request(request).await?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX);
            let body = body.collect().await?.to_bytes();
            match status.is_success() {
                true => Ok(serde_json::from_slice::<Value>(&body)?),
                false => Err(format!("{status}: {}", body.escape_ascii()).into()),
            }
        };
        let answered = async { timeout(PATIENCE, answered).await? };
        let mut answer = match self.runtime.block_on(answered) {
            Ok(answer) => answer,
            Err(error) => {
                let error: RemoteError = error;
                // The error itself tells only at which step it was.
                let cause = error.source().and_then(|error| error.source());
                let cause = cause.map_or_else(|| error.to_string(), ToString::to_string);
                return Err(format!("{}: {cause}", self.url).into());
            }
        };
        if let Some(error) = answer.get("error") {
            let reason = error["data"]["reason"].as_str().unwrap_or("refused");
            let message = error["message"].as_str().unwrap_or_default();
            return Err(format!("{reason}: {message}").into());
        }
        Ok(answer["result"].take())
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
