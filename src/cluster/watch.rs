//! Which nodes are heard, and when a standby claims by itself.
//!
//! Owns: the beats of all nodes, ranks, the guess that an owner is gone. Promises: a wrong guess costs a pause and
//! nothing else, because the log decides a claim; standbys do not claim all at once; who does not hear itself, or only
//! begins to, guesses nothing. Must not: decide whether a write counts.
//!
//! Beats go through the servers, also a node's own: while that comes back, the silence of others means something. If
//! all others are silent, the stream must answer, too: node and server may be cut off together.

use std::collections::{BTreeMap, VecDeque};

use tideline_base::ids::{HistoryId, Position};

use crate::lease::SteadyMs;
use crate::place::Place;
use crate::plant::{Plant, is_planted};

/// What a node says of itself every 200 ms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The log that it speaks of.
    pub log: HistoryId,
    /// Where that log's genesis is: a rebuilt stream has another one.
    pub began: Position,
    /// Its name.
    pub node: String,
    /// The random number of its process.
    pub boot: u64,
    /// The highest term that it has seen.
    pub term: u64,
    /// It owns this term.
    pub is_owner: bool,
    /// A frame that it knows to be in the stream.
    pub stored: Position,
    /// Up to where its image has everything.
    pub covered: Position,
    /// For how long the stream has not answered it, in ms; 0 if nothing waits.
    pub stalled_ms: u64,
    /// How long ago it heard the owner of its term itself, in ms.
    pub owner_silent_ms: Option<u64>,
    /// It could own the log at once.
    pub can_own: bool,
    /// Digests of its settings that all nodes must have alike, by their names.
    pub settings: BTreeMap<String, String>,
    /// Its time of day, ms since 1970.
    pub wall_ms: u64,
}

/// Between two beats of a node.
pub(crate) const BEAT_MS: u64 = 200;
/// Standbys claim so far apart, by rank.
const RANK_MS: u64 = 300;
/// An owner whose process refuses connections is followed after half of the silence that others may keep, and after
/// this one at least.
const REFUSED_MS: u64 = 400;
/// A standby may follow an owner that the stream has not answered for so long …
const STALLED_MS: u64 = 1_000;
/// … while it answers the standby for as long, with no longer pause than the next one. A look comes each 500 ms then.
const PASSES_MS: u64 = 1_000;
const PASSES_GAP_MS: u64 = 700;
/// An owner whose process has claimed so often …
const RESTARTS_MAX: usize = 3;
/// … within this time goes on to end: a standby follows it.
const RESTARTS_MS: u64 = 10_000;
/// A node that has not heard itself for so long is cut off.
const DEAF_MS: u64 = 500;
/// A node that hears nobody else claims only if the stream has answered it for so long.
const ALONE_MS: u64 = 400;
/// A node claims nothing if its time of day is further than this from the others' median.
const OFF_MS: u64 = 2_000;
/// That median is of nodes that were heard within this time.
const KNOWN_MS: u64 = 10_000;
/// A standby that was heard within this time has its turn before those of higher rank.
const PRESENT_MS: u64 = 1_000;

/// What is known of one node.
#[derive(Clone, Debug)]
struct Member {
    heard: SteadyMs,
    can_own: bool,
    settings: BTreeMap<String, String>,
    /// By how much its time of day is ahead of this node's.
    off_ms: i64,
}

/// Something that comes again and again: since when, and when it came last.
#[derive(Clone, Copy, Debug, Default)]
struct Run(Option<(SteadyMs, SteadyMs)>);

impl Run {
    /// It came. After a longer pause than `gap_ms` it begins anew.
    fn came(&mut self, now: SteadyMs, gap_ms: u64) {
        let since = self.since(now, gap_ms).unwrap_or(now);
        self.0 = Some((since, now));
    }

    /// Since when it comes; `None` if the last time is too long ago.
    fn since(&self, now: SteadyMs, gap_ms: u64) -> Option<SteadyMs> {
        let (since, _) = self.0.filter(|(_, last)| now.since(*last) < gap_ms)?;
        Some(since)
    }

