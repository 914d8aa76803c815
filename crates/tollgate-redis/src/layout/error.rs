//! What can be wrong with a layout, or with windows for it.

use thiserror::Error;

/// What is wrong with a template of keys, or with windows that are to be in them. Whoever wrote either can mend it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A brace opens no name, closes none, or a name is none.
    #[error(
        "layout of keys, column {column}: expected a name in braces; braces themselves are {{{{ and }}}}"
    )]
    Brace {
        /// Where, in bytes, from 1.
        column: usize,
    },
    /// A name stands twice.
    #[error("layout of keys, column {column}: this name stands twice")]
    Twice {
        /// Where, in bytes, from 1.
        column: usize,
    },
    /// There is nothing between two names, so nobody could tell where one ends.
    #[error("layout of keys, column {column}: there has to be text between two names")]
    Unseparated {
        /// Where, in bytes, from 1.
        column: usize,
    },
    /// There is a digit beside a number, so nobody could tell where it ends.
    #[error("layout of keys, column {column}: there is a digit beside the window")]
    DigitBesideWindow {
        /// Where, in bytes, from 1.
        column: usize,
    },
    /// Keys would not be told from those of others.
    #[error("layout of keys: it has to begin with text, or with {{prefix}}")]
    NoHead,
    /// Nobody would be counted.
    #[error("layout of keys: it has to name who is counted, as {{key}} or a name of your own")]
    NoValue,
    /// All windows would be one.
    #[error(
        "layout of keys: it has to name the window, as {{window}}, {{window_start}} or {{window_start_ms}}"
    )]
    NoWindow,
    /// The windows start elsewhere than at multiples of their length since the epoch.
    #[error("only windows that are aligned to the epoch can be in the layout of keys")]
    NotAligned,
    /// The windows could be over before a key has reached the server.
    #[error("only windows of 100 ms or more can be in the layout of keys")]
    TooShort,
    /// Two windows would start in the same second.
    #[error("only windows of whole seconds can be in the layout of keys, which says their start in seconds")]
    FractionOfSecond,
}
