//! `GET /v1/events`: a subscription as server-sent events, for browsers, curl and whatever reads a response by lines.
//!
//! Owns: the way from a request to the session that takes its connection over. Promises: a caller without a good
//! credential or ticket gets no session; what the address says is checked before anything is done; positions for which
//! an ID has no room are stored before its stream begins. Must not: write a byte of the stream; the session does, and
//! the head too.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming as Streamed;
use hyper::header::{ACCEPT, HeaderMap, USER_AGENT};
use hyper::{Request, StatusCode};

use super::super::Shared;
use super::super::dispatch::{self, Caller, Work};
use super::super::entrance::admitted::{Admitted, Does};
use super::super::entrance::{
    Accept, Accepted, Becomes, Ends, arrive, door, enter_as, shows_token,
};
use super::super::session::events::Streaming;
use super::super::session::login::Entered;
use super::super::tickets::Owner;
use super::respond::{Answer, items, limited, say};
use super::rpc;
use tideline_model::access::Asker;
use tideline_wire::events::{self, Asked};
use tideline_wire::{Call, Failure, Incoming, Method, Reason};

/// Answers one request: leaves what it asks for in `upgraded`, refuses it, or says that there is nothing to follow.
pub(in super::super) async fn serve(
    request: &Request<Streamed>,
    ends: &Ends,
    shared: &Arc<Shared>,
    upgraded: &Accepted,
) -> Answer {
    if shared.draining.is_cancelled() {
        return say(StatusCode::SERVICE_UNAVAILABLE, "shutting down");
    }
    let takes_events = items(request.headers(), ACCEPT).any(takes_events);
    if request.headers().contains_key(ACCEPT) && !takes_events {
        return say(StatusCode::NOT_ACCEPTABLE, "it answers text/event-stream");
    }
    match begin(request, ends, shared).await {
        Ok(Some(accept)) => {
            let mut accepted = upgraded
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            *accepted = Some(Becomes::Session(accept));
            Answer::default()
        }
        // After this status an `EventSource` does not come back.
        Ok(None) => super::respond::empty(StatusCode::NO_CONTENT),
        Err(answer) => *answer,
    }
}

/// Whether a part of `Accept` lets events through.
fn takes_events(part: &str) -> bool {
    let (kind, parameters) = part.split_once(';').unwrap_or((part, ""));
    let is_of = |one: &&str| one.eq_ignore_ascii_case(kind.trim());
    let is_none = |parameter: &str| {
        let (name, value) = parameter.split_once('=').unwrap_or_default();
        name.trim().eq_ignore_ascii_case("q") && value.trim().parse::<f32>() == Ok(0.0)
    };
    ["text/event-stream", "text/*", "*/*"].iter().any(is_of) && !parameters.split(';').any(is_none)
}

async fn begin(
    request: &Request<Streamed>,
    ends: &Ends,
    shared: &Arc<Shared>,
) -> Result<Option<Accept>, Box<Answer>> {
    let headers = request.headers();
    let query = request.uri().query().unwrap_or_default();
    let refuse = |failure: Failure| {
        let counters = &shared.counters;
        counters.count(Some(Method::Subscribe), Err(&failure), Duration::ZERO);
        Box::new(door::refusal(&failure))
    };
    let last = last_event_id(headers).map_err(refuse)?;
    let asked = events::read(query, last, &shared.options.limits).map_err(refuse)?;
    let Some(mut asked) = asked else {
        return Ok(None);
    };
    let (admitted, entered, user) = admit(&asked, headers, ends, shared).await?;
    let bytes = query.len();
    asked = bounded(&admitted, asked, bytes).map_err(refuse)?;
    store(&admitted, &mut asked, entered.address, shared)
        .await
        .map_err(refuse)?;
    let guard = arrive(headers, ends, shared);
    let guard = guard.map_err(|reached| Box::new(limited(&reached)))?;
    let client = headers.get(USER_AGENT).and_then(|name| name.to_str().ok());
    Ok(Some(Accept {
        form: shared.dialects.of_events(),
        entered,
        guard,
        streaming: Some(Box::new(Streaming {
            asked,
            user,
            client: client.map(|name| name.chars().take(CLIENT_CHARS_MAX).collect()),
            headers: HeaderMap::new(),
            counted: shared.metrics.gateway.event_streams.hold(1),
        })),
    }))
}

/// As much as `session.open` takes.
const CLIENT_CHARS_MAX: usize = 255;

