//! Errors of layouts, and of windows for them.

use thiserror::Error;

/// An invalid template of keys, or windows that do not fit one. The fault of their author.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A brace is unmatched, or a name is invalid.
    #[error("key layout, column {column}: expected a name in braces; literal braces are {{{{ and }}}}")]
    Brace {
        /// Where, in bytes, from 1.
        column: usize,
    },
    /// A name occurs twice.
    #[error("key layout, column {column}: this name occurs twice")]
    Twice {
        /// Where, in bytes, from 1.
        column: usize,
    },
    /// There is no text between two names, so the end of the first is ambiguous.
    #[error("key layout, column {column}: two names must have text between them")]
    Unseparated {
        /// Where, in bytes, from 1.
        column: usize,
    },
    /// The name of a value follows `{*}`, which takes all values.
    #[error("key layout, column {column}: {{*}} already takes the value for this name")]
    AfterRest {
        /// Where, in bytes, from 1.
        column: usize,
    },
    /// There is a digit next to a number, so the number's end is ambiguous.
    #[error("key layout, column {column}: a digit must not be next to the window")]
    DigitBesideWindow {
        /// Where, in bytes, from 1.
        column: usize,
    },
    /// Keys could be confused with those of other programs.
    #[error("key layout: it must begin with text or {{prefix}}")]
    NoHead,
    /// No value identifies the client.
    #[error("key layout: it must contain the client, as {{key}} or a name of your own")]
    NoValue,
    /// All windows would share one counter.
    #[error("key layout: it must contain the window, as {{window}}, {{window_start}} or {{window_start_ms}}")]
    NoWindow,
    /// The quota does not count in fixed windows. Only [`KeyLayout::RLAAS`](crate::KeyLayout::RLAAS) has logs, too.
    #[error("a key layout can only hold fixed windows, and `rlaas` also logs")]
    NotFixedWindows,
    /// The log is not of single milliseconds.
    #[error("this key layout can only hold logs of single milliseconds, such as 5/1m~log")]
    LogStep,
    /// The log has a larger limit than 256.
    #[error("this key layout can only hold logs with a limit of at most 256")]
    LogLimit,
    /// The windows do not start at multiples of their length since the epoch.
    #[error("a key layout can only hold windows that are aligned to the epoch")]
    NotAligned,
    /// The windows could be over before a key has reached the server.
    #[error("a key layout can only hold windows of 100 ms or more")]
    TooShort,
    /// Two windows would start in the same second.
    #[error(
        "this key layout can only hold windows of whole seconds, because it writes their start in seconds"
    )]
    FractionOfSecond,
}
