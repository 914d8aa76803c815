//! A fleet of processes holds all units in flight of a key, and half of it is killed.
//!
//! What is live is read from the server by other means than the store's: the ends of all units, next to the server's
//! time.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::ConnectionLike;
use tollgate::{HoldKeeper, HoldLimiter, Limiter};
use tollgate_redis::RedisStore;
use tollgate_testkit::servers::{Server, Software};

use crate::process::url;

/// The server of a process of the fleet, in its environment.
const SERVER: &str = "TOLLGATE_TEST_FLEET_HOLDS_ON";
const PROCESSES: usize = 10;
const UNITS: usize = 20;
const LIMIT: usize = PROCESSES * UNITS;
const LENGTH: Duration = Duration::from_secs(3);

/// Reads the time of the server, in milliseconds, and the ends of all units.
const LOOK: &str = "
local time, ends = redis.call('TIME'), {}
local names = redis.call('KEYS', '*~in_flight*')
for _, name in ipairs(names) do
  local members = redis.call('ZRANGE', name, 0, -1, 'WITHSCORES')
  for i = 2, #members, 2 do ends[#ends + 1] = members[i] end
end
return { time[1] .. string.format('%03d', math.floor(time[2] / 1000)), ends }";

#[test]
fn a_killed_half_of_a_fleet_frees_its_units_within_one_length_and_no_more() {
    if let Ok(url) = std::env::var(SERVER) {
        on_runtime(hold_all(&url));
        return;
    }
    for software in Software::ALL {
        kill_half(software);
    }
}

fn kill_half(software: Software) {
    let server = Server::start(software);
    let mut fleet: Vec<Child> = (0..PROCESSES).map(|_| process(&server)).collect();
    for process in &mut fleet {
        let output = BufReader::new(process.stdout.take().unwrap());
        assert!(output.lines().any(|line| line.unwrap().contains("holds all")), "a process holds nothing");
    }
    let (most, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = server.connection();
            while !is_over.load(Ordering::Relaxed) {
                most.fetch_max(live_on(&mut connection), Ordering::Relaxed);
            }
        });
        let newcomers = on_runtime(async {
            let limiter = limiter(&url(&server));
            // Longer than a hold lives without a renewal: the fleet renews.
            let full = take_for(&limiter, LENGTH * 3 / 2).await;
            assert_eq!(full.len(), 0, "{software:?}: a unit was free");
            fleet.iter_mut().take(PROCESSES / 2).for_each(|process| process.kill().unwrap());
            let killed = Instant::now();
            let taken = take_for(&limiter, LENGTH * 2).await;
            assert_eq!(taken.len(), LIMIT / 2, "{software:?}");
            let first = taken[0].1 - killed;
            // A third of a length passes between two renewals, or a little more on a busy machine.
            assert!(first > LENGTH / 3, "{software:?}: a unit of a killed process was free after {first:?}");
            taken
        });
        is_over.store(true, Ordering::Relaxed);
        drop(newcomers);
    });
    assert_eq!(most.into_inner(), LIMIT, "{software:?}: more than the limit were live at once, or fewer");
    fleet.iter_mut().for_each(|process| {
        process.kill().unwrap();
        process.wait().unwrap();
    });
}

/// Takes units one by one, whenever one is free, and returns them with the time of each.
async fn take_for(limiter: &HoldLimiter, time: Duration) -> Vec<(tollgate::SharedHold, Instant)> {
    let (until, mut taken) = (Instant::now() + time, Vec::new());
    while Instant::now() < until {
        match limiter.hold("key").await.unwrap().into_hold() {
            Some(hold) => taken.push((hold, Instant::now())),
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
    taken
}

/// Returns how many units are live.
fn live_on(connection: &mut impl ConnectionLike) -> usize {
    let (now, ends): (u64, Vec<f64>) = redis::cmd("EVAL").arg(LOOK).arg(0).query(connection).unwrap();
    ends.into_iter().filter(|end| *end > now as f64).count()
}

/// Starts a process of the fleet: this test, which finds the server in its environment.
fn process(server: &Server) -> Child {
    let mut process = Command::new(std::env::current_exe().unwrap());
    let test = "fleet::a_killed_half_of_a_fleet_frees_its_units_within_one_length_and_no_more";
    process.args(["--exact", test, "--nocapture"]).env(SERVER, url(server));
    process.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Holds units until somebody kills the process.
async fn hold_all(url: &str) {
    let limiter = limiter(url);
    let mut holds = Vec::new();
    while holds.len() < UNITS {
        holds.extend(limiter.hold("key").await.unwrap().into_hold());
    }
    println!("\nholds all");
    std::future::pending::<()>().await;
}

fn limiter(url: &str) -> HoldLimiter {
    let store = RedisStore::builder(url.parse().unwrap()).deadline(Duration::from_secs(10)).build().unwrap();
    let (keeper, task) = HoldKeeper::new(tokio::time::sleep);
    tokio::spawn(task);
    let in_flight = format!("{LIMIT}~in_flight:{}s", LENGTH.as_secs()).parse().unwrap();
    Limiter::builder("fleet").build_shared_in_flight(in_flight, store, &keeper).unwrap()
}

fn on_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(work)
}
