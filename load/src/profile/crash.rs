//! `crash`: a server that is killed again and again under writers and subscribers, and the check that nothing was lost.
//!
//! Owns: the messages. Promises: the same seed gives the same messages, and the same points for the kills (not the same
//! interleaving). Must not: be taken as a proof about power cuts: a killed process keeps the page cache.

use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use crate::exit::Stop;
use crate::profile::Profile;
use crate::random::Random;
use crate::recording::Recorded;
use crate::run::Run;
use crate::trial::{Outgoing, Source, Trial};

/// Connections that write, each to a timeline of its own and to those that all share.
const WRITERS: u64 = 16;
const SHARED_TIMELINES: u64 = 4;
/// Messages of each writer from one kill to the next, and the pause between two of them. A server lives for about a
/// second, long enough for its work beside appending.
const MESSAGES: u64 = 400;
const PAUSE: Duration = Duration::from_millis(2);

/// Arguments of `crash`; warm-up and seconds are not used: it ends when all is written.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Crash {
    /// How often the server is killed
    #[arg(long, default_value_t = 20)]
    pub(crate) rounds: u32,
    #[command(flatten)]
    #[serde(flatten)]
    recorded: Recorded,
}

impl Profile for Crash {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        let prefix = run.prefix("crash");
        // Half of a writer's messages go to its own timeline, half to the shared ones.
        let messages = MESSAGES * (u64::from(self.rounds) + 1);
        let all = messages / 2 * WRITERS / SHARED_TIMELINES;
        let shared = (0..SHARED_TIMELINES).map(|number| (format!("{prefix}all/{number}"), all));
        let own = (0..WRITERS).map(|number| (format!("{prefix}own/{number}"), messages / 2));
        let sources = (0..WRITERS).map(|writer| {
            let user = format!("writer-{writer}");
            let mut random = Random::new(run.seed_of(1_000 + writer));
            let of = user.clone();
            let made = move |number| message(&of, writer, number, &mut random);
            Source {
                user,
                in_flight: 8,
                pause: PAUSE,
                messages: Box::new((0..messages).map(made)),
            }
        });
        let (timelines, sources) = (shared.chain(own).collect(), sources.collect());
        Trial::run(run, timelines, sources, self.rounds, &self.recorded).await
    }
}

fn message(user: &str, writer: u64, number: u64, random: &mut Random) -> Outgoing {
    let timeline = match random.below(2) {
        0 => SHARED_TIMELINES + writer,
        _ => random.below(SHARED_TIMELINES),
    };
    // Mostly short, now and then above a page, so that frames of many sizes are torn.
    let is_long = random.below(50) == 0;
    let length = random.below(if is_long { 20_000 } else { 300 });
    Outgoing {
        timeline: timeline as usize,
        id: format!("{user}:{number}"),
        entry: json!({ "number": number, "text": random.text(length as usize) }),
        expect_head: None,
    }
}
