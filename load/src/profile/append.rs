//! `append`: how many appends per second become durable, and how long each takes until its acknowledgement.
//!
//! Owns: the appends, and the tally of what was acknowledged. Promises: only acknowledged appends count; at the end
//! timelines are sampled and must hold 1..n with n = what was acknowledged, whenever it came. Must not: spend the
//! server's processor time, or repeat a refused message: `busy` is counted.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use serde::Serialize;
use serde_json::json;
use tideline_history::{Answer, Digest, What};

use crate::client::generator::{Flow, count};
use crate::client::request::{Ask, Outcome, Session};
use crate::client::rpc::{Appended, read};
use crate::client::template::{SLOT, Template, timeline_name};
use crate::exit::Stop;
use crate::profile::{Profile, need_files};
use crate::random::Random;
use crate::recording::{Recorded, Recording, append, reason};
use crate::run::groups;
use crate::run::tally::{Stock, Tallied, Tally};
use crate::run::{Better, Run};
use crate::texts::Texts;

/// Arguments of `append`.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[command(mut_arg("connections", |arg| arg.default_value("50")))]
#[command(mut_arg("in_flight", |arg| arg.default_value("16")))]
#[command(mut_arg("history", |arg| arg.conflicts_with_all(["preload", "prefix", "no_message_ids"])))]
pub struct Append {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) flow: Flow,
    #[command(flatten)]
    #[serde(flatten)]
    stock: Stock,
    /// Timelines, chosen at random for each message: the first ones of the same names as --preload's
    #[arg(long, default_value_t = 10_000, value_parser = count::<u64>)]
    timelines: u64,
    /// Users who append: connections take turns as them [0: no user]
    #[arg(long, default_value_t = 0)]
    users: u64,
    /// They are members of all timelines
    #[arg(long, requires = "users")]
    members: bool,
    #[command(flatten)]
    #[serde(flatten)]
    recorded: Recorded,
    /// How many timelines to check at the end
    #[arg(long, default_value_t = 200)]
    sample: usize,
}

impl Profile for Append {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        need_files(run, self.flow.connections as u64)?;
        let stock = self.stock.tally(run, "load");
        self.stock.fill(run, &stock).await?;
        let mut tally = Tally::new(stock.prefix, self.timelines, 0);
        tally.look(run, self.sample).await?;
        if self.members {
            groups::create(run, &tally, |_| json!({}), |_| (0..self.users).collect()).await?;
            groups::settled(run).await?;
        }
        let (before, tally) = (tally.total(), Rc::new(RefCell::new(tally)));
        let acks = self.flow.recorder(run, "ack");
        let (size, ids) = (self.stock.size, !self.stock.no_message_ids);
        let number = |lane: usize| (lane as u64).checked_rem(self.users);
        let user = |lane| number(lane).map(|number| groups::user(run, number));
        let asked = self.recorded.history.is_some();
        let recording = asked.then(|| Recording::new(&self.recorded)).transpose()?;
        let open = Session::each_as(run, user, |lane| {
            let mut appends = Appends::new(run, &tally, lane, size, ids);
            let recording = recording.clone();
            appends.record = recording.map(|recording| Record {
                recording,
                client: format!("connection-{lane}"),
                user: user(lane).unwrap_or_default(),
                ids: format!("{}-{lane}-", run.tag),
            });
            appends
        });
        self.flow.measure(run, &[Rc::clone(&acks)], open).await?;
        run.rate("appends_per_second", acks.count());
        let tally = tally.take();
        tally.read_back(run, self.sample).await?;
        if let Some(recording) = recording {
            let names = (0..self.timelines).map(|timeline| tally.name(timeline));
            recording.judge(run, names).await?;
        }
        run.figure("busy", tally.busy as f64, "1", Better::Lower);
        run.detail("acknowledged", tally.total() - before);
        run.detail("prefix", tally.prefix);
        Ok(())
    }
}

/// Connections begin so many texts apart.
const APART: usize = 61;

/// What one connection appends.
pub(crate) struct Appends {
    tally: Tallied,
    template: Template,
    /// Where in it the text is.
    text: Range<usize>,
    texts: Texts,
    /// The first message's.
    first: usize,
    random: Random,
    sent: u64,
    record: Option<Record>,
}

