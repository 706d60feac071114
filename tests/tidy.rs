//! The house rules that a compiler does not hold: imports between modules, cycles, names, sizes, what a file says of
//! itself.
//!
//! Owns: which modules of a crate may import which, as a table. Promises: every breach is listed with its file and
//! line, all at once; only files that git tracks are looked at, because users keep theirs beside them. Must not: repeat
//! what rustfmt, rustc's and clippy's lints hold already (widths, function lengths, unbounded channels).

mod locks;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Inside of a crate: module → the modules of the same crate that it may import. Between crates Cargo holds the layers.
const LAYERS: &[(&str, &[&str])] = &[
    ("src/base/bounds", &["metrics"]),
    ("src/base/clock", &["faults"]),
    ("src/base/decode", &[]),
    ("src/base/disk", &[]),
    ("src/base/entry", &[]),
    ("src/base/faults", &[]),
    ("src/base/ids", &[]),
    ("src/base/journal", &["clock", "log_event", "request"]),
    ("src/base/log_event", &["request"]),
    ("src/base/metrics", &[]),
    ("src/base/ordered", &[]),
    ("src/base/request", &["trace"]),
    ("src/base/secret", &[]),
    ("src/base/tls", &["secret"]),
    ("src/base/trace", &[]),
    (
        "src/cluster/attach",
        &["frame", "halt", "lease", "place", "plant"],
    ),
    ("src/cluster/frame", &[]),
    ("src/cluster/guards", &[]),
    ("src/cluster/halt", &[]),
    ("src/cluster/host", &["frame", "whole"]),
    ("src/cluster/lease", &["plant"]),
    ("src/cluster/nats_config", &[]),
    (
        "src/cluster/node",
        &[
            "attach", "frame", "halt", "lease", "place", "plant", "settle", "trim", "watch",
        ],
    ),
    ("src/cluster/place", &["frame", "plant"]),
    ("src/cluster/plant", &[]),
    ("src/cluster/rebuild", &[]),
    ("src/cluster/settle", &["frame", "halt", "lease", "plant"]),
    ("src/cluster/trim", &["lease", "plant"]),
    ("src/cluster/watch", &["lease", "place", "plant"]),
    ("src/cluster/whole", &["frame"]),
    ("src/jetstream/api", &[]),
    ("src/jetstream/beat", &[]),
    ("src/jetstream/create", &["api", "link", "names"]),
    (
        "src/jetstream/driver",
        &["api", "beat", "follow", "link", "names", "steady", "survey"],
    ),
    ("src/jetstream/follow", &["api", "link"]),
    ("src/jetstream/link", &["api", "names", "patient"]),
    ("src/jetstream/names", &[]),
    ("src/jetstream/patient", &[]),
    ("src/jetstream/steady", &[]),
    ("src/jetstream/survey", &["api", "link"]),
    ("src/store/fuzz", &["image", "log"]),
    ("src/store/log", &["squeeze"]),
    ("src/store/image", &["squeeze"]),
    ("src/store/partition", &["image", "log"]),
    ("src/store/squeeze", &[]),
    ("src/timelines/fuzz", &["people", "timeline"]),
    ("src/timelines/timeline", &[]),
    ("src/timelines/feed", &["timeline"]),
    ("src/timelines/relay", &["timeline"]), // its table's number
    ("src/timelines/people", &["feed", "relay", "timeline"]),
    ("src/timelines/reshape", &["feed", "people", "relay"]),
    ("src/timelines/timers", &["timeline"]),
    ("src/gateway/credentials", &["http_client"]),
    ("src/gateway/health", &[]),
    ("src/gateway/http_client", &[]),
    ("src/gateway/webhook", &["http_client"]),
];
/// Crates of which every module must be in the table above.
const LAYERED: &[&str] = &[
    "src/base",
    "src/cluster",
    "src/jetstream",
    "src/store",
    "src/timelines",
];

/// Libraries of cryptography that `rustls` or `jsonwebtoken` can bring along besides ring: with two of them enabled
/// each chooses by itself, or panics at its first use.
const OTHER_CRYPTO: &[&str] = &["aws-lc-rs", "aws-lc-sys", "rsa", "p256", "ed25519-dalek"];

