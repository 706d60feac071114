//! The rows that profiles of this tool measure: rooms, polls, idle connections.
//!
//! Owns: how each profile is asked, and which of its figures is the row's. Promises: each run has a server of its own,
//! started here, so that a signal ends it; the profile's own checks and its judgement whether the run is valid count.
//! Must not: measure by itself.

use super::field::Field;
use super::hall;
use super::programs::{INSTALL, Ours, Program, Syncs};
use super::table::{Bar, Figures, Pair, Row, median};
use crate::connect::Connect;
use crate::exit::Stop;
use crate::generator::Flow;
use crate::outcome::Outcome;
use crate::poll::Poll;
use crate::profile::{Profile, measure};
use crate::report;
use crate::room::Room;
use crate::setup::Setup;

const SUBSCRIBERS: usize = 1_000;
const IDLE_CONNECTIONS: usize = 15_000;
/// With the server and 1,000 subscribers on two cores, a thread that wakes waits for its turn up to a few slices of the
/// scheduler (3 ms each), whoever it is. Each delivery's time counts from when its message was due all the same.
const ROOM_LATE_MS: f64 = 10.0;

/// Starts Tideline, runs a profile on it and ends it.
pub(super) async fn profile<P: Profile + Send + 'static>(
    field: &mut Field,
    make: impl FnOnce(Setup) -> P,
) -> Result<Outcome, Stop> {
    let server = Ours::start(&field.binary, &field.data, &[]).await?;
    profile_on(field, &server, make).await
}

/// Runs a profile on a server that stands.
pub(super) async fn profile_on<P: Profile + Send + 'static>(
    field: &mut Field,
    server: &Ours,
    make: impl FnOnce(Setup) -> P,
) -> Result<Outcome, Stop> {
    let profile = make(Setup {
        url: server.launch.url(),
        binary: None,
        data: None,
        environment: Vec::new(),
        pid: Some(server.pid()),
        warm_up: field.warm_up.as_secs_f64(),
        seconds: field.seconds.as_secs_f64(),
        late_ms: 5.0,
        seed: Some(field.seed),
        label: None,
        json: None,
        pictures: None,
        quiet: true,
    });
    // A profile brings its own runtime; after a signal its server is gone, which ends it too.
    let measuring = tokio::task::spawn_blocking(move || measure(&profile));
    let outcome = measuring
        .await
        .map_err(|error| Stop::Own(error.to_string()))??;
    for fault in &outcome.checks.told {
        field.faults.push(format!("{}: {fault}", P::NAME));
    }
    for reason in &outcome.validity.reasons {
        report::note(&format!("{}: not valid: {reason}", P::NAME));
    }
    Ok(outcome)
}

/// One figure of a result as the value of a row.
pub(super) fn figure(outcome: &Outcome, name: &str) -> Result<Figures, Stop> {
    let missing = || Stop::Own(format!("{}: no figure {name}", outcome.profile));
    let value = outcome.figures.get(name).ok_or_else(missing)?.value;
    let share = |name: &str| {
        let used = outcome.figures.get(name)?.value;
        Some(used / outcome.seconds.max(0.001))
    };
    Ok(Figures {
        value,
        generator_cpu: share("generator_cpu_seconds"),
        server_cpu: share("server_cpu_seconds"),
        late_share: outcome.validity.lateness.map(|lateness| lateness.share()),
        invalid: outcome.validity.reasons.first().cloned(),
        ..Figures::default()
    })
}

