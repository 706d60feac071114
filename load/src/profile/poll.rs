//! `poll`: asking for many timelines at once, over and over, mostly for nothing new: what a client without pushes does.
//!
//! Owns: the polls: `sync` requests for groups of timelines, made anew when a position moved. Promises: what comes goes
//! on right behind the position that was asked with; an empty reply is compared byte by byte; where nobody writes, any
//! other holds just the news that was due, and nothing is refused. Must not: wait in the server.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::client::generator::{Flow, count, within};
use crate::client::request::{Ask, Outcome, Session};
use crate::client::rpc::{Client, Message, read, request};
use crate::client::template::{SLOT, Template};
use crate::exit::Stop;
use crate::profile::{Profile, need_files};
use crate::random::Random;
use crate::run::tally::Tally;
use crate::run::{Better, Run};

/// Arguments of `poll`.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[command(mut_arg("connections", |arg| arg.default_value("1")))]
#[command(mut_arg("in_flight", |arg| arg.default_value("16")))]
pub struct Poll {
    #[command(flatten)]
    #[serde(flatten)]
    flow: Flow,
    /// Timelines, made first with one message each
    #[arg(long, default_value_t = 10_000, value_parser = count::<u64>)]
    timelines: u64,
    /// Timelines in one poll
    #[arg(long, default_value_t = 100, value_parser = count::<u64>)]
    positions: u64,
    /// Share of the polls that find one message, 0 to 1
    #[arg(long, default_value_t = 0.0, value_parser = within(0.0..=1.0))]
    share_with_news: f64,
}

impl Profile for Poll {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        if self.positions > self.timelines {
            return Err(Stop::Usage("more positions than timelines".into()));
        }
        need_files(run, self.flow.connections as u64)?;
        let tally = Tally::new(run.prefix("poll"), self.timelines, self.timelines);
        tally.fill(run, 5, false).await?;
        let timelines = (0..self.timelines).collect();
        let mut polls = Polls::new(run, &tally, timelines, self.positions);
        polls.catch_up(&tally).await?;
        polls.share_with_news = Some(self.share_with_news);
        let latency = self.flow.recorder(run, "poll");
        let open = Session::each(run, |lane| Polls {
            random: Random::new(run.seed_of(lane as u64 + 1)),
            ..polls.clone()
        });
        self.flow.measure(run, &[Rc::clone(&latency)], open).await?;
        run.rate("polls_per_second", latency.count());
        if let Some(used) = run.value("server_cpu_seconds") {
            // The clock of processor time ticks every 10 ms.
            let per = latency.count() as f64 / used.max(0.01);
            run.figure("polls_per_server_cpu_second", per, "1/s", Better::Higher);
        }
        let [empty, news] = KINDS.map(|kind| run.checks.count(kind) as f64);
        let share = empty * 100.0 / (empty + news).max(1.0);
        run.figure("share_empty", share, "%", Better::Neither);
        Ok(())
    }
}

/// What is checked, by whether there were news.
const KINDS: [&str; 2] = ["empty replies compared", "replies with news parsed"];
/// Polls that were refused, where that is no fault.
pub(crate) const REFUSED: &str = "polls refused for now";
/// The result of `sync` where nothing is new.
pub(crate) const EMPTY: &[u8] = br#"{"timelines":{},"more":false}"#;

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

/// How far a poller has come in each of its timelines.
type Places = BTreeMap<String, u64>;

/// Requests for timelines that are polled together: at all positions, and with one timeline a message back.
type Group = [(Rc<Places>, Template); 2];

/// What one connection polls.
#[derive(Clone)]
pub(crate) struct Polls {
    run: Rc<Run>,
    timelines: Vec<u64>,
    groups: Vec<Group>,
    /// So many of the polls ask from one message back, and nobody writes: it is known what each must bring.
    share_with_news: Option<f64>,
    random: Random,
}

