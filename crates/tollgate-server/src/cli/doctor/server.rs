//! Checks of one server: its own information, and how fast it answers.

use std::collections::HashMap;
use std::time::Duration;

use tollgate::{Clock, SystemClock, Timestamp};
use tollgate_redis::{Advice, RedisError, RedisStore, StoreServer};

use super::advice::on_no_answer;
use super::ask::ask;
use super::finding::Finding;
use super::overrides::{Rights, rights_to_overrides};
use crate::observe::stopwatch::Stopwatch;

/// Windows follow the server's clock. If it differs by more, limits reset at visibly wrong times.
const MOST_OFFSET: i64 = 250;

/// The end of the year 9999, where calendars end.
const LAST_TIME: i64 = 253_402_300_799_999;

/// Round trips measured: enough for the second slowest to be the 99th percentile.
const ROUND_TRIPS: usize = 200;

/// Advice for commands that the server does not have.
const RENAMED: &str =
    "restore the names of these commands: `rename-command` in the server's configuration has removed them";

/// Advice for a server that answers nonsense.
const STRANGER: &str = "make sure that it is Redis 7.0 or Valkey 7.2, or newer";

/// The fields of `INFO`.
struct Info(HashMap<String, String>);

pub(super) async fn examine(
    server: &StoreServer,
    deadline: Duration,
    prefix: &str,
    store: &RedisStore,
    findings: &mut Vec<Finding>,
) {
    match ask::<String>(server, &["INFO"]).await {
        Ok(text) => {
            let info = Info::read(&text);
            let about = [version(&info), eviction(&info), persistence(&info)];
            findings.extend(about.map(|finding| finding.of(server)));
            findings.extend(cluster(server, &info).await.map(|finding| finding.of(server)));
        }
        Err(error) => {
            let found = format!("cannot read its version, eviction policy and persistence settings: {error}");
            let advice = on_no_answer(&error, "allow the user the command INFO (+info)");
            findings.push(Finding::warn("version", found, advice).of(server));
        }
    }
    findings.push(clock(server).await.of(server));
    findings.push(round_trip(server, deadline).await.of(server));
    findings.push(rights(server, prefix, store).await.of(server));
}

