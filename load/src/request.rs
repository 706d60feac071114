//! The native protocol as a [`Talk`] of the generator.
//!
//! Owns: the slots of a connection's requests. Promises: what is no answer to one of its requests is a fault. Must
//! not: know what is asked (that is [`Ask`]).

use std::io;
use std::rc::Rc;

use crate::frame::{texts, upgrade};
use crate::generator::{self, Talk};
use crate::pipe::Pipe;
use crate::rpc::{Answer, Refusal};
use crate::run::Run;
use crate::template::SLOT_BASE;

/// What a connection asks of Tideline.
pub trait Ask {
    /// Appends the frame of a new request; its number is [`SLOT_BASE`] + `slot`.
    fn put(&mut self, out: &mut Vec<u8>, slot: usize);

    /// Checks what came of the request in `slot`, which was put before; enters a fault, if it is one. Returns the
    /// recorder that its latency goes to, if it counts.
    fn take(&mut self, slot: usize, outcome: Result<&[u8], Refusal>) -> Option<usize>;
}

/// A connection of the native protocol, for the generator.
pub struct Session<A> {
    /// What it asks.
    pub ask: A,
    run: Rc<Run>,
    parts: Vec<u8>,
    /// So many were used.
    slots: usize,
}

impl<A: Ask> Session<A> {
    /// Connects.
    pub async fn open(run: &Rc<Run>, ask: A) -> io::Result<(Pipe, Session<A>)> {
        let (run, parts, slots) = (Rc::clone(run), Vec::new(), 0);
        let pipe = upgrade(&run.url, None).await?;
        Ok((
            pipe,
            Session {
                ask,
                run,
                parts,
                slots,
            },
        ))
    }
}

impl<A: Ask> Talk for Session<A> {
    fn put(&mut self, out: &mut Vec<u8>, slot: usize) {
        self.slots = self.slots.max(slot + 1);
        self.ask.put(out, slot);
    }

    fn take(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        each: &mut dyn FnMut(generator::Answer),
    ) -> io::Result<usize> {
        let Session {
            ask,
            run,
            parts,
            slots,
        } = self;
        texts(bytes, out, parts, |text| {
            let answer = Answer::read(text).and_then(|Answer { id, outcome }| {
                let slot = usize::try_from(id.checked_sub(SLOT_BASE)?).ok()?;
                (slot < *slots).then_some((slot, outcome))
            });
            match answer {
                Some((slot, outcome)) => {
                    let recorder = ask.take(slot, outcome);
                    each(generator::Answer { slot, recorder });
                }
                None => {
                    let text = String::from_utf8_lossy(text);
                    run.checks
                        .fault(format_args!("not an answer to what was asked: {text:.200}"));
                }
            }
        })
    }
}

/// The element of a slot, made if it is not there.
pub fn at_slot<T: Clone + Default>(slots: &mut Vec<T>, slot: usize) -> &mut T {
    if slot >= slots.len() {
        slots.resize(slot + 1, T::default());
    }
    &mut slots[slot]
}
