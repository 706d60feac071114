//! Settings of timelines, and the policies that they default to.
//!
//! Owns: which settings there are, and how a policy is found. Promises: of each setting the timeline's own
//! counts, else that of the policy with the longest matching prefix, else the default. Must not: do what a setting
//! says.

use xxhash_rust::xxh3::Xxh3;

use super::super::rows::tables::Name;
use tideline_model::timelines::{self, Edit, EditBy, FanOut, Retention, SettingsPatch};

/// The settings of a timeline or of a policy; `None` = not set here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// How much is kept.
    pub retention: Option<Retention>,
    /// Only members may read and write.
    pub members_only: Option<bool>,
    /// How messages reach inboxes.
    pub fan_out: Option<FanOut>,
    /// Up to how many members `auto` writes into inboxes.
    pub fan_out_members_max: Option<u64>,
    /// Which users may edit and delete messages.
    pub edit: Option<Edit>,
    /// Whose open messages users may stop.
    pub stop: Option<EditBy>,
}

/// Up to how many members `auto` writes into inboxes, if nothing says otherwise.
pub const FAN_OUT_MEMBERS_MAX: u64 = 500;

impl Settings {
    /// These, and where nothing is set here those of a policy.
    #[must_use]
    pub fn or(self, policy: &Settings) -> Settings {
        let Settings {
            retention,
            members_only,
            fan_out,
            fan_out_members_max,
            edit,
            stop,
        } = self;
        Settings {
            retention: retention.or(policy.retention),
            members_only: members_only.or(policy.members_only),
            fan_out: fan_out.or(policy.fan_out),
            fan_out_members_max: fan_out_members_max.or(policy.fan_out_members_max),
            edit: edit.or(policy.edit),
            stop: stop.or(policy.stop),
        }
    }

    /// The same with the defaults of those that are set nowhere.
    #[must_use]
    pub fn with_defaults(&self) -> timelines::Settings {
        timelines::Settings {
            retention: self.retention.unwrap_or_default(),
            members_only: self.members_only.unwrap_or(false),
            fan_out: self.fan_out.unwrap_or_default(),
            fan_out_members_max: self.fan_out_members_max.unwrap_or(FAN_OUT_MEMBERS_MAX),
            edit: self.edit.unwrap_or_default(),
            stop: self.stop.unwrap_or_default(),
        }
    }

    /// These after a change.
    #[must_use]
    pub fn after(self, patch: SettingsPatch) -> Settings {
        let members_max = patch.fan_out_members_max;
        Settings {
            retention: patch.retention.unwrap_or(self.retention),
            members_only: patch.members_only.unwrap_or(self.members_only),
            fan_out: patch.fan_out.unwrap_or(self.fan_out),
            fan_out_members_max: members_max.unwrap_or(self.fan_out_members_max),
            edit: patch.edit.unwrap_or(self.edit),
            stop: patch.stop.unwrap_or(self.stop),
        }
    }
}

/// Settings in force, and the version of the timeline's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configured {
    /// Where the timeline has none of its own, its policy's.
    pub settings: Settings,
    /// 0 = none were ever set.
    pub version: u64,
}

/// Settings for all timelines whose IDs begin alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How the IDs begin; without control characters.
    pub prefix: String,
    /// What is not set here is the default.
    pub settings: Settings,
}

/// What the IDs of inboxes begin with.
pub(crate) use tideline_model::access::INBOX;
/// How long an inbox keeps its entries, ms.
const INBOX_KEPT_MS: u64 = 30 * 86_400_000;

/// The settings of inboxes.
static INBOXES: Settings = Settings {
    retention: Some(Retention {
        age_ms: Some(INBOX_KEPT_MS),
        messages: None,
        bytes: None,
    }),
    members_only: None,
    fan_out: None,
    fan_out_members_max: None,
    edit: None,
    stop: None,
};

/// All policies of a server. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    /// The longest prefix first.
    policies: std::sync::Arc<[Policy]>,
}

impl Policies {
    /// These policies; of equal prefixes the first counts.
    #[must_use]
    pub fn new(mut policies: Vec<Policy>) -> Policies {
        policies.sort_by_key(|policy| std::cmp::Reverse(policy.prefix.len()));
        Policies {
            policies: policies.into(),
        }
    }

    /// The settings of the policy that a timeline has, if there is one. The server's own have none of the
    /// configuration; inboxes keep their entries for 30 days.
    #[must_use]
    pub fn of(&self, timeline: &str) -> Option<&Settings> {
        self.find(timeline.as_bytes())
    }

    /// Tells whether timelines are kept by the same policies as before; 0 = by none.
    pub(in super::super) fn retention_digest(&self) -> u64 {
        let mut digest = Xxh3::new();
        for Policy { prefix, settings } in &*self.policies {
            let Retention {
                age_ms,
                messages,
                bytes,
            } = settings.retention.unwrap_or_default();
            digest.update(prefix.as_bytes());
            // No prefix holds a control character.
            digest.update(&[0]);
            for limit in [age_ms, messages, bytes] {
                digest.update(&limit.unwrap_or_default().to_be_bytes());
            }
        }
        let mut kept = self.policies.iter().map(|one| one.settings.retention);
        match kept.any(|one| one.is_some_and(|kept| kept != Retention::default())) {
            true => digest.digest().max(1),
            false => 0,
        }
    }

    /// [`Policies::of`] by the encoded name, which begins with the text's bytes.
    pub(in super::super) fn of_name(&self, name: &Name) -> Option<&Settings> {
        self.find(&name.as_bytes()[1..])
    }

    fn find(&self, timeline: &[u8]) -> Option<&Settings> {
        if timeline.first() == Some(&b'$') {
            return timeline.starts_with(INBOX.as_bytes()).then_some(&INBOXES);
        }
        let matching = |policy: &&Policy| timeline.starts_with(policy.prefix.as_bytes());
        let policy = self.policies.iter().find(matching)?;
        Some(&policy.settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_counts_and_own_settings_come_first() {
        let policy = |prefix: &str, members_only| Policy {
            prefix: prefix.to_owned(),
            settings: Settings {
                members_only,
                fan_out_members_max: Some(prefix.len() as u64),
                ..Settings::default()
            },
        };
        let policies = vec![policy("room/", Some(true)), policy("room/open/", None)];
        let policies = Policies::new(policies);
        let of = |timeline: &str| {
            let by_name = policies.of_name(&Name::new(timeline));
            assert_eq!(policies.of(timeline), by_name);
            by_name.map(|settings| settings.fan_out_members_max.unwrap())
        };
        assert_eq!(of("room/1"), Some(5));
        assert_eq!(of("room/open/1"), Some(10));
        assert_eq!((of("room"), of("")), (None, None));
        let all = Policies::new(vec![policy("", None)]);
        assert!(all.of("x").is_some() && all.of("$x").is_none());
        assert_eq!(all.of("$inbox/x"), Some(&INBOXES));
        let own = Settings {
            members_only: Some(false),
            ..Settings::default()
        };
        let in_force = own.or(policies.of("room/1").unwrap());
        assert_eq!(in_force.members_only, Some(false));
        assert_eq!(in_force.fan_out_members_max, Some(5));
    }
}
