//! `tideline send TIMELINE TEXT|JSON|-`: messages, each of which is there once; or one that grows by standard input.
//!
//! Owns: the outbox. Promises: a message has its ID before it is sent, and is repeated with it until the server has
//! answered; messages of standard input are in its order, and none behind a line that was refused is sent. Must not:
//! give a message up without a word.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::{Instant, sleep};

use super::address::At;
use super::call::object;
use super::failure::Failure;
use super::pace::Pace;
use super::plain::json;
use super::screen::{Form, Look, Screen};
use super::session::{Session, parsed};

mod answer;
mod piped;

use piped::Piped;

/// What to send.
#[derive(Debug, Args)]
pub struct Send {
    /// The timeline's ID; it is made if there is none.
    timeline: String,
    /// Text, or a JSON object of the message's names and values, or - for standard input, a message each line.
    #[arg(required = true)]
    message: Vec<String>,
    /// How to take it: what begins with { is JSON, if nothing else is said.
    #[arg(long = "as", value_name = "FORM")]
    form_of: Option<FormOf>,
    /// The message's ID, to repeat what may have been sent [default: a new one].
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// One message of all standard input, shown to readers as it comes; only with -.
    #[arg(long, conflicts_with_all = ["id", "form_of"])]
    open: bool,
    /// With --open: the server closes the message as failed if nothing more comes for so long.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "open", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    idle: u64,
    /// How long to repeat what is not answered.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    form: Form,
}

/// How a message is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormOf {
    /// {"text": …} is made of it
    Text,
    /// A JSON object
    Json,
}

/// A message on its way.
#[derive(Debug)]
struct Outgoing {
    /// Of standard input.
    line: Option<u64>,
    id: String,
    entry: Box<RawValue>,
}

#[derive(Serialize)]
struct Message<'a> {
    entry: &'a RawValue,
    message_id: &'a str,
}

#[derive(Serialize)]
struct Append<'a> {
    timeline: &'a str,
    entry: &'a RawValue,
    message_id: &'a str,
}

#[derive(Serialize)]
struct AppendBatch<'a> {
    timeline: &'a str,
    messages: &'a [Message<'a>],
}

#[derive(Deserialize)]
struct Appended {
    messages: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Sent {
    sequence: u64,
    duplicate: bool,
}

impl Send {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let mut sender = Sender {
            screen: Screen::new(&self.form),
            session: None,
            what: self,
        };
        let interrupted = tokio::signal::ctrl_c();
        // Without an ID nobody could find out what has become of it.
        let mut waiting = String::new();
        tokio::select! {
            done = sender.run(&mut waiting) => return done,
            _ = interrupted => {}
        }
        Err(Failure::Interrupted(waiting))
    }
}

struct Sender {
    what: Send,
    screen: Screen,
    session: Option<Session>,
}

impl Sender {
    /// `waiting` = what to say when this ends before its time.
    async fn run(&mut self, waiting: &mut String) -> Result<(), Failure> {
        // Words that nobody quoted are one text, as with `echo`.
        let message = self.what.message.join(" ");
        if self.what.open && message != "-" {
            return Err(Failure::Wrong(
                "--open is of standard input: give - as the message".into(),
            ));
        }
        if self.what.open {
            self.answer(waiting).await?;
        } else if message != "-" {
            let entry = entry(&message, self.what.form_of).map_err(Failure::Wrong)?;
            let id = self.what.id.take().unwrap_or_else(new_id);
            let outgoing = Outgoing {
                line: None,
                id,
                entry,
            };
            self.deliver(&[outgoing], waiting).await?;
        } else if self.what.id.is_some() {
            return Err(Failure::Wrong(
                "--id is of one message, and standard input may have many".into(),
            ));
        } else {
            self.run_piped(waiting).await?;
        }
        if let Some(session) = self.session.take() {
            session.close().await;
        }
        Ok(())
    }

    async fn run_piped(&mut self, waiting: &mut String) -> Result<(), Failure> {
        let mut piped = Piped::read()?;
        // The limits are the server's; an empty input asks for none.
        while let Some(first) = piped.next().await? {
            let mut batch = vec![self.outgoing(first)?];
            let mut bytes = batch[0].entry.get().len();
            let limits = self.session.as_ref().map(|session| &session.limits);
            let (messages_max, bytes_max) = limits.map_or((1, 0), |limits| {
                (limits.batch_messages_max, limits.batch_bytes_max)
            });
            let mut bad = None;
            while batch.len() < messages_max && bytes < bytes_max / 2 {
                let Some(next) = piped.ready() else { break };
                match next.and_then(|line| self.outgoing(line)) {
                    Ok(outgoing) => {
                        bytes += outgoing.entry.get().len();
                        batch.push(outgoing);
                    }
                    Err(why) => {
                        bad = Some(why);
                        break;
                    }
                }
            }
            self.deliver(&batch, waiting).await?;
            if let Some(why) = bad {
                return Err(why);
            }
        }
        Ok(())
    }

    fn outgoing(&self, (line, text): (u64, String)) -> Result<Outgoing, Failure> {
        let entry = entry(&text, self.what.form_of);
        Ok(Outgoing {
            line: Some(line),
            id: new_id(),
            entry: entry.map_err(|why| Failure::Wrong(format!("line {line}: {why}")))?,
        })
    }

