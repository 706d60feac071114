//! How deep JSON is.
//!
//! Owns: the one counter, for all ways by which JSON comes in. Promises: linear, without recursion; brackets within
//! texts don't count. Must not: know a limit; the callers do.

/// How deep JSON text is, if that is more than the limit: a number is 0 deep, `[]` is 1.
pub fn deeper_than(limit: u64, json: &[u8]) -> Option<u64> {
    // Nearly every text ends here.
    if openings(json) <= limit {
        return None;
    }
    let (mut depth, mut deepest) = (0_u64, 0);
    let (mut in_text, mut escaped) = (false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' | b'[' => {
                depth += 1;
                deepest = depth.max(deepest);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    (deepest > limit).then_some(deepest)
}

/// How often an object or array begins, those within texts too. Counted a vector at a time, each stretch in a byte.
pub fn openings(json: &[u8]) -> u64 {
    let count = |bytes: &[u8]| {
        let more = |count: u8, byte: &u8| count.wrapping_add(u8::from(matches!(byte, b'{' | b'[')));
        u64::from(bytes.iter().fold(0, more))
    };
    json.chunks(STRETCH_BYTES).map(count).sum()
}

/// No more than a byte can count.
const STRETCH_BYTES: usize = 240;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_within_texts_do_not_count() {
        let hidden = format!("{}1{}", r#"["]","#.repeat(50), "]".repeat(50));
        serde_json::from_str::<serde_json::Value>(&hidden).unwrap();
        for (json, depth) in [
            ("1", 0),
            (r#""[[[[""#, 0),
            ("[]", 1),
            (r#"{"a":[],"b":[[]]}"#, 3),
            (r#"["\"[[",{"\\":[0]}]"#, 3),
            (&hidden, 50),
        ] {
            assert_eq!(deeper_than(depth, json.as_bytes()), None, "{json}");
            if depth > 0 {
                assert_eq!(
                    deeper_than(depth - 1, json.as_bytes()),
                    Some(depth),
                    "{json}"
                );
            }
        }
    }
}
