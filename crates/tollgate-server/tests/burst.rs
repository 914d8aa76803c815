//! The first burst: 200 clients ask a service with default flags that has just started with an empty store.
//!
//! With a limit of 50, exactly 50 are admitted. If the machine is too busy for the store's deadline, the default policy
//! admits more, uncounted. Each of those answers says so, and lies inside an outage of which the log has the beginning and
//! the end.

#![cfg(unix)]
#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

mod support;

use std::env;
use std::fs::{self, File};
use std::hint;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;
use support::folder::Folder;
use support::{Server, get};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tollgate_testkit::servers::{self, Software};

const CLIENTS: usize = 200;
const LIMIT: usize = 50;

/// The result of one client's request.
#[derive(Debug)]
struct Answer {
    is_admitted: bool,
    /// The source of the decision.
    source: String,
    /// From before the request was sent until after the answer was read.
    took: RangeInclusive<Timestamp>,
}

/// The result of one burst.
#[derive(Debug, Default)]
struct Burst {
    admitted: usize,
    /// Admitted uncounted.
    fallback: usize,
    violations: Vec<String>,
}

/// Threads that keep processors busy until this is dropped.
struct Busy {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    fn start(threads: usize) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let busy = || {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            })
        };
        Self { threads: (0..threads).map(|_| busy()).collect(), is_over }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Burst {
    /// Starts a store and a service, and sends the requests as soon as the service announces its address.
    fn of(software: Software) -> Self {
        let store = servers::Server::start(software);
        let (folder, limit) = (Folder::new(), format!("{LIMIT}/1d@first_hit"));
        let log = folder.path("log");
        let arguments = ["--limit", &limit, "--store", &format!("redis://{}", store.address())];
        let server = Server::start_logging_to(File::create(&log).expect("a log"), &arguments);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let answers = runtime.block_on(answers(&server));
        let read = || fs::read_to_string(&log).expect("the log is text");
        // An end is logged with the first answer after it. One of several outages in a row is logged with the others, ten
        // seconds after the first.
        let patience = Instant::now() + Duration::from_secs(30);
        while !Self::judged(&answers, &read()).violations.is_empty() && Instant::now() < patience {
            server.get("/v1/check?user=bob");
            thread::sleep(Duration::from_millis(10));
        }
        server.signal("TERM");
        server.wait();
        Self::judged(&answers, &read())
    }

    fn judged(answers: &[Answer], log: &str) -> Self {
        let mut burst = Self::default();
        let outages = Outages::read(log).whole;
        for answer in answers.iter().filter(|answer| answer.is_admitted) {
            burst.admitted += 1;
            if answer.source == "fallback" {
                burst.fallback += 1;
                let is_inside = |outage: &RangeInclusive<Timestamp>| {
                    outage.start() <= answer.took.end() && answer.took.start() <= outage.end()
                };
                if !outages.iter().any(is_inside) {
                    burst.violations.push(format!("uncounted outside of an outage: {answer:?}"));
                }
            }
        }
        let counted = burst.admitted - burst.fallback;
        if counted > LIMIT {
            burst.violations.push(format!("{counted} were admitted as if counted"));
        }
        if burst.fallback == 0 && burst.admitted != LIMIT {
            burst.violations.push(format!("{} were admitted", burst.admitted));
        }
        if !burst.violations.is_empty() {
            burst.violations.push(format!("the log of the service:\n{log}"));
        }
        burst
    }
}

/// Connects all clients, and then lets all of them send their request.
async fn answers(server: &Server) -> Vec<Answer> {
    let together = Arc::new(Barrier::new(CLIENTS));
    let ask = |address| {
        let together = Arc::clone(&together);
        async move {
            let mut stream = TcpStream::connect(address).await.expect("the service accepts");
            together.wait().await;
            let begun = Timestamp::now();
            let request = get("/v1/check?user=alice");
            stream.write_all(&request).await.expect("the service reads");
            let (is_admitted, body) = answer(&mut stream).await;
            Answer {
                is_admitted,
                source: body["source"].as_str().unwrap_or_default().to_owned(),
                took: begun..=Timestamp::now(),
            }
        }
    };
    let clients: JoinSet<Answer> = (0..CLIENTS).map(|_| ask(server.public)).collect();
    clients.join_all().await
}

/// Reads the next answer. Returns whether it admits, and its body.
async fn answer(stream: &mut TcpStream) -> (bool, Value) {
    let mut read = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece).await.expect("the service answers");
        read.extend_from_slice(&piece[..length]);
        let text = String::from_utf8_lossy(&read);
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str(body)
        {
            return (text.starts_with("HTTP/1.1 200"), body);
        }
        assert!(length > 0, "an answer ended before it was whole: {text}");
    }
}

