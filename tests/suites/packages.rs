//! What packages are made of: runs `tests/packages/`, of which only what needs no root and no package of others is run
//! here; `packaging/README.md` has the command for all of it.
//!
//! Owns: nothing; `python_bed` makes the environment. Must not: install anything on the machine.

use crate::python_bed::Python;

const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/packages");

pub(crate) fn files_and_wheel() {
    Python::with("packages-suite", &format!("{SUITE}/short.txt")).run_suite("packages", &[]);
}
