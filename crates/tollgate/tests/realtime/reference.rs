//! A limiter that is obviously correct: a map behind a lock. And faulty variants, which the oracle has to find.

use std::collections::HashMap;
use std::sync::Mutex;

use tollgate::{Clock, Key, SystemClock, Timestamp};
use tollgate_testkit::realtime::{
    ClockReading, LoadClient, LoadPlan, LoadTarget, LoadedKey, Nanos, QuotaAnswer, RealClock, Start, Terms,
    UnitAnswer,
};

use crate::limiter::quota;

/// The fault of a limiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It admits one unit more than the limit.
    OneMore,
    /// It forgets a counter in the last milliseconds of its window.
    AdmitsAgainAtTheEnd,
    /// The same, and its answer names the next window.
    NamesTheNextWindow,
    /// It tells clients to wait one millisecond too little.
    WaitsOneShort,
    /// The usage of the previous window still counts.
    CountsThePreviousWindow,
    /// The end belongs to the window.
    HoldsItsEnd,
    /// The windows of all keys start together.
    IgnoresTheKey,
    /// Each unit starts a new `first_hit` window.
    ExtendsFirstHit,
    /// A denial charges the quotas that have room.
    ChargesHalf,
    /// Its windows are a millisecond too long.
    LongWindows,
    /// It takes an old time for the current one.
    LivesInThePast,
}

/// Fixed windows over a map.
pub(crate) struct Reference<'a> {
    plan: &'a LoadPlan,
    fault: Option<Fault>,
    counters: Mutex<HashMap<(LoadedKey, usize), Counter>>,
}

#[derive(Debug, Clone, Copy)]
struct Counter {
    start: i64,
    end: i64,
    used: usize,
}

/// How close to the end of a window a tick may not deny, in milliseconds: twelve ticks of four.
pub(crate) const DOUBTED: i64 = 48;

/// How close to the end of a window the faults of its last milliseconds show.
const LAST: i64 = 3;

impl<'a> Reference<'a> {
    pub(crate) fn new(plan: &'a LoadPlan, fault: Option<Fault>) -> Self {
        Self { plan, fault, counters: Mutex::default() }
    }

    /// Decides by a reading that is taken under the lock: by its last tick, or by the exact time if the tick may be too
    /// old to tell.
    pub(crate) fn decide(&self, victim: LoadedKey, read: impl FnOnce() -> ClockReading) -> Decided {
        let mut counters = self.counters.lock().unwrap();
        let quotas = &self.plan.groups[usize::from(victim.group)].quotas;
        let reading = read();
        let at = |time: Nanos| {
            let late = if self.fault == Some(Fault::LivesInThePast) { 20 } else { 0 };
            let now = time.div_euclid(1_000_000) - late;
            let current = |index| self.current(victim, index, counters.get(&(victim, index)).copied(), now);
            (now, (0..quotas.len()).map(current).collect::<Vec<Counter>>())
        };
        let (now, current) = at(reading.coarse);
        let is_doubtful = |(counter, terms): (&Counter, &Terms)| {
            let may_be_over = counter.used >= terms.limit && counter.end - now < DOUBTED;
            terms.start == Start::FirstHit || now < counter.start || may_be_over
        };
        let is_coarse = reading.coarse < reading.precise;
        let is_doubtful = is_coarse && current.iter().zip(quotas).any(is_doubtful);
        let (now, mut current) = if is_doubtful { at(reading.precise) } else { (now, current) };
        let limit = |index: usize| quotas[index].limit + usize::from(self.fault == Some(Fault::OneMore));
        let room: Vec<bool> =
            current.iter().enumerate().map(|(index, counter)| counter.used < limit(index)).collect();
        let allowed = room.iter().all(|room| *room);
        for (index, counter) in current.iter_mut().enumerate() {
            if allowed || (self.fault == Some(Fault::ChargesHalf) && room[index]) {
                counter.used += 1;
                if self.fault == Some(Fault::ExtendsFirstHit) && quotas[index].start == Start::FirstHit {
                    counter.start = now;
                    counter.end = now + quotas[index].millis;
                }
                counters.insert((victim, index), *counter);
            }
        }
        let standing = |(counter, has_room): (&Counter, &bool)| QuotaAnswer {
            start: counter.start,
            end: counter.end,
            now,
            has_room: *has_room,
        };
        let standings: Vec<QuotaAnswer> = current.iter().zip(&room).map(standing).collect();
        let denying = standings.iter().filter(|standing| !standing.has_room);
        let short = i64::from(self.fault == Some(Fault::WaitsOneShort));
        let retry_after = denying.map(|standing| standing.end - now - short).max();
        Decided { allowed, retry_after, standings }
    }

    /// Returns the counter in the window that holds now.
    fn current(&self, victim: LoadedKey, index: usize, stored: Option<Counter>, now: i64) -> Counter {
        let terms = &self.plan.groups[usize::from(victim.group)].quotas[index];
        let key = if self.fault == Some(Fault::IgnoresTheKey) { String::new() } else { victim.key() };
        let window = quota(terms).window_at(&Key::from(key.as_str()), Timestamp::from_unix_millis(now));
        let longer = i64::from(self.fault == Some(Fault::LongWindows));
        let (start, end) = (window.start().as_unix_millis(), window.end().as_unix_millis() + longer);
        let fresh = Counter { start, end, used: 0 };
        let Some(stored) = stored else { return fresh };
        let holds_end = i64::from(self.fault == Some(Fault::HoldsItsEnd));
        if stored.end + holds_end > now {
            return match self.fault {
                Some(Fault::AdmitsAgainAtTheEnd) if stored.end - now <= LAST => Counter { used: 0, ..stored },
                Some(Fault::NamesTheNextWindow) if stored.end - now <= LAST => {
                    Counter { start: stored.end, end: stored.end + terms.millis, used: 0 }
                }
                _ => stored,
            };
        }
        match self.fault {
            Some(Fault::CountsThePreviousWindow) if stored.end == start => {
                Counter { used: stored.used, ..fresh }
            }
            _ => fresh,
        }
    }
}

/// Its decision.
pub(crate) struct Decided {
    allowed: bool,
    retry_after: Option<i64>,
    standings: Vec<QuotaAnswer>,
}

impl Decided {
    /// Returns the answer to a call between these readings.
    pub(crate) fn between(self, victim: LoadedKey, before: ClockReading, after: Nanos) -> UnitAnswer {
        let Self { allowed, retry_after, standings } = self;
        UnitAnswer { victim, before, after, allowed, retry_after, quotas: standings.into() }
    }
}

impl LoadTarget for Reference<'_> {
    type Client<'t>
        = &'t Self
    where
        Self: 't;

    fn client(&self) -> &Self {
        self
    }
}

impl LoadClient for &Reference<'_> {
    fn ask(&mut self, clock: &RealClock, victims: &[LoadedKey], answers: &mut Vec<UnitAnswer>) {
        for victim in victims {
            let before = clock.read();
            let decided = self.decide(*victim, || clock.read());
            let after = clock.now();
            answers.push(decided.between(*victim, before, after));
        }
    }

    /// Does nothing: its table is a map, and would only grow.
    fn bring(&mut self, number: u64) -> u64 {
        number
    }

    fn now(&mut self) -> i64 {
        SystemClock.now().as_unix_millis()
    }
}