/// What a history has of the appends of a connection.
struct Record {
    recording: Rc<Recording>,
    client: String,
    user: String,
    /// Message IDs begin so.
    ids: String,
}

impl Record {
    fn put(&self, timeline: &str, number: u64, text: &str) {
        let id = timeline_name(&self.ids, number);
        let digest = Digest::of(&json!({ "text": text }));
        let call = append(timeline, &self.user, &id, digest, None);
        let what = What::Invoke(number, vec![call]);
        self.recording.event(&self.client, what);
        self.recording.flush();
    }

    fn take(&self, number: u64, outcome: &Outcome<'_>) -> Result<(), String> {
        let what = match outcome {
            Ok(result) => {
                let Appended {
                    sequence,
                    timestamp,
                    ..
                } = read(result)?;
                let (sequence, timestamp) = (Some(sequence), Some(timestamp));
                let answer = Answer {
                    sequence,
                    timestamp,
                    ..Answer::default()
                };
                What::Ok(number, vec![answer])
            }
            Err(refusal) if refusal.may_repeat() && refusal.data.reason != "busy" => {
                What::Unknown(number, reason(refusal))
            }
            Err(refusal) => What::Fail(number, reason(refusal)),
        };
        self.recording.event(&self.client, what);
        Ok(())
    }
}

impl Appends {
    /// Texts of `size` bytes, to timelines chosen at random, perhaps with message IDs.
    pub(crate) fn new(run: &Run, tally: &Tallied, lane: usize, size: usize, ids: bool) -> Appends {
        let tag = ids.then(|| format!("{}-{lane}-", run.tag));
        let prefix = &tally.borrow().prefix;
        let (texts, first) = (Texts::new(run.seed, size), lane * APART);
        let template = Template::append(SLOT, prefix, tag.as_deref(), texts.at(first));
        Appends {
            tally: Rc::clone(tally),
            text: template.place_of(texts.at(first)),
            template,
            texts,
            first,
            random: Random::new(run.seed_of(lane as u64)),
            sent: 0,
            record: None,
        }
    }
}

impl Ask for Appends {
    /// The timeline, and the message's number.
    type Asked = (u64, u64);

    fn put(&mut self, out: &mut Vec<u8>, request: u64) -> (u64, u64) {
        let timeline = self.random.below(self.tally.borrow().acked.len() as u64);
        let begun = out.len();
        self.template.stamp(out, &[request, timeline, self.sent]);
        let text = self.texts.at(self.first + self.sent as usize);
        out[begun..][self.text.clone()].copy_from_slice(text.as_bytes());
        if let Some(record) = &self.record {
            record.put(&self.tally.borrow().name(timeline), self.sent, text);
        }
        self.sent += 1;
        (timeline, self.sent - 1)
    }

    fn take(&mut self, (timeline, number): (u64, u64), outcome: Outcome<'_>) -> Result<(), String> {
        if let Some(record) = &self.record {
            record.take(number, &outcome)?;
        }
        let mut tally = self.tally.borrow_mut();
        match outcome {
            Ok(_) => tally.acked[timeline as usize] += 1,
            Err(refusal) if refusal.data.reason == "busy" => tally.busy += 1,
            Err(refusal) => return Err(format!("an append was refused: {refusal}")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::rpc::{Refusal, RefusalData};
    use crate::run::setup::plain;

    #[test]
    fn only_busy_is_no_fault() {
        let run = Run::new(&plain(), "ws://nowhere".into(), None);
        let tally = Rc::new(RefCell::new(Tally::new("t/".into(), 1, 0)));
        let mut appends = Appends::new(&run, &tally, 0, 10, true);
        let mut refusal = Refusal {
            code: 503,
            message: String::new(),
            data: RefusalData::default(),
        };
        refusal.data.retry = true;
        refusal.data.reason = "busy".into();
        assert!(appends.take((0, 0), Err(refusal.clone())).is_ok());
        refusal.data.reason = "outcome_unknown".into();
        assert!(appends.take((0, 0), Err(refusal)).is_err());
        assert_eq!(tally.borrow().busy, 1);
    }
}
