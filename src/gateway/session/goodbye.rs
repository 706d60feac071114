//! How a connection ends.
//!
//! Owns: the close frame, the wait for the client's, and when clients come back after a server's end. Promises: bounded
//! time, whatever the client does. Must not: decide that it ends.

use std::future::poll_fn;
use std::time::Duration;

use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::super::http::timeouts::farewell;
use super::inbound::Inbound;
use super::{Session, random};
use tideline_wire::centrifuge::Disconnect;

/// What RFC 6455 has room for.
const CLOSE_REASON_BYTES_MAX: usize = 123;

/// After how long the clients of a server that ends come back: so many at a time that whoever serves them keeps up.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Return {
    at_least_ms: u64,
    spread_ms: u64,
}

impl Return {
    /// Of so many connections. In a cluster other nodes are there already; a server takes a moment to start again.
    pub(in super::super) fn of(connections: usize, is_in_cluster: bool) -> Return {
        Return {
            at_least_ms: if is_in_cluster { 0 } else { RESTART_MS },
            spread_ms: (connections as u64 / RETURNS_PER_MS).clamp(SPREAD_MS_MIN, SPREAD_MS_MAX),
        }
    }

    /// For one of them, by chance.
    pub(super) fn in_ms(self) -> u64 {
        self.at_least_ms + random() % self.spread_ms
    }
}

const RESTART_MS: u64 = 500;
const RETURNS_PER_MS: u64 = 2;
const SPREAD_MS_MIN: u64 = 100;
const SPREAD_MS_MAX: u64 = 10_000;

impl Session {
    /// Closes with a code of ours, counted under a reason.
    pub(super) async fn close_saying(self: Box<Self>, why: Disconnect, counted: &'static str) {
        let closes = &self.shared.metrics.families.closes;
        closes.of(&[counted]).increment(1);
        let mut reason = why.reason.into_owned();
        reason.truncate(reason.floor_char_boundary(CLOSE_REASON_BYTES_MAX));
        tracing::debug!(code = why.code, %reason, "closing a connection");
        let frame = CloseFrame {
            code: why.code.into(),
            reason: reason.into(),
        };
        let is_answered = !self.is_stream();
        self.close(Some(frame), is_answered).await;
    }

    /// Says goodbye as well as the client lets us, in bounded time.
    pub(super) async fn close(self: Box<Self>, frame: Option<CloseFrame>, is_answered: bool) {
        let Session {
            mut socket,
            mut reader,
            jobs,
            subscriptions,
            mut outbox,
            ..
        } = *self;
        drop((jobs, subscriptions));
        let _ = timeout(GOODBYE_TIME, async {
            outbox.close(frame);
            let written = poll_fn(|context| outbox.poll_write(&mut socket, context)).await;
            if written.is_err() || !is_answered {
                return;
            }
            // The client answers with a close of its own, perhaps behind much else that is under way.
            while let Ok(message) = poll_fn(|context| reader.poll(&mut socket, context)).await {
                if matches!(message, Inbound::Close(_)) {
                    break;
                }
            }
        })
        .await;
        drop((reader, outbox));
        farewell(socket, GOODBYE_TIME).await;
    }
}

const GOODBYE_TIME: Duration = Duration::from_secs(2);
