//! How long a stream lives, and its end.
//!
//! Owns: the time of its end, and the due row that leads there. Promises: it lives at least its time to live from its
//! last use, and at most a tenth longer, so that not each read has to be written; it is over from that time on,
//! whether the timer has come or not. Must not: know what a use is.

use tideline_table::{ReadError, Source, Txn, delete};

use super::super::growth::whole_up_to;
use super::super::rows::head::{HAS_STREAM, HeadRow};
use super::super::rows::tables::Name;
use super::super::time::{Due, Kind, expiry_columns, put_due};
use super::super::write::{Site, put_head};
use super::super::{Error, Target, TimelineInfo, Timelines};
use super::row::{Fork, StreamRow};

/// How long a stream lives. By default for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Life {
    /// So many seconds from its last use.
    pub ttl_s: Option<u64>,
    /// Until then, ms since 1970.
    pub expires_at: Option<u64>,
}

/// What is known of a stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// As a timeline.
    pub info: TimelineInfo,
    /// The last sequence before the first message that still grows; if none does, the head.
    pub end: u64,
    /// How long it lives.
    pub life: Life,
    /// Where it was forked.
    pub fork: Fork,
    /// A use of it now is to be written: [`Timelines::use_stream`].
    pub renew: bool,
}

impl Life {
    fn ends_at(self, now_ms: u64) -> u64 {
        let ttl_ms = self.ttl_s.map(|ttl| ttl.saturating_mul(1_000));
        let by_ttl = ttl_ms.map(|ttl| now_ms.saturating_add(ttl + ttl / SLACK));
        by_ttl.or(self.expires_at).unwrap_or(0)
    }
}

/// A use within this part of the time to live from the one before is not written.
const SLACK: u64 = 10;

impl StreamRow {
    /// Reads it. One that is over is not found.
    pub(super) fn living(
        rows: &impl Source,
        name: &Name,
        head: &HeadRow,
        now_ms: u64,
    ) -> Result<StreamRow, Error> {
        let stream = StreamRow::load(rows, name, head)?;
        match stream.is_over(now_ms) {
            true => Err(Error::TimelineNotFound),
            false => Ok(stream),
        }
    }

    /// Whether its time is over.
    pub(super) fn is_over(&self, now_ms: u64) -> bool {
        self.ends_at != 0 && self.ends_at <= now_ms
    }

    pub(super) fn known(mut self, info: TimelineInfo, end: u64, now_ms: u64) -> Stream {
        Stream {
            info,
            end,
            life: self.life(),
            renew: self.renew(now_ms),
            fork: self.fork,
        }
    }

    pub(super) fn life(&self) -> Life {
        let fixed = self.ttl_s.is_none() && self.ends_at != 0;
        Life {
            ttl_s: self.ttl_s,
            expires_at: fixed.then_some(self.ends_at),
        }
    }

    /// It is used now. `false` = that needs no write.
    pub(super) fn renew(&mut self, now_ms: u64) -> bool {
        let (Some(ttl), ends_at) = (self.ttl_s, self.life().ends_at(now_ms)) else {
            return false;
        };
        let is_news = ends_at.saturating_sub(self.ends_at) >= ttl.saturating_mul(1_000) / SLACK;
        if is_news {
            self.ends_at = ends_at;
        }
        is_news
    }
}

impl Timelines {
    /// What is known of a timeline as a stream. One that is over is not found.
    pub async fn stream(&self, target: Target) -> Result<Stream, Error> {
        let partition = self.place(&target.timeline);
        let site = self.site(partition);
        let read = self.read(partition, move |view| {
            let (name, head, reader) = site.enter(view, &target)?;
            let now_ms = site.time.now_ms();
            let stream = StreamRow::living(view, &name, &head, now_ms)?;
            let head = reader.sees(head);
            let end = whole_up_to(view, &name, &head)?;
            let info = site.info(view, target.timeline, &head)?;
            Ok(stream.known(info, end, now_ms))
        });
        read.await
    }

    /// A stream with a time to live is used.
    pub async fn use_stream(&self, target: Target) -> Result<(), Error> {
        let renewing = self.make_room(target, |txn, site, target| {
            let (name, mut head, _) = site.enter(txn, target)?;
            let mut stream = StreamRow::living(txn, &name, &head, txn.now_ms())?;
            if stream.renew(txn.now_ms()) {
                stream.store(txn, &name, &mut head);
            }
            Ok(())
        });
        renewing.await
    }
}

