//! Publications, history, presence and RPC.
//!
//! Owns: who may ask for what of a channel. Promises: a publication is queued when its command has begun, so the order
//! of commands is the order of publications; a remote call is the native method of that name, with the rights that it
//! has natively. Must not: encode.

use std::sync::Arc;

use futures_util::FutureExt as _;

use super::refused::Refused;
use super::subscribe::taken;
use super::{Centrifuge, Session};
use crate::access::{Asker, Membership, Right, Rights};
use crate::gateway::Shared;
use crate::gateway::centrifuge::calls::{self, Published};
use crate::gateway::centrifuge::{Ask, ChannelOptions};
use crate::gateway::dispatch::message::{Appending, Asked};
use crate::gateway::dispatch::shape::page_bytes;
use crate::gateway::door::Door;
use crate::gateway::session::answer::{Cost, Pending, Weight};
use crate::timeline::DIRECT;
use crate::wire::centrifuge::{
    ClientInfo, Code, Disconnect, HistoryRequest, PresenceResult, PresenceStatsResult,
    PublishRequest, Reply, RpcRequest, Ticket, message_id, rpc_error,
};
use crate::wire::{self, Call, Failure, Id, Method, Request, jsonrpc};

impl Session {
    /// Who asks for something of a channel: as who is believed where the options of this dialect give it, else by
    /// native rights.
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

    /// Who is believed in a channel. In this way nobody makes a direct conversation, which two others may be going to.
    pub(super) fn believed_in(&mut self, channel: &str) -> Asker {
        let own = self.own();
        match channel.starts_with(DIRECT) && !own.options.insecure {
            true => own.believed().making_nothing(),
            false => own.believed(),
        }
    }

    /// Whether options let the client make a channel: before them the policy of its name counts.
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
        let (shared, ticket) = (Arc::clone(&self.shared), Ticket::own(id));
        let answer = Arc::clone(&ticket);
        let work = async move {
            match calls::history(&shared, &asker, request).await {
                Ok(history) => {
                    answer.give(Reply {
                        history: Some(history),
                        ..Reply::default()
                    });
                    taken()
                }
                Err(code) => {
                    answer.give(Reply::refused(code));
                    Err(Failure::new(code.reason()))
                }
            }
        };
        let id = Id::Ticket(wire::Ticket(ticket));
        let begun = self.begun(Some(id), Method::MessageRange, Pending::Work(work.boxed()));
        let cost = Cost {
            calls: 1,
            bytes,
            weight: Weight::Page,
        };
        self.jobs.one(&self.shared, begun, cost);
        Ok(())
    }

    pub(super) fn presence(&mut self, id: u32, channel: &str, bytes: usize) -> Result<(), Refused> {
        self.tell_presence(id, channel, bytes, |shared, channel| {
            let bytes = page_bytes(&shared.options.limits);
            let presence = channel.map(|channel| shared.hub.presence(channel, bytes));
            Reply {
                presence: Some(PresenceResult {
                    presence: presence.unwrap_or_default(),
                }),
                ..Reply::default()
            }
        })
    }

    pub(super) fn presence_stats(
        &mut self,
        id: u32,
        channel: &str,
        bytes: usize,
    ) -> Result<(), Refused> {
        self.tell_presence(id, channel, bytes, |shared, channel| {
            let stats = channel.map(|channel| shared.hub.presence_stats(channel));
            let (clients, users) = stats.unwrap_or_default();
            let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
            Reply {
                presence_stats: Some(PresenceStatsResult {
                    num_clients: number(clients),
                    num_users: number(users),
                }),
                ..Reply::default()
            }
        })
    }

    /// Answers with who is in a channel, by `tell`; without the channel nobody is.
    fn tell_presence(
        &mut self,
        id: u32,
        channel: &str,
        bytes: usize,
        tell: fn(&Shared, Option<&str>) -> Reply,
    ) -> Result<(), Refused> {
        if !self.options_of(channel)?.presence {
            return Err(Code::NotAvailable.into());
        }
        let asker = self.asker_for(Ask::Presence, channel)?;
        let (shared, ticket) = (Arc::clone(&self.shared), Ticket::own(id));
        let (answer, channel) = (Arc::clone(&ticket), channel.to_owned());
        let work = async move {
            match calls::shows_presence(&shared, &asker, &channel).await {
                Ok(shows) => {
                    answer.give(tell(&shared, shows.then_some(channel.as_str())));
                    taken()
                }
                Err(code) => {
                    answer.give(Reply::refused(code));
                    Err(Failure::new(code.reason()))
                }
            }
        };
        let id = Id::Ticket(wire::Ticket(ticket));
        let begun = self.begun(Some(id), Method::PresenceGet, Pending::Work(work.boxed()));
        let cost = Cost {
            calls: 1,
            bytes,
            weight: Weight::Page,
        };
        self.jobs.one(&self.shared, begun, cost);
        Ok(())
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
        // Where rights are decided, whoever has shown no credential has none.
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
