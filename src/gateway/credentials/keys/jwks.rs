//! Sets of keys as JWKS say them.
//!
//! Owns: their reading. Promises: a key that can't be used is left out with a line that says why, and the others count.
//! Must not: fetch one.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::parse::VerifyingKey;
use tideline_base::decode;

/// Where a set comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Origin {
    /// A file of the operator's, which may hold shared secrets.
    File,
    /// A server; a secret that it publishes is none.
    Url,
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Map<String, Value>>,
}

/// Bytes of a set at most.
pub(in super::super) const SET_BYTES_MAX: usize = 256 << 10;
const KEYS_MAX: usize = 100;

/// Reads a set: its keys, and a line for each that was left out. `taken`: IDs that others have already.
pub(in super::super) fn parse(
    bytes: &[u8],
    origin: Origin,
    taken: &HashSet<&str>,
) -> Result<(Vec<VerifyingKey>, Vec<String>), String> {
    if bytes.len() > SET_BYTES_MAX {
        return Err(format!("more than {SET_BYTES_MAX} bytes"));
    }
    // The error would quote what it found.
    let set: Set = decode::from_slice(bytes).map_err(|_| "not a JWKS".to_owned())?;
    if set.keys.len() > KEYS_MAX {
        let count = set.keys.len();
        return Err(format!("{count} keys, but there may be {KEYS_MAX}"));
    }
    let mut seen: HashSet<String> = HashSet::new();
    let (mut keys, mut passed_over) = (Vec::new(), Vec::new());
    for (at, jwk) in set.keys.iter().enumerate() {
        let key = match (origin, jwk.get("kty")) {
            (Origin::Url, Some(Value::String(kind))) if kind == "oct" => {
                Err("a shared secret that a server publishes is none".to_owned())
            }
            _ => VerifyingKey::jwk(jwk),
        };
        let key = key.and_then(|key| match &key.id {
            Some(id) if taken.contains(id.as_str()) || !seen.insert(id.clone()) => {
                Err("another key has its ID".to_owned())
            }
            _ => Ok(key),
        });
        match key {
            Ok(key) => keys.push(key),
            Err(why) => passed_over.push(format!("key {} of the set: {why}", at + 1)),
        }
    }
    Ok((keys, passed_over))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY";

    fn ids(text: &str, origin: Origin) -> (Vec<String>, Vec<String>) {
        let (keys, passed_over) =
            parse(text.as_bytes(), origin, &HashSet::from(["taken"])).unwrap();
        let ids = keys.into_iter().map(|key| key.id.unwrap_or_default());
        (ids.collect(), passed_over)
    }

    #[test]
    fn keys_that_cannot_be_used_are_passed_over_and_the_others_count() {
        let point = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        let modulus = |bytes: usize| "_".repeat(bytes * 8 / 6);
        let good = [
            format!(r#"{{"kty":"oct","kid":"a","k":"{SECRET}"}}"#),
            format!(
                r#"{{"kty":"EC","kid":"b","crv":"P-256","x":"{point}","y":"{point}","use":"sig"}}"#
            ),
            format!(r#"{{"kty":"OKP","kid":"c","crv":"Ed25519","x":"{point}","alg":"EdDSA"}}"#),
            format!(
                r#"{{"kty":"RSA","kid":"d","n":"{}","e":"AQAB","key_ops":["verify"]}}"#,
                modulus(258)
            ),
        ];
        let bad = [
            (
                r#"{"kty":"oct","kid":"e","k":"YWJj"}"#.to_owned(),
                "3 bytes",
            ),
            (good[1].replace("P-256", "P-384"), "curves"),
            (good[1].replace("sig", "enc"), "not for signatures"),
            (good[1].replace(point, "AAAA"), "uncompressed"),
            (good[2].replace("EdDSA", "ES256"), "not for EdDSA"),
            (good[3].replace("verify", "sign"), "not for verifying"),
            (good[3].replace(&modulus(258), &modulus(129)), "bits"),
            (good[0].replace("\"a\"", "\"taken\""), "its ID"),
            (good[0].replace("\"a\"", "1"), "kid"),
            (r#"{"kid":"f"}"#.to_owned(), "unknown kind"),
        ];
        for (one, why) in &bad {
            let text = format!(r#"{{"keys":[{one},{}],"more":1}}"#, good.join(","));
            let (ids, passed_over) = ids(&text, Origin::File);
            assert_eq!(ids, ["a", "b", "c", "d"], "{one}");
            assert!(passed_over[0].contains(why), "{passed_over:?}");
            assert!(!passed_over[0].contains("YWJj"));
        }
        let twice = format!(r#"{{"keys":[{0},{0}]}}"#, good[2]);
        assert_eq!(ids(&twice, Origin::Url).1.len(), 1);
        let all = format!(r#"{{"keys":[{}]}}"#, good.join(","));
        assert_eq!(ids(&all, Origin::Url).0, ["b", "c", "d"]);
    }

    #[test]
    fn what_is_no_set_is_refused_without_being_quoted() {
        let many = format!(r#"{{"keys":[{}]}}"#, vec!["{}"; KEYS_MAX + 1].join(","));
        let long = " ".repeat(SET_BYTES_MAX + 1);
        for text in [
            "",
            "[]",
            r#"{"keys":1}"#,
            r#"{"keys":["secret"]}"#,
            &many,
            &long,
        ] {
            let refused = parse(text.as_bytes(), Origin::File, &HashSet::new());
            assert!(!refused.err().unwrap().contains("secret"));
        }
    }
}
