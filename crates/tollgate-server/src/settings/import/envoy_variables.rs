//! Variables of envoyproxy/ratelimit, read one by one.

use super::ImportError;

/// Returns the value of a variable; an empty one counts as unset.
pub(super) type EnvoyVariables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads a flag as Go does.
pub(super) fn flag(variables: EnvoyVariables<'_>, variable: &'static str) -> Result<bool, ImportError> {
    let Some(text) = variables(variable) else { return Ok(false) };
    match text.as_str() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(ImportError::Variable { variable, expected: "true or false", found: Some(text.into()) }),
    }
}
