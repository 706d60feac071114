//! The driver's loop: what comes, and to whom it goes.
//!
//! Owns: the node, the link and the work under way. Promises: after each event the node's commands are done before the
//! next event is looked at. Must not: wait for an answer; what takes time is work beside the loop.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc as std_mpsc;
use std::time::Duration;

use async_nats::{Event as LinkEvent, Message, StatusCode};
use futures_util::StreamExt;
use futures_util::future::{AbortHandle, BoxFuture};
use futures_util::stream::FuturesUnordered;
use tideline_base::clock::Clock;
use tideline_base::faults;
use tideline_base::ids::Position;
use tideline_cluster::{
    Answer, CommitTime, Event, Frame, Host, Node, Place, Reading, SteadyMs, StreamFacts,
};
use tokio::sync::{Notify, mpsc};
use tokio::time::MissedTickBehavior;

use super::{Ask, Options, READS_MAX, Shown};
use crate::api;
use crate::beat;
use crate::follow::{Arrival, Follow};
use crate::link::{self, Link};
use crate::names::Names;
use crate::steady::steady_now;
use crate::survey::{Demands, Survey, survey};

const TICK: Duration = Duration::from_millis(10);

/// The loop's ends of what a [`super::Driver`] has.
pub(super) struct Inside {
    pub(super) asked: mpsc::Receiver<Ask>,
    pub(super) wake: Arc<Notify>,
    pub(super) close: Arc<Notify>,
    pub(super) shown: Arc<Shown>,
}

/// Work that has ended.
pub(super) enum Done {
    Looked(Option<Result<StreamFacts, String>>),
    Surveyed(Survey),
    Consumes {
        number: u64,
        consumer: String,
        made: Result<(), String>,
    },
}

/// A read that waits.
pub(super) struct Read {
    asked: SteadyMs,
    reply: std_mpsc::SyncSender<Option<Position>>,
}

/// What the loop has.
pub(super) struct Running {
    pub(super) link: Link,
    pub(super) node: Node,
    pub(super) host: Box<dyn Host>,
    pub(super) clock: Clock,
    pub(super) follow: Follow,
    /// What consumers of this process are called.
    pub(super) consumers: String,
    /// The frame that was sent last, and how often.
    pub(super) sent: Option<(Frame, u32)>,
    /// The frame that has just come.
    pub(super) came: Option<Frame>,
    /// Of the last frame that was taken.
    pub(super) time: CommitTime,
    pub(super) frame_bytes_max: u64,
    pub(super) work: FuturesUnordered<BoxFuture<'static, Done>>,
    /// Why the driver ends.
    pub(super) stopped: Option<String>,
    pub(super) demands: Arc<Demands>,
    reads: VecDeque<Read>,
    /// The look under way.
    pub(super) looking: Option<AbortHandle>,
    /// Stream and servers were found good; before, nothing is sent.
    pub(super) is_attached: bool,
    pub(super) survey_at: Option<SteadyMs>,
    pub(super) noticed: Option<String>,
    /// Why the servers could not be connected to.
    pub(super) refused: Option<String>,
    /// A node that is none of the cluster's was heard, and this was said.
    has_met_stranger: bool,
}

/// Goes on until the driver is dropped or the node has stopped.
pub(super) async fn run(options: Options, place: Place, mut host: Box<dyn Host>, inside: Inside) {
    let Options {
        access,
        demands,
        node,
    } = options;
    let names = Names::new(&node.genesis.cluster, node.genesis.partition);
    let Inside {
        mut asked,
        wake,
        close,
        shown,
    } = inside;
    let opened = Link::open(&access, names).await;
    let (link, mut arrivals) = match opened {
        Ok(opened) => opened,
        Err(what) => return host.event(Event::Stopped(&what)),
    };
    let consumers = format!("{}-{:x}", node.node, node.boot);
    let mut running = Running {
        link,
        node: Node::new(node, place, steady_now()),
        host,
        clock: Clock::system(),
        follow: Follow::default(),
        consumers,
        sent: None,
        came: None,
        time: CommitTime::default(),
        frame_bytes_max: demands.frame_bytes_max,
        work: FuturesUnordered::new(),
        stopped: None,
        demands: Arc::new(demands),
        reads: VecDeque::new(),
        looking: None,
        is_attached: false,
        survey_at: Some(steady_now()),
        noticed: None,
        refused: None,
        has_met_stranger: false,
    };
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = close.notified() => break,
            _ = ticks.tick() => {
                running.tick().await;
                shown.stands(&running.node, steady_now());
            }
            Some(event) = arrivals.events.recv() => running.linked(&event),
            Some(message) = arrivals.answers.next() => running.arrived(message),
            Some(message) = arrivals.beats.next() => running.heard(&message),
            Some(ask) = asked.recv() => running.asked(ask),
            () = wake.notified() => {}
            Some(done) = running.work.next() => {
                running.worked(done);
                shown.notes(&running.noticed);
            }
        }
        if running.is_attached {
            running.obey().await;
            running.feed().await;
        }
        running.answer_reads();
        shown.set(&running.node, steady_now());
        if let Some(why) = running.stopped.take() {
            shown.proves_until.store(0, Ordering::Release);
            running.host.event(Event::Stopped(&why));
            break;
        }
    }
    // Nobody reads any more; what a predecessor of this consumer leaves behind goes by itself.
    if let Some(consumer) = running.follow.consumer.take() {
        running.link.drop_consumer(&consumer).await;
        running.link.flush().await;
    }
}

