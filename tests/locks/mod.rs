//! What may not be done while a lock is held: logging, waiting, or calling what does so.
//!
//! Owns: a reader of source that rustfmt has laid out, whose indentation says where a block ends. Promises: it finds a
//! guard that is bound, one in the head of a block and one within a statement, and what is done until that ends, also
//! through functions that are called there. It goes by names: a call counts if every function that it can mean does so.
//! Must not: know a file.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

/// A file: its path, and its lines with their numbers, without comments and tests.
pub(crate) type Text<'t> = (&'t str, Vec<(usize, &'t str)>);

/// What is logged or waited for while a lock is held, by file and line.
pub(crate) fn breaches(files: &[Text<'_>]) -> Vec<String> {
    let reader = Reader::new(files);
    let mut found = BTreeSet::new();
    for (path, lines) in files {
        for (at, (_, line)) in lines.iter().enumerate() {
            if !reader.locks(path, line) {
                continue;
            }
            for held in reader.held(path, lines, at) {
                let (number, line) = lines[held];
                if let Some(what) = reader.loud(path, line) {
                    found.insert(format!(
                        "{path}:{number}: {what}, with the lock of line {}",
                        lines[at].0
                    ));
                }
            }
        }
    }
    found.into_iter().collect()
}

/// Where files that are used by what writes the log do so themselves.
pub(crate) fn loud_lines(files: &[Text<'_>], is_quiet: impl Fn(&str) -> bool) -> Vec<String> {
    let reader = Reader::new(files);
    let mut found = Vec::new();
    for (path, lines) in files.iter().filter(|(path, _)| is_quiet(path)) {
        for (number, line) in lines {
            if let Some(what) = reader.loud(path, line) {
                found.push(format!("{path}:{number}: {what}"));
            }
        }
    }
    found
}

struct Reader<'t> {
    /// Functions by name.
    functions: BTreeMap<&'t str, Vec<Function<'t>>>,
    /// Those that give a guard, by file and name.
    guards: BTreeSet<(&'t str, &'t str)>,
    call: Regex,
    act: Regex,
    lock: Regex,
    bound: Regex,
}

struct Function<'t> {
    path: &'t str,
    /// It can be called on a value.
    is_method: bool,
    /// What it calls: each name, and whether it is called on a value.
    calls: BTreeSet<(&'t str, bool)>,
    /// It logs or waits.
    is_loud: bool,
}

impl<'t> Reader<'t> {
    fn new(files: &[Text<'t>]) -> Reader<'t> {
        let regex = |text: &str| Regex::new(text).expect("a pattern");
        let mut reader = Reader {
            functions: BTreeMap::new(),
            guards: BTreeSet::new(),
            call: regex(r"(fn |\.)?\b([a-z_][a-z0-9_]*)\("),
            act: regex(
                r"\btracing::[a-z]+!|\bcatch_unwind\(|\bthread::sleep\(|\bblocking_(recv|send)\(|\.recv\(\)|\bblock_on\(",
            ),
            lock: regex(
                r"\.(lock|read|write)\(\)(\.unwrap_or_else\(|\.expect\(|\?|;|$)|(^|[^.\w])lock\(&",
            ),
            bound: regex(r"^\s*let (?:mut )?(\w+) ="),
        };
        let head = regex(r"^\s*(?:pub(?:\([a-z: ]+\))? )?(?:const |async )*fn (\w+)");
        for (path, lines) in files {
            let heads = lines.iter().enumerate();
            for (at, (_, line)) in heads.filter(|(_, (_, line))| line.contains("fn ")) {
                let Some(name) = head.captures(line).and_then(|found| found.get(1)) else {
                    continue;
                };
                let end = closing(lines, at);
                let open = (at..end).find(|at| lines[*at].1.ends_with('{'));
                let open = open.unwrap_or(end);
                let signature = lines[at..=open].iter().map(|(_, line)| *line);
                let signature: String = signature.collect();
                if signature.contains("Guard<") {
                    reader.guards.insert((path, name.as_str()));
                }
                let body = lines[open..end].iter().skip(1).map(|(_, line)| *line);
                let function = Function {
                    path,
                    is_method: signature.contains("self"),
                    calls: body.clone().flat_map(|line| reader.calls(line)).collect(),
                    is_loud: body.clone().any(|line| reader.act.is_match(line)),
                };
                let named = reader.functions.entry(name.as_str()).or_default();
                named.push(function);
            }
        }
        // Until no further function is found that calls a loud one.
        loop {
            let mut found = Vec::new();
            for (name, all) in &reader.functions {
                for (at, one) in all.iter().enumerate().filter(|(_, one)| !one.is_loud) {
                    let mut calls = one.calls.iter();
                    if calls.any(|call| reader.is_loud(one.path, *call)) {
                        found.push((*name, at));
                    }
                }
            }
            if found.is_empty() {
                return reader;
            }
            for (name, at) in found {
                let named = reader.functions.get_mut(name);
                named.expect("it was there")[at].is_loud = true;
            }
        }
    }

    /// What a line calls: each name, and whether it is called on a value.
    fn calls<'l>(&self, line: &'l str) -> Vec<(&'l str, bool)> {
        let calls = self.call.captures_iter(line);
        let named = calls.filter_map(|call| {
            let before = call.get(1).map_or("", |before| before.as_str());
            Some((call.get(2)?.as_str(), before == ".")).filter(|_| before != "fn ")
        });
        named.collect()
    }

    /// Whether all that a call can mean log or wait: a function of the same file, if there is one.
    fn is_loud(&self, path: &str, (name, on_value): (&str, bool)) -> bool {
        let all = self.functions.get(name).into_iter().flatten();
        let meant: Vec<_> = all.filter(|one| one.is_method || !on_value).collect();
        let own = meant.iter().filter(|one| one.path == path);
        match own.clone().next() {
            Some(_) => own.clone().all(|one| one.is_loud),
            None => !meant.is_empty() && meant.iter().all(|one| one.is_loud),
        }
    }

    /// What a line logs, waits for or calls that does so.
    fn loud(&self, path: &str, line: &str) -> Option<String> {
        if let Some(act) = self.act.find(line) {
            return Some(act.as_str().to_owned());
        }
        let mut calls = self.calls(line).into_iter();
        let loud = calls.find(|call| self.is_loud(path, *call));
        loud.map(|(name, _)| format!("{name}()"))
    }

    /// Whether a line takes a lock; those of the standard streams are their only users'.
    fn locks(&self, path: &str, line: &str) -> bool {
        let mut calls = self.calls(line).into_iter();
        (self.lock.is_match(line) || calls.any(|(name, _)| self.guards.contains(&(path, name))))
            && !line.contains("::std")
    }

    /// The lines in which the guard of this line lives.
    fn held(&self, path: &str, lines: &[(usize, &str)], at: usize) -> Vec<usize> {
        let begin = statement(lines, at);
        let end = closing(lines, begin);
        let (first, last) = (lines[begin].1, lines[end].1);
        let starts = |heads: &[&str]| {
            let head = first.trim_start().trim_start_matches("} else ");
            heads.iter().any(|one| head.starts_with(one))
        };
        let text = lines[begin..=end].iter().map(|(_, line)| line.trim());
        let text: String = text.collect();
        let bound = self.bound.captures(first).and_then(|found| found.get(1));
        let name = match bound {
            // All that is bound is the guard.
            Some(name) if last.ends_with(';') && self.is_guard(path, &text) => name.as_str(),
            // The value of a condition is there before its block begins.
            _ if starts(&["if ", "while "]) && !starts(&["if let ", "while let "]) => {
                let open = (at..end).find(|at| lines[*at].1.ends_with('{'));
                return (at..=open.unwrap_or(end)).collect();
            }
            _ => return (at..=end).collect(),
        };
        let mut held = Vec::new();
        let (drop, mut dropped) = (format!("drop({name})"), None);
        for (below, (_, line)) in lines.iter().enumerate().skip(end + 1) {
            let depth = indent(line);
            if line.trim().is_empty() {
                continue;
            }
            if depth < indent(first) {
                break;
            }
            if dropped.is_some_and(|dropped| depth < dropped) {
                dropped = None;
            }
            if line.contains(&drop) {
                dropped = Some(depth);
            }
            if dropped.is_none() {
                held.push(below);
            }
        }
        held
    }

    /// Whether a statement binds nothing but a guard.
    fn is_guard(&self, path: &str, text: &str) -> bool {
        let value = text.split_once('=').map_or("", |(_, value)| value.trim());
        let value = value.trim_end_matches(';').trim_end_matches('?');
        let value = value
            .rsplit_once(".unwrap_or_else(")
            .map_or(value, |(before, _)| before);
        let Some(value) = value.strip_suffix(')') else {
            return false;
        };
        let Some((called, arguments)) = value.rsplit_once('(') else {
            return false;
        };
        let name = called
            .rsplit(|at: char| !at.is_alphanumeric() && at != '_')
            .next()
            .unwrap_or_default();
        let is_own = self.guards.contains(&(path, name));
        let is_free = name == "lock" && arguments.starts_with('&');
        !value.starts_with(['&', '*'])
            && (is_own
                || is_free
                || (arguments.is_empty() && ["lock", "read", "write"].contains(&name)))
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The first line of the statement that this line is a part of.
fn statement(lines: &[(usize, &str)], mut at: usize) -> usize {
    loop {
        let deep = indent(lines[at].1);
        let mut above = (0..at)
            .rev()
            .filter(|above| !lines[*above].1.trim().is_empty());
        let Some(above) = above.find(|above| indent(lines[*above].1) < deep) else {
            return at;
        };
        let line = lines[above].1.trim_end();
        if line.ends_with('{') || line.ends_with("=> (") || deep == 0 {
            return at;
        }
        at = above;
    }
}

/// The last line of the statement or item that begins here.
fn closing(lines: &[(usize, &str)], at: usize) -> usize {
    let depth = indent(lines[at].1);
    let mut end = at;
    for (below, (_, line)) in lines.iter().enumerate().skip(at + 1) {
        let (deep, text) = (indent(line), line.trim());
        let closes = deep == depth && text.starts_with([')', '}', ']', '.', '{']);
        if text.is_empty() || deep > depth {
            continue;
        }
        if !closes {
            break;
        }
        end = below;
        if text.starts_with('}') && !text.ends_with('{') {
            break;
        }
    }
    end
}

/// What has been wrong once, and others of each form.
#[test]
fn a_breach_is_found() {
    let read = |text: &'static str| {
        let lines: Vec<_> = text
            .lines()
            .enumerate()
            .map(|(at, line)| (at + 1, line))
            .collect();
        breaches(&[("a.rs", lines)])
    };
    let clock = "
fn at(&self) -> i64 {
    let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
    let offset_ms = steps.offset();
    drop(steps);
    steady_ms + self.other()
}
fn offset(&mut self) -> i64 {
    if self.is_new {
        tracing::warn!(
            \"a step\"
        );
    }
    0
}
fn other(&self) {
    tracing::info!(\"free\");
}
";
    assert_eq!(read(clock), ["a.rs:4: offset(), with the lock of line 3"]);
    let journal = "
fn push(&self) {
    let mut ring = self.ring();
    ring.lines.push_back(Line {
        at: self.clock.now_ms(),
    });
}
fn ring(&self) -> MutexGuard<'_, Ring> {
    self.ring.lock().unwrap_or_else(PoisonError::into_inner)
}
fn now_ms(&self) -> u64 {
    tracing::error!(\"a step\");
}
";
    assert_eq!(read(journal), ["a.rs:5: now_ms(), with the lock of line 3"]);
    let heads = "
fn one(&self) {
    if let Some(one) = lock(&self.all).first() {
        tracing::info!(one);
    }
    if lock(&self.all).is_empty() {
        tracing::info!(\"free\");
    }
    let first = lock(&self.all).first();
    tracing::info!(first, \"free\");
    self.sweep(
        &mut self
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner),
        queue.recv(),
    );
    {
        let state = lock(&self.all);
        state.sort();
    }
    queue.recv();
}
";
    assert_eq!(
        read(heads),
        [
            "a.rs:16: .recv(), with the lock of line 14",
            "a.rs:4: tracing::info!, with the lock of line 3"
        ]
    );
}
