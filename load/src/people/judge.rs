//! The judgement: what the server says at the end of each room and to each nick, beside what the logs say.
//!
//! Owns: the questions and the file of answers. Promises: every room is read whole, every nick is asked
//! for list, count and inbox; what is wrong is asked again for a while before it counts. Must not: know how the lines
//! were said.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use futures_util::future::try_join_all;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::answer::{Answer, Inboxed};
use super::caller::{Caller, Failed};
use super::plan::Room;
use super::{Crowd, Wrong};
use crate::exit::Stop;
use crate::tally::{ABSENT, Page};

/// Nicks that are asked at once.
const ASKING: usize = 16;
/// An answer may still become right for so long.
const PATIENCE: Duration = Duration::from_secs(3);
const PAGE: u64 = 1_000;

/// Judges all; the answers go into a file, if one is given.
pub(super) async fn judge(crowd: &Crowd, answers: Option<&Path>) -> Result<(), Stop> {
    let mut caller = Caller::new(crowd);
    for room in 0..crowd.plan.rooms.len() {
        crowd.run.tell(&crowd.timelines[room]);
        whole(crowd, &mut caller, room).await?;
        members(crowd, &mut caller, room).await?;
    }
    let lines = RefCell::new(vec![heading(crowd).to_string()]);
    let (next, until) = (Cell::new(0), Instant::now() + PATIENCE);
    crowd.run.tell("all nicks are asked");
    let asking = (0..ASKING).map(|_| async {
        let mut caller = Caller::new(crowd);
        while next.get() < crowd.plan.nicks.len() {
            let nick = next.replace(next.get() + 1);
            let answer = asked(crowd, &mut caller, nick, until).await?;
            if answers.is_some() {
                let line = shown(crowd, nick, &answer).to_string();
                lines.borrow_mut().push(line);
            }
        }
        Ok::<(), Stop>(())
    });
    try_join_all(asking).await?;
    let Some(path) = answers else { return Ok(()) };
    let text = lines.into_inner().join("\n") + "\n";
    fs::write(path, text).map_err(|error| Stop::Own(format!("the file of answers: {error}")))
}

/// Reads a timeline whole: each line once, in order.
async fn whole(crowd: &Crowd, caller: &mut Caller<'_>, room: usize) -> Result<(), Failed> {
    let (name, length) = (
        &crowd.timelines[room],
        crowd.plan.rooms[room].lines.len() as u64,
    );
    let (mut last, mut head) = (0, 0);
    let mut from = Some(1);
    while let Some(first) = from {
        let params = json!({ "timeline": name, "from": first, "limit": PAGE });
        let page: Page = caller.ask(None, "message.range", &params).await?;
        for message in &page.messages {
            let at = message.sequence;
            if at != last + 1 {
                let what = format_args!("{name}: {at} follows {last}");
                crowd.wrong(lost_or_doubled(last < at), what);
            }
            last = at;
            crowd.compare(room, message);
        }
        crowd
            .run
            .checks
            .made("messages read back", page.messages.len() as u64);
        crowd.is_epoch(room, &page.epoch);
        (head, from) = (page.head, page.next.filter(|next| *next > first));
    }
    if (last, head) != (length, length) {
        let what = format_args!("{name}: {last}, head {head}, of {length}");
        crowd.wrong(lost_or_doubled(last < length), what);
    }
    Ok(())
}

fn lost_or_doubled(is_lost: bool) -> Wrong {
    if is_lost { Wrong::Lost } else { Wrong::Doubled }
}