    /// From the first time to the last, in ms; 0 if that is too long ago.
    fn lasts_ms(&self, now: SteadyMs, gap_ms: u64) -> u64 {
        let fresh = self.0.filter(|(_, last)| now.since(*last) < gap_ms);
        fresh.map_or(0, |(since, last)| last.since(since))
    }
}

/// What a node has heard of others.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    me: String,
    boot: u64,
    silence_ms: u64,
    members: BTreeMap<String, Member>,
    /// When this node heard the owner last, or the owner changed.
    owner_heard: SteadyMs,
    /// The same by what other nodes say.
    owner_told: SteadyMs,
    /// This process has heard an owner, and not only begun to listen.
    has_heard: bool,
    /// The owner's process refuses connections.
    is_refused: bool,
    /// The owner says that the stream does not answer it.
    is_stalled: bool,
    /// Whose claims came last without another's between them, and when, the newest last: at most [`RESTARTS_MAX`].
    claims: (String, VecDeque<SteadyMs>),
    /// The stream answers this node; since the owner is stalled, if it is.
    passes: Run,
    /// This node hears itself.
    echoes: Run,
    /// It hears any other node.
    company: Run,
    /// The highest position that other nodes said to be in the stream.
    stored: Position,
}

impl Watch {
    pub(crate) fn new(me: String, boot: u64, silence_ms: u32, now: SteadyMs) -> Watch {
        Watch {
            me,
            boot,
            silence_ms: silence_ms.into(),
            members: BTreeMap::new(),
            owner_heard: now,
            owner_told: now,
            has_heard: false,
            is_refused: false,
            is_stalled: false,
            claims: (String::new(), VecDeque::new()),
            passes: Run::default(),
            echoes: Run::default(),
            company: Run::default(),
            stored: Position::ZERO,
        }
    }

    pub(crate) fn stored(&self) -> Position {
        self.stored
    }

    /// Whether it is this process that said so. Another one by this node's name is another node.
    pub(crate) fn is_me(&self, beat: &Beat) -> bool {
        beat.node == self.me && beat.boot == self.boot
    }

    pub(crate) fn heard(&mut self, beat: &Beat, place: &Place, now: SteadyMs, wall_ms: u64) {
        if self.is_me(beat) {
            return self.echoes.came(now, DEAF_MS);
        }
        self.company.came(now, DEAF_MS);
        self.stored = self.stored.max(beat.stored);
        let member = Member {
            heard: now,
            can_own: beat.can_own,
            settings: beat.settings.clone(),
            off_ms: beat
                .wall_ms
                .cast_signed()
                .saturating_sub(wall_ms.cast_signed()),
        };
        self.members.insert(beat.node.clone(), member);
        if beat.is_owner && beat.term >= place.term {
            (self.owner_heard, self.has_heard) = (now, true);
            self.is_refused = false;
            let was_stalled =
                std::mem::replace(&mut self.is_stalled, beat.stalled_ms >= STALLED_MS);
            if self.is_stalled && !was_stalled {
                // What the stream answered before proves nothing.
                self.passes = Run::default();
            }
        } else if let Some(silent_ms) = beat.owner_silent_ms
            && beat.term >= place.term
        {
            let told = SteadyMs(now.0.saturating_sub(silent_ms));
            self.owner_told = self.owner_told.max(told);
        }
    }

    /// A frame of the owner came, behind all that was known: it is heard, and the stream answers it.
    pub(crate) fn wrote(&mut self, now: SteadyMs) {
        (self.owner_heard, self.has_heard) = (now, true);
        self.is_stalled = false;
    }

    /// An owner began or ended: the time of its silence counts anew.
    pub(crate) fn changed(&mut self, now: SteadyMs) {
        (self.owner_heard, self.has_heard) = (now, true);
        self.is_refused = false;
        self.is_stalled = false;
    }

