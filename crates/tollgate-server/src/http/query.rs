//! Reads query strings: `cost` is the number of units, every other name an attribute.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use thiserror::Error;
use tollgate_policy::Attributes;

use crate::request::attributes::{GivenAttributes, RefusedAttribute};
use crate::request::json::CostUnits;

/// An optional parameter of a query.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueryParameter {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
}

/// An error in a query string; the caller's fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum QueryError {
    #[error("a percent sign must be followed by two hexadecimal digits")]
    Percent { name: Option<String> },
    #[error("not UTF-8")]
    Utf8 { name: Option<String> },
    #[error("expected a whole number from 0 to {}", u32::MAX)]
    Cost,
    #[error("the cost is given twice")]
    CostTwice,
    #[error("{error}")]
    Attribute { name: String, error: RefusedAttribute },
}

impl QueryError {
    /// Returns the wrong field, such as `query.user`.
    pub(super) fn field(&self) -> String {
        match self {
            Self::Percent { name } | Self::Utf8 { name } => match name {
                Some(name) => format!("query.{name}"),
                None => "query".to_owned(),
            },
            Self::Cost | Self::CostTwice => "query.cost".to_owned(),
            Self::Attribute { name, .. } => format!("query.{name}"),
        }
    }
}

/// Reads `name=value` pairs in the format of forms: separated by `&`, with a space as `+` or `%20`.
///
/// # Errors
///
/// If an escape is malformed or not UTF-8; if a name is empty, too long or repeated; if there are too many names; or if
/// the cost is not a whole number in its range.
pub(super) fn read(query: &str) -> Result<(Attributes<'_>, CostUnits), QueryError> {
    let (mut given, mut cost) = (GivenAttributes::default(), None);
    for pair in pairs(query) {
        let (name, value) = pair?;
        if name == "cost" {
            if cost.is_some() {
                return Err(QueryError::CostTwice);
            }
            cost = Some(units(&value).ok_or(QueryError::Cost)?);
        } else {
            let named = |error| QueryError::Attribute { name: name.clone().into_owned(), error };
            given.insert(name.clone(), value).map_err(named)?;
        }
    }
    Ok((given.into_attributes(), cost.unwrap_or_default()))
}

/// Returns the decoded `name=value` pairs of a query.
pub(super) fn pairs(query: &str) -> impl Iterator<Item = Result<(Cow<'_, str>, Cow<'_, str>), QueryError>> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decode(name, None)?;
        let value = decode(value, Some(&name))?;
        Ok((name, value))
    })
}

fn units(value: &str) -> Option<CostUnits> {
    // `parse` would accept a plus sign.
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    if digits { value.parse().ok().and_then(CostUnits::new) } else { None }
}

/// Decodes a name or a value; `name` is the name of the pair, if already known.
fn decode<'a>(text: &'a str, name: Option<&str>) -> Result<Cow<'a, str>, QueryError> {
    let name = || name.map(str::to_owned);
    if !text.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
        return Ok(text.into());
    }
    let escapes = text.split('%').skip(1);
    if !escapes
        .into_iter()
        .all(|rest| matches!(rest.as_bytes(), [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit()))
    {
        return Err(QueryError::Percent { name: name() });
    }
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().map_err(|_| QueryError::Utf8 { name: name() })?;
    Ok(Cow::Owned(decoded.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(query: &str) -> QueryError {
        read(query).map(drop).unwrap_err()
    }

    #[test]
    fn reads_attributes_and_cost() {
        let (attributes, cost) = read("user=al%69ce+b&cost=3&&empty=&bare&path=%2Fa%26b").unwrap();
        assert_eq!(cost.units(), 3);
        for (name, value) in [("bare", ""), ("empty", ""), ("path", "/a&b"), ("user", "alice b")] {
            assert_eq!(attributes.value(name), Some(value.into()));
        }
        assert_eq!(attributes.len(), 4);
        assert_eq!(read("user=alice").unwrap().1.units(), 1);
    }

    #[test]
    fn names_what_is_wrong() {
        for query in ["user=%", "user=%4", "user=%zz", "user=100%25%"] {
            assert_eq!(fails(query), QueryError::Percent { name: Some("user".to_owned()) }, "{query}");
        }
        assert_eq!(fails("user=%ff").field(), "query.user");
        assert_eq!(fails("%ff=1").field(), "query");
        for query in
            ["cost=-1", "cost=+1", "cost=", "cost=1.5", "cost=4294967296", "cost=99999999999999999999"]
        {
            assert_eq!(fails(query), QueryError::Cost, "{query}");
        }
        assert_eq!(fails("cost=1&cost=1"), QueryError::CostTwice);
        assert_eq!(fails("user=a&user=b").field(), "query.user");
        assert_eq!(fails("=a").field(), "query.");
    }
}
