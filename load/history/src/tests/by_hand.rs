//! Histories of a few lines, as they are in files.
//!
//! Owns: what a seed finds too seldom, the lines that prove a violation, and what can't be read.

use std::fs;

use crate::{HistoryError, Report, check_files};

/// Two appends to `t` by one client, both acknowledged.
const APPENDS: [&str; 4] = [
    r#"[1,"w",{"invoke":[1,[{"append":{"timeline":"t","message_id":"m1","entry":1}}]]}]"#,
    r#"[2,"w",{"ok":[1,[{"sequence":1,"timestamp":5}]]}]"#,
    r#"[3,"w",{"invoke":[2,[{"append":{"timeline":"t","message_id":"m2","digest":"0123456789abcdef"}}]]}]"#,
    r#"[4,"w",{"ok":[2,[{"sequence":2,"timestamp":5}]]}]"#,
];
/// What is stored then.
const STORED: [&str; 3] = [
    r#"{"timeline":"t","epoch":"e","meta":{},"head":2,"floor":1}"#,
    r#"{"timeline":"t","message":{"sequence":1,"timestamp":5,"message_id":"m1","entry":1}}"#,
    r#"{"timeline":"t","message":{"sequence":2,"timestamp":5,"message_id":"m2","digest":"0123456789abcdef"}}"#,
];

fn checked(files: &[String]) -> Result<Report, HistoryError> {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = (0..files.len()).map(|number| folder.path().join(format!("{number}.jsonl")));
    let paths = Vec::from_iter(paths);
    for (path, text) in paths.iter().zip(files) {
        fs::write(path, text).expect("written");
    }
    check_files(&paths)
}

