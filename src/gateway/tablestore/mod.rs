//! Tablestore's API over HTTP: `POST /<Operation>`, signed both ways.
//!
//! Owns: the way of one request from its head to its signed answer. Promises: no body is kept before the head's
//! signature is right; every refusal is an answer of the protocol, with its code and status; between two requests
//! nothing is kept but partition keys' rates. Must not: know how a table is stored.

mod audit;
mod batch;
mod dispatch;
mod export;
mod rate;
mod rights;
mod row;
mod search;
mod series;
mod sql;
mod stream;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use tokio::sync::Semaphore;

use super::Shared;
use super::entrance::admitted::{Admitted, Does};
use super::entrance::door::Visitor;
use super::http::body;
use super::http::body::Unread;
use super::http::request_id::trace_of;
use super::http::respond::{Answer, NotBegun, counted, full};
use super::log_limit::LogLimit;
use audit::Noted;
use rate::Meter;
pub(super) use rights::{allow, seen, shows};
pub(super) use sql::{Opening, run as run_sql};
use tideline_base::bounds::Holder;
use tideline_base::metrics::Metrics;
use tideline_base::request::Request as Logged;
use tideline_model::KeyValue;
use tideline_model::access::Asker;
use tideline_search::Searches;
use tideline_sql::Sql;
use tideline_table::{Table, Tables};
use tideline_wire::tablestore::signature::{
    ContentDigest, SignedHeaders, Signer, answer_headers, verify,
};
use tideline_wire::tablestore::{self as wire, Code, Failure, Operation, Reply, SqlStatement};
use tideline_wire::{Failure as Refusal, Reason};

/// Which callers may call, and how fast.
#[derive(Clone, Debug, Default)]
pub struct TablestoreOptions {
    /// Key IDs and their secrets; without any, no call is answered.
    pub credentials: Vec<Credential>,
    /// Names that this server answers to.
    pub instances: Vec<String>,
    /// Capacity units per second of one partition key; 0 = no limit.
    pub partition_key_units_max: u32,
}

/// A key that requests are signed with.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// Sent with each request.
    pub id: String,
    /// Never sent, only signed with.
    pub secret: String,
    /// It counts only for requests that come from this machine, and not through a proxy.
    pub direct_only: bool,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Credential({})", self.id)
    }
}

/// What all requests share.
pub(super) struct Tablestore {
    pub(super) tables: Tables,
    pub(super) searches: Searches,
    sql: Sql,
    credentials: HashMap<String, Credential>,
    instances: Vec<String>,
    refused_indirect: LogLimit,
    rates: rate::Rates,
    decoding: Arc<Semaphore>,
}

impl Tablestore {
    pub(super) fn new(
        (tables, searches): (Tables, Searches),
        options: &TablestoreOptions,
        metrics: &Metrics,
    ) -> Tablestore {
        let known = options.credentials.iter();
        Tablestore {
            sql: Sql::new(tables.clone(), Some(searches.clone())),
            tables,
            searches,
            credentials: known
                .map(|known| (known.id.clone(), known.clone()))
                .collect(),
            instances: options.instances.clone(),
            refused_indirect: LogLimit::default(),
            rates: rate::Rates::new(options.partition_key_units_max, metrics),
            decoding: Arc::new(Semaphore::new(DECODING_MAX)),
        }
    }

    /// The account of a row's partition key, for calls of the native protocol.
    pub(super) fn meter(
        &self,
        table: &Table,
        key: &[(String, KeyValue)],
    ) -> Result<Meter<'_>, Refusal> {
        let meter = self.rates.meter(table, key);
        meter.map_err(|_| Refusal::new(Reason::RateLimited).named(rate::LIMIT))
    }

    fn secret(&self, id: &str, is_direct: bool) -> Option<String> {
        let known = self.credentials.get(id)?;
        if known.direct_only && !is_direct {
            if let Some(count) = self.refused_indirect.turn() {
                tracing::warn!(
                    count,
                    id,
                    setting = "tablestore_credentials",
                    "refused a key that counts on this machine only, from a proxy or by another name; set your own"
                );
            }
            return None;
        }
        Some(known.secret.clone())
    }
}

