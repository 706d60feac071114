//! How a connection ends.
//!
//! Owns: the close frame, and the wait for the client's. Promises: bounded time, whatever the client does. Must not:
//! decide that it ends.

use std::future::poll_fn;
use std::time::Duration;

use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::super::http::timeouts::farewell;
use super::Session;
use super::inbound::Inbound;
use tideline_wire::centrifuge::Disconnect;

/// What RFC 6455 has room for.
const CLOSE_REASON_BYTES_MAX: usize = 123;

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
