//! A timeline made as a stream, with its first messages.
//!
//! Owns: that both are one step. Promises: a stream that exists stays as it is. Must not: compare the two; the caller
//! does.

use tideline_table::{Purpose, Txn};

use super::super::growth::whole_up_to;
use super::super::members::Create;
use super::super::rows::head::{CLOSED, HeadRow};
use super::super::rows::tables::Name;
use super::super::write::append::Prepared;
use super::super::write::edit::{bury, load_held};
use super::super::write::{Site, put_head};
use super::super::{Append, Burial, Error, SMALL_BYTES, Timelines};
use super::fork::Inherited;
use super::life::{Life, Stream};
use super::row::StreamRow;

/// A stream to be made.
#[derive(Clone, Debug)]
pub struct NewStream {
    /// The timeline.
    pub create: Create,
    /// Its first messages; of a fork also those of its source.
    pub first: Option<Append>,
    /// Nothing more is to be appended.
    pub closed: bool,
    /// How long it lives.
    pub life: Life,
    /// What it has of a source.
    pub inherited: Option<Inherited>,
}

impl Timelines {
    /// Makes a stream with its first messages. Gives what is there now, and whether it was made.
    pub async fn create_stream(&self, new: NewStream) -> Result<(Stream, bool), Error> {
        let NewStream {
            create,
            first,
            closed,
            life,
            inherited,
        } = new;
        let partition = self.place(&create.target.timeline);
        let first = first.map(|first| self.prepare(first, None));
        let bytes = SMALL_BYTES + first.as_ref().map_or(0, Prepared::bytes);
        let creating = self.submit(Purpose::Adds, partition, bytes, move |txn, site| {
            site.create_stream(txn, create, first, (closed, life, inherited))
        });
        creating.await
    }
}

impl Site {
    fn create_stream(
        &self,
        txn: &mut Txn<'_>,
        create: Create,
        first: Option<Prepared>,
        (closed, life, inherited): (bool, Life, Option<Inherited>),
    ) -> Result<(Stream, bool), Error> {
        let name = Name::new(&create.target.timeline);
        self.free(txn, &name)?;
        let (info, made) = self.create(txn, create)?;
        let load = |txn: &mut Txn<'_>| {
            let head = HeadRow::load_to_write(txn, &name)?;
            head.ok_or(Error::TimelineNotFound)
        };
        let mut head = load(txn)?;
        if !made.created {
            let stream = StreamRow::load(txn, &name, &head)?;
            // As its maker sees it.
            head.floor = info.floor;
            let end = whole_up_to(txn, &name, &head)?;
            return Ok((stream.known(info, end, txn.now_ms()), false));
        }
        let Inherited {
            fork,
            first: begin,
            deleted,
        } = inherited.unwrap_or_default();
        if begin > 1 {
            (head.floor, head.last) = (begin, begin - 1);
            put_head(txn, &name, &head);
        }
        if let Some(mut first) = first {
            first.run(txn, self)?;
            head = load(txn)?;
        }
        for sequence in deleted {
            let message = load_held(txn, &name, &head, sequence)?;
            bury(txn, &name, &mut head, message, Burial::Deleted)?;
        }
        self.begin_life(txn, (&name, &mut head), life, fork);
        if closed {
            head.flags |= CLOSED;
        }
        put_head(txn, &name, &head);
        let info = self.info(txn, info.timeline, &head)?;
        let stream = StreamRow::load(txn, &name, &head)?;
        Ok((stream.known(info, head.last, txn.now_ms()), true))
    }
}