    /// A node has just claimed the log; one that owned it already was started again.
    pub(crate) fn claimed(&mut self, node: &str, now: SteadyMs) {
        let (of, times) = &mut self.claims;
        if of != node {
            *of = node.to_owned();
            times.clear();
        }
        if times.len() == RESTARTS_MAX {
            times.pop_front();
        }
        times.push_back(now);
    }

    /// Whether the owner's process ends again and again, sooner than its silence is noticed.
    fn is_restless(&self, turn_ms: u64, now: SteadyMs) -> bool {
        let (of, times) = &self.claims;
        let is_often = times.len() == RESTARTS_MAX && *of != self.me;
        let since = |at: Option<&SteadyMs>| at.map_or(0, |at| now.since(*at));
        is_often && since(times.front()) < RESTARTS_MS && since(times.back()) >= turn_ms
    }

    /// A connection to this node is refused: its process is gone.
    pub(crate) fn refused(&mut self, node: &str, place: &Place) {
        let owner = place.owner.as_ref();
        self.is_refused |= owner.is_some_and(|owner| owner.node == node);
    }

    /// The stream answered this node.
    pub(crate) fn passed(&mut self, now: SteadyMs) {
        self.passes.came(now, PASSES_GAP_MS);
    }

    /// How long ago this node heard the owner itself, in ms.
    pub(crate) fn owner_silent_ms(&self, now: SteadyMs) -> Option<u64> {
        self.has_heard.then(|| now.since(self.owner_heard))
    }

    /// For how long nobody has heard the owner, as far as this node can tell: while it has heard itself. `None` = it is
    /// cut off.
    pub(crate) fn silent_ms(&self, now: SteadyMs) -> Option<u64> {
        let hears = match is_planted(Plant::DeafGuess) {
            true => SteadyMs(0),
            false => self.echoes.since(now, DEAF_MS)?,
        };
        // Who hears others again was cut off from them: the owner may come next.
        let company = self.company.since(now, DEAF_MS).unwrap_or_default();
        let heard = self.owner_heard.max(self.owner_told).max(hears);
        Some(now.since(heard.max(company)))
    }

    /// Whether this node hears nobody else. It may be cut off together with the server that it talks to.
    fn is_alone(&self, now: SteadyMs) -> bool {
        self.company.since(now, DEAF_MS).is_none()
    }

    /// Whether only the stream's answers can show that this node is not cut off.
    fn is_unproven(&self, now: SteadyMs) -> bool {
        // The last answer may be of before the cut.
        self.is_alone(now) && self.passes.lasts_ms(now, PASSES_GAP_MS) < ALONE_MS
    }

    /// Whether a look at the stream would help to judge an owner.
    pub(crate) fn wants_look(&self, now: SteadyMs) -> bool {
        let is_silent = self
            .silent_ms(now)
            .is_some_and(|silent| silent >= REFUSED_MS);
        self.is_stalled || is_silent && self.is_alone(now)
    }

    fn present(&self, now: SteadyMs, within_ms: u64) -> impl Iterator<Item = (&str, &Member)> {
        let is_present = move |member: &Member| now.since(member.heard) < within_ms;
        let others = self.members.iter();
        let others = others.filter(move |(node, member)| **node != self.me && is_present(member));
        others.map(|(node, member)| (node.as_str(), member))
    }

    /// How many other standbys have their turn before this node.
    pub(crate) fn rank(&self, place: &Place, now: SteadyMs) -> u64 {
        let owner = place.owner.as_ref().map(|owner| owner.node.as_str());
        let others = self.present(now, PRESENT_MS);
        let before =
            others.filter(|(node, of)| of.can_own && *node < &*self.me && Some(*node) != owner);
        before.count() as u64
    }

    /// The standby that an owner hands over to, unless a person names one.
    pub(crate) fn successor(&self, now: SteadyMs) -> Option<&str> {
        let mut others = self.present(now, PRESENT_MS);
        let found = others.find(|(_, member)| member.can_own);
        found.map(|(node, _)| node)
    }

