//! What published systems do on a server for one request, as their documents say: for tests next to them.
//!
//! Where they are public is in `examples/seeds/PARITY.md`.

use std::time::Duration;

use redis::RedisResult;

use super::{Server, ServerConnection};

/// What one of them does for one request, told the window that the server's clock says: how many it has counted then.
pub type PublishedSteps = fn(&mut ServerConnection, user: &str, window: PublishedWindow) -> u64;

/// A window as those systems find it.
#[derive(Debug, Clone, Copy)]
pub struct PublishedWindow {
    now_millis: i64,
    seconds: i64,
}

impl PublishedWindow {
    /// The one that is open now, by the server's clock, of windows of this length in whole seconds.
    #[must_use]
    pub fn now(server: &Server, length: Duration) -> Self {
        let seconds = i64::try_from(length.as_secs()).unwrap_or(i64::MAX);
        Self { now_millis: server.time().as_unix_millis(), seconds }
    }

    /// Its number.
    #[must_use]
    pub const fn index(self) -> i64 {
        self.now_millis.div_euclid(self.seconds * 1_000)
    }
}

/// RLaaS: a script that reads the time, increments, and has a new counter expire a window later.
pub fn rlaas(connection: &mut ServerConnection, user: &str, window: PublishedWindow) -> u64 {
    let (_allowed, count, ttl) =
        rlaas_script(connection, &format!("rlaas:rate_limit:{user}"), window.seconds).expect("it answers");
    assert!(ttl > 0, "its counter expires");
    count
}

/// The steps of its script, whose reply is (allowed, count, ttl). It names the counter itself, from the time it reads.
pub fn rlaas_script(
    connection: &mut ServerConnection,
    key: &str,
    window: i64,
) -> RedisResult<(u64, u64, i64)> {
    const STEPS: &str = "
        local seconds = tonumber(redis.call('TIME')[1])
        local counter = KEYS[1] .. ':' .. math.floor(seconds / tonumber(ARGV[1]))
        local count = redis.call('INCR', counter)
        if count == 1 then redis.call('EXPIRE', counter, ARGV[1]) end
        local allowed = count <= tonumber(ARGV[2]) and 1 or 0
        return { allowed, count, redis.call('TTL', counter) }
    ";
    redis::cmd("EVAL").arg(STEPS).arg(1).arg(key).arg(window).arg(5).query(connection)
}

/// RLaaS's sliding window: a script that forgets what is a window old by the clock of the process, and counts the members
/// of a sorted set that are left. An admitted request is one more, with the time as its score. Returns whether it is.
pub fn rlaas_sliding(
    connection: &mut ServerConnection,
    user: &str,
    now_millis: i64,
    (window, limit): (i64, u64),
) -> bool {
    const STEPS: &str = "
        local now, length = tonumber(ARGV[1]), ARGV[2] * 1000
        redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - length)
        local allowed = redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[3]) and 1 or 0
        if allowed == 1 then redis.call('ZADD', KEYS[1], now, now .. '-' .. math.random()) end
        redis.call('PEXPIRE', KEYS[1], length * 2)
        return allowed
    ";
    let mut call = redis::cmd("EVAL");
    call.arg(STEPS).arg(1).arg(format!("rlaas:rate_limit:{user}")).arg(now_millis).arg(window).arg(limit);
    call.query(connection).expect("it answers")
}

/// The Spring starter: `INCR`, and a new counter expires a second after it could have been a window old.
pub fn spring_starter(connection: &mut ServerConnection, user: &str, window: PublishedWindow) -> u64 {
    let length = window.seconds * 1_000;
    let start = window.now_millis - window.now_millis % length;
    let name = format!("ratelimiter:user:{user}:{start}");
    let count: u64 = redis::cmd("INCR").arg(&name).query(connection).expect("it answers");
    if count == 1 {
        redis::cmd("EXPIRE").arg(&name).arg(window.seconds + 1).exec(connection).expect("it answers");
    }
    count
}

/// The case study: as the starter, for a user and an endpoint, and expiring a window later.
pub fn leetdezine(connection: &mut ServerConnection, user: &str, window: PublishedWindow) -> u64 {
    let name = format!("user:{user}:/search:{}", window.index());
    let count: u64 = redis::cmd("INCR").arg(&name).query(connection).expect("it answers");
    if count == 1 {
        redis::cmd("EXPIRE").arg(&name).arg(window.seconds).exec(connection).expect("it answers");
    }
    count
}

/// Hammer on Redis: a pipeline that increments and has the counter expire with its window, in whole seconds, unless it
/// has an expiry. Its prefix is the name of a module.
pub fn hammer(connection: &mut ServerConnection, user: &str, window: PublishedWindow) -> u64 {
    let name = format!("ratelimiter:{user}:{}", window.index());
    let end = (window.index() + 1) * window.seconds;
    let mut pipeline = redis::pipe();
    pipeline.incr(&name, 1).cmd("EXPIREAT").arg(&name).arg(end).arg("NX").ignore();
    let (count,): (u64,) = pipeline.query(connection).expect("it answers");
    count
}

/// Envoy's rate-limit service: a pipeline that increments and has the counter expire a window and a random time later,
/// each time.
pub fn envoy_ratelimit(connection: &mut ServerConnection, user: &str, window: PublishedWindow) -> u64 {
    let name = format!("shop_user_{user}_{}", window.index() * window.seconds);
    let mut pipeline = redis::pipe();
    pipeline.cmd("INCRBY").arg(&name).arg(1).cmd("EXPIRE").arg(&name).arg(window.seconds + 150).ignore();
    let (count,): (u64,) = pipeline.query(connection).expect("it answers");
    count
}

/// The Valkey server: a transaction that increments and has the counter expire ten seconds after a window, each time.
pub fn user_rate_limit(connection: &mut ServerConnection, user: &str, window: PublishedWindow) -> u64 {
    let name = format!("rate_limit:{user}:{}", window.index());
    let mut transaction = redis::pipe();
    transaction.atomic().incr(&name, 1).expire(&name, window.seconds + 10).ignore();
    let (count,): (u64,) = transaction.query(connection).expect("it answers");
    count
}
