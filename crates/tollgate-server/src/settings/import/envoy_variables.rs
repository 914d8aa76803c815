//! Variables of envoyproxy/ratelimit, read one by one.

use std::path::PathBuf;

use super::{ImportError, go_value};

/// Returns the value of a variable; an empty one counts as unset.
pub(super) type EnvoyVariables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns the files with a certificate and its key, if they are named.
pub(super) fn identity(
    variables: EnvoyVariables<'_>,
    certificate: &'static str,
    key: &'static str,
) -> Result<Option<(PathBuf, PathBuf)>, ImportError> {
    let missing = |variable, expected| Err(ImportError::Variable { variable, expected, found: None });
    match (variables(certificate), variables(key)) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some((certificate.into(), key.into()))),
        (Some(_), None) => missing(key, "the path of a file, because its certificate is set"),
        (None, Some(_)) => missing(certificate, "the path of a file, because its key is set"),
    }
}

/// Reads a flag as Go does.
pub(super) fn flag(variables: EnvoyVariables<'_>, variable: &'static str) -> Result<bool, ImportError> {
    let Some(text) = variables(variable) else { return Ok(false) };
    go_value::boolean(&text).ok_or_else(|| ImportError::Variable {
        variable,
        expected: "true or false",
        found: Some(text.into()),
    })
}
