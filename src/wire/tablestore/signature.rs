//! Signatures of requests, V2 and V4, and of responses.
//!
//! Owns: which headers a request must have, what is signed and how, and the headers of an answer; both sides of each,
//! so that a client of this crate signs with the code that checks. Promises: signatures are compared in constant time;
//! a head is accepted only if its date is within the window, its key and instance are known and its signature is right,
//! a body only if it is what the signed headers say. Must not: read the clock, keep secrets (the caller looks them up),
//! or print one.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::failure::{Code, Failure};
use super::limits::DATE_WINDOW_MS;

const PREFIX: &str = "x-ots-";
const API_VERSION: &str = "x-ots-apiversion";
const KEY_ID: &str = "x-ots-accesskeyid";
const INSTANCE: &str = "x-ots-instancename";
const CONTENT_MD5: &str = "x-ots-contentmd5";
const DATE: &str = "x-ots-date";
const SIGNATURE: &str = "x-ots-signature";
const SIGNATURE_V4: &str = "x-ots-signaturev4";
const SIGN_DATE: &str = "x-ots-signdate";
const SIGN_REGION: &str = "x-ots-signregion";
const REQUEST_ID: &str = "x-ots-requestid";
const CONTENT_TYPE: &str = "x-ots-contenttype";
/// The header that signs an answer.
pub const AUTHORIZATION: &str = "authorization";

/// The headers of a request or answer that take part in its signature, in the order in which they are signed.
#[derive(Clone, Default)]
pub struct SignedHeaders<'h>(Vec<(&'h str, &'h str)>);

impl<'h> SignedHeaders<'h> {
    /// Those of the headers that begin with `x-ots-`; names come in lower case, as HTTP libraries have them. Of a
    /// header that comes twice the last counts; a value that is not text is as good as none.
    pub fn new(headers: impl IntoIterator<Item = (&'h str, &'h [u8])>) -> SignedHeaders<'h> {
        let mut ours: Vec<(&str, &str)> = Vec::with_capacity(8);
        for (name, value) in headers {
            if !name.starts_with(PREFIX) {
                continue;
            }
            let Ok(value) = std::str::from_utf8(value) else {
                continue;
            };
            match ours.iter_mut().find(|(known, _)| *known == name) {
                Some(known) => known.1 = value.trim(),
                None => ours.push((name, value.trim())),
            }
        }
        // By whole lines: of two names of which one begins with the other, the character behind the name decides.
        let line = |name: &'h str| name.bytes().chain([b':']);
        ours.sort_unstable_by(|(left, _), (right, _)| line(left).cmp(line(right)));
        SignedHeaders(ours)
    }

    /// Checks that a body is the one whose digest was signed.
    ///
    /// # Errors
    /// Another body, or no digest.
    pub fn check_content(&self, body: ContentDigest) -> Result<(), Failure> {
        if same(self.required(CONTENT_MD5)?, &body.text()) {
            return Ok(());
        }
        let text = "Mismatch between MD5 value of request body and x-ots-contentmd5 in header.";
        Err(Failure::with(Code::AuthFailed, text))
    }

    fn get(&self, name: &str) -> Option<&'h str> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }

    fn required(&self, name: &str) -> Result<&'h str, Failure> {
        let missing = || Failure::invalid(format!("Missing header: {name}."));
        self.get(name).ok_or_else(missing)
    }

    /// `name:value` of each header but the signature itself, a line each.
    pub(super) fn lines(&self) -> String {
        let signed = |name: &str| name != SIGNATURE && name != SIGNATURE_V4;
        lines(self.0.iter().copied().filter(|(name, _)| signed(name)))
    }
}

fn lines<'h>(headers: impl Iterator<Item = (&'h str, &'h str)>) -> String {
    let mut text = String::with_capacity(LINES_BYTES);
    for (name, value) in headers {
        text.extend([name, ":", value, "\n"]);
    }
    text
}

/// About what the lines of an SDK's request take.
const LINES_BYTES: usize = 256;

/// What a request to one path and its answer are signed with.
#[derive(Clone)]
pub struct Signer {
    key_id: String,
    pub(super) key: Vec<u8>,
    path: String,
}

impl Signer {
    /// A client's, for requests of V2 to `path`, which is `/` and the operation.
    #[must_use]
    pub fn new(key_id: &str, secret: &str, path: &str) -> Signer {
        Signer {
            key_id: key_id.to_owned(),
            key: secret.as_bytes().to_vec(),
            path: path.to_owned(),
        }
    }

    /// The header that signs an answer.
    fn authorization(&self, lines: &str) -> String {
        let signature = hmac_sha1(&self.key, &format!("{lines}{}", self.path));
        format!("OTS {}:{signature}", self.key_id)
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Signer { key_id, path, .. } = self;
        write!(f, "Signer({key_id}, {path})")
    }
}

