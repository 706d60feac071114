//! The settings of the server: one flat list of keys with meaning, unit, default and limits.
//!
//! Owns: what an operator can set, and how it is checked. Promises: a value out of range is refused at start with the
//! key and its limits; the printed default file holds every key. Must not: hand out a value that was not checked, or
//! hold what only tunes a layer: such numbers are constants of the module that they tune, beside their reason.
//!
//! A setting is what an operator knows and the code can't: the machine (memory, disk, address space, descriptors),
//! the clients (origins, sizes, patience) and what the data is worth (retention, windows). Each layer has its own
//! `Options`, with the defaults that its tests need too; `layers.rs` fills them.

mod auth;
mod centrifuge;
mod channels;
mod cluster;
mod entrance;
mod exposure;
mod key;
mod layers;
mod load;
mod names;
mod policy;
mod search;
mod secrets;
mod unsupported;
mod webhook;

use std::net::SocketAddr;
use std::path::PathBuf;

pub use auth::AuthKey;
pub use centrifuge::{CentrifugeKey, schema as centrifuge_schema};
pub use cluster::{ClusterKey, TakeOver, login};
pub use entrance::TlsKey;
pub use key::address;
pub use load::{ConfigFile, Flags, environment, load};
pub use policy::PolicyKey;
pub use search::SearchKey;
pub use secrets::Secrets;
pub use webhook::WebhookKey;

use crate::logging::LogFormat;
use crate::{gateway, partition, timeline, wire};
use key::{Key, in_range};

/// Why the configuration was refused; the text is for the operator and names the key.
#[derive(Debug)]
pub struct ConfigError(pub String);

macro_rules! keys {
    ($( $section:literal { $(
        $(#[doc = $doc:literal])+
        $name:ident: $kind:ty = $default:expr $(, $min:literal to $max:literal)?;
    )+ } )+) => {
        /// All options, checked.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Config { $( $( $(#[doc = $doc])+ pub $name: $kind, )+ )+ }

        impl Default for Config {
            fn default() -> Config {
                Config { $( $( $name: $default, )+ )+ }
            }
        }

        impl Config {
            /// Names of all keys.
            pub const NAMES: &[&str] = &[$( $( stringify!($name), )+ )+];

            /// Sets a key from a file; `Ok(false)` if there is none of this name.
            fn set(&mut self, name: &str, value: &toml::Value) -> Result<bool, ConfigError> {
                match name {
                    $( $( stringify!($name) => {
                        self.$name = Key::read(value)
                            .map_err(|why| ConfigError(format!("{name}: {why}")))?;
                    } )+ )+
                    _ => return Ok(false),
                }
                Ok(true)
            }

            /// Sets a key from an environment variable; `Ok(false)` if there is none of this name.
            fn set_text(&mut self, name: &str, text: &str) -> Result<bool, ConfigError> {
                match name {
                    $( $( stringify!($name) => {
                        self.$name = Key::parse(text)
                            .map_err(|why| ConfigError(format!("{name}: {why}")))?;
                    } )+ )+
                    _ => return Ok(false),
                }
                Ok(true)
            }

            /// Names of the keys that are set otherwise in `other`.
            #[must_use]
            pub fn differing(&self, other: &Config) -> Vec<&'static str> {
                let mut names = Vec::new();
                $( $( if self.$name != other.$name {
                    names.push(stringify!($name));
                } )+ )+
                names
            }

            /// Each key within its own limits.
            fn check_ranges(&self) -> Result<(), ConfigError> {
                $( $( $( in_range(stringify!($name), self.$name.number(), $min, $max).map_err(ConfigError)?; )? )+ )+
                Ok(())
            }

            /// This configuration as a TOML file with every key explained.
            #[must_use]
            pub fn to_toml(&self) -> String {
                let mut out = String::from(HEADING);
                $(
                    out.push_str(concat!("\n# ---- ", $section, " ----\n"));
                    $(
                        out.push('\n');
                        $( out.push_str(concat!("#", $doc, "\n")); )+
                        $( out.push_str(concat!("# From ", $min, " to ", $max, ".\n")); )?
                        out.push_str(&format!("{} = {}\n", stringify!($name), self.$name.show()));
                    )+
                )+
                out
            }
        }
    };
}