impl Running {
    async fn tick(&mut self) {
        let now = steady_now();
        if self.survey_at.take_if(|at| *at <= now).is_some() {
            let (link, demands) = (self.link.clone(), self.demands.clone());
            let work = async move { Done::Surveyed(survey(&link, &demands).await) };
            self.work.push(Box::pin(work));
        }
        if !self.is_attached {
            return;
        }
        if self.follow.is_silent(now) {
            self.reconnected(now);
        }
        self.node.covers(self.host.covered());
        self.node.tick(now, self.clock.now_ms());
        if let Some((consumer, number)) = self.follow.pulls(now) {
            self.link.pull(&consumer, number).await;
        }
    }

    fn linked(&mut self, event: &LinkEvent) {
        if let Some(why) = link::refusal(event) {
            self.refused = Some(why);
        }
        if *event == LinkEvent::Connected {
            let now = steady_now();
            self.refused = None;
            // A survey under way may be of the connection before; there is another one soon.
            self.survey_at = Some(now);
            if self.is_attached {
                self.reconnected(now);
            }
        }
    }

    /// The consumer may be gone, and the stream another one.
    fn reconnected(&mut self, now: SteadyMs) {
        self.follow.end();
        self.node.connected(now);
    }

    fn arrived(&mut self, message: Message) {
        let now = steady_now();
        let topic = self.link.topic(&message).to_owned();
        // A frame comes under the subject that it was published with; of which consumer it is, its reply says.
        let is_frame = message.subject.as_str() == self.link.names.subject;
        let (kind, number) = match topic.split_once('.') {
            _ if is_frame => ("f", message.reply.as_deref().and_then(api::consumer)),
            Some((kind, number)) => (kind, number.parse().ok()),
            None => return,
        };
        match (kind, number) {
            ("a", Some(position)) => {
                let answer = match message.status {
                    Some(status) if status != StatusCode::OK => Answer::Failed,
                    _ => api::answer(&message.payload, &self.link.names.stream),
                };
                self.answered(Position(position), answer, now);
            }
            ("g", Some(position)) => {
                let position = Position(position);
                match link::at(&message, position).map(Frame::read) {
                    Some(Some(frame)) => {
                        self.came = Some(frame.clone());
                        self.node.fetched(position, Some(frame.sealed), now);
                    }
                    Some(None) => self.node.unreadable(position, now),
                    None => self.node.fetched(position, None, now),
                }
            }
            ("f", number) => {
                let stream = self.link.names.stream.clone();
                match self.follow.arrived(number, &message, &stream, now) {
                    Arrival::Message(sequence) => match Frame::read(message.payload) {
                        Some(frame) => {
                            self.came = Some(frame.clone());
                            self.node.received(sequence, frame.sealed, now);
                        }
                        None => self.node.unreadable(sequence, now),
                    },
                    Arrival::Ended => self.reconnected(now),
                    Arrival::Nothing => {}
                }
            }
            _ => {}
        }
    }

    fn answered(&mut self, position: Position, answer: Answer, now: SteadyMs) {
        let is_believed = faults::is_named("cluster_ClaimAnywhere");
        let answer = match answer {
            Answer::Stored(_) if is_believed => Answer::Stored(position),
            other => other,
        };
        self.node.answered(position, answer, now);
    }

    fn heard(&mut self, message: &Message) {
        let Some(mut beat) = beat::decode(&message.payload) else {
            return;
        };
        if self.node.is_stranger(&beat) {
            if !std::mem::replace(&mut self.has_met_stranger, true) {
                let what = format!(
                    "node {:?} is not one of [cluster] nodes, and speaks as if it was: what it says does not count",
                    beat.node
                );
                self.host.event(Event::Notice(&what));
            }
            return;
        }
        if faults::is_named("cluster_HeardIgnored") {
            beat.stored = Position::ZERO;
        }
        if self.is_attached {
            self.node.heard(&beat, steady_now(), self.clock.now_ms());
        }
    }

    fn asked(&mut self, ask: Ask) {
        match ask {
            Ask::TakeOver => self.node.take_over(steady_now()),
            Ask::Resign(to) => self.node.resign(to),
            Ask::HandOver(reply) => {
                // Whoever asked may have gone.
                let _ = reply.try_send(self.node.hand_over(steady_now()));
            }
            Ask::Drain(is_drained) => self.node.drain(is_drained),
            Ask::Refused(node) => self.node.refused(&node),
            Ask::End => self.node.end(),
            Ask::Read { asked, reply } if self.reads.len() < READS_MAX => {
                self.reads.push_back(Read { asked, reply });
            }
            // Dropped, which is an answer.
            Ask::Read { .. } => {}
        }
    }

    fn answer_reads(&mut self) {
        let view = self.node.place().position;
        let now = steady_now();
        let node = &mut self.node;
        self.reads.retain(|read| match node.read(read.asked, now) {
            Reading::Wait => true,
            Reading::Proven => {
                // Whoever asked may have gone.
                let _ = read.reply.try_send(Some(view));
                false
            }
            Reading::Elsewhere => {
                let _ = read.reply.try_send(None);
                false
            }
        });
    }
}
