//! What clients asked: appends, edits and reads, and their answers.
//!
//! Owns: V2 (what is acknowledged is there), V3 (nothing else is), V4 (real time, and the order of one client), V6
//! (reads), V7 (conditions). Promises: a constant time for each call beside a look into what is stored. Must not: judge
//! lists and positions; they are the people's.

use crate::content::{content, key};
use crate::order::Order;
use crate::record::{Answer, Call};
use crate::report::{Anomaly, Place};
use crate::state::{Asked, Open, State};

const NOT_ASKED: &str = "an answer to what was not asked";

/// An append was answered: with what, where, and where it was asked.
struct Told {
    sequence: u64,
    timestamp: Option<u64>,
    expected: Option<u64>,
    proof: [Place; 2],
}

impl State {
    pub(crate) fn invoke(&mut self, id: (u32, u64), at: u64, calls: &[Call], place: Place) {
        if self.open.contains_key(&id) {
            return;
        }
        let asked = calls
            .iter()
            .map(|call| (call.clone(), self.asked(id.0, call, place)));
        let calls = asked.collect();
        let is_unknown = false;
        self.open.insert(
            id,
            Open {
                at,
                place,
                is_unknown,
                calls,
            },
        );
    }

    fn asked(&mut self, client: u32, call: &Call, place: Place) -> Asked {
        match call {
            Call::Append { timeline, .. } => {
                let mut asked = self.asked_of(client, timeline);
                let view = self.views.entry((client, asked.timeline)).or_default();
                view.appends += 1;
                asked.order = view.appends;
                (asked.key, asked.content) = self.sent(asked.timeline, call, place);
                asked
            }
            Call::Edit {
                timeline,
                sequence,
                entry,
                digest,
            } => {
                let asked = self.asked_of(client, timeline);
                let of = &mut self.stored.timelines[asked.timeline as usize];
                let version = content(entry.as_ref(), *digest);
                if version == 0 {
                    of.dead.entry(*sequence).or_default();
                }
                let versions = of.versions.get(sequence);
                let is_late = versions.is_some_and(|all| all.settled)
                    && of.row(*sequence).is_some_and(|row| row.content != version);
                Asked { is_late, ..asked }
            }
            Call::Read { timeline, .. } => self.asked_of(client, timeline),
            other => self.asked_of_people(other),
        }
    }

    fn asked_of(&mut self, client: u32, name: &str) -> Asked {
        let timeline = self.stored.timeline(name);
        let view = self.views.entry((client, timeline)).or_default();
        Asked {
            timeline,
            floor: self.stored.timelines[timeline as usize].acknowledged,
            seen: view.seen,
            ..Asked::default()
        }
    }

    /// A message is sent: what is stored under its ID must be it.
    fn sent(&mut self, timeline: u32, call: &Call, place: Place) -> (u64, u64) {
        let Call::Append {
            message_id,
            sender,
            entry,
            digest,
            ..
        } = call
        else {
            return (0, 0);
        };
        self.stored.report.looked("appends", 1);
        let of = &mut self.stored.timelines[timeline as usize];
        let (key, content) = (key(sender, message_id), content(entry.as_ref(), *digest));
        let sent = (key, content);
        let Some(sequence) = of.find(key) else {
            return sent;
        };
        if let Some(versions) = of.versions.get_mut(&sequence) {
            versions.contents.push(content);
        }
        if let Some(row) = of.row_mut(sequence) {
            row.sent = true;
        }
        let Some(row) = of.row(sequence) else {
            return sent;
        };
        if !(of.fits(row, content) && of.fits(row, row.content)) {
            let what = format_args!(
                "{}: {message_id} at {sequence} is not what was sent",
                of.name
            );
            let proof = [place, of.place(row)];
            self.stored.report.found(Anomaly::Corrupt, what, &proof);
        }
        sent
    }

