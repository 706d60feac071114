//! The table `[cluster]`: this server is a node of several that share a log.
//!
//! Owns: how it is read and checked, which other settings it excludes, and the digests of those that all nodes must
//! have alike. Promises: a node that could not take part is refused before it opens anything; the password is in a file
//! of its own and is never shown. Must not: talk to NATS or to another node.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tideline_cluster::OWNER_SILENCE_MS_MIN;
use tideline_cluster::guards::check_name;
use tideline_jetstream::Access;
use toml::Value;
use xxhash_rust::xxh3::xxh3_128;

use super::key::{Key, in_range, section};
use super::{Config, ConfigError};
use crate::commands::address::Address;
use crate::credentials::SecretSeal;
use crate::gateway::{NodeSecret, Nodes, Place};
use crate::{secret, tls};

/// `[cluster]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterKey {
    /// The cluster's name.
    pub name: String,
    /// This node's name, one of `nodes`.
    pub node: String,
    /// Where clients and persons reach each node, by its name.
    pub nodes: BTreeMap<String, String>,
    /// The NATS servers, as `10.0.0.1:4222`.
    pub nats: Vec<String>,
    /// The file with `user:password` of the nodes' login.
    pub nats_login_file: PathBuf,
    /// The NATS servers' monitoring addresses, as `10.0.0.1:8222`.
    #[serde(default)]
    pub nats_monitors: Vec<String>,
    /// Whether servers are taken that do not say how they sync.
    #[serde(default)]
    pub nats_sync_unverified: bool,
    /// Authorities, in PEM, whose certificates the other nodes may have, instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes_ca_file: Option<PathBuf>,
    /// So long an owner answers reads without asking the log.
    #[serde(default = "read_lease_ms")]
    pub read_lease_ms: u32,
    /// So long nobody may hear the owner before a standby claims the log.
    #[serde(default = "owner_silence_ms")]
    pub owner_silence_ms: u32,
    /// Who says that a standby is to own the log.
    #[serde(default)]
    pub take_over: TakeOver,
}

/// `take_over`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TakeOver {
    /// The standbys, when the owner is silent.
    #[default]
    #[serde(rename = "by itself")]
    ByItself,
    /// A person.
    #[serde(rename = "by hand")]
    ByHand,
}

fn read_lease_ms() -> u32 {
    500
}

fn owner_silence_ms() -> u32 {
    800
}

impl Key for Option<ClusterKey> {
    fn read(value: &Value) -> Result<Option<ClusterKey>, String> {
        match value {
            Value::Boolean(false) => Ok(None),
            Value::Table(_) => section(value).map(Some),
            _ => Err(format!("expected [cluster] or false, found {value}")),
        }
    }
}

/// Names, addresses, and settings beside it that a cluster can't have.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    let Some(cluster) = &config.cluster else {
        return Ok(());
    };
    let ClusterKey {
        name,
        node,
        nodes,
        nats,
        nats_login_file: _,
        nats_monitors,
        nats_sync_unverified: _,
        nodes_ca_file: _,
        read_lease_ms,
        owner_silence_ms,
        take_over: _,
    } = cluster;
    let refused = |why: String| ConfigError(format!("cluster: {why}"));
    check_name("name", name).map_err(refused)?;
    if nodes.is_empty() || nodes.len() > NODES_MAX {
        return Err(refused(format!(
            "nodes has {}, but 1 to {NODES_MAX}",
            nodes.len()
        )));
    }
    for (name, address) in nodes {
        check_name("the node", name).map_err(refused)?;
        let parsed = Address::parse(address);
        parsed.map_err(|why| refused(format!("nodes.{name}: {why}")))?;
    }
    if !nodes.contains_key(node) {
        return Err(refused(format!("node is {node:?}, which is none of nodes")));
    }
    if nats.is_empty() || nats.len() > NODES_MAX {
        return Err(refused(format!(
            "nats names {} servers, but 1 to {NODES_MAX}",
            nats.len()
        )));
    }
    if let Some(server) = nats
        .iter()
        .chain(nats_monitors)
        .find(|one| one.contains('@'))
    {
        let host = server.rsplit('@').next().unwrap_or_default();
        return Err(refused(format!(
            "the NATS server at {host} has a login before its address: that belongs into nats_login_file"
        )));
    }
    let lease = Some(u64::from(*read_lease_ms));
    in_range("read_lease_ms", lease, 100, 10_000).map_err(refused)?;
    let (least, silence) = (OWNER_SILENCE_MS_MIN, Some(u64::from(*owner_silence_ms)));
    in_range("owner_silence_ms", silence, least.into(), 60_000).map_err(refused)?;
    let splits = config.partition_split_bytes > 0 || config.partition_split_bytes_per_s > 0;
    if config.partitions > 1 || splits {
        return Err(refused(
            "a cluster has one partition, and it is not split: leave out partitions and partition_split_*"
                .to_owned(),
        ));
    }
    Ok(())
}

/// No cluster has more nodes, or NATS servers.
const NODES_MAX: usize = 64;

impl ClusterKey {
    /// The NATS servers, for who has this login.
    #[must_use]
    pub fn access(&self, login: (String, String)) -> Access {
        let url = |server: &String| match server.contains("://") {
            true => server.clone(),
            false => format!("nats://{server}"),
        };
        Access {
            servers: self.nats.iter().map(url).collect(),
            user: Some(login),
        }
    }

