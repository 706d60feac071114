//! Several commands in one body: `batch`, and the lines that older back ends send to `POST /api`.
//!
//! Owns: where each command is in its body, and how the answers are put together. Promises: a body that is not whole is
//! refused before anything of it is done; commands are done one after the other, each as if it had come by itself; a
//! command begins once the answer before it has gone out: one answer is in memory, and a client that does not read is
//! waited for. Must not: know what a command does.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::Response;
use hyper::body::Frame;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde::Serialize;
use serde_json::Deserializer;
use serde_json::value::RawValue;

use super::{Backend, JSON, Said, perform, read};
use crate::http::body::Body;
use crate::http::respond::{Answer, Content, counted};
use crate::http::timeouts::Owed;
use tideline_base::decode;
use tideline_wire::centrifuge::{ApiBatch, ApiCommand, ApiLine, ApiMethod, Code};

/// How commands and answers are put together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// `{"commands": [{METHOD: {}}]}`, `{"replies": [{METHOD: {}}]}`.
    Batch,
    /// A line for each: `{"method", "params"}`, `{"result"}`.
    Lines,
}

impl Shape {
    /// Where in a text each command is; `None` = the text has another shape.
    pub(super) fn commands(self, text: &str) -> Option<Vec<Range<u32>>> {
        let at = |command: &RawValue| {
            let begin = command.get().as_ptr() as usize - text.as_ptr() as usize;
            let end = begin + command.get().len();
            Some(u32::try_from(begin).ok()?..u32::try_from(end).ok()?)
        };
        let found: Option<Vec<_>> = match self {
            Shape::Batch => {
                let batch: ApiBatch<'_> = decode::from_str(text).ok()?;
                batch.commands.into_iter().map(at).collect()
            }
            Shape::Lines => {
                let lines = Deserializer::from_str(text).into_iter::<&RawValue>();
                lines.map(|line| at(line.ok()?)).collect()
            }
        };
        // A batch may be empty; lines without any command are a mistake.
        found.filter(|found| self == Shape::Batch || !found.is_empty())
    }

    fn begin(self) -> &'static [u8] {
        match self {
            Shape::Batch => b"{\"replies\":[",
            Shape::Lines => b"",
        }
    }

    fn between(self) -> &'static [u8] {
        match self {
            Shape::Batch => b",",
            Shape::Lines => b"\n",
        }
    }

    fn end(self) -> &'static [u8] {
        match self {
            Shape::Batch => b"]}",
            Shape::Lines => b"",
        }
    }
}

/// What is left to do of a body.
struct Several {
    shape: Shape,
    commands: std::vec::IntoIter<Range<u32>>,
    body: Body,
    /// The client may have ended its side behind the body.
    _owed: Option<Arc<Owed>>,
    backend: Backend,
    has_begun: bool,
}

/// The answer, whose commands are done as it is read.
pub(super) fn answer(
    shape: Shape,
    commands: Vec<Range<u32>>,
    (body, owed): (Body, Option<Arc<Owed>>),
    backend: Backend,
) -> Answer {
    let several = Several {
        shape,
        commands: commands.into_iter(),
        body,
        _owed: owed,
        backend,
        has_begun: false,
    };
    let pieces = stream::unfold(Some(several), |several| async move {
        let mut several = several?;
        let piece = several.next().await;
        let rest = (several.commands.len() > 0).then_some(several);
        Some((Ok::<_, Infallible>(Frame::data(piece)), rest))
    });
    let body = StreamBody::new(pieces).boxed_unsync();
    let mut answer = Response::new(Content::Stream(body));
    let kind = HeaderValue::from_static(JSON);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

/// What a command came to.
struct Done {
    id: u32,
    method: Option<ApiMethod>,
    said: Said,
}

impl Several {
    /// Does the next command, and gives its part of the answer.
    async fn next(&mut self) -> Bytes {
        let mut piece = match std::mem::replace(&mut self.has_begun, true) {
            true => self.shape.between().to_vec(),
            false => self.shape.begin().to_vec(),
        };
        let holder = self.backend.holder();
        let mut unread = self.backend.shared.answers.share(holder);
        if let Some(Range { start, end }) = self.commands.next() {
            let text = &self.body.bytes[start as usize..end as usize];
            let text = std::str::from_utf8(text).unwrap_or_default();
            let mut done = self.backend.command(self.shape, text).await;
            let mut encoded = done.encode(self.shape);
            if !unread.resize(encoded.len()) {
                self.backend.shared.answers.refuse();
                // The back end must learn what a write has done.
                if done.method.is_some_and(perform::writes) {
                    unread.force(encoded.len());
                } else {
                    done.said = Err(Code::Internal.into()).into();
                    encoded = done.encode(self.shape);
                }
            }
            piece.extend(encoded);
        }
        if self.commands.len() == 0 {
            piece.extend(self.shape.end());
        }
        let sent = &self.backend.shared.metrics.gateway.sent_bytes;
        sent.increment(piece.len() as u64);
        counted(piece.into(), unread)
    }
}

impl Backend {
    async fn command(&self, shape: Shape, text: &str) -> Done {
        let named = match shape {
            Shape::Batch => read::<ApiCommand<'_>>(text).and_then(|command| {
                let (method, params) = command.one().ok_or(Code::BadRequest)?;
                Ok((0, method, params))
            }),
            Shape::Lines => read::<ApiLine<'_>>(text).map(|line| {
                (
                    line.id,
                    line.method(),
                    line.params.map_or("{}", RawValue::get),
                )
            }),
        };
        let (id, method, outcome) = match named {
            Err(error) => (0, None, Err(error)),
            Ok((id, method, params)) => {
                let outcome = match (self.begins(text.len()), method) {
                    (Err(error), _) => Err(error),
                    (Ok(()), Some(method)) => perform::perform(method, params, self).await,
                    (Ok(()), None) => Err(Code::MethodNotFound.into()),
                };
                (id, method, outcome)
            }
        };
        Done {
            id,
            method,
            said: outcome.into(),
        }
    }
}

impl Done {
    fn encode(&self, shape: Shape) -> Vec<u8> {
        let encoded = match (shape, &self.said, self.method) {
            (Shape::Batch, Said::Result(found), Some(method)) => {
                serde_json::to_vec(&BTreeMap::from([(method.name(), found)]))
            }
            (Shape::Batch, said, _) => serde_json::to_vec(said),
            (Shape::Lines, said, _) => serde_json::to_vec(&LineSaid { id: self.id, said }),
        };
        encoded.unwrap_or_default()
    }
}

/// The answer to a line.
#[derive(Serialize)]
struct LineSaid<'d> {
    #[serde(skip_serializing_if = "is_none")]
    id: u32,
    #[serde(flatten)]
    said: &'d Said,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for it
fn is_none(id: &u32) -> bool {
    *id == 0
}
