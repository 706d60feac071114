//! The rows that profiles of the load tool measure: rooms, polls, idle connections, storms, growth.
//!
//! Owns: how each profile is asked, and which of its figures is the row's. Promises: each run has a server of its own;
//! the profile's own checks and its judgement whether the run is valid count. Must not: measure by itself.

use tideline_load::amount::amount;
use tideline_load::bench::Ours;
use tideline_load::exit::Stop;
use tideline_load::pairs::{Bar, Figures, Pair, Row, median};
use tideline_load::report;

use crate::field::{Contestant, Field, figures, quiet};
use crate::hall;
use crate::programs::Program;
use crate::{Name, Peers};

/// A row of Tideline alone: a line of the load tool, and a figure of it, so many times.
async fn alone(
    field: &mut Field,
    mut row: Row,
    pairs: usize,
    line: &str,
    value: &str,
) -> Result<Row, Stop> {
    for round in 0..pairs {
        let tideline = figures(&field.ours(line).await?, value)?;
        paired(&mut row, (round, pairs), [Some(tideline), None]);
    }
    Ok(row)
}

/// Empty polls: what the server's processor is asked for.
pub(crate) async fn poll(field: &mut Field) -> Result<Vec<Row>, Stop> {
    let Peers {
        pairs, timelines, ..
    } = field.args;
    let positions = timelines.min(100);
    let what = format!("empty polls of {positions}, per CPU-second of the server");
    let row = Name::Poll.row(what, "-", "/s", Bar::ValueAtLeast(30_000.0));
    let line = format!("poll --in-flight 16 --timelines {timelines} --positions {positions}");
    let row = alone(field, row, pairs, &line, "polls_per_server_cpu_second");
    Ok(vec![row.await?])
}

/// Memory of idle connections. One run: it is no matter of speed.
pub(crate) async fn idle(field: &mut Field) -> Result<Vec<Row>, Stop> {
    const CONNECTIONS: usize = 15_000;
    let what = format!("memory of an idle connection, of {CONNECTIONS}");
    let row = Name::Idle.row(what, "-", "B", Bar::ValueAtMost(12_000.0));
    // A ramp that is held up makes no connection larger.
    let line = format!("connect --connections {CONNECTIONS} --hold-seconds 5 --late-ms 60000");
    Ok(vec![
        alone(field, row, 1, &line, "bytes_per_connection").await?,
    ])
}

/// Seconds from the first connect of the return until every client has caught up with every head.
pub(crate) async fn storm(field: &mut Field) -> Result<Vec<Row>, Stop> {
    let Peers { pairs, size, .. } = field.args;
    let what = "5000 clients cut, back and 100 messages each caught up".to_owned();
    let row = Name::Storm.row(what, "-", "s", Bar::ValueAtMost(10.0));
    let line =
        format!("storm --clients 5000 --timelines 1000 --per-client 10 --behind 10 --size {size}");
    Ok(vec![
        alone(field, row, pairs, &line, "all_caught_up").await?,
    ])
}

/// Adds the runs of a round, Tideline's first.
fn paired(row: &mut Row, (round, pairs): (usize, usize), runs: [Option<Figures>; 2]) {
    let [Some(tideline), peer] = runs else { return };
    let text = |run: &Figures| amount(run.value, &row.unit);
    let (ours, theirs) = (
        text(&tideline),
        peer.as_ref().map_or_else(|| "-".into(), text),
    );
    let (name, round) = (&row.name, round + 1);
    report::note(&format!("{round}/{pairs} {name}: {ours} beside {theirs}"));
    row.pairs.push(Pair { tideline, peer });
}

const SUBSCRIBERS: usize = 1_000;

/// One room: as many deliveries as go against NATS, then the latency at half of that.
pub(crate) async fn room(field: &mut Field) -> Result<Vec<Row>, Stop> {
    let Peers {
        pairs,
        size,
        room_in_flight,
        ..
    } = field.args;
    let line = format!("room --subscribers {SUBSCRIBERS} --size {size}");
    let full = format!("{line} --in-flight {room_in_flight}");
    let what = format!("deliveries, one room, {SUBSCRIBERS} subscribers, {size} B");
    let bar = Bar::RatioAtLeast(1.2);
    let mut most = Name::Room.row(what, "NATS core, WebSocket", "/s", bar);
    most.missing = field.missing(Contestant::Unsynced);
    let mut messages = Vec::new();
    for round in 0..pairs {
        let mut runs = [None, None];
        for turn in [round % 2, (round + 1) % 2] {
            if turn == 1 {
                runs[turn] = nats(field).await?;
                continue;
            }
            let outcome = field.ours(&full).await?;
            messages.push(figures(&outcome, "messages_per_second")?.value);
            runs[turn] = Some(figures(&outcome, "deliveries_per_second")?);
        }
        paired(&mut most, (round, pairs), runs);
    }
    let rate = (median(messages.into_iter()).unwrap_or(0.0) / 2.0).max(1.0);
    let what = format!("delivery p99 from when due, half of that: {rate:.0} msg/s");
    let late = Name::Room.row(what, "-", "ms", Bar::ValueAtMost(100.0));
    // With the server and 1,000 subscribers on two cores, a thread that wakes waits for its turn up to a few slices of
    // the scheduler (3 ms each). Each delivery's time counts from when its message was due all the same.
    let paced = format!("{line} --rate {rate} --late-ms 10");
    let late = alone(field, late, pairs, &paced, "delivery_p99").await?;
    Ok(vec![most, late])
}

