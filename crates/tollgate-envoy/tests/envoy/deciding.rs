//! Answers to requests. `tests/reading` holds their verdicts against a model; here is what it does not say.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::json;
use tollgate::{LocalShare, ManualClock, MemoryStore, OnStoreFailure, Timestamp};
use tollgate_envoy::{
    ChargingMode, Code, DecideError, Descriptor, Domains, EnvoyLimiter, HeaderNames, InvalidRequest,
    Override, Request, Response, SameDomain, Settings, Status, Unit,
};
use tollgate_policy::{Sources, WhenFull};
use tollgate_testkit::{FaultyStore, StoreFault, block_on};

const CONFIG: &str = "
domain: d
descriptors:
- key: one
  rate_limit: { unit: minute, requests_per_unit: 1, name: single }
  metadata: { from: one, both: { one: 1 } }
- key: ten
  rate_limit: { unit: day, requests_per_unit: 10 }
  metadata: { from: ten, both: { one: 2, ten: 10 } }
- key: shadow
  shadow_mode: true
  rate_limit: { unit: minute, requests_per_unit: 1 }
- key: quota
  quota_mode: true
  rate_limit: { unit: day, requests_per_unit: 1 }
- key: month
  rate_limit: { unit: month, requests_per_unit: 5 }
- key: zero
  rate_limit: { unit: day, requests_per_unit: 0 }
- key: used
  quota_mode: true
  rate_limit: { unit: month, requests_per_unit: 0 }
- key: free
  metadata: { from: free }
  rate_limit: { unlimited: true, name: unlimited }
- key: free-quota
  quota_mode: true
  rate_limit: { unlimited: true }
- key: instead
  rate_limit: { unit: day, requests_per_unit: 5, replaces: [{ name: unlimited }] }
";

/// 20 seconds into a minute.
const NOW: Timestamp = Timestamp::from_unix_millis(1_700_000_000_000);

fn domains() -> Domains {
    Domains::parse(&Sources::of("d.yaml", CONFIG), SameDomain::Refuse).unwrap()
}

fn limiter(settings: Settings) -> (EnvoyLimiter<MemoryStore<ManualClock>>, ManualClock) {
    let clock = ManualClock::at(NOW);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (EnvoyLimiter::new(store, domains(), settings), clock)
}

fn request<'a>(keys: &[&'a str]) -> Request<'a> {
    let descriptors = keys.iter().map(|key| Descriptor::new([(*key, "x")]));
    Request { domain: "d", descriptors: descriptors.collect(), hits_addend: 0 }
}

fn codes(response: &Response) -> Vec<Code> {
    response.statuses.iter().map(|status| status.code).collect()
}

#[test]
fn a_denied_request_consumes_nothing_of_the_others() {
    let (limiter, _) = limiter(Settings::default());
    let decide = |keys: &[&str]| block_on(limiter.decide(&request(keys))).unwrap();
    assert_eq!(decide(&["one", "ten"]).overall, Code::Ok);
    let denied = decide(&["one", "ten", "shadow"]);
    assert_eq!(denied.overall, Code::OverLimit);
    assert_eq!(codes(&denied), [Code::OverLimit, Code::Ok, Code::Ok]);
    let remaining: Vec<u32> = denied.statuses.iter().map(|status| status.limit_remaining).collect();
    assert_eq!(remaining, [0, 9, 1]);
    assert_eq!(decide(&["ten"]).statuses[0].limit_remaining, 8);
}

#[test]
fn charged_each_by_itself_a_denied_request_consumes_of_all() {
    let (limiter, _) = limiter(Settings { charging: ChargingMode::Each, ..Settings::default() });
    let decide = |keys: &[&str]| block_on(limiter.decide(&request(keys))).unwrap();
    assert_eq!(decide(&["one", "ten"]).overall, Code::Ok);
    let denied = decide(&["one", "ten"]);
    assert_eq!(codes(&denied), [Code::OverLimit, Code::Ok]);
    assert_eq!(decide(&["ten"]).statuses[0].limit_remaining, 7);
    // Units that do not fit are counted, and block the rest of the window.
    let five = |hits| Request { hits_addend: hits, ..request(&["month"]) };
    assert_eq!(block_on(limiter.decide(&five(3))).unwrap().statuses[0].limit_remaining, 2);
    assert_eq!(block_on(limiter.decide(&five(3))).unwrap().overall, Code::OverLimit);
    assert_eq!(block_on(limiter.decide(&five(1))).unwrap().overall, Code::OverLimit);
}

