//! The clients as their users get them: builds and installs each package, and runs the suites in `clients/` against the
//! real binary.
//!
//! Owns: nothing; the beds make the environments. Must not: need anything but Python 3 on the machine: where there is
//! no Node, PyPI has one.

use std::ffi::OsStr;
use std::path::PathBuf;

use crate::node_bed::Node;
use crate::python_bed::Python;

pub(crate) fn suites_of_the_clients() {
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    let requirements = format!("{tests}/tablestore/node/requirements.txt");
    let node = Node::find(20, "tablestore-node", &requirements).binary;
    // Beside a Node that is not the machine's own, its package manager is a program for it.
    let bin = node.parent().filter(|bin| bin.is_absolute());
    let npm = match bin {
        Some(bin) => {
            let cli = bin.join("../lib/node_modules/npm/bin/npm-cli.js");
            format!("{} {}", node.display(), cli.display())
        }
        None => "npm".to_owned(),
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = bin.map(PathBuf::from).into_iter();
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&path)));
    let path = path.expect("a path made of a path");
    // Whether the binary has what the clients' tests break.
    let faults = if cfg!(feature = "faults") { "1" } else { "0" };
    Python::with("python-suite", &format!("{tests}/python/requirements.txt")).run_suite(
        "../clients",
        &[
            ("TIDELINE_FAULTS", OsStr::new(faults)),
            ("TIDELINE_NODE", node.as_os_str()),
            ("TIDELINE_NPM", OsStr::new(&npm)),
            ("PATH", &path),
        ],
    );
}
