//! Tokens as clients show them: each refusal beside a twin that is taken.
//!
//! Owns: keys that sign, and files that hold them. Promises: every rule of docs/ACCESS.md about tokens and their keys
//! is broken once. Must not: need a server.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::credential::Refused;
use super::keys::files::TokenSources;
use super::keys::parse::VerifyingKey;
use super::verify_token::{Named, TOKEN_BYTES_MAX, TokenRules, verify};

const NOW_MS: u64 = 1_800_000_000_000;
const NOW: u64 = NOW_MS / 1_000;
const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// A key that a test signs with.
enum Signing {
    Hmac(Vec<u8>),
    Rsa(Box<RsaKeyPair>),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Signing {
    fn ec() -> Signing {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        Signing::Ec(EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.unwrap().as_ref(), &random).unwrap())
    }

    fn ed() -> Signing {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Signing::Ed(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Signing::Hmac(secret) => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
                hmac::sign(&key, message).as_ref().to_vec()
            }
            Signing::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .unwrap();
                signature
            }
            Signing::Ec(key) => key.sign(&random, message).unwrap().as_ref().to_vec(),
            Signing::Ed(key) => key.sign(message).as_ref().to_vec(),
        }
    }

    /// The public key in PEM.
    fn pem(&self) -> String {
        let (head, key): (&[u8], &[u8]) = match self {
            Signing::Ec(key) => (
                b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00",
                key.public_key().as_ref(),
            ),
            Signing::Ed(key) => (
                b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00",
                key.public_key().as_ref(),
            ),
            Signing::Rsa(key) => {
                let body = STANDARD.encode(key.public().as_ref());
                return format!("-----BEGIN RSA PUBLIC KEY-----\n{body}\n-----END RSA PUBLIC KEY-----\n");
            }
            Signing::Hmac(_) => unreachable!("a secret has no public key"),
        };
        let body = STANDARD.encode([head, key].concat());
        format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n")
    }
}

/// RSA keys take long to make, and ring makes none.
fn rsa() -> Signing {
    let der = STANDARD.decode(RSA_PKCS8).unwrap();
    Signing::Rsa(Box::new(RsaKeyPair::from_pkcs8(&der).unwrap()))
}