const HEADING: &str = "\
# Tideline's configuration. Every key with its default; leave out what you do not change.
# Each can also be set in the environment as TIDELINE_ and its name in capitals (lists with commas),
# which wins over this file; the flags --data, --listen, --insecure, --log-format and --partitions win over both.
";

keys! {
    "server" {
        /// Directory that holds everything. Made if it is not there.
        data: PathBuf = PathBuf::from("./data");
        /// Address (or name) and port of WebSocket and HTTP. Off loopback, or with a name in allowed_hosts that others
        /// have, the server starts only with [auth], and then with [tls] or trusted_proxies; or with `insecure`.
        listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 7070));
        /// Whether to serve others than this machine though there is no authentication: an address that is not
        /// loopback, and what comes through a proxy. Whoever reaches it may read, write and delete everything, as
        /// anybody. With [auth]: whether to serve them though there is no TLS, so that credentials can be read.
        insecure: bool = false;
        /// What is logged to standard error: error, warn, info, debug, or per module as in
        /// "info,tideline_gateway=debug".
        log: String = "info".to_owned();
        /// How: "text", for people, or "json", for programs that collect logs: each line is an object of time, level,
        /// target, message and fields.
        log_format: LogFormat = LogFormat::Text;
        /// Longest time that a shutdown waits for requests and slow sockets, in ms. What is committed is flushed after
        /// it.
        drain_ms_max: u64 = 10_000, 0 to 600_000;
    }
    "access" {
        /// Who may come in. false = nobody is asked who they are. As a table at the end of the file, [auth] with any of
        /// issuer, audience (what tokens must name), leeway_s = 30 (by how much clocks may differ), hs256_secret_files
        /// and public_key_files (keys of tokens; a file's name without its ending is the key's ID), jwks_file,
        /// jwks_url, jwks_refresh_s = 300, rights (of all users, each { on, allow }). API keys are made by `tideline
        /// key`. SIGHUP has this section read again.
        auth: Option<AuthKey> = None;
    }
    "store" {
        /// Partitions of the data directory. Each costs a writer thread and a log. An existing directory that has
        /// another number is changed at the start, before it is served: what is in it is written anew, which needs as
        /// much room again; without room nothing is done. 0 = as it is, and 1 in a new one.
        partitions: u16 = 0, 0 to 64;
        /// A partition whose rows take more bytes than this is split while it is served; 0 = never by itself. Up to 64
        /// partitions. Only with partitions = 0, which leaves them as they are at a start.
        partition_split_bytes: u64 = 0, 0 to 1_125_899_906_842_624;
        /// So is one whose commit log grows by more bytes than this a second, for a minute; 0 = never.
        partition_split_bytes_per_s: u64 = 0, 0 to 1_099_511_627_776;
        /// Memory for what a partition has not written to its sorted runs yet: bytes of keys and values after which a
        /// memtable is frozen and flushed. Up to five of them exist while the disk is busy. A restart replays up to
        /// twice as much of the commit log.
        memtable_bytes: usize = partition::Options::default().memtable_bytes, 65_536 to 4_294_967_296;
        /// Age after which a memtable is flushed whatever its size, in ms.
        memtable_age_ms: u64 = partition::Options::default().memtable_age_ms, 1_000 to 86_400_000;
        /// Bytes of one segment of a commit log. A partition has four of them or more on disk.
        segment_bytes: u64 = partition::LogOptions::default().segment_bytes, 1_048_576 to 4_294_967_296;
        /// A segment of a commit log is kept at least until all in it is older than this, in ms …
        retention_age_ms: u64 = partition::LogOptions::default().retention_age_ms, 0 to 31_536_000_000;
        /// … or the partition's log takes more bytes than this.
        retention_bytes: u64 = partition::LogOptions::default().retention_bytes, 1_048_576 to 1_099_511_627_776;
        /// Bytes of all commit logs together that are kept for the streams of tables and for named cursors, whatever
        /// the two limits before say; a 4th of the disk at most. Beyond it the oldest changes go before the hours of
        /// their stream are over.
        stream_log_bytes_max: u64 = 8_589_934_592, 1_048_576 to 17_592_186_044_416;
        /// For so many hours the commit logs are kept for the named cursors of readers who are away, within the bytes
        /// before.
        stream_cursor_hours_max: u32 = 168, 1 to 8_760;
        /// Address space reserved for a partition's LMDB file, in bytes; the file can't grow past it. A start reserves
        /// more if the file needs it. Lower it where address space is limited (ulimit -v).
        map_bytes: usize = partition::ImageOptions::default().map_bytes, 16_777_216 to 17_592_186_044_416;
        /// Bytes of the disk that a partition keeps so that trims and deletions work on a full one; 0 = none. At most a
        /// 16th of the disk; on a disk below 8 GiB memtables and segments are kept smaller too, so that it is enough.
        reserve_bytes: u64 = 268_435_456, 0 to 1_099_511_627_776;
    }
    "search" {
        /// Whether a search in a search index of a table waits for all writes that were answered before it. false = it
        /// finds what the index has, which trails by a second at most while the server keeps up.
        search_waits: bool = true;
        /// Rows a second that are brought into a new search index of those that are there; 0 = as fast as it goes.
        search_build_rows_per_second: u64 = 20_000, 0 to 10_000_000;
        /// Bytes of all commit logs that are kept for search indexes that fell behind; beyond it one is made anew.
        search_log_bytes_max: u64 = 1_073_741_824, 1_048_576 to 17_592_186_044_416;
        /// Bytes that all searches take while they run, up to 64 MiB each. One that does not fit in is refused.
        search_memory_bytes_max: usize = 268_435_456, 67_108_864 to 1_099_511_627_776;
        /// Searches that run or wait for their turn at most; further ones are answered OTSServerBusy.
        searches_max: usize = 256, 1 to 1_000_000;
        /// Search of messages, as a table at the end of the file: [search] with messages = true, by which all messages
        /// and all timelines are indexed for message.search and timeline.search (in the background when it is switched
        /// on; the index is removed when it is switched off), and where, names of entries that messages can be asked
        /// for by, up to 64 (another list = the index is made anew).
        search: SearchKey = SearchKey::default();
        /// Searches of messages and timelines that run or wait for their turn at most; further ones are answered busy.
        message_searches_max: usize = 32, 1 to 1_000_000;
        /// Sessions of ParallelScan at most; further ones are answered OTSServerBusy.
        search_scans_max: usize = 100, 1 to 1_000_000;
    }
    "backups" {
        /// Folder below which administrators may have backups made by `backup.start`; it must be there, best on another
        /// disk. Empty = they may not. `tideline backup` with the data directory needs none.
        backup_directory: PathBuf = PathBuf::new();
        /// Folder of an S3-compatible store that such backups are sent to, as in "s3://bucket/prefix"; empty = they
        /// stay in backup_directory. They are made there first, and the newest stays there, because the next one shares
        /// its files. Credentials come from the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
        /// AWS_ENDPOINT_URL, AWS_REGION.
        backup_bucket: String = String::new();
        /// File with a passphrase of 12 bytes or more, which others can't read: such backups then hold the secrets of
        /// keys that sign requests, sealed with it. Empty = they are left out.
        backup_passphrase_file: PathBuf = PathBuf::new();
        /// Bytes a second that such a backup copies at most, so that writes get the disk, too; the same for bytes that
        /// are sent; 0 = no bound.
        backup_bytes_per_s: u64 = 67_108_864, 0 to 1_099_511_627_776;
    }
    "timelines" {
        /// A message ID is remembered while its message is younger than this, in ms …
        message_id_window_ms: u64 = timeline::Limits::default().message_id_window_ms, 60_000 to 31_536_000_000;
        /// … or is among this many newest of its timeline.
        message_id_window_count: u64 = timeline::Limits::default().message_id_window_count, 1 to 100_000_000;
        /// Bytes of an entry's compact JSON text, and of a timeline's meta.
        entry_bytes_max: u64 = wire::Limits::DEFAULT.entry_bytes_max, 1_024 to 1_048_576;
        /// Bytes of fresh messages kept in memory for subscribers, over all timelines; a subscriber that lags further
        /// is served from the store.
        fresh_bytes_max: usize = 67_108_864, 1_048_576 to 17_179_869_184;
        /// Settings of timelines that have none of their own, by how their IDs begin; the longest prefix counts. As
        /// tables at the end of the file, [[policy]] with prefix and any of retention (age_ms, messages, bytes),
        /// members_only, fan_out, fan_out_members_max, edit (by, window_ms); and where there is [auth] the rights of
        /// users: others = [...], members = [...], roles = { NAME = [...] }, creator = "NAME" (of who creates).
        policy: Vec<PolicyKey> = Vec::new();
        /// Bytes of a partition's log that lists, inboxes and followers may be behind; beyond it changes of members
        /// and messages that go into inboxes are answered `busy`. The log keeps that much, whatever its own limits.
        relay_backlog_bytes_max: usize = 67_108_864, 1_048_576 to 17_179_869_184;
    }
    "webhooks" {
        /// Receivers that the server posts changes to, as tables at the end of the file: [[webhook]] with name, url,
        /// secret_file (what POSTs are signed with), timelines (how their IDs begin) or table, and any of changes_max
        /// (of one POST), timeout_ms, retry_ms_max (between two attempts), give_up_ms (then it is a dead letter).
        webhook: Vec<WebhookKey> = Vec::new();
    }
    "clients" {
        /// Pages from these origins may talk to the server, by WebSocket and by HTTP (CORS), like
        /// "https://chat.example.org"; its own are always allowed.
        allowed_origins: Vec<String> = Vec::new();
        /// Names under which the server may be called besides its address and localhost, like "chat.example.org".
        allowed_hosts: Vec<String> = Vec::new();
        /// TLS, as a table at the end of the file: [tls] with certificate_file (with those between it and its
        /// authority), key_file, and perhaps client_ca_file (whose clients' certificates count); all PEM. Without it,
        /// connections are not encrypted. Changed files are read again while the server runs.
        tls: TlsKey = TlsKey::default();
        /// Addresses of proxies before the server, or networks of them like "10.0.0.0/8", whose X-Forwarded-For says
        /// truly from where requests come. Nobody else's does.
        trusted_proxies: Vec<String> = Vec::new();
        /// What one address, one user and one API key may take, as a table at the end of the file: [limits] with
        /// address {connections, handshakes_per_s, failures_per_min = 60}, user and key {connections, requests_per_s,
        /// bytes_per_s}. 0 = no limit. Read again on SIGHUP.
        limits: gateway::LimitOptions = gateway::LimitOptions::default();
        /// Open connections at most. When all are taken, a new one replaces the oldest that has shown no credential, or
        /// else the oldest of a caller above its share; if there is neither, it gets 503. Fewer if the limit of open
        /// files (ulimit -n) is lower: a part of it is kept for the store.
        connections_max: usize = 16_384, 1 to 1_000_000;
        /// How many percent one user or one API key may take of what all connections may hold: of connections_max (when
        /// it is reached), inbound_bytes_max, answers_bytes_max, watched_timelines_max and those of tables. 100 = all.
        caller_share_percent: u32 = 25, 1 to 100;
        /// Timelines that all subscriptions and waiting calls together may follow, about 700 bytes each. Further
        /// ones are refused with busy, and those of a caller above its share with too_many.
        watched_timelines_max: usize = 1_000_000, 10_001 to 1_000_000_000;
        /// Tickets (`session.ticket`) that were not shown yet, about 500 bytes each; each is there for 30 s at most.
        /// Further ones are refused with busy, and those of a caller above its share with too_many.
        tickets_max: usize = 100_000, 1 to 100_000_000;
        /// Subscriptions of one connection.
        subscriptions_max: u64 = wire::Limits::DEFAULT.subscriptions_max, 1 to 1_000_000;
        /// How often the server pings; a client silent for two such intervals is closed. In ms.
        heartbeat_ms: u64 = 25_000, 100 to 3_600_000;
        /// How long a reader of a durable stream (`/v1/stream/`) waits for what comes next, at most. In ms.
        stream_wait_ms: u64 = 20_000, 100 to 600_000;
        /// A client that is behind for longer is closed with 4000. In ms.
        slow_consumer_ms: u64 = 60_000, 100 to 3_600_000;
        /// Time for one message of a WebSocket, from its first byte to its last (then it is closed with 4003), for the
        /// body of an HTTP request (then 408), and for each MiB of a response. Of it, a request's head has 10 s. In ms.
        request_ms_max: u64 = 30_000, 100 to 600_000;
        /// Bytes that all connections together may hold of requests that come in or are not answered yet, up to 16 KiB
        /// of each left out; at it large requests get 503, or a WebSocket is closed with 1013.
        inbound_bytes_max: usize = 268_435_456, 16_777_216 to 1_099_511_627_776;
        /// Bytes that all connections together may hold of answers that their clients have not read, up to 16 KiB of
        /// each left out; at it large reads get 503, and WebSockets that do not read are closed with 4000.
        answers_bytes_max: usize = 536_870_912, 134_217_728 to 1_099_511_627_776;
        /// Bytes that the system may keep for a client that does not read; more is faster on long ways. 0 = its choice.
        socket_send_bytes: u32 = 262_144, 0 to 16_777_216;
    }
    "cluster" {
        /// Several machines that share a log in NATS JetStream, see docs/CLUSTER.md. As a table at the end of the file,
        /// [cluster] with name (of the cluster), node (the name of this one), nodes (where clients reach each, as
        /// { n1 = "http://10.0.0.1:7070", ... }, this one too), nats (servers, as "10.0.0.1:4222"), nats_login_file (of
        /// the nodes' login), nats_monitors (as "10.0.0.1:8222"), and perhaps nats_sync_unverified, read_lease_ms = 500
        /// (so long an owner answers reads without asking the log). false = this server is alone.
        cluster: Option<ClusterKey> = None;
    }
    "Centrifuge" {
        /// Clients of Centrifuge's SDKs, as a table at the end of the file: [centrifuge] with Centrifugo's options, see
        /// docs/CENTRIFUGE.md. false = without [auth] they may do everything, and with it they are not served.
        centrifuge: Option<CentrifugeKey> = None;
    }
    "Tablestore" {
        /// Keys that Tablestore's requests are signed with, each "ID:secret". Without any, nobody may call. The
        /// default counts only alone, on loopback and not through a proxy: its secret is known to everybody.
        tablestore_credentials: Secrets = Secrets(vec![DEVELOPMENT.to_owned()]);
        /// Instance names that this server answers to.
        tablestore_instances: Vec<String> = vec!["tideline".to_owned()];
        /// Capacity units (of 4 KiB, reads and writes together) per second of one partition key; beyond it requests
        /// are answered OTSCapacityUnitExhausted. 0 = no limit.
        tablestore_partition_key_units_max: u32 = 0, 0 to 1_000_000_000;
        /// Bytes of text that the regular expressions of one read or write may look at together. An expression that
        /// takes more than 4 KiB when it is compiled counts 4, 16 or 64 times. A range ends its page there; any other
        /// request gets OTSParameterInvalid.
        tablestore_expression_bytes_max: u64 = 8_388_608, 65_536 to 1_099_511_627_776;
        /// Reads with costly expressions that run or wait for their turn, at most; half as many as there are processors
        /// run at a time. Further requests are answered OTSServerBusy.
        tablestore_costly_reads_max: usize = 64, 1 to 1_000_000;
        /// Percent of a processor that the costly reads of one caller may take on average, after 2 s at once; 100 = no
        /// bound. A read beyond that is answered OTSServerBusy, a second later.
        tablestore_costly_percent: u32 = 6, 1 to 100;
        /// Open local transactions of tables at most, about 2 KiB each. Further ones are answered OTSServerBusy.
        tablestore_transactions_max: usize = 4_096, 1 to 1_000_000;
        /// Bytes of memory that the writes of open transactions may take. Further writes in them are answered
        /// OTSServerBusy.
        tablestore_transaction_bytes_max: usize = 268_435_456, 33_554_432 to 1_099_511_627_776;
    }
}

