//! The judgement: what the server says at the end of each room and to each nick, beside what the logs say.
//!
//! Owns: the questions, the expectations of lists, unread counts and inboxes, the file of answers. Promises: every room
//! is read whole, every nick is asked for list, count and inbox; what is wrong is asked again for a while before it
//! counts, and named by its kind. Must not: know how the lines were said.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::plan::Room;
use super::{Crowd, DOUBLED, INBOXES, LISTS, LOST, UNREAD};
use crate::client::rpc::{CallError, Client};
use crate::exit::Stop;
use crate::outcome::report;
use crate::run::groups::{Counted, pages};
use crate::run::tally;
use crate::run::tally::Page;

/// An answer may still become right for so long.
const PATIENCE: Duration = Duration::from_secs(10);
const PAGE: u64 = 1_000;

/// Judges all; the answers go into a file, if one is given.
pub(super) async fn judge(crowd: &Crowd, answers: Option<&Path>) -> Result<(), Stop> {
    let mut client = Client::open(&crowd.run.url).await?;
    for room in 0..crowd.plan.rooms.len() {
        crowd.run.tell(&crowd.timelines[room]);
        whole(crowd, &mut client, room).await?;
        members(crowd, &mut client, room).await?;
    }
    let lines = RefCell::new(vec![heading(crowd).to_string()]);
    let (nicks, until) = (crowd.plan.nicks.len() as u64, Instant::now() + PATIENCE);
    crowd.run.tell("all nicks are asked");
    tally::spread(&crowd.run, None, nicks, async |client, nick| {
        let nick = nick as usize;
        let answer = asked(crowd, client, nick, until).await?;
        if answers.is_some() {
            let line = shown(crowd, nick, &answer).to_string();
            lines.borrow_mut().push(line);
        }
        Ok(())
    })
    .await?;
    let Some(path) = answers else { return Ok(()) };
    let text = lines.into_inner().join("\n") + "\n";
    report::write(path, &text)
}

/// Reads a timeline whole: each line once, in order.
async fn whole(crowd: &Crowd, client: &mut Client, room: usize) -> Result<(), CallError> {
    let Room { name, lines, .. } = &crowd.plan.rooms[room];
    let page: Page = tally::whole(client, name).await?;
    for message in &page.messages {
        crowd.compare(room, message);
    }
    let (found, due) = (page.messages.len() as u64, lines.len() as u64);
    let is_short = found < due;
    let wrong = if is_short { LOST } else { DOUBLED };
    let sequences = page.messages.iter().map(|one| one.sequence);
    if let Some(what) = difference(sequences, 1..=due) {
        crowd.wrong(wrong, format_args!("{name}: number {what}"));
    }
    if page.head != due {
        let head = page.head;
        crowd.wrong(wrong, format_args!("{name}: head {head} of {due}"));
    }
    let checks = &crowd.run.checks;
    checks.made("messages read back", found);
    crowd.is_epoch(room, &page.epoch);
    Ok(())
}

/// Compares the members of a room.
async fn members(crowd: &Crowd, client: &mut Client, room: usize) -> Result<(), CallError> {
    let name = &crowd.timelines[room];
    let params = json!({ "timeline": name, "limit": PAGE });
    let members: Vec<Value> = pages(client, "member.list", params, "after").await?;
    let mut found: Vec<_> = members.iter().map(|one| one["user"].as_str()).collect();
    let lasting = |nick: &usize| crowd.plan.stays_in(*nick, room).any(|stay| stay.lasts());
    let due = (0..crowd.plan.nicks.len()).filter(lasting);
    let mut due: Vec<_> = due.map(|nick| Some(&*crowd.plan.nicks[nick])).collect();
    found.sort_unstable();
    due.sort_unstable();
    if let Some(what) = difference(found, due) {
        crowd.wrong(LISTS, format_args!("{name}: member {what}"));
    }
    crowd.run.checks.made("members", members.len() as u64);
    Ok(())
}

