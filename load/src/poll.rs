//! `poll`: asking for many timelines at once, over and over, mostly for nothing new: what a client without pushes does.
//!
//! Owns: the measurement: ready-made `sync` requests for groups of timelines, at their heads or one message back.
//! Promises: an empty reply is compared byte by byte, any other is parsed and must hold just the news that was due.
//! Must not: write while it measures: news are asked for from one message back.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::exit::Stop;
use crate::generator::Flow;
use crate::outcome::Better;
use crate::profile::{Profile, need_files};
use crate::random::Random;
use crate::recorder::Recorder;
use crate::request::{Ask, Session, at_slot};
use crate::rpc::{Appended, CallError, Client, Message, Refusal, read};
use crate::run::Run;
use crate::setup::Setup;
use crate::template::{SLOT, SLOT_BASE, Template, timeline_name};

/// Arguments of `poll`.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[command(mut_arg("connections", |arg| arg.default_value("1")))]
#[command(mut_arg("in_flight", |arg| arg.default_value("16")))]
pub struct Poll {
    /// What every profile has.
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
    /// How they poll.
    #[command(flatten)]
    #[serde(flatten)]
    pub flow: Flow,
    /// Timelines, made first with one message each
    #[arg(long, default_value_t = 10_000)]
    pub timelines: u64,
    /// Timelines in one poll
    #[arg(long, default_value_t = 100)]
    pub positions: u64,
    /// Name the epoch with each position, as a client does that keeps one
    #[arg(long)]
    pub epochs: bool,
    /// Share of the polls that find one message, 0 to 1
    #[arg(long, default_value_t = 0.0)]
    pub share_with_news: f64,
}

impl Profile for Poll {
    const NAME: &'static str = "poll";

    fn setup(&self) -> &Setup {
        &self.setup
    }

    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        self.flow.check()?;
        if self.positions == 0 || self.positions > self.timelines {
            let what = "as many positions as timelines at most, and one at least";
            return Err(Stop::Usage(what.into()));
        }
        if !(0.0..=1.0).contains(&self.share_with_news) {
            return Err(Stop::Usage("a share is between 0 and 1".into()));
        }
        need_files(run, self.flow.connections as u64)?;
        run.tell("making timelines");
        let timelines = self.make(run).await;
        let timelines = timelines.map_err(|error| Stop::Unreachable(error.to_string()))?;
        let board = Rc::new(Board {
            groups: timelines
                .chunks_exact(self.positions as usize)
                .map(|group| Group::new(group, self.epochs))
                .collect(),
            share: self.share_with_news,
            with_news: Cell::new(0),
            empty: Cell::new(0),
        });
        let latency = self.flow.recorder(run, "poll");
        let open = async |number: usize| {
            let polls = Polls {
                random: Random::new(run.seed_of(number as u64 + 1)),
                asked: Vec::new(),
                board: Rc::clone(&board),
                run: Rc::clone(run),
            };
            Session::open(run, polls).await
        };
        let generator = self.flow.generator(run, vec![Rc::clone(&latency)]);
        let running = generator.start(self.flow.connections, open).await?;
        run.measure().await;
        running.end().await?;
        board.tell(run, &latency);
        Ok(())
    }
}

/// A timeline as it is.
struct Known {
    name: String,
    head: u64,
    epoch: String,
}

impl Poll {
    /// Timelines of this run's own, with one message each.
    async fn make(&self, run: &Run) -> Result<Vec<Known>, CallError> {
        let prefix = format!("poll-{}/", run.tag);
        let mut client = Client::open(&run.url).await?;
        let mut made = BTreeMap::new();
        for first in (0..self.timelines).step_by(100) {
            let mut names = BTreeMap::new();
            for number in first..self.timelines.min(first + 100) {
                let name = timeline_name(&prefix, number);
                let params = json!({ "timeline": name, "entry": { "text": "first" } });
                names.insert(client.send("message.append", &params), name);
            }
            while !names.is_empty() {
                let Some((id, outcome)) = client.receive().await? else {
                    return Err(CallError::Lost("a push, and nothing was subscribed".into()));
                };
                let result = outcome.map_err(CallError::Refused)?;
                let appended: Appended = read(&result).map_err(CallError::Lost)?;
                let name = names.remove(&id);
                let name = name.ok_or_else(|| CallError::Lost(format!("a reply to {id}")))?;
                made.insert(name, (appended.sequence, appended.epoch));
            }
        }
        let known = |(name, (head, epoch))| Known { name, head, epoch };
        Ok(made.into_iter().map(known).collect())
    }
}

