//! Callers who hold units in flight and charge a quota, in one step, while a fault comes and goes.
//!
//! Each hold has an id of its own. Its caller repeats a step with it while the outcome is unknown, renews it, settles it
//! at another cost, settles it late, or goes away. In between, callers charge the same counters without a hold. On a
//! Cluster, rounds of their own have holds across slots, each part of which is judged by itself: a caller may go away
//! while slots are asked one after another, and ask again at once.
//!
//! | promise | how a round sees it broken |
//! |---|---|
//! | G1 | more units than the limit belonged to holds that certainly lived at one moment, by the callers' clock |
//! | G5 | a key without an expiry, or a unit that lives for longer than one length after the last call |
//! | G6 | a denial while there was room, or an error that is not what happened |
//! | rule 16 | a repeated id took twice, or was accepted with other terms |
//! | rule 17 | a hold expired, or lost its units, before its length was over |
//! | rule 18 | the units used at the end are not what the settled holds cost |
//!
//! The [ledger] takes nothing from the store but its answers. What servers have at the end is read with plain commands.

mod across;
mod holder;
mod ledger;
mod rounds;
mod terms;

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tollgate_redis::{AcrossSlots, KeyIdentity, RedisStore, RedisStoreBuilder};
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{Data, Server};

use self::holder::Holder;
use self::ledger::Ledger;
use self::terms::{DEADLINE, DECADE, HeldKey, KEYS, LENGTH, LIMIT, Terms};
use crate::crowd::{PATIENT_DEADLINE, USUAL, build, builder, patient, spawn};
use crate::expiry;
use crate::fault::{Found, Round};

pub(crate) use self::across::{ACROSS, ACROSS_KILL, ACROSS_LATE, ACROSS_LOSS};
pub(crate) use self::rounds::{CLOCK, CUT, FAILOVER, HANG, KILL, LATE, MIGRATION};

/// Callers of each store.
const CALLERS: usize = 8;

/// Steps in a row that have to succeed on each key before everything counts as served again.
const PROBES: u64 = 8;

/// The holders of a round, and two stores that they share.
pub(crate) struct Holders {
    terms: Arc<Terms>,
    hasty: HeldKey,
    patient: HeldKey,
    callers: Vec<JoinHandle<Ledger>>,
    faults: u64,
    longest: Duration,
    data: Data,
}

impl Holders {
    /// Starts to hold. `data` says what the fault leaves of the servers' data.
    pub(crate) fn start(url: &str, data: Data, round: &mut Round) -> Self {
        Self::start_with(1, url, data, round)
    }

    /// Starts to hold under up to so many keys at once. No trouble may have begun.
    fn start_with(span: usize, url: &str, data: Data, round: &mut Round) -> Self {
        let terms = Arc::new(Terms::new(span));
        let tell = |builder: RedisStoreBuilder| {
            let builder = builder.identity(KeyIdentity::Plain).across_slots(AcrossSlots::Reserve);
            // A process remembers denials, by a clock that no round steps.
            build(builder.local_denials(0))
        };
        let hasty = HeldKey::new(&terms, tell(builder(url).deadline(DEADLINE)), DEADLINE);
        let patient = HeldKey::new(&terms, tell(patient(url)), PATIENT_DEADLINE);
        let mut callers = Vec::new();
        for store in [&hasty, &patient] {
            for _ in 0..CALLERS {
                let may_lose = data == Data::Lost;
                callers.push(spawn(Holder::new(store.clone(), may_lose, round.rng.fork()).hold_until_over()));
            }
        }
        let mut holders = Self { terms, hasty, patient, callers, faults: 0, longest: Duration::ZERO, data };
        holders.recover(&mut Found::default());
        holders
    }

