//! Sessions of the Centrifuge dialect without a WebSocket: the server's messages go down one HTTP response that does
//! not end, the client's are posted to `/emulation`.
//!
//! Owns: the response, and which session a post is for. Promises: the session is the same as on a WebSocket, with its
//! limits, in the task of the connection that takes the response; it ends with that connection; a client that does not
//! know the session's secret name can't speak for it. Must not: decode a command.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Sink as _, Stream as _};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::io::{DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

use super::super::Shared;
use super::super::entrance::socket::Socket;
use super::super::entrance::upgraded::Upgraded;
use super::super::entrance::{EVENTS_PATH, Ends, STREAM_PATH, arrive, enter};
use super::super::http::body;
use super::super::http::body::{Body as Read, Unread};
use super::super::http::respond::{Answer, Content, busy, limited, not_allowed, not_read, say};
use super::super::session;
use super::super::session::centrifuge::NODE;
use tideline_base::bounds::Share;
use tideline_base::decode::query;
use tideline_wire::centrifuge::{Closing, EmulationRequest, Encoding, Push, Reply};

/// A frame of a client, and its share of the bound of all connections until the session has taken it.
type Posted = (Bytes, Share);

/// The sessions that are posted to, by their secret names.
#[derive(Default)]
pub(in super::super) struct Emulated(Mutex<HashMap<String, mpsc::Sender<Posted>>>);

impl Emulated {
    fn all(&self) -> MutexGuard<'_, HashMap<String, mpsc::Sender<Posted>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a session's messages are separated in a response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// One behind the other, as in a frame.
    Stream(Encoding),
    /// Server-sent events of JSON.
    Events,
}

impl Shape {
    fn encoding(self) -> Encoding {
        match self {
            Shape::Stream(encoding) => encoding,
            Shape::Events => Encoding::Json,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Shape::Stream(Encoding::Json) => "application/json",
            Shape::Stream(Encoding::Protobuf) => PROTOBUF,
            Shape::Events => "text/event-stream",
        }
    }

    /// A frame of the session, as it goes into the response.
    fn shaped(self, frame: &[u8]) -> Bytes {
        match self {
            Shape::Stream(Encoding::Protobuf) => Bytes::copy_from_slice(frame),
            Shape::Stream(Encoding::Json) => [frame, b"\n"].concat().into(),
            Shape::Events => {
                let lines = frame.split(|byte| *byte == b'\n');
                let event = |line: &[u8]| [b"data: ", line, b"\n\n"].concat();
                lines.map(event).collect::<Vec<_>>().concat().into()
            }
        }
    }
}

/// The paths of this page, if they are served.
pub(in super::super) fn is_for(path: &str, shared: &Shared) -> bool {
    let Some(options) = &shared.options.centrifuge else {
        return false;
    };
    match path {
        STREAM_PATH => options.http_stream,
        EVENTS_PATH => options.sse,
        POST_PATH => options.http_stream || options.sse,
        _ => false,
    }
}

/// Answers a request to one of these paths.
pub(in super::super) async fn serve(
    request: &mut Request<Incoming>,
    ends: &Ends,
    shared: &Arc<Shared>,
) -> Answer {
    let path = request.uri().path().to_owned();
    let is_post = *request.method() == Method::POST;
    let encoding = match is_protobuf(request.headers()) {
        true => Encoding::Protobuf,
        false => Encoding::Json,
    };
    match path.as_str() {
        EVENTS_PATH if *request.method() == Method::GET => {
            let query = request.uri().query().unwrap_or_default();
            let Some(commands) = query::value(query, "cf_connect") else {
                return say(StatusCode::BAD_REQUEST, "cf_connect says how to connect");
            };
            let commands = (commands.into(), shared.inbound.share(None));
            begin(request, commands, Shape::Events, ends, shared).await
        }
        _ if !is_post => not_allowed(if path == EVENTS_PATH {
            "GET, POST"
        } else {
            "POST"
        }),
        POST_PATH => post(request, encoding, shared).await,
        _ => {
            let shape = match path.as_str() {
                EVENTS_PATH => Shape::Events,
                _ => Shape::Stream(encoding),
            };
            match read(request, shared).await {
                Ok(Read { bytes, share }) => {
                    begin(request, (bytes.into(), share), shape, ends, shared).await
                }
                Err(why) => not_read(&why),
            }
        }
    }
}

