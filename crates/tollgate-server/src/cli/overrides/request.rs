//! Requests about overrides.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::Full;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

use super::OverrideCommandError;
use crate::args::{KeyPart, NamedOverrideArgs, OverrideServiceArgs, SetOverrideArgs, TargetArgs};
use crate::cli::client::{ClientError, ServiceClient, json_request};

/// The path of all overrides.
const ALL: &str = "/v1/overrides";

/// A request about overrides.
pub(super) struct OverrideRequest(Request<Full<Bytes>>);

/// The override that a change has to find.
#[derive(Clone, Copy)]
pub(super) enum ExpectedOverride<'a> {
    Any,
    /// The one with this version, as an entity tag.
    Version(&'a HeaderValue),
    Absent,
}

#[derive(Serialize)]
struct SetRequestBody<'a> {
    policy: &'a str,
    attributes: AttributesBody<'a>,
    quotas: WantedLimits<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", rename = "for")]
    lasting: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum NameBody<'a> {
    Id { id: &'a str },
    Target { policy: &'a str, attributes: AttributesBody<'a> },
}

type AttributesBody<'a> = BTreeMap<&'a str, AttributeBody<'a>>;

#[derive(Serialize)]
#[serde(untagged)]
enum AttributeBody<'a> {
    Key(&'a str),
    Is { is: &'a str },
    Prefix { prefix: &'a str },
}

#[derive(Serialize)]
#[serde(untagged)]
enum WantedLimits<'a> {
    Word(&'static str),
    Quotas(&'a [String]),
}

impl OverrideRequest {
    /// Sets an override.
    ///
    /// # Errors
    ///
    /// If an attribute of the key is given twice.
    pub(super) fn set(args: &SetOverrideArgs) -> Result<Self, OverrideCommandError> {
        let body = SetRequestBody {
            policy: &args.policy,
            attributes: attributes(&args.target)?,
            quotas: match (args.unlimited, args.deny) {
                (true, _) => WantedLimits::Word("unlimited"),
                (_, true) => WantedLimits::Word("denied"),
                _ => WantedLimits::Quotas(&args.quotas),
            },
            until: args.until.map(|until| until.to_string()),
            lasting: args.lasting.as_deref(),
            label: args.label.as_deref(),
            note: args.note.as_deref(),
        };
        let expected = match &args.if_match {
            Some(version) => ExpectedOverride::Version(version),
            None if args.if_absent => ExpectedOverride::Absent,
            None => ExpectedOverride::Any,
        };
        Ok(Self::new(Method::PUT, Uri::from_static(ALL), json_request(&body)).expecting(expected))
    }

    /// Asks for an override.
    ///
    /// # Errors
    ///
    /// If an attribute of the key is given twice.
    pub(super) fn get(args: &NamedOverrideArgs) -> Result<Self, OverrideCommandError> {
        let body = json_request(&name(args)?);
        Ok(Self::new(Method::POST, Uri::from_static("/v1/overrides/get"), body))
    }

    /// Deletes an override.
    ///
    /// # Errors
    ///
    /// If an attribute of the key is given twice.
    pub(super) fn delete(
        args: &NamedOverrideArgs,
        expected: ExpectedOverride<'_>,
    ) -> Result<Self, OverrideCommandError> {
        let body = json_request(&name(args)?);
        Ok(Self::new(Method::POST, Uri::from_static("/v1/overrides/delete"), body).expecting(expected))
    }

    /// Asks for a page of overrides.
    pub(super) fn page(parameters: &[(&str, Option<&str>)]) -> Self {
        let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        let given = parameters.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
        let query: Vec<String> = given.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        // This cannot fail: all of it is in ASCII.
        let uri = format!("{ALL}?{}", query.join("&")).parse().unwrap_or_default();
        Self::new(Method::GET, uri, Request::default())
    }

    fn new(method: Method, uri: Uri, mut request: Request<Full<Bytes>>) -> Self {
        (*request.method_mut(), *request.uri_mut()) = (method, uri);
        Self(request)
    }

    fn expecting(mut self, expected: ExpectedOverride<'_>) -> Self {
        match expected {
            ExpectedOverride::Any => None,
            ExpectedOverride::Version(version) => {
                self.0.headers_mut().insert(header::IF_MATCH, version.clone())
            }
            ExpectedOverride::Absent => {
                self.0.headers_mut().insert(header::IF_NONE_MATCH, HeaderValue::from_static("*"))
            }
        };
        self
    }

    /// Sends it.
    pub(super) async fn send(
        self,
        service: &OverrideServiceArgs,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        ServiceClient::new(&service.server, &service.tls)?.send(self.0, service.token_file.as_deref()).await
    }
}

fn name(args: &NamedOverrideArgs) -> Result<NameBody<'_>, OverrideCommandError> {
    Ok(match (&args.id, &args.policy) {
        (Some(id), _) => NameBody::Id { id },
        (None, policy) => NameBody::Target {
            policy: policy.as_deref().unwrap_or_default(),
            attributes: attributes(&args.target)?,
        },
    })
}

fn attributes(target: &TargetArgs) -> Result<AttributesBody<'_>, OverrideCommandError> {
    let mut body = AttributesBody::new();
    if let Some((name, text)) = &target.is {
        body.insert(name, AttributeBody::Is { is: text });
    }
    if let Some((name, text)) = &target.prefix {
        body.insert(name, AttributeBody::Prefix { prefix: text });
    }
    for part in &target.key {
        match part {
            // Its key needs no attribute.
            KeyPart::Global if target.key.len() == 1 => {}
            KeyPart::Global => return Err(OverrideCommandError::GlobalKey),
            KeyPart::Attribute(name, value) => {
                if body.insert(name, AttributeBody::Key(value)).is_some() {
                    return Err(OverrideCommandError::Twice(name.clone()));
                }
            }
        }
    }
    Ok(body)
}
