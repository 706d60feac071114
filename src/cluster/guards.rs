//! What a stream, its servers and their peers must be like, and names.
//!
//! Owns: the settings that would let frames go, change or count before they are safe. Promises: each refusal is one
//! sentence that names the setting, what it is and what to do. Must not: ask a server; callers bring what it answered.

/// The longest name of a cluster or a node.
const NAME_BYTES_MAX: usize = 32;

/// Refuses a name that NATS would read as more than a name. `what` says whose it is.
pub fn check_name(what: &str, name: &str) -> Result<(), String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_good = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(fits);
    is_good.then_some(()).ok_or_else(|| {
        format!("{what} {name:?}: use 1 to {NAME_BYTES_MAX} characters of a-z, 0-9 and -")
    })
}

/// The configuration of a stream, by JetStream's names; what JetStream leaves out is `false`, 0 or empty.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // as JetStream has them
pub struct StreamSettings {
    /// Its name.
    pub name: String,
    /// `subjects`.
    pub subjects: Vec<String>,
    /// `retention`.
    pub retention: String,
    /// `storage`.
    pub storage: String,
    /// `discard`.
    pub discard: String,
    /// `num_replicas`.
    pub num_replicas: u8,
    /// `max_age`, ns.
    pub max_age: u64,
    /// `max_msgs`; -1 is none.
    pub max_msgs: i64,
    /// `max_msgs_per_subject`; -1 is none.
    pub max_msgs_per_subject: i64,
    /// `max_msg_size`, bytes; -1 is none.
    pub max_msg_size: i64,
    /// `persist_mode`; empty is the default.
    pub persist_mode: String,
    /// `no_ack`.
    pub no_ack: bool,
    /// `sealed`.
    pub sealed: bool,
    /// `deny_delete`.
    pub deny_delete: bool,
    /// `deny_purge`.
    pub deny_purge: bool,
    /// `allow_direct`.
    pub allow_direct: bool,
    /// `allow_rollup_hdrs`.
    pub allow_rollup_hdrs: bool,
    /// `allow_msg_ttl`.
    pub allow_msg_ttl: bool,
    /// `allow_msg_counter`.
    pub allow_msg_counter: bool,
    /// `allow_msg_schedules`.
    pub allow_msg_schedules: bool,
    /// `mirror` is there.
    pub mirror: bool,
    /// `sources` are there.
    pub sources: bool,
    /// `subject_transform` is there.
    pub subject_transform: bool,
    /// `republish` is there.
    pub republish: bool,
}

/// What a NATS server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Its name.
    pub name: String,
    /// Its version, as `2.15.1`.
    pub version: String,
    /// `max_payload`, bytes.
    pub max_payload: u64,
    /// Whether `sync_interval` is `always`; `None` if its monitoring port does not say.
    pub sync_always: Option<bool>,
}

/// The oldest version with which this was designed.
const VERSION_MIN: [u64; 3] = [2, 12, 6];

/// Refuses a server that may lose what it acknowledged. `bytes_min`: the largest message that must fit; `unverified`: a
/// person answers for servers that do not report their `sync_interval`.
pub fn check_server(
    server: &ServerSettings,
    bytes_min: u64,
    unverified: bool,
) -> Result<(), String> {
    let ServerSettings {
        name,
        version,
        max_payload,
        sync_always,
    } = server;
    // `2.15.0-RC.1` counts as 2.15.0.
    let plain = version.trim_start_matches('v').split(['-', '+']).next();
    let parts = plain.unwrap_or_default().split('.');
    let numbers: Option<Vec<u64>> = parts.map(|part| part.parse().ok()).collect();
    if numbers.is_none_or(|numbers| numbers.as_slice() < &VERSION_MIN[..]) {
        let [major, minor, patch] = VERSION_MIN;
        return Err(format!(
            "NATS server {name} has version {version}: use {major}.{minor}.{patch} or newer"
        ));
    }
    if *max_payload < bytes_min {
        return Err(format!(
            "NATS server {name} has max_payload {max_payload}: set it to {bytes_min} or more"
        ));
    }
    match sync_always {
        Some(true) => Ok(()),
        Some(false) => Err(format!(
            "NATS server {name} does not sync before it acknowledges: set jetstream {{ sync_interval: always }}"
        )),
        None if unverified => Ok(()),
        None => Err(format!(
            "NATS server {name} does not report its sync_interval: name its monitoring address in nats_monitor, or set \
             nats_sync_unverified if you know that it is always"
        )),
    }
}

