//! Publications, history, presence and RPC.
//!
//! Owns: what a client may ask of a channel. Promises: a publication is queued when its command has begun, so the order
//! of commands is the order of publications; a remote call is the native method of that name, with the rights that it
//! has natively. Must not: encode.

use std::sync::Arc;

use futures_util::FutureExt as _;

use super::refused::Refused;
use super::subscribe::taken;
use super::{Centrifuge, Session};
use crate::access::{Asker, Membership, Right, Rights};
use crate::gateway::centrifuge::calls::{self, Published};
use crate::gateway::centrifuge::{Ask, ChannelOptions};
use crate::gateway::dispatch::Work;
use crate::gateway::dispatch::shape::page_bytes;
use crate::gateway::dispatch::timelines::message::{Appending, Asked};
use crate::gateway::entrance::door::Door;
use crate::timeline::DIRECT;
use crate::wire::centrifuge::{
    ClientInfo, Code, Disconnect, HistoryRequest, PublishRequest, Reply, RpcRequest, Ticket,
    message_id, rpc_error,
};
use crate::wire::{self, Call, Failure, Id, Method, Request, jsonrpc};

impl Session {
    /// The asker for something of a channel: the believed one where the options of this dialect allow it, else the one
    /// with native rights.
    pub(super) fn asker_for(&mut self, what: Ask, channel: &str) -> Result<Asker, Code> {
        let own = self.own();
        if own
            .options
            .allows(what, channel, own.user(), own.channels.is_open(channel))
        {
            let believed = self.believed_in(channel);
            return Ok(match self.may_make(channel) {
                true => believed,
                false => believed.making_nothing(),
            });
        }
        match self.caller.asker.claim() {
            Some(_) => Ok(self.caller.asker.clone()),
            None => Err(Code::PermissionDenied),
        }
    }

    /// The believed asker in a channel. Unless `insecure` is set it makes no direct conversation: the members of one
    /// are the two users in its name, and the client may be neither.
    pub(super) fn believed_in(&mut self, channel: &str) -> Asker {
        let own = self.own();
        match channel.starts_with(DIRECT) && !own.options.insecure {
            true => own.believed().making_nothing(),
            false => own.believed(),
        }
    }

    /// Whether the options of this dialect let the client make a channel. A policy for its name comes before them.
    fn may_make(&self, channel: &str) -> bool {
        let (asker, name) = (&self.caller.asker, channel.as_bytes());
        let rights = asker
            .claim()
            .map_or(Rights::NONE, |_| asker.rights(name, Membership::default()));
        let has_policy = |door: &Door| door.has_policy(name);
        rights.has(Right::Create) || !self.shared.door.as_ref().is_some_and(has_policy)
    }

    fn options_of(&mut self, channel: &str) -> Result<ChannelOptions, Refused> {
        if channel.is_empty() {
            return Err(Refused::End(Disconnect::BAD_REQUEST));
        }
        let found = self.own().options.channels.of(channel).copied();
        Ok(found.ok_or(Code::UnknownChannel)?)
    }

    pub(super) fn publish(
        &mut self,
        id: u32,
        request: PublishRequest,
        bytes: usize,
    ) -> Result<(), Refused> {
        self.options_of(&request.channel)?;
        let append = self.publication(request)?;
        let appending = Appending {
            prepared: self.shared.timelines.prepare(append),
            asked: Asked::One,
        };
        let id = Id::Ticket(wire::Ticket(Ticket::publish(id)));
        if self.jobs.append(Some(id), appending, bytes) {
            self.submit_appends();
        }
        Ok(())
    }

    fn publication(&mut self, request: PublishRequest) -> Result<crate::timeline::Append, Code> {
        let PublishRequest {
            channel,
            data,
            kind,
        } = request;
        if kind != 0 {
            return Err(Code::NotAvailable);
        }
        if data.is_empty() {
            return Err(Code::BadRequest);
        }
        let asker = self.asker_for(Ask::Publish, &channel)?;
        let own = self.own();
        own.published += 1;
        let published = Published {
            data,
            info: own.info_in(&channel),
            message_id: Some(message_id(&own.client(), own.published)),
            ..Published::default()
        };
        calls::append(&self.shared, &asker, &channel, published)
            .map_err(|failure| Code::of(failure.reason))
    }

    pub(super) fn history(
        &mut self,
        id: u32,
        request: HistoryRequest,
        bytes: usize,
    ) -> Result<(), Refused> {
        self.options_of(&request.channel)?;
        let asker = self.asker_for(Ask::History, &request.channel)?;
        let shared = Arc::clone(&self.shared);
        let read = async move {
            let history = calls::history(&shared, &asker, request).await;
            history.map(|history| Reply {
                history: Some(history),
                ..Reply::default()
            })
        };
        self.reply_with(id, Method::MessageRange, bytes, read);
        Ok(())
    }

