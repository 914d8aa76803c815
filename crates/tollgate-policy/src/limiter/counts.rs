//! Counts under a caller's own limits: units are counted whatever the verdict, and the caller may change its counters.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use thiserror::Error;
use tollgate::kind::Standing;
use tollgate::{
    AnswerError, BlockCharge, BlockQuota, Charge, Clock, OnStoreFailure, Quota, QuotaError, QuotaState,
    QuotaStates, Reason, Source, Step, StepDeadline, Store, StoreError, WindowLength,
};

use super::charged_quotas::ChargedQuotas;
use super::quota_changes::{expect_quotas, next, quota_of};
use super::{Charges, CheckError, PolicyLimiter, PolicySet, QuotaChanges, WhenFull};
use crate::matched::NeededValues;
use crate::{Attributes, MatchedPolicies, Policy};

/// What a count does with its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CountOperation {
    /// Counts these units, whether or not there is room. The state of a [fixed window](tollgate::QuotaKind::Window) has a
    /// [reason](QuotaState::reason) if its limit is exceeded now.
    Add(u32),
    /// Gives back up to these units to the windows that are open now. If a window ends in between, nothing is given
    /// back. Only for [fixed windows](tollgate::QuotaKind::Window).
    Subtract(u32),
    /// Changes nothing, and answers as a check of this cost would.
    Get(u32),
    /// Sets the used units, which may be above the limit.
    Set(u64),
    /// Sets the used units to zero, and closes a window that began with its first unit.
    Reset,
}

/// One of many counts.
pub struct AskedCount<'a, 'b> {
    attributes: &'a Attributes<'b>,
    terms: CountTerms,
}

/// What a count does, and under which limits.
#[derive(Debug, Clone)]
pub struct CountTerms {
    limits: Policy,
    operation: CountOperation,
    block: Option<BlockQuota>,
}

/// The state of a quota after a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CountState {
    /// The state. While the key is blocked, its used units are those of the counter when the block began, its window ends
    /// with the block and has the length that the count names, and nothing is left, whatever its limit is.
    pub state: QuotaState,
    /// Whether the key is blocked, so that nothing is counted.
    pub is_blocked: bool,
}

/// Why a count cannot block its key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BlockError {
    /// Only `add`, `get` and `reset` know of blocks.
    #[error("only `add`, `get` and `reset` have a block")]
    Operation,
    /// There is not exactly one quota.
    #[error("a block needs exactly one quota")]
    Quotas,
    /// The quota does not count in fixed windows, or no block has this length.
    #[error(transparent)]
    Quota(#[from] QuotaError),
}

impl<'a, 'b> AskedCount<'a, 'b> {
    /// Asks for a count on the counters of these attributes.
    #[must_use]
    pub const fn new(attributes: &'a Attributes<'b>, terms: CountTerms) -> Self {
        Self { attributes, terms }
    }
}

impl CountTerms {
    /// Executes the operation under [limits of a caller](Policy::of_caller).
    ///
    /// While the store cannot answer, the limits decide about [`Add`](CountOperation::Add) and
    /// [`Get`](CountOperation::Get). The other operations fail then, because they change counters of the store.
    #[must_use]
    pub fn new(limits: Policy, operation: CountOperation) -> Self {
        let limits = match operation {
            CountOperation::Add(_) | CountOperation::Get(_) => limits,
            _ => limits.with_on_store_failure(OnStoreFailure::Closed),
        };
        Self { limits, operation, block: None }
    }

    /// Blocks the key for this long if an [`Add`](CountOperation::Add) exceeds the limit. Until the block ends, nothing
    /// is counted; then it is counted from 0 again. A [`Get`](CountOperation::Get) says whether the key is blocked, and a
    /// [`Reset`](CountOperation::Reset) ends the block as well. Counts without a block do not know of it. If an `Add`
    /// names another length, the block lives on, but no longer than that length from then on. A `Get` only says so.
    ///
    /// # Errors
    ///
    /// If the operation is another one, if there is not exactly one quota, if it does not count in fixed windows, or if
    /// the length is none of a window.
    pub fn with_block(self, length: Duration) -> Result<Self, BlockError> {
        if matches!(self.operation, CountOperation::Subtract(_) | CountOperation::Set(_)) {
            return Err(BlockError::Operation);
        }
        let [quota] = self.limits.quotas() else { return Err(BlockError::Quotas) };
        let block = BlockQuota::new(quota.clone(), length)?;
        Ok(Self { block: Some(block), ..self })
    }

