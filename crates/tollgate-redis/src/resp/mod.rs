//! Commands to a server and its answers, in the second version of
//! [RESP](https://redis.io/docs/latest/develop/reference/protocol-spec/). Servers use it until a client requests
//! another version, and we never do.

mod command;
mod from_reply;
mod reader;

pub(crate) use self::command::{Command, Writer, command};
pub use self::from_reply::FromReply;
pub(crate) use self::reader::Reader;

/// A reply.
#[derive(Debug, Clone, PartialEq)]
pub enum RespValue {
    Nil,
    Int(i64),
    /// A text of one line, such as `OK`.
    Simple(Box<str>),
    /// Any bytes.
    Bulk(Vec<u8>),
    Array(Vec<Self>),
    Error(ServerError),
}

/// An error of the server. Its text may contain keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError(Box<str>);

impl ServerError {
    pub(crate) fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The first word of the text, such as `NOSCRIPT`.
    pub(crate) fn code(&self) -> &str {
        self.0.split_once(' ').map_or(&self.0, |(code, _)| code)
    }

    /// The rest of the text.
    pub(crate) fn details(&self) -> &str {
        self.0.split_once(' ').map_or("", |(_, details)| details)
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}
