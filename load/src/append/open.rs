//! The measured part of `append`, open: each connection sends by the clock, whatever was answered.
//!
//! Owns: the open loop. Promises: latency runs from the scheduled time; a socket that takes nothing holds up neither
//! the schedule nor the replies. Must not: go on when so much is on the way that the server has plainly lost: such a
//! run ends as invalid.

use std::io;
use std::time::Duration;

use tokio::time::Instant;

use super::load::{Ready, Slots};
use super::template::SLOTS_MAX;
use crate::pace::Gaps;
use crate::run::Phase;

/// The part of the seed that a connection's gaps come from.
const GAPS: u64 = 1 << 33;

/// Sends `rate` messages a second until the run ends, then waits for what is on the way.
pub(super) async fn run(mut ready: Ready, rate: f64, gaps: Gaps) {
    if let Err(error) = work(&mut ready, rate, gaps).await {
        ready.board.lost(ready.number, &error);
    }
}

async fn work(ready: &mut Ready, rate: f64, gaps: Gaps) -> io::Result<()> {
    let Ready {
        number,
        template,
        socket,
        random,
        timelines,
        board,
    } = ready;
    let run = &board.run;
    // Each connection begins somewhere within one gap, so that together they send evenly.
    let offset = Duration::from_secs_f64(random.below(1_000) as f64 / 1_000.0 / rate);
    let mut pace = run.pace(rate, gaps, GAPS + *number as u64).after(offset);
    let mut slots: Slots = Vec::new();
    let (mut free, mut out, mut sent) = (Vec::new(), Vec::new(), 0);
    loop {
        let sending = run.phase() != Phase::Ending;
        if !sending && free.len() == slots.len() {
            run.paced(&pace);
            return Ok(());
        }
        let mut now = None;
        tokio::select! {
            () = pace.wait(), if sending => {}
            () = run.ended(), if sending => continue,
            read = socket.exchange(&mut out, |text| {
                let now = *now.get_or_insert_with(Instant::now);
                board.take(text, now, &mut slots, &mut free);
            }) => read?,
        }
        let now = Instant::now();
        while run.phase() != Phase::Ending
            && let Some(scheduled) = pace.due(now)
        {
            if free.is_empty() {
                if slots.len() == SLOTS_MAX {
                    run.invalid(format!(
                        "the server does not keep up with the rate: {SLOTS_MAX} messages of a connection on the way"
                    ));
                    run.end_early();
                    break;
                }
                free.push(slots.len());
                slots.push(None);
            }
            let slot = free.pop().expect("one was just put there if none was");
            let timeline = random.below(*timelines);
            template.stamp(&mut out, slot, timeline, sent);
            sent += 1;
            slots[slot] = Some((timeline, scheduled));
        }
    }
}
