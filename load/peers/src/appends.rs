//! The rows about appending: as many as go, at two depths; the latency at half of that; the floor below.
//!
//! Owns: the rounds: in each all contestants of a depth run once, and which one begins changes from round to round; and
//! what the disk does when nothing but batches are written and synced. Promises: each pair is of one round; the disk
//! gets batches of the size that Tideline's had. Must not: know how a run is made.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use tideline_load::bench::Place;
use tideline_load::exit::Stop;
use tideline_load::generator::Flow;
use tideline_load::outcome::Outcome;
use tideline_load::pace::Gaps;
use tideline_load::pairs::{Bar, Figures, Pair, Row, median};
use tideline_load::report;

use crate::Name;
use crate::field::{Contestant, Field, figures};
use crate::programs::{Program, find, redis_benchmark};

/// Half of Tideline's best is the rate of the latency row.
const PACED_SHARE: f64 = 0.5;
const DEPTH: usize = 16;
const RATE: &str = "appends_per_second";

/// Rows that are measured in the same rounds.
struct Rounds {
    what: String,
    unit: &'static str,
    flow: Flow,
    /// The figure that the rows compare.
    value: &'static str,
    rows: Vec<(Name, Contestant, Bar)>,
}

/// As many appends as go, 16 in flight: those of `deep`, `jetstream` and `floor` that are chosen share their rounds.
pub(crate) async fn most(field: &mut Field, chosen: &[Name]) -> Result<Vec<Row>, Stop> {
    let rows = [
        (Name::Deep, Contestant::Redis, Bar::RatioAtLeast(1.2)),
        (Name::Jetstream, Contestant::Synced, Bar::RatioAtLeast(15.0)),
        (Name::Jetstream, Contestant::Unsynced, Bar::None),
        (Name::Floor, Contestant::Echo, Bar::None),
    ];
    let rows = rows.into_iter().filter(|(name, ..)| chosen.contains(name));
    let rounds = closed(field, DEPTH, rows.collect());
    let flow = rounds.flow.clone();
    let (mut rows, ours) = rounds.run(field).await?;
    for outcome in &ours {
        field.best.push(figures(outcome, RATE)?.value);
    }
    if chosen.contains(&Name::Floor) {
        rows.extend(disk(field, &ours)?);
    }
    if chosen.contains(&Name::Deep) {
        rows.push(cross_check(field, &flow).await?);
    }
    Ok(rows)
}

/// As many appends as go, one after the other on each connection.
pub(crate) async fn single(field: &mut Field) -> Result<Vec<Row>, Stop> {
    let row = (Name::Single, Contestant::Redis, Bar::RatioAtLeast(1.2));
    Ok(closed(field, 1, vec![row]).run(field).await?.0)
}

fn closed(field: &Field, depth: usize, rows: Vec<(Name, Contestant, Bar)>) -> Rounds {
    let connections = field.args.connections;
    Rounds {
        what: format!("durable appends, {connections} × {depth}"),
        unit: "/s",
        flow: Flow::closed(connections, depth),
        value: RATE,
        rows,
    }
}

/// The latency row, at half of the best rate that was just seen, or is seen now.
pub(crate) async fn paced(field: &mut Field) -> Result<Vec<Row>, Stop> {
    let connections = field.args.connections;
    if field.best.is_empty() && field.missing(Contestant::Redis).is_none() {
        let full = Flow::closed(connections, DEPTH);
        let outcome = field.appends(Contestant::Tideline, &full).await?;
        field.best.push(figures(&outcome, RATE)?.value);
    }
    let rate = median(field.best.iter().copied()).unwrap_or(0.0) * PACED_SHARE;
    let rounds = Rounds {
        what: format!("append ack p99 from when due, both at {rate:.0}/s"),
        unit: "ms",
        flow: Flow::open(connections, rate, Gaps::Fixed),
        value: "ack_p99",
        rows: vec![(Name::Ack, Contestant::Redis, Bar::RatioAtMost(1.0))],
    };
    Ok(rounds.run(field).await?.0)
}

impl Rounds {
    /// Runs the rows' contestants beside Tideline; also returns Tideline's results.
    async fn run(self, field: &mut Field) -> Result<(Vec<Row>, Vec<Outcome>), Stop> {
        let (mut rows, mut there) = (Vec::new(), vec![Contestant::Tideline]);
        for (name, who, bar) in &self.rows {
            let mut row = name.row(self.what.clone(), who.name(), self.unit, *bar);
            row.missing = field.missing(*who);
            if row.missing.is_none() {
                there.push(*who);
            }
            rows.push(row);
        }
        let (mut ours, pairs) = (Vec::new(), field.args.pairs);
        for round in 0..if there.len() == 1 { 0 } else { pairs } {
            let mut runs: Vec<(Contestant, Figures)> = Vec::new();
            // The disk and the machine change in a round: none is always the first.
            let order = there.iter().cycle().skip(round % there.len());
            for who in order.take(there.len()).copied() {
                let outcome = field.appends(who, &self.flow).await?;
                let run = figures(&outcome, self.value)?;
                note(&format!("{}/{pairs} {}", round + 1, who.name()), &run);
                if who == Contestant::Tideline {
                    ours.push(outcome);
                }
                runs.push((who, run));
            }
            let of = |who| Some(runs.iter().find(|run| run.0 == who)?.1.clone());
            for (row, (_, who, _)) in rows.iter_mut().zip(&self.rows) {
                if let (Some(tideline), Some(peer)) = (of(Contestant::Tideline), of(*who)) {
                    let peer = Some(peer);
                    row.pairs.push(Pair { tideline, peer });
                }
            }
        }
        Ok((rows, ours))
    }
}

