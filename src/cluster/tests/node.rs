//! A node driven by hand, step by step: what the worlds would not show by themselves.
//!
//! Owns: single moments, each with its commands. Promises: no randomness. Must not: repeat what `seeds.rs` holds for
//! all worlds.

use tideline_base::ids::{HistoryId, Position};

use super::{genesis, seal};
use crate::attach::StreamFacts;
use crate::frame::{Claim, Content, Genesis, Sealed};
use crate::halt::Halt;
use crate::lease::{ReadProof, SteadyMs};
use crate::node::{Command, Node, Options, Reading};
use crate::place::Place;
use crate::settle::Answer;
use crate::watch::Beat;

/// Node b at a log's begin, with the log beside it.
struct Bed {
    node: Node,
    log: Place,
    now: u64,
}

impl Bed {
    fn new() -> Bed {
        Bed::that(false)
    }

    fn that(claims_again: bool) -> Bed {
        Bed::with(|options| options.claims_again = claims_again)
    }

    fn with(set: impl Fn(&mut Options)) -> Bed {
        let log = Place::before_genesis(HistoryId([7; 16]), Position::ZERO, 0, 0);
        let mut options = Options {
            node: "b".to_owned(),
            boot: 2,
            genesis: genesis(),
            read_proof: ReadProof::Lease,
            read_lease_ms: 500,
            is_automatic: false,
            is_drained: false,
            grace_ms: 0,
            claims_again: false,
            claims_new: false,
            owner_silence_ms: 800,
            attest_frames: 4_096,
            attest_ms: 60_000,
            trim: crate::TrimOptions::default(),
            settings: std::collections::BTreeMap::new(),
        };
        set(&mut options);
        let node = Node::new(options, log.clone(), SteadyMs(0));
        let mut bed = Bed { node, log, now: 0 };
        bed.others(Content::Genesis(genesis()));
        bed
    }

    /// Another node's frame comes.
    fn others(&mut self, content: Content) -> Vec<Command> {
        let frame = seal(self.log.draft(content), 0);
        self.log.take(&frame, false);
        self.comes(frame)
    }

    fn comes(&mut self, frame: Sealed) -> Vec<Command> {
        let now = SteadyMs(self.now);
        self.node.received(frame.position, frame, now);
        self.node.commands()
    }

    /// Time passes; every look finds what the node has.
    fn tick(&mut self, ms: u64) -> Vec<Command> {
        self.now += ms;
        self.node.tick(SteadyMs(self.now), self.now);
        let commands = self.node.commands();
        for command in &commands {
            if let Command::Look { number, positions } = command {
                let had: Vec<_> = self.node.place().ends().collect();
                let crc = |at: &Position| had.iter().find(|one| one.0 == *at).map(|one| one.1);
                let facts = StreamFacts {
                    number: *number,
                    first: Position(1),
                    last: self.node.place().position,
                    genesis: Some(genesis()),
                    crcs: positions.iter().map(crc).collect(),
                };
                self.node.looked(&facts, SteadyMs(self.now));
            }
        }
        let more = self.node.commands();
        commands.into_iter().chain(more).collect()
    }

    /// A beat of a node comes, perhaps with other words than those of one that is well.
    fn hears(&mut self, node: &str, say: impl Fn(&mut Beat)) {
        let mut beat = Beat {
            log: self.log.log,
            began: self.log.began,
            node: node.to_owned(),
            boot: if node == "b" { 2 } else { 1 },
            term: self.log.term,
            is_owner: self
                .log
                .owner
                .as_ref()
                .is_some_and(|owner| owner.node == node),
            stored: self.log.position,
            covered: Position::ZERO,
            stalled_ms: 0,
            owner_silent_ms: None,
            can_own: true,
            settings: std::collections::BTreeMap::new(),
            wall_ms: self.now,
        };
        say(&mut beat);
        self.node.heard(&beat, SteadyMs(self.now), self.now);
    }

    fn claimed(commands: &[Command]) -> bool {
        Bed::sealed(commands).is_some_and(|frame| matches!(frame.content, Content::Claim(_)))
    }

    /// The draft of a control frame among commands.
    fn sealed(commands: &[Command]) -> Option<Sealed> {
        commands.iter().find_map(|command| match command {
            Command::Seal(draft) => Some(seal(draft.clone(), 1)),
            _ => None,
        })
    }

