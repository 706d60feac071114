//! A subscriber: the protocol's client loop over many timelines on one connection, keeping what it saw for the checker.
//!
//! Owns: position and epoch per timeline, joining, leaving, being cut, resuming. Promises: it records what came exactly
//! as it came, so that the checker sees each gap and repetition. Must not: mend anything silently.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::audience::{Goal, Habit, Options, Outcome};
use crate::exit::Stop;
use crate::history::{Mark, Span, Watched, digest};
use crate::random::Random;
use crate::rpc::{CallError, Client, Incoming, Message, Refusal, read};
use crate::writer::{Backoff, Shared};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Out,
    Joining,
    Live,
    Leaving,
}

struct Follow {
    timeline: usize,
    stage: Stage,
    position: u64,
    epoch: Option<String>,
    spans: Vec<Span>,
    join_at: u64,
    leave_at: Option<u64>,
    /// Not before this: a refused subscribe is repeated after a pause.
    not_before: Instant,
}

struct Subscriber<'a> {
    shared: &'a Shared,
    goal: &'a Goal,
    options: &'a Options,
    follows: Vec<Follow>,
    by_name: HashMap<&'a str, usize>,
    /// Requests on the way: number → index of the follow.
    asked: HashMap<u64, usize>,
    complaints: Vec<String>,
    resumes: u64,
    received: u64,
    cuts_left: u32,
    /// When the writers were first seen done, or the last news after that.
    waiting_since: Option<Instant>,
    random: Random,
}

#[derive(Serialize)]
struct Subscribe<'a> {
    timeline: &'a str,
    after: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<&'a str>,
    limit: u32,
}

#[derive(Deserialize)]
struct Subscribed {
    epoch: String,
    head: u64,
    messages: Vec<Message>,
    more: bool,
    state: String,
}

#[derive(Deserialize)]
struct Pushed {
    timeline: String,
    epoch: String,
    messages: Vec<Message>,
}

/// Follows until the goal is reached everywhere, or nothing comes for too long.
pub async fn run(shared: Arc<Shared>, goal: Arc<Goal>, options: Options) -> Result<Outcome, Stop> {
    let mut subscriber = Subscriber::new(&shared, &goal, &options);
    let mut backoff = Backoff::new(shared.patience);
    while !subscriber.finished() {
        match subscriber.session(&mut backoff).await {
            Ok(()) => {}
            Err(CallError::Lost(why)) => backoff.wait(&why).await?,
            Err(CallError::Refused(refusal)) => {
                return Err(Stop::Unreachable(format!(
                    "session refused: {}",
                    refusal.message
                )));
            }
        }
    }
    Ok(subscriber.outcome())
}