/// Checks who sent a request: `secret` finds a key's secret, `instance` says whether there is an instance of the name.
/// `path` is `/` and the operation. The body is not needed for it: its digest is signed, and
/// [`SignedHeaders::check_content`] holds the body against that.
///
/// # Errors
/// In this order: a missing header, an unreadable date, a date outside of the window, an unknown instance, a wrong
/// signature. An unknown key is answered as a wrong signature is, so that nobody learns which keys exist.
pub fn verify(
    path: &str,
    headers: &SignedHeaders<'_>,
    now_ms: u64,
    secret: impl FnOnce(&str) -> Option<String>,
    instance: impl FnOnce(&str) -> bool,
) -> Result<Signer, Failure> {
    let denied = |text: &'static str| Failure::with(Code::AuthFailed, text);
    headers.required(API_VERSION)?;
    let key_id = headers.required(KEY_ID)?;
    let instance_name = headers.required(INSTANCE)?;
    headers.required(CONTENT_MD5)?;
    let sent = match headers.get(SIGNATURE_V4) {
        Some(sent) => sent,
        None => headers.required(SIGNATURE)?,
    };
    check_date(headers.required(DATE)?, now_ms)?;
    if !instance(instance_name) {
        return Err(denied("The instance is not found."));
    }
    let secret = secret(key_id);
    let (is_known, secret) = (secret.is_some(), secret.unwrap_or_default());
    let text = request_text(path, &headers.lines());
    let (key, expected) = match headers.get(SIGNATURE_V4) {
        None => {
            let key = secret.into_bytes();
            let expected = hmac_sha1(&key, &text);
            (key, expected)
        }
        Some(_) => {
            let day = headers.required(SIGN_DATE)?;
            let key = v4_key(&secret, day, headers.required(SIGN_REGION)?);
            let expected = STANDARD.encode(hmac_sha256(&key, format!("{text}ots").as_bytes()));
            (key, expected)
        }
    };
    if !same(sent, &expected) || !is_known {
        return Err(denied("Signature mismatch."));
    }
    Ok(Signer {
        key_id: key_id.to_owned(),
        key,
        path: path.to_owned(),
    })
}

fn check_date(date: &str, now_ms: u64) -> Result<(), Failure> {
    let at = humantime::parse_rfc3339(date).ok();
    let since = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let Some(since) = since else {
        return Err(Failure::invalid(format!("Invalid date format: {date}.")));
    };
    let at_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    if at_ms.abs_diff(now_ms) > DATE_WINDOW_MS {
        let text = format!("Mismatch between system time and x-ots-date: {date}.");
        return Err(Failure::with(Code::AuthFailed, text));
    }
    Ok(())
}

/// What is signed of a request.
fn request_text(path: &str, lines: &str) -> String {
    format!("{path}\nPOST\n\n{lines}")
}

fn same(sent: &str, expected: &str) -> bool {
    sent.as_bytes().ct_eq(expected.as_bytes()).into()
}

/// The digest of a body of which more and more is there.
#[derive(Default)]
pub struct ContentDigest(Md5);

impl ContentDigest {
    pub(super) fn of(body: &[u8]) -> ContentDigest {
        let mut whole = ContentDigest::default();
        whole.update(body);
        whole
    }

    /// With the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    fn text(self) -> String {
        STANDARD.encode(self.0.finalize())
    }
}

fn digest(body: &[u8]) -> String {
    ContentDigest::of(body).text()
}

fn hmac_sha1(key: &[u8], text: &str) -> String {
    let mac = Hmac::<Sha1>::new_from_slice(key).expect("HMAC takes keys of any length");
    STANDARD.encode(mac.chain_update(text).finalize().into_bytes())
}

fn hmac_sha256(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.chain_update(text).finalize().into_bytes().to_vec()
}

/// The key of a day and region; what signs is the base64 text of it.
fn v4_key(secret: &str, day: &str, region: &str) -> Vec<u8> {
    let begin = format!("aliyun_v4{secret}").into_bytes();
    let steps = [day, region, "ots", "aliyun_v4_request"];
    let key = steps
        .iter()
        .fold(begin, |key, step| hmac_sha256(&key, step.as_bytes()));
    STANDARD.encode(key).into_bytes()
}

/// The headers of an answer, the signature last. Without a signer (a refused signature has none) the SDKs accept errors
/// only.
#[must_use]
pub fn answer_headers(
    signer: Option<&Signer>,
    request_id: &str,
    now_ms: u64,
    body: &[u8],
) -> Vec<(&'static str, String)> {
    // Sorted by name, as the signature wants them.
    let mut headers = vec![
        (CONTENT_MD5, digest(body)),
        (CONTENT_TYPE, "protocol buffer".to_owned()),
        (DATE, date(now_ms)),
        (REQUEST_ID, request_id.to_owned()),
    ];
    if let Some(signer) = signer {
        let signed = headers.iter().map(|(name, value)| (*name, value.as_str()));
        headers.push((AUTHORIZATION, signer.authorization(&lines(signed))));
    }
    headers
}

/// The headers of a client's request, signed as V2, the signature last.
#[must_use]
pub fn request_headers(
    signer: &Signer,
    instance: &str,
    now_ms: u64,
    body: &[u8],
) -> Vec<(&'static str, String)> {
    // Sorted by name, as the signature wants them.
    let mut headers = vec![
        (KEY_ID, signer.key_id.clone()),
        (API_VERSION, "2015-12-31".to_owned()),
        (CONTENT_MD5, digest(body)),
        (DATE, date(now_ms)),
        (INSTANCE, instance.to_owned()),
    ];
    let signed = headers.iter().map(|(name, value)| (*name, value.as_str()));
    let text = request_text(&signer.path, &lines(signed));
    headers.push((SIGNATURE, hmac_sha1(&signer.key, &text)));
    headers
}

/// Checks, as a client, that an answer is from a server that knows the key, and its body the one that was signed.
///
/// # Errors
/// Another body, another signature, or none of the two.
pub fn check_answer(
    signer: &Signer,
    headers: &SignedHeaders<'_>,
    authorization: &str,
    body: &[u8],
) -> Result<(), Failure> {
    headers.check_content(ContentDigest::of(body))?;
    match same(authorization, &signer.authorization(&headers.lines())) {
        true => Ok(()),
        false => Err(Failure::with(Code::AuthFailed, "Signature mismatch.")),
    }
}

fn date(now_ms: u64) -> String {
    let at: SystemTime = UNIX_EPOCH + Duration::from_millis(now_ms);
    humantime::format_rfc3339_micros(at).to_string()
}
