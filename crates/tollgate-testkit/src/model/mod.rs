//! The reference model: the answers that a store should give, computed as simply as possible.
//!
//! One map, no threads, no tricks: slow, and easy to see that it is right. Closed counters stay in the map and are
//! ignored; a window is only replaced when its counter is used. The model shares nothing with the stores that it
//! judges: the plan sets its time, and the testkit's [own arithmetic](crate::windows) finds its windows.

mod counter;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tollgate::{BlockCharge, Charge, CountDenied, Counter, Full, Mark, PerQuota, Quota, Timestamp, Window};

use self::counter::SHORT_STEP;
use crate::ChargeCount;
use crate::windows::holding;

pub use self::counter::ModelCounter;

/// A store of one thread with a manual clock.
#[derive(Debug, Clone)]
pub struct Model {
    counters: HashMap<CounterName, StoredCounter>,
    /// The last window of each calendar, because finding one is slow.
    calendars: HashMap<String, Window>,
    /// Where unknown counters open next, if that is later than now.
    opening: HashMap<CounterName, Window>,
    max_counters: usize,
    now: Timestamp,
    /// The latest time so far.
    latest: Timestamp,
}

/// The policy, the written form of the windows, and the canonical bytes of the key.
type CounterName = (String, String, Vec<u8>);

#[derive(Debug, Clone, Copy)]
struct StoredCounter {
    counter: ModelCounter,
    /// The latest time since the counter was last known to exist.
    latest: Timestamp,
}

impl Model {
    /// Creates an empty store for this many live counters.
    #[must_use]
    pub fn new(max_counters: usize) -> Self {
        let (now, latest) = (Timestamp::EPOCH, Timestamp::EPOCH);
        let (counters, calendars, opening) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { counters, calendars, opening, max_counters, now, latest }
    }

    /// Sets the time.
    pub fn set_time(&mut self, now: Timestamp) {
        (self.now, self.latest) = (now, self.latest.max(now));
        self.opening.clear();
        self.counters.values_mut().for_each(|held| held.latest = held.latest.max(now));
    }

