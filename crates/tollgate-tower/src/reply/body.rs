//! Bodies for replies of the middleware.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};

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
}

impl ReplyBody for Full<Bytes> {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::new(bytes)
    }
}

impl<E> ReplyBody for http_body_util::combinators::BoxBody<Bytes, E> {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::new(Full::new(bytes).map_err(|never| match never {}))
    }
}

impl<E> ReplyBody for http_body_util::combinators::UnsyncBoxBody<Bytes, E> {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::new(Full::new(bytes).map_err(|never| match never {}))
    }
}

#[cfg(feature = "axum")]
impl ReplyBody for axum::body::Body {
    fn from_bytes(bytes: Bytes) -> Self {
        bytes.into()
    }
}

#[cfg(feature = "tonic")]
impl ReplyBody for tonic::body::Body {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::new(Full::new(bytes))
    }
}
