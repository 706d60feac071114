//! The load tool against a server that asks who it is: what deciding costs, with small numbers.
//!
//! Owns: the proof that the tool shows its credential and notices what it promises to. Must not: assert on time.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Parser;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tideline_load::cli::Cli;
use tideline_load::exit::Verdict;
use tideline_load::outcome::Outcome;

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const BINARY: &str = env!("CARGO_BIN_EXE_tideline");
const ALL: &str = r#"["read", "append", "create"]"#;

/// A server with `[auth]` under whose rules everybody with a token may do all in `a/` and `b/`.
struct House {
    folder: tempfile::TempDir,
    server: Option<Child>,
    url: String,
    admin: String,
}

impl Drop for House {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            // Errors mean that it is gone already.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// Settings, with these rights in `a/`.
fn settings(secret: &Path, rights: &str) -> String {
    let secret = secret.display();
    format!(
        "[auth]\nhs256_secret_files = ['{secret}']\n[[policy]]\nprefix = 'a/'\nothers = {rights}\n\
         [[policy]]\nprefix = 'b/'\nothers = {ALL}\n"
    )
}

impl House {
    fn start() -> House {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let secret = folder.path().join("main.key");
        fs::write(&secret, SECRET).expect("written");
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("its mode");
        for (name, rights) in [("with.toml", ALL), ("without.toml", "[]")] {
            fs::write(folder.path().join(name), settings(&secret, rights)).expect("written");
        }
        let probe = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = probe.local_addr().expect("an address");
        drop(probe);
        let mut house = House {
            folder,
            server: None,
            url: format!("ws://{address}/v1/connect"),
            admin: String::new(),
        };
        let mut create = Command::new(BINARY);
        create.args(["key", "create", "load", "--act-as", "*"]);
        create.args(["--allow", "*=admin", "--data"]);
        let made = create.arg(house.path("data")).output().expect("a key");
        let key = String::from_utf8(made.stdout).expect("text");
        key.trim().clone_into(&mut house.admin);
        let mut serve = Command::new(BINARY);
        serve.args(["serve", "--listen", &address.to_string(), "--config"]);
        serve.arg(house.path("with.toml")).arg("--data");
        let server = serve.arg(house.path("data")).spawn();
        house.server = Some(server.expect("a server"));
        while TcpStream::connect(address).is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
        house
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the tool with a line of words and this credential.
    fn run(&self, line: &str, credential: &str) -> (Verdict, Outcome) {
        let json = self.path("result.json").display().to_string();
        let pid = self.server.as_ref().map(Child::id).unwrap_or_default();
        let flags = format!(
            "--quiet --warm-up 0.1 --seconds 0.5 --url {} --pid {pid} --json {json}",
            self.url
        );
        let words = line.split(' ').chain(flags.split(' '));
        let all = std::iter::once("tideline-load").chain(words);
        let all = all.chain(["--credential", credential]);
        let verdict = Cli::parse_from(all).command.run().expect("a run");
        let outcome = Outcome::load(json.as_ref()).expect("a result");
        let result = fs::read_to_string(&json).expect("a result");
        assert!(!result.contains(credential), "a credential in a result");
        (verdict, outcome)
    }
}

/// A token without rights of its own.
fn token(user: &str) -> String {
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let end = now.expect("after 1970").as_secs() + 3_600;
    let claims = format!(r#"{{"sub":"{user}","exp":{end}}}"#);
    let header = br#"{"alg":"HS256","kid":"main"}"#;
    let text = format!("{}.{}", encode(header), encode(claims.as_bytes()));
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("any length");
    mac.update(text.as_bytes());
    format!("{text}.{}", encode(&mac.finalize().into_bytes()))
}

#[test]
fn the_tool_shows_its_credential() {
    let house = House::start();
    for line in [
        "room --subscribers 2 --timelines 30 --in-flight 8",
        "connect --connections 20 --rate 500 --addresses 7 --hold-seconds 0.1",
        "append --users 2 --rate 50 --timelines 10 --prefix h/ --preload 20 --preload-timelines 20",
    ] {
        let (verdict, outcome) = house.run(line, &house.admin);
        assert!(verdict <= Verdict::Invalid, "{:#?}", outcome.checks);
        assert!(!outcome.metrics.is_empty(), "{line}: /metrics");
    }
    // Timelines that ann may not read are as those that are not there.
    let hidden = "access-bench hidden --prefix h/ --timelines 20 --calls 50";
    let (verdict, outcome) = house.run(hidden, &token("ann"));
    assert!(verdict <= Verdict::Invalid, "{:#?}", outcome.checks);
    assert!(outcome.figures.contains_key("hidden_per_missing"));
    // The control: from an administrator nothing is hidden.
    let (verdict, _) = house.run(hidden, &house.admin);
    assert_eq!(verdict, Verdict::Broken);
}

#[test]
fn other_rules_are_in_force_for_each_subscription() {
    let house = House::start();
    let (with, without) = (house.path("with.toml"), house.path("without.toml"));
    let before = fs::read(&with).expect("settings");
    let line = format!(
        "access-bench reload --prefix a/ --others b/ --config {} --without {} --subscriptions 50 --rounds 2 --pause 0.2 --rate 50",
        with.display(),
        without.display()
    );
    let (verdict, outcome) = house.run(&line, &token("ann"));
    assert!(verdict <= Verdict::Invalid, "{:#?}", outcome.checks);
    assert_eq!(outcome.latencies["in_force"].count, 2);
    assert_eq!(outcome.checks.made["subscriptions ended"], 100);
    assert_eq!(fs::read(&with).expect("settings"), before);
}
