//! The stored settings of a timeline.
//!
//! Owns: the columns of settings rows. Promises: what is not set is not stored. Must not: know policies.
//!
//! ```text
//! settings  $age, $bytes, $edit (0 anyone, 1 sender), $edit_ms, $fan (0 read, 1 write, 2 auto), $fan_max, $kept,
//!           $messages, $only, $stop (as $edit), $version         absent = not set; $kept: retention is set, whatever it holds
//! ```

use tideline_model::ValueRef;
use tideline_table::{Malformed, ReadError, Row, RowWriter, Source, damaged, number};

use super::super::rows::head::{HAS_SETTINGS, HeadRow};
use super::super::rows::tables::Name;
use super::settings::Settings;
use tideline_model::timelines::{Edit, EditBy, FanOut, Retention};

/// The stored settings of a timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct SettingsRow {
    pub(in super::super) settings: Settings,
    /// 0 = none were ever set.
    pub(in super::super) version: u64,
}

const AGE: &str = "$age";
const BYTES: &str = "$bytes";
const EDIT: &str = "$edit";
const EDIT_MS: &str = "$edit_ms";
const FAN_OUT: &str = "$fan";
const FAN_OUT_MAX: &str = "$fan_max";
const KEPT: &str = "$kept";
const MESSAGES: &str = "$messages";
const MEMBERS_ONLY: &str = "$only";
const STOP: &str = "$stop";
const VERSION: &str = "$version";

impl SettingsRow {
    /// To be finished with the time of the change as version.
    pub(in super::super) fn encode(&self) -> RowWriter {
        let settings = &self.settings;
        let kept = settings.retention.unwrap_or_default();
        let mut row = RowWriter::new(64);
        let mut put = |name, value: Option<u64>| {
            if let Some(value) = value {
                row.put(name, ValueRef::Integer(value.cast_signed()));
            }
        };
        put(AGE, kept.age_ms);
        put(BYTES, kept.bytes);
        put(EDIT, settings.edit.map(|edit| edit.by as u64));
        put(EDIT_MS, settings.edit.and_then(|edit| edit.window_ms));
        put(FAN_OUT, settings.fan_out.map(|fan_out| fan_out as u64));
        put(FAN_OUT_MAX, settings.fan_out_members_max);
        put(KEPT, settings.retention.map(|_| 1));
        put(MESSAGES, kept.messages);
        put(MEMBERS_ONLY, settings.members_only.map(u64::from));
        put(STOP, settings.stop.map(|by| by as u64));
        put(VERSION, Some(self.version));
        row
    }

    pub(in super::super) fn decode(value: &[u8]) -> Result<SettingsRow, Malformed> {
        let mut row = SettingsRow::default();
        let settings = &mut row.settings;
        let (mut kept, mut window_ms) = (Retention::default(), None);
        for cell in Row::parse(value)?.columns() {
            let cell = cell?;
            let number = number(cell.value)?;
            match cell.name {
                AGE => kept.age_ms = Some(number),
                BYTES => kept.bytes = Some(number),
                EDIT => {
                    let by = by(number)?;
                    settings.edit = Some(Edit { by, window_ms });
                }
                EDIT_MS => window_ms = Some(number),
                FAN_OUT => {
                    settings.fan_out = Some(match number {
                        0 => FanOut::Read,
                        1 => FanOut::Write,
                        2 => FanOut::Auto,
                        _ => return Err(Malformed),
                    });
                }
                FAN_OUT_MAX => settings.fan_out_members_max = Some(number),
                KEPT => settings.retention = Some(Retention::default()),
                MESSAGES => kept.messages = Some(number),
                MEMBERS_ONLY => settings.members_only = Some(number != 0),
                STOP => settings.stop = Some(by(number)?),
                VERSION => row.version = number,
                _ => return Err(Malformed),
            }
        }
        if let Some(edit) = &mut settings.edit {
            edit.window_ms = window_ms;
        }
        if let Some(retention) = &mut settings.retention {
            *retention = kept;
        }
        Ok(row)
    }

    /// The settings of a timeline.
    pub(in super::super) fn load(
        rows: &impl Source,
        name: &Name,
        head: &HeadRow,
    ) -> Result<SettingsRow, ReadError> {
        if head.flags & HAS_SETTINGS == 0 {
            return Ok(SettingsRow::default());
        }
        let key = name.settings_key(head.incarnation);
        let value = rows.row(&key)?;
        let value = value.ok_or_else(|| damaged(key.as_bytes(), "the settings are missing"))?;
        SettingsRow::decode(&value).map_err(|_| damaged(key.as_bytes(), "not settings"))
    }
}

fn by(number: u64) -> Result<EditBy, Malformed> {
    match number {
        0 => Ok(EditBy::Anyone),
        1 => Ok(EditBy::Sender),
        _ => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use proptest::option::of;
    use proptest::prelude::*;

    use super::*;

    fn settings() -> impl Strategy<Value = Settings> {
        let number = || of(0u64..1 << 53);
        let kept = (number(), number(), number()).prop_map(|(age_ms, messages, bytes)| Retention {
            age_ms,
            messages,
            bytes,
        });
        let fan_out = prop_oneof![Just(FanOut::Read), Just(FanOut::Write), Just(FanOut::Auto)];
        let by = || prop_oneof![Just(EditBy::Anyone), Just(EditBy::Sender)];
        let edit = (by(), number()).prop_map(|(by, window_ms)| Edit { by, window_ms });
        (
            of(kept),
            of(any::<bool>()),
            of(fan_out),
            number(),
            of(edit),
            of(by()),
        )
            .prop_map(
                |(retention, members_only, fan_out, fan_out_members_max, edit, stop)| Settings {
                    retention,
                    members_only,
                    fan_out,
                    fan_out_members_max,
                    edit,
                    stop,
                },
            )
    }

    proptest! {
        #[test]
        fn settings_come_back(settings in settings(), version in 1u64..9, bytes: Vec<u8>) {
            let row = SettingsRow { settings, version };
            prop_assert_eq!(SettingsRow::decode(&row.encode().finish(1)), Ok(row));
            let _ = SettingsRow::decode(&bytes).is_ok();
        }
    }
}
