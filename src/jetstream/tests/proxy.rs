//! A TCP proxy between a node and a NATS server, which loses what it is told to lose.
//!
//! Owns: what gets through. Promises: what it loses it loses whole: a connection of which anything was lost is cut
//! before it goes on. Must not: know the protocol.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What gets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// All.
    Open,
    /// The node's requests only: it hears no answer.
    Deaf,
    /// The servers' answers only: the node's requests are lost.
    Mute,
    /// Nothing.
    Cut,
}

/// See the file's opening.
pub(crate) struct Proxy {
    pub(crate) address: String,
    state: Arc<State>,
}

struct State {
    mode: AtomicU8,
    /// Connections of an earlier age are cut.
    age: AtomicU64,
    /// What the servers say comes at so many bytes a second; 0 = as it can.
    rate: AtomicU64,
    sockets: Mutex<Vec<TcpStream>>,
}

impl State {
    fn loses(&self, from_node: bool) -> bool {
        match self.mode.load(Ordering::SeqCst) {
            0 => false,
            1 => !from_node,
            2 => from_node,
            _ => true,
        }
    }
}

impl Proxy {
    /// In front of an address.
    pub(crate) fn begin(to: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one").to_string();
        let state = Arc::new(State {
            mode: AtomicU8::new(0),
            age: AtomicU64::new(0),
            rate: AtomicU64::new(0),
            sockets: Mutex::new(Vec::new()),
        });
        let (to, inside) = (to.to_owned(), state.clone());
        run("accepts", move || {
            for node in listener.incoming().flatten() {
                if inside.mode.load(Ordering::SeqCst) != 0 {
                    continue;
                }
                let Ok(server) = TcpStream::connect(&to) else {
                    continue;
                };
                let copies = [
                    node.try_clone(),
                    server.try_clone(),
                    node.try_clone(),
                    server.try_clone(),
                ];
                let [Ok(one), Ok(two), Ok(three), Ok(four)] = copies else {
                    continue;
                };
                let mut sockets = inside
                    .sockets
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                sockets.extend([three, four]);
                drop(sockets);
                let age = inside.age.load(Ordering::SeqCst);
                let (there, back) = (inside.clone(), inside.clone());
                run("there", move || pass(&there, age, true, node, two));
                run("back", move || pass(&back, age, false, server, one));
            }
        });
        Proxy { address, state }
    }

    /// From now on only this gets through. What was open is cut when all gets through again.
    pub(crate) fn set(&self, mode: Mode) {
        let number = match mode {
            Mode::Open => 0,
            Mode::Deaf => 1,
            Mode::Mute => 2,
            Mode::Cut => 3,
        };
        if mode == Mode::Open {
            self.state.age.fetch_add(1, Ordering::SeqCst);
            let mut sockets = self
                .state
                .sockets
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            for socket in sockets.drain(..) {
                // It may be closed already.
                let _ = socket.shutdown(Shutdown::Both);
            }
        }
        self.state.mode.store(number, Ordering::SeqCst);
    }

    /// From now on the link to the node is slow.
    pub(crate) fn slow(&self, bytes_per_s: u64) {
        self.state.rate.store(bytes_per_s, Ordering::SeqCst);
    }

    /// For a time.
    pub(crate) fn for_ms(&self, mode: Mode, ms: u64) {
        self.set(mode);
        std::thread::sleep(Duration::from_millis(ms));
        self.set(Mode::Open);
    }
}

fn pass(state: &State, age: u64, from_node: bool, mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count) = from.read(&mut buffer) {
        let is_old = state.age.load(Ordering::SeqCst) != age;
        if count == 0 || is_old {
            break;
        }
        let rate = state.rate.load(Ordering::SeqCst);
        if !from_node && rate > 0 {
            std::thread::sleep(Duration::from_secs_f64(count as f64 / rate as f64));
        }
        if !state.loses(from_node) && to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // Both may be closed already.
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

fn run(name: &str, work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name(name.to_owned());
    // It ends with its sockets, or with the process.
    drop(thread.spawn(work).expect("a thread"));
}