/// Asks for everything of a nick until it is right, or long enough; then it counts.
async fn asked(
    crowd: &Crowd,
    client: &mut Client,
    nick: usize,
    until: Instant,
) -> Result<Answer, CallError> {
    let name = &crowd.plan.nicks[nick];
    client.become_user(json!({ "user": name }));
    loop {
        let answer = ask(client, name).await?;
        let found = answer.wrongs(crowd, nick);
        if !found.is_empty() && Instant::now() < until {
            sleep(Duration::from_millis(100)).await;
            continue;
        }
        for (wrong, what) in found {
            crowd.wrong(wrong, format_args!("{name}: {what}"));
        }
        let checks = &crowd.run.checks;
        checks.made("lists", 1);
        checks.made("unread counts", answer.list.len() as u64);
        checks.made("inbox entries", answer.inbox.len() as u64);
        return Ok(answer);
    }
}

async fn ask(client: &mut Client, nick: &str) -> Result<Answer, CallError> {
    let params = json!({ "limit": PAGE, "columns": [] });
    let list = pages(client, "conversation.list", params, "after").await?;
    let count = client.read("conversation.count", json!({})).await?;
    // One that was never written to does not exist.
    let inbox = tally::whole(client, &format!("$inbox/{nick}")).await?;
    let inbox = inbox.messages;
    Ok(Answer { list, count, inbox })
}

/// What the server says to a nick.
struct Answer {
    list: Vec<Shown>,
    count: Counted,
    inbox: Vec<Inboxed>,
}

/// One conversation of a list.
#[derive(Deserialize)]
struct Shown {
    timeline: String,
    unread: u64,
    members_count: u64,
    head: u64,
}

/// One entry of an inbox.
#[derive(Deserialize)]
struct Inboxed {
    /// Its own number.
    #[serde(rename = "sequence")]
    at: u64,
    entry: Entry,
}

/// The message that an entry leads to.
#[derive(Deserialize)]
struct Entry {
    timeline: String,
    epoch: String,
    sequence: u64,
    timestamp: u64,
}

impl Answer {
    /// What is wrong with the answer to a nick.
    fn wrongs(&self, crowd: &Crowd, nick: usize) -> Vec<(&'static str, String)> {
        let due = list(crowd, nick);
        let count = Counted {
            conversations: due.len() as u64,
            unread: due.iter().map(|one| one.unread).sum(),
        };
        let rooms = |one: &Shown| (one.timeline.clone(), one.members_count, one.head);
        let unread = |one: &Shown| (one.timeline.clone(), one.unread);
        let (list, due) = (self.list.iter(), due.iter());
        let differences = [
            (
                LISTS,
                difference(list.clone().map(rooms), due.clone().map(rooms)),
            ),
            (UNREAD, difference(list.map(unread), due.map(unread))),
            (UNREAD, difference([&self.count], [&count])),
            (INBOXES, inbox_differs(crowd, nick, &self.inbox)),
        ];
        let named = |(wrong, what): (_, Option<String>)| Some((wrong, what?));
        differences.into_iter().filter_map(named).collect()
    }
}

/// Where what was found and what is due differ first, if they do.
fn difference<T: Debug + PartialEq>(
    found: impl IntoIterator<Item = T>,
    due: impl IntoIterator<Item = T>,
) -> Option<String> {
    let (mut found, mut due) = (found.into_iter(), due.into_iter());
    loop {
        match (found.next(), due.next()) {
            (None, None) => return None,
            (found, due) if found == due => {}
            (found, due) => return Some(format!("{found:?} instead of {due:?}")),
        }
    }
}

/// The list that a nick should have: newest activity first.
fn list(crowd: &Crowd, nick: usize) -> Vec<Shown> {
    let (plan, times, reads) = (&crowd.plan, crowd.times.borrow(), crowd.reads.borrow());
    let lasting = plan.stays[nick].iter().filter(|stay| stay.lasts());
    let mut lasting = Vec::from_iter(lasting);
    // Rooms are in the order of their names.
    lasting.sort_by_key(|stay| (Reverse(times[stay.room].last()), stay.room));
    let shown = lasting.into_iter().map(|stay| {
        let (room, read) = (&plan.rooms[stay.room], reads.get(&(nick, stay.room)));
        let read = read.copied().unwrap_or(0).max(stay.from - 1);
        Shown {
            timeline: room.name.clone(),
            unread: plan.unread(nick, stay.room, read),
            members_count: room.members,
            head: room.lines.len() as u64,
        }
    });
    shown.collect()
}