/// As in envoyproxy/ratelimit, where the counter grows before it is compared.
#[test]
fn a_cost_above_the_limit_uses_it_up_if_each_is_charged() {
    for (charging, after) in [(ChargingMode::Each, Code::OverLimit), (ChargingMode::AllOrNothing, Code::Ok)] {
        let (limiter, _) = limiter(Settings { charging, ..Settings::default() });
        let ask =
            |hits| block_on(limiter.decide(&Request { hits_addend: hits, ..request(&["month"]) })).unwrap();
        let denied = ask(6);
        assert_eq!((denied.overall, denied.statuses[0].limit_remaining), (Code::OverLimit, 0));
        assert_eq!(ask(1).overall, after, "{charging:?}");
    }
}

/// Descriptors with one key are charged one after another. When a later one was late, the answers of the earlier ones
/// were dropped: a limit that had denied was admitted under `open`, and counted a second time, in memory, under
/// `local`.
#[test]
fn answers_that_came_before_the_deadline_count() {
    let each = |on_failure| {
        let store = FaultyStore::new(MemoryStore::builder().clock(ManualClock::at(NOW)).build());
        let fallback = tollgate::FallbackStore::new(store.clone(), on_failure);
        let settings = Settings { charging: ChargingMode::Each, ..Settings::default() };
        let limiter = EnvoyLimiter::over(fallback, domains(), settings).deadline(|| std::future::ready(()));
        (limiter, store)
    };
    let left = |response: &Response| -> Vec<u32> {
        response.statuses.iter().map(|status| status.limit_remaining).collect()
    };

    let (limiter, store) = each(OnStoreFailure::Open);
    assert_eq!(block_on(limiter.decide(&request(&["one"]))).unwrap().overall, Code::Ok);
    store.begin_after(1, StoreFault::Hangs);
    let denied = block_on(limiter.decide(&request(&["one", "one"]))).unwrap();
    assert_eq!((denied.overall, codes(&denied)), (Code::OverLimit, vec![Code::OverLimit, Code::Ok]));

    let (limiter, store) = each(OnStoreFailure::Local(LocalShare::new(1, 1).unwrap()));
    store.begin_after(1, StoreFault::Hangs);
    let three = Request { hits_addend: 3, ..request(&["month", "month"]) };
    let counted = block_on(limiter.decide(&three)).unwrap();
    assert_eq!((counted.overall, left(&counted)), (Code::Ok, vec![2, 2]), "the store's, and the memory's");
    store.end();
    assert_eq!(
        left(&block_on(limiter.decide(&request(&["month"]))).unwrap()),
        [1],
        "the first is in the store"
    );
}

/// In an outage that admits, a record has nothing to be denied for.
#[test]
fn a_cost_above_the_limit_is_over_it_during_an_outage_too() {
    let store = FaultyStore::new(MemoryStore::new());
    store.begin(StoreFault::unreachable());
    let store = tollgate::FallbackStore::new(store, OnStoreFailure::Open);
    let settings = Settings { charging: ChargingMode::Each, ..Settings::default() };
    let limiter = EnvoyLimiter::over(store, domains(), settings);
    let ask = |hits| block_on(limiter.decide(&Request { hits_addend: hits, ..request(&["month"]) })).unwrap();
    assert_eq!([ask(6).overall, ask(5).overall], [Code::OverLimit, Code::Ok]);
}

