//! From the settings to each layer's options.
//!
//! Owns: which setting reaches which layer, and that the layers' limits fit each other. Promises: what one layer lets
//! in, the next one can take; the compiler checks it. Must not: decide a default: those of settings are with the keys,
//! all others in the layers.

use std::sync::Arc;
use std::time::Duration;

use tideline_bucket::BucketPlace;

use tideline_model::search::{SearchIndex, message_index, timeline_index};

use super::{Config, ConfigError, DEVELOPMENT};
use crate::bounds::{Bounds, Costs, Resource};
use crate::metrics::Metrics;
use crate::tls::{Certificate, Unfit};
use crate::{feed, gateway, partition, relay, reshape, timeline, wire};

/// A request that is let in must fit into what it goes through, or it could never succeed.
const _: () = {
    let limits = wire::Limits::DEFAULT;
    assert!(limits.inbound_frame_bytes_max <= gateway::REQUESTS_BYTES_MAX as u64);
    assert!(limits.batch_bytes_max <= partition::QUEUE_BYTES_MAX as u64);
    assert!(limits.requests_in_flight_max <= partition::QUEUE_JOBS_MAX as u64);
    assert!(partition::BATCH_JOBS <= partition::QUEUE_JOBS_MAX);
    assert!(feed::PAGE_BYTES as u64 <= limits.outbound_frame_bytes_max / 4);
};

