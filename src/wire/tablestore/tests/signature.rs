//! Signatures against those that the official Python SDK makes, and against every kind of tampering.
//!
//! Owns: the vectors. Promises: each refusal has its own code and text. Must not: need a clock.

use std::collections::BTreeMap;

use super::super::limits::DATE_WINDOW_MS;
use super::super::signature::*;
use super::super::{Code, Failure};

/// 2026-01-02T03:04:05Z.
const NOW_MS: u64 = 1_767_323_045_000;
const EMPTY_MD5: &str = "1B2M2Y8AsgTpgAmY7PhCfg==";
const V2: &str = "Y2GM/GlWRe88zudKZcQMu10pc+8=";
const V4: &str = "yjqGW5oBGHSBQSqI6TaLp7EUKh//I78MfMNctRN1kzM=";

type Pairs = Vec<(&'static str, String)>;

fn unsigned() -> Pairs {
    [
        ("Host", "x"),
        ("x-ots-date", "2026-01-02T03:04:05.000Z"),
        ("x-ots-apiversion", "2015-12-31"),
        ("x-ots-accesskeyid", " fakeId "),
        ("x-ots-instancename", "inst"),
        ("x-ots-contentmd5", EMPTY_MD5),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .to_vec()
}

fn v2() -> Pairs {
    let mut headers = unsigned();
    headers.push(("x-ots-signature", V2.to_owned()));
    headers
}

fn v4() -> Pairs {
    let mut headers = unsigned();
    headers.push(("x-ots-signdate", "20260102".to_owned()));
    headers.push(("x-ots-signregion", "cn-hangzhou".to_owned()));
    headers.push(("x-ots-signaturev4", V4.to_owned()));
    headers
}

fn check_at(headers: &Pairs, body: &[u8], now_ms: u64) -> Result<Signer, Failure> {
    let pairs = headers
        .iter()
        .map(|(name, value)| (*name, value.as_bytes()));
    let secret = |id: &str| (id == "fakeId").then(|| "fakeSecret".to_owned());
    let headers = SignedHeaders::new(pairs);
    let signer = verify("/ListTable", &headers, now_ms, secret, |name| {
        name == "inst"
    })?;
    headers.check_content(ContentDigest::of(body))?;
    Ok(signer)
}

fn check(headers: &Pairs) -> Result<Signer, Failure> {
    check_at(headers, b"", NOW_MS)
}

#[test]
fn what_the_sdk_signs_is_accepted() {
    check(&v2()).unwrap();
    let signer = check(&v4()).unwrap();
    assert_eq!(signer.key, b"IKogAp82gjFMmh/SbdPmZp4c9sGOsHwQvn7681Sd+e4=");
    assert!(!format!("{signer:?}").contains("IKog"), "no key is printed");
}

#[test]
fn answers_are_signed_as_the_sdk_checks_them() {
    let body = b"\x0a\x01a";
    for (headers, signature) in [
        (v2(), "OTS fakeId:DCU2Z5jEE8R+J6DMrmOL1XHmodY="),
        (v4(), "OTS fakeId:XHvz+q0TNDcwWdn75NNSxrNvunU="),
    ] {
        let signer = check(&headers).unwrap();
        let answer = answer_headers(Some(&signer), "0005-abc", NOW_MS, body);
        let answer: BTreeMap<_, _> = answer.into_iter().collect();
        assert_eq!(answer["x-ots-contentmd5"], "Dab5mKfjErj1I17usoVJew==");
        assert_eq!(answer["x-ots-date"], "2026-01-02T03:04:05.000000Z");
        assert_eq!(answer["x-ots-contenttype"], "protocol buffer");
        assert_eq!(answer["x-ots-requestid"], "0005-abc");
        assert_eq!(answer["authorization"], signature);
    }
    let plain = answer_headers(None, "0005-abc", NOW_MS, body);
    assert!(plain.iter().all(|(name, _)| *name != "authorization"));
}

#[test]
fn whatever_is_tampered_with_is_refused() {
    for good in [v2(), v4()] {
        for at in 0..good.len() {
            let (name, value) = &good[at];
            if *name == "Host" {
                continue;
            }
            let mut other = good.clone();
            let first = if value.trim().starts_with('A') {
                "B"
            } else {
                "A"
            };
            other[at].1 = format!("{first}{}", &value.trim()[1..]);
            check(&other).unwrap_err();
            let mut without = good.clone();
            without.remove(at);
            check(&without).unwrap_err();
        }
        let mut more = good.clone();
        more.push(("x-ots-request-tag", "t".to_owned()));
        let failure = check(&more).unwrap_err();
        assert_eq!(&*failure.message, "Signature mismatch.");
        check_at(&good, b"x", NOW_MS).unwrap_err();
    }
}

/// The good request with one header changed, or taken away.
fn refused(name: &'static str, value: Option<&str>) -> Failure {
    let mut headers = v2();
    headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
    headers.extend(value.map(|value| (name, value.to_owned())));
    check(&headers).unwrap_err()
}

#[test]
fn refusals_say_what_is_wrong() {
    let auth = |text: &'static str| Failure::with(Code::AuthFailed, text);
    let invalid = |text: &'static str| Failure::invalid(text);
    let cases: [(&'static str, Option<&str>, Failure); 8] = [
        ("x-ots-date", None, invalid("Missing header: x-ots-date.")),
        (
            "x-ots-signature",
            None,
            invalid("Missing header: x-ots-signature."),
        ),
        (
            "x-ots-date",
            Some("yesterday"),
            invalid("Invalid date format: yesterday."),
        ),
        (
            "x-ots-date",
            Some("1969-01-01T00:00:00Z"),
            invalid("Invalid date format: 1969-01-01T00:00:00Z."),
        ),
        (
            "x-ots-accesskeyid",
            Some("other"),
            auth("Signature mismatch."),
        ),
        (
            "x-ots-instancename",
            Some("other"),
            auth("The instance is not found."),
        ),
        (
            "x-ots-signature",
            Some(EMPTY_MD5),
            auth("Signature mismatch."),
        ),
        ("x-ots-signature", Some(""), auth("Signature mismatch.")),
    ];
    for (name, value, failure) in cases {
        assert_eq!(refused(name, value), failure);
    }
    let body = check_at(&v2(), b"x", NOW_MS).unwrap_err();
    assert!(
        body.message.starts_with("Mismatch between MD5 value"),
        "{body}"
    );
}

#[test]
fn a_date_is_good_for_a_quarter_of_an_hour() {
    for now in [NOW_MS - DATE_WINDOW_MS, NOW_MS + DATE_WINDOW_MS] {
        check_at(&v2(), b"", now).unwrap();
    }
    for now in [
        NOW_MS - DATE_WINDOW_MS - 1,
        NOW_MS + DATE_WINDOW_MS + 1,
        0,
        u64::MAX,
    ] {
        let failure = check_at(&v2(), b"", now).unwrap_err();
        let text = "Mismatch between system time and x-ots-date: 2026-01-02T03:04:05.000Z.";
        assert_eq!(failure, Failure::with(Code::AuthFailed, text));
    }
}

#[test]
fn what_a_client_signs_is_accepted_and_so_is_the_answer() {
    let signer = Signer::new("fakeId", "fakeSecret", "/ListTable");
    let sent: Pairs = request_headers(&signer, "inst", NOW_MS, b"body");
    let server = check_at(&sent, b"body", NOW_MS).unwrap();
    check_at(&sent, b"other", NOW_MS).unwrap_err();
    let mut answer = answer_headers(Some(&server), "0005-abc", NOW_MS, b"reply");
    let (_, authorization) = answer.pop().unwrap();
    let came = |answer: &Pairs, authorization: &str, body: &[u8]| {
        let pairs = answer.iter().map(|(name, value)| (*name, value.as_bytes()));
        check_answer(&signer, &SignedHeaders::new(pairs), authorization, body)
    };
    came(&answer, &authorization, b"reply").unwrap();
    came(&answer, &authorization, b"other").unwrap_err();
    came(&answer, &authorization[1..], b"reply").unwrap_err();
    for at in 0..answer.len() {
        let mut other = answer.clone();
        other[at].1.push('x');
        came(&other, &authorization, b"reply").unwrap_err();
    }
}

#[test]
fn lines_are_signed_in_their_own_order_and_the_last_of_two_counts() {
    let headers = [
        ("x-ots-b-c", "1"),
        ("x-ots-b", "2"),
        ("host", "x"),
        ("x-ots-a", "3"),
        ("x-ots-b", " 4 "),
    ];
    let headers = SignedHeaders::new(headers.map(|(name, value)| (name, value.as_bytes())));
    // A hyphen is before a colon.
    assert_eq!(headers.lines(), "x-ots-a:3\nx-ots-b-c:1\nx-ots-b:4\n");
}
