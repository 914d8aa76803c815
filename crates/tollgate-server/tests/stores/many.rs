//! A hundred thousand policies: how long the service takes to start with them, and what a reload costs other requests.

#![allow(clippy::disallowed_methods, reason = "this measures real time")]

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::folder::Folder;
use crate::support::{Server, get};

/// The time between two checks: faster than a client that waits for its answers, and far from what the service can do.
const INTERVAL: Duration = Duration::from_micros(500);

/// The number of reloads whose effect is measured.
const RELOADS: usize = 5;

/// A file in which every policy would get a warning, and one exempts.
fn policies(count: usize, limit: u64) -> String {
    let policy = |number| {
        let key = if number % 2 == 0 { "user" } else { "ip" };
        format!(
            "  - {{ name: p{number}, match: {{ path: /p/{number} }}, key: [{key}], quotas: [{limit}/1d] }}\n"
        )
    };
    let exempt = "policies:\n  - { name: health, match: { path: [/healthz, /readyz] }, exempt: true }\n";
    exempt.to_owned() + &(0..count).map(policy).collect::<String>()
}

/// Returns the service and how long it took to start.
fn start(folder: &Folder, count: usize) -> (Server, Duration) {
    let file = folder.write("t.yaml", &policies(count, 5));
    let began = Instant::now();
    let server = Server::start(&["--config", &file]);
    (server, began.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// A hundred thousand policies took 24 s to start with on a busy machine, and twelve to reload, and the time grew
/// faster than their number: each warning was compared with all earlier ones, and each policy with all others.
#[test]
#[ignore = "it measures times; `cargo xtask prove reloads` runs it"]
fn prove_a_hundred_thousand_policies() {
    let folder = Folder::new();
    let few = median((0..5).map(|_| start(&folder, 1_000).1).collect());
    let (server, many) = start(&folder, 100_000);
    let ratio = many.as_secs_f64() / few.as_secs_f64();

    let over = AtomicBool::new(false);
    let (mut waits, reloads) = thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut connection = server.connect();
            let (mut waits, began) = (Vec::new(), Instant::now());
            while !over.load(Ordering::Relaxed) {
                // A late answer delays no later request: each wait runs from when its request was due.
                let due = began + INTERVAL * waits.len() as u32;
                thread::sleep(due.saturating_duration_since(Instant::now()));
                let reply = connection.ask(&get("/v1/check?path=/other&user=alice"));
                assert_eq!(reply.status, 200);
                waits.push(due.elapsed());
            }
            waits
        });
        let reload = |number| {
            folder.write("new", &policies(100_000, 6 + number));
            fs::rename(folder.path("new"), folder.path("t.yaml")).expect("it can be renamed");
            let began = Instant::now();
            let reply = server.admin_post("/v1/policies/reload", "");
            assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
            began.elapsed()
        };
        let reloads = (0..RELOADS as u64).map(reload).collect();
        over.store(true, Ordering::Relaxed);
        (client.join().expect("it only sends checks"), median(reloads))
    });
    waits.sort_unstable();
    let p999 = waits[waits.len() * 999 / 1_000];
    println!(
        "RESULT prove/reloads/many start_ms={} ratio_to_1k={ratio:.1} reload_ms={} checks={} p999_us={} max_us={}",
        many.as_millis(),
        reloads.as_millis(),
        waits.len(),
        p999.as_micros(),
        waits[waits.len() - 1].as_micros()
    );
    assert!(many <= Duration::from_secs(5), "{many:?} to start");
    assert!(ratio <= 120.0, "{ratio} times as long as 1,000");
    assert!(p999 <= Duration::from_millis(20), "{p999:?}");
}
