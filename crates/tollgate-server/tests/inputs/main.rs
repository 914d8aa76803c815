//! Malformed inputs on many connections against the real service: it answers or ends each connection, answers none with
//! a status of 500 or above, and never panics.
//!
//! A generator that shares no code with the service makes the inputs and the expected results. A seed repeats one
//! connection.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

mod content;
mod http1;
mod http2;
mod random;
#[path = "../support/mod.rs"]
mod support;

use std::env;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use random::Random;
use support::Server;
use support::folder::Folder;

/// Nobody is denied. What a proxy asks about has no user.
const POLICIES: &str = "policies: [{ name: all, key: { first_of: [user, ip] }, quotas: [1000000000000/1d] }]";

/// The number of connections at once.
const WORKERS: usize = 16;

/// The result of one connection.
struct Outcome {
    inputs: u64,
    /// The fault, and the bytes that were sent.
    fault: Option<(String, Vec<u8>)>,
}

#[test]
fn malformed_inputs_are_refused_and_harm_nothing() {
    run(1, 20_000);
}

#[test]
#[ignore = "takes its time: cargo xtask prove http --inputs"]
fn prove() {
    let number = |name| env::var(name).ok().and_then(|text| text.parse().ok());
    run(number("TOLLGATE_SEED").unwrap_or(1), number("TOLLGATE_INPUTS").unwrap_or(1_000_000));
}

fn run(first_seed: u64, wanted: u64) {
    let folder = Folder::new();
    let server = Server::start(&["--config", &folder.write("limits.yaml", POLICIES)]);
    let began = Instant::now();
    let (seed, inputs, violations) = (AtomicU64::new(first_seed), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while inputs.load(Ordering::Relaxed) < wanted && violations.load(Ordering::Relaxed) < 10 {
                    let seed = seed.fetch_add(1, Ordering::Relaxed);
                    let Outcome { inputs: sent, fault } = connection(&server, seed);
                    inputs.fetch_add(sent, Ordering::Relaxed);
                    if let Some((fault, bytes)) = fault {
                        violations.fetch_add(1, Ordering::Relaxed);
                        println!("VIOLATION seed={seed}: {fault}\n{}", bytes.escape_ascii());
                    }
                }
            });
        }
    });
    let (inputs, mut violations) = (inputs.into_inner(), violations.into_inner());
    let per_second = inputs as f64 / began.elapsed().as_secs_f64();
    assert_eq!(server.get("/v1/check?user=last").status, 200);
    server.signal("TERM");
    let (status, log) = server.wait();
    if log.contains("panicked") || !status.success() {
        violations += 1;
        println!("VIOLATION {status}: {log}");
    }
    println!("RESULT prove/http/inputs inputs={inputs} per_second={per_second:.0} violations={violations}");
    assert_eq!(violations, 0);
}

/// Opens one connection to one of the listeners, by its seed.
fn connection(server: &Server, seed: u64) -> Outcome {
    let mut random = Random::new(seed);
    let is_admin = random.once_in(3);
    let address = if is_admin { server.admin } else { server.public };
    let stream = TcpStream::connect(address).expect("the server listens");
    if random.once_in(3) {
        http2::run(stream, &mut random, is_admin)
    } else {
        http1::run(stream, &mut random, is_admin)
    }
}