/// One room: as many deliveries as go against NATS, then the latency at half of that.
pub(super) async fn room(field: &mut Field, pairs: usize) -> Result<Vec<Row>, Stop> {
    let (size, in_flight) = (field.size, field.room_in_flight);
    let room = |setup, rate| Room {
        setup,
        subscribers: SUBSCRIBERS,
        threads: 1,
        in_flight,
        rate,
        size,
    };
    let mut most = Row::new(
        "room",
        format!("deliveries, one room, {SUBSCRIBERS} subscribers, {size} B"),
        "NATS core, WebSocket",
        "/s",
        Bar::RatioAtLeast(1.2),
    );
    if field.nats.is_none() {
        most.missing = Some(format!("nats-server is not installed: {INSTALL}"));
    }
    let mut messages = Vec::new();
    for round in 0..pairs {
        let mut peer = None;
        if round % 2 == 1 {
            peer = nats(field).await?;
        }
        let outcome = profile(field, |setup| room(setup, None)).await?;
        let tideline = figure(&outcome, "deliveries_per_second")?;
        messages.push(figure(&outcome, "messages_per_second")?.value);
        if round % 2 == 0 {
            peer = nats(field).await?;
        }
        let theirs = peer.as_ref().map_or(0.0, |peer| peer.value);
        let ours = tideline.value;
        report::note(&format!(
            "{}/{pairs} room: Tideline {ours:.0}/s, NATS {theirs:.0}/s",
            round + 1
        ));
        most.pairs.push(Pair { tideline, peer });
    }
    let rate = median(messages.into_iter()).unwrap_or(0.0) / 2.0;
    let what = format!("delivery p99 from when due, half of that: {rate:.0} msg/s");
    let mut late = Row::new("room", what, "-", "ms", Bar::ValueAtMost(100.0));
    for _ in 0..pairs {
        let paced = |setup| {
            let setup = Setup {
                late_ms: ROOM_LATE_MS,
                ..setup
            };
            room(setup, Some(rate.max(1.0)))
        };
        let outcome = profile(field, paced).await?;
        let tideline = figure(&outcome, "delivery_p99")?;
        late.pairs.push(Pair {
            tideline,
            peer: None,
        });
    }
    Ok(vec![most, late])
}

async fn nats(field: &mut Field) -> Result<Option<Figures>, Stop> {
    let Some(binary) = field.nats.clone() else {
        return Ok(None);
    };
    let program = Program::nats(&binary, &field.data, Syncs::Default).await?;
    let plan = hall::Plan {
        subscribers: SUBSCRIBERS,
        in_flight: field.room_in_flight,
        size: field.size,
        seed: field.seed,
        warm_up: field.warm_up,
        measured: field.seconds,
    };
    let (figures, faults) = hall::run(&program, &plan).await?;
    let faults = faults.into_iter();
    field
        .faults
        .extend(faults.map(|fault| format!("NATS: {fault}")));
    Ok(Some(figures))
}

/// Empty polls: what the server's processor is asked for.
pub(super) async fn poll(field: &mut Field, pairs: usize) -> Result<Vec<Row>, Stop> {
    let timelines = field.timelines;
    let positions = timelines.min(100);
    let what = format!("empty polls of {positions}, per CPU-second of the server");
    let mut row = Row::new("poll", what, "-", "/s", Bar::ValueAtLeast(30_000.0));
    for _ in 0..pairs {
        let asked = profile(field, |setup| Poll {
            setup,
            flow: Flow::closed(1, 16),
            timelines,
            positions,
            epochs: false,
            share_with_news: 0.0,
        });
        let tideline = figure(&asked.await?, "polls_per_server_cpu_second")?;
        row.pairs.push(Pair {
            tideline,
            peer: None,
        });
    }
    Ok(vec![row])
}

/// Memory of idle connections. One run: it is no matter of speed.
pub(super) async fn idle(field: &mut Field) -> Result<Vec<Row>, Stop> {
    let outcome = profile(field, |setup| Connect {
        // A ramp that is held up makes no connection larger.
        setup: Setup {
            late_ms: 60_000.0,
            ..setup
        },
        connections: IDLE_CONNECTIONS,
        connect_rate: 2_000.0,
        hold_seconds: 5.0,
        subscriptions: 0,
    });
    let tideline = figure(&outcome.await?, "bytes_per_connection")?;
    let what = format!("memory of an idle connection, of {IDLE_CONNECTIONS}");
    let mut row = Row::new("idle", what, "-", "B", Bar::ValueAtMost(12_000.0));
    row.pairs.push(Pair {
        tideline,
        peer: None,
    });
    Ok(vec![row])
}
