//! The keys that tokens are signed with: what a file or a JWKS holds becomes a key of one algorithm, or is refused.
//!
//! Owns: PEM, the DER of public keys, JWKs. Promises: the key alone decides the algorithm; a key that is too weak or of
//! another kind is refused with a line that says why, and never shows it. Must not: read a file or ask a server.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// What tells one key from all others, also from another of the same ID.
pub(in super::super) type Mark = [u8; 32];

/// A key that tokens are verified with.
pub(in super::super) struct VerifyingKey {
    /// What a token's `kid` names it by.
    pub(in super::super) id: Option<String>,
    pub(in super::super) algorithm: Algorithm,
    pub(in super::super) key: DecodingKey,
    pub(in super::super) mark: Mark,
}

const RSA_BITS: std::ops::RangeInclusive<usize> = 2_048..=8_192;
const POINT_BYTES: usize = 32;

impl VerifyingKey {
    /// A shared secret.
    pub(in super::super) fn secret(
        id: Option<String>,
        secret: &[u8],
    ) -> Result<VerifyingKey, String> {
        tideline_base::secret::check(secret)?;
        let key = DecodingKey::from_secret(secret);
        Ok(VerifyingKey::new(id, Algorithm::HS256, key, &[secret]))
    }

    /// A public key in PEM: `PUBLIC KEY`, or `RSA PUBLIC KEY`.
    pub(in super::super) fn pem(id: Option<String>, text: &str) -> Result<VerifyingKey, String> {
        let (label, der) = pem(text).ok_or("not a public key in PEM")?;
        match label {
            "PUBLIC KEY" => VerifyingKey::of_info(id, &der),
            "RSA PUBLIC KEY" => VerifyingKey::of_rsa(id, &der),
            label if label.contains("PRIVATE") => {
                Err("this is a private key; give only the public one".to_owned())
            }
            _ => Err("not a public key (-----BEGIN PUBLIC KEY-----)".to_owned()),
        }
    }

    /// A `SubjectPublicKeyInfo` (RFC 5280).
    fn of_info(id: Option<String>, der: &[u8]) -> Result<VerifyingKey, String> {
        let read = || {
            let mut outer = Der(der);
            let mut info = Der(outer.take(SEQUENCE)?);
            let mut algorithm = Der(info.take(SEQUENCE)?);
            let kind = algorithm.take(OBJECT)?;
            // The first byte says how many bits of the last one are not used.
            let key = info.take(BIT_STRING)?.strip_prefix(&[0])?;
            let is_whole = outer.0.is_empty() && info.0.is_empty();
            is_whole.then_some((kind, algorithm, key))
        };
        let (kind, mut algorithm, key) = read().ok_or(BROKEN)?;
        match kind {
            RSA => VerifyingKey::of_rsa(id, key),
            EC if algorithm.take(OBJECT) == Some(P256) => VerifyingKey::of_point(id, key),
            EC => Err("of elliptic curves only P-256 is taken".to_owned()),
            ED25519 => VerifyingKey::of_ed25519(id, key),
            _ => Err("neither RSA, nor P-256, nor Ed25519".to_owned()),
        }
    }

    /// An `RSAPublicKey` (RFC 8017).
    fn of_rsa(id: Option<String>, der: &[u8]) -> Result<VerifyingKey, String> {
        let read = || {
            let mut outer = Der(der);
            let mut numbers = Der(outer.take(SEQUENCE)?);
            let (modulus, exponent) = (numbers.take(INTEGER)?, numbers.take(INTEGER)?);
            (outer.0.is_empty() && numbers.0.is_empty()).then_some((modulus, exponent))
        };
        let (modulus, exponent) = read().ok_or(BROKEN)?;
        VerifyingKey::of_numbers(id, modulus, exponent)
    }

    fn of_numbers(
        id: Option<String>,
        modulus: &[u8],
        exponent: &[u8],
    ) -> Result<VerifyingKey, String> {
        let (modulus, exponent) = (without_zeros(modulus), without_zeros(exponent));
        let bits = modulus.first().map_or(0, |first| {
            modulus.len() * 8 - first.leading_zeros() as usize
        });
        if !RSA_BITS.contains(&bits) {
            let (min, max) = (RSA_BITS.start(), RSA_BITS.end());
            return Err(format!(
                "an RSA key of {bits} bits, but it must have from {min} to {max}"
            ));
        }
        let key = DecodingKey::from_rsa_raw_components(modulus, exponent);
        let parts = [modulus, exponent];
        Ok(VerifyingKey::new(id, Algorithm::RS256, key, &parts))
    }

    /// An uncompressed point of P-256.
    fn of_point(id: Option<String>, point: &[u8]) -> Result<VerifyingKey, String> {
        if point.len() != 1 + 2 * POINT_BYTES || point[0] != 4 {
            return Err("not an uncompressed point of P-256".to_owned());
        }
        let key = DecodingKey::from_ec_der(point);
        Ok(VerifyingKey::new(id, Algorithm::ES256, key, &[point]))
    }

