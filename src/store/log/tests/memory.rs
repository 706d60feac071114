//! A medium in memory that takes several frames before the first is settled, and fails where the test says: what a
//! replicated log will be to the layers above.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex};

use super::super::medium::{Archive, Durability, Medium};
use super::*;

/// The medium. Clones are the same.
#[derive(Clone)]
pub(crate) struct MemoryMedium {
    shared: Arc<MemoryShared>,
    in_flight_max: usize,
}

#[derive(Default)]
struct MemoryShared {
    state: Mutex<MemoryState>,
    changed: Condvar,
}

#[derive(Default)]
struct MemoryState {
    frames: Vec<Frame>,
    settled: usize,
    /// Frames up to here may become durable.
    let_through: u64,
    lost: BTreeSet<u64>,
}

impl MemoryMedium {
    /// Holds frames back until [`MemoryMedium::let_through`].
    pub(crate) fn new(in_flight_max: usize) -> MemoryMedium {
        MemoryMedium {
            shared: Arc::default(),
            in_flight_max,
        }
    }

    /// An empty log on it.
    pub(crate) fn log(&self) -> Log {
        let last = Last {
            position: Position::ZERO,
            crc: 0,
            commit_ms: 0,
            in_ms: 0,
            term: 1,
        };
        let (medium, id) = (Box::new(self.clone()), HistoryId([3; 16]));
        Log::on(medium, id, last, &Options::default())
    }

    /// Lets frames up to `position` become durable.
    pub(crate) fn let_through(&self, position: u64) {
        lock(&self.shared.state).let_through = position;
        self.shared.changed.notify_all();
    }

    /// What becomes of this frame will not be known.
    pub(crate) fn lose(&self, position: u64) {
        lock(&self.shared.state).lost.insert(position);
    }

    /// How many frames were handed over.
    pub(crate) fn begun(&self) -> usize {
        lock(&self.shared.state).frames.len()
    }
}

impl Durability for MemoryMedium {
    fn wait(&self, position: Position) {
        let state = lock(&self.shared.state);
        let is_held = |state: &mut MemoryState| state.let_through < position.0;
        drop(self.shared.changed.wait_while(state, is_held));
    }
}

impl Medium for MemoryMedium {
    fn in_flight_max(&self) -> usize {
        self.in_flight_max
    }

    fn begin(&mut self, frame: &Frame) -> Result<(), AppendError> {
        let mut state = lock(&self.shared.state);
        assert_eq!(frame.position.0 as usize, state.frames.len() + 1);
        assert!(state.frames.len() - state.settled < self.in_flight_max);
        state.frames.push(frame.clone());
        Ok(())
    }

    fn settle(&mut self, frame: &Frame) -> Result<(), AppendError> {
        self.wait(frame.position);
        let mut state = lock(&self.shared.state);
        assert_eq!(frame.position.0 as usize, state.settled + 1);
        if state.lost.contains(&frame.position.0) {
            return Err(AppendError::Unknown(std::io::Error::other("lost")));
        }
        state.settled += 1;
        Ok(())
    }

    fn durability(&self) -> Arc<dyn Durability> {
        Arc::new(self.clone())
    }

    fn archive(&self) -> Arc<dyn Archive> {
        Arc::new(self.clone())
    }

    fn close(self: Box<Self>, last: Position) -> Result<(), Error> {
        assert_eq!(last.0 as usize, lock(&self.shared.state).settled);
        Ok(())
    }
}

impl Archive for MemoryMedium {
    fn frames(&self, after: Position, upto: Position, _: bool) -> Result<Frames, LogReadError> {
        let state = lock(&self.shared.state);
        let frames = state.frames[after.0 as usize..upto.0 as usize].to_vec();
        Ok(Box::new(frames.into_iter().map(Ok)))
    }

    fn since(&self, commit_us: u64, upto: Position) -> Result<Position, LogReadError> {
        let frames = self.frames(Position::ZERO, upto, true)?;
        let mut later = frames.filter_map(|frame| {
            let frame = frame.ok()?;
            (frame.commit_us() >= commit_us).then_some(frame.position)
        });
        Ok(later.next().unwrap_or_else(|| upto.next()))
    }

    fn pieces(&self) -> Vec<(Position, u64)> {
        vec![(Position(1), 0)]
    }

    fn figures(&self) -> LogFigures {
        LogFigures {
            first: Position(1),
            first_ms: None,
            segments: 0,
            bytes: 0,
        }
    }

    fn retain(&self, _: Position, _: u64) -> Result<usize, Error> {
        Ok(0)
    }

    fn prepare(&self) -> Result<bool, Error> {
        Ok(false)
    }

    fn keep_room(&self) -> Result<(), Error> {
        Ok(())
    }

    fn has_room(&self) -> bool {
        true
    }

    fn use_room(&self) -> bool {
        false
    }

    fn note(&self, _: Position) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn several_frames_are_in_flight_and_settle_in_order() {
    let medium = MemoryMedium::new(3);
    let mut log = medium.log();
    let mut sealed = Vec::new();
    for number in 1..=3 {
        let frame = log
            .seal(number, &mut draft(b"key", b"value", None))
            .unwrap();
        log.begin(&frame).unwrap();
        sealed.push(frame);
    }
    assert!(matches!(
        log.seal(4, &mut Draft::default())
            .and_then(|frame| log.begin(&frame)),
        Err(AppendError::Unsettled)
    ));
    assert_eq!((log.settled(), medium.begun()), (Position(0), 3));
    medium.let_through(2);
    for frame in &sealed[..2] {
        assert_eq!(log.settle().unwrap(), *frame);
        log.publish(Arc::clone(frame));
    }
    assert_eq!(
        log.reader().read(Position(0), usize::MAX).unwrap(),
        sealed[..2]
    );
    assert_eq!(log.replay(Position(1)).unwrap().count(), 1);
    medium.lose(3);
    medium.let_through(9);
    assert!(matches!(log.settle(), Err(AppendError::Unknown(_))));
    assert_eq!(log.settled(), Position(2));
    let next = log.seal(5, &mut Draft::default()).unwrap();
    assert!(matches!(log.begin(&next), Err(AppendError::Stopped)));
}
