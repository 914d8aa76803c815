//! Costs that are known only at the end of a stream, under limits with `overdraft`.

use tollgate::{ManualClock, MemoryStore};
use tollgate_envoy::{
    ChargingMode, Code, Descriptor, Domains, EnvoyLimiter, Override, Request, Response, SameDomain, Settings,
    Unit,
};
use tollgate_policy::Sources;
use tollgate_testkit::block_on;

const CONFIG: &str = "
domain: d
descriptors:
- { key: thousand, rate_limit: { unit: day, requests_per_unit: 1000, overdraft: true } }
- { key: three_hundred, rate_limit: { unit: day, requests_per_unit: 300, overdraft: true } }
- { key: strict, rate_limit: { unit: day, requests_per_unit: 1000 } }
- { key: requests, rate_limit: { unit: day, requests_per_unit: 2 } }
- { key: shadow, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 1000, overdraft: true } }
- { key: quota, quota_mode: true, rate_limit: { unit: day, requests_per_unit: 1000, overdraft: true } }
- { key: full, quota_mode: true, rate_limit: { unit: day, requests_per_unit: 0 } }
";

struct Envoy(EnvoyLimiter<MemoryStore<ManualClock>>);

impl Envoy {
    fn new(charging: ChargingMode) -> Self {
        let store = MemoryStore::builder().clock(ManualClock::default()).build();
        let domains = Domains::parse(&Sources::of("d.yaml", CONFIG), SameDomain::Refuse).unwrap();
        Self(EnvoyLimiter::new(store, domains, Settings { charging, ..Settings::default() }))
    }

    /// Asks with these costs under these limits.
    fn ask(&self, costs: &[(&str, u64)]) -> Response {
        let descriptors = costs.iter().map(|(key, cost)| {
            let mut descriptor = Descriptor::new([(*key, "x")]);
            descriptor.hits_addend = Some(*cost);
            descriptor
        });
        let request = Request { domain: "d", descriptors: descriptors.collect(), hits_addend: 0 };
        block_on(self.0.decide(&request)).unwrap()
    }

    /// The verdict at a request and, if it is admitted, the remaining units after its answer of 400 bytes.
    fn stream(&self, key: &str) -> Option<u32> {
        if self.ask(&[(key, 0)]).overall == Code::OverLimit {
            return None;
        }
        let _ = self.ask(&[(key, 400)]);
        Some(self.left(key))
    }

    fn left(&self, key: &str) -> u32 {
        self.ask(&[(key, 0)]).statuses[0].limit_remaining
    }
}

/// Envoy asks at the request with `hits_addend: 0`, and reports the bytes of the answer when the stream ends, when
/// nothing can be denied any more. A budget of 1,000 bytes a day stayed at 200 left after two answers of 400, and
/// admitted every client for ever; a budget of 300 was never charged at all.
#[test]
fn a_budget_of_bytes_is_used_up_by_answers_that_were_not_known_before() {
    for charging in [ChargingMode::AllOrNothing, ChargingMode::Each] {
        let envoy = Envoy::new(charging);
        let streams: Vec<_> = (0..4).map(|_| envoy.stream("thousand")).collect();
        assert_eq!(streams, [Some(600), Some(200), Some(0), None], "{charging:?}");
        let streams: Vec<_> = (0..2).map(|_| envoy.stream("three_hundred")).collect();
        assert_eq!(streams, [Some(0), None], "{charging:?}");
    }
    let envoy = Envoy::new(ChargingMode::AllOrNothing);
    let streams: Vec<_> = (0..4).map(|_| envoy.stream("strict")).collect();
    assert_eq!(
        streams,
        [Some(600), Some(200), Some(200), Some(200)],
        "a limit without `overdraft` is strict"
    );
}

/// A limit of requests denied, so the bytes of the same call were lost.
#[test]
fn bytes_are_charged_although_another_limit_denies() {
    let envoy = Envoy::new(ChargingMode::AllOrNothing);
    for (code, left) in [(Code::Ok, 900), (Code::Ok, 800), (Code::OverLimit, 700), (Code::OverLimit, 600)] {
        let answer = envoy.ask(&[("requests", 1), ("thousand", 100), ("shadow", 100)]);
        assert_eq!((answer.overall, answer.statuses[1].limit_remaining), (code, left));
        assert_eq!(answer.statuses[2].limit_remaining, left, "in shadow mode");
    }
    assert_eq!(envoy.left("thousand"), 600);
    // Once it is used up, it denies, and charges nothing to the others.
    let _ = envoy.ask(&[("thousand", 5_000)]);
    let answer = envoy.ask(&[("strict", 100), ("thousand", 1)]);
    assert_eq!((answer.overall, answer.statuses[1].code), (Code::OverLimit, Code::OverLimit));
    assert_eq!(envoy.left("strict"), 1_000);
}

/// The step that found a quota without room was followed by one without it, which charged the overdraft again.
#[test]
fn an_overdraft_is_charged_once_although_quotas_are_left_out() {
    let envoy = Envoy::new(ChargingMode::AllOrNothing);
    let answer = envoy.ask(&[("full", 1), ("quota", 400), ("strict", 10)]);
    assert_eq!((answer.overall, answer.statuses[1].limit_remaining), (Code::Ok, 600));
    assert_eq!((envoy.left("quota"), envoy.left("strict")), (600, 990));
    let _ = envoy.ask(&[("quota", 700)]);
    let answer = envoy.ask(&[("full", 1), ("quota", 400), ("strict", 10)]);
    assert_eq!((answer.overall, envoy.left("strict")), (Code::OverLimit, 990));
}

/// A limit that came with a descriptor was charged with the overdraft on its counter, and again without the quota that
/// was left out.
#[test]
fn a_limit_on_the_counter_of_an_overdraft_is_charged_once_although_quotas_are_left_out() {
    let store = MemoryStore::builder().clock(ManualClock::default()).build();
    let domains = Domains::parse(&Sources::of("d.yaml", CONFIG), SameDomain::Refuse).unwrap();
    let settings = Settings { quota_mode: true, ..Settings::default() };
    let envoy = Envoy(EnvoyLimiter::new(store, domains, settings));
    let descriptor = |key, cost, limit| {
        let mut descriptor = Descriptor::new([(key, "x")]);
        (descriptor.hits_addend, descriptor.limit) = (Some(cost), limit);
        descriptor
    };
    let own = Override::new(100, Unit::Day);
    let descriptors = [
        descriptor("thousand", 10, None),
        descriptor("thousand", 20, Some(own)),
        descriptor("full", 1, None),
    ];
    let request = Request { domain: "d", descriptors: descriptors.into_iter().collect(), hits_addend: 0 };
    let answer = block_on(envoy.0.decide(&request)).unwrap();
    let codes: Vec<Code> = answer.statuses.iter().map(|status| status.code).collect();
    assert_eq!((answer.overall, codes), (Code::Ok, vec![Code::Ok, Code::Ok, Code::OverLimit]));
    assert_eq!(envoy.left("thousand"), 970);
}