    /// Returns the operation.
    #[must_use]
    pub const fn operation(&self) -> CountOperation {
        self.operation
    }

    /// Returns the limits.
    #[must_use]
    pub const fn limits(&self) -> &Policy {
        &self.limits
    }

    /// Returns how long its [block](Self::with_block) lasts, if it has one.
    #[must_use]
    pub fn block_length(&self) -> Option<Duration> {
        match self.block.as_ref()?.block().quota().window() {
            WindowLength::Fixed(length) => Some(length),
            _ => None,
        }
    }
}

impl CountOperation {
    /// Returns the units of its charges.
    const fn cost(self) -> u32 {
        match self {
            Self::Add(cost) | Self::Subtract(cost) | Self::Get(cost) => cost,
            Self::Set(_) | Self::Reset => 0,
        }
    }

    /// Returns the first steps on these charges, of which the only one may block its key.
    fn steps<'a>(self, charges: &'a [Charge<'a>], block: Option<&'a BlockQuota>) -> Steps<'a> {
        let each = charges.iter();
        if let Some(block) = block {
            let on_key = |charge: &Charge<'a>, cost| BlockCharge::new(block, charge.counter().key(), cost);
            return match self {
                Self::Add(_) => each.map(|charge| Step::Block(on_key(charge, charge.cost()))).collect(),
                Self::Reset => {
                    let counters = each.map(|charge| [charge.counter(), on_key(charge, 0).block()]);
                    counters.flatten().map(Step::Reset).collect()
                }
                // Charges nothing, and shows both.
                _ => each.map(|charge| Step::Block(on_key(charge, 0))).collect(),
            };
        }
        match self {
            Self::Add(_) => each.map(|charge| Step::Record(*charge)).collect(),
            Self::Set(used) => each.map(|charge| Step::Set { counter: charge.counter(), used }).collect(),
            Self::Reset => each.map(|charge| Step::Reset(charge.counter())).collect(),
            // A refund names a window: the one that is open now.
            Self::Get(_) | Self::Subtract(_) if charges.is_empty() => SmallVec::new(),
            Self::Get(_) | Self::Subtract(_) => [Step::Peek(charges)].into_iter().collect(),
        }
    }
}

/// A count under limits that are the only policy of a set.
struct PlacedCount<'a, 'b> {
    set: Arc<PolicySet>,
    attributes: &'a Attributes<'b>,
    operation: CountOperation,
    block: Option<BlockQuota>,
}

/// A count whose first steps are taken.
struct BegunCount<'a> {
    operation: CountOperation,
    charges: &'a [Charge<'a>],
    states: Result<CountStates, CheckError>,
}

type CountStates = SmallVec<[CountState; 1]>;

