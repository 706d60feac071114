//! What must hold of inboxes and followers by themselves, and what a check across partitions looks up.
//!
//! Owns: reading entries of inboxes back. Promises: an entry that can't be read is reported with its place. Must not:
//! write, or know what a user follows.

use tideline_table::ReadError;

use super::super::StoredTimelines;
use super::super::members::INBOX;
use super::super::rows::head::HeadRow;
use super::super::rows::stored;
use super::super::rows::tables::{FOLLOWERS, Name};
use super::entry::StoredEntry;
use super::follower::FollowerRow;

/// Is given an inbox's ID, an entry's number there, and the entry if it can be read.
pub type EachEntry<'e> = dyn FnMut(&str, u64, Option<StoredEntry>) -> Result<(), ReadError> + 'e;

impl StoredTimelines<'_> {
    /// The head counts a timeline's followers, and each has a member version that was given.
    pub(in super::super) fn check_followers(
        &self,
        timeline: &str,
        head: &HeadRow,
        problem: &mut dyn FnMut(String),
    ) -> Result<(), ReadError> {
        let name = Name::new(timeline);
        let mut count = 0;
        for row in self.of_timeline((&name, head), FOLLOWERS) {
            let (key, value) = row?;
            let user = super::user_of(&key)?;
            count += 1;
            match FollowerRow::decode(&value) {
                Ok(follower) if follower.joined > head.member_version => problem(format!(
                    "follower {user:?} began at member version {}, beyond {}",
                    follower.joined, head.member_version
                )),
                Ok(_) => {}
                Err(_) => problem(format!("follower {user:?} can't be read")),
            }
        }
        if count != head.followers {
            problem(format!(
                "{count} followers, the head says {}",
                head.followers
            ));
        }
        Ok(())
    }

    /// The entries of this partition's inboxes in order, with the inbox's ID and their numbers; `None` = it can't be
    /// read.
    pub fn inbox_entries(&self, each: &mut EachEntry<'_>) -> Result<(), ReadError> {
        for row in self.heads() {
            let (inbox, head) = row?;
            if !inbox.starts_with(INBOX) {
                continue;
            }
            for message in self.messages(&Name::new(&inbox), &head) {
                let message = message?;
                let entry = message.entry.and_then(StoredEntry::read);
                each(&inbox, message.sequence, entry)?;
            }
        }
        Ok(())
    }

    /// The follow's number of a follower of a timeline that exists, and the first sequence that is theirs.
    pub fn follower(&self, timeline: &str, user: &str) -> Result<Option<(u64, u64)>, ReadError> {
        let name = Name::new(timeline);
        let Some(head) = HeadRow::existing(self.view, &name)? else {
            return Ok(None);
        };
        let follower = FollowerRow::load(self.view, &name, &head, user)?;
        Ok(follower.map(|follower| (follower.number, follower.from)))
    }

    /// The time of a message that a timeline holds, ms.
    pub fn timestamp(&self, timeline: &str, sequence: u64) -> Result<Option<u64>, ReadError> {
        use tideline_table::Source as _;
        let name = Name::new(timeline);
        let Some(head) = HeadRow::existing(self.view, &name)? else {
            return Ok(None);
        };
        let key = name.message_key(head.incarnation, sequence);
        let value = self.view.row(&key)?.filter(|_| head.holds(sequence));
        let message = value.and_then(|value| stored::message(sequence, &value, Some(&[])).ok());
        Ok(message.map(|message| message.timestamp))
    }
}
