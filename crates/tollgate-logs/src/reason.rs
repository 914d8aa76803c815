//! The reason why a line cannot be read.

/// The reason why a line cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    TooLong,
    Shape,
    Json,
    Columns,
    NoTime,
    Time,
    /// The time has no zone, and none is set. It ends reading.
    NoZone,
    /// The header of a table lacks the time, or a column that an attribute needs. It ends reading.
    NoField,
    Status,
    Number,
    Prefix,
    /// The log ends within a line that its driver has split.
    Part,
    /// The client's place has a list, a text, or a name where no other line has one.
    Client,
    /// An address stands in another place as well.
    Clients,
}

impl Reason {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::TooLong => "the line is longer than 64 KiB",
            Self::Shape => "the line does not match the format",
            Self::Json => "the line is not a JSON object",
            Self::Columns => "the line does not have the columns of the header",
            Self::NoTime => "the line has no time",
            Self::Time => "the time is invalid",
            Self::NoZone => "the time has no zone",
            Self::NoField => "the header lacks a column",
            Self::Status => "the status is invalid",
            Self::Number => "the number of bytes or the duration is invalid",
            Self::Client => "the client is not one address",
            Self::Clients => "another address may be the client",
            Self::Part => "the last part of the line is missing",
            Self::Prefix => "the log driver's prefix is missing",
        }
    }
}

/// The kind of a readable line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    /// A header, a comment, or a message of another kind.
    Other,
    /// An object of JSON that has no field of a request that is known. It may be one of a format that nobody knows.
    Unknown,
}
