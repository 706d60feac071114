//! The query of an address.
//!
//! Owns: how a value in it is written. Promises: what is no text is none. Must not: know what a value means.

/// The value of a name.
pub(in super::super) fn value(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(one, _)| *one == name)?;
    decoded(value)
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        bytes.push(match first {
            b'%' => {
                let (digits, behind) = rest.split_at_checked(2)?;
                rest = behind;
                u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?
            }
            b'+' => b' ',
            other => *other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_decoded() {
        assert_eq!(value("x=1&a=a%2Bb+c", "a"), Some("a+b c".to_owned()));
        assert_eq!(value("a=%4", "a"), None);
        assert_eq!(value("a=%ff", "a"), None);
        assert_eq!(value("ab=1", "a"), None);
    }
}