/// The outages in a log.
#[derive(Debug, Default)]
struct Outages {
    /// Those of which both the beginning and the end are in the log.
    whole: Vec<RangeInclusive<Timestamp>>,
    /// The beginning of one that has no end yet.
    begun: Option<Timestamp>,
    /// When the last line about an outage was logged.
    told: Option<Timestamp>,
}

impl Outages {
    fn read(log: &str) -> Self {
        let mut outages = Self::default();
        for line in log.lines() {
            let at = line.split_whitespace().next().and_then(|at| at.parse().ok());
            if let Some(at) = at {
                outages.line(at, line);
            }
        }
        outages
    }

    fn line(&mut self, at: Timestamp, line: &str) {
        if line.contains("the store does not answer") {
            self.begun.get_or_insert(at);
        } else if line.contains("the store answers again") {
            self.whole.extend(self.begun.take().map(|begun| begun..=at));
        } else if line.contains("the store failed again") {
            // Outages that were gathered since the line before, and have no lines of their own.
            self.whole.extend(self.told.map(|told| told..=at));
            self.begun = line.contains("is away").then_some(at);
        } else {
            return;
        }
        self.told = Some(at);
    }
}

/// A log without the beginning of an outage, or without its end, excused every admission before or after.
#[test]
fn an_outage_has_a_beginning_and_an_end() {
    let at = |second: u8| -> Timestamp { format!("2026-01-01T00:00:{second:02}Z").parse().expect("a time") };
    let log = |lines: &[(u8, &str)]| -> String {
        lines.iter().map(|(second, line)| format!("{}  WARN {line}\n", at(*second))).collect()
    };
    let (gone, back) = ("the store does not answer: error=..", "the store answers again failed=3");
    let again =
        |store: &str| format!("the store failed again since the last line about it store=\"{store}\"");
    let (answers, away) = (again("answers"), again("is away"));
    for (lines, whole, is_open) in [
        (&[(1, gone), (2, back)][..], &[(1, 2)][..], false),
        (&[(1, gone)], &[], true),
        (&[(2, back)], &[], false),
        (&[(2, &answers)], &[], false),
        (&[(1, gone), (2, back), (13, &answers)], &[(1, 2), (2, 13)], false),
        (&[(1, gone), (2, back), (13, &away)], &[(1, 2), (2, 13)], true),
        (&[(1, gone), (2, back), (13, &away), (14, back)], &[(1, 2), (2, 13), (13, 14)], false),
    ] {
        let outages = Outages::read(&log(lines));
        let expected: Vec<_> = whole.iter().map(|(begun, ended)| at(*begun)..=at(*ended)).collect();
        assert_eq!((&outages.whole, outages.begun.is_some()), (&expected, is_open), "{lines:?}");
    }
}

#[test]
fn a_first_burst_admits_the_limit_and_says_what_it_does_not_count() {
    for software in [Software::Redis, Software::Valkey] {
        let Burst { violations, .. } = Burst::of(software);
        assert!(violations.is_empty(), "{}", violations.join("\n"));
    }
}

/// Many bursts on an idle machine, each of which admits exactly the limit. Then as many with two busy threads for each
/// processor.
#[test]
#[ignore = "takes minutes: cargo xtask prove burst"]
fn prove() {
    let wanted = env::var("TOLLGATE_TRIALS").ok().map(|text| text.parse().expect("a number of trials"));
    let trials = wanted.unwrap_or(1_000);
    let processors = thread::available_parallelism().map_or(1, usize::from);
    // Ends the line with the name of the test.
    println!();
    let violations = many("idle", trials, 0) + many("loaded", trials, 2 * processors);
    assert_eq!(violations, 0, "violations, see above");
}

/// Runs bursts with busy threads. Returns the number of bursts that broke a promise.
fn many(machine: &str, trials: usize, busy: usize) -> usize {
    let _busy = Busy::start(busy);
    let (mut with_fallback, mut uncounted, mut violations) = (0, 0, 0);
    for trial in 0..trials {
        let mut burst = Burst::of([Software::Redis, Software::Valkey][trial % 2]);
        if busy == 0 && burst.fallback > 0 {
            let Burst { admitted, fallback, .. } = burst;
            burst
                .violations
                .push(format!("{admitted} admitted, {fallback} of them uncounted, on an idle machine"));
        }
        with_fallback += usize::from(burst.fallback > 0);
        uncounted += burst.fallback;
        violations += usize::from(!burst.violations.is_empty());
        burst.violations.iter().for_each(|violation| println!("violation in trial {trial}: {violation}"));
    }
    println!(
        "RESULT prove/burst/{machine} trials={trials} busy={busy} with_uncounted={with_fallback} uncounted={uncounted} violations={violations}"
    );
    violations
}
