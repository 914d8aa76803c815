//! Environment variables in values: `${NAME}`.

use crate::ProblemKind;

/// Where variables are looked up.
pub(crate) type Variables<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// The text with variables replaced by what they stand for; `$${` is `${` itself. What a variable stands for is
/// not looked through again.
pub(super) fn expand(text: &str, variables: &Variables<'_>) -> Result<Box<str>, ProblemKind> {
    let mut expanded = String::new();
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
        let (name, after) = after.split_once('}').ok_or(ProblemKind::Variable)?;
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(ProblemKind::Variable);
        }
        expanded.push_str(before);
        expanded.push_str(&variables(name).ok_or_else(|| ProblemKind::UnsetVariable(name.into()))?);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String, ProblemKind> {
        expand(text, &|name| (name == "HOST").then(|| "${HOST}".to_owned())).map(Into::into)
    }

    #[test]
    fn variables_are_replaced_once() {
        assert_eq!(expanded("redis://${HOST}:1/${HOST}").unwrap(), "redis://${HOST}:1/${HOST}");
        assert_eq!(expanded("$HOST $$ $").unwrap(), "$HOST $$ $");
        assert_eq!(expanded("a$${HOST}b").unwrap(), "a${HOST}b");
    }

    #[test]
    fn what_is_no_variable_is_an_error() {
        assert_eq!(expanded("${PORT}"), Err(ProblemKind::UnsetVariable("PORT".into())));
        for text in ["${", "${}", "${HOST", "${HOST:-x}"] {
            assert_eq!(expanded(text), Err(ProblemKind::Variable), "{text}");
        }
    }
}
