//! The world: clients, the network between them and the server, faults, lives of the server, and the end.
//!
//! Owns: one run of one seed. Promises: all that happens follows from the seed; after the faults have ended everything
//! must be accepted and shown within [`PATIENCE`]. Must not: judge what clients saw; `tideline_history` does.

mod answers;
mod inboxes;
mod network;
mod phases;
mod reading;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tideline_history::{Event, Final, What};

use crate::client::{Asked, Chooser, Client, Line, Waits};
use crate::machine::{Acts, Birth, End, Machine, Said, forget_unsynced};
use crate::plan::{Disturbs, Ends, Plan};
use crate::random::Random;
use crate::socket::Socket;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// So long may it take, without faults, until all calls are answered and all is shown.
const PATIENCE: u64 = 90 * SECOND;
/// A jump of the clock is followed after 10 s; only then comes what is scheduled.
const SETTLES: u64 = 30 * SECOND;
/// Who follows all timelines once the faults have ended.
const LATE: &str = "late";
/// What the wall says in the beginning.
const BEGAN: u64 = 1_790_000_000 * SECOND;

/// What is to be run.
pub(crate) struct Task<'a> {
    pub(crate) seed: u64,
    pub(crate) fault: &'a str,
    pub(crate) library: &'a Path,
    pub(crate) folder: &'a Path,
    pub(crate) is_traced: bool,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Of all decisions, calls and bytes.
    pub(crate) sum: u64,
    pub(crate) wrong: Vec<String>,
    /// Of simulated time.
    pub(crate) ns: u64,
    pub(crate) calls: u64,
    pub(crate) lives: u64,
    pub(crate) cuts: u64,
    pub(crate) kills: u64,
}

/// What will happen at some time.
enum Comes {
    Start,
    /// The server is ended, if it is still this life.
    End(Ends, u64),
    Dial(usize),
    Connect(u32),
    ToServer(u32, Vec<u8>),
    ToClient(u32, Vec<u8>),
    Cut(u32),
    Step(usize),
    Reset,
    Jump(i32),
    Reshape,
    Next,
}

/// How far the run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Works,
    /// No fault comes any more; what was begun is brought to its end.
    Calms,
    /// All is answered; what is on its way to followers comes.
    Settles,
    /// One client reads everything.
    Reads,
    Over,
}

pub(crate) struct World<'a> {
    task: &'a Task<'a>,
    plan: Plan,
    random: Random,
    now: u64,
    /// Of the wall over the machine's clock.
    ahead: u64,
    machine: Option<Machine>,
    acts: Acts,
    /// In this life.
    disk_may_fail: bool,
    life: u64,
    cuts: u64,
    kills: u64,
    coming: BTreeMap<(u64, u64), Comes>,
    order: u64,
    /// By connection: when the last byte of each direction is there, so that none overtakes another.
    last: BTreeMap<(u32, bool), u64>,
    sockets: BTreeMap<u32, (usize, Socket)>,
    connections: u32,
    clients: Vec<Client>,
    phase: Phase,
    deadline: u64,
    events: Vec<Event>,
    finals: Vec<Final>,
    dump: Vec<(&'static str, Value)>,
    scheduled: Vec<(String, String, u64)>,
    /// How often a partition has stopped, as far as the server was restarted for it.
    stops: usize,
    /// There were splits or merges, or may have been.
    is_reshaped: bool,
    /// Timelines whose messages go into inboxes, and since when that is certain.
    fanned: BTreeMap<String, u64>,
    /// What is in inboxes in the end: user, timeline, sequence.
    inboxes: Vec<(String, String, u64)>,
    wrong: Vec<String>,
    sum: u64,
}