/// Which group was asked for, from where, and how many timelines must have news, if that is known.
pub(crate) struct Asked {
    group: usize,
    places: Rc<Places>,
    due: Option<usize>,
}

impl Polls {
    /// Of timelines in order, so many at once, all of them from the start.
    pub(crate) fn new(run: &Rc<Run>, tally: &Tally, timelines: Vec<u64>, positions: u64) -> Polls {
        let place = |number: &u64| (tally.name(*number), 0);
        let start = |group: &[u64]| requests(group.iter().map(place).collect());
        let groups = timelines.chunks_exact(positions as usize).map(start);
        Polls {
            run: Rc::clone(run),
            groups: groups.collect(),
            timelines,
            share_with_news: None,
            random: Random::new(run.seed),
        }
    }

    /// Checks what came, and moves on.
    fn check(&mut self, asked: &Asked, found: &Found) -> Result<(), String> {
        let before = &self.groups[asked.group][0].0;
        let mut places = Places::clone(before);
        for (name, news) in &found.timelines {
            let after = asked.places.get(name).copied();
            let after = after.ok_or_else(|| format!("{name} came and was not asked for"))?;
            let end = after + news.messages.len() as u64;
            let sequences = news.messages.iter().map(|message| message.sequence);
            let is_next = end > after && news.position == end && sequences.eq(after + 1..=end);
            // Where nobody writes, nothing is left.
            let is_known = end <= news.head && (asked.due.is_none() || news.head == end);
            let is_sound = news.more == (end < news.head) && news.state == "ok";
            if !(is_next && is_known && is_sound) {
                return Err(format!("{name}: a poll after {after} brought {news:.300?}"));
            }
            // Polls of a connection may overlap: an older one's answer never moves back.
            if let Some(at) = places.get_mut(name) {
                *at = end.max(*at);
            }
            let checks = &self.run.checks;
            checks.made("messages polled in order", end - after);
        }
        let moved = places != **before;
        let is_due = |due| !moved && !found.more && found.timelines.len() == due;
        if !asked.due.is_none_or(is_due) {
            return Err(format!("not the news that was due: {found:.300?}"));
        }
        if moved {
            self.groups[asked.group] = requests(places);
        }
        Ok(())
    }

    /// Polls until nothing is new; then each timeline must be where the tally is.
    pub(crate) async fn catch_up(&mut self, tally: &Tally) -> Result<(), Stop> {
        let (mut client, due) = (Client::open(&self.run.url).await?, None);
        for group in 0..self.groups.len() {
            loop {
                let places = Rc::clone(&self.groups[group][0].0);
                let params = json!({ "positions": &*places });
                let found = client.call("sync", params).await?;
                let asked = Asked { group, places, due };
                if let Err(fault) = self.check(&asked, &found) {
                    self.run.checks.fault(fault);
                }
                if Rc::ptr_eq(&asked.places, &self.groups[group][0].0) {
                    break;
                }
            }
        }
        self.compare(tally);
        Ok(())
    }

    fn compare(&self, tally: &Tally) {
        let checks = &self.run.checks;
        let places = self.groups.iter().flat_map(|group| &*group[0].0);
        for ((name, after), timeline) in places.zip(&self.timelines) {
            let length = tally.acked[*timeline as usize];
            if *after != u64::from(length) {
                checks.fault(format_args!("{name}: polled as far as {after} of {length}"));
            }
            checks.made("polled timelines up to the end", 1);
        }
    }
}

/// The requests for these places.
fn requests(places: Places) -> Group {
    // Any of them will do; the middle one is neither the first nor the last that a server looks at.
    let (mut back, middle) = (places.clone(), places.len() / 2);
    if let Some(after) = back.values_mut().nth(middle) {
        *after = after.saturating_sub(1);
    }
    [places, back].map(|places| {
        let request = request(SLOT, "sync", &json!({ "positions": places }));
        (Rc::new(places), Template::framed(&request))
    })
}