    /// Brings the fault about and lifts it, and waits until everything is served again.
    pub(crate) fn in_trouble(&mut self, round: &mut Round, fault: impl FnOnce(&mut Round)) {
        let start = Instant::now();
        self.terms.begin_trouble();
        fault(round);
        round.found.faults += 1;
        self.faults += 1;
        self.recover(&mut round.found);
        self.longest = self.longest.max(start.elapsed());
        sleep(round.millis(50..200));
    }

    /// Steps the clock of a server by so many milliseconds.
    pub(crate) fn step_clock(&self, server: &Server, millis: i64) {
        self.terms.clock.step(millis, || server.clock().step(millis));
    }

    fn recover(&mut self, found: &mut Found) {
        let start = Instant::now();
        for store in [&self.hasty, &self.patient] {
            let mut served = 0;
            while served < PROBES * KEYS as u64 {
                if block_on(store.look(served as usize % KEYS)).is_ok() {
                    served += 1;
                } else {
                    // A hasty store on a busy machine is never served so often in a row.
                    if start.elapsed() < Duration::from_secs(3) {
                        served = 0;
                    }
                    assert!(start.elapsed() < Duration::from_secs(120), "not served for 2 minutes");
                    sleep(Duration::from_millis(1));
                }
            }
        }
        found.recoveries.push(start.elapsed());
    }

    /// Ends it, and compares what servers have with what callers were told. The servers are those that count now.
    /// Returns how many steps had an unknown outcome.
    pub(crate) fn end(mut self, round: &mut Round, servers: &[&Server]) -> u64 {
        self.terms.end();
        let mut ledger = Ledger::default();
        for caller in mem::take(&mut self.callers) {
            match block_on(caller) {
                Ok(entries) => ledger.add(entries),
                Err(panic) => ledger.violations.push(format!("a caller panicked: {panic} (G6)")),
            }
        }
        let found = &mut round.found;
        found.violations.append(&mut ledger.violations);
        let usual: BTreeSet<String> = USUAL.iter().map(|error| format!("{error:?}")).collect();
        for error in ledger.errors.difference(&usual) {
            found.violations.push(format!("an error that is not what happened: {error} (G6)"));
        }
        let losses = if self.data == Data::Lost { self.faults } else { 0 };
        let is_prompt = self.longest < LENGTH / 2;
        ledger.judge_limit(losses, &self.terms.clock, found);
        if losses == 0 && !self.terms.clock.went_back() {
            ledger.judge_denials(found);
        }
        // Before anybody looks at a counter, which would repair it.
        let back = self.terms.clock.back();
        let longest = [("live", LENGTH + back), ("", LENGTH + back), ("words", DECADE)];
        for server in servers {
            expiry::check(server, &longest, found);
        }
        for key in 0..KEYS {
            // The clock may have gone back since the last step on it.
            let counts =
                if back.is_zero() { ledger::read_key(servers, key) } else { self.looked(servers, key) };
            ledger.judge_key(key, &counts, (losses, is_prompt), &self.terms.clock, found);
        }
        sleep(LENGTH + Duration::from_millis(50));
        for key in 0..KEYS {
            let live = ledger::read_key(servers, key).live;
            found.expect(live == 0, || format!("key {key}: {live} units outlive their holds (G5)"));
            let free = block_on(self.patient.takes(key, LIMIT));
            found.expect(free, || format!("key {key}: the {LIMIT} units of no hold are not free (G2)"));
        }
        ledger.unknown
    }

    fn looked(&self, servers: &[&Server], key: usize) -> ledger::StoredKey {
        block_on(self.patient.look(key)).unwrap();
        ledger::read_key(servers, key)
    }
}

/// Returns whether a store takes a hold.
pub(crate) fn holds(store: &RedisStore) -> bool {
    block_on(HeldKey::new(&Arc::new(Terms::new(1)), store.clone(), PATIENT_DEADLINE).takes(0, 1))
}

/// A round that panics leaves no caller behind.
impl Drop for Holders {
    fn drop(&mut self) {
        self.terms.end();
    }
}