    /// Sends a frame, which is stored at once.
    fn stores(&mut self, frame: Sealed) -> Vec<Command> {
        let (position, now) = (frame.position, SteadyMs(self.now));
        assert!(self.node.send(frame.clone(), now));
        self.log.take(&frame, false);
        self.node.answered(position, Answer::Stored(position), now);
        self.node.commands()
    }
}

fn claim(node: &str, lease_ms: u32) -> Content {
    Content::Claim(Claim {
        node: node.to_owned(),
        boot: 1,
        lease_ms,
    })
}

#[test]
fn who_was_the_last_owner_claims_again_and_nobody_else_does() {
    for (claims_again, owner, claims) in
        [(true, "b", true), (true, "a", false), (false, "b", false)]
    {
        let mut bed = Bed::that(claims_again);
        bed.others(claim(owner, 0));
        let claimed = (0..10).any(|_| Bed::sealed(&bed.tick(10)).is_some());
        assert_eq!(claimed, claims, "{owner}");
    }
    // It has handed the log over.
    let mut bed = Bed::that(true);
    bed.others(claim("b", 0));
    bed.others(Content::Resign { to: None });
    assert!((0..10).all(|_| Bed::sealed(&bed.tick(10)).is_none()));
}

#[test]
fn a_claim_is_answered_when_the_lease_that_it_names_is_over() {
    let mut bed = Bed::new();
    bed.others(claim("a", 1_000));
    bed.tick(10);
    bed.others(Content::Batch);
    bed.node.take_over(SteadyMs(bed.now));
    bed.tick(10);
    let claim = Bed::sealed(&bed.tick(10)).expect("it has all that is there");
    assert_eq!((claim.position, claim.term), (Position(4), 2));
    assert!(bed.stores(claim).contains(&Command::Own));
    bed.tick(10);
    let draft = bed
        .node
        .draft(Content::Batch, SteadyMs(bed.now))
        .expect("it may write at once");
    bed.stores(seal(draft, 2));
    // The batch below the claim came at 10 ms: the other's lease may last until 1,110 by the slowest clock.
    assert_eq!(bed.node.read(SteadyMs(50), SteadyMs(50)), Reading::Wait);
    let before = bed.tick(1_111 - bed.now);
    assert!(
        !before
            .iter()
            .any(|one| matches!(one, Command::Acknowledge(_)))
    );
    let after = bed.tick(1);
    assert!(after.contains(&Command::Acknowledge(Position(5))));
}

#[test]
fn a_deposed_owner_names_what_was_not_written() {
    let mut bed = Bed::new();
    bed.node.take_over(SteadyMs(bed.now));
    bed.tick(10);
    let claim_of_b = Bed::sealed(&bed.tick(10)).expect("nobody owns");
    bed.stores(claim_of_b);
    bed.tick(10);
    let draft = bed
        .node
        .draft(Content::Batch, SteadyMs(bed.now))
        .expect("it owns");
    assert!(bed.node.send(seal(draft, 3), SteadyMs(bed.now)));
    let commands = bed.others(claim("a", 500));
    assert!(commands.contains(&Command::Moved(Some(Position(3)))));
    assert!(!bed.node.owns() && bed.node.draft(Content::Batch, SteadyMs(bed.now)).is_none());
}

#[test]
fn an_invitation_ends_with_the_next_claim() {
    let mut bed = Bed::new();
    bed.others(claim("a", 500));
    let to = Some("b".to_owned());
    bed.others(Content::Resign { to });
    bed.tick(10);
    assert!(Bed::sealed(&bed.tick(10)).is_some());
    bed.others(claim("c", 500));
    assert!(Bed::sealed(&bed.tick(10)).is_none());
}

#[test]
fn who_is_drained_or_ends_owns_the_log_only_if_a_person_says_so() {
    let to = Some("b".to_owned());
    let events = [
        (claim("a", 500), Content::Resign { to }),
        (claim("b", 0), Content::Batch),
    ];
    for (first, then) in events {
        for is_drained in [true, false] {
            let mut bed = Bed::that(true);
            bed.node.drain(is_drained);
            bed.others(first.clone());
            bed.others(then.clone());
            let claims = |bed: &mut Bed| (0..10).any(|_| Bed::sealed(&bed.tick(10)).is_some());
            assert_eq!(claims(&mut bed), !is_drained, "{then:?}");
            bed.node.take_over(SteadyMs(bed.now));
            assert!(!is_drained || claims(&mut bed));
        }
    }
}

