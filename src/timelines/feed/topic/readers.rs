//! Which users the last changes of a timeline's members concern.
//!
//! Owns: a short memory of them. Promises: a user whose right to read or whose own floor may have changed is sent to
//! the store before anything newer goes to them; others are not, however many members come and go. Must not: decide
//! which users may read; the store does.

use std::collections::VecDeque;

/// A user, and their own floor after a change; `None` = they are no member any more.
pub(in super::super) type Moved = (Box<str>, Option<u64>);

/// How many changes of a timeline's readers the log has brought, and which users the last ones concern.
#[derive(Debug, Default)]
pub(in super::super) struct Readers {
    /// The number of the last change.
    turn: u32,
    /// The changes up to this one are not remembered.
    forgotten: u32,
    /// Each with the number of its change.
    moves: VecDeque<(u32, Moved)>,
}

impl Readers {
    /// The number of the last change. A look at the store that begins later sees all changes up to it.
    pub(in super::super) fn turn(&self) -> u32 {
        self.turn
    }

    /// What some users may see has changed.
    pub(in super::super) fn moved(&mut self, moves: Vec<Moved>) {
        if moves.len() > MOVES_MAX {
            self.all_moved();
            return;
        }
        self.turn += 1;
        for moved in moves {
            if self.moves.len() == MOVES_MAX
                && let Some((turn, _)) = self.moves.pop_front()
            {
                self.forgotten = turn;
            }
            self.moves.push_back((self.turn, moved));
        }
    }

    /// Anybody may be concerned.
    pub(in super::super) fn all_moved(&mut self) {
        self.turn += 1;
        self.forgotten = self.turn;
        self.moves.clear();
    }

    /// Whether a user is known to have left since this turn.
    pub(in super::super) fn has_left(&self, user: &str, turn: u32) -> bool {
        let mut newer = self.moves.iter().rev().take_while(|(at, _)| *at > turn);
        newer
            .find(|(_, (who, _))| **who == *user)
            .is_some_and(|(_, (_, own))| own.is_none())
    }

    /// Whether a user with this own floor must be looked at again before they get anything newer. If not, they have
    /// caught up with the changes.
    pub(in super::super) fn concern(&self, user: &str, floor: u64, turn: &mut u32) -> bool {
        if *turn >= self.turn {
            return false;
        }
        let is_concerned = !user.is_empty()
            && (*turn < self.forgotten || {
                let newer = self.moves.iter().rev();
                let mut newer = newer.take_while(|(at, _)| *at > *turn);
                newer.any(|(_, (who, own))| **who == *user && *own != Some(floor))
            });
        if !is_concerned {
            *turn = self.turn;
        }
        is_concerned
    }
}

/// Changes that a topic remembers.
const MOVES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn moves(users: &[(&str, Option<u64>)]) -> Vec<Moved> {
        let users = users.iter();
        users.map(|(user, own)| (Box::from(*user), *own)).collect()
    }

    #[test]
    fn only_those_are_looked_at_again_whom_a_change_concerns() {
        let mut readers = Readers::default();
        readers.moved(moves(&[("ann", Some(0)), ("ben", None)]));
        assert!(readers.concern("ben", 0, &mut 0));
        assert!(!readers.concern("ben", 0, &mut 1), "seen in the store");
        assert!(readers.concern("ann", 7, &mut 0), "another floor");
        assert!(readers.has_left("ben", 0) && !readers.has_left("ben", 1));
        assert!(!readers.has_left("ann", 0));
        let mut turn = 0;
        assert!(!readers.concern("ann", 0, &mut turn));
        assert_eq!(turn, readers.turn());
        readers.all_moved();
        assert!(readers.concern("ann", 0, &mut turn) && turn == 1);
        assert!(!readers.concern("", 0, &mut turn), "a back end sees all");
    }

    #[test]
    fn what_is_forgotten_concerns_everybody_who_was_not_looked_at_since() {
        let mut readers = Readers::default();
        for _ in 0..MOVES_MAX + 2 {
            readers.moved(moves(&[("x", Some(0))]));
        }
        assert!(readers.concern("ann", 0, &mut 1));
        assert!(!readers.concern("ann", 0, &mut 2));
        let (mut turn, many) = (readers.turn(), [("x", Some(0)); MOVES_MAX + 1]);
        readers.moved(moves(&many));
        assert!(readers.concern("ann", 0, &mut turn));
    }
}
