//! `LogFormat` of Apache, as written in the configuration.

use super::FormatError;
use super::scanner::Tail;
use super::template::{Part, Template};
use crate::attribute::TimeForm;
use crate::escape::Escape;
use crate::field::Instant;
use crate::meaning::{APACHE, Meaning};
use crate::plan::Dialect;

pub(crate) const DIALECT: Dialect = Dialect { names: APACHE, header };

/// `X-Api-Key` is `{x-api-key}i`.
fn header(name: &str) -> Option<String> {
    Some(format!("{{{}}}i", name.to_ascii_lowercase()))
}

/// Reads `LogFormat "TEXT" NAME`, and returns the name with the template.
pub(super) fn directive(text: &str) -> Result<(String, Template), FormatError> {
    let rest = text.get("LogFormat".len()..).unwrap_or_default().trim_start();
    let Some(quoted) = rest.strip_prefix('"') else { return Err(FormatError::Quote) };
    let mut whole = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next().ok_or(FormatError::Quote)? {
            '"' => break,
            '\\' => match characters.next().ok_or(FormatError::Quote)? {
                '"' => whole.push('"'),
                // Others are escapes of the format itself.
                other => whole.extend(['\\', other]),
            },
            other => whole.push(other),
        }
    }
    let name = characters.as_str().split_whitespace().next().unwrap_or("without a name");
    Ok((name.to_owned(), template(&whole, Tail::Nothing)?))
}

/// Reads the text of a format, with directives such as `%>s` and `%{Referer}i`.
pub(super) fn template(text: &str, tail: Tail) -> Result<Template, FormatError> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['%', '\\']) {
        let (before, from) = rest.split_at(at);
        Template::push_text(&mut parts, before.as_bytes());
        let length = match from.strip_prefix('%') {
            Some("") => return Err(FormatError::Directive(from.to_owned())),
            Some(after) if after.starts_with('%') => {
                Template::push_text(&mut parts, b"%");
                2
            }
            Some(after) => 1 + directive_at(after, &mut parts)?,
            None => escape_at(from, &mut parts),
        };
        rest = from.get(length..).unwrap_or_default();
    }
    Template::push_text(&mut parts, rest.as_bytes());
    let template = Template {
        parts,
        escape: Escape::Backslash,
        dialect: DIALECT,
        meaning: time_by_pattern,
        tail,
        own: None,
    };
    match template.adjacent() {
        Some((first, second)) => Err(FormatError::Adjacent(format!("%{first}"), format!("%{second}"))),
        None => Ok(template),
    }
}

/// Reads a directive after its `%`, and returns its length. Conditions (`%400,501{User-agent}i`, `%!200u`) only say
/// when there is a `-` instead.
fn directive_at(after: &str, parts: &mut Vec<Part>) -> Result<usize, FormatError> {
    let wrong = || FormatError::Directive(format!("%{}", after.chars().take(20).collect::<String>()));
    let conditions = |character: char| !(character.is_ascii_digit() || character == ',' || character == '!');
    let start = after.find(conditions).ok_or_else(wrong)?;
    let (_, mut rest) = after.split_at(start);
    // Which of an internally redirected request is meant. It says so only of the status.
    let mut is_last = false;
    while let Some(next) = rest.strip_prefix(['<', '>']) {
        is_last = rest.starts_with('>');
        rest = next;
    }
    let (argument, rest) = match rest.strip_prefix('{') {
        Some(inner) => {
            let (argument, rest) = inner.split_once('}').ok_or_else(wrong)?;
            (Some(argument), rest)
        }
        None => (None, rest),
    };
    // `%^ti` and `%^to` are trailers.
    let letters = if rest.starts_with('^') { 3 } else { 1 };
    let letter = rest.get(..letters).filter(|letter| letter.is_ascii()).ok_or_else(wrong)?;
    let name = match (argument, letter) {
        // `%t` has its brackets itself.
        (None, "t") => {
            Template::push_text(parts, b"[");
            parts.push(Part::Field("t".to_owned()));
            Template::push_text(parts, b"]");
            return Ok(after.len() - rest.len() + letters);
        }
        (Some(argument @ ("begin" | "end")), "t") => {
            Template::push_text(parts, b"[");
            parts.push(Part::Field(format!("{{{argument}}}t")));
            Template::push_text(parts, b"]");
            return Ok(after.len() - rest.len() + letters);
        }
        (None, "s") if is_last => ">s".to_owned(),
        (None, letter) => letter.to_owned(),
        (Some(argument), "i") => format!("{{{}}}i", argument.to_ascii_lowercase()),
        (Some("c"), "a") => "{c}a".to_owned(),
        (Some(argument), "t") => with_time_before(argument, parts),
        (Some(argument), letter) => format!("{{{argument}}}{letter}"),
    };
    parts.push(Part::Field(name));
    Ok(after.len() - rest.len() + letters)
}

/// Reads an escape of the format, and returns its length.
fn escape_at(from: &str, parts: &mut Vec<Part>) -> usize {
    let text: &[u8] = match from.as_bytes().get(1) {
        Some(b't') => b"\t",
        Some(b'n') => b"\n",
        Some(b'\\') => b"\\",
        Some(b'"') => b"\"",
        _ => {
            Template::push_text(parts, b"\\");
            return 1;
        }
    };
    Template::push_text(parts, text);
    2
}

/// Joins a part of a time with the parts before it, as in Apache's example `%{%d/%b/%Y %T}t.%{msec_frac}t %{%z}t`.
/// Returns the name of the whole.
fn with_time_before(argument: &str, parts: &mut Vec<Part>) -> String {
    let part = if matches!(argument, "msec_frac" | "usec_frac") { "%f" } else { argument };
    let before = match parts.as_slice() {
        [.., Part::Field(before), Part::Text(text)] => before
            .strip_prefix("{%")
            .and_then(|before| before.strip_suffix("}t"))
            .zip(std::str::from_utf8(text).ok().filter(|text| !text.contains(['%', '"']))),
        _ => None,
    };
    match before.filter(|_| part.starts_with('%')) {
        Some((before, text)) => {
            let whole = format!("{{%{before}{text}{part}}}t");
            parts.truncate(parts.len() - 2);
            whole
        }
        None => format!("{{{argument}}}t"),
    }
}

/// `{%d/%b/%Y %T}t`, a pattern of `strftime`. It is the beginning, unless it is `{end:...}t`.
fn time_by_pattern(name: &str) -> Option<Meaning> {
    let pattern = name.strip_prefix('{')?.strip_suffix("}t")?;
    let (pattern, instant) = match pattern.strip_prefix("end:") {
        Some(pattern) => (pattern, Instant::End),
        None => (pattern.strip_prefix("begin:").unwrap_or(pattern), Instant::Begin),
    };
    let is_part = pattern.ends_with("_frac") || !pattern.contains('%') || matches!(pattern, "%z" | "%Z");
    (!is_part).then(|| Meaning::Time(TimeForm::Pattern(pattern.to_owned()), instant))
}
