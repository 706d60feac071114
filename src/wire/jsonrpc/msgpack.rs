//! MessagePack on its way in: a frame is written as JSON text, which the decoder of JSON reads.
//!
//! Owns: what MessagePack says and JSON does not. Promises: recursion down to a fixed depth only, no memory for what is
//! announced and does not come, and the text is a small multiple of the input. Must not: accept what JSON could not
//! say, except bin as the value of a column; a call that tries is refused, others of its batch are not.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rmp_serde::decode::{Deserializer, Error};
use serde::Serialize;
use serde::de::{
    self, Deserialize as _, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::super::reasons::Reason;
use super::decode::decode as decode_json;
use super::{Body, Id};
use crate::failure::Failure;
use crate::limits::Limits;

/// Decodes one binary frame.
pub(super) fn decode(body: &[u8], limits: &Limits) -> Result<Body, Failure> {
    let mut writer = Writer {
        body,
        out: Vec::with_capacity(body.len() + body.len() / 2 + 16),
        path: Vec::new(),
        params_at: None,
        call: 0,
        failures: Vec::new(),
    };
    let mut reader = Deserializer::from_read_ref(body);
    reader.set_max_depth(DEPTH_MAX);
    if let Err(error) = writer.value(Context::Body).deserialize(&mut reader) {
        return writer.unreadable(&error, limits);
    }
    let behind = IgnoredAny::deserialize(&mut reader);
    if !matches!(behind, Err(Error::InvalidMarkerRead(_))) {
        return Err(Failure::new(Reason::ParseError).saying("bytes after the end"));
    }
    let mut decoded = decode_json(&writer.out, limits)?;
    let calls = match &mut decoded {
        Body::Single(call) => std::slice::from_mut(call),
        Body::Batch(calls) => calls,
    };
    for (at, failure) in writer.failures {
        let Some(call) = calls.get_mut(at) else { break };
        let known = call.request.as_ref().err().map(|failure| failure.reason);
        // What is no request is refused as that.
        if known != Some(Reason::InvalidRequest) {
            call.request = Err(failure);
        }
    }
    Ok(decoded)
}

/// Requests are less deep; the stack must hold it.
const DEPTH_MAX: usize = 128;

/// What a value is in: it decides whether it can be refused, and whether bin may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Context {
    Body,
    Request,
    Params,
    Messages,
    BatchMessage,
    Columns,
    Column,
    Filter,
    Filters,
    /// Within the parameters.
    Inside,
    /// Not within them: JSON's decoder judges it.
    Outside,
}

impl Context {
    fn of_member(self, name: &[u8]) -> Context {
        match (self, name) {
            (Context::Body | Context::Request, b"params") => Context::Params,
            (Context::Body | Context::Request | Context::Outside, _) => Context::Outside,
            (Context::Params, b"messages") => Context::Messages,
            (Context::Params, b"entry" | b"meta" | b"set") => Context::Columns,
            // Of rows. Other parameters of these names hold no objects.
            (Context::Params, b"key" | b"columns" | b"within" | b"from" | b"to") => {
                Context::Columns
            }
            (Context::Params, b"filter") | (Context::Filter, b"not") => Context::Filter,
            (Context::Filter, b"all" | b"any") => Context::Filters,
            (Context::Filter, b"value") => Context::Column,
            (Context::BatchMessage, b"entry") => Context::Columns,
            (Context::Columns, _) => Context::Column,
            _ => Context::Inside,
        }
    }

    fn of_item(self) -> Context {
        match self {
            Context::Body => Context::Request,
            Context::Request | Context::Outside => Context::Outside,
            Context::Messages => Context::BatchMessage,
            Context::Filters => Context::Filter,
            _ => Context::Inside,
        }
    }

    fn of_name(self) -> Context {
        match self.is_in_params() {
            true => Context::Inside,
            false => Context::Outside,
        }
    }

    fn is_in_params(self) -> bool {
        !matches!(self, Context::Body | Context::Request | Context::Outside)
    }
}

/// Writes a frame as JSON text, `null` for what JSON can't say.
struct Writer<'a> {
    body: &'a [u8],
    out: Vec<u8>,
    /// From the parameters to the value that is read.
    path: Vec<Step>,
    /// Where the parameters that are read begin in the text.
    params_at: Option<usize>,
    /// The number of the call that is read.
    call: usize,
    /// Why calls are refused, the first reason of each.
    failures: Vec<(usize, Failure)>,
}

enum Step {
    /// Where the name is in the text.
    Name(usize),
    Index(usize),
}

impl<'a> Writer<'a> {
    fn value(&mut self, context: Context) -> Value<'_, 'a> {
        Value {
            writer: self,
            context,
        }
    }

    /// What becomes of a frame that could not be read to its end. A call whose parameters are too deep is refused by
    /// its id, if that came before them.
    fn unreadable(mut self, error: &Error, limits: &Limits) -> Result<Body, Failure> {
        let (Error::DepthLimitExceeded, Some(params_at)) = (error, self.params_at) else {
            return Err(Failure::new(Reason::ParseError).saying(error.to_string()));
        };
        let limit = limits.json_depth_max;
        let failure = Failure::too_large("params", "json_depth_max", limit, DEPTH_MAX as u64);
        self.out.truncate(params_at);
        self.out.extend_from_slice(b"null}");
        match decode_json(&self.out, limits) {
            Ok(Body::Single(mut call)) if call.id.as_ref().is_some_and(|id| *id != Id::Null) => {
                call.request = Err(failure);
                Ok(Body::Single(call))
            }
            _ => Err(failure),
        }
    }

