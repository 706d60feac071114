//! `people`: IRC logs as conversations. Nicks are users that join, talk and leave; some of them are live on two
//! devices; the server is killed meanwhile. Then everybody's list, unread counts and inbox must be what the logs say.
//!
//! Owns: who takes part, when a run ends, what was counted. Promises: all rules are in `plan`; every wrong answer is
//! counted by its kind. Must not: judge (`judge` does), or trust what the server says of members.

mod device;
mod judge;
mod plan;
mod store;
mod writer;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use clap::ValueEnum;
use futures_util::future::{FutureExt as _, try_join_all, try_join4};
use serde::Serialize;

use self::plan::{Plan, Stay};
use crate::client::rpc::Message;
use crate::exit::Stop;
use crate::follower::Timelines;
use crate::irc::Folder;
use crate::outcome::recorder::Recorder;
use crate::profile::{Profile, need_files};
use crate::run::groups::settled;
use crate::run::{Better, Counts, Run};
use crate::trial::kill;

/// Arguments of `people`; warm-up and seconds are not used: it ends when all is said and judged.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct People {
    /// The logs
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) folder: Folder,
    /// Take only so many of the logs
    #[arg(long)]
    logs: Option<usize>,
    /// Take only so many lines of each log
    #[arg(long)]
    messages: Option<usize>,
    /// So many nicks, the busiest, are live on two devices: one is pushed to, the other polls
    #[arg(long, default_value_t = 200)]
    live: usize,
    /// Kill the started server (SIGKILL) and start it again so often while messages are sent
    #[arg(long, default_value_t = 0, requires = "binary")]
    kills: u32,
    /// Write what the server said of each nick into this file, for `tests/irc_people.py`
    #[arg(long)]
    #[serde(skip)]
    answers: Option<PathBuf>,
    /// Be wrong in what is expected, to see that the checks notice
    #[arg(long, hide = true)]
    mistake: Option<Mistake>,
}

/// How the expectation can be made wrong.
#[derive(Clone, Copy, Debug, Serialize, ValueEnum)]
enum Mistake {
    /// One more message.
    Message,
    /// One member fewer.
    Member,
}

/// How an answer can be wrong; each is a figure.
const WRONGS: [&str; 7] = [LOST, DOUBLED, ALTERED, LEAKED, UNREAD, LISTS, INBOXES];
const LOST: &str = "lost";
const DOUBLED: &str = "doubled";
const ALTERED: &str = "altered";
/// Shown to a user that is no member.
const LEAKED: &str = "leaked";
const UNREAD: &str = "wrong_unread_counts";
const LISTS: &str = "wrong_lists";
const INBOXES: &str = "wrong_inboxes";

/// All that take part.
struct Crowd {
    run: Rc<Run>,
    plan: Plan,
    timelines: Arc<Timelines>,
    acks: Rc<Recorder>,
    /// Commit time of each message as it was first shown, 0 before; by room.
    times: RefCell<Vec<Vec<u64>>>,
    /// The highest position that a nick has set as read in a room.
    reads: RefCell<BTreeMap<(usize, usize), u64>>,
}

impl Profile for People {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        let mut logs = self.folder.read()?;
        logs.truncate(self.logs.unwrap_or(usize::MAX));
        let plan = Plan::new(&self.folder, &logs, self.messages.unwrap_or(usize::MAX));
        let live = plan.busiest(self.live);
        need_files(run, (plan.rooms.len() * 2 + live.len() * 2) as u64)?;
        let mut crowd = Crowd::new(run, plan);
        writer::create(&crowd).await?;
        crowd.replay(&live, self.kills).await?;
        run.finish().await;
        run.rate("messages_per_second", crowd.acks.count());
        run.tell("the relay goes on");
        settled(run).await?;
        crowd.err(self.mistake);
        judge::judge(&crowd, self.answers.as_deref()).await
    }
}