/// What all connections share.
struct Board {
    groups: Vec<Group>,
    /// Share of the polls that find something.
    share: f64,
    with_news: Cell<u64>,
    empty: Cell<u64>,
}

impl Board {
    fn tell(&self, run: &Run, latency: &Recorder) {
        run.rate("polls_per_second", latency.count());
        if let Some(used) = run.value("server_cpu_seconds") {
            // The clock of processor time ticks every 10 ms.
            let per = latency.count() as f64 / used.max(0.01);
            run.figure("polls_per_server_cpu_second", per, "1/s", Better::Higher);
        }
        let (empty, with_news) = (self.empty.get(), self.with_news.get());
        let share = empty as f64 * 100.0 / (empty + with_news).max(1) as f64;
        run.figure("share_empty", share, "%", Better::Neither);
        run.checks.made("empty replies compared", empty);
        run.checks.made("replies with news parsed", with_news);
    }
}

/// The requests for the timelines of one group.
struct Group {
    /// At all heads, and with one timeline a message back.
    requests: [Template; 2],
    /// The timeline that has news, and its head.
    news: (String, u64),
}

/// The result of `sync` where nothing is new.
const EMPTY: &[u8] = br#"{"timelines":{},"more":false}"#;

#[derive(Debug, Deserialize)]
struct Found {
    timelines: BTreeMap<String, News>,
    more: bool,
}

#[derive(Debug, Deserialize)]
struct News {
    messages: Vec<Message>,
    position: u64,
    head: u64,
    more: bool,
    state: String,
}

impl Group {
    fn new(timelines: &[Known], epochs: bool) -> Group {
        // Any of them will do; the middle one is neither the first nor the last that a server looks at.
        let chosen = &timelines[timelines.len() / 2];
        let request = |back: u64| {
            let position = |one: &Known| {
                let after = one.head - if one.name == chosen.name { back } else { 0 };
                let value = if epochs {
                    json!({ "after": after, "epoch": one.epoch })
                } else {
                    json!(after)
                };
                (one.name.clone(), value)
            };
            let positions: Map<String, Value> = timelines.iter().map(position).collect();
            let params = json!({ "positions": positions });
            Template::framed(&format!(
                r#"{{"jsonrpc":"2.0","id":{SLOT},"method":"sync","params":{params}}}"#
            ))
        };
        Group {
            requests: [request(0), request(1)],
            news: (chosen.name.clone(), chosen.head),
        }
    }

    /// Whether a result that is not empty is the one message that was due.
    fn compare(&self, found: &Found, news: bool) -> Result<(), String> {
        let (name, head) = &self.news;
        let fits = |one: &News| {
            let sequences = one.messages.iter().map(|message| message.sequence);
            sequences.eq([*head])
                && (one.position, one.head, one.more) == (*head, *head, false)
                && one.state == "ok"
        };
        let only = found.timelines.len() == 1 && !found.more;
        if news && only && found.timelines.get(name).is_some_and(fits) {
            return Ok(());
        }
        Err(format!("not the news of {name}: {found:.300?}"))
    }
}

/// What one connection polls.
struct Polls {
    random: Random,
    /// By slot: the group, and whether news are due.
    asked: Vec<(usize, bool)>,
    board: Rc<Board>,
    run: Rc<Run>,
}

impl Polls {
    fn check(&self, slot: usize, result: &[u8]) -> Result<(), String> {
        let (group, news) = self.asked[slot];
        let counter = match (news, result == EMPTY) {
            (false, true) => &self.board.empty,
            (true, true) => return Err("news were due, and the reply is empty".to_owned()),
            (news, false) => {
                let found: Found = read(result)?;
                if !news && found.timelines.is_empty() && !found.more {
                    &self.board.empty
                } else {
                    self.board.groups[group].compare(&found, news)?;
                    &self.board.with_news
                }
            }
        };
        counter.set(counter.get() + 1);
        Ok(())
    }
}

