//! One request, as a line of a log tells of it.

use std::fmt;

use crate::record::{Bucket, Head};

/// A request that a log tells of. It borrows from the [`Reader`](crate::Reader) until the next one is read.
///
/// Texts are the bytes that the client sent, as far as the log keeps them: escapes of the log format are undone, and
/// nothing else is. So they need not be UTF-8. A field that the log does not have, or has as `-`, is `None`.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub(crate) bucket: &'a Bucket,
    pub(crate) head: &'a Head,
}

impl<'a> Request<'a> {
    /// When the request began, in microseconds since 1970-01-01 00:00 UTC; negative before it.
    ///
    /// A log that writes when requests end is corrected by the duration, if it logs one. Of n requests that a log puts
    /// in one whole second, the i-th (from 0) is put at (i + 0.5) / n of that second. Times never go back from one
    /// request to the next.
    #[must_use]
    pub fn time_micros(&self) -> i64 {
        self.head.time
    }

    /// How exactly the log tells the time.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.head.precision
    }

    /// The client's address, or its name where the server logs names. Without a port.
    #[must_use]
    pub fn ip(&self) -> Option<&'a [u8]> {
        self.text(Field::Ip)
    }

    /// `GET`. `None` if the request line is not one of HTTP.
    #[must_use]
    pub fn method(&self) -> Option<&'a [u8]> {
        self.text(Field::Method)
    }

    /// The path as in the request line, not decoded, without the query. Of an absolute URL it is the path alone.
    #[must_use]
    pub fn path(&self) -> Option<&'a [u8]> {
        self.text(Field::Path)
    }

    /// What follows the first `?` of the request line's target, not decoded. `None` if there is no `?`.
    #[must_use]
    pub fn query(&self) -> Option<&'a [u8]> {
        self.text(Field::Query)
    }

    /// The host that was asked, as logged: perhaps with a port.
    #[must_use]
    pub fn host(&self) -> Option<&'a [u8]> {
        self.text(Field::Host)
    }

    /// The name of the user who logged in.
    #[must_use]
    pub fn user(&self) -> Option<&'a [u8]> {
        self.text(Field::User)
    }

    /// The header `User-Agent`.
    #[must_use]
    pub fn user_agent(&self) -> Option<&'a [u8]> {
        self.text(Field::UserAgent)
    }

    /// The header `Referer`.
    #[must_use]
    pub fn referer(&self) -> Option<&'a [u8]> {
        self.text(Field::Referer)
    }

    /// The status of the response.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.head.status
    }

    /// The bytes that were sent to the client: with headers or without, as the format counts them.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.head.sent.get()
    }

    /// A text field by its name.
    #[must_use]
    pub fn text(&self, field: Field) -> Option<&'a [u8]> {
        self.bucket.text(self.head, field as usize)
    }

    /// The value of an attribute of [`Options::attributes`](crate::Options::attributes), by its place there. `None` if
    /// there is none, or no such attribute. An attribute with the name of a [`Field`] is this field as well.
    #[must_use]
    pub fn attribute(&self, place: usize) -> Option<&'a [u8]> {
        self.bucket.text(self.head, Field::ALL.len().checked_add(place)?)
    }

    /// Which file it is from: a place in [`Summary::files`](crate::Summary::files).
    #[must_use]
    pub fn file(&self) -> usize {
        self.head.file as usize
    }

    /// The number of its line in the file, from 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.head.line
    }
}

impl fmt::Debug for Request<'_> {
    /// Where it is from. What clients sent is left out: it may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Request");
        fields.field("time_micros", &self.head.time).field("file", &self.head.file);
        fields.field("line", &self.head.line).finish_non_exhaustive()
    }
}

/// A text field that many formats have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Field {
    /// [`Request::ip`].
    Ip,
    /// [`Request::method`].
    Method,
    /// [`Request::path`].
    Path,
    /// [`Request::query`].
    Query,
    /// [`Request::host`].
    Host,
    /// [`Request::user`].
    User,
    /// [`Request::user_agent`].
    UserAgent,
    /// [`Request::referer`].
    Referer,
}

impl Field {
    /// All of them, each at its own place.
    pub const ALL: [Self; 8] = [
        Self::Ip,
        Self::Method,
        Self::Path,
        Self::Query,
        Self::Host,
        Self::User,
        Self::UserAgent,
        Self::Referer,
    ];

    /// Its name as an attribute: `user_agent`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Method => "method",
            Self::Path => "path",
            Self::Query => "query",
            Self::Host => "host",
            Self::User => "user",
            Self::UserAgent => "user_agent",
            Self::Referer => "referer",
        }
    }

    /// The field with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }
}

/// How exactly a log tells the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Precision {
    /// To the microsecond, or better.
    Micros,
    /// To the millisecond.
    Millis,
    /// To the second.
    Seconds,
}

/// Which instant of a request a format logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Instant {
    /// Its begin.
    Begin,
    /// Its end. The begin is not known, because the format has no duration.
    End,
    /// Its end, and how long it took. The times that are read are those of the begin.
    EndWithDuration,
    /// nginx would log the end and Apache the begin, and the text of the format is the same. No duration is logged.
    Unknown,
}
