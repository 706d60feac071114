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
use crate::access::Asker;
use crate::gateway::centrifuge::calls::{self, Published};
use crate::gateway::centrifuge::{Ask, ChannelOptions};
use crate::gateway::dispatch::message::{Appending, Asked};
use crate::gateway::dispatch::shape::page_bytes;
use crate::gateway::session::answer::{Cost, Pending, Weight};
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
            return Ok(own.believed());
        }
        match self.caller.asker.claim() {
            Some(_) => Ok(self.caller.asker.clone()),
            None => Err(Code::PermissionDenied),
        }
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

    /// Whether who is in a channel may be told.
    fn may_see(&mut self, channel: &str) -> Result<(), Refused> {
        if !self.options_of(channel)?.presence {
            return Err(Code::NotAvailable.into());
        }
        let asker = self.asker_for(Ask::Presence, channel)?;
        match asker.reads_by_name(channel.as_bytes()) {
            true => Ok(()),
            false => Err(Code::PermissionDenied.into()),
        }
    }

    pub(super) fn presence(&mut self, id: u32, channel: &str) -> Result<(), Refused> {
        let reply = match self.may_see(channel) {
            Ok(()) => {
                let bytes = page_bytes(&self.shared.options.limits);
                let presence = self.shared.hub.presence(channel, bytes);
                Reply {
                    presence: Some(PresenceResult { presence }),
                    ..Reply::default()
                }
            }
            Err(Refused::Answer(code)) => Reply::refused(code),
            Err(end) => return Err(end),
        };
        self.reply(id, Method::PresenceGet, reply);
        Ok(())
    }

    pub(super) fn presence_stats(&mut self, id: u32, channel: &str) -> Result<(), Refused> {
        let reply = match self.may_see(channel) {
            Ok(()) => {
                let (clients, users) = self.shared.hub.presence_stats(channel);
                let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
                Reply {
                    presence_stats: Some(PresenceStatsResult {
                        num_clients: number(clients),
                        num_users: number(users),
                    }),
                    ..Reply::default()
                }
            }
            Err(Refused::Answer(code)) => Reply::refused(code),
            Err(end) => return Err(end),
        };
        self.reply(id, Method::PresenceGet, reply);
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
