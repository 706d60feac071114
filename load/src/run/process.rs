//! A server process that the tool starts, kills and starts again.
//!
//! Owns: the child. Promises: it is dead when its handle is dropped. Must not: touch processes that it did not start.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::watch::page;
use crate::exit::Stop;

/// How long a server may take until it is ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// How to start the server.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The server's binary.
    pub binary: PathBuf,
    /// Its data directory.
    pub data: PathBuf,
    /// Where it listens; the same after each restart.
    pub address: SocketAddr,
    /// Environment on top of ours.
    pub environment: Vec<(String, String)>,
}

/// A running server. Dropping it is SIGKILL, and waits until it is gone.
pub struct Server(pub Child);

impl Launch {
    /// A launch on a free port of the loopback.
    pub fn on_free_port(binary: &Path, data: &Path) -> Result<Launch, Stop> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        Ok(Launch {
            binary: binary.to_owned(),
            data: data.to_owned(),
            address: free.map_err(|error| Stop::Own(format!("no free port: {error}")))?,
            environment: Vec::new(),
        })
    }

    /// The address to connect to.
    pub fn url(&self) -> String {
        format!("ws://{}/v1/connect", self.address)
    }

    /// Where the server's log goes: a pipe that nobody reads would stop it.
    pub fn log_path(&self) -> PathBuf {
        self.data.with_extension("server.log")
    }

    /// Starts the server and waits until it is ready.
    pub async fn start(&self) -> Result<Server, Stop> {
        let failed = |path: &Path, error| Stop::Own(format!("{}: {error}", path.display()));
        let log_path = self.log_path();
        let log = File::options().create(true).append(true).open(&log_path);
        let child = Command::new(&self.binary)
            .args(["serve", "--listen", &self.address.to_string(), "--data"])
            .arg(&self.data)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.map_err(|error| failed(&log_path, error))?)
            .spawn();
        let mut server = Server(child.map_err(|error| failed(&self.binary, error))?);
        let began = Instant::now();
        while !matches!(page(&self.url(), "/readyz").await, Ok((200, _))) {
            let log = log_path.display();
            if let Ok(Some(status)) = server.0.try_wait() {
                let what = format!("the server ended with {status}; its log: {log}");
                return Err(Stop::Unreachable(what));
            }
            if began.elapsed() > PATIENCE {
                let what = format!("the server was not ready within {PATIENCE:?}; its log: {log}");
                return Err(Stop::Unreachable(what));
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Errors mean that it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