impl<S: Store, C: Clock> PolicyLimiter<S, C> {
    /// Executes each count separately, in no particular order, until this deadline, which all steps share. Each of
    /// several quotas is changed in a step of its own; a [`Get`](CountOperation::Get) looks at all of them at once.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check), and if a limit in flight is among the limits. If the store failed for some quotas and
    /// others were changed, the error [names those](CheckError::Partly).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the operations may or may not have been executed.
    pub async fn count_each_until<'a, 'b: 'a>(
        &self,
        deadline: Option<StepDeadline>,
        requests: impl IntoIterator<Item = AskedCount<'a, 'b>>,
    ) -> Vec<Result<QuotaChanges<CountState>, CheckError>> {
        let live = self.live();
        let asked = requests.into_iter().map(|AskedCount { attributes, terms }| {
            let CountTerms { limits, operation, block } = terms;
            let set = Arc::new(live.of_caller(limits));
            PlacedCount { set, attributes, operation, block }
        });
        let asked: Vec<PlacedCount<'_, '_>> = asked.collect();
        let matched = asked.iter().map(|PlacedCount { set, attributes, operation, .. }| {
            let matched = self.matched(set, attributes, operation.cost(), NeededValues::Cost)?;
            expect_quotas(&matched, |_| true)?;
            Ok(matched)
        });
        let matched: Vec<Result<MatchedPolicies<'_>, CheckError>> = matched.collect();
        let charges = matched.iter().map(|matched| match matched {
            Ok(matched) => matched.enforced().collect(),
            Err(_) => Charges::new(),
        });
        let charges: Vec<Charges<'_>> = charges.collect();

        let steps = asked.iter().zip(&charges);
        let steps = steps.map(|(asked, charges)| asked.operation.steps(charges, asked.block.as_ref()));
        let steps: Vec<Steps<'_>> = steps.collect();
        let mut begun = self.take_each(deadline, steps).await.into_iter();
        let begun = asked.iter().zip(&charges).map(|(PlacedCount { operation, .. }, charges)| {
            let (charges, (steps, answers)) = (charges.as_slice(), begun.next().unwrap_or_default());
            let states = self.joined(*operation, charges, &steps, answers);
            BegunCount { operation: *operation, charges, states }
        });
        let begun: Vec<BegunCount<'_>> = begun.collect();
        let states = self.subtract_each(deadline.map(StepDeadline::after_a_step), begun).await;

        let counted = asked.iter().zip(&matched).zip(states);
        let counted = counted.map(|((asked, matched), states)| {
            let charged = ChargedQuotas::of(matched.as_ref().map_err(CheckError::clone)?);
            let values = states?.into_iter().map(Some).collect();
            let (set, others, forgotten) = (Arc::clone(&asked.set), Vec::new(), Vec::new());
            Ok(QuotaChanges { set, charged, values, others, forgotten })
        });
        counted.collect()
    }

    /// Gives units back for the counts that ask for it. The others are as they were.
    async fn subtract_each(
        &self,
        deadline: Option<StepDeadline>,
        begun: Vec<BegunCount<'_>>,
    ) -> Vec<Result<CountStates, CheckError>> {
        let refunds = begun.iter().map(|count| match (count.operation, &count.states) {
            (CountOperation::Subtract(_), Ok(open)) => {
                let each = count.charges.iter().zip(open);
                each.map(|(charge, open)| Step::Refund { charge: *charge, mark: open.state.mark() }).collect()
            }
            _ => SmallVec::new(),
        });
        let taken = self.take_each(deadline, refunds.collect()).await;
        let states = begun.into_iter().zip(taken).map(|(count, (steps, answers))| {
            if steps.is_empty() {
                return count.states;
            }
            self.joined(count.operation, count.charges, &steps, answers)
        });
        states.collect()
    }

    /// Takes all steps in one call, and returns those of each count with their answers.
    async fn take_each<'a>(
        &self,
        deadline: Option<StepDeadline>,
        each: Vec<Steps<'a>>,
    ) -> Vec<StepAnswers<'a>> {
        let steps: Vec<Step<'a>> = each.iter().flatten().copied().collect();
        let answers = match steps.as_slice() {
            [] => Vec::new(),
            steps => self.store.step_each_until(steps, deadline).await,
        };
        let mut answers = answers.into_iter();
        let taken = each.into_iter().map(|steps| {
            let answers = steps.iter().map(|_| next(&mut answers)).collect();
            (steps, answers)
        });
        taken.collect()
    }

    /// Joins the answers to the steps of one count.
    fn joined(
        &self,
        operation: CountOperation,
        charges: &[Charge<'_>],
        steps: &[Step<'_>],
        answers: Vec<Result<QuotaStates, StoreError>>,
    ) -> Result<CountStates, CheckError> {
        // During an outage, the limits may answer for a counter that nothing was added to.
        let is_changed = |answer: &Result<QuotaStates, StoreError>| {
            let states = answer.as_ref().into_iter().flatten();
            answer.is_ok() && states.map(QuotaState::source).all(|source| source != Source::Fallback)
        };
        // The reset of a block follows that of its counter, which names both.
        let own = steps.iter().zip(&answers).take(charges.len());
        let changed = own.filter(|(_, answer)| is_changed(answer));
        let changed = changed.filter_map(|(step, _)| quota_of(step)).collect();
        if let [Step::Block(charge)] = steps {
            let counted = answers.into_iter().next().unwrap_or_else(|| Err(AnswerError::Nonsense.into()));
            let counted = self.with_room(&charge.charges(), counted);
            let state = counted.and_then(|counted| state_or_block(charge, &counted, operation));
            let states = state.map(|state| [state].into_iter().collect());
            return states.map_err(|error| CheckError::after(changed, Box::default(), error));
        }
        let states = match operation {
            CountOperation::Add(cost) => {
                let each = charges.iter().zip(answers);
                let each = each.map(|(charge, answer)| self.with_room(&[*charge], answer));
                let counted = QuotaStates::of_each(each.collect());
                counted.map(|counted| {
                    let each = charges.iter().zip(&counted);
                    each.map(|(charge, state)| judged(charge.counter().quota().quota(), state, cost))
                        .collect()
                })
            }
            CountOperation::Get(_) => {
                let looked = answers.into_iter().next();
                looked.map_or_else(|| Ok(super::nothing()), |looked| self.with_room(charges, looked))
            }
            CountOperation::Subtract(_) if matches!(steps, [Step::Peek(_)]) => {
                answers.into_iter().next().unwrap_or_else(|| Ok(super::nothing()))
            }
            CountOperation::Subtract(_) | CountOperation::Set(_) | CountOperation::Reset => {
                QuotaStates::of_each(answers)
            }
        };
        let states = states.map_err(|error| CheckError::after(changed, Box::default(), error))?;
        let states = states.iter().take(charges.len());
        Ok(states.map(|state| CountState { state: *state, is_blocked: false }).collect())
    }

    /// Returns the answer to a step on these charges, or that of [`when_full`](Self::when_full).
    fn with_room(
        &self,
        charges: &[Charge<'_>],
        answer: Result<QuotaStates, StoreError>,
    ) -> Result<QuotaStates, StoreError> {
        let Err(StoreError::Full) = answer else { return answer };
        self.note_full();
        match self.when_full {
            WhenFull::Deny => Err(StoreError::Full),
            WhenFull::Allow => Ok(self.store.uncounted(charges)),
        }
    }
}

/// The steps of one count.
type Steps<'a> = SmallVec<[Step<'a>; 2]>;

/// The steps of one count, with their answers.
type StepAnswers<'a> = (Steps<'a>, Vec<Result<QuotaStates, StoreError>>);

