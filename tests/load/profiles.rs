//! The load tool's profiles against the real binary, with small numbers: each puts its load on, finds nothing wrong,
//! and says what it measured.
//!
//! Owns: the proof that profiles and server still speak with each other. Must not: assert on time or speed.

use clap::Parser;
use tideline_load::cli::Cli;
use tideline_load::exit::Verdict;
use tideline_load::outcome::Outcome;

/// Runs the tool with these words against a server of its own.
fn run(words: &[&str]) -> Outcome {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (data, json) = (path("data"), path("result.json"));
    let mut all = vec!["tideline-load"];
    all.extend(words);
    all.extend(["--quiet", "--warm-up", "0.1", "--seconds", "0.5"]);
    all.extend(["--binary", env!("CARGO_BIN_EXE_tideline")]);
    all.extend(["--data", &data, "--json", &json]);
    let verdict = Cli::parse_from(all).command.run().expect("a run");
    let outcome = Outcome::load(json.as_ref()).expect("a result");
    // Whether an open loop kept its schedule depends on the machine.
    assert!(verdict <= Verdict::Invalid, "{:#?}", outcome.checks);
    outcome
}

#[test]
fn a_room_gets_every_message() {
    let words = ["room", "--subscribers", "20"];
    for pace in [["--in-flight", "8"], ["--rate", "200"]] {
        let outcome = run(&[&words[..], &pace].concat());
        let made = &outcome.checks.made;
        let (sent, came) = (made["messages sent"], made["deliveries in order"]);
        assert!(sent > 0 && came == sent * 20, "{made:?}");
        assert!(outcome.latencies["delivery"].count > 0);
        assert!(outcome.figures.contains_key("server_cpu_per_delivery"));
    }
}

#[test]
fn polls_find_nothing_or_the_news_that_was_due() {
    let words = [
        "poll",
        "--timelines",
        "50",
        "--positions",
        "10",
        "--share-with-news",
        "0.3",
    ];
    let outcome = run(&words);
    let made = &outcome.checks.made;
    assert!(made["empty replies compared"] > 0, "{made:?}");
    assert!(made["replies with news parsed"] > 0, "{made:?}");
    assert!(outcome.figures.contains_key("polls_per_server_cpu_second"));
}

#[test]
fn rows_about_people_put_their_load_on_and_find_what_was_set_up() {
    let few = ["--conversations", "20"];
    let list = ["--unread", "3", "--page", "5", "--unread-on-page", "30"];
    for (row, flags, figure) in [
        ("list", &list[..], "call_p99"),
        ("sync", &[], "server_cpu_per_call"),
        ("device", &["--connections", "5"], "bytes_per_device"),
        ("feed", &["--messages", "3"], "server_cpu_per_call"),
    ] {
        let few = if row == "feed" {
            ["--follows", "10"]
        } else {
            few
        };
        let outcome = run(&[&["people-bench", row], &few[..], flags].concat());
        assert!(outcome.checks.made["answers checked"] > 0, "{row}");
        assert!(outcome.figures.contains_key(figure), "{row}");
    }
}

#[test]
fn a_crowd_gets_every_post_and_others_are_listed_meanwhile() {
    let words = [
        "people-bench",
        "crowd",
        "--members",
        "1200",
        "--online",
        "20",
    ];
    let outcome = run(&[&words[..], &["--fan-out", "write"]].concat());
    let made = &outcome.checks.made;
    assert!(made["members listed"] > 0 && made["deliveries in order"] > 0);
    assert!(made["entries of inboxes"] > 0, "{made:?}");
    for name in ["ack", "ack_without_members", "delivery", "listed"] {
        assert!(outcome.latencies[name].count > 0, "{name}");
    }
}

#[test]
fn groups_fill_inboxes() {
    let words = [
        "people-bench",
        "fan-out",
        "--groups",
        "5",
        "--members",
        "10",
    ];
    let outcome = run(&[&words[..], &["--users", "20", "--rate", "100"]].concat());
    let entries = outcome.figures["entries"].value;
    assert!(entries > 0.0 && outcome.checks.made["entries of inboxes"] as f64 == entries);
}

#[test]
fn members_append() {
    let words = ["append", "--timelines", "10", "--connections", "4"];
    let outcome = run(&[&words[..], &["--users", "3", "--members"]].concat());
    assert!(outcome.checks.made["messages read back"] > 0);
}

/// Ends the server, whatever becomes of the test.
struct Ending(std::process::Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // Errors mean that it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_with_tls_is_driven_over_it() {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().expect("a temporary directory");
    // Certificate and key of localhost in one file; the certificate has signed itself.
    let pem = folder.path().join("pair.pem");
    let known = concat!(env!("CARGO_MANIFEST_DIR"), "/src/base/tls/one.pem");
    std::fs::copy(known, &pem).expect("copied");
    let closed = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&pem, closed).expect("its mode");
    let probe = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = probe.local_addr().expect("an address");
    drop(probe);
    let pem = pem.display();
    let server = std::process::Command::new(env!("CARGO_BIN_EXE_tideline"))
        .args(["serve", "--listen", &address.to_string(), "--data"])
        .arg(folder.path().join("data"))
        .env(
            "TIDELINE_TLS",
            format!("{{ certificate_file = '{pem}', key_file = '{pem}' }}"),
        )
        .spawn();
    let _server = Ending(server.expect("a server"));
    while TcpStream::connect(address).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let (url, pem) = (
        format!("wss://localhost:{}/v1/connect", address.port()),
        pem.to_string(),
    );
    for words in [
        &["room", "--subscribers", "5", "--rate", "50"][..],
        &["table", "--rows", "200"],
    ] {
        let json = folder.path().join("result.json").display().to_string();
        let mut all = [&["tideline-load"], words].concat();
        all.extend(["--quiet", "--warm-up", "0.1", "--seconds", "0.5"]);
        all.extend(["--url", &url, "--json", &json]);
        let trusting = [&all[..], &["--ca-file", &pem]].concat();
        let verdict = Cli::parse_from(trusting).command.run().expect("a run");
        assert!(verdict <= Verdict::Invalid);
        let outcome = Outcome::load(json.as_ref()).expect("a result");
        assert!(!outcome.latencies.is_empty());
        // The system does not trust it.
        Cli::parse_from(all)
            .command
            .run()
            .expect_err("no connection");
    }
}
