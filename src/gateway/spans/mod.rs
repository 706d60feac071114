//! Calls as spans of their callers' traces, sent to a collector of OpenTelemetry.
//!
//! Owns: which calls are spans, the queue, and the task that posts it. Promises: a span is begun only for a caller that
//! records its trace, and costs every other call a look at one flag; a call never waits for the collector: at the bound
//! of the queue spans are dropped, and counted. Must not: say anything of a timeline but its partition, or of a caller.

mod options;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method as HttpMethod, Request};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::http_client;
use tideline_base::clock::Clock;
use tideline_base::ids::PartitionId;
use tideline_base::metrics::{Metrics, Spans as Figures};
use tideline_base::trace::TraceParent;
use tideline_wire::otlp;
use tideline_wire::otlp::{Attribute, Status, Value};

use options::Options;

/// Where spans go. Cheap to clone.
#[derive(Clone, Default)]
pub struct Spans(Option<Arc<Queue>>);

struct Queue {
    sender: mpsc::Sender<otlp::Span>,
    clock: Arc<Clock>,
    metrics: Arc<Metrics>,
}

/// A call that is being answered.
pub(crate) struct Span {
    queue: Arc<Queue>,
    caller: TraceParent,
    own: [u8; 8],
}

impl Spans {
    /// Begins to send them, on the current runtime, if the environment says where to; until `stop`, and then those that
    /// are left, once.
    ///
    /// # Errors
    /// What it says can't be followed, or the system's certificates can't be read: a sentence.
    pub fn start(
        environment: impl Fn(&str) -> Option<String>,
        clock: &Arc<Clock>,
        metrics: &Arc<Metrics>,
        (tasks, stop): (&TaskTracker, CancellationToken),
    ) -> Result<Spans, String> {
        let Some((options, http)) = ready(environment)? else {
            return Ok(Spans::default());
        };
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        tracing::info!(to = options.url.host(), "spans of traced calls are sent");
        let posting = Posting {
            http,
            options,
            receiver,
            metrics: Arc::clone(metrics),
            is_failing: false,
        };
        tasks.spawn(posting.run(stop));
        Ok(Spans(Some(Arc::new(Queue {
            sender,
            clock: Arc::clone(clock),
            metrics: Arc::clone(metrics),
        }))))
    }

    /// Whether they could be sent as the environment says. Begins nothing.
    ///
    /// # Errors
    /// As [`Spans::start`].
    pub fn check(environment: impl Fn(&str) -> Option<String>) -> Result<(), String> {
        ready(environment).map(drop)
    }

    /// Begins the span of a call, if its caller records its trace; `trace` is then the span's place in it.
    pub(crate) fn begin(&self, trace: &mut Option<TraceParent>) -> Option<Box<Span>> {
        let queue = self.0.as_ref()?;
        let caller = trace.filter(TraceParent::is_sampled)?;
        let (own, _) = uuid::Uuid::new_v4().as_u64_pair();
        let own = own.to_be_bytes();
        *trace = Some(TraceParent {
            parent: own,
            ..caller
        });
        let queue = Arc::clone(queue);
        Some(Box::new(Span { queue, caller, own }))
    }
}

/// Where spans go, and the client that posts them; `None` = the environment names no place.
fn ready(
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Option<(Options, http_client::Http<Full<Bytes>>)>, String> {
    let Some(options) = Options::of(environment)? else {
        return Ok(None);
    };
    let http = match options.url.scheme_str() {
        Some("http") => http_client::plain_client(),
        _ => {
            http_client::client().map_err(|error| format!("the system's certificates: {error}"))?
        }
    };
    Ok(Some((options, http)))
}

impl Span {
    /// Hands it to the queue: the call is answered. `partition`: of the timeline that it named. `refused`: why.
    pub(crate) fn end(
        &self,
        method: &'static str,
        partition: Option<PartitionId>,
        refused: Option<&str>,
        took: Duration,
    ) {
        let text = |name, text: &str| Attribute::new(name, Value::Text(text.to_owned()));
        let mut attributes = vec![text("rpc.method", method)];
        if let Some(partition) = partition {
            let number = Value::Number(i64::from(partition.0));
            attributes.push(Attribute::new("tideline.partition", number));
        }
        attributes.extend(refused.map(|why| text("error.type", why)));
        let ended_ns = self.queue.clock.now_ms().saturating_mul(1_000_000);
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let span = otlp::Span {
            trace: self.caller.trace.to_vec(),
            span: self.own.to_vec(),
            parent: self.caller.parent.to_vec(),
            name: method.to_owned(),
            kind: otlp::SERVER,
            began_ns: ended_ns.saturating_sub(took_ns),
            ended_ns,
            attributes,
            status: refused.map(|_| Status::error()),
        };
        if self.queue.sender.try_send(span).is_err() {
            self.queue.figures().dropped.increment(1);
        }
    }
}

impl Queue {
    fn figures(&self) -> &Figures {
        &self.metrics.spans
    }
}

/// The task that posts them.
struct Posting {
    http: http_client::Http<Full<Bytes>>,
    options: Options,
    receiver: mpsc::Receiver<otlp::Span>,
    metrics: Arc<Metrics>,
    is_failing: bool,
}

impl Posting {
    /// A stop does not wait for the collector, whatever that is doing.
    async fn run(mut self, stop: CancellationToken) {
        let given_up = async {
            stop.cancelled().await;
            sleep(LAST_TIME).await;
        };
        tokio::select! {
            () = self.post_all(&stop) => {}
            () = given_up => {}
        }
    }

    async fn post_all(&mut self, stop: &CancellationToken) {
        let mut spans = Vec::new();
        while stop
            .run_until_cancelled(self.gather(&mut spans))
            .await
            .is_some()
        {
            self.post(std::mem::take(&mut spans)).await;
        }
        while !spans.is_empty() || !self.receiver.is_empty() {
            while spans.len() < POST_MAX
                && let Ok(span) = self.receiver.try_recv()
            {
                spans.push(span);
            }
            self.post(std::mem::take(&mut spans)).await;
        }
    }

    /// Takes spans until there are enough for a POST, or the first has waited long enough. Cancel-safe: what was taken
    /// is in `spans`.
    async fn gather(&mut self, spans: &mut Vec<otlp::Span>) {
        let Some(first) = self.receiver.recv().await else {
            return std::future::pending().await;
        };
        spans.push(first);
        let until = Instant::now() + self.options.delay;
        while spans.len() < POST_MAX {
            match timeout_at(until, self.receiver.recv()).await {
                Ok(Some(span)) => spans.push(span),
                Ok(None) | Err(_) => return,
            }
        }
    }

    async fn post(&mut self, spans: Vec<otlp::Span>) {
        let count = spans.len() as u64;
        let body = otlp::body(self.options.program.clone(), spans);
        let mut request = Request::builder()
            .method(HttpMethod::POST)
            .uri(self.options.url.clone())
            .header("content-type", "application/x-protobuf");
        for (name, value) in &self.options.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(body)));
        let request = request.expect("its parts were checked at the start");
        match http_client::send(&self.http, request, self.options.timeout).await {
            Ok(()) => {
                self.metrics.spans.sent.increment(count);
                self.is_failing = false;
            }
            Err(why) => {
                self.metrics.spans.lost.increment(count);
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(
                        why,
                        "the collector of spans fails; they are lost until it takes some"
                    );
                }
            }
        }
    }
}

/// Spans that wait: 1 MiB or so.
const QUEUE_MAX: usize = 2_048;
/// Spans of one POST.
const POST_MAX: usize = 512;
/// For what is left at a stop.
const LAST_TIME: Duration = Duration::from_secs(1);
