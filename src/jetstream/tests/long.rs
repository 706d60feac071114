//! The scenes that take longer: servers that die or freeze, nodes that come back, streams that are no longer the same.
//!
//! Owns: nothing. Promises: each ends with all nodes right, or with each that must stop stopped, with its sentence.
//! Must not: assert on time.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tideline_jetstream::create;

use crate::proxy::Mode;
use crate::scene::{Outcome, Scene};
use crate::servers::Servers;
use crate::{beginning, genesis};

const INFO: &str = "$JS.API.STREAM.INFO.TL_chat_0";

/// Every node stops with a sentence that has these words.
fn all_stop(scene: &Scene, words: &str) -> Outcome {
    for node in &scene.nodes {
        node.wait_for("stopped", 1)?;
        let why = node.stopped().unwrap_or_default();
        if !why.contains(words) {
            return Err(format!("{} stopped: {why}", node.settings.name));
        }
    }
    Ok(())
}

/// Each server in turn is killed while the owner writes, and comes back; the leader is among them.
#[test]
#[ignore = "takes a minute"]
fn each_server_is_killed_and_comes_back() {
    let mut scene = Scene::begin("");
    scene.take_over(1, 30).expect("it owns");
    for round in 0..3 {
        let leader = scene.servers.leader();
        let index = (leader + round) % 3;
        scene.servers.kill(index);
        scene.nodes[1].wait("acked", 30).expect("two decide");
        scene.servers.start(index);
        scene.nodes[1].wait("acked", 30).expect("three again");
        std::thread::sleep(Duration::from_secs(2));
    }
    let seen = scene.end(&[0, 1, 2]).expect("all holds");
    assert!(seen.claims == 1 && seen.acked >= 210, "{seen:?}");
}

/// The leader stands still for longer than it can lead, and wakes.
#[test]
#[ignore = "takes half a minute"]
fn a_frozen_leader_wakes() {
    let mut scene = Scene::begin("");
    scene.take_over(1, 30).expect("it owns");
    let leader = scene.servers.leader();
    scene.servers.signal(leader, Signal::STOP);
    let goes_on = scene.nodes[1].wait("acked", 30);
    scene.servers.signal(leader, Signal::CONT);
    goes_on.expect("the others elect one");
    scene.nodes[1].wait("acked", 30).expect("it goes on");
    let seen = scene.end(&[0, 1, 2]).expect("all holds");
    assert_eq!(seen.claims, 1, "{seen:?}");
}

/// Owner and leader at once; the owner's process comes back from its mirror, as a standby, and then takes over.
#[test]
#[ignore = "takes half a minute"]
fn owner_and_leader_are_killed_and_come_back() {
    let mut scene = Scene::begin("");
    scene.take_over(1, 60).expect("it owns");
    let leader = scene.servers.leader();
    scene.servers.kill(leader);
    scene.nodes[1].kill();
    scene.take_over(2, 30).expect("two servers, two nodes");
    scene.nodes[1].start();
    scene.servers.start(leader);
    scene.take_over(1, 30).expect("it is back");
    scene.nodes[2].wait_for("moved", 1).expect("it hears of it");
    let seen = scene.end(&[0, 1, 2]).expect("all holds");
    assert_eq!(seen.claims, 3, "{seen:?}");
}

/// The owner's answers are lost in each way, again and again, and rivals take over meanwhile.
#[test]
#[ignore = "takes a minute"]
fn a_bad_network_and_rivals() {
    let mut scene = Scene::begin("");
    for round in 0..6 {
        scene.take_over(0, 10).expect("it owns");
        for mode in [Mode::Deaf, Mode::Mute, Mode::Cut, Mode::Deaf] {
            scene.proxy.for_ms(mode, 60 + 90 * round);
        }
        scene.nodes[0].wait("acked", 5).expect("it goes on");
        let moved = scene.nodes[0].count("moved");
        scene.proxy.set(if round % 2 == 0 {
            Mode::Deaf
        } else {
            Mode::Cut
        });
        scene.take_over(1, 10).expect("a rival");
        scene.proxy.set(Mode::Open);
        scene.nodes[0]
            .wait_for("moved", moved + 1)
            .expect("it hears of it");
    }
    let seen = scene.end(&[0, 1, 2]).expect("all holds");
    assert_eq!(seen.claims, 12, "{seen:?}");
}

/// The owner hands over; the other claims without a person.
#[test]
#[ignore = "takes some seconds"]
fn an_owner_resigns() {
    let mut scene = Scene::begin("");
    scene.take_over(0, 20).expect("it owns");
    scene.nodes[2].tell("load on");
    scene.nodes[0].tell("resign n3");
    scene.nodes[0].wait_for("moved", 1).expect("it resigned");
    scene.nodes[2].wait_for("acked", 20).expect("it was named");
    let seen = scene.end(&[0, 1, 2]).expect("all holds");
    assert_eq!(seen.claims, 2, "{seen:?}");
}

/// Guard 2: a stream that is gone ends all nodes.
#[test]
#[ignore = "takes half a minute"]
fn a_deleted_stream() {
    let mut scene = Scene::begin("");
    scene.take_over(1, 30).expect("it owns");
    let done = scene.servers.ask("$JS.API.STREAM.DELETE.TL_chat_0", "");
    assert_eq!(done["success"], true, "{done}");
    all_stop(&scene, "the stream ends at 0").expect("all stop");
}

/// Guard 2: a stream of the same name and log, made anew, ends all nodes.
#[test]
#[ignore = "takes half a minute"]
fn a_stream_made_anew() {
    recreated("").expect("all stop");
}

