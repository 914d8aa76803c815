//! A thousand sets of limits while decisions are asked for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::free_address;
use crate::support::{Connection, undisturbed, until};
use crate::xds::control_plane::ControlPlane;
use crate::xds::{ask, start};

const UPDATES: u32 = 1_000;
const CLIENTS: usize = 4;
const DOMAINS: [&str; 2] = ["first", "second"];

/// Descriptors of one call, whose limits are in different places of the set.
const DESCRIPTORS: &[&[(&str, &str)]] =
    &[&[("user", "alice")], &[("plan", "free"), ("path", "/a")], &[("address", "10.0.0.1")]];

/// A set whose limits all tell its number.
fn set(number: u32) -> Vec<Value> {
    let limit =
        json!({ "unit": "YEAR", "requests_per_unit": 1_000_000 + number, "name": format!("set-{number}") });
    let descriptors = json!([
        { "key": "user", "rate_limit": limit },
        { "key": "plan", "value": "free", "descriptors": [{ "key": "path", "rate_limit": limit }] },
        { "key": "address", "value": "10.0.0.*", "rate_limit": limit },
        // A part that comes and goes.
        { "key": "odd", "value": format!("{}", number % 2), "rate_limit": limit },
    ]);
    DOMAINS.map(|name| json!({ "name": name, "domain": name, "descriptors": descriptors })).into()
}

/// Returns the number of the set that decided, of which every status has to tell the same.
fn decided_by(answer: &Value) -> u32 {
    let statuses = answer["statuses"].as_array().expect("statuses");
    assert_eq!(statuses.len(), DESCRIPTORS.len());
    let limit = &statuses[0]["currentLimit"];
    assert!(statuses.iter().all(|status| status["currentLimit"] == *limit), "two sets: {answer}");
    let name = limit["name"].as_str().and_then(|name| name.strip_prefix("set-"));
    let number: u32 = name.and_then(|number| number.parse().ok()).expect("a number");
    assert_eq!(limit["requestsPerUnit"], json!(1_000_000 + number), "two sets: {answer}");
    number
}

#[test]
#[ignore = "it needs Envoy and go-control-plane, which `cargo xtask prove xds` builds"]
fn prove_updates_under_load() {
    undisturbed(|| {
        let mut plane = ControlPlane::start(free_address());
        let server = start(plane.address, free_address(), &[], &[]);
        plane.apply("1", &set(1));
        let (is_over, public) = (AtomicBool::new(false), server.public);
        let (live_within, decisions) = thread::scope(|scope| {
            let client = |domain: &'static str| {
                let is_over = &is_over;
                move || {
                    let (mut connection, mut newest, mut decisions) = (Connection::open(public), 0, 0);
                    while !is_over.load(Ordering::Relaxed) {
                        let number = decided_by(&ask(&mut connection, domain, DESCRIPTORS));
                        assert!(number >= newest, "{number} after {newest}");
                        newest = number;
                        decisions += 1;
                    }
                    decisions
                }
            };
            let clients: Vec<_> =
                (0..CLIENTS).map(|number| scope.spawn(client(DOMAINS[number % DOMAINS.len()]))).collect();
            let mut connection = Connection::open(public);
            for number in 2..=UPDATES {
                plane.set(&number.to_string(), &set(number));
                // Lets about one decision pass.
                decided_by(&ask(&mut connection, DOMAINS[0], DESCRIPTORS));
            }
            let sent = Instant::now();
            until("the last set decides", || {
                DOMAINS.iter().all(|domain| decided_by(&ask(&mut connection, domain, DESCRIPTORS)) == UPDATES)
            });
            let live_within = sent.elapsed();
            is_over.store(true, Ordering::Relaxed);
            (
                live_within,
                clients.into_iter().map(|client| client.join().expect("no violation")).sum::<usize>(),
            )
        });
        assert!(live_within < Duration::from_secs(1), "{live_within:?}");
        let mut applied = Vec::<u32>::new();
        until("the last set is acknowledged", || {
            let all = plane.acknowledgements();
            assert!(all.iter().all(|one| one.error.is_empty()), "{all:?}");
            applied = all.iter().map(|one| one.version.parse().expect("a number")).collect();
            applied.last() == Some(&UPDATES)
        });
        assert!(applied.is_sorted_by(|one, next| one < next), "{applied:?}");
        println!(
            "RESULT prove/xds/load sent={UPDATES} applied={} decisions={decisions} last_live_ms={} violations=0",
            applied.len(),
            live_within.as_millis()
        );
    });
}