impl<'a> Subscriber<'a> {
    fn new(shared: &'a Shared, goal: &'a Goal, options: &'a Options) -> Subscriber<'a> {
        let midway = options.habit == Habit::Midway;
        let follow = |&(timeline, length): &(usize, u64)| Follow {
            timeline,
            stage: Stage::Out,
            position: 0,
            epoch: None,
            spans: Vec::new(),
            join_at: if midway { length / 3 } else { 0 },
            leave_at: midway.then_some(length * 2 / 3),
            not_before: Instant::now(),
        };
        let follows: Vec<Follow> = options.follows.iter().map(follow).collect();
        let by_name = follows
            .iter()
            .enumerate()
            .map(|(index, follow)| (shared.timelines[follow.timeline].as_str(), index))
            .collect();
        Subscriber {
            shared,
            goal,
            options,
            follows,
            by_name,
            asked: HashMap::new(),
            complaints: Vec::new(),
            resumes: 0,
            received: 0,
            cuts_left: if options.habit == Habit::Cut {
                options.cuts
            } else {
                0
            },
            waiting_since: None,
            random: Random::new(options.seed),
        }
    }

    fn finished(&mut self) -> bool {
        if !self.goal.written.load(Ordering::Acquire) {
            return false;
        }
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let reached = |follow: &Follow| {
            let length = self.goal.lengths[follow.timeline].load(Ordering::Relaxed);
            follow.position >= length && follow.stage != Stage::Leaving
        };
        self.follows.iter().all(reached) || since.elapsed() > self.options.patience
    }

    /// One connection's life; ends without error when it is cut on purpose or all is done.
    async fn session(&mut self, backoff: &mut Backoff) -> Result<(), CallError> {
        self.asked.clear();
        for follow in &mut self.follows {
            follow.stage = Stage::Out;
        }
        let mut client = Client::open(&self.shared.url).await?;
        client.introduce(&self.options.name).await?;
        backoff.reset();
        let pause = Duration::from_millis(self.random.between(50, 600));
        let cutting = self.cuts_left > 0 && !self.goal.written.load(Ordering::Acquire);
        let cut_at = cutting.then(|| Instant::now() + pause);
        let mut tick = tokio::time::interval(Duration::from_millis(10));
        loop {
            tokio::select! {
                incoming = client.receive() => {
                    self.take(incoming?)?;
                    // Bounded, so that a long backlog can't keep the tick from its turn.
                    for _ in 0..256 {
                        let Some(more) = client.receive_now() else { break };
                        self.take(more?)?;
                    }
                }
                _ = tick.tick() => {
                    if self.finished() {
                        return Ok(());
                    }
                    if cut_at.is_some_and(|at| Instant::now() >= at) {
                        self.cuts_left -= 1;
                        return Ok(());
                    }
                    self.act(&mut client).await?;
                }
            }
        }
    }

    /// Joins and leaves what is due.
    async fn act(&mut self, client: &mut Client) -> Result<(), CallError> {
        let written = self.goal.written.load(Ordering::Acquire);
        for (index, follow) in self.follows.iter_mut().enumerate() {
            let progress = self.shared.progress[follow.timeline].load(Ordering::Relaxed);
            let name = &self.shared.timelines[follow.timeline];
            let due = progress >= follow.join_at || written;
            if follow.stage == Stage::Out && due && Instant::now() >= follow.not_before {
                let params = Subscribe {
                    timeline: name,
                    after: follow.position,
                    epoch: follow.epoch.as_deref(),
                    limit: 1 + u32::try_from(self.random.below(200)).unwrap_or(0),
                };
                let id = client.send("subscribe", params).await?;
                self.asked.insert(id, index);
                follow.stage = Stage::Joining;
            } else if follow.stage == Stage::Live
                && follow.leave_at.is_some_and(|at| follow.position >= at)
            {
                follow.leave_at = None;
                let params = serde_json::json!({ "timeline": name });
                let id = client.send("unsubscribe", params).await?;
                self.asked.insert(id, index);
                follow.stage = Stage::Leaving;
            }
        }
        client.flush().await
    }

    fn take(&mut self, incoming: Incoming) -> Result<(), CallError> {
        match incoming {
            Incoming::Reply(id, outcome) => {
                let Some(index) = self.asked.remove(&id) else {
                    self.complain(format!("a reply to {id}, which was not asked"));
                    return Ok(());
                };
                match (self.follows[index].stage, outcome) {
                    (Stage::Joining, Ok(result)) => self.joined(index, read(&result)?),
                    (Stage::Leaving, Ok(_)) => {
                        self.follows[index].stage = Stage::Out;
                        // Long enough that messages come while it is out.
                        self.follows[index].not_before = Instant::now() + Duration::from_millis(30);
                    }
                    (_, Err(refusal)) => self.refused(index, &refusal),
                    (_, Ok(_)) => self.complain("a reply out of turn".into()),
                }
            }
            Incoming::Push(method, params) => self.pushed(&method, &params)?,
        }
        Ok(())
    }

    fn joined(&mut self, index: usize, reply: Subscribed) {
        let name = &self.shared.timelines[self.follows[index].timeline];
        let follow = &mut self.follows[index];
        let after = follow.position;
        let same = follow
            .epoch
            .as_ref()
            .is_none_or(|epoch| *epoch == reply.epoch);
        let last = reply
            .messages
            .last()
            .map_or(after, |message| message.sequence);
        let mut wrong = Vec::new();
        if reply.state != "ok" || !same {
            let (state, epoch) = (&reply.state, &reply.epoch);
            wrong.push(format!(
                "{name}: resumed after {after}, got {state}, epoch {epoch}"
            ));
        }
        if reply.more != (last < reply.head) {
            let (more, head) = (reply.more, reply.head);
            wrong.push(format!(
                "{name}: the reply ends at {last} of {head}, more: {more}"
            ));
        }
        self.resumes += u64::from(after > 0);
        follow.stage = Stage::Live;
        follow.epoch = Some(reply.epoch);
        follow.spans.push(Span {
            after,
            marks: Vec::new(),
        });
        self.apply(index, reply.messages);
        for what in wrong {
            self.complain(what);
        }
    }

    fn refused(&mut self, index: usize, refusal: &Refusal) {
        let follow = &self.follows[index];
        if !refusal.data.retry {
            let (reason, text) = (&refusal.data.reason, &refusal.message);
            let name = &self.shared.timelines[follow.timeline];
            let what = format!("{name}: subscribe was refused: {reason} ({text})");
            self.complain(what);
        }
        let follow = &mut self.follows[index];
        follow.stage = Stage::Out;
        follow.not_before = Instant::now() + Duration::from_millis(100);
    }

    fn pushed(&mut self, method: &str, params: &RawValue) -> Result<(), CallError> {
        match method {
            "draining" => return Ok(()),
            "message" => {}
            other => {
                self.complain(format!("an unexpected push {other}: {:.200}", params.get()));
                return Ok(());
            }
        }
        let push: Pushed = read(params)?;
        let Some(index) = self.by_name.get(push.timeline.as_str()).copied() else {
            self.complain(format!(
                "a push of {}, which is not followed",
                push.timeline
            ));
            return Ok(());
        };
        let follow = &self.follows[index];
        if matches!(follow.stage, Stage::Out | Stage::Joining) {
            self.complain(format!(
                "{}: a push outside of a subscription",
                push.timeline
            ));
        } else if follow.epoch.as_deref() != Some(&push.epoch) {
            self.complain(format!("{}: a push of another epoch", push.timeline));
        } else {
            self.apply(index, push.messages);
        }
        Ok(())
    }

    fn apply(&mut self, index: usize, messages: Vec<Message>) {
        self.waiting_since = None;
        self.received += messages.len() as u64;
        let follow = &mut self.follows[index];
        let Some(span) = follow.spans.last_mut() else {
            return;
        };
        for message in messages {
            follow.position = message.sequence;
            let sender = message.sender.as_deref();
            span.marks.push(Mark {
                sequence: message.sequence,
                timestamp: message.timestamp,
                digest: digest(sender, &message.message_id, message.entry.as_ref()),
                id: String::new(),
            });
        }
    }

    fn complain(&mut self, what: String) {
        if self.complaints.len() < 1_000 {
            self.complaints
                .push(format!("{}: {what}", self.options.name));
        }
    }

    fn outcome(self) -> Outcome {
        let mut epochs = Vec::new();
        let mut watched = Vec::new();
        for follow in self.follows {
            epochs.extend(follow.epoch.map(|epoch| (follow.timeline, epoch)));
            let seen = Watched {
                subscriber: self.options.name.clone(),
                spans: follow.spans,
                to_the_end: true,
            };
            watched.push((follow.timeline, seen));
        }
        Outcome {
            watched,
            epochs,
            complaints: self.complaints,
            resumes: self.resumes,
            received: self.received,
        }
    }
}
