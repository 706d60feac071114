//! Circles of operations of several calls.
//!
//! Owns: who wrote behind whom, who read whose writes (G0, G1c). Promises: linear but for a sort; one circle is told
//! for each knot. Must not: look at operations of one call: each of those is before or behind every other.

use crate::report::{Anomaly, Place, Report};

/// So many circles are looked for.
const CIRCLES_MAX: usize = 20;

/// Operations of several calls.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// Where each is asked and answered.
    nodes: Vec<[Place; 2]>,
    /// Timeline, sequence, operation.
    writes: Vec<(u32, u64, usize)>,
    /// Timeline, head, operation.
    reads: Vec<(u32, u64, usize)>,
}

impl Graph {
    pub(crate) fn node(&mut self, proof: [Place; 2]) -> usize {
        self.nodes.push(proof);
        self.nodes.len() - 1
    }

    pub(crate) fn wrote(&mut self, node: Option<usize>, timeline: u32, sequence: u64) {
        self.writes
            .extend(node.map(|node| (timeline, sequence, node)));
    }

    pub(crate) fn read(&mut self, node: Option<usize>, timeline: u32, head: u64) {
        self.reads.extend(node.map(|node| (timeline, head, node)));
    }

    pub(crate) fn judge(mut self, report: &mut Report) {
        report.looked("operations of several calls", self.nodes.len() as u64);
        self.writes.sort_unstable();
        // By operation: what it must come before, and whether that has read it.
        let mut next: Vec<Vec<(usize, bool)>> = vec![Vec::new(); self.nodes.len()];
        for pair in self.writes.windows(2) {
            if pair[0].0 == pair[1].0 && pair[0].2 != pair[1].2 {
                next[pair[0].2].push((pair[1].2, false));
            }
        }
        for (timeline, head, reader) in &self.reads {
            let below = |write: &(u32, u64, usize)| (write.0, write.1) <= (*timeline, *head);
            let behind = self.writes.partition_point(below);
            let last = behind.checked_sub(1).map(|at| self.writes[at]);
            if let Some((_, _, writer)) =
                last.filter(|last| last.0 == *timeline && last.2 != *reader)
            {
                next[writer].push((*reader, true));
            }
        }
        for _ in 0..CIRCLES_MAX {
            let Some(circle) = circle(&next) else { return };
            let reads = circle.iter().any(|(_, is_read)| *is_read);
            let anomaly = if reads { Anomaly::G1c } else { Anomaly::G0 };
            let proof: Vec<Place> = circle
                .iter()
                .flat_map(|(node, _)| self.nodes[*node])
                .collect();
            let what = format_args!("{} operations come before each other", circle.len());
            report.found(anomaly, what, &proof);
            // The next one lies elsewhere.
            circle.iter().for_each(|(node, _)| next[*node].clear());
        }
    }
}

/// Some circle: its operations, each with whether it read what the one before wrote.
fn circle(next: &[Vec<(usize, bool)>]) -> Option<Vec<(usize, bool)>> {
    let mut before = vec![0_u32; next.len()];
    for (node, _) in next.iter().flatten() {
        before[*node] += 1;
    }
    // Whatever nothing comes before is in no circle.
    let mut free: Vec<usize> = (0..next.len()).filter(|node| before[*node] == 0).collect();
    while let Some(node) = free.pop() {
        for (other, _) in &next[node] {
            before[*other] -= 1;
            if before[*other] == 0 {
                free.push(*other);
            }
        }
    }
    // Each one that is left has one before it that is left: going back ends in a circle.
    let mut previous = vec![None; next.len()];
    for (node, others) in next
        .iter()
        .enumerate()
        .filter(|(node, _)| before[*node] > 0)
    {
        for (other, is_read) in others {
            let known = previous[*other].is_some_and(|(_, was_read)| was_read);
            previous[*other] = (!known).then_some((node, *is_read)).or(previous[*other]);
        }
    }
    let mut at = before.iter().position(|count| *count > 0)?;
    for _ in 0..next.len() {
        at = previous[at]?.0;
    }
    let (begin, mut circle) = (at, Vec::new());
    loop {
        let (node, is_read) = previous[at]?;
        circle.push((at, is_read));
        at = node;
        if at == begin {
            circle.reverse();
            return Some(circle);
        }
    }
}