fn lines(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The names of what is found in these lines, with the numbers of the lines that prove the first.
fn found(records: &[&str]) -> (Vec<&'static str>, Vec<u32>) {
    let report = checked(&[lines(records)]).expect("readable");
    let names = report.counts.keys().map(|anomaly| anomaly.name()).collect();
    let first = report.violations.first();
    let proof = first.map(|first| first.proof.iter().map(|place| place.line).collect());
    (names, proof.unwrap_or_default())
}

/// Finds this, by these lines, where one record stands in the place of another.
#[track_caller]
fn with(at: usize, record: &str, names: &[&str], proof: &[u32]) {
    let mut all = [&APPENDS[..], &STORED].concat();
    all[at] = record;
    assert_eq!(found(&all), (names.to_vec(), proof.to_vec()));
}

/// As [`with`], but the records come behind the others.
#[track_caller]
fn and(records: &[&str], names: &[&str], proof: &[u32]) {
    let all = [&APPENDS[..], &STORED, records].concat();
    assert_eq!(found(&all), (names.to_vec(), proof.to_vec()));
}

#[test]
fn acknowledgements_are_held_against_what_is_stored() {
    and(&[], &[], &[]);
    with(4, r#"{"timeline":"t","head":3}"#, &["gap"], &[5]);
    with(6, r#"{"timeline":"u","head":0}"#, &["gap", "lost"], &[5]);
    let twin =
        r#"{"timeline":"t","message":{"sequence":2,"timestamp":5,"message_id":"m1","entry":1}}"#;
    with(6, twin, &["duplicate", "lost"], &[7]);
    let elsewhere = r#"[4,"w",{"ok":[2,[{"sequence":3}]]}]"#;
    with(3, elsewhere, &["misplaced"], &[3, 4]);
    // The second was known before the first was sent.
    let [first, answer, second, other] = APPENDS;
    let swap = |line: &str, from: &str, to: &str| line.replace(from, to);
    let late = [
        &*swap(second, "[3,", "[1,"),
        &*swap(other, "[4,", "[1,"),
        first,
        answer,
    ];
    let all = [&late[..], &STORED].concat();
    assert_eq!(found(&all).0, ["reordered"]);
    // One client's order holds also without answers, but not if it was said to be unknown.
    let both = [&*swap(second, "[3,", "[1,"), first];
    assert_eq!(found(&[&both[..], &STORED].concat()).0, ["reordered"]);
    let unknown = r#"[2,"w",{"unknown":[2,"busy"]}]"#;
    let open = [&both[..], &[unknown], &STORED].concat();
    assert_eq!(found(&open).0, [""; 0]);
    let refused = r#"[4,"w",{"fail":[2,"busy"]}]"#;
    with(3, refused, &["G1a"], &[3, 4]);
}

#[test]
fn reads_and_conditions_are_held_against_what_was_known() {
    let read = |op: u32, client: &str, head: u32| {
        [
            format!(
                r#"[9,"{client}",{{"invoke":[{op},[{{"read":{{"timeline":"t","from":9}}}}]]}}]"#
            ),
            format!(r#"[9,"{client}",{{"ok":[{op},[{{"head":{head}}}]]}}]"#),
        ]
    };
    let reads = |all: &[[String; 2]], names: &[&str], proof: &[u32]| {
        let all: Vec<&str> = all.iter().flatten().map(String::as_str).collect();
        and(&all, names, proof);
    };
    reads(&[read(1, "r", 2), read(2, "r", 2)], &[], &[]);
    reads(&[read(1, "r", 1)], &["stale"], &[8, 9]);
    reads(
        &[read(1, "r", 2), read(2, "r", 1)],
        &["non-monotonic"],
        &[9, 10, 11],
    );
    reads(&[read(1, "r", 3)], &["lost"], &[8, 9]);
    let conditional = |head: u32| {
        format!(
            r#"[9,"c",{{"invoke":[1,[{{"append":{{"timeline":"t","message_id":"c","entry":1,"expect_head":{head}}}}}]]}}]"#
        )
    };
    let refused = r#"[9,"c",{"fail":[1,"condition_failed"]}]"#;
    and(&[&conditional(1), refused], &[], &[]);
    and(&[&conditional(2), refused], &["wrong-condition"], &[8, 9]);
    // It was pushed, refused and is not there.
    let subscribe = r#"[9,"s",{"subscribe":["t",2]}]"#;
    let push = r#"[9,"s",{"push":["t",[{"sequence":3,"message_id":"c"}]]}]"#;
    and(
        &[subscribe, &conditional(1), push, refused],
        &["G1a"],
        &[10, 11],
    );
    and(&[subscribe, push], &["lost"], &[9]);
}

#[test]
fn circles_have_the_name_of_what_is_in_them() {
    let stored = |timeline: &str, ids: [&str; 2]| {
        let head = format!(r#"{{"timeline":"{timeline}","head":2}}"#);
        let one = |(at, id): (usize, &&str)| {
            let at = at + 1;
            format!(
                r#"{{"timeline":"{timeline}","message":{{"sequence":{at},"message_id":"{id}","entry":1}}}}"#
            )
        };
        Vec::from_iter([head].into_iter().chain(ids.iter().enumerate().map(one)))
    };
    let append = |timeline: &str, id: &str| {
        format!(r#"{{"append":{{"timeline":"{timeline}","message_id":"{id}","entry":1}}}}"#)
    };
    let read = |timeline: &str| format!(r#"{{"read":{{"timeline":"{timeline}","from":9}}}}"#);
    let op = |client: &str, calls: [String; 2], answers: [&str; 2]| {
        let (calls, answers) = (calls.join(","), answers.join(","));
        (
            format!(r#"[1,"{client}",{{"invoke":[1,[{calls}]]}}]"#),
            format!(r#"[2,"{client}",{{"ok":[1,[{answers}]]}}]"#),
        )
    };
    let names = |one: (String, String), other: (String, String), stored: &[String]| {
        let events = [one.0, other.0, one.1, other.1];
        let all: Vec<&str> = events.iter().chain(stored).map(String::as_str).collect();
        found(&all).0
    };
    let (first, second) = (r#"{"sequence":1}"#, r#"{"sequence":2}"#);
    let crossing = |of_b: [&str; 2]| {
        let all = [stored("a", ["x", "y"]), stored("b", of_b)].concat();
        let (at_x, at_y) = if of_b[0] == "x" {
            (first, second)
        } else {
            (second, first)
        };
        let x = op("x", [append("a", "x"), append("b", "x")], [first, at_x]);
        names(
            x,
            op("y", [append("a", "y"), append("b", "y")], [second, at_y]),
            &all,
        )
    };
    assert_eq!(crossing(["x", "y"]), [""; 0]);
    assert_eq!(crossing(["y", "x"]), ["G0"]);
    let of_one = |timeline: &str, id: &str| stored(timeline, [id, id])[1].clone();
    let heads = ["a", "b"].map(|name| format!(r#"{{"timeline":"{name}","head":1}}"#));
    let [a, b] = heads;
    let all = [a, of_one("a", "x"), b, of_one("b", "y")];
    let reading = |of_x: &str, of_y: &str| {
        let x = op("x", [append("a", "x"), read("b")], [first, of_x]);
        names(
            x,
            op("y", [append("b", "y"), read("a")], [first, of_y]),
            &all,
        )
    };
    assert_eq!(reading(r#"{"head":0}"#, r#"{"head":1}"#), [""; 0]);
    assert_eq!(reading(r#"{"head":1}"#, r#"{"head":1}"#), ["G1c"]);
}

#[test]
fn files_are_one_history_by_their_times_and_a_torn_end_is_left_out() {
    let [first, answer, second, _] = APPENDS;
    let own = |events: &[&str]| lines(events);
    let dump = lines(&STORED);
    let torn = own(&[second]) + r#"[4,"w",{"o"#;
    let report = checked(&[own(&[first, answer]), torn, dump.clone()]).expect("readable");
    assert_eq!(
        (report.total(), report.checked["torn lines"]),
        (0, 1),
        "{report}"
    );
    // A second dump, that of another node, is the same or not.
    let other = dump.replace("\"timestamp\":5", "\"timestamp\":6");
    for (node, count) in [(dump.clone(), 0), (other, 2), (lines(&STORED[..2]), 1)] {
        let report = checked(&[own(&APPENDS), dump.clone(), node]).expect("readable");
        assert_eq!(report.total(), count, "{report}");
    }
    let wrong = |text: String, what: &str| {
        let said = checked(&[text, dump.clone()]).expect_err(what).to_string();
        assert!(said.contains(what), "{said}");
    };
    wrong(
        own(&[answer]),
        "0.jsonl:1: w: an answer to what was not asked",
    );
    wrong(
        own(&[second, first]),
        "0.jsonl:2: an event of w at 1 ns comes after one at 3",
    );
    wrong(
        own(&["{}"]),
        "0.jsonl:1: neither an event nor a line of a dump",
    );
    wrong(own(&["x"]), "0.jsonl:1: ");
    wrong(
        own(&[&first.replace("\"append\"", "\"oops\"")]),
        "unknown variant `oops`",
    );
    wrong(
        lines(&[STORED[2]]),
        "stands before the line of its timeline",
    );
    wrong(
        own(&[&second.replace("0123", "123")]),
        "16 hexadecimal digits",
    );
    let said = checked(&[own(&APPENDS)]).expect_err("no dump").to_string();
    assert!(said.starts_with("there is no final dump"), "{said}");
}
