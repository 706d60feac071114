//! `soak`: `mixed` for hours, and what grows meanwhile.
//!
//! Owns: the trends. Promises: the same load and the same checks as `mixed`. Must not: judge a trend: memtables, caches
//! and the log's retention grow up to their bounds; a slope that stays after they are reached is the news.

use std::rc::Rc;

use serde::Serialize;

use crate::exit::Stop;
use crate::mixed::{Mixed, trend};
use crate::outcome::Better;
use crate::profile::Profile;
use crate::run::Run;
use crate::setup::Setup;

/// Arguments of `soak`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Soak {
    /// The load
    #[command(flatten)]
    #[serde(flatten)]
    pub mixed: Mixed,
}

impl Profile for Soak {
    const NAME: &'static str = "soak";

    fn setup(&self) -> &Setup {
        &self.mixed.setup
    }

    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        self.mixed.drive(run).await?;
        for (sample, figure, unit, better) in [
            (
                "server_resident_bytes",
                "server_resident_growth",
                "bytes/h",
                Better::Lower,
            ),
            (
                "server_descriptors",
                "server_descriptor_growth",
                "1/h",
                Better::Lower,
            ),
            (
                "server_written_bytes",
                "server_written_growth",
                "bytes/h",
                Better::Neither,
            ),
            (
                "generator_resident_bytes",
                "generator_resident_growth",
                "bytes/h",
                Better::Neither,
            ),
        ] {
            if let Some(slope) = run.samples(sample).as_ref().and_then(trend::per_hour) {
                run.figure(figure, slope, unit, better);
            }
        }
        Ok(())
    }
}