impl<'a> World<'a> {
    pub(crate) fn new(task: &'a Task<'a>) -> World<'a> {
        let mut random = Random(task.seed);
        let plan = Plan::new(&mut random);
        let mut clients = Vec::new();
        for number in 0..plan.clients {
            let user = random.one(&plan.users).clone();
            clients.push(Client::new(format!("c{number}"), user));
        }
        for client in &mut clients {
            for timeline in &plan.timelines {
                if random.percent(50) {
                    client.follows.insert(timeline.clone(), (0, false));
                }
            }
        }
        // Back ends; those have no user.
        clients.push(Client::new("back end".to_owned(), String::new()));
        let mut reader = Client::new("stream".to_owned(), String::new());
        reader.stream = Some(false);
        clients.extend(random.percent(60).then_some(reader));
        World {
            task,
            plan,
            random,
            now: SECOND,
            ahead: BEGAN,
            machine: None,
            acts: Acts::default(),
            disk_may_fail: false,
            life: 0,
            cuts: 0,
            kills: 0,
            coming: BTreeMap::new(),
            order: 0,
            last: BTreeMap::new(),
            sockets: BTreeMap::new(),
            connections: 0,
            clients,
            phase: Phase::Works,
            deadline: 0,
            events: Vec::new(),
            finals: Vec::new(),
            dump: Vec::new(),
            scheduled: Vec::new(),
            stops: 0,
            is_reshaped: false,
            fanned: BTreeMap::new(),
            inboxes: Vec::new(),
            wrong: Vec::new(),
            sum: 0,
        }
    }

    /// Runs to the end and judges.
    pub(crate) fn run(mut self) -> Outcome {
        fs::create_dir_all(self.task.folder.join("disk")).expect("a folder");
        forget_unsynced(self.task.folder).expect("a folder");
        let settings = self.task.folder.join("disk/tideline.toml");
        fs::write(settings, &self.plan.settings).expect("settings");
        self.come(0, Comes::Start);
        for at in 0..self.clients.len() {
            let after = self.random.below(200 * MS);
            self.come(after, Comes::Dial(at));
        }
        for client in 0..self.plan.clients {
            self.come(100 * MS, Comes::Step(client));
        }
        for (after, what) in self.plan.disturbances.clone() {
            let comes = match what {
                Disturbs::Reset => Comes::Reset,
                Disturbs::Jump(ms) => Comes::Jump(ms),
                Disturbs::Reshape => Comes::Reshape,
            };
            self.come(after, comes);
        }
        let works = self.plan.works;
        self.come(works, Comes::Next);
        while self.phase != Phase::Over {
            self.turn();
        }
        self.leave();
        self.judge();
        Outcome {
            sum: self.sum,
            wrong: self.wrong,
            ns: self.now,
            calls: self.events.len() as u64,
            lives: self.life,
            cuts: self.cuts,
            kills: self.kills,
        }
    }

    /// Ends the last life, so that it counts in the sum.
    fn leave(&mut self) {
        let Some(mut machine) = self.machine.take() else {
            return;
        };
        let mut acts = Acts::default();
        acts.kill();
        machine.go_on(acts, u64::MAX);
        machine.turn();
        self.sum = (self.sum ^ machine.sum).wrapping_mul(0x0100_0000_01b3);
    }

    fn come(&mut self, after: u64, what: Comes) {
        self.order += 1;
        self.coming.insert((self.now + after, self.order), what);
    }

    fn fault(&mut self, what: String) {
        self.wrong.push(what);
    }

    fn note(&mut self, client: usize, what: What) {
        if self.task.is_traced {
            eprintln!(
                "> {} {} {what:?}",
                self.now / 1_000,
                self.clients[client].name
            );
        }
        let name = self.clients[client].name.clone();
        self.events.push(Event(self.now, name, what));
    }

    /// One step: of the machine, or of the world while there is none.
    fn turn(&mut self) {
        let Some(mut machine) = self.machine.take() else {
            let ((at, _), what) = self.coming.pop_first().expect("something always comes");
            self.now = self.now.max(at);
            self.happens(what);
            return;
        };
        let said = machine.turn();
        self.now = self.now.max(machine.now);
        self.ahead = machine.wall.wrapping_sub(machine.now);
        let mut end = None;
        for said in said {
            match said {
                Said::Listens => {}
                Said::Syncs => self.look_around(),
                Said::Sent(connection, bytes) => self.sent(connection, bytes),
                Said::Closed(connection) => self.arrives(connection, false, Comes::Cut(connection)),
                Said::Ended(how) => end = Some(how),
            }
        }
        if let Some(how) = end {
            self.sum = (self.sum ^ machine.sum).wrapping_mul(0x0100_0000_01b3);
            let last_words = machine.last_words(self.task.folder);
            self.ended(how, &last_words);
            return;
        }
        self.machine = Some(machine);
        while let Some(first) = self.coming.first_entry()
            && first.key().0 <= self.now
            && self.phase != Phase::Over
        {
            let what = first.remove();
            self.happens(what);
        }
        if self.phase == Phase::Over {
            return;
        }
        let wake = self
            .coming
            .first_key_value()
            .map_or(u64::MAX, |(key, _)| key.0);
        let acts = std::mem::take(&mut self.acts);
        if let Some(machine) = &mut self.machine {
            machine.go_on(acts, wake);
        }
    }

    fn happens(&mut self, what: Comes) {
        match what {
            Comes::Start => self.start(),
            Comes::End(how, life) if life == self.life && self.machine.is_some() => self.end(how),
            Comes::End(..) => {}
            Comes::Dial(client) => self.dial(client),
            Comes::Connect(connection) => self.acts.connect(connection),
            Comes::ToServer(connection, bytes) => self.acts.send(connection, &bytes),
            Comes::ToClient(connection, bytes) => self.received(connection, &bytes),
            Comes::Cut(connection) => self.cut(connection),
            Comes::Step(client) => self.step(client),
            Comes::Reset => {
                let at = self.random.below(self.clients.len() as u64) as usize;
                let connection = self.clients[at].connection;
                self.acts.reset(connection);
                self.cut(connection);
            }
            Comes::Jump(ms) => self.acts.jump(ms),
            Comes::Reshape => self.reshape(),
            Comes::Next => self.next_phase(),
        }
    }

    fn start(&mut self) {
        self.life += 1;
        let plan = self.plan.life(self.life - 1, self.phase == Phase::Works);
        let birth = Birth {
            library: self.task.library,
            folder: self.task.folder,
            arguments: &[
                "serve",
                "--config",
                "/sim/tideline.toml",
                "--data",
                "/sim/data",
            ],
            fault: self.task.fault,
            seed: self.random.next(),
            now: self.now,
            wall: self.now.wrapping_add(self.ahead),
            is_traced: self.task.is_traced,
            disk: self.plan.disk,
        };
        self.machine = Some(Machine::start(&birth).expect("the server can be started"));
        self.disk_may_fail = plan.has_disk_faults();
        plan.armed
            .into_iter()
            .for_each(|armed| self.acts.arm(armed));
        if let Some((after, how)) = plan.end {
            let life = self.life;
            self.come(after, Comes::End(how, life));
        }
    }

    fn end(&mut self, how: Ends) {
        match how {
            Ends::Kill => self.acts.kill(),
            Ends::PowerCut => self.acts.cut_power(),
            Ends::Terminate => {
                self.acts.terminate();
                // If it does not go.
                let life = self.life;
                self.come(20 * SECOND, Comes::End(Ends::Kill, life));
            }
        }
    }

    /// The process is gone. What it has sent is still on its way.
    fn ended(&mut self, how: End, last_words: &str) {
        if self.task.is_traced {
            eprintln!("> {} the server ended: {how:?}", self.now / 1_000);
        }
        self.acts = Acts::default();
        match how {
            End::PowerCut => {
                self.cuts += 1;
                forget_unsynced(self.task.folder).expect("a folder");
            }
            End::Killed => self.kills += 1,
            _ => {}
        }
        self.coming
            .retain(|_, what| !matches!(what, Comes::ToServer(..) | Comes::Connect(_)));
        for connection in self.sockets.keys().copied().collect::<Vec<_>>() {
            self.arrives(connection, false, Comes::Cut(connection));
        }
        let is_meant = match how {
            End::Killed | End::PowerCut => true,
            End::Exit(0) => true,
            // A disk that fails may end it.
            End::Exit(_) => self.disk_may_fail,
            End::Aborted | End::Stuck | End::Broken => false,
        };
        if !is_meant {
            self.fault(format!("the server ended: {how:?}: {last_words}"));
            self.phase = Phase::Over;
            return;
        }
        if self.life > 20 {
            self.fault("the server does not stay".to_owned());
            self.phase = Phase::Over;
            return;
        }
        let after = 5 * MS + self.random.below(1_500) * MS;
        self.come(after, Comes::Start);
    }

    fn step(&mut self, at: usize) {
        let pause = 1 + self.random.below(self.plan.pace_ms * 2);
        if self.phase == Phase::Works {
            self.come(pause * MS, Comes::Step(at));
        }
        let client = &mut self.clients[at];
        if client.line != Line::Up
            || client.waits.len() >= self.plan.open_calls
            || self.phase != Phase::Works
        {
            return;
        }
        for _ in 0..1 + self.random.below(3) {
            self.ask(at, |chooser, client| chooser.call(client));
        }
        if self.random.percent(8) {
            self.moves_subscription(at);
        }
        self.flush(at);
    }

    /// Clients that wait for nothing read.
    fn look_around(&mut self) {
        for at in 0..self.plan.clients.min(self.clients.len()) {
            if self.phase == Phase::Works && self.clients[at].is_idle() {
                for timeline in self.plan.timelines.clone() {
                    self.ask(at, |chooser, client| chooser.read(client, &timeline));
                }
                self.flush(at);
            }
        }
    }

    /// A client asks what is chosen.
    fn ask(&mut self, at: usize, choose: impl FnOnce(&mut Chooser<'_>, &mut Client) -> Asked) {
        let mut chooser = Chooser {
            random: &mut self.random,
            timelines: &self.plan.timelines,
            users: &self.plan.users,
            clients: self.plan.clients,
            calls: &self.plan.calls[at],
            sizes: self.plan.sizes,
            wall_ms: self.now.wrapping_add(self.ahead) / MS,
        };
        let client = &mut self.clients[at];
        let asked = choose(&mut chooser, client);
        let invoke = What::Invoke(asked.op, asked.calls.clone());
        self.events
            .push(Event(self.now, client.name.clone(), invoke));
        client.ask(asked);
    }

    /// Ends a subscription, or begins one, perhaps from further back.
    fn moves_subscription(&mut self, at: usize) {
        let timeline = self.random.one(&self.plan.timelines).clone();
        let back = self.random.below(4);
        let client = &mut self.clients[at];
        match client.follows.get(&timeline) {
            Some((_, true)) => {
                let params = json!({"timeline": timeline});
                client.request("unsubscribe", &params, Waits::Unsubscribe(timeline));
            }
            Some(_) => {}
            None => {
                let head = client.heads.get(&timeline).copied().unwrap_or_default();
                client.subscribe(&timeline, head.saturating_sub(back));
            }
        }
    }
}
