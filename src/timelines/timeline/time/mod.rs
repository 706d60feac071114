//! What happens to messages by time: they expire, are appended later, or go because there are too many or too old ones.
//!
//! Owns: due rows and what each kind of them leads to. Promises: all of it is found in the order of time, whatever the
//! number of timelines, and survives a restart; appends without these options cost nothing more. Must not: run tasks.

mod alarm;
mod changed_policies;
mod deliver;
pub(super) mod due;
mod hide_expired;
mod message_expiry;
mod retention;
pub(super) mod schedule;
pub(super) mod scheduled_row;
mod timer;
mod verify;

pub(super) use alarm::{Alarm, Time};
pub(super) use due::expiry_columns;
pub(super) use due::{Due, Kind, due_key, put_due};
pub(super) use hide_expired::shown;
pub(super) use retention::timestamp;
pub(super) use schedule::listed;
pub use schedule::{ListScheduled, Scheduled};
pub use scheduled_row::Refused;
pub(super) use scheduled_row::{Later, ScheduledRow};
pub use timer::{Done, Timer};
