//! The dialects that a server speaks, and the forms that its pushes take in them.
//!
//! Owns: the choice of a dialect by its sub-protocol, and one number for each form of a push. Promises: a number is
//! below [`FORMS_MAX`], and two forms never share one. Must not: know how a push is encoded; the dialects do.

use bytes::Bytes;

use tideline_timelines::feed::FORMS_MAX;
use tideline_wire::centrifuge::{self, ENCODINGS, Encoding};
use tideline_wire::events::EVENTS;
use tideline_wire::{Dialect, Integers, Push};

/// The dialects that a server speaks.
pub(super) struct Dialects(&'static [&'static dyn Dialect]);

/// How a connection is spoken to: all that decides the bytes of a push.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) dialect: &'static dyn Dialect,
    /// What the client asked for in `session.open`.
    pub(super) integers: Integers,
    /// The number of the dialect's first form.
    pub(super) first: usize,
    /// Whether it is that of Centrifuge, whose frames the session takes apart itself.
    pub(super) centrifuge: Option<Encoding>,
}

impl Dialects {
    /// The first one is that of clients that ask for none.
    pub(super) fn new(all: &'static [&'static dyn Dialect]) -> Dialects {
        let forms = forms(all) + forms(&centrifuge::DIALECTS) + EVENTS.forms();
        assert!(!all.is_empty(), "a server speaks at least one dialect");
        assert!(forms <= FORMS_MAX, "raise FORMS_MAX to {forms}");
        Dialects(all)
    }

    /// The form in which clients that ask for no dialect are spoken to.
    pub(super) fn usual(&self) -> Form {
        Form {
            dialect: self.0[0],
            integers: Integers::default(),
            first: 0,
            centrifuge: None,
        }
    }

    /// The form of Centrifuge in an encoding. It has an address of its own, where no other dialect is spoken.
    pub(super) fn of_centrifuge(&self, encoding: Encoding) -> Form {
        let place = encoding as usize;
        let before = &centrifuge::DIALECTS[..place];
        Form {
            dialect: centrifuge::DIALECTS[place],
            integers: Integers::default(),
            first: forms(self.0) + forms(before),
            centrifuge: Some(encoding),
        }
    }

    /// The form of server-sent events.
    pub(super) fn of_events(&self) -> Form {
        Form {
            dialect: EVENTS,
            integers: Integers::default(),
            first: forms(self.0) + forms(&centrifuge::DIALECTS),
            centrifuge: None,
        }
    }

    /// The form of a sub-protocol.
    pub(super) fn of_subprotocol(&self, name: &str) -> Option<Form> {
        let mut first = 0;
        for dialect in self.0 {
            if dialect.subprotocol() == name {
                return Some(Form {
                    dialect: *dialect,
                    integers: Integers::default(),
                    first,
                    centrifuge: None,
                });
            }
            first += dialect.forms();
        }
        None
    }

    /// The sub-protocols, for an error.
    pub(super) fn subprotocols(&self) -> String {
        let names: Vec<_> = self.0.iter().map(|dialect| dialect.subprotocol()).collect();
        names.join(" and ")
    }
}

fn forms(dialects: &[&dyn Dialect]) -> usize {
    dialects.iter().map(|dialect| dialect.forms()).sum()
}

impl Form {
    /// That of subscriptions that take deltas, where there are any; the number behind its own is that of deltas.
    pub(super) fn with_deltas(self) -> Form {
        let Some(encoding) = self.centrifuge else {
            return self;
        };
        let (from, place) = (encoding as usize, ENCODINGS.len() + encoding as usize);
        Form {
            dialect: centrifuge::DIALECTS[place],
            first: self.first + forms(&centrifuge::DIALECTS[from..place]),
            ..self
        }
    }

    /// Encodes a push.
    pub(super) fn push(self, push: &Push<'_>) -> Bytes {
        self.integers.written(|| self.dialect.push(push))
    }

    /// Its number, under which pushes are shared.
    pub(super) fn number(self) -> usize {
        self.first + self.dialect.form(self.integers)
    }
}
