//! A timeline made as a stream, with its first messages.
//!
//! Owns: that both are one step. Promises: a stream that exists stays as it is. Must not: compare the two; the caller
//! does.

use std::future::Future;

use tideline_table::{Purpose, Txn};

use super::super::members::Create;
use super::super::rows::head::{CLOSED, HeadRow};
use super::super::rows::tables::Name;
use super::super::write::append::Prepared;
use super::super::write::{Site, put_head};
use super::super::{Append, Error, SMALL_BYTES, TimelineInfo, Timelines};
use super::life::Life;
use super::row::StreamRow;

impl Timelines {
    /// Makes a timeline with its first messages, perhaps closed. Gives what is there now, how long it lives, and
    /// whether it was made.
    pub fn create_stream(
        &self,
        create: Create,
        first: Option<Append>,
        closed: bool,
        life: Life,
    ) -> impl Future<Output = Result<(TimelineInfo, Life, bool), Error>> + Send + use<> {
        let partition = self.place(&create.target.timeline);
        let first = first.map(|first| self.prepare(first, None));
        let bytes = SMALL_BYTES + first.as_ref().map_or(0, Prepared::bytes);
        self.submit(Purpose::Adds, partition, bytes, move |txn, site| {
            site.create_stream(txn, create, first, (closed, life))
        })
    }
}

impl Site {
    fn create_stream(
        &self,
        txn: &mut Txn<'_>,
        create: Create,
        first: Option<Prepared>,
        (closed, life): (bool, Life),
    ) -> Result<(TimelineInfo, Life, bool), Error> {
        let name = Name::new(&create.target.timeline);
        self.free(txn, &name)?;
        let (info, made) = self.create(txn, create)?;
        if !made.created {
            let head = HeadRow::load_to_write(txn, &name)?.ok_or(Error::TimelineNotFound)?;
            let stream = StreamRow::load(txn, &name, &head)?;
            return Ok((info, stream.life(), false));
        }
        if let Some(mut first) = first {
            first.run(txn, self)?;
        }
        let mut head = HeadRow::load_to_write(txn, &name)?.ok_or(Error::TimelineNotFound)?;
        self.begin_life(txn, (&name, &mut head), life);
        if closed {
            head.flags |= CLOSED;
        }
        if closed || life != Life::default() {
            put_head(txn, &name, &head);
        }
        Ok((self.info(txn, info.timeline, &head)?, life, true))
    }
}
