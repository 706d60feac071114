//! Frames of WebSocket as they come from a socket, for `tests/fuzz`.
//!
//! Owns: nothing. Promises: what is taken is no longer than what came, and text is text. Must not: need a socket.

use std::sync::LazyLock;

use super::inbound::{Inbound, Reader};
use tideline_base::bounds::{Bounds, Resource};
use tideline_base::faults::Decoder;
use tideline_wire::Frames;

pub(crate) const TARGETS: &[Decoder] = &[("websocket", frames)];

/// The bytes behind a handshake.
fn frames(input: &[u8]) {
    static BOUNDS: LazyLock<Bounds> = LazyLock::new(Bounds::default);
    let share = BOUNDS.of(Resource::InboundBytes).share(None);
    let mut reader = Reader::new(input, 1 << 20, share);
    let mut came = 0;
    while let Ok(Some(inbound)) = reader.take() {
        let payload = match inbound {
            Inbound::Data(frames, payload) => {
                assert!(frames == Frames::Binary || std::str::from_utf8(&payload).is_ok());
                payload.len()
            }
            Inbound::Ping(payload) => payload.len(),
            Inbound::Close(frame) => frame.map_or(0, |frame| frame.reason.len()),
            Inbound::Pong => 0,
        };
        came += payload + 6;
        assert!(came <= input.len());
    }
}
