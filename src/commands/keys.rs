//! `tideline key create|list|revoke`: API keys, of a directory that no server uses or of a running server.
//! `--bootstrap` makes the first one of a running server.
//!
//! Owns: the arguments and what is printed. Promises: a key is printed once, when it is made, and on standard output
//! alone. Must not: know how a key is stored.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use super::remote::{Remote, RunningServer};
use super::talk::Refusal;
use crate::access::{GrantText, Grants, GrantsFrom};
use crate::clock::Clock;
use crate::config::Config;
use crate::credentials::{ApiKey, NewKey, StoredCredentials};
use crate::data_directory::Store;
use crate::gateway::BOOTSTRAP_SOCKET;
use crate::metrics::Metrics;
use crate::partition::{OpenError, directory_map};

/// What is to be done.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a key and print it, once.
    Create(CreateKey),
    /// Print all keys, without their secrets.
    List,
    /// Take a key back.
    Revoke {
        /// Its ID, as `list` prints it.
        id: String,
    },
}

/// What is asked of a new key.
#[derive(Debug, Args)]
pub struct CreateKey {
    /// Its name: 1 to 64 letters, digits, '.', '_' and '-'. Several keys may share one.
    name: String,
    /// What it may do, like 'room/*=read,append' or '*=admin'.
    #[arg(long, value_name = "NAMES=RIGHTS")]
    allow: Vec<String>,
    /// Make the first administrator's key of the running server that uses the data directory, as its user or as root:
    /// within ten minutes of its start or a SIGHUP, while no key may administer [default of --allow: '*=admin'].
    #[arg(long)]
    bootstrap: bool,
    /// A user that it may act for, or a prefix of users and *.
    #[arg(long, value_name = "USERS")]
    act_as: Vec<String>,
    /// Tablestore's requests are signed with it; its secret is kept.
    #[arg(long)]
    signing: bool,
    /// It counts only on connections whose client certificate has this name.
    #[arg(long, value_name = "DNS-NAME")]
    certificate: Option<String>,
}

/// Where the keys are.
#[derive(Debug, Args)]
pub struct KeyPlace {
    #[command(flatten)]
    server: RunningServer,
    /// The data directory [default: ./data].
    #[arg(long, value_name = "DIR", global = true)]
    pub data: Option<PathBuf>,
}

/// Why nothing was done; one line for the operator.
#[derive(Debug)]
pub struct KeyFailure(String);

impl fmt::Display for KeyFailure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for KeyFailure {}

impl From<io::Error> for KeyFailure {
    fn from(error: io::Error) -> KeyFailure {
        wrong(error)
    }
}

fn wrong(why: impl fmt::Display) -> KeyFailure {
    KeyFailure(why.to_string())
}

/// Does it.
pub async fn keys(
    config: &Config,
    place: &KeyPlace,
    what: KeyCommand,
    out: &mut (dyn Write + Send),
) -> Result<(), KeyFailure> {
    // What makes no sense is refused before anybody is asked.
    if let KeyCommand::Create(create) = &what {
        create.rights()?;
        if create.bootstrap {
            if place.server.url.is_some() {
                return Err(wrong(
                    "--bootstrap is for the server of a data directory, without --url",
                ));
            }
            let key = by_socket(&config.data.join(BOOTSTRAP_SOCKET), create).await?;
            return Ok(writeln!(out, "{key}")?);
        }
    }
    let lines = match place.server.open().await.map_err(wrong)? {
        Some(mut server) => by_call(&mut server, &what).await?,
        None => by_directory(config, &what).await?,
    };
    Ok(lines.iter().try_for_each(|line| writeln!(out, "{line}"))?)
}

/// The line of a key that was taken back, if there was one.
fn revoked(id: &str, was_there: bool) -> Result<Vec<String>, KeyFailure> {
    match was_there {
        true => Ok(vec![format!("revoked {id}")]),
        false => Err(wrong(format_args!("there is no key {id:?}"))),
    }
}

/// Returns the key that a server's socket has made.
async fn by_socket(path: &Path, create: &CreateKey) -> Result<String, KeyFailure> {
    let path_shown = path.display();
    let client = UnixStream::connect(path).await.map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => NOT_OPEN,
            io::ErrorKind::PermissionDenied => "this is for the server's own user and root",
            _ => "the socket can't be used",
        };
        wrong(format_args!("{path_shown}: {why} ({error})"))
    })?;
    let mut client = BufReader::new(client);
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "key.create", "params": create.params()?});
    let mut answer = String::new();
    client.write_all(format!("{call}\n").as_bytes()).await?;
    client.read_line(&mut answer).await?;
    let answer: Value = serde_json::from_str(&answer)
        .map_err(|_| wrong(format_args!("{path_shown}: no answer: {NOT_OPEN}")))?;
    if let Ok(refusal) = serde_json::from_value::<Refusal>(answer["error"].clone()) {
        return Err(wrong(refusal.of("key.create")));
    }
    made(&answer["result"])
}

