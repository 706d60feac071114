//! What has to hold beside the words: of a timeline, a sender, of values.
//!
//! Owns: the query of all that. Promises: a condition that can't be asked for exactly is refused. Must not: know times;
//! a page narrows them.

use tideline_model::search::{Bool, Query, SearchIndex, TIMELINE_INDEX, fields};
use tideline_model::{Comparator, Value};

use super::{Ask, Condition, MessageAnswer};
use crate::index::layout::Layout;
use crate::index::message::{OURS, begin_of, term_of};

/// The query of what is asked for, but for times.
pub(super) fn asked(
    ask: &Ask,
    index: &SearchIndex,
    layout: &Layout,
) -> Result<Query, MessageAnswer> {
    let mut all = Bool::default();
    ask.words.add_to(&mut all);
    let text = |text: &str| Value::String(text.to_owned());
    let terms = |field: &str, values: Vec<Value>| Query::Terms {
        field: field.to_owned(),
        values,
        weight: 1.0,
    };
    if let Some(timelines) = &ask.timelines {
        let timelines = timelines.iter().map(|timeline| text(timeline)).collect();
        all.filter.push(terms(fields::TIMELINE, timelines));
    }
    if let Some(prefix) = ask.prefix.as_ref().filter(|prefix| !prefix.is_empty()) {
        all.filter.push(Query::Prefix {
            field: fields::TIMELINE.to_owned(),
            prefix: prefix.clone(),
            weight: 1.0,
        });
    }
    if let Some(sender) = &ask.sender {
        all.filter.push(terms(fields::SENDER, vec![text(sender)]));
    }
    for (at, condition) in ask.conditions.iter().enumerate() {
        let mut names = layout.names();
        let is_named = index.name == TIMELINE_INDEX || names.any(|name| name == condition.name);
        if !is_named {
            return Err(MessageAnswer::NoName(at));
        }
        condition
            .add_to(&mut all)
            .ok_or(MessageAnswer::NoName(at))?;
    }
    Ok(Query::Bool(Box::new(all)))
}

impl Ask {
    /// Whether an entry as it was read, from whom and when, is as it was asked for: an index may be behind it.
    #[must_use]
    pub fn holds(&self, entry: &[(String, Value)], sender: &str, at_ms: u64) -> bool {
        self.sender.as_ref().is_none_or(|asked| asked == sender)
            && self.from_ms.is_none_or(|from| from <= at_ms)
            && self.to_ms.is_none_or(|to| at_ms < to)
            && self.conditions.iter().all(|one| one.holds(entry))
            && self.words.hold(entry)
    }
}

impl Condition {
    fn holds(&self, entry: &[(String, Value)]) -> bool {
        let mut entry = entry.iter().filter(|(name, _)| !name.starts_with(OURS));
        let found = entry.find(|(name, _)| *name == self.name);
        let found = found.and_then(|(name, found)| term_of(name, found));
        let (Some(found), Some(asked)) = (found, term_of(&self.name, &self.value)) else {
            return false;
        };
        let is_alike = begin_of(&self.name, &self.value).is_some_and(|of| found.starts_with(&of));
        match self.comparator {
            Comparator::Equal => found == asked,
            Comparator::NotEqual => found != asked,
            Comparator::GreaterThan => is_alike && found > asked,
            Comparator::GreaterEqual => is_alike && found >= asked,
            Comparator::LessThan => is_alike && found < asked,
            Comparator::LessEqual => is_alike && found <= asked,
            _ => false,
        }
    }

    fn add_to(&self, all: &mut Bool) -> Option<()> {
        let term = term_of(&self.name, &self.value)?;
        let begin = begin_of(&self.name, &self.value)?;
        // Kinds are letters; the one behind is the end.
        let end = |begin: &str| {
            let mut end = begin.to_owned();
            let kind = end.pop()?;
            end.push(char::from_u32(u32::from(kind) + 1)?);
            Some(end)
        };
        let bound = |text: String, is_in| Some((Value::String(text), is_in));
        let lowest = bound(begin.clone(), true);
        let highest = bound(end(&begin)?, false);
        let (from, to) = match self.comparator {
            Comparator::Equal => (bound(term.clone(), true), bound(term, true)),
            Comparator::GreaterThan => (bound(term, false), highest),
            Comparator::GreaterEqual => (bound(term, true), highest),
            Comparator::LessThan => (lowest, bound(term, false)),
            Comparator::LessEqual => (lowest, bound(term, true)),
            Comparator::NotEqual => {
                let name = begin[..begin.len() - 1].to_owned();
                all.must_not
                    .push(values(bound(term.clone(), true), bound(term, true)));
                // Whatever kind: they lie between these two.
                (
                    bound(format!("{name}a"), true),
                    bound(format!("{name}z"), false),
                )
            }
            _ => return None,
        };
        all.filter.push(values(from, to));
        Some(())
    }
}

fn values(from: Option<(Value, bool)>, to: Option<(Value, bool)>) -> Query {
    let field = fields::WHERE.to_owned();
    match (&from, &to) {
        (Some((one, true)), Some((other, true))) if one == other => Query::Terms {
            field,
            values: vec![one.clone()],
            weight: 1.0,
        },
        _ => Query::Range { field, from, to },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_held_against_each_condition() {
        let text = |text: &str| Value::String(text.to_owned());
        let entry = [
            ("n".to_owned(), Value::Integer(7)),
            ("t".to_owned(), text("b")),
        ];
        for (name, comparator, value, expected) in [
            ("n", Comparator::Equal, Value::Double(7.0), true),
            ("n", Comparator::GreaterThan, Value::Integer(7), false),
            ("n", Comparator::GreaterEqual, Value::Integer(7), true),
            ("n", Comparator::LessThan, Value::Double(7.5), true),
            ("n", Comparator::LessEqual, Value::Double(6.5), false),
            ("n", Comparator::NotEqual, Value::Integer(7), false),
            ("n", Comparator::NotEqual, text("7"), true),
            ("n", Comparator::LessThan, text("z"), false),
            ("n", Comparator::GreaterThan, Value::Boolean(false), false),
            ("t", Comparator::GreaterThan, text("a"), true),
            ("t", Comparator::Equal, text("a"), false),
            ("x", Comparator::NotEqual, text("a"), false),
        ] {
            let name = name.to_owned();
            let one = Condition {
                name,
                comparator,
                value,
            };
            assert_eq!(one.holds(&entry), expected, "{one:?}");
        }
    }
}
