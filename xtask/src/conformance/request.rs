//! Requests as the scripted server reads them: HTTP/1.1, strictly, and without a library that a client may use too.

use std::io::{self, Read};

use serde_json::Value;

use super::strict_json;

/// More than any request of a client has.
const MAX_HEAD: usize = 64 << 10;
const MAX_BODY: usize = 1 << 20;

/// A whole request.
#[derive(Debug, Clone)]
pub(super) struct SeenRequest {
    pub(super) method: String,
    pub(super) path: String,
    /// In their order, with names in lower case.
    headers: Vec<(String, String)>,
    pub(super) body: Value,
}

/// Reads the requests of a connection.
#[derive(Debug)]
pub(super) struct RequestReader<R> {
    stream: R,
    /// What was read and belongs to no request yet.
    buffer: Vec<u8>,
}

impl SeenRequest {
    /// Returns the values of a header, whose name is in lower case.
    pub(super) fn header(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(header, _)| header == name);
        named.map(|(_, value)| value.as_str()).collect()
    }
}

impl<R: Read> RequestReader<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// Waits for the next request. Returns `None` if the client closed the connection before its first byte, and an
    /// error that says what is wrong with it.
    pub(super) fn next(&mut self) -> Result<Option<SeenRequest>, String> {
        let Some(head) = self.head()? else { return Ok(None) };
        let mut lines = head.split("\r\n");
        let line = lines.next().unwrap_or_default();
        let [method, path, "HTTP/1.1"] = line.split(' ').collect::<Vec<_>>()[..] else {
            return Err(format!("the request line is `{line}`"));
        };
        let headers = lines.map(header).collect::<Result<Vec<_>, _>>()?;
        let mut request =
            SeenRequest { method: method.to_owned(), path: path.to_owned(), headers, body: Value::Null };
        let text = self.body(content_length(&request)?)?;
        request.body = strict_json::read(&text)
            .map_err(|error| format!("the body is no JSON ({error}): {}", String::from_utf8_lossy(&text)))?;
        Ok(Some(request))
    }

    /// Returns the request line and the headers, without the empty line at their end.
    fn head(&mut self) -> Result<Option<String>, String> {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end;
            }
            if self.buffer.len() > MAX_HEAD {
                return Err(format!("the head of a request is longer than {MAX_HEAD} bytes"));
            }
            if !self.fill().unwrap_or(false) {
                let part = String::from_utf8_lossy(&self.buffer);
                return if part.is_empty() { Ok(None) } else { Err(format!("only this came: {part}")) };
            }
        };
        let head = self.buffer.drain(..end + 4).take(end).collect();
        String::from_utf8(head).map(Some).map_err(|_| "a header is not UTF-8".to_owned())
    }

    fn body(&mut self, length: usize) -> Result<Vec<u8>, String> {
        while self.buffer.len() < length {
            let is_open = self.fill().map_err(|error| format!("a body cannot be read: {error}"))?;
            if !is_open {
                return Err(format!("{} of {length} bytes of a body came", self.buffer.len()));
            }
        }
        let body = self.buffer.drain(..length).collect();
        if !self.buffer.is_empty() {
            return Err("bytes follow a body before its answer".to_owned());
        }
        Ok(body)
    }

    /// Reads some bytes. Returns whether there were any.
    fn fill(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 8 << 10];
        let length = self.stream.read(&mut bytes)?;
        self.buffer.extend(bytes.iter().take(length));
        Ok(length > 0)
    }
}

/// Reads a line `Name: value`.
fn header(line: &str) -> Result<(String, String), String> {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let is_value = |value: &str| value.chars().all(|c| c == '\t' || c == ' ' || c.is_ascii_graphic());
    match line.split_once(':') {
        Some((name, value)) if is_name(name) && is_value(value) => {
            Ok((name.to_ascii_lowercase(), value.trim().to_owned()))
        }
        _ => Err(format!("a header is `{line}`")),
    }
}

fn content_length(request: &SeenRequest) -> Result<usize, String> {
    if let [encoding, ..] = request.header("transfer-encoding")[..] {
        return Err(format!("the body has the Transfer-Encoding `{encoding}` instead of a Content-Length"));
    }
    let lengths = request.header("content-length");
    let [length] = lengths[..] else { return Err(format!("there are {} Content-Length", lengths.len())) };
    let length = Some(length).filter(|length| length.bytes().all(|byte| byte.is_ascii_digit()));
    let length = length.and_then(|length| length.parse().ok()).filter(|length| *length <= MAX_BODY);
    length.ok_or_else(|| format!("the Content-Length is {lengths:?}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<Option<SeenRequest>, String> {
        RequestReader::new(text.as_bytes()).next()
    }

    #[test]
    fn reads_one_request_after_another() {
        let one = "POST /v1/check HTTP/1.1\r\nHost: a:1\r\nCONTENT-LENGTH: 11\r\n\r\n{\"cost\": 2}";
        // A client sends the second one after the answer.
        let mut reader = RequestReader::new(one.as_bytes().chain(one.as_bytes()));
        for _ in 0..2 {
            let request = reader.next().unwrap().unwrap();
            assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/check"));
            assert_eq!(request.header("host"), ["a:1"]);
            assert_eq!(request.body, json!({"cost": 2}));
        }
        assert!(reader.next().unwrap().is_none());
    }

    #[test]
    fn reads_a_request_that_comes_in_pieces() {
        let text = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}";
        let (one, two) = text.split_at(30);
        let request = RequestReader::new(one.chain(two)).next().unwrap().unwrap();
        assert_eq!(request.body, json!({}));
    }

    #[test]
    fn refuses_what_is_ambiguous_or_cut_short() {
        let error = |text: &str| read(text).unwrap_err();
        let head = "POST / HTTP/1.1\r\n";
        assert_eq!(error("POST  / HTTP/1.1\r\n\r\n"), "the request line is `POST  / HTTP/1.1`");
        assert_eq!(error("POST / HTTP/1.0\r\n\r\n"), "the request line is `POST / HTTP/1.0`");
        assert_eq!(error(&format!("{head}\r\n")), "there are 0 Content-Length");
        let twice = format!("{head}Content-Length: 2\r\nContent-Length: 2\r\n\r\n{{}}");
        assert_eq!(error(&twice), "there are 2 Content-Length");
        assert_eq!(error(&format!("{head}Content-Length: +2\r\n\r\n{{}}")), "the Content-Length is [\"+2\"]");
        assert_eq!(
            error(&format!("{head}Content-Length : 2\r\n\r\n{{}}")),
            "a header is `Content-Length : 2`"
        );
        assert_eq!(error(&format!("{head} folded\r\n\r\n")), "a header is ` folded`");
        let chunked = format!("{head}Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{{}}");
        assert!(error(&chunked).starts_with("the body has the Transfer-Encoding"));
        assert_eq!(error(&format!("{head}Content-Length: 3\r\n\r\n{{}}")), "2 of 3 bytes of a body came");
        let more = format!("{head}Content-Length: 2\r\n\r\n{{}}POST");
        assert_eq!(error(&more), "bytes follow a body before its answer");
        assert!(error(&format!("{head}Content-Length: 1\r\n\r\n{{")).starts_with("the body is no JSON"));
        assert!(error(head).starts_with("only this came"));
    }

    #[test]
    fn a_head_has_a_bound() {
        let long = format!("POST / HTTP/1.1\r\nX: {}", "a".repeat(MAX_HEAD + 100));
        assert!(read(&long).unwrap_err().starts_with("the head of a request is longer"));
    }
}
