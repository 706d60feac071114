//! A session that speaks the Centrifuge dialect: commands in, replies and pushes out.
//!
//! Owns: what such a session has besides a native one, and which command may begin. Promises: commands are taken in
//! their order, one at a time, while there is room for their answers; one about a channel waits for those before it
//! that decide about the channel; garbage ends the connection. Must not: read a socket, or do what the native session
//! does: subscriptions, appends, limits and pushes are its own.

mod ask;
mod channels;
mod clock;
mod connect;
mod heard;
mod recovery;
mod refused;
mod subscribe;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::answer::Weight;
use super::jobs::{Cost, Done};
use super::login::Entered;
use super::subscriptions::parts::{Opened, OpenedChannel};
use super::{Draining, End, Session};
use crate::Shared;
use crate::centrifuge::Options;
use crate::centrifuge::hub::Registered;
use channels::Channels;
pub(in super::super) use connect::NODE;
use refused::Refused;
use tideline_model::access::Asker;
use tideline_wire::centrifuge::{
    ANONYMOUS, Code, Command, Commands, Disconnect, Encoding, Error, Reply,
};
use tideline_wire::{Failure, Method, Reason};

/// What a session of this dialect has.
pub(super) struct Centrifuge {
    encoding: Encoding,
    options: Arc<Options>,
    began: Instant,
    /// What its handshake left to the first command.
    entered: Option<Entered>,
    emulated: Option<String>,
    stage: Stage,
    /// What is left of the frame that was read.
    rest: Option<Commands>,
    held: Option<Held>,
    channels: Channels,
    /// Publications of this connection.
    published: u64,
    /// When the connection ends unless it is refreshed, ms.
    expires_at: Option<u64>,
    /// `None` until it is connected.
    registered: Option<Registered>,
}

/// How far a session is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// None of its connect commands was accepted yet.
    New,
    /// The subscriptions that it begins with are being read.
    Connecting,
    Connected,
}

/// A command that waits for its turn.
struct Held {
    command: Command,
    bytes: usize,
    /// The keys of its token are being fetched.
    fetch: Option<BoxFuture<'static, ()>>,
}

impl Centrifuge {
    pub(super) fn new(
        encoding: Encoding,
        options: Arc<Options>,
        entered: Entered,
        emulated: Option<String>,
    ) -> Box<Centrifuge> {
        Box::new(Centrifuge {
            encoding,
            options,
            began: Instant::now(),
            entered: Some(entered),
            emulated,
            stage: Stage::New,
            rest: None,
            held: None,
            channels: Channels::default(),
            published: 0,
            expires_at: None,
            registered: None,
        })
    }

    /// Whether the frame that was read is not done.
    pub(super) fn holds_frames(&self) -> bool {
        self.rest.is_some() || self.held.is_some()
    }

    /// Whether a connect command was accepted.
    pub(super) fn is_known(&self) -> bool {
        self.stage != Stage::New
    }

    /// Takes a frame, whose commands are begun by [`Session::poll_commands`].
    pub(super) fn take(&mut self, frame: Bytes) -> Result<(), End> {
        let commands = Commands::new(self.encoding, frame);
        self.rest = Some(commands.map_err(|_| End::Disconnect(Disconnect::BAD_REQUEST))?);
        Ok(())
    }

    /// A ping; nothing for a client that is not connected yet.
    pub(super) fn ping(&self) -> Bytes {
        match self.stage {
            Stage::Connected => self.encoding.frame([&Reply::default()]),
            Stage::New | Stage::Connecting => Bytes::new(),
        }
    }

    fn user(&self) -> &str {
        let registered = self.registered.as_ref();
        registered.map_or("", |registered| &registered.client.user)
    }

    /// The asker of what the options of this dialect give.
    fn believed(&self) -> Asker {
        match self.user() {
            // A server without an owner: as by its native protocol, everybody is a back end.
            "" if self.options.insecure => Asker::believed(""),
            "" => Asker::believed(ANONYMOUS),
            user => Asker::believed(user),
        }
    }
}

