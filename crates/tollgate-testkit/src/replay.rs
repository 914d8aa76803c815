//! A plan, run over a store and the model side by side.

use std::time::Duration;

use tollgate::{
    BlockCharge, BlockQuota, Charge, Counter, Full, Key, Mark, PerQuota, PolicyQuota, QuotaStates, Store,
    StoreError, Timestamp,
};

use crate::plan::BLOCKS;
use crate::{ChargeCount, Model, PlannedCharge, PlannedStep, StepPlan, StoreSteps, StoreUnderTest};

/// Takes every step of the plan on the store and on the model, and demands equal answers. The requests of a batch may
/// be taken in any order. Only the plan moves the model's clock, and the store's time must agree with it. If a plan
/// moves no clock, the model takes the store's time.
///
/// `set_back` sets the store's clock back; a plan without clock moves never calls it.
///
/// # Panics
///
/// If an answer differs.
pub async fn replay<S: StoreUnderTest>(
    subject: &S,
    mut model: Model,
    plan: &StepPlan,
    set_back: impl Fn(&S, Timestamp),
) {
    let keys: Vec<Key<'_>> = (0..plan.keys).map(Key::from).collect();
    let blocks = plan.quotas.iter().flat_map(|quota| {
        BLOCKS.iter().map(|length| BlockQuota::new(quota.clone(), *length).expect("a quota of fixed windows"))
    });
    let blocks: Vec<BlockQuota> = blocks.collect();
    // A step before an end depends on the exact time as well.
    let is_clock_set = plan.ops.iter().any(|op| {
        matches!(op, PlannedStep::Forward(_) | PlannedStep::Back(_) | PlannedStep::ChargeBefore(..))
    });
    let mut now = subject.now().await;
    let mut side_by_side = Replay {
        store: subject.store(),
        quotas: &plan.quotas,
        keys: &keys,
        blocks: &blocks,
        seen: Vec::new(),
        time: None,
        forgets_closed: subject.remembers_closed().is_zero(),
    };
    for (index, op) in plan.ops.iter().enumerate() {
        if !is_clock_set {
            now = subject.now().await;
        }
        model.set_time(now);
        side_by_side.time = is_clock_set.then_some(now);
        match op {
            PlannedStep::Forward(by) => {
                now = now + *by;
                subject.reach(now).await;
            }
            PlannedStep::Back(by) => {
                now = now - *by;
                set_back(subject, now);
                model.set_time(now);
                side_by_side.time = Some(now);
                side_by_side.learn_what_was_kept(&mut model, subject.remembers_closed()).await;
            }
            step => {
                side_by_side.learn_where_to_open(&mut model, step).await;
                side_by_side.step(&mut model, step, &format!("step {index}, {step:?} at {now:?}")).await;
            }
        }
    }
}

/// Returns every order of this many requests, the given one first.
fn orders(requests: usize) -> impl Iterator<Item = Vec<usize>> {
    let insert = |orders: Vec<Vec<usize>>, next: usize| {
        let everywhere = |order: Vec<usize>| {
            (0..=order.len()).rev().map(move |place| {
                let mut order = order.clone();
                order.insert(place, next);
                order
            })
        };
        orders.into_iter().flat_map(everywhere).collect()
    };
    (0..requests).fold(vec![Vec::new()], insert).into_iter()
}

/// Returns the model after it has taken the requests in this order, if it gave these answers.
fn after(
    model: &Model,
    order: &[usize],
    requests: &[&[Charge<'_>]],
    answers: &[Result<PerQuota<ChargeCount>, Full>],
) -> Option<Model> {
    let mut model = model.clone();
    let answers_alike = |index: &usize| answers.get(*index) == Some(&model.charge(requests[*index]));
    (answers.len() == requests.len() && order.iter().all(answers_alike)).then_some(model)
}

/// Returns the time so many milliseconds later.
fn end(time: Timestamp, millis: i64) -> Timestamp {
    Timestamp::from_unix_millis(time.as_unix_millis() + millis)
}

/// Returns the answer, and fails on a store in trouble.
fn or_full<A>(answer: Result<A, StoreError>) -> Result<A, Full> {
    answer.map_err(|error| match error {
        StoreError::Full => Full,
        trouble => panic!("the store answers {trouble:?}"),
    })
}

struct Replay<'a, S> {
    store: &'a S,
    quotas: &'a [PolicyQuota],
    keys: &'a [Key<'a>],
    /// For each quota, one of each length.
    blocks: &'a [BlockQuota],
    /// The starts of windows that were counted, the latest last.
    seen: Vec<Timestamp>,
    /// The time of the plan, if it moves the clock.
    time: Option<Timestamp>,
    /// Whether the store remembers no closed windows.
    forgets_closed: bool,
}

