//! One request, as a log line describes it.

use std::fmt;

use crate::field::{Field, Precision};
use crate::record::{Bucket, RecordHead};

/// A logged request. It borrows from its [`Batch`](crate::Batch).
///
/// Texts are the bytes that the client sent, as far as the log keeps them: only escapes of the log format are undone.
/// So they need not be UTF-8. A field that the log does not have, or has as `-`, is `None`.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub(crate) bucket: &'a Bucket,
    pub(crate) head: &'a RecordHead,
}

impl<'a> Request<'a> {
    /// Returns the beginning of the request, in microseconds since 1970-01-01 00:00 UTC; negative before it.
    ///
    /// A log that writes when requests end is corrected by the duration, if it logs one. Of n requests that a log puts
    /// in one whole second, the i-th (from 0) is put at (i + 0.5) / n of that second. Times never go back from one
    /// request to the next.
    #[must_use]
    pub fn time_micros(&self) -> i64 {
        self.head.time
    }

    /// Returns the precision of the log's times.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.head.precision
    }

    /// Returns the client's address, or its name where the server logs names. Without a port.
    #[must_use]
    pub fn ip(&self) -> Option<&'a [u8]> {
        self.text(Field::Ip)
    }

    /// `GET`. `None` if the request line is not one of HTTP.
    #[must_use]
    pub fn method(&self) -> Option<&'a [u8]> {
        self.text(Field::Method)
    }

    /// Returns the path as in the request line, not decoded, without the query. For an absolute URL, it is only the
    /// path.
    #[must_use]
    pub fn path(&self) -> Option<&'a [u8]> {
        self.text(Field::Path)
    }

    /// Returns the text after the first `?` of the request line's target, not decoded. `None` if there is no `?`.
    #[must_use]
    pub fn query(&self) -> Option<&'a [u8]> {
        self.text(Field::Query)
    }

    /// Returns the requested host, as logged: perhaps with a port.
    #[must_use]
    pub fn host(&self) -> Option<&'a [u8]> {
        self.text(Field::Host)
    }

    /// Returns the name of the authenticated user.
    #[must_use]
    pub fn user(&self) -> Option<&'a [u8]> {
        self.text(Field::User)
    }

    /// Returns the header `User-Agent`.
    #[must_use]
    pub fn user_agent(&self) -> Option<&'a [u8]> {
        self.text(Field::UserAgent)
    }

    /// Returns the header `Referer`.
    #[must_use]
    pub fn referer(&self) -> Option<&'a [u8]> {
        self.text(Field::Referer)
    }

    /// Returns the status of the response.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.head.status
    }

    /// Returns the bytes that were sent to the client: with headers or without, as the format counts them.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.head.sent.get()
    }

    /// Returns a text field by its name.
    #[must_use]
    pub fn text(&self, field: Field) -> Option<&'a [u8]> {
        self.bucket.text(self.head, field as usize)
    }

    /// Returns the value of an attribute of [`Options::attributes`](crate::Options::attributes), by its place there.
    /// `None` if there is none, or no such attribute. An attribute with the name of a [`Field`] is this field as well.
    #[must_use]
    pub fn attribute(&self, place: usize) -> Option<&'a [u8]> {
        self.bucket.text(self.head, Field::ALL.len().checked_add(place)?)
    }

    /// Which file it is from: a place in [`Summary::files`](crate::Summary::files).
    #[must_use]
    pub fn file(&self) -> usize {
        self.head.file as usize
    }

    /// Returns the number of its line in the file, from 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.head.line
    }
}

impl fmt::Debug for Request<'_> {
    /// Shows its origin. Data from clients is left out: it may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Request");
        fields.field("time_micros", &self.head.time).field("file", &self.head.file);
        fields.field("line", &self.head.line).finish_non_exhaustive()
    }
}
