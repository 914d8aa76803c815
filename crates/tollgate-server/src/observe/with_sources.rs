//! Errors in one line, with their causes.

use std::error::Error;
use std::fmt;

/// An error, followed by each of its sources, because an error with a source only describes its own failure.
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