    /// Whether a standby is to claim by itself.
    pub(crate) fn is_due(&self, place: &Place, now: SteadyMs) -> bool {
        let turn_ms = RANK_MS * self.rank(place, now);
        let silence_ms = match self.is_refused {
            true => self.refused_ms(),
            false => self.silence_ms,
        };
        let is_silent = self
            .silent_ms(now)
            .is_some_and(|silent| silent >= silence_ms + turn_ms);
        let is_silent = is_silent && !self.is_unproven(now);
        is_silent || self.is_passed_over(turn_ms, now) || self.is_restless(turn_ms, now)
    }

    /// After this silence an owner is followed whose process refuses connections. It grows with `owner_silence_ms`.
    fn refused_ms(&self) -> u64 {
        REFUSED_MS.max(self.silence_ms / 2)
    }

    /// Whether the stream answers this node, and not the owner.
    fn is_passed_over(&self, turn_ms: u64, now: SteadyMs) -> bool {
        // What arrives late was answered before.
        let passes = self.passes.lasts_ms(now, PASSES_GAP_MS) >= PASSES_MS + turn_ms;
        self.is_stalled && (passes || is_planted(Plant::StalledIsGone))
    }

    /// A node that has other settings than these, and which.
    pub(crate) fn differs(
        &self,
        settings: &BTreeMap<String, String>,
        now: SteadyMs,
    ) -> Option<(String, String)> {
        let mut others = self.present(now, KNOWN_MS);
        others.find_map(|(node, member)| {
            let is_other = |(of, digest): &(&String, &String)| {
                let theirs = member.settings.get(*of);
                theirs.is_some_and(|theirs| theirs != *digest)
            };
            let (of, _) = settings.iter().find(is_other)?;
            Some((node.to_owned(), of.clone()))
        })
    }

