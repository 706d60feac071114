//! Every order in which writes meet the end of their partition at the queue.
//!
//! Owns: the walk, and its control, a queue that counts a write too late. Promises: the real queue; nobody takes
//! anything out of it. Must not: judge what is in a write.

use std::sync::{Arc, Mutex};

use tideline_base::faults::point;
use tideline_base::faults::turns::{Actor, Scene, explore};

use crate::partition::commit::intake::Opening;
use crate::partition::commit::job;
use crate::partition::commit::queue::Queue;
use crate::partition::{Purpose, Txn};

/// Two writes, and who shuts the intake and then waits for what was let in, if that is anything.
fn writes_and_an_end() -> Scene {
    let (queue, jobs) = Queue::new();
    let queue = Arc::new(queue);
    let (let_in, seen) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
    let writer = || -> Actor {
        let (queue, let_in) = (Arc::clone(&queue), Arc::clone(&let_in));
        Box::new(move || {
            let nothing = |(): &mut (), _: &mut Txn<'_>| Ok::<(), ()>(());
            let (job, _) = job::looking(vec![()], None, nothing);
            let pushed = queue.push(Purpose::Adds, 1, job);
            *let_in.lock().expect("whole") += usize::from(pushed.is_ok());
        })
    };
    let ender: Actor = {
        let (queue, seen) = (Arc::clone(&queue), Arc::clone(&seen));
        Box::new(move || {
            queue.intake.set(Opening::Sealed);
            point();
            *seen.lock().expect("whole") = queue.waiting().0;
        })
    };
    let actors = vec![writer(), writer(), ender];
    let judge = Box::new(move || {
        drop(jobs);
        let (let_in, seen) = (*let_in.lock().expect("whole"), *seen.lock().expect("whole"));
        match (let_in <= seen, queue.waiting()) {
            (false, _) => Err(format!(
                "{let_in} writes were let in, and {seen} are waited for"
            )),
            (true, waiting) if waiting != (let_in, let_in) => {
                Err(format!("{let_in} count as {waiting:?}"))
            }
            _ => Ok(()),
        }
    });
    Scene { actors, judge }
}

#[test]
fn an_end_waits_for_every_write_that_is_let_in() {
    assert!(explore("", writes_and_an_end).expect("right in every order") > 500);
    let control = explore("queue_counts_late", writes_and_an_end);
    assert!(control.expect_err("found").contains("are waited for"));
}