    /// Like [`Step::Charge`](tollgate::Step::Charge).
    ///
    /// # Errors
    ///
    /// If the charges would be admitted, but need more counters than the cap allows.
    pub fn charge(&mut self, charges: &[Charge<'_>]) -> Result<PerQuota<ChargeCount>, Full> {
        let before: Vec<u64> = charges.iter().map(|charge| self.look(&charge.counter()).used).collect();
        let fits: Vec<bool> = charges
            .iter()
            .map(|charge| {
                let units = units_on_same_counter(charges, charge);
                let count_denied = charge.counter().quota().count_denied();
                self.look(&charge.counter()).has_room(units, charge.limit(), count_denied)
            })
            .collect();
        let admitted = fits.iter().all(|fits| *fits);
        if admitted && !self.has_room_for(charges) {
            return Err(Full);
        }
        let overdrafts = overdrafts(charges);
        // A denial stands, whether or not there is room for the new counters that it would charge.
        let has_room = admitted || self.has_room_for(&overdrafts);
        let mut charged = HashSet::new();
        for (charge, fits) in charges.iter().zip(&fits) {
            let units = units_on_same_counter(charges, charge);
            let counted_denial = match charge.counter().quota().count_denied() {
                CountDenied::No => false,
                CountDenied::Yes => !fits && units <= charge.limit(),
                CountDenied::Overdraft => has_room || self.is_live(&charge.counter()),
            };
            if (admitted || counted_denial) && charged.insert(name(&charge.counter())) {
                self.add(&charge.counter(), units);
            }
        }
        // What a counter took is what its charges took, in their order. A saturated counter takes less than they cost.
        let mut assigned = HashMap::<CounterName, u64>::new();
        let mut count = |((charge, fits), before): ((&Charge<'_>, &bool), &u64)| {
            let ModelCounter { used, window } = self.look(&charge.counter());
            let assigned = assigned.entry(name(&charge.counter())).or_default();
            let units = u64::from(charge.cost()).min(used - before - *assigned);
            *assigned += units;
            ChargeCount { used, window, fits: *fits, units: u32::try_from(units).unwrap() }
        };
        Ok(charges.iter().zip(&fits).zip(&before).map(&mut count).collect())
    }

    /// Whether a step that comes [before this end](tollgate::Step::ChargeBefore) is taken. Otherwise it changes nothing.
    ///
    /// # Errors
    ///
    /// The time, if it has reached the end.
    pub fn before(&self, end: Timestamp) -> Result<(), Timestamp> {
        if self.now < end { Ok(()) } else { Err(self.now) }
    }

    /// Like [`Step::Peek`](tollgate::Step::Peek): the answer that the charge would get, before it takes anything.
    ///
    /// # Errors
    ///
    /// Like [`charge`](Self::charge).
    pub fn peek(&mut self, charges: &[Charge<'_>]) -> Result<PerQuota<ChargeCount>, Full> {
        let used: Vec<u64> = charges.iter().map(|charge| self.look(&charge.counter()).used).collect();
        let answer = self.clone().charge(charges)?;
        Ok(answer.iter().zip(used).map(|(count, used)| ChargeCount { used, units: 0, ..*count }).collect())
    }

    /// Like [`Step::Record`](tollgate::Step::Record).
    ///
    /// # Errors
    ///
    /// If it needs one more counter than the cap allows.
    pub fn record(&mut self, charge: &Charge<'_>) -> Result<ChargeCount, Full> {
        let used = self.look(&charge.counter()).used;
        let count = self.set(&charge.counter(), used + u64::from(charge.cost()))?;
        Ok(ChargeCount { units: u32::try_from(count.used - used).unwrap(), ..count })
    }

    /// Like [`Step::Block`](tollgate::Step::Block): the counter, and its block.
    ///
    /// # Errors
    ///
    /// If it needs one more counter than the cap allows. A block gets the place of its counter.
    pub fn block(&mut self, asked: &BlockCharge<'_>) -> Result<[ChargeCount; 2], Full> {
        let (charge, counter, block) = (asked.charge(), asked.charge().counter(), asked.block());
        let before = self.look(&counter);
        // A step without units leaves the block where it is.
        let blocked = if charge.cost() == 0 { self.clone().look(&block) } else { self.look(&block) };
        let count = |held: ModelCounter, units: u64| ChargeCount {
            used: held.used,
            window: held.window,
            fits: true,
            units: u32::try_from(units).unwrap(),
        };
        if blocked.used > 0 {
            // It lasts no longer than the step says, from now on. One without units only says so.
            let latest = self.window_of(&block);
            let window = if latest.end() < blocked.window.end() { latest } else { blocked.window };
            let blocked = ModelCounter { window, ..blocked };
            if charge.cost() > 0 {
                self.store(&block, blocked);
            }
            return Ok([count(before, 0), count(blocked, 0)]);
        }
        if charge.cost() == 0 {
            // It is answered as one with a unit would be.
            return match self.has_room_for(&[charge]) {
                true => Ok([count(before, 0), count(blocked, 0)]),
                false => Err(Full),
            };
        }
        let after = before.with(charge.cost().into());
        let units = after.used - before.used;
        if after.used <= charge.limit() {
            if !self.has_room_for(&[charge]) {
                return Err(Full);
            }
            self.store(&counter, after);
            return Ok([count(after, units), count(blocked, 0)]);
        }
        let mut next = self.clone();
        next.counters.remove(&name(&counter));
        if !next.has_room_for(&[Charge::new(block.quota(), block.key(), 1)]) {
            return Err(Full);
        }
        *self = next;
        let begun = ModelCounter { used: after.used, ..blocked };
        self.store(&block, begun);
        Ok([count(self.look(&counter), units), count(begun, 0)])
    }

    /// Like [`Step::Set`](tollgate::Step::Set).
    ///
    /// # Errors
    ///
    /// If it needs one more counter than the cap allows.
    pub fn set(&mut self, counter: &Counter<'_>, used: u64) -> Result<ChargeCount, Full> {
        let before = self.look(counter);
        let after = ModelCounter { used: used.min(Quota::MAX_LIMIT), ..before };
        if after != before {
            if !self.has_room_for(&[Charge::new(counter.quota(), counter.key(), 1)]) {
                return Err(Full);
            }
            self.store(counter, after);
        }
        Ok(ChargeCount { used: after.used, window: after.window, fits: true, units: 0 })
    }

    /// Like [`Step::Refund`](tollgate::Step::Refund).
    pub fn refund(&mut self, charge: &Charge<'_>, mark: Mark) -> ChargeCount {
        let (after, given) = self.look(&charge.counter()).refunded(mark, charge.cost().into());
        if let Some(held) = self.counters.get_mut(&name(&charge.counter())).filter(|_| given > 0) {
            held.counter = after;
        }
        let units = u32::try_from(given).unwrap();
        ChargeCount { used: after.used, window: after.window, fits: true, units }
    }

    /// Like [`Step::Reset`](tollgate::Step::Reset).
    pub fn reset(&mut self, counter: &Counter<'_>) -> ChargeCount {
        self.counters.remove(&name(counter));
        ChargeCount { used: 0, window: self.look(counter).window, fits: true, units: 0 }
    }

    /// Returns whether the counter has left its window and come back after so long that a store may have forgotten it,
    /// if the store remembers closed windows no longer than that.
    #[must_use]
    pub fn may_be_forgotten(&self, counter: &Counter<'_>, remembers_closed: Duration) -> bool {
        self.counters.get(&name(counter)).is_some_and(|held| {
            held.is_live(self.now) && held.counter.window.end() + remembers_closed <= held.latest
        })
    }

    /// Returns whether the clock has stepped back by so little that nothing may be reopened, and this empty counter may
    /// be one that the store has forgotten.
    #[must_use]
    pub fn may_open_later(&self, counter: &Counter<'_>) -> bool {
        let is_behind = self.now < self.latest;
        is_behind && self.counters.get(&name(counter)).is_none_or(|held| !held.is_live(self.now))
    }

    /// Tells the model that the store opens this counter in that window next.
    ///
    /// # Panics
    ///
    /// If that is not allowed: the window begins after the latest time so far, or more than a short step back from now.
    pub fn opens_in(&mut self, counter: &Counter<'_>, window: Window) {
        if window != self.window_of(counter) {
            let latest = self.latest.min(self.now + SHORT_STEP);
            assert!((self.now..=latest).contains(&window.start()), "{window:?} at {:?}", self.now);
            self.opening.insert(name(counter), window);
        }
    }

    /// Notes that the store was seen to know this counter.
    pub fn remember(&mut self, counter: &Counter<'_>) {
        if let Some(held) = self.counters.get_mut(&name(counter)) {
            held.latest = self.now;
        }
    }

    /// Returns the counter in its current state.
    fn look(&mut self, counter: &Counter<'_>) -> ModelCounter {
        let (now, opened) = (self.now, self.window_of(counter));
        let is_block = windows(counter).ends_with("~block");
        if let Some(held) = self.counters.get_mut(&name(counter)).filter(|held| held.is_live(now)) {
            if is_block {
                // It ends when it ended, however long the step says that blocks are.
                held.counter.window =
                    Window::new(held.counter.window.end() - opened.length(), held.counter.window.end());
            }
            held.counter = held.counter.at(now, opened);
            return held.counter;
        }
        ModelCounter::unused(self.opening.get(&name(counter)).copied().unwrap_or(opened))
    }

    /// Returns the window that holds now.
    fn window_of(&mut self, counter: &Counter<'_>) -> Window {
        let (quota, now) = (counter.quota().quota(), self.now);
        let find = || holding(quota, counter.key(), now);
        if quota.zone().is_none() {
            return find();
        }
        let known = self.calendars.entry(windows(counter)).or_insert_with(find);
        if !known.contains(now) {
            *known = find();
        }
        *known
    }

    fn add(&mut self, counter: &Counter<'_>, units: u64) {
        let before = self.look(counter);
        if units > 0 {
            self.store(counter, before.with(units));
        }
    }

    fn store(&mut self, counter: &Counter<'_>, after: ModelCounter) {
        self.counters.insert(name(counter), StoredCounter { counter: after, latest: self.now });
    }

    fn is_live(&self, counter: &Counter<'_>) -> bool {
        self.counters.get(&name(counter)).is_some_and(|held| held.is_live(self.now))
    }

    /// Returns whether all live counters together with all of these fit under the cap.
    fn has_room_for(&self, charges: &[Charge<'_>]) -> bool {
        let live = self.counters.iter().filter(|(_, held)| held.is_live(self.now));
        let mut names: HashSet<CounterName> = live.map(|(name, _)| name.clone()).collect();
        let before = names.len();
        names.extend(charges.iter().map(|charge| name(&charge.counter())));
        names.len() == before || names.len() <= self.max_counters
    }
}

impl StoredCounter {
    fn is_live(&self, now: Timestamp) -> bool {
        now < self.counter.window.end()
    }
}

/// Charges with units on counters that a denial charges too.
fn overdrafts<'a>(charges: &[Charge<'a>]) -> Vec<Charge<'a>> {
    let is_charged = |charge: &&Charge<'_>| {
        charge.counter().quota().count_denied() == CountDenied::Overdraft
            && units_on_same_counter(charges, charge) > 0
    };
    charges.iter().filter(is_charged).copied().collect()
}

fn units_on_same_counter(charges: &[Charge<'_>], charge: &Charge<'_>) -> u64 {
    let name_of = |charge: &Charge<'_>| name(&charge.counter());
    let same = charges.iter().filter(|other| name_of(other) == name_of(charge));
    same.map(|charge| u64::from(charge.cost())).sum()
}

fn name(counter: &Counter<'_>) -> CounterName {
    (counter.quota().policy().into(), windows(counter), counter.key().canonical_bytes().into_owned())
}

fn windows(counter: &Counter<'_>) -> String {
    // A block is no window of its length.
    if counter.quota().windows().ends_with("~block") {
        return counter.quota().windows().into();
    }
    let written = counter.quota().quota().to_string();
    let (_, windows) = written.split_once('/').unwrap();
    windows.into()
}
