//! What the scripted server does with a request.

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// What the server does with a request.
#[derive(Debug, Clone)]
pub(super) enum ScriptedReply {
    Answer(HttpAnswer),
    /// Sends these bytes and closes the connection.
    Bytes(Vec<u8>),
    /// Sends the answer byte by byte, with this pause after each.
    Trickle(HttpAnswer, Duration),
    /// Sends nothing, and leaves the connection open.
    Silence,
    /// Closes the connection.
    Close,
}

/// An answer in HTTP.
#[derive(Debug, Clone)]
pub(super) struct HttpAnswer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    framing: BodyFraming,
    delay: Duration,
    pub(super) then: AfterAnswer,
}

/// How the answer says where its body ends.
#[derive(Debug, Clone, Copy)]
enum BodyFraming {
    Length,
    Chunks,
}

/// What happens to the connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterAnswer {
    Keep,
    /// It is closed, which the answer did not announce.
    Close,
}

impl HttpAnswer {
    /// Returns an answer of the service.
    pub(super) fn json(status: u16, body: &Value) -> Self {
        let kind = if status < 400 { "application/json" } else { "application/problem+json" };
        Self::text(status, kind, body.to_string())
    }

    pub(super) fn text(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("Content-Type", kind.to_owned())],
            body: body.into(),
            framing: BodyFraming::Length,
            delay: Duration::ZERO,
            then: AfterAnswer::Keep,
        }
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sends the body in chunks instead of announcing its length.
    pub(super) fn in_chunks(self) -> Self {
        Self { framing: BodyFraming::Chunks, ..self }
    }

    /// Waits before it answers.
    pub(super) fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Closes the connection afterwards, without having announced it.
    pub(super) fn then_close(self) -> Self {
        Self { then: AfterAnswer::Close, ..self }
    }

    pub(super) fn reply(self) -> ScriptedReply {
        ScriptedReply::Answer(self)
    }

    pub(super) fn write(&self, stream: &mut impl Write) -> io::Result<()> {
        thread::sleep(self.delay);
        stream.write_all(&self.bytes())
    }

    /// Returns the bytes on the wire.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} Any\r\n", self.status);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        match self.framing {
            BodyFraming::Length => {
                head += &format!("Content-Length: {}\r\n\r\n", self.body.len());
                [head.as_bytes(), &self.body].concat()
            }
            BodyFraming::Chunks => {
                head += "Transfer-Encoding: chunked\r\n\r\n";
                let mut bytes = head.into_bytes();
                for chunk in self.body.chunks(16 << 10) {
                    bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
                    bytes.extend(chunk);
                    bytes.extend(b"\r\n");
                }
                bytes.extend(b"0\r\n\r\n");
                bytes
            }
        }
    }
}
