//! Errors in one line, with what caused them.

use std::error::Error;
use std::fmt;

/// An error, and behind it each of its sources: an error that has one says only what failed itself.
pub(crate) struct WithSources<'a>(pub(crate) &'a (dyn Error + 'static));

impl fmt::Display for WithSources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}
