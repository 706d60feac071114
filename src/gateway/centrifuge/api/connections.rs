//! Calls of back ends about connections: orders that sessions are to carry out.
//!
//! Owns: which connections a call means. Promises: a call is answered when the order is queued at each connection,
//! which carries it out at its next turn; these calls are in the audit log. Must not: carry out an order itself.

use std::sync::Arc;

use super::super::super::dispatch::audit::who;
use super::super::hub::{Client, Order, Wish};
use super::outcome::done;
use super::{Backend, Outcome};
use crate::access::Right;
use crate::credentials::{ChannelClaim, Overrides};
use crate::wire::centrifuge::{
    ApiDisconnect, ApiRefresh, ApiSubscribe, ApiUnsubscribe, BoolValue, Code, Disconnect,
    SubscribeRequest,
};

/// Which connections are meant. Without a user one that is named by its client or session.
struct Meant<'m> {
    user: &'m str,
    client: &'m str,
    session: &'m str,
}

impl Meant<'_> {
    fn has(&self, client: &Client) -> bool {
        let is_named = !self.client.is_empty() || !self.session.is_empty();
        let is_users = *client.user == *self.user || (self.user.is_empty() && is_named);
        let is_client = self.client.is_empty() || *client.id == *self.client;
        let session = client.emulated.as_deref();
        is_users && is_client && (self.session.is_empty() || session == Some(self.session))
    }

    /// The connections that are meant, if the caller may send them orders.
    fn find(
        &self,
        method: &'static str,
        channel: &str,
        backend: &Backend,
    ) -> Result<Vec<Arc<Client>>, super::ApiError> {
        backend.check(Right::Admin)?;
        let mut found = backend.shared.hub.clients();
        found.retain(|client| self.has(client));
        let claim = backend.asker().claim();
        let by = claim.map_or_else(|| "http_api.key".to_owned(), |claim| who(claim.identity()));
        let from = backend.caller.address.map(tracing::field::display);
        tracing::info!(
            target: "audit",
            by, from, method, channel, user = self.user, client = self.client, connections = found.len()
        );
        Ok(found)
    }
}

/// Has connections subscribed by the server.
pub(super) fn subscribe(asked: &ApiSubscribe, backend: &Backend) -> Outcome {
    backend.options_of(&asked.channel)?;
    let value = |one: Option<BoolValue>| one.map(|one| one.value);
    let wish = Wish {
        channel: asked.channel.clone(),
        claim: ChannelClaim {
            info: asked.info()?,
            data: asked.data()?,
            overrides: Overrides {
                presence: value(asked.overrides.presence),
                join_leave: value(asked.overrides.join_leave),
                force_push_join_leave: value(asked.overrides.force_push_join_leave),
            },
        },
        expires_at: at_ms(asked.expire_at),
        position: asked.recover_since.as_ref().map(|since| SubscribeRequest {
            channel: asked.channel.clone(),
            recover: true,
            epoch: since.epoch.clone(),
            offset: since.offset,
            ..SubscribeRequest::default()
        }),
        is_of_token: false,
    };
    let meant = Meant {
        user: &asked.user,
        client: &asked.client,
        session: &asked.session,
    };
    for client in meant.find("subscribe", &asked.channel, backend)? {
        client.order(Order::Subscribe(Box::new(wish.clone())));
    }
    done()
}

/// Ends subscriptions.
pub(super) fn unsubscribe(asked: ApiUnsubscribe, backend: &Backend) -> Outcome {
    if asked.channel.is_empty() {
        return Err(Code::BadRequest.into());
    }
    let meant = Meant {
        user: &asked.user,
        client: &asked.client,
        session: &asked.session,
    };
    for client in meant.find("unsubscribe", &asked.channel, backend)? {
        client.order(Order::Unsubscribe(asked.channel.clone()));
    }
    done()
}

/// Closes connections.
pub(super) fn disconnect(asked: &ApiDisconnect, backend: &Backend) -> Outcome {
    let close = match &asked.disconnect {
        None => Disconnect::FORCED,
        Some(close) if close.is_fit() => Disconnect {
            code: close.code,
            reason: close.reason.clone().into(),
        },
        Some(_) => return Err(Code::BadRequest.into()),
    };
    let meant = Meant {
        user: &asked.user,
        client: &asked.client,
        session: &asked.session,
    };
    for client in meant.find("disconnect", "", backend)? {
        if !asked.whitelist.iter().any(|stays| *client.id == **stays) {
            client.order(Order::Disconnect(close.clone()));
        }
    }
    done()
}

/// Has connections end at another time.
pub(super) fn refresh(asked: &ApiRefresh, backend: &Backend) -> Outcome {
    let meant = Meant {
        user: &asked.user,
        client: &asked.client,
        session: &asked.session,
    };
    for client in meant.find("refresh", "", backend)? {
        client.order(match asked.expired {
            true => Order::Expire,
            false => Order::Refresh {
                expires_at: at_ms(asked.expire_at),
                info: Some(asked.info.clone()).filter(|info| !info.is_empty()),
            },
        });
    }
    done()
}

/// Seconds since 1970 in ms; not above 0, it is never.
fn at_ms(seconds: i64) -> Option<u64> {
    let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
    seconds.map(|seconds| seconds.saturating_mul(1_000))
}
