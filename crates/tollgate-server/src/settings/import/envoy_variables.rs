//! Variables of envoyproxy/ratelimit, read one by one.

use super::{ImportError, go_value};

/// Returns the value of a variable; an empty one counts as unset.
pub(super) type EnvoyVariables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads a flag as Go does.
pub(super) fn flag(variables: EnvoyVariables<'_>, variable: &'static str) -> Result<bool, ImportError> {
    let Some(text) = variables(variable) else { return Ok(false) };
    go_value::boolean(&text).ok_or_else(|| ImportError::Variable {
        variable,
        expected: "true or false",
        found: Some(text.into()),
    })
}
