//! What the load tool makes of its runs against the real binary: results, verdicts, exit codes, comparisons.
//!
//! Owns: the promise that a script can rest on the exit code and on the JSON. Must not: assert on time or speed:
//! numbers are small, and whether an open loop kept its schedule is asserted only where it cannot have.

use std::path::Path;

use clap::Parser;
use tideline_load::cli::Cli;
use tideline_load::exit::{Stop, Verdict};
use tideline_load::outcome::Outcome;

/// Runs the tool with the words of a line.
fn tool(line: &str) -> Result<Verdict, Stop> {
    let words = std::iter::once("tideline-load").chain(line.split_whitespace());
    Cli::parse_from(words).command.run()
}

/// Flags for a short run against a server of its own.
fn short(folder: &Path, name: &str) -> String {
    let (binary, folder) = (env!("CARGO_BIN_EXE_tideline"), folder.display());
    format!(
        "--quiet --warm-up 0.2 --seconds 1 --binary {binary} --data {folder}/data-{name} --json {folder}/{name}.json"
    )
}

fn result(folder: &Path, name: &str) -> Outcome {
    Outcome::load(&folder.join(format!("{name}.json"))).expect("a result")
}

#[test]
fn a_closed_loop_is_valid_and_says_all_there_is() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let flags = short(folder.path(), "one");
    let pictures = folder.path().join("pictures");
    let line = format!(
        "append --connections 4 --in-flight 4 --timelines 20 --preload 100 --preload-timelines 10 --seed 7 {flags} --pictures {}",
        pictures.display()
    );
    assert_eq!(tool(&line).expect("a run"), Verdict::Held);
    let outcome = result(folder.path(), "one");
    assert_eq!((outcome.profile.as_str(), outcome.seed), ("append", 7));
    assert_eq!(outcome.settings["in_flight"], 4);
    let text = std::fs::read_to_string(folder.path().join("one.json")).expect("a result");
    let place = folder.path().display().to_string();
    assert!(!text.contains(&place), "a result tells no paths");
    assert!(outcome.held() && outcome.validity.valid);
    let acks = &outcome.latencies["ack"];
    let quantiles =
        ["p50", "p99", "p999", "max"].map(|of| outcome.figures[&format!("ack_{of}")].value);
    assert!(acks.count > 0 && quantiles[0] > 0.0 && quantiles.is_sorted());
    assert_eq!(outcome.figures["ack_count"].value, acks.count as f64);
    assert_eq!(acks.curve.last().map(|step| step.2), Some(acks.count));
    let seconds: u64 = outcome.series.latencies["ack"].count.iter().sum();
    assert!(seconds <= acks.count);
    assert_eq!(outcome.figures["appends_per_second"].unit, "1/s");
    assert!(outcome.checks.made["messages read back"] > 0);
    assert!(outcome.series.samples["server_resident_bytes"].value[0] > 0.0);
    let moved = outcome
        .metrics
        .values()
        .any(|metric| metric.after > metric.before);
    assert!(moved, "the server's metrics are in the result");
    for name in ["latency.svg", "time.svg", "resources.svg"] {
        let svg = std::fs::read_to_string(pictures.join(name)).expect(name);
        assert!(svg.starts_with("<svg"), "{name}");
    }
}

#[test]
fn pages_that_are_not_there_are_broken_promises() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let line = "history --connections 2 --page 5 --preload 500 --preload-timelines 10 --prefix p/";
    let flags = short(folder.path(), "pages");
    assert_eq!(
        tool(&format!("{line} {flags}")).expect("a run"),
        Verdict::Held
    );
    let outcome = result(folder.path(), "pages");
    assert!(outcome.checks.made["pages whole and in order"] > 0);
    assert_eq!(outcome.figures["preloaded"].value, 500.0);
    // The same again on an empty server: it lost everything.
    let flags = short(folder.path(), "lost");
    let verdict = tool(&format!("{line} --loaded {flags}")).expect("a run");
    assert_eq!((verdict, verdict.number()), (Verdict::Broken, 1));
    let outcome = result(folder.path(), "lost");
    assert!(outcome.checks.faults > 0 && !outcome.checks.told.is_empty());
}

