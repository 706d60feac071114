//! What one statement may still do.
//!
//! Owns: its memory, its time and the size of its compiled form. Promises: bytes are counted before they are made, or
//! one text behind; a statement that has no time left ends within some milliseconds of work, also while it is planned
//! and within one row. Must not: know what is planned or run.
//!
//! A statement has one thread from its first word to its answer: what it may still do is kept there.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tideline_base::bounds;

use crate::refusal::Refusal;

/// Bytes that a statement may hold, its answer included.
const HELD_BYTES_MAX: usize = 64 << 20;
/// Bytes of the compiled form of a statement, those of copied and computed values included.
const PLANNED_BYTES_MAX: usize = 16 << 20;
/// What is asked of the caller's share at a time.
const STEP: usize = 64 << 10;
/// Bytes looked at, or as much work, between two looks at the clock.
const SPENT_MAX: usize = 1 << 20;

thread_local! {
    static WORK: RefCell<Option<Work>> = const { RefCell::new(None) };
    static SPENT: Cell<usize> = const { Cell::new(0) };
}

/// What a statement holds. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Memory(Rc<RefCell<Held>>);

#[derive(Debug)]
struct Held {
    own: usize,
    /// Of the caller's, a multiple of [`STEP`].
    counted: usize,
    of_caller: bounds::Share,
}

impl Memory {
    pub(crate) fn new(of_caller: bounds::Share) -> Memory {
        Memory(Rc::new(RefCell::new(Held {
            own: 0,
            counted: 0,
            of_caller,
        })))
    }

    /// More by so many bytes, if they may be held.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), Refusal> {
        let mut held = self.0.borrow_mut();
        held.own = held.own.saturating_add(bytes);
        if held.own > HELD_BYTES_MAX {
            return Err(Refusal::Memory(HELD_BYTES_MAX >> 20));
        }
        let counted = held.own.next_multiple_of(STEP);
        if counted > held.counted {
            if !held.of_caller.resize(counted) {
                held.of_caller.bound().refuse();
                return Err(Refusal::Busy);
            }
            held.counted = counted;
        }
        Ok(())
    }

    /// Less by so many; the caller's share is given back at the end.
    pub(crate) fn give(&self, bytes: usize) {
        let mut held = self.0.borrow_mut();
        held.own = held.own.saturating_sub(bytes);
    }
}

/// The time of a statement.
#[derive(Clone, Debug)]
pub(crate) struct Time {
    pub(crate) began: Instant,
    pub(crate) until: Instant,
    /// The caller does not wait any more.
    pub(crate) is_gone: Arc<AtomicBool>,
}

impl Time {
    /// Ends the statement if it has taken too long.
    pub(crate) fn look(&self) -> Result<(), Refusal> {
        match Instant::now() >= self.until || self.is_gone.load(Ordering::Relaxed) {
            true => Err(self.late()),
            false => Ok(()),
        }
    }

    pub(crate) fn late(&self) -> Refusal {
        Refusal::Timeout(self.until.duration_since(self.began).as_secs())
    }
}

struct Work {
    memory: Memory,
    time: Time,
    planned: usize,
    /// What the row in work has made.
    made: usize,
}

/// While this lives, work on this thread is one statement's.
pub(crate) struct Counted(());

/// Begins to count.
pub(crate) fn begin(memory: &Memory, time: &Time) -> Counted {
    let work = Work {
        memory: memory.clone(),
        time: time.clone(),
        planned: 0,
        made: 0,
    };
    WORK.set(Some(work));
    SPENT.set(0);
    Counted(())
}

impl Drop for Counted {
    fn drop(&mut self) {
        WORK.set(None);
    }
}

fn with(change: impl FnOnce(&mut Work) -> Result<(), Refusal>) -> Result<(), Refusal> {
    WORK.with_borrow_mut(|work| work.as_mut().map_or(Ok(()), change))
}

/// Counts work, about the bytes that are looked at; ends the statement if it has no time left.
pub(crate) fn spend(work: usize) -> Result<(), Refusal> {
    let spent = SPENT.get().saturating_add(work);
    if spent < SPENT_MAX {
        SPENT.set(spent);
        return Ok(());
    }
    SPENT.set(0);
    with(|work| work.time.look())
}

/// Counts bytes of the compiled form; they are held to the end.
pub(crate) fn planned(bytes: usize) -> Result<(), Refusal> {
    spend(bytes)?;
    with(|work| {
        work.planned = work.planned.saturating_add(bytes);
        if work.planned > PLANNED_BYTES_MAX {
            return Refusal::invalid(format!(
                "a statement takes at most {} MiB with all its parts and constants",
                PLANNED_BYTES_MAX >> 20
            ));
        }
        work.memory.take(bytes)
    })
}

/// Counts bytes of a value that was made of a row, until the next row.
pub(crate) fn made(bytes: usize) -> Result<(), Refusal> {
    with(|work| {
        work.made = work.made.saturating_add(bytes);
        work.memory.take(bytes)
    })
}

/// So many of them are gone already.
pub(crate) fn dropped(bytes: usize) {
    let _ = with(|work| {
        work.made = work.made.saturating_sub(bytes);
        work.memory.give(bytes);
        Ok(())
    });
}

/// What the last row made is gone.
pub(crate) fn next_row() {
    let _ = with(|work| {
        work.memory.give(std::mem::take(&mut work.made));
        Ok(())
    });
}
