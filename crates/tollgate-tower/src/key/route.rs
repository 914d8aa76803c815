//! The route of a request.

use http::Method;
use tollgate::Key;

use super::{Extraction, KeyExtractor};
use crate::head::Head;

/// Counts by matched route and method: each route has its own counter.
///
/// It uses the [matched route](Head::route), such as `/users/{id}`, and not the path, which clients can vary at will.
/// All requests without a route share one counter for each method: those that no route matches, and all requests in
/// front of the router. HEAD counts as GET, and all methods that HTTP does not define are one.
///
/// # What it trusts
///
/// The router. A client chooses among existing routes.
///
/// # What is missing
///
/// Nothing ever is.
///
/// # Examples
///
/// ```
/// use tollgate_tower::key::{KeyExtractor, PeerAddress, Route};
/// use tollgate_tower::{Head, MatchedRoute};
///
/// # tollgate_testkit::block_on(async {
/// // A limit for each address on each route.
/// let by = PeerAddress::new().and(Route::new());
///
/// let routed = |path: &str| {
///     let mut request = http::Request::get(path).body(())?;
///     request.extensions_mut().insert(MatchedRoute::new("/users/{id}"));
///     Ok::<_, http::Error>(request)
/// };
/// let (one, other) = (routed("/users/1")?, routed("/users/2")?);
/// assert_eq!(Route::new().extract(Head::from(&one)).await, Route::new().extract(Head::from(&other)).await);
/// # Ok::<(), http::Error>(())
/// # })?;
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Route {
    _private: (),
}

impl Route {
    /// Counts by the matched route and the method.
    #[must_use]
    pub const fn new() -> Self {
        Self { _private: () }
    }
}

impl KeyExtractor for Route {
    fn extract<'r>(&'r self, head: Head<'r>) -> Extraction<'r> {
        let method = method(head.method());
        Extraction::Now(Ok(match head.route() {
            Some(route) => Key::from((method, route)).into(),
            None => Key::from(method).into(),
        }))
    }
}

/// Maps methods to those that differ for a service. A client can invent methods, and a route may answer any.
fn method(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" | "HEAD" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "PATCH" => "PATCH",
        "OPTIONS" => "OPTIONS",
        "CONNECT" => "CONNECT",
        "TRACE" => "TRACE",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MatchedRoute;
    use crate::key::Identity;

    fn key(method: &str, path: &str, route: Option<&str>) -> Key<'static> {
        let mut request = http::Request::builder().method(method).uri(path).body(()).unwrap();
        if let Some(route) = route {
            request.extensions_mut().insert(MatchedRoute::new(route));
        }
        match Route::new().extract(Head::from(&request)) {
            Extraction::Now(Ok(Identity::Known(key))) => key.into_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn routes_and_methods_are_counted_apart_and_paths_are_not() {
        let users = Some("/users/{id}");
        assert_eq!(key("GET", "/users/1", users), key("GET", "/users/%31?x", users));
        assert_eq!(key("GET", "/users/1", users), key("HEAD", "/users/1", users));
        assert_ne!(key("GET", "/users/1", users), key("POST", "/users/1", users));
        assert_ne!(key("GET", "/users/1", users), key("GET", "/users/1", Some("/users/{name}")));
        assert_eq!(key("X-1", "/users/1", users), key("X-2", "/users/1", users), "invented methods");
    }

    #[test]
    fn requests_without_a_route_are_counted_together() {
        assert_eq!(key("GET", "/a", None), key("GET", "/b", None));
        assert_ne!(key("GET", "/a", None), key("POST", "/a", None));
        assert_ne!(key("GET", "/a", None), key("GET", "/a", Some("/a")));
        assert_ne!(key("GET", "/a", None), key("GET", "/a", Some("")));
    }
}
