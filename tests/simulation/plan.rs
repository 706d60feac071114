//! What a seed has in store for the server, drawn before it begins.
//!
//! Owns: how many clients and timelines, the settings, which faults and when. Promises: every seed differs, and some
//! have no fault at all: what fails there is easier to understand.

use std::collections::BTreeMap;

use crate::machine::{About, Armed, Disk, Fault};
use crate::random::Random;

const MS: u64 = 1_000_000;

/// How a life is ended from outside.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ends {
    Kill,
    PowerCut,
    /// SIGTERM.
    Terminate,
}

/// What happens beside the server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Disturbs {
    /// A connection is cut.
    Reset,
    /// The clock on the wall jumps by so many ms.
    Jump(i32),
    /// Partitions are split or merged.
    Reshape,
}

/// What one life of the server brings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life {
    /// A fault of the disk.
    pub(crate) armed: Option<Armed>,
    /// How it ends, and when at the latest.
    pub(crate) end: Option<(u64, Ends)>,
}

impl Life {
    fn has(&self, faults: &[Fault]) -> bool {
        self.armed
            .is_some_and(|armed| faults.contains(&armed.fault))
    }

    /// Whether the disk fails, so that the server may end by itself.
    pub(crate) fn has_disk_faults(&self) -> bool {
        self.armed.is_some() && !self.has(&[Fault::PowerCut, Fault::Kill])
    }
}

pub(crate) struct Plan {
    pub(crate) timelines: Vec<String>,
    pub(crate) users: Vec<String>,
    /// Timelines whose messages go into the inboxes of members.
    pub(crate) fanned: Vec<String>,
    pub(crate) clients: usize,
    /// By client: how likely each call is, in the order of [`CALLS`].
    pub(crate) calls: Vec<[u64; CALLS.len()]>,
    /// ms between two steps of a client, on average.
    pub(crate) pace_ms: u64,
    /// A client asks nothing new while so many of its calls have no answer.
    pub(crate) open_calls: usize,
    /// In so many of a hundred cases a client reads what it has just written.
    pub(crate) looks_back: u64,
    /// For so many ns clients work and faults come.
    pub(crate) works: u64,
    pub(crate) settings: String,
    pub(crate) disk: Disk,
    pub(crate) disturbances: Vec<(u64, Disturbs)>,
    /// Bytes of an entry at most, and of one in ten.
    pub(crate) sizes: (u64, u64),
    /// So many ns the reader of the stream is away after a cut, at most.
    pub(crate) away: u64,
    /// ns that bytes take over the network at most.
    pub(crate) latency: u64,
    /// How many more appends every client has accepted after the faults.
    pub(crate) last_appends: u64,
    /// Partitions are split or merged beside these.
    pub(crate) reshapes_last: bool,
    /// Before all is read.
    pub(crate) last_end: Option<Ends>,
    /// By client: how many appends it had when the faults ended.
    pub(crate) accepted: BTreeMap<usize, u64>,
    /// How long a life is at most, in ns.
    longest: u64,
    /// Which fault comes in most lives.
    favourite: Option<Fault>,
    lives: Vec<Life>,
}

/// What clients ask, and how likely each is in the mean.
pub(crate) const CALLS: [(Does, u64); 9] = [
    (Does::Append, 50),
    (Does::Batch, 6),
    (Does::Conditional, 4),
    (Does::Schedule, 4),
    (Does::Read, 10),
    (Does::Edit, 7),
    (Does::Mark, 7),
    (Does::Member, 5),
    (Does::List, 7),
];

/// A kind of call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Does {
    Append,
    Batch,
    Conditional,
    Schedule,
    Read,
    Edit,
    Mark,
    Member,
    List,
}

const FAULTS: [Fault; 10] = [
    Fault::PowerCut,
    Fault::PowerCut,
    Fault::PowerCut,
    Fault::Kill,
    Fault::Kill,
    Fault::SyncFails,
    Fault::WriteFails,
    Fault::WriteShort,
    Fault::Full,
    Fault::Full,
];

