//! The rows about appending: as many as go, at two depths; the latency at half of that; the floor below.
//!
//! Owns: the rounds: in each all contestants of a depth run once, and who begins changes from round to round. Promises:
//! each pair is of one round. Must not: know how a run is made.

use std::time::Duration;

use super::Name;
use super::field::{Batches, Contestant, Field, Load, Run};
use super::floor::{self, Writing};
use super::programs::{Place, Program, find, redis_benchmark};
use super::table::{Bar, Figures, Pair, Row, median};
use crate::exit::Stop;
use crate::report;

/// Half of Tideline's best is the rate of the latency row.
const PACED_SHARE: f64 = 0.5;
const DEPTH: usize = 16;
const FULL: Load = Load {
    in_flight: DEPTH,
    rate: None,
};

/// One line of the table before its pairs.
struct Line {
    name: &'static str,
    what: String,
    peer: Contestant,
    bar: Bar,
}

/// As many appends as go, 16 in flight: those of `deep`, `jetstream` and `floor` that are chosen share their rounds.
pub(super) async fn most(
    field: &mut Field,
    pairs: usize,
    chosen: &[Name],
) -> Result<Vec<Row>, Stop> {
    let what = format!("durable appends, {} × {DEPTH}", field.connections);
    let line = |name, peer, bar| Line {
        name,
        what: what.clone(),
        peer,
        bar,
    };
    let mut lines = Vec::new();
    if chosen.contains(&Name::Deep) {
        lines.push(line("deep", Contestant::Redis, Bar::RatioAtLeast(1.2)));
    }
    if chosen.contains(&Name::Jetstream) {
        let bar = Bar::RatioAtLeast(15.0);
        lines.push(line("jetstream", Contestant::Synced, bar));
        lines.push(line("jetstream", Contestant::Unsynced, Bar::None));
    }
    if chosen.contains(&Name::Floor) {
        lines.push(line("floor", Contestant::Echo, Bar::None));
    }
    let (mut rows, runs) = rounds(field, pairs, lines, FULL, "/s").await?;
    field.best.extend(runs.iter().map(|run| run.figures.value));
    if chosen.contains(&Name::Floor) {
        let batches: Vec<Batches> = runs.iter().filter_map(|run| run.batches).collect();
        rows.extend(disk(field, pairs, &runs, &batches)?);
    }
    if chosen.contains(&Name::Deep) {
        rows.push(cross_check(field).await?);
    }
    Ok(rows)
}

/// As many appends as go, one after the other on each connection.
pub(super) async fn single(field: &mut Field, pairs: usize) -> Result<Vec<Row>, Stop> {
    let line = Line {
        name: "single",
        what: format!("durable appends, {} × 1", field.connections),
        peer: Contestant::Redis,
        bar: Bar::RatioAtLeast(1.2),
    };
    let load = Load {
        in_flight: 1,
        rate: None,
    };
    Ok(rounds(field, pairs, vec![line], load, "/s").await?.0)
}

/// The latency row, at half of the best rate that was just seen, or is seen now.
pub(super) async fn paced(field: &mut Field, pairs: usize) -> Result<Vec<Row>, Stop> {
    if field.best.is_empty() && field.missing(Contestant::Redis).is_none() {
        let run = field.run(Contestant::Tideline, FULL).await?;
        field.best.push(run.figures.value);
    }
    let rate = median(field.best.iter().copied()).unwrap_or(0.0) * PACED_SHARE;
    let line = Line {
        name: "ack",
        what: format!("append ack p99 from when due, both at {rate:.0}/s"),
        peer: Contestant::Redis,
        bar: Bar::RatioAtMost(1.0),
    };
    let load = Load {
        in_flight: DEPTH,
        rate: Some(rate),
    };
    Ok(rounds(field, pairs, vec![line], load, "ms").await?.0)
}

