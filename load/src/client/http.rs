//! HTTP/1.1 answers in the bytes of a connection that stays open.
//!
//! Owns: where an answer begins and ends. Promises: any bytes are an answer, a reason to wait for more, or an error.
//! Must not: know what was asked; chunked bodies are an error, Tideline sends none.

use std::io;

use httparse::{EMPTY_HEADER, Response, Status};

use super::pipe::Pipe;

/// More headers than any answer has.
const HEADERS_MAX: usize = 64;

/// The status of an answer that has no body, and need not say so.
const NO_CONTENT: u16 = 204;

/// A whole answer.
pub struct Answer<'a> {
    /// 200 and so on.
    pub status: u16,
    /// Names and values.
    pub headers: Vec<(&'a str, &'a [u8])>,
    /// Whole.
    pub body: &'a [u8],
}

impl<'a> Answer<'a> {
    /// An answer without its body, at the start of the bytes, and its length, if it is whole.
    pub fn head(bytes: &'a [u8]) -> io::Result<Option<(Answer<'a>, usize)>> {
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut response = Response::new(&mut headers);
        let Status::Complete(start) = response.parse(bytes).map_err(io::Error::other)? else {
            return Ok(None);
        };
        let headers = response.headers.iter();
        let answer = Answer {
            status: response.code.unwrap_or_default(),
            headers: headers.map(|header| (header.name, header.value)).collect(),
            body: b"",
        };
        Ok(Some((answer, start)))
    }

    /// The answer at the start of the bytes and its length, if it is whole.
    pub fn find(bytes: &'a [u8]) -> io::Result<Option<(Answer<'a>, usize)>> {
        let Some((head, start)) = Answer::head(bytes)? else {
            return Ok(None);
        };
        let length = match head.status {
            NO_CONTENT => Some(0),
            _ => head
                .header("content-length")
                .and_then(|length| length.parse().ok()),
        };
        let length: usize = length.ok_or_else(|| io::Error::other("an answer without length"))?;
        let body = bytes.get(start..start.saturating_add(length));
        Ok(body.map(|body| (Answer { body, ..head }, start + length)))
    }

    /// The value of a header; case is no matter in its name.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        let mut headers = self.headers.iter();
        let (_, value) = headers.find(|(other, _)| other.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }
}

/// Writes a request and gives its answer, which is next on this connection, to `read`.
pub async fn ask<R>(
    pipe: &mut Pipe,
    request: &[u8],
    read: impl Fn(Answer<'_>) -> R,
) -> io::Result<R> {
    let find = |bytes: &[u8]| {
        let found = Answer::find(bytes)?;
        Ok(found.map(|(answer, length)| (read(answer), length)))
    };
    pipe.ask(request, find).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_answer_is_found_and_never_early() {
        let whole = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-a: b\r\n\r\nhi";
        let (answer, length) = Answer::find(whole).expect("legal").expect("whole");
        assert_eq!(
            (answer.status, answer.body, length),
            (200, &b"hi"[..], whole.len())
        );
        assert_eq!(answer.header("x-a"), Some("b"));
        for short in 0..whole.len() {
            assert!(Answer::find(&whole[..short]).expect("legal").is_none());
        }
        assert!(Answer::find(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        let empty = Answer::find(b"HTTP/1.1 204 No Content\r\n\r\n");
        assert!(empty.expect("legal").expect("whole").0.body.is_empty());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let start = b"HTTP/1.1 200 OK\r\n";
            for bytes in [bytes.clone(), [&start[..], &bytes].concat()] {
                if let Ok(Some((_, length))) = Answer::find(&bytes) {
                    prop_assert!(length <= bytes.len());
                }
            }
        }
    }
}
