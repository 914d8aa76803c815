//! The head of a request.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use http::{Extensions, HeaderMap, Method, Request, Uri, Version};
use tollgate_http::canonical_path;

/// The head of a request: all that limits can depend on, because they decide before the body is read.
///
/// `Debug` shows only the method, because addresses, paths and headers may be personal or secret.
#[derive(Clone, Copy)]
pub struct Head<'r> {
    method: &'r Method,
    uri: &'r Uri,
    version: Version,
    headers: &'r HeaderMap,
    extensions: &'r Extensions,
}

impl<'r> Head<'r> {
    /// Returns the method.
    #[must_use]
    pub const fn method(self) -> &'r Method {
        self.method
    }

    /// Returns the request target, as it was sent.
    #[must_use]
    pub const fn uri(self) -> &'r Uri {
        self.uri
    }

    /// Returns the version of HTTP.
    #[must_use]
    pub const fn version(self) -> Version {
        self.version
    }

    /// Returns the headers.
    #[must_use]
    pub const fn headers(self) -> &'r HeaderMap {
        self.headers
    }

    /// Returns the extensions, in which the server and outer layers leave values.
    #[must_use]
    pub const fn extensions(self) -> &'r Extensions {
        self.extensions
    }

    /// Returns the route that a router has matched, such as `/users/{id}`: a [`MatchedRoute`] or, with the feature
    /// `axum`, its `MatchedPath`. `None` in front of the router. With axum, layers that were added by `Router::layer`
    /// or `route_layer` have it.
    #[must_use]
    pub fn route(self) -> Option<&'r str> {
        if let Some(MatchedRoute(route)) = self.extensions.get() {
            return Some(route);
        }
        #[cfg(feature = "axum")]
        if let Some(path) = self.extensions.get::<axum::extract::MatchedPath>() {
            return Some(path.as_str());
        }
        None
    }
}

impl<'r> Head<'r> {
    /// Returns the path for limits: the matched [route](Self::route) if there is one, else the path that the client
    /// sent, in its [canonical form](tollgate_http::canonical_path).
    ///
    /// A service behind axum's `nest` or `nest_service` sees paths without their first part. With the feature `axum`,
    /// this is still the whole path, so a limit means the same at any depth.
    ///
    /// Routes of a layer, and conditions of policies, also read a path in another spelling [as it was
    /// sent](crate::RateLimitLayerBuilder::route).
    #[must_use]
    pub fn path(self) -> Cow<'r, str> {
        self.route().map_or_else(|| canonical_path(self.sent_path()), Cow::Borrowed)
    }

    /// Returns the whole path as the client sent it.
    pub(crate) fn sent_path(self) -> &'r str {
        #[cfg(feature = "axum")]
        if let Some(axum::extract::OriginalUri(uri)) = self.extensions.get() {
            return uri.path();
        }
        self.uri.path()
    }
}

/// The route that a router has matched, as an extension of the request, for routers other than axum's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchedRoute(Arc<str>);

impl MatchedRoute {
    /// Returns the route as it is written, with `{name}` for a segment that varies.
    #[must_use]
    pub fn new(route: &str) -> Self {
        Self(route.into())
    }
}

impl<'r, B> From<&'r Request<B>> for Head<'r> {
    fn from(request: &'r Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            version: request.version(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }
}

impl<'r> From<&'r Parts> for Head<'r> {
    fn from(parts: &'r Parts) -> Self {
        Self {
            method: &parts.method,
            uri: &parts.uri,
            version: parts.version,
            headers: &parts.headers,
            extensions: &parts.extensions,
        }
    }
}

impl fmt::Debug for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Head").field("method", self.method).finish_non_exhaustive()
    }
}