impl Crowd {
    fn new(run: &Rc<Run>, plan: Plan) -> Crowd {
        for wrong in WRONGS {
            run.figure(wrong, 0.0, "1", Better::Lower);
        }
        let times = plan.rooms.iter().map(|room| vec![0; room.lines.len()]);
        Crowd {
            run: Rc::clone(run),
            timelines: Timelines::new(plan.rooms.iter().map(|room| room.name.clone())),
            acks: run.recorder("ack", Counts::Ended),
            times: RefCell::new(times.collect()),
            reads: RefCell::default(),
            plan,
        }
    }

    /// Says all lines, kills the server so often meanwhile, and lets the devices see all of it.
    async fn replay(&self, live: &[usize], kills: u32) -> Result<(), Stop> {
        self.run.begin().await;
        let devices = live.iter().flat_map(|nick| device::both(self, *nick));
        let writing = async {
            let rooms = 0..self.plan.rooms.len();
            try_join_all(rooms.map(|room| writer::write(self, room))).await?;
            self.run.end_early();
            Ok(())
        };
        let all = self.plan.rooms.iter().map(|room| room.lines.len() as u64);
        let killing = kill(&self.run, kills, all.sum(), &self.acks);
        let showing = self.run.pass(f64::INFINITY).map(Ok);
        let together = try_join4(writing, try_join_all(devices), killing, showing);
        Box::pin(together).await.map(|_| ())
    }

    /// Makes a mistake in what is expected, if one is asked for.
    fn err(&mut self, mistake: Option<Mistake>) {
        match mistake {
            None => {}
            Some(Mistake::Message) => {
                let lines = &mut self.plan.rooms[0].lines;
                lines.push(lines[0].clone());
                self.times.borrow_mut()[0].push(0);
            }
            Some(Mistake::Member) => {
                let lasting = |stays: &mut Vec<Stay>| stays.pop_if(|stay| stay.lasts());
                let stay = self.plan.stays.iter_mut().find_map(lasting);
                let room = stay.map_or(0, |stay| stay.room);
                self.plan.rooms[room].members -= 1;
            }
        }
    }

    fn wrong(&self, wrong: &'static str, what: impl Display) {
        self.run.add(wrong, 1);
        self.run.checks.fault(format_args!("{wrong}: {what}"));
    }

    /// Compares a message with its line.
    fn compare(&self, room: usize, message: &Message) {
        let (name, sequence) = (&self.timelines[room], message.sequence);
        let at = (sequence as usize).wrapping_sub(1);
        let Some(line) = self.plan.rooms[room].lines.get(at) else {
            return self.wrong(DOUBLED, format_args!("{name}: {sequence} is no line"));
        };
        let sender = line.sender.map(|nick| self.plan.nicks[nick].as_str());
        let entry = message.entry.as_ref().map(|entry| entry.get());
        // What announces a change of members has an ID that the server made.
        let is_id = line.is_announced || message.message_id == line.id;
        let is_said = message.sender.as_deref() == sender && entry == Some(line.entry.get());
        let time = &mut self.times.borrow_mut()[room][at];
        if *time == 0 {
            *time = message.timestamp;
        }
        if !(is_said && is_id && *time == message.timestamp) {
            let what = format_args!("{name}: not what was said: {message:?}");
            self.wrong(ALTERED, what);
        }
    }

    /// Notes the epoch of a room, or that it is another one.
    fn is_epoch(&self, room: usize, epoch: &str) {
        if !self.timelines.is_epoch(room, epoch) {
            let name = &self.timelines[room];
            self.wrong(ALTERED, format_args!("{name} has epoch {epoch}"));
        }
    }
}

#[cfg(test)]
impl Crowd {
    /// Of one log with these lines: the timeline `irc/l`.
    fn of_lines(lines: &[&str]) -> Crowd {
        let log = crate::irc::Log {
            name: "l".into(),
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
            replaced: 0,
        };
        let plan = Plan::new(&crate::irc::test_folder(), &[log], usize::MAX);
        let run = Run::new(&crate::run::setup::plain(), "ws://nowhere".into(), None);
        Crowd::new(&run, plan)
    }
}