impl Ask for Polls {
    type Asked = Asked;

    fn put(&mut self, out: &mut Vec<u8>, request: u64) -> Asked {
        let group = self.random.below(self.groups.len() as u64) as usize;
        let share = self.share_with_news;
        let due = share.map(|share| usize::from(self.random.unit() < share));
        let (places, template) = &self.groups[group][due.unwrap_or(0)];
        template.stamp(out, &[request]);
        let places = Rc::clone(places);
        Asked { group, places, due }
    }

    fn take(&mut self, asked: Asked, outcome: Outcome<'_>) -> Result<(), String> {
        match outcome {
            Ok(EMPTY) if asked.due != Some(1) => self.run.checks.made(KINDS[0], 1),
            Ok(result) => {
                self.run.checks.made(KINDS[1], 1);
                return self.check(&asked, &read(result)?);
            }
            Err(refusal) if refusal.data.retry && asked.due.is_none() => {
                self.run.checks.made(REFUSED, 1);
            }
            Err(refusal) => return Err(format!("a poll was refused: {refusal}")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::client::rpc::{Refusal, RefusalData};
    use crate::run::setup::plain;

    /// At 1, 2, … of seven timelines, in two groups of three.
    fn polls(share_with_news: Option<f64>) -> Polls {
        let run = Run::new(&plain(), "ws://nowhere".into(), None);
        let tally = Tally::new("t/".into(), 7, 0);
        let mut polls = Polls::new(&run, &tally, (0..7).collect(), 3);
        let mut length = 0;
        for group in &mut polls.groups {
            let mut places = Places::clone(&group[0].0);
            for after in places.values_mut() {
                length += 1;
                *after = length;
            }
            *group = requests(places);
        }
        polls.share_with_news = share_with_news;
        polls
    }

    fn asked(polls: &Polls, group: usize, due: Option<usize>) -> Asked {
        let places = Rc::clone(&polls.groups[group][due.unwrap_or(0)].0);
        Asked { group, places, due }
    }

    fn full(number: u64, sequence: u64) -> String {
        let name = format!("t/{number:09}");
        let message = json!({ "sequence": sequence, "timestamp": 1, "message_id": "m" });
        let news = json!({ "messages": [message], "position": sequence, "head": number + 1, "epoch": "e",
            "more": sequence <= number, "state": "ok" });
        json!({ "timelines": { name: news }, "more": false }).to_string()
    }

    #[test]
    fn a_stamped_frame_asks_for_its_group_at_the_head_or_one_back() {
        let polls = polls(Some(0.5));
        assert_eq!(polls.groups.len(), 2);
        for news in [0, 1] {
            let mut out = vec![9, 9];
            polls.groups[1][news].1.stamp(&mut out, &[1_015]);
            // The text begins behind a header of 6 or 8 bytes.
            let text = out.iter().position(|byte| *byte == b'{').expect("a text");
            let value: Value = serde_json::from_slice(&out[text..]).expect("JSON");
            assert_eq!(value["id"], 1_015);
            let expected = json!({ "t/000000003": 4, "t/000000004": 5 - news, "t/000000005": 6 });
            assert_eq!(value["params"]["positions"], expected);
        }
    }

    #[test]
    fn answers_are_empty_or_the_news_that_was_due() {
        let other = br#"{"more":false,"timelines":{}}"#;
        // What is due, but for some members.
        let odd = |members: Value| {
            let mut found: Value = serde_json::from_str(&full(4, 5)).expect("JSON");
            for (name, member) in members.as_object().expect("members") {
                found["timelines"]["t/000000004"][name] = member.clone();
            }
            found.to_string().into_bytes()
        };
        for (group, news, result, holds) in [
            (1, 0, EMPTY, true),
            (1, 0, other, true),
            (1, 1, EMPTY, false),
            (1, 1, other, false),
            (1, 1, full(4, 5).as_bytes(), true),
            (1, 0, full(4, 5).as_bytes(), false),
            (0, 1, full(4, 5).as_bytes(), false),
            (1, 1, full(4, 4).as_bytes(), false),
            (1, 1, full(3, 5).as_bytes(), false),
            (1, 1, &odd(json!({})), true),
            (1, 1, &odd(json!({ "head": 0 })), false),
            (1, 1, &odd(json!({ "head": 100, "more": true })), false),
            (1, 1, &odd(json!({ "more": true })), false),
            (1, 1, &odd(json!({ "position": 4 })), false),
            (1, 1, &odd(json!({ "state": "gone" })), false),
            (
                1,
                1,
                &odd(json!({ "messages": [{ "sequence": 5, "message_id": "m" }] })),
                false,
            ),
            (
                1,
                1,
                &odd(json!({ "messages": [{ "sequence": 5, "timestamp": 1 }] })),
                false,
            ),
            (1, 1, b"{}", false),
            (1, 1, b"", false),
        ] {
            let mut polls = polls(Some(0.5));
            let asked = asked(&polls, group, Some(news));
            let checked = polls.take(asked, Ok(result));
            let text = String::from_utf8_lossy(result);
            assert_eq!(checked.is_ok(), holds, "{group} {news} {text} {checked:?}");
        }
    }

    #[test]
    fn news_that_promise_more_say_how_much() {
        for (head, more, holds) in [
            (5, false, true),
            (9, true, true),
            (9, false, false),
            (5, true, false),
            (0, false, false),
        ] {
            let mut found: Value = serde_json::from_str(&full(4, 5)).expect("JSON");
            let news = &mut found["timelines"]["t/000000004"];
            (news["head"], news["more"]) = (json!(head), json!(more));
            let text = found.to_string();
            let mut polls = polls(None);
            let asked = Asked {
                places: Rc::clone(&polls.groups[1][1].0),
                ..asked(&polls, 1, None)
            };
            let checked = polls.take(asked, Ok(text.as_bytes()));
            assert_eq!(checked.is_ok(), holds, "{text} {checked:?}");
        }
    }

    #[test]
    fn a_refusal_is_a_fault_or_counted_where_others_write() {
        for (due, retry, holds) in [
            (Some(0), true, false),
            (None, false, false),
            (None, true, true),
        ] {
            let mut polls = polls(None);
            let mut refusal = Refusal {
                code: 503,
                message: String::new(),
                data: RefusalData::default(),
            };
            refusal.data.retry = retry;
            let asked = asked(&polls, 1, due);
            assert_eq!(polls.take(asked, Err(refusal)).is_ok(), holds);
            assert_eq!(polls.run.checks.count(REFUSED), u64::from(holds));
        }
    }

    #[test]
    fn a_poll_goes_on_right_behind_its_position_and_must_reach_the_end() {
        let mut polls = polls(None);
        let tell = |polls: &mut Polls, number, sequence| {
            let mut found: Found = read(full(number, sequence).as_bytes()).expect("fits");
            for news in found.timelines.values_mut() {
                news.head = news.head.max(sequence);
                news.more = sequence < news.head;
            }
            let asked = asked(polls, 1, None);
            polls.check(&asked, &found)
        };
        // One left out, one that came before, one of another poller.
        assert!(tell(&mut polls, 4, 7).is_err());
        assert!(tell(&mut polls, 4, 5).is_err());
        assert!(tell(&mut polls, 1, 3).is_err());
        assert!(tell(&mut polls, 4, 6).is_ok());
        assert_eq!(polls.groups[1][0].0["t/000000004"], 6);
        let mut tally = Tally::new("t/".into(), 7, 0);
        tally.acked = vec![1, 2, 3, 4, 6, 6, 7];
        polls.compare(&tally);
        assert_eq!(polls.run.checks.faults(), 0);
        tally.acked[3] = 5;
        polls.compare(&tally);
        assert_eq!(polls.run.checks.faults(), 1);
    }
}
