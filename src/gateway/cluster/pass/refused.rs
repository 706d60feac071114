//! A request that an owner has refused as not begun, because it hands the log over: its successor answers.
//!
//! Owns: for how long that is waited for. Promises: one that may have reached the successor is not said to be undone;
//! what is held of answers is bounded. Must not: pass on what does not end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::TRANSFER_ENCODING;
use hyper::http::request::Parts;
use hyper::{Request, Response};
use tokio::time::timeout;

use super::super::super::http::respond::{Answer, Content};
use super::Passing;
use super::form::Form;
use super::outgoing::Outgoing;

impl Passing {
    /// The successor's whole answer. `None` = it has done nothing, and there is none.
    pub(in super::super) async fn pass_refused(&self, head: Parts, body: Bytes) -> Option<Answer> {
        let request = Request::from_parts(head, ());
        let form = Form::of(&request);
        let (head, ()) = request.into_parts();
        let outgoing = Outgoing::Kept {
            head,
            body,
            _room: None,
        };
        let passing = async {
            let (answer, _) = self.answered(form, outgoing).await.ok()?;
            let _turn = self.passer.collecting.acquire().await;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            let body = Content::Whole(Full::new(body.ok()?.to_bytes()));
            let mut answer = Response::from_parts(head, body);
            answer.headers_mut().remove(TRANSFER_ENCODING);
            Some(answer)
        };
        let passed = timeout(PASS_TIME_MAX, passing).await.ok().flatten();
        let is_sent = self.is_sent.load(Ordering::Relaxed);
        passed.or_else(|| is_sent.then(|| form.cut()))
    }
}

/// Less than an owner that was deposed waits for its connections.
const PASS_TIME_MAX: Duration = Duration::from_millis(4_500);
/// Above the usual answer by far.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// So many answers are collected at a time.
pub(super) const COLLECTING_MAX: usize = 16;