impl Config {
    /// Names of the settings that are others than at the start, and wait for a restart.
    #[must_use]
    pub fn waiting_since(&self, started: &Config) -> Vec<&'static str> {
        let mut names = started.differing(self);
        let settings = |config: &Config| -> Vec<_> {
            let policies = config.policy.iter();
            policies
                .map(|one| (one.prefix.clone(), one.settings))
                .collect()
        };
        let only_rights = self.auth.is_some() && settings(self) == settings(started);
        names.retain(|name| match *name {
            "limits" | "auth" => false,
            "policy" => !only_rights,
            _ => true,
        });
        names
    }

    /// For the partitions.
    #[must_use]
    pub fn partition_options(&self, metrics: &Arc<Metrics>) -> partition::Options {
        partition::Options {
            partitions: self.partitions,
            memtable_bytes: self.memtable_bytes,
            memtable_age_ms: self.memtable_age_ms,
            reserve_bytes: self.reserve_bytes,
            holds_log: true,
            log: partition::LogOptions {
                segment_bytes: self.segment_bytes,
                retention_age_ms: self.retention_age_ms,
                retention_bytes: self.retention_bytes,
                ..partition::LogOptions::default()
            },
            image: partition::ImageOptions {
                map_bytes: self.map_bytes,
                ..partition::ImageOptions::default()
            },
            metrics: Arc::clone(metrics),
            ..partition::Options::default()
        }
    }

    /// What callers may hold, with so many connections as the machine allows.
    #[must_use]
    pub fn bounds(&self, connections_max: usize, metrics: &Metrics) -> Bounds {
        let max = |resource| match resource {
            Resource::Connections => connections_max,
            Resource::InboundBytes => self.inbound_bytes_max,
            Resource::AnswersBytes => self.answers_bytes_max,
            Resource::WatchedTimelines => self.watched_timelines_max,
            Resource::Tickets => self.tickets_max,
            Resource::CostlyReads => self.tablestore_costly_reads_max,
            Resource::Transactions => self.tablestore_transactions_max,
            Resource::TransactionBytes => self.tablestore_transaction_bytes_max,
            Resource::Searches => self.searches_max,
            Resource::MessageSearches => self.message_searches_max,
            Resource::SearchBytes => self.search_memory_bytes_max,
            Resource::Scans => self.search_scans_max,
        };
        let percent = self.caller_share_percent;
        let costs = Costs {
            expression_bytes_max: self.tablestore_expression_bytes_max,
            costly_percent: self.tablestore_costly_percent,
        };
        Bounds::new(max, percent, costs, metrics)
    }

    /// For the streams of tables: how many bytes of log they may hold. On a small disk less, since a full one stops
    /// all writes.
    #[must_use]
    pub fn stream_log_bytes(&self) -> u64 {
        let fits = crate::disk::total(&self.data).map(|bytes| bytes / 4);
        self.stream_log_bytes_max.min(fits.unwrap_or(u64::MAX))
    }

    /// When partitions are split by themselves.
    #[must_use]
    pub fn reshape_options(&self) -> reshape::Options {
        reshape::Options {
            split_bytes: self.partition_split_bytes,
            split_bytes_per_s: self.partition_split_bytes_per_s,
        }
    }

    pub(super) fn check_backups(&self) -> Result<(), ConfigError> {
        if self.backup_bucket.is_empty() {
            return Ok(());
        }
        BucketPlace::read(&self.backup_bucket)
            .map_err(|error| ConfigError(format!("backup_bucket: {error}")))?;
        match self.backup_directory.as_os_str().is_empty() {
            true => Err(ConfigError(
                "backup_bucket needs backup_directory: backups are made there before they are sent"
                    .to_owned(),
            )),
            false => Ok(()),
        }
    }

    /// For the backups that callers ask for.
    #[must_use]
    pub fn backup_options(&self) -> partition::BackupOptions {
        let directory = Some(&self.backup_directory).filter(|path| !path.as_os_str().is_empty());
        partition::BackupOptions {
            directory: directory.cloned(),
            elsewhere: None,
            passphrase: None,
            bytes_per_s: self.backup_bytes_per_s,
            version: env!("CARGO_PKG_VERSION"),
        }
    }

    /// For the relay.
    #[must_use]
    pub fn relay_options(&self) -> relay::Options {
        relay::Options {
            backlog_bytes_max: self.relay_backlog_bytes_max as u64,
            ..relay::Options::default()
        }
    }

    /// For the search indexes.
    #[must_use]
    pub fn search_options(&self) -> crate::search::Options {
        crate::search::Options {
            waits: self.search_waits,
            build_rows_per_second: self.search_build_rows_per_second,
            log_bytes_max: self.search_log_bytes_max,
        }
    }

    /// The search indexes of the server's own, each with the name of the virtual table that it is of.
    #[must_use]
    pub fn own_search_indexes(&self) -> Vec<(&'static str, SearchIndex)> {
        match self.search.messages {
            true => vec![
                (timeline::MESSAGE_TABLE, message_index(&self.search.r#where)),
                (timeline::META_TABLE, timeline_index()),
            ],
            false => Vec::new(),
        }
    }

    /// For the timelines.
    #[must_use]
    pub fn timeline_limits(&self) -> timeline::Limits {
        timeline::Limits {
            message_id_window_ms: self.message_id_window_ms,
            message_id_window_count: self.message_id_window_count,
            ..timeline::Limits::default()
        }
    }

    /// Settings of timelines that have none of their own.
    #[must_use]
    pub fn policies(&self) -> timeline::Policies {
        // Of equal prefixes the first counts: that of channels has what the other one says.
        let mut all = self.channel_policies().unwrap_or_default();
        all.extend(self.own_policies());
        timeline::Policies::new(all)
    }

    /// Those of `[[policy]]`.
    pub(super) fn own_policies(&self) -> Vec<timeline::Policy> {
        let policy = |policy: &super::PolicyKey| timeline::Policy {
            prefix: policy.prefix.clone(),
            settings: timeline::Settings::default().after(policy.settings),
        };
        self.policy.iter().map(policy).collect()
    }

    /// What policies give to users.
    #[must_use]
    pub fn policy_rights(&self) -> Vec<crate::access::PolicyRights> {
        self.policy
            .iter()
            .map(|policy| policy.rights.clone())
            .collect()
    }

    /// What clients may send and get.
    #[must_use]
    pub fn wire_limits(&self) -> wire::Limits {
        wire::Limits {
            subscriptions_max: self.subscriptions_max,
            ..wire::Limits::DEFAULT
        }
        .with_entries_of(self.entry_bytes_max)
    }

    /// For the gateway.
    ///
    /// # Errors
    /// A secret that can't be read.
    pub fn gateway_options(
        &self,
        bounds: &Arc<Bounds>,
        metrics: &Arc<Metrics>,
    ) -> Result<gateway::Options, ConfigError> {
        Ok(gateway::Options {
            limits: self.wire_limits(),
            request_time_max: Duration::from_millis(self.request_ms_max),
            heartbeat: Duration::from_millis(self.heartbeat_ms),
            stream_wait: Duration::from_millis(self.stream_wait_ms),
            slow_consumer: Duration::from_millis(self.slow_consumer_ms),
            bounds: Arc::clone(bounds),
            allowed_origins: self.allowed_origins.clone(),
            allowed_hosts: self.allowed_hosts.clone(),
            takes_proxied: self.takes_proxied(),
            serves_proxies_only: self.serves_proxies_only(),
            trusted_proxies: self.trusted_networks().unwrap_or_default(),
            per_client: self.limits,
            bootstrap: self.data.join(gateway::BOOTSTRAP_SOCKET),
            certificate: None,
            dialects: &wire::jsonrpc::DIALECTS,
            tablestore: self.tablestore_options(),
            centrifuge: self.centrifuge_options()?,
            cluster: None,
            nodes: self.nodes()?,
            metrics: Arc::clone(metrics),
        })
    }

    /// What TLS is served with.
    pub fn certificate(&self) -> Result<Option<Certificate>, Unfit> {
        let files = self.tls.files().map_err(|error| Unfit(error.0))?;
        files.map(Certificate::load).transpose()
    }

    fn tablestore_options(&self) -> gateway::TablestoreOptions {
        let listed = self.tablestore_credentials.0.iter();
        let counts = listed.filter(|text| *text != DEVELOPMENT || self.takes_development_key());
        let counts = counts.filter(|_| self.auth.is_none());
        let credentials = counts.filter_map(|text| {
            let (id, secret) = text.split_once(':')?;
            Some(gateway::Credential {
                id: id.to_owned(),
                secret: secret.to_owned(),
                direct_only: text == DEVELOPMENT,
            })
        });
        gateway::TablestoreOptions {
            credentials: credentials.collect(),
            instances: self.tablestore_instances.clone(),
            partition_key_units_max: self.tablestore_partition_key_units_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_development_credential_counts_on_loopback_and_alone() {
        let ids = |listen: &str, credentials: &[&str]| -> Vec<String> {
            let config = Config {
                listen: listen.parse().unwrap(),
                tablestore_credentials: crate::config::Secrets(
                    credentials.iter().map(ToString::to_string).collect(),
                ),
                ..Config::default()
            };
            config.check().unwrap();
            let credentials = config.tablestore_options().credentials;
            credentials.into_iter().map(|known| known.id).collect()
        };
        assert_eq!(ids("127.0.0.1:7070", &[DEVELOPMENT]), ["development"]);
        assert_eq!(ids("[::1]:7070", &[DEVELOPMENT]), ["development"]);
        assert!(ids("0.0.0.0:7070", &[DEVELOPMENT]).is_empty());
        let own = ["me:a:b, which is as long as it must be", DEVELOPMENT];
        for listen in ["0.0.0.0:7070", "127.0.0.1:7070"] {
            assert_eq!(ids(listen, &own), ["me"]);
        }
    }
}
