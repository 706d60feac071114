//! What operators and browsers get over plain HTTP: health, readiness, metrics, a page that says what this is.
//!
//! Owns: the bodies of these answers. Promises: none but the metrics touches the store or waits. Must not: know
//! routes, sockets or anything a client has stored; `gateway/http.rs` serves them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::metrics::Metrics;

/// What the pages tell of. One per server.
pub struct Admin {
    ready: AtomicBool,
    metrics: Arc<Metrics>,
    /// Brings gauges up to date before they are shown.
    observe: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Admin {
    /// Not ready yet.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Admin {
        Admin {
            ready: AtomicBool::new(false),
            metrics,
            observe: OnceLock::new(),
        }
    }

    /// Whether writes can be taken: true after the start, false again once a shutdown has begun.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::SeqCst);
    }

    /// What `/readyz` tells: whether a write would be taken and committed, or in a line why not.
    pub fn readiness(&self, can_commit: bool) -> Result<(), &'static str> {
        if !self.ready.load(Ordering::SeqCst) {
            Err("not ready: starting, or shutting down")
        } else if !can_commit {
            Err("not ready: a disk failure has stopped the writes, see the log; restart")
        } else {
            Ok(())
        }
    }

    /// What is to be asked for gauges before each scrape; the first one given stays.
    pub fn observe(&self, observe: impl Fn() + Send + Sync + 'static) {
        let _ = self.observe.set(Box::new(observe));
    }

    /// Prometheus' text. May wait for the disk.
    #[must_use]
    pub fn metrics(&self) -> String {
        if let Some(observe) = self.observe.get() {
            observe();
        }
        self.metrics.render()
    }

    /// The page at `/`.
    #[must_use]
    pub fn page() -> String {
        PAGE.replace("{version}", env!("CARGO_PKG_VERSION"))
    }
}

const PAGE: &str = include_str!("page.html");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_ready_says_why() {
        let admin = Admin::new(Arc::default());
        assert!(
            admin
                .readiness(true)
                .is_err_and(|why| why.contains("starting"))
        );
        admin.set_ready(true);
        assert_eq!(admin.readiness(true), Ok(()));
        assert!(
            admin
                .readiness(false)
                .is_err_and(|why| why.contains("disk failure"))
        );
        admin.set_ready(false);
        assert!(
            admin
                .readiness(false)
                .is_err_and(|why| why.contains("shutting down"))
        );
    }

    #[test]
    fn the_page_names_the_version_and_needs_nothing_from_elsewhere() {
        let page = Admin::page();
        assert!(page.contains(env!("CARGO_PKG_VERSION")) && !page.contains("{version}"));
        assert!(
            !page.contains("<script") && !page.contains("http://") && !page.contains("https://")
        );
    }
}
