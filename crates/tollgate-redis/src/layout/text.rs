//! Templates as they are written.

use std::fmt;
use std::str::FromStr;

use super::{KeyLayout, LayoutError, TemplatePart, WindowForm};

/// Parses a template, as described in the docs of the type.
impl FromStr for KeyLayout {
    type Err = LayoutError;

    fn from_str(template: &str) -> Result<Self, LayoutError> {
        let pieces = pieces(template)?;
        if !matches!(pieces.first(), Some((_, TemplatePart::Text(_) | TemplatePart::Prefix))) {
            return Err(LayoutError::NoHead);
        }
        for (at, (column, piece)) in pieces.iter().enumerate() {
            let (before, here) = pieces.split_at(at);
            if matches!(piece, TemplatePart::Value(_))
                && before.iter().any(|(_, known)| *known == TemplatePart::Rest)
            {
                return Err(LayoutError::AfterRest { column: *column });
            }
            if !piece.is_text() && before.iter().any(|(_, known)| known == piece) {
                return Err(LayoutError::Twice { column: *column });
            }
            let [(_, piece), (next_column, next), ..] = here else { continue };
            match (piece, next) {
                (TemplatePart::Window(_), TemplatePart::Text(text)) if text.starts_with(is_digit) => {
                    return Err(LayoutError::DigitBesideWindow { column: *next_column });
                }
                (TemplatePart::Text(text), TemplatePart::Window(_)) if text.ends_with(is_digit) => {
                    return Err(LayoutError::DigitBesideWindow { column: *next_column });
                }
                // A store has one prefix, and these values have no clear beginning anyway.
                (TemplatePart::Prefix, TemplatePart::Rest) => {}
                _ if !piece.is_text() && !next.is_text() => {
                    return Err(LayoutError::Unseparated { column: *next_column });
                }
                _ => {}
            }
        }
        let has = |is: fn(&TemplatePart) -> bool| pieces.iter().any(|(_, piece)| is(piece));
        if !has(|piece| matches!(piece, TemplatePart::Value(_) | TemplatePart::Rest)) {
            return Err(LayoutError::NoValue);
        }
        if !has(|piece| matches!(piece, TemplatePart::Window(_))) {
            return Err(LayoutError::NoWindow);
        }
        let pieces = pieces.into_iter().map(|(_, piece)| piece).collect();
        Ok(Self { pieces })
    }
}

/// The template from which this layout is read again.
impl fmt::Display for KeyLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pieces.iter().try_for_each(|piece| match piece {
            TemplatePart::Text(text) => f.write_str(&text.replace('{', "{{").replace('}', "}}")),
            TemplatePart::Prefix => f.write_str("{prefix}"),
            TemplatePart::Policy => f.write_str("{policy}"),
            TemplatePart::Windows => f.write_str("{windows}"),
            TemplatePart::Value(name) => write!(f, "{{{name}}}"),
            TemplatePart::Rest => f.write_str("{*}"),
            TemplatePart::Window(WindowForm::Index) => f.write_str("{window}"),
            TemplatePart::Window(WindowForm::StartSeconds) => f.write_str("{window_start}"),
            TemplatePart::Window(WindowForm::StartMillis) => f.write_str("{window_start_ms}"),
        })
    }
}

impl TemplatePart {
    const fn is_text(&self) -> bool {
        matches!(self, Self::Text(_))
    }

    /// Returns the piece for a name in braces.
    fn named(name: &str) -> Self {
        match name {
            "prefix" => Self::Prefix,
            "policy" => Self::Policy,
            "windows" => Self::Windows,
            "window" => Self::Window(WindowForm::Index),
            "window_start" => Self::Window(WindowForm::StartSeconds),
            "window_start_ms" => Self::Window(WindowForm::StartMillis),
            "*" => Self::Rest,
            name => Self::Value(name.to_owned().into()),
        }
    }
}

/// Returns every piece with the column at which it begins.
fn pieces(template: &str) -> Result<Vec<(usize, TemplatePart)>, LayoutError> {
    let (mut pieces, mut rest) = (Vec::new(), template);
    while !rest.is_empty() {
        let column = template.len() - rest.len() + 1;
        let (piece, after) = match rest.strip_prefix('{') {
            Some(inside) if !inside.starts_with('{') => {
                let (name, after) = inside.split_once('}').ok_or(LayoutError::Brace { column })?;
                let is_name =
                    !name.is_empty() && name.chars().all(|at| at.is_alphanumeric() || "_-.".contains(at));
                if !is_name && name != "*" {
                    return Err(LayoutError::Brace { column });
                }
                (TemplatePart::named(name), after)
            }
            _ => {
                let (text, after) = plain(rest, column)?;
                (TemplatePart::Text(text.into()), after)
            }
        };
        pieces.push((column, piece));
        rest = after;
    }
    Ok(pieces)
}

/// Returns the text up to the next name, and the rest.
fn plain(mut rest: &str, column: usize) -> Result<(String, &str), LayoutError> {
    let (mut text, start) = (String::new(), rest.len());
    loop {
        let (before, at) = rest.split_at(rest.find(['{', '}']).unwrap_or(rest.len()));
        text.push_str(before);
        rest = at;
        // Of three that open, the first two are a brace and the third opens a name.
        match (at.strip_prefix("{{"), at.strip_prefix("}}")) {
            (Some(after), _) => {
                text.push('{');
                rest = after;
            }
            (_, Some(after)) => {
                text.push('}');
                rest = after;
            }
            _ if at.starts_with('}') => {
                return Err(LayoutError::Brace { column: column + start - rest.len() });
            }
            _ => return Ok((text, rest)),
        }
    }
}

fn is_digit(at: char) -> bool {
    at.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_that_is_read_and_written_is_the_same() {
        for template in [
            "a{key}:{window}",
            "{prefix}:{policy}:{windows}:{user}:{endpoint}:{window_start}",
            "limit:{{{user}}}:{window_start_ms}",
            "{{}}{key} {window}",
            "{prefix}{*}_{window_start}",
            "a:{key}:{*}:{window}",
            "a:{window}:{key}",
        ] {
            let layout: KeyLayout = template.parse().unwrap();
            assert_eq!(layout.to_string(), template);
            assert_eq!(layout.to_string().parse(), Ok(layout));
        }
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        use LayoutError::{
            AfterRest, Brace, DigitBesideWindow, NoHead, NoValue, NoWindow, Twice, Unseparated,
        };
        for (template, expected) in [
            ("", NoHead),
            ("{key}:{window}", NoHead),
            ("a:{window}", NoValue),
            ("a:{key}", NoWindow),
            ("a:{key", Brace { column: 3 }),
            ("a:{}:{window}", Brace { column: 3 }),
            ("a:{k y}:{window}", Brace { column: 3 }),
            ("a:key}:{window}", Brace { column: 6 }),
            ("a:{key}:{key}:{window}", Twice { column: 9 }),
            ("a:{key}:{window}:{window}", Twice { column: 18 }),
            ("a:{key}{window}", Unseparated { column: 8 }),
            ("{prefix}{key}:{window}", Unseparated { column: 9 }),
            ("a:{key}{*}:{window}", Unseparated { column: 8 }),
            ("a:{*}:{key}:{window}", AfterRest { column: 7 }),
            ("a:{**}:{window}", Brace { column: 3 }),
            ("a:{key}:1{window}", DigitBesideWindow { column: 10 }),
            ("a:{window}1:{key}", DigitBesideWindow { column: 11 }),
        ] {
            assert_eq!(template.parse::<KeyLayout>(), Err(expected), "{template}");
        }
    }
}