/// Deletes the stream and makes it again with the same settings.
pub(crate) fn recreated(fault: &str) -> Outcome {
    let mut scene = Scene::begin(fault);
    scene.take_over(1, 30)?;
    scene.servers.ask("$JS.API.STREAM.DELETE.TL_chat_0", "");
    scene.servers.create();
    all_stop(&scene, "")
}

/// Guards 2 and 6: the stream's servers lose what they had acknowledged. The nodes that knew it stop.
#[test]
#[ignore = "takes a minute"]
fn a_restored_stream() {
    restored().expect("all stop");
}

/// Stops all servers and gives them back the disks of before.
fn restored() -> Outcome {
    let mut scene = Scene::begin("");
    scene.take_over(1, 30)?;
    let copies = tempfile::TempDir::with_prefix("tideline-copies").expect("a folder");
    (0..3).for_each(|index| scene.servers.kill(index));
    for index in 0..3 {
        copy(
            &scene.servers.store(index),
            &copies.path().join(index.to_string()),
        );
    }
    (0..3).for_each(|index| scene.servers.start(index));
    scene.nodes[1].wait("acked", 100)?;
    (0..3).for_each(|index| scene.servers.kill(index));
    for index in 0..3 {
        let store = scene.servers.store(index);
        fs::remove_dir_all(&store).expect("it is there");
        copy(&copies.path().join(index.to_string()), &store);
    }
    (0..3).for_each(|index| scene.servers.start(index));
    all_stop(&scene, "")
}

fn copy(from: &Path, to: &Path) {
    let done = std::process::Command::new("cp")
        .arg("-a")
        .arg(from)
        .arg(to)
        .status();
    assert!(done.expect("cp runs").success());
}

/// Guard 2: what a node needs was purged while it was away; the others had it and go on.
#[test]
#[ignore = "takes half a minute"]
fn a_purge_under_a_node_that_is_away() {
    let mut scene = Scene::begin("");
    scene.take_over(1, 30).expect("it owns");
    scene.nodes[2].kill();
    scene.nodes[1].wait("acked", 50).expect("it goes on");
    scene.nodes[1].tell("load off");
    std::thread::sleep(Duration::from_secs(2));
    let info = scene.servers.ask(INFO, "");
    let last = info["state"]["last_seq"].as_u64().expect("a number");
    let body = format!("{{\"seq\": {last}}}");
    let done = scene.servers.ask("$JS.API.STREAM.PURGE.TL_chat_0", &body);
    assert_eq!(done["success"], true, "{done}");
    scene.nodes[2].start();
    scene.nodes[2].wait_for("stopped", 1).expect("it stops");
    let why = scene.nodes[2].stopped().unwrap_or_default();
    assert!(why.contains("somebody purged it"), "{why}");
    scene.nodes[1].tell("load on");
    scene.nodes[1].wait("acked", 20).expect("it goes on");
}

/// Guard 3: settings that let frames go end all nodes at the next look, and refuse them at the start.
#[test]
#[ignore = "takes half a minute"]
fn a_stream_that_would_drop_frames() {
    let mut scene = Scene::begin("");
    scene.take_over(1, 30).expect("it owns");
    let info = scene.servers.ask(INFO, "");
    let mut config = info["config"].clone();
    config["max_age"] = 3_600_000_000_000_u64.into();
    let done = scene
        .servers
        .ask("$JS.API.STREAM.UPDATE.TL_chat_0", &config.to_string());
    assert!(done["error"].is_null(), "{done}");
    let words = "stream TL_chat_0 has max_age 3600000000000: frames would go; take it away";
    all_stop(&scene, words).expect("all stop");
    scene.nodes[0].kill();
    scene.nodes[0].start();
    scene.nodes[0].wait("stopped", 1).expect("refused");
}

/// Guard 3: servers that acknowledge before they sync, or that do not say.
#[test]
#[ignore = "takes half a minute"]
fn servers_that_do_not_sync() {
    let servers = Servers::with(|text| text.replace("sync_interval: always", "sync_interval: 2m"));
    servers.create();
    let folder = tempfile::TempDir::new().expect("a folder");
    let said = |monitors: Vec<String>, is_unverified| {
        let access = servers.node();
        let settings = crate::node::Settings {
            name: "n1".to_owned(),
            servers: access.servers,
            user: access.user.expect("there is one"),
            monitors,
            is_unverified,
            is_automatic: false,
            mirror: folder.path().join("mirror"),
        };
        let mut node = crate::node::Node::begin(settings, "");
        node.tell("load on");
        node.tell("take-over");
        match is_unverified {
            true => node.wait("owns", 1).map(|()| String::new()),
            false => node
                .wait("stopped", 1)
                .map(|()| node.stopped().unwrap_or_default()),
        }
    };
    let known = said(servers.monitors(), false).expect("refused");
    assert!(
        known.contains("does not sync before it acknowledges"),
        "{known}"
    );
    let unknown = said(Vec::new(), false).expect("refused");
    assert!(
        unknown.contains("does not report its sync_interval"),
        "{unknown}"
    );
    said(Vec::new(), true).expect("a person answers for it");
}

/// Guard 1: a node's credential makes, changes, empties or deletes no stream.
#[test]
#[ignore = "takes half a minute"]
fn a_nodes_credential_changes_no_stream() {
    let servers = Servers::begin();
    servers.create();
    let mut other = genesis();
    other.partition = 1;
    let refused = create(&servers.node(), &beginning(other));
    assert!(refused.is_err(), "{refused:?}");
    let info = servers.ask("$JS.API.STREAM.INFO.TL_chat_1", "");
    assert_eq!(info["error"]["err_code"], 10_059, "{info}");
}
