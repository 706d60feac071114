//! The Centrifuge dialect as its official SDKs see it: runs `tests/centrifuge/`, whose clients are the SDKs for Python
//! and JavaScript, unmodified, against the real binary, and the scripts of docs/CENTRIFUGE.md.
//!
//! Owns: the SDKs below `target/`, pinned. Promises: a failure shows the suite's own output. Must not: need anything
//! but Python 3 on the machine: where there is no Node, PyPI has one.

use std::ffi::OsStr;

use crate::node_bed::Node;
use crate::python_bed::Python;

const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/centrifuge");

pub(crate) fn official_sdks() {
    let python = Python::with("centrifuge-suite", &format!("{SUITE}/requirements.txt"));
    let folder = format!("{SUITE}/node");
    let node = Node::find(18, "centrifuge-node", &format!("{folder}/requirements.txt"));
    let modules = node.modules("centrifuge-modules", &folder);
    python.run_suite(
        "centrifuge",
        &[
            ("TIDELINE_NODE", node.binary.as_os_str()),
            ("TIDELINE_NODE_MODULES", modules.as_os_str()),
            ("NO_PROXY", OsStr::new("127.0.0.1")),
        ],
    );
}
