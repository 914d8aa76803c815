//! Environment variables in values: `${NAME}`, and `${NAME:-default}` where it need not be set.

use std::ops::Range;

use crate::problem::ProblemKind;

/// The function that looks variables up.
pub type VariableLookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// A text with its variables replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExpandedText {
    pub(super) text: Box<str>,
    /// The bytes of the text that come from variables, one range for each, including empty ones.
    pub(super) filled: Box<[Range<usize>]>,
}

/// Returns the text with variables replaced by their values; `$${` is `${` itself. The value of a variable is not
/// expanded again. As in a shell, a default counts for an empty variable as well.
pub(super) fn expand(text: &str, variables: &VariableLookup<'_>) -> Result<ExpandedText, ProblemKind> {
    let (mut expanded, mut filled) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        let after = from.strip_prefix("${").unwrap_or_default();
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = after;
            continue;
        }
        let (variable, after) = after.split_once('}').ok_or(ProblemKind::Variable)?;
        let (name, default) =
            variable.split_once(":-").map_or((variable, None), |(name, it)| (name, Some(it)));
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(ProblemKind::Variable);
        }
        expanded.push_str(before);
        let value = variables(name).filter(|value| default.is_none() || !value.is_empty());
        let value = value.or_else(|| default.map(str::to_owned));
        let start = expanded.len();
        expanded.push_str(&value.ok_or_else(|| ProblemKind::UnsetVariable(name.into()))?);
        filled.push(start..expanded.len());
        rest = after;
    }
    expanded.push_str(rest);
    Ok(ExpandedText { text: expanded.into(), filled: filled.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String, ProblemKind> {
        expand(text, &|name| (name == "HOST").then(|| "${HOST}".to_owned())).map(|it| it.text.into())
    }

    #[test]
    fn variables_are_replaced_once() {
        assert_eq!(expanded("redis://${HOST}:1/${HOST}").unwrap(), "redis://${HOST}:1/${HOST}");
        assert_eq!(expanded("$HOST $$ $").unwrap(), "$HOST $$ $");
        assert_eq!(expanded("a$${HOST}b").unwrap(), "a${HOST}b");
    }

    #[test]
    fn a_variable_that_need_not_be_set_has_a_default() {
        let expanded = |text: &str| {
            let value = |name: &str| [("HOST", "h"), ("EMPTY", "")].into_iter().find(|it| it.0 == name);
            expand(text, &|name| value(name).map(|it| it.1.to_owned())).unwrap().text.into_string()
        };
        assert_eq!(expanded("${HOST:-x}/${PORT:-6379}/${EMPTY:-e}/${EMPTY}"), "h/6379/e/");
        assert_eq!(expanded("${PORT:-}${PORT:-a:-b}${PORT:-$HOST}"), "a:-b$HOST");
    }

    #[test]
    fn values_of_variables_are_distinguished_from_written_text() {
        let value = |name: &str| Some(if name == "EMPTY" { "" } else { "h" }.to_owned());
        assert_eq!(expand("a$${b}${HOST}c${EMPTY}", &value).unwrap().filled[..], [5..6, 7..7]);
        assert!(expand("a$${b}", &value).unwrap().filled.is_empty());
    }

    #[test]
    fn invalid_variables_are_errors() {
        assert_eq!(expanded("${PORT}"), Err(ProblemKind::UnsetVariable("PORT".into())));
        for text in ["${", "${}", "${HOST", "${:-x}", "${HOST-x}", "${HOST:-x"] {
            assert_eq!(expanded(text), Err(ProblemKind::Variable), "{text}");
        }
    }
}
