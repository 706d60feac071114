//! `history`: random pages of random timelines, as a client asks for that scrolls back.
//!
//! Owns: the pages that are asked for and their check. Promises: each page holds, in order and without hole, what was
//! asked for and no more, up to the head. Must not: read what it did not first append, unless --prefix names it.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::exit::Stop;
use crate::generator::Flow;
use crate::preload::Preload;
use crate::profile::{Profile, need_files};
use crate::random::Random;
use crate::request::{Ask, Session, at_slot};
use crate::rpc::{Refusal, put_request, read};
use crate::run::Run;
use crate::setup::Setup;
use crate::template::{MessageIds, SLOT_BASE, timeline_name};

/// Arguments of `history`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Pages {
    /// What every profile has.
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
    /// How they are asked for.
    #[command(flatten)]
    #[serde(flatten)]
    pub flow: Flow,
    /// Messages in a page
    #[arg(long, default_value_t = 50)]
    pub page: u64,
    /// Append so many messages first
    #[arg(long, default_value_t = 100_000)]
    pub preload: u64,
    /// To so many timelines; pages are read from all of them
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
    /// The messages are there already, under --prefix, as --preload and --preload-timelines say
    #[arg(long, requires = "prefix")]
    pub loaded: bool,
}

impl Profile for Pages {
    const NAME: &'static str = "history";

    fn setup(&self) -> &Setup {
        &self.setup
    }

    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        self.flow.check()?;
        if self.page == 0 || self.preload_timelines == 0 {
            return Err(Stop::Usage("a count of 0".into()));
        }
        need_files(run, self.flow.connections as u64)?;
        let prefix = run.prefix(self.prefix.as_deref(), "pages");
        let preload = Preload {
            messages: self.preload,
            timelines: self.preload_timelines,
            size: self.size,
            ids: MessageIds::All,
        };
        if !self.loaded {
            preload.run(run, &prefix).await?;
            run.pass(self.settle).await;
        }
        let pages = self.flow.recorder(run, "page");
        let generator = self.flow.generator(run, vec![Rc::clone(&pages)]);
        let open = async |number: usize| {
            let choice = Choice {
                timelines: preload.timelines,
                length: move |timeline| preload.length(timeline),
                grows: false,
            };
            let reads = Reads::new(run, &prefix, self.page, number as u64, choice);
            Session::open(run, reads).await
        };
        let running = generator.start(self.flow.connections, open).await?;
        run.measure().await;
        running.end().await?;
        run.rate("pages_per_second", pages.count());
        run.detail("prefix", prefix);
        Ok(())
    }
}

/// What there is to read.
pub struct Choice<L> {
    /// So many timelines.
    pub timelines: u64,
    /// How long each is, at least.
    pub length: L,
    /// Whether they grow meanwhile.
    pub grows: bool,
}

/// The pages that one connection reads.
pub struct Reads<L> {
    run: Rc<Run>,
    prefix: String,
    page: u64,
    random: Random,
    choice: Choice<L>,
    /// By slot: timeline, first number, what the length was.
    asked: Vec<(u64, u64, u64)>,
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
    /// Pages of so many messages each.
    #[must_use]
    pub fn new(run: &Rc<Run>, prefix: &str, page: u64, part: u64, choice: Choice<L>) -> Reads<L> {
        Reads {
            run: Rc::clone(run),
            prefix: prefix.to_owned(),
            page,
            random: Random::new(run.seed_of((1 << 34) + part)),
            choice,
            asked: Vec::new(),
        }
    }

    /// What is wrong with a page.
    fn check(&self, slot: usize, page: &Page) -> Result<(), String> {
        let (timeline, from, length) = self.asked[slot];
        let Page {
            messages,
            head,
            next,
        } = page;
        let name = || timeline_name(&self.prefix, timeline);
        if *head < length || (*head > length && !self.choice.grows) {
            return Err(format!(
                "{}: {length} messages were appended, head {head}",
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

impl<L: Fn(u64) -> u64> Ask for Reads<L> {
    fn put(&mut self, out: &mut Vec<u8>, slot: usize) {
        let timeline = self.random.below(self.choice.timelines);
        let length = (self.choice.length)(timeline);
        // Any place where a whole page follows, if there is one.
        let from = 1 + self.random.below(length.saturating_sub(self.page) + 1);
        let name = timeline_name(&self.prefix, timeline);
        let params = json!({ "timeline": name, "from": from, "limit": self.page });
        put_request(out, SLOT_BASE + slot as u64, "message.range", &params);
        *at_slot(&mut self.asked, slot) = (timeline, from, length);
    }

    fn take(&mut self, slot: usize, outcome: Result<&[u8], Refusal>) -> Option<usize> {
        let checks = &self.run.checks;
        match outcome {
            Ok(result) => {
                let checked = read(result).and_then(|page: Page| {
                    checks.made("pages whole and in order", 1);
                    checks.made("messages in pages", page.messages.len() as u64);
                    self.check(slot, &page)
                });
                if let Err(what) = checked {
                    checks.fault(what);
                }
                return Some(0);
            }
            // Nothing was appended there yet.
            Err(refusal)
                if refusal.data.reason == "timeline_not_found" && self.asked[slot].2 == 0 => {}
            Err(refusal) if refusal.data.retry => checks.made("pages refused for now", 1),
            Err(refusal) => checks.fault(format_args!("a page was refused: {}", refusal.message)),
        }
        None
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
            let messages: Vec<_> = sequences
                .iter()
                .map(|sequence| json!({ "sequence": sequence }))
                .collect();
            let result = json!({ "messages": messages, "head": 100, "next": next }).to_string();
            assert_eq!(reads.take(slot, Ok(result.as_bytes())), Some(0));
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
