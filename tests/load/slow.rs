//! `tideline-load slow` from outside, briefly: a server with little patience, readers that stop, readers that pause.
//!
//! Owns: the proof that who stops reading is closed and resumes without gap, and that others do not notice. Promises:
//! it takes seconds. Must not: assert on time, or on how the goodbye arrives: who wakes up late may miss it.

use tideline_load::cli::measure;

#[test]
fn who_stops_reading_is_closed_and_resumes_without_gap() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let folder = data.path().join("data");
    let words = "slow --quiet --healthy 6 --stalled 3 --pausing 2 --slow-consumer-ms 1500 --rate 200 --size 2000 \
                 --warm-up 0.3 --seconds 3 --seed 7 --late-ms 1000 --env TIDELINE_SLOW_CONSUMER_MS=1500 \
                 --env TIDELINE_SOCKET_SEND_BYTES=16384";
    let (binary, folder) = (env!("CARGO_BIN_EXE_tideline"), folder.display());
    let line = format!("{words} --binary {binary} --data {folder}");
    let words = Vec::from_iter(line.split_whitespace().map(str::to_owned));
    let outcome = measure(&words).expect("the server is there");
    assert!(outcome.held(), "{:#?}", outcome.checks.told);
    let made = &outcome.checks.made;
    assert_eq!(made["stalled readers closed and resumed"], 3, "{made:?}");
    // All readers, those that were closed too, have every message.
    assert_eq!(
        made["deliveries in order"],
        11 * made["messages appended"],
        "{made:?}"
    );
    assert!(outcome.latencies.contains_key("delivery"));
}