impl Ask for Polls {
    fn put(&mut self, out: &mut Vec<u8>, slot: usize) {
        let group = self.random.below(self.board.groups.len() as u64) as usize;
        let news = self.random.unit() < self.board.share;
        let request = &self.board.groups[group].requests[usize::from(news)];
        request.stamp(out, &[SLOT_BASE + slot as u64]);
        *at_slot(&mut self.asked, slot) = (group, news);
    }

    fn take(&mut self, slot: usize, outcome: Result<&[u8], Refusal>) -> Option<usize> {
        let refused = |refusal: Refusal| format!("a poll was refused: {}", refusal.message);
        let checked = outcome.map_err(refused);
        if let Err(fault) = checked.and_then(|result| self.check(slot, result)) {
            self.run.checks.fault(fault);
            self.run.end_early();
            return None;
        }
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::plain;

    fn polls(epochs: bool) -> Polls {
        let one = |number: u64| Known {
            name: format!("t-{number}"),
            head: number + 1,
            epoch: "e".to_owned(),
        };
        let timelines: Vec<Known> = (0..7).map(one).collect();
        let groups = timelines.chunks_exact(3);
        Polls {
            random: Random::new(1),
            asked: vec![(1, false), (1, true), (0, true)],
            board: Rc::new(Board {
                groups: groups.map(|group| Group::new(group, epochs)).collect(),
                share: 0.5,
                with_news: Cell::new(0),
                empty: Cell::new(0),
            }),
            run: Run::new(&plain(), "ws://nowhere".into(), None),
        }
    }

    #[test]
    fn a_stamped_frame_asks_for_its_group_at_the_head_or_one_back() {
        for epochs in [false, true] {
            let polls = polls(epochs);
            assert_eq!(polls.board.groups.len(), 2);
            for news in [false, true] {
                let mut out = vec![9, 9];
                let request = &polls.board.groups[1].requests[usize::from(news)];
                request.stamp(&mut out, &[1_015]);
                // The text begins behind a header of 6 or 8 bytes.
                let text = out.iter().position(|byte| *byte == b'{').expect("a text");
                let value: Value = serde_json::from_slice(&out[text..]).expect("JSON");
                assert_eq!(value["id"], 1_015);
                let after = |head: u64| match epochs {
                    true => json!({ "after": head, "epoch": "e" }),
                    false => json!(head),
                };
                let middle = 5 - u64::from(news);
                let expected = json!({ "t-3": after(4), "t-4": after(middle), "t-5": after(6) });
                assert_eq!(value["params"]["positions"], expected);
            }
        }
    }

    #[test]
    fn answers_are_empty_or_the_news_that_was_due() {
        let full = |name: &str, sequence: u64| {
            let message =
                json!({ "sequence": sequence, "timestamp": 1, "message_id": "m", "entry": {} });
            let news = json!({ "messages": [message], "position": sequence, "head": 5, "floor": 1,
                "change_head": 0, "epoch": "e", "more": false, "state": "ok" });
            json!({ "timelines": { name: news }, "more": false }).to_string()
        };
        let other = br#"{"more":false,"timelines":{}}"#;
        for (slot, result, holds) in [
            (0, EMPTY, true),
            (0, other, true),
            (1, EMPTY, false),
            (1, other, false),
            (1, full("t-4", 5).as_bytes(), true),
            (0, full("t-4", 5).as_bytes(), false),
            (2, full("t-4", 5).as_bytes(), false),
            (1, full("t-4", 4).as_bytes(), false),
            (1, full("t-3", 5).as_bytes(), false),
            (1, b"{}", false),
            (1, b"", false),
        ] {
            let mut polls = polls(false);
            let counts = polls.take(slot, Ok(result)).is_some();
            let text = String::from_utf8_lossy(result);
            assert_eq!(counts, holds, "{slot} {text}");
            assert_eq!(
                polls.run.checks.faults(),
                u64::from(!holds),
                "{slot} {text}"
            );
        }
    }
}
