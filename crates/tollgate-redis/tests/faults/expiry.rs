//! G5: every key that there is on a server expires, and in time.

use std::time::Duration;

use tollgate_testkit::servers::Server;

use crate::fault::Found;

/// Looks at every key of the server. A policy's keys may lie there for one of its windows and a second, by the
/// server's time.
pub(crate) fn check(server: &Server, windows: &[(&str, Duration)], found: &mut Found) {
    let mut connection = server.connection();
    let mut cursor = 0_u64;
    loop {
        let mut scan = redis::cmd("SCAN");
        let (next, keys): (u64, Vec<String>) =
            scan.arg(cursor).arg("COUNT").arg(1_000).query(&mut connection).unwrap();
        for key in keys {
            let expiry: i64 = redis::cmd("PEXPIRETIME").arg(&key).query(&mut connection).unwrap();
            // Read later than the expiry, so that this can only seem too early.
            let (seconds, _micros): (i64, i64) = redis::cmd("TIME").query(&mut connection).unwrap();
            let window = windows.iter().find(|(policy, _)| key.contains(&format!(":1:{policy}:")));
            // Gone meanwhile.
            if expiry == -2 {
                continue;
            }
            found.expect(expiry != -1, || format!("a key never expires: {key}"));
            let Some((_, window)) = window else {
                found.violations.push(format!("a key of no policy: {key}"));
                continue;
            };
            // The second that has begun, and the grace.
            let latest = (seconds + 2) * 1_000 + i64::try_from(window.as_millis()).unwrap();
            found.expect(expiry <= latest, || format!("{key} lies there until {expiry}, at most {latest}"));
        }
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
}
