//! Commands that ask a running server, one call after the other, in a session of the kind that `talk` opens.
//!
//! Owns: the calls, and what is printed of their answers. Promises: a server's refusal is printed in its words. Must
//! not: open a data directory.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::address::Address;
use super::talk::{At, Failure, Session};
use crate::data_directory::about;
use crate::reshape::Asked;
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

impl RunningServer {
    /// A session with the server, if one is named.
    pub async fn open(&self) -> Result<Option<Remote>, RemoteError> {
        let Some(url) = self.url.clone() else {
            return Ok(None);
        };
        let at = At {
            url,
            user: None,
            ca_file: self.ca_file.clone(),
        };
        let opened = Session::open(&at).await;
        let session = opened.map_err(|failure| told("session.open", &failure))?;
        Ok(Some(Remote { session }))
    }
}

/// A running server.
pub struct Remote {
    session: Session,
}

/// Why a call had no result, in a line.
pub type RemoteError = Box<dyn std::error::Error + Send + Sync>;

fn told(method: &str, failure: &Failure) -> RemoteError {
    match failure {
        Failure::Refused(refusal) => refusal.of(method).into(),
        other => other.line().unwrap_or_default().into(),
    }
}

impl Remote {
    /// The result of a call.
    pub async fn call<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: Value,
    ) -> Result<R, RemoteError> {
        let result = self.session.call(method, params).await;
        let result = result.map_err(|failure| told(method, &failure))?;
        Ok(serde_json::from_str(result.get())?)
    }
}

/// Prints a running server's partitions, and the last change of them.
pub async fn list_served(server: &mut Remote, out: &mut dyn Write) -> Result<(), RemoteError> {
    let listed = listed(server).await?;
    for one in &listed.partitions {
        let hashes = (&one.first, &one.last);
        let about = about(
            &one.partition,
            hashes,
            (&one.begins, one.ends),
            &one.parents,
        );
        let (log, rows) = (one.log_bytes, one.bytes);
        writeln!(out, "{about}; log {log} bytes, rows {rows} bytes")?;
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
pub async fn change_served(
    server: &mut Remote,
    change: Asked,
    out: &mut dyn Write,
) -> Result<(), RemoteError> {
    let (method, params, of) = match change {
        Asked::Split(id) => ("partition.split", json!({"partition": id.0}), vec![id.0]),
        Asked::Merge(one, other) => (
            "partition.merge",
            json!({"partition": one.0, "with": other.0}),
            vec![one.0, other.0],
        ),
    };
    server.call::<IgnoredAny>(method, params).await?;
    let mut since = None;
    loop {
        let Some(now) = listed(server).await?.change else {
            return Err("the server was started anew meanwhile".into());
        };
        // The server knows the last one only.
        if now.partitions != of || *since.get_or_insert(now.since) != now.since {
            return Err(
                "another change of the partitions has begun before it was seen what came of this one: see what \
                 `tideline partition list` prints"
                    .into(),
            );
        }
        match now.state {
            ChangeState::Copying | ChangeState::CatchingUp | ChangeState::Cutting => {
                sleep(LOOK_EVERY).await;
            }
            ChangeState::Done => return list_served(server, out).await,
            ChangeState::Failed => return Err(now.error.unwrap_or_default().into()),
        }
    }
}

async fn listed(server: &mut Remote) -> Result<Listed, RemoteError> {
    server.call("partition.list", json!({})).await
}

/// How often it is looked how far a change is.
const LOOK_EVERY: Duration = Duration::from_millis(200);
