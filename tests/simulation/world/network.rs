//! What goes over connections, and how long it takes.
//!
//! Owns: latencies, pieces and cuts. Promises: what goes one way over one connection comes in its order. Must not: know
//! what is said.

use super::{Comes, MS, World};
use crate::client::Line;
use crate::socket::{Came, HELLO, Socket};

impl World<'_> {
    /// Something goes over a connection, behind all that went before.
    pub(super) fn arrives(&mut self, connection: u32, to_server: bool, what: Comes) {
        let latency = 1_000 + self.random.below(self.plan.latency);
        let latency = if self.random.percent(3) {
            latency * 50
        } else {
            latency
        };
        let last = self.last.entry((connection, to_server)).or_default();
        *last = (self.now + latency).max(*last);
        let after = *last - self.now;
        self.come(after, what);
    }

    pub(super) fn sent(&mut self, connection: u32, bytes: Vec<u8>) {
        self.arrives(connection, false, Comes::ToClient(connection, bytes));
    }

    pub(super) fn dial(&mut self, at: usize) {
        if self.clients[at].line != Line::Down {
            return;
        }
        if self.machine.is_none() {
            self.come(300 * MS, Comes::Dial(at));
            return;
        }
        self.connections += 1;
        let connection = self.connections;
        self.clients[at].line = Line::Dialled;
        self.clients[at].connection = connection;
        self.sockets.insert(connection, (at, Socket::default()));
        self.arrives(connection, true, Comes::Connect(connection));
        self.arrives(
            connection,
            true,
            Comes::ToServer(connection, HELLO.to_vec()),
        );
    }

    pub(super) fn cut(&mut self, connection: u32) {
        let Some((at, _)) = self.sockets.remove(&connection) else {
            return;
        };
        let events = self.clients[at].cut();
        events.into_iter().for_each(|what| self.note(at, what));
        let away = match self.clients[at].stream {
            Some(_) => self.plan.away,
            None => 300 * MS,
        };
        let after = 10 * MS + self.random.below(away);
        self.come(after, Comes::Dial(at));
    }

    pub(super) fn received(&mut self, connection: u32, bytes: &[u8]) {
        let Some((at, socket)) = self.sockets.get_mut(&connection) else {
            return;
        };
        let at = *at;
        let came = socket.take(bytes);
        self.acts.read(connection, bytes.len() as u32);
        for came in came {
            match came {
                Came::Open => {
                    self.clients[at].greet();
                    if at == self.plan.clients {
                        self.fan_out(at);
                    }
                }
                Came::Message(message) => self.message(at, &message),
                Came::Ping(payload) => self.clients[at].write(10, &payload),
                Came::Refused | Came::Close => {
                    self.acts.reset(connection);
                    self.cut(connection);
                    return;
                }
            }
        }
        self.flush(at);
    }

    /// Sends what a client has written, in one piece or two.
    pub(super) fn flush(&mut self, at: usize) {
        let bytes = self.clients[at].take_out();
        if bytes.is_empty() {
            return;
        }
        let connection = self.clients[at].connection;
        let cut = match self.random.percent(20) {
            true => self.random.below(bytes.len() as u64) as usize,
            false => 0,
        };
        let (first, second) = bytes.split_at(cut);
        for piece in [first, second] {
            if !piece.is_empty() {
                self.arrives(
                    connection,
                    true,
                    Comes::ToServer(connection, piece.to_vec()),
                );
            }
        }
    }
}