/// Compares the members of a room.
async fn members(crowd: &Crowd, caller: &mut Caller<'_>, room: usize) -> Result<(), Failed> {
    #[derive(Deserialize)]
    struct Member {
        user: String,
    }
    let name = &crowd.timelines[room];
    let ask = |after: &Value| json!({ "timeline": name, "limit": PAGE, "after": after });
    let members: Vec<Member> = pages(caller, None, "member.list", "members", ask).await?;
    let found: BTreeSet<&str> = members.iter().map(|member| member.user.as_str()).collect();
    let lasting = |nick: &usize| crowd.plan.stays_in(*nick, room).any(|stay| stay.lasts());
    let expected = (0..crowd.plan.nicks.len()).filter(lasting);
    let expected: BTreeSet<&str> = expected.map(|nick| &*crowd.plan.nicks[nick]).collect();
    if found != expected || members.len() != expected.len() {
        let differ: Vec<_> = found.symmetric_difference(&expected).take(5).collect();
        let (found, of) = (members.len(), expected.len());
        crowd.wrong(
            Wrong::List,
            format_args!("{name}: {found} of {of} members, {differ:?}"),
        );
    }
    crowd.run.checks.made("members", members.len() as u64);
    Ok(())
}

/// All pages of a list. `ask` makes the parameters from `next` of the page before; null = the first.
async fn pages<T: DeserializeOwned>(
    caller: &mut Caller<'_>,
    user: Option<usize>,
    method: &str,
    member: &str,
    ask: impl Fn(&Value) -> Value,
) -> Result<Vec<T>, Failed> {
    let (mut all, mut next) = (Vec::new(), Value::Null);
    loop {
        let mut params = ask(&next);
        // Absent is not the same as null.
        if let Some(params) = params.as_object_mut() {
            params.retain(|_, value| !value.is_null());
        }
        let mut page: Value = caller.ask(user, method, &params).await?;
        let odd = |odd| Stop::Unreachable(format!("{method}: {odd}"));
        let part: Vec<T> = serde_json::from_value(page[member].take()).map_err(odd)?;
        all.extend(part);
        next = page["next"].take();
        if next.is_null() {
            return Ok(all);
        }
    }
}

/// Asks for everything of a nick until it is right, or long enough; then it counts.
async fn asked(
    crowd: &Crowd,
    caller: &mut Caller<'_>,
    nick: usize,
    until: Instant,
) -> Result<Answer, Failed> {
    loop {
        let answer = ask(caller, nick).await?;
        let found = answer.wrongs(crowd, nick);
        if !found.is_empty() && Instant::now() < until {
            sleep(Duration::from_millis(100)).await;
            continue;
        }
        let name = &crowd.plan.nicks[nick];
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

async fn ask(caller: &mut Caller<'_>, nick: usize) -> Result<Answer, Failed> {
    let user = Some(nick);
    let listing = |after: &Value| json!({ "limit": PAGE, "columns": [], "after": after });
    let list = pages(caller, user, "conversation.list", "conversations", listing).await?;
    let count = caller.ask(user, "conversation.count", &json!({})).await?;
    let inbox = inbox(caller, nick).await?;
    Ok(Answer { list, count, inbox })
}

/// All of an inbox; one that was never written to does not exist.
async fn inbox(caller: &mut Caller<'_>, nick: usize) -> Result<Vec<Inboxed>, Failed> {
    let timeline = format!("$inbox/{}", caller.name_of(nick));
    let ask = |from: &Value| json!({ "timeline": timeline, "limit": PAGE, "from": from });
    match pages(caller, Some(nick), "message.range", "messages", ask).await {
        Err(Failed::Refused(refusal)) if refusal.data.reason == ABSENT => Ok(Vec::new()),
        read => read,
    }
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
    let mut runs: Vec<(&str, u64, u64)> = Vec::new();
    for Inboxed { entry, .. } in &answer.inbox {
        match runs.last_mut() {
            Some((timeline, _, last))
                if *timeline == entry.timeline && *last + 1 == entry.sequence =>
            {
                *last += 1;
            }
            _ => runs.push((&entry.timeline, entry.sequence, entry.sequence)),
        }
    }
    let reads = crowd.reads.borrow();
    let reads = reads.range((nick, 0)..(nick + 1, 0));
    let reads = reads.map(|((_, room), read)| (crowd.timelines[*room].clone(), json!(read)));
    json!({
        "nick": crowd.plan.nicks[nick],
        "list": list.collect::<Vec<_>>(),
        "reads": reads.collect::<serde_json::Map<_, _>>(),
        "inbox": runs,
    })
}
