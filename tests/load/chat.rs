//! `tideline-load chat` from outside, briefly: conversations of several sizes, busy and quiet ones.
//!
//! Owns: the proof that the profile drives a real server and checks what it says it checks. Promises: it takes seconds.
//! Must not: assert on time, or on a rate, which this machine may not reach while it tests.

use tideline_load::cli::measure;

#[test]
fn everybody_in_a_chat_gets_every_message_once_in_order() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let folder = data.path().join("data");
    let words = "chat --quiet --users 20 --timelines 40 --members 2..8 --rate 300 --warm-up 0.3 --seconds 1.5 \
                 --seed 7 --late-ms 1000";
    let (binary, folder) = (env!("CARGO_BIN_EXE_tideline"), folder.display());
    let line = format!("{words} --binary {binary} --data {folder}");
    let words = Vec::from_iter(line.split_whitespace().map(str::to_owned));
    let outcome = measure(&words).expect("the server is there");
    assert!(outcome.held(), "{:#?}", outcome.checks.told);
    let made = &outcome.checks.made;
    assert_eq!(made["timelines complete"], 40);
    assert!(made["messages appended"] > 100, "{made:?}");
    // Every message has at least two readers.
    assert!(
        made["deliveries in order"] >= 2 * made["messages appended"],
        "{made:?}"
    );
    assert!(made["pushes compared whole"] > 0, "{made:?}");
    assert_eq!(outcome.figures["busy"].value, 0.0);
}
