//! Whether a timeline's messages go into inboxes.
//!
//! Owns: the rule of the setting `fan_out`, and the number of the head that says from where on they do. Promises: the
//! number is decided in the batch that changes what it depends on, or by the next append; once `auto` has found too
//! many, it stays so until it is configured again. Must not: write into inboxes.

use tideline_table::{ReadError, Source};

use super::super::members::{FAN_OUT_MEMBERS_MAX, Settings};
use super::super::rows::head::{HeadRow, TOO_MANY};
use super::super::rows::tables::Name;
use super::super::write::Site;
use tideline_model::timelines::FanOut;

impl Site {
    /// After a change of settings: what they say counts from the next message on.
    pub(in super::super) fn turn(
        &self,
        rows: &impl Source,
        name: &Name,
        head: &mut HeadRow,
    ) -> Result<(), ReadError> {
        turn_to(head, &self.configured(rows, name, head)?.settings);
        Ok(())
    }

    /// After members or followers came.
    pub(in super::super) fn turn_by_count(
        &self,
        rows: &impl Source,
        name: &Name,
        head: &mut HeadRow,
    ) -> Result<(), ReadError> {
        match head.inbox_from {
            0 => Ok(()),
            _ => self.turn(rows, name, head),
        }
    }

    /// Before an append: a policy may have changed since the last one.
    pub(in super::super) fn turn_by_policy(
        &self,
        rows: &impl Source,
        name: &Name,
        head: &mut HeadRow,
    ) -> Result<(), ReadError> {
        let policy = self.policies.of_name(name);
        let goes_in = |policy: &Settings| policy.fan_out.unwrap_or_default() != FanOut::Read;
        match head.inbox_from > 0 || policy.is_some_and(goes_in) {
            true => self.turn(rows, name, head),
            false => Ok(()),
        }
    }
}

fn turn_to(head: &mut HeadRow, settings: &Settings) {
    let max = settings.fan_out_members_max.unwrap_or(FAN_OUT_MEMBERS_MAX);
    let count = u64::from(head.members) + u64::from(head.followers);
    let goes_in = match settings.fan_out.unwrap_or_default() {
        FanOut::Read => false,
        FanOut::Write => true,
        FanOut::Auto => {
            if count > max {
                head.flags |= TOO_MANY;
            }
            head.flags & TOO_MANY == 0
        }
    };
    match (goes_in, head.inbox_from) {
        (true, 0) => head.inbox_from = head.last + 1,
        (true, _) => {}
        (false, _) => head.inbox_from = 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_stays_in_read_once_there_were_too_many() {
        let mut head = HeadRow::new(1);
        head.last = 5;
        let settings = |fan_out| Settings {
            fan_out: Some(fan_out),
            fan_out_members_max: Some(2),
            ..Settings::default()
        };
        let mut turn = |fan_out, members, followers| {
            (head.members, head.followers) = (members, followers);
            turn_to(&mut head, &settings(fan_out));
            head.last += 1;
            head.inbox_from
        };
        assert_eq!(turn(FanOut::Read, 1, 0), 0);
        assert_eq!(turn(FanOut::Write, 9, 9), 7);
        assert_eq!(turn(FanOut::Auto, 1, 1), 7);
        assert_eq!(turn(FanOut::Auto, 2, 1), 0);
        assert_eq!(turn(FanOut::Auto, 1, 0), 0);
        assert_eq!(turn(FanOut::Write, 1, 0), 11);
    }
}