/// A key of this test alone.
const RSA_PKCS8: &str = "\
    MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQCw6GZd2w4zSrd6RR4SHIcF5BGJnIE1t5hssT1HHXgMOjFxuNEb\
    qdu/ua47a5YoAG5XAULh8mdRE/QkteoIRjlgqxu7MpVLE4ooI3pC7dl5Zb0u8uOCdnJU5Kj0QLiX0f3I8tbU8FL/ivzUE3Z4d5kv\
    k/3uSMWvTH0BhwqpnLDG6nw2/F+Z210UIn7QPu2yQJOPIsdPgEngNgh0lSSoyN2EAmgJbNuxC77Uc0wlA/1ke5nyzrg3N8eLMyPa\
    gmUcLt1ibSpszB0olUS2ewB83Xpuiw7csNyzyonQa+HLigoBmpkXFgTdw6t0L/wY/oj4rCQgNdsq7aqzwbFsCRp23f9VAgMBAAEC\
    ggEAAInknHHR2VcKcfmt5mV9efBMG435nmCGdUksgQuQj7ybE+9K8YUS+KtKs1X6zD6+//z//q3C564zyDEyVSJ7DsoFIYE9SX6Y\
    vHTqGzQQMbmdH5O+qFII6iy2PeSCvNRUZiAk+sQXeD1bGP17opbPucZcN6nKsnrxmFA7ZxRCmkKfwl4k6h7mr7fgrUfMZ1m1Y2S0\
    t/S9YnurHK7X5g9A6R3fLB7bR953YlydNPyeECl6a/Jnfl5fWhwjjfpqORRNwacYyl7B5i/rZ4t8or/IgcW0JH+t0nJoVkWkHvYp\
    Vsub8VvuJ/X0vc79rBTsNbx70Fj+E7AHA3SlG2CWw90uYQKBgQDo1Vh0P8f517VCXvngSIcsXmcH7VzDiSqn9y1oeBbd+NhH6sHC\
    GpetZnNo6JNkHelMMvxnrPOWBjfPJ/Sx4TxFMcc9U9EV4y2hMEB3/NwbKBx4WhjjfQbLCopxfgOIlPBWha+fgdKAX6ur0dUs8LO+\
    0SfbJ3NBULp37GqGpPlniQKBgQDCgolur5FcYHDtg+dWlNl2Gs2QlRnB4nbYSINUZghXeSIOoqerYDIUzJZs50r68Y3we+8F9K/Z\
    qY566wp30LkS8HUSwLCBzWSp7R4xqKNGL+K+Iy/hBuKyHyEyao2zZZ4AA4JPGy+Yx6brLzBzGDmVzz6sN9PIZxT2/dobz6EabQKB\
    gFFGb/scbJUVLEu/1Z/qEW12gqasv83t6rr5OJuYF/tiKzVniD1WhQ3djnnXfePb4R1dSuhx4hHDl+WzP+J8CkrpJnCM+paWV85F\
    hqub08WTCeUlJjz63s0vn8YgQ+GAhCjfv7+BVNbFDqsKs0xdtZDtd+kzazMol/7WwxS/L+RpAoGBAKs1Z28MDrD3Gq+WCQzG3Fr+\
    4K5A73kfs2hQ+3hQj0sfjoC/X0KT28E/C7E0LWWRNVTWYeAmLpsyif1b4czw5dbr3MDy5up6Nf70fj1LqNvgzn56TmyOOQB8MiZE\
    cBHWgiqU7CBhV5XtNtmQod7NFfLthsbkJQAi6+s0KsWMDsxJAoGBAKPp6w3vKWWUlbN6oxeE570BalrNliYu/JW2GaQgI8xjSrkp\
    BivvyJRRnc8YNNR8qMARiyaQLsUnnI8epaTVVcM6wJENW2/VBPWtYCoUrDGkh9UPWPLbgch2/ssdpapl/48g+3nYIFb4ECfWJiva\
    HbA33go9etUYHwNyP2hvbkx1";
/// Public keys that are too weak, or of a curve that is not taken.
const WEAK_RSA: &str = "\
    -----BEGIN PUBLIC KEY-----\n\
    MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDQZClXCKk4WXf6Zt5/cJQ5hVF2\n\
    Xz393yK8oeBVAUtCVx7QOJp26F0fFrvMQs8VYP5m+RFoz81kkPtW0KuUUHm3m3w2\n\
    hZfcv5E8qyckUVm4i4c26o7yF2V+fbWOXID8vppQryIUqIHMSDNcknXGowvMUv4n\n\
    sZTGstqAnmfpA9FvzwIDAQAB\n\
    -----END PUBLIC KEY-----\n";
const P384: &str = "\
    -----BEGIN PUBLIC KEY-----\n\
    MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEmGO75Ki+T5K1PUqhvhUKKMcP6Pq3jXgN\n\
    JVpuZpU10IvoD+3etyTgFOCM7LvtwoxC479ZzzGawwUFepVF/CpubayDPpRGnhXx\n\
    jwxvgLvqY5WfaRNL36pAzexi6gO0nIxf\n\
    -----END PUBLIC KEY-----\n";

