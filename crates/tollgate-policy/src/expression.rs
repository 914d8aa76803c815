//! Regular expressions.

use std::fmt;

use regex::{Regex, RegexBuilder};
use thiserror::Error;

/// A regular expression, which must match the whole value.
///
/// Its syntax is that of the crate [`regex`]. It has no look-around and no back-references, so the time for a value
/// depends only on its length.
///
/// # Examples
///
/// ```
/// use tollgate_policy::Expression;
///
/// let version = Expression::new("/v[0-9]+/users/[0-9a-f]{8}", false)?;
/// assert!(version.fits("/v2/users/0123abcd"));
/// assert!(!version.fits("/v2/users/0123abcd/photos"));
/// assert!(Expression::new("(", false).is_err());
/// # Ok::<(), tollgate_policy::ExpressionError>(())
/// ```
#[derive(Clone)]
pub struct Expression {
    text: Box<str>,
    ignores_case: bool,
    regex: Regex,
}

/// An expression that cannot be used. The fault of its author.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExpressionError {
    /// It is longer than [`Expression::MAX_CHARACTERS`].
    #[error("a regular expression has at most {} characters", Expression::MAX_CHARACTERS)]
    TooLong,
    /// It would take more than [`Expression::MAX_COMPILED`] bytes.
    #[error("the regular expression would take more than {} KiB: repeat less", Expression::MAX_COMPILED / 1024)]
    TooLarge,
    /// It is not a regular expression.
    #[error("not a regular expression: {0}")]
    Syntax(Box<str>),
}

impl Expression {
    /// Characters that it may have.
    pub const MAX_CHARACTERS: usize = 1_000;

    /// The maximum size of a compiled expression, in bytes.
    pub const MAX_COMPILED: usize = 256 * 1024;

    /// Compiles an expression.
    ///
    /// # Errors
    ///
    /// If it is not a regular expression, too long, or too large once compiled.
    pub fn new(text: &str, ignores_case: bool) -> Result<Self, ExpressionError> {
        if text.chars().count() > Self::MAX_CHARACTERS {
            return Err(ExpressionError::TooLong);
        }
        // By itself first: a `)` too many would close the group that makes it fit as a whole.
        let compiled = |text: &str| {
            RegexBuilder::new(text)
                .case_insensitive(ignores_case)
                .size_limit(Self::MAX_COMPILED)
                .dfa_size_limit(Self::MAX_COMPILED)
                .build()
        };
        let regex = compiled(text).and_then(|_| compiled(&format!(r"\A(?:{text})\z")));
        match regex {
            Ok(regex) => Ok(Self { text: text.into(), ignores_case, regex }),
            Err(regex::Error::CompiledTooBig(_)) => Err(ExpressionError::TooLarge),
            Err(error) => {
                // The last line says what is wrong, those before it repeat the expression.
                let words = error.to_string();
                let last = words.lines().last().unwrap_or_default();
                Err(ExpressionError::Syntax(last.strip_prefix("error: ").unwrap_or(last).into()))
            }
        }
    }

    /// Returns whether it fits the whole text.
    #[must_use]
    pub fn fits(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// Returns the expression as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether upper and lower case are the same to it.
    #[must_use]
    pub const fn ignores_case(&self) -> bool {
        self.ignores_case
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, self.ignores_case) == (&other.text, other.ignores_case)
    }
}

impl Eq for Expression {}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.text).field(&self.ignores_case).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fits_as_a_whole_or_not_at_all() {
        let fits = |text: &str, value: &str| Expression::new(text, false).unwrap().fits(value);
        assert!(fits("a|b", "a") && fits("a|b", "b") && !fits("a|b", "ab"));
        assert!(!fits("a", "a\n") && !fits("a", "\na") && fits("a.c", "abc"));
        assert!(fits("", "") && !fits("", "a"));
        assert!(Expression::new("é", true).unwrap().fits("É"));
    }

    #[test]
    fn expressions_that_cannot_be_compiled_are_reported_and_bounded() {
        let error = |text: &str| Expression::new(text, false).unwrap_err();
        assert_eq!(error("a)(b"), ExpressionError::Syntax("unopened group".into()));
        assert_eq!(error(&"a".repeat(1_001)), ExpressionError::TooLong);
        assert_eq!(error("(((a{100}){100}){100})"), ExpressionError::TooLarge);
        assert!(matches!(error("(?=a)"), ExpressionError::Syntax(_)));
    }
}
