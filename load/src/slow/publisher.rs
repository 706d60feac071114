//! The publisher of `slow`: messages by the clock on one connection.
//!
//! Owns: the schedule. Promises: it never waits for answers or for readers. Must not: go on when the server does not
//! keep up: the latency would be that of the queue here.

use std::io;
use std::rc::Rc;

use tokio::time::Instant;

use super::board::Board;
use crate::frame::Lean;
use crate::pace::Gaps;
use crate::request::put_request;
use crate::run::Phase;

/// So many messages without an answer mean that the server does not keep up.
const UNANSWERED_MAX: u64 = 20_000;

/// Sends until the run ends, then waits for the answers.
pub(super) async fn run(board: Rc<Board>, rate: f64, gaps: Gaps) {
    if let Err(error) = work(&board, rate, gaps).await {
        let run = &board.run;
        run.checks.fault(format_args!("the publisher: {error}"));
        run.end_early();
    }
}

async fn work(board: &Board, rate: f64, gaps: Gaps) -> io::Result<()> {
    let run = &board.run;
    let mut socket = Lean::open(&run.url).await?;
    let mut pace = run.pace(rate, gaps, 1);
    let mut out = Vec::new();
    loop {
        let sending = run.phase() != Phase::Ending;
        if !sending && board.unanswered() == 0 {
            run.paced(&pace);
            return Ok(());
        }
        let mut wrong = None;
        tokio::select! {
            () = pace.wait(), if sending => {}
            () = run.ended(), if sending => continue,
            read = socket.exchange(&mut out, |text| {
                if let Err(why) = board.answered(text, Instant::now()) {
                    wrong = Some(why);
                }
            }) => read?,
        }
        if let Some(wrong) = wrong {
            return Err(io::Error::other(wrong));
        }
        let now = Instant::now();
        while run.phase() != Phase::Ending
            && let Some(scheduled) = pace.due(now)
        {
            let (number, params) = board.put(scheduled);
            put_request(&mut out, number, "message.append", &params);
        }
        if board.unanswered() > UNANSWERED_MAX {
            run.invalid(format!(
                "the server does not keep up with the rate: {UNANSWERED_MAX} messages without an answer"
            ));
            run.end_early();
        }
    }
}
