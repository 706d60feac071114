//! The certificate's renewal: its files are read again while the server runs.
//!
//! Owns: when they are read, and what is logged. Promises: a pair that does not fit leaves the old one in force and is
//! read again until it fits. Must not: know what a certificate is.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use tideline_base::metrics::Metrics;
use tideline_base::tls::Certificate;

/// Reads the files now, every [`PAUSE`], and when it is woken.
pub(in super::super) async fn renew(
    certificate: Arc<Certificate>,
    wake: Arc<Notify>,
    metrics: Arc<Metrics>,
) {
    let mut told = String::new();
    let gauges = &metrics.tls;
    gauges.certificate_end.count(certificate.ends_at());
    loop {
        let reading = Arc::clone(&certificate);
        let read = spawn_blocking(move || reading.reload()).await;
        gauges.certificate_end.count(certificate.ends_at());
        if let Ok(read) = &read {
            gauges.certificate_unfit.count(u64::from(read.is_err()));
        }
        match read {
            // A panic was told where it happened.
            Err(_) => {}
            Ok(Ok(false)) => told.clear(),
            Ok(Ok(true)) => {
                told.clear();
                tracing::info!(
                    ends_at = certificate.ends_at(),
                    "a new certificate is served"
                );
            }
            Ok(Err(why)) if why.0 == told => {}
            Ok(Err(why)) => {
                tracing::warn!("the old certificate is served on: {}", why.0);
                told = why.0;
            }
        }
        let _ = timeout(PAUSE, wake.notified()).await;
    }
}

/// Two files are never replaced at the same moment: by the next look the second one is there, too.
const PAUSE: Duration = Duration::from_secs(10);
