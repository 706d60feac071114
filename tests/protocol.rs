//! The protocol, sentence by sentence, through a real socket: runs the Python suite beside this file against the real
//! binary.
//!
//! Owns: nothing; `python_bed` makes the environment. Must not: need anything but Python 3 on the machine.

mod python_bed;

use python_bed::Python;

#[test]
fn python_suite() {
    let requirements = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/requirements.txt");
    Python::with("python-suite", requirements).run_suite("python", &[]);
}
