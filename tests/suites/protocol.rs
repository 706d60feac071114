//! The protocol, sentence by sentence, through a real socket: runs the Python suite beside this file against the real
//! binary.
//!
//! Owns: nothing; `python_bed` makes the environment. Must not: need anything but Python 3 on the machine.

use std::ffi::OsStr;

use crate::python_bed::Python;

pub(crate) fn python_suite() {
    let requirements = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/requirements.txt");
    // Whether the binary has what tests/python/test_relay_crash.py breaks.
    let faults = if cfg!(feature = "faults") { "1" } else { "0" };
    let environment = [("TIDELINE_FAULTS", OsStr::new(faults))];
    Python::with("python-suite", requirements).run_suite("python", &environment);
}
