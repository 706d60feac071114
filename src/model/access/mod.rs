//! Callers, and what they may do.
//!
//! Owns: rights, patterns of names, grants, identities, the rules in force, and the decision. Promises: every dialect
//! and every path asks the same functions, which look at nothing but their arguments. Must not: know sockets, JSON-RPC,
//! Tablestore or how timelines are stored.

mod asker;
mod coverage;
mod decide;
mod given;
mod grants;
mod identity;
mod pattern;
mod rights;
mod rules;
#[cfg(test)]
mod tests;

pub use asker::{Asker, Claim};
pub use coverage::Coverage;
pub use decide::{Decision, Membership, decide, everywhere, rights};
pub use decide::{INBOX, is_inbox_of_another};
pub use given::Given;
pub use grants::{GRANTS_MAX, GrantError, GrantText, Grants, GrantsFrom};
pub use identity::{Identity, KEY_SENDER, Who};
pub use pattern::{Pattern, PatternError};
pub use rights::{Right, Rights};
pub use rules::{CurrentRules, PolicyRights, Rules};