/// Whether a request that is for none of the server's own pages speaks this protocol.
pub(super) fn is_for<B>(request: &Request<B>) -> bool {
    Operation::of_path(request.uri().path()).is_ok()
        || request.headers().contains_key("x-ots-accesskeyid")
}

/// The answer where another node owns the tables. Nothing of the request was looked at, so it is not signed.
pub(super) fn elsewhere() -> Answer {
    let failure = Failure::new(Code::ServerUnavailable);
    respond(failure.status(), failure.body(), (None, "", 0))
}

/// The answer where another node was asked, and was lost before it had answered.
pub(super) fn cut() -> Answer {
    let failure = Failure::new(Code::Timeout);
    respond(failure.status(), failure.body(), (None, "", 0))
}

/// Answers one request. `is_direct`: it comes from this machine, and not through a proxy.
pub(super) async fn serve(
    request: &mut Request<Incoming>,
    is_direct: bool,
    visitor: Visitor<'_>,
    shared: &Arc<Shared>,
) -> Answer {
    let began = Instant::now();
    let span = shared.spans.begin(&mut trace_of(request));
    let path = request.uri().path().to_owned();
    let (mut signer, mut holder) = (None, None);
    let from = (is_direct, visitor);
    let done = perform(request, &path, from, (&mut signer, &mut holder), shared).await;
    let operation = Operation::of_path(&path).ok();
    let of_sql = matches!(&done, Ok(Reply::Sql(reply)) if reply.statement != SqlStatement::Write);
    let mut done = done.map(|reply| reply.encode());
    let mut unread = shared.answers.share(holder);
    if let Ok(body) = &done
        && !unread.resize(body.len())
    {
        shared.answers.refuse();
        // What a write has done must be answered.
        if of_sql || operation.is_some_and(Operation::is_read) {
            done = Err(Failure::new(Code::ServerBusy));
        } else {
            unread.force(body.len());
        }
    }
    let result = done.as_ref().map(|_| ());
    let is_undone = result.is_err_and(|failure| failure.code == Code::ServerUnavailable);
    shared
        .counters
        .count_operation(operation, result, began.elapsed());
    // Strangers fill no queue.
    let span = span.filter(|_| signer.is_some());
    if let (Some(span), Some(operation)) = (span, operation) {
        let refused = result.err().map(|failure| failure.code.name());
        span.end(operation.name(), None, refused, began.elapsed());
    }
    let (status, body) = match done {
        Ok(body) => (200, body),
        Err(failure) => (failure.status(), failure.body()),
    };
    shared
        .metrics
        .gateway
        .sent_bytes
        .increment(body.len() as u64);
    let logged = request.extensions().get::<Logged>();
    let request_id = logged.map_or("", |logged| &*logged.id);
    let headers = (signer.as_ref(), request_id, shared.clock.now_ms());
    let mut answer = respond(status, counted(body, unread), headers);
    if is_undone {
        answer.extensions_mut().insert(NotBegun);
    }
    answer
}