fn last_event_id(headers: &HeaderMap) -> Result<Option<&str>, Failure> {
    let mut all = headers.get_all(events::LAST_EVENT_ID).iter();
    let refused = |why: &'static str| Failure::invalid(events::LAST_EVENT_ID, why);
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(last), None) => last
            .to_str()
            .map(Some)
            .map_err(|_| refused("not an ID of this stream's events")),
        (Some(_), Some(_)) => Err(refused("it is there twice")),
    }
}

/// The caller, by its headers or a ticket.
async fn admit(
    asked: &Asked,
    headers: &HeaderMap,
    ends: &Ends,
    shared: &Arc<Shared>,
) -> Result<(Admitted, Entered, Option<String>), Box<Answer>> {
    let visitor = ends.visitor(headers, shared);
    let refuse = |failure: Failure| Box::new(door::refusal(&failure));
    let ticket = asked.ticket.as_deref();
    if ticket.is_some() && shows_token(headers) {
        let why = "show a ticket or a credential, not both";
        return Err(refuse(Failure::invalid("ticket", why)));
    }
    let owner = ticket.map(|ticket| shared.tickets.take(ticket));
    let (admitted, credential) = match (&shared.door, owner) {
        (Some(door), owner) => {
            let judged = match owner {
                Some(owner) => {
                    let behind = owner.and_then(Owner::credential);
                    door.ticketed(behind, visitor, &shared.clock)
                }
                None => door.admit(headers, visitor).await,
            };
            let credential = judged.map_err(refuse)?;
            let admitted = Admitted::by(shared, door, credential.clone());
            (admitted, Some(credential))
        }
        (None, Some(Some(Owner::Believed(user)))) => {
            visitor.seat.is_of(None);
            let asker = Asker::believed(user);
            (Admitted::believed(shared, asker, None), None)
        }
        (None, Some(_)) => {
            let why = "no such ticket, or no more: each counts once, for 30 s";
            let refused = Failure::new(Reason::Unauthenticated).about("ticket");
            return Err(refuse(refused.saying(why)));
        }
        (None, None) => (
            rpc::admit(headers, visitor, shared)
                .await
                .map_err(Box::new)?,
            None,
        ),
    };
    let user = admitted.asker().user();
    let user = (credential.is_none() && !user.is_empty()).then(|| user.to_owned());
    let mut entered = enter_as(credential, visitor.address, ends, shared).map_err(Box::new)?;
    if let Some(user) = &user {
        let counted = shared.per_client.enter(user, &mut entered.guards);
        counted.map_err(|reached| {
            shared.metrics.refused(reached.limit, 1);
            Box::new(limited(&reached))
        })?;
    }
    Ok((admitted, entered, user))
}

/// What the limits of the caller let through.
fn bounded(admitted: &Admitted, asked: Asked, bytes: usize) -> Result<Asked, Failure> {
    let mut incoming = Incoming::One(Call {
        id: None,
        method: Some(Method::Subscribe),
        traceparent: None,
        request: Ok(asked.request()),
    });
    admitted.bound(&mut incoming, bytes);
    match incoming {
        Incoming::One(Call {
            request: Err(failure),
            ..
        }) => Err(failure),
        _ => Ok(asked),
    }
}

/// Stores what a device says that it has, if an ID has no room for more.
async fn store(
    admitted: &Admitted,
    asked: &mut Asked,
    address: IpAddr,
    shared: &Arc<Shared>,
) -> Result<(), Failure> {
    let Some(set) = asked.stored.take() else {
        return Ok(());
    };
    let mut caller = Caller::default();
    caller.asker = admitted.asker().clone();
    caller.address = shared.door.as_ref().map(|_| address);
    let storing = async {
        match dispatch::call(
            shared,
            &mut caller,
            tideline_wire::Request::PositionSet(set),
        ) {
            Work::Now(outcome) => outcome,
            Work::Write(work) | Work::Read(work) | Work::Wait(work) => work.await,
        }
    };
    admitted.perform(Does::Changes, Box::pin(storing)).await??;
    Ok(())
}

/// An answer that its session writes: hyper is to write nothing, and to let the connection go.
#[derive(Debug)]
pub(super) struct TakenOver;

impl std::fmt::Display for TakenOver {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("the connection is a session's now")
    }
}

impl std::error::Error for TakenOver {}

/// Leaves the answer's headers to the session that it is for, if it is for one.
pub(super) fn hand_over(answer: Answer, upgraded: &Accepted) -> Result<Answer, TakenOver> {
    let mut accepted = upgraded
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let streaming = match &mut *accepted {
        Some(Becomes::Session(accept)) => accept.streaming.as_mut(),
        Some(Becomes::Passed(_)) | None => None,
    };
    match streaming {
        Some(streaming) => {
            streaming.headers = answer.into_parts().0.headers;
            Err(TakenOver)
        }
        None => Ok(answer),
    }
}
