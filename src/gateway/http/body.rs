//! The bodies of HTTP requests, both protocols'.
//!
//! Owns: how a body is read, and when no longer. Promises: a body takes about as many bytes in memory as it has,
//! however it was cut into pieces, and counts in the bound over all connections until its request is answered. Must
//! not: know what a body means, or how a refusal is said.

use http_body_util::BodyExt as _;
use hyper::Request;
use hyper::body::{Body as _, Incoming};
use hyper::header::CONTENT_ENCODING;
use tokio::time::{Instant, timeout_at};

use super::super::Shared;
use super::kept::Kept;
use super::timeouts::is_late;
use tideline_base::bounds::{Holder, Share};

/// A whole body.
pub(in super::super) struct Body {
    pub(in super::super) bytes: Vec<u8>,
    /// To be kept until the request is answered: its parts live on in what was decoded.
    pub(in super::super) share: Share,
}

/// Why there is none.
pub(in super::super) enum Unread {
    TooLarge,
    /// It is compressed.
    Encoded,
    /// It ended before its end.
    Broken,
    TooSlow,
    /// All connections together, or those of its caller, hold as much as they may.
    Busy,
}

/// Reads the body of a request, of at most so many bytes, which count as its caller's.
pub(in super::super) async fn read(
    request: &mut Request<Incoming>,
    bytes_max: usize,
    holder: Option<Holder>,
    shared: &Shared,
) -> Result<Body, Unread> {
    read_with(request, bytes_max, (holder, shared), |_| {}).await
}

/// The same, with a look at each piece as it comes.
pub(in super::super) async fn read_with(
    request: &mut Request<Incoming>,
    bytes_max: usize,
    (holder, shared): (Option<Holder>, &Shared),
    mut look: impl FnMut(&[u8]),
) -> Result<Body, Unread> {
    let encodings = request.headers().get_all(CONTENT_ENCODING);
    if encodings
        .iter()
        .any(|name| !name.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return Err(Unread::Encoded);
    }
    let body = request.body_mut();
    let announced = body.size_hint();
    if announced.lower() > bytes_max as u64 {
        return Err(Unread::TooLarge);
    }
    let whole = announced.upper().and_then(|bytes| bytes.try_into().ok());
    let whole = whole.map_or(bytes_max, |whole: usize| whole.min(bytes_max));
    let mut read = Body {
        bytes: Vec::new(),
        share: shared.inbound.share(holder),
    };
    let time_max = shared.options.request_time_max;
    let mut due = Instant::now() + time_max;
    loop {
        let frame = match timeout_at(due, body.frame()).await {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(_))) => return Err(Unread::Broken),
            Err(_) if is_late(due) => {
                due = Instant::now() + time_max;
                continue;
            }
            Err(_) => return Err(Unread::TooSlow),
        };
        if let Ok(data) = frame.into_data() {
            read.take(&data, whole, bytes_max)?;
            look(&data);
        }
    }
    let received = &shared.metrics.gateway.received_bytes;
    received.increment(read.bytes.len() as u64);
    Kept::take(request, &read.bytes);
    Ok(read)
}

impl Body {
    /// Copies a piece: pieces that were kept would keep the whole buffers that they came in.
    fn take(&mut self, data: &[u8], whole: usize, bytes_max: usize) -> Result<(), Unread> {
        let needed = self.bytes.len() + data.len();
        if needed > bytes_max {
            return Err(Unread::TooLarge);
        }
        if needed > self.bytes.capacity() {
            let capacity = needed.max((2 * self.bytes.capacity()).min(whole));
            if !self.share.resize(capacity) {
                self.share.bound().refuse();
                return Err(Unread::Busy);
            }
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }
}
