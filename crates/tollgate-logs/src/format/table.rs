//! Tables: a line with the names of columns, and lines with their values.

use memchr::{memchr, memchr2};

use crate::draft::Draft;
use crate::escape::Escape;
use crate::meaning::{Meaning, USUAL, W3C};
use crate::plan::{Dialect, FieldUse, Plan};
use crate::reason::{Kind, Reason};

/// How a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// RFC 4180, with the names in the first line. No value spans lines.
    Separated(u8),
    /// W3C's extended format: names follow `#Fields:`, which may stand in a file several times. Values are separated by
    /// tabs (CloudFront) or blanks (IIS).
    W3c,
}

/// A table while it is read.
#[derive(Debug)]
pub(crate) struct Table {
    style: Style,
    /// The line with the names, as it was read last.
    header: Vec<u8>,
    /// The use of each column. `None` before the header.
    columns: Option<Vec<FieldUse>>,
    /// The column that the header lacks.
    pub(crate) missing: Option<String>,
    /// Whether all columns for the client have to be the same.
    pub(crate) is_watched: bool,
}

impl Style {
    pub(crate) fn dialect(self) -> Dialect {
        match self {
            Self::Separated(_) => Dialect {
                names: USUAL,
                header: |name| Some(format!("http_{}", name.to_ascii_lowercase().replace('-', "_"))),
            },
            Self::W3c => {
                Dialect { names: W3C, header: |name| Some(format!("cs({})", name.to_ascii_lowercase())) }
            }
        }
    }
}

impl Table {
    pub(crate) fn new(style: Style) -> Self {
        Self { style, header: Vec::new(), columns: None, missing: None, is_watched: false }
    }

    pub(crate) fn read(&mut self, plan: &Plan, line: &[u8], draft: &mut Draft) -> Result<Kind, Reason> {
        match self.style {
            Style::W3c => {
                if let Some(comment) = line.strip_prefix(b"#") {
                    return match comment.strip_prefix(b"Fields:") {
                        Some(names) if names != self.header => self.begin(plan, names),
                        _ => Ok(Kind::Other),
                    };
                }
                let separator = if memchr(b'\t', line).is_some() { b'\t' } else { b' ' };
                self.row(plan, line, separator, draft)
            }
            Style::Separated(_) if self.columns.is_none() => self.begin(plan, line),
            // The header of another file that was appended.
            Style::Separated(_) if line == self.header => Ok(Kind::Other),
            Style::Separated(separator) => self.row(plan, line, separator, draft),
        }
    }

    /// Takes the names of the columns.
    fn begin(&mut self, plan: &Plan, names: &[u8]) -> Result<Kind, Reason> {
        let mut all = Vec::new();
        let mut rest = names;
        match self.style {
            Style::W3c => all.extend(names.split(u8::is_ascii_whitespace).filter(|name| !name.is_empty())),
            Style::Separated(separator) => {
                while let Some((name, after, _)) = value(rest, separator) {
                    all.push(name);
                    let Some(after) = after else { break };
                    rest = after;
                }
            }
        }
        let all = all.iter().map(|name| String::from_utf8_lossy(name).trim().to_ascii_lowercase());
        let all: Vec<String> = all.collect();
        match plan.resolve(&all, &self.style.dialect(), |_| None) {
            Ok(mut columns) => {
                let known = self.style.dialect().names;
                let is_client = |name: &String| {
                    known.iter().any(|(known, meaning)| known == name && *meaning == Meaning::Address)
                };
                for (used, name) in columns.iter_mut().zip(&all).filter(|_| self.is_watched) {
                    used.is_other_client = used.meaning.is_none() && is_client(name);
                }
                self.columns = Some(columns);
                self.header = names.to_vec();
                Ok(Kind::Other)
            }
            Err(missing) => {
                self.missing = Some(missing);
                Err(Reason::NoField)
            }
        }
    }

    fn row(&self, plan: &Plan, line: &[u8], separator: u8, draft: &mut Draft) -> Result<Kind, Reason> {
        let columns = self.columns.as_ref().ok_or(Reason::Columns)?;
        let mut rest = Some(line);
        for used in columns {
            let (text, after, is_quoted) =
                rest.and_then(|rest| value(rest, separator)).ok_or(Reason::Columns)?;
            rest = after;
            let escape = self.escape(used, separator, is_quoted);
            if used.is_other_client {
                draft.watch_client(text, escape);
            }
            draft.put(plan, used, text, escape)?;
        }
        // IIS writes names of users with blanks as they are: then there is one column too many.
        if rest.is_some_and(|rest| !rest.trim_ascii().is_empty()) {
            Err(Reason::Columns)
        } else {
            Ok(Kind::Request)
        }
    }

    fn escape(&self, used: &FieldUse, separator: u8, is_quoted: bool) -> Escape {
        let is_text = matches!(
            used.meaning,
            Some(Meaning::UserAgent | Meaning::Referer | Meaning::User | Meaning::Host | Meaning::Forwarded)
                | None
        );
        match self.style {
            _ if is_quoted => Escape::Doubled,
            Style::W3c if is_text && separator == b'\t' => Escape::Percent,
            Style::W3c if is_text => Escape::Plus,
            _ => Escape::None,
        }
    }
}

/// A value, what follows its separator, and whether it was quoted.
type TableValue<'r> = (&'r [u8], Option<&'r [u8]>, bool);

/// The first value. `None` if a quote is never closed.
fn value(rest: &[u8], separator: u8) -> Option<TableValue<'_>> {
    let Some(quoted) = rest.strip_prefix(b"\"") else {
        return Some(match memchr(separator, rest) {
            Some(at) => (rest.get(..at)?, Some(rest.get(at + 1..)?), false),
            None => (rest, None, false),
        });
    };
    let mut from = 0;
    loop {
        let at = from + memchr(b'"', quoted.get(from..)?)?;
        match quoted.get(at + 1) {
            Some(b'"') => from = at + 2,
            None => return Some((quoted.get(..at)?, None, true)),
            Some(&next) if next == separator => {
                return Some((quoted.get(..at)?, Some(quoted.get(at + 2..)?), true));
            }
            Some(_) => return None,
        }
    }
}

/// Returns whether this may be the first line of a table with this separator: several short names.
pub(crate) fn may_be_header(line: &[u8], separator: u8) -> bool {
    line.split(|&byte| byte == separator).count() > 2 && memchr2(b'{', b'[', line).is_none()
}
