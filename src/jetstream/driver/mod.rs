//! What brings a node its events, and does its commands in order.
//!
//! Owns: one thread for one log, on which all of it happens. Promises: commands are done in their order, and none is
//! left out; the time is read before a frame is sent and after one was received; a node that is refused or stops says
//! why, once. Must not: decide anything; `tideline_cluster::Node` does.

mod act;
mod run;

use std::io;
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;
use std::thread::JoinHandle;

use bytes::Bytes;
use tideline_base::ids::Position;
use tideline_cluster::guards::check_name;
use tideline_cluster::{Draft, OWNER_SILENCE_MS_MIN, Place, SteadyMs};
use tokio::sync::{Notify, mpsc};

use crate::frame::{CommitTime, Frame};
use crate::link::Access;
use crate::steady::steady_now;
use crate::survey::Demands;

/// Reads that wait for a proof; more are answered as if another node had to be asked.
const READS_MAX: usize = 1_024;

/// What a driver is made with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where NATS is.
    pub access: Access,
    /// What its servers must be like.
    pub demands: Demands,
    /// The node; its genesis names the log.
    pub node: tideline_cluster::Options,
}

/// What happens in a log, in order.
#[derive(Debug)]
pub enum Event<'a> {
    /// A frame is in the log: it goes into the mirror, and takes effect unless it is void.
    Taken {
        /// The frame.
        frame: &'a Frame,
        /// It counts as a position only.
        is_void: bool,
    },
    /// The node owns the log: [`Host::next`] will be asked.
    Owns,
    /// The writes of its own frames up to here are answered.
    Acknowledged(Position),
    /// The node owns the log no longer. What is queued was not written, and neither was its batch at this position.
    Moved(Option<Position>),
    /// The batch sealed for this position was not written: it is sealed again.
    Again(Position),
    /// The batch at this position was not written: there is no room.
    Full(Position),
    /// Something that a person should know, and that stops nothing.
    Notice(&'a str),
    /// The node has stopped for good, or was refused. Writes that were not answered have an unknown outcome.
    Stopped(&'a str),
}

/// What a log is written and read for. It is called on the driver's thread, which must go on: a call returns soon.
pub trait Host: Send {
    /// The next batch, sealed for this place with this time; `None` if nothing is queued.
    fn next(&mut self, draft: &Draft, time: CommitTime) -> Option<Bytes>;

    /// Something happened.
    fn event(&mut self, event: Event<'_>);
}

/// What a person or a client asks of a node.
enum Ask {
    TakeOver,
    Resign(Option<String>),
    Read {
        asked: SteadyMs,
        reply: std_mpsc::SyncSender<Option<Position>>,
    },
}

/// One node's part in one log, on a thread of its own.
pub struct Driver {
    asks: mpsc::Sender<Ask>,
    wake: Arc<Notify>,
    close: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Driver {
    /// Begins at a place, behind what the host has.
    ///
    /// It goes on trying to reach NATS until it is dropped; what it is refused for is [`Event::Stopped`].
    pub fn begin(options: Options, place: Place, host: Box<dyn Host>) -> io::Result<Driver> {
        check(&options).map_err(|what| io::Error::new(io::ErrorKind::InvalidInput, what))?;
        let (asks, asked) = mpsc::channel(READS_MAX);
        let (wake, close) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let inside = run::Inside {
            asked,
            wake: wake.clone(),
            close: close.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("jetstream".to_owned())
            .spawn(move || runtime.block_on(run::run(options, place, host, inside)))?;
        Ok(Driver {
            asks,
            wake,
            close,
            thread: Some(thread),
        })
    }

    /// The host has a batch.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// A person wants this node to own the log.
    pub fn take_over(&self) {
        // It can fail only when the driver has ended, which was said.
        let _ = self.asks.blocking_send(Ask::TakeOver);
    }

    /// Hands the log over, to a node if one is named.
    pub fn resign(&self, to: Option<String>) {
        let _ = self.asks.blocking_send(Ask::Resign(to));
    }

    /// Up to which position a view must reach, so that it shows every write that was acknowledged before this call.
    /// `None`: another node must be asked. Blocks until it is known.
    #[must_use]
    pub fn read(&self) -> Option<Position> {
        let (reply, answer) = std_mpsc::sync_channel(1);
        let asked = steady_now();
        self.asks.blocking_send(Ask::Read { asked, reply }).ok()?;
        answer.recv().ok().flatten()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.close.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic there was told where it happened.
            let _ = thread.join();
        }
    }
}

/// Refuses options that no log can have.
fn check(options: &Options) -> Result<(), String> {
    let Options { access, node, .. } = options;
    check_name("cluster", &node.genesis.cluster)?;
    check_name("node", &node.node)?;
    if access.servers.is_empty() {
        return Err("no NATS server was named".to_owned());
    }
    if node.owner_silence_ms < OWNER_SILENCE_MS_MIN {
        return Err(format!(
            "owner_silence_ms {}: use {OWNER_SILENCE_MS_MIN} or more",
            node.owner_silence_ms
        ));
    }
    Ok(())
}
