//! Checks of existing counters, and of whether new ones are exact.

use std::time::Duration;

use tokio::task::JoinSet;
use tollgate::{Charge, Counter, PolicyQuota, Quota, QuotaState, Step, Store, StoreError};
use tollgate_redis::{RedisError, RedisStore, StoreServer};

use super::advice;
use super::ask::ask;
use super::finding::Finding;
use crate::observe::stopwatch::Stopwatch;
use crate::overrides::RECORDS;

/// The time for scanning one server; large ones are scanned in part.
const SCAN_LIMIT: Duration = Duration::from_millis(1_500);

const CHARGES: u64 = 1_000;
const LIMIT: u32 = 600;

/// Checks whether every counter under the prefix expires. Overrides do not.
pub(super) async fn expiry(server: &StoreServer, prefix: &str, store: &RedisStore) -> Finding {
    let (overrides, scan_began) = (store.records(RECORDS), Stopwatch::start());
    let pattern = prefix.replace(['*', '?', '[', ']', '\\'], "?") + "*";
    let (mut cursor, mut seen, mut endless) = ("0".to_owned(), 0_u64, Vec::new());
    let whole = 'scan: loop {
        let scan = ["SCAN", &cursor, "MATCH", &pattern, "COUNT", "500"];
        let (next, keys) = match ask::<(String, Vec<Vec<u8>>)>(server, &scan).await {
            Ok(page) => page,
            Err(error) => {
                let advice =
                    advice::on_no_answer(&error, "allow the user +scan, so that this can be checked");
                return Finding::warn("expiry", error, advice).of(server);
            }
        };
        for key in keys {
            // A page of keys takes some hundred round trips, which may exceed the scan's time.
            if scan_began.elapsed() > SCAN_LIMIT {
                break 'scan "; there was no time to check them all";
            }
            if overrides.keys().any(|name| name == key) {
                continue;
            }
            seen += 1;
            if ask::<i64>(server, &[b"PTTL", &*key]).await == Ok(-1) {
                // The identity is not shown, because it may be a person.
                endless.push(format!("{}{{...}}", store.without_identity(&key).escape_ascii()));
            }
        }
        cursor = next;
        if cursor == "0" {
            break "";
        }
        if scan_began.elapsed() > SCAN_LIMIT {
            break "; there was no time to check them all";
        }
    };
    match endless.first() {
        None => Finding::pass("expiry", format!("all of {seen} keys under {pattern} expire{whole}")),
        Some(first) => Finding::fail(
            "expiry",
            format!("{} of {seen} keys under {pattern} never expire, such as {first}{whole}", endless.len()),
            "another program has written or persisted them; a request for a counter repairs it, at the latest in \
             its next window; delete anything else",
        ),
    }
    .of(server)
}

/// Checks whether concurrent charges pass exactly up to the limit.
pub(super) async fn exact(store: &RedisStore) -> Finding {
    const ADVICE: &str = "this should never happen: check the lines above, and make sure that no other program \
                          writes keys with this prefix";
    let quota = PolicyQuota::new("tollgate doctor", Quota::per_hour(LIMIT));
    // A unique key, so that concurrent runs do not share a counter.
    let key = store.probe_key(fastrand::u64(..));
    let mut charges = JoinSet::new();
    for _ in 0..CHARGES {
        let (store, quota, key) = (store.clone(), quota.clone(), key.clone().into_owned());
        charges.spawn(async move { store.step(Step::Charge(&[Charge::new(&quota, &key, 1)])).await });
    }
    let (mut passed, mut denied, mut failure) = (0_u32, 0_u32, None);
    for answer in charges.join_all().await {
        match answer {
            Ok(counted) if counted.is_admitted() => passed += 1,
            Ok(_) => denied += 1,
            Err(error) => failure = Some(error),
        }
    }
    let used = store
        .step(Step::Peek(&[Charge::new(&quota, &key, 0)]))
        .await
        .map(|counted| counted.iter().map(QuotaState::used).sum::<u64>());
    // It expires in any case.
    let _ = store.step(Step::Reset(Counter::new(&quota, &key))).await;
    if let Some(error) = failure {
        let (trouble, advice) = match RedisError::of(&error) {
            Some(RedisError::ScriptRefused | RedisError::AccessDenied) => {
                (error_text(&error), advice::on_refused_script())
            }
            // The key is unique, so GET does not fail because of its value.
            Some(RedisError::WrongType) => {
                ("the script cannot read its counter".to_owned(), advice::on_refused_script())
            }
            _ => (error_text(&error), ADVICE.into()),
        };
        let found = format!(
            "of {CHARGES} charges {passed} passed, {denied} were denied, and others failed: {trouble}"
        );
        return Finding::fail("exact", found, advice);
    }
    let found = format!("of {CHARGES} concurrent charges under a limit of {LIMIT}, {passed} passed");
    match used {
        Ok(used) if passed == LIMIT && used == u64::from(LIMIT) => Finding::pass("exact", found),
        Ok(used) => Finding::fail("exact", format!("{found}, but {used} are counted"), ADVICE),
        Err(error) => {
            let trouble = error_text(&error);
            Finding::fail("exact", format!("{found}, but the count cannot be read: {trouble}"), ADVICE)
        }
    }
}

fn error_text(error: &StoreError) -> String {
    RedisError::of(error).map_or_else(|| error.to_string(), ToString::to_string)
}

pub(super) fn too_slow() -> Finding {
    Finding::fail(
        "exact",
        "there was no time for it",
        "see the lines above: the store is slow or unreachable",
    )
}
