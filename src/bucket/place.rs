//! `s3://BUCKET/PREFIX`, and the address of the store that it is at.
//!
//! Owns: what such a text must be. Promises: what is sent to others than this machine is sent by TLS, unless the
//! environment says otherwise. Must not: ask a store anything.

use std::fmt;

use hyper::Uri;

use super::BucketError;

/// How the text of a folder in a bucket begins.
const SCHEME: &str = "s3://";

/// A folder in a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPlace {
    bucket: String,
    /// Without slashes at its ends.
    prefix: String,
}

impl BucketPlace {
    /// Whether a text is meant to name one.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// The folder that a text names.
    pub fn read(text: &str) -> Result<BucketPlace, BucketError> {
        let wrong = || {
            BucketError(format!(
                "`{text}` is no place in a bucket; write s3://BUCKET/PREFIX, with letters, digits, '.', '_' and '-' only"
            ))
        };
        let below = text.strip_prefix(SCHEME).ok_or_else(wrong)?;
        let (bucket, prefix) = below.split_once('/').unwrap_or((below, ""));
        let prefix = prefix.trim_end_matches('/');
        let is_sign = |sign: char| sign.is_ascii_alphanumeric() || "._-".contains(sign);
        let is_name =
            |name: &str| !name.is_empty() && !name.starts_with('.') && name.chars().all(is_sign);
        let is_path = prefix.is_empty() || prefix.split('/').all(is_name);
        match is_name(bucket) && is_path && prefix.len() <= 512 {
            true => Ok(BucketPlace {
                bucket: bucket.to_owned(),
                prefix: prefix.to_owned(),
            }),
            false => Err(wrong()),
        }
    }

    /// The folder above, and its name there; `None` = it is the bucket itself.
    #[must_use]
    pub fn above(&self) -> Option<(BucketPlace, &str)> {
        let (prefix, name) = match self.prefix.rsplit_once('/') {
            Some(parts) => parts,
            None if self.prefix.is_empty() => return None,
            None => ("", &*self.prefix),
        };
        let above = BucketPlace {
            bucket: self.bucket.clone(),
            prefix: prefix.to_owned(),
        };
        Some((above, name))
    }

    pub(super) fn below(&self, name: &str) -> BucketPlace {
        let prefix = match (&*self.prefix, name) {
            ("", name) | (name, "") => name.to_owned(),
            (prefix, name) => format!("{prefix}/{name}"),
        };
        BucketPlace {
            bucket: self.bucket.clone(),
            prefix,
        }
    }

    pub(super) fn bucket(&self) -> &str {
        &self.bucket
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl fmt::Display for BucketPlace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let between = if self.prefix.is_empty() { "" } else { "/" };
        write!(out, "{SCHEME}{}{between}{}", self.bucket, self.prefix)
    }
}

/// Checks the address of a store; whether it is to be asked without TLS.
pub(super) fn check_endpoint(url: &str, allowed: Option<&str>) -> Result<bool, BucketError> {
    // Not shown: it could hold a password.
    let wrong = || {
        BucketError(
            "AWS_ENDPOINT_URL is no address of a store; write it as in https://s3.example.org"
                .to_owned(),
        )
    };
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let authority = uri.authority().ok_or_else(wrong)?;
    if authority.as_str().contains('@') || !["", "/"].contains(&uri.path()) {
        return Err(wrong());
    }
    let host = authority.host().trim_matches(['[', ']']);
    let is_here = host == "localhost"
        || host
            .parse()
            .is_ok_and(|address: std::net::IpAddr| address.is_loopback());
    match uri.scheme_str() {
        Some("https") => Ok(false),
        Some("http") if is_here || allowed == Some("true") => Ok(true),
        Some("http") => Err(BucketError(format!(
            "backups would go to {host} without TLS: use https in AWS_ENDPOINT_URL, or set AWS_ALLOW_HTTP=true where the network is yours"
        ))),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_and_shown_and_leads_nowhere_else() {
        for text in ["s3://b", "s3://my.bucket-1/a_b/20261126T213015.123Z"] {
            assert_eq!(BucketPlace::read(text).unwrap().to_string(), text);
        }
        let place = BucketPlace::read("s3://b/x/y/").unwrap();
        let (above, name) = place.above().unwrap();
        assert_eq!((above.to_string(), name), ("s3://b/x".to_owned(), "y"));
        assert_eq!(above.below("y"), place);
        let (bucket, name) = above.above().unwrap();
        assert_eq!((bucket.to_string(), name), ("s3://b".to_owned(), "x"));
        assert!(bucket.above().is_none());
        for text in [
            "s3://",
            "s3:///x",
            "s3://b//x",
            "s3://b/../x",
            "s3://b/.x",
            "s3://b/x y",
            "s3://u@b",
            "gs://b",
        ] {
            assert!(BucketPlace::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn others_are_reached_by_tls_only() {
        let check = |url, allowed| check_endpoint(url, allowed).map_err(|error| error.to_string());
        assert_eq!(check("https://s3.example.org", None), Ok(false));
        for url in [
            "http://127.0.0.1:9000",
            "http://localhost:9000/",
            "http://[::1]:9",
        ] {
            assert_eq!(check(url, None), Ok(true), "{url}");
        }
        assert!(
            check("http://10.0.0.1:9000", None)
                .unwrap_err()
                .contains("without TLS")
        );
        assert_eq!(check("http://10.0.0.1:9000", Some("true")), Ok(true));
        for url in [
            "",
            "s3.example.org",
            "ftp://x",
            "https://me:secret@x",
            "https://x/y",
        ] {
            let refused = check(url, Some("true")).unwrap_err();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}
