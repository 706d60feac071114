//! A stream, its servers and three nodes, and what tests do with them.
//!
//! Owns: how a scene begins and ends. Promises: what is not as expected is an error, so that a control can expect one.
//! Must not: know what goes wrong in a scene.

use std::time::Duration;

use tempfile::TempDir;
use tideline_jetstream::read_all;

use crate::genesis;
use crate::history::{Seen, judge};
use crate::node::{Node, Settings};
use crate::proxy::Proxy;
use crate::servers::Servers;

/// See the file's opening.
pub(crate) struct Scene {
    pub(crate) nodes: Vec<Node>,
    /// In front of the first node's only server.
    pub(crate) proxy: Proxy,
    pub(crate) servers: Servers,
    pub(crate) stream: String,
    _mirrors: TempDir,
}

pub(crate) type Outcome = Result<(), String>;

impl Scene {
    /// `fault`: what is planted in the nodes.
    pub(crate) fn begin(fault: &str) -> Scene {
        let servers = Servers::begin();
        let stream = servers.create();
        // The first node's connection stays, whichever server is lost.
        let proxy = Proxy::begin(&servers.address((servers.leader() + 1) % 3));
        let mirrors = TempDir::with_prefix("tideline-mirrors").expect("a folder");
        let nodes = (1..=3).map(|number| {
            let access = servers.node();
            let proxied = vec![format!("nats://{}", proxy.address)];
            let name = format!("n{number}");
            let settings = Settings {
                mirror: mirrors.path().join(&name),
                name,
                servers: if number == 1 { proxied } else { access.servers },
                user: access.user.expect("there is one"),
                monitors: servers.monitors(),
                is_unverified: false,
                is_automatic: false,
            };
            Node::begin(settings, fault)
        });
        Scene {
            nodes: nodes.collect(),
            proxy,
            servers,
            stream,
            _mirrors: mirrors,
        }
    }

    /// A person has a node take over; it writes, and all go on until so many were acknowledged. The others' writing is
    /// ended before: against an owner that always has a frame in flight a claim has not been seen to win.
    pub(crate) fn take_over(&mut self, index: usize, acks: usize) -> Outcome {
        for other in (0..self.nodes.len()).filter(|other| *other != index) {
            self.nodes[other].hint("load off");
        }
        let node = &mut self.nodes[index];
        let owned = node.count("owns");
        node.tell("load on");
        node.tell("reads on");
        node.tell("take-over");
        node.wait_for("owns", owned + 1)?;
        node.wait("acked", acks)
    }

    /// Ends all writing, waits until the nodes that run have the same, and judges.
    pub(crate) fn end(&mut self, running: &[usize]) -> Result<Seen, String> {
        for index in running {
            self.nodes[*index].tell("load off");
        }
        for index in running {
            self.nodes[*index].tell("reads off");
        }
        let mut quiet = 0;
        let mut last = Vec::new();
        // An owner attests what it wrote after a second; so the end is quiet for longer.
        for _ in 0..600 {
            std::thread::sleep(Duration::from_millis(100));
            let took: Vec<usize> = running.iter().map(|index| self.taken(*index)).collect();
            quiet = if took == last { quiet + 1 } else { 0 };
            let is_same = took.iter().all(|one| *one == took[0]);
            if quiet >= 15 && is_same {
                break;
            }
            last = took;
        }
        for index in running {
            if let Some(why) = self.nodes[*index].stopped() {
                return Err(format!("n{} stopped: {why}", index + 1));
            }
        }
        self.judge()
    }

    /// The last position that a node took.
    fn taken(&self, index: usize) -> usize {
        let took = self.nodes[index].last("took ").unwrap_or_default();
        let at = took.split(' ').next();
        at.and_then(|at| at.parse().ok()).unwrap_or(0)
    }

    /// Judges the stream as it is.
    pub(crate) fn judge(&self) -> Result<Seen, String> {
        let frames = read_all(&self.servers.operator(), &genesis())?;
        let lines: Vec<_> = self.nodes.iter().map(Node::lines).collect();
        judge(&frames, &lines)
    }
}
