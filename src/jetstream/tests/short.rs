//! The scene of the test command: lost answers, a killed owner, a stopped one that wakes.
//!
//! Owns: that scene. Promises: each part of it waits for what it needs to see. Must not: check
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