impl Info {
    fn read(text: &str) -> Self {
        let fields = text.lines().filter_map(|line| line.trim_end().split_once(':'));
        Self(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    fn text(&self, field: &str) -> &str {
        self.0.get(field).map_or("", String::as_str)
    }

    fn number(&self, field: &str) -> Option<u64> {
        self.text(field).parse().ok()
    }
}

/// A server that is too old gets no connection.
fn version(info: &Info) -> Finding {
    match (info.text("valkey_version"), info.text("redis_version")) {
        ("", "") => Finding::warn("version", "it does not report its version", STRANGER),
        ("", redis) => Finding::pass("version", format!("Redis {redis}")),
        (valkey, _) => Finding::pass("version", format!("Valkey {valkey}")),
    }
}

fn eviction(info: &Info) -> Finding {
    let policy = info.text("maxmemory_policy");
    let (most, used, evicted) =
        (info.number("maxmemory"), info.number("used_memory"), info.number("evicted_keys"));
    let (Some(most), Some(used), Some(evicted)) = (most, used, evicted) else {
        return Finding::warn("eviction", "it does not report its memory", STRANGER);
    };
    match (policy, most) {
        ("noeviction", 1..) if used >= most => Finding::fail(
            "eviction",
            format!("it is full and counts nothing: noeviction, at most {most} bytes"),
            "raise maxmemory, or use a separate server for the counters; until then, on_store_failure decides, and \
             `open` admits everything",
        ),
        ("noeviction", 0) => {
            Finding::pass("eviction", "it evicts no counters: noeviction, without a memory limit")
        }
        ("noeviction", most) => {
            let found = format!(
                "it evicts no counters: noeviction, at most {most} bytes; clients who choose keys may fill them, and \
                 then on_store_failure decides: `open` admits everything, `closed` and `local` do not"
            );
            Finding::pass("eviction", found)
        }
        (policy, 0) => Finding::warn(
            "eviction",
            format!("{policy}, and no memory limit yet"),
            "set maxmemory-policy noeviction before you set maxmemory: otherwise the server evicts live counters, \
             and their limits start over",
        ),
        (policy, most) => Finding::fail(
            "eviction",
            format!("{policy} at {most} bytes evicts live counters; it has evicted {evicted} keys"),
            "set maxmemory-policy noeviction, or use a separate server for the counters",
        ),
    }
}

fn persistence(info: &Info) -> Finding {
    if info.text("rdb_last_bgsave_status") == "err" || info.text("aof_last_write_status") == "err" {
        return Finding::fail(
            "persistence",
            "it failed to save, and may refuse writes",
            "see its log; often its disk is full or not writable",
        );
    }
    if info.number("aof_enabled") == Some(1) {
        return Finding::pass(
            "persistence",
            "it keeps counters across a restart; a crash may lose the last two seconds (nothing with appendfsync \
             always, more with no)",
        );
    }
    Finding::warn(
        "persistence",
        "a restart loses the counts and overrides since the last snapshot, or all of them",
        "set appendonly yes, or accept that limits start over after a restart, and that overrides have to be set again",
    )
}

async fn cluster(server: &StoreServer, info: &Info) -> Option<Finding> {
    if info.number("cluster_enabled").is_none_or(|enabled| enabled == 0) {
        return None;
    }
    const ADVICE: &str =
        "run CLUSTER INFO and CLUSTER SHARDS on each server, and `redis-cli --cluster check`";
    let cluster = match ask::<String>(server, &["CLUSTER", "INFO"]).await {
        Ok(text) => Info::read(&text),
        Err(error) => {
            let advice = on_no_answer(&error, "allow the user +cluster|info");
            return Some(Finding::warn("cluster", error, advice));
        }
    };
    let (state, slots) = (cluster.text("cluster_state"), cluster.number("cluster_slots_ok"));
    Some(if state == "ok" && slots == Some(16_384) {
        Finding::pass("cluster", "all 16384 slots are served")
    } else {
        Finding::fail(
            "cluster",
            format!("state {state}, {} of 16384 slots are served", slots.unwrap_or(0)),
            ADVICE,
        )
    })
}

async fn clock(server: &StoreServer) -> Finding {
    let asked = SystemClock.now();
    let (seconds, micros) = match ask::<(i64, i64)>(server, &["TIME"]).await {
        Ok(time) => time,
        Err(error) if error.contains("unknown command") => {
            return Finding::fail("clock", "it has no TIME", RENAMED);
        }
        Err(error) => {
            let advice = on_no_answer(&error, "allow the user the command TIME (+time)");
            return Finding::fail("clock", error, advice);
        }
    };
    let (asked, answered) = (asked.as_unix_millis(), SystemClock.now().as_unix_millis());
    let Some(time) = time_of(seconds, micros) else {
        return Finding::fail("clock", "its answer to TIME makes no sense", STRANGER);
    };
    let offset = time.as_unix_millis() - asked.midpoint(answered);
    let side = if offset < 0 { "behind" } else { "ahead of" };
    let within = (answered - asked) / 2 + 1;
    let found = format!("it is {} ms {side} this machine, within {within} ms", offset.unsigned_abs());
    if offset.abs() <= MOST_OFFSET {
        Finding::pass("clock", found)
    } else {
        Finding::warn("clock", found, "synchronise both machines with NTP: windows follow the server's clock")
    }
}

/// The time in an answer to `TIME`, if a server can have it.
fn time_of(seconds: i64, micros: i64) -> Option<Timestamp> {
    let millis = (0..1_000_000).contains(&micros).then_some(micros / 1_000)?;
    let time = seconds.checked_mul(1_000)?.checked_add(millis)?;
    (0..=LAST_TIME).contains(&time).then_some(Timestamp::from_unix_millis(time))
}

/// Returns advice for a server that answers too late.
fn nearer() -> Advice {
    RedisError::TooSlow.advice().unwrap_or(StoreServer::ADVICE_ON_SILENCE)
}

/// For a server that is too slow to be examined completely.
pub(super) fn too_slow() -> Finding {
    Finding::fail("round-trip", "it answers too slowly for all checks to finish in time", nearer())
}

async fn round_trip(server: &StoreServer, deadline: Duration) -> Finding {
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    let began = Stopwatch::start();
    for _ in 0..ROUND_TRIPS {
        let asked = Stopwatch::start();
        if ask::<()>(server, &["PING"]).await.is_err() {
            return Finding::fail("round-trip", "it stopped answering", StoreServer::ADVICE_ON_SILENCE);
        }
        times.push(asked.elapsed());
        if began.elapsed() > Duration::from_secs(1) {
            break;
        }
    }
    times.sort_unstable();
    let percentile = |percent: usize| times.get((times.len() * percent / 100).min(times.len() - 1)).copied();
    let (Some(half), Some(most)) = (percentile(50), percentile(99)) else {
        return Finding::fail("round-trip", "nothing was measured", "try again");
    };
    let found =
        format!("p50 {half:.1?}, p99 {most:.1?} of {} pings; a decision has {deadline:?}", times.len());
    if half > deadline {
        Finding::fail("round-trip", format!("too slow: {found}"), nearer())
    } else if half * 2 > deadline {
        Finding::fail("round-trip", found, nearer())
    } else if most * 2 > deadline {
        Finding::warn("round-trip", found, nearer())
    } else {
        Finding::pass("round-trip", found)
    }
}

/// The commands of the script, and those that call it.
async fn rights(server: &StoreServer, prefix: &str, store: &RedisStore) -> Finding {
    let key = format!("{prefix}doctor:1m:{{doctor}}");
    let user = match ask::<String>(server, &["ACL", "WHOAMI"]).await {
        Ok(user) => user,
        Err(_) => return unknown_rights(server, &key, "they").await,
    };
    let commands: [&[&str]; 10] = [
        &["EVALSHA", "0", "1", &key],
        &["SCRIPT", "LOAD", "return 1"],
        &["TIME"],
        &["GET", &key],
        &["MGET", &key],
        &["SET", &key, "1"],
        &["INCRBY", &key, "1"],
        &["PEXPIRETIME", &key],
        &["PTTL", &key],
        &["DEL", &key],
    ];
    let for_holds: [&[&str]; 8] = [
        &["PEXPIREAT", &key, "1"],
        &["ZADD", &key, "1", "1"],
        &["ZCARD", &key],
        &["ZCOUNT", &key, "0", "0"],
        &["ZMSCORE", &key, "1"],
        &["ZPOPMIN", &key, "1"],
        &["ZRANGE", &key, "0", "0"],
        &["ZREM", &key, "1"],
    ];
    let for_holds = if store.has_holds() { &for_holds[..] } else { &[] };
    // For keys of a slot that is moving.
    let asking: Option<&[&str]> = server.is_in_cluster().then_some(&["ASKING"]);
    let needed = commands.into_iter().chain(for_holds.iter().copied()).chain(asking);
    let Some(Rights { missing, unknown }) = Rights::of(server, &user, needed).await else {
        return unknown_rights(server, &key, &format!("those of the user {user}")).await;
    };
    if !unknown.is_empty() {
        return Finding::fail("rights", format!("it has no {}", unknown.join(", ")), RENAMED);
    }
    if missing.is_empty() {
        rights_to_overrides(server, &user, store).await
    } else {
        let found = format!("user {user} may not {} under {prefix}*", missing.join(", "));
        let (needed, more) = (StoreServer::COUNTING_RIGHTS, StoreServer::MORE_RIGHTS);
        let advice = format!("ACL SETUSER {user} ~{prefix}* {needed}; {more}");
        Finding::fail("rights", found, advice)
    }
}

/// Checks rights that cannot be queried. The script treats a refused GET like a key without a count, so this tries GET
/// directly.
async fn unknown_rights(server: &StoreServer, key: &str, whose: &str) -> Finding {
    match ask::<()>(server, &["GET", key]).await {
        Ok(_) => {
            let found = format!("{whose} cannot be read; `exact` shows whether they suffice");
            Finding::pass("rights", found)
        }
        Err(error) if error.contains("unknown command") => Finding::fail("rights", "it has no GET", RENAMED),
        Err(error) => Finding::fail("rights", error, StoreServer::advice_on_rights()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time before all others had an offset whose absolute value no number holds.
    #[test]
    fn a_time_that_no_server_has_is_none() {
        assert_eq!(time_of(1_728_045_030, 999_999), Some(Timestamp::from_unix_millis(1_728_045_030_999)));
        let bits = || (0..64).map(|bit| 1_i64 << bit);
        for seconds in bits().skip(38).chain([-1, i64::MIN, i64::MAX]) {
            assert_eq!(time_of(seconds, 0), None, "{seconds}");
        }
        for micros in bits().skip(20).chain([-1, 1_000_000]) {
            assert_eq!(time_of(1_728_045_030, micros), None, "{micros}");
        }
    }
}