impl Session {
    /// What a session of this dialect has; only its own steps ask.
    fn own(&mut self) -> &mut Centrifuge {
        self.centrifuge
            .as_deref_mut()
            .expect("a session of this dialect")
    }

    /// Begins commands, as many as may begin now. What a back end ordered comes first: it may have been answered before
    /// the client sent them.
    pub(super) fn poll_commands(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let mut moved = self.poll_heard(context)?;
        for _ in 0..COMMANDS_MAX {
            let has_room = self.draining == Draining::No
                && self.outbox.has_room()
                && self.jobs.has_room(&self.shared);
            if !has_room || !self.own().holds_frames() {
                break;
            }
            let Some(mut held) = self.next_command()? else {
                return Ok(true);
            };
            let fetched = held.fetch.as_mut().map(|fetch| fetch.poll_unpin(context));
            if fetched == Some(Poll::Pending) || self.must_wait(&held.command) {
                self.own().held = Some(held);
                break;
            }
            self.command(held.command, held.bytes)?;
            moved = true;
        }
        Ok(moved)
    }

    /// The one that waits, else the next one of the frame.
    fn next_command(&mut self) -> Result<Option<Held>, End> {
        let own = self.own();
        if let Some(held) = own.held.take() {
            return Ok(Some(held));
        }
        let Some(next) = own.rest.as_mut().and_then(Commands::next) else {
            own.rest = None;
            return Ok(None);
        };
        let (command, bytes) = next.map_err(|_| End::Disconnect(Disconnect::BAD_REQUEST))?;
        Ok(Some(Held {
            fetch: self.keys_for(&command),
            command,
            bytes,
        }))
    }

