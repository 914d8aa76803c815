//! The service over Redis: the CPU time of both, and latencies at a rate.
//!
//! The store shares the core of h2load, so the service is the bottleneck.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tollgate_bench_harness::affinity::pin_this_thread;
use tollgate_bench_harness::cpu_time::cpu_time;
use tollgate_bench_harness::samples::{Samples, figure};
use tollgate_bench_harness::service::Service;
use tollgate_testkit::servers::{Server, Software};

use crate::h2load::Load;
use crate::{LOAD, SERVERS};

/// Calls a second on each of 16 connections: some 16,000 together, as many as envoyproxy/ratelimit answers at its best.
const RATE: u32 = 1_000;

/// How long Envoy waits by default, in microseconds.
const ENVOYS_TIMEOUT: u64 = 20_000;

/// The service, its store, and where its metrics are.
pub(crate) struct Shared {
    service: Service,
    store: Server,
    metrics: SocketAddr,
    /// The core is full.
    busy: Busy,
    /// Calls come at a rate.
    paced: Paced,
}

/// Figures without a pause between calls.
#[derive(Debug, Default)]
struct Busy {
    /// Microseconds of CPU time a call.
    ours: Samples,
    store: Samples,
    calls_a_second: Samples,
    p99: Samples,
}

/// Figures at a rate, with Envoy's deadline.
#[derive(Debug, Default)]
struct Paced {
    calls_a_second: Samples,
    p50: Samples,
    p99: Samples,
    p999: Samples,
    calls: u64,
    /// Calls that took longer than Envoy waits.
    late: u64,
    /// Calls that the store did not decide.
    undecided: f64,
}

impl Shared {
    /// Starts a store and the service, with a limit that is never reached.
    pub(crate) fn start(binary: &Path) -> Result<Self> {
        pin_this_thread(LOAD)?;
        let store = Server::start(Software::Redis);
        let metrics = TcpListener::bind("127.0.0.1:0").context("no free port")?.local_addr()?;
        let service = Service::start("ours", SERVERS, |address| {
            let mut command = Command::new(binary);
            command.args(["serve", "--limit", "1000000000/1h", "--key", "user"]);
            command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
            command.args(["--grpc", &address.to_string(), "--metrics-listen", &metrics.to_string()]);
            command.args([
                "--store",
                &format!("redis://{}", store.address()),
                "--on-store-failure",
                "closed",
            ]);
            // The usual one is for a machine that does nothing else. The deadline of calls is Envoy's.
            command.args(["--store-timeout", "2s"]);
            command
        })?;
        Ok(Self { service, store, metrics, busy: Busy::default(), paced: Paced::default() })
    }

    /// Measures one round, which is dropped if it only warms up.
    pub(crate) fn measure(&mut self, calls: u32, body: &Path, is_kept: bool) -> Result<()> {
        let busy = Load { core: LOAD, connections: 16, streams: 16, calls, rate: None };
        let process: u32 = self.store.info("process_id").parse().context("no process of the store")?;
        let (own, store_time) = (self.service.cpu_time()?, cpu_time(process)?);
        let undecided = self.undecided()?;
        let outcome = busy.run(&self.service, body)?;
        let micros = |cpu: std::time::Duration| cpu.as_secs_f64() * 1e6 / f64::from(calls);
        let (own, store_time) =
            (self.service.cpu_time()?.saturating_sub(own), cpu_time(process)?.saturating_sub(store_time));
        let more = self.undecided()? - undecided;
        ensure!(more == 0.0, "the store did not decide on {more} calls");

        // A fifth of the calls, at a fraction of the speed.
        let calls = calls / 5;
        let paced = Load { calls, rate: Some(RATE), ..busy };
        let undecided = self.undecided()?;
        let at_rate = paced.run(&self.service, body)?;
        if !is_kept {
            return Ok(());
        }
        let Busy { ours, store, calls_a_second, p99 } = &mut self.busy;
        ours.push(micros(own));
        store.push(micros(store_time));
        calls_a_second.push(outcome.calls_a_second);
        p99.push(outcome.within(9_900));
        let more = self.undecided()? - undecided;
        let Paced { calls_a_second, p50, p99, p999, calls: all, late, undecided } = &mut self.paced;
        calls_a_second.push(at_rate.calls_a_second);
        p50.push(at_rate.within(5_000));
        p99.push(at_rate.within(9_900));
        p999.push(at_rate.within(9_990));
        *all += u64::from(calls);
        *late += at_rate.longer_than(ENVOYS_TIMEOUT) as u64;
        *undecided += more;
        Ok(())
    }

    pub(crate) fn print(&self) {
        let Busy { ours, store, calls_a_second, p99 } = &self.busy;
        for (what, samples) in
            [("cpu", ours), ("store-cpu", store), ("throughput", calls_a_second), ("p99", p99)]
        {
            println!("RESULT grpc/redis-c16-m16/{what} ours={} spread={samples}", figure(samples.median()));
        }
        let Paced { calls_a_second, p50, p99, p999, calls, late, undecided } = &self.paced;
        for (what, samples) in [("throughput", calls_a_second), ("p50", p50), ("p99", p99), ("p999", p999)] {
            println!("RESULT grpc/redis-rate/{what} ours={} spread={samples}", figure(samples.median()));
        }
        println!("RESULT grpc/redis-rate/late calls={calls} over_20ms={late} undecided={undecided}");
    }

    /// How many calls the store did not decide so far, by the metrics of the service.
    fn undecided(&self) -> Result<f64> {
        let mut stream = TcpStream::connect(self.metrics).context("no listener for metrics")?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let of = |line: &str| line.rsplit_once(' ')?.1.parse::<f64>().ok();
        // Every call without a decision of the store is rejected, because the policy is `closed`.
        let is_undecided = |line: &&str| line.starts_with("tollgate_http_requests_rejected_total");
        ensure!(text.contains("tollgate_checks_total"), "no metrics: {text}");
        Ok(text.lines().filter(is_undecided).filter_map(of).sum())
    }
}
