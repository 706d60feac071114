//! A writer: says the lines of one log, one after the other, and brings and takes away members as they ask for it.
//!
//! Owns: the calls that a line leads to, and the connections for them. Promises: a line is begun when the one before is
//! answered, so members are there before they speak; a call is repeated after a lost connection and after a refusal
//! that allows it. Must not: say a line twice, whatever is repeated, or hide any other refusal.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::plan::Line;
use super::{Crowd, Wrong};
use crate::exit::Stop;
use crate::rpc::{Appended, CallError, Client};
use crate::trial::wait;

/// Makes the timelines. What is there already is not ours.
pub(super) async fn create(crowd: &Crowd) -> Result<(), Stop> {
    #[derive(Deserialize)]
    struct Created {
        created: bool,
        epoch: String,
    }
    let mut client = Client::open(&crowd.run.url).await?;
    for (room, name) in crowd.timelines.iter().enumerate() {
        let settings = json!({ "fan_out": "write", "members_only": true });
        let params = json!({ "timeline": name, "settings": settings });
        let made: Created = client.insist("timeline.create", params).await?;
        if !made.created {
            let what = format!("timeline {name} is there: choose another --prefix, or --data");
            return Err(Stop::Occupied(what));
        }
        crowd.is_epoch(room, &made.epoch);
    }
    Ok(())
}

/// Says all lines of a room, or up to one that is refused for good.
pub(super) async fn write(crowd: &Crowd, room: usize) -> Result<(), Stop> {
    // One is a back end, the other speaks for nicks.
    let mut callers = (Caller::new(crowd), Caller::new(crowd));
    let lines = &crowd.plan.rooms[room].lines;
    for (sequence, line) in (1..).zip(lines) {
        let began = Instant::now();
        match say(crowd, &mut callers, (room, sequence), line).await {
            Ok(()) => crowd.acks.record(began, Instant::now()),
            Err(CallError::Refused(refusal)) => {
                let name = &crowd.timelines[room];
                crowd.wrong(Wrong::Lost, format_args!("{name}: {sequence}: {refusal}"));
                return Ok(());
            }
            Err(lost) => return Err(lost.into()),
        }
    }
    Ok(())
}

async fn say<'a>(
    crowd: &Crowd,
    (back, front): &mut (Caller<'a>, Caller<'a>),
    (room, sequence): (usize, u64),
    line: &Line,
) -> Result<(), CallError> {
    #[derive(Deserialize)]
    struct Changed {
        /// Absent if nothing was announced, or not again.
        sequence: Option<u64>,
    }
    let (name, nicks) = (&crowd.timelines[room], &crowd.plan.nicks);
    let announced = |mut params: Value| {
        if line.is_announced {
            params["announce"] = json!(line.entry);
        }
        params
    };
    let mut said = None;
    if let Some(nick) = line.leaves {
        let params = announced(json!({ "timeline": name, "users": [nicks[nick]] }));
        let changed: Changed = back.ask(None, "member.remove", &params).await?;
        said = changed.sequence;
    }
    if let Some(nick) = line.joins {
        let members = json!([{ "user": nicks[nick] }]);
        let params = json!({ "timeline": name, "members": members, "history": "none" });
        let changed: Changed = back.ask(None, "member.add", &announced(params)).await?;
        said = changed.sequence;
    }
    if !line.is_announced {
        let params = json!({
            "timeline": name,
            "entry": line.entry,
            "message_id": line.id,
            "expect_head": sequence - 1,
        });
        let caller = if line.sender.is_some() { front } else { back };
        let appended: Appended = caller.ask(line.sender, "message.append", &params).await?;
        crowd.is_epoch(room, &appended.epoch);
        crowd.run.add("duplicates", u64::from(appended.duplicate));
        said = Some(appended.sequence);
    }
    if said.is_some_and(|said| said != sequence) {
        let what = format_args!("{name}: line {sequence} is {said:?}");
        crowd.wrong(Wrong::Doubled, what);
    }
    Ok(())
}

/// Asks until it is answered, whatever happens to the connection; so what is asked must be safe to repeat.
struct Caller<'a> {
    crowd: &'a Crowd,
    client: Option<Client>,
    /// The nick that the connection is of; `None` = a back end.
    user: Option<usize>,
}

impl<'a> Caller<'a> {
    fn new(crowd: &'a Crowd) -> Caller<'a> {
        Caller {
            crowd,
            client: None,
            user: None,
        }
    }

    /// Asks for a nick, or for a back end; a caller that asked for a nick can't be a back end any more.
    async fn ask<R: DeserializeOwned>(
        &mut self,
        user: Option<usize>,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R, CallError> {
        let began = Instant::now();
        loop {
            let error = match self.once(user, method, params).await {
                Ok(result) => return Ok(result),
                Err(error) => error,
            };
            match &error {
                CallError::Refused(refusal) if refusal.may_repeat() => {
                    self.crowd.run.add("refusals", 1);
                    let pause = refusal.data.retry_after_ms.unwrap_or(0).min(1_000);
                    sleep(Duration::from_millis(pause)).await;
                }
                CallError::Refused(_) => return Err(error),
                CallError::Lost(_) => {
                    self.client = None;
                    self.crowd.run.add("reconnects", 1);
                }
            }
            let waited = wait(began, &error).await;
            waited.map_err(|stop| CallError::Lost(stop.to_string()))?;
        }
    }

    async fn once<R: DeserializeOwned>(
        &mut self,
        user: Option<usize>,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R, CallError> {
        let client = match &mut self.client {
            Some(client) => client,
            none => {
                self.user = None;
                none.insert(Client::open(&self.crowd.run.url).await?)
            }
        };
        if user != self.user
            && let Some(nick) = user
        {
            client.become_user(&json!({ "user": self.crowd.plan.nicks[nick] }));
            self.user = user;
        }
        client.call(method, params).await
    }
}
