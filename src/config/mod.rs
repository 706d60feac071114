//! Every option of the server: one flat list of keys with meaning, unit, default and limits.
//!
//! Owns: what can be configured and how it is checked; the inequalities between limits. Promises: a value out of range
//! is refused at start with the key and its limits; the printed default file holds every key. Must not: hand out a
//! value that was not checked. Each layer has its own `Options`; `layers.rs` fills them.

mod key;
mod layers;
mod load;

use std::net::SocketAddr;
use std::path::PathBuf;

pub use key::address;
pub use load::{Flags, load};

use key::Key;

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

            /// Each key within its own limits.
            fn check_ranges(&self) -> Result<(), ConfigError> {
                $( $( $( in_range(stringify!($name), self.$name.number(), $min, $max)?; )? )+ )+
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
# which wins over this file; the flags --data, --listen, --insecure and --partitions win over both.
";

keys! {
    "server" {
        /// Directory that holds everything. Made if it is not there.
        data: PathBuf = PathBuf::from("./data");
        /// Address (or name) and port of WebSocket and HTTP. Off loopback the server starts only with `insecure`.
        listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 7070));
        /// Whether to serve an address that is not loopback, though there is no authentication yet: whoever reaches it
        /// may read, write and delete everything, as anybody.
        insecure: bool = false;
        /// What is logged to standard error: error, warn, info, debug, or per module as in
        /// "info,tideline::gateway=debug".
        log: String = "info".to_owned();
        /// Longest time that a shutdown waits for requests and slow sockets, in ms. What is committed is flushed after
        /// it.
        drain_ms_max: u64 = 10_000, 0 to 600_000;
        /// At a shutdown clients are told to come back after a random time up to this, in ms.
        drain_spread_ms: u64 = 10_000, 500 to 600_000;
    }
    "partitions" {
        /// Partitions of a new data directory. Each costs a writer thread and a log. A directory that stands has the
        /// number that it was made with; another one here is an error. 0 = as it is, and 1 in a new one.
        partitions: u16 = 0, 0 to 64;
        /// Writes that may wait for a partition's writer; beyond it they are answered `busy`.
        queue_jobs_max: usize = 65_536, 256 to 16_777_216;
        /// Bytes that waiting writes of a partition may hold; beyond it they are answered `busy`.
        queue_bytes_max: usize = 67_108_864, 4_194_304 to 17_179_869_184;
        /// Writes in one commit at most.
        commit_jobs_max: usize = 4_096, 1 to 65_536;
        /// Payload bytes after which a commit is closed.
        commit_bytes_max: usize = 4_194_304, 65_536 to 33_554_432;
        /// Reads of the store that run at the same time.
        reads_max: usize = 16, 1 to 512;
    }
    "store" {
        /// Bytes of keys and values after which a memtable is frozen and flushed to a sorted run.
        memtable_bytes: usize = 134_217_728, 65_536 to 4_294_967_296;
        /// Bytes of commit log after which a memtable is frozen: what a restart replays at most, about.
        memtable_log_bytes: usize = 268_435_456, 65_536 to 17_179_869_184;
        /// Age after which a memtable is frozen, in ms.
        memtable_age_ms: u64 = 600_000, 1_000 to 86_400_000;
        /// Frozen memtables at which new writes are answered `busy`; from half of it on they are slowed down.
        frozen_memtables_max: usize = 4, 2 to 1_000;
        /// Bytes of one segment of a commit log.
        segment_bytes: u64 = 67_108_864, 1_048_576 to 4_294_967_296;
        /// A segment of a commit log is kept at least until all in it is older than this, in ms …
        retention_age_ms: u64 = 86_400_000, 0 to 31_536_000_000;
        /// … or the partition's log takes more bytes than this.
        retention_bytes: u64 = 134_217_728, 1_048_576 to 1_099_511_627_776;
        /// Bytes of the newest batches of a partition kept in memory for those who follow its log.
        tail_bytes: usize = 33_554_432, 1_048_576 to 4_294_967_296;
        /// Address space reserved for a partition's LMDB file, in bytes; the file can't grow past it. A start reserves
        /// more if the file needs it.
        map_bytes: usize = 1_099_511_627_776, 16_777_216 to 17_592_186_044_416;
        /// Bytes of the disk that a partition keeps so that trims and deletions work on a full one; 0 = none. At most a
        /// 16th of the disk; on a disk below 8 GiB memtables and segments are kept smaller too, so that it is enough.
        reserve_bytes: u64 = 268_435_456, 0 to 1_099_511_627_776;
        /// Memory for a partition's filters, in bytes.
        filter_memory_bytes: u64 = 268_435_456, 1_048_576 to 1_099_511_627_776;
        /// Runs of level 0 from which writes are slowed down …
        level0_slow_runs: usize = 16, 2 to 1_000;
        /// … and at which they are answered `busy`.
        level0_busy_runs: usize = 32, 4 to 1_000;
    }
    "timelines" {
        /// A message ID is remembered while its message is younger than this, in ms …
        message_id_window_ms: u64 = 604_800_000, 60_000 to 31_536_000_000;
        /// … or is among this many newest of its timeline.
        message_id_window_count: u64 = 10_000, 1 to 100_000_000;
        /// Timelines whose head is kept in memory; the others are read when asked for.
        heads_max: usize = 1_000_000, 1_000 to 1_000_000_000;
        /// Bytes of fresh messages kept for subscribers, over all timelines; who lags further reads from the store.
        fresh_bytes_max: usize = 67_108_864, 1_048_576 to 17_179_869_184;
    }
    "HTTP" {
        /// Pages from these origins may talk to the server, by WebSocket and by HTTP (CORS), like
        /// "https://chat.example.org"; its own are always allowed.
        allowed_origins: Vec<String> = Vec::new();
        /// Names under which the server may be called besides its address and localhost, like "chat.example.org".
        allowed_hosts: Vec<String> = Vec::new();
        /// Open connections at most; further ones get 503. Fewer if the limit of open files (ulimit -n) is lower: a
        /// part of it is kept for the store.
        connections_max: usize = 16_384, 1 to 1_000_000;
        /// Bytes of a request's head.
        http_head_bytes_max: usize = 16_384, 8_192 to 1_048_576;
        /// Time for a request's head, and to the next one on a kept connection, in ms.
        http_head_ms_max: u64 = 10_000, 100 to 600_000;
        /// Time for a request's body, and for each MiB of a response, in ms.
        http_body_ms_max: u64 = 30_000, 100 to 600_000;
        /// Bytes that all connections together may hold of requests that come in or are not answered yet, up to 16 KiB
        /// of each left out; at it large requests get 503, or a WebSocket is closed with 1013.
        inbound_bytes_max: usize = 268_435_456, 16_777_216 to 1_099_511_627_776;
        /// Bytes that all connections together may hold of answers that their clients have not read, up to 16 KiB of
        /// each left out; at it large reads get 503, and WebSockets that do not read are closed with 4000.
        answers_bytes_max: usize = 536_870_912, 134_217_728 to 1_099_511_627_776;
    }
    "Tablestore" {
        /// Keys that Tablestore's requests are signed with, each "ID:secret". Without any, nobody may call. The
        /// default counts only alone, on loopback and not through a proxy: its secret is known to everybody.
        tablestore_credentials: Vec<String> = vec![DEVELOPMENT.to_owned()];
        /// Instance names that this server answers to.
        tablestore_instances: Vec<String> = vec!["tideline".to_owned()];
        /// Capacity units (of 4 KiB, reads and writes together) per second of one partition key; beyond it requests
        /// are answered OTSCapacityUnitExhausted. 0 = no limit.
        tablestore_partition_key_units_max: u32 = 0, 0 to 1_000_000_000;
    }
    "sessions" {
        /// How often the server pings; a client silent for two such intervals is closed. In ms.
        heartbeat_ms: u64 = 25_000, 100 to 3_600_000;
        /// A client that is behind for longer is closed with 4000. In ms.
        slow_consumer_ms: u64 = 60_000, 100 to 3_600_000;
        /// Bytes of an entry's compact JSON text, and of a timeline's meta.
        entry_bytes_max: usize = 262_144, 1_024 to 1_048_576;
        /// Messages in one message.append_batch.
        batch_messages_max: usize = 100, 1 to 10_000;
        /// Bytes of the entries of one message.append_batch together.
        batch_bytes_max: usize = 1_048_576, 256 to 16_777_216;
        /// Bytes of one message from a client, by WebSocket or HTTP.
        inbound_frame_bytes_max: usize = 4_194_304, 1_024 to 67_108_864;
        /// Bytes of one message to a client; pages end early to stay below.
        outbound_frame_bytes_max: usize = 1_048_576, 65_536 to 67_108_864;
        /// Messages in one page.
        page_messages_max: usize = 1_000, 1 to 10_000;
        /// Subscriptions of one connection.
        subscriptions_max: usize = 1_000, 1 to 1_000_000;
        /// Requests of one connection that are not answered yet; at it the server stops reading the socket.
        requests_in_flight_max: usize = 256, 1 to 65_536;
        /// Bytes of such requests; at it the server stops reading the socket.
        requests_in_flight_bytes_max: usize = 8_388_608, 1_024 to 1_073_741_824;
        /// Time for one message, from its first byte to its last; a client that takes longer is closed with 4003. In
        /// ms.
        request_ms_max: u64 = 30_000, 100 to 600_000;
        /// Reads of one connection that run at the same time; the others wait their turn.
        session_reads_max: usize = 8, 1 to 1_024;
        /// Waiting syncs of one connection; further ones are answered `rate_limited`.
        session_waits_max: usize = 16, 1 to 1_024;
        /// Bytes that the system may keep for a client that does not read. 0 = the system decides.
        socket_send_bytes: u32 = 262_144, 0 to 16_777_216;
        /// Timelines in one sync.
        sync_positions_max: usize = 10_000, 1 to 1_000_000;
        /// Longest time that a sync may wait, in ms.
        wait_ms_max: u64 = 60_000, 0 to 3_600_000;
        /// Depth of a request's JSON.
        json_depth_max: usize = 32, 8 to 100;
    }
}

