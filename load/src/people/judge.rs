//! The judgement: what the server says at the end of each room and to each nick, beside what the logs say.
//!
//! Owns: the questions and the file of answers. Promises: every room is read whole, every nick is asked
//! for list, count and inbox; what is wrong is asked again for a while before it counts. Must not: know how the lines
//! were said.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::answer::{Answer, Entry, difference};
use super::plan::Room;
use super::{Crowd, DOUBLED, LISTS, LOST};
use crate::exit::Stop;
use crate::groups::pages;
use crate::report;
use crate::rpc::{CallError, Client};
use crate::tally::{self, Page};

/// An answer may still become right for so long.
const PATIENCE: Duration = Duration::from_secs(3);
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
    let found: Vec<u64> = page.messages.iter().map(|one| one.sequence).collect();
    let due = Vec::from_iter(1..=lines.len() as u64);
    let wrong = if found.len() < due.len() {
        LOST
    } else {
        DOUBLED
    };
    if let Some(what) = difference(&found, &due) {
        crowd.wrong(wrong, format_args!("{name}: number {what}"));
    }
    if page.head != due.len() as u64 {
        let head = page.head;
        crowd.wrong(wrong, format_args!("{name}: head {head} of {}", due.len()));
    }
    let checks = &crowd.run.checks;
    checks.made("messages read back", found.len() as u64);
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
    if let Some(what) = difference(&found, &due) {
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
    client.become_user(&json!({ "user": name }));
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
    let count = client.insist("conversation.count", json!({})).await?;
    // One that was never written to does not exist.
    let inbox = tally::whole(client, &format!("$inbox/{nick}")).await?;
    let inbox = inbox.messages;
    Ok(Answer { list, count, inbox })
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
