//! The cost of holds in Redis: reservations that are settled, next to plain charges.
//!
//! The server runs on core 0, its 64 callers on core 1. Each case is measured in every round, in turn; the figure is the
//! median. The first round warms up and is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use tokio::runtime::{Builder, Runtime};
use tollgate::{
    Charge, HoldAdjustment, HoldAnswer, HoldId, HoldLength, HoldStep, HoldTerms, InFlight, InFlightCharge,
    Key, PolicyInFlight, PolicyQuota, Quota, Step, Store as _,
};
use tollgate_bench_harness::affinity::pin_this_thread;
use tollgate_bench_harness::cpu_time::cpu_time;
use tollgate_bench_harness::samples::{Samples, figure};
use tollgate_bench_harness::stopwatch::Stopwatch;
use tollgate_redis::RedisStore;
use tollgate_testkit::servers::{Server, Software};

/// So long that a machine that is busy for a moment fails no bench.
const DEADLINE: Duration = Duration::from_secs(2);

const CALLERS: usize = 64;

/// Measures reservations that are settled, next to plain charges.
#[derive(Debug, Parser)]
struct Args {
    /// The store is valkey-server instead of redis-server
    #[arg(long)]
    valkey: bool,
    /// Rounds; the figure is their median
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Length of one measurement in milliseconds
    #[arg(long, default_value_t = 500)]
    millis: u64,
}

/// What a caller does again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Charges a key of its own.
    Charge,
    /// Reserves and settles a unit in flight of a key of its own.
    Hold,
    /// The same with a charge, of which a part is given back.
    HoldAndCharge,
    /// Reserves and settles a unit of one key, of which so many are live.
    Live(u32),
}

const CASES: [(&str, Work); 5] = [
    ("charge", Work::Charge),
    ("hold", Work::Hold),
    ("hold-and-charge", Work::HoldAndCharge),
    ("hold-of-10", Work::Live(10)),
    ("hold-of-1000", Work::Live(1_000)),
];

struct Bench {
    server: Server,
    process: u32,
    store: Arc<RedisStore>,
    runtime: Runtime,
}

/// How often it was done in a second, and the microseconds of both sides for each time.
#[derive(Default)]
struct Rows {
    rate: Samples,
    server: Samples,
    client: Samples,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let software = if args.valkey { Software::Valkey } else { Software::Redis };
    let bench = Bench::start(software)?;
    let mut table: Vec<Rows> = CASES.iter().map(|_| Rows::default()).collect();
    for round in 0..=args.rounds {
        for ((_, work), rows) in CASES.iter().zip(&mut table) {
            let row = bench.measure(*work, Duration::from_millis(args.millis))?;
            if round > 0 {
                rows.rate.push(row[0]);
                rows.server.push(row[1]);
                rows.client.push(row[2]);
            }
        }
    }
    println!("{}: times a second, and microseconds of CPU for each", software.program());
    for ((name, _), rows) in CASES.iter().zip(&table) {
        let [rate, server, client] = [&rows.rate, &rows.server, &rows.client].map(|it| figure(it.median()));
        println!("RESULT holds/{name} a_second={rate} store_us={server} callers_us={client}");
    }
    Ok(())
}

impl Bench {
    fn start(software: Software) -> Result<Self> {
        pin_this_thread(0)?;
        let server = Server::start(software);
        let process = server.info("process_id").parse().context("no number of the store's process")?;
        pin_this_thread(1)?;
        let pin = || _ = pin_this_thread(1);
        let runtime =
            Builder::new_multi_thread().worker_threads(1).on_thread_start(pin).enable_all().build()?;
        let url = format!("redis://{}", server.address()).parse()?;
        let store = runtime.block_on(async { RedisStore::builder(url).deadline(DEADLINE).build() })?;
        runtime.block_on(store.warm_up(DEADLINE))?;
        Ok(Self { server, process, store: Arc::new(store), runtime })
    }