#[test]
fn behind_the_last_frame_nobody_writes() {
    let owns = || {
        let mut bed = Bed::new();
        bed.node.take_over(SteadyMs(bed.now));
        bed.tick(10);
        let claim = Bed::sealed(&bed.tick(10)).expect("nobody owns");
        bed.stores(claim);
        bed.tick(10);
        bed
    };
    let mut bed = owns();
    assert!(
        bed.node.draft(Content::Batch, SteadyMs(bed.now)).is_some(),
        "the control"
    );
    bed.node.end();
    let last = Bed::sealed(&bed.tick(10)).expect("it owns");
    assert_eq!(last.content, Content::Ends);
    bed.stores(last);
    assert!(
        bed.node.place().is_ended && bed.node.draft(Content::Batch, SteadyMs(bed.now)).is_none()
    );
    // Neither its owner nor another node, whoever asks.
    let mut other = Bed::new();
    other.others(claim("a", 0));
    other.others(Content::Ends);
    for bed in [&mut bed, &mut other] {
        bed.node.take_over(SteadyMs(bed.now));
        assert!((0..10).all(|_| Bed::sealed(&bed.tick(10)).is_none()));
        assert_eq!(bed.node.stopped(), None);
    }
    // Who owns the log no more does not end it later.
    let mut bed = owns();
    bed.node.end();
    bed.others(claim("a", 0));
    bed.node.take_over(SteadyMs(bed.now));
    bed.tick(10);
    let claim = Bed::sealed(&bed.tick(10)).expect("it is asked to");
    bed.stores(claim);
    assert!(Bed::sealed(&bed.tick(10)).is_none());
}

#[test]
fn a_wish_ends_with_the_next_owner_and_with_time() {
    let claims = |bed: &mut Bed| (0..10).any(|_| Bed::sealed(&bed.tick(10)).is_some());
    let wished = || {
        let mut bed = Bed::new();
        bed.others(claim("a", 500));
        bed.tick(10);
        bed.node.take_over(SteadyMs(bed.now));
        bed
    };
    assert!(claims(&mut wished()), "the control");
    for content in [claim("c", 500), Content::Resign { to: None }] {
        let mut bed = wished();
        bed.others(content);
        assert!(!claims(&mut bed));
    }
    let mut bed = wished();
    bed.others(Content::Batch);
    assert!(claims(&mut bed), "what the owner writes is no reason");
    let mut bed = wished();
    bed.now += 60_000;
    assert!(!claims(&mut bed));
    // What was known of at the time of the wish, and is read only now, does not end it.
    let mut bed = Bed::new();
    let frame = seal(bed.log.draft(claim("a", 500)), 0);
    bed.node.received(Position(3), frame.clone(), SteadyMs(0));
    bed.node.take_over(SteadyMs(0));
    bed.log.take(&frame, false);
    bed.comes(frame);
    bed.others(claim("c", 500));
    assert!(claims(&mut bed));
}

/// Whether node b claims in a stretch in which it hears itself and node c, and the owner does as it is told.
fn claims_while(owner: impl Fn(&mut Bed, u64)) -> bool {
    let mut bed = Bed::with(|options| options.is_automatic = true);
    bed.others(claim("a", 0));
    bed.tick(10);
    (0..40).any(|round| {
        for node in ["b", "c"] {
            bed.hears(node, |_| {});
        }
        owner(&mut bed, round);
        Bed::claimed(&bed.tick(100))
    })
}

#[test]
fn the_owners_frames_are_a_word_of_it() {
    assert!(claims_while(|_, _| {}), "the control");
    assert!(!claims_while(|bed, round| {
        if round % 4 == 0 {
            bed.others(Content::Batch);
        }
    }));
    // Those that are read late are none: others know of later ones.
    assert!(claims_while(|bed, round| {
        match round {
            0 => bed.hears("c", |beat| beat.stored = Position(8)),
            20..26 => {
                bed.others(Content::Batch);
            }
            _ => {}
        }
        if round == 24 {
            assert!(bed.node.standing(SteadyMs(bed.now)).silent_ms > Some(2_000));
        }
    }));
}

