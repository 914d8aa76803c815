//! Cases without a service.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http::HeaderMap;
use tollgate::{
    Charge, HoldAdjustment, HoldAnswer, HoldId, HoldLength, HoldStep, HoldTerms, InFlight, InFlightCharge,
    InFlightLimiter, Key, Limiter, ManualClock, MemoryStore, PolicyInFlight, PolicyQuota, Quota,
};
use tollgate_policy::{Attributes, Identity, Outcome, Policies, Policy};
use tollgate_wire::headers::{HeaderFormat, LimitHeaders};

use crate::CaseRun;

/// Units that no case uses up.
const PLENTY: u32 = 4_000_000_000;

/// Policies of which two apply to a request.
const POLICIES: usize = 100;

fn limiter(quotas: &[Quota]) -> Result<Limiter<ManualClock>> {
    let store = MemoryStore::builder().clock(ManualClock::default()).build();
    let limiter =
        quotas.iter().fold(Limiter::builder("bench"), |limiter, quota| limiter.quota(quota.clone()));
    Ok(limiter.build(store)?)
}

/// One key again and again.
pub(crate) fn charge_hot(_: usize) -> Result<CaseRun> {
    let limiter = limiter(&[Quota::per_day(PLENTY)])?;
    Ok(Box::new(move || {
        ensure!(limiter.check(black_box("alice"))?.is_allowed());
        Ok(())
    }))
}

/// A key that is new each time.
pub(crate) fn charge_cold(runs: usize) -> Result<CaseRun> {
    let limiter = limiter(&[Quota::per_day(PLENTY)])?;
    let keys: Vec<String> = (0..runs).map(|number| format!("user-{number}")).collect();
    let mut keys = keys.into_iter();
    Ok(Box::new(move || {
        let key = keys.next().context("there is a key for each run")?;
        ensure!(limiter.check(key.as_str())?.is_allowed());
        Ok(())
    }))
}

/// A key that has used up its limit.
pub(crate) fn charge_denied(_: usize) -> Result<CaseRun> {
    let limiter = limiter(&[Quota::per_day(1)])?;
    let _ = limiter.check("alice")?;
    Ok(Box::new(move || {
        ensure!(!limiter.check(black_box("alice"))?.is_allowed());
        Ok(())
    }))
}

/// One key with two quotas, all or nothing.
pub(crate) fn charge_two_quotas(_: usize) -> Result<CaseRun> {
    let limiter = limiter(&[Quota::per_hour(PLENTY), Quota::per_day(PLENTY)])?;
    Ok(Box::new(move || {
        ensure!(limiter.check(black_box("alice"))?.is_allowed());
        Ok(())
    }))
}

/// A unit in flight of a key that has others, from its beginning to its end.
pub(crate) fn hold(_: usize) -> Result<CaseRun> {
    let store = MemoryStore::builder().clock(ManualClock::default()).build();
    let limiter = InFlightLimiter::with_store(InFlight::new(1_000)?, store);
    let first = limiter.hold("alice")?.into_hold().context("there is room")?;
    Ok(Box::new(move || {
        let _first = &first;
        ensure!(limiter.hold(black_box("alice"))?.into_hold().is_some());
        Ok(())
    }))
}

/// A hold with an id: a unit in flight and a charge, from its reservation until it is settled. Some five hundred settled
/// ids are remembered, and each run forgets one.
pub(crate) fn reserve(_: usize) -> Result<CaseRun> {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let jobs = PolicyInFlight::new("bench", InFlight::new(1_000)?);
    let (words, key) = (PolicyQuota::new("bench", Quota::per_day(PLENTY)), Key::from("alice"));
    let mut ids = 0_u128..;
    Ok(Box::new(move || {
        clock.advance(Duration::from_millis(20));
        let id = HoldId::from_bytes(ids.next().context("there are more ids")?.to_be_bytes());
        let (units, charges) = ([InFlightCharge::new(&jobs, &key, 1)], [Charge::new(&words, &key, 3)]);
        let terms = HoldTerms::new(id, black_box(&units), &charges, HoldLength::default());
        let HoldAnswer::Decided(states) = store.take_hold(HoldStep::Reserve(terms))? else {
            bail!("the id is new");
        };
        let adjustment = HoldAdjustment::GiveBack { units: 1, mark: states.charged()[0].mark() };
        let settled = store.take_hold(HoldStep::Settle(terms, &[adjustment]))?;
        ensure!(matches!(settled, HoldAnswer::Settled(_)));
        Ok(())
    }))
}

/// The policies of a request, and its charges.
pub(crate) fn policy_match(_: usize) -> Result<CaseRun> {
    let policy = |number: usize| {
        let policy = Policy::builder(&format!("p{number}"));
        let policy = match number % 5 {
            0 => policy.matching("path", [&*format!("/api/service-{number}/*")]),
            _ => policy.matching("tenant", [&*format!("tenant-{number}")]),
        };
        policy.key(Identity::Attribute("user".into())).quota(Quota::per_minute(5)).build()
    };
    let policies = Policies::of((0..POLICIES).map(policy).collect::<Result<Vec<_>, _>>()?)?;
    Ok(Box::new(move || {
        let pairs = [("user", "alice"), ("tenant", "tenant-7"), ("path", "/api/service-10/items/1")];
        let attributes: Attributes<'_> = black_box(pairs).into_iter().collect();
        match policies.charges(&attributes, 1) {
            Ok(Outcome::Charge(matched)) if black_box(matched.enforced().count()) == 2 => Ok(()),
            other => bail!("not charged by two policies: {other:?}"),
        }
    }))
}

/// The headers of an admitted request.
pub(crate) fn headers(_: usize) -> Result<CaseRun> {
    write_headers(PLENTY)
}

/// The headers of a denied request.
pub(crate) fn headers_denied(_: usize) -> Result<CaseRun> {
    write_headers(1)
}

fn write_headers(limit: u32) -> Result<CaseRun> {
    let limiter = limiter(&[Quota::per_minute(limit), Quota::per_day(PLENTY)])?;
    let limit_headers = LimitHeaders::new(HeaderFormat::Draft11, limiter.quotas());
    let _ = limiter.check("alice")?;
    let counted = limiter.check("alice")?.quotas().clone();
    Ok(Box::new(move || {
        let mut headers = HeaderMap::new();
        limit_headers.write(&counted, &mut headers);
        ensure!(!black_box(headers).is_empty());
        Ok(())
    }))
}
