//! The callers of the store: ours, and what users write by hand over the same client.

use std::sync::Arc;

use anyhow::Result;
use redis::aio::MultiplexedConnection;
use redis::{Client, cmd};
use tollgate::{Quota, SharedLimiter};
use tollgate_redis::{RedisStore, RedisStoreBuilder};

use crate::store::Store;

/// A limit that no key reaches.
pub(crate) const NEVER_REACHED: u32 = 4_000_000_000;

/// A limit that is reached at once.
pub(crate) const FEW: u32 = 100;

/// The window of all limits.
const MILLIS: u64 = 3_600_000;

/// A caller that checks keys. Clones share their connections.
pub(crate) trait Asker: Clone + Send + Sync + 'static {
    /// Returns whether the key may pass.
    fn ask(&self, key: &str) -> impl Future<Output = Result<bool>> + Send;
}

/// A limiter over the shared store.
#[derive(Debug, Clone)]
pub(crate) struct Ours(Arc<SharedLimiter<RedisStore>>);

/// One call of a plain script for each decision.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    connection: MultiplexedConnection,
    sha1: Arc<str>,
    limit: u32,
}

/// The least work of a round trip: `INCR`.
#[derive(Debug, Clone)]
pub(crate) struct Increment(MultiplexedConnection);

/// The least memory of a counter: `SET` with an expiry.
#[derive(Debug, Clone)]
pub(crate) struct Plain(MultiplexedConnection);

/// The usual handwritten script. It answers less than ours: the end of the window would need one more command.
const SCRIPT: &str = "
local used = tonumber(redis.call('GET', KEYS[1]) or '0')
local limit, cost, window = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
if used + cost > limit then
  return {0, limit - used}
end
used = redis.call('INCRBY', KEYS[1], cost)
if used == cost then
  redis.call('PEXPIRE', KEYS[1], window)
end
return {1, limit - used}";

impl Ours {
    /// # Panics
    ///
    /// If called outside of a Tokio runtime.
    pub(crate) fn new(store: &Store, limit: u32) -> Result<Self> {
        Self::over(store.builder()?, Quota::per_hour(limit))
    }

    /// # Panics
    ///
    /// If called outside of a Tokio runtime.
    pub(crate) fn over(store: RedisStoreBuilder, quota: Quota) -> Result<Self> {
        Ok(Self(Arc::new(SharedLimiter::new(quota, store.build()?))))
    }
}

impl Asker for Ours {
    async fn ask(&self, key: &str) -> Result<bool> {
        Ok(self.0.check(key).await?.is_allowed())
    }
}

impl Script {
    pub(crate) async fn new(store: &Store, limit: u32) -> Result<Self> {
        let mut connection = connect(store).await?;
        let sha1: String = cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut connection).await?;
        Ok(Self { connection, sha1: sha1.into(), limit })
    }
}

impl Asker for Script {
    async fn ask(&self, key: &str) -> Result<bool> {
        let mut call = cmd("EVALSHA");
        call.arg(&*self.sha1).arg(1).arg(format!("script:{key}")).arg(self.limit).arg(1).arg(MILLIS);
        let (admitted, _): (bool, i64) = call.query_async(&mut self.connection.clone()).await?;
        Ok(admitted)
    }
}

impl Increment {
    pub(crate) async fn new(store: &Store) -> Result<Self> {
        Ok(Self(connect(store).await?))
    }
}

impl Asker for Increment {
    async fn ask(&self, key: &str) -> Result<bool> {
        let used: u64 = cmd("INCR").arg(format!("incr:{key}")).query_async(&mut self.0.clone()).await?;
        Ok(used > 0)
    }
}

impl Plain {
    pub(crate) async fn new(store: &Store) -> Result<Self> {
        Ok(Self(connect(store).await?))
    }
}

impl Asker for Plain {
    async fn ask(&self, key: &str) -> Result<bool> {
        let mut set = cmd("SET");
        set.arg(key).arg(1).arg("PX").arg(MILLIS);
        let () = set.query_async(&mut self.0.clone()).await?;
        Ok(true)
    }
}

/// Connects as the client's documentation shows: one connection, and a clone of it for every caller.
pub(crate) async fn connect(store: &Store) -> Result<MultiplexedConnection> {
    Ok(Client::open(store.url())?.get_multiplexed_async_connection().await?)
}