#[test]
fn a_mixture_holds_at_every_place_where_messages_come_out() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let flags = short(folder.path(), "mixed");
    let line = format!(
        "mixed --rate 300 --connections 3 --timelines 40 --subscribers 5 --follows 10 --cut-seconds 0.4 \
         --pollers 2 --readers 2 --idle 5 {flags}"
    );
    let verdict = tool(&line).expect("a run");
    let outcome = result(folder.path(), "mixed");
    // Whether the schedule was kept depends on the machine.
    assert!(verdict <= Verdict::Invalid, "{:#?}", outcome.checks);
    for kind in [
        "deliveries in order",
        "messages polled in order",
        "messages in pages",
        "subscriptions up to the end",
        "polled timelines up to the end",
        "messages read back",
    ] {
        assert!(
            outcome
                .checks
                .made
                .get(kind)
                .is_some_and(|count| *count > 0),
            "{kind}"
        );
    }
    for kind in ["ack", "delivery", "poll", "page"] {
        assert!(outcome.latencies[kind].count > 0, "{kind}");
    }
    assert!(outcome.figures["cuts"].value > 0.0);
}

#[test]
fn a_generator_that_fell_behind_makes_its_run_invalid() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let flags = short(folder.path(), "late");
    // No clock is so good that nothing is sent any time after its moment.
    let line = format!("append --connections 4 --timelines 10 --rate 500 --late-ms 0 {flags}");
    let verdict = tool(&line).expect("a run");
    assert_eq!((verdict, verdict.number()), (Verdict::Invalid, 6));
    let outcome = result(folder.path(), "late");
    assert!(outcome.held() && !outcome.validity.valid);
    assert!(
        outcome.validity.reasons[0].contains("fell behind"),
        "{:?}",
        outcome.validity
    );
}

#[test]
fn a_scenario_runs_all_its_profiles_and_results_can_be_compared() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let scenario = r#"
        [all]
        quiet = true
        warm_up = 0.1
        connections = 2
        [[run]]
        profile = "append"
        label = "narrow"
        in_flight = 1
        seconds = 60
        [[run]]
        profile = "append"
        label = "wide"
        in_flight = 8
    "#;
    std::fs::write(path("scenario.toml"), scenario).expect("written");
    let (binary, data) = (env!("CARGO_BIN_EXE_tideline"), path("data"));
    let line = format!(
        "run --results {} {} --seconds 1 --binary {binary} --data {data}",
        path("out"),
        path("scenario.toml")
    );
    assert_eq!(tool(&line).expect("a run"), Verdict::Held);
    let (narrow, wide) = (path("out/narrow.json"), path("out/wide.json"));
    let told = Outcome::load(narrow.as_ref()).expect("a result");
    assert_eq!(
        (told.settings["seconds"].clone(), told.label),
        (1.0.into(), Some("narrow".into()))
    );
    assert!(Path::new(&path("out/wide/latency.svg")).exists());
    // Within a tolerance without bounds nothing is worse; a result beside itself never is.
    let compare = |line: String| tool(&line).expect("compared");
    assert_eq!(
        compare(format!("compare {narrow} {wide} --tolerance 1e9")),
        Verdict::Held
    );
    assert_eq!(
        compare(format!("compare {wide} {wide} --tolerance 0")),
        Verdict::Held
    );

    std::fs::write(
        path("wrong.toml"),
        "[[run]]\nprofile = \"append\"\nconections = 1",
    )
    .expect("written");
    let refused = tool(&format!("run {}", path("wrong.toml"))).expect_err("an unknown setting");
    assert!(matches!(refused, Stop::Usage(_)), "{refused}");
    assert!(refused.to_string().contains("--conections"), "{refused}");
}

#[test]
fn a_server_that_is_not_there_is_told_apart_from_a_broken_one() {
    let stop = tool("append --quiet --url ws://127.0.0.1:1/v1/connect").expect_err("no server");
    assert_eq!(
        (stop.number(), matches!(stop, Stop::Unreachable(_))),
        (3, true)
    );
}

#[test]
fn growth_leaves_tables_and_pictures_and_no_data() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let line = format!(
        "growth --only timelines --most 10000 --seconds 0.5 --binary {} --data {} --results {}",
        env!("CARGO_BIN_EXE_tideline"),
        path("data"),
        path("out")
    );
    // Whether the pages' schedule was kept depends on the machine.
    assert!(tool(&line).expect("a run") <= Verdict::Invalid);
    let svg = std::fs::read_to_string(path("out/growth.svg")).expect("a picture");
    assert!(svg.starts_with("<svg"));
    let left = std::fs::read_dir(path("data")).expect("the folder is there");
    assert_eq!(left.count(), 0);
    let result = std::fs::read_to_string(path("out/growth.json")).expect("a result");
    let result: serde_json::Value = serde_json::from_str(&result).expect("JSON");
    let [size, seen] = ["0", "1"].map(|at| result.pointer(&format!("/curve/0/steps/0/{at}")));
    assert_eq!(size, Some(&10_000.into()), "{result}");
    let pages = seen.and_then(|seen| seen["history page_p99"].as_f64());
    assert!(pages.is_some_and(|ms| ms > 0.0), "{result}");
}
