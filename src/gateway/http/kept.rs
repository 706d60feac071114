//! A request as it came, should another node have to answer it.
//!
//! Owns: a copy of its head and of its body. Promises: large bodies are not kept, and all that are kept are bounded
//! together. Must not: know who answers.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use hyper::Request;
use hyper::body::{Body as _, Incoming};
use hyper::header::TRANSFER_ENCODING;
use hyper::http::request::Parts;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// See the file's opening.
pub(in super::super) struct Kept {
    head: Parts,
    body: OnceLock<(Bytes, Option<OwnedSemaphorePermit>)>,
    room: Arc<Semaphore>,
}

impl Kept {
    /// Copies a head. The body is [kept](Kept::take) by who reads it.
    pub(in super::super) fn of(
        request: &mut Request<Incoming>,
        room: &Arc<Semaphore>,
    ) -> Arc<Kept> {
        let mut copy = Request::new(());
        copy.method_mut().clone_from(request.method());
        copy.uri_mut().clone_from(request.uri());
        copy.headers_mut().clone_from(request.headers());
        let body = OnceLock::new();
        if request.body().is_end_stream() {
            let _ = body.set((Bytes::new(), None));
        }
        let kept = Arc::new(Kept {
            head: copy.into_parts().0,
            body,
            room: Arc::clone(room),
        });
        request.extensions_mut().insert(Arc::clone(&kept));
        kept
    }

    /// Copies a body that was read whole, if there is room.
    pub(super) fn take(request: &Request<Incoming>, bytes: &[u8]) {
        let kept = request.extensions().get::<Arc<Kept>>();
        let length = u32::try_from(bytes.len()).ok();
        let length = length.filter(|length| *length <= KEPT_BYTES_MAX);
        if let (Some(kept), Some(length)) = (kept, length)
            && let Ok(room) = Arc::clone(&kept.room).try_acquire_many_owned(length)
        {
            let _ = kept.body.set((Bytes::copy_from_slice(bytes), Some(room)));
        }
    }

    /// All of it. `None` = its body is not here.
    pub(in super::super) fn whole(&self) -> Option<(Parts, Bytes)> {
        let (body, _) = self.body.get()?;
        let mut head = self.head.clone();
        // Its pieces were put together.
        head.headers.remove(TRANSFER_ENCODING);
        Some((head, body.clone()))
    }
}

/// A larger body is not kept.
pub(in super::super) const KEPT_BYTES_MAX: u32 = 64 << 10;
/// Of all bodies that are kept.
pub(in super::super) const KEPT_BYTES: usize = 16 << 20;