    fn measure(&self, work: Work, length: Duration) -> Result<[f64; 3]> {
        self.server.command::<()>(["FLUSHALL"]);
        if let Work::Live(count) = work {
            let hold = Hold::new(0, count / 10, work)?;
            for _ in 0..10 {
                self.runtime.block_on(hold.reserve(&self.store, HoldId::random()))?;
            }
        }
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let own = std::process::id();
        let (server, client, watch) = (cpu_time(self.process)?, cpu_time(own)?, Stopwatch::start());
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (store, stop, done) = (Arc::clone(&self.store), Arc::clone(&stop), Arc::clone(&done));
                self.runtime.spawn(async move {
                    let hold = Hold::new(caller, 1, work)?;
                    while !stop.load(Relaxed) {
                        hold.work(&store).await?;
                        done.fetch_add(1, Relaxed);
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        std::thread::sleep(length);
        stop.store(true, Relaxed);
        for caller in callers {
            self.runtime.block_on(caller)??;
        }
        let (server, client) = (cpu_time(self.process)? - server, cpu_time(own)? - client);
        let (elapsed, done) = (watch.elapsed(), done.load(Relaxed) as f64);
        let micros = |time: Duration| time.as_secs_f64() * 1e6 / done;
        Ok([done / elapsed.as_secs_f64(), micros(server), micros(client)])
    }
}

/// The hold of one caller.
struct Hold {
    work: Work,
    key: Key<'static>,
    units: u32,
    jobs: PolicyInFlight,
    words: PolicyQuota,
}

impl Hold {
    fn new(caller: usize, units: u32, work: Work) -> Result<Self> {
        let is_shared = matches!(work, Work::Live(_));
        Ok(Self {
            work,
            key: Key::from(if is_shared { 0 } else { caller as u64 }),
            units,
            jobs: PolicyInFlight::new("jobs", InFlight::new(InFlight::MAX_LIMIT)?),
            words: PolicyQuota::new("jobs", Quota::per_hour(4_000_000_000)),
        })
    }

    async fn work(&self, store: &RedisStore) -> Result<()> {
        if self.work == Work::Charge {
            let charges = [Charge::new(&self.words, &self.key, 1)];
            store.step(Step::Charge(&charges)).await?;
            return Ok(());
        }
        let id = HoldId::random();
        let adjustment = self.reserve(store, id).await?;
        let adjustments = adjustment.as_slice();
        match self.take(store, id, Some(adjustments)).await? {
            HoldAnswer::Settled(_) => Ok(()),
            answer => bail!("{answer:?}"),
        }
    }

    /// Reserves the hold, and returns how its charge is settled, if it has one.
    async fn reserve(&self, store: &RedisStore, id: HoldId) -> Result<Option<HoldAdjustment>> {
        match self.take(store, id, None).await? {
            HoldAnswer::Decided(states) if states.is_admitted() => {
                let state = states.charged().first();
                Ok(state.map(|state| HoldAdjustment::GiveBack { units: 40, mark: state.mark() }))
            }
            answer => bail!("{answer:?}"),
        }
    }

    /// Settles the hold with these adjustments, or reserves it.
    async fn take(
        &self,
        store: &RedisStore,
        id: HoldId,
        settled: Option<&[HoldAdjustment]>,
    ) -> Result<HoldAnswer> {
        let flights = [InFlightCharge::new(&self.jobs, &self.key, self.units)];
        let charges = [Charge::new(&self.words, &self.key, 100)];
        let charges = if self.work == Work::HoldAndCharge { &charges[..] } else { &[] };
        let terms = HoldTerms::new(id, &flights, charges, HoldLength::MAX);
        let step = match settled {
            Some(adjustments) => HoldStep::Settle(terms, adjustments),
            None => HoldStep::Reserve(terms),
        };
        Ok(store.hold_until(step, None).await?)
    }
}
