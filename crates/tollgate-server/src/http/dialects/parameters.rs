//! The parameters of a query; a system reads those that it knows.

use std::borrow::Cow;

use super::super::query;
use crate::answer::rejection::Rejection;

/// Names and values of a query.
pub(super) struct Parameters<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Parameters<'a> {
    /// # Errors
    ///
    /// If an escape is malformed, or not UTF-8.
    pub(super) fn read(query: &'a str) -> Result<Self, Rejection> {
        Ok(Self(query::pairs(query).collect::<Result<_, _>>()?))
    }

    /// The value of this name; `None` if it is missing or empty.
    ///
    /// # Errors
    ///
    /// If it is given twice, because the intended value is unknown.
    pub(super) fn optional(&self, name: &str) -> Result<Option<Cow<'a, str>>, Rejection> {
        let mut named = self.0.iter().filter(|(other, _)| other == name);
        let value = named.next().map(|(_, value)| value.clone());
        match named.next() {
            Some(_) => Err(Rejection::bad_field(format!("query.{name}"), format!("`{name}` is given twice"))),
            None => Ok(value.filter(|value| !value.is_empty())),
        }
    }

    /// The value of this name.
    ///
    /// # Errors
    ///
    /// If it is missing or empty, because all requests without it would share a counter.
    pub(super) fn required(&self, name: &str) -> Result<Cow<'a, str>, Rejection> {
        let missing =
            || Rejection::bad_field(format!("query.{name}"), format!("`{name}` is missing or empty"));
        self.optional(name)?.ok_or_else(missing)
    }
}
