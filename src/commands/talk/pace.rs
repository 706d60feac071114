//! How long to wait before something is tried again.
//!
//! Owns: the random waits. Promises: between half a second and the 20 s of the protocol, longer with each try; many
//! clients of one server do not come back together. Must not: sleep.

use std::time::Duration;

use super::screen::note;

/// The tries since something last went well.
#[derive(Debug, Default)]
pub(super) struct Pace {
    tries: u32,
    /// What was said last: a long absence is reported once.
    said: String,
}

const FIRST_MS: u64 = 500;
const LONGEST_MS: u64 = 20_000;

impl Pace {
    /// How long to wait now.
    pub(super) fn next(&mut self) -> Duration {
        let spread = (FIRST_MS << self.tries.min(6)).min(LONGEST_MS - FIRST_MS);
        self.tries += 1;
        let random = uuid::Uuid::new_v4().as_u64_pair().0;
        Duration::from_millis(FIRST_MS + random % (spread + 1))
    }

    /// Prints why there is a wait, if that was not printed before.
    pub(super) fn say(&mut self, why: &str, wait: Duration) {
        if why != self.said {
            why.clone_into(&mut self.said);
            note(&format!(
                "{why}; trying again in {:.1} s",
                wait.as_secs_f64()
            ));
        }
    }

    /// The server has answered; prints so if a wait was printed before.
    pub(super) fn reset(&mut self) {
        if !std::mem::take(self).said.is_empty() {
            note("the server has answered again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_within_their_bounds() {
        let mut pace = Pace::default();
        for tries in 0..50_u32 {
            let most = (1_000 << tries.min(5)).min(LONGEST_MS);
            let wait = u64::try_from(pace.next().as_millis()).unwrap();
            assert!(
                (FIRST_MS..=most.max(FIRST_MS)).contains(&wait),
                "{tries}: {wait}"
            );
        }
        pace.reset();
        assert!(pace.next() <= Duration::from_secs(1));
    }
}
