//! The row about a reconnect storm: how long until all clients that were cut at once have caught up.
//!
//! Owns: the size of the storm, which is that of the bar. Promises: each run has a server of its own. Must not: measure
//! by itself: the profile does, and checks.

use super::field::Field;
use super::profiles::{figure, profile};
use super::table::{Bar, Pair, Row};
use crate::exit::Stop;
use crate::report;
use crate::storm::Storm;

const CLIENTS: usize = 5_000;
const TIMELINES: u64 = 1_000;
const PER_CLIENT: u64 = 10;
const BEHIND: u64 = 10;

/// Seconds from the first connect of the return until everybody stands at every head.
pub(super) async fn caught_up(field: &mut Field, pairs: usize) -> Result<Vec<Row>, Stop> {
    let missed = PER_CLIENT * BEHIND;
    let what = format!("{CLIENTS} clients cut, back and {missed} messages each caught up");
    let mut row = Row::new("storm", what, "-", "s", Bar::ValueAtMost(10.0));
    let size = field.size;
    for round in 0..pairs {
        let outcome = profile(field, |setup| Storm {
            setup,
            clients: CLIENTS,
            timelines: TIMELINES,
            per_client: PER_CLIENT,
            behind: BEHIND,
            size,
            connecting: CLIENTS,
            away: 1.0,
        });
        let tideline = figure(&outcome.await?, "all_caught_up")?;
        let seconds = tideline.value;
        report::note(&format!("{}/{pairs} storm: {seconds:.2} s", round + 1));
        row.pairs.push(Pair {
            tideline,
            peer: None,
        });
    }
    Ok(vec![row])
}
