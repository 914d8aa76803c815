//! Faults of the service in the middle of load: the app answers every request, in time, and its clients count what
//! passed without a count.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use rustix::process::Signal;
use serde::Serialize;

use super::apps::RunningApp;
use super::delay::SlowProxy;
use super::served::AskedService;
use super::stalls::StallMeter;

/// Nobody reaches it.
pub(super) const LIMIT: u32 = 1_000_000_000;

/// The timeout of the apps' clients, as it is by default.
pub(super) const TIMEOUT: Duration = Duration::from_millis(250);

/// What an answer may take besides: the app's own work on a busy machine.
const MARGIN: Duration = Duration::from_millis(250);

/// Before the fault, for its length, and after it.
const PHASE: Duration = Duration::from_millis(1_500);

/// Far longer than the timeout.
const DELAY: Duration = Duration::from_secs(1);

/// After the fault, clients may still have to find that a connection is broken or slow.
const RECOVERY: Duration = Duration::from_millis(1_000);

const CLIENTS: usize = 8;
const USER: &str = "load";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ServiceFault {
    /// Killed, and started again.
    Killed,
    /// Stopped by a signal, and continued: connections stay open, and nothing answers.
    Stopped,
    /// Far slower than the timeout.
    Slow,
}

impl ServiceFault {
    pub(super) const ALL: [Self; 3] = [Self::Killed, Self::Stopped, Self::Slow];
}

impl fmt::Display for ServiceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Killed => "killed",
            Self::Stopped => "stopped",
            Self::Slow => "slow",
        })
    }
}

#[derive(Debug, Serialize)]
pub(super) struct FaultResult {
    pub(super) fault: ServiceFault,
    pub(super) requests: u64,
    /// Admitted by the clients themselves.
    pub(super) uncounted: u64,
    /// Calls without an answer, as the clients count them.
    pub(super) failures: u64,
    /// Units that the service counted.
    pub(super) used: u64,
    pub(super) slowest_ms: u64,
    /// The longest time that the machine did not run a thread. Times are judged with this allowance.
    pub(super) stall_ms: u64,
    pub(super) violations: Vec<String>,
}

/// The answers of both processes.
#[derive(Debug, Default)]
struct LoadTally {
    counted: u64,
    uncounted: u64,
    /// Of those that were sent after the recovery.
    uncounted_late: u64,
    slowest: Duration,
    wrong: Vec<String>,
}

/// What violates a promise, and whether another run may be better: times are late on a machine that is busy.
#[derive(Debug, Default)]
struct FaultVerdict {
    violations: Vec<String>,
    late: Vec<String>,
}

impl LoadTally {
    fn add(&mut self, other: Self) {
        self.counted += other.counted;
        self.uncounted += other.uncounted;
        self.uncounted_late += other.uncounted_late;
        self.slowest = self.slowest.max(other.slowest);
        self.wrong.extend(other.wrong);
    }
}

/// Runs of a fault, at most, if only times are violated.
const ATTEMPTS: u32 = 3;

/// Loads the app during the fault, and again if only times are violated.
pub(super) fn prove(
    app: &RunningApp,
    service: &mut AskedService,
    proxy: &SlowProxy,
    fault: ServiceFault,
) -> Result<FaultResult> {
    let mut attempt = 1;
    loop {
        let (mut result, verdict) = run(app, service, proxy, fault)?;
        let is_worth_another =
            verdict.violations.is_empty() && !verdict.late.is_empty() && attempt < ATTEMPTS;
        if is_worth_another {
            eprintln!("again, because of {}", verdict.late.join("; "));
            attempt += 1;
            continue;
        }
        result.violations = verdict.violations;
        result.violations.extend(verdict.late);
        return Ok(result);
    }
}

/// Loads the app, which asks the service through the proxy, or directly if the fault is none of the network.
fn run(
    app: &RunningApp,
    service: &mut AskedService,
    proxy: &SlowProxy,
    fault: ServiceFault,
) -> Result<(FaultResult, FaultVerdict)> {
    let meter = StallMeter::start();
    let (used_before, failures_before) = (service.used(USER)?, app.failures()?);
    let (is_over, has_recovered) = (AtomicBool::new(false), AtomicBool::new(false));
    let (injected, tally) = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|index| {
                let (is_over, has_recovered) = (&is_over, &has_recovered);
                scope.spawn(move || load(app, index, is_over, has_recovered))
            })
            .collect();
        let injected = inject(service, proxy, fault, &has_recovered);
        is_over.store(true, Ordering::Relaxed);
        let mut tally = LoadTally::default();
        for client in clients {
            match client.join() {
                Ok(client) => tally.add(client),
                Err(_) => bail!("a client panicked"),
            }
        }
        anyhow::Ok((injected, tally))
    })?;
    injected?;
    let failures = app.failures()? - failures_before;
    let used = service.used(USER)? - used_before;
    let stall = meter.longest();
    let verdict = judge(&tally, failures, used, stall);
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let result = FaultResult {
        fault,
        requests: tally.counted + tally.uncounted,
        uncounted: tally.uncounted,
        failures,
        used,
        slowest_ms: millis(tally.slowest),
        stall_ms: millis(stall),
        violations: Vec::new(),
    };
    Ok((result, verdict))
}

