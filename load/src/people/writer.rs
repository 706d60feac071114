//! A writer: says the lines of one log, one after the other, and brings and takes away members as they ask for it.
//!
//! Owns: the calls that a line leads to, and the connections for them. Promises: a line is begun when the one before is
//! answered, so members are there before they speak; it is repeated after a lost connection and after a refusal that
//! allows it. Must not: say a line twice, whatever is repeated, or hide any other refusal.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::plan::Line;
use super::{Crowd, DOUBLED, LOST};
use crate::client::rpc::{Appended, CallError, Client};
use crate::exit::Stop;
use crate::trial::wait;

/// Makes the timelines. What is there already is not ours.
pub(super) async fn create(crowd: &Crowd) -> Result<(), Stop> {
    let mut client = Client::open(&crowd.run.url).await?;
    for (room, name) in crowd.timelines.iter().enumerate() {
        let settings = json!({ "fan_out": "write", "members_only": true });
        let params = json!({ "timeline": name, "settings": settings });
        let made: Value = client.insist("timeline.create", params).await?;
        if made["created"] != true {
            let what = format!("timeline {name} is there: choose another --prefix, or --data");
            return Err(Stop::Occupied(what));
        }
        crowd.is_epoch(room, made["epoch"].as_str().unwrap_or_default());
    }
    Ok(())
}

/// Says all lines of a room, or up to one that is refused for good.
pub(super) async fn write(crowd: &Crowd, room: usize) -> Result<(), Stop> {
    let (name, lines) = (&crowd.timelines[room], &crowd.plan.rooms[room].lines);
    let mut callers = None;
    for (sequence, line) in (1..).zip(lines) {
        let began = Instant::now();
        while let Err(error) = say(crowd, &mut callers, (room, sequence), line).await {
            match &error {
                CallError::Refused(refusal) if refusal.may_repeat() => {
                    crowd.run.add("refusals", 1);
                }
                CallError::Refused(refusal) => {
                    crowd.wrong(LOST, format_args!("{name}: {sequence}: {refusal}"));
                    return Ok(());
                }
                CallError::Lost(_) => {
                    callers = None;
                    crowd.run.add("reconnects", 1);
                }
            }
            wait(began, &error).await?;
        }
        crowd.acks.record(began, Instant::now());
    }
    Ok(())
}

/// The connections that make the calls of a room: a back end, and one that speaks for nicks and can't be a back end any
/// more.
struct Callers {
    back: Client,
    front: Client,
    /// The nick that speaks.
    nick: Option<usize>,
}

/// Says a line. All of it is safe to repeat: a member is not added again, nor announced; a user that is no member does
/// not leave again; and an append has its ID.
async fn say(
    crowd: &Crowd,
    callers: &mut Option<Callers>,
    (room, sequence): (usize, u64),
    line: &Line,
) -> Result<(), CallError> {
    let (name, nicks) = (&crowd.timelines[room], &crowd.plan.nicks);
    let Callers { back, front, nick } = match callers {
        Some(callers) => callers,
        none => none.insert(Callers {
            back: Client::open(&crowd.run.url).await?,
            front: Client::open(&crowd.run.url).await?,
            nick: None,
        }),
    };
    let mut said = None;
    let named = |nick: Option<usize>| nick.map(|nick| &nicks[nick]);
    let leaves = named(line.leaves).map(|user| {
        let params = json!({ "timeline": name, "users": [user] });
        ("member.remove", params)
    });
    let joins = named(line.joins).map(|user| {
        let params = json!({ "timeline": name, "members": [{ "user": user }], "history": "none" });
        ("member.add", params)
    });
    for (method, mut params) in leaves.into_iter().chain(joins) {
        if line.is_announced {
            params["announce"] = json!(line.entry);
        }
        let changed: Value = back.call(method, params).await?;
        // Absent if nothing was announced, or not again.
        said = changed["sequence"].as_u64();
    }
    if !line.is_announced {
        let params = json!({
            "timeline": name,
            "entry": line.entry,
            "message_id": line.id,
            "expect_head": sequence - 1,
        });
        if let Some(sender) = line.sender
            && line.sender != *nick
        {
            front.become_user(json!({ "user": nicks[sender] }));
            *nick = line.sender;
        }
        let caller = if line.sender.is_some() { front } else { back };
        let appended: Appended = caller.call("message.append", params).await?;
        crowd.is_epoch(room, &appended.epoch);
        crowd.run.add("duplicates", u64::from(appended.duplicate));
        said = Some(appended.sequence);
    }
    if said.is_some_and(|said| said != sequence) {
        let what = format_args!("{name}: line {sequence} is {said:?}");
        crowd.wrong(DOUBLED, what);
    }
    Ok(())
}
