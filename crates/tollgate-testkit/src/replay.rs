//! A plan, run over a store and the model side by side.

use std::time::Duration;

use tollgate::{
    Charge, Counted, Counter, Full, Key, Mark, PerQuota, PolicyQuota, Store, StoreError, Timestamp,
};

use crate::{Ask, Count, Model, Op, Plan, StoreSteps, Subject};

/// Takes every step of the plan on the store and on the model, and demands equal answers. Requests of one batch
/// may be taken in any order. The model's clock is moved by the plan alone, and the store's time has to agree with it;
/// only where a plan moves no clock does the model ask for the store's.
///
/// `set_back` sets the store's clock back; a plan that moves no clock never calls it.
///
/// # Panics
///
/// If an answer differs.
pub async fn replay<S: Subject>(
    subject: &S,
    mut model: Model,
    plan: &Plan,
    set_back: impl Fn(&S, Timestamp),
) {
    let keys: Vec<Key<'_>> = (0..plan.keys).map(Key::from).collect();
    let is_steered = plan.ops.iter().any(|op| matches!(op, Op::Forward(_) | Op::Back(_)));
    let mut now = subject.now().await;
    let mut side_by_side = Replay {
        store: subject.store(),
        quotas: &plan.quotas,
        keys: &keys,
        seen: Vec::new(),
        time: None,
        forgets_closed: subject.remembers_closed().is_zero(),
    };
    for (index, op) in plan.ops.iter().enumerate() {
        if !is_steered {
            now = subject.now().await;
        }
        model.set_time(now);
        side_by_side.time = is_steered.then_some(now);
        match op {
            Op::Forward(by) => {
                now = now + *by;
                subject.reach(now).await;
            }
            Op::Back(by) => {
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

/// Every order of so many requests, the given one first.
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

/// The model after it has taken the requests in this order, if it gave these answers.
fn after(
    model: &Model,
    order: &[usize],
    requests: &[&[Charge<'_>]],
    answers: &[Result<PerQuota<Count>, Full>],
) -> Option<Model> {
    let mut model = model.clone();
    let answers_alike = |index: &usize| answers.get(*index) == Some(&model.charge(requests[*index]));
    (answers.len() == requests.len() && order.iter().all(answers_alike)).then_some(model)
}

/// The answer, if it is none of trouble.
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
    /// Starts of windows that were counted, the latest last.
    seen: Vec<Timestamp>,
    /// The time by the plan, if it moves the clock.
    time: Option<Timestamp>,
    /// Whether the store remembers no closed windows.
    forgets_closed: bool,
}

impl<'a, S: Store> Replay<'a, S> {
    async fn step(&mut self, model: &mut Model, op: &Op, at: &str) {
        match op {
            Op::Charge(asks) => {
                let charges = self.charges(asks);
                let counted = or_full(self.store.charge(&charges).await).map(|it| self.counts(&it));
                assert_eq!(counted, model.charge(&charges), "{at}");
                self.seen.extend(counted.iter().flatten().map(|count| count.window.start()));
            }
            Op::ChargeEach(requests) => {
                let requests: Vec<_> = requests.iter().map(|asks| self.charges(asks)).collect();
                let requests: Vec<&[Charge<'_>]> = requests.iter().map(Vec::as_slice).collect();
                let answers = self.store.charge_each(&requests).await.into_iter();
                let answers: Vec<_> = answers.map(|it| or_full(it).map(|it| self.counts(&it))).collect();
                let after =
                    orders(requests.len()).find_map(|order| after(model, &order, &requests, &answers));
                *model = after.unwrap_or_else(|| panic!("{at}: in no order of the requests {answers:?}"));
            }
            Op::Peek(asks) => {
                let charges = self.charges(asks);
                let counted = or_full(self.store.peek(&charges).await).map(|it| self.counts(&it));
                assert_eq!(counted, model.peek(&charges), "{at}");
            }
            Op::Record(ask) => {
                let charge = self.charge(ask);
                assert_eq!(
                    or_full(self.store.record(&charge).await).map(|it| Count::from(&it)),
                    model.record(&charge),
                    "{at}"
                );
            }
            Op::Refund(ask, ago) => {
                let charge = self.charge(ask);
                let start = self.seen.iter().rev().nth(*ago).copied().unwrap_or(Timestamp::EPOCH);
                let mark = Mark::at(start);
                let refunded = self.store.refund(&charge, mark).await.unwrap();
                assert_eq!(Count::from(&refunded), model.refund(&charge, mark), "{at}");
            }
            Op::Reset(ask) => {
                let counter = self.charge(ask).counter();
                let told = self.store.reset(&counter).await.unwrap();
                model.reset(&counter);
                if self.forgets_closed && model.may_open_later(&counter) {
                    model.opens_in(&counter, told.window().unwrap());
                }
                assert_eq!(Count::from(&told), model.reset(&counter), "{at}");
            }
            Op::Set(ask, used) => {
                let counter = self.charge(ask).counter();
                assert_eq!(
                    or_full(self.store.set(&counter, *used).await).map(|it| Count::from(&it)),
                    model.set(&counter, *used),
                    "{at}"
                );
            }
            Op::Forward(_) | Op::Back(_) => unreachable!("these are no steps of a store"),
        }
    }

    /// What was counted. Whether all of a step was at one time is a rule of the suite's: on a Cluster each slot has its
    /// own.
    fn counts(&self, counted: &Counted) -> PerQuota<Count> {
        if let Some(time) = self.time {
            assert!(counted.iter().all(|state| state.now() == time), "not at {time:?}: {counted:?}");
        }
        counted.iter().map(Count::from).collect()
    }

    /// Whether a store still holds a counter whose window closed longer ago than it remembers is its own affair, and is
    /// seen once the clock is back in that window. So the store is asked: it has kept it as it was, or not at all.
    async fn learn_what_was_kept(&self, model: &mut Model, remembers_closed: Duration) {
        let counters =
            self.quotas.iter().flat_map(|quota| self.keys.iter().map(|key| Counter::new(quota, key)));
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
                // One with nothing used may be kept as well, and nobody could tell.
                _ => {
                    self.store.reset(counter).await.unwrap();
                    model.reset(counter);
                }
            }
        }
    }

    /// A store that forgets counters as soon as their windows have closed opens none of them again when the clock steps
    /// back a little. Which counters those may be is its own affair, so it is asked about those that hold nothing.
    async fn learn_where_to_open(&self, model: &mut Model, op: &Op) {
        let asks = match op {
            Op::Charge(asks) | Op::Peek(asks) => asks.clone(),
            Op::ChargeEach(requests) => requests.concat(),
            Op::Record(ask) | Op::Refund(ask, _) | Op::Reset(ask) | Op::Set(ask, _) => vec![*ask],
            Op::Forward(_) | Op::Back(_) => Vec::new(),
        };
        for counter in asks.iter().map(|ask| self.charge(ask).counter()) {
            if self.forgets_closed && model.may_open_later(&counter) {
                model.opens_in(&counter, self.store.reset(&counter).await.unwrap().window().unwrap());
            }
        }
    }

    fn charges(&self, asks: &[Ask]) -> Vec<Charge<'a>> {
        asks.iter().map(|ask| self.charge(ask)).collect()
    }

    fn charge(&self, ask: &Ask) -> Charge<'a> {
        let quota = &self.quotas[ask.quota % self.quotas.len()];
        let key = &self.keys[usize::try_from(ask.key % self.keys.len() as u64).unwrap()];
        Charge::new(quota, key, ask.cost)
    }
}
