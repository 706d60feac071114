//! What brings a node its events, and does its commands in order.
//!
//! Owns: one thread for one log, on which all of it happens. Promises: commands are done in their order, and none is
//! left out; the time is read before a frame is sent and after one was received; a node that is refused or stops says
//! why, once. Must not: decide anything; `tideline_cluster::Node` does.

mod act;
mod run;
mod work;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tideline_base::ids::Position;
use tideline_cluster::guards::check_name;
use tideline_cluster::{Host, Node, OWNER_SILENCE_MS_MIN, Place, Standing, SteadyMs};
use tokio::sync::{Notify, mpsc};

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

/// What other threads see of a node at any time.
#[derive(Default)]
struct Shown {
    /// The highest position that is known to be in the stream.
    known: AtomicU64,
    /// Until when reads are proven, by the steady clock.
    proves_until: AtomicU64,
    /// See [`Node::is_current`].
    is_current: AtomicBool,
    /// When it was so last, by the steady clock.
    current_at: AtomicU64,
    standing: Mutex<Standing>,
    /// What is wrong with stream or servers.
    noticed: Mutex<Option<String>>,
}

impl Shown {
    fn set(&self, node: &Node, now: SteadyMs) {
        self.known.store(node.known().0, Ordering::Release);
        let until = node.proves_until(now);
        self.proves_until.store(until.0, Ordering::Release);
        self.is_current.store(node.is_current(), Ordering::Release);
        if node.is_current() {
            self.current_at.store(now.0, Ordering::Release);
        }
    }

    /// The same for what persons and probes look at.
    fn stands(&self, node: &Node, now: SteadyMs) {
        let standing = node.standing(now);
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner) = standing;
    }

    fn notes(&self, notice: &Option<String>) {
        let mut noticed = self.noticed.lock().unwrap_or_else(PoisonError::into_inner);
        noticed.clone_from(notice);
    }

    fn unsure_ms(&self) -> u64 {
        steady_now().since(SteadyMs(self.current_at.load(Ordering::Acquire)))
    }
}

/// What a person or a client asks of a node.
enum Ask {
    TakeOver,
    Resign(Option<String>),
    HandOver(std_mpsc::SyncSender<Option<String>>),
    Drain(bool),
    Refused(String),
    End,
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
    shown: Arc<Shown>,
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
        let shown = Arc::<Shown>::default();
        shown.current_at.store(steady_now().0, Ordering::Release);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let inside = run::Inside {
            asked,
            wake: wake.clone(),
            close: close.clone(),
            shown: shown.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("jetstream".to_owned())
            .spawn(move || runtime.block_on(run::run(options, place, host, inside)))?;
        Ok(Driver {
            asks,
            wake,
            close,
            shown,
            thread: Some(thread),
        })
    }

    /// The host has a batch.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// The same for others to call.
    #[must_use]
    pub fn waker(&self) -> impl Fn() + Send + Sync + 'static + use<> {
        let wake = self.wake.clone();
        move || wake.notify_one()
    }

    /// [`Driver::proves_reads`] for others to call, also when the driver has ended.
    #[must_use]
    pub fn prover(&self) -> impl Fn() -> bool + Send + Sync + 'static + use<> {
        let shown = self.shown.clone();
        move || steady_now().0 < shown.proves_until.load(Ordering::Acquire)
    }

    /// The same for [`Driver::read`], which is given up when the node has not seen the whole log for so long.
    #[must_use]
    pub fn reader(
        &self,
        limit: Duration,
    ) -> impl Fn() -> Option<Position> + Send + Sync + 'static + use<> {
        let (asks, shown) = (self.asks.clone(), self.shown.clone());
        move || {
            let (reply, answer) = std_mpsc::sync_channel(1);
            let asked = steady_now();
            asks.blocking_send(Ask::Read { asked, reply }).ok()?;
            // Else many that come one after the other would each wait for as long.
            let left = limit.saturating_sub(Duration::from_millis(shown.unsure_ms()));
            answer.recv_timeout(left).ok().flatten()
        }
    }

    /// The highest position that is known to be in the stream.
    #[must_use]
    pub fn known(&self) -> Position {
        Position(self.shown.known.load(Ordering::Acquire))
    }

    /// Whether all that is known to be in the stream was taken, and the stream is the right one.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.shown.is_current.load(Ordering::Acquire)
    }

    /// For how long [`Driver::is_current`] has not been so, in ms.
    #[must_use]
    pub fn unsure_ms(&self) -> u64 {
        self.shown.unsure_ms()
    }

    /// Whether a view that was taken before this call shows every write that was acknowledged before it was taken.
    /// `false`: ask [`Driver::read`], which may wait.
    #[must_use]
    pub fn proves_reads(&self) -> bool {
        steady_now().0 < self.shown.proves_until.load(Ordering::Acquire)
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

    /// The same, to a standby that could own the log at once: its name. `None`: there is none, or this node does not
    /// own the log. Blocks until it is known.
    #[must_use]
    pub fn hand_over(&self) -> Option<String> {
        let (reply, answer) = std_mpsc::sync_channel(1);
        self.asks.blocking_send(Ask::HandOver(reply)).ok()?;
        answer.recv().ok().flatten()
    }

    /// A person drains the node, or ends that: while it is drained it claims only if it is told to.
    pub fn drain(&self, is_drained: bool) {
        let _ = self.asks.blocking_send(Ask::Drain(is_drained));
    }

    /// A connection to this node was refused.
    pub fn refused(&self, node: String) {
        let _ = self.asks.blocking_send(Ask::Refused(node));
    }

    /// How it stands to the owner.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let standing = self.shown.standing.lock();
        standing.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is wrong with the stream or its servers, as far as it was found last.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        let noticed = self.shown.noticed.lock();
        noticed.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Closes the log for good, if the node owns it.
    pub fn end(&self) {
        let _ = self.asks.blocking_send(Ask::End);
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
