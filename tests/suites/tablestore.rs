//! Tablestore's API as its official SDKs see it: runs `tests/tablestore/`, whose clients are the SDKs for Python and
//! for Node, unmodified, and LangGraph with our checkpointer, against the real binary.
//!
//! Owns: the SDKs below `target/`, pinned. Promises: a failure shows the suite's own output. Must not: need anything
//! but Python 3 on the machine: where there is no Node, PyPI has one. `TIDELINE_LONG=1` adds LlamaIndex's stores, whose
//! packages take longer to install than their tests.

use std::ffi::OsStr;

use crate::node_bed::Node;
use crate::python_bed::Python;

const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tablestore");

pub(crate) fn official_sdks() {
    let python = Python::with("tablestore-suite", &format!("{SUITE}/requirements.txt"));
    let folder = format!("{SUITE}/node");
    let node = Node::find(18, "tablestore-node", &format!("{folder}/requirements.txt"));
    let modules = node.modules("tablestore-modules", &folder);
    // Whether the binary ends where test_indexes.py wants it to.
    let faults = if cfg!(feature = "faults") { "1" } else { "0" };
    // Where the tests are kept that come with the SDKs.
    let suites = concat!(env!("CARGO_TARGET_TMPDIR"), "/tablestore-official");
    python.run_suite(
        "tablestore",
        &[
            ("TIDELINE_FAULTS", OsStr::new(faults)),
            ("TIDELINE_NODE", node.binary.as_os_str()),
            ("NODE_PATH", modules.as_os_str()),
            ("TIDELINE_SUITES", OsStr::new(suites)),
        ],
    );
}

pub(crate) fn llama_index() {
    if std::env::var_os("TIDELINE_LONG").is_none() {
        eprintln!("LlamaIndex's stores are tried with TIDELINE_LONG=1");
        return;
    }
    let requirements = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/llama_index/requirements.txt"
    );
    Python::with("llama-index-suite", requirements).run_suite("llama_index", &[]);
}