fn note(who: &str, figures: &Figures) {
    let [p50, p99, _] = figures.latency_ms.unwrap_or_default();
    let rate = figures.per_second.unwrap_or(0.0);
    let cpu = |share: Option<f64>| {
        share.map_or_else(|| "-".into(), |share| format!("{:.0} %", share * 100.0))
    };
    let (generator, server) = (cpu(figures.generator_cpu), cpu(figures.server_cpu));
    report::note(&format!(
        "{who}: {rate:.0}/s, p50 {p50:.2} ms, p99 {p99:.2} ms; processor: generator {generator}, server {server}"
    ));
}

/// What the disk would allow with Tideline's mean batch: each round's appends beside a probe with its own batch.
fn disk(field: &Field, ours: &[Outcome]) -> Result<Vec<Row>, Stop> {
    let mean = |what: &str| {
        let of = |outcome: &Outcome| batches(outcome, what);
        median(ours.iter().filter_map(of))
    };
    let batch = mean("closures").zip(mean("bytes"));
    let (messages, bytes) = batch.unwrap_or_default();
    let place = Place::new(&field.args.data, "floor")?;
    let failed = |error| Stop::Own(format!("{}: {error}", place.path().display()));
    let time = Duration::from_secs_f64(field.args.seconds.clamp(0.01, 3.0));
    let mut rows = Vec::new();
    for (reused, how) in [
        (true, "the disk, blocks written again"),
        (false, "the disk, to a growing file"),
    ] {
        let what = format!("durable appends in batches of {messages:.0} ({bytes:.0} B)");
        let mut row = Name::Floor.row(what, how, "/s", Bar::None);
        let unread = || "the server's metrics could not be read".into();
        row.failed = batch.is_none().then(unread);
        for outcome in ours.iter().filter(|_| batch.is_some()) {
            let syncs = probe(place.path(), reused, bytes as usize, time).map_err(failed)?;
            let peer = Some(Figures {
                value: syncs * messages,
                per_second: Some(syncs),
                ..Figures::default()
            });
            let tideline = figures(outcome, RATE)?;
            row.pairs.push(Pair { tideline, peer });
        }
        rows.push(row);
    }
    Ok(rows)
}

/// The mean of what Tideline's batches held, from its metrics; absent if they could not be read.
fn batches(outcome: &Outcome, what: &str) -> Option<f64> {
    let total = |end: &str| -> f64 {
        let name = format!("tideline_commit_batch_{what}_{end}");
        let metrics = outcome.metrics.iter();
        let mine = metrics.filter(|(full, _)| full.split('{').next() == Some(&name));
        mine.map(|(_, moved)| moved.after - moved.before).sum()
    };
    let count = total("count");
    (count > 0.0).then(|| total("sum") / count)
}

/// The file that is written again is this long, as reused segments of a log are.
const REUSED_BYTES: u64 = 256 << 20;

/// Batches per second: write, fdatasync, and again, into blocks that exist (`reused`) or at the end of a file that
/// grows. Blocks for `time` and for the preparation.
fn probe(folder: &Path, reused: bool, batch_bytes: usize, time: Duration) -> io::Result<f64> {
    let path = folder.join("floor");
    let mut file = File::create(&path)?;
    let batch = vec![0x5a; batch_bytes.max(1)];
    if reused {
        let zeros = vec![0; 1 << 20];
        for _ in 0..REUSED_BYTES >> 20 {
            file.write_all(&zeros)?;
        }
        file.sync_all()?;
    }
    let length = batch.len() as u64;
    let (began, mut batches, mut at) = (Instant::now(), 0_u64, 0);
    while began.elapsed() < time {
        if reused && at + length > REUSED_BYTES {
            at = 0;
        }
        file.write_all_at(&batch, at)?;
        file.sync_data()?;
        at += length;
        batches += 1;
    }
    let rate = batches as f64 / began.elapsed().as_secs_f64();
    std::fs::remove_file(&path)?;
    Ok(rate)
}

/// Redis' own tool on Redis: does our client hold it back?
async fn cross_check(field: &mut Field, flow: &Flow) -> Result<Row, Stop> {
    let connections = flow.connections;
    let what = format!("not Tideline but redis-benchmark on Redis, {connections} × {DEPTH}");
    let mut row = Name::Deep.row(what, "Redis by our generator", "/s", Bar::None);
    row.missing = field.missing(Contestant::Redis);
    let Some(server) = field.redis.clone() else {
        return Ok(row);
    };
    let beside = server.with_file_name("redis-benchmark");
    let Some(tool) = find("redis-benchmark", beside.is_file().then_some(&*beside)) else {
        row.missing = Some("redis-benchmark is not installed".into());
        return Ok(row);
    };
    let ours = field.appends(Contestant::Redis, flow).await?;
    let redis = Program::redis(&server, &field.args.data).await?;
    let keys = (field.args.timelines, field.args.size);
    let rate = redis_benchmark(tool, &redis, (connections, DEPTH), keys, field.args.seconds);
    row.pairs.push(Pair {
        tideline: Figures {
            value: rate.await?,
            ..Figures::default()
        },
        peer: Some(figures(&ours, RATE)?),
    });
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_is_written_both_ways_and_left_clean() {
        let folder = tempfile::tempdir().expect("a folder");
        let time = Duration::from_millis(20);
        let rate = probe(folder.path(), false, 4_096, time).expect("written");
        assert!(rate > 0.0);
        assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0);
    }
}