    /// Fetches the keys that a command's token is verified with, if they are not there.
    fn keys_for(&self, command: &Command) -> Option<BoxFuture<'static, ()>> {
        let token = command.token().filter(|token| !token.is_empty())?;
        let authority = Arc::clone(&self.shared.door.as_ref()?.authority);
        let tokens = &self.shared.options.centrifuge.as_ref()?.tokens;
        if !tokens.lacks_key(token, &authority) {
            return None;
        }
        let token = token.to_owned();
        Some(async move { authority.fetch_for(&token).await }.boxed())
    }

    /// Whether a command must not overtake what is under way: the connect, the subscribe of its channel, and what was
    /// published before it on this connection.
    fn must_wait(&mut self, command: &Command) -> bool {
        let publishes = self.jobs.appends > 0;
        let own = self.own();
        let reads = command.history.is_some() || command.subscribe.is_some();
        own.stage == Stage::Connecting
            || (reads && publishes)
            || command
                .channel()
                .is_some_and(|channel| own.channels.is_opening(channel))
    }

    /// Does a command that came in so many bytes, or refuses it.
    fn command(&mut self, command: Command, bytes: usize) -> Result<(), End> {
        let id = command.id;
        match self.perform(command, bytes) {
            Ok(()) => Ok(()),
            Err(Refused::Answer(code)) => {
                self.refuse(id, code.reason(), code);
                Ok(())
            }
            Err(Refused::End(why)) => Err(End::Disconnect(why)),
        }
    }

    fn perform(&mut self, mut command: Command, bytes: usize) -> Result<(), Refused> {
        let bad_request = Err(Refused::End(Disconnect::BAD_REQUEST));
        if command == Command::default() {
            // A pong: a sign of life, as every frame.
            return Ok(());
        }
        let id = command.id;
        match (self.own().stage, command.connect.take()) {
            (Stage::New, Some(connect)) if id > 0 => return self.connect(id, connect, bytes),
            (Stage::Connected, None) => {}
            _ => return bad_request,
        }
        if command.send.is_some() {
            return Err(Refused::End(Disconnect::NOT_AVAILABLE));
        }
        if id == 0 {
            return bad_request;
        }
        let claim = self.caller.asker.claim();
        if claim.is_some_and(|claim| claim.is_over()) {
            // The connection is about to close. What the options allow needs no claim, so nothing else refuses it.
            return Err(Code::Unauthorized.into());
        }
        let rated = self.rated(bytes);
        rated.map_err(|failure| Code::of(failure.reason))?;
        if command.channel().is_some_and(str::is_empty) {
            return bad_request;
        }
        if let Some(subscribe) = command.subscribe {
            self.subscribe(id, subscribe, bytes)
        } else if let Some(refresh) = command.refresh {
            self.refresh(id, &refresh)
        } else if let Some(refresh) = command.sub_refresh {
            self.refresh_subscription(id, refresh)
        } else if let Some(unsubscribe) = command.unsubscribe {
            self.unsubscribe(id, &unsubscribe.channel);
            Ok(())
        } else if let Some(publish) = command.publish {
            self.publish(id, publish, bytes)
        } else if let Some(presence) = command.presence {
            self.presence(id, presence.channel, bytes)
        } else if let Some(stats) = command.presence_stats {
            self.presence_stats(id, stats.channel, bytes)
        } else if let Some(history) = command.history {
            self.history(id, history, bytes)
        } else if let Some(rpc) = command.rpc {
            self.rpc(id, rpc, bytes)
        } else if command.ping.is_some() {
            Err(Code::NotAvailable.into())
        } else {
            Err(Code::MethodNotFound.into())
        }
    }

    /// Counts a command as a request of its user.
    fn rated(&mut self, bytes: usize) -> Result<(), Failure> {
        let asker = match self.caller.asker.claim() {
            Some(_) => self.caller.asker.clone(),
            None => Asker::believed(self.own().user()),
        };
        let taken = self.shared.per_client.take((&asker).into(), bytes);
        Ok(taken.inspect_err(|reached| self.shared.metrics.refused(reached.limit, 1))?)
    }

    /// Answers at once.
    fn reply(&mut self, id: u32, method: Method, reply: Reply) {
        count(&self.shared, Some(method), None, time::Duration::ZERO);
        self.say(Reply { id, ..reply });
    }

    /// Refuses at once.
    fn refuse(&mut self, id: u32, counted: Reason, error: impl Into<Error>) {
        count(&self.shared, None, Some(counted), time::Duration::ZERO);
        let reply = Reply::refused(error);
        self.say(Reply { id, ..reply });
    }

    fn say(&mut self, reply: Reply) {
        let frame = self.own().encoding.frame([&reply]);
        self.send(frame);
    }

    /// Begins the work of a command that came in so many bytes. With the ID 0 the command is the server's own, and
    /// nobody gets a reply.
    fn begin_command(
        &mut self,
        id: u32,
        method: Method,
        (bytes, weight): (usize, Weight),
        work: impl Future<Output = (Result<Reply, Code>, Vec<OpenedChannel>)> + Send + 'static,
    ) {
        let (shared, encoding) = (Arc::clone(&self.shared), self.own().encoding);
        let since = time::Instant::now();
        let work = async move {
            let (result, channels) = work.await;
            let refused = result.as_ref().err().map(|code| code.reason());
            count(&shared, Some(method), refused, since.elapsed());
            let reply = result.unwrap_or_else(Reply::refused);
            let reply = (id > 0).then(|| encoding.frame([&Reply { id, ..reply }]));
            Done::Answered(reply, vec![Opened::Command(channels)])
        };
        let cost = Cost::new(1, bytes, weight);
        self.jobs.boxed(&self.shared, cost, work.boxed());
    }

    /// A command was answered, and what waited for its answer may begin.
    pub(super) fn channels_opened(&mut self, channels: Vec<OpenedChannel>) {
        channels
            .into_iter()
            .for_each(|channel| self.opened(channel));
        // Nothing else begins before the connect is answered.
        let own = self.centrifuge.as_ref();
        if own.is_some_and(|own| own.stage == Stage::Connecting) {
            self.connected();
        }
    }
}

/// Counts the answer to a command.
fn count(shared: &Shared, method: Option<Method>, refused: Option<Reason>, took: time::Duration) {
    let refused = refused.map(Failure::new);
    let result = refused.as_ref().map_or(Ok(()), Err);
    shared.counters.count(method, result, took);
}

/// Commands begun in one step; others want their turn.
const COMMANDS_MAX: usize = 256;