    pub(crate) fn ok(
        &mut self,
        id: (u32, u64),
        at: u64,
        answers: &[Answer],
        place: Place,
    ) -> Result<(), &'static str> {
        let open = self.open.remove(&id).ok_or(NOT_ASKED)?;
        if open.calls.len() != answers.len() {
            return Err("as many answers as calls are due");
        }
        let is_together = open.calls.len() > 1;
        let node = is_together.then(|| self.graph.node([open.place, place]));
        let (client, proof) = (id.0, [open.place, place]);
        for ((call, asked), answer) in open.calls.iter().zip(answers) {
            let timeline = asked.timeline;
            match call {
                Call::Append {
                    message_id,
                    expect_head,
                    ..
                } => {
                    let sequence = answer
                        .sequence
                        .ok_or("an append is answered with sequence")?;
                    let (timestamp, expected) = (answer.timestamp, *expect_head);
                    let told = Told {
                        sequence,
                        timestamp,
                        expected,
                        proof,
                    };
                    self.acknowledged(asked, message_id, &told);
                    self.in_order(client, asked, open.is_unknown, sequence, &proof);
                    let view = self.views.entry((client, timeline)).or_default();
                    view.see(sequence, place);
                    self.graph.wrote(node, timeline, sequence);
                }
                Call::Edit {
                    sequence,
                    entry,
                    digest,
                    ..
                } => {
                    let version = content(entry.as_ref(), *digest);
                    self.edited(asked, *sequence, version, at, &proof);
                }
                Call::Read { from, .. } => {
                    let head = answer.head.ok_or("a read is answered with head")?;
                    self.read(asked, *from, head, answer, &proof);
                    let view = self.views.entry((client, timeline)).or_default();
                    if head < asked.seen {
                        let name = &self.stored.timelines[timeline as usize].name;
                        let what = format_args!("{name}: head {head} after {}", asked.seen);
                        let proof = [view.seen_at, proof[0], proof[1]];
                        self.stored
                            .report
                            .found(Anomaly::NonMonotonic, what, &proof);
                    }
                    view.see(head, place);
                    self.graph.read(node, timeline, head);
                }
                other => self.told_people(other, asked, open.at, answer, &proof),
            }
        }
        Ok(())
    }

    fn acknowledged(&mut self, asked: &Asked, id: &str, told: &Told) {
        let Told {
            sequence,
            timestamp,
            expected,
            proof,
        } = told;
        let of = &mut self.stored.timelines[asked.timeline as usize];
        let (report, floor, name) = (&mut self.stored.report, asked.floor, &of.name);
        report.looked("acknowledgements", 1);
        let row = of.row(*sequence).filter(|row| row.key == asked.key);
        match (row, of.find(asked.key)) {
            (Some(row), _) if timestamp.is_some_and(|time| time != row.timestamp) => {
                let what = format_args!("{name}: {id} at {sequence} has another time");
                report.found(Anomaly::Corrupt, what, &[proof[0], proof[1], of.place(row)]);
            }
            (Some(_), _) => {}
            (None, Some(other)) => {
                let what =
                    format_args!("{name}: {id} was acknowledged at {sequence}, it is at {other}");
                report.found(Anomaly::Misplaced, what, proof);
            }
            (None, None) => {
                let what =
                    format_args!("{name}: {id} was acknowledged at {sequence}, it is not there");
                report.found(Anomaly::Lost, what, proof);
            }
        }
        if *sequence <= floor {
            let what =
                format_args!("{name}: {id} got {sequence}, {floor} was known before it was sent");
            report.found(Anomaly::Reordered, what, proof);
        }
        if let Some(head) = expected.filter(|head| head.checked_add(1) != Some(*sequence)) {
            let what = format_args!("{name}: {id} got {sequence}, on condition of head {head}");
            report.found(Anomaly::WrongCondition, what, proof);
        }
        let stored = row.map(|row| row.content);
        if let Some(versions) = of.versions.get_mut(sequence) {
            versions.settle(asked.content, stored);
        }
        of.acknowledged = of.acknowledged.max(*sequence);
    }

    /// What one client sends in a row over one connection is stored in this order.
    fn in_order(&mut self, client: u32, asked: &Asked, is_unknown: bool, at: u64, proof: &[Place]) {
        let view = self.views.entry((client, asked.timeline)).or_default();
        let (order, sequence) = view.done;
        if is_unknown {
            return;
        }
        if order > 0 && (asked.order > order) != (at > sequence) {
            let name = &self.stored.timelines[asked.timeline as usize].name;
            let what = format_args!("{name}: {at} and {sequence} were sent in the other order");
            self.stored.report.found(Anomaly::Reordered, what, proof);
        }
        view.done = view.done.max((asked.order, at));
    }

    fn edited(&mut self, asked: &Asked, sequence: u64, version: u64, at: u64, proof: &[Place; 2]) {
        let of = &mut self.stored.timelines[asked.timeline as usize];
        let name = &of.name;
        let stored = of.row(sequence).map(|row| row.content);
        if version == 0 {
            of.dead.insert(sequence, Some(at));
        }
        if asked.is_late || stored.is_none() {
            let what =
                format_args!("{name}: the edit of {sequence} was acknowledged, it is not there");
            self.stored.report.found(Anomaly::Lost, what, proof);
        }
        let versions = of.versions.entry(sequence).or_default();
        versions.settle(version, stored);
    }

    fn read(&mut self, asked: &Asked, from: u64, head: u64, answer: &Answer, proof: &[Place; 2]) {
        let of = &self.stored.timelines[asked.timeline as usize];
        let (name, last) = (of.name.clone(), of.last());
        let report = &mut self.stored.report;
        report.looked("reads", 1);
        if head < asked.floor && head >= asked.seen {
            let what = format_args!("{name}: head {head}, {} was known before", asked.floor);
            report.found(Anomaly::Stale, what, proof);
        }
        if head > last {
            let what = format_args!("{name}: a read saw head {head}, the last is {last}");
            report.found(Anomaly::Lost, what, proof);
        }
        let mut order = Order::from(from);
        for message in &answer.messages {
            if let Some(anomaly) = order.step(message.sequence) {
                let what = format_args!("{name}: {} came again in a read", message.sequence);
                self.stored.report.found(anomaly, what, proof);
            }
            self.compare(asked.timeline, message, proof[1]);
        }
        let is_short = answer.messages.is_empty() && from <= head;
        let end = if is_short { head } else { order.next - 1 };
        for (first, last) in order.missing(end) {
            let what = format_args!("{name}: a read from {from} lacks {first} to {last}");
            self.stored.report.found(Anomaly::Gap, what, proof);
        }
    }

    pub(crate) fn fail(
        &mut self,
        id: (u32, u64),
        reason: &str,
        place: Place,
    ) -> Result<(), &'static str> {
        let open = self.open.remove(&id).ok_or(NOT_ASKED)?;
        let proof = [open.place, place];
        for (call, asked) in &open.calls {
            let timeline = asked.timeline;
            let of = &mut self.stored.timelines;
            match call {
                Call::Append {
                    message_id,
                    expect_head,
                    ..
                } => {
                    let of = &of[timeline as usize];
                    let (name, report) = (&of.name, &mut self.stored.report);
                    if let Some(at) = of.find(asked.key) {
                        let what = format_args!("{name}: {message_id} was refused and is at {at}");
                        report.found(Anomaly::G1a, what, &proof);
                    }
                    // Who might have moved the head was not even asked to.
                    let is_there = |head: u64| {
                        asked.floor >= head && of.row(head + 1).is_none_or(|row| !row.sent)
                    };
                    if reason == "condition_failed" && expect_head.is_some_and(is_there) {
                        let what =
                            format_args!("{name}: {message_id} was refused, its condition held");
                        report.found(Anomaly::WrongCondition, what, &proof);
                    }
                    self.failed.insert((timeline, asked.key), place);
                }
                Call::Edit {
                    sequence,
                    entry,
                    digest,
                    ..
                } => {
                    let of = &mut of[timeline as usize];
                    let version = content(entry.as_ref(), *digest);
                    let contents = of.versions.entry(*sequence).or_default();
                    let at = contents.contents.iter().position(|one| *one == version);
                    at.map(|at| contents.contents.swap_remove(at));
                    let is_other = !contents.contents.contains(&version);
                    if is_other && of.row(*sequence).is_some_and(|row| row.content == version) {
                        let what =
                            format_args!("{}: a refused edit of {sequence} is there", of.name);
                        self.stored.report.found(Anomaly::G1a, what, &proof);
                    }
                    if version == 0 && is_other {
                        of.dead.remove(sequence);
                    }
                }
                Call::Read { .. } => {}
                other => self.refused_people(other, asked),
            }
        }
        Ok(())
    }

    pub(crate) fn unknown(&mut self, id: (u32, u64)) -> Result<(), &'static str> {
        let open = self.open.get_mut(&id).ok_or(NOT_ASKED)?;
        open.is_unknown = true;
        Ok(())
    }

    /// No more comes: what was not answered may be stored once, in its place; what nobody sent may not.
    pub(crate) fn end_calls(&mut self) {
        let mut left = Vec::from_iter(std::mem::take(&mut self.open));
        left.sort_by_key(|(id, open)| (*id, open.place.line));
        for ((client, _), open) in left {
            for (call, asked) in &open.calls {
                let of = &self.stored.timelines[asked.timeline as usize];
                let (Call::Append { message_id, .. }, Some(at)) = (call, of.find(asked.key)) else {
                    continue;
                };
                if at <= asked.floor {
                    let what = format_args!(
                        "{}: {message_id} is at {at}, {} was known before it was sent",
                        of.name, asked.floor
                    );
                    self.stored
                        .report
                        .found(Anomaly::Reordered, what, &[open.place]);
                }
                self.in_order(client, asked, open.is_unknown, at, &[open.place]);
            }
        }
        let report = &mut self.stored.report;
        for of in &self.stored.timelines {
            for row in of.rows.iter().filter(|row| !row.sent) {
                let what = format_args!("{}: nobody sent what is at {}", of.name, row.sequence);
                report.found(Anomaly::Unexpected, what, &[of.place(row)]);
            }
        }
    }
}
