//! The body of an answer: the node's own, or the owner's as it comes.
//!
//! Owns: when the owner's ends. Promises: one that was cut does not look whole. Must not: hold more than a piece.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::super::super::http::respond::Content;
use super::super::super::http::timeouts::Owed;

/// See the file's opening.
pub(in super::super) enum Said {
    /// By this node.
    Here(Content),
    /// By the owner.
    There(Passed),
}

/// The owner's.
pub(in super::super) struct Passed {
    body: Incoming,
    /// The owner is none any more, and has had its time.
    deposed: BoxFuture<'static, ()>,
    _owed: Arc<Owed>,
}

/// The owner has ended in the middle of it.
#[derive(Debug)]
pub(in super::super) struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the owner was lost in the middle of its answer")
    }
}

impl std::error::Error for Cut {}

impl Said {
    pub(super) fn there(body: Incoming, deposed: BoxFuture<'static, ()>, owed: Arc<Owed>) -> Said {
        Said::There(Passed {
            body,
            deposed,
            _owed: owed,
        })
    }
}

impl Body for Said {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match self.get_mut() {
            Said::Here(content) => {
                let frame = Pin::new(content).poll_frame(context);
                frame.map(|frame| {
                    frame.map(|frame| frame.map_err(|never: Infallible| match never {}))
                })
            }
            Said::There(passed) => {
                if let Poll::Ready(frame) = Pin::new(&mut passed.body).poll_frame(context) {
                    return Poll::Ready(frame.map(|frame| frame.map_err(|_| Cut)));
                }
                let cut = passed.deposed.as_mut().poll(context);
                cut.map(|()| Some(Err(Cut)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Said::Here(content) => content.is_end_stream(),
            Said::There(passed) => passed.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Said::Here(content) => content.size_hint(),
            Said::There(passed) => passed.body.size_hint(),
        }
    }
}
