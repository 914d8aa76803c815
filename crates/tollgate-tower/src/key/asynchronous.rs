//! Extractors that have to wait.

use std::future::Future;

use super::combine::{Way, apart, together};
use super::{Extracted, Identity, KeyExtractor};
use crate::Head;

/// Finds whom a request is counted for, and may have to wait: for a key set, a session, another service.
///
/// Every [`KeyExtractor`] is one that never waits. A request that has to wait costs allocations; use
/// [`KeyExtractor`] where that will do.
///
/// # Cancel safety
///
/// The future is dropped when the client goes away.
pub trait AsyncKeyExtractor: Send + Sync {
    /// Whom this request is counted for.
    ///
    /// # Errors
    ///
    /// If the request says so and it is wrong.
    fn extract_async<'r>(&'r self, head: Head<'r>) -> impl Future<Output = Extracted<'r>> + Send;

    /// See [`KeyExtractor::counts_peers`].
    fn counts_peers_async(&self) -> bool {
        false
    }

    /// As [`KeyExtractor::and`], where one of the two may have to wait. The second is asked once the first is known.
    fn and_async<K: AsyncKeyExtractor>(self, other: K) -> AndAsync<Self, K>
    where
        Self: Sized,
    {
        AndAsync { first: self, second: other }
    }

    /// As [`KeyExtractor::or_else`], where one of the two may have to wait.
    fn or_else_async<K: AsyncKeyExtractor>(self, other: K) -> OrElseAsync<Self, K>
    where
        Self: Sized,
    {
        OrElseAsync { first: self, second: other }
    }
}

impl<K: KeyExtractor> AsyncKeyExtractor for K {
    async fn extract_async<'r>(&'r self, head: Head<'r>) -> Extracted<'r> {
        self.extract(head)
    }

    fn counts_peers_async(&self) -> bool {
        self.counts_peers()
    }
}

/// Whoever both find together: see [`AsyncKeyExtractor::and_async`].
#[derive(Debug, Clone, Copy)]
pub struct AndAsync<A, B> {
    first: A,
    second: B,
}

/// Whoever the first finds, or else the second: see [`AsyncKeyExtractor::or_else_async`].
#[derive(Debug, Clone, Copy)]
pub struct OrElseAsync<A, B> {
    first: A,
    second: B,
}

impl<A: AsyncKeyExtractor, B: AsyncKeyExtractor> AsyncKeyExtractor for AndAsync<A, B> {
    async fn extract_async<'r>(&'r self, head: Head<'r>) -> Extracted<'r> {
        match self.first.extract_async(head).await? {
            missing @ Identity::Missing(_) => Ok(missing),
            first => Ok(together(first, self.second.extract_async(head).await?)),
        }
    }

    fn counts_peers_async(&self) -> bool {
        self.first.counts_peers_async() || self.second.counts_peers_async()
    }
}

impl<A: AsyncKeyExtractor, B: AsyncKeyExtractor> AsyncKeyExtractor for OrElseAsync<A, B> {
    async fn extract_async<'r>(&'r self, head: Head<'r>) -> Extracted<'r> {
        let missing = match self.first.extract_async(head).await? {
            Identity::Missing(missing) => missing,
            Identity::Known(key) => return Ok(apart(Way::First, key).into()),
        };
        Ok(match self.second.extract_async(head).await? {
            Identity::Missing(other) => missing.or(other).into(),
            Identity::Known(key) => apart(Way::Second, key).into(),
        })
    }

    fn counts_peers_async(&self) -> bool {
        self.first.counts_peers_async() || self.second.counts_peers_async()
    }
}