impl Plan {
    /// Each seed has its own mixture: what is rare in most is frequent in some, so rare things meet.
    pub(crate) fn new(random: &mut Random) -> Plan {
        let names = |kind: &str, count| (0..count).map(|n| format!("{kind}{n}")).collect();
        let is_reshaped = random.percent(50);
        // Where clients hardly pause, batches are written while others are on their way to the disk.
        let is_dense = random.percent(30);
        let hangs = random.below(8);
        let disk = Disk {
            is_slow: random.percent(33),
            is_throttled: random.percent(if is_dense { 80 } else { 33 }),
            logs_hang: hangs < 3,
            others_hang: hangs == 3,
        };
        let timelines = match is_reshaped && random.percent(50) {
            true => 6 + random.below(8),
            false => 1 + random.below(4),
        };
        let ends = [
            None,
            Some(Ends::PowerCut),
            Some(Ends::PowerCut),
            Some(Ends::Kill),
            Some(Ends::Terminate),
        ];
        let mut plan = Plan {
            timelines: names("t", timelines),
            users: names("u", 2 + random.below(3)),
            fanned: names("t", *random.one(&[0, 1, timelines])),
            clients: (2 + random.below(if is_dense { 7 } else { 4 })) as usize,
            calls: Vec::new(),
            pace_ms: if is_dense { 1 } else { 5 + random.below(60) },
            open_calls: if is_dense { 30 } else { 7 },
            looks_back: *random.one(&[0, 20, 80]),
            works: match (is_dense, disk.logs_hang) {
                (true, false) => 300 + random.below(500),
                (_, false) => 300 + random.below(2_200),
                (_, true) => 1_500 + random.below(2_500),
            } * MS,
            settings: settings(random, is_dense),
            disk,
            disturbances: Vec::new(),
            sizes: match is_dense {
                true => *random.one(&[(40, 3_000), (9_000, 60_000), (40_000, 60_000)]),
                false => {
                    *random.one(&[(40, 3_000), (40, 3_000), (9_000, 60_000), (40_000, 60_000)])
                }
            },
            latency: *random.one(&[3_000, 2 * MS, 2 * MS]),
            away: *random.one(&[300, 300, 4_000]) * MS,
            last_appends: *random.one(&[1, 4, 12]),
            reshapes_last: is_reshaped && random.percent(70),
            last_end: *random.one(&ends),
            accepted: BTreeMap::new(),
            longest: *random.one(&[u64::MAX, u64::MAX, 600 * MS]),
            favourite: match disk.logs_hang && random.percent(60) {
                true => Some(Fault::PowerCut),
                false => random.percent(70).then(|| *random.one(&FAULTS)),
            },
            lives: Vec::new(),
        };
        plan.longest = plan.longest.min(plan.works);
        let is_fanned = !plan.fanned.is_empty();
        let calls = CALLS.map(|(does, weight)| match does {
            // An inbox needs a member.
            Does::Member if is_fanned => weight * random.one(&[2, 6]),
            _ => weight * random.one(&[1, 1, 1, 6]),
        });
        for _ in 0..plan.clients {
            let reads_only = random.percent(25);
            let mut own = calls;
            for (weight, (does, _)) in own.iter_mut().zip(&CALLS) {
                if reads_only && !matches!(does, Does::Read | Does::List) {
                    *weight = 0;
                }
            }
            plan.calls.push(own);
        }
        plan.draw_disturbances(random, is_reshaped);
        // Where a log's sync hangs, the power is to go at many of its moments.
        let lives = match disk.logs_hang {
            true => [0, 1, 3, 4, 8, 8, 8],
            false => [0, 1, 2, 3, 3, 4, 8],
        };
        for _ in 0..*random.one(&lives) {
            let life = plan.draw_life(random);
            plan.lives.push(life);
        }
        plan
    }