async fn nats(field: &mut Field) -> Result<Option<Figures>, Stop> {
    let Some(binary) = field.nats.clone() else {
        return Ok(None);
    };
    let program = Program::nats(&binary, &field.args.data, "").await?;
    let room = hall::Room {
        setup: field.setup(&format!("ws://{}/", program.socket), Some(program.pid())),
        address: program.address.clone(),
        subscribers: SUBSCRIBERS,
        in_flight: field.args.room_in_flight,
        size: field.args.size,
    };
    let outcome = field.other("NATS core, WebSocket", room).await?;
    figures(&outcome, "deliveries_per_second").map(Some)
}

/// What little is.
const LITTLE: u64 = 100_000;
/// Pages a second, by the clock, on both: latencies compare at the same rate only.
const PAGES_PER_SECOND: u64 = 2_000;

/// Tideline with much beside Tideline with little: one server that is filled once and kept for all pairs, and one that
/// is filled anew for each. Both are filled in the same way, and left alone until they have stopped writing; no two
/// loads run at once.
pub(crate) async fn growth(field: &mut Field) -> Result<Vec<Row>, Stop> {
    let Peers {
        pairs,
        stock,
        connections,
        timelines,
        size,
        ..
    } = field.args;
    let messages = |count: u64| amount(count as f64, "messages");
    let itself = format!("itself, {} there", messages(LITTLE));
    report::note(&format!("growth: {} go in first", messages(stock)));
    let large = filled(field, stock).await?;
    let reads = Name::Growth.row(
        format!(
            "history page p99, {PAGES_PER_SECOND}/s, {} there",
            messages(stock)
        ),
        &itself,
        "ms",
        Bar::RatioAtMost(1.5),
    );
    let writes = Name::Growth.row(
        format!(
            "durable appends, {connections} × 16, {} there",
            messages(stock)
        ),
        &itself,
        "/s",
        Bar::RatioAtLeast(0.8),
    );
    let append = format!(
        "append --prefix growth/ --connections {connections} --timelines {timelines} --size {size} --sample 50"
    );
    let mut rows = Vec::new();
    // First what reads: the readers would not know of what is appended.
    for (mut row, append, value) in [
        (reads, None, "page_p99"),
        (writes, Some(&*append), "appends_per_second"),
    ] {
        for round in 0..pairs {
            let mut runs = [None, None];
            // Which one begins changes from round to round.
            for turn in [round % 2, (round + 1) % 2] {
                let little;
                let (server, stock) = if turn == 0 {
                    (&large, stock)
                } else {
                    little = filled(field, LITTLE).await?;
                    (&little, LITTLE)
                };
                let pages = pages(stock, size) + " --loaded";
                quiet(server).await?;
                let outcome = field.ours_on(server, append.unwrap_or(&pages)).await?;
                runs[turn] = Some(figures(&outcome, value)?);
            }
            paired(&mut row, (round, pairs), runs);
        }
        rows.push(row);
    }
    Ok(rows)
}

/// A server with so many messages, sent as fast as it takes them. Nothing of it is a figure.
async fn filled(field: &mut Field, stock: u64) -> Result<Ours, Stop> {
    let server = field.start(&[]).await?;
    let line = pages(stock, field.args.size) + " --warm-up 0 --seconds 0.1 --late-ms 60000";
    field.ours_on(&server, &line).await?;
    Ok(server)
}

/// Pages by the clock, of a stock in timelines of ten messages.
fn pages(stock: u64, size: usize) -> String {
    let timelines = (stock / 10).max(1);
    format!(
        "history --prefix growth/ --preload {stock} --preload-timelines {timelines} --size {size} --rate {PAGES_PER_SECOND}"
    )
}