    /// By how many ms this node's time of day is off the others', if that is too far to claim: frames have times.
    pub(crate) fn off_ms(&self, now: SteadyMs) -> Option<u64> {
        let present = self.present(now, KNOWN_MS);
        let mut off: Vec<i64> = present.map(|(_, member)| member.off_ms).collect();
        off.push(0);
        off.sort_unstable();
        // Both middle ones of an even number: two clocks alone do not show which of them is wrong.
        let middle = [off[(off.len() - 1) / 2], off[off.len() / 2]].map(i64::unsigned_abs);
        middle.into_iter().min().filter(|off_ms| *off_ms > OFF_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Claim;
    use crate::plant::plant;

    fn place() -> Place {
        let mut place = Place::before_genesis(HistoryId([7; 16]), Position::ZERO, 0, 1);
        place.owner = Some(Claim {
            node: "a".to_owned(),
            boot: 1,
            lease_ms: 500,
        });
        place
    }

    fn beat(node: &str, wall_ms: u64) -> Beat {
        Beat {
            log: HistoryId([7; 16]),
            began: Position::ZERO,
            node: node.to_owned(),
            boot: 1,
            term: 1,
            is_owner: node == "a",
            stored: Position(5),
            covered: Position::ZERO,
            stalled_ms: 0,
            owner_silent_ms: None,
            can_own: true,
            settings: BTreeMap::new(),
            wall_ms,
        }
    }

    /// The watch of a node, which hears itself from 1,000 on, and all nodes then.
    struct Bed(Watch);

    impl Bed {
        fn of(node: &str) -> Bed {
            let mut bed = Bed(Watch::new(node.to_owned(), 1, 800, SteadyMs(0)));
            bed.hears(&["a", "b", "c"], 1_000);
            bed
        }

        fn hears(&mut self, nodes: &[&str], at: u64) {
            for node in nodes {
                self.0.heard(&beat(node, 0), &place(), SteadyMs(at), 0);
            }
        }

        fn is_due(&self, at: u64) -> bool {
            self.0.is_due(&place(), SteadyMs(at))
        }

        /// When it is due, if it goes on to hear these nodes every 200 ms.
        fn due(&mut self, nodes: &[&str]) -> Option<u64> {
            (1_010..9_000).step_by(10).find(|at| {
                if at % 200 == 0 {
                    self.hears(nodes, *at);
                }
                self.is_due(*at)
            })
        }
    }

    #[test]
    fn what_the_stream_answered_before_a_cut_shows_nothing() {
        let mut bed = Bed::of("b");
        let due = (1_100..4_000).step_by(100).find(|at| {
            // After that it is cut off with its server. At 2,900 the network is whole again, and no beat has come yet.
            let is_whole = *at <= 2_000;
            bed.hears(if is_whole { &["a", "b", "c"] } else { &["b"] }, *at);
            if is_whole || *at == 2_900 {
                bed.0.passed(SteadyMs(*at));
            }
            bed.is_due(*at)
        });
        assert_eq!(due, None);
    }

    #[test]
    fn standbys_guess_one_after_the_other_and_only_while_they_hear_themselves() {
        assert_eq!(Bed::of("b").due(&["b", "c"]), Some(1_800));
        assert_eq!(Bed::of("c").due(&["b", "c"]), Some(2_100));
        // Who is not there, or could not own the log, has no turn.
        let mut bed = Bed::of("c");
        let unable = Beat {
            can_own: false,
            ..beat("b", 0)
        };
        bed.0.members.clear();
        bed.0.heard(&unable, &place(), SteadyMs(1_000), 0);
        assert_eq!(bed.due(&["c", "d"]), Some(1_800));
        assert_eq!(Bed::of("b").due(&[]), None, "it is cut off");
        assert_eq!(Bed::of("b").due(&["c"]), None, "it is not heard");
        plant(Some(Plant::DeafGuess));
        assert!(Bed::of("b").due(&["c"]).is_some(), "the control");
        plant(None);
        assert_eq!(Bed::of("b").due(&["b"]), None, "perhaps with its server");
        let mut bed = Bed::of("b");
        let answered = (1_100..9_000).step_by(100).find(|at| {
            bed.hears(&["b"], *at);
            if *at >= 3_000 && bed.0.wants_look(SteadyMs(*at)) {
                bed.0.passed(SteadyMs(*at));
            }
            bed.is_due(*at)
        });
        assert_eq!(answered, Some(3_400));
        // Whoever is heard again comes before a guess.
        bed.hears(&["b", "c"], 3_500);
        assert!(!bed.is_due(3_500));
        assert_eq!(Bed::of("b").due(&["a", "b"]), None);
        // What was missed while it was cut off is no silence.
        let mut bed = Bed::of("b");
        bed.hears(&["b"], 5_000);
        assert!(!bed.is_due(5_010));
        // Another process by this node's name is another node.
        let mut bed = Bed::of("b");
        let twin = Beat {
            boot: 2,
            is_owner: true,
            ..beat("b", 0)
        };
        bed.hears(&["b"], 1_400);
        bed.0.heard(&twin, &place(), SteadyMs(1_700), 0);
        bed.hears(&["b"], 1_800);
        assert!(!bed.is_due(1_810));
    }

    #[test]
    fn what_others_hear_of_the_owner_counts() {
        let mut bed = Bed::of("b");
        for at in (1_200..5_000).step_by(200) {
            bed.hears(&["b"], at);
            let hears = Beat {
                owner_silent_ms: Some(150),
                ..beat("c", 0)
            };
            bed.0.heard(&hears, &place(), SteadyMs(at), 0);
            assert!(!bed.is_due(at + 150));
        }
    }

    #[test]
    fn a_refused_connection_shortens_the_silence() {
        let mut bed = Bed::of("b");
        bed.0.refused("c", &place());
        bed.hears(&["b", "c"], 1_400);
        assert!(!bed.is_due(1_400));
        bed.0.refused("a", &place());
        assert!(!bed.is_due(1_399) && bed.is_due(1_400));
        bed.0.changed(SteadyMs(1_400));
        assert!(!bed.is_due(1_400));
    }

    #[test]
    fn an_owner_that_cannot_write_is_followed_by_one_that_can() {
        let stalled = Beat {
            stalled_ms: 1_000,
            ..beat("a", 0)
        };
        let due = |passes: &dyn Fn(u64) -> bool| {
            let mut bed = Bed::of("b");
            (1_100..9_000).step_by(100).find(|at| {
                bed.hears(&["b", "c"], *at);
                bed.0.heard(&stalled, &place(), SteadyMs(*at), 0);
                if passes(*at) {
                    bed.0.passed(SteadyMs(*at));
                }
                bed.is_due(*at)
            })
        };
        assert_eq!(due(&|_| false), None, "nobody is answered");
        assert_eq!(due(&|at| at % 500 == 0), Some(2_500));
        // A new leader has just been elected: the owner is answered soon, too.
        assert_eq!(due(&|at| at >= 5_000), Some(6_000));
        let mut bed = Bed::of("b");
        bed.0.heard(&stalled, &place(), SteadyMs(1_000), 0);
        assert!(bed.0.is_stalled && !bed.is_due(1_000));
        for at in (1_100..=2_100).step_by(100) {
            bed.0.passed(SteadyMs(at));
            bed.hears(&["b", "c"], at);
        }
        assert!(bed.is_due(2_100), "nobody hears it");
        bed.0.heard(&stalled, &place(), SteadyMs(2_100), 0);
        bed.hears(&["b"], 2_100);
        assert!(bed.is_due(2_100));
        bed.hears(&["a"], 2_200);
        assert!(!bed.0.is_stalled && !bed.is_due(2_200));
        // Its frames come before its next beat.
        bed.0.heard(&stalled, &place(), SteadyMs(2_300), 0);
        (2_400..=3_300)
            .step_by(100)
            .for_each(|at| bed.0.passed(SteadyMs(at)));
        bed.0.wrote(SteadyMs(3_390));
        bed.0.passed(SteadyMs(3_400));
        assert!(!bed.is_due(3_400));
    }

    #[test]
    fn an_owner_hands_over_to_who_can_own() {
        let mut watch = Watch::new("a".to_owned(), 1, 800, SteadyMs(0));
        assert_eq!(watch.successor(SteadyMs(0)), None);
        let unable = Beat {
            can_own: false,
            ..beat("b", 0)
        };
        for said in [&unable, &beat("c", 0)] {
            watch.heard(said, &place(), SteadyMs(0), 0);
        }
        assert_eq!(watch.successor(SteadyMs(999)), Some("c"));
        assert_eq!(watch.successor(SteadyMs(1_000)), None);
    }

    #[test]
    fn settings_that_differ_are_named() {
        let mine = BTreeMap::from([("policy", "1"), ("limits", "2")]);
        let mine: BTreeMap<_, _> = mine
            .into_iter()
            .map(|(of, to)| (of.into(), to.into()))
            .collect();
        let mut watch = Watch::new("a".to_owned(), 1, 800, SteadyMs(0));
        for (node, settings, differs) in [
            // An earlier version says nothing of them.
            ("b", BTreeMap::new(), None),
            ("c", mine.clone(), None),
            (
                "d",
                BTreeMap::from([("limits".into(), "3".into())]),
                Some("limits"),
            ),
        ] {
            let beat = Beat {
                settings,
                ..beat(node, 0)
            };
            watch.heard(&beat, &place(), SteadyMs(0), 0);
            let found = watch.differs(&mine, SteadyMs(0));
            assert_eq!(found, differs.map(|of| (node.to_owned(), of.to_owned())));
        }
    }

    #[test]
    fn the_clock_that_is_off_is_ours_only_if_most_say_so() {
        let mut watch = Watch::new("c".to_owned(), 1, 800, SteadyMs(0));
        watch.heard(&beat("a", 9_000), &place(), SteadyMs(1), 1_000);
        assert_eq!(watch.off_ms(SteadyMs(1)), None, "one against one");
        watch.heard(&beat("b", 9_000), &place(), SteadyMs(1), 1_000);
        assert_eq!(watch.off_ms(SteadyMs(1)), Some(8_000));
        watch.heard(&beat("b", 1_500), &place(), SteadyMs(1), 1_000);
        assert_eq!(watch.off_ms(SteadyMs(1)), None);
    }
}
