//! A caller who takes one hold after another.

use std::array;
use std::iter::repeat_n;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::time::{sleep, timeout};
use tollgate::{HoldAdjustment, HoldAnswer, HoldId, HoldStates, QuotaState, Reason};
use tollgate_redis::RedisError;

use super::ledger::{Denial, Ledger, NotedHold};
use super::terms::{Ask, AskedHold, HeldKey, KEYS, LENGTH, LIMIT};

/// How long a hold lives that its caller settles late.
const SHORT: Duration = Duration::from_millis(150);

pub(super) struct Holder {
    store: HeldKey,
    /// Whether servers may forget what they have acknowledged.
    may_lose: bool,
    rng: Rng,
    ledger: Ledger,
}

/// What a step came to, and when the call was sent that was answered.
struct Answered {
    answer: HoldAnswer,
    sent: Instant,
    at: Instant,
}

impl Holder {
    pub(super) fn new(store: HeldKey, may_lose: bool, rng: Rng) -> Self {
        Self { store, may_lose, rng, ledger: Ledger::default() }
    }

    pub(super) async fn hold_until_over(mut self) -> Ledger {
        while !self.store.terms.is_over() {
            if self.rng.u8(0..8) == 0 {
                self.charge().await;
            }
            self.hold().await;
            sleep(Duration::from_micros(self.rng.u64(0..3_000))).await;
        }
        self.ledger
    }

    async fn charge(&mut self) {
        let key = self.rng.usize(0..KEYS);
        let (least, most) = match self.store.charge(key).await {
            Ok(()) => (1, 1),
            Err(error) => {
                self.ledger.errors.insert(format!("{error:?}"));
                (0, u64::from(error.may_have_charged()))
            }
        };
        self.ledger.charged[key].0 += least;
        self.ledger.charged[key].1 += most;
    }

    /// Takes a hold, and ends it or goes away.
    async fn hold(&mut self) {
        let asked = AskedHold {
            id: HoldId::random(),
            first_key: self.rng.usize(0..KEYS),
            span: self.rng.usize(1..=self.store.terms.span),
            units: self.rng.u32(1..=3),
            cost: self.rng.u32(1..=20),
            length: if self.rng.u8(0..4) == 0 { SHORT } else { LENGTH },
        };
        let mut noted = NotedHold::new(asked);
        if let Some(states) = self.reserve(&mut noted).await {
            self.live(&mut noted, &states).await;
        }
        noted.last = Instant::now();
        self.ledger.holds.push(noted);
    }

    /// Returns the states if it was admitted.
    async fn reserve(&mut self, noted: &mut NotedHold) -> Option<HoldStates> {
        let (asked, cost) = (noted.asked, u64::from(noted.asked.cost));
        let (answered, unknown) = self.repeat(asked, Ask::Reserve).await;
        noted.unknown = unknown;
        let Some(Answered { answer, sent, at }) = answered else {
            // If no outcome is unknown, the last error says that nothing stays taken.
            noted.refuse(Duration::ZERO, self.store.deadline);
            return None;
        };
        let HoldAnswer::Decided(states) = answer else {
            self.violation(format!("a new hold was answered {answer:?}"));
            return None;
        };
        let is_repeated = states.is_repeated();
        self.expect(unknown > 0 || !is_repeated, || "a hold was taken before it was asked for".to_owned());
        if !states.is_admitted() {
            let is_full = states.reason() == Some(Reason::InFlightExceeded);
            self.expect(is_full, || format!("denied: {states:?} (G6)"));
            noted.refuse(at - sent, self.store.deadline);
            self.ledger.denials.push(Denial { asked, sent, answered: at });
            return None;
        }
        let is_within = states.in_flight().iter().all(|state| state.live() <= LIMIT);
        self.expect(is_within, || format!("too many units are live: {states:?} (G1)"));
        noted.admitted = Some(at);
        // A repeated reservation renews the hold.
        noted.lives_from = sent;
        noted.over = (unknown == 0).then(|| at + asked.length);
        noted.cost = (cost, cost);
        Some(states)
    }

