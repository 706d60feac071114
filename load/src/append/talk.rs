//! What a connection of `append` says: ready-made appends out, acknowledgements in.
//!
//! Owns: which timeline each message goes to, and the count of what was acknowledged. Promises: every acknowledgement
//! counts for the check at the end, whenever it came. Must not: repeat a refused message: `busy` is counted.

use std::cell::RefCell;
use std::rc::Rc;

use super::template::{Reply, Template, read_reply};
use crate::lanes::{Answer, Talk};
use crate::random::Random;
use crate::run::Run;

/// What all connections count together.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Refused as `busy`.
    pub(crate) busy: u64,
    /// Acknowledged per timeline, over the whole run.
    pub(crate) acked: Vec<u32>,
}

/// One connection.
pub(crate) struct Appends {
    run: Rc<Run>,
    tally: Rc<RefCell<Tally>>,
    template: Template,
    random: Random,
    /// By slot: the timeline of what is on the way.
    timelines: Vec<u64>,
    sent: u64,
}

impl Appends {
    pub(crate) fn new(
        run: &Rc<Run>,
        tally: &Rc<RefCell<Tally>>,
        template: Template,
        number: usize,
    ) -> Appends {
        Appends {
            run: Rc::clone(run),
            tally: Rc::clone(tally),
            template,
            random: Random::new(run.seed_of(number as u64)),
            timelines: Vec::new(),
            sent: 0,
        }
    }
}

impl Talk for Appends {
    fn put(&mut self, out: &mut Vec<u8>, slot: usize) {
        let count = self.tally.borrow().acked.len() as u64;
        let timeline = self.random.below(count);
        self.template.stamp(out, slot, timeline, self.sent);
        self.sent += 1;
        if slot >= self.timelines.len() {
            self.timelines.resize(slot + 1, 0);
        }
        self.timelines[slot] = timeline;
    }

    fn take(&mut self, text: &[u8]) -> Option<Answer> {
        match read_reply(text) {
            Reply::Done(slot) => {
                let timeline = *self.timelines.get(slot)?;
                self.tally.borrow_mut().acked[timeline as usize] += 1;
                Some(Answer { slot, counts: true })
            }
            Reply::Refused(slot, reason) => {
                if reason == "busy" {
                    self.tally.borrow_mut().busy += 1;
                } else {
                    self.run
                        .checks
                        .fault(format_args!("an append was refused: {reason}"));
                }
                Some(Answer {
                    slot,
                    counts: false,
                })
            }
            Reply::Odd => {
                let text = String::from_utf8_lossy(text);
                self.run
                    .checks
                    .fault(format_args!("not an answer to an append: {text:.200}"));
                None
            }
        }
    }
}
