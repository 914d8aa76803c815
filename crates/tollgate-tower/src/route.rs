//! Routes: the choice of a rule by method and matched route.

use std::cmp::Ordering;
use std::fmt;

use http::Method;
use thiserror::Error;

use crate::head::Head;

/// A path with or without a method: `POST /login`, `/users/{id}`, `/files/{*rest}`.
///
/// `{name}` matches one segment, `{*name}` at the end one or more. It is compared with the matched route of a request
/// ([`Head::route`]) or, if there is none, its path. A route for GET matches HEAD as well, because services answer HEAD
/// with their GET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RoutePattern {
    text: Box<str>,
    method: Option<Method>,
    segments: Box<[Segment]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Exactly(Box<str>),
    One,
    Rest,
}

/// An invalid route. The fault of its author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RouteErrorKind {
    /// The part before the path is not a method.
    #[error("expected a method and a path, such as `POST /login`")]
    Method,
    /// The path does not begin with a slash.
    #[error("expected a path that begins with `/`")]
    NoSlash,
    /// A brace that is not the first or the last of its segment, or nothing between two.
    #[error("expected each segment to be text, `{{name}}` or, as the last one, `{{*name}}`")]
    Braces,
}

impl RoutePattern {
    pub(crate) fn new(text: &str) -> Result<Self, RouteErrorKind> {
        let (method, path) = match text.split_once(' ') {
            Some((method, path)) => {
                let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
                let method = Method::from_bytes(method.as_bytes()).ok().filter(|_| is_method);
                (Some(method.ok_or(RouteErrorKind::Method)?), path.trim_start())
            }
            None => (None, text),
        };
        let path = path.strip_prefix('/').ok_or(RouteErrorKind::NoSlash)?;
        let count = path.split('/').count();
        let segments = path.split('/').enumerate().map(|(index, segment)| {
            let inner = segment.strip_prefix('{').and_then(|segment| segment.strip_suffix('}'));
            match inner.map(|name| name.strip_prefix('*').ok_or(name)) {
                Some(Ok(rest)) if is_name(rest) && index + 1 == count => Ok(Segment::Rest),
                Some(Err(name)) if is_name(name) => Ok(Segment::One),
                None if !segment.contains(['{', '}']) => Ok(Segment::Exactly(segment.into())),
                _ => Err(RouteErrorKind::Braces),
            }
        });
        Ok(Self { text: text.into(), method, segments: segments.collect::<Result<_, _>>()? })
    }

    pub(crate) fn matches(&self, method: &Method, path: &str) -> bool {
        let is_method = self
            .method
            .as_ref()
            .is_none_or(|own| own == method || (own == Method::GET && method == Method::HEAD));
        is_method && self.matches_path(path)
    }

    fn matches_path(&self, path: &str) -> bool {
        let Some(path) = path.strip_prefix('/') else { return false };
        let mut parts = path.split('/');
        for segment in &self.segments {
            match (segment, parts.next()) {
                (Segment::Rest, Some(part)) => return !part.is_empty() || parts.next().is_some(),
                (Segment::One, Some(part)) if !part.is_empty() => {}
                (Segment::Exactly(text), Some(part)) if **text == *part => {}
                _ => return false,
            }
        }
        parts.next().is_none()
    }

    /// Returns whether it matches several paths.
    pub(crate) fn has_parameters(&self) -> bool {
        self.segments.iter().any(|segment| !matches!(segment, Segment::Exactly(_)))
    }

    /// Returns whether both match the same requests.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        self.method == other.method && self.segments == other.segments
    }

    /// Puts the more specific first: at the first segment where they differ, fixed text comes before `{name}`, and
    /// `{name}` before `{*rest}`; then a given method comes before none, and HEAD before GET.
    pub(crate) fn by_specificity(&self, other: &Self) -> Ordering {
        let rank = |segment: &Segment| match segment {
            Segment::Exactly(_) => 0,
            Segment::One => 1,
            Segment::Rest => 2,
        };
        let method = |method: &Option<Method>| match method {
            Some(method) if *method == Method::GET => 1,
            Some(_) => 0,
            None => 2,
        };
        let segments = self.segments.iter().map(rank).cmp(other.segments.iter().map(rank));
        segments.then_with(|| method(&self.method).cmp(&method(&other.method)))
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['{', '}', '*'])
}

/// The route as it was written.
impl fmt::Display for RoutePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Routes with their values, the most specific first. Those without a value are unlimited.
#[derive(Debug)]
pub(crate) struct RouteTable<T>(Box<[(RoutePattern, Option<T>)]>);

impl<T> RouteTable<T> {
    pub(crate) fn new(mut routes: Vec<(RoutePattern, Option<T>)>) -> Self {
        routes.sort_by(|(one, _), (other, _)| one.by_specificity(other));
        Self(routes.into_boxed_slice())
    }

