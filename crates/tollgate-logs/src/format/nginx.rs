//! `log_format` of nginx, as written in the configuration.

use super::FormatError;
use super::scanner::Tail;
use super::template::{ARGS, Part, Template};
use crate::escape::Escape;
use crate::meaning::NGINX;
use crate::plan::Dialect;

pub(crate) const DIALECT: Dialect = Dialect { names: NGINX, header };

/// `X-Api-Key` is `http_x_api_key`.
fn header(name: &str) -> Option<String> {
    Some(format!("http_{}", name.to_ascii_lowercase().replace('-', "_")))
}

/// Reads `log_format NAME escape=... 'TEXT' ...;`, and returns the name with the template.
pub(super) fn directive(text: &str) -> Result<(String, Template), FormatError> {
    let mut words = words(text)?.into_iter();
    // `log_format`
    words.next();
    let name = words.next().ok_or(FormatError::NoName)?;
    let mut escape = Escape::Backslash;
    let mut whole = String::new();
    for (place, word) in words.enumerate() {
        match word.strip_prefix("escape=").filter(|_| place == 0) {
            Some("default") => {}
            Some("json") => escape = Escape::Json,
            Some("none") => escape = Escape::None,
            Some(other) => return Err(FormatError::Escape(other.to_owned())),
            None => whole.push_str(&word),
        }
    }
    Ok((name, template(&whole, escape, Tail::Nothing)?))
}

/// Reads the text of a format, with variables such as `$status` and `${status}`.
pub(super) fn template(text: &str, escape: Escape, tail: Tail) -> Result<Template, FormatError> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, from)) = rest.split_once('$') {
        Template::push_text(&mut parts, before.as_bytes());
        let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let (name, after) = match from.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some(split) => split,
            None => from.split_at(from.find(|character| !is_name(character)).unwrap_or(from.len())),
        };
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(FormatError::Variable(from.chars().take(20).collect()));
        }
        match parts.last_mut() {
            Some(Part::Field(last)) if last == "is_args" && matches!(name, "args" | "query_string") => {
                ARGS.clone_into(last);
            }
            _ => parts.push(Part::Field(name.to_owned())),
        }
        rest = after;
    }
    Template::push_text(&mut parts, rest.as_bytes());
    let template = Template { parts, escape, dialect: DIALECT, meaning: |_| None, tail, own: None };
    match template.adjacent() {
        Some((first, second)) => Err(FormatError::Adjacent(format!("${first}"), format!("${second}"))),
        None => Ok(template),
    }
}

/// The words of a directive until its `;`: bare ones, and quoted ones in which a backslash escapes.
fn words(text: &str) -> Result<Vec<String>, FormatError> {
    let mut words = Vec::new();
    let mut characters = text.chars().peekable();
    while let Some(first) = characters.next() {
        match first {
            ';' => break,
            _ if first.is_whitespace() => {}
            '\'' | '"' => {
                let mut word = String::new();
                loop {
                    match characters.next().ok_or(FormatError::Quote)? {
                        end if end == first => break,
                        '\\' => word.push_str(&unescaped(characters.next().ok_or(FormatError::Quote)?)),
                        other => word.push(other),
                    }
                }
                words.push(word);
            }
            _ => {
                let mut word = first.to_string();
                while let Some(next) = characters.next_if(|next| !next.is_whitespace() && *next != ';') {
                    match next {
                        '\\' => word.push_str(&unescaped(characters.next().ok_or(FormatError::Quote)?)),
                        next => word.push(next),
                    }
                }
                words.push(word);
            }
        }
    }
    Ok(words)
}

/// Returns the meaning of a character after a backslash in a configuration. Before others, the backslash stays.
fn unescaped(character: char) -> String {
    match character {
        't' => "\t".to_owned(),
        'r' => "\r".to_owned(),
        'n' => "\n".to_owned(),
        '"' | '\'' | '\\' => character.to_string(),
        other => format!("\\{other}"),
    }
}
