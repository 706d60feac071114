//! What waits to be written on one connection, and its way into the socket.
//!
//! Owns: the queue of frames, and their headers; a response of HTTP has none. Promises: a payload that many connections
//! get is written from where it is, without a copy; a frame that has begun goes out whole before anything else; long
//! messages are several frames, so that a ping need not wait for all of one. Must not: know what a message says, or
//! read the socket.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{BufMut as _, Bytes, BytesMut};
use tokio::io::AsyncWrite as _;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Control, Data, OpCode};

use super::entrance::socket::Socket;
use tideline_wire::Frames;

/// Frames that wait for the socket.
pub(super) struct Outbox {
    queue: VecDeque<Frame>,
    /// Of their payloads.
    bytes: usize,
    /// How much of the first frame, its header included, has gone out already.
    sent: usize,
    /// `None` = a response of HTTP, whose messages go out as they are.
    data: Option<Data>,
    /// Something was written that the socket may still keep.
    flushing: bool,
    /// Since when the socket takes nothing.
    stalled: Option<Instant>,
}

/// A frame of RFC 6455, unmasked.
struct Frame {
    /// `None` = it has no header.
    opcode: Option<OpCode>,
    header: [u8; HEADER_BYTES_MAX],
    payload: Bytes,
}

impl Frame {
    /// `is_final`: it ends its message.
    fn new(opcode: OpCode, is_final: bool, payload: Bytes) -> Frame {
        let fields = FrameHeader {
            is_final,
            opcode,
            ..FrameHeader::default()
        };
        let mut header = [0; HEADER_BYTES_MAX];
        let written = fields.format(payload.len() as u64, &mut &mut header[..]);
        written.expect("the header of the longest payload fits");
        Frame {
            opcode: Some(opcode),
            header,
            payload,
        }
    }

    fn header(&self) -> &[u8] {
        if self.opcode.is_none() {
            return &[];
        }
        let is_short = self.payload.len() <= SHORT_BYTES_MAX;
        &self.header[..if is_short { 2 } else { HEADER_BYTES_MAX }]
    }

    /// Bytes on the wire.
    fn len(&self) -> usize {
        self.header().len() + self.payload.len()
    }
}

impl Outbox {
    pub(super) fn new(frames: Frames) -> Outbox {
        let data = match frames {
            Frames::Text => Some(Data::Text),
            Frames::Binary => Some(Data::Binary),
            Frames::None => None,
        };
        Outbox {
            queue: VecDeque::new(),
            bytes: 0,
            sent: 0,
            data,
            flushing: false,
            stalled: None,
        }
    }

    /// Whether more should be put in; what is in already is at most one message more than this.
    pub(super) fn has_room(&self) -> bool {
        self.bytes < ROOM_BYTES
    }

    /// Since when the socket has taken nothing.
    pub(super) fn stalled(&self) -> Option<Instant> {
        self.stalled
    }

    /// The client could not read for a while that is not its fault: its time begins anew.
    pub(super) fn excuse(&mut self, now: Instant) {
        if self.stalled.is_some() {
            self.stalled = Some(now);
        }
    }

    /// What waits.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a message; an empty one is what its dialect has no words for.
    pub(super) fn push(&mut self, mut message: Bytes) {
        self.bytes += message.len();
        let Some(mut data) = self.data else {
            if !message.is_empty() {
                self.queue.push_back(Frame {
                    opcode: None,
                    header: Default::default(),
                    payload: message,
                });
            }
            return;
        };
        while !message.is_empty() {
            let payload = message.split_to(message.len().min(FRAME_BYTES));
            let is_final = message.is_empty();
            let frame = Frame::new(OpCode::Data(data), is_final, payload);
            self.queue.push_back(frame);
            data = Data::Continue;
        }
    }

