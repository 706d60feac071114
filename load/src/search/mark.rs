//! Messages with a word of their own: is each found as soon as it was acknowledged?
//!
//! Owns: these messages. Promises: one that the first search behind its acknowledgement does not find is a fault, but
//! if the answer says that the index is behind. Must not: wait between the two.

use std::rc::Rc;

use futures_util::future::try_join_all;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::Instant;

use super::query::{Found, Words};
use crate::client::rpc::{CallError, Client};
use crate::exit::Stop;
use crate::outcome::recorder::Recorder;
use crate::random::Random;
use crate::run::{Counts, Gaps, Phase, Run};

/// Connections.
const LANES: u64 = 8;
/// Seed of the schedules.
const GAPS: u64 = 1 << 51;

pub(super) struct Marks {
    run: Rc<Run>,
    rate: f64,
    words: Rc<Words>,
    /// From the acknowledgement until it is found.
    found: Rc<Recorder>,
}

impl Marks {
    /// So many a second; none if that is 0.
    pub(super) fn new(run: &Rc<Run>, rate: f64, words: &Rc<Words>) -> Option<Marks> {
        (rate > 0.0).then(|| Marks {
            run: Rc::clone(run),
            rate,
            words: Rc::clone(words),
            found: run.recorder("found", Counts::Ended),
        })
    }

    /// Until the run ends.
    pub(super) fn start(self) -> JoinHandle<Result<(), Stop>> {
        spawn_local(async move {
            let lanes = (0..LANES).map(|lane| self.lane(lane));
            try_join_all(lanes).await.map(drop)
        })
    }

    async fn lane(&self, lane: u64) -> Result<(), Stop> {
        let run = &self.run;
        let mut client = Client::open(&run.url).await?;
        let mut random = Random::new(run.seed_of(GAPS + lane));
        let timeline = format!("{}{lane}", run.prefix("marks"));
        let mut pace = run.pace(self.rate / LANES as f64, Gaps::Exponential, GAPS + lane);
        let mut number = 0;
        while run.phase() != Phase::Ending {
            tokio::select! {
                () = pace.wait() => {}
                () = run.ended() => {}
            }
            if pace.due(Instant::now()).is_some() {
                number += 1;
                let mark = format!("mark{}x{lane}x{number}", run.tag.to_ascii_lowercase());
                let text = format!("{} {mark}", self.words.any(&mut random).join(" "));
                self.one(&mut client, &timeline, &mark, &text).await?;
            }
        }
        Ok(())
    }

    async fn one(
        &self,
        client: &mut Client,
        timeline: &str,
        mark: &str,
        text: &str,
    ) -> Result<(), CallError> {
        let params = json!({ "timeline": timeline, "entry": { "text": text } });
        let _: IgnoredAny = client.insist("message.append", params).await?;
        let acknowledged = Instant::now();
        let checks = &self.run.checks;
        loop {
            let found: Found = client
                .insist("message.search", json!({ "query": mark }))
                .await?;
            if found.texts().eq([text]) {
                break;
            }
            if !found.behind {
                checks.fault(format_args!(
                    "{timeline}: {mark} was acknowledged and is not found: {found:?}"
                ));
                return Ok(());
            }
            self.run.add("behind", 1);
        }
        self.found.record(acknowledged, Instant::now());
        checks.made("messages found behind their acknowledgement", 1);
        Ok(())
    }
}