impl<'a, S: Store> Replay<'a, S> {
    async fn step(&mut self, model: &mut Model, op: &PlannedStep, at: &str) {
        match op {
            PlannedStep::Charge(asks) => {
                let charges = self.charges(asks);
                let counted = or_full(self.store.charge(&charges).await).map(|it| self.counts(&it));
                assert_eq!(counted, model.charge(&charges), "{at}");
                self.seen.extend(counted.iter().flatten().map(|count| count.window.start()));
            }
            PlannedStep::ChargeBefore(asks, millis) => {
                let time = self.time.expect("the time of a plan with ends");
                let (charges, end) = (self.charges(asks), end(time, *millis));
                let answer = self.store.charge_before(&charges, end).await;
                if !charges.is_empty()
                    && let Err(now) = model.before(end)
                {
                    let is_ended = matches!(answer, Err(StoreError::Ended { now: told }) if told == now);
                    assert!(is_ended, "{at}: {answer:?}");
                    return;
                }
                let counted = or_full(answer).map(|it| self.counts(&it));
                assert_eq!(counted, model.charge(&charges), "{at}");
                self.seen.extend(counted.iter().flatten().map(|count| count.window.start()));
            }
            PlannedStep::ChargeEach(requests) => {
                let requests: Vec<_> = requests.iter().map(|asks| self.charges(asks)).collect();
                let requests: Vec<&[Charge<'_>]> = requests.iter().map(Vec::as_slice).collect();
                let answers = self.store.charge_each(&requests).await.into_iter();
                let answers: Vec<_> = answers.map(|it| or_full(it).map(|it| self.counts(&it))).collect();
                let after =
                    orders(requests.len()).find_map(|order| after(model, &order, &requests, &answers));
                *model = after.unwrap_or_else(|| panic!("{at}: in no order of the requests {answers:?}"));
            }
            PlannedStep::Peek(asks) => {
                let charges = self.charges(asks);
                let counted = or_full(self.store.peek(&charges).await).map(|it| self.counts(&it));
                assert_eq!(counted, model.peek(&charges), "{at}");
            }
            PlannedStep::Record(ask) => {
                let charge = self.charge(ask);
                assert_eq!(
                    or_full(self.store.record(&charge).await).map(|it| ChargeCount::from(&it)),
                    model.record(&charge),
                    "{at}"
                );
            }
            PlannedStep::Block(ask, length) => {
                let charge = self.block_charge(ask, *length);
                let counter = charge.charge().counter();
                let counted = or_full(self.store.block(&charge).await);
                let counted = counted.map(|states| {
                    assert!(
                        self.time.is_none_or(|time| states.iter().all(|state| state.now() == time)),
                        "{at}"
                    );
                    states.map(|state| ChargeCount::from(&state))
                });
                let mut answer = model.block(&charge);
                // As after a reset.
                if let (Ok([told, _]), Ok([counter_then, block])) = (&counted, &mut answer)
                    && block.used > 0
                    && self.forgets_closed
                    && model.may_open_later(&counter)
                {
                    model.opens_in(&counter, told.window);
                    counter_then.window = model.reset(&counter).window;
                }
                assert_eq!(counted, answer, "{at}");
            }
            PlannedStep::Refund(ask, ago) => {
                let charge = self.charge(ask);
                let start = self.seen.iter().rev().nth(*ago).copied().unwrap_or(Timestamp::EPOCH);
                let mark = Mark::at(start);
                let refunded = self.store.refund(&charge, mark).await.unwrap();
                assert_eq!(ChargeCount::from(&refunded), model.refund(&charge, mark), "{at}");
            }
            PlannedStep::Reset(ask) => {
                let counter = self.charge(ask).counter();
                let told = self.store.reset(&counter).await.unwrap();
                model.reset(&counter);
                if self.forgets_closed && model.may_open_later(&counter) {
                    model.opens_in(&counter, told.window().unwrap());
                }
                assert_eq!(ChargeCount::from(&told), model.reset(&counter), "{at}");
            }
            PlannedStep::Set(ask, used) => {
                let counter = self.charge(ask).counter();
                assert_eq!(
                    or_full(self.store.set(&counter, *used).await).map(|it| ChargeCount::from(&it)),
                    model.set(&counter, *used),
                    "{at}"
                );
            }
            PlannedStep::Forward(_) | PlannedStep::Back(_) => unreachable!("these are no steps of a store"),
        }
    }

    /// Returns the counts. Whether a whole step has one time is left to the suite: on a Cluster each slot has its own.
    fn counts(&self, counted: &QuotaStates) -> PerQuota<ChargeCount> {
        if let Some(time) = self.time {
            assert!(counted.iter().all(|state| state.now() == time), "not at {time:?}: {counted:?}");
        }
        counted.iter().map(ChargeCount::from).collect()
    }

    /// A store is free to keep a counter or drop it once its window closed longer ago than it remembers. Which it did
    /// shows when the clock is back in that window. So this asks the store: it must have kept the counter unchanged, or
    /// not at all.
    async fn learn_what_was_kept(&self, model: &mut Model, remembers_closed: Duration) {
        // Of the longest length, which shortens none.
        let blocks = self.blocks.iter().skip(BLOCKS.len() - 1).step_by(BLOCKS.len()).map(BlockQuota::block);
        let quotas = self.quotas.iter().chain(blocks);
        let counters = quotas.flat_map(|quota| self.keys.iter().map(|key| Counter::new(quota, key)));
        for counter in &counters.collect::<Vec<_>>() {
            if !model.may_be_forgotten(counter, remembers_closed) {
                continue;
            }
            let look = [Charge::new(counter.quota(), counter.key(), 0)];
            match or_full(self.store.peek(&look).await).map(|counted| self.counts(&counted)) {
                Ok(kept) if kept[0].used > 0 => {
                    assert_eq!(Ok(kept), model.peek(&look), "kept from {counter:?}");
                    model.remember(counter);
                }
                // An empty counter may have been kept as well; nobody could tell.
                _ => {
                    self.store.reset(counter).await.unwrap();
                    model.reset(counter);
                }
            }
        }
    }

    /// A store that forgets counters as soon as their windows have closed does not reopen them when the clock steps
    /// back a little. It is free to choose which to forget, so this asks about the empty ones.
    async fn learn_where_to_open(&self, model: &mut Model, op: &PlannedStep) {
        let asks = match op {
            PlannedStep::Charge(asks) | PlannedStep::ChargeBefore(asks, _) | PlannedStep::Peek(asks) => {
                asks.clone()
            }
            PlannedStep::ChargeEach(requests) => requests.concat(),
            PlannedStep::Record(ask)
            | PlannedStep::Block(ask, _)
            | PlannedStep::Refund(ask, _)
            | PlannedStep::Reset(ask)
            | PlannedStep::Set(ask, _) => vec![*ask],
            PlannedStep::Forward(_) | PlannedStep::Back(_) => Vec::new(),
        };
        let block = match op {
            PlannedStep::Block(ask, length) => Some(self.block_charge(ask, *length).block()),
            _ => None,
        };
        for counter in asks.iter().map(|ask| self.charge(ask).counter()).chain(block) {
            if self.forgets_closed && model.may_open_later(&counter) {
                model.opens_in(&counter, self.store.reset(&counter).await.unwrap().window().unwrap());
            }
        }
    }

    fn charges(&self, asks: &[PlannedCharge]) -> Vec<Charge<'a>> {
        asks.iter().map(|ask| self.charge(ask)).collect()
    }

    fn charge(&self, ask: &PlannedCharge) -> Charge<'a> {
        Charge::new(&self.quotas[ask.quota % self.quotas.len()], self.key(ask), ask.cost)
    }

    fn block_charge(&self, ask: &PlannedCharge, length: Duration) -> BlockCharge<'a> {
        let length = BLOCKS.iter().position(|other| *other == length).expect("a planned length");
        let quota = ask.quota % self.quotas.len();
        BlockCharge::new(&self.blocks[quota * BLOCKS.len() + length], self.key(ask), ask.cost)
    }

    fn key(&self, ask: &PlannedCharge) -> &'a Key<'a> {
        &self.keys[usize::try_from(ask.key % self.keys.len() as u64).unwrap()]
    }
}