    fn of_ed25519(id: Option<String>, point: &[u8]) -> Result<VerifyingKey, String> {
        if point.len() != POINT_BYTES {
            return Err("not a key of Ed25519".to_owned());
        }
        let key = DecodingKey::from_ed_der(point);
        Ok(VerifyingKey::new(id, Algorithm::EdDSA, key, &[point]))
    }

    /// A key of a JWKS (RFC 7517, 7518, 8037).
    pub(in super::super) fn jwk(jwk: &Map<String, Value>) -> Result<VerifyingKey, String> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let bytes = |name: &str| {
            let decoded = text(name).and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
            decoded.ok_or_else(|| format!("its {name:?} is not base64url"))
        };
        let id = match jwk.get("kid") {
            None => None,
            Some(Value::String(id)) => Some(id.clone()),
            Some(_) => return Err("its kid is no text".to_owned()),
        };
        if jwk.get("use").is_some_and(|purpose| purpose != "sig") {
            return Err("it is not for signatures".to_owned());
        }
        let verifies = |operations: &Value| {
            let operations = operations.as_array();
            operations.is_some_and(|all| all.iter().any(|one| one == "verify"))
        };
        if jwk.get("key_ops").is_some_and(|all| !verifies(all)) {
            return Err("it is not for verifying".to_owned());
        }
        let key = match (text("kty"), text("crv")) {
            (Some("RSA"), _) => VerifyingKey::of_numbers(id, &bytes("n")?, &bytes("e")?),
            (Some("EC"), Some("P-256")) => {
                let point = [vec![4], bytes("x")?, bytes("y")?].concat();
                VerifyingKey::of_point(id, &point)
            }
            (Some("OKP"), Some("Ed25519")) => VerifyingKey::of_ed25519(id, &bytes("x")?),
            (Some("EC" | "OKP"), _) => Err("of curves only P-256 and Ed25519 are taken".to_owned()),
            (Some("oct"), _) => VerifyingKey::secret(id, &bytes("k")?),
            _ => Err("of an unknown kind".to_owned()),
        }?;
        let is_fit = |name: &Value| {
            name == name_of(key.algorithm)
                || (name == "Ed25519" && key.algorithm == Algorithm::EdDSA)
        };
        if jwk.get("alg").is_some_and(|name| !is_fit(name)) {
            return Err(format!("it is not for {}", name_of(key.algorithm)));
        }
        Ok(key)
    }

    /// Whether one that can verify with it could also sign with it.
    pub(in super::super) fn is_secret(&self) -> bool {
        self.algorithm == Algorithm::HS256
    }

    fn new(
        id: Option<String>,
        algorithm: Algorithm,
        key: DecodingKey,
        parts: &[&[u8]],
    ) -> VerifyingKey {
        let mut hash = Sha256::new();
        for part in [
            name_of(algorithm).as_bytes(),
            id.as_deref().unwrap_or("").as_bytes(),
        ]
        .iter()
        .chain(parts)
        {
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        VerifyingKey {
            id,
            algorithm,
            key,
            mark: hash.finalize().into(),
        }
    }
}

/// The algorithm's name in a token's header.
pub(in super::super) fn name_of(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::HS256 => "HS256",
        Algorithm::RS256 => "RS256",
        Algorithm::ES256 => "ES256",
        Algorithm::EdDSA => "EdDSA",
        _ => "",
    }
}

const BROKEN: &str = "not a whole public key";

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT: u8 = 0x06;
const SEQUENCE: u8 = 0x30;

const RSA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
const EC: &[u8] = b"\x2a\x86\x48\xce\x3d\x02\x01";
const P256: &[u8] = b"\x2a\x86\x48\xce\x3d\x03\x01\x07";
const ED25519: &[u8] = b"\x2b\x65\x70";

/// What is left of some DER.
struct Der<'d>(&'d [u8]);

impl<'d> Der<'d> {
    /// The content of the next value, which must have this tag.
    fn take(&mut self, tag: u8) -> Option<&'d [u8]> {
        let (&found, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // Longer than 64 KiB is no key.
            0x81 | 0x82 => {
                let (length, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
                let add = |sum: usize, byte: &u8| sum << 8 | usize::from(*byte);
                (length.iter().fold(0, add), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        (found == tag).then_some(content)
    }
}

/// Label and bytes of the first section.
fn pem(text: &str) -> Option<(&str, Vec<u8>)> {
    let (_, text) = text.split_once("-----BEGIN ")?;
    let (label, text) = text.split_once("-----")?;
    let (body, _) = text.split_once(&format!("-----END {label}-----"))?;
    let body: String = body.split_whitespace().collect();
    Some((label, STANDARD.decode(body).ok()?))
}

fn without_zeros(number: &[u8]) -> &[u8] {
    let first = number.iter().position(|byte| *byte != 0);
    &number[first.unwrap_or(number.len())..]
}
