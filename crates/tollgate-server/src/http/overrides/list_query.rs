//! The query of the list of overrides.

use std::borrow::Cow;

use tollgate_policy::{OverrideName, Policy};

use crate::answer::rejection::Rejection;
use crate::http::query::{self, QueryParameter};

/// Which overrides to list.
#[derive(Debug)]
pub(super) struct ListQuery<'a> {
    pub(super) policy: Option<Cow<'a, str>>,
    pub(super) label: Option<Cow<'a, str>>,
    /// The last one of the page before.
    pub(super) after: Option<OverrideName>,
    /// Overrides on a page, at most.
    pub(super) limit: usize,
}

/// Its parameters, for the description of the service.
pub(in crate::http) const PARAMETERS: &[QueryParameter] = &[
    QueryParameter { name: "policy", description: "Only overrides of this policy" },
    QueryParameter { name: "label", description: "Only overrides with this label" },
    QueryParameter { name: "after", description: "Where the page begins: `next` of the page before" },
    QueryParameter {
        name: "limit",
        description: "How many overrides a page may have: 1 to 1000. Default: 100",
    },
];

const DEFAULT_LIMIT: usize = 100;

const MAX_LIMIT: usize = 1000;

impl<'a> ListQuery<'a> {
    /// Reads `name=value` pairs.
    ///
    /// # Errors
    ///
    /// If a name is unknown or given twice, or a value is empty or not what it has to be.
    pub(super) fn read(query: &'a str) -> Result<Self, Rejection> {
        let mut read = Self { policy: None, label: None, after: None, limit: DEFAULT_LIMIT };
        let mut seen: Vec<Cow<'_, str>> = Vec::new();
        for pair in query::pairs(query) {
            let (name, value) = pair?;
            let wrong = |detail: Cow<'static, str>| Rejection::bad_field(format!("query.{name}"), detail);
            if seen.contains(&name) {
                return Err(wrong("the parameter is given twice".into()));
            }
            if value.is_empty() {
                return Err(wrong("the parameter is empty: leave it out".into()));
            }
            match &*name {
                "policy" if Policy::is_name(&value) => read.policy = Some(value),
                "policy" => return Err(wrong("expected the name of a policy".into())),
                "label" => read.label = Some(value),
                "after" => {
                    let after = value.parse().map_err(|_| {
                        wrong("expected the id of an override, with `%` as `%25` and `+` as `%2B`".into())
                    });
                    read.after = Some(after?);
                }
                "limit" => {
                    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
                    let limit =
                        value.parse().ok().filter(|limit| is_number && (1..=MAX_LIMIT).contains(limit));
                    let expected = || wrong(format!("expected a whole number from 1 to {MAX_LIMIT}").into());
                    read.limit = limit.ok_or_else(expected)?;
                }
                _ => {
                    let known: Vec<&str> = PARAMETERS.iter().map(|parameter| parameter.name).collect();
                    let detail = format!("unknown parameter, expected one of {}", known.join(", "));
                    return Err(wrong(detail.into()));
                }
            }
            seen.push(name);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_bounds_and_its_filters() {
        let read =
            ListQuery::read("policy=search&label=job-7&after=search:tenant%5Eac%2520me&limit=1000").unwrap();
        assert_eq!((read.policy.as_deref(), read.label.as_deref()), (Some("search"), Some("job-7")));
        assert_eq!(read.after.map(|name| name.to_string()).as_deref(), Some("search:tenant^ac%20me"));
        assert_eq!((read.limit, ListQuery::read("").unwrap().limit), (1000, 100));
    }

    #[test]
    fn what_is_unknown_doubled_or_empty_is_refused() {
        for (query, field) in [
            ("polices=a", "query.polices"),
            ("user=alice", "query.user"),
            ("policy=", "query.policy"),
            ("policy=a&policy=a", "query.policy"),
            ("policy=a%20b", "query.policy"),
            ("label=", "query.label"),
            ("after=search", "query.after"),
            ("after=search:tenant=a+b", "query.after"),
            ("limit=0", "query.limit"),
            ("limit=1001", "query.limit"),
            ("limit=%2B5", "query.limit"),
            ("limit=99999999999999999999", "query.limit"),
        ] {
            assert_eq!(ListQuery::read(query).unwrap_err().field(), Some(field), "{query}");
        }
    }
}
