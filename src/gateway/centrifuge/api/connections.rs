//! Calls of back ends about connections: orders that sessions are to carry out.
//!
//! Owns: which connections a call means. Promises: a call is answered when the order is queued at each connection,
//! which carries it out at its next turn; these calls are in the audit log. Must not: carry out an order itself.

use std::sync::Arc;

use super::super::super::dispatch::audit::who;
use super::super::Ask;
use super::super::hub::{Client, Order, Wish};
use super::{Backend, Error, Found, Outcome};
use crate::credentials::{ChannelClaim, Overrides};
use tideline_model::access::Right;
use tideline_wire::centrifuge::{
    ApiDisconnect, ApiRefresh, ApiSubscribe, ApiUnsubscribe, Code, Disconnect, Meant,
    SubscribeRequest,
};

fn is_meant(meant: &Meant, client: &Client) -> bool {
    let is_named = !meant.client.is_empty() || !meant.session.is_empty();
    let is_users = *client.user == *meant.user || (meant.user.is_empty() && is_named);
    let is_client = meant.client.is_empty() || *client.id == *meant.client;
    let session = client.emulated.as_deref();
    is_users && is_client && (meant.session.is_empty() || session == Some(&meant.session))
}

/// The connections that are meant, if the caller may send them orders.
fn find(
    meant: &Meant,
    method: &'static str,
    channel: &str,
    backend: &Backend,
) -> Result<Vec<Arc<Client>>, Error> {
    backend.check(Right::Admin)?;
    let mut found = backend.shared.hub.clients();
    found.retain(|client| is_meant(meant, client));
    let claim = backend.asker().claim();
    let by = claim.map_or_else(|| "http_api.key".to_owned(), |claim| who(claim.identity()));
    let from = backend.caller.address.map(tracing::field::display);
    tracing::info!(
        target: "audit",
        by, from, method, channel, user = meant.user, client = meant.client, connections = found.len()
    );
    Ok(found)
}

/// Has connections subscribed by the server.
pub(super) fn subscribe(asked: ApiSubscribe<Overrides>, backend: &Backend) -> Outcome {
    backend.has(Ask::Subscribe, &asked.channel)?;
    let claim = ChannelClaim {
        info: asked.info()?,
        data: asked.data()?,
        overrides: asked.overrides,
    };
    let wish = Wish {
        channel: asked.channel,
        claim,
        expires_at: at_ms(asked.expire_at),
        position: asked.recover_since.map(|since| SubscribeRequest {
            recover: true,
            epoch: since.epoch,
            offset: since.offset,
            ..SubscribeRequest::default()
        }),
        is_of_token: false,
    };
    for client in find(&asked.meant, "subscribe", &wish.channel, backend)? {
        client.order(Order::Subscribe(Box::new(wish.clone())));
    }
    Ok(Found::Done {})
}

/// Ends subscriptions.
pub(super) fn unsubscribe(asked: &ApiUnsubscribe, backend: &Backend) -> Outcome {
    if asked.channel.is_empty() {
        return Err(Code::BadRequest.into());
    }
    for client in find(&asked.meant, "unsubscribe", &asked.channel, backend)? {
        client.order(Order::Unsubscribe(asked.channel.clone()));
    }
    Ok(Found::Done {})
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
    for client in find(&asked.meant, "disconnect", "", backend)? {
        if !asked.whitelist.iter().any(|stays| *client.id == **stays) {
            client.order(Order::Disconnect(close.clone()));
        }
    }
    Ok(Found::Done {})
}

/// Has connections end at another time.
pub(super) fn refresh(asked: &ApiRefresh, backend: &Backend) -> Outcome {
    for client in find(&asked.meant, "refresh", "", backend)? {
        client.order(match asked.expired {
            true => Order::Expire,
            false => Order::Refresh {
                expires_at: at_ms(asked.expire_at),
                info: Some(asked.info.clone()).filter(|info| !info.is_empty()),
            },
        });
    }
    Ok(Found::Done {})
}

/// Seconds since 1970 in ms; not above 0, it is never.
fn at_ms(seconds: i64) -> Option<u64> {
    let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
    seconds.map(|seconds| seconds.saturating_mul(1_000))
}
