//! A request on its way to the owner.
//!
//! Owns: whether it can be sent again. Promises: a body is kept only if it is small, and all that are kept are bounded
//! together; any other one goes on as it comes. Must not: decide that a request is sent again.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::http::request::Parts;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::super::super::http::body::Unread;
use super::super::super::http::kept::KEPT_BYTES_MAX;

/// See the file's opening.
pub(super) enum Outgoing {
    /// It can be sent again.
    Kept {
        head: Parts,
        body: Bytes,
        _room: Option<OwnedSemaphorePermit>,
    },
    /// It goes on as it comes.
    Streamed(Request<Incoming>),
    /// The same, and it has been sent.
    Gone,
}

/// The body of a request.
pub(super) enum Sent {
    Kept(Full<Bytes>),
    Streamed(Incoming),
}

impl Outgoing {
    /// Reads a small body, if there is room for it.
    pub(super) async fn of(
        request: Request<Incoming>,
        room: &Arc<Semaphore>,
        time_max: Duration,
    ) -> Result<Outgoing, Unread> {
        let bytes = request.body().size_hint().exact();
        let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok());
        let room = match bytes {
            Some(0) => Some(None),
            Some(bytes @ 1..=KEPT_BYTES_MAX) => {
                let room = Arc::clone(room).try_acquire_many_owned(bytes);
                room.ok().map(Some)
            }
            _ => None,
        };
        let Some(room) = room else {
            return Ok(Outgoing::Streamed(request));
        };
        let (head, mut body) = request.into_parts();
        let reading = async {
            // Copied: pieces that were kept would keep the whole buffers that they came in.
            let mut read = Vec::with_capacity(bytes.unwrap_or(0) as usize);
            while let Some(frame) = body.frame().await {
                if let Ok(data) = frame?.into_data() {
                    read.extend_from_slice(&data);
                }
            }
            Ok::<_, hyper::Error>(read)
        };
        let body = timeout(time_max, reading).await;
        let body = body.map_err(|_| Unread::TooSlow)?;
        Ok(Outgoing::Kept {
            head,
            body: body.map_err(|_| Unread::Broken)?.into(),
            _room: room,
        })
    }

    /// The request, to be sent; `None` = it was sent already, and is not here.
    pub(super) fn take(&mut self) -> Option<Request<Sent>> {
        if let Outgoing::Kept { head, body, .. } = self {
            let body = Sent::Kept(Full::new(body.clone()));
            return Some(Request::from_parts(head.clone(), body));
        }
        match std::mem::replace(self, Outgoing::Gone) {
            Outgoing::Streamed(request) => Some(request.map(Sent::Streamed)),
            Outgoing::Kept { .. } | Outgoing::Gone => None,
        }
    }

    /// Nothing of it was sent.
    pub(super) fn give_back(&mut self, request: Request<Sent>) {
        let (head, body) = request.into_parts();
        if let Sent::Streamed(body) = body {
            *self = Outgoing::Streamed(Request::from_parts(head, body));
        }
    }

    /// Whether it can be sent again, though it was sent.
    pub(super) fn is_kept(&self) -> bool {
        matches!(self, Outgoing::Kept { .. })
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Sent::Kept(body) => {
                let frame = Pin::new(body).poll_frame(context);
                frame.map(|frame| frame.map(|frame| frame.map_err(|never| match never {})))
            }
            Sent::Streamed(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Sent::Kept(body) => body.is_end_stream(),
            Sent::Streamed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Sent::Kept(body) => body.size_hint(),
            Sent::Streamed(body) => body.size_hint(),
        }
    }
}