const FORBIDDEN_NAMES: &[&str] = &[
    "util", "utils", "common", "helper", "helpers", "misc", "types",
];
const LINES_MAX: usize = 400;
/// In one folder, those below its own folders not counted.
const FILES_MAX: usize = 15;
/// rustfmt holds the width of code only.
const COMMENT_COLUMNS_MAX: usize = 120;
/// Files that may be longer, each with its reason beside it.
const LONG_FILES: &[&str] = &[
    "src/wire/tablestore/proto.rs", // made from schemas/tablestore/
];
/// The sources of each crate. A file belongs to the last one that it lies in.
const CRATES: &[&str] = &[
    "src",
    "src/base",
    "src/bucket",
    "src/cluster",
    "src/jetstream",
    "src/model",
    "src/store",
    "src/table",
    "src/search",
    "src/sql",
    "src/timelines",
    "src/wire",
    "src/gateway",
    "load/src",
    "load/history/src",
    "load/peers/src",
];
/// What may stand at the top of the repository.
const TOP_LEVEL: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "build.rs",
    "console",
    "src",
    "schemas",
    "load",
    "tests",
    "docs",
    "clients",
    "grafana",
    "packaging",
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "LICENSE",
    ".cargo",
    ".ci",
    "rustfmt.toml",
    "clippy.toml",
    "deny.toml",
    ".gitignore",
];

/// The repository; a test of these tests sets another.
fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let other = std::env::var_os(OTHER_ROOT).map(PathBuf::from);
        other.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")))
    })
}

const OTHER_ROOT: &str = "TIDELINE_TIDY_ROOT";

/// The project's files, as paths from the root: what git tracks. An archive without git does not say what is ours;
/// there it is all that lies where the project's files do.
fn tracked() -> &'static [String] {
    static TRACKED: OnceLock<Vec<String>> = OnceLock::new();
    TRACKED.get_or_init(|| {
        let listed = if root().join(".git").exists() {
            // Of a hook, these name another place.
            let mut git = Command::new("git");
            git.env_remove("GIT_DIR").env_remove("GIT_INDEX_FILE");
            git.arg("-C").arg(root()).args(["ls-files", "-z"]).output()
        } else {
            Err(std::io::ErrorKind::NotFound.into())
        };
        let listed = match listed {
            Ok(listed) if listed.status.success() => {
                String::from_utf8(listed.stdout).expect("plain names")
            }
            _ => String::new(),
        };
        let mut files: Vec<String> = listed
            .split_terminator('\0')
            // One that is just being removed.
            .filter(|path| root().join(path).exists())
            .map(str::to_owned)
            .collect();
        if files.is_empty() {
            let mut found = Vec::new();
            for place in TOP_LEVEL {
                files_below(&root().join(place), &mut found);
            }
            let below_root = |path: PathBuf| {
                let path = path.strip_prefix(root()).expect("below the root");
                path.to_str().expect("plain names").to_owned()
            };
            files = found.into_iter().map(below_root).collect();
        }
        files.sort();
        files
    })
}

/// A Rust file of the project.
struct Source {
    /// From the root of the repository.
    path: String,
    /// One of [`CRATES`]; empty for the files of `tests/`.
    of: &'static str,
    /// Module path within its crate, as `["log", "frame"]`; empty for a crate's face and the files of `tests/`.
    module: Vec<String>,
    text: String,
    /// The whole file is compiled for tests only.
    test_only: bool,
}

impl Source {
    /// Lines before the tests, without comments.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate();
        let lines = lines.take(self.lines_without_tests());
        lines.map(|(index, line)| (index + 1, without_comment(line)))
    }

    /// How many lines there are before the tests that stand in the file itself. What a file only declares
    /// (`mod tests;`) cuts nothing off.
    fn lines_without_tests(&self) -> usize {
        let lines: Vec<&str> = self.text.lines().collect();
        let tests = lines.windows(3).position(|three| {
            let opens = |line: &str| {
                let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
                line.starts_with("mod tests {")
            };
            three[0] == "#[cfg(test)]" && (opens(three[1]) || opens(three[2]))
        });
        tests.unwrap_or(lines.len())
    }
}

