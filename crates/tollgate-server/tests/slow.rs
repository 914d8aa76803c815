//! Thousands of slow clients, and their effect on others.
//!
//! All slow clients run on one thread of this process; the service is another process. `prove` measures the effect. The
//! test only shows that others get their answers.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

mod support;

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{env, future};

use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};
use support::{Connection, Server, get, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// The service cuts a slow client after this time, and the client connects again. So the starts are spread over it.
const SLOW_LIMIT: Duration = Duration::from_secs(5);

/// The time between two bytes of a slow client.
const DRIP: Duration = Duration::from_secs(1);

/// The time between two requests of a measured client.
const INTERVAL: Duration = Duration::from_millis(20);

/// The number of measured clients that keep their connection, and of those that open one for each request.
const CLIENTS_OF_A_KIND: usize = 2;

/// The length of a round: longer than the service keeps a slow client, so that each is cut at least once.
const ROUND: Duration = Duration::from_secs(20);

/// The number of rounds. The median counts, so a single disturbance changes nothing.
const ROUNDS: usize = 5;

/// Some twenty times the duration of a check on an idle machine. If checks take longer without slow clients, other
/// processes use the machine, and the figures do not show the service.
const BUSY: Duration = Duration::from_millis(5);

/// The kinds of slow clients.
#[derive(Clone, Copy)]
enum Slowness {
    /// It begins a head and stops.
    Silent,
    /// It sends a byte of a head now and then.
    Head,
    /// It sends a byte of a body now and then.
    Body,
}

/// Slow clients that hold connections until this is dropped.
struct Crowd {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Crowd {
    /// Starts slow clients, spread over some time.
    fn start(address: SocketAddr, clients: u32, spread: Duration) -> Self {
        let (end, ended) = oneshot::channel();
        let crowd = async move {
            let kinds = [Slowness::Silent, Slowness::Head, Slowness::Body];
            let mut crowd: JoinSet<()> = kinds
                .into_iter()
                .cycle()
                .zip(0..clients)
                .map(|(slowness, index)| async move {
                    // Real time: clients come one after another.
                    tokio::time::sleep(spread * index / clients).await;
                    loop {
                        be_slow(address, slowness).await;
                    }
                })
                .collect();
            tokio::select! {
                _ = ended => {}
                Some(_) = crowd.join_next() => panic!("a slow client never ends by itself"),
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let thread = thread::spawn(move || {
            // Real slow clients have machines of their own: here they leave the processors to the service and to the
            // measured clients. (On Linux this is of the thread that calls.)
            setpriority_process(None, 19).expect("the thread gives way");
            runtime.block_on(crowd);
        });
        Self { end: Some(end), thread: Some(thread) }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        drop(self.end.take());
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || ended.is_some_and(|ended| ended.is_ok()), "the crowd has panicked");
    }
}

/// One connection, until the service ends it.
async fn be_slow(address: SocketAddr, slowness: Slowness) {
    let mut stream = TcpStream::connect(address).await.expect("the service accepts");
    let (mut answer, mut request) = stream.split();
    let send = async {
        let begin = match slowness {
            Slowness::Silent | Slowness::Head => {
                "GET /v1/check?user=slow HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
            }
            Slowness::Body => {
                "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                 Content-Length: 1000\r\n\r\n"
            }
        };
        request.write_all(begin.as_bytes()).await?;
        if matches!(slowness, Slowness::Silent) {
            return future::pending().await;
        }
        loop {
            tokio::time::sleep(DRIP).await;
            request.write_all(b" ").await?;
        }
    };
    let end = async {
        let mut piece = [0; 1024];
        while answer.read(&mut piece).await? > 0 {}
        Ok(())
    };
    // A new connection follows, however this one ends.
    let _: Result<(), std::io::Error> = tokio::select! {
        sent = send => sent,
        ended = end => ended,
    };
}

fn start(connections: u32) -> Server {
    let most = connections.to_string();
    Server::start(&["--limit", "1000000000/1d", "--key", "user", "--max-connections", &most])
}

fn open_connections(server: &Server) -> u32 {
    server.metric("tollgate_http_connections{listener=\"checks\"}").expect("a gauge") as u32
}

fn wait_for_connections(server: &Server, count: u32) {
    until("the slow clients are connected", || open_connections(server) >= count);
}

/// Clients that send parts of requests, in every way.
#[test]
fn others_get_answers_beside_slow_clients() {
    const SLOW: u32 = 300;
    let server = start(2 * SLOW);
    let _crowd = Crowd::start(server.public, SLOW, Duration::ZERO);
    wait_for_connections(&server, SLOW);
    let mut kept = server.connect();
    for _ in 0..200 {
        assert_eq!(kept.ask(&get("/v1/check?user=alice")).status, 200);
        assert_eq!(server.get("/v1/check?user=bob").status, 200);
    }
}

/// Measures other clients with and without the crowd in turn, and prints a RESULT line for each kind.
#[test]
#[ignore = "takes its time: cargo xtask prove http --slow"]
fn prove() {
    let wanted = env::var("TOLLGATE_SLOW").ok().and_then(|text| text.parse().ok());
    let connections: u32 = wanted.unwrap_or(10_000);
    // Between the end of a slow client and its next connection is a moment, and all of them together are to hold so many.
    let clients = connections + connections / 5;
    require_open_files(u64::from(clients) + 100);
    // Room for others: without it they would wait for a place, as `--max-connections` demands.
    let server = start(2 * connections);
    let rounds: Vec<Round> = (0..ROUNDS)
        .map(|_| {
            let calm = Measured::now(&server);
            let crowd = Crowd::start(server.public, clients, SLOW_LIMIT);
            wait_for_connections(&server, connections);
            let slow = Measured::now(&server);
            let open = open_connections(&server);
            drop(crowd);
            until("the slow clients are gone", || open_connections(&server) == 0);
            println!("calm {calm:?}; with {open} slow connections {slow:?}");
            assert!(open >= connections, "only {open} slow clients were connected in the end");
            Round { calm, slow }
        })
        .collect();
    let kept = Figures::of(&rounds, |measured| measured.kept);
    let new = Figures::of(&rounds, |measured| measured.new);
    let calm = kept.calm.max(new.calm);
    assert!(calm < BUSY, "this proves nothing: the machine is busy, p99 without slow clients is {calm:?}");
    let mut violations = 0;
    for (kind, Figures { calm, slow, ratio }) in [("kept", &kept), ("new", &new)] {
        let (calm, slow) = (calm.as_micros(), slow.as_micros());
        println!(
            "RESULT prove/http/slow/{kind} connections={connections} calm_p99_us={calm} slow_p99_us={slow} ratio={ratio:.2}"
        );
        violations += u32::from(*ratio > 2.0);
    }
    println!("RESULT prove/http/slow connections={connections} rounds={ROUNDS} violations={violations}");
    assert_eq!(violations, 0, "others wait more than twice as long as without slow clients");
}

/// Returns the p99 of the clients that kept their connection, and of those that opened one for each request.
#[derive(Debug)]
struct Measured {
    kept: Duration,
    new: Duration,
}

struct Round {
    calm: Measured,
    slow: Measured,
}

/// Returns the figure of the median round.
struct Figures {
    calm: Duration,
    slow: Duration,
    ratio: f64,
}

impl Measured {
    fn now(server: &Server) -> Self {
        let address = server.public;
        let (times, all) = mpsc::channel();
        thread::scope(|scope| {
            for index in 0..CLIENTS_OF_A_KIND as u32 {
                let (kept, new) = (times.clone(), times.clone());
                // Not all at the same moment.
                let first = INTERVAL * index / CLIENTS_OF_A_KIND as u32;
                scope.spawn(move || {
                    let mut connection = Connection::open(address);
                    kept.send((true, latencies(first, |request| ask(&mut connection, request))))
                });
                let first = first + INTERVAL / 4;
                scope.spawn(move || {
                    new.send((
                        false,
                        latencies(first, |request| ask(&mut Connection::open(address), request)),
                    ))
                });
            }
        });
        drop(times);
        let (kept, new): (Vec<_>, Vec<_>) = all.iter().partition(|(kept, _)| *kept);
        let p99 = |of: Vec<(bool, Vec<Duration>)>| {
            p99(of.into_iter().flat_map(|(_, latencies)| latencies).collect())
        };
        Self { kept: p99(kept), new: p99(new) }
    }
}

impl Figures {
    fn of(rounds: &[Round], of: impl Fn(&Measured) -> Duration) -> Self {
        let mut figures: Vec<_> = rounds
            .iter()
            .map(|Round { calm, slow }| {
                let (calm, slow) = (of(calm), of(slow));
                Self { calm, slow, ratio: slow.as_secs_f64() / calm.as_secs_f64() }
            })
            .collect();
        figures.sort_by(|one, other| one.ratio.total_cmp(&other.ratio));
        figures.swap_remove(figures.len() / 2)
    }
}

fn ask(connection: &mut Connection, request: &[u8]) {
    assert_eq!(connection.ask(request).status, 200);
}

/// Returns the durations of a round's requests, which are sent at a fixed rate.
fn latencies(first: Duration, mut ask: impl FnMut(&[u8])) -> Vec<Duration> {
    let request = get("/v1/check?user=alice");
    let began = Instant::now() + first;
    let due = (0..).map(|index| began + INTERVAL * index).take_while(|due| *due < began + ROUND);
    due.map(|due| {
        // A request that waits for the previous answer is late by that time. A thread that wakes late is not.
        let sent = match due.checked_duration_since(Instant::now()) {
            Some(early) => {
                // Real time: requests are sent at a steady rate.
                thread::sleep(early);
                Instant::now()
            }
            None => due,
        };
        ask(&request);
        sent.elapsed()
    })
    .collect()
}

fn p99(mut latencies: Vec<Duration>) -> Duration {
    latencies.sort_unstable();
    latencies[latencies.len() * 99 / 100]
}

/// Raises the limit of open files of this process as far as possible, as the service does.
fn require_open_files(needed: u64) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .expect("the limit of open files is raised");
    let given = maximum.unwrap_or(u64::MAX);
    assert!(
        given >= needed,
        "the system allows {given} open files and this needs {needed}: raise the hard limit (ulimit -Hn), or choose fewer with --slow"
    );
}
