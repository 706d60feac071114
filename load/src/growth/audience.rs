//! Curves along those who listen: subscribers of one timeline, idle connections, subscriptions of a connection.
//!
//! Owns: the rates and counts. Promises: the same messages a second at each number of subscribers, so that the curve
//! shows what one more subscriber costs. Must not: look for the most that goes: `room` does.

use super::{Bench, cpu_each, curve, figure};
use crate::connect::Connect;
use crate::curve::{Curve, Step};
use crate::exit::Stop;
use crate::outcome::Latency;
use crate::room::Room;

const MESSAGES_PER_SECOND: f64 = 200.0;
/// Connections that hold the subscriptions which are counted.
const HOLDERS: usize = 2_000;

/// One timeline, more and more subscribers.
pub(super) fn subscribers(bench: &mut Bench<'_>) -> Result<Curve, Stop> {
    let name = format!("one timeline, {MESSAGES_PER_SECOND} messages a second");
    curve(
        bench,
        &name,
        "subscribers",
        [1, 10, 100, 1_000],
        |bench, step| {
            let (subscribers, size) = (step.at as usize, bench.args.size);
            let ours = bench.server()?;
            let outcome =
                bench.measure(&ours, &format!("{subscribers} subscribers"), |setup| Room {
                    setup,
                    subscribers,
                    threads: 1,
                    in_flight: 1,
                    rate: Some(MESSAGES_PER_SECOND),
                    size,
                })?;
            let delivery =
                |of: fn(&Latency) -> u64| Some(of(outcome.latencies.get("delivery")?) as f64 / 1e3);
            step.enter(
                "deliveries",
                figure(&outcome, "deliveries_per_second"),
                "1/s",
            );
            step.enter(
                "CPU of a message",
                cpu_each(&outcome, "messages_per_second"),
                "µs",
            );
            step.enter(
                "CPU of a delivery",
                cpu_each(&outcome, "deliveries_per_second"),
                "µs",
            );
            step.enter("delivery p50", delivery(|delivery| delivery.p50), "ms");
            step.enter("delivery p99", delivery(|delivery| delivery.p99), "ms");
            Ok(())
        },
    )
}

/// More and more connections that do nothing.
pub(super) fn connections(bench: &mut Bench<'_>) -> Result<Curve, Stop> {
    curve(
        bench,
        "idle",
        "connections",
        [1_000, 5_000, 10_000],
        |bench, step| hold(bench, step, step.at as usize, 0),
    )
}

/// The same connections with more and more subscriptions.
pub(super) fn subscriptions(bench: &mut Bench<'_>) -> Result<Curve, Stop> {
    let name = format!("{HOLDERS} idle connections");
    curve(
        bench,
        &name,
        "subscriptions of each",
        [0, 1, 10, 100],
        |bench, step| hold(bench, step, HOLDERS, step.at as usize),
    )
}

fn hold(
    bench: &mut Bench<'_>,
    step: &mut Step,
    connections: usize,
    subscriptions: usize,
) -> Result<(), Stop> {
    let ours = bench.server()?;
    let told = format!("{connections} connections with {subscriptions} subscriptions");
    let outcome = bench.measure(&ours, &told, |mut setup| {
        // Nothing is measured by the clock here: opening may take the time that it takes.
        setup.late_ms = 60_000.0;
        Connect {
            setup,
            connections,
            connect_rate: 2_000.0,
            hold_seconds: 2.0,
            subscriptions,
        }
    })?;
    let each = figure(&outcome, "bytes_per_connection");
    let all = figure(&outcome, "resident_held");
    step.enter("memory of the server", all, "bytes");
    step.enter("memory of a connection", each, "bytes");
    Ok(())
}
