//! From which node's mirror a lost stream is made again.
//!
//! Owns: the choice, and whether the history stays the same. Promises: what is chosen has every frame that any of the
//! mirrors can show to have been acknowledged, or the plan says that a new history begins. Must not: read a mirror.

use tideline_base::ids::Position;

/// The end of one node's mirror, its local copy of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorEnd {
    /// The node that has it.
    pub node: String,
    /// Its last frame.
    pub end: Position,
    /// The term there.
    pub term: u64,
    /// The digest there, of all frames since the genesis.
    pub digest: u128,
    /// The node owned this term, and its mirror has every frame that it acknowledged: it stopped in good order, or
    /// halted. A killed owner's mirror may end a second early.
    pub is_owners: bool,
    /// The highest position that the node knows to have been stored, by frames and by other nodes' beats.
    pub stored: Position,
}

/// How a stream is made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The node whose mirror is taken.
    pub node: String,
    /// The new stream's first sequence.
    pub first: Position,
    /// Epochs stay: nothing that was acknowledged can be missing.
    pub keeps_history: bool,
}

/// Chooses the mirror of the latest owner, which must also be the one that reaches furthest.
pub fn plan(mirrors: &[MirrorEnd]) -> Result<Plan, String> {
    let best = mirrors
        .iter()
        .max_by_key(|mirror| (mirror.term, mirror.end));
    let Some(best) = best else {
        return Err("no mirror was given: name the directory of at least one node".to_owned());
    };
    let differs = |mirror: &&MirrorEnd| mirror.end == best.end && mirror.digest != best.digest;
    if let Some(other) = mirrors.iter().find(differs) {
        let (one, other, end) = (&best.node, &other.node, best.end);
        return Err(format!(
            "the mirrors of {one} and {other} both end at {end} and differ: give only the one that is right"
        ));
    }
    let further = mirrors.iter().find(|mirror| mirror.end > best.end);
    if let Some(further) = further {
        let (one, other) = (&best.node, &further.node);
        return Err(format!(
            "the mirror of {one} has a later owner than that of {other}, which reaches further: they are of two \
             histories; give only the one that is right"
        ));
    }
    let is_last_owners = |mirror: &MirrorEnd| mirror.is_owners && mirror.term == best.term;
    let stored = mirrors.iter().map(|mirror| mirror.stored).max();
    let keeps_history =
        mirrors.iter().any(is_last_owners) && stored.is_none_or(|stored| stored <= best.end);
    Ok(Plan {
        node: best.node.clone(),
        first: best.end.next(),
        keeps_history,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirror(node: &str, end: u64, term: u64, is_owners: bool) -> MirrorEnd {
        MirrorEnd {
            node: node.to_owned(),
            end: Position(end),
            term,
            digest: u128::from(end),
            is_owners,
            stored: Position(end),
        }
    }

    #[test]
    fn the_furthest_mirror_is_taken_and_the_history_stays_if_an_owner_is_among_them() {
        let mut both = [mirror("a", 9, 2, true), mirror("b", 7, 2, false)];
        let kept = plan(&both).expect("a plan");
        assert_eq!((kept.node.as_str(), kept.first), ("a", Position(10)));
        assert!(kept.keeps_history);
        both[1].stored = Position(11);
        assert!(!plan(&both).expect("a plan").keeps_history);
        let standby = plan(&both[1..]).expect("a plan");
        assert!(!standby.keeps_history);
        assert_eq!(standby.first, Position(8));
    }

    #[test]
    fn two_histories_are_a_persons_choice() {
        assert!(plan(&[]).is_err());
        let mut alike = [mirror("a", 9, 2, true), mirror("b", 9, 2, false)];
        assert!(plan(&alike).is_ok());
        alike[1].digest = 1;
        assert!(plan(&alike).is_err_and(|said| said.contains("both end at 9")));
        let forked = [mirror("a", 9, 2, true), mirror("b", 8, 3, true)];
        assert!(plan(&forked).is_err_and(|said| said.contains("two histories")));
    }
}
