//! Python with pinned packages below `target/`, and pytest suites run with it against the real binary.
//!
//! Owns: one virtual environment per set of requirements, made once and anew when they change. Promises: a failure
//! shows pytest's own output. Must not: need anything but Python 3 on the machine; the packages come from PyPI.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Where Python keeps what it has compiled, by the path of its source.
const COMPILED: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/pycache");

/// Suites share environments, and begin together.
static INSTALLING: Mutex<()> = Mutex::new(());

/// An interpreter that has its packages.
pub(crate) struct Python {
    interpreter: PathBuf,
    /// Where it has to look beside its own place; empty where it is a virtual environment.
    packages: PathBuf,
}

impl Python {
    /// The environment `home` with the packages of a requirements file.
    pub(crate) fn with(home: &str, requirements: &str) -> Python {
        let _alone = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = std::fs::read_to_string(requirements).expect("the requirements are there");
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(home);
        let (venv, target, done) = (home.join("venv"), home.join("packages"), home.join("done"));
        let venv_python = venv.join("bin/python");
        let chosen = || match venv_python.exists() {
            true => Python {
                interpreter: venv_python.clone(),
                packages: PathBuf::new(),
            },
            false => Python {
                interpreter: PathBuf::from("python3"),
                packages: target.clone(),
            },
        };
        if std::fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
            return chosen();
        }
        // Absent is as good as removed.
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir_all(&home).expect("target/ is writable");
        let made = Command::new("python3")
            .args(["-m", "venv"])
            .arg(&venv)
            .output();
        let made = made.expect("python3 is on the path");
        if !made.status.success() {
            // Debian's python3 alone has no ensurepip; its pip, if there, can fill a folder instead.
            let _ = std::fs::remove_dir_all(&venv);
        }
        let python = chosen();
        let mut install = Command::new(&python.interpreter);
        install.args(["-m", "pip", "install", "--quiet"]);
        install.args(["--disable-pip-version-check", "-r", requirements]);
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
        python
    }

    /// Runs the pytest suite of a folder of `tests/`. The modules of `tests/python/` can be imported from any suite.
    pub(crate) fn run_suite(&self, folder: &str, environment: &[(&str, &OsStr)]) {
        let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
        let paths = [self.packages.clone(), Path::new(tests).join("python")];
        let paths = std::env::join_paths(paths).expect("no colons");
        let run = |words: &[&str]| {
            let mut command = self.command();
            command.args(["-m", "pytest", "--color=no"]).args(words);
            // Each worker would import what packages bring along for pytest: langsmith's takes 1.6 s of a processor.
            command.env("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1");
            command.current_dir(Path::new(tests).join(folder));
            command.env("TIDELINE_BIN", env!("CARGO_BIN_EXE_tideline"));
            command.env("PYTHONPATH", &paths);
            command.envs(environment.iter().copied());
            command.output().expect("python3 runs")
        };
        // Compiles the tests, which each worker would do by itself otherwise. What is wrong, the run says, too.
        let source = Path::new(tests).join(folder).canonicalize();
        let source = source.expect("the folder is there");
        let compiled = Path::new(COMPILED).join(source.strip_prefix("/").unwrap_or(&source));
        if !compiled.exists() {
            run(&["--collect-only", "-n0"]);
        }
        let output = run(&["--durations=5"]);
        let said = String::from_utf8_lossy(&output.stdout);
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "the Python suite failed:\n{said}\n{complained}"
        );
        eprintln!("{said}");
    }

    /// The interpreter, to be told what to run.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.interpreter);
        command.env("PYTHONPYCACHEPREFIX", COMPILED);
        if !self.packages.as_os_str().is_empty() {
            command.env("PYTHONPATH", &self.packages);
        }
        command
    }
}