/// Refuses a stream whose settings would let frames go, change or count too soon.
pub fn check_stream(stream: &StreamSettings, subject: &str) -> Result<(), String> {
    let refuse = |what: &str, wanted: &str| {
        let name = &stream.name;
        Err(format!(
            "stream {name} has {what}: {wanted}, or make it by `tideline cluster create`"
        ))
    };
    let words = [
        ("retention", &stream.retention, "limits"),
        ("storage", &stream.storage, "file"),
        ("discard", &stream.discard, "new"),
    ];
    for (name, found, wanted) in words {
        if found != wanted {
            return refuse(&format!("{name} {found}"), &format!("set it to {wanted}"));
        }
    }
    if stream.subjects != [subject] {
        let found = stream.subjects.join(", ");
        return refuse(
            &format!("the subjects {found}"),
            &format!("set it to {subject} only"),
        );
    }
    if !matches!(stream.persist_mode.as_str(), "" | "default") {
        let found = format!("persist_mode {}", stream.persist_mode);
        return refuse(&found, "it acknowledges before it syncs; set it to default");
    }
    let limits = [
        ("max_msgs", stream.max_msgs),
        ("max_msgs_per_subject", stream.max_msgs_per_subject),
        ("max_msg_size", stream.max_msg_size),
        ("max_age", i64::try_from(stream.max_age).unwrap_or(i64::MAX)),
    ];
    for (name, found) in limits {
        if found > 0 {
            return refuse(&format!("{name} {found}"), "frames would go; take it away");
        }
    }
    let switches = [
        ("no_ack", stream.no_ack),
        ("sealed", stream.sealed),
        ("deny_purge", stream.deny_purge),
        ("allow_rollup_hdrs", stream.allow_rollup_hdrs),
        ("allow_msg_ttl", stream.allow_msg_ttl),
        ("allow_msg_counter", stream.allow_msg_counter),
        ("allow_msg_schedules", stream.allow_msg_schedules),
        ("a mirror", stream.mirror),
        ("sources", stream.sources),
        ("subject_transform", stream.subject_transform),
        ("republish", stream.republish),
    ];
    for (name, is_on) in switches {
        if is_on {
            return refuse(name, "turn it off");
        }
    }
    let needed = [
        ("deny_delete", stream.deny_delete),
        ("allow_direct", stream.allow_direct),
    ];
    for (name, is_on) in needed {
        if !is_on {
            return refuse(&format!("no {name}"), "turn it on");
        }
    }
    Ok(())
}

/// A notice of what is allowed and dangerous: a stream with fewer than three copies.
#[must_use]
pub fn notice(stream: &StreamSettings) -> Option<String> {
    let copies = stream.num_replicas;
    (copies < 3).then(|| {
        format!(
            "stream {} has {copies} of 3 copies: set num_replicas to 3, or the loss of one machine may lose writes",
            stream.name
        )
    })
}

/// A NATS server of the cluster, as the others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// It answers.
    pub is_online: bool,
    /// It has all that the leader has.
    pub is_current: bool,
}

/// Refuses to add or remove a peer while one is down or behind: the new majority might lack what the old one
/// acknowledged.
pub fn check_peer_change(peers: &[Peer]) -> Result<(), String> {
    all_well(peers.iter()).map_err(|bad| {
        format!("{bad}: bring it back, and wait until it has everything, before peers are changed")
    })
}

/// Refuses the return of a server without its data, unless all others have everything: until it has caught up, it would
/// vote for what it does not have.
pub fn check_wiped_return(wiped: &str, peers: &[Peer]) -> Result<(), String> {
    if !peers.iter().any(|peer| peer.name == wiped) {
        return Err(format!(
            "NATS server {wiped} is no peer of the cluster: give it the name that it had"
        ));
    }
    let others = peers.iter().filter(|peer| peer.name != wiped);
    all_well(others).map_err(|bad| {
        format!(
            "{bad}: {wiped} may come back without its data only while all others have everything"
        )
    })
}