/// Cuts a `//` comment off; one inside of a text is cut too, which harms no rule here.
fn without_comment(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

/// A file, or those below a folder.
fn files_below(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_file() {
        found.push(path.to_owned());
    }
    for entry in fs::read_dir(path).into_iter().flatten() {
        files_below(&entry.expect("readable").path(), found);
    }
}

fn rust_files(folder: &str) -> Vec<Source> {
    let is_in = |path: &String| path.starts_with(&format!("{folder}/")) && path.ends_with(".rs");
    let mut files: Vec<Source> = tracked()
        .iter()
        .filter(|path| is_in(path))
        .map(|path| {
            let below = |of: &&&str| {
                path.strip_prefix(**of)
                    .is_some_and(|at| at.starts_with('/'))
            };
            let of = CRATES.iter().rfind(below).copied().unwrap_or_default();
            let inner = if of.is_empty() { "" } else { &path[of.len()..] };
            let inner = inner.trim_end_matches(".rs").trim_end_matches("/mod");
            let parts = inner.split('/');
            let module = parts.filter(|part| !["", "lib", "main"].contains(part));
            Source {
                of,
                module: module.map(str::to_owned).collect(),
                text: fs::read_to_string(root().join(path)).expect("UTF-8"),
                test_only: false,
                path: path.clone(),
            }
        })
        .collect();
    mark_test_only(&mut files);
    files
}

/// The files of all crates, or of one.
fn crate_files(of: Option<&str>) -> Vec<Source> {
    let mut files = rust_files("src");
    files.extend(rust_files("load"));
    files.retain(|file| of.is_none_or(|of| file.of == of));
    files
}

/// Files that a `#[cfg(test)] mod name;` brings in, those named as tests, and those in a crate's own `tests`.
fn mark_test_only(files: &mut [Source]) {
    let mut only: BTreeSet<String> = BTreeSet::new();
    for file in files.iter() {
        let folder = match file.path.rsplit_once('/') {
            Some((folder, "mod.rs" | "lib.rs" | "main.rs")) => folder.to_owned(),
            _ => file.path.trim_end_matches(".rs").to_owned(),
        };
        let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
        for two in lines.windows(2) {
            let name = two[1]
                .strip_suffix(';')
                .and_then(|line| line.rsplit_once("mod "));
            let for_tests = two[0] == "#[cfg(test)]" || two[0].starts_with("#[cfg(any(test,");
            if let (true, Some((_, name))) = (for_tests, name) {
                only.insert(format!("{folder}/{name}.rs"));
                only.insert(format!("{folder}/{name}/"));
            }
        }
    }
    for file in files {
        let below = only
            .iter()
            .any(|one| one.ends_with('/') && file.path.starts_with(one));
        let named = file.path.ends_with("tests.rs");
        let apart = file.module.first().is_some_and(|own| own == "tests");
        file.test_only = only.contains(&file.path) || below || named || apart;
    }
}

fn report(rule: &str, breaches: &[String]) {
    assert!(breaches.is_empty(), "{rule}:\n  {}", breaches.join("\n  "));
}

/// Paths that a line names after `crate::` or one or more `super::`, as absolute module paths.
fn paths_in(code: &str, module: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest
        .find("crate::")
        .into_iter()
        .chain(rest.find("super::"))
        .min()
    {
        let before = rest[..at].chars().next_back();
        let whole = !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
        // `pub(in crate::x)` and `$crate::x` name a place, they import nothing.
        let import = whole && before != Some('$') && !rest[..at].ends_with("in ");
        let mut tail = &rest[at..];
        let mut base = if tail.starts_with("crate::") {
            Vec::new()
        } else {
            module.to_vec()
        };
        tail = tail.strip_prefix("crate::").unwrap_or(tail);
        while let Some(up) = tail.strip_prefix("super::") {
            base.pop();
            tail = up;
        }
        if import {
            for path in expand(tail) {
                found.push(base.iter().cloned().chain(path).collect());
            }
        }
        rest = tail;
    }
    found
}

/// `a::{b, c::d}` as `[a b] [a c d]`.
fn expand(text: &str) -> Vec<Vec<String>> {
    let mut path = Vec::new();
    let mut rest = text;
    loop {
        if let Some(group) = rest.strip_prefix('{') {
            let inner = &group[..closing(group)];
            let each = split_outside(inner)
                .into_iter()
                .flat_map(|part| expand(part.trim()));
            return each
                .map(|tail| path.iter().cloned().chain(tail).collect())
                .collect();
        }
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let (name, tail) = rest.split_at(end.unwrap_or(rest.len()));
        if !name.is_empty() && name != "self" {
            path.push(name.to_owned());
        }
        match tail.strip_prefix("::") {
            Some(next) if !name.is_empty() => rest = next,
            _ => {
                return if path.is_empty() {
                    Vec::new()
                } else {
                    vec![path]
                };
            }
        }
    }
}

fn closing(group: &str) -> usize {
    let mut depth = 1;
    for (at, letter) in group.char_indices() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        if depth == 0 {
            return at;
        }
    }
    group.len()
}

