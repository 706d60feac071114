//! What a seed has in store for the server, drawn before it begins.
//!
//! Owns: how many clients and timelines, the settings, which faults and when. Promises: every seed differs, and some
//! have no fault at all: what fails there is easier to understand.

use std::collections::BTreeMap;

use crate::machine::Fault;
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
    /// Faults of the disk, and at which call each comes, counted from the start.
    pub(crate) armed: Vec<(Fault, u32)>,
    /// How it ends, and when at the latest.
    pub(crate) end: Option<(u64, Ends)>,
}

pub(crate) struct Plan {
    pub(crate) timelines: Vec<String>,
    pub(crate) users: Vec<String>,
    pub(crate) clients: usize,
    /// ms between two steps of a client, on average.
    pub(crate) pace_ms: u64,
    /// For so many ns clients work and faults come.
    pub(crate) works: u64,
    pub(crate) settings: String,
    pub(crate) disturbances: Vec<(u64, Disturbs)>,
    pub(crate) has_disk_faults: bool,
    /// Bytes of an entry at most, and of one in ten.
    pub(crate) sizes: (u64, u64),
    /// ns that bytes take over the network at most.
    pub(crate) latency: u64,
    /// Before all is read.
    pub(crate) last_end: Option<Ends>,
    /// By client: how many appends it had when the faults ended.
    pub(crate) accepted: BTreeMap<usize, u64>,
    lives: Vec<Life>,
}

impl Plan {
    pub(crate) fn new(random: &mut Random) -> Plan {
        let names = |kind: &str, count| (0..count).map(|n| format!("{kind}{n}")).collect();
        let mut plan = Plan {
            timelines: names("t", 1 + random.below(4)),
            users: names("u", 2 + random.below(3)),
            clients: 2 + random.below(4) as usize,
            pace_ms: 5 + random.below(60),
            works: (300 + random.below(2_200)) * MS,
            settings: settings(random),
            disturbances: Vec::new(),
            has_disk_faults: false,
            sizes: *random.one(&[(40, 3_000), (40, 3_000), (9_000, 60_000)]),
            latency: *random.one(&[3_000, 2 * MS, 2 * MS]),
            last_end: *random.one(&[
                None,
                Some(Ends::PowerCut),
                Some(Ends::PowerCut),
                Some(Ends::Kill),
                Some(Ends::Terminate),
            ]),
            accepted: BTreeMap::new(),
            lives: Vec::new(),
        };
        while random.percent(40) {
            let at = random.below(plan.works);
            plan.disturbances.push((at, Disturbs::Reset));
        }
        while random.percent(25) {
            let ms = *random.one(&[-5_000, -100, 300, 20_000, 100_000, 2_000_000]);
            let at = random.below(plan.works);
            plan.disturbances.push((at, Disturbs::Jump(ms)));
        }
        if random.percent(40) {
            for _ in 0..8 {
                let at = random.below(plan.works);
                plan.disturbances.push((at, Disturbs::Reshape));
            }
        }
        for _ in 0..random.below(4) {
            let life = plan.draw_life(random);
            plan.lives.push(life);
        }
        plan
    }

    fn draw_life(&mut self, random: &mut Random) -> Life {
        let mut life = Life::default();
        let after = random.below(self.works);
        let how = *random.one(&[Ends::Kill, Ends::PowerCut, Ends::PowerCut, Ends::Terminate]);
        life.end = Some((after, how));
        let bound = *random.one(&[30, 100, 400, 1_000]);
        let calls = 1 + random.below(bound) as u32;
        match random.below(10) {
            0..4 => life.armed.push((Fault::PowerCut, calls)),
            4 => life.armed.push((Fault::Kill, calls)),
            5 => life.armed.push((Fault::SyncFails, calls)),
            6 => life.armed.push((Fault::WriteFails, calls)),
            7 => life.armed.push((Fault::WriteShort, calls)),
            8 => life.armed.push((Fault::Full, calls)),
            _ => {}
        }
        let fails = |(fault, _): &(Fault, u32)| !matches!(fault, Fault::PowerCut | Fault::Kill);
        self.has_disk_faults |= life.armed.iter().any(fails);
        if life.armed.iter().any(fails) && random.percent(70) {
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
fn settings(random: &mut Random) -> String {
    let partitions = *random.one(&[0, 0, 2, 3]);
    let memtable = *random.one(&[65_536, 65_536, 134_217_728_u64]);
    let age = *random.one(&[1_000, 600_000]);
    let segment = *random.one(&[1_048_576, 67_108_864]);
    let heartbeat = *random.one(&[500, 25_000]);
    format!(
        "partitions = {partitions}\nmemtable_bytes = {memtable}\nmemtable_age_ms = {age}\n\
         segment_bytes = {segment}\nheartbeat_ms = {heartbeat}\nmap_bytes = 1073741824\nreserve_bytes = 0\n"
    )
}
