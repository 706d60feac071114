//! What clients were shown: pushes (V5), and the messages of reads (V6).
//!
//! Owns: subscriptions; the comparison of a message with what is stored. Promises: a message that is not stored is G1a
//! if its append was refused, also if that is said later. Must not: know calls.

use std::collections::hash_map::Entry;

use crate::content::{content, key};
use crate::order::Order;
use crate::record::Message;
use crate::report::{Anomaly, Place};
use crate::state::State;

impl State {
    /// Compares a message that was shown with the one that is stored.
    pub(crate) fn compare(&mut self, timeline: u32, message: &Message, place: Place) {
        let Message {
            sequence,
            message_id,
            ..
        } = message;
        let of = &self.stored.timelines[timeline as usize];
        let key = key(&message.sender, message_id);
        let here = of.row(*sequence);
        let report = &mut self.stored.report;
        if let Some(row) = here.filter(|row| row.key == key) {
            let shown = content(message.entry.as_ref(), message.digest);
            let time = message.timestamp;
            if !of.fits(row, shown) || time > 0 && time != row.timestamp {
                let what = format_args!(
                    "{}: {message_id} at {sequence} was shown otherwise",
                    of.name
                );
                report.found(Anomaly::Corrupt, what, &[place, of.place(row)]);
            }
        } else if let Some(other) = of.find(key) {
            let what = format_args!(
                "{}: {message_id}, at {other}, was shown at {sequence}",
                of.name
            );
            let stored = of.row(other).map_or(place, |row| of.place(row));
            report.found(Anomaly::Misplaced, what, &[place, stored]);
        } else if let Entry::Vacant(entry) = self.shown.entry((timeline, key)) {
            entry.insert((place, message_id.clone()));
        }
    }

    /// Begins a subscription, or ends one: in its place there is none, or a new one.
    pub(crate) fn subscribe(&mut self, client: u32, name: &str, after: Option<u64>, place: Place) {
        let timeline = self.stored.timeline(name);
        let view = self.views.entry((client, timeline)).or_default();
        let begun = after.map(|after| (Order::from(after.saturating_add(1)), place));
        if let Some((order, since)) = std::mem::replace(&mut view.subscription, begun) {
            let last = order.next - 1;
            self.missed(timeline, order.missing(last), &[since, place]);
        }
    }

    fn missed(&mut self, timeline: u32, gaps: Vec<(u64, u64)>, proof: &[Place]) {
        let name = &self.stored.timelines[timeline as usize].name;
        for (first, last) in gaps {
            let what = format_args!("{name}: {first} to {last} were not pushed");
            self.stored.report.found(Anomaly::Gap, what, proof);
        }
    }

    pub(crate) fn pushed(
        &mut self,
        client: u32,
        name: &str,
        messages: &[Message],
        place: Place,
    ) -> Result<(), &'static str> {
        let timeline = self.stored.timeline(name);
        self.stored
            .report
            .looked("messages pushed", messages.len() as u64);
        for message in messages {
            let view = self.views.entry((client, timeline)).or_default();
            let Some((order, since)) = &mut view.subscription else {
                return Err("a push without a subscription");
            };
            let (sequence, since) = (message.sequence, *since);
            if let Some(anomaly) = order.step(sequence) {
                let what = format_args!("{name}: {sequence} was pushed after {}", order.next - 1);
                self.stored.report.found(anomaly, what, &[since, place]);
            }
            view.see(sequence, place);
            self.compare(timeline, message, place);
        }
        Ok(())
    }

    /// What a client's subscriptions did not bring is missing.
    pub(crate) fn settled(&mut self, client: u32, place: Place) {
        let of_client: Vec<_> = self
            .views
            .range_mut((client, 0)..=(client, u32::MAX))
            .collect();
        let open = of_client.into_iter().filter_map(|(of, view)| {
            let (order, since) = view.subscription.take()?;
            Some((of.1, order, since))
        });
        for (timeline, order, since) in Vec::from_iter(open) {
            let last = self.stored.timelines[timeline as usize].last();
            let last = last.max(order.next - 1);
            self.missed(timeline, order.missing(last), &[since, place]);
        }
    }

    /// No more comes.
    pub(crate) fn end_shown(&mut self) {
        for (client, timeline) in Vec::from_iter(self.views.keys().copied()) {
            let view = self.views.get_mut(&(client, timeline));
            if let Some((order, since)) = view.and_then(|view| view.subscription.take()) {
                let last = order.next - 1;
                self.missed(timeline, order.missing(last), &[since]);
            }
        }
        for (of, (place, id)) in std::mem::take(&mut self.shown) {
            let name = &self.stored.timelines[of.0 as usize].name;
            let refused = self.failed.get(&of);
            let (anomaly, why) = match refused {
                Some(_) => (Anomaly::G1a, "was refused"),
                None => (Anomaly::Lost, "is not stored"),
            };
            let proof = [place, refused.copied().unwrap_or_default()];
            let what = format_args!("{name}: {id} was shown and {why}");
            self.stored.report.found(anomaly, what, &proof);
        }
    }
}