/// A client that chooses a long value is counted, and shares a counter with nobody.
#[test]
fn long_values_are_counted_apart_from_each_other_and_from_their_digests() {
    let settings = Settings { max_value_bytes: Some(100), ..Settings::default() };
    let (limiter, _) = limiter(settings);
    let ask = |value: &str| {
        let descriptors = [Descriptor::new([("one", value)])].into_iter().collect();
        block_on(limiter.decide(&Request { domain: "d", descriptors, hits_addend: 0 })).unwrap().overall
    };
    let long = "x".repeat(60_000);
    // printf 'x%.0s' $(seq 60000) | sha256sum
    let digest = "sha256-4a719560eed2a077730e5b00badc8242768967e045a74f3c6c6c2b5186759212";
    for value in [&*long, &long[1..], digest, &digest[1..], &long[..100], &long[..101]] {
        assert_eq!([ask(value), ask(value)], [Code::Ok, Code::OverLimit], "{} bytes", value.len());
    }
}

/// A month has 30 days and begins at a multiple of them.
#[test]
fn long_windows_are_aligned_to_the_epoch() {
    let (limiter, clock) = limiter(Settings::default());
    let decide = || block_on(limiter.decide(&Request { hits_addend: 5, ..request(&["month"]) })).unwrap();
    let month = 30 * 86_400;
    let left = month - 1_700_000_000 % month;
    assert_eq!(decide().statuses[0].duration_until_reset, Some(Duration::from_secs(left)));
    clock.advance(Duration::from_millis(left * 1_000 - 1));
    let denied = decide();
    assert_eq!(denied.overall, Code::OverLimit);
    assert_eq!(denied.statuses[0].duration_until_reset, Some(Duration::from_secs(1)));
    clock.advance(Duration::from_millis(1));
    assert_eq!(decide().overall, Code::Ok);
}

#[test]
fn headers_are_those_of_the_last_limit_that_denies() {
    let names = HeaderNames { reset: "X-Reset".into(), ..HeaderNames::default() };
    let (limiter, _) = limiter(Settings { headers: Some(names), ..Settings::default() });
    let headers = |keys: &[&str]| {
        let response = block_on(limiter.decide(&request(keys))).unwrap();
        response.headers.iter().map(|header| format!("{}: {}", header.name, header.value)).collect::<Vec<_>>()
    };
    let ten_headers = ["RateLimit-Limit: 10", "RateLimit-Remaining: 9"];
    assert_eq!(headers(&["ten", "unknown"])[..2], ten_headers);
    let one_headers = ["RateLimit-Limit: 1", "RateLimit-Remaining: 0", "X-Reset: 40"];
    assert_eq!(headers(&["ten", "one"]), one_headers);
    assert_eq!(headers(&["one", "ten"]), one_headers);
    assert!(headers(&["unknown"]).is_empty());
}

#[test]
fn dynamic_metadata_has_the_request_and_that_of_admitted_descriptors() {
    let (limiter, _) = limiter(Settings { dynamic_metadata: true, ..Settings::default() });
    let mut asked = Request { hits_addend: 1, ..request(&["one", "ten"]) };
    asked.descriptors[1].hits_addend = Some(2);
    let metadata = || block_on(limiter.decide(&asked)).unwrap().dynamic_metadata.unwrap();
    let descriptors = json!([{ "entries": ["one=x"] }, { "entries": ["ten=x"], "hitsAddend": 2 }]);
    assert_eq!(
        json!(metadata()),
        json!({
            "domain": "d", "descriptors": descriptors, "hitsAddend": 1,
            "metadata": { "from": "one", "both": { "one": 1, "ten": 10 } },
        })
    );
    assert_eq!(metadata()["metadata"], json!({ "from": "ten", "both": { "one": 2, "ten": 10 } }));
    let with_limit =
        Descriptor { limit: Some(Override::new(3, Unit::Hour)), ..Descriptor::new([("k", "v")]) };
    let asked = Request { domain: "d", descriptors: [with_limit].into_iter().collect(), hits_addend: 0 };
    let metadata = block_on(limiter.decide(&asked)).unwrap().dynamic_metadata.unwrap();
    let limit = "requests_per_unit:3 unit:HOUR";
    assert_eq!(metadata["descriptors"], json!([{ "entries": ["k=v"], "limit": limit }]));
    assert!(!metadata.contains_key("metadata"));
}

