//! Errors of layouts, and of windows for them.

use thiserror::Error;

/// An invalid template of keys, or windows that do not fit one. The fault of their author.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A brace is unmatched, or a name is invalid.
    #[error(
        "layout of keys, column {column}: expected a name in braces; braces themselves are {{{{ and }}}}"
    )]
    Brace {
        /// Where, in bytes, from 1.
        column: usize,
    },
    /// A name occurs twice.
    #[error("layout of keys, column {column}: this name occurs twice")]
    Twice {
        /// Where, in bytes, from 1.
        column: usize,
    },
    /// There is no text between two names, so the end of the first is ambiguous.
    #[error("layout of keys, column {column}: there has to be text between two names")]
    Unseparated {
        /// Where, in bytes, from 1.
        column: usize,
    },
    /// The name of a value follows `{*}`, which has taken all values.
    #[error("layout of keys, column {column}: {{*}} leaves no value for this name")]
    AfterRest {
        /// Where, in bytes, from 1.
        column: usize,
    },
    /// There is a digit next to a number, so the number's end is ambiguous.
    #[error("layout of keys, column {column}: there is a digit next to the window")]
    DigitBesideWindow {
        /// Where, in bytes, from 1.
        column: usize,
    },
    /// Keys could be confused with those of other programs.
    #[error("layout of keys: it has to begin with text, or with {{prefix}}")]
    NoHead,
    /// No value identifies the client.
    #[error("layout of keys: it has to name the client, by {{key}} or a name of your own")]
    NoValue,
    /// All windows would share one counter.
    #[error(
        "layout of keys: it has to name the window, as {{window}}, {{window_start}} or {{window_start_ms}}"
    )]
    NoWindow,
    /// The windows do not start at multiples of their length since the epoch.
    #[error("only windows that are aligned to the epoch can be in the layout of keys")]
    NotAligned,
    /// The windows could be over before a key has reached the server.
    #[error("only windows of 100 ms or more can be in the layout of keys")]
    TooShort,
    /// Two windows would start in the same second.
    #[error("only windows of whole seconds can be in the layout of keys, which says their start in seconds")]
    FractionOfSecond,
}
