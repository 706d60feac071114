//! The newest frames, in memory, and how far readers may see.
//!
//! Owns: the published position. Promises: frames are published in order, each once. Must not: touch a medium.

use std::collections::VecDeque;
use std::sync::Arc;

use super::frame::Frame;
use tideline_base::ids::Position;

/// The newest published frames.
pub(super) struct Tail {
    published: Position,
    frames: VecDeque<Arc<Frame>>,
    bytes: usize,
    bytes_max: usize,
}

impl Tail {
    /// An empty tail of a log whose frames up to `published` are in its medium.
    pub(super) fn new(published: Position, bytes_max: usize) -> Tail {
        Tail {
            published,
            frames: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// The newest published position.
    pub(super) fn published(&self) -> Position {
        self.published
    }

    /// Shows the next frame to readers.
    pub(super) fn publish(&mut self, mut frame: Arc<Frame>) {
        assert_eq!(
            frame.position,
            self.published.next(),
            "frames are published in order"
        );
        self.published = frame.position;
        // It is on the medium, and its readers want what is in it.
        if let Some(frame) = Arc::get_mut(&mut frame) {
            frame.let_go();
        }
        self.bytes += frame.memory();
        self.frames.push_back(frame);
        // The newest one stays whatever its size: the followers that are woken for it ask at once.
        while self.bytes > self.bytes_max && self.frames.len() > 1 {
            let oldest = self.frames.pop_front().expect("there are two at least");
            self.bytes -= oldest.memory();
        }
    }

    /// Lets go of the frames; the published position stays.
    pub(super) fn forget(&mut self) {
        self.frames.clear();
        self.bytes = 0;
    }

    /// Frames above `after`, up to about `bytes_max` in memory; `None` if the first of them is not in memory any more.
    pub(super) fn read(&self, after: Position, bytes_max: usize) -> Option<Vec<Arc<Frame>>> {
        if after >= self.published {
            return Some(Vec::new());
        }
        let first = self.frames.front()?.position;
        let skip = usize::try_from(after.next().0.checked_sub(first.0)?).ok()?;
        let mut bytes = 0;
        let mut frames = Vec::new();
        for frame in self.frames.range(skip..) {
            bytes += frame.memory();
            if bytes > bytes_max && !frames.is_empty() {
                break;
            }
            frames.push(frame.clone());
        }
        Some(frames)
    }
}
