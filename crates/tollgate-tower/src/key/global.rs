//! All requests together.

use tollgate::Key;

use super::{Extraction, KeyExtractor};
use crate::head::Head;

/// Counts all requests together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Global;

impl KeyExtractor for Global {
    fn extract<'r>(&'r self, _: Head<'r>) -> Extraction<'r> {
        // As policies in a file have it.
        Extraction::Now(Ok(Key::parts(std::iter::empty::<Key<'_>>()).into()))
    }
}