    fn draw_disturbances(&mut self, random: &mut Random, is_reshaped: bool) {
        while random.percent(40) {
            let at = random.below(self.works);
            self.disturbances.push((at, Disturbs::Reset));
        }
        while random.percent(25) {
            let ms = *random.one(&[-5_000, -100, 300, 20_000, 100_000, 2_000_000]);
            let at = random.below(self.works);
            self.disturbances.push((at, Disturbs::Jump(ms)));
        }
        if is_reshaped {
            for _ in 0..*random.one(&[4, 8, 20]) {
                let at = random.below(self.works);
                self.disturbances.push((at, Disturbs::Reshape));
            }
        }
    }

    fn draw_life(&mut self, random: &mut Random) -> Life {
        let mut life = Life::default();
        let after = random.below(self.longest);
        let how = *random.one(&[Ends::Kill, Ends::PowerCut, Ends::PowerCut, Ends::Terminate]);
        life.end = random.percent(70).then_some((after, how));
        let mut drawn = random.percent(90).then(|| *random.one(&FAULTS));
        drawn = self.favourite.filter(|_| random.percent(75)).or(drawn);
        let can_sync = [Fault::PowerCut, Fault::Kill, Fault::SyncFails];
        let is_of_sync = drawn.is_some_and(|fault| can_sync.contains(&fault));
        let ends = [Fault::PowerCut, Fault::Kill];
        let is_end = drawn.is_some_and(|fault| ends.contains(&fault));
        let (about, bounds) = match random.below(10) {
            0..5 if is_end && self.disk.logs_hang => (About::Overtaken, [1, 2, 4, 8]),
            0..4 if is_of_sync => (About::LogSync, [3, 10, 30, 100]),
            0..6 => (About::Log, [6, 20, 60, 200]),
            _ => (About::Any, [30, 100, 400, 1_000]),
        };
        let bound = *random.one(&bounds);
        let mut armed = drawn.map(|fault| Armed {
            fault,
            about,
            countdown: 1 + random.below(bound) as u32,
        });
        // What a kill has left is often lost to a power cut soon after.
        let is_killed = self.lives.last();
        if is_killed.is_some_and(|last| last.has(&[Fault::Kill])) && random.percent(70) {
            armed = Some(Armed {
                fault: Fault::PowerCut,
                about: About::Inherited,
                countdown: 1 + random.below(3) as u32,
            });
        }
        life.armed = armed;
        // Without a restart: what was refused for want of room is done by itself when there is some.
        if life.has(&[Fault::Full]) && random.percent(70) {
            life.end = None;
        } else if life.has_disk_faults() && random.percent(30) {
            life.end = Some((after, Ends::PowerCut));
        }
        life
    }

    /// What the life of this number brings; nothing once the faults have ended.
    pub(crate) fn life(&self, number: u64, works: bool) -> Life {
        let life = self.lives.get(number as usize).filter(|_| works);
        life.cloned().unwrap_or_default()
    }
}

/// Small memtables and segments, so that flushes and merges come; chosen by the seed like all else.
fn settings(random: &mut Random, is_dense: bool) -> String {
    let partitions = *random.one(&[0, 0, 2, 3]);
    let memtables = [65_536, 65_536, 134_217_728_u64];
    let memtable = if is_dense {
        memtables[0]
    } else {
        *random.one(&memtables)
    };
    let age = *random.one(&[1_000, 600_000]);
    let segment = *random.one(&[1_048_576, 67_108_864]);
    let heartbeat = *random.one(&[500, 25_000]);
    format!(
        "partitions = {partitions}\nmemtable_bytes = {memtable}\nmemtable_age_ms = {age}\n\
         segment_bytes = {segment}\nheartbeat_ms = {heartbeat}\nmap_bytes = 1073741824\nreserve_bytes = 0\n"
    )
}