    pub(super) fn presence(
        &mut self,
        id: u32,
        channel: String,
        bytes: usize,
    ) -> Result<(), Refused> {
        let asker = self.asker_for_presence(&channel)?;
        let shared = Arc::clone(&self.shared);
        let read = async move {
            let bytes_max = page_bytes(&shared.options.limits);
            let presence = calls::presence(&shared, &asker, &channel, bytes_max).await;
            presence.map(|presence| Reply {
                presence: Some(presence),
                ..Reply::default()
            })
        };
        self.reply_with(id, Method::PresenceGet, bytes, read);
        Ok(())
    }

    pub(super) fn presence_stats(
        &mut self,
        id: u32,
        channel: String,
        bytes: usize,
    ) -> Result<(), Refused> {
        let asker = self.asker_for_presence(&channel)?;
        let shared = Arc::clone(&self.shared);
        let read = async move {
            let stats = calls::presence_stats(&shared, &asker, &channel).await;
            stats.map(|stats| Reply {
                presence_stats: Some(stats),
                ..Reply::default()
            })
        };
        self.reply_with(id, Method::PresenceGet, bytes, read);
        Ok(())
    }

    /// The asker for the presence of a channel, if the options keep it.
    fn asker_for_presence(&mut self, channel: &str) -> Result<Asker, Refused> {
        if !self.options_of(channel)?.presence {
            return Err(Code::NotAvailable.into());
        }
        Ok(self.asker_for(Ask::Presence, channel)?)
    }

    /// Begins a read for a command that came in so many bytes; its outcome is the answer.
    fn reply_with(
        &mut self,
        id: u32,
        method: Method,
        bytes: usize,
        read: impl Future<Output = Result<Reply, Code>> + Send + 'static,
    ) {
        let ticket = Ticket::own(id);
        let answer = Arc::clone(&ticket);
        let work = read.map(move |read| {
            let (reply, outcome) = match read {
                Ok(reply) => (reply, taken()),
                Err(code) => (Reply::refused(code), Err(Failure::new(code.reason()))),
            };
            answer.give(reply);
            outcome
        });
        let id = Id::Ticket(wire::Ticket(ticket));
        self.begun(Some(id), method, Work::Read(work.boxed()).into(), bytes);
    }

    /// Calls the native method of a name.
    pub(super) fn rpc(&mut self, id: u32, rpc: RpcRequest, bytes: usize) -> Result<(), Refused> {
        let RpcRequest { data, method } = rpc;
        let params: &[u8] = match data.is_empty() {
            true => b"{}",
            false => &data,
        };
        let request = jsonrpc::by_name(&method, params, &self.shared.options.limits);
        let request = request.and_then(|request| match is_of_native_sessions(&request) {
            true => Err(wire::Reason::MethodNotFound.into()),
            false => Ok(request),
        });
        // Where rights are decided, a client that has shown no credential has none.
        let is_known = self.shared.door.is_none() || self.caller.asker.claim().is_some();
        match request {
            Ok(request) if is_known => {
                let call = Call {
                    id: Some(Id::Ticket(wire::Ticket(Ticket::rpc(id)))),
                    method: Some(request.method()),
                    request: Ok(request),
                };
                self.one(call, bytes);
            }
            Ok(_) => return Err(Code::PermissionDenied.into()),
            Err(failure) => {
                let method = Method::from_name(&method);
                let none = std::time::Duration::ZERO;
                self.shared.counters.count(method, Err(&failure), none);
                let reply = Reply::refused(rpc_error(&failure));
                self.say(Reply { id, ..reply });
            }
        }
        Ok(())
    }
}

/// Methods whose pushes this dialect has no words for, and that it has its own way for.
fn is_of_native_sessions(request: &Request) -> bool {
    matches!(
        request,
        Request::Subscribe(_)
            | Request::Unsubscribe(_)
            | Request::StreamOpen(_)
            | Request::StreamClose(_)
            | Request::SessionOpen(_)
            | Request::SessionRenew(_)
    )
}

impl Centrifuge {
    /// What others see of this client in a channel.
    fn info_in(&self, channel: &str) -> ClientInfo {
        let registered = self.registered.as_ref();
        let info = registered.map(|registered| registered.client.info());
        let own = self.channels.get(channel);
        ClientInfo {
            chan_info: own.map(|own| own.info.clone()).unwrap_or_default(),
            ..info.unwrap_or_default()
        }
    }
}
