//! How long an HTTP connection is waited for: for a request, while its client takes an answer, after it has ended its
//! own side, and when it is closed.
//!
//! Owns: the time for a head, the least speed of a reader, the answer to a client that has ended its side, and the way
//! in which a socket is closed so that the last answer arrives. Promises: each wait ends. Must not: know what is sent.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, timeout, timeout_at};

use super::super::entrance::socket::Socket;

/// Time for a request's head, and until the next one on a kept connection. A node that passes a client on has that wait
/// by its own settings, and keeps its connection for a moment.
pub(in super::super) fn head_time_max(is_passed: bool, request_time_max: Duration) -> Duration {
    match is_passed {
        true => HEAD_TIME_MAX,
        false => request_time_max.min(HEAD_TIME_MAX),
    }
}

/// A head is one packet or two, and an idle connection takes a place.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);

/// Whether a deadline was noticed so late that this process was away (stopped, suspended, without a processor): then
/// the client could not be heard, and gets its time anew.
pub(in super::super) fn is_late(due: Instant) -> bool {
    due.elapsed() > LATE
}

const LATE: Duration = Duration::from_millis(250);

/// A socket whose writes do not wait for ever: a client that stops reading a response, or reads it by the byte, gives
/// its place free. A client that has ended its side behind a request still gets the answer: hyper, which would drop the
/// request, learns of the end only after the answer.
pub(in super::super) struct Impatient {
    socket: Socket,
    patience: Duration,
    /// Runs from the moment at which the socket takes nothing until it has taken a step.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Bytes taken since then.
    taken: usize,
    /// A request is being answered.
    answers: Arc<AtomicBool>,
    /// Not all that was written is on its way.
    is_writing: bool,
    /// `Some` = the client has ended its side, and may be gone. When this elapses it counts as gone; it runs anew
    /// whenever the client takes something.
    ended: Option<Pin<Box<Sleep>>>,
}

/// While one of these exists, a client that has ended its side still gets its answer. It is dropped once the answer is
/// made; an answer that is made while it is sent keeps it to the last piece.
pub(in super::super) struct Owed(Arc<AtomicBool>);

impl Owed {
    pub(in super::super) fn new(answers: &Arc<AtomicBool>) -> Arc<Owed> {
        answers.store(true, Ordering::Relaxed);
        Arc::new(Owed(Arc::clone(answers)))
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Impatient {
    pub(in super::super) fn new(socket: Socket, patience: Duration) -> Impatient {
        Impatient {
            socket,
            patience,
            stalled: None,
            taken: 0,
            answers: Arc::default(),
            is_writing: false,
            ended: None,
        }
    }

    pub(in super::super) fn into_inner(self) -> Socket {
        self.socket
    }

    /// What [`Owed`] sets while a request is being answered.
    pub(in super::super) fn answers(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.answers)
    }

    /// Passes on what a write said, and times out one that has been too slow.
    fn timed(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.is_writing = true;
        if let Poll::Ready(result) = written {
            if let Some(ended) = &mut self.ended {
                ended.as_mut().reset(Instant::now() + ENDED_TIME);
            }
            self.taken += *result.as_ref().unwrap_or(&0);
            if self.taken >= STEP_BYTES {
                self.over();
            }
            return Poll::Ready(result);
        }
        let patience = self.patience;
        if self.stalled.is_none() {
            self.taken = 0;
        }
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(sleep(patience)));
        while stalled.as_mut().poll(context).is_ready() {
            if !is_late(stalled.deadline()) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            stalled.as_mut().reset(Instant::now() + patience);
        }
        Poll::Pending
    }

    fn over(&mut self) {
        self.stalled = None;
        self.taken = 0;
    }
}

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ended.is_none() {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut self.socket).poll_read(context, buffer))?;
            if buffer.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
        }
        let is_owed = self.is_writing || self.answers.load(Ordering::Relaxed);
        let ended = self
            .ended
            .get_or_insert_with(|| Box::pin(sleep(ENDED_TIME)));
        match is_owed {
            true => ended.as_mut().poll(context).map(Ok),
            false => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.timed(written, context)
    }

    /// Hyper flushes when it has written all that it has: a new response begins with new patience.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.over();
        ready!(Pin::new(&mut self.socket).poll_flush(context))?;
        self.is_writing = false;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, slices);
        self.timed(written, context)
    }
}

/// Closes a connection so that what was written last arrives. Bytes that are unread at a close make the system
/// send a reset, which destroys what the client has not read yet: so what the client still sends is read and forgotten,
/// until it ends, falls silent, or has had `time_max`.
pub(in super::super) async fn farewell(
    mut socket: impl AsyncRead + AsyncWrite + Unpin,
    time_max: Duration,
) {
    let _ = timeout_at(Instant::now() + time_max, async {
        if socket.shutdown().await.is_err() {
            return;
        }
        let mut waste = vec![0; WASTE_BYTES];
        let mut left = WASTE_BYTES_MAX;
        while let Ok(Ok(read @ 1..)) = timeout(SILENCE_MAX, socket.read(&mut waste)).await {
            let Some(rest) = left.checked_sub(read) else {
                return;
            };
            left = rest;
        }
    })
    .await;
}

/// How long a client that has ended its side and takes nothing still gets its answer. It may be gone, and the answer
/// may cost much.
const ENDED_TIME: Duration = Duration::from_secs(3);
/// So much a client has to take in the time for a body, or the rest of the response.
const STEP_BYTES: usize = 1 << 20;
const WASTE_BYTES: usize = 16 << 10;
/// Far above the largest body that is taken: a client that sends it to its end hears why it was refused.
const WASTE_BYTES_MAX: usize = 128 << 20;
const SILENCE_MAX: Duration = Duration::from_secs(2);
