//! What must hold between the rows of a stream.
//!
//! Owns: this rule. Must not: write.

use tideline_table::{ReadError, damaged};

use super::super::check::dump::StoredTimelines;
use super::super::rows::head::HeadRow;
use super::super::rows::tables::{Name, STREAMS};
use super::super::time::Kind;
use super::life::end_columns;
use super::row::{ProducerRow, StreamRow};

impl StoredTimelines<'_> {
    /// Checks that the row of the stream is there if the head says so, counts its producers, and looks
    /// for the due row of its end.
    pub(in super::super) fn check_stream(
        &self,
        (name, head): (&Name, &HeadRow),
        problem: &mut dyn FnMut(String),
    ) -> Result<(), ReadError> {
        let stream = StreamRow::load(self.view, name, head)?;
        let own = name.stream_key(head.incarnation, "");
        let mut producers = 0;
        for row in self.of_timeline((name, head), STREAMS) {
            let (key, value) = row?;
            if key == own.as_bytes() {
                continue;
            }
            let read = ProducerRow::decode(&value);
            read.map_err(|_| damaged(&key, "not the row of a producer"))?;
            producers += 1;
        }
        let columns = end_columns(head.incarnation);
        if stream.due_at != 0 && !self.is_due(Kind::Trim, stream.due_at, name, &columns)? {
            problem(format!(
                "there is no due row to end it by at {}",
                stream.due_at
            ));
        }
        if producers != stream.producers {
            problem(format!(
                "{producers} producers are there, and the stream counts {}",
                stream.producers
            ));
        }
        Ok(())
    }
}
