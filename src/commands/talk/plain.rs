//! Strangers' text for a terminal.
//!
//! Owns: which characters are escaped, and how. Promises: what comes out moves no cursor, changes no colour, and shows
//! its characters in their order; JSON stays JSON of the same value. Must not: colour anything.

use std::fmt::Write as _;

use serde_json::value::RawValue;

/// Whether a terminal would do something else with a character than show it at its place: controls of both sets (C0
/// with line ends and tabs, DEL, C1), line separators, and those that turn the direction of writing.
fn is_active(at: char) -> bool {
    let turns = matches!(at, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    at.is_control() || turns || matches!(at, '\u{2028}' | '\u{2029}')
}

/// Text with everything active in it as Rust and JavaScript write it: `\n`, `\u{1b}`.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for at in text.chars() {
        match is_active(at) {
            true => plain.extend(at.escape_default()),
            false => plain.push(at),
        }
    }
    plain
}

/// JSON on one line, with everything active in it as JSON writes it: `\u001b`. All of that is inside of texts, but for
/// white space.
pub(super) fn json(raw: &RawValue) -> String {
    let mut plain = String::with_capacity(raw.get().len());
    for at in raw.get().chars() {
        match at {
            // Valid JSON has these between its parts only.
            '\n' | '\r' | '\t' => plain.push(' '),
            at if is_active(at) => {
                let _ = write!(plain, "\\u{:04x}", u32::from(at));
            }
            at => plain.push(at),
        }
    }
    plain
}

/// JSON on lines, indented.
pub(super) fn indented(raw: &RawValue) -> String {
    let mut out = String::new();
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    let text = json(raw);
    let mut letters = text.chars().peekable();
    while let Some(at) = letters.next() {
        if in_text {
            out.push(at);
            in_text = at != '"' || is_escaped;
            is_escaped = at == '\\' && !is_escaped;
            continue;
        }
        match at {
            ' ' => {}
            '"' => {
                in_text = true;
                out.push(at);
            }
            '{' | '[' => {
                out.push(at);
                while letters.next_if_eq(&' ').is_some() {}
                match letters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(at);
            }
            ',' => {
                out.push(at);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            at => out.push(at),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_is_active_is_escaped() {
        let text = "a\u{1b}[31mb\u{9b}2J\u{7f}\u{202e}\n\té 語 🎉\u{2028}";
        assert_eq!(
            plain(text),
            r"a\u{1b}[31mb\u{9b}2J\u{7f}\u{202e}\n\té 語 🎉\u{2028}"
        );
        let raw = serde_json::value::to_raw_value(text).unwrap();
        let shown = json(&raw);
        assert!(!shown.chars().any(is_active), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
    }

    #[test]
    fn json_is_indented() {
        let raw: Box<RawValue> =
            serde_json::from_str("{\"a\":[1,\n {}, [ ],\"x\\\",{\"],\"b\":1.0}").unwrap();
        let expected =
            "{\n  \"a\": [\n    1,\n    {},\n    [],\n    \"x\\\",{\"\n  ],\n  \"b\": 1.0\n}";
        assert_eq!(indented(&raw), expected);
    }

    proptest! {
        #[test]
        fn shown_json_is_the_same_value(texts in proptest::collection::vec(".*", 0..5), number: i64) {
            let value = serde_json::json!({"a": texts, "b": [{"c": number, "d": 0.5}, null]});
            let raw = serde_json::value::to_raw_value(&value).unwrap();
            for shown in [json(&raw), indented(&raw)] {
                prop_assert_eq!(&serde_json::from_str::<Value>(&shown).unwrap(), &value);
                prop_assert!(!shown.chars().any(|at| at != '\n' && is_active(at)));
            }
            prop_assert!(!json(&raw).contains('\n'));
            prop_assert!(!plain(&texts.concat()).chars().any(is_active));
        }
    }
}