impl Site {
    /// Begins the life of a stream, which may be a fork. The caller puts the head.
    pub(super) fn begin_life(
        &self,
        txn: &mut Txn<'_>,
        (name, head): (&Name, &mut HeadRow),
        life: Life,
        fork: Fork,
    ) {
        if life == Life::default() && fork == Fork::default() {
            return;
        }
        let mut stream = StreamRow {
            ttl_s: life.ttl_s,
            fork,
            ..StreamRow::default()
        };
        if life == Life::default() {
            stream.store(txn, name, head);
        } else {
            stream.ends_at = life.ends_at(txn.now_ms()).max(1);
            self.look_at_end(txn, (name, head), &mut stream);
        }
    }

    /// Has the timer come when it ends by what is known now.
    fn look_at_end(
        &self,
        txn: &mut Txn<'_>,
        (name, head): (&Name, &mut HeadRow),
        stream: &mut StreamRow,
    ) {
        stream.due_at = stream.ends_at;
        let columns = end_columns(head.incarnation);
        put_due(
            txn,
            &self.alarm(),
            (Kind::Trim, stream.due_at),
            name,
            &columns,
        );
        stream.store(txn, name, head);
    }

    /// The head of a name. A stream that is over is deleted first, so that its name is free.
    pub(in super::super) fn free(
        &self,
        txn: &mut Txn<'_>,
        name: &Name,
    ) -> Result<Option<HeadRow>, ReadError> {
        let found = HeadRow::load_to_write(txn, name)?;
        match &found {
            Some(head)
                if !head.dropped && StreamRow::load(txn, name, head)?.is_over(txn.now_ms()) =>
            {
                end(txn, name, head);
                Ok(Some(HeadRow::dropped(head.incarnation)))
            }
            _ => Ok(found),
        }
    }

    /// Ends the stream that a due row leads to, or has the timer come again if it was used since.
    pub(in super::super) fn end_stream(
        &self,
        txn: &mut Txn<'_>,
        due: &Due,
        mut head: HeadRow,
    ) -> Result<bool, ReadError> {
        let name = &due.name;
        let mut stream = StreamRow::load(txn, name, &head)?;
        let is_over = stream.is_over(txn.now_ms());
        match stream.due_at == due.at_ms {
            true if is_over => end(txn, name, &head),
            true => self.look_at_end(txn, (name, &mut head), &mut stream),
            false => return Ok(false),
        }
        Ok(is_over)
    }
}

fn end(txn: &mut Txn<'_>, name: &Name, head: &HeadRow) {
    put_head(txn, name, &HeadRow::dropped(head.incarnation));
    delete(txn, name.meta_key());
}

/// The columns of the due row behind the timeline: with one more than a trim's, so that the two never meet.
pub(super) fn end_columns(incarnation: u64) -> Vec<u8> {
    expiry_columns(incarnation, 0)
}

/// Whether the end that a due row leads to is that of a stream, by what the stream says.
pub(in super::super) fn is_of_end(
    rows: &impl Source,
    due: &Due,
    head: &HeadRow,
) -> Result<bool, ReadError> {
    let is_stream = head.flags & HAS_STREAM != 0;
    Ok(is_stream && StreamRow::load(rows, &due.name, head)?.due_at == due.at_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_counts_from_its_moment_and_is_seldom_written() {
        let mut stream = StreamRow {
            ttl_s: Some(10),
            ..StreamRow::default()
        };
        assert!(stream.renew(1_000));
        assert_eq!(stream.ends_at, 12_000);
        assert!(!stream.renew(1_999) && !stream.is_over(11_999));
        assert!(stream.is_over(12_000));
        assert!(stream.renew(2_000));
        assert_eq!(stream.ends_at, 13_000);
        let mut fixed = StreamRow {
            ends_at: 5,
            ..StreamRow::default()
        };
        assert!(!fixed.renew(1) && fixed.is_over(5) && !fixed.is_over(4));
        assert_eq!(fixed.life().expires_at, Some(5));
        assert!(!StreamRow::default().is_over(u64::MAX));
    }
}