fn split_outside(inner: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, letter) in inner.char_indices() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        if letter == ',' && depth == 0 {
            parts.push(&inner[start..at]);
            start = at + 1;
        }
    }
    parts.push(&inner[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// The code of a file as one text, so that an import over several lines is whole.
fn joined_code(file: &Source) -> String {
    file.code().map(|(_, line)| format!("{line} ")).collect()
}

#[test]
fn layers_import_only_what_the_table_allows() {
    let allowed: BTreeMap<&str, &[&str]> = LAYERS.iter().copied().collect();
    let mut breaches = Vec::new();
    for file in crate_files(None).iter().filter(|file| !file.test_only) {
        let Some(own) = file.module.first() else {
            continue;
        };
        let Some(may) = allowed.get(format!("{}/{own}", file.of).as_str()) else {
            if LAYERED.contains(&file.of) {
                breaches.push(format!("{}: the table has no module {own}", file.path));
            }
            continue;
        };
        let names: BTreeSet<String> = paths_in(&joined_code(file), &file.module)
            .into_iter()
            .filter_map(|path| path.into_iter().next())
            .filter(|name| name.starts_with(|letter: char| letter.is_lowercase()))
            .collect();
        for name in names
            .iter()
            .filter(|name| *name != own && !may.contains(&name.as_str()))
        {
            breaches.push(format!("{} imports {name}, which {own} may not", file.path));
        }
    }
    report("imports outside of the layer table", &breaches);
}

/// What the load tool may have of the server's crates.
const LOAD_IMPORTS: [&str; 5] = [
    " tideline_wire::tablestore",
    " tideline_base::tls::client",
    " tideline_history::",
    " tideline_load::",
    " tideline_peers::",
];

#[test]
fn the_load_tool_imports_encodings_only() {
    let mut breaches = Vec::new();
    for file in rust_files("load") {
        for (number, code) in file.code() {
            let paths = code.match_indices(" tideline_");
            let ours = paths.filter(|(at, _)| {
                let path = &code[*at..];
                !LOAD_IMPORTS.iter().any(|known| path.starts_with(known))
            });
            breaches.extend(ours.map(|_| format!("{}:{number}: {code}", file.path)));
        }
    }
    report("imports of the server's crates in load/", &breaches);
}

#[test]
fn modules_import_each_other_in_one_direction() {
    let breaches: Vec<String> = CRATES.iter().flat_map(|of| cycles(of)).collect();
    report("import cycles", &breaches);
}

/// The cycles of imports in one crate.
fn cycles(of: &str) -> Vec<String> {
    let files: Vec<Source> = crate_files(Some(of))
        .into_iter()
        .filter(|file| !file.test_only)
        .collect();
    let known: BTreeSet<Vec<String>> = files.iter().map(|file| file.module.clone()).collect();
    let faces = re_exports(&files, &known);
    let mut edges = Edges::new();
    for file in &files {
        for path in paths_in(&joined_code(file), &file.module) {
            let target = resolve(&path, &known, &faces);
            // A folder's face and what is in the folder know each other; that is what a face is for.
            let family = target.starts_with(&file.module) || file.module.starts_with(&target);
            if !target.is_empty() && !family {
                edges.entry(file.module.clone()).or_default().insert(target);
            }
        }
    }
    circles(&edges)
}

/// Who imports whom.
type Edges = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

fn circles(edges: &Edges) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut cleared = BTreeSet::new();
    for start in edges.keys() {
        walk(start, edges, &mut Vec::new(), &mut cleared, &mut breaches);
    }
    breaches
}

#[test]
fn files_of_other_languages_import_each_other_in_one_direction() {
    let mut breaches = Vec::new();
    for (ending, before, behind) in [(".py", "from .", " import "), (".js", " from \"./", "\"")] {
        let mut edges = Edges::new();
        for path in tracked().iter().filter(|path| path.ends_with(ending)) {
            let (folder, _) = path.rsplit_once('/').unwrap_or_default();
            let text = fs::read_to_string(root().join(path)).expect("UTF-8");
            for line in text.lines() {
                let named = line
                    .split_once(before)
                    .and_then(|(_, rest)| rest.split_once(behind));
                if let Some((name, _)) = named {
                    let name = name.trim_end_matches(ending);
                    let target = vec![format!("{folder}/{name}{ending}")];
                    edges.entry(vec![path.clone()]).or_default().insert(target);
                }
            }
        }
        assert!(!edges.is_empty(), "no {ending} file imports another");
        breaches.extend(circles(&edges));
    }
    report("import cycles", &breaches);
}

/// (module, name) → the module that a `pub use` of a folder's face takes the name from.
type Faces = BTreeMap<(Vec<String>, String), Vec<String>>;

fn re_exports(files: &[Source], known: &BTreeSet<Vec<String>>) -> Faces {
    let mut faces = Faces::new();
    for file in files {
        let code = joined_code(file);
        for statement in code.split(';') {
            let Some((visibility, what)) = statement.split_once(" use ") else {
                continue;
            };
            if !visibility.trim_end().ends_with("pub") && !visibility.trim_end().ends_with(')') {
                continue;
            }
            for path in expand(what.trim()) {
                let whole: Vec<String> = file.module.iter().cloned().chain(path.clone()).collect();
                let (Some(name), Some(from)) = (path.last(), whole.get(..whole.len() - 1)) else {
                    continue;
                };
                if known.contains(from) && from != file.module {
                    faces.insert((file.module.clone(), name.clone()), from.to_vec());
                }
            }
        }
    }
    faces
}

/// The module file that a path leads to.
fn resolve(path: &[String], known: &BTreeSet<Vec<String>>, faces: &Faces) -> Vec<String> {
    let longest = (0..=path.len())
        .rev()
        .find(|length| known.contains(&path[..*length]));
    let module = path[..longest.unwrap_or(0)].to_vec();
    let name = path.get(module.len()).cloned().unwrap_or_default();
    faces
        .get(&(module.clone(), name))
        .cloned()
        .unwrap_or(module)
}

fn walk(
    at: &Vec<String>,
    edges: &Edges,
    trail: &mut Vec<Vec<String>>,
    cleared: &mut BTreeSet<Vec<String>>,
    breaches: &mut Vec<String>,
) {
    if let Some(from) = trail.iter().position(|one| one == at) {
        let names: Vec<String> = trail[from..]
            .iter()
            .chain([at])
            .map(|one| one.join("::"))
            .collect();
        breaches.push(names.join(" -> "));
        return;
    }
    if !cleared.insert(at.clone()) {
        return;
    }
    trail.push(at.clone());
    for next in edges.get(at).into_iter().flatten() {
        walk(next, edges, trail, cleared, breaches);
    }
    trail.pop();
}

fn all_rust_files() -> Vec<Source> {
    ["src", "load", "tests"]
        .iter()
        .flat_map(|folder| rust_files(folder))
        .collect()
}

#[test]
fn no_file_is_named_after_nothing() {
    let mut breaches = Vec::new();
    for file in all_rust_files() {
        let mut names = file.path.trim_end_matches(".rs").split('/');
        if names.any(|name| FORBIDDEN_NAMES.contains(&name)) {
            breaches.push(file.path);
        }
    }
    report("a name that says nothing about what is inside", &breaches);
}

#[test]
fn tests_have_one_layout() {
    let is_tests = |name: &str| name.ends_with("_test") || name.ends_with("_tests");
    let mut breaches = Vec::new();
    for file in crate_files(None) {
        if file.module.last().is_some_and(|name| is_tests(name)) {
            breaches.push(file.path);
        }
    }
    report(
        "tests that are neither at the end of a file nor in `tests/` beside it",
        &breaches,
    );
}

#[test]
fn files_are_short() {
    let mut breaches = Vec::new();
    for file in all_rust_files() {
        let lines = file.lines_without_tests();
        let checks = file.path.starts_with("tests/") || file.test_only;
        if lines > LINES_MAX && !checks && !LONG_FILES.contains(&file.path.as_str()) {
            breaches.push(format!("{}: {lines} lines without its tests", file.path));
        }
    }
    report("files above 400 lines", &breaches);
}

#[test]
fn folders_are_small() {
    let mut files: BTreeMap<String, usize> = BTreeMap::new();
    for file in crate_files(None) {
        let (folder, _) = file.path.rsplit_once('/').expect("in a folder");
        *files.entry(folder.to_owned()).or_default() += 1;
    }
    let large = files.iter().filter(|(_, count)| **count > FILES_MAX);
    let breaches: Vec<String> = large
        .map(|(folder, count)| format!("{folder}: {count}"))
        .collect();
    report("folders of more than 15 files", &breaches);
}

#[test]
fn every_file_says_what_it_owns() {
    let mut breaches = Vec::new();
    for file in all_rust_files() {
        let opening: Vec<&str> = file
            .text
            .lines()
            .take_while(|line| line.starts_with("//!"))
            .collect();
        let bytes: usize = opening.iter().map(|line| line.len()).sum();
        if opening.len() < 3 && bytes < 150 {
            breaches.push(file.path);
        }
    }
    report(
        "files that do not open with three lines on what they own, promise and must not do",
        &breaches,
    );
}

#[test]
fn comments_are_as_wide_as_a_page() {
    let mut breaches = Vec::new();
    for file in all_rust_files() {
        let mut drawn = false;
        for (index, line) in file.text.lines().enumerate() {
            let comment = line.trim_start();
            drawn ^= comment.starts_with("//") && comment.contains("```");
            // Formats are drawn in tables, which no width would make clearer.
            if comment.starts_with("//") && !drawn && line.chars().count() > COMMENT_COLUMNS_MAX {
                breaches.push(format!("{}:{}", file.path, index + 1));
            }
        }
    }
    report("comments wider than 120 columns", &breaches);
}

/// Whether a word stands in the code by itself.
fn has_word(code: &str, word: &str) -> bool {
    let part = |letter: char| letter.is_alphanumeric() || letter == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back().is_some_and(part);
        let after = code[at + word.len()..].chars().next().is_some_and(part);
        !before && !after
    })
}