#[test]
fn a_guess_that_was_wrong_goes_out_again_only_as_a_new_one_would() {
    let mut bed = Bed::with(|options| options.is_automatic = true);
    bed.others(claim("a", 0));
    let mut goes = |ms: u64, hears: &[&str]| {
        (0..ms).step_by(100).any(|_| {
            hears.iter().for_each(|node| bed.hears(node, |_| {}));
            let commands = bed.tick(100);
            if Bed::claimed(&commands) {
                let guess = Bed::sealed(&commands).expect("a claim");
                assert!(bed.node.send(guess, SteadyMs(bed.now)));
                bed.node.commands();
                return true;
            }
            commands.iter().any(|one| matches!(one, Command::Send(_)))
        })
    };
    assert!(goes(1_200, &["b", "c"]), "its answer is lost");
    assert!(goes(600, &["b", "c"]), "nobody has heard the owner");
    assert!(!goes(5_000, &["a", "b", "c"]));
    assert!(!goes(600, &["b", "c"]), "a beat was late");
    assert!(!goes(1_000, &["a", "b", "c"]));
    assert!(goes(1_000, &["b", "c"]));
}

#[test]
fn frames_that_come_late_do_not_show_that_the_stream_takes_more() {
    let mut bed = Bed::with(|options| options.is_automatic = true);
    bed.others(claim("a", 0));
    bed.tick(10);
    let frame = seal(bed.log.draft(Content::Batch), 0);
    bed.log.take(&frame, false);
    for _ in 0..40 {
        for node in ["b", "c"] {
            bed.hears(node, |_| {});
        }
        bed.hears("a", |beat| beat.stalled_ms = 2_000);
        bed.comes(frame.clone());
        // No look is answered.
        bed.now += 100;
        bed.node.tick(SteadyMs(bed.now), bed.now);
        assert!(!Bed::claimed(&bed.node.commands()));
    }
}

#[test]
fn an_owner_whose_process_ends_again_and_again_is_followed() {
    let again = |times: u64| {
        move |bed: &mut Bed, round: u64| {
            if round % 4 == 0 && round / 4 < times {
                bed.others(claim("a", 0));
            }
            bed.hears("a", |_| {});
        }
    };
    assert!(!claims_while(again(2)) && claims_while(again(3)));
    // Claims of two nodes in turn are no restarts, and neither are those that come late.
    assert!(!claims_while(|bed, round| {
        if round < 12 {
            let node = if round % 2 == 0 { "a" } else { "c" };
            bed.others(claim(node, 0));
        }
        bed.hears("a", |_| {});
    }));
    assert!(!claims_while(|bed, round| {
        if round == 0 {
            bed.hears("c", |beat| beat.stored = Position(7));
            (0..5).for_each(|_| drop(bed.others(claim("a", 0))));
        }
        bed.hears("a", |_| {});
    }));
}

#[test]
fn the_first_node_claims_a_new_log_whenever_it_can() {
    let begins = |is_first| {
        let mut bed = Bed::with(|options| options.claims_new = is_first);
        // For minutes the stream does not answer.
        for _ in 0..4 {
            bed.now += 30_000;
            bed.node.tick(SteadyMs(bed.now), bed.now);
            assert!(!Bed::claimed(&bed.node.commands()));
        }
        bed
    };
    let claims = |bed: &mut Bed| (0..10).any(|_| Bed::claimed(&bed.tick(10_000)));
    assert!(claims(&mut begins(true)));
    assert!(!claims(&mut begins(false)), "the control");
    // Not one that was ever owned, nor while a person has drained it.
    let mut bed = begins(true);
    bed.others(claim("a", 0));
    bed.others(Content::Resign { to: None });
    assert!(!claims(&mut bed));
    let mut bed = begins(true);
    bed.node.drain(true);
    assert!(!claims(&mut bed));
    bed.node.drain(false);
    assert!(claims(&mut bed));
}

#[test]
fn an_owner_in_doubt_says_so() {
    let mut bed = Bed::new();
    bed.node.take_over(SteadyMs(bed.now));
    bed.tick(10);
    let claim = Bed::sealed(&bed.tick(10)).expect("nobody owns");
    bed.stores(claim);
    let stalled = |commands: Vec<Command>| {
        commands.into_iter().find_map(|command| match command {
            Command::Say(beat) => Some(beat.stalled_ms),
            _ => None,
        })
    };
    bed.tick(10);
    assert_eq!(stalled(bed.tick(200)), Some(0));
    // No look is answered.
    bed.node.connected(SteadyMs(bed.now));
    bed.now += 1_500;
    bed.node.tick(SteadyMs(bed.now), bed.now);
    assert_eq!(stalled(bed.node.commands()), Some(1_500));
    // One that follows has no writes to wait for.
    let mut bed = Bed::new();
    bed.node.connected(SteadyMs(bed.now));
    bed.now += 1_500;
    bed.node.tick(SteadyMs(bed.now), bed.now);
    assert_eq!(stalled(bed.node.commands()), Some(0));
}