/// The credential of a server without configuration; see [`Config::takes_development_key`].
const DEVELOPMENT: &str = "development:development";

impl Config {
    /// Each key within its limits, and lists of what they can hold.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_ranges()?;
        self.check_names()?;
        self.search.check()?;
        policy::check(&self.policy)?;
        webhook::check(&self.webhook)?;
        auth::check(self.auth.as_ref())?;
        centrifuge::check(self)?;
        cluster::check(self)?;
        self.tls.files()?;
        self.trusted_networks()?;
        self.check_splits()?;
        self.check_backups()?;
        self.check_tablestore()
    }

    /// What is split by itself would become one again at the next start.
    fn check_splits(&self) -> Result<(), ConfigError> {
        let splits = self.partition_split_bytes > 0 || self.partition_split_bytes_per_s > 0;
        if splits && self.partitions > 0 {
            return Err(ConfigError(format!(
                "partitions is {}, but must be 0 where partitions are split by themselves",
                self.partitions
            )));
        }
        Ok(())
    }

    /// Whether the well-known key opens the tables: only while no other is set, and only to this machine.
    #[must_use]
    pub fn takes_development_key(&self) -> bool {
        self.auth.is_none() && !self.is_exposed() && self.tablestore_credentials.0 == [DEVELOPMENT]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings of a file with these lines, or why they are refused.
    pub(super) fn read(text: &str) -> Result<Config, String> {
        let table: toml::Table = text.parse().unwrap();
        let mut config = Config::default();
        for (name, value) in &table {
            config.set(name, value).map_err(|error| error.0)?;
        }
        config.check().map_err(|error| error.0)?;
        Ok(config)
    }

    #[test]
    fn the_default_file_reads_back_as_the_defaults_and_names_every_key() {
        let text = Config::default().to_toml();
        let table: toml::Table = text.parse().unwrap();
        let names: Vec<&str> = table.keys().map(String::as_str).collect();
        assert_eq!(names.len(), Config::NAMES.len());
        let mut read = Config {
            partitions: 9,
            ..Config::default()
        };
        for (name, value) in &table {
            assert!(read.set(name, value).unwrap());
        }
        assert_eq!(read, Config::default());
        read.check().unwrap();
    }

    #[test]
    fn a_value_out_of_range_is_refused_with_its_limits() {
        let config = Config {
            partitions: 65,
            ..Config::default()
        };
        assert_eq!(
            config.check().unwrap_err().0,
            "partitions is 65, but must be from 0 to 64"
        );
    }

    #[test]
    fn the_largest_entry_and_the_smallest_bound_still_let_every_request_through() {
        let mut config = Config {
            entry_bytes_max: wire::Limits::ENTRY_BYTES_LARGEST,
            inbound_bytes_max: 16_777_216,
            ..Config::default()
        };
        config.check().unwrap();
        let limits = config.wire_limits();
        assert!(limits.outbound_frame_bytes_max >= 4 * limits.entry_bytes_max);
        assert!(limits.batch_bytes_max >= limits.entry_bytes_max);
        assert!(limits.inbound_frame_bytes_max <= config.inbound_bytes_max as u64);
        config.entry_bytes_max += 1;
        config.check().unwrap_err();
        config.entry_bytes_max = 1_024;
        config.inbound_bytes_max -= 1;
        config.check().unwrap_err();
    }

    #[test]
    fn every_duration_and_size_has_its_unit_in_its_name() {
        let plain = [
            "data",
            "listen",
            "insecure",
            "backup_directory",
            "backup_bucket",
            "backup_passphrase_file",
            "log",
            "log_format",
            "partitions",
            "message_id_window_count",
            "auth",
            "policy",
            "webhook",
            "centrifuge",
            "cluster",
            "allowed_origins",
            "allowed_hosts",
            "tls",
            "trusted_proxies",
            "limits",
            "connections_max",
            "caller_share_percent",
            "watched_timelines_max",
            "tickets_max",
            "subscriptions_max",
            "tablestore_costly_reads_max",
            "tablestore_costly_percent",
            "tablestore_transactions_max",
            "tablestore_credentials",
            "tablestore_instances",
            "tablestore_partition_key_units_max",
            "search_waits",
            "search",
            "message_searches_max",
            "search_build_rows_per_second",
            "searches_max",
            "search_scans_max",
        ];
        for name in Config::NAMES {
            let unit = name
                .split('_')
                .any(|part| ["ms", "bytes", "hours"].contains(&part));
            assert!(unit || plain.contains(name), "{name} has no unit");
        }
    }
}
