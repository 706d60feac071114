//! The query of an address.
//!
//! Owns: how names and values in it are written and read. Promises: what is no text is none; what [`encode`] writes is
//! read back as it was, and may stand in a header. Must not: know what a value means.

/// The value of a name.
#[must_use]
pub fn value(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(one, _)| *one == name)?;
    decoded(value)
}

/// All names with their values, in order. A value that is no text is `None`, as is that of a name alone.
pub fn pairs(query: &str) -> impl Iterator<Item = (&str, Option<String>)> {
    let all = query.split('&').filter(|pair| !pair.is_empty());
    all.map(|pair| match pair.split_once('=') {
        Some((name, value)) => (name, decoded(value)),
        None => (pair, None),
    })
}

/// A part of a path.
#[must_use]
pub fn of_path(text: &str) -> Option<String> {
    decoded_with(text, b'+')
}

fn decoded(text: &str) -> Option<String> {
    decoded_with(text, b' ')
}

fn decoded_with(text: &str, plus: u8) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        bytes.push(match first {
            b'%' => {
                let (digits, behind) = rest.split_at_checked(2)?;
                rest = behind;
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?
            }
            b'+' => plus,
            other => *other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Appends a value.
pub fn encode(out: &mut String, value: &str) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            out.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_decoded() {
        assert_eq!(value("x=1&a=a%2Bb+c", "a"), Some("a+b c".to_owned()));
        assert_eq!(value("a=%4", "a"), None);
        assert_eq!(value("a=%+f", "a"), None);
        assert_eq!(value("a=%ff", "a"), None);
        assert_eq!(value("ab=1", "a"), None);
    }

    #[test]
    fn what_is_encoded_is_read_back() {
        for text in ["", "room/1", "a b+c&d=e%", "Höhe\u{1f30a}"] {
            let mut query = "a=".to_owned();
            encode(&mut query, text);
            assert!(query.bytes().all(|byte| byte.is_ascii_graphic()), "{query}");
            assert_eq!(value(&query, "a").as_deref(), Some(text));
        }
    }
}
