//! `access-bench`: what deciding who may do what costs, one measurement each. The tool shows the credential that is in
//! `TIDELINE_KEY`: a key or a user's token.
//!
//! Owns: the measurements by name. Promises: each answer is checked against what the credential allows. Must not:
//! compare a figure with its bar: that is for who reads it, on a quiet machine.

mod hidden;
mod reload;

use crate::profile::{Flags, Load};

/// The measurements.
#[derive(clap::Subcommand)]
pub enum Row {
    /// Timelines that one may not read against timelines that do not exist: calls in turn, and the median of each
    Hidden(Flags<hidden::Hidden>),
    /// Settings that take a right away, read again: how long until each of many subscriptions has ended, and the
    /// latency of others meanwhile
    Reload(Flags<reload::Reload>),
}

impl Row {
    /// The name for results, and the load.
    pub(crate) fn profile(&self) -> (&'static str, &dyn Load) {
        match self {
            Row::Hidden(args) => ("access-bench hidden", args),
            Row::Reload(args) => ("access-bench reload", args),
        }
    }
}

/// The middle one of some figures.
fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}