async fn read(request: &mut Request<Incoming>, shared: &Shared) -> Result<Read, Unread> {
    let bytes_max = shared.options.limits.inbound_frame_bytes_max;
    let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    body::read(request, bytes_max, None, shared).await
}

/// Begins a session with its first commands.
async fn begin(
    request: &Request<Incoming>,
    commands: Posted,
    shape: Shape,
    ends: &Ends,
    shared: &Arc<Shared>,
) -> Answer {
    if shared.draining.is_cancelled() {
        return say(StatusCode::SERVICE_UNAVAILABLE, "shutting down");
    }
    let entered = match enter(request.headers(), ends, shared, false).await {
        Ok(entered) => entered,
        Err(answer) => return answer,
    };
    let guard = match arrive(request.headers(), ends, shared) {
        Ok(guard) => guard,
        Err(reached) => return limited(&reached),
    };
    let name = uuid::Uuid::new_v4().simple().to_string();
    let (here, there) = duplex(PIPE_BYTES);
    let upgraded = Upgraded {
        socket: Socket::Memory(Box::new(there)),
        guard,
        read: Bytes::new(),
        form: shared.dialects.of_centrifuge(shape.encoding()),
        entered,
        emulated: Some(name.clone()),
        streaming: None,
    };
    let (sender, posted) = mpsc::channel(POSTS_MAX);
    shared.emulated.all().insert(name.clone(), sender);
    let emulation = Emulation {
        shape,
        session: Some(session::run(upgraded, Arc::clone(shared)).boxed()),
        socket: WebSocketStream::from_raw_socket(here, Role::Client, None).await,
        posted,
        next: Some(commands),
        passing: None,
        is_over: false,
        name,
        emulated: Arc::clone(&shared.emulated),
    };
    let mut answer = Response::new(Content::Stream(emulation.boxed_unsync()));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(shape.kind()));
    headers.insert(
        CACHE_CONTROL,
        HeaderValue::from_static("no-cache, no-store"),
    );
    let buffering = HeaderName::from_static("x-accel-buffering");
    headers.insert(buffering, HeaderValue::from_static("no"));
    answer
}

/// Passes on what a client says.
async fn post(request: &mut Request<Incoming>, encoding: Encoding, shared: &Shared) -> Answer {
    let Read { bytes, mut share } = match read(request, shared).await {
        Ok(body) => body,
        Err(why) => return not_read(&why),
    };
    let Some(EmulationRequest {
        node,
        session,
        data,
    }) = EmulationRequest::read(encoding, bytes.into())
    else {
        return say(StatusCode::BAD_REQUEST, "node, session and data are needed");
    };
    let sender = shared.emulated.all().get(&session).cloned();
    let Some(sender) = sender.filter(|_| node == NODE) else {
        return say(StatusCode::NOT_FOUND, "no such session");
    };
    // A client that knows the secret name is the session's client, so all that waits for a session counts in one share.
    let holder = shared.per_client.holder_of_key(&session);
    if shared.inbound.share(holder).is_full() {
        shared.inbound.refuse();
        return busy();
    }
    share.belongs_to(holder);
    let said = sender.send((data, share));
    match timeout(shared.options.request_time_max, said).await {
        Ok(Ok(())) => {
            let mut answer = Answer::default();
            *answer.status_mut() = StatusCode::NO_CONTENT;
            answer
        }
        Ok(Err(_)) => say(StatusCode::NOT_FOUND, "no such session"),
        Err(_) => busy(),
    }
}

fn is_protobuf(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(PROTOBUF.as_bytes()))
}