/// The credential of a server that nobody has configured; see [`Config::takes_development_key`].
const DEVELOPMENT: &str = "development:development";

fn in_range(name: &str, number: Option<u64>, min: u64, max: u64) -> Result<(), ConfigError> {
    match number {
        Some(number) if (min..=max).contains(&number) => Ok(()),
        Some(number) => Err(ConfigError(format!(
            "{name} is {number}, but must be from {min} to {max}"
        ))),
        None => Err(ConfigError(format!("{name} must be from {min} to {max}"))),
    }
}

impl Config {
    /// Each key within its limits, and the keys among each other.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_ranges()?;
        // What is let in must fit into what it goes through, or a request could never succeed.
        let ordered: [(&str, usize, &str, usize); 7] = [
            (
                "entry_bytes_max",
                self.entry_bytes_max,
                "batch_bytes_max",
                self.batch_bytes_max,
            ),
            (
                "batch_bytes_max",
                self.batch_bytes_max,
                "inbound_frame_bytes_max",
                self.inbound_frame_bytes_max,
            ),
            (
                "inbound_frame_bytes_max",
                self.inbound_frame_bytes_max,
                "requests_in_flight_bytes_max",
                self.requests_in_flight_bytes_max,
            ),
            (
                "inbound_frame_bytes_max",
                self.inbound_frame_bytes_max,
                "inbound_bytes_max",
                self.inbound_bytes_max,
            ),
            (
                "batch_bytes_max",
                self.batch_bytes_max,
                "queue_bytes_max",
                self.queue_bytes_max,
            ),
            (
                "requests_in_flight_max",
                self.requests_in_flight_max,
                "queue_jobs_max",
                self.queue_jobs_max,
            ),
            (
                "commit_jobs_max",
                self.commit_jobs_max,
                "queue_jobs_max",
                self.queue_jobs_max,
            ),
        ];
        for (small, small_value, large, large_value) in ordered {
            if small_value > large_value {
                return Err(ConfigError(format!(
                    "{small} ({small_value}) must not be above {large} ({large_value})"
                )));
            }
        }
        self.wire_limits()
            .check()
            .map_err(|rule| ConfigError(rule.to_owned()))?;
        self.check_names()?;
        self.check_tablestore()
    }

    /// Whether others than this machine can reach the server.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        !self.listen.ip().to_canonical().is_loopback()
    }

    /// Whether the key that everybody knows opens the tables: as long as nobody has set others, to this machine alone.
    #[must_use]
    pub fn takes_development_key(&self) -> bool {
        !self.is_exposed() && self.tablestore_credentials == [DEVELOPMENT]
    }

    /// Names that no request could ever have would seem to be allowed.
    fn check_names(&self) -> Result<(), ConfigError> {
        let is_origin = |text: &str| {
            text.split_once("://").is_some_and(|(scheme, host)| {
                !scheme.is_empty() && !host.is_empty() && !host.contains(['/', '*', ' '])
            })
        };
        for origin in &self.allowed_origins {
            if !is_origin(origin.trim_end_matches('/')) {
                return Err(ConfigError(format!(
                    "allowed_origins: `{origin}` is not an origin like \"https://chat.example.org\""
                )));
            }
        }
        for host in &self.allowed_hosts {
            if host.is_empty() || host.contains(['/', '*', ' ']) {
                return Err(ConfigError(format!(
                    "allowed_hosts: `{host}` is not a name like \"chat.example.org\""
                )));
            }
        }
        Ok(())
    }

    fn check_tablestore(&self) -> Result<(), ConfigError> {
        for (at, credential) in self.tablestore_credentials.iter().enumerate() {
            // A secret is not to be shown, and a broken one may stand anywhere in the text.
            if !credential
                .split_once(':')
                .is_some_and(|(id, secret)| is_key_id(id) && !secret.is_empty())
            {
                return Err(ConfigError(format!(
                    "tablestore_credentials: number {} is not a key ID of letters, digits, '.', '_' and '-', a colon, \
                     and a secret",
                    at + 1
                )));
            }
        }
        for instance in &self.tablestore_instances {
            let is_fit = (3..=16).contains(&instance.len())
                && instance
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            if !is_fit {
                return Err(ConfigError(format!(
                    "tablestore_instances: `{instance}` is not 3 to 16 letters, digits and hyphens"
                )));
            }
        }
        Ok(())
    }
}