#[test]
fn unsafe_and_printing_stay_in_their_places() {
    let mut breaches = Vec::new();
    for file in rust_files("src").into_iter().chain(rust_files("load")) {
        for (number, code) in file.code() {
            if has_word(code, "unsafe") && !file.path.starts_with("src/store/image/") {
                breaches.push(format!(
                    "{}:{number}: unsafe outside of src/store/image/",
                    file.path
                ));
            }
            for printing in ["println!", "eprintln!", "print!", "eprint!", "dbg!"] {
                if code.contains(&format!("{printing}(")) {
                    breaches.push(format!("{}:{number}: {printing}", file.path));
                }
            }
        }
    }
    report("unsafe or printing in the wrong place", &breaches);
}

/// The files of what writes the log, and of what is read under locks.
const QUIET: &[&str] = &[
    "src/base/clock.rs",
    "src/base/journal.rs",
    "src/base/metrics/",
    "src/base/log_event.rs",
    "src/base/request.rs",
];

#[test]
fn nothing_is_logged_or_waited_for_under_a_lock() {
    let files = rust_files("src");
    let files = files.iter().filter(|file| !file.test_only);
    let texts: Vec<locks::Text<'_>> = files
        .map(|file| (file.path.as_str(), file.code().collect()))
        .collect();
    report(
        "logged or waited for under a lock",
        &locks::breaches(&texts),
    );
    let is_quiet = |path: &str| QUIET.iter().any(|quiet| path.starts_with(quiet));
    report(
        "logged by what writes the log",
        &locks::loud_lines(&texts, is_quiet),
    );
}

