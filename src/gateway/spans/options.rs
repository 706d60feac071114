//! Where spans are sent, as the variables of OpenTelemetry's standard say.
//!
//! Owns: which of these variables count, and what they mean. Promises: without an endpoint nothing is sent; what can't
//! be followed is refused at the start, in a sentence. Must not: show a header's value, which may be a key.

use std::fmt;
use std::time::Duration;

use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use tideline_wire::otlp::{Attribute, Value};

/// Where spans are sent, and as whose.
pub(super) struct Options {
    /// Where they are posted.
    pub(super) url: Uri,
    /// Of each POST.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// For an answer.
    pub(super) timeout: Duration,
    /// The longest that a span waits for others.
    pub(super) delay: Duration,
    /// Of this server.
    pub(super) program: Vec<Attribute>,
}

/// Without the headers.
impl fmt::Debug for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "spans to {}", self.url)
    }
}

impl Options {
    /// What the environment says; `None` = no spans are sent.
    ///
    /// # Errors
    /// A sentence that says which variable can't be followed.
    pub(super) fn of(
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Options>, String> {
        // As the standard says, an empty one is not set.
        let of = |name: &str| environment(name).filter(|text| !text.trim().is_empty());
        let of_traces = |name: &str| {
            let own = format!("OTEL_EXPORTER_OTLP_TRACES_{name}");
            let all = format!("OTEL_EXPORTER_OTLP_{name}");
            of(&own)
                .map(|text| (own, text))
                .or_else(|| of(&all).map(|text| (all, text)))
        };
        let Some((name, endpoint)) = of_traces("ENDPOINT") else {
            return Ok(None);
        };
        let is_off = of("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true"))
            || of("OTEL_TRACES_EXPORTER").is_some_and(|text| text == "none");
        if is_off {
            return Ok(None);
        }
        if let Some((name, protocol)) = of_traces("PROTOCOL")
            && protocol != "http/protobuf"
        {
            return Err(format!(
                "{name} is {protocol}: spans are sent by http/protobuf only"
            ));
        }
        let url = match name.contains("TRACES") {
            true => endpoint.clone(),
            false => format!("{}/v1/traces", endpoint.trim_end_matches('/')),
        };
        let url: Option<Uri> = url.parse().ok();
        let is_http = |url: &Uri| matches!(url.scheme_str(), Some("http" | "https"));
        let Some(url) = url.filter(|url| is_http(url) && url.host().is_some()) else {
            return Err(format!(
                "{name} must be a URL of http or https, as http://localhost:4318"
            ));
        };
        let mut headers = Vec::new();
        if let Some((name, text)) = of_traces("HEADERS") {
            for (header, value) in pairs(&text).ok_or_else(|| not_pairs(&name))? {
                let header = HeaderName::try_from(header);
                let value = HeaderValue::try_from(value);
                let (Ok(header), Ok(mut value)) = (header, value) else {
                    return Err(not_pairs(&name));
                };
                value.set_sensitive(true);
                headers.push((header, value));
            }
        }
        let ms = |given: Option<(String, String)>, default| match given {
            None => Ok(Duration::from_millis(default)),
            Some((name, text)) => match text.parse() {
                Ok(ms @ 1..=3_600_000) => Ok(Duration::from_millis(ms)),
                _ => Err(format!("{name} must be milliseconds, 1 to 3600000")),
            },
        };
        let delay = of(DELAY).map(|text| (DELAY.to_owned(), text));
        Ok(Some(Options {
            url,
            headers,
            timeout: ms(of_traces("TIMEOUT"), 10_000)?,
            delay: ms(delay, 5_000)?,
            program: program(of)?,
        }))
    }
}

/// What a collector is told of this server.
fn program(of: impl Fn(&str) -> Option<String>) -> Result<Vec<Attribute>, String> {
    let text = of(RESOURCE).unwrap_or_default();
    let mut all = pairs(&text).ok_or_else(|| not_pairs(RESOURCE))?;
    let named = of("OTEL_SERVICE_NAME");
    if named.is_some() {
        all.retain(|(name, _)| name != SERVICE);
    }
    if !all.iter().any(|(name, _)| name == SERVICE) {
        let name = named.unwrap_or_else(|| "tideline".to_owned());
        all.push((SERVICE.to_owned(), name));
    }
    let version = env!("CARGO_PKG_VERSION").to_owned();
    all.push(("service.version".to_owned(), version));
    let attribute = |(name, value): (String, String)| Attribute::new(&name, Value::Text(value));
    Ok(all.into_iter().map(attribute).collect())
}

const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";
const SERVICE: &str = "service.name";
const DELAY: &str = "OTEL_BSP_SCHEDULE_DELAY";

fn not_pairs(name: &str) -> String {
    format!("{name} must be NAME=VALUE, with commas between; other signs of a value as %XX")
}

/// `a=b,c=d%20e`.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let parts = text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=')?;
            let name = name.trim();
            (!name.is_empty()).then_some((name.to_owned(), decoded(value.trim())?))
        })
        .collect()
}

/// Without `%XX`.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: &[(&str, &str)]) -> Result<Option<Options>, String> {
        let find = |name: &str| {
            let found = given.iter().find(|(known, _)| *known == name);
            found.map(|(_, text)| (*text).to_owned())
        };
        Options::of(find)
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");

    #[test]
    fn the_variables_of_the_standard_count() {
        assert!(of(&[]).unwrap().is_none());
        assert!(
            of(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")])
                .unwrap()
                .is_none()
        );
        assert!(
            of(&[ENDPOINT, ("OTEL_SDK_DISABLED", "true")])
                .unwrap()
                .is_none()
        );
        assert!(
            of(&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")])
                .unwrap()
                .is_none()
        );
        let all = of(&[
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b, x-other=1"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "300"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=old,zone=eu"),
            ("OTEL_SERVICE_NAME", "chat"),
        ]);
        let all = all.unwrap().unwrap();
        assert_eq!(all.url, "http://collector:4318/v1/traces");
        assert_eq!(
            all.headers[0],
            ("x-key".parse().unwrap(), "a b".parse().unwrap())
        );
        assert_eq!(
            (all.headers.len(), all.timeout),
            (2, Duration::from_millis(300))
        );
        let program = ["zone=eu", "service.name=chat"].map(|pair| {
            let (name, value) = pair.split_once('=').unwrap();
            Attribute::new(name, Value::Text(value.to_owned()))
        });
        assert_eq!(all.program[..2], program);
        assert!(!format!("{all:?}").contains("a b"));
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://x/in?a=1");
        assert_eq!(
            of(&[ENDPOINT, own]).unwrap().unwrap().url,
            "https://x/in?a=1"
        );
    }

    #[test]
    fn what_can_not_be_followed_is_named() {
        for (name, text) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0"),
            ("OTEL_BSP_SCHEDULE_DELAY", "soon"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "key"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "key=%4"),
            ("OTEL_RESOURCE_ATTRIBUTES", "=x"),
        ] {
            let mut given = vec![(name, text)];
            given.extend([ENDPOINT].into_iter().filter(|(known, _)| *known != name));
            let why = of(&given).unwrap_err();
            assert!(why.starts_with(name), "{why}");
        }
    }
}