#[test]
fn what_is_no_node_counts_for_nothing() {
    let mut bed = Bed::with(|options| {
        options.trim.nodes = ["a", "b", "c"].map(str::to_owned).to_vec();
    });
    bed.others(claim("a", 0));
    let known = bed.node.known();
    bed.hears("z", |beat| beat.stored = Position(9));
    assert_eq!(bed.node.known(), known);
    bed.hears("c", |beat| beat.stored = Position(9));
    assert_eq!(bed.node.known(), Position(9));
    // The log knows better than a setting.
    bed.others(claim("z", 0));
    bed.hears("z", |beat| beat.stored = Position(10));
    assert_eq!(bed.node.known(), Position(10));
}

#[test]
fn between_tries_of_a_full_stream_there_is_a_pause_that_grows() {
    let mut bed = Bed::new();
    bed.node.take_over(SteadyMs(bed.now));
    bed.tick(10);
    let claim = Bed::sealed(&bed.tick(10)).expect("nobody owns");
    bed.stores(claim);
    bed.tick(10);
    let mut pauses = Vec::new();
    for _ in 0..7 {
        let tried = bed.now;
        let draft = (0..3_000).find_map(|_| {
            let draft = bed.node.draft(Content::Batch, SteadyMs(bed.now));
            bed.now += u64::from(draft.is_none());
            draft
        });
        pauses.push(bed.now - tried);
        let frame = seal(draft.expect("in the end"), 5);
        let position = frame.position;
        assert!(bed.node.send(frame, SteadyMs(bed.now)));
        bed.node.answered(position, Answer::Full, SteadyMs(bed.now));
        assert!(bed.node.commands().contains(&Command::Full(position)));
    }
    assert_eq!(pauses, [0, 100, 200, 400, 800, 1_600, 2_000]);
}

#[test]
fn beats_of_before_a_rebuild_do_not_count() {
    let mut bed = Bed::new();
    bed.node.take_over(SteadyMs(bed.now));
    let says = |began: u64| {
        move |beat: &mut Beat| {
            (beat.began, beat.term, beat.stored) = (Position(began), 7, Position(900));
            beat.can_own = false;
        }
    };
    bed.hears("a", says(9));
    bed.tick(10);
    assert!(Bed::sealed(&bed.tick(10)).is_some());
    // A node of this log has more, and this comes before a claim.
    bed.hears("a", says(1));
    assert!(Bed::sealed(&bed.tick(10)).is_none());
}

#[test]
fn a_node_says_why_it_stops() {
    let mut bed = Bed::new();
    bed.others(claim("a", 500));
    let digest = bed.node.place().digest;
    bed.others(Content::Attest { digest });
    assert_eq!(bed.node.stopped(), None);
    let digest = digest ^ 1;
    let stopped = bed.others(Content::Attest { digest });
    let position = Position(4);
    assert_eq!(stopped, [Command::Stop(Halt::Digest { position })]);

    let log = Place::before_genesis(HistoryId([7; 16]), Position::ZERO, 0, 0);
    let theirs = Genesis {
        cluster: "theirs".to_owned(),
        ..genesis()
    };
    let mut bed = Bed::new();
    bed.comes(seal(log.draft(Content::Genesis(theirs)), 0));
    let what = "another cluster";
    assert_eq!(bed.node.stopped(), Some(&Halt::Foreign { what }));

    // Three copies of a frame that are all wrong.
    let mut bed = Bed::new();
    bed.others(claim("a", 500));
    let mut wrong = seal(bed.log.draft(Content::Batch), 4);
    wrong.previous_crc ^= 1;
    for _ in 0..3 {
        assert_eq!(bed.node.stopped(), None);
        bed.comes(wrong.clone());
    }
    assert!(matches!(bed.node.stopped(), Some(Halt::Damaged { .. })));
}
