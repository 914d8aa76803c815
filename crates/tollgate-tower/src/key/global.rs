//! All requests together.

use tollgate::Key;

use super::{Found, KeyExtractor};
use crate::head::Head;

/// Counts all requests together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Global;

impl KeyExtractor for Global {
    fn extract<'r>(&'r self, _: Head<'r>) -> Found<'r> {
        // As policies in a file have it.
        Found::Now(Ok(Key::parts(std::iter::empty::<Key<'_>>()).into()))
    }
}
