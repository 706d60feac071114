//! The rows about growth: Tideline with much beside Tideline with little.
//!
//! Owns: the two servers: one that is filled once and kept for all pairs, and one that is filled anew for each.
//! Promises: both are filled in the same way, get the same load, and are left alone before it until they have stopped
//! writing. Must not: run both loads at once.

use super::disk::quiet;
use super::field::Field;
use super::profiles::{figure, profile_on};
use super::programs::Ours;
use super::table::{Bar, Figures, Pair, Row};
use crate::amount::amount;
use crate::append::Append;
use crate::exit::Stop;
use crate::generator::Flow;
use crate::pages::Pages;
use crate::report;
use crate::setup::Setup;

/// What little is.
const LITTLE: u64 = 100_000;
/// Messages of a timeline.
const LENGTH: u64 = 10;
/// Pages a second, by the clock, on both: latencies compare at the same rate only.
const PAGES_PER_SECOND: f64 = 2_000.0;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// 99th percentile of pages.
    Reads,
    /// Appends per second.
    Writes,
}

/// Both loads, each on much beside on little.
pub(super) async fn rows(field: &mut Field, pairs: usize) -> Result<Vec<Row>, Stop> {
    let stock = field.stock;
    let (there, little) = (
        amount(stock as f64, "messages"),
        amount(LITTLE as f64, "messages"),
    );
    let itself = format!("itself, {little} there");
    let row = |what, unit, bar| Row::new("growth", what, &itself, unit, bar);
    report::note(&format!("growth: {there} go in first"));
    let large = filled(field, stock).await?;
    let mut rows = Vec::new();
    // First what reads: what is appended is not known to who checks the pages.
    for load in [Load::Reads, Load::Writes] {
        let mut row = match load {
            Load::Reads => {
                let what = format!("history page p99, {PAGES_PER_SECOND:.0}/s, {there} there");
                row(what, "ms", Bar::RatioAtMost(1.5))
            }
            Load::Writes => {
                let connections = field.connections;
                let what = format!("durable appends, {connections} × 16, {there} there");
                row(what, "/s", Bar::RatioAtLeast(0.8))
            }
        };
        for round in 0..pairs {
            let first = match round % 2 {
                0 => Some(one(field, &large, stock, load).await?),
                _ => None,
            };
            let small = filled(field, LITTLE).await?;
            let peer = one(field, &small, LITTLE, load).await?;
            drop(small);
            let tideline = match first {
                Some(figures) => figures,
                None => one(field, &large, stock, load).await?,
            };
            let (much, little) = (tideline.value, peer.value);
            let (turn, unit) = (round + 1, &row.unit);
            report::note(&format!(
                "{turn}/{pairs} growth: {much:.2} {unit} beside {little:.2} {unit}"
            ));
            let peer = Some(peer);
            row.pairs.push(Pair { tideline, peer });
        }
        rows.push(row);
    }
    Ok(rows)
}

/// A server with so many messages, sent as fast as it takes them.
async fn filled(field: &mut Field, stock: u64) -> Result<Ours, Stop> {
    let server = Ours::start(&field.binary, &field.data, &[]).await?;
    let size = field.size;
    let filling = profile_on(field, &server, |setup| {
        let setup = Setup {
            warm_up: 0.0,
            seconds: 0.1,
            // Nothing of it is a figure.
            late_ms: f64::from(u16::MAX),
            ..setup
        };
        pages(setup, stock, size, false)
    });
    filling.await?;
    Ok(server)
}

/// Waits until nothing is written, and measures.
async fn one(field: &mut Field, server: &Ours, stock: u64, load: Load) -> Result<Figures, Stop> {
    quiet(server.pid()).await?;
    let (connections, timelines, size) = (field.connections, field.timelines, field.size);
    match load {
        Load::Reads => {
            let made = profile_on(field, server, |setup| pages(setup, stock, size, true));
            figure(&made.await?, "page_p99")
        }
        Load::Writes => {
            let made = profile_on(field, server, |setup| Append {
                flow: Flow::closed(connections, 16),
                size,
                ..Append::to_stock(setup, timelines)
            });
            figure(&made.await?, "appends_per_second")
        }
    }
}

fn pages(setup: Setup, stock: u64, size: usize, loaded: bool) -> Pages {
    Pages {
        size,
        ..Pages::of_stock(
            setup,
            PAGES_PER_SECOND,
            (stock, (stock / LENGTH).max(1)),
            loaded,
        )
    }
}
