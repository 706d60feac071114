//! Windows: for how long the watchers of one timeline let parts of open messages gather before they are woken.
//!
//! Owns: of each length that some watcher has asked for, when those with it were woken last and when they are to be
//! woken next. Promises: parts after a pause of a whole window wake at once; those that come within one wake once, at
//! its end; watchers with windows of the same length are woken together, so that they share what is encoded. Must not:
//! hold parts, or know a clock: time comes in ticks.

/// The windows of a timeline's watchers.
#[derive(Debug, Default)]
pub(super) struct Windows(Vec<Window>);

/// All windows of one length.
#[derive(Debug)]
struct Window {
    /// Ticks; 0 = nothing gathers.
    length: u8,
    watchers: usize,
    /// When its watchers may be woken at once.
    is_over: u64,
    /// When they are to be woken; `None` = nothing has gathered.
    due: Option<u64>,
}

/// Lengths of windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lengths([u64; 4]);

impl Windows {
    /// A watcher comes with a window of this length.
    pub(super) fn join(&mut self, length: u8) {
        match self.0.iter_mut().find(|window| window.length == length) {
            Some(window) => window.watchers += 1,
            None => self.0.push(Window {
                length,
                watchers: 1,
                is_over: 0,
                due: None,
            }),
        }
    }

    /// Such a watcher leaves.
    pub(super) fn leave(&mut self, length: u8) {
        if let Some(at) = self.0.iter().position(|window| window.length == length) {
            self.0[at].watchers -= 1;
            if self.0[at].watchers == 0 {
                self.0.swap_remove(at);
            }
        }
    }

    /// There is no watcher.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Parts have come: whom they wake now. `due` gets each tick at which [`Windows::over`] has to be asked.
    pub(super) fn came(&mut self, tick: u64, mut due: impl FnMut(u64)) -> Lengths {
        let mut now = Lengths::default();
        for window in &mut self.0 {
            if tick >= window.is_over {
                window.wake(tick, &mut now);
            } else if window.due.is_none() {
                window.due = Some(window.is_over);
                due(window.is_over);
            }
        }
        now
    }

    /// Whom what has gathered wakes now.
    pub(super) fn over(&mut self, tick: u64) -> Lengths {
        let mut now = Lengths::default();
        for window in &mut self.0 {
            if window.due.is_some_and(|due| due <= tick) {
                window.wake(tick, &mut now);
            }
        }
        now
    }
}

impl Window {
    fn wake(&mut self, tick: u64, now: &mut Lengths) {
        self.is_over = tick + u64::from(self.length);
        self.due = None;
        now.0[usize::from(self.length / 64)] |= 1 << (self.length % 64);
    }
}

impl Lengths {
    /// None.
    pub(super) fn is_empty(self) -> bool {
        self == Lengths::default()
    }

    /// Whether this one is among them.
    pub(super) fn has(self, length: u8) -> bool {
        self.0[usize::from(length / 64)] & 1 << (length % 64) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_wake_at_once_after_a_pause_and_together_within_a_window() {
        let mut windows = Windows::default();
        windows.join(0);
        windows.join(10);
        windows.join(10);
        windows.join(200);
        let mut due = Vec::new();
        let woken = |lengths: Lengths| [0, 10, 200].map(|length| lengths.has(length));
        let mut came = |windows: &mut Windows, tick| woken(windows.came(tick, |at| due.push(at)));
        assert_eq!(came(&mut windows, 7), [true, true, true], "the first parts");
        assert_eq!(came(&mut windows, 7), [true, false, false]);
        assert_eq!(came(&mut windows, 16), [true, false, false]);
        // It was to be asked at 17, and is asked late.
        assert_eq!(woken(windows.over(16)), [false, false, false]);
        assert_eq!(woken(windows.over(19)), [false, true, false]);
        assert!(windows.over(19).is_empty(), "nothing has gathered since");
        assert_eq!(came(&mut windows, 28), [true, false, false]);
        assert_eq!(woken(windows.over(29)), [false, true, false]);
        assert_eq!(
            came(&mut windows, 39),
            [true, true, false],
            "a whole window later"
        );
        assert_eq!(woken(windows.over(207)), [false, false, true]);
        assert_eq!(due, [17, 207, 29]);
        windows.leave(10);
        windows.leave(0);
        windows.leave(200);
        assert!(!windows.is_empty());
        windows.leave(10);
        assert!(windows.is_empty());
    }

    #[test]
    fn a_window_that_is_asked_for_again_begins_anew() {
        let mut windows = Windows::default();
        windows.join(3);
        let none = |_| panic!("nothing gathers");
        assert!(windows.came(5, none).has(3));
        windows.leave(3);
        windows.join(3);
        assert!(windows.over(8).is_empty());
        assert!(windows.came(6, none).has(3));
    }
}