/// What comes from outside is read by `decode`, whose rules no type can forget: not by serde's own readers.
#[test]
fn what_comes_from_outside_is_read_in_one_way() {
    const READERS: &[&str] = &["serde_json::from_", "toml::from_", "rmp_serde::from_"];
    const OUTSIDE: &[&str] = &["src/model/", "src/wire/", "src/gateway/", "src/config/"];
    let mut breaches = Vec::new();
    for file in rust_files("src") {
        let is_outside = |folder: &&str| file.path.starts_with(folder);
        if file.test_only || !OUTSIDE.iter().any(is_outside) {
            continue;
        }
        for (line, code) in file.code() {
            // Its own description, made of files of the project.
            let is_ours = code.contains("method.example()");
            // What a decoder that was called by `decode` does with what it was given.
            let goes_on = code.contains("::deserialize(from)")
                || code.contains("Strict::")
                || file.path.starts_with("src/wire/")
                || file.path.starts_with("src/model/");
            let by_type = code.contains("::deserialize(") && !goes_on;
            if by_type || !is_ours && READERS.iter().any(|reader| code.contains(reader)) {
                breaches.push(format!("{}:{line}: use tideline_base::decode", file.path));
            }
        }
    }
    report("serde's readers take arrays for objects", &breaches);
}