/// The first peer that is not, in words.
fn all_well<'a>(mut peers: impl Iterator<Item = &'a Peer>) -> Result<(), String> {
    let bad = peers.find(|peer| !peer.is_online || !peer.is_current);
    bad.map_or(Ok(()), |bad| {
        let state = match bad.is_online {
            true => "is behind",
            false => "is down",
        };
        Err(format!("NATS server {} {state}", bad.name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> StreamSettings {
        let text = str::to_owned;
        StreamSettings {
            name: text("TL_chat_0"),
            subjects: vec![text("tl.chat.0")],
            retention: text("limits"),
            storage: text("file"),
            discard: text("new"),
            num_replicas: 3,
            max_age: 0,
            max_msgs: -1,
            max_msgs_per_subject: -1,
            max_msg_size: -1,
            persist_mode: String::new(),
            no_ack: false,
            sealed: false,
            deny_delete: true,
            deny_purge: false,
            allow_direct: true,
            allow_rollup_hdrs: false,
            allow_msg_ttl: false,
            allow_msg_counter: false,
            allow_msg_schedules: false,
            mirror: false,
            sources: false,
            subject_transform: false,
            republish: false,
        }
    }

    #[test]
    fn names_have_no_meaning_in_subjects() {
        for good in ["chat", "n1", "eu-west-1"] {
            assert_eq!(check_name("node", good), Ok(()));
        }
        for bad in ["", "a.b", "a*", ">", "a b", "A", "a_b", &"a".repeat(33)] {
            assert!(check_name("node", bad).is_err_and(|said| said.contains("use 1 to 32")));
        }
    }

    #[test]
    fn settings_that_lose_frames_are_refused_by_name() {
        assert_eq!(check_stream(&stream(), "tl.chat.0"), Ok(()));
        let changes: &[(&str, fn(&mut StreamSettings))] = &[
            ("retention interest", |s| s.retention = "interest".into()),
            ("storage memory", |s| s.storage = "memory".into()),
            ("discard old", |s| s.discard = "old".into()),
            ("the subjects tl.chat.0, x", |s| s.subjects.push("x".into())),
            ("persist_mode async", |s| s.persist_mode = "async".into()),
            ("max_msgs 9", |s| s.max_msgs = 9),
            ("max_msgs_per_subject 1", |s| s.max_msgs_per_subject = 1),
            ("max_msg_size 9", |s| s.max_msg_size = 9),
            ("max_age 1", |s| s.max_age = 1),
            ("no_ack", |s| s.no_ack = true),
            ("sealed", |s| s.sealed = true),
            ("deny_purge", |s| s.deny_purge = true),
            ("allow_rollup_hdrs", |s| s.allow_rollup_hdrs = true),
            ("allow_msg_ttl", |s| s.allow_msg_ttl = true),
            ("allow_msg_counter", |s| s.allow_msg_counter = true),
            ("allow_msg_schedules", |s| s.allow_msg_schedules = true),
            ("a mirror", |s| s.mirror = true),
            ("sources", |s| s.sources = true),
            ("subject_transform", |s| s.subject_transform = true),
            ("republish", |s| s.republish = true),
            ("no deny_delete", |s| s.deny_delete = false),
            ("no allow_direct", |s| s.allow_direct = false),
        ];
        for (named, change) in changes {
            let mut changed = stream();
            change(&mut changed);
            let said = check_stream(&changed, "tl.chat.0").expect_err(named);
            let begins = format!("stream TL_chat_0 has {named}: ");
            assert!(said.starts_with(&begins), "{said}");
        }
        assert_eq!(notice(&stream()), None);
        let mut single = stream();
        single.num_replicas = 1;
        assert!(notice(&single).is_some_and(|said| said.contains("1 of 3")));
        assert_eq!(check_stream(&single, "tl.chat.0"), Ok(()));
    }

    #[test]
    fn servers_must_be_new_and_sync_always() {
        let check = |version: &str, max_payload, sync_always, unverified| {
            let server = ServerSettings {
                name: "n1".to_owned(),
                version: version.to_owned(),
                max_payload,
                sync_always,
            };
            check_server(&server, 8_000_000, unverified)
        };
        for version in ["2.12.6", "2.15.1", "v3.0.0", "2.15.0-RC.1"] {
            assert_eq!(check(version, 8_388_608, Some(true), false), Ok(()));
        }
        for version in ["2.9.10", "2.12.5", "", "latest"] {
            let said = check(version, 8_388_608, Some(true), false).expect_err("old");
            assert!(said.contains("use 2.12.6 or newer"), "{said}");
        }
        assert!(check("2.15.1", 1_048_576, Some(true), false).is_err());
        assert!(check("2.15.1", 8_388_608, Some(false), true).is_err());
        assert!(check("2.15.1", 8_388_608, None, false).is_err());
        assert_eq!(check("2.15.1", 8_388_608, None, true), Ok(()));
    }

    #[test]
    fn peers_change_only_while_all_are_well() {
        let peer = |name: &str, is_online, is_current| Peer {
            name: name.to_owned(),
            is_online,
            is_current,
        };
        let (a, b) = (peer("a", true, true), peer("b", true, true));
        let gone = [a.clone(), b.clone(), peer("c", false, false)];
        assert!(check_peer_change(&gone).is_err());
        assert_eq!(check_wiped_return("c", &gone), Ok(()));
        assert!(check_wiped_return("a", &gone).is_err());
        assert!(check_wiped_return("d", &gone).is_err());
        let behind = [a.clone(), peer("b", true, false)];
        assert!(check_peer_change(&behind).is_err_and(|said| said.contains("b is behind")));
        assert_eq!(check_peer_change(&[a, b]), Ok(()));
    }
}
