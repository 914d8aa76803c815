//! The text fields of requests, and what logs say of their times.

/// A text field that many formats have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Field {
    /// [`Request::ip`](crate::Request::ip).
    Ip,
    /// [`Request::method`](crate::Request::method).
    Method,
    /// [`Request::path`](crate::Request::path).
    Path,
    /// [`Request::query`](crate::Request::query).
    Query,
    /// [`Request::host`](crate::Request::host).
    Host,
    /// [`Request::user`](crate::Request::user).
    User,
    /// [`Request::user_agent`](crate::Request::user_agent).
    UserAgent,
    /// [`Request::referer`](crate::Request::referer).
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

    /// Returns its name as an attribute: `user_agent`.
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

    /// Returns the field with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }
}

/// The precision of a log's times.
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
    /// Its end. The beginning is not known, because the format has no duration.
    End,
    /// Its end, and how long it took. The times that are read are those of the beginning.
    EndWithDuration,
    /// nginx would log the end and Apache the beginning, but the text of the format is the same. No duration is logged.
    Unknown,
}
