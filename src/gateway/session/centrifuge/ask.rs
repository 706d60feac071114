//! Publications, history, presence and RPC.
//!
//! Owns: what a client may ask of a channel. Promises: a publication is queued when its command has begun, so the order
//! of commands is the order of publications; a remote call is the native method of that name, with the rights that it
//! has natively. Must not: encode.

use std::sync::Arc;

use futures_util::FutureExt as _;

use super::refused::Refused;
use super::{Centrifuge, Session};
use crate::Shared;
use crate::centrifuge::{Ask, calls};
use crate::dispatch::shape::page_bytes;
use crate::dispatch::timelines::message::{Appending, Asked};
use crate::entrance::door::Door;
use crate::session::answer::Weight;
use tideline_model::access::{Asker, Membership, Right, Rights};
use tideline_timelines::timeline::{Append, DIRECT};
use tideline_wire::centrifuge::{
    ClientInfo, Code, Encoding, HistoryRequest, PublishRequest, Published, Reply, RpcRequest,
    message_id,
};
use tideline_wire::{Call, Id, Method, Reason, Request, jsonrpc};

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

    /// Who asks this of a channel, if its options have that.
    fn asking(&mut self, what: Ask, channel: &str) -> Result<(Arc<Shared>, Asker), Refused> {
        self.own().options.channels.having(what, channel)?;
        let asker = self.asker_for(what, channel)?;
        Ok((Arc::clone(&self.shared), asker))
    }

    pub(super) fn publish(
        &mut self,
        id: u32,
        request: PublishRequest,
        bytes: usize,
    ) -> Result<(), Refused> {
        let append = self.publication(request)?;
        let appending = Appending {
            prepared: self.shared.timelines.prepare(append, None),
            asked: Asked::One,
            span: None,
        };
        let has_result = false;
        if self
            .jobs
            .append(Some(Id::Numbered { id, has_result }), appending, bytes)
        {
            self.submit_appends();
        }
        Ok(())
    }

    fn publication(&mut self, request: PublishRequest) -> Result<Append, Refused> {
        let PublishRequest {
            channel,
            data,
            kind,
        } = request;
        self.own().options.channels.having(Ask::Publish, &channel)?;
        if kind != 0 {
            return Err(Code::NotAvailable.into());
        }
        if data.is_empty() {
            return Err(Code::BadRequest.into());
        }
        let asker = self.asker_for(Ask::Publish, &channel)?;
        let own = self.own();
        own.published += 1;
        let published = Published {
            data,
            is_json: own.encoding == Encoding::Json,
            info: own.info_in(&channel),
            message_id: Some(message_id(&own.client(), own.published)),
            ..Published::default()
        };
        let append = calls::append(&self.shared, &asker, &channel, published);
        Ok(append.map_err(|failure| Code::of(failure.reason))?)
    }

    pub(super) fn history(
        &mut self,
        id: u32,
        request: HistoryRequest,
        bytes: usize,
    ) -> Result<(), Refused> {
        let (shared, asker) = self.asking(Ask::History, &request.channel)?;
        self.read(id, Method::MessageRange, bytes, async move {
            let history = calls::history(&shared, &asker, request).await?;
            Ok(Reply {
                history: Some(history),
                ..Reply::default()
            })
        });
        Ok(())
    }

    pub(super) fn presence(
        &mut self,
        id: u32,
        channel: String,
        bytes: usize,
    ) -> Result<(), Refused> {
        let (shared, asker) = self.asking(Ask::Presence, &channel)?;
        self.read(id, Method::PresenceGet, bytes, async move {
            let bytes_max = page_bytes(&shared.options.limits);
            let presence = calls::presence(&shared, &asker, &channel, bytes_max).await?;
            Ok(Reply {
                presence: Some(presence),
                ..Reply::default()
            })
        });
        Ok(())
    }

    pub(super) fn presence_stats(
        &mut self,
        id: u32,
        channel: String,
        bytes: usize,
    ) -> Result<(), Refused> {
        let (shared, asker) = self.asking(Ask::Presence, &channel)?;
        self.read(id, Method::PresenceGet, bytes, async move {
            let stats = calls::presence_stats(&shared, &asker, &channel).await?;
            Ok(Reply {
                presence_stats: Some(stats),
                ..Reply::default()
            })
        });
        Ok(())
    }

    fn read(
        &mut self,
        id: u32,
        method: Method,
        bytes: usize,
        read: impl Future<Output = Result<Reply, Code>> + Send + 'static,
    ) {
        let read = read.map(|read| (read, Vec::new()));
        self.begin_command(id, method, (bytes, Weight::Page), read);
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
            true => Err(Reason::MethodNotFound.into()),
            false => Ok(request),
        });
        // Where rights are decided, a client that has shown no credential has none.
        let is_known = self.shared.door.is_none() || self.caller.asker.claim().is_some();
        if request.is_ok() && !is_known {
            return Err(Code::PermissionDenied.into());
        }
        let has_result = true;
        let call = Call {
            id: Some(Id::Numbered { id, has_result }),
            method: request.as_ref().ok().map(Request::method),
            traceparent: None,
            request,
        };
        self.one(call, bytes);
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
