//! Buckets and sliding windows, and the published scripts of peers that count in the same way.
//!
//! A peer is called as its own client does it: one `EVALSHA` for each decision, with the same arguments.

use std::sync::Arc;

use anyhow::{Context, Result};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, cmd};
use tokio::runtime::Runtime;
use tollgate::{Clock as _, Quota, SystemClock};

use crate::askers::{Asker, Ours, connect};
use crate::store::Store;

/// A kind of quota that does not count in fixed windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    Burst,
    Sliding,
}

/// Ours and the peers. No key reaches the limit.
pub(crate) struct Kinds {
    burst: Ours,
    sliding: Ours,
    pub(crate) redis_rate: RedisRate,
    pub(crate) upstash: Upstash,
}

/// The GCRA of redis_rate, in Go.
#[derive(Debug, Clone)]
pub(crate) struct RedisRate(PeerScript);

/// The sliding window of Upstash's ratelimit, in TypeScript.
#[derive(Debug, Clone)]
pub(crate) struct Upstash(PeerScript);

#[derive(Debug, Clone)]
struct PeerScript {
    connection: MultiplexedConnection,
    sha1: Arc<str>,
}

const REDIS_RATE: &str = include_str!("../../peers/redis_rate.lua");
const UPSTASH: &str = include_str!("../../peers/upstash_sliding.lua");

/// The most that a sliding window counts up to.
const LIMIT: u32 = 1_000_000;

const HOUR_SECONDS: u64 = 3_600;
const HOUR_MS: u64 = 3_600_000;

impl Kinds {
    /// Connects all four.
    ///
    /// # Panics
    ///
    /// If called outside of a Tokio runtime.
    pub(crate) fn start(store: &Store, runtime: &Runtime) -> Result<Self> {
        let quota = Quota::per_hour(LIMIT);
        Ok(Self {
            burst: Ours::over(store.builder()?, quota.clone().with_burst(None)?)?,
            sliding: Ours::over(store.builder()?, quota.sliding()?)?,
            redis_rate: RedisRate(runtime.block_on(PeerScript::new(store, REDIS_RATE))?),
            upstash: Upstash(runtime.block_on(PeerScript::new(store, UPSTASH))?),
        })
    }

    pub(crate) const fn ours(&self, counting: Counting) -> &Ours {
        match counting {
            Counting::Burst => &self.burst,
            Counting::Sliding => &self.sliding,
        }
    }
}

impl Asker for RedisRate {
    async fn ask(&self, key: &str) -> Result<bool> {
        let mut call = self.0.call();
        call.arg(1).arg(format!("rate:{key}")).arg(LIMIT).arg(LIMIT).arg(HOUR_SECONDS).arg(1);
        let (admitted, ..): (i64, i64, String, String) =
            call.query_async(&mut self.0.connection.clone()).await?;
        Ok(admitted > 0)
    }
}

impl Asker for Upstash {
    async fn ask(&self, key: &str) -> Result<bool> {
        let now = u64::try_from(SystemClock.now().as_unix_millis()).context("the clock is before 1970")?;
        let window = now / HOUR_MS;
        let mut call = self.0.call();
        // The third key is empty without limits that change.
        call.arg(3)
            .arg(format!("upstash:{key}:{window}"))
            .arg(format!("upstash:{key}:{}", window - 1))
            .arg("");
        call.arg(LIMIT).arg(now).arg(HOUR_MS).arg(1);
        let (left, _): (i64, i64) = call.query_async(&mut self.0.connection.clone()).await?;
        Ok(left >= 0)
    }
}

impl PeerScript {
    async fn new(store: &Store, script: &str) -> Result<Self> {
        let mut connection = connect(store).await?;
        let sha1: String = cmd("SCRIPT").arg("LOAD").arg(script).query_async(&mut connection).await?;
        Ok(Self { connection, sha1: sha1.into() })
    }

    fn call(&self) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(&*self.sha1);
        call
    }
}
