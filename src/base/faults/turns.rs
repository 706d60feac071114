//! A few threads in every order, as far as the points in their code tell orders apart.
//!
//! Owns: whose turn it is, and the walk over all orders. Promises: one of the threads runs at a time, from one point
//! ([`super::point`]) to the next; each order comes once; the one that is wrong is named. Must not: be taken for more:
//! what processors reorder between two points is not seen. No point may lie under a lock that another thread of the
//! walk takes.

use std::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// What one thread does.
pub type Actor = Box<dyn FnOnce() + Send>;

/// What is walked, made anew for each order.
pub struct Scene {
    /// The threads.
    pub actors: Vec<Actor>,
    /// Says what is wrong when they have ended.
    pub judge: Box<dyn FnOnce() -> Result<(), String>>,
}

/// No step takes so long: a point lies under a lock.
const PATIENCE: Duration = Duration::from_secs(60);

thread_local! {
    static SEAT: RefCell<Option<Seat>> = const { RefCell::new(None) };
}

/// A thread's place in a walk.
struct Seat {
    turns: Arc<Turns>,
    number: usize,
    plant: &'static str,
}

#[derive(Default)]
struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    turn: Option<usize>,
    /// Those at a point, in the order of their numbers.
    waiting: Vec<usize>,
    ended: usize,
}

/// Walks all orders; how many there were, or what is wrong with the first one that is. `plant` counts as named by
/// `TIDELINE_FAULT` on these threads; "" = nothing.
pub fn explore(plant: &'static str, make: impl Fn() -> Scene) -> Result<usize, String> {
    // At each step the one that was chosen, and of how many.
    let (mut path, mut count) = (Vec::<(usize, usize)>::new(), 0);
    loop {
        let (Scene { actors, judge }, turns) = (make(), Arc::new(Turns::default()));
        let (mut order, all) = (Vec::new(), actors.len());
        let threads: Vec<_> = actors
            .into_iter()
            .enumerate()
            .map(|(number, actor)| turns.start(number, plant, actor))
            .collect();
        while let Some(waiting) = turns.at_rest(all) {
            let depth = order.len();
            if depth == path.len() {
                path.push((0, waiting.len()));
            }
            assert_eq!(
                path[depth].1,
                waiting.len(),
                "the same steps, the same choice"
            );
            order.push(waiting[path[depth].0]);
            turns.give(order[depth]);
        }
        for thread in threads {
            let ended = thread.join();
            ended.map_err(|_| format!("a panic in the order {order:?}"))?;
        }
        judge().map_err(|wrong| format!("{wrong} in the order {order:?}"))?;
        count += 1;
        while path.last().is_some_and(|(at, of)| at + 1 == *of) {
            path.pop();
        }
        match path.last_mut() {
            Some((at, _)) => *at += 1,
            None => return Ok(count),
        }
    }
}

/// Lets another one go on, if this thread is of a walk.
pub(super) fn pass() {
    let _ = SEAT.try_with(|seat| {
        if let Some(seat) = &*seat.borrow() {
            seat.turns.wait(seat.number);
        }
    });
}

pub(super) fn is_planted(name: &str) -> bool {
    let is_planted = SEAT.try_with(|seat| {
        seat.borrow()
            .as_ref()
            .is_some_and(|seat| seat.plant == name)
    });
    is_planted.unwrap_or(false)
}

impl Turns {
    fn start(
        self: &Arc<Turns>,
        number: usize,
        plant: &'static str,
        actor: Actor,
    ) -> thread::JoinHandle<()> {
        let turns = Arc::clone(self);
        thread::spawn(move || {
            let _end = End(Arc::clone(&turns));
            SEAT.set(Some(Seat {
                turns,
                number,
                plant,
            }));
            pass();
            actor();
        })
    }

    fn wait(&self, number: usize) {
        let mut state = self.state();
        if state.turn == Some(number) {
            state.turn = None;
        }
        let at = state.waiting.partition_point(|other| *other < number);
        state.waiting.insert(at, number);
        self.changed.notify_all();
        while state.turn != Some(number) {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting.retain(|other| *other != number);
    }

    /// Waits until nobody runs; those that can, or `None` if all have ended.
    fn at_rest(&self, all: usize) -> Option<Vec<usize>> {
        let state = self.state();
        let runs =
            |state: &mut State| state.turn.is_some() || state.waiting.len() + state.ended < all;
        let waited = self.changed.wait_timeout_while(state, PATIENCE, runs);
        let (state, late) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!late.timed_out(), "a point lies under a lock");
        (state.ended < all).then(|| state.waiting.clone())
    }

    fn give(&self, number: usize) {
        self.state().turn = Some(number);
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a thread's part in the walk, also after a panic.
struct End(Arc<Turns>);

impl Drop for End {
    fn drop(&mut self) {
        let mut state = self.0.state();
        (state.turn, state.ended) = (None, state.ended + 1);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::{is_named, point};
    use super::*;

    /// Two threads count, each in two steps or at once.
    fn counting() -> Scene {
        let count = Arc::new(AtomicU32::new(0));
        let actor = |count: Arc<AtomicU32>| -> Actor {
            Box::new(move || {
                if !is_named("in_two_steps") {
                    count.fetch_add(1, Ordering::SeqCst);
                    return point();
                }
                let read = count.load(Ordering::SeqCst);
                point();
                count.store(read + 1, Ordering::SeqCst);
            })
        };
        let actors = vec![actor(Arc::clone(&count)), actor(Arc::clone(&count))];
        let judge = Box::new(move || match count.load(Ordering::SeqCst) {
            2 => Ok(()),
            other => Err(format!("{other} of 2")),
        });
        Scene { actors, judge }
    }

    #[test]
    fn every_order_is_walked_and_the_wrong_one_is_named() {
        assert_eq!(explore("", counting), Ok(6));
        let wrong = explore("in_two_steps", counting).expect_err("found");
        assert_eq!(wrong, "1 of 2 in the order [0, 1, 0, 1]");
        // Elsewhere a point is nothing.
        point();
        assert!(!is_named("in_two_steps"));
    }
}
