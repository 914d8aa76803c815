//! One thread of a course: which keys it charges, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::thread;
use std::time::Duration;

use smallvec::SmallVec;

use super::answer::{LoadedKey, UnitAnswer};
use super::clock::{Nanos, RealClock};
use super::load_target::LoadClient;
use super::terms::{LoadPlan, Terms};

const MILLI: Nanos = 1_000_000;

/// How long before and after the end of its window a key is charged: a few ticks of a kernel's clock.
const BEFORE: Nanos = 4 * MILLI;
const AFTER: Nanos = 14 * MILLI;

/// How many keys one call asks for, if the target allows several.
const CHUNK: usize = 32;

/// The least time for one pass over all keys; a faster pass rests.
const LOOK: Nanos = 250_000;

/// Charges the crowds of a plan around the ends of their windows, and its own obedient clients as soon as they may
/// return.
#[derive(Debug)]
pub(super) struct EdgeLoad {
    crowd: Vec<WatchedKey>,
    /// The position in the crowd where each group begins.
    groups: Vec<usize>,
    /// The position where passes begin. Threads in step would rarely meet on a key at the end of its window.
    first: usize,
    /// When obedient clients ask next, earliest on top.
    obedient: BinaryHeap<Reverse<(Nanos, LoadedKey)>>,
}

/// A key, and where its windows end.
#[derive(Debug)]
struct WatchedKey {
    victim: LoadedKey,
    ends: SmallVec<[Ends; 2]>,
}

#[derive(Debug, Clone, Copy)]
struct Ends {
    length: Nanos,
    /// The end of any of its windows, if known.
    end: Nanos,
    /// Whether all window ends are whole windows apart.
    aligned: bool,
}

impl Ends {
    fn of(terms: &Terms, victim: LoadedKey) -> Self {
        if !terms.has_fixed_windows() {
            // About when a unit is back.
            let length = terms.length() / terms.limit.max(1) as i64;
            return Self { length, end: 0, aligned: true };
        }
        let shift = terms.shift(&victim.key());
        Self { length: terms.length(), end: shift.unwrap_or(0), aligned: shift.is_some() }
    }

    fn is_near(self, now: Nanos) -> bool {
        if self.aligned {
            let since = (now - self.end).rem_euclid(self.length);
            return since < AFTER || self.length - since < BEFORE;
        }
        // After the end of a window, a request opens another.
        now - (self.end - self.length) < AFTER || self.end - now < BEFORE
    }
}

impl EdgeLoad {
    /// Creates charger `index` of `chargers`, with its share of the obedient clients.
    pub(super) fn new(plan: &LoadPlan, index: usize, chargers: usize) -> Self {
        let mut crowd = Vec::new();
        let mut groups = Vec::new();
        let mut obedient = BinaryHeap::new();
        for (group, terms) in (0..).zip(&plan.groups) {
            groups.push(crowd.len());
            for index in 0..terms.crowd {
                let victim = LoadedKey { group, index };
                let ends = terms.quotas.iter().map(|terms| Ends::of(terms, victim)).collect();
                crowd.push(WatchedKey { victim, ends });
            }
            let own = (terms.crowd..terms.keys()).skip(index).step_by(chargers);
            obedient.extend(own.map(|index| Reverse((0, LoadedKey { group, index }))));
        }
        let first = crowd.len() * index / chargers;
        Self { crowd, groups, first, obedient }
    }

    /// Charges until the deadline, and returns the answers.
    pub(super) fn charge(
        &mut self,
        client: &mut impl LoadClient,
        clock: &RealClock,
        deadline: Nanos,
    ) -> Vec<UnitAnswer> {
        let mut answers = Vec::new();
        let mut near = Vec::new();
        while clock.now() < deadline {
            let look = clock.now();
            let mut now = look;
            self.ask_obedient(client, clock, &mut answers);
            for step in 0..self.crowd.len() {
                let watched = &self.crowd[(self.first + step) % self.crowd.len()];
                if watched.ends.iter().any(|ends| ends.is_near(now)) {
                    near.push(watched.victim);
                }
                if near.len() == CHUNK {
                    self.ask_crowd(client, clock, &mut near, &mut answers);
                    self.ask_obedient(client, clock, &mut answers);
                    now = clock.now();
                }
            }
            self.ask_crowd(client, clock, &mut near, &mut answers);
            self.rest(clock, look + LOOK);
        }
        answers
    }

    /// Charges for the clients that may return by now.
    fn ask_obedient(
        &mut self,
        client: &mut impl LoadClient,
        clock: &RealClock,
        answers: &mut Vec<UnitAnswer>,
    ) {
        let now = clock.now();
        let mut due = Vec::new();
        while let Some(Reverse((time, victim))) = self.obedient.peek()
            && *time <= now
            && due.len() < CHUNK
        {
            due.push(*victim);
            self.obedient.pop();
        }
        let asked = answers.len();
        client.ask(clock, &due, answers);
        for answer in &answers[asked..] {
            let wait = answer.retry_after.unwrap_or(0) * MILLI;
            self.obedient.push(Reverse((answer.after + wait, answer.victim)));
            due.retain(|victim| *victim != answer.victim);
        }
        // Clients that found no room ask again.
        self.obedient.extend(due.into_iter().map(|victim| Reverse((now + AFTER, victim))));
    }

    /// Charges these keys, and learns where `first_hit` windows are.
    fn ask_crowd(
        &mut self,
        client: &mut impl LoadClient,
        clock: &RealClock,
        near: &mut Vec<LoadedKey>,
        answers: &mut Vec<UnitAnswer>,
    ) {
        let asked = answers.len();
        client.ask(clock, near, answers);
        near.clear();
        for answer in &answers[asked..] {
            let LoadedKey { group, index } = answer.victim;
            let watched = &mut self.crowd[self.groups[usize::from(group)] + index as usize];
            for (ends, standing) in watched.ends.iter_mut().zip(&answer.quotas) {
                // A quota that has room but was not charged may have no window.
                if !ends.aligned && (answer.allowed || !standing.has_room) {
                    ends.end = standing.end * MILLI;
                }
            }
        }
    }

    /// Rests until then, or until the next obedient client may return.
    fn rest(&self, clock: &RealClock, until: Nanos) {
        let next = self.obedient.peek().map_or(until, |Reverse((time, _))| until.min(*time));
        if let Ok(rest) = u64::try_from(next - clock.now()) {
            thread::sleep(Duration::from_nanos(rest));
        }
    }
}