    /// Adds a message of either kind, an empty one too.
    #[cfg(feature = "faults")]
    pub(super) fn echo(&mut self, frames: Frames, message: Bytes) {
        let data = match frames {
            Frames::Binary => Data::Binary,
            Frames::Text | Frames::None => Data::Text,
        };
        if message.is_empty() {
            let frame = Frame::new(OpCode::Data(data), true, message);
            return self.queue.push_back(frame);
        }
        let own = self.data.replace(data);
        self.push(message);
        self.data = own;
    }

    /// Adds a ping or a pong, behind those that wait and in front of all else that has not begun to go out. If too many
    /// of its kind wait, the oldest is dropped: a client that sends pings and reads nothing piles up nothing. A
    /// response has none.
    pub(super) fn control(&mut self, kind: Control, payload: Bytes) {
        if self.data.is_none() {
            return;
        }
        let (first, opcode) = (usize::from(self.sent > 0), OpCode::Control(kind));
        let waiting = self.queue.iter().skip(first);
        let waiting = waiting.take_while(|frame| matches!(frame.opcode, Some(OpCode::Control(_))));
        let mut end = first + waiting.count();
        let mut same = (first..end).filter(|at| self.queue[*at].opcode == Some(opcode));
        if let Some(oldest) = same.next()
            && 1 + same.count() >= controls_max(kind)
            && let Some(gone) = self.queue.remove(oldest)
        {
            self.bytes -= gone.payload.len();
            end -= 1;
        }
        self.bytes += payload.len();
        self.queue.insert(end, Frame::new(opcode, true, payload));
    }

    /// Drops what has not begun to go out; a close frame is the last.
    pub(super) fn close(&mut self, frame: Option<CloseFrame>) {
        self.queue.truncate(usize::from(self.sent > 0));
        self.bytes = self.queue.iter().map(|frame| frame.payload.len()).sum();
        let mut payload = BytesMut::new();
        if let Some(CloseFrame { code, reason }) = frame {
            payload.put_u16(code.into());
            payload.put_slice(reason.as_bytes());
        }
        self.control(Control::Close, payload.freeze());
    }

    /// Writes as much as the socket takes; pending = it takes no more now.
    pub(super) fn poll_write(
        &mut self,
        socket: &mut Socket,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let written = self.poll_all(socket, context);
        match &written {
            Poll::Pending => {
                self.stalled.get_or_insert_with(Instant::now);
            }
            Poll::Ready(_) => self.stalled = None,
        }
        written
    }

