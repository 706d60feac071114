//! Messages that grow: appended open, extended part by part, closed once.
//!
//! Owns: the rows of parts and of open messages, and the rules for them; promise 8 of the protocol. Promises: the parts
//! of a message are numbered 1, 2, 3 … without holes, and a part that is there is never written again; a message is
//! closed once, in one batch with its whole text; one that is not open costs nothing. Must not: number messages, or
//! know who follows them.
//!
//! A part is one row, behind those before it, and nothing else is written with it: no head row, no change record. So it
//! costs its text and a key. Its row also has how long the text has become (as JSON), so that a limit needs the last
//! part only. The message's own row has the text of the parts up to the number in `$parts`: none when it is appended,
//! all when it is closed; each 1,000th part, and what else writes it while it is open (an edit, a pin), writes the text
//! so far with it. A read of an open message reads its row and the parts above that number, in one view ([`look_up`]).
//! The rows of parts stay until their message is closed: a repeat is compared with them. Then a merge drops them,
//! because the message's row says that it is not open.
//!
//! A timeline's head counts its open messages, and each has a row of its own with the time of its due row. That is
//! written once: when its time comes, the timer looks when the last part came, and closes the message or writes the due
//! row anew for later.

mod close;
mod end;
mod extend;
mod follow;
mod heard;
mod open;
mod row;
mod verify;

pub use close::{Finish, Finished};
pub(super) use end::{end, open_between, recount, trimmed, whole_up_to};
pub use extend::{Extend, Extended};
pub use follow::{Grew, Growth};
pub(super) use heard::Heard;
pub(super) use row::{Growing, is_closed, look_up, parts_of};
pub(super) use verify::OpenRows;

/// Messages of a timeline that can be open at a time. Tests come to it with few.
pub const OPEN_MAX: u32 = if cfg!(test) { 3 } else { 1_000 };
/// Parts of one message.
pub const PARTS_MAX: u64 = if cfg!(test) { 40 } else { 100_000 };

/// The time of an open message's due row.
const DUE_AT: &str = "$due";
