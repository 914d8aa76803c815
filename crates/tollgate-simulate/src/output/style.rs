//! Colour on a terminal.

/// How text for people is set off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Style {
    /// By nothing: the text has no escape codes.
    #[default]
    Plain,
    /// By weight and colour, with the escape codes that every terminal knows.
    Colored,
}

/// What a text is, and so how it is set off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    /// The answer, and titles.
    Bold,
    /// Denials, and gates that failed.
    Red,
    /// Gates that held.
    Green,
    /// Gates without an answer.
    Yellow,
    /// What one reads last.
    Dim,
}

impl Style {
    /// Returns the text as this style sets it off.
    pub(crate) fn paint(self, paint: Paint, text: &str) -> String {
        let code = match paint {
            _ if self == Self::Plain || text.is_empty() => return text.to_owned(),
            Paint::Bold => 1,
            Paint::Dim => 2,
            Paint::Red => 31,
            Paint::Green => 32,
            Paint::Yellow => 33,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}
