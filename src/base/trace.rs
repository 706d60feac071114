//! A place in a trace, as W3C's Trace Context writes it.
//!
//! Owns: the text `traceparent`, in and out. Promises: what it can't read is none, as the standard asks: no call is
//! refused for the sake of its trace. Must not: know what is traced.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Which trace, and which step of it: `00-TRACE-PARENT-FLAGS`, of 55 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TraceParent {
    /// The ID of the trace; never all zeros.
    pub trace: [u8; 16],
    /// The ID of the step that caused what follows; never all zeros.
    pub parent: [u8; 8],
    /// Bit 0: its caller records it. Bit 1: its ID is random.
    pub flags: u8,
}

/// A text that is no `traceparent`.
#[derive(Debug)]
pub struct NoTraceParent;

impl TraceParent {
    /// Whether its caller records the trace.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }

    /// The ID of the trace, as text.
    pub fn trace_id(&self) -> impl fmt::Display + use<'_> {
        Hex(&self.trace)
    }
}

impl FromStr for TraceParent {
    type Err = NoTraceParent;

    fn from_str(text: &str) -> Result<TraceParent, NoTraceParent> {
        let read = || {
            let parts: Vec<&str> = text.splitn(5, '-').collect();
            let [version, trace, parent, flags, ..] = parts[..] else {
                return None;
            };
            let [version]: [u8; 1] = hex(version)?;
            let [flags]: [u8; 1] = hex(flags)?;
            // A later version may go on behind the flags; the first one ends there.
            let is_known = version != 0xff && (version != 0 || parts.len() == 4);
            Some(TraceParent {
                trace: hex(trace).filter(|id| is_known && *id != [0; 16])?,
                parent: hex(parent).filter(|id| *id != [0; 8])?,
                // Those that the standard knows: sampled, random. Others are not passed on.
                flags: flags & 3,
            })
        };
        read().ok_or(NoTraceParent)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, parent) = (Hex(&self.trace), Hex(&self.parent));
        write!(out, "00-{trace}-{parent}-{:02x}", self.flags)
    }
}

impl fmt::Debug for TraceParent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl From<TraceParent> for String {
    fn from(trace: TraceParent) -> String {
        trace.to_string()
    }
}

impl TryFrom<String> for TraceParent {
    type Error = NoTraceParent;

    fn try_from(text: String) -> Result<TraceParent, NoTraceParent> {
        text.parse()
    }
}

impl fmt::Display for NoTraceParent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("not a traceparent of W3C's Trace Context")
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// So many bytes in small hexadecimal digits.
fn hex<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let mut bytes = [0; BYTES];
    if pairs.len() != BYTES {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_well_formed_comes_back_and_nothing_else_is_taken() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let whole = format!("00-{trace}-b7ad6b7169203331-01");
        let read = |text: &str| text.parse::<TraceParent>().ok();
        let one = read(&whole).expect("it is well formed");
        assert_eq!((one.to_string(), one.is_sampled()), (whole.clone(), true));
        assert_eq!(one.trace_id().to_string(), trace);
        let later = format!("01-{trace}-b7ad6b7169203331-01-what-comes");
        assert_eq!(read(&later), Some(one));
        // Flags that the standard does not know end here.
        let flagged = read(&whole.replace("-01", "-fe")).expect("any flags are well formed");
        assert_eq!(flagged.to_string(), whole.replace("-01", "-02"));
        assert!(!flagged.is_sampled());
        for wrong in [
            String::new(),
            whole.to_uppercase(),
            whole.replace("00-", "ff-"),
            whole.replace(trace, &"0".repeat(32)),
            whole.replace("b7ad6b7169203331", "0000000000000000"),
            whole.replace("-01", "-1"),
            format!("{whole}-more"),
            whole[..54].to_owned(),
        ] {
            assert_eq!(read(&wrong), None, "{wrong}");
        }
    }
}
