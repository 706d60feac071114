//! The entries of inboxes.
//!
//! Owns: what an entry says, and its write at the user. Promises: an inbox is a timeline like others, made with its
//! first entry, with gapless numbers of its own, and the time of an entry is not before that of its message. Must not:
//! decide which users get an entry, or see to it that none comes twice; the relay's cursor does.
//!
//! ```text
//! entry  {timeline, epoch, sequence, timestamp} of the message, whose content is read at its timeline
//! ```

use tideline_base::ids::PartitionId;
use tideline_model::Value;
use tideline_table::{Action, ReadError, RowWriter, Txn, put, record};

use super::super::members::INBOX;
use super::super::rows::head::HeadRow;
use super::super::rows::stored::{MessageRow, Stamp};
use super::super::rows::tables::{MESSAGES, Name};
use super::super::write::{Site, new_head, put_new_meta, version};
use super::super::{Columns, Meta, Timelines};
use super::post::Post;

/// An entry, ready to be written into any number of inboxes.
#[derive(Clone)]
pub struct InboxEntry {
    row: RowWriter,
    /// Of the message, ms.
    written_at: u64,
}

/// What an entry says, as it lies in an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    /// Of which timeline's message.
    pub timeline: String,
    /// Of which of its name.
    pub epoch: String,
    /// The message's number.
    pub sequence: u64,
    /// Its time, ms.
    pub timestamp: u64,
}

impl StoredEntry {
    /// Reads the columns of an entry, in the order of their names; `None` = a message that is none.
    #[must_use]
    pub fn read(mut columns: Columns) -> Option<StoredEntry> {
        let mut value = |name: &str| {
            let at = columns.binary_search_by(|(one, _)| one.as_str().cmp(name));
            Some(std::mem::replace(
                &mut columns[at.ok()?].1,
                Value::Boolean(false),
            ))
        };
        let (Value::String(timeline), Value::String(epoch)) = (value("timeline")?, value("epoch")?)
        else {
            return None;
        };
        let mut number = |name| match value(name)? {
            Value::Integer(number) => u64::try_from(number).ok(),
            _ => None,
        };
        Some(StoredEntry {
            timeline,
            epoch,
            sequence: number("sequence")?,
            timestamp: number("timestamp")?,
        })
    }
}

/// Where a user's inbox is.
#[derive(Clone, Debug)]
pub struct Inbox(Name);

impl Inbox {
    /// A user's.
    #[must_use]
    pub fn of(user: &str) -> Inbox {
        Inbox(Name::new(&Timelines::inbox_of(user)))
    }
}

/// Writes into the inboxes of one partition.
#[derive(Clone)]
pub struct InboxWriter {
    site: Site,
}

impl Timelines {
    /// The ID of a user's inbox.
    #[must_use]
    pub fn inbox_of(user: &str) -> String {
        format!("{INBOX}{user}")
    }

    /// For the inboxes of one partition.
    #[must_use]
    pub fn inbox_writer(&self, partition: PartitionId) -> InboxWriter {
        InboxWriter {
            site: self.site(partition),
        }
    }

    /// The entry of a message.
    #[must_use]
    pub fn inbox_entry(&self, post: &Post) -> InboxEntry {
        let epoch = self.inner.epochs.text(&post.timeline, post.incarnation);
        let number = |number: u64| Value::Integer(number.cast_signed());
        let entry = [
            ("epoch", Value::String(epoch)),
            ("sequence", number(post.sequence)),
            ("timeline", Value::String(post.timeline.clone())),
            ("timestamp", number(post.timestamp)),
        ];
        let stamp = Stamp {
            message_id: &self.inner.ids.next(),
            ..Stamp::default()
        };
        let entry = entry.map(|(name, value)| (name.to_owned(), value));
        InboxEntry {
            row: MessageRow::new(&entry, &stamp).row,
            written_at: post.timestamp,
        }
    }
}

impl InboxWriter {
    /// Appends an entry to an inbox.
    pub fn put(
        &self,
        txn: &mut Txn<'_>,
        Inbox(name): &Inbox,
        entry: &mut InboxEntry,
    ) -> Result<(), ReadError> {
        let found = HeadRow::load_to_write(txn, name)?;
        let existing = found.filter(|head| !head.dropped);
        let mut head = existing.unwrap_or_else(|| new_head(txn, found));
        if existing.is_none() {
            put_new_meta(txn, name, Meta::new());
        }
        // A batch keeps the time of its begin; an entry is never older than its message.
        let now = txn.now_ms().max(head.last_at).max(entry.written_at);
        head.last += 1;
        head.last_at = now;
        let key = name.message_key(head.incarnation, head.last);
        let size = (head.last, entry.row.cells().len() as u64);
        let put = put(txn, key, &mut entry.row, version(now));
        let sizes = std::iter::once(size);
        self.site.keep(txn, name, &mut head, (sizes, false))?;
        head.store(txn, name, version(now));
        record(txn, MESSAGES, Action::Put, put, 1);
        Ok(())
    }
}