/// Why a server has no socket, and what to do.
const NOT_OPEN: &str = "no server with [auth] waits here for its first key: it is not running, it has an \
     administrator's key, or it was started more than ten minutes ago (then send it a SIGHUP)";

/// The key in the result of `key.create`.
fn made(result: &Value) -> Result<String, KeyFailure> {
    let key = result["key"].as_str().map(str::to_owned);
    key.ok_or_else(|| wrong("not a server of keys"))
}

/// Returns the lines to print.
async fn by_directory(config: &Config, what: &KeyCommand) -> Result<Vec<String>, KeyFailure> {
    let new = match what {
        KeyCommand::Create(create) => Some(create.asked()?),
        KeyCommand::List | KeyCommand::Revoke { .. } => {
            // Only the first key makes a directory.
            if directory_map(&config.data).map_err(wrong)?.is_none() {
                let path = config.data.clone();
                return Err(wrong(OpenError::NothingThere { path }));
            }
            None
        }
    };
    let (metrics, clock) = (Arc::new(Metrics::default()), Arc::new(Clock::system()));
    let store = Store::open(config, &Arc::default(), &metrics, &clock)
        .await
        .map_err(wrong)?;
    let stored = StoredCredentials::new(store.partitions.clone(), &config.data, None);
    let done = in_store(&stored, what, new, clock.now_ms()).await;
    drop((store.timelines, store.tables, stored));
    store.partitions.close().await;
    done
}

async fn in_store(
    stored: &StoredCredentials,
    what: &KeyCommand,
    new: Option<NewKey>,
    now_ms: u64,
) -> Result<Vec<String>, KeyFailure> {
    if let KeyCommand::Revoke { id } = what {
        return revoked(id, stored.remove(id).await.map_err(wrong)?);
    }
    if let Some(new) = new {
        let made = new.make(now_ms);
        let (key, secret) =
            made.map_err(|refused| wrong(format_args!("{}: {}", refused.field, refused.why)))?;
        stored.add(&key).await.map_err(wrong)?;
        return Ok(vec![secret.key(&key.id)]);
    }
    let mut keys = stored.keys().await.map_err(wrong)?;
    keys.sort_unstable_by_key(|key| key.created_at);
    Ok(keys.iter().map(|key| shown(key).to_string()).collect())
}

/// A key as `key.list` returns it.
fn shown(key: &ApiKey) -> Value {
    let act_as: Vec<&str> = key.act_as.iter().map(|pattern| pattern.text()).collect();
    let mut shown = json!({
        "id": &*key.id,
        "name": &*key.name,
        "rights": key.rights.to_texts(),
        "act_as": act_as,
        "signing": key.signing,
        "created_at": key.created_at,
    });
    if let Some(name) = &key.certificate {
        shown["certificate"] = json!(name);
    }
    shown
}

impl CreateKey {
    fn rights(&self) -> Result<Vec<GrantText>, KeyFailure> {
        let everything = ["*=admin".to_owned()];
        let allow = match self.bootstrap && self.allow.is_empty() {
            true => &everything[..],
            false => &self.allow[..],
        };
        let texts = allow.iter().map(|text| {
            GrantText::from_text(text)
                .map_err(|error| wrong(format_args!("--allow {text:?}: {error}")))
        });
        texts.collect()
    }

    /// As `key.create` takes it.
    fn params(&self) -> Result<Value, KeyFailure> {
        let mut params = json!({
            "name": &self.name,
            "rights": self.rights()?,
            "act_as": &self.act_as,
            "signing": self.signing,
        });
        if let Some(name) = &self.certificate {
            params["certificate"] = json!(name);
        }
        Ok(params)
    }

    fn asked(&self) -> Result<NewKey, KeyFailure> {
        let rights = Grants::parse(&self.rights()?, GrantsFrom::Key);
        Ok(NewKey {
            name: self.name.clone(),
            rights: rights.map_err(|error| wrong(format_args!("--allow: {error}")))?,
            act_as: self.act_as.clone(),
            signing: self.signing,
            certificate: self.certificate.clone(),
        })
    }
}

/// Returns the lines to print.
async fn by_call(server: &mut Remote, what: &KeyCommand) -> Result<Vec<String>, KeyFailure> {
    let mut ask = async |method: &str, params: Value| -> Result<Value, KeyFailure> {
        server.call(method, params).await.map_err(wrong)
    };
    Ok(match what {
        KeyCommand::Create(create) => {
            vec![made(&ask("key.create", create.params()?).await?)?]
        }
        KeyCommand::List => match ask("key.list", json!({})).await?["keys"].take() {
            Value::Array(keys) => keys.iter().map(Value::to_string).collect(),
            _ => Vec::new(),
        },
        KeyCommand::Revoke { id } => {
            let answer = ask("key.revoke", json!({ "id": id })).await?;
            revoked(id, answer["revoked"] == true)?
        }
    })
}
