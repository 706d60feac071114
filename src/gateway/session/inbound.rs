//! From the bytes of a socket to whole messages.
//!
//! Owns: what has come in of a message that is not whole, and since when. Promises: memory grows with the bytes that
//! have come, not with those that a header announces, counts in the bound of all connections, and is given back with
//! the message; what breaks RFC 6455 is never passed on. Must not: write; the library does that.

use std::io::Cursor;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{FrameHeader, Utf8Bytes};
use tokio_util::io::poll_read_buf;

use super::super::entrance::socket::Socket;
use super::End;
use tideline_base::bounds::{SMALL_BYTES, Share};
use tideline_wire::{Close, Frames};

/// A whole message, or a control frame.
pub(super) enum Inbound {
    /// The payload of a message; text is UTF-8.
    Data(Frames, Bytes),
    Ping(Bytes),
    Pong,
    /// What is to be sent back.
    Close(Option<CloseFrame>),
}

/// Reads the frames of one connection.
pub(super) struct Reader {
    /// What came and was not looked at yet: a few frames, or the begin of one.
    buffer: BytesMut,
    /// The frame whose payload is coming.
    frame: Option<Coming>,
    /// The data message of which not all frames have come.
    message: Option<Message>,
    bytes_max: usize,
    /// Of the message, kept until the next one is asked for.
    pub(super) share: Share,
    /// When the first byte came of what is not whole.
    since: Option<Instant>,
}

struct Coming {
    header: FrameHeader,
    mask: [u8; 4],
    /// Bytes of its payload that are not in the message yet.
    left: usize,
    /// Bytes that are.
    came: usize,
}

struct Message {
    frames: Frames,
    payload: Vec<u8>,
}

impl Reader {
    /// `read`: what came behind the handshake.
    pub(super) fn new(read: &[u8], bytes_max: usize, share: Share) -> Reader {
        Reader {
            buffer: BytesMut::from(read),
            frame: None,
            message: None,
            bytes_max,
            share,
            since: None,
        }
    }

    /// Nothing is read of a client that only listens.
    pub(super) fn deaf(share: Share) -> Reader {
        Reader {
            buffer: BytesMut::new(),
            frame: None,
            message: None,
            bytes_max: 0,
            share,
            since: None,
        }
    }