#[test]
fn the_top_level_is_the_designs() {
    let names: BTreeSet<&str> = tracked()
        .iter()
        .map(|path| path.split('/').next().unwrap_or(path))
        .collect();
    let others = names.into_iter().filter(|name| !TOP_LEVEL.contains(name));
    let breaches: Vec<String> = others.map(str::to_owned).collect();
    report("not in the layout of the repository", &breaches);
}

#[test]
fn there_is_one_library_of_cryptography() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock");
    let has = |name: &&&str| lock.contains(&format!("\nname = \"{name}\"\n"));
    let others: Vec<String> = OTHER_CRYPTO
        .iter()
        .filter(has)
        .map(|name| (*name).to_owned())
        .collect();
    report("a second library of cryptography beside ring", &others);
    assert!(has(&&"ring"));
}

#[test]
fn documents_name_files_that_exist() {
    let mut breaches = Vec::new();
    for document in tracked().iter().filter(|path| path.ends_with(".md")) {
        let Ok(text) = fs::read_to_string(root().join(document)) else {
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            for quoted in line.split('`').skip(1).step_by(2) {
                let ours = ["src/", "load/", "tests/", "schemas/", "grafana/", ".ci/"];
                let plain = !quoted.contains([' ', '*', '<', '{', '…']);
                if plain && ours.iter().any(|folder| quoted.starts_with(folder)) {
                    // `src/store/log/frame.rs:20` and `src/store/log/frame.rs::encode` are a file and a place in it.
                    let file = quoted.split(':').next().unwrap_or(quoted);
                    if !root().join(file).exists() {
                        breaches.push(format!("{document}:{}: {file}", number + 1));
                    }
                }
            }
        }
    }
    report("documents name files that are not there", &breaches);
}

#[test]
fn links_lead_somewhere() {
    let mut breaches = Vec::new();
    for document in tracked().iter().filter(|path| path.ends_with(".md")) {
        let text = fs::read_to_string(root().join(document)).unwrap_or_default();
        for link in text.split("](").skip(1) {
            let link = link.split(')').next().unwrap_or(link);
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let path = match file {
                "" => root().join(document),
                file => root().join(document).with_file_name("").join(file),
            };
            let is_there = match anchor {
                "" => path.exists(),
                anchor => fs::read_to_string(path)
                    .is_ok_and(|text| anchors(&text).any(|one| one == anchor)),
            };
            if !file.contains("://") && !is_there {
                breaches.push(format!("{document}: {link}"));
            }
        }
    }
    report("links lead nowhere", &breaches);
}

/// Of a document's titles, as the common renderers of Markdown make them.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let titles = text.lines().filter(|line| line.starts_with('#'));
    titles.map(|title| {
        let title = title.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|at| at.is_alphanumeric() || "-_ ".contains(*at));
        kept.map(|at| if at == ' ' { '-' } else { at }).collect()
    })
}

/// Follows README in copies of the repository, with git and without, and keeps what it says to save.
#[test]
fn files_of_users_are_none_of_our_business() {
    if std::env::var_os(OTHER_ROOT).is_some() {
        return;
    }
    let of_users = [
        "chat.py",
        "arrivals.py",
        "transfer.py",
        "ann.json",
        "tideline.toml",
        ".idea/workspace.xml",
        "venv/lib/python3/site-packages/utils.rs",
        "load/notes.txt",
    ];
    for is_archive in [false, true] {
        let copy = Copied::of_the_project();
        if !is_archive && !copy.track() {
            return;
        }
        for path in of_users {
            copy.write(path, b"// mine");
        }
        let (passed, said) = copy.tidy();
        assert!(passed, "archive: {is_archive}\n{said}");
    }
}

