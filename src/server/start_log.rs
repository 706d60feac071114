//! What a start logs: where the server is, which callers it accepts, which limits are in force, what its settings leave
//! open; and what the system's clock does from then on.
//!
//! Owns: these lines of the log, these gauges and notices. Promises: an operator that reads them knows what is open to
//! others. Must not: decide anything.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Step, Stepped};
use crate::config::Config;
use crate::health::{Notice, Severity};
use crate::metrics::Metrics;
use crate::partition::{FROZEN_MAX, ImageOptions, READS_MAX};

/// The last line of a start: where the server is, and what to open in a browser.
pub(super) fn say_where(config: &Config, address: SocketAddr) {
    let scheme = if config.tls.certificate_file.is_some() {
        "https"
    } else {
        "http"
    };
    let host = match address.ip().is_unspecified() {
        true => format!("localhost:{}", address.port()),
        false => address.to_string(),
    };
    let (console, demo) = (
        format!("{scheme}://{host}/console/"),
        format!("{scheme}://{host}/demo/"),
    );
    let version = env!("CARGO_PKG_VERSION");
    tracing::info!(%address, data = %config.data.display(), %console, %demo, version, "ready");
}

/// Logs what is open to other machines, so that the operator knows it.
pub(super) fn say_who_may_come(config: &Config) {
    if config.insecure && config.auth.is_some() {
        tracing::warn!(
            address = %config.listen,
            "insecure: without TLS credentials can be read on their way here"
        );
    } else if config.insecure {
        tracing::warn!(
            address = %config.listen,
            "insecure: whoever reaches this address, also through a proxy, may read, write and delete everything, as \
             anybody"
        );
    }
    let vain = config.policies_in_vain();
    if !vain.is_empty() {
        tracing::warn!(prefixes = ?vain, "without [auth] the rights in these policies decide nothing");
    }
    if config.takes_development_key() {
        tracing::info!(
            "the Tablestore key development with the secret development counts, for direct requests of this machine; \
             set tablestore_credentials to end that"
        );
    }
}

/// Logs the steps of the system's clock, and never ends by itself. It looks at the clock each second even if no call
/// does, so that the doubt about a jump begins when the clock jumped.
pub(super) async fn say_what_the_clock_does(clock: Arc<Clock>) {
    loop {
        for Stepped {
            step,
            wall_ms,
            clock_ms,
        } in clock.stepped()
        {
            match step {
                Step::Jumped => tracing::error!(
                    wall_ms,
                    clock_ms,
                    "the system's clock jumped forward; not followed before it keeps to that"
                ),
                Step::Undone => tracing::warn!(
                    wall_ms,
                    clock_ms,
                    "the system's clock is back from its jump"
                ),
                Step::Kept => tracing::warn!(
                    wall_ms,
                    clock_ms,
                    "the system's clock keeps to its jump; followed"
                ),
                Step::Back => tracing::warn!(
                    wall_ms,
                    clock_ms,
                    "the system's clock was set back; followed"
                ),
            }
        }
        tokio::time::sleep(CLOCK_LOOK).await;
    }
}

const CLOCK_LOOK: Duration = Duration::from_secs(1);

/// What is wrong with the settings themselves.
pub(super) fn settled(config: &Config, clock: &Clock) -> Vec<Notice> {
    let notice = |severity, what: String, advice: &str| Notice {
        severity,
        since: clock.now_ms(),
        what,
        advice: advice.to_owned(),
    };
    let listen = config.listen;
    match (
        config.insecure && config.is_exposed(),
        config.auth.is_some(),
    ) {
        (true, false) => vec![notice(
            Severity::Warning,
            format!("Whoever reaches {listen} may read, write and delete everything, as anybody."),
            "Set [auth] and [tls], or listen on 127.0.0.1. See docs/ACCESS.md.",
        )],
        (true, true) if config.tls.certificate_file.is_none() => vec![notice(
            Severity::Warning,
            format!("Credentials can be read on their way to {listen}: there is no TLS."),
            "Set [tls], or let a proxy in front of the server speak TLS.",
        )],
        _ => Vec::new(),
    }
}

/// Shows the limits that gauges are held against. `src/base/bounds.rs` shows those of what callers share.
pub(super) fn show_limits(config: &Config, metrics: &Arc<Metrics>) {
    let image = ImageOptions::default();
    let filter_memory_bytes = usize::try_from(image.filter_memory_bytes).unwrap_or(usize::MAX);
    for (name, limit) in [
        ("reads_max", READS_MAX),
        ("frozen_memtables_max", FROZEN_MAX),
        ("level0_slow_runs", image.level0_slow_runs),
        ("level0_busy_runs", image.level0_busy_runs),
        ("filter_memory_bytes", filter_memory_bytes),
        ("fresh_bytes_max", config.fresh_bytes_max),
        ("relay_backlog_bytes_max", config.relay_backlog_bytes_max),
    ] {
        metrics.families.limit.of(&[name]).count(limit as u64);
    }
}