    async fn live(&mut self, noted: &mut NotedHold, states: &HoldStates) {
        if noted.asked.length == LENGTH && self.rng.u8(0..6) == 0 && !self.is_bound(noted).await {
            return;
        }
        for _ in 0..self.rng.u8(0..3) {
            sleep(Duration::from_micros(self.rng.u64(0..15_000))).await;
            if !self.renew(noted).await {
                return;
            }
        }
        match self.rng.u8(0..8) {
            // It goes away.
            0 => {}
            1 if noted.asked.length == SHORT => {
                sleep(SHORT * 3 / 2).await;
                self.settle(noted, states).await;
            }
            _ => self.settle(noted, states).await,
        }
    }

    /// Rule 16: the id is bound to its terms. Returns whether it certainly is: a call that took longer than the hold
    /// lived may have taken it with others.
    async fn is_bound(&mut self, noted: &mut NotedHold) -> bool {
        let other = AskedHold { cost: noted.asked.cost + 1, ..noted.asked };
        match self.store.ask(other, Ask::Reserve).await {
            Ok(answer) => {
                let (lives, is_conflict) = (self.certainly_lives(noted), answer == HoldAnswer::Conflict);
                self.expect(is_conflict || !lives, || {
                    format!("the same id with another cost: {answer:?} (rule 16)")
                });
                // If one slot has forgotten the hold, it takes the other one until the next slot refuses that.
                if is_conflict && (lives || other.span == 1) {
                    return true;
                }
            }
            Err(error) => {
                self.ledger.errors.insert(format!("{error:?}"));
                if !error.may_have_charged() {
                    return true;
                }
            }
        }
        noted.over = None;
        noted.cost.1 += u64::from(other.cost);
        false
    }

    /// Returns whether the hold goes on.
    async fn renew(&mut self, noted: &mut NotedHold) -> bool {
        let (answered, unknown) = self.repeat(noted.asked, Ask::Renew).await;
        if unknown > 0 {
            noted.over = None;
        }
        let Some(Answered { answer, sent, at }) = answered else { return true };
        if matches!(answer, HoldAnswer::Renewed { .. }) {
            noted.lives_from = noted.lives_from.max(sent);
            noted.over = noted.over.map(|_| at + noted.asked.length);
            return true;
        }
        if answer == HoldAnswer::Lost {
            // The parts that are not lost live on.
            noted.over = noted.over.map(|_| at + noted.asked.length);
        }
        let is_over = matches!(answer, HoldAnswer::Expired | HoldAnswer::Lost);
        let lives = self.certainly_lives_at(noted, at);
        self.expect(is_over && !lives, || format!("a hold that lives was renewed: {answer:?} (rule 17)"));
        false
    }

    async fn settle(&mut self, noted: &mut NotedHold, states: &HoldStates) {
        let cost = noted.asked.cost;
        let actual = self.rng.u32(0..=2 * cost);
        let adjustment = |state: &QuotaState| {
            if actual == cost {
                HoldAdjustment::Keep
            } else if actual > cost {
                HoldAdjustment::Charge(actual - cost)
            } else {
                HoldAdjustment::GiveBack { units: cost - actual, mark: state.mark() }
            }
        };
        let adjustments =
            array::from_fn(|place| states.charged().get(place).map_or(HoldAdjustment::Keep, adjustment));
        let (first, may_lose, span) = (Instant::now(), self.may_lose, noted.asked.span);
        let (answered, unknown) = self.repeat(noted.asked, Ask::Settle(adjustments)).await;
        let either = (u64::from(cost.min(actual)), u64::from(cost.max(actual)));
        match answered {
            Some(Answered { answer: HoldAnswer::Settled(settled), sent, at }) => {
                let moved = actual.abs_diff(cost);
                let expected = repeat_n(moved, if moved == 0 { 0 } else { span });
                let is_whole = settled.iter().map(QuotaState::units).eq(expected);
                // A server that has lost the charge has less to give back. A part that has expired gives nothing back.
                let may_lack = may_lose || span > 1 && !self.certainly_lives_at(noted, at);
                self.expect(is_whole || may_lack, || {
                    format!("settled at {actual} of {cost}: {settled:?} (rule 18)")
                });
                noted.cost = if is_whole { (u64::from(actual), u64::from(actual)) } else { either };
                // From here on, no late call of before can bring it back.
                noted.over = Some(at);
                self.settle_again(noted, sent).await;
            }
            Some(Answered { answer: HoldAnswer::Expired, at, .. }) => {
                let lives = self.certainly_lives_at(noted, at);
                self.expect(!lives, || "a hold expired before its length was over (rule 17)".to_owned());
                if unknown > 0 {
                    noted.cost = either;
                }
            }
            Some(Answered { answer, .. }) => {
                self.violation(format!("a hold was settled: {answer:?} (rule 17)"));
            }
            None if unknown > 0 => noted.cost = either,
            None => return,
        }
        noted.ending = Some(first);
    }

