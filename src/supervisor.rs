//! What has started the server and waits for it: systemd, or another program that listens at `NOTIFY_SOCKET`.
//!
//! Owns: what it is told, and when: ready, stopping, and again and again that the server is alive. Promises: a
//! supervisor that cannot be told holds nothing up; the log says so, and the server serves. Must not: decide anything.

use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::interval;

/// Where the supervisor listens.
const SOCKET: &str = "NOTIFY_SOCKET";
/// After how many microseconds of silence it takes the server for dead.
const SILENCE: &str = "WATCHDOG_USEC";
/// Of which process it expects to hear so; absent = of any.
const PROCESS: &str = "WATCHDOG_PID";

/// The supervisor, if there is one.
pub struct Supervisor {
    socket: Option<UnixDatagram>,
    silence_max: Option<Duration>,
}

impl Supervisor {
    /// The one that the environment names. One that can't be reached is as good as none, and the log says so.
    #[must_use]
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Supervisor {
        let socket = variable(SOCKET).and_then(|address| match connect(&address) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!(address, %error, "{SOCKET} cannot be used: nobody is told when the server is ready");
                None
            }
        });
        let silence_max = variable(SILENCE).and_then(|text| match text.parse() {
            Ok(0) => None,
            Ok(micros) => Some(Duration::from_micros(micros)),
            Err(_) => {
                tracing::warn!(
                    text,
                    "{SILENCE} is no number of microseconds: it is ignored"
                );
                None
            }
        });
        let is_us = |process: String| process == std::process::id().to_string();
        Supervisor {
            silence_max: silence_max.filter(|_| variable(PROCESS).is_none_or(is_us)),
            socket,
        }
    }

    /// The server serves. If the supervisor wants to, it hears from now on that the server is alive, as long as the
    /// runtime turns: also while the server stops.
    pub fn ready(self: &Arc<Supervisor>) {
        self.tell("READY=1");
        let Some(silence_max) = self.silence_max else {
            return;
        };
        let supervisor = Arc::clone(self);
        tokio::spawn(async move {
            let mut turns = interval((silence_max / 3).max(Duration::from_millis(1)));
            loop {
                turns.tick().await;
                supervisor.tell("WATCHDOG=1");
            }
        });
    }

    /// The server takes nothing new any more.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    fn tell(&self, what: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(error) = socket.send(what.as_bytes()) {
            tracing::warn!(%error, what, "the supervisor could not be told");
        }
    }
}

fn connect(address: &str) -> io::Result<UnixDatagram> {
    let address = match address.as_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(address)?,
        [b'@', name @ ..] => named(name)?,
        _ => {
            let why = "neither a path from / nor a name after @";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect_addr(&address)?;
    Ok(socket)
}

/// An address without a file.
#[cfg(target_os = "linux")]
fn named(name: &[u8]) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt as _;
    SocketAddr::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn named(_name: &[u8]) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}
