//! A server process that the tool starts, kills and starts again.
//!
//! Owns: the child. Promises: it is dead when its handle is dropped. Must not: touch processes that it did not start.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::exit::Stop;

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
    /// How long it may take until it is ready.
    pub patience: Duration,
}

/// A running server.
pub struct Server {
    child: Child,
    launch: Launch,
}

impl Launch {
    /// A launch on a free port of the loopback.
    pub fn on_free_port(binary: &Path, data: &Path) -> Result<Launch, Stop> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.map_err(|error| Stop::Own(format!("no free port: {error}")))?;
        Ok(Launch {
            binary: binary.to_owned(),
            data: data.to_owned(),
            address,
            environment: Vec::new(),
            patience: Duration::from_secs(30),
        })
    }

    /// The address to connect to.
    #[must_use]
    pub fn url(&self) -> String {
        format!("ws://{}/v1/connect", self.address)
    }

    /// Starts the server and waits until it is ready. Blocks.
    pub fn start(&self) -> Result<Server, Stop> {
        // What the server says goes to a file beside its data: a pipe that nobody reads would stop it.
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path())
            .map_err(|error| Stop::Own(format!("{}: {error}", self.log_path().display())))?;
        let child = Command::new(&self.binary)
            .args(["serve", "--listen", &self.address.to_string(), "--data"])
            .arg(&self.data)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| Stop::Own(format!("{}: {error}", self.binary.display())))?;
        let launch = self.clone();
        let mut server = Server { child, launch };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Where the server's log goes.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.data.with_extension("server.log")
    }
}

impl Server {
    /// Its process ID.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, and waits until it is gone, as dropping it does.
    pub fn kill(self) {
        drop(self);
    }

    fn wait_until_ready(&mut self) -> Result<(), Stop> {
        let began = Instant::now();
        while began.elapsed() < self.launch.patience {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(Stop::Unreachable(format!(
                    "the server ended with {status}; its log: {}",
                    self.launch.log_path().display()
                )));
            }
            if ready(self.launch.address) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let patience = self.launch.patience;
        Err(Stop::Unreachable(format!(
            "the server was not ready within {patience:?}"
        )))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Errors mean that it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether `/readyz` says 200.
fn ready(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(
            stream,
            "GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        )?;
        let mut start = [0; 12];
        stream.read_exact(&mut start)?;
        Ok(start.ends_with(b"200"))
    };
    ask().unwrap_or(false)
}