    /// Rule 17: a settled id is remembered, and settling again in another way changes nothing.
    async fn settle_again(&mut self, noted: &NotedHold, sent: Instant) {
        if self.rng.u8(0..3) > 0 {
            return;
        }
        let (ask, expected) = match self.rng.u8(0..2) {
            0 => (Ask::Settle([HoldAdjustment::Charge(u32::MAX); KEYS]), &HoldAnswer::Conflict),
            _ => (Ask::Renew, &HoldAnswer::Ended),
        };
        let (Some(again), _) = self.repeat(noted.asked, ask).await else { return };
        let remembered = self.store.terms.clock.certain_end(sent, noted.asked.length);
        let is_forgotten = again.answer == HoldAnswer::Expired && (self.may_lose || again.at >= remembered);
        // A server that has lost the settlement settles it again.
        let is_other = self.may_lose;
        self.expect(again.answer == *expected || is_forgotten || is_other, || {
            format!("{ask:?} of a settled hold: {:?}, not {expected:?} (rule 17)", again.answer)
        });
    }

    /// Asks until there is an answer, as long as the id is remembered. Returns how many calls before it are of unknown
    /// outcome, too.
    async fn repeat(&mut self, asked: AskedHold, ask: Ask) -> (Option<Answered>, u32) {
        let (begun, mut unknown) = (Instant::now(), 0);
        loop {
            let sent = Instant::now();
            let Some(outcome) = self.ask(asked, ask).await else {
                unknown += 1;
                self.ledger.unknown += 1;
                continue;
            };
            match outcome {
                Ok(answer) => {
                    let at = Instant::now();
                    return (Some(Answered { answer, sent, at }), unknown);
                }
                Err(error) => {
                    self.ledger.errors.insert(format!("{error:?}"));
                    // Of a renewal, no error says that it charged; it may have been made all the same.
                    let may_have = error.may_have_charged() || matches!(ask, Ask::Renew);
                    unknown += u32::from(may_have);
                    self.ledger.unknown += u64::from(may_have);
                }
            }
            if begun.elapsed() > asked.length / 3 {
                return (None, unknown);
            }
            sleep(Duration::from_micros(self.rng.u64(500..5_000))).await;
        }
    }

    /// Takes the step once. In times of trouble, a caller of several slots sometimes goes away while the call runs, to
    /// repeat it at once; then there is no outcome.
    async fn ask(&mut self, asked: AskedHold, ask: Ask) -> Option<Result<HoldAnswer, RedisError>> {
        let asking = self.store.ask(asked, ask);
        if asked.span == 1 || !self.store.terms.is_in_trouble() || self.rng.u8(0..6) > 0 {
            return Some(asking.await);
        }
        timeout(Duration::from_millis(self.rng.u64(0..3)), asking).await.ok()
    }

    fn certainly_lives(&self, noted: &NotedHold) -> bool {
        self.certainly_lives_at(noted, Instant::now())
    }

    fn certainly_lives_at(&self, noted: &NotedHold, now: Instant) -> bool {
        let clock = &self.store.terms.clock;
        !self.may_lose && now < clock.certain_end(noted.lives_from, noted.asked.length)
    }

    fn expect(&mut self, holds: bool, broken: impl FnOnce() -> String) {
        if !holds {
            self.violation(broken());
        }
    }

    fn violation(&mut self, broken: String) {
        self.ledger.violations.push(broken);
    }
}