/// Where an inbox is not each message of the nick's stays once, those of a room in their order.
fn inbox_differs(crowd: &Crowd, nick: usize, inbox: &[Inboxed]) -> Option<String> {
    if !inbox.iter().map(|one| one.at).eq(1..=inbox.len() as u64) {
        return Some("its numbers are not 1, 2, 3 and on".into());
    }
    let entries = inbox.iter().map(|one| &one.entry);
    let rows = entries.map(|one| (&*one.timeline, one.sequence, one.timestamp, &*one.epoch));
    let mut found = Vec::from_iter(rows);
    // Stable: those of a room stay as they came.
    found.sort_by_key(|(name, ..)| *name);
    let times = crowd.times.borrow();
    let due = crowd.plan.stays[nick].iter().flat_map(|stay| {
        let (name, times) = (&*crowd.timelines[stay.room], &times[stay.room]);
        let epoch = crowd.timelines.epoch(stay.room).unwrap_or_default();
        let numbers = stay.from..=stay.to.min(times.len() as u64);
        numbers.map(move |at| (name, at, times[at as usize - 1], epoch))
    });
    difference(found, due)
}

/// The first line of the answers: how many lines the timelines have, and when they were last written to.
fn heading(crowd: &Crowd) -> Value {
    let times = crowd.times.borrow();
    let rooms = crowd.plan.rooms.iter().zip(times.iter());
    let room = |(room, times): (&Room, &Vec<u64>)| {
        let place = json!({ "lines": times.len(), "last_at": times.last() });
        (room.name.clone(), place)
    };
    let timelines: serde_json::Map<String, Value> = rooms.map(room).collect();
    json!({ "timelines": timelines })
}

/// A line of the answers. Of an inbox, runs: timeline, first and last sequence.
fn shown(crowd: &Crowd, nick: usize, answer: &Answer) -> Value {
    let list = answer.list.iter();
    let list = list.map(|one| json!([one.timeline, one.unread, one.members_count, one.head]));
    let entries: Vec<&Entry> = answer.inbox.iter().map(|one| &one.entry).collect();
    let follows = |one: &&Entry, next: &&Entry| {
        one.timeline == next.timeline && one.sequence + 1 == next.sequence
    };
    let runs = entries.chunk_by(follows).map(|run| {
        let (first, last) = (run[0], run[run.len() - 1]);
        json!([first.timeline, first.sequence, last.sequence])
    });
    let reads = crowd.reads.borrow();
    let reads = reads.range((nick, 0)..(nick + 1, 0));
    let reads = reads.map(|((_, room), read)| (crowd.timelines[*room].clone(), json!(read)));
    json!({
        "nick": crowd.plan.nicks[nick],
        "list": list.collect::<Vec<_>>(),
        "reads": reads.collect::<serde_json::Map<_, _>>(),
        "inbox": runs.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inbox_has_each_message_of_the_stays_once_in_order() {
        let lines = [
            "[09:14] <a> 1",
            "[09:14] <b> 2",
            "=== b [x]  has left #c",
            "[09:14] <b> 4",
        ];
        let crowd = Crowd::of_lines(&lines);
        crowd.is_epoch(0, "e");
        crowd.times.borrow_mut()[0] = vec![1, 2, 3, 4];
        let is_right = |sequences: &[u64], alter: fn(&mut Inboxed)| {
            let entry = |(at, sequence): (u64, &u64)| {
                let entry = Entry {
                    timeline: "irc/l".into(),
                    epoch: "e".into(),
                    sequence: *sequence,
                    timestamp: *sequence,
                };
                let mut inboxed = Inboxed { at, entry };
                alter(&mut inboxed);
                inboxed
            };
            let inbox: Vec<_> = (1..).zip(sequences).map(entry).collect();
            inbox_differs(&crowd, 1, &inbox).is_none()
        };
        assert!(is_right(&[2, 4], |_| {}));
        for wrong in [
            &[2][..],
            &[4],
            &[],
            &[4, 2],
            &[2, 2, 4],
            &[2, 3, 4],
            &[2, 4, 4],
        ] {
            assert!(!is_right(wrong, |_| {}), "{wrong:?}");
        }
        let alters: [fn(&mut Inboxed); 4] = [
            |one| one.at += 1,
            |one| one.entry.timestamp += 1,
            |one| one.entry.epoch.push('x'),
            |one| one.entry.timeline.push('x'),
        ];
        for alter in alters {
            assert!(!is_right(&[2, 4], alter));
        }
    }
}