/// Runs the lines' contestants beside Tideline; also returns Tideline's runs.
async fn rounds(
    field: &mut Field,
    pairs: usize,
    lines: Vec<Line>,
    load: Load,
    unit: &str,
) -> Result<(Vec<Row>, Vec<Run>), Stop> {
    let missing: Vec<Option<String>> = lines.iter().map(|line| field.missing(line.peer)).collect();
    let there: Vec<usize> = (0..lines.len())
        .filter(|at| missing[*at].is_none())
        .collect();
    let mut rows: Vec<Row> = lines
        .iter()
        .zip(missing)
        .map(|(line, missing)| Row {
            missing,
            ..Row::new(
                line.name,
                line.what.clone(),
                line.peer.name(),
                unit,
                line.bar,
            )
        })
        .collect();
    let mut ours = Vec::new();
    for round in 0..if there.is_empty() { 0 } else { pairs } {
        let mut runs = Vec::new();
        let mut order: Vec<Option<usize>> = std::iter::once(None)
            .chain(there.iter().copied().map(Some))
            .collect();
        // The disk and the machine change over a round: nobody is always the first.
        let turns = round % order.len();
        order.rotate_left(turns);
        let mut tideline = None;
        for who in order {
            let contestant = who.map_or(Contestant::Tideline, |at| lines[at].peer);
            let run = field.run(contestant, load).await?;
            tell(round, pairs, contestant, &run.figures);
            match who {
                None => tideline = Some(run),
                Some(at) => runs.push((at, run.figures)),
            }
        }
        let Some(tideline) = tideline else { continue };
        for (at, peer) in runs {
            rows[at].pairs.push(Pair {
                tideline: tideline.figures.clone(),
                peer: Some(peer),
            });
        }
        ours.push(tideline);
    }
    Ok((rows, ours))
}

fn tell(round: usize, pairs: usize, who: Contestant, figures: &Figures) {
    let [p50, p99, _] = figures.latency_ms.unwrap_or_default();
    let cpu = |share: Option<f64>| {
        share.map_or_else(|| "-".into(), |share| format!("{:.0} %", share * 100.0))
    };
    report::note(&format!(
        "{}/{pairs} {}: {:.0}/s, p50 {p50:.2} ms, p99 {p99:.2} ms; processor: generator {}, server {}",
        round + 1,
        who.name(),
        figures.per_second.unwrap_or(0.0),
        cpu(figures.generator_cpu),
        cpu(figures.server_cpu),
    ));
}

/// What the disk would allow with Tideline's mean batch: each round's appends beside a probe with its own batch.
fn disk(field: &Field, pairs: usize, runs: &[Run], batches: &[Batches]) -> Result<Vec<Row>, Stop> {
    let bytes = median(batches.iter().map(|batch| batch.bytes)).unwrap_or(0.0);
    let messages = median(batches.iter().map(|batch| batch.messages)).unwrap_or(0.0);
    let place = Place::new(&field.data, "floor")?;
    let failed = |error| Stop::Own(format!("{}: {error}", place.path().display()));
    let time = field.seconds.min(Duration::from_secs(3));
    let mut rows = Vec::new();
    for (writing, how) in [
        (Writing::Over, "the disk, over blocks that exist"),
        (Writing::Growing, "the disk, to a growing file"),
    ] {
        let what = format!("durable appends in batches of {messages:.0} ({bytes:.0} B)");
        let mut row = Row::new("floor", what, how, "/s", Bar::None);
        let unread = || "the server's metrics could not be read".into();
        row.failed = batches.is_empty().then(unread);
        for run in runs.iter().take(if batches.is_empty() { 0 } else { pairs }) {
            let syncs = floor::disk(place.path(), writing, bytes as usize, time).map_err(failed)?;
            row.pairs.push(Pair {
                tideline: run.figures.clone(),
                peer: Some(Figures {
                    value: syncs * messages,
                    per_second: Some(syncs),
                    ..Figures::default()
                }),
            });
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Redis' own tool on Redis: does our client hold it back?
async fn cross_check(field: &mut Field) -> Result<Row, Stop> {
    let connections = field.connections;
    let what = format!("not Tideline but redis-benchmark on Redis, {connections} × 16");
    let beside = "Redis by our generator";
    let mut row = Row::new("deep", what, beside, "/s", Bar::None);
    row.missing = field.missing(Contestant::Redis);
    let Some(server) = field.redis.clone() else {
        return Ok(row);
    };
    let beside = server.with_file_name("redis-benchmark");
    let Some(tool) = find("redis-benchmark", beside.is_file().then_some(&*beside)) else {
        row.missing = Some("redis-benchmark is not installed".into());
        return Ok(row);
    };
    let ours = field.run(Contestant::Redis, FULL).await?;
    let redis = Program::redis(&server, &field.data).await?;
    let (shape, seconds) = ((field.connections, 16), field.seconds.as_secs_f64());
    let keys = (field.timelines, field.size);
    let rate = redis_benchmark(&tool, &redis, shape, keys, seconds).await?;
    row.pairs.push(Pair {
        tideline: Figures {
            value: rate,
            ..Figures::default()
        },
        peer: Some(ours.figures),
    });
    Ok(row)
}