    /// From the next frame on a message has so many bytes at most.
    pub(super) fn bound(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// Since when a message has been coming in that is not whole.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// The client could not send for a while that is not its fault: its time begins anew.
    pub(super) fn excuse(&mut self, now: Instant) {
        if self.since.is_some() {
            self.since = Some(now);
        }
    }

    /// The next message. After an error nothing more comes.
    pub(super) fn poll(
        &mut self,
        socket: &mut Socket,
        context: &mut Context<'_>,
    ) -> Poll<Result<Inbound, End>> {
        if self.message.is_none() {
            self.share.resize(0);
        }
        loop {
            if let Some(whole) = self.take().map_err(End::Close)? {
                if self.message.is_none() {
                    self.since = None;
                }
                return Poll::Ready(Ok(whole));
            }
            if self.message.is_some() || self.frame.is_some() || !self.buffer.is_empty() {
                self.since.get_or_insert_with(Instant::now);
            }
            if ready!(self.poll_fill(socket, context))? == 0 {
                return Poll::Ready(Err(End::Gone));
            }
        }
    }

    /// Reads the socket once: into the message if that lacks bytes, so that these are not copied.
    fn poll_fill(
        &mut self,
        socket: &mut Socket,
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, End>> {
        let into_message = match (&self.frame, &self.message) {
            (Some(frame), Some(_)) => !is_control(frame.header.opcode),
            _ => false,
        };
        if into_message {
            self.grow().map_err(End::Close)?;
        } else if self.buffer.is_empty() {
            // It would keep the memory of the last message; a connection that idles keeps none.
            self.buffer = BytesMut::new();
        }
        let socket = Pin::new(socket);
        let read = match (&mut self.frame, &mut self.message) {
            (Some(frame), Some(message)) if into_message => {
                let from = message.payload.len();
                let room = frame.left.min(message.payload.capacity() - from);
                let mut room = (&mut message.payload).limit(room);
                let read = ready!(poll_read_buf(socket, context, &mut room));
                if let Ok(read) = read {
                    frame.unmask(&mut message.payload[from..]);
                    frame.left -= read;
                }
                read
            }
            _ => {
                let mut room = [MaybeUninit::uninit(); READ_BYTES];
                let mut room = ReadBuf::uninit(&mut room);
                let read = ready!(socket.poll_read(context, &mut room));
                let came = room.filled();
                self.buffer.extend_from_slice(came);
                read.map(|()| came.len())
            }
        };
        Poll::Ready(read.map_err(|_| End::Gone))
    }

    /// Takes a message out of what has come, if one is whole.
    pub(super) fn take(&mut self) -> Result<Option<Inbound>, Close> {
        loop {
            if self.frame.is_none() && !self.take_header()? {
                return Ok(None);
            }
            let Some(frame) = &mut self.frame else {
                return Ok(None);
            };
            if is_control(frame.header.opcode) {
                if self.buffer.len() < frame.left {
                    return Ok(None);
                }
                let mut payload = self.buffer.split_to(frame.left);
                frame.unmask(&mut payload);
                let opcode = frame.header.opcode;
                self.frame = None;
                return control(opcode, payload.freeze()).map(Some);
            }
            let (is_last, opcode) = (frame.header.is_final, frame.header.opcode);
            if self.message.is_none() && is_last && self.buffer.len() >= frame.left {
                let mut payload = self.buffer.split_to(frame.left);
                frame.unmask(&mut payload);
                self.frame = None;
                return data(frames(opcode), payload.freeze()).map(Some);
            }
            if self.message.is_none() {
                self.message = Some(Message {
                    frames: frames(opcode),
                    payload: Vec::new(),
                });
            }
            if !self.take_payload()? {
                return Ok(None);
            }
            self.frame = None;
            if is_last && let Some(Message { frames, payload }) = self.message.take() {
                return data(frames, payload.into()).map(Some);
            }
        }
    }

    /// Takes a frame's header, if it is whole.
    fn take_header(&mut self) -> Result<bool, Close> {
        let mut cursor = Cursor::new(&self.buffer[..]);
        let parsed = FrameHeader::parse(&mut cursor).map_err(|_| Close::ProtocolError)?;
        let Some((header, length)) = parsed else {
            return Ok(false);
        };
        let taken = usize::try_from(cursor.position()).unwrap_or(usize::MAX);
        let reserved = header.rsv1 || header.rsv2 || header.rsv3;
        let Some(mask) = header.mask.filter(|_| !reserved) else {
            return Err(Close::ProtocolError);
        };
        match header.opcode {
            OpCode::Control(_) if !header.is_final || length > CONTROL_BYTES_MAX => {
                return Err(Close::ProtocolError);
            }
            OpCode::Data(kind) if (kind == Data::Continue) != self.message.is_some() => {
                return Err(Close::ProtocolError);
            }
            _ => {}
        }
        let before = self.message.as_ref().map_or(0, |now| now.payload.len());
        let left = usize::try_from(length).unwrap_or(usize::MAX);
        if left > self.bytes_max.saturating_sub(before) && !is_control(header.opcode) {
            return Err(Close::TooBig);
        }
        self.buffer.advance(taken);
        self.frame = Some(Coming {
            header,
            mask,
            left,
            came: 0,
        });
        Ok(true)
    }

    /// Moves what has come of the frame's payload to the message; whether that was all.
    fn take_payload(&mut self) -> Result<bool, Close> {
        loop {
            let Some(frame) = &self.frame else {
                return Ok(false);
            };
            if frame.left == 0 || self.buffer.is_empty() {
                return Ok(frame.left == 0);
            }
            self.grow()?;
            let (Some(frame), Some(message)) = (&mut self.frame, &mut self.message) else {
                return Ok(false);
            };
            let from = message.payload.len();
            let room = message.payload.capacity() - from;
            let piece = frame.left.min(self.buffer.len()).min(room);
            message.payload.extend_from_slice(&self.buffer[..piece]);
            self.buffer.advance(piece);
            frame.unmask(&mut message.payload[from..]);
            frame.left -= piece;
        }
    }

    /// Makes room in a full message, twice as much as before, up to the end that is known.
    fn grow(&mut self) -> Result<(), Close> {
        let (Some(frame), Some(message)) = (&self.frame, &mut self.message) else {
            return Ok(());
        };
        let payload = &mut message.payload;
        if payload.len() < payload.capacity() {
            return Ok(());
        }
        let end = match frame.header.is_final {
            true => payload.len() + frame.left,
            false => self.bytes_max,
        };
        let capacity = end.min((2 * payload.capacity()).max(SMALL_BYTES));
        if !self.share.resize(capacity) {
            self.share.bound().refuse();
            return Err(Close::Overloaded);
        }
        payload.reserve_exact(capacity - payload.len());
        Ok(())
    }
}

impl Coming {
    /// Unmasks the next bytes of the payload.
    fn unmask(&mut self, bytes: &mut [u8]) {
        let key: [u8; MASK_STEP] = std::array::from_fn(|at| self.mask[(self.came + at) % 4]);
        self.came += bytes.len();
        // As numbers, because the compiler leaves an array's bytes one by one.
        let (steps, rest) = bytes.as_chunks_mut::<MASK_STEP>();
        let number = u128::from_be_bytes(key);
        for step in steps {
            *step = (u128::from_be_bytes(*step) ^ number).to_be_bytes();
        }
        rest.iter_mut()
            .zip(key)
            .for_each(|(byte, key)| *byte ^= key);
    }
}

fn is_control(opcode: OpCode) -> bool {
    matches!(opcode, OpCode::Control(_))
}

fn frames(opcode: OpCode) -> Frames {
    match opcode {
        OpCode::Data(Data::Text) => Frames::Text,
        _ => Frames::Binary,
    }
}

fn data(frames: Frames, payload: Bytes) -> Result<Inbound, Close> {
    if frames == Frames::Text && std::str::from_utf8(&payload).is_err() {
        return Err(Close::InvalidText);
    }
    Ok(Inbound::Data(frames, payload))
}

fn control(opcode: OpCode, payload: Bytes) -> Result<Inbound, Close> {
    match opcode {
        OpCode::Control(Control::Ping) => Ok(Inbound::Ping(payload)),
        OpCode::Control(Control::Pong) => Ok(Inbound::Pong),
        OpCode::Control(Control::Close) => goodbye(payload).map(Inbound::Close),
        _ => Err(Close::ProtocolError),
    }
}

/// The answer to a close frame: the same.
fn goodbye(mut payload: Bytes) -> Result<Option<CloseFrame>, Close> {
    if payload.is_empty() {
        return Ok(None);
    }
    if payload.len() < 2 {
        return Err(Close::ProtocolError);
    }
    let code = CloseCode::from(payload.get_u16());
    if !code.is_allowed() {
        return Err(Close::ProtocolError);
    }
    let reason = Utf8Bytes::try_from(payload).map_err(|_| Close::InvalidText)?;
    Ok(Some(CloseFrame { code, reason }))
}

/// Read at once, unless it is the rest of a message. On the stack, as it is not known before whether anything came.
const READ_BYTES: usize = 4 << 10;
const CONTROL_BYTES_MAX: u64 = 125;
/// Bytes unmasked at once; a multiple of the mask's four.
const MASK_STEP: usize = 16;
