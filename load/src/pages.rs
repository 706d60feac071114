//! `history`: random pages of random timelines, as a client asks for that scrolls back.
//!
//! Owns: the pages that are asked for and their check. Promises: each page holds, in order and without hole, what was
//! asked for and no more, up to the head. Must not: read what it did not first put there, unless --prefix names it.

use std::io::Write as _;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::append::{MessageIds, STOCK_PREFIX, timeline_name};
use crate::exit::Stop;
use crate::frame::put_text;
use crate::lanes::{Answer, Lanes, SLOT_BASE, SLOTS_MAX, Talk};
use crate::pace::Gaps;
use crate::preload::{self, Preload};
use crate::profile::{Profile, need_files};
use crate::random::Random;
use crate::recorder::Counts;
use crate::rpc::Refusal;
use crate::run::Run;
use crate::setup::Setup;

/// Arguments of `history`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Pages {
    /// What every profile has.
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
    /// Connections
    #[arg(long, default_value_t = 16)]
    pub connections: usize,
    /// Pages on the way per connection; not used with --rate
    #[arg(long, default_value_t = 1)]
    pub in_flight: usize,
    /// Ask for so many pages a second over all connections, whatever the server does (open loop)
    #[arg(long)]
    pub rate: Option<f64>,
    /// How the pages of a connection follow one another with --rate
    #[arg(long, value_enum, default_value_t = Gaps::Fixed)]
    pub gaps: Gaps,
    /// Messages in a page
    #[arg(long, default_value_t = 50)]
    pub page: u64,
    /// Have so many messages stand there first
    #[arg(long, default_value_t = 100_000)]
    pub preload: u64,
    /// In so many timelines; pages are read from all of them
    #[arg(long, default_value_t = 1_000)]
    pub preload_timelines: u64,
    /// Bytes of text in each entry
    #[arg(long, default_value_t = 200)]
    pub size: usize,
    /// Seconds between preloading and measuring
    #[arg(long, default_value_t = 0.0)]
    pub settle: f64,
    /// Names of the timelines begin so [default: one of this run's own]
    #[arg(long)]
    pub prefix: Option<String>,
    /// The messages stand there already, under --prefix, as --preload and --preload-timelines say
    #[arg(long, requires = "prefix")]
    pub loaded: bool,
}

impl Pages {
    /// Pages by the clock of a stock of so many messages in so many timelines, which is put there first unless it is
    /// `loaded`.
    #[must_use]
    pub fn of_stock(
        setup: Setup,
        rate: f64,
        (messages, timelines): (u64, u64),
        loaded: bool,
    ) -> Pages {
        Pages {
            setup,
            connections: 16,
            in_flight: 1,
            rate: Some(rate),
            gaps: Gaps::Fixed,
            page: 50,
            preload: messages,
            preload_timelines: timelines,
            size: 200,
            settle: 0.0,
            prefix: Some(STOCK_PREFIX.into()),
            loaded,
        }
    }
}

impl Profile for Pages {
    const NAME: &'static str = "history";

    fn setup(&self) -> &Setup {
        &self.setup
    }

    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        let counts = [self.connections as u64, self.in_flight as u64, self.page];
        if counts.contains(&0) || self.in_flight > SLOTS_MAX || self.preload_timelines == 0 {
            return Err(Stop::Usage("a count of 0, or too many on the way".into()));
        }
        need_files(run, self.connections as u64)?;
        let prefix = self
            .prefix
            .clone()
            .unwrap_or_else(|| format!("pages-{}/", run.tag));
        let preload = Preload {
            messages: self.preload,
            timelines: self.preload_timelines,
            size: self.size,
            ids: MessageIds::All,
        };
        if !self.loaded {
            preload::run(&preload, run, &prefix).await?;
            run.pass(self.settle).await;
        }
        let pages = run.recorder(
            "page",
            self.rate.map_or(Counts::Ended, |_| Counts::Scheduled),
        );
        let lanes = Lanes {
            run: Rc::clone(run),
            recorder: Rc::clone(&pages),
            in_flight: self.in_flight,
            rate: self.rate,
            gaps: self.gaps,
            most: None,
            part: 0,
        };
        let running = lanes
            .start(self.connections, |number| {
                let length = move |timeline| preload.length(timeline);
                let choice = Choice {
                    timelines: preload.timelines,
                    length,
                    grows: false,
                };
                Reads::new(run, &prefix, self.page, number as u64, choice)
            })
            .await?;
        run.measure().await;
        running.end().await?;
        run.rate("pages_per_second", pages.count());
        run.detail("prefix", prefix);
        Ok(())
    }
}

