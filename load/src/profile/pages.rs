//! `history`: random pages of random timelines, as a client asks for that scrolls back.
//!
//! Owns: the pages that are asked for and their check. Promises: each page holds, in order and without hole, what was
//! asked for and no more, up to the head. Must not: read what it did not first append, unless --prefix names it.

use std::cell::RefCell;
use std::rc::Rc;

use serde::Serialize;
use serde_json::json;

use crate::client::generator::{Flow, count};
use crate::client::request::{Ask, Outcome, Session};
use crate::client::rpc::{put_request, read};
use crate::exit::Stop;
use crate::profile::{Profile, need_files};
use crate::random::Random;
use crate::run::tally::{ABSENT, Numbered, Page, Stock, Tallied};
use crate::run::{Better, Run};

/// Arguments of `history`.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[command(mut_arg("preload", |arg| arg.default_value("100000")))]
#[command(mut_arg("preload_timelines", |arg| arg.default_value("1000")))]
pub struct Pages {
    #[command(flatten)]
    #[serde(flatten)]
    flow: Flow,
    #[command(flatten)]
    #[serde(flatten)]
    stock: Stock,
    /// Messages in a page
    #[arg(long, default_value_t = 50, value_parser = count::<u64>)]
    page: u64,
    /// The messages are there already, under --prefix, as --preload and --preload-timelines say
    #[arg(long, requires = "prefix")]
    loaded: bool,
}

impl Profile for Pages {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        need_files(run, self.flow.connections as u64)?;
        let tally = self.stock.tally(run, "pages");
        if !self.loaded {
            self.stock.fill(run, &tally).await?;
        }
        run.detail("prefix", &tally.prefix);
        let tally = Rc::new(RefCell::new(tally));
        let pages = self.flow.recorder(run, "page");
        let open = Session::each(run, |lane| Reads::new(run, &tally, lane, self.page, false));
        self.flow.measure(run, &[Rc::clone(&pages)], open).await?;
        run.rate("pages_per_second", pages.count());
        let refused = run.checks.count(REFUSED);
        run.figure("pages_refused", refused as f64, "1", Better::Lower);
        Ok(())
    }
}

/// Pages that were refused, which is no fault.
pub(crate) const REFUSED: &str = "pages refused for now";

/// The pages that one connection reads.
pub(crate) struct Reads {
    run: Rc<Run>,
    tally: Tallied,
    page: u64,
    /// Whether timelines grow meanwhile: they then hold more than the tally says.
    grow: bool,
    random: Random,
}

impl Reads {
    /// Pages of so many messages each.
    pub(crate) fn new(run: &Rc<Run>, tally: &Tallied, lane: usize, page: u64, grow: bool) -> Reads {
        Reads {
            run: Rc::clone(run),
            tally: Rc::clone(tally),
            page,
            grow,
            random: Random::new(run.seed_of((1 << 34) + lane as u64)),
        }
    }
}

impl Ask for Reads {
    /// The timeline, the first message, and how long the timeline was.
    type Asked = (u64, u64, u64);

    fn put(&mut self, out: &mut Vec<u8>, request: u64) -> (u64, u64, u64) {
        let tally = self.tally.borrow();
        let timeline = self.random.below(tally.acked.len() as u64);
        let length: u64 = tally.acked[timeline as usize].into();
        // Any place where a whole page follows, if there is one.
        let from = 1 + self.random.below(length.saturating_sub(self.page) + 1);
        let params = json!({ "timeline": tally.name(timeline), "from": from, "limit": self.page });
        put_request(out, request, "message.range", &params);
        (timeline, from, length)
    }

    fn take(&mut self, asked: (u64, u64, u64), outcome: Outcome<'_>) -> Result<(), String> {
        let (timeline, from, length) = asked;
        let page: Page<Numbered> = match outcome {
            Ok(result) => read(result)?,
            Err(refusal) if refusal.data.retry => {
                self.run.checks.made(REFUSED, 1);
                return Ok(());
            }
            // Nothing was appended there yet.
            Err(refusal) if length == 0 && refusal.data.reason == ABSENT => return Ok(()),
            Err(refusal) => return Err(format!("a page was refused: {refusal}")),
        };
        let (head, got) = (page.head, page.messages.len() as u64);
        self.run.checks.made("pages whole and in order", 1);
        self.run.checks.made("messages in pages", got);
        let due = (head + 1).saturating_sub(from).min(self.page);
        let sequences = page.messages.iter().map(|message| message.sequence);
        // A page may end early to fit a frame, but then says where it goes on.
        let is_whole = got == due || (0 < got && got < due && page.next == Some(from + got));
        let is_long = head == length || (head > length && self.grow);
        if is_whole && is_long && sequences.eq(from..from + got) {
            return Ok(());
        }
        let name = self.tally.borrow().name(timeline);
        let (first, last) = (page.messages.first(), page.messages.last());
        Err(format!(
            "{name}: of {length} messages asked from {from} for {due}, got {got} from {first:?} to {last:?}, head {head}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::rpc::{Refusal, RefusalData};
    use crate::run::setup::plain;
    use crate::run::tally::Tally;

    fn reads() -> Reads {
        let run = Run::new(&plain(), "ws://nowhere".into(), None);
        let tally = Tally::new("p/".into(), 1, 100);
        Reads::new(&run, &Rc::new(RefCell::new(tally)), 0, 10, false)
    }

    #[test]
    fn pages_that_are_right_hold_and_others_are_faults() {
        let mut reads = reads();
        let whole: Vec<u64> = (5..15).collect();
        for (from, sequences, next, holds) in [
            (5, &whole[..], Some(15), true),
            (95, &[95, 96, 97, 98, 99, 100], None, true),
            // Ended early, and says so; and without saying so.
            (5, &whole[..4], Some(9), true),
            (5, &whole[..4], None, false),
            (5, &[5, 7], Some(8), false),
            (5, &[], None, false),
        ] {
            let messages: Vec<_> = sequences
                .iter()
                .map(|sequence| json!({ "sequence": sequence }))
                .collect();
            let result = json!({ "messages": messages, "head": 100, "next": next, "epoch": "e" })
                .to_string();
            let checked = reads.take((0, from, 100), Ok(result.as_bytes()));
            assert_eq!(
                checked.is_ok(),
                holds,
                "{sequences:?} {next:?}: {checked:?}"
            );
        }
    }

    #[test]
    fn a_refusal_for_now_is_counted_and_another_one_is_a_fault() {
        let mut reads = reads();
        let mut refusal = Refusal {
            code: 503,
            message: String::new(),
            data: RefusalData::default(),
        };
        assert!(reads.take((0, 5, 100), Err(refusal.clone())).is_err());
        refusal.data.retry = true;
        assert!(reads.take((0, 5, 100), Err(refusal)).is_ok());
        assert_eq!(reads.run.checks.count(REFUSED), 1);
    }

    #[test]
    fn what_is_asked_is_json() {
        let mut reads = reads();
        let mut out = Vec::new();
        reads.put(&mut out, 1_007);
        let start = out.iter().position(|byte| *byte == b'{').expect("JSON");
        let value: serde_json::Value = serde_json::from_slice(&out[start..]).expect("JSON");
        assert_eq!(value["id"], 1_007);
        let from = value["params"]["from"].as_u64().expect("a number");
        assert!((1..=91).contains(&from), "{from}");
    }
}
