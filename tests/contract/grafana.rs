//! Dashboards and alert rules are well-formed and ask for metrics that exist.
//!
//! Owns: the comparison of `grafana/` with the catalogue, without a Prometheus. Promises: a name that is no metric, a
//! panel without unit or description, or a rule without runbook fails here. Must not: judge what a query means;
//! `tests/prometheus.py` evaluates them all, as `tests/docs/` runs it.

#![allow(clippy::unwrap_used)] // a test: the helpers too

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tideline::metrics::{Kind, catalogue};

fn grafana() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("grafana")
}

fn text(file: &str) -> String {
    fs::read_to_string(grafana().join(file)).unwrap()
}

fn boards() -> Vec<Value> {
    [
        "overview",
        "commit-path",
        "delivery",
        "people",
        "store",
        "clients",
        "changes",
        "cluster",
        "access",
    ]
    .iter()
    .map(|name| serde_json::from_str(&text(&format!("dashboards/{name}.json"))).unwrap())
    .collect()
}

/// Names as they are scraped: a histogram is three.
fn scraped() -> HashSet<String> {
    let mut names = HashSet::new();
    for metric in catalogue() {
        if metric.kind == Kind::Histogram {
            for part in ["_bucket", "_sum", "_count"] {
                names.insert(format!("{}{part}", metric.name));
            }
        } else {
            names.insert(metric.name.to_owned());
        }
    }
    names
}

/// Names in a query that are no metric of the server.
fn unknown(query: &str) -> Vec<String> {
    let names = scraped();
    query
        .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| word.starts_with("tideline_") || word.starts_with("process_"))
        .filter(|word| !names.contains(*word))
        .map(str::to_owned)
        .collect()
}

/// Whether a query has a series for each partition, so that its text must name the partition.
fn is_by_partition(query: &str) -> bool {
    let mut metrics = catalogue().filter(|metric| metric.labels.contains(&"partition"));
    !query.contains(" by (") && metrics.any(|metric| query.contains(metric.name))
}

#[test]
fn panels_are_whole_and_ask_for_metrics_that_exist() {
    let mut uids = HashSet::new();
    for board in boards() {
        assert!(uids.insert(board["uid"].as_str().unwrap().to_owned()));
        let variables = board["templating"]["list"].as_array().unwrap();
        assert!(variables.iter().any(|one| one["name"] == "instance"));
        let mut ids = HashSet::new();
        for panel in board["panels"].as_array().unwrap() {
            let title = panel["title"].as_str().unwrap();
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: twice");
            let described = panel["description"].as_str();
            assert!(described.is_some_and(|one| !one.is_empty()), "{title}");
            assert!(panel["fieldConfig"]["defaults"]["unit"].is_string());
            let targets = panel["targets"].as_array().unwrap();
            assert!(!targets.is_empty(), "{title} asks nothing");
            for target in targets {
                let query = target["expr"].as_str().unwrap();
                assert_eq!(unknown(query), Vec::<String>::new(), "{title}");
                assert!(query.contains("$instance"), "{title}: {query}");
                let legend = target["legendFormat"].as_str().unwrap();
                let names = legend.contains("{{partition}}");
                assert!(names || !is_by_partition(query), "{title}: {query}");
            }
        }
    }
}

#[test]
fn alerts_are_whole_and_ask_for_metrics_that_exist() {
    let rules = text("prometheus/alerts.yml");
    let mut names = HashSet::new();
    for rule in rules.split("- alert: ").skip(1) {
        let name = rule.lines().next().unwrap();
        assert!(names.insert(name), "{name} is there twice");
        for part in [
            "expr:",
            "for:",
            "severity:",
            "summary:",
            "description:",
            "runbook: |",
        ] {
            assert!(rule.contains(part), "{name} has no {part}");
        }
        let is_query = |line: &&str| line.trim_start().starts_with("expr:");
        let query = rule.lines().find(is_query).unwrap();
        assert_eq!(unknown(query), Vec::<String>::new(), "{name}");
        let names = rule.contains("{{ $labels.partition }}");
        assert!(
            names || !is_by_partition(query),
            "{name} names no partition"
        );
    }
    assert!(!names.is_empty());
    let tested = text("prometheus/alerts_test.yml");
    let named = tested
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| word.starts_with("Tideline"));
    for name in named {
        assert!(
            names.contains(name),
            "{name} is tested, but there is no such rule"
        );
    }
}
