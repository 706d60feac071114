//! What a follower makes of replies and pushes, fed without a connection.
//!
//! Owns: a planted fault for each of its checks. Promises: `Follower::feed` does what `read` does with a text. Must
//! not: open a socket.

use serde_json::Value;

use super::*;

/// A follower of "a" and "b" that is subscribed to both and has two messages of each.
fn follower() -> Follower {
    let timelines = Timelines::new(["a".to_owned(), "b".to_owned()]);
    let mut follower = Follower::new(&timelines, [1, 0]);
    for place in &mut follower.places.all {
        place.position = 2;
        assert!(timelines.is_epoch(place.timeline, "e1"));
    }
    follower.join_all();
    for place in 0..2 {
        feed(&mut follower, &reply(place, &[], "ok", "e1")).expect("as it should be");
    }
    follower
}

fn body(timeline: &str, sequences: &[u64], epoch: &str) -> Value {
    let one = |sequence: &u64| json!({ "sequence": sequence, "timestamp": 5, "message_id": "m", "entry": { "t": 1 } });
    let messages: Vec<Value> = sequences.iter().map(one).collect();
    let head = sequences.last().copied().unwrap_or(2);
    json!({ "timeline": timeline, "epoch": epoch, "floor": 1, "head": head, "change_head": 0, "messages": messages })
}

fn reply(place: usize, sequences: &[u64], state: &str, epoch: &str) -> Value {
    let mut result = body(["a", "b"][place], sequences, epoch);
    result["more"] = false.into();
    result["state"] = state.into();
    json!({ "jsonrpc": "2.0", "id": place, "result": result })
}

fn push(timeline: &str, sequences: &[u64], epoch: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": "message", "params": body(timeline, sequences, epoch) })
}

impl Follower {
    fn join_all(&mut self) {
        (0..self.places().len()).for_each(|place| self.join(place, None));
    }

    fn is_live(&self) -> bool {
        let mut places = self.places().iter();
        places.all(|place| place.stage == Stage::Live)
    }

    /// As if `text` had come: what `read` does with it. The error is the fault.
    pub(crate) fn feed(
        &mut self,
        text: &Value,
        mut each: impl FnMut(Event<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let text = text.to_string();
        self.places.take(text.as_bytes(), Instant::now(), &mut each)
    }
}

/// Returns what was heard, as (timeline, first, last, in order).
fn feed(follower: &mut Follower, text: &Value) -> Result<Vec<(usize, u64, u64, bool)>, String> {
    let mut heard = Vec::new();
    let fed = follower.feed(text, |event| {
        if let Event::Heard(one) = &event {
            heard.push((one.timeline, one.first, one.last, one.in_order));
            let is_m = |id: &str| (id == "m").then_some(());
            one.ids(|_, id| is_m(id).ok_or_else(|| id.to_owned()))?;
        }
        event.expected()
    });
    fed.map(|()| heard)
}

#[test]
fn replies_and_pushes_move_the_positions() {
    let mut follower = follower();
    assert!(follower.is_live());
    assert_eq!(
        feed(&mut follower, &push("b", &[3, 4], "e1")),
        Ok(vec![(1, 3, 4, true)])
    );
    assert_eq!(
        feed(&mut follower, &push("a", &[3], "e1")),
        Ok(vec![(0, 3, 3, true)])
    );
    follower.cut();
    assert!(!follower.is_live());
    follower.join_all();
    let resumed = feed(&mut follower, &reply(1, &[5, 6], "ok", "e1"));
    assert_eq!(resumed, Ok(vec![(1, 5, 6, true)]));
    let positions: Vec<u64> = follower
        .places()
        .iter()
        .map(|place| place.position)
        .collect();
    assert_eq!(positions, [3, 6]);
}

#[test]
fn a_gap_and_a_repetition_are_faults_in_pushes_and_replies() {
    for sequences in [&[4][..], &[3, 5], &[2, 3], &[3, 3]] {
        let mut pushed = follower();
        assert!(
            feed(&mut pushed, &push("a", sequences, "e1")).is_err(),
            "{sequences:?}"
        );
        let mut resumed = follower();
        resumed.cut();
        resumed.join_all();
        let text = reply(0, sequences, "ok", "e1");
        assert!(feed(&mut resumed, &text).is_err(), "{sequences:?}");
    }
}

#[test]
fn another_state_epoch_timeline_or_head_is_a_fault() {
    for (state, epoch) in [("epoch_changed", "e1"), ("too_old", "e1"), ("ok", "e2")] {
        let mut follower = follower();
        follower.cut();
        follower.join_all();
        let text = reply(0, &[3, 4], state, epoch);
        assert!(feed(&mut follower, &text).is_err(), "{state} {epoch}");
    }
    let mut follower = follower();
    assert!(feed(&mut follower, &push("a", &[3], "e2")).is_err());
    assert!(feed(&mut follower, &push("c", &[3], "e1")).is_err());
    let mut low = push("a", &[3, 4], "e1");
    low["params"]["head"] = 3.into();
    assert!(feed(&mut follower, &low).is_err());
    follower.cut();
    follower.join_all();
    let mut other = reply(0, &[5], "ok", "e1");
    other["result"]["timeline"] = "b".into();
    assert!(feed(&mut follower, &other).is_err());
    let mut short = reply(1, &[3], "ok", "e1");
    short["result"]["head"] = 4.into();
    assert!(
        feed(&mut follower, &short).is_err(),
        "less than the head, and no more"
    );
}

#[test]
fn what_was_not_asked_for_is_a_fault() {
    let mut follower = follower();
    let texts = [
        reply(0, &[3], "ok", "e1"),
        json!({ "jsonrpc": "2.0", "id": 7, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": OWN, "result": {} }),
        json!({ "jsonrpc": "2.0", "method": "draining", "params": {} }),
        json!([1]),
    ];
    for text in texts {
        assert!(feed(&mut follower, &text).is_err(), "{text}");
    }
    follower.leave(0);
    let left = json!({ "jsonrpc": "2.0", "id": LEAVE, "result": {} });
    assert_eq!(feed(&mut follower, &left), Ok(vec![]));
    assert!(
        feed(&mut follower, &push("a", &[3], "e1")).is_err(),
        "it has left"
    );
    follower.join(0, Some(5));
    let refused = json!({ "jsonrpc": "2.0", "id": 0, "error": { "code": 503, "message": "m" } });
    assert_eq!(
        feed(&mut follower, &refused),
        Err("refused: 503  (m)".to_owned())
    );
    assert_eq!(follower.places()[0].stage, Stage::Out);
}