/// The response that a session's messages go into. Polling it runs the session.
struct Emulation {
    shape: Shape,
    /// `None` = it has ended.
    session: Option<BoxFuture<'static, ()>>,
    /// The other end of the session's socket.
    socket: WebSocketStream<DuplexStream>,
    posted: mpsc::Receiver<Posted>,
    /// A frame of the client's that the session has no room for yet.
    next: Option<Posted>,
    /// The share of the frame before, which the session may not have read yet.
    passing: Option<Share>,
    is_over: bool,
    name: String,
    emulated: Arc<Emulated>,
}

impl Drop for Emulation {
    fn drop(&mut self) {
        self.emulated.all().remove(&self.name);
    }
}

impl Emulation {
    /// Takes what was posted, as long as the session has room for it.
    fn poll_posted(&mut self, context: &mut Context<'_>) {
        while !self.is_over {
            if self.next.is_none() {
                match self.posted.poll_recv(context) {
                    Poll::Ready(Some(frame)) => self.next = Some(frame),
                    Poll::Ready(None) | Poll::Pending => break,
                }
            }
            let mut socket = Pin::new(&mut self.socket);
            if !matches!(socket.as_mut().poll_ready(context), Poll::Ready(Ok(()))) {
                break;
            }
            let Some((frame, share)) = self.next.take() else {
                break;
            };
            self.passing = Some(share);
            let message = match self.shape.encoding() {
                Encoding::Json => match String::from_utf8(frame.into()) {
                    Ok(text) => Message::text(text),
                    // The session closes on what is no text.
                    Err(broken) => Message::binary(broken.into_bytes()),
                },
                Encoding::Protobuf => Message::binary(frame),
            };
            if socket.start_send(message).is_err() {
                break;
            }
        }
        // What does not go now goes when the session has read.
        if Pin::new(&mut self.socket).poll_flush(context).is_ready() {
            self.passing = None;
        }
    }

    /// What a close is to clients that see no close of a WebSocket.
    fn farewell(&mut self, frame: Option<CloseFrame>) -> Option<Bytes> {
        self.is_over = true;
        let frame = frame?;
        let closing = Closing {
            code: u32::from(u16::from(frame.code)),
            reason: frame.reason.as_str().to_owned(),
        };
        let reply = Reply::of(Push {
            disconnect: Some(closing),
            ..Push::default()
        });
        let frame = self.shape.encoding().frame([&reply]);
        Some(self.shape.shaped(&frame))
    }
}

impl Body for Emulation {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.is_over {
            return Poll::Ready(None);
        }
        this.poll_posted(context);
        if let Some(session) = &mut this.session
            && session.poll_unpin(context).is_ready()
        {
            this.session = None;
        }
        // What was posted may wait for the room that the session has just made: its end of the pipe wakes us then.
        loop {
            let message = ready!(Pin::new(&mut this.socket).poll_next(context));
            let said = match message {
                Some(Ok(Message::Text(text))) => Some(this.shape.shaped(text.as_bytes())),
                Some(Ok(Message::Binary(bytes))) => Some(this.shape.shaped(&bytes)),
                Some(Ok(Message::Close(frame))) => this.farewell(frame),
                // Signs of life of the socket, which are not the client's.
                Some(Ok(_)) => continue,
                Some(Err(_)) | None => this.farewell(None),
            };
            return Poll::Ready(said.map(|bytes| Ok(Frame::data(bytes))));
        }
    }
}

const POST_PATH: &str = "/emulation";
const PROTOBUF: &str = "application/octet-stream";
/// Between the response and the session: flow control begins behind it.
const PIPE_BYTES: usize = 64 << 10;
/// Frames that wait for a session.
const POSTS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_of_a_frame_is_an_event() {
        let frame = b"{\"id\":1}\n{}";
        assert_eq!(
            Shape::Events.shaped(frame),
            "data: {\"id\":1}\n\ndata: {}\n\n"
        );
        let lines = Shape::Stream(Encoding::Json).shaped(frame);
        assert_eq!(lines, "{\"id\":1}\n{}\n");
        let bytes = Shape::Stream(Encoding::Protobuf).shaped(&[1, 0, 0]);
        assert_eq!(bytes, &[1, 0, 0][..]);
    }
}