/// What there is to read.
pub(crate) struct Choice<L> {
    /// So many timelines.
    pub(crate) timelines: u64,
    /// How long each is, at least.
    pub(crate) length: L,
    /// Whether they grow meanwhile.
    pub(crate) grows: bool,
}

/// One connection that reads pages.
pub(crate) struct Reads<L> {
    run: Rc<Run>,
    prefix: String,
    page: u64,
    random: Random,
    choice: Choice<L>,
    text: Vec<u8>,
    /// By slot: timeline, first number, what the length was.
    asked: Vec<(u64, u64, u64)>,
}

#[derive(Deserialize)]
struct Reply {
    id: u64,
    result: Option<Page>,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Page {
    messages: Vec<Numbered>,
    head: u64,
    next: Option<u64>,
}

#[derive(Deserialize)]
struct Numbered {
    sequence: u64,
}

impl<L: Fn(u64) -> u64> Reads<L> {
    pub(crate) fn new(
        run: &Rc<Run>,
        prefix: &str,
        page: u64,
        part: u64,
        choice: Choice<L>,
    ) -> Reads<L> {
        Reads {
            run: Rc::clone(run),
            prefix: prefix.to_owned(),
            page,
            random: Random::new(run.seed_of((1 << 34) + part)),
            choice,
            text: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// What is wrong with a page.
    fn check(&self, slot: usize, page: &Page) -> Result<(), String> {
        let (timeline, from, length) = self.asked[slot];
        let name = || timeline_name(&self.prefix, timeline);
        let Page {
            messages,
            head,
            next,
        } = page;
        if *head < length || (*head > length && !self.choice.grows) {
            return Err(format!(
                "{}: {length} messages were put there, head {head}",
                name()
            ));
        }
        let due = (head + 1).saturating_sub(from).min(self.page);
        let got = messages.len() as u64;
        let in_order = messages
            .iter()
            .map(|message| message.sequence)
            .eq(from..from + got);
        // A page may end early to fit a frame, but then says where it goes on.
        let whole = got == due || (0 < got && got < due && *next == Some(from + got));
        if in_order && whole {
            return Ok(());
        }
        let first = messages.first().map(|message| message.sequence);
        Err(format!(
            "{}: asked from {from} for {due}, got {got} from {first:?}",
            name()
        ))
    }
}

impl<L: Fn(u64) -> u64> Talk for Reads<L> {
    fn put(&mut self, out: &mut Vec<u8>, slot: usize) {
        let timeline = self.random.below(self.choice.timelines);
        let length = (self.choice.length)(timeline);
        // Any place where a whole page follows, if there is one.
        let from = 1 + self.random.below(length.saturating_sub(self.page) + 1);
        let (name, page) = (timeline_name(&self.prefix, timeline), self.page);
        let name = serde_json::Value::from(name);
        let id = SLOT_BASE + slot as u64;
        self.text.clear();
        // Writing into a vector can't fail.
        let _ = write!(
            self.text,
            r#"{{"jsonrpc":"2.0","id":{id},"method":"message.range","params":{{"timeline":{name},"from":{from},"limit":{page}}}}}"#
        );
        put_text(out, &self.text);
        if slot >= self.asked.len() {
            self.asked.resize(slot + 1, (0, 0, 0));
        }
        self.asked[slot] = (timeline, from, length);
    }

    fn take(&mut self, text: &[u8]) -> Option<Answer> {
        let checks = &self.run.checks;
        let reply: Option<Reply> = serde_json::from_slice(text).ok();
        let slot = |reply: &Reply| usize::try_from(reply.id.checked_sub(SLOT_BASE)?).ok();
        let Some((reply, slot)) = reply.and_then(|reply| slot(&reply).map(|slot| (reply, slot)))
        else {
            let text = String::from_utf8_lossy(text);
            checks.fault(format_args!("not an answer to message.range: {text:.200}"));
            return None;
        };
        match reply {
            Reply {
                result: Some(page), ..
            } if slot < self.asked.len() => {
                checks.made("pages whole and in order", 1);
                checks.made("messages in pages", page.messages.len() as u64);
                if let Err(what) = self.check(slot, &page) {
                    checks.fault(what);
                }
                return Some(Answer { slot, counts: true });
            }
            // Nothing was appended there yet.
            Reply {
                error: Some(refusal),
                ..
            } if refusal.data.reason == "timeline_not_found"
                && self.asked.get(slot).is_some_and(|asked| asked.2 == 0) => {}
            Reply {
                error: Some(refusal),
                ..
            } if refusal.data.retry => {
                self.run.checks.made("pages refused for now", 1);
            }
            Reply { error, .. } => {
                let why = error.map_or(String::new(), |refusal| refusal.message);
                checks.fault(format_args!("a page was refused: {why}"));
            }
        }
        Some(Answer {
            slot,
            counts: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::plain;

    fn reads() -> Reads<impl Fn(u64) -> u64> {
        let run = Run::new(&plain(), "ws://nowhere".into(), None);
        let choice = Choice {
            timelines: 1,
            length: |_| 100,
            grows: false,
        };
        let mut reads = Reads::new(&run, "p/", 10, 0, choice);
        reads.asked = vec![(0, 5, 100), (0, 95, 100)];
        reads
    }

    fn reply(slot: u64, sequences: &[u64], next: Option<u64>) -> Vec<u8> {
        let messages: Vec<_> = sequences
            .iter()
            .map(|sequence| serde_json::json!({ "sequence": sequence }))
            .collect();
        let result = serde_json::json!({ "messages": messages, "head": 100, "next": next });
        serde_json::json!({ "id": SLOT_BASE + slot, "result": result })
            .to_string()
            .into_bytes()
    }

    #[test]
    fn pages_that_are_right_hold_and_others_are_faults() {
        let mut reads = reads();
        let whole: Vec<u64> = (5..15).collect();
        for (slot, sequences, next, faults) in [
            (0, &whole[..], Some(15), 0),
            (1, &[95, 96, 97, 98, 99, 100], None, 0),
            // Ended early, and says so; and without saying so.
            (0, &whole[..4], Some(9), 0),
            (0, &whole[..4], None, 1),
            (0, &[5, 7], Some(8), 2),
            (0, &[], None, 3),
        ] {
            let answer = reads.take(&reply(slot, sequences, next));
            assert_eq!(
                answer,
                Some(Answer {
                    slot: slot as usize,
                    counts: true
                })
            );
            assert_eq!(reads.run.checks.faults(), faults, "{sequences:?} {next:?}");
        }
    }

    #[test]
    fn what_is_asked_is_json() {
        let mut reads = reads();
        let mut out = Vec::new();
        reads.put(&mut out, 7);
        let start = out.iter().position(|byte| *byte == b'{').expect("JSON");
        let value: serde_json::Value = serde_json::from_slice(&out[start..]).expect("JSON");
        assert_eq!(value["id"], 1_007);
        let from = value["params"]["from"].as_u64().expect("a number");
        assert!((1..=91).contains(&from), "{from}");
    }
}