async fn perform(
    request: &mut Request<Incoming>,
    path: &str,
    (is_direct, visitor): (bool, Visitor<'_>),
    (signer, holder): (&mut Option<Signer>, &mut Option<Holder>),
    shared: &Arc<Shared>,
) -> Result<Reply, Failure> {
    if *request.method() != Method::POST {
        return Err(Failure::new(Code::MethodNotAllowed));
    }
    let headers = std::mem::take(request.headers_mut());
    let mut named = None;
    let verified = verify(
        path,
        &signed_headers(&headers),
        shared.clock.now_ms(),
        |id| {
            named = Some(id.to_owned());
            match &shared.door {
                Some(door) => {
                    let secret = door.authority.signing_secret(id);
                    secret.map(|secret| secret.reveal().to_owned())
                }
                None => shared.tablestore.secret(id, is_direct),
            }
        },
        |name| shared.tablestore.instances.iter().any(|own| own == name),
    );
    let wrong = verified.map(|found| *signer = Some(found)).err();
    let mut admitted = Admitted::believed(shared, Asker::default(), None);
    if let (Some(door), Some(id)) = (&shared.door, &named) {
        let judged = door.signed(id, wrong.is_none(), visitor);
        let credential = judged.map_err(|refusal| unsigned(&refusal, wrong.as_ref()))?;
        admitted = Admitted::by(shared, door, credential);
    }
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    *holder = named.and_then(|id| shared.per_client.holder_of_key(&id));
    visitor.seat.is_of(*holder);
    let operation = Operation::of_path(path)?;
    let bytes_max = operation.body_bytes_max();
    // Piece by piece: a digest of four megabytes at once keeps a processor for so long that others notice.
    let mut content = ContentDigest::default();
    let body = body::read_with(request, bytes_max, (*holder, shared), |piece| {
        content.update(piece);
    });
    let body = body.await.map_err(|why| {
        Failure::new(match why {
            Unread::TooLarge => Code::RequestBodyTooLarge,
            Unread::Encoded | Unread::Broken => Code::ParameterInvalid,
            Unread::TooSlow => Code::RequestTimeout,
            Unread::Busy => Code::ServerBusy,
        })
    })?;
    let begins = admitted.begins(body.bytes.len());
    begins.map_err(|refusal| unsigned(&refusal, None))?;
    signed_headers(&headers).check_content(content)?;
    let decoded = decode(operation, body.bytes.into(), shared).await?;
    // The body counts as long as what was made of it.
    let _share = body.share;
    let caller = admitted.asker().claim().cloned();
    let noted = caller
        .as_ref()
        .and_then(|claim| Noted::of(shared, claim, visitor.address, operation, &decoded));
    let does = does(operation, &decoded);
    let tables = shared.tablestore.tables.of_caller(*holder);
    let work = dispatch::call((shared, &tables), &caller, decoded);
    let done = admitted.perform(does, Box::pin(work)).await;
    let done = done.unwrap_or_else(|refusal| Err(unsigned(&refusal, None)));
    if let Some(noted) = noted {
        noted.answered(&done);
    }
    done
}

/// What a request does; of SQL its statement says it.
fn does(operation: Operation, request: &wire::Request) -> Does {
    let is_read = match request {
        wire::Request::Sql(asked) => Opening::of(&asked.statement).is_read,
        _ => operation.is_read(),
    };
    match is_read {
        true => Does::Reads,
        false => Does::Changes,
    }
}

/// The request in a body. A large one takes milliseconds, and a batch may have hundreds
/// of filters with expressions to compile, so these are decoded off the threads that serve clients, a few at a time.
async fn decode(
    operation: Operation,
    body: Bytes,
    shared: &Shared,
) -> Result<wire::Request, Failure> {
    let is_batch = matches!(operation, Operation::BatchGetRow | Operation::BatchWriteRow);
    let is_large = body.len() > LARGE_BYTES;
    let decode = move || wire::Request::decode(operation, body);
    if !is_batch && !is_large {
        return decode();
    }
    let turn = Arc::clone(&shared.tablestore.decoding)
        .acquire_owned()
        .await;
    let decoding = tokio::task::spawn_blocking(move || {
        // Kept to the end also if the client goes away meanwhile: the work can't be stopped.
        let _turn = turn;
        decode()
    });
    let decoded = decoding.await;
    decoded.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// Batches and large bodies that are decoded at a time.
const DECODING_MAX: usize = 2;
/// The sums of so many bytes take a fraction of a millisecond.
const LARGE_BYTES: usize = 64 << 10;

/// The answer to a bad signature, or to one that counts no more.
fn unsigned(refusal: &Refusal, wrong: Option<&Failure>) -> Failure {
    match (refusal.reason, wrong) {
        (Reason::RateLimited, _) => Failure::new(Code::FlowControl),
        (_, Some(wrong)) => wrong.clone(),
        (_, None) => Failure::new(Code::NoPermissionAccess),
    }
}

fn signed_headers(headers: &HeaderMap) -> SignedHeaders<'_> {
    let pairs = headers.iter();
    SignedHeaders::new(pairs.map(|(name, value)| (name.as_str(), value.as_bytes())))
}

fn respond(
    status: u16,
    body: Bytes,
    (signer, request_id, now_ms): (Option<&Signer>, &str, u64),
) -> Answer {
    let headers = answer_headers(signer, request_id, now_ms, &body);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = full(status, "application/x-protobuf", body);
    for (name, value) in headers {
        // The values are headers; the key ID came in one.
        if let Ok(value) = HeaderValue::from_str(&value) {
            answer
                .headers_mut()
                .insert(HeaderName::from_static(name), value);
        }
    }
    answer
}