fn is_key_id(id: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !id.is_empty() && id.bytes().all(is_fit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::LogOptions;

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
    fn a_full_commit_and_one_more_write_are_a_frame_that_the_log_takes() {
        let config = |commit_bytes_max| Config {
            commit_bytes_max,
            ..Config::default()
        };
        let most = LogOptions::default().frame_bytes_max / 2;
        config(most).check().unwrap();
        config(most + 1).check().unwrap_err();
    }

    #[test]
    fn limits_that_contradict_each_other_are_refused() {
        let config = Config {
            inbound_frame_bytes_max: 2_048,
            ..Config::default()
        };
        let why = config.check().unwrap_err().0;
        assert!(
            why.contains("batch_bytes_max") && why.contains("inbound_frame_bytes_max"),
            "{why}"
        );
        let config = Config {
            outbound_frame_bytes_max: 300_000,
            ..Config::default()
        };
        assert!(
            config
                .check()
                .unwrap_err()
                .0
                .contains("four times entry_bytes_max")
        );
    }

    #[test]
    fn every_duration_and_size_has_its_unit_in_its_name() {
        let plain = [
            "data",
            "listen",
            "insecure",
            "log",
            "partitions",
            "queue_jobs_max",
            "commit_jobs_max",
            "frozen_memtables_max",
            "level0_slow_runs",
            "level0_busy_runs",
            "reads_max",
            "message_id_window_count",
            "heads_max",
            "allowed_origins",
            "allowed_hosts",
            "connections_max",
            "batch_messages_max",
            "page_messages_max",
            "subscriptions_max",
            "requests_in_flight_max",
            "session_reads_max",
            "session_waits_max",
            "sync_positions_max",
            "json_depth_max",
            "tablestore_credentials",
            "tablestore_instances",
            "tablestore_partition_key_units_max",
        ];
        for name in Config::NAMES {
            let unit = name.split('_').any(|part| part == "ms" || part == "bytes");
            assert!(unit || plain.contains(name), "{name} has no unit");
        }
    }
}