/// Filters of Envoy that read the metadata saw a struct where envoyproxy/ratelimit sends a text, and the metadata of
/// descriptors that it leaves out.
#[test]
fn dynamic_metadata_has_limits_as_text_and_nothing_of_unlimited_descriptors() {
    let (limiter, _) = limiter(Settings { dynamic_metadata: true, ..Settings::default() });
    let mut asked = request(&["free", "ten"]);
    asked.descriptors[1].limit = Some(Override::new(0, Unit::Week));
    let metadata = block_on(limiter.decide(&asked)).unwrap().dynamic_metadata.unwrap();
    let descriptors = json!([{ "entries": ["free=x"] }, { "entries": ["ten=x"], "limit": "unit:WEEK" }]);
    assert_eq!(json!(metadata), json!({ "domain": "d", "descriptors": descriptors }));
}

/// After a move from envoyproxy/ratelimit, quotas no longer denied requests with an unlimited descriptor, and denied
/// requests that a descriptor without a limit had admitted.
#[test]
fn unlimited_descriptors_let_quotas_deny_and_those_without_a_limit_do_not() {
    let all_quotas = Settings { quota_mode: true, ..Settings::default() };
    for (keys, settings, expected) in [
        (["zero", "free"], all_quotas.clone(), Code::OverLimit),
        (["zero", "unknown"], all_quotas.clone(), Code::Ok),
        (["used", "unknown"], all_quotas, Code::Ok),
        (["used", "unknown"], Settings::default(), Code::OverLimit),
        (["used", "free-quota"], Settings::default(), Code::OverLimit),
    ] {
        for charging in [ChargingMode::AllOrNothing, ChargingMode::Each] {
            let (limiter, _) = limiter(Settings { charging, ..settings.clone() });
            let response = block_on(limiter.decide(&request(&keys))).unwrap();
            assert_eq!(response.overall, expected, "{keys:?} {charging:?} {settings:?}");
        }
    }
}

/// The headers told when a quota is free again, although it was another limit that denied.
#[test]
fn headers_are_those_of_a_limit_without_quota_mode_that_denies() {
    let settings = Settings { headers: Some(HeaderNames::default()), ..Settings::default() };
    let reset = |keys: &[&str], quota_mode| {
        let (limiter, _) = limiter(Settings { quota_mode, ..settings.clone() });
        block_on(limiter.decide(&request(keys))).unwrap().headers[2].value
    };
    let [day, month] = [Unit::Day, Unit::Month].map(|unit| {
        let length = unit.length().as_secs();
        length - 1_700_000_000 % length
    });
    assert_eq!(reset(&["zero", "used"], false), day);
    assert_eq!(reset(&["used", "zero"], false), day);
    assert_eq!([reset(&["zero", "used"], true), reset(&["used", "zero"], true)], [day, month]);
}

/// A limit that replaces an unlimited one made its descriptor look as if it had no units left.
#[test]
fn an_unlimited_descriptor_stays_unlimited_if_another_limit_replaces_it() {
    let (limiter, _) = limiter(Settings::default());
    let response = block_on(limiter.decide(&request(&["free", "instead"]))).unwrap();
    assert_eq!(response.statuses[0], Status::UNLIMITED);
}

