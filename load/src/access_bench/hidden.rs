//! `access-bench hidden`: whether one can tell by the time that a timeline exists which one may not read.
//!
//! Owns: the calls, in turn. Promises: all are refused as not found, in the same words; else it is a fault. Must not:
//! have more than one on the way.

use std::rc::Rc;

use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::Instant;

use super::median;
use crate::exit::Stop;
use crate::generator::count;
use crate::profile::Profile;
use crate::random::Random;
use crate::rpc::{CallError, Client};
use crate::run::{Better, Counts, Run};
use crate::tally::ABSENT;
use crate::template::timeline_name;

/// Arguments of `access-bench hidden`; warm-up and seconds are not used.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Hidden {
    /// What the names of the hidden timelines begin with: those that `append --prefix` has made with another key
    #[arg(long)]
    prefix: String,
    /// How many of them there are; as many names behind them are missing
    #[arg(long, default_value_t = 1_000, value_parser = count::<u64>)]
    timelines: u64,
    /// Calls of each kind
    #[arg(long, default_value_t = 10_000, value_parser = count::<u64>)]
    calls: u64,
    /// The method that is called with a timeline alone
    #[arg(long, default_value = "timeline.get")]
    method: String,
}

const KINDS: [&str; 2] = ["hidden", "missing"];

impl Profile for Hidden {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        let mut client = Client::open(&run.url).await?;
        let recorders = KINDS.map(|kind| run.recorder(kind, Counts::Ended));
        let mut random = Random::new(run.seed);
        let (mut micros, mut first) = ([Vec::new(), Vec::new()], None);
        // As much again at first: what is cold does not count.
        for call in 0..4 * self.calls {
            if call == 2 * self.calls {
                run.begin().await;
                micros = Default::default();
            }
            let kind = (call % 2) as usize;
            let number = random.below(self.timelines) + kind as u64 * self.timelines;
            let name = timeline_name(&self.prefix, number);
            let began = Instant::now();
            let answer = client.call::<IgnoredAny>(&self.method, json!({ "timeline": name }));
            let answer = answer.await;
            let ended = Instant::now();
            let refusal = match answer {
                Err(CallError::Refused(refusal)) => refusal,
                Err(lost) => return Err(lost.into()),
                Ok(_) => {
                    run.checks.fault(format_args!("{name} is not hidden"));
                    break;
                }
            };
            let said = refusal.to_string().replace(&name, "");
            run.checks.made("refusals alike", 1);
            let alike = *first.get_or_insert_with(|| said.clone()) == said;
            if refusal.data.reason != ABSENT || !alike {
                run.checks.fault(format_args!("{name}: {said}"));
            }
            recorders[kind].record(began, ended);
            micros[kind].push((ended - began).as_nanos() as f64 / 1_000.0);
        }
        run.finish().await;
        let medians = micros.map(|micros| median(micros).unwrap_or_default());
        for (kind, median) in KINDS.iter().zip(medians) {
            run.figure(&format!("{kind}_median"), median, "us", Better::Lower);
        }
        let ratio = medians[0] / medians[1].max(0.001);
        run.figure("hidden_per_missing", ratio, "1", Better::Neither);
        Ok(())
    }
}
