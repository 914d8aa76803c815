//! Extractors from functions.

use std::fmt;

use tollgate::Key;

use super::{ExtractedIdentity, Extraction, KeyExtractor, MissingIdentity};
use crate::head::Head;

/// Takes the key from a function. If it returns `None`, the request lacks `what`, which the answer names.
///
/// ```
/// use tollgate::Key;
/// use tollgate_tower::Head;
/// use tollgate_tower::key::{self, Identity, KeyExtractor};
///
/// # tollgate_testkit::block_on(async {
/// let by = key::from_fn("a host", |head| head.uri().host().map(Key::from));
///
/// let request = http::Request::get("https://example.org/").body(())?;
/// assert_eq!(by.extract(Head::from(&request)).await?, Identity::Known(Key::from("example.org")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn from_fn<F>(what: &'static str, find: F) -> FromFn<F>
where
    F: for<'r> Fn(Head<'r>) -> Option<Key<'r>> + Send + Sync,
{
    FromFn { what, find }
}

/// Takes the key from a function, which may return that the value is invalid.
pub fn try_from_fn<F>(find: F) -> TryFromFn<F>
where
    F: for<'r> Fn(Head<'r>) -> ExtractedIdentity<'r> + Send + Sync,
{
    TryFromFn { find }
}

/// Takes the key from an async function. It copies what it needs from the head first.
///
/// ```
/// use tollgate::Key;
/// use tollgate_tower::key::{self, Identity, MissingIdentity};
///
/// # async fn account_of(_: http::HeaderValue) -> Option<u64> { None }
/// let by = key::from_async_fn(|head| {
///     let session = head.headers().get("x-session").cloned();
///     async move {
///         let Some(session) = session else { return Ok(MissingIdentity::by_caller("header `x-session`").into()) };
///         match account_of(session).await {
///             Some(account) => Ok(Identity::Known(Key::from(account))),
///             None => Err(key::InvalidIdentity::malformed("the session is over")),
///         }
///     }
/// });
/// ```
pub fn from_async_fn<F, T>(find: F) -> FromAsyncFn<F>
where
    F: Fn(Head<'_>) -> T + Send + Sync,
    T: Future<Output = ExtractedIdentity<'static>> + Send + 'static,
{
    FromAsyncFn { find }
}

/// Made by [`from_fn`].
#[derive(Clone, Copy)]
pub struct FromFn<F> {
    what: &'static str,
    find: F,
}

/// Made by [`try_from_fn`].
#[derive(Clone, Copy)]
pub struct TryFromFn<F> {
    find: F,
}

/// Made by [`from_async_fn`].
#[derive(Clone, Copy)]
pub struct FromAsyncFn<F> {
    find: F,
}

impl<F> KeyExtractor for FromFn<F>
where
    F: for<'r> Fn(Head<'r>) -> Option<Key<'r>> + Send + Sync,
{
    fn extract<'r>(&'r self, head: Head<'r>) -> Extraction<'r> {
        Extraction::Now(Ok(
            (self.find)(head).map_or_else(|| MissingIdentity::by_caller(self.what).into(), Into::into)
        ))
    }
}

impl<F> KeyExtractor for TryFromFn<F>
where
    F: for<'r> Fn(Head<'r>) -> ExtractedIdentity<'r> + Send + Sync,
{
    fn extract<'r>(&'r self, head: Head<'r>) -> Extraction<'r> {
        Extraction::Now((self.find)(head))
    }
}

impl<F, T> KeyExtractor for FromAsyncFn<F>
where
    F: Fn(Head<'_>) -> T + Send + Sync,
    T: Future<Output = ExtractedIdentity<'static>> + Send + 'static,
{
    fn extract<'r>(&'r self, head: Head<'r>) -> Extraction<'r> {
        // The function is called by the first poll: the layer asks once whether it has to wait, and asks again to wait.
        Extraction::Later(Box::pin(async move { (self.find)(head).await }))
    }
}

impl<F> fmt::Debug for FromFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFn").field("what", &self.what).finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for TryFromFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryFromFn").finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for FromAsyncFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromAsyncFn").finish_non_exhaustive()
    }
}
