//! The protocol, sentence by sentence, through a real socket: runs the Python suite beside this file against the real
//! binary.
//!
//! Owns: a virtual environment below `target/` with the pinned client library. Promises: a failure shows pytest's own
//! output. Must not: need anything but Python 3 on the machine; the packages come from PyPI, once.

use std::path::{Path, PathBuf};
use std::process::Command;

const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python");

#[test]
fn python_suite() {
    let (python, packages) = environment();
    let output = Command::new(python)
        .args(["-m", "pytest", "--color=no"])
        .current_dir(SUITE)
        .env("TIDELINE_BIN", env!("CARGO_BIN_EXE_tideline"))
        .env("PYTHONPATH", packages)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("python3 runs");
    assert!(
        output.status.success(),
        "the Python suite failed:\n{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// An interpreter that has the pinned packages, and where it has to look for them beside its own place.
fn environment() -> (PathBuf, PathBuf) {
    let requirements = format!("{SUITE}/requirements.txt");
    let wanted = std::fs::read_to_string(&requirements).expect("requirements.txt is there");
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-suite");
    let (venv, target, done) = (home.join("venv"), home.join("packages"), home.join("done"));
    let venv_python = venv.join("bin/python");
    let chosen = || match venv_python.exists() {
        true => (venv_python.clone(), PathBuf::new()),
        false => (PathBuf::from("python3"), target.clone()),
    };
    if std::fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
        return chosen();
    }
    // Absent is as good as removed.
    let _ = std::fs::remove_dir_all(&home);
    std::fs::create_dir_all(&home).expect("target/ is writable");
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ];
    let made = Command::new("python3")
        .args(["-m", "venv"])
        .arg(&venv)
        .output();
    let made = made.expect("python3 is on the path");
    let mut install = if made.status.success() {
        Command::new(&venv_python)
    } else {
        // Debian's python3 alone has no ensurepip; its pip, if there, can fill a folder instead.
        let _ = std::fs::remove_dir_all(&venv);
        Command::new("python3")
    };
    install.args(pip).args(["-r", &requirements]);
    if !venv_python.exists() {
        install.arg("--target").arg(&target);
    }
    let installed = install.output().expect("python3 runs");
    assert!(
        installed.status.success(),
        "cannot install the suite's packages (python3 -m venv or pip is needed):\n{}\n{}",
        String::from_utf8_lossy(&made.stdout),
        String::from_utf8_lossy(&installed.stderr)
    );
    std::fs::write(&done, wanted).expect("target/ is writable");
    chosen()
}
