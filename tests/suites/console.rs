//! The console in a real browser: its modules' own tests, then a headless Chromium in front of real servers.
//!
//! Owns: which suites run, and with what. Promises: a machine without Chromium is told so, and the rest runs. Must not:
//! know what a page shows; the suites in `tests/console` do.
//! `TIDELINE_PICTURES=1` makes the pictures of `docs/pictures/` in place of the suites, `TIDELINE_LONG=1` adds what
//! takes minutes.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::node_bed::Node;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const BROWSERS: [&str; 4] = [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
];

fn node() -> Node {
    let requirements = format!("{ROOT}/tests/tablestore/node/requirements.txt");
    Node::find(20, "tablestore-node", &requirements)
}

fn browser() -> Option<PathBuf> {
    let named = std::env::var_os("TIDELINE_CHROMIUM").map(PathBuf::from);
    named.or_else(|| {
        BROWSERS
            .map(PathBuf::from)
            .into_iter()
            .find(|it| it.exists())
    })
}

/// The files of a folder whose names end so, in order.
fn files(folder: &str, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(Path::new(ROOT).join(folder)).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let mut found: Vec<PathBuf> = paths
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no *{end} in {folder}");
    found
}

fn run(command: &mut Command) {
    let output = command.output().expect("Node runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    println!("{said}");
}

pub(crate) fn modules() {
    run(Command::new(node().binary)
        .arg("--test")
        .args(files("console/test", ".test.js")));
}

pub(crate) fn in_a_browser() {
    let Some(browser) = browser() else {
        eprintln!(
            "no Chromium, so nothing of the console is looked at: apt-get install chromium fonts-inter \
             fonts-jetbrains-mono, or name one in TIDELINE_CHROMIUM"
        );
        return;
    };
    let node = node();
    let folder = format!("{ROOT}/tests/console");
    let modules = node.modules("console-node", &folder);
    let mut command = Command::new(&node.binary);
    if std::env::var_os("TIDELINE_PICTURES").is_some() {
        command.arg(format!("{folder}/pictures.js"));
    } else {
        let suites = files("tests/console", ".test.js");
        command
            .args(["--test", "--test-concurrency=2"])
            .args(suites);
    }
    run(command
        .env("TIDELINE_BIN", env!("CARGO_BIN_EXE_tideline"))
        .env("TIDELINE_CHROMIUM", browser)
        .env("TIDELINE_MODULES", modules.parent().unwrap_or(&modules)));
}