fn inject(
    service: &mut AskedService,
    proxy: &SlowProxy,
    fault: ServiceFault,
    has_recovered: &AtomicBool,
) -> Result<()> {
    thread::sleep(PHASE);
    match fault {
        ServiceFault::Killed => service.kill()?,
        ServiceFault::Stopped => service.signal(Signal::STOP)?,
        ServiceFault::Slow => proxy.delay_by(DELAY),
    }
    thread::sleep(PHASE);
    match fault {
        ServiceFault::Killed => service.restart()?,
        ServiceFault::Stopped => service.signal(Signal::CONT)?,
        ServiceFault::Slow => proxy.delay_by(Duration::ZERO),
    }
    thread::sleep(RECOVERY);
    has_recovered.store(true, Ordering::Relaxed);
    thread::sleep(PHASE);
    Ok(())
}

fn load(app: &RunningApp, index: usize, is_over: &AtomicBool, has_recovered: &AtomicBool) -> LoadTally {
    let mut tally = LoadTally::default();
    let mut connection = app.connection(index);
    while !is_over.load(Ordering::Relaxed) {
        let is_late = has_recovered.load(Ordering::Relaxed);
        match connection.get("/limited", USER) {
            Ok(answer) => {
                tally.slowest = tally.slowest.max(answer.time);
                match answer.status {
                    200 if answer.has_limit_headers() => tally.counted += 1,
                    200 => {
                        tally.uncounted += 1;
                        tally.uncounted_late += u64::from(is_late);
                    }
                    status => tally.wrong.push(format!("status {status}")),
                }
            }
            Err(error) => tally.wrong.push(format!("{error:#}")),
        }
        if tally.wrong.len() > 100 {
            break;
        }
    }
    tally
}

fn judge(tally: &LoadTally, failures: u64, used: u64, stall: Duration) -> FaultVerdict {
    let mut verdict = FaultVerdict::default();
    let (counted, uncounted) = (tally.counted, tally.uncounted);
    let mut expect = |holds: bool, violation: String| {
        if !holds {
            verdict.violations.push(violation);
        }
    };
    expect(
        tally.wrong.is_empty(),
        format!("{} requests without an answer, such as {:?}", tally.wrong.len(), tally.wrong.first()),
    );
    expect(
        counted > 0 && uncounted > 0,
        format!("{counted} counted and {uncounted} uncounted requests: the fault was not in the load"),
    );
    expect(failures == uncounted, format!("{uncounted} passed uncounted, but the clients count {failures}"));
    // The service may have counted requests whose answers came too late or not at all.
    expect(
        (counted..=counted + uncounted).contains(&used),
        format!("{counted} counted and {uncounted} uncounted requests, but {used} units used"),
    );
    if tally.slowest > TIMEOUT + MARGIN + stall {
        verdict.late.push(format!("an answer took {:?}", tally.slowest));
    }
    if tally.uncounted_late > 0 {
        verdict.late.push(format!("{} requests uncounted after the recovery", tally.uncounted_late));
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Duration = Duration::from_millis(100);

    fn tally() -> LoadTally {
        let slowest = Duration::from_millis(600);
        LoadTally { counted: 100, uncounted: 10, slowest, ..LoadTally::default() }
    }

    #[test]
    fn a_good_run_has_no_violation() {
        for used in [100, 104, 110] {
            let verdict = judge(&tally(), 10, used, STALL);
            assert!(verdict.violations.is_empty() && verdict.late.is_empty(), "{verdict:?}");
        }
    }

    #[test]
    fn every_broken_promise_is_one_violation() {
        let lost = LoadTally { wrong: vec!["status 500".to_owned()], ..tally() };
        for (tally, failures, used) in
            [(tally(), 9, 100), (tally(), 10, 99), (tally(), 10, 111), (lost, 10, 100)]
        {
            let verdict = judge(&tally, failures, used, STALL);
            assert_eq!((verdict.violations.len(), verdict.late.len()), (1, 0), "{verdict:?}");
        }
        let undisturbed = LoadTally { uncounted: 0, ..tally() };
        assert_eq!(judge(&undisturbed, 0, 100, STALL).violations.len(), 1);
    }

    #[test]
    fn times_are_violations_of_their_own() {
        let slow = LoadTally { slowest: Duration::from_millis(601), ..tally() };
        let late = LoadTally { uncounted_late: 1, ..tally() };
        for tally in [slow, late] {
            let verdict = judge(&tally, 10, 100, STALL);
            assert_eq!((verdict.violations.len(), verdict.late.len()), (0, 1), "{verdict:?}");
        }
    }
}
