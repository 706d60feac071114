//! The scenes of the test command: lost answers, a killed owner, a stopped one that wakes; a slow link.
//!
//! Owns: these scenes. Promises: each part of them waits for what it needs to see. Must not: check
//! what `scene` checks at the end of all scenes.

use rustix::process::Signal;

use crate::proxy::Mode;
use crate::scene::Scene;

#[test]
fn nothing_acknowledged_is_lost_doubled_or_reordered() {
    let mut scene = Scene::begin("");
    run(&mut scene).expect("the scene goes on");
    let seen = scene.end(&[1, 2]).expect("all holds");
    assert!(
        seen.acked >= 100 && seen.claims == 3 && seen.reads > 0,
        "{seen:?}"
    );
}

fn run(scene: &mut Scene) -> Result<(), String> {
    assert_eq!(scene.stream, "TL_chat_0");
    scene.take_over(0, 30)?;
    // Stored, and the owner does not hear of it; then not even stored.
    for mode in [Mode::Deaf, Mode::Mute] {
        scene.proxy.for_ms(mode, 250);
        scene.nodes[0].wait("acked", 10)?;
    }
    scene.nodes[0].kill();
    scene.take_over(1, 30)?;
    scene.nodes[1].signal(Signal::STOP);
    scene.take_over(2, 30)?;
    scene.nodes[1].signal(Signal::CONT);
    // It wakes as an owner that is none: what it writes now is refused.
    scene.nodes[1].wait_for("moved", 1)?;
    scene.nodes[2].wait("acked", 10)
}

/// A look at the last frames, which are large, takes two seconds here.
#[test]
fn a_slow_link_is_enough_to_own_the_log() {
    let mut scene = Scene::begin("");
    scene.nodes[1].tell("batches 500000");
    scene.take_over(1, 20).expect("large frames");
    scene.nodes[1].tell("load off");
    scene.nodes[0].wait_for("took 20 ", 1).expect("it follows");
    scene.proxy.slow(2_000_000);
    scene.take_over(0, 20).expect("it is slow, and goes on");
    let seen = scene.end(&[0, 1, 2]).expect("all holds");
    assert_eq!(seen.claims, 2, "{seen:?}");
}
