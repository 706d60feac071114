//! Settings of one timeline: changing them, and those in force.
//!
//! Owns: the settings row and the head's flags that go with it. Promises: a setting that is taken back is the policy's
//! again; a change of the right to read takes a member version, so that subscribers are looked at again. Must not: do
//! what a setting says.

use tideline_model::access::{Asker, Right};
use tideline_model::timelines::{Edit, EditBy, SettingsPatch};
use tideline_table::{Action, ReadError, Source, Txn, put, record};

use super::super::rows::head::{HAS_SETTINGS, HeadRow, MEMBERS_ONLY, OPEN_TO_ALL, TOO_MANY};
use super::super::rows::tables::{Name, SETTINGS};
use super::super::write::{Site, put_head, version};
use super::super::{Error, Target};
use super::admit::Reader;
use super::change::put_change;
use super::change_row::ChangeRow;
use super::settings::{Configured, Settings};
use super::settings_row::SettingsRow;

impl Site {
    /// Changes settings; `expect_version`: refuse unless they have this version.
    pub(in super::super) fn configure(
        &self,
        txn: &mut Txn<'_>,
        target: &Target,
        patch: SettingsPatch,
        expect_version: Option<u64>,
    ) -> Result<Configured, Error> {
        let (name, mut head, _) = self.enter(txn, target)?;
        let row = SettingsRow::load(txn, &name, &head)?;
        if expect_version.is_some_and(|expected| expected != row.version) {
            return Err(Error::ConditionFailed {
                actual: row.version,
            });
        }
        let (before, before_turn) = (row.version, (head.inbox_from, head.flags));
        let is_of_fan_out = patch.fan_out.is_some() || patch.fan_out_members_max.is_some();
        let row = set(txn, &name, &mut head, row, patch);
        if row.version != before {
            // What is too much by a new retention goes soon, whether anything is appended or not.
            self.keep(txn, &name, &mut head, (std::iter::empty(), true))?;
        }
        if is_of_fan_out {
            head.flags &= !TOO_MANY;
            self.turn(txn, &name, &mut head)?;
        }
        if row.version != before || before_turn != (head.inbox_from, head.flags) {
            put_head(txn, &name, &head);
        }
        Ok(Configured {
            settings: self.in_force(&name, row.settings),
            version: row.version,
        })
    }

    /// Whether a caller may edit or delete a message that was written then and by that sender. Where rights are
    /// decided, `edit` is for one's own and bound by the settings, and `moderate` is neither.
    pub(in super::super) fn check_edit(
        &self,
        txn: &Txn<'_>,
        (name, head): (&Name, &HeadRow),
        (asker, reader): (&Asker, &Reader),
        (timestamp, sender): (u64, &str),
    ) -> Result<(), Error> {
        let user = asker.user();
        if asker.claim().is_some() {
            if reader.rights.has(Right::Moderate) {
                return Ok(());
            }
            if sender != asker.sender() {
                return Err(Error::NoRight);
            }
        }
        if user.is_empty() {
            return Ok(());
        }
        let edit = self.configured(txn, name, head)?.settings.edit;
        let Edit { by, window_ms } = edit.unwrap_or_default();
        let is_theirs = by == EditBy::Anyone || sender == user;
        let ends_ms = window_ms.map(|window| timestamp.saturating_add(window));
        if is_theirs && ends_ms.is_none_or(|ends| txn.now_ms() <= ends) {
            Ok(())
        } else {
            Err(Error::Forbidden)
        }
    }

    /// Whether a caller may stop an open message of this sender.
    pub(in super::super) fn check_stop(
        &self,
        txn: &Txn<'_>,
        (name, head): (&Name, &HeadRow),
        asker: &Asker,
        sender: &str,
    ) -> Result<(), Error> {
        if asker.user().is_empty() || asker.user() == sender {
            return Ok(());
        }
        match self.configured(txn, name, head)?.settings.stop {
            Some(EditBy::Sender) => Err(Error::Forbidden),
            _ => Ok(()),
        }
    }

    /// A timeline's settings where it has some, else its policy's.
    pub(in super::super) fn in_force(&self, name: &Name, own: Settings) -> Settings {
        match self.policies.of_name(name) {
            Some(policy) => own.or(policy),
            None => own,
        }
    }

    /// The settings in force and the version of the timeline's own.
    pub(in super::super) fn configured(
        &self,
        rows: &impl Source,
        name: &Name,
        head: &HeadRow,
    ) -> Result<Configured, ReadError> {
        let row = SettingsRow::load(rows, name, head)?;
        Ok(Configured {
            settings: self.in_force(name, row.settings),
            version: row.version,
        })
    }
}

/// Writes changed settings, if anything changes. The caller puts the head.
pub(in super::super) fn set(
    txn: &mut Txn<'_>,
    name: &Name,
    head: &mut HeadRow,
    row: SettingsRow,
    patch: SettingsPatch,
) -> SettingsRow {
    let settings = row.settings.clone().after(patch);
    if settings == row.settings {
        return row;
    }
    let row = SettingsRow {
        settings,
        version: row.version + 1,
    };
    let key = name.settings_key(head.incarnation);
    let now = version(txn.now_ms());
    let entry = put(txn, key, row.encode(), now);
    record(txn, SETTINGS, Action::Update, entry, 1);
    let who = match row.settings.members_only {
        Some(true) => MEMBERS_ONLY,
        Some(false) => OPEN_TO_ALL,
        None => 0,
    };
    let others = head.flags & !(MEMBERS_ONLY | OPEN_TO_ALL);
    let flags = others | HAS_SETTINGS | who;
    if flags & (MEMBERS_ONLY | OPEN_TO_ALL) != head.flags & (MEMBERS_ONLY | OPEN_TO_ALL) {
        put_change(txn, name, head, &ChangeRow::default());
    }
    head.flags = flags;
    row
}