fn raw(key: &Signing, header: &str, claims: &str) -> String {
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let message = format!("{}.{}", encode(header), encode(claims));
    let signature = URL_SAFE_NO_PAD.encode(key.sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn claims() -> Value {
    json!({"sub": "ann", "exp": NOW + 60, "iss": "me", "aud": ["you", "chat"], "iat": NOW, "nbf": NOW})
}

/// The claims with one changed; null takes it away.
fn with(name: &str, value: Value) -> String {
    let mut claims = claims();
    match value {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
        value => claims[name] = value,
    }
    claims.to_string()
}

struct Bed {
    dir: TempDir,
    sources: TokenSources,
}

impl Bed {
    fn new() -> Bed {
        let rules = TokenRules {
            issuer: Some("me".to_owned()),
            audience: vec!["chat".to_owned(), "feed".to_owned()],
            leeway_s: 30,
        };
        Bed {
            dir: tempfile::tempdir().unwrap(),
            sources: TokenSources {
                rules,
                ..TokenSources::default()
            },
        }
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        mode(&path, 0o600);
        path
    }

    fn secret(mut self, name: &str, secret: &[u8]) -> Bed {
        let path = self.file(name, secret);
        self.sources.secret_files.push(path);
        self
    }

    fn public(mut self, name: &str, pem: &str) -> Bed {
        let path = self.file(name, pem);
        self.sources.public_key_files.push(path);
        self
    }

    fn verify(&self, token: &str) -> Result<super::verify_token::Token, Refused> {
        let keys = self.sources.load().unwrap().fixed;
        verify(&[&keys], &Named::of(token)?, token, NOW_MS)
    }
}

fn mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn hmac_bed() -> (Bed, Signing) {
    let key = Signing::Hmac(SECRET.to_vec());
    (Bed::new().secret("main.key", SECRET), key)
}

const HS256: &str = r#"{"alg":"HS256","kid":"main"}"#;

#[test]
fn tokens_of_each_algorithm_are_taken_with_their_key_alone() {
    let keys = [
        ("RS256", "rsa", rsa()),
        ("ES256", "ec", Signing::ec()),
        ("EdDSA", "ed", Signing::ed()),
    ];
    let mut bed = Bed::new().secret("hs.key", SECRET);
    for (_, name, key) in &keys {
        bed = bed.public(&format!("{name}.pem"), &key.pem());
    }
    let hs = ("HS256", "hs", Signing::Hmac(SECRET.to_vec()));
    let all: Vec<_> = keys.into_iter().chain([hs]).collect();
    let claims = claims().to_string();
    for (algorithm, name, key) in &all {
        let token = raw(
            key,
            &json!({"alg": algorithm, "kid": name}).to_string(),
            &claims,
        );
        assert_eq!(bed.verify(&token).unwrap().identity.user(), Some("ann"));
        let token = raw(key, &json!({"alg": algorithm}).to_string(), &claims);
        assert_eq!(bed.verify(&token).unwrap().expires_at, NOW_MS + 60_000);
        for (other, other_name, other_key) in all.iter().filter(|(other, ..)| other != algorithm) {
            let header = json!({"alg": algorithm, "kid": other_name}).to_string();
            assert_eq!(
                bed.verify(&raw(key, &header, &claims)).unwrap_err(),
                Refused::Algorithm
            );
            let header = json!({"alg": other, "kid": name}).to_string();
            assert_eq!(
                bed.verify(&raw(key, &header, &claims)).unwrap_err(),
                Refused::Algorithm
            );
            let header = json!({"alg": algorithm, "kid": name}).to_string();
            let refused = bed.verify(&raw(other_key, &header, &claims)).unwrap_err();
            assert_eq!(refused, Refused::Signature, "{name} by {other_name}");
        }
    }
}

#[test]
fn a_public_key_is_no_secret() {
    let key = rsa();
    let bed = Bed::new().public("rsa.pem", &key.pem());
    let pem = key.pem();
    for secret in [pem.as_bytes(), pem.trim_end().as_bytes()] {
        let forged = Signing::Hmac(secret.to_vec());
        for header in [r#"{"alg":"HS256","kid":"rsa"}"#, r#"{"alg":"HS256"}"#] {
            bed.verify(&raw(&forged, header, &claims().to_string()))
                .unwrap_err();
        }
    }
    let good = raw(
        &key,
        r#"{"alg":"RS256","kid":"rsa"}"#,
        &claims().to_string(),
    );
    bed.verify(&good).unwrap();
}

#[test]
fn a_header_that_says_too_much_or_nothing_is_refused() {
    let (bed, key) = hmac_bed();
    let claims = claims().to_string();
    for header in [
        HS256,
        r#"{"alg":"HS256"}"#,
        r#"{"typ":"JWT","alg":"HS256","kid":"main","jku":"http://x","x5u":"y"}"#,
    ] {
        bed.verify(&raw(&key, header, &claims)).unwrap();
    }
    for (header, why) in [
        (r#"{"alg":"none","kid":"main"}"#, Refused::Algorithm),
        (r#"{"alg":"none"}"#, Refused::UnknownKey),
        (r#"{"alg":"HS512","kid":"main"}"#, Refused::Algorithm),
        (r#"{"alg":"hs256","kid":"main"}"#, Refused::Algorithm),
        (r#"{"alg":"HS256","kid":"other"}"#, Refused::UnknownKey),
        (r#"{"alg":"HS256","kid":"../main"}"#, Refused::UnknownKey),
        (r#"{"alg":"HS256","kid":""}"#, Refused::UnknownKey),
        (r#"{"alg":"HS256","kid":["main"]}"#, Refused::Malformed),
        (r#"{"alg":["HS256"],"kid":"main"}"#, Refused::Malformed),
        (r#"{"kid":"main"}"#, Refused::Malformed),
        (
            r#"{"alg":"HS256","alg":"HS256","kid":"main"}"#,
            Refused::Malformed,
        ),
        (
            r#"{"alg":"HS256","kid":"main","crit":["x"],"x":1}"#,
            Refused::Critical,
        ),
        (
            r#"{"alg":"HS256","kid":"main","crit":[]}"#,
            Refused::Critical,
        ),
        (
            r#"{"alg":"HS256","kid":"main","crit":null}"#,
            Refused::Critical,
        ),
        ("[]", Refused::Malformed),
        ("", Refused::Malformed),
    ] {
        let refused = bed.verify(&raw(&key, header, &claims)).unwrap_err();
        assert_eq!(refused, why, "{header}");
    }
    let (head, _) = HS256.split_once(',').unwrap();
    let unsigned = format!(
        "{}.{}.",
        URL_SAFE_NO_PAD.encode(HS256),
        URL_SAFE_NO_PAD.encode(&claims)
    );
    assert_eq!(bed.verify(&unsigned).unwrap_err(), Refused::Signature);
    let good = raw(&key, HS256, &claims);
    for text in [
        "",
        ".",
        "..",
        "a.b.c",
        head,
        &good[1..],
        &good[..good.len() - 1],
        &format!("{good}."),
        &format!("{good}=="),
        &format!(".{good}"),
        &good.replacen('.', "", 1),
        &format!("{good}\n"),
    ] {
        bed.verify(text).unwrap_err();
    }
}

#[test]
fn without_a_key_id_there_must_be_one_key_of_the_algorithm() {
    let other = b"ffffffffffffffffffffffffffffffff";
    let bed = Bed::new()
        .secret("one.key", SECRET)
        .secret("two.key", other)
        .public("ed.pem", &Signing::ed().pem());
    let key = Signing::Hmac(SECRET.to_vec());
    let claims = claims().to_string();
    let refused = bed.verify(&raw(&key, r#"{"alg":"HS256"}"#, &claims));
    assert_eq!(refused.unwrap_err(), Refused::NoKeyNamed);
    bed.verify(&raw(&key, r#"{"alg":"HS256","kid":"one"}"#, &claims))
        .unwrap();
    let refused = bed.verify(&raw(&key, r#"{"alg":"HS256","kid":"two"}"#, &claims));
    assert_eq!(refused.unwrap_err(), Refused::Signature);
}

#[test]
fn claims_that_do_not_count_are_refused() {
    let (bed, key) = hmac_bed();
    for (name, value) in [
        ("exp", json!(NOW - 29)),
        ("exp", json!(NOW as f64 + 0.5)),
        ("nbf", Value::Null),
        ("nbf", json!(NOW + 30)),
        ("iat", Value::Null),
        ("iat", json!(NOW + 30)),
        ("aud", json!("feed")),
        ("sub", json!("a".repeat(128))),
        (
            "rights",
            json!([{"on": "room/{user}/*", "allow": ["read", "append"]}]),
        ),
        ("rights", json!([{"on": "*", "allow": ["observe"]}])),
        ("other", json!({"a": [1]})),
    ] {
        bed.verify(&raw(&key, HS256, &with(name, value.clone())))
            .unwrap_or_else(|why| panic!("{name} {value}: {why:?}"));
    }
    for (name, value, why) in [
        ("exp", Value::Null, Refused::Claims),
        ("exp", json!(NOW - 30), Refused::Expired),
        ("exp", json!(0), Refused::Expired),
        ("exp", json!((NOW + 60).to_string()), Refused::Claims),
        ("exp", json!([NOW + 60]), Refused::Malformed),
        ("exp", json!(-1), Refused::Claims),
        ("exp", json!(9_007_199_254_741_u64), Refused::Claims),
        ("exp", json!(u64::MAX), Refused::Claims),
        ("exp", json!(1e300), Refused::Claims),
        ("nbf", json!(NOW + 31), Refused::NotYetValid),
        ("nbf", json!("0"), Refused::Claims),
        ("nbf", json!(true), Refused::Claims),
        ("iat", json!(NOW + 31), Refused::NotYetValid),
        ("iat", json!((NOW).to_string()), Refused::Claims),
        ("iss", Value::Null, Refused::Issuer),
        ("iss", json!("you"), Refused::Issuer),
        ("iss", json!(["me"]), Refused::Issuer),
        ("aud", Value::Null, Refused::Audience),
        ("aud", json!("you"), Refused::Audience),
        ("aud", json!([]), Refused::Audience),
        ("aud", json!(7), Refused::Audience),
        ("sub", Value::Null, Refused::Claims),
        ("sub", json!(""), Refused::User),
        ("sub", json!("$key/a"), Refused::User),
        ("sub", json!("a\nb"), Refused::User),
        ("sub", json!("a".repeat(129)), Refused::User),
        ("sub", json!(7), Refused::Claims),
        ("rights", json!({}), Refused::Rights),
        (
            "rights",
            json!([{"on": "*", "allow": ["admin"]}]),
            Refused::Rights,
        ),
        (
            "rights",
            json!([{"on": "*", "allow": ["fly"]}]),
            Refused::Rights,
        ),
        (
            "rights",
            json!([{"on": "dm-{user}", "allow": ["read"]}]),
            Refused::Rights,
        ),
        (
            "rights",
            json!([{"on": "*", "allow": ["read"], "more": 1}]),
            Refused::Rights,
        ),
    ] {
        let refused = bed.verify(&raw(&key, HS256, &with(name, value.clone())));
        assert_eq!(refused.map(|_| ()), Err(why), "{name} {value}");
    }
    let text = claims().to_string();
    let twice = text.replacen('{', r#"{"sub":"bob","#, 1);
    assert_eq!(
        bed.verify(&raw(&key, HS256, &twice)).unwrap_err(),
        Refused::Malformed
    );
    let long = with("other", json!("x".repeat(TOKEN_BYTES_MAX)));
    assert_eq!(
        bed.verify(&raw(&key, HS256, &long)).unwrap_err(),
        Refused::TooLong
    );
}

#[test]
fn what_is_not_configured_is_not_asked_for() {
    let (mut bed, key) = hmac_bed();
    bed.sources.rules = TokenRules::default();
    bed.verify(&raw(&key, HS256, &with("aud", Value::Null)))
        .unwrap();
    // A token for others stays one for others.
    let refused = bed.verify(&raw(&key, HS256, &claims().to_string()));
    assert_eq!(refused.unwrap_err(), Refused::Audience);
}

#[test]
fn keys_that_cannot_be_meant_refuse_the_start() {
    let refused = |bed: &Bed| bed.sources.load().err().unwrap();
    Bed::new()
        .secret("a.key", &[SECRET, b"\n"].concat())
        .sources
        .load()
        .unwrap();
    let short = Bed::new().secret("a.key", &[&SECRET[1..], b"\n"].concat());
    assert!(refused(&short).contains("31 bytes"));
    let twice = Bed::new()
        .secret("a.key", SECRET)
        .public("a.pem", &Signing::ed().pem());
    assert!(refused(&twice).contains("two keys have the ID \"a\""));
    for (pem, why) in [
        (WEAK_RSA, "1024 bits"),
        (P384, "only P-256"),
        ("secret", "not a public key in PEM"),
        (
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
            "private key",
        ),
        (
            "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----",
            "not a whole",
        ),
    ] {
        let told = refused(&Bed::new().public("a.pem", pem));
        assert!(told.contains(why) && told.contains("a.pem"), "{told}");
    }
    let bed = Bed::new().secret("a.key", SECRET);
    let path = &bed.sources.secret_files[0];
    mode(path, 0o604);
    assert!(refused(&bed).contains("others can read"));
    mode(path, 0o640);
    bed.sources.load().unwrap();
    let mut missing = Bed::new();
    missing.sources.jwks_file = Some(missing.dir.path().join("none.json"));
    assert!(refused(&missing).contains("none.json"));
    let secret = URL_SAFE_NO_PAD.encode(SECRET);
    let set = json!({"keys": [{"kty": "oct", "k": secret, "kid": "a"}]}).to_string();
    let mut bed = Bed::new();
    let path = bed.file("set.json", set);
    bed.sources.jwks_file = Some(path.clone());
    bed.sources.load().unwrap();
    mode(&path, 0o644);
    assert!(refused(&bed).contains("others can read"));
}

#[test]
fn public_keys_that_openssl_writes_are_read() {
    let Ok(made) = Command::new("openssl")
        .args(["rsa", "-inform", "DER", "-pubout"])
        .stdin(std::process::Stdio::from({
            let dir = KEPT.get_or_init(|| tempfile::tempdir().unwrap());
            let path = dir.path().join("rsa.der");
            std::fs::write(&path, STANDARD.decode(RSA_PKCS8).unwrap()).unwrap();
            std::fs::File::open(path).unwrap()
        }))
        .output()
    else {
        return; // this machine has none
    };
    let pem = String::from_utf8(made.stdout).unwrap();
    assert!(
        pem.contains("BEGIN PUBLIC KEY"),
        "{made:?}",
        made = made.stderr
    );
    let by_openssl = VerifyingKey::pem(None, &pem).unwrap();
    let by_us = VerifyingKey::pem(None, &rsa().pem()).unwrap();
    assert_eq!(by_openssl.mark, by_us.mark);
}

static KEPT: OnceLock<TempDir> = OnceLock::new();

#[test]
fn marks_tell_keys_apart() {
    let mark = |id: Option<&str>, secret: &[u8]| {
        VerifyingKey::secret(id.map(str::to_owned), secret)
            .unwrap()
            .mark
    };
    let other = [SECRET, b"x"].concat();
    assert_eq!(mark(Some("a"), SECRET), mark(Some("a"), SECRET));
    assert_ne!(mark(Some("a"), SECRET), mark(Some("b"), SECRET));
    assert_ne!(mark(Some("a"), SECRET), mark(Some("a"), &other));
    let rules = Arc::new(TokenRules::default());
    let keys = vec![VerifyingKey::secret(None, SECRET).unwrap()];
    let keys = super::verify_token::TokenKeys::new(&rules, keys);
    assert!(keys.has(&mark(None, SECRET)) && !keys.has(&mark(Some("a"), SECRET)));
}