    /// The login of the nodes.
    pub fn login(&self) -> Result<(String, String), ConfigError> {
        login(&self.nats_login_file).map_err(|why| ConfigError(format!("cluster: {why}")))
    }

    /// What the nodes know each other by: they all have the same login.
    pub fn secret(&self) -> Result<NodeSecret, ConfigError> {
        let (_, password) = self.login()?;
        Ok(NodeSecret::new(&self.name, &password))
    }

    /// What they seal the secrets of signing keys with for each other.
    pub fn secret_seal(&self) -> Result<SecretSeal, ConfigError> {
        let (_, password) = self.login()?;
        Ok(SecretSeal::new(&self.name, &password))
    }
}

/// User and password in a file that `nats-config` has written.
pub fn login(path: &std::path::Path) -> Result<(String, String), String> {
    let text = secret::read_text(path)?;
    let parts = text.trim_end().split_once(':');
    let parts = parts.filter(|(user, password)| !user.is_empty() && !password.is_empty());
    let (user, password) =
        parts.ok_or_else(|| format!("{}: expected user:password", path.display()))?;
    Ok((user.to_owned(), password.to_owned()))
}

impl Config {
    /// The nodes of the cluster, for each other.
    pub(super) fn nodes(&self) -> Result<Option<Arc<Nodes>>, ConfigError> {
        let Some(key) = &self.cluster else {
            return Ok(None);
        };
        let refused = |why: String| ConfigError(format!("cluster: {why}"));
        let mut places = BTreeMap::new();
        for (name, address) in &key.nodes {
            let Address {
                secure: is_secure,
                host,
                port,
                origin,
                url: _,
            } = Address::parse(address).map_err(refused)?;
            let authority = origin.split_once("://").unwrap_or_default().1.to_owned();
            let place = Place {
                host,
                port,
                authority,
                is_secure,
            };
            places.insert(name.clone(), place);
        }
        let tls = match places.values().any(|place| place.is_secure) {
            true => tls::client(key.nodes_ca_file.as_deref()),
            false => Ok(tls::client_of_nobody()),
        };
        let tls = tls.map_err(|error| refused(error.to_string()))?;
        let secret = key.secret()?;
        Ok(Some(Arc::new(Nodes::new(
            key.node.clone(),
            places,
            tls,
            secret,
        ))))
    }

    /// Digests of the settings that decide answers, so that nodes can be compared: all must have them alike.
    #[must_use]
    pub fn digests(&self) -> BTreeMap<&'static str, String> {
        let rights = self.auth.as_ref().map(|auth| format!("{:?}", auth.rights));
        let sections = [
            ("policy", format!("{:?}", self.policy)),
            ("auth.rights", format!("{rights:?}")),
            ("webhook", format!("{:?}", self.webhook)),
            ("trusted_proxies", format!("{:?}", self.trusted_proxies)),
            (
                "limits",
                format!(
                    "{:?}",
                    (
                        self.entry_bytes_max,
                        self.message_id_window_ms,
                        self.message_id_window_count,
                        self.stream_cursor_hours_max,
                    )
                ),
            ),
        ];
        let digest = |text: String| format!("{:032x}", xxh3_128(text.as_bytes()));
        let sections = sections.into_iter();
        sections.map(|(name, text)| (name, digest(text))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;

    const GOOD: &str = "[cluster]\nname = \"chat\"\nnode = \"n1\"\nnats = [\"127.0.0.1:4222\"]\n\
        nats_login_file = \"node.login\"\nnodes = { n1 = \"http://127.0.0.1:7070\" }\n";

    #[test]
    fn the_table_comes_back_as_it_was_written() {
        let config = read(GOOD).unwrap();
        assert_eq!(config.cluster.as_ref().unwrap().read_lease_ms, 500);
        assert_eq!(read(&config.to_toml()).unwrap(), config);
    }

    #[test]
    fn what_no_node_can_be_is_refused_by_name() {
        for (from, to, why) in [
            ("\"chat\"", "\"Chat\"", "use 1 to 32 characters"),
            ("\"n1\"\nnats", "\"n2\"\nnats", "none of nodes"),
            ("[\"127.0.0.1:4222\"]", "[]", "names 0 servers"),
            (
                "[\"127.0",
                "[\"nats://me:hush@127.0",
                "the NATS server at 127.0.0.1:4222 has a login",
            ),
            ("http://127", "ftp://127", "nodes.n1"),
            ("name =", "nam =", "unknown field `nam`"),
            (
                "name =",
                "owner_silence_ms = 599\nname =",
                "owner_silence_ms",
            ),
            ("name =", "take_over = \"never\"\nname =", "by hand"),
            ("[cluster]", "partitions = 2\n[cluster]", "one partition"),
            (
                "[cluster]",
                "partition_split_bytes = 9\n[cluster]",
                "one partition",
            ),
        ] {
            let refused = read(&GOOD.replace(from, to)).unwrap_err();
            assert!(
                refused.contains(why) && !refused.contains("hush"),
                "{refused}"
            );
        }
    }

    #[test]
    fn digests_differ_where_answers_would() {
        let (one, mut other) = (read(GOOD).unwrap(), read(GOOD).unwrap());
        other.heartbeat_ms += 1;
        assert_eq!(one.digests(), other.digests());
        other.entry_bytes_max += 1;
        let differing = |name| one.digests()[name] != other.digests()[name];
        assert!(differing("limits") && !differing("policy"));
    }
}
