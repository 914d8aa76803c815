//! What servers have in the end, held against what the only caller of each counter was told.

use tollgate::{PolicyQuota, QuotaState};
use tollgate_testkit::servers::Server;

use crate::fault::Found;

/// How long a counter outlives its window, in milliseconds.
const GRACE: i64 = 1_000;

/// A counter as its server has it: read with plain commands, not with the store.
#[derive(Debug)]
struct Stored {
    count: u64,
    /// What stands before the last 13 digits of the value.
    number: u64,
    /// In Unix milliseconds.
    expiry: i64,
}

/// Compares the counter whose name fits the pattern with the last answer about it and with the number of charges after
/// it whose outcome is unknown. Returns whether the server still has it.
///
/// A server has it until its window is over for a second by the server's own clock, with a count and an expiry that are
/// those of the answer. Only a charge of unknown outcome may have changed them.
pub(crate) fn check(
    server: &Server,
    pattern: &str,
    quota: &PolicyQuota,
    last: &QuotaState,
    unknown: u64,
    found: &mut Found,
) -> bool {
    let stored = stored(server, pattern);
    let now = server.time().as_unix_millis();
    let window = last.window().unwrap();
    let expiry = window.end().as_unix_millis() + GRACE;
    let (start, length) =
        (window.start().as_unix_millis(), window.end().since(window.start()).as_millis() as i64);
    // Only windows on a grid have a number, if they are no shorter than a second, and if the key does not name them.
    let (is_own, windows) = (pattern.starts_with("tollgate:"), quota.windows());
    let is_on_grid =
        windows.starts_with(|first: char| first.is_ascii_digit()) && !windows.contains("first_hit");
    let numbered =
        if is_own && is_on_grid && length >= 1_000 { (start / length % 899 + 1) as u64 } else { 0 };
    let what = || format!("{pattern}: {stored:?} at {now}, {unknown} unknown after {last:?}");
    let mut is_there = false;
    for Stored { count, number, expiry: is } in &stored {
        if *is == expiry {
            is_there = true;
            found.expect(*number == numbered, || format!("not the number of its window: {}", what()));
            let possible = last.used()..=last.used() + unknown;
            found.expect(possible.contains(count), || format!("not the count that was told: {}", what()));
        } else {
            // An unknown charge took the counter into another window, with what it had or without.
            let possible = *count <= unknown || (last.used()..=last.used() + unknown).contains(count);
            // A key that names its window lies there for a second after it.
            let is_earlier = *is < expiry;
            found.expect(is_earlier || unknown > 0 && possible, || {
                format!("not the window that was told: {}", what())
            });
        }
    }
    let is_over = now >= expiry;
    found.expect(is_there || is_over || unknown > 0, || format!("forgotten: {}", what()));
    is_there
}

fn stored(server: &Server, pattern: &str) -> Vec<Stored> {
    let names: Vec<String> = server.command(["KEYS", pattern]);
    let look = |name: &String| {
        let value: Option<u64> = server.command(["GET", name]);
        // Gone meanwhile, or told as -2.
        let expiry: i64 = server.command(["PEXPIRETIME", name]);
        let (count, number) = (value? % 10_u64.pow(13), value? / 10_u64.pow(13));
        (expiry != -2).then_some(Stored { count, number, expiry })
    };
    names.iter().filter_map(look).collect()
}