/// A breach of each rule, in each kind of file: one that declares its tests, one that ends with them, one without any.
#[test]
fn planted_breaches_are_found() {
    const KINDS: [(&str, &str); 3] = [
        ("src/timelines/timeline/unread/mod.rs", "timeline::write"),
        (
            "src/timelines/timeline/rows/head.rs",
            "timeline::write::edit",
        ),
        ("src/timelines/timeline/write/edit.rs", "timeline::time"),
    ];
    const OUTSIDE: [&str; 3] = [
        "src/gateway/dispatch/mod.rs",
        "src/wire/schema/rules.rs",
        "src/config/mod.rs",
    ];
    const RULES: [&str; 6] = [
        "imports outside of the layer table",
        "import cycles",
        "files above 400 lines",
        "comments wider than 120 columns",
        "unsafe or printing in the wrong place",
        "logged or waited for under a lock",
    ];
    if std::env::var_os(OTHER_ROOT).is_some() {
        return;
    }
    let copy = Copied::of_the_project();
    for (path, behind) in KINDS {
        copy.plant(path, &format!(
            "use crate::people::Planted;\nuse crate::{behind}::Planted;\n// {}\n{}\
             fn planted(lock: &Mutex<u8>) {{\n    let held = lock.lock();\n    tracing::info!(\"{{held}}\");\n    println!();\n}}\n",
            "wide ".repeat(30),
            "const LONG: u8 = 0;\n".repeat(LINES_MAX),
        ));
    }
    for path in OUTSIDE {
        copy.plant(
            path,
            "fn planted(text: &str) -> u8 {\n    serde_json::from_str(text)\n}\n",
        );
    }
    for number in 0..=FILES_MAX {
        copy.write(&format!("src/timelines/timeline/planted/a{number}.rs"), b"");
    }
    let (_, said) = copy.tidy();
    let of = |rule: &str| {
        let (_, behind) = said.split_once(&format!("\n{rule}")).unwrap_or_default();
        behind.split("\n\n").next().unwrap_or_default().to_owned()
    };
    for rule in RULES {
        let listed = of(rule);
        for (path, _) in KINDS {
            let module = path.trim_start_matches("src/timelines/");
            let module = module.trim_end_matches(".rs");
            let module = module.trim_end_matches("/mod").replace('/', "::");
            assert!(
                listed.contains(path) || listed.contains(&module),
                "{rule}: {path}\n{listed}"
            );
        }
    }
    let listed = of("folders of more than 15 files");
    assert!(
        listed.contains("src/timelines/timeline/planted: 16"),
        "{listed}"
    );
    let listed = of("serde's readers take arrays for objects");
    assert!(OUTSIDE.iter().all(|path| listed.contains(path)), "{listed}");
}

/// A copy of the project's files, to be tried by this program.
struct Copied(tempfile::TempDir);

impl Copied {
    fn of_the_project() -> Copied {
        let copy = Copied(tempfile::tempdir().expect("a folder"));
        for path in tracked() {
            copy.write(path, &fs::read(root().join(path)).expect("readable"));
        }
        copy
    }

    fn write(&self, path: &str, text: &[u8]) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("below the copy")).expect("writable");
        fs::write(path, text).expect("writable");
    }

    /// Adds code behind all of a file's own, but before its tests.
    fn plant(&self, path: &str, code: &str) {
        let text = fs::read_to_string(self.0.path().join(path)).expect("a file of the project");
        let at = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
        let (before, tests) = text.split_at(at);
        self.write(path, format!("{before}{code}{tests}").as_bytes());
    }

    /// Has git track everything; `false` if there is no git.
    fn track(&self) -> bool {
        [&["init", "--quiet"][..], &["add", "--all"]]
            .iter()
            .all(|arguments| {
                let mut git = Command::new("git");
                git.env_remove("GIT_DIR").env_remove("GIT_INDEX_FILE");
                git.arg("-C").arg(self.0.path()).args(*arguments);
                git.status().is_ok_and(|ended| ended.success())
            })
    }

    /// Whether all rules hold there, and what was said.
    fn tidy(&self) -> (bool, String) {
        let tests = std::env::current_exe().expect("this program");
        let mut again = Command::new(tests);
        let again = again.env(OTHER_ROOT, self.0.path()).output().expect("runs");
        (
            again.status.success(),
            String::from_utf8_lossy(&again.stdout).into_owned(),
        )
    }
}

/// The parser of imports, on which two rules above rest.
#[test]
fn imports_are_read_right() {
    let module: Vec<String> = ["log", "frame"].map(str::to_owned).into();
    let read = |code: &str| -> Vec<String> {
        paths_in(code, &module)
            .iter()
            .map(|path| path.join("::"))
            .collect()
    };
    assert_eq!(
        read("use crate::ids::{Clock, Position};"),
        ["ids::Clock", "ids::Position"]
    );
    assert_eq!(read("use crate::{a::{b, c}, d};"), ["a::b", "a::c", "d"]);
    assert_eq!(
        read("use super::segment::Segment; super::super::image::X"),
        ["log::segment::Segment", "image::X"]
    );
    assert_eq!(
        read("crate::model::Value::Text(crate::ids::x())"),
        ["model::Value::Text", "ids::x"]
    );
    assert!(read("pub(in crate::log) fn; mycrate::x; $crate::y").is_empty());
}
