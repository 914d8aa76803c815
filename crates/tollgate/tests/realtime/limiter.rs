//! Limiters over one memory store, as the target of a course.

use std::time::Duration;

use tollgate::{
    Anchor, Clock, Decision, Limiter, MemoryStore, Quota, QuotaKind, QuotaState, SystemClock, Timestamp,
};
use tollgate_testkit::realtime::{
    ClockReading, LoadClient, LoadPlan, LoadTarget, LoadedKey, Nanos, QuotaAnswer, RealClock, Start, Terms,
    UnitAnswer,
};

/// One limiter for each group of a plan, and two for new keys; all over one store.
#[derive(Clone)]
pub(crate) struct Limiters {
    groups: Vec<Limiter>,
    newcomers: [Limiter; 2],
}

/// How many new keys come at once.
const NEWCOMERS: u64 = 256;

impl Limiters {
    pub(crate) fn new(plan: &LoadPlan, max_counters: usize) -> Self {
        let store = MemoryStore::builder().max_counters(max_counters).build();
        let limiter = |policy: &str, quotas: &[Terms]| {
            let builder =
                quotas.iter().map(quota).fold(Limiter::builder(policy), |it, quota| it.quota(quota));
            builder.build(store.clone()).unwrap()
        };
        // Most leave soon, so that there is always room to reclaim.
        let newcomers = [20, 1_000].map(terms);
        Self {
            groups: plan.groups.iter().map(|group| limiter(group.policy, &group.quotas)).collect(),
            newcomers: newcomers.map(|terms| limiter("newcomers", &[terms])),
        }
    }
}

fn terms(millis: i64) -> Terms {
    Terms { limit: 1, millis, start: Start::Epoch }
}

pub(crate) fn quota(terms: &Terms) -> Quota {
    let length = Duration::from_millis(terms.millis.unsigned_abs());
    let anchor = match terms.start {
        Start::Epoch => Anchor::Epoch,
        Start::Staggered => Anchor::Staggered,
        Start::FirstHit => Anchor::FirstHit,
        Start::Bucket(_) | Start::Sliding | Start::Log => return terms.quota(),
    };
    Quota::new(terms.limit as u64, length).unwrap().with_anchor(anchor).unwrap()
}

impl LoadTarget for Limiters {
    type Client<'t> = Self;

    fn client(&self) -> Self {
        self.clone()
    }
}

impl LoadClient for Limiters {
    fn ask(&mut self, clock: &RealClock, victims: &[LoadedKey], answers: &mut Vec<UnitAnswer>) {
        for victim in victims {
            let (limiter, key) = (&self.groups[usize::from(victim.group)], victim.key());
            let before = clock.read();
            let decision = limiter.check(key.as_str());
            let after = clock.now();
            // An error means that the store is full.
            if let Ok(decision) = decision {
                answers.push(answer(*victim, before, after, &decision));
            }
        }
    }

    fn bring(&mut self, number: u64) -> u64 {
        for key in number..number + NEWCOMERS {
            // One in eight stays for a second.
            let limiter = &self.newcomers[usize::from(key.is_multiple_of(8))];
            if let Ok(decision) = limiter.check(key) {
                assert!(decision.is_allowed(), "nobody has charged {key} before: {decision:?}");
            }
        }
        number + NEWCOMERS
    }

    fn now(&mut self) -> i64 {
        SystemClock.now().as_unix_millis()
    }
}

/// The end of a window, or when there is room again.
fn end(quota: &QuotaState) -> Timestamp {
    match quota.kind() {
        QuotaKind::Window => quota.reset_at(),
        _ => quota.retry_at().unwrap_or_else(|| quota.reset_at()),
    }
}

fn answer(victim: LoadedKey, before: ClockReading, after: Nanos, decision: &Decision<'_>) -> UnitAnswer {
    let standing = |quota: &QuotaState| QuotaAnswer {
        start: quota.mark().time().as_unix_millis(),
        end: end(quota).as_unix_millis(),
        now: quota.now().as_unix_millis(),
        has_room: quota.has_room(),
    };
    UnitAnswer {
        victim,
        before,
        after,
        allowed: decision.is_allowed(),
        retry_after: decision.retry_after().map(|wait| i64::try_from(wait.as_millis()).unwrap()),
        quotas: decision.quotas().iter().map(standing).collect(),
    }
}
