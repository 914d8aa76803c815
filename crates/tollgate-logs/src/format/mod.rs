//! Formats of logs.

mod apache;
mod audit;
mod detect;
mod envelope;
mod json;
mod line_counts;
mod nginx;
mod parser;
mod parts;
mod prefix;
mod proposal;
mod rows;
mod sampled;
mod scanner;
mod syslog;
mod table;
mod template;
mod wrapping;

use std::str::FromStr;

use thiserror::Error;

pub(crate) use self::audit::{ClientReading, Unclear};
pub(crate) use self::detect::{DetectedFormat, Miss, detect};
use self::json::Objects;
pub(crate) use self::parser::Parser;
pub(crate) use self::proposal::propose;
use self::rows::ROWS;
use self::scanner::Tail;
use self::table::Style;
use self::template::Template;
use crate::escape::Escape;

/// A format of logs: one that is known by its name, or one that a user pastes from the server's configuration.
///
/// ```
/// use tollgate_logs::Format;
///
/// let named: Format = "nginx-combined".parse()?;
/// assert_eq!(named.name(), "nginx-combined");
/// let pasted: Format = r#"log_format main '$remote_addr [$time_local] "$request" $status';"#.parse()?;
/// assert_eq!(pasted.name(), "log_format main");
/// let pasted: Format = r#"LogFormat "%h %t \"%r\" %>s" short"#.parse()?;
/// assert_eq!(pasted.name(), "LogFormat short");
/// assert!("nginx-combinde".parse::<Format>().is_err());
/// # Ok::<(), tollgate_logs::FormatError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Format {
    name: String,
    shape: FormatShape,
}

/// A format of log lines.
#[derive(Debug, Clone)]
enum FormatShape {
    Template(Template),
    Objects(Objects),
    Table(Style),
}

/// An unknown or invalid format. The user can correct it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// No format has this name.
    #[error("unknown format {0:?}; expected {names}, an nginx log_format or an Apache LogFormat",
        names = Format::names().collect::<Vec<_>>().join(", "))]
    Unknown(String),
    /// A quote is missing or is never closed.
    #[error("a quote of the format is never closed, or the format is not quoted")]
    Quote,
    /// The directive `log_format` ends before its name.
    #[error("log_format has no name")]
    NoName,
    /// nginx has no such escape.
    #[error("unknown escape {0:?}: expected default, json or none")]
    Escape(String),
    /// A `$` is not followed by a name.
    #[error("expected the name of a variable after $, found {0:?}")]
    Variable(String),
    /// A `%` is not followed by a directive.
    #[error("invalid directive {0:?}")]
    Directive(String),
    /// Two fields have nothing between them, so the end of the first cannot be found. A path after a host or a port
    /// begins at its `/`, and a query after a path at its `?`.
    #[error("there is nothing between {0} and {1}, so the end of {0} cannot be found")]
    Adjacent(String, String),
}

impl Format {
    /// Returns its name: `nginx-combined`, or `log_format NAME` of one that was pasted.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the names of all known formats.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ROWS.iter().map(|row| row.name)
    }

    /// Whether its lines are texts with fields in a fixed place.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.shape, FormatShape::Template(_))
    }

    fn pasted(name: String, template: Template) -> Self {
        Self { name, shape: FormatShape::Template(template) }
    }
}

/// Reads a name, the directive `log_format` or `LogFormat`, or the text of one.
impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let text = text.trim();
        if let Some(row) = ROWS.iter().find(|row| row.name == text) {
            return row.format();
        }
        match text.split_whitespace().next() {
            Some("log_format") => {
                let (name, template) = nginx::directive(text)?;
                Ok(Self::pasted(format!("log_format {name}"), template))
            }
            Some("LogFormat") => {
                let (name, template) = apache::directive(text)?;
                Ok(Self::pasted(format!("LogFormat {name}"), template))
            }
            _ if text.contains('$') => {
                let template = nginx::template(text, Escape::Backslash, Tail::Nothing)?;
                Ok(Self::pasted("log_format".to_owned(), template))
            }
            _ if text.contains('%') => {
                Ok(Self::pasted("LogFormat".to_owned(), apache::template(text, Tail::Nothing)?))
            }
            _ => Err(FormatError::Unknown(text.to_owned())),
        }
    }
}