/// Returns the state of a counter and its block as this operation shows it.
fn state_or_block(
    charge: &BlockCharge<'_>,
    counted: &QuotaStates,
    operation: CountOperation,
) -> Result<CountState, StoreError> {
    let [counter, block] = &**counted else { return Err(AnswerError::Nonsense.into()) };
    let quota = charge.charge().counter().quota().quota();
    let cost = operation.cost();
    if block.used() == 0 {
        let state = match operation {
            CountOperation::Get(_) => with_reason(quota, counter, counter.used(), cost.max(1)),
            _ => judged(quota, counter, cost),
        };
        return Ok(CountState { state, is_blocked: false });
    }
    // What can never fit does not fit after the block either.
    let state = with_reason(quota, block, quota.limit(), cost.max(1)).with_units(counter.units());
    Ok(CountState { state, is_blocked: true })
}

/// Returns this state of a counter under a quota, with the reason if `cost` units are too many next to so many.
fn with_reason(quota: &Quota, state: &QuotaState, used: u64, cost: u32) -> QuotaState {
    let Some(window) = state.window() else { return *state };
    let reason = Reason::of(used, cost.into(), quota.limit());
    let standing = Standing::in_window(state.used(), window);
    QuotaState::of(quota, &standing, state.now(), reason, cost.into()).with_source(state.source())
}

/// Returns the state of a counter to which `cost` units were added without asking, with the reason if they are too many.
/// If nothing was counted, nothing is too many.
fn judged(quota: &Quota, state: &QuotaState, cost: u32) -> QuotaState {
    let Some(window) = state.window() else { return *state };
    let reason = match Reason::of(0, cost.into(), state.limit()) {
        _ if state.used() <= state.limit() => None,
        None => Some(Reason::QuotaExceeded),
        reason => reason,
    };
    let standing = Standing::in_window(state.used(), window);
    QuotaState::of(quota, &standing, state.now(), reason, cost.into())
        .with_units(state.units())
        .with_source(state.source())
}