    /// Returns the value of the most specific route that matches, for each of the two readings of the path: normalized
    /// and as it was sent, because services may read either. A matched route has only one reading.
    pub(crate) fn find(&self, head: Head<'_>) -> [Option<&Option<T>>; 2] {
        if self.0.is_empty() {
            return [None; 2];
        }
        let path = head.path();
        let find = |path: &str| {
            let mut routes = self.0.iter();
            routes.find(|(route, _)| route.matches(head.method(), path)).map(|(_, value)| value)
        };
        let normalized = find(&path);
        let has_one_reading = head.route().is_some() || path == head.sent_path();
        [normalized, if has_one_reading { normalized } else { find(head.sent_path()) }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find<'a>(routes: &[&'a str], method: &str, path: &str) -> Option<&'a str> {
        let routes = routes.iter().map(|text| (RoutePattern::new(text).unwrap(), Some(*text))).collect();
        let request = http::Request::builder().method(method).uri(path).body(()).unwrap();
        RouteTable::new(routes).find(Head::from(&request))[0].copied().flatten()
    }

    #[test]
    fn the_most_specific_route_wins_whatever_the_order() {
        let mut routes = vec![
            "/{*rest}",
            "/users/{id}",
            "GET /users/{id}",
            "/users/me",
            "POST /users/{*rest}",
            "/users/{id}/keys",
            "HEAD /users/{id}",
        ];
        for _ in 0..routes.len() {
            routes.rotate_left(1);
            for (method, path, route) in [
                ("GET", "/users/me", Some("/users/me")),
                ("GET", "/users/7", Some("GET /users/{id}")),
                ("HEAD", "/users/7", Some("HEAD /users/{id}")),
                ("PUT", "/users/7", Some("/users/{id}")),
                ("POST", "/users/7", Some("/users/{id}")),
                ("POST", "/users/7/x", Some("POST /users/{*rest}")),
                ("GET", "/users/7/x", Some("/{*rest}")),
                ("GET", "/users/7/keys", Some("/users/{id}/keys")),
                ("GET", "/users/", Some("/{*rest}")),
                ("GET", "/", None),
            ] {
                assert_eq!(find(&routes, method, path), route, "{method} {path}");
            }
        }
    }

    #[test]
    fn head_is_counted_as_get_and_a_method_matters() {
        assert_eq!(find(&["GET /a"], "HEAD", "/a?b=c"), Some("GET /a"));
        assert_eq!(find(&["GET /a"], "POST", "/a"), None);
        assert_eq!(find(&["POST /a"], "HEAD", "/a"), None);
        assert_eq!(find(&["/"], "GET", "/"), Some("/"));
    }

    #[test]
    fn a_template_is_matched_as_the_path_that_it_stands_for() {
        let routes = ["/api/{*rest}", "/api/users/me", "/api/users/{name}"];
        for (template, route) in [
            ("/api/users/{id}", "/api/users/{name}"),
            ("/api/users/{id}/keys", "/api/{*rest}"),
            ("/api/{*path}", "/api/{*rest}"),
        ] {
            let routes = routes.iter().map(|text| (RoutePattern::new(text).unwrap(), Some(*text))).collect();
            let mut request = http::Request::new(());
            request.extensions_mut().insert(crate::MatchedRoute::new(template));
            assert_eq!(RouteTable::new(routes).find(Head::from(&request)), [Some(&Some(route)); 2]);
        }
    }

    /// A service had a limit for all requests and none for `/health`, in a layer in front of its router. The layer read
    /// `/api/..%2fhealth` as `/health`, and the router as a path below `/api`.
    #[test]
    fn a_path_in_another_spelling_has_a_route_for_each_reading() {
        let routes = || {
            let unlimited =
                ["/health", "/static/{*rest}"].map(|text| (RoutePattern::new(text).unwrap(), None));
            let counted = ["/api/{*rest}", "/login", "/files/{id}"];
            let counted = counted.map(|text| (RoutePattern::new(text).unwrap(), Some(text)));
            RouteTable::new(unlimited.into_iter().chain(counted).collect())
        };
        const UNLIMITED: Option<Option<&str>> = Some(None);
        const API: Option<Option<&str>> = Some(Some("/api/{*rest}"));
        const LOGIN: Option<Option<&str>> = Some(Some("/login"));
        const FILES: Option<Option<&str>> = Some(Some("/files/{id}"));
        for (path, normalized, sent) in [
            ("/health", UNLIMITED, UNLIMITED),
            ("/api/..%2fhealth", UNLIMITED, API),
            ("/api/../health", UNLIMITED, API),
            ("/%68ealth", UNLIMITED, None),
            ("/x/../health", UNLIMITED, None),
            ("/static/a%20b", UNLIMITED, UNLIMITED),
            ("/static/../x", None, UNLIMITED),
            ("/x/../login", LOGIN, None),
            ("/api/../login", LOGIN, API),
            ("/files/a%2Fb", None, FILES),
            ("/files/..%2fapi%2fx", API, FILES),
        ] {
            let request = http::Request::get(path).body(()).unwrap();
            let found = routes().find(Head::from(&request)).map(|found| found.copied());
            assert_eq!(found, [normalized, sent], "{path}");
        }
        // A router has decided which of them it is.
        let mut request = http::Request::get("/api/..%2fhealth").body(()).unwrap();
        request.extensions_mut().insert(crate::MatchedRoute::new("/health"));
        assert_eq!(routes().find(Head::from(&request)).map(|found| found.copied()), [UNLIMITED; 2]);
    }

    #[test]
    fn refuses_invalid_routes() {
        for (text, kind) in [
            ("", RouteErrorKind::NoSlash),
            ("login", RouteErrorKind::NoSlash),
            ("POST login", RouteErrorKind::NoSlash),
            ("post /login", RouteErrorKind::Method),
            (" /login", RouteErrorKind::Method),
            ("/a/{b", RouteErrorKind::Braces),
            ("/a/b}", RouteErrorKind::Braces),
            ("/a/x{b}", RouteErrorKind::Braces),
            ("/a/{}", RouteErrorKind::Braces),
            ("/a/{*}", RouteErrorKind::Braces),
            ("/a/{*b}/c", RouteErrorKind::Braces),
        ] {
            assert_eq!(RoutePattern::new(text), Err(kind), "{text}");
        }
        assert!(RoutePattern::new("/a/{b}").unwrap().is_same_as(&RoutePattern::new("/a/{c}").unwrap()));
        assert!(!RoutePattern::new("/a/{b}").unwrap().is_same_as(&RoutePattern::new("/a/{*b}").unwrap()));
    }
}
