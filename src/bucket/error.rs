//! What a store's error means, in a sentence.
//!
//! Owns: that sentence. Promises: it says where, what the store said, and what to do where that is known; it is one
//! line of bounded length. Must not: show a header, or a whole answer.

use std::fmt;

/// Characters of what a store said that are shown.
const SAID_MAX: usize = 240;

/// Why a call of a store has no result, in a sentence.
#[derive(Debug)]
pub struct BucketError(pub(super) String);

impl BucketError {
    /// What an error of the store's client means for a place.
    pub(super) fn of(place: &dyn fmt::Display, error: &object_store::Error) -> BucketError {
        BucketError(sentence(&place.to_string(), &error.to_string()))
    }

    /// What goes wrong on the way between a file here and the store.
    pub(super) fn local(what: &str, error: &dyn fmt::Display) -> BucketError {
        BucketError(format!("{what}: {error}"))
    }
}

impl fmt::Display for BucketError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for BucketError {}

/// Whether the store does not know what was asked.
pub(super) fn is_unknown(error: &object_store::Error) -> bool {
    let text = error.to_string();
    ["<Code>NotImplemented</Code>", "status code: 501"]
        .iter()
        .any(|one| text.contains(one))
}

/// Whether the answer was lost on the way.
pub(super) fn is_cut(error: &object_store::Error) -> bool {
    error.to_string().contains(LOST)
}

/// How the text of an error goes on that came on the way.
const LOST: &str = "HTTP error: ";

/// The store's client has the answer of the store in its text only.
fn sentence(place: &str, text: &str) -> String {
    let code = between(text, "<Code>", "</Code>");
    let said = between(text, "<Message>", "</Message>");
    let status = between(text, "non-2xx status code: ", ":").map(str::trim);
    let what = match code.or(status).unwrap_or_default() {
        "NoSuchBucket" | "404 Not Found" => "the bucket is not there; make it, or name another one",
        "InvalidAccessKeyId"
        | "SignatureDoesNotMatch"
        | "AccessDenied"
        | "InvalidToken"
        | "ExpiredToken"
        | "401 Unauthorized"
        | "403 Forbidden" => {
            "the store refuses the credentials; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and what they may do in the bucket"
        }
        "QuotaExceeded" | "XMinioStorageFull" | "507 Insufficient Storage" => {
            "the bucket is full; make room in it, as by prune"
        }
        _ => "the store did not do it",
    };
    let said = match (code.or(status), said) {
        (Some(code), Some(said)) => format!("{code}: {said}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => last(text).to_owned(),
    };
    format!("{place}: {what} ({})", short(&said))
}

fn between<'t>(text: &'t str, begin: &str, end: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(begin)?;
    rest.split_once(end).map(|(found, _)| found)
}

/// What the client's text ends with: the innermost error.
fn last(text: &str) -> &str {
    text.rsplit_once(LOST).map_or(text, |(_, last)| last)
}

fn short(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(SAID_MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_says_becomes_one_line() {
        let told = "Generic S3 error: Error performing PUT http://x/b/k in 2ms - Server returned non-2xx status code: 507 Insufficient Storage: <?xml?>\n<Error><Code>QuotaExceeded</Code><Message>Bucket\n quota</Message></Error>";
        assert_eq!(
            sentence("s3://b", told),
            "s3://b: the bucket is full; make room in it, as by prune (QuotaExceeded: Bucket quota)"
        );
        let told =
            "Error performing GET x in 2ms - Server returned non-2xx status code: 403 Forbidden: ";
        assert!(sentence("s3://b", told).contains("refuses the credentials"));
        let told = "Generic S3 error: Error performing GET x in 2ms - HTTP error: no connection";
        assert_eq!(
            sentence("s3://b", told),
            "s3://b: the store did not do it (no connection)"
        );
        assert!(sentence("s3://b", &"x\n".repeat(9_000)).len() < 600);
    }
}
