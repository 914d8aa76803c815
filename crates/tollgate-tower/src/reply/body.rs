//! Bodies for replies of the middleware.

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full};

use crate::held_body::HeldBody;
use crate::request_hold::RequestHold;

/// A response body that can be created from bytes, for denials.
///
/// The middleware does not change the service's types: a denial has the same body type as every response. It is
/// implemented for the bodies of [`http_body_util`] and, by feature, for those of axum and tonic. For a body of your
/// own:
///
/// ```
/// use tollgate_tower::ReplyBody;
///
/// struct MyBody(bytes::Bytes);
///
/// impl ReplyBody for MyBody {
///     fn from_bytes(bytes: bytes::Bytes) -> Self {
///         Self(bytes)
///     }
/// }
/// ```
pub trait ReplyBody {
    /// Creates a body from exactly these bytes.
    fn from_bytes(bytes: Bytes) -> Self;

    /// Keeps the request of this response in flight until the body has ended.
    ///
    /// By default, until the extensions of the response are dropped: a server does that once it has sent the head. For a
    /// body that can box another one, put a [`HeldBody`] around it.
    fn keep_in_flight(mut response: Response<Self>, hold: RequestHold) -> Response<Self>
    where
        Self: Sized,
    {
        response.extensions_mut().insert(hold);
        response
    }
}

impl ReplyBody for Full<Bytes> {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::new(bytes)
    }
}

impl<E: 'static> ReplyBody for http_body_util::combinators::BoxBody<Bytes, E> {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::new(Full::new(bytes).map_err(|never| match never {}))
    }

    fn keep_in_flight(response: Response<Self>, hold: RequestHold) -> Response<Self> {
        response.map(|body| Self::new(HeldBody::new(body, hold)))
    }
}

impl<E: 'static> ReplyBody for http_body_util::combinators::UnsyncBoxBody<Bytes, E> {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::new(Full::new(bytes).map_err(|never| match never {}))
    }

    fn keep_in_flight(response: Response<Self>, hold: RequestHold) -> Response<Self> {
        response.map(|body| Self::new(HeldBody::new(body, hold)))
    }
}

#[cfg(feature = "axum")]
impl ReplyBody for axum::body::Body {
    fn from_bytes(bytes: Bytes) -> Self {
        bytes.into()
    }

    fn keep_in_flight(response: Response<Self>, hold: RequestHold) -> Response<Self> {
        response.map(|body| Self::new(HeldBody::new(body, hold)))
    }
}

#[cfg(feature = "tonic")]
impl ReplyBody for tonic::body::Body {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::new(Full::new(bytes))
    }

    fn keep_in_flight(response: Response<Self>, hold: RequestHold) -> Response<Self> {
        response.map(|body| Self::new(HeldBody::new(body, hold)))
    }
}