    fn scalar<E>(&mut self, value: &impl Serialize) -> Result<(), E> {
        serde_json::to_writer(&mut self.out, value).expect("a scalar, into memory");
        Ok(())
    }

    fn refuse<E>(&mut self, context: Context, reason: Reason, why: &'static str) -> Result<(), E> {
        let is_first = self
            .failures
            .last()
            .is_none_or(|(call, _)| *call != self.call);
        if context.is_in_params() && is_first {
            let mut failure = Failure::new(reason).saying(why);
            if reason == Reason::InvalidParams {
                failure = failure.about(self.field());
            }
            self.failures.push((self.call, failure));
        }
        self.scalar(&())
    }

    fn field(&self) -> String {
        let mut field = String::new();
        for step in &self.path {
            match step {
                Step::Name(at) => {
                    let text = serde_json::Deserializer::from_slice(&self.out[*at..]);
                    let name: Option<String> = text.into_iter().next().and_then(Result::ok);
                    let dot = if field.is_empty() { "" } else { "." };
                    field = format!("{field}{dot}{}", name.unwrap_or_default());
                }
                Step::Index(index) => field = format!("{field}[{index}]"),
            }
        }
        if field.is_empty() {
            field.push_str("params");
        }
        field
    }

    /// Ends an array or object, in which a comma follows each item.
    fn close(&mut self, bracket: u8) {
        if self.out.last() == Some(&b',') {
            self.out.pop();
        }
        self.out.push(bracket);
    }

    /// Whether these are the bytes of a bin: the reader hands out a text that is not UTF-8 as bytes too, and only the
    /// length before them, which each kind of value has in a form of its own, is different.
    fn is_bin(&self, bytes: &[u8]) -> bool {
        let at = bytes.as_ptr().addr() - self.body.as_ptr().addr();
        let before = &self.body[..at];
        let [.., four, three, two, one] = bytes.len().to_be_bytes();
        before.ends_with(&[0xc6, four, three, two, one])
            || (bytes.len() < 1 << 16 && before.ends_with(&[0xc5, two, one]))
            || (bytes.len() < 1 << 8 && before.ends_with(&[0xc4, one]))
    }
}

/// A value that is to be read and written.
struct Value<'w, 'a> {
    writer: &'w mut Writer<'a>,
    context: Context,
}

impl<'a> DeserializeSeed<'a> for Value<'_, 'a> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'a>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Value<'_, 'a> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.writer.scalar(&())
    }

    fn visit_bool<E>(self, truth: bool) -> Result<(), E> {
        self.writer.scalar(&truth)
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.writer.scalar(&number)
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.writer.scalar(&number)
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        if number.is_finite() {
            return self.writer.scalar(&number);
        }
        let (context, reason) = (self.context, Reason::InvalidParams);
        self.writer.refuse(context, reason, "NaN or infinity")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.writer.scalar(&text)
    }

    fn visit_borrowed_bytes<E>(self, bytes: &'a [u8]) -> Result<(), E> {
        let Value { writer, context } = self;
        if !writer.is_bin(bytes) {
            return writer.refuse(context, Reason::ParseError, "a text that is not UTF-8");
        }
        if context != Context::Column {
            let why = "bin is only a value of an entry, not nested";
            return writer.refuse(context, Reason::InvalidParams, why);
        }
        writer.out.extend_from_slice(br#"{"$binary":""#);
        writer
            .out
            .extend_from_slice(BASE64.encode(bytes).as_bytes());
        writer.out.extend_from_slice(br#""}"#);
        Ok(())
    }

    fn visit_newtype_struct<D: de::Deserializer<'a>>(self, ext: D) -> Result<(), D::Error> {
        IgnoredAny::deserialize(ext)?;
        let (context, reason) = (self.context, Reason::InvalidParams);
        self.writer.refuse(context, reason, "ext is not a value")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<(), A::Error> {
        let Value { writer, context } = self;
        writer.out.push(b'[');
        for index in 0.. {
            if context == Context::Body {
                writer.call = index;
            }
            writer.path.push(Step::Index(index));
            let item = seq.next_element_seed(writer.value(context.of_item()))?;
            writer.path.pop();
            if item.is_none() {
                break;
            }
            writer.out.push(b',');
        }
        writer.close(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let Value { writer, context } = self;
        writer.out.push(b'{');
        loop {
            let start = writer.out.len();
            let of_name = context.of_name();
            if map.next_key_seed(writer.value(of_name))?.is_none() {
                break;
            }
            if writer.out[start] != b'"' {
                let why = "names of a map must be texts";
                writer.refuse(of_name, Reason::InvalidParams, why)?;
                writer.out.truncate(start);
                writer.out.extend_from_slice(br#""""#);
            }
            let inner = context.of_member(&writer.out[start + 1..writer.out.len() - 1]);
            writer.out.push(b':');
            let depth = writer.path.len();
            match context.is_in_params() {
                true => writer.path.push(Step::Name(start)),
                false => writer.path.clear(),
            }
            if inner == Context::Params {
                writer.params_at = Some(writer.out.len());
            }
            map.next_value_seed(writer.value(inner))?;
            if inner == Context::Params {
                writer.params_at = None;
            }
            writer.path.truncate(depth);
            writer.out.push(b',');
        }
        writer.close(b'}');
        Ok(())
    }
}
