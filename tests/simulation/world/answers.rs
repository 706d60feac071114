//! What the server says to clients: answers and pushes.
//!
//! Owns: who takes each of them. Promises: all that is shown to a client is noted for the history. Must not: judge it.

use serde_json::{Value, json};
use tideline_history::What;

use super::{Comes, Phase, World};
use crate::client::{Asked, Line, Waits, messages};

impl World<'_> {
    pub(super) fn message(&mut self, at: usize, message: &Value) {
        let Some(id) = message.get("id") else {
            self.pushed(at, message);
            return;
        };
        let waits = id
            .as_u64()
            .and_then(|id| self.clients[at].waits.remove(&id));
        match waits {
            None => self.fault(format!("an answer to nothing: {message}")),
            Some(Waits::Session) => self.clients[at].line = Line::Up,
            Some(Waits::Subscribe(timeline, after)) => {
                self.subscribed(at, &timeline, after, message)
            }
            Some(Waits::Unsubscribe(timeline)) => {
                self.clients[at].follows.remove(&timeline);
                self.note(at, What::Unsubscribe(timeline));
            }
            Some(Waits::Stream) => self.opened(at, message),
            Some(Waits::Asked(asked)) => self.answered(at, asked, message),
            Some(Waits::Dump(step)) => self.dumped(step, message),
            Some(Waits::Partitions) => self.reshape_some(at, message),
            Some(Waits::Fans(timeline)) => {
                if message.get("result").is_some() {
                    self.fanned.insert(timeline, self.now);
                }
            }
            Some(Waits::Nothing) => {
                if self.task.is_traced {
                    eprintln!("> {} {message}", self.now / 1_000);
                }
            }
        }
    }

    fn answered(&mut self, at: usize, asked: Asked, message: &Value) {
        if asked.is_scheduled() && message.get("error").is_none() {
            let text = |name: &str| asked.params[name].as_str().unwrap_or_default().to_owned();
            let due = asked.params["deliver_at"].as_u64().unwrap_or_default();
            self.scheduled
                .push((text("timeline"), text("message_id"), due));
        }
        let timeline = asked.params["timeline"].as_str().map(str::to_owned);
        let is_append = asked.method == "message.append";
        let what = self.clients[at].answered(asked, message);
        let is_done = matches!(what, What::Ok(..));
        self.note(at, what);
        if let Some(timeline) = timeline
            && is_append
            && is_done
            && self.phase == Phase::Works
            && self.random.percent(self.plan.looks_back)
        {
            self.ask(at, |chooser, client| chooser.read(client, &timeline));
        }
    }

    fn subscribed(&mut self, at: usize, timeline: &str, after: u64, message: &Value) {
        let Some(result) = message.get("result") else {
            // It is tried again with the next connection, or soon.
            let connection = self.clients[at].connection;
            self.arrives(connection, false, Comes::Cut(connection));
            self.acts.reset(connection);
            return;
        };
        let messages = messages(&result["messages"]);
        self.note(at, What::Subscribe(timeline.to_owned(), after));
        self.clients[at]
            .follows
            .insert(timeline.to_owned(), (after, true));
        if !messages.is_empty() {
            self.clients[at].shown(timeline, &messages);
            self.note(at, What::Push(timeline.to_owned(), messages));
        }
    }

    fn pushed(&mut self, at: usize, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str() {
            Some("message") => {
                let timeline = params["timeline"].as_str().unwrap_or_default();
                let messages = messages(&params["messages"]);
                self.clients[at].shown(timeline, &messages);
                self.note(at, What::Push(timeline.to_owned(), messages));
            }
            Some("stream.changes") => self.changes(at, params),
            Some("stream.ended") => self.fault(format!("a stream ended: {message}")),
            _ => {}
        }
    }

    fn opened(&mut self, at: usize, message: &Value) {
        if self.task.is_traced {
            eprintln!("> {} {message}", self.now / 1_000);
        }
        if message.get("result").is_none() {
            let connection = self.clients[at].connection;
            self.arrives(connection, false, Comes::Cut(connection));
            self.acts.reset(connection);
            return;
        }
        let is_first = self.clients[at].stream.replace(true) == Some(false);
        // Later it begins where the logs do, and those of partitions that ended may be gone.
        if is_first && self.life == 1 && !self.is_reshaped {
            for timeline in self.plan.timelines.clone() {
                self.clients[at].saw(&timeline, 0);
                self.note(at, What::Subscribe(timeline, 0));
            }
        }
    }

    /// The stream of all timelines brings every message; what was not committed comes again.
    fn changes(&mut self, at: usize, params: &Value) {
        for change in params["changes"].as_array().into_iter().flatten() {
            if change["kind"] != "message" {
                continue;
            }
            let timeline = change["timeline"].as_str().unwrap_or_default().to_owned();
            let client = &mut self.clients[at];
            let seen = client.heads.get(&timeline).copied();
            let mut messages = messages(&change["messages"]);
            messages.retain(|message| message.sequence > seen.unwrap_or_default());
            client.saw(&timeline, messages.last().map_or(0, |last| last.sequence));
            if seen.is_none() {
                let first = messages.first().map_or(1, |first| first.sequence);
                self.note(at, What::Subscribe(timeline.clone(), first - 1));
            }
            self.note(at, What::Push(timeline, messages));
        }
        let commit = json!({"cursor": "audit", "position": params["position"]});
        self.clients[at].request("stream.commit", &commit, Waits::Nothing);
    }
}
