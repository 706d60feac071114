//! What ends with time, and what is renewed before.
//!
//! Owns: the ends of connections, of subscriptions, and of clients that never connect. Promises: a client that renews
//! in time, or within 25 seconds after, is not ended. Must not: judge a token.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::channels::GRACE_MS;
use super::connect::VERSION;
use super::recovery::ttl;
use super::refused::Refused;
use super::{Centrifuge, Session};
use crate::credentials::TokenRefused;
use crate::dispatch::server::session::{is_same_caller, take};
use tideline_wire::centrifuge::{
    Code, Disconnect, Error, RefreshRequest, RefreshResult, Reply, SubRefreshRequest,
    SubRefreshResult, Unsubscribe,
};
use tideline_wire::{Close, Method};

impl Session {
    /// When something of this dialect may be due.
    pub(in super::super) fn centrifuge_due(&self) -> Option<Instant> {
        let own = self.centrifuge.as_deref()?;
        if let Some(at) = own.connect_by() {
            return Some(at);
        }
        let ends = [own.ends_at(), own.channels.next_end()];
        let next = ends.into_iter().flatten().min()?;
        let wait_ms = next.saturating_sub(self.shared.clock.now_ms()).min(FAR_MS);
        Some(Instant::now() + Duration::from_millis(wait_ms))
    }

    /// Ends what was not refreshed in time: subscriptions, or the connection.
    pub(in super::super) fn end_what_is_over(&mut self) -> Option<Disconnect> {
        let now_ms = self.shared.clock.now_ms();
        let own = self.centrifuge.as_deref_mut()?;
        if own.connect_by().is_some_and(|at| at <= Instant::now()) {
            return Some(Disconnect::STALE);
        }
        if own.ends_at().is_some_and(|at| at <= now_ms) {
            return Some(Disconnect::EXPIRED);
        }
        while let Some(channel) = self.own().channels.ended(now_ms) {
            self.leave_saying(&channel, Unsubscribe::expired());
        }
        None
    }

    /// Shows a newer token for the connection.
    pub(super) fn refresh(&mut self, id: u32, request: &RefreshRequest) -> Result<(), Refused> {
        if request.token.is_empty() {
            return Err(Refused::End(Disconnect::BAD_REQUEST));
        }
        let shown = self.shown(&request.token);
        let connection = shown.map_err(Refused::when_refreshing)?;
        let shared = Arc::clone(&self.shared);
        let own = self.own();
        if connection.user != own.user() {
            return Err(Refused::End(Disconnect::INVALID_TOKEN));
        }
        own.expires_at = connection.expires_at;
        if let (Some(registered), Some(info)) = (&own.registered, connection.info) {
            registered.client.set_info(info);
        }
        let client = own.client().as_ref().to_owned();
        let live = self.caller.live.clone();
        let before = live.as_ref().and_then(|live| live.credential());
        if let (Some(door), Some(live), Some(before), Some(credential)) =
            (&shared.door, live, before, connection.credential)
        {
            if !is_same_caller(&before.identity, &credential.identity) {
                return Err(Refused::End(Disconnect::INVALID_TOKEN));
            }
            take(door, &mut self.caller, &live, credential);
        }
        self.move_to(connection.subs);
        let (expires, ttl) = ttl(&shared, connection.expires_at);
        let reply = Reply {
            refresh: Some(RefreshResult {
                client,
                version: VERSION.to_owned(),
                expires,
                ttl,
            }),
            ..Reply::default()
        };
        self.reply(id, Method::SessionRenew, reply);
        Ok(())
    }

    /// Shows a newer token for a subscription.
    pub(super) fn refresh_subscription(
        &mut self,
        id: u32,
        request: SubRefreshRequest,
    ) -> Result<(), Refused> {
        let SubRefreshRequest { channel, token } = request;
        if token.is_empty() {
            return Err(Refused::End(Disconnect::BAD_REQUEST));
        }
        if !self.own().channels.is_open(&channel) {
            return Err(Code::PermissionDenied.into());
        }
        let expires_at = match self.shown_for(&channel, &token) {
            Ok(shown) => shown.expires_at,
            Err(TokenRefused::Expired) => {
                self.refuse(id, Code::TokenExpired.reason(), try_another());
                return Ok(());
            }
            Err(why) => return Err(why.into()),
        };
        self.own().channels.renew(&channel, expires_at);
        let (expires, ttl) = ttl(&self.shared, expires_at);
        let reply = Reply {
            sub_refresh: Some(SubRefreshResult { expires, ttl }),
            ..Reply::default()
        };
        self.reply(id, Method::SessionRenew, reply);
        Ok(())
    }
}

impl Centrifuge {
    /// When the connection ends, ms: some time after it has expired, as it may be refreshed until then.
    fn ends_at(&self) -> Option<u64> {
        self.expires_at.map(|at| at.saturating_add(GRACE_MS))
    }

    /// What a connection that is closed for this gets as the reason.
    pub(in super::super) fn disconnect(&self, why: Close, now_ms: u64) -> Disconnect {
        let has_expired = self.expires_at.is_some_and(|at| at <= now_ms);
        match why {
            Close::Unauthenticated if has_expired => Disconnect::EXPIRED,
            why => Disconnect::of(why),
        }
    }
}

/// The answer to a token for a channel that has expired meanwhile. It is temporary: after any other error SDKs give the
/// subscription up.
fn try_another() -> Error {
    Error {
        temporary: true,
        ..Code::TokenExpired.into()
    }
}

/// The timer looks again after this at the latest.
const FAR_MS: u64 = 3_600_000;
