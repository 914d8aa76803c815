//! Values that a user requests by name: `user=json:/user/id`.

use std::str::FromStr;

use thiserror::Error;
use tollgate_http::{NetworkError, TrustedProxies};

/// A value that requests have under a name, such as `user=json:/user/id`.
///
/// ```
/// use tollgate_logs::{Attribute, AttributeSource};
///
/// let attribute: Attribute = "api_key=query:key".parse()?;
/// assert_eq!(attribute.name, "api_key");
/// assert_eq!(attribute.source, AttributeSource::Query("key".to_owned()));
/// assert!("user=cookie:id".parse::<Attribute>().is_err());
/// # Ok::<(), tollgate_logs::AttributeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// Its name. If this is the name of a [`Field`](crate::Field), the attribute replaces the field, and is read like
    /// it: the port of an `ip` and the query of a `path` are cut off. This query, and the host of a
    /// whole URL, are used if the line has no others.
    pub name: String,
    /// The place of its value.
    pub source: AttributeSource,
}

/// The place of an attribute's value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttributeSource {
    /// `json:/user/id`: in a JSON line, by its pointer (RFC 6901). Numbers and booleans are read as written.
    Json(String),
    /// `field:NAME`: a field by the name that the format has for it: `http_x_api_key` of nginx, `{X-Api-Key}i` of
    /// Apache, a column of a table, a top-level name of a JSON line.
    Field(String),
    /// `header:X-Api-Key`: a header of the request, where the format logs it.
    Header(String),
    /// `query:key`: the first parameter of this name in the query, decoded: `+` is a blank, `%41` is `A`.
    Query(String),
    /// `xff:10.0.0.0/8,192.0.2.1`: the client by `X-Forwarded-For`, as the service finds it behind these networks of
    /// trusted proxies. Reading begins with the logged address; in a line without one, with the last entry of the
    /// header, because the server's own proxy has appended it. It continues from the end of the header, as long as an
    /// address is a trusted proxy's. Ports and brackets are cut off.
    ///
    /// If the format logs no header, it is the logged address. An entry that is no address, such as `unknown`, ends
    /// reading: the request counts for the proxy before it. An empty entry that a trusted proxy should have filled in
    /// names no client, so the request has none. [`Summary`](crate::Summary) counts both.
    Xff(TrustedProxies),
}

impl AttributeSource {
    /// Whether the value is computed from other fields.
    pub(crate) const fn is_derived(&self) -> bool {
        matches!(self, Self::Query(_) | Self::Xff(_))
    }
}

/// The text of `--attr` or `--time` is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AttributeError {
    /// There is no `=`, or one side of it is empty.
    #[error("expected NAME=SOURCE, such as user=json:/user/id")]
    Shape,
    /// The source does not exist.
    #[error("unknown source: expected json:/POINTER, field:NAME, header:NAME, query:NAME or xff:NETWORKS")]
    Source,
    /// A pointer does not begin with `/`.
    #[error("a JSON pointer begins with /, such as json:/user/id")]
    Pointer,
    /// A trusted proxy is not a network.
    #[error("xff: {0}")]
    Network(#[from] NetworkError),
    /// A time is neither `FIELD` nor `FIELD:FORM`.
    #[error("expected FIELD or FIELD:FORM, such as ts:unix, time:iso, t:clf or 'at:%Y-%m-%d %H:%M:%S'")]
    Time,
}

impl FromStr for Attribute {
    type Err = AttributeError;

    fn from_str(text: &str) -> Result<Self, AttributeError> {
        let (name, source) = text.split_once('=').ok_or(AttributeError::Shape)?;
        if name.is_empty() {
            return Err(AttributeError::Shape);
        }
        Ok(Self { name: name.to_owned(), source: source.parse()? })
    }
}

impl FromStr for AttributeSource {
    type Err = AttributeError;

    fn from_str(text: &str) -> Result<Self, AttributeError> {
        let (kind, rest) = text.split_once(':').ok_or(AttributeError::Source)?;
        let name = rest.to_owned();
        match kind {
            "json" if rest.starts_with('/') => Ok(Self::Json(name)),
            "json" => Err(AttributeError::Pointer),
            "xff" if rest.is_empty() => Ok(Self::Xff(TrustedProxies::from_iter([]))),
            "xff" => Ok(Self::Xff(TrustedProxies::parse(rest.split(',').map(str::trim))?)),
            _ if rest.is_empty() => Err(AttributeError::Source),
            "field" => Ok(Self::Field(name)),
            "header" => Ok(Self::Header(name)),
            "query" => Ok(Self::Query(name)),
            _ => Err(AttributeError::Source),
        }
    }
}

/// The place and the form of a request's time: `ts:unix`. A field without a form has the form `any`.
///
/// ```
/// use tollgate_logs::{TimeField, TimeForm};
///
/// let time: TimeField = "/meta/at:%Y-%m-%d %H:%M:%S".parse()?;
/// assert_eq!(time.field, "/meta/at");
/// assert_eq!(time.form, TimeForm::Pattern("%Y-%m-%d %H:%M:%S".to_owned()));
/// # Ok::<(), tollgate_logs::AttributeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeField {
    /// The name of the field, or its JSON pointer.
    pub field: String,
    /// The form of the time.
    pub form: TimeForm,
}

/// The form of a time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeForm {
    /// `any`: one of the next three. Their shapes differ.
    Any,
    /// `unix`: a number since 1970, with or without a fraction. It counts seconds below 10^11, then milliseconds below
    /// 10^14, microseconds below 10^17, and nanoseconds. So it is unambiguous from 1973 to 5138.
    Unix,
    /// `iso`: as in ISO 8601 and RFC 3339, such as `2026-11-23T16:00:00.250Z`. A space may replace the `T`.
    Iso,
    /// `clf`: as web servers write it, such as `23/Nov/2026:16:00:00 +0100`, also with a fraction of the second.
    Clf,
    /// A pattern of `strptime`, such as `%Y-%m-%d %H:%M:%S`.
    Pattern(String),
}

impl FromStr for TimeField {
    type Err = AttributeError;

    fn from_str(text: &str) -> Result<Self, AttributeError> {
        let (field, form) = text.split_once(':').unwrap_or((text, "any"));
        let form = match form {
            "any" => TimeForm::Any,
            "unix" => TimeForm::Unix,
            "iso" => TimeForm::Iso,
            "clf" => TimeForm::Clf,
            pattern if pattern.contains('%') => TimeForm::Pattern(pattern.to_owned()),
            _ => return Err(AttributeError::Time),
        };
        if field.is_empty() {
            return Err(AttributeError::Time);
        }
        Ok(Self { field: field.to_owned(), form })
    }
}
