//! What must hold between a timeline's settings, its members and their changes.
//!
//! Owns: these rules. Promises: each contradiction is reported with its place. Must not: write, or hold settings
//! against what is kept: retention is late by right.

use std::collections::HashMap;

use tideline_table::{ReadError, Source as _, damaged, version_of};

use super::super::check::dump::StoredTimelines;
use super::super::rows::head::{HAS_SETTINGS, HeadRow, MEMBERS_ONLY, OPEN_TO_ALL};
use super::super::rows::tables::{MEMBER_CHANGES, MEMBERS, Name};
use super::change_row::{ChangeRow, KEPT_MS};
use super::row::MemberRow;
use super::settings_row::SettingsRow;

type Problem<'p> = &'p mut dyn FnMut(String);
type Of<'t> = (&'t Name, &'t HeadRow);

/// Clocks may have been set back meanwhile.
const DOUBT_MS: u64 = 86_400_000;

impl StoredTimelines<'_> {
    /// Checks a timeline's settings against what the head says of them.
    pub(in super::super) fn check_settings(
        &self,
        (name, head): Of<'_>,
        problem: Problem<'_>,
    ) -> Result<(), ReadError> {
        let row = self.view.row(&name.settings_key(head.incarnation))?;
        let is_named = head.flags & HAS_SETTINGS != 0;
        let settings = match row.map(|value| SettingsRow::decode(&value)) {
            Some(Ok(row)) if is_named && row.version > 0 => row.settings,
            None if !is_named => return Ok(()),
            Some(Ok(_)) => {
                problem("there are settings of which the head does not know".to_owned());
                return Ok(());
            }
            Some(Err(_)) => {
                problem("its settings can't be read".to_owned());
                return Ok(());
            }
            None => {
                problem("its settings are missing".to_owned());
                return Ok(());
            }
        };
        let who = match settings.members_only {
            Some(true) => MEMBERS_ONLY,
            Some(false) => OPEN_TO_ALL,
            None => 0,
        };
        if head.flags & (MEMBERS_ONLY | OPEN_TO_ALL) != who {
            problem("the head and the settings differ in who may read".to_owned());
        }
        Ok(())
    }

    /// Checks the changes of members: none is missing that is still kept, none is beyond the head's version, and the
    /// last one of each member is the one that the member's row names.
    pub(in super::super) fn check_member_changes(
        &self,
        (name, head): Of<'_>,
        problem: Problem<'_>,
    ) -> Result<(), ReadError> {
        let is_kept = |at_ms: u64| at_ms + KEPT_MS > self.now_ms + DOUBT_MS;
        let mut last: HashMap<String, (u64, bool)> = HashMap::new();
        let mut first = u64::MAX;
        // The version before, and whether what follows it must be there.
        let mut before = (0, false);
        for row in self.of_timeline((name, head), MEMBER_CHANGES) {
            let (key, value) = row?;
            let bad = || damaged(&key, "not a change of a member");
            let version = name.number_of(&key).map_err(|_| bad())?;
            let change = ChangeRow::decode(&value).map_err(|_| bad())?;
            let at_ms = version_of(&value).map_err(|_| bad())?;
            if before.1 && version != before.0 + 1 {
                problem(missing(before.0 + 1, version - 1));
            }
            first = first.min(version);
            before = (version, is_kept(at_ms));
            let left = change.has_left();
            last.insert(change.user, (version, left));
        }
        if before.0 > head.member_version {
            let version = head.member_version;
            problem(format!(
                "a change of members, {}, is beyond version {version}",
                before.0
            ));
        }
        if before.1 && before.0 < head.member_version {
            problem(missing(before.0 + 1, head.member_version));
        }
        last.remove("");
        for row in self.of_timeline((name, head), MEMBERS) {
            let (user, row) = MemberRow::named(&row?)?;
            let MemberRow {
                version,
                joined,
                joined_at,
                ..
            } = row;
            match last.remove(&*user) {
                Some((change, false)) if change == version => {}
                Some((change, _)) => problem(format!(
                    "member {user:?} is of version {version}, the last change of it {change}"
                )),
                None if version >= first || (version == joined && is_kept(joined_at)) => {
                    problem(format!("member {user:?} has no change {version}"));
                }
                None => {}
            }
        }
        let mut gone: Vec<_> = last.into_iter().filter(|(_, (_, left))| !left).collect();
        gone.sort_unstable();
        for (user, (version, _)) in gone {
            problem(format!(
                "change {version} of members leads to {user:?}, who is none"
            ));
        }
        Ok(())
    }
}

fn missing(from: u64, to: u64) -> String {
    format!("changes {from} to {to} of members are missing")
}
