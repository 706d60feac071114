//! Durable Streams as its own conformance suite sees it, unmodified, against the real binary.
//!
//! Owns: the suite below `target/`, pinned. Promises: every test that runs passes, and all run. Must not: know the
//! protocol.

use std::process::Command;

use crate::node_bed::Node;

const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/durable");

pub(crate) fn conformance() {
    let requirements = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/tablestore/node/requirements.txt"
    );
    let node = Node::find(20, "tablestore-node", requirements);
    let modules = node.modules("durable-modules", SUITE);
    let output = Command::new(&node.binary)
        .arg(format!("{SUITE}/run.js"))
        .env("TIDELINE_BIN", env!("CARGO_BIN_EXE_tideline"))
        .env("TIDELINE_MODULES", modules.parent().unwrap_or(&modules))
        .output()
        .expect("Node runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
}