    /// Sends messages, and again until they are answered. A batch that is refused as a whole is sent one by one.
    async fn deliver(&mut self, batch: &[Outgoing], waiting: &mut String) -> Result<(), Failure> {
        match self.appended(batch, waiting).await {
            Ok(appended) => self.show(&appended),
            Err(Failure::Refused(_)) if batch.len() > 1 => {
                for one in batch {
                    let alone = self.appended(std::slice::from_ref(one), waiting).await;
                    let appended = alone.map_err(|failure| failure.about(&one.named()))?;
                    self.show(&appended)?;
                }
                Ok(())
            }
            Err(failure) if batch[0].line.is_some() => Err(failure.about(&batch[0].named())),
            Err(failure) => Err(failure),
        }
    }

    async fn appended(
        &mut self,
        batch: &[Outgoing],
        waiting: &mut String,
    ) -> Result<Vec<Box<RawValue>>, Failure> {
        *waiting = not_sent(batch);
        let attempt =
            async |sender: &mut Sender, waiting: &mut String| sender.attempt(batch, waiting).await;
        self.repeat(waiting, attempt).await
    }

    /// Does something until the server has answered.
    async fn repeat<T>(
        &mut self,
        waiting: &mut String,
        attempt: impl AsyncFn(&mut Sender, &mut String) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut pace = Pace::default();
        let until = Instant::now() + Duration::from_secs(self.what.patience.min(PATIENCE_MAX));
        loop {
            let (why, wait) = match attempt(self, waiting).await {
                Ok(answer) => {
                    waiting.clear();
                    pace.reset();
                    return Ok(answer);
                }
                Err(Failure::Refused(refusal)) if refusal.may_retry() => {
                    let wait = pace.next();
                    (refusal.to_string(), refusal.retry_after().unwrap_or(wait))
                }
                Err(Failure::Away { why, back_in }) => {
                    self.session = None;
                    let wait = pace.next();
                    (why, back_in.unwrap_or(wait))
                }
                Err(failure) => return Err(failure),
            };
            if Instant::now() + wait > until {
                return Err(Failure::away(format!("{why}; {waiting}")));
            }
            pace.say(&why, wait);
            sleep(wait).await;
        }
    }

    async fn attempt(
        &mut self,
        batch: &[Outgoing],
        waiting: &mut String,
    ) -> Result<Vec<Box<RawValue>>, Failure> {
        let timeline = &self.what.timeline.clone();
        let session = self.session().await?;
        *waiting = unanswered(batch);
        let messages = batch.iter().map(|one| Message {
            entry: &one.entry,
            message_id: &one.id,
        });
        let messages: Vec<Message<'_>> = messages.collect();
        if let [Message { entry, message_id }] = messages[..] {
            let one = Append {
                timeline,
                entry,
                message_id,
            };
            return Ok(vec![session.call("message.append", &one).await?]);
        }
        let batch = AppendBatch {
            timeline,
            messages: &messages,
        };
        let appended = session.call("message.append_batch", &batch).await?;
        Ok(parsed::<Appended>(&appended)?.messages)
    }

    async fn session(&mut self) -> Result<&mut Session, Failure> {
        match &mut self.session {
            Some(session) => Ok(session),
            none => Ok(none.insert(Session::open(&self.what.at).await?)),
        }
    }

    fn show(&mut self, appended: &[Box<RawValue>]) -> Result<(), Failure> {
        for one in appended {
            if self.screen.json {
                self.screen.line(&json(one))?;
                continue;
            }
            let Sent {
                sequence,
                duplicate,
            } = parsed(one)?;
            let again = if duplicate {
                " (was there already)"
            } else {
                ""
            };
            let line = self.screen.part(Look::Dim, &format!("#{sequence}{again}"));
            self.screen.line(&line)?;
        }
        self.screen.flush()
    }
}

impl Outgoing {
    fn named(&self) -> String {
        self.line
            .map_or_else(String::new, |line| format!("line {line}"))
    }
}

/// Longer than anybody waits.
const PATIENCE_MAX: u64 = 10 * 365 * 86_400;

fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

fn not_sent(batch: &[Outgoing]) -> String {
    match batch {
        [Outgoing { line: None, .. }] | [] => "nothing was sent".to_owned(),
        [first, ..] => format!("{} and what follows was not sent", first.named()),
    }
}

/// What to do about messages of which nobody knows whether they are there.
fn unanswered(batch: &[Outgoing]) -> String {
    match batch {
        [Outgoing { line: None, id, .. }] => {
            format!("not answered: it may be there or not; repeat it with --id {id}")
        }
        [first, .., last] => {
            let (first, last) = (first.named(), last.named());
            format!("{first} to {last} are not answered: they may be there or not")
        }
        [one] => format!("{} is not answered: it may be there or not", one.named()),
        [] => String::new(),
    }
}

/// An entry as it is given: to the last digit, if it is JSON.
fn entry(text: &str, form: Option<FormOf>) -> Result<Box<RawValue>, String> {
    let is_json = text.trim_start().starts_with('{');
    match form {
        Some(FormOf::Text) => {}
        None if !is_json => {}
        Some(FormOf::Json) => return object(text),
        None => return object(text).map_err(|why| format!("{why}; if it is text, say --as text")),
    }
    to_raw_value(&json!({ "text": text })).map_err(|error| error.to_string())
}
