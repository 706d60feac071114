//! From the configuration to each layer's options.
//!
//! Owns: which key reaches which layer. Promises: every field of every layer's options is set here by hand, so that a
//! new one cannot be forgotten. Must not: decide a default; those stand with the keys.

use std::sync::Arc;
use std::time::Duration;

use super::{Config, DEVELOPMENT};
use crate::metrics::Metrics;
use crate::{feed, gateway, partition, timeline, wire};

impl Config {
    /// For the partitions.
    #[must_use]
    pub fn partition_options(&self, metrics: &Arc<Metrics>) -> partition::Options {
        partition::Options {
            partitions: self.partitions,
            queue_jobs_max: self.queue_jobs_max,
            queue_bytes_max: self.queue_bytes_max,
            batch_jobs_max: self.commit_jobs_max,
            batch_bytes_max: self.commit_bytes_max,
            reads_max: self.reads_max,
            memtable_bytes: self.memtable_bytes,
            memtable_log_bytes: self.memtable_log_bytes,
            memtable_age_ms: self.memtable_age_ms,
            frozen_max: self.frozen_memtables_max,
            reserve_bytes: self.reserve_bytes,
            log: self.log_options(),
            image: self.image_options(),
            metrics: Arc::clone(metrics),
            #[cfg(any(test, feature = "faults"))]
            fault: partition::Options::default().fault,
        }
    }

    fn log_options(&self) -> partition::LogOptions {
        partition::LogOptions {
            segment_bytes: self.segment_bytes,
            retention_age_ms: self.retention_age_ms,
            retention_bytes: self.retention_bytes,
            tail_bytes: self.tail_bytes,
            // Measured choices of the log, not for operators.
            ..partition::LogOptions::default()
        }
    }

    fn image_options(&self) -> partition::ImageOptions {
        partition::ImageOptions {
            map_bytes: self.map_bytes,
            filter_memory_bytes: self.filter_memory_bytes,
            level0_slow_runs: self.level0_slow_runs,
            level0_busy_runs: self.level0_busy_runs,
            // Measured choices of the image, not for operators.
            ..partition::ImageOptions::default()
        }
    }

    /// For the timelines.
    #[must_use]
    pub fn timeline_limits(&self) -> timeline::Limits {
        timeline::Limits {
            message_id_window_ms: self.message_id_window_ms,
            message_id_window_count: self.message_id_window_count,
            heads_max: self.heads_max,
        }
    }

    /// For the feed.
    #[must_use]
    pub fn feed_options(&self, metrics: &Arc<Metrics>) -> feed::Options {
        feed::Options {
            fresh_bytes_max: self.fresh_bytes_max,
            page_messages_max: self.page_messages_max,
            // A page becomes at most two frames, and JSON can be a third longer than what it tells.
            page_bytes_max: (self.outbound_frame_bytes_max / 4).min(256 << 10),
            metrics: Arc::clone(metrics),
        }
    }

    /// What clients may send and get.
    #[must_use]
    pub fn wire_limits(&self) -> wire::Limits {
        wire::Limits {
            entry_bytes_max: self.entry_bytes_max as u64,
            batch_messages_max: self.batch_messages_max as u64,
            batch_bytes_max: self.batch_bytes_max as u64,
            inbound_frame_bytes_max: self.inbound_frame_bytes_max as u64,
            outbound_frame_bytes_max: self.outbound_frame_bytes_max as u64,
            page_messages_max: self.page_messages_max as u64,
            subscriptions_max: self.subscriptions_max as u64,
            requests_in_flight_max: self.requests_in_flight_max as u64,
            sync_positions_max: self.sync_positions_max as u64,
            wait_ms_max: self.wait_ms_max,
            json_depth_max: self.json_depth_max as u64,
        }
    }

    /// For the gateway.
    #[must_use]
    pub fn gateway_options(&self, metrics: &Arc<Metrics>) -> gateway::Options {
        gateway::Options {
            limits: self.wire_limits(),
            requests_in_flight_bytes_max: self.requests_in_flight_bytes_max,
            inbound_bytes_max: self.inbound_bytes_max,
            answers_bytes_max: self.answers_bytes_max,
            request_time_max: Duration::from_millis(self.request_ms_max),
            session_reads_max: self.session_reads_max,
            session_waits_max: self.session_waits_max,
            heartbeat: Duration::from_millis(self.heartbeat_ms),
            slow_consumer: Duration::from_millis(self.slow_consumer_ms),
            connections_max: self.connections_max,
            http_head_bytes_max: self.http_head_bytes_max,
            http_head_time_max: Duration::from_millis(self.http_head_ms_max),
            http_body_time_max: Duration::from_millis(self.http_body_ms_max),
            allowed_origins: self.allowed_origins.clone(),
            allowed_hosts: self.allowed_hosts.clone(),
            drain_spread: Duration::from_millis(self.drain_spread_ms),
            dialects: &wire::jsonrpc::DIALECTS,
            tablestore: self.tablestore_options(),
            metrics: Arc::clone(metrics),
        }
    }

    fn tablestore_options(&self) -> gateway::TablestoreOptions {
        let listed = self.tablestore_credentials.iter();
        let counts = listed.filter(|text| *text != DEVELOPMENT || self.takes_development_key());
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
                tablestore_credentials: credentials.iter().map(ToString::to_string).collect(),
                ..Config::default()
            };
            config.check().unwrap();
            let credentials = config.tablestore_options().credentials;
            credentials.into_iter().map(|known| known.id).collect()
        };
        assert_eq!(ids("127.0.0.1:7070", &[DEVELOPMENT]), ["development"]);
        assert_eq!(ids("[::1]:7070", &[DEVELOPMENT]), ["development"]);
        assert!(ids("0.0.0.0:7070", &[DEVELOPMENT]).is_empty());
        let own = ["me:a:b", DEVELOPMENT];
        for listen in ["0.0.0.0:7070", "127.0.0.1:7070"] {
            assert_eq!(ids(listen, &own), ["me"]);
        }
    }
}