    fn poll_all(&mut self, socket: &mut Socket, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.queue.is_empty() {
            let written = ready!(self.poll_some(socket, context))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.stalled = None;
            self.flushing = true;
            self.went_out(written);
        }
        if self.flushing {
            ready!(Pin::new(socket).poll_flush(context))?;
            self.flushing = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes once, as many frames together as there are places for.
    fn poll_some(&self, socket: &mut Socket, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut slices = [IoSlice::new(&[]); 2 * TOGETHER_MAX];
        let (mut count, mut bytes) = (0, 0);
        for (pieces, frame) in slices.as_chunks_mut().0.iter_mut().zip(&self.queue) {
            bytes += frame.len();
            if count > 0 && bytes > TOGETHER_BYTES {
                break;
            }
            *pieces = [IoSlice::new(frame.header()), IoSlice::new(&frame.payload)];
            count += pieces.len();
        }
        let mut slices = &mut slices[..count];
        IoSlice::advance_slices(&mut slices, self.sent);
        Pin::new(socket).poll_write_vectored(context, slices)
    }

    /// So many bytes more have gone out.
    fn went_out(&mut self, bytes: usize) {
        self.sent += bytes;
        while let Some(first) = self.queue.front()
            && self.sent >= first.len()
        {
            self.sent -= first.len();
            self.bytes -= first.payload.len();
            self.queue.pop_front();
        }
    }
}

/// Frames of one kind that may wait. Pings may come together, and each gets its pong.
fn controls_max(kind: Control) -> usize {
    match kind {
        Control::Pong => 16,
        _ => 1,
    }
}

/// With this much waiting, nothing more is fetched for the connection.
const ROOM_BYTES: usize = 64 << 10;
/// Payload of a frame, at most.
const FRAME_BYTES: usize = 32 << 10;
/// Of such a frame, without a mask.
const HEADER_BYTES_MAX: usize = 4;
/// The length of a payload of up to so many bytes is within the header's first two.
const SHORT_BYTES_MAX: usize = 125;
/// Frames that are written together, at most ...
const TOGETHER_MAX: usize = 32;
/// ... and bytes, but for the first frame's: a socket with a small buffer takes more, and then waits for the peer to
/// confirm a segment that is not full, which it does late.
const TOGETHER_BYTES: usize = FRAME_BYTES;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// What comes out of an outbox through a socket that takes a few bytes at a time.
    async fn written(mut outbox: Outbox, room: usize) -> Vec<u8> {
        let (here, mut there) = tokio::io::duplex(room);
        let mut socket = Socket::Memory(Box::new(here));
        let writing = async move {
            poll_fn(|context| outbox.poll_write(&mut socket, context))
                .await
                .unwrap();
            assert_eq!((outbox.bytes(), outbox.sent), (0, 0));
        };
        let mut all = Vec::new();
        let (read, ()) = tokio::join!(there.read_to_end(&mut all), writing);
        read.unwrap();
        all
    }

    #[tokio::test]
    async fn frames_go_out_whole_however_little_the_socket_takes() {
        for room in [1, 7, 4_096, 1 << 20] {
            let mut outbox = Outbox::new(Frames::Text);
            let mut expected = Vec::new();
            for count in 0..70_u8 {
                outbox.push(Bytes::from(vec![count; usize::from(count)]));
                if count > 0 {
                    expected.extend([0x81, count]);
                    expected.extend(vec![count; usize::from(count)]);
                }
            }
            outbox.push(Bytes::from(vec![b'm'; 300]));
            expected.extend([0x81, 126, 1, 44]);
            expected.extend([b'm'; 300]);
            outbox.push(Bytes::from(vec![b'l'; FRAME_BYTES + 1]));
            expected.extend([0x01, 126, 0x80, 0]);
            expected.extend([b'l'; FRAME_BYTES]);
            expected.extend([0x80, 1, b'l']);
            assert!(written(outbox, room).await == expected, "{room}");
        }
    }

    #[tokio::test]
    async fn a_control_frame_waits_for_what_has_begun_only() {
        let mut outbox = Outbox::new(Frames::Binary);
        outbox.push(Bytes::from_static(b"begun"));
        outbox.push(Bytes::from_static(b"waits"));
        outbox.went_out(3);
        for number in 0..19_u8 {
            outbox.control(Control::Pong, Bytes::from(vec![number]));
        }
        outbox.control(Control::Ping, Bytes::from_static(b"old"));
        outbox.control(Control::Ping, Bytes::from_static(b"new"));
        assert_eq!(
            outbox.bytes(),
            "begun".len() + 16 + "new".len() + "waits".len()
        );
        let all = written(outbox, 64).await;
        let mut expected = b"egun".to_vec();
        for number in 3..19 {
            expected.extend([0x8a, 1, number]);
        }
        expected.extend(b"\x89\x03new\x82\x05waits");
        assert_eq!(all, expected);
    }

    #[tokio::test]
    async fn a_close_frame_is_the_last_and_cuts_no_frame() {
        let mut outbox = Outbox::new(Frames::Binary);
        outbox.push(Bytes::from_static(b"begun"));
        outbox.push(Bytes::from_static(b"waits"));
        outbox.went_out(3);
        outbox.close(Some(CloseFrame {
            code: 4_000.into(),
            reason: "slow".into(),
        }));
        assert_eq!(written(outbox, 64).await, b"egun\x88\x06\x0f\xa0slow");
        let mut outbox = Outbox::new(Frames::Text);
        outbox.push(Bytes::from_static(b"waits"));
        outbox.close(None);
        assert_eq!(written(outbox, 64).await, b"\x88\x00");
    }
}
