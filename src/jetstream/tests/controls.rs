//! Planted bugs, each in a scene that must fail because of it, with real servers: what these tests would notice.
//!
//! Owns: which bug meets which scene. Promises: the same scene without the bug is right. Must not: count a scene that
//! fails for another reason, so each names the words of its failure.

use std::time::Duration;

use rustix::process::Signal;

use crate::long::recreated;
use crate::proxy::Mode;
use crate::scene::{Outcome, Scene};

/// Runs a scene without and with a bug.
fn control(bug: &str, words: &[&str], scene: impl Fn(&str) -> Outcome) {
    assert_eq!(scene(""), Ok(()), "without {bug}");
    let failed = scene(&format!("cluster_{bug}")).expect_err(bug);
    let is_for_it = words.iter().any(|word| failed.contains(word));
    assert!(is_for_it, "{bug}: {failed}");
}

/// The owner's requests are lost, then its process.
fn requests_are_lost_and_the_owner_dies(fault: &str) -> Outcome {
    let mut scene = Scene::begin(fault);
    scene.take_over(0, 20)?;
    scene.proxy.set(Mode::Mute);
    std::thread::sleep(Duration::from_millis(300));
    scene.nodes[0].kill();
    scene.proxy.set(Mode::Open);
    scene.take_over(1, 20)?;
    scene.end(&[1, 2]).map(|_| ())
}

#[test]
#[ignore = "takes half a minute"]
fn long_an_answer_before_the_stream_has_it() {
    let words = ["was acknowledged at"];
    control(
        "AckBeforeStored",
        &words,
        requests_are_lost_and_the_owner_dies,
    );
}

/// The owner hears nothing for longer than an answer may take, and is then heard and answered again.
fn answers_are_late(fault: &str) -> Outcome {
    let mut scene = Scene::begin(fault);
    scene.take_over(0, 20)?;
    scene.proxy.for_ms(Mode::Deaf, 700);
    scene.nodes[0].wait("acked", 20)?;
    scene.end(&[0, 1, 2]).map(|_| ())
}

#[test]
#[ignore = "takes half a minute"]
fn long_silence_taken_for_not_written() {
    let words = ["was refused as not written, and is at", "acked"];
    control("SilenceIsFailure", &words, answers_are_late);
}

/// The owner's requests are lost for longer than an answer may take; a later copy gets through.
fn requests_are_lost(fault: &str) -> Outcome {
    let mut scene = Scene::begin(fault);
    scene.take_over(0, 20)?;
    scene.proxy.for_ms(Mode::Mute, 700);
    scene.nodes[0].wait("acked", 20)?;
    scene.end(&[0, 1, 2]).map(|_| ())
}

#[test]
#[ignore = "takes half a minute"]
fn long_a_copy_with_other_bytes() {
    let words = ["stopped: ", "a node took", "has no"];
    control("OtherBytes", &words, requests_are_lost);
}

/// The owner is cut off; another takes over; the first one is asked.
fn a_cut_off_owner_is_asked(fault: &str) -> Outcome {
    let mut scene = Scene::begin(fault);
    scene.take_over(0, 20)?;
    scene.proxy.set(Mode::Cut);
    scene.take_over(1, 50)?;
    std::thread::sleep(Duration::from_millis(300));
    scene.proxy.set(Mode::Open);
    scene.nodes[0].wait_for("moved", 1)?;
    scene.end(&[0, 1, 2]).map(|_| ())
}

#[test]
#[ignore = "takes half a minute"]
fn long_a_lease_that_never_ends() {
    control("LeaseForEver", &["a read showed"], a_cut_off_owner_is_asked);
}

/// Each standby is stopped for a moment and wakes.
fn standbys_are_stopped(fault: &str) -> Outcome {
    let mut scene = Scene::begin(fault);
    scene.take_over(1, 20)?;
    scene.nodes[2].signal(Signal::STOP);
    scene.nodes[1].wait("acked", 20)?;
    scene.nodes[2].signal(Signal::CONT);
    scene.take_over(2, 20)?;
    scene.end(&[0, 1, 2]).map(|_| ())
}

#[test]
#[ignore = "takes half a minute"]
fn long_a_standby_that_was_away_has_all_before_it_claims() {
    assert_eq!(standbys_are_stopped(""), Ok(()));
}

#[test]
#[ignore = "takes two minutes"]
fn long_streams_that_nobody_looks_at() {
    control("NoAttach", &["has no 1 x \"stopped\""], recreated);
}