/// Envoy Gateway names routes without a hostname so. Its limits were refused.
#[test]
fn a_key_with_a_star_stands_for_itself() {
    let text = "{ domain: d, descriptors: [
        { key: shop/*, value: shop/*, rate_limit: { unit: day, requests_per_unit: 1 } },
        { key: shop/eu, value: shop/eu, rate_limit: { unit: day, requests_per_unit: 9 } },
    ] }";
    let domains = Domains::parse(&Sources::of("d.yaml", text), SameDomain::Refuse).unwrap();
    let limiter = EnvoyLimiter::new(MemoryStore::builder().build(), domains, Settings::default());
    let decide = |key: &str| {
        let descriptors = [Descriptor::new([(key, key)])].into_iter().collect();
        let response =
            block_on(limiter.decide(&Request { domain: "d", descriptors, hits_addend: 0 })).unwrap();
        let status = &response.statuses[0];
        (status.code, status.current_limit.as_ref().map(|limit| limit.requests_per_unit))
    };
    assert_eq!([decide("shop/*"), decide("shop/*")], [(Code::Ok, Some(1)), (Code::OverLimit, Some(1))]);
    assert_eq!([decide("shop/eu"), decide("shop/us")], [(Code::Ok, Some(9)), (Code::Ok, None)]);
}

/// These were 400, and envoyproxy/ratelimit answers them.
#[test]
fn descriptors_without_entries_or_keys_have_no_limit() {
    let (limiter, _) = limiter(Settings::default());
    let mut asked = request(&["one", ""]);
    asked.descriptors[0].entries.clear();
    let response = block_on(limiter.decide(&asked)).unwrap();
    assert_eq!(
        response.to_json(),
        json!({ "overallCode": "OK", "statuses": [{ "code": "OK" }, { "code": "OK" }] })
    );
    // A limit that comes with them counts.
    for descriptor in &mut asked.descriptors {
        descriptor.limit = Some(Override::new(1, Unit::Day));
    }
    let decide = || codes(&block_on(limiter.decide(&asked)).unwrap());
    assert_eq!([decide(), decide()], [[Code::Ok; 2], [Code::OverLimit; 2]]);
}

#[test]
fn requests_that_make_no_sense_are_refused_and_take_nothing() {
    let (limiter, _) = limiter(Settings::default());
    let error = |request: &Request<'_>| match block_on(limiter.decide(request)) {
        Err(DecideError::Invalid(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(error(&Request { domain: "", ..request(&["one"]) }), InvalidRequest::NoDomain);
    assert_eq!(error(&request(&[])), InvalidRequest::NoDescriptors);
    assert_eq!(error(&request(&["one"; 257])), InvalidRequest::TooManyDescriptors(257));
    let mut asked = request(&["one", "ten"]);
    asked.descriptors[1].limit = Some(Override { requests_per_unit: 5, unit: 0 });
    assert_eq!(error(&asked), InvalidRequest::UnknownUnit { descriptor: 2, unit: 0 });
    assert_eq!(error(&asked).to_string(), "the limit of descriptor 2 has the unknown unit 0");
    let mut asked = request(&["one", "ten"]);
    asked.descriptors[1].hits_addend = Some(1 << 32);
    assert_eq!(error(&asked), InvalidRequest::TooManyHits(2));
    assert_eq!(
        block_on(limiter.decide(&request(&["one"; 1]))).unwrap().overall,
        Code::Ok,
        "nothing was taken"
    );
}

#[test]
fn counters_stay_when_limits_are_replaced() {
    let (limiter, _) = limiter(Settings::default());
    let decide = || block_on(limiter.decide(&request(&["one"]))).unwrap().overall;
    assert_eq!((decide(), decide()), (Code::Ok, Code::OverLimit));
    let raised = CONFIG.replace("requests_per_unit: 1,", "requests_per_unit: 2,");
    limiter.replace(Domains::parse(&Sources::of("d.yaml", raised), SameDomain::Refuse).unwrap());
    assert_eq!((decide(), decide()), (Code::Ok, Code::OverLimit));
}

#[test]
fn a_store_in_trouble_gives_no_answer_unless_a_policy_says_otherwise() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = EnvoyLimiter::new(store.clone(), domains(), Settings::default());
    store.begin(StoreFault::unreachable());
    let trouble = block_on(limiter.decide(&request(&["one"])));
    assert!(matches!(trouble, Err(DecideError::Store(_))), "{trouble:?}");
    let open = tollgate::FallbackStore::new(store.clone(), OnStoreFailure::Open);
    let limiter = EnvoyLimiter::over(open, domains(), Settings::default());
    for _ in 0..2 {
        assert_eq!(block_on(limiter.decide(&request(&["one", "shadow"]))).unwrap().overall, Code::Ok);
    }
}

#[test]
fn a_full_store_is_answered_by_its_setting() {
    let limiter = || {
        let store = MemoryStore::builder().max_counters(1).build();
        EnvoyLimiter::new(store, domains(), Settings::default())
    };
    let fill = |limiter: &EnvoyLimiter<MemoryStore>| {
        let texts: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
        let ask = |text: &String| {
            let descriptors = [Descriptor::new([("month", text.as_str())])].into_iter().collect();
            block_on(limiter.decide(&Request { domain: "d", descriptors, hits_addend: 0 }))
        };
        texts.iter().map(ask).find(Result::is_err)
    };
    assert!(matches!(fill(&limiter()), Some(Err(DecideError::Store(tollgate::StoreError::Full)))));
    assert!(fill(&limiter().when_full(WhenFull::Allow)).is_none());
}

/// Both were judged by the sum of their units and left out, so the request was denied though one of them had room.
#[test]
fn quotas_on_one_counter_are_charged_one_after_another() {
    let (limiter, _) = limiter(Settings::default());
    let decide = |keys: &[&str]| block_on(limiter.decide(&request(keys))).unwrap();
    let first = decide(&["quota", "quota"]);
    assert_eq!((first.overall, codes(&first)), (Code::Ok, vec![Code::Ok, Code::OverLimit]));
    let second = decide(&["quota", "quota"]);
    assert_eq!((second.overall, codes(&second)), (Code::OverLimit, vec![Code::OverLimit; 2]));
}

/// It was told as used up, with `RateLimit-Remaining: 0`.
#[test]
fn a_shadow_limit_that_was_not_counted_has_no_figures() {
    let store = FaultyStore::new(MemoryStore::new());
    let settings = Settings { headers: Some(HeaderNames::default()), ..Settings::default() };
    let limiter = EnvoyLimiter::new(store.clone(), domains(), settings);
    store.begin_after(1, StoreFault::unreachable());
    let response = block_on(limiter.decide(&request(&["ten", "shadow"]))).unwrap();
    assert_eq!((response.overall, response.statuses[0].limit_remaining), (Code::Ok, 9));
    assert_eq!(response.statuses[1], Status::NO_LIMIT);
    assert_eq!((response.headers[0].value, response.headers[1].value), (10, 9));
}

/// A refund that failed made an error of a request that was charged, and Envoy admits errors: also of a denied one.
#[test]
fn a_refund_that_fails_changes_no_verdict() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = EnvoyLimiter::new(store.clone(), domains(), Settings::default());
    let mut asked = request(&["one", "ten"]);
    asked.descriptors[1].is_negative_hits = true;
    for expected in [Code::Ok, Code::OverLimit] {
        store.begin_after(1, StoreFault::unreachable());
        let response = block_on(limiter.decide(&asked)).unwrap();
        assert_eq!((response.overall, &response.statuses[1]), (expected, &Status::NO_LIMIT));
        store.end();
    }
    // A request that does nothing but give back gets the error.
    asked.descriptors.remove(0);
    store.begin(StoreFault::unreachable());
    assert!(matches!(block_on(limiter.decide(&asked)), Err(DecideError::Store(_))));
}

/// Every step had a deadline of its own, so a store that hangs cost several of them.
#[test]
fn a_decision_has_one_deadline() {
    let store = FaultyStore::new(MemoryStore::new());
    let starts = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&starts);
    let deadline = move || {
        counter.fetch_add(1, Ordering::Relaxed);
        std::future::ready(())
    };
    let open = || tollgate::FallbackStore::new(store.clone(), OnStoreFailure::Open);
    let limiter = EnvoyLimiter::over(open(), domains(), Settings::default()).deadline(deadline.clone());
    let mut asked = request(&["one", "shadow", "ten"]);
    asked.descriptors[2].is_negative_hits = true;
    // The decision is made, and the rest hangs.
    store.begin_after(1, StoreFault::Hangs);
    let response = block_on(limiter.decide(&asked)).unwrap();
    assert_eq!((response.overall, response.statuses[0].limit_remaining), (Code::Ok, 0));
    assert_eq!(response.statuses[1..], [Status::NO_LIMIT, Status::NO_LIMIT]);
    assert_eq!(starts.load(Ordering::Relaxed), 1);
    // All of it hangs: the policy answers, and no other step begins.
    store.begin(StoreFault::Hangs);
    assert_eq!(block_on(limiter.decide(&asked)).unwrap().overall, Code::Ok);
    assert_eq!(starts.load(Ordering::Relaxed), 2);
    let closed = EnvoyLimiter::new(store.clone(), domains(), Settings::default()).deadline(deadline);
    assert!(matches!(block_on(closed.decide(&asked)), Err(DecideError::Store(_))));
}
