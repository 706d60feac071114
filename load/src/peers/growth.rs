//! The row about growth: Tideline with much beside Tideline with little.
//!
//! Owns: the two servers: one that is filled once and kept for all pairs, and one that is filled anew for each.
//! Promises: both are filled in the same way, and left alone until their merges had time. Must not: run both loads at
//! once.

use super::field::Field;
use super::profiles::{figure, profile_on, row};
use super::programs::Ours;
use super::table::{Bar, Figures, Pair, Row};
use crate::append::{Append, MessageIds};
use crate::exit::Stop;
use crate::pace::Gaps;
use crate::report;

/// What stands there first.
#[derive(Clone, Copy, Debug)]
struct Stock {
    messages: u64,
    timelines: u64,
    /// Seconds for merges afterwards.
    settle: f64,
}

const LITTLE: Stock = Stock {
    messages: 100_000,
    timelines: 10_000,
    settle: 3.0,
};
const MUCH: Stock = Stock {
    messages: 10_000_000,
    timelines: 1_000_000,
    settle: 30.0,
};
const NOTHING: Stock = Stock {
    messages: 0,
    timelines: 1,
    settle: 0.0,
};

/// Appends per second on much, beside those on little.
pub(super) async fn appends(field: &mut Field, pairs: usize) -> Result<Row, Stop> {
    let mut row = row(
        "growth",
        format!(
            "durable appends, {} messages in {} timelines there",
            MUCH.messages, MUCH.timelines
        ),
        "itself at 100,000 messages",
        "/s",
        Bar::RatioAtLeast(0.8),
    );
    let large = Ours::start(&field.binary, &field.data).await?;
    report::note(&format!("growth: {} messages go in first", MUCH.messages));
    append(field, &large, MUCH).await?;
    for round in 0..pairs {
        let mut tideline = None;
        if round % 2 == 0 {
            tideline = Some(append(field, &large, NOTHING).await?);
        }
        let small = Ours::start(&field.binary, &field.data).await?;
        let peer = append(field, &small, LITTLE).await?;
        drop(small);
        let tideline = match tideline {
            Some(figures) => figures,
            None => append(field, &large, NOTHING).await?,
        };
        let (much, little) = (tideline.value, peer.value);
        report::note(&format!(
            "{}/{pairs} growth: {much:.0}/s, {little:.0}/s",
            round + 1
        ));
        let peer = Some(peer);
        row.pairs.push(Pair { tideline, peer });
    }
    Ok(row)
}

/// Fills, waits, measures.
async fn append(field: &mut Field, server: &Ours, stock: Stock) -> Result<Figures, Stop> {
    let (connections, timelines, size) = (field.connections, field.timelines, field.size);
    let outcome = profile_on(field, server, |setup| Append {
        setup,
        connections,
        in_flight: 16,
        rate: None,
        gaps: Gaps::Fixed,
        timelines,
        size,
        messages: None,
        message_ids: MessageIds::All,
        preload: stock.messages,
        preload_timelines: stock.timelines,
        settle: stock.settle,
        prefix: Some("growth/".into()),
        sample: 50,
    });
    figure(&outcome.await?, "appends_per_second")
}
