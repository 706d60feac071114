//! The world: clients, the network between them and the server, faults, lives of the server, and the end.
//!
//! Owns: one run of one seed. Promises: all that happens follows from the seed; after the faults have ended everything
//! must be accepted and shown within [`PATIENCE`]. Must not: judge what clients saw; `tideline_history` does.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tideline_history::{Checker, Event, Final, Member, Place, Stored, What};

use crate::client::{Asked, Chooser, Client, Line, Waits, conversations, messages};
use crate::machine::{Acts, Birth, End, Machine, Said};
use crate::plan::{Ends, Plan};
use crate::random::Random;
use crate::socket::{Came, HELLO, Socket};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// So long may it take, without faults, until all calls are answered and all is shown.
const PATIENCE: u64 = 90 * SECOND;
/// A jump of the clock is followed after 10 s; only then comes what is scheduled.
const SETTLES: u64 = 30 * SECOND;
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
    life: u64,
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
            client.is_slow = random.percent(10);
            for timeline in &plan.timelines {
                if random.percent(50) {
                    client.follows.insert(timeline.clone(), (0, false));
                }
            }
        }
        // A back end; those have no user.
        let mut back_end = Client::new("back end".to_owned(), String::new());
        back_end.stream = random.percent(50).then_some(false);
        clients.push(back_end);
        World {
            task,
            plan,
            random,
            now: SECOND,
            ahead: BEGAN,
            machine: None,
            acts: Acts::default(),
            life: 0,
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
            wrong: Vec::new(),
            sum: 0,
        }
    }

    /// Runs to the end and judges.
    pub(crate) fn run(mut self) -> Outcome {
        for folder in ["disk", "undo"] {
            fs::create_dir_all(self.task.folder.join(folder)).expect("a folder");
        }
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
            self.come(
                after,
                match what {
                    crate::plan::Disturbs::Reset => Comes::Reset,
                    crate::plan::Disturbs::Jump(ms) => Comes::Jump(ms),
                    crate::plan::Disturbs::Reshape => Comes::Reshape,
                },
            );
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
        };
        self.machine = Some(Machine::start(&birth).expect("the server can be started"));
        for (fault, countdown) in plan.armed {
            self.acts.arm(fault, countdown);
        }
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
        self.coming
            .retain(|_, what| !matches!(what, Comes::ToServer(..) | Comes::Connect(_)));
        for connection in self.sockets.keys().copied().collect::<Vec<_>>() {
            self.arrives(connection, false, Comes::Cut(connection));
        }
        let is_meant = match how {
            End::Killed | End::PowerCut => true,
            End::Exit(0) => true,
            // A disk that fails may end it.
            End::Exit(_) => self.plan.has_disk_faults && self.phase == Phase::Works,
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

    /// Something goes over a connection, behind all that went before.
    fn arrives(&mut self, connection: u32, to_server: bool, what: Comes) {
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

    fn sent(&mut self, connection: u32, bytes: Vec<u8>) {
        self.arrives(connection, false, Comes::ToClient(connection, bytes));
    }

    fn dial(&mut self, at: usize) {
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

    fn cut(&mut self, connection: u32) {
        let Some((at, _)) = self.sockets.remove(&connection) else {
            return;
        };
        let events = self.clients[at].cut();
        events.into_iter().for_each(|what| self.note(at, what));
        let after = 10 * MS + self.random.below(300) * MS;
        self.come(after, Comes::Dial(at));
    }

    fn received(&mut self, connection: u32, bytes: &[u8]) {
        let Some((at, socket)) = self.sockets.get_mut(&connection) else {
            return;
        };
        let at = *at;
        let came = socket.take(bytes);
        self.acts.read(connection, bytes.len() as u32);
        for came in came {
            match came {
                Came::Open => self.clients[at].greet(),
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
    fn flush(&mut self, at: usize) {
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

    fn message(&mut self, at: usize, message: &Value) {
        let Some(id) = message.get("id") else {
            self.pushed(at, message);
            return;
        };
        let waits = id
            .as_u64()
            .and_then(|id| self.clients[at].waits.remove(&id));
        match waits {
            None => self.fault(format!("an answer to nothing: {message}")),
            Some(Waits::Session) => self.clients[at].line = Line::Up,
            Some(Waits::Subscribe(timeline, after)) => {
                self.subscribed(at, &timeline, after, message)
            }
            Some(Waits::Unsubscribe(timeline)) => {
                self.clients[at].follows.remove(&timeline);
                self.note(at, What::Unsubscribe(timeline));
            }
            Some(Waits::Stream) => self.opened(at, message),
            Some(Waits::Asked(asked)) => self.answered(at, asked, message),
            Some(Waits::Dump(step)) => self.dumped(step, message),
            Some(Waits::Nothing) => {
                if self.task.is_traced {
                    eprintln!("> {} {message}", self.now / 1_000);
                }
            }
        }
    }

    fn answered(&mut self, at: usize, asked: Asked, message: &Value) {
        if asked.is_scheduled() && message.get("error").is_none() {
            let text = |name: &str| asked.params[name].as_str().unwrap_or_default().to_owned();
            let due = asked.params["deliver_at"].as_u64().unwrap_or_default();
            self.scheduled
                .push((text("timeline"), text("message_id"), due));
        }
        let what = self.clients[at].answered(asked, message);
        self.note(at, what);
    }

    fn subscribed(&mut self, at: usize, timeline: &str, after: u64, message: &Value) {
        let Some(result) = message.get("result") else {
            // It is tried again with the next connection, or soon.
            let connection = self.clients[at].connection;
            self.arrives(connection, false, Comes::Cut(connection));
            self.acts.reset(connection);
            return;
        };
        let messages = messages(&result["messages"]);
        self.note(at, What::Subscribe(timeline.to_owned(), after));
        self.clients[at]
            .follows
            .insert(timeline.to_owned(), (after, true));
        if !messages.is_empty() {
            self.clients[at].shown(timeline, &messages);
            self.note(at, What::Push(timeline.to_owned(), messages));
        }
    }

    fn pushed(&mut self, at: usize, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str() {
            Some("message") => {
                let timeline = params["timeline"].as_str().unwrap_or_default();
                let messages = messages(&params["messages"]);
                self.clients[at].shown(timeline, &messages);
                self.note(at, What::Push(timeline.to_owned(), messages));
            }
            Some("stream.changes") => self.changes(at, params),
            Some("stream.ended") => self.fault(format!("a stream ended: {message}")),
            _ => {}
        }
    }

    fn opened(&mut self, at: usize, message: &Value) {
        if self.task.is_traced {
            eprintln!("> {} {message}", self.now / 1_000);
        }
        if message.get("result").is_none() {
            let connection = self.clients[at].connection;
            self.arrives(connection, false, Comes::Cut(connection));
            self.acts.reset(connection);
            return;
        }
        if self.clients[at].stream.replace(true) == Some(false) {
            for timeline in self.plan.timelines.clone() {
                self.note(at, What::Subscribe(timeline, 0));
            }
        }
    }

    /// The stream of all timelines brings every message; what was not committed comes again.
    fn changes(&mut self, at: usize, params: &Value) {
        for change in params["changes"].as_array().into_iter().flatten() {
            if change["kind"] != "message" {
                continue;
            }
            let timeline = change["timeline"].as_str().unwrap_or_default().to_owned();
            let client = &mut self.clients[at];
            let seen = client.heads.get(&timeline).copied().unwrap_or_default();
            let mut messages = messages(&change["messages"]);
            messages.retain(|message| message.sequence > seen);
            client.saw(&timeline, messages.last().map_or(0, |last| last.sequence));
            self.note(at, What::Push(timeline, messages));
        }
        let commit = json!({"cursor": "audit", "position": params["position"]});
        self.clients[at].request("stream.commit", &commit, Waits::Nothing);
    }

    fn step(&mut self, at: usize) {
        let pause = 1 + self.random.below(self.plan.pace_ms * 2);
        if self.phase == Phase::Works {
            self.come(pause * MS, Comes::Step(at));
        }
        let client = &mut self.clients[at];
        if client.line != Line::Up || client.waits.len() > 6 || self.phase != Phase::Works {
            return;
        }
        let mut chooser = Chooser {
            random: &mut self.random,
            timelines: &self.plan.timelines,
            users: &self.plan.users,
            clients: self.plan.clients,
            sizes: self.plan.sizes,
            wall_ms: self.now.wrapping_add(self.ahead) / MS,
        };
        for _ in 0..1 + chooser.random.below(3) {
            let asked = chooser.call(&mut self.clients[at]);
            self.events
                .push(invoke(self.now, &self.clients[at], &asked));
            self.clients[at].ask(asked);
        }
        if self.random.percent(8) {
            self.moves_subscription(at);
        }
        self.flush(at);
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

    fn reshape(&mut self) {
        let splits = self.random.percent(60);
        let partition = self.random.below(5);
        let (method, params) = match splits {
            true => ("partition.split", json!({"partition": partition})),
            false => (
                "partition.merge",
                json!({"partition": partition, "with": partition + 1}),
            ),
        };
        let back_end = self.plan.clients;
        if self.phase == Phase::Works && self.clients[back_end].line == Line::Up {
            self.clients[back_end].request(method, &params, Waits::Nothing);
            self.flush(back_end);
        }
    }

    /// Goes on to the next phase when it is time; until then it looks again and again.
    fn next_phase(&mut self) {
        let is_late = self.deadline > 0 && self.now > self.deadline;
        match self.phase {
            Phase::Works => {
                self.phase = Phase::Calms;
                self.deadline = self.now + PATIENCE;
                // A partition that a failing disk has stopped is back after a restart.
                if self.plan.has_disk_faults && self.machine.is_some() {
                    self.end(Ends::Kill);
                }
            }
            Phase::Calms if is_late => {
                let busy = self.clients.iter().filter(|client| !client.is_idle());
                let names: Vec<_> = busy
                    .map(|client| format!("{} {:?}", client.name, client.line))
                    .collect();
                self.fault(format!("no answer after all faults: {}", names.join(", ")));
                self.phase = Phase::Over;
                return;
            }
            Phase::Calms => {
                if self.calm() {
                    self.phase = Phase::Settles;
                    self.late_follower();
                    self.come(SETTLES, Comes::Next);
                    return;
                }
            }
            Phase::Settles => {
                for at in 0..self.clients.len() {
                    self.note(at, What::Settled);
                }
                self.phase = Phase::Reads;
                self.clients.clear();
                self.clients
                    .push(Client::new("end".to_owned(), "end".to_owned()));
                for connection in std::mem::take(&mut self.sockets).into_keys() {
                    self.acts.reset(connection);
                }
                let is_over =
                    |what: &Comes| matches!(what, Comes::Dial(_) | Comes::Step(_) | Comes::Reset);
                self.coming.retain(|_, what| !is_over(what));
                if let Some(how) = self.plan.last_end {
                    self.end(how);
                }
                self.come(2 * SECOND, Comes::Dial(0));
                self.deadline = self.now + PATIENCE;
            }
            Phase::Reads if is_late => {
                self.fault("not all could be read".to_owned());
                self.phase = Phase::Over;
            }
            Phase::Reads => self.ask_dump(),
            Phase::Over => {}
        }
        self.come(200 * MS, Comes::Next);
    }

    /// One who begins where nothing comes any more sees everything, too.
    fn late_follower(&mut self) {
        let mut late = Client::new("late".to_owned(), "late".to_owned());
        for timeline in &self.plan.timelines {
            late.follows.insert(timeline.clone(), (0, false));
        }
        self.clients.push(late);
        self.come(0, Comes::Dial(self.clients.len() - 1));
    }

    /// Every client must have one more append accepted.
    fn calm(&mut self) -> bool {
        let mut all = self.machine.is_some();
        for at in 0..self.plan.clients {
            let client = &mut self.clients[at];
            all &= client.is_idle();
            if !client.is_idle()
                || self
                    .plan
                    .accepted
                    .get(&at)
                    .is_some_and(|before| client.appended > *before)
            {
                continue;
            }
            all = false;
            self.plan.accepted.entry(at).or_insert(client.appended);
            let mut chooser = Chooser {
                random: &mut self.random,
                timelines: &self.plan.timelines,
                users: &self.plan.users,
                clients: self.plan.clients,
                sizes: self.plan.sizes,
                wall_ms: 0,
            };
            let timeline = chooser.random.one(chooser.timelines).clone();
            let asked = chooser.append(client, &timeline, 1);
            self.events
                .push(invoke(self.now, &self.clients[at], &asked));
            self.clients[at].ask(asked);
            self.flush(at);
        }
        all
    }

    /// Reads all, one call after the other; begins anew after a cut.
    fn ask_dump(&mut self) {
        if self.clients[0].line != Line::Up || !self.clients[0].waits.is_empty() {
            return;
        }
        self.finals.clear();
        self.dump.clear();
        for timeline in &self.plan.timelines {
            self.dump.push((
                "message.range",
                json!({"timeline": timeline, "from": 1, "limit": 1000}),
            ));
            self.dump
                .push(("member.list", json!({"timeline": timeline, "limit": 1000})));
        }
        for user in &self.plan.users {
            self.dump.push(("session.open", json!({"user": user})));
            self.dump
                .push(("conversation.list", json!({"limit": 1000})));
        }
        self.dump_step(0);
    }

    fn dump_step(&mut self, step: usize) {
        let Some((method, params)) = self.dump.get(step) else {
            self.phase = Phase::Over;
            return;
        };
        let (method, params) = (*method, params.clone());
        self.clients[0].request(method, &params, Waits::Dump(step));
        self.flush(0);
    }

    fn dumped(&mut self, step: usize, message: &Value) {
        let (method, params) = self.dump[step].clone();
        let timeline = params["timeline"].as_str().unwrap_or_default().to_owned();
        let result = &message["result"];
        let reason = message["error"]["data"]["reason"].as_str();
        match (method, reason) {
            (_, Some("timeline_not_found")) => {}
            (_, Some(_)) => return,
            ("message.range", _) => {
                let (head, floor) = (result["head"].as_u64(), result["floor"].as_u64());
                let (head, floor) = (head.unwrap_or_default(), floor.unwrap_or_default());
                if params["from"] == 1 {
                    let timeline = timeline.clone();
                    self.finals.push(Final::Timeline {
                        timeline,
                        head,
                        floor,
                    });
                }
                for message in messages(&result["messages"]) {
                    self.finals.push(Final::Message {
                        timeline: timeline.clone(),
                        message,
                    });
                }
                if let Some(next) = result.get("next") {
                    let mut rest = params;
                    rest["from"] = next.clone();
                    self.dump.insert(step + 1, (method, rest));
                }
            }
            ("member.list", _) => {
                for member in result["members"].as_array().into_iter().flatten() {
                    let user = member["user"].as_str().unwrap_or_default().to_owned();
                    let read = member["read"].as_u64().unwrap_or_default();
                    let (timeline, member) = (timeline.clone(), Member { user, read });
                    self.finals.push(Final::Member { timeline, member });
                }
            }
            ("conversation.list", _) => {
                let user = self.dump[step - 1].1["user"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                let conversations = conversations(&result["conversations"]);
                self.finals.push(Final::Conversations {
                    user,
                    conversations,
                });
            }
            _ => {}
        }
        self.dump_step(step + 1);
    }

    fn judge(&mut self) {
        if !self.wrong.is_empty() {
            return;
        }
        let place = |file, at| Place {
            file,
            line: at as u32 + 1,
        };
        let mut stored = Stored::new();
        for (at, record) in self.finals.iter().enumerate() {
            stored.take(record, place(0, at)).expect("a dump");
        }
        self.events.iter().for_each(|event| stored.expect(event));
        let mut checker = Checker::new(stored);
        for (at, event) in self.events.iter().enumerate() {
            if let Err(odd) = checker.event(event, place(1, at)) {
                self.wrong.push(odd.to_string());
            }
        }
        let report = checker.end();
        for violation in &report.violations {
            self.wrong
                .push(format!("{}: {}", violation.anomaly.name(), violation.what));
            if self.task.is_traced {
                for place in violation.proof.iter().filter(|place| place.line > 0) {
                    match place.file {
                        0 => eprintln!("> proof {:?}", self.finals.get(place.line as usize - 1)),
                        _ => eprintln!("> proof {:?}", self.events.get(place.line as usize - 1)),
                    }
                }
            }
        }
        let wall_ms = self.now.wrapping_add(self.ahead) / MS;
        for (timeline, id, due) in &self.scheduled {
            let is_there = |record: &Final| match record {
                Final::Message {
                    timeline: of,
                    message,
                } => of == timeline && message.message_id == *id,
                _ => false,
            };
            if due + 5_000 < wall_ms && !self.finals.iter().any(is_there) {
                self.wrong.push(format!(
                    "{timeline}: {id} was scheduled for {due} and never came"
                ));
            }
        }
    }
}

fn invoke(now: u64, client: &Client, asked: &Asked) -> Event {
    Event(
        now,
        client.name.clone(),
        What::Invoke(asked.op, asked.calls.clone()),
    )
}
