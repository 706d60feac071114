//! The first administrator's key of a running server, by a Unix socket in its data directory.
//!
//! Owns: the socket, and which call it takes. Promises: it is there only while no key may administer, for ten minutes
//! from the start or a SIGHUP; only the server's own user and root are answered, as the system says who they are; it
//! makes one key, by the same way as any other `key.create`; each try is in the audit log. Must not: give a right that
//! its callers lack: who owns the directory could stop the server and make a key there.

use std::fs::{Permissions, remove_file, set_permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

use super::super::Shared;
use super::super::dispatch::Caller;
use super::super::session::batch;
use super::door::Door;
use tideline_base::faults;
use tideline_model::access::{Claim, GrantText, Grants, GrantsFrom, Identity, Right, Who};
use tideline_wire::jsonrpc::JSON;
use tideline_wire::server::key::Create;
use tideline_wire::{Call, Dialect, Failure, Id, Incoming, Reason, Request};

/// The socket's name in the data directory.
pub const BOOTSTRAP_SOCKET: &str = "bootstrap.sock";

/// The file of the socket while it is open.
struct Open<'p> {
    path: &'p Path,
    listener: UnixListener,
}

impl Open<'_> {
    fn new(path: &Path) -> io::Result<Open<'_>> {
        // That of a server that was killed: the directory is locked, so nobody else listens there.
        match remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        let open = Open { path, listener };
        set_permissions(path, Permissions::from_mode(0o600))?;
        Ok(open)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        // Best effort: one that stays refuses connections, and the next start removes it.
        let _ = remove_file(self.path);
    }
}

/// Opens the socket now, and each time that `wake` says so, while no key may administer.
pub(in super::super) async fn run(path: PathBuf, wake: Arc<Notify>, shared: Arc<Shared>) {
    let Some(door) = &shared.door else { return };
    loop {
        if !has_administrator(door) {
            match Open::new(&path) {
                Ok(open) => serve(open, door, &shared, &wake).await,
                Err(error) => {
                    tracing::warn!(%error, path = %path.display(), "no socket for `tideline key create --bootstrap`");
                }
            }
        }
        wake.notified().await;
    }
}

fn has_administrator(door: &Door) -> bool {
    let keys = door.authority.keys();
    keys.iter()
        .any(|key| key.rights.on_everything().has(Right::Admin))
}

/// Serves one client after the other, until there is a key or the time is over.
async fn serve(open: Open<'_>, door: &Door, shared: &Arc<Shared>, wake: &Notify) {
    let time = open_time();
    let (path, seconds) = (open.path.display(), time.as_secs());
    tracing::info!(%path, seconds, "no key may administer: `tideline key create NAME --bootstrap` makes one");
    let mut until = Instant::now() + time;
    while !has_administrator(door) {
        let accepted = tokio::select! {
            () = wake.notified() => {
                until = Instant::now() + time;
                continue;
            }
            accepted = timeout_at(until, open.listener.accept()) => accepted,
        };
        match accepted {
            Ok(Ok((client, _))) => drop(timeout(CLIENT_TIME, talk(client, door, shared)).await),
            Ok(Err(error)) => {
                tracing::warn!(%error, %path, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            Err(_) => {
                tracing::info!(%path, "the time for --bootstrap is over; SIGHUP gives it anew");
                return;
            }
        }
    }
}

/// A line in, a line out.
async fn talk(client: UnixStream, door: &Door, shared: &Arc<Shared>) -> io::Result<()> {
    let user = client.peer_cred()?.uid();
    let mut client = BufReader::new(client);
    let mut line = Vec::new();
    (&mut client)
        .take(LINE_BYTES_MAX)
        .read_until(b'\n', &mut line)
        .await?;
    let answer = match called(&line, user, door, shared) {
        Ok(call) => {
            let mut caller = Caller::default();
            caller.claimed(claim(user, door));
            let (done, _) = batch::run(shared, &mut caller, Incoming::One(call), &JSON).await;
            done.unwrap_or_default()
        }
        Err(failure) => refusal(&failure),
    };
    let mut client = client.into_inner();
    client.write_all(&answer).await?;
    client.write_all(b"\n").await
}

/// The call of a line, if this user may make it here.
fn called(line: &[u8], user: u32, door: &Door, shared: &Shared) -> Result<Call, Failure> {
    if user != 0 && user != rustix::process::geteuid().as_raw() {
        let (who, outcome) = (format!("$bootstrap uid {user}"), Reason::Forbidden.name());
        if let Some(left_out) = door.audits(&who, false) {
            tracing::info!(target: "audit", who, method = "key.create", outcome, left_out);
        }
        let failure = Failure::new(Reason::Forbidden);
        return Err(failure.saying("only the server's own user and root may do this"));
    }
    match JSON.decode(line, &shared.options.limits)? {
        Incoming::One(call) => match &call.request {
            Ok(Request::KeyCreate(create)) if !administers(create) => {
                Err(Failure::invalid("rights", "must have admin on *"))
            }
            Ok(Request::KeyCreate(_)) | Err(_) => Ok(call),
            Ok(_) => Err(Failure::new(Reason::Forbidden).saying("only key.create is for here")),
        },
        Incoming::Several(_) | Incoming::Batch(..) => Err(Reason::InvalidRequest.into()),
    }
}

fn administers(create: &Create) -> bool {
    let is_admin = |allow: &String| allow == Right::Admin.name();
    let mut grants = create.rights.iter();
    grants.any(|grant| grant.on == "*" && grant.allow.iter().any(is_admin))
}

/// What the audit log knows the caller by, and the right that its call needs.
fn claim(user: u32, door: &Door) -> Arc<Claim> {
    let all = GrantText {
        on: "*".to_owned(),
        allow: vec![Right::Admin.name().to_owned()],
    };
    door.claim_of(Identity {
        who: Who::Key {
            id: format!("uid {user}").into(),
            name: "bootstrap".into(),
        },
        for_user: None,
        grants: Arc::new(Grants::parse(&[all], GrantsFrom::Key).unwrap_or_default()),
    })
}

fn refusal(failure: &Failure) -> Bytes {
    let dialect: &dyn Dialect = &JSON;
    dialect.encode(&Id::Null, Err(failure))
}

/// Long enough for a person at a terminal, or a script of a first start.
fn open_time() -> Duration {
    let mut named = faults::named().iter();
    let shorter = named.find(|one| one.name == "bootstrap_ms");
    shorter.map_or(OPEN_TIME, |one| {
        let ms = one.countdown.load(std::sync::atomic::Ordering::Relaxed);
        Duration::from_millis(ms.into())
    })
}

const OPEN_TIME: Duration = Duration::from_secs(600);
/// For one client; others wait.
const CLIENT_TIME: Duration = Duration::from_secs(5);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Of a call: a key has a name and a few rights.
const LINE_BYTES_MAX: u64 = 64 << 10;
