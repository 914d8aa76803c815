//! Overrides in the bodies of decisions.

#![cfg(feature = "policy")]
#![allow(clippy::unwrap_used, reason = "this is a test")]

use serde_json::{Value, json};
use tollgate::{Key, MemoryStore, Timestamp};
use tollgate_policy::{
    AskedHold, Attributes, Identity, OverrideLimits, OverrideName, OverrideRecord, OverrideTarget, Policies,
    Policy, PolicyDecision, PolicyLimiter, ReserveAnswer,
};
use tollgate_testkit::block_on;
use tollgate_wire::body::{DecisionBody, DenialBody};
use tollgate_wire::headers::PolicyHeaders;

/// In 2100, so that it has not come when the tests run.
const END: i64 = 4_102_444_800_250;

fn limiter(limits: OverrideLimits, until: Option<i64>) -> PolicyLimiter<MemoryStore> {
    let search = Policy::builder("search").key(Identity::Attribute("user".into()));
    let search = search.quota("5/1d".parse().unwrap()).build().unwrap();
    let limiter = PolicyLimiter::new(MemoryStore::new(), Policies::of([search]).unwrap(), "test");
    limiter.replace_overrides(|set, policies| {
        let target = OverrideTarget::Key(set.key(&Key::from("alice")));
        let record = OverrideRecord {
            name: OverrideName { policy: "search".into(), target },
            key: "user".into(),
            limits,
            until: until.map(Timestamp::from_unix_millis),
            label: Some("gold".into()),
            note: Some("a canary".into()),
            by: Some("robot".into()),
            at: Timestamp::EPOCH,
            version: 1,
        };
        set.expect_fit(&record, policies).unwrap();
        set.with(record, policies)
    });
    limiter
}

fn alice() -> Attributes<'static> {
    [("user", "alice")].into_iter().collect()
}

fn check(limits: OverrideLimits, until: Option<i64>) -> PolicyDecision {
    block_on(limiter(limits, until).check(&alice(), 1)).unwrap()
}

fn body(decision: &PolicyDecision) -> Value {
    serde_json::to_value(DecisionBody::of_policies(decision)).unwrap()
}

#[test]
fn a_quota_of_an_override_shows_it_with_its_end() {
    let decision = body(&check(OverrideLimits::of(["9/1d"]), Some(END)));
    assert_eq!(decision["override"], json!({ "until": "2100-01-01T00:00:00.250Z" }));
    assert_eq!((&decision["quota"], &decision["policy"]), (&json!("9/1d"), &json!("search")));
    // Neither who set it nor what people say of it is for clients.
    let text = decision.to_string();
    assert!(!text.contains("gold") && !text.contains("canary") && !text.contains("robot"), "{text}");

    let two = body(&check(OverrideLimits::of(["9/1d", "99/1h"]), None));
    assert_eq!(two["override"], json!({}));
    let each = two["quotas"].as_array().unwrap().iter().map(|quota| &quota["override"]);
    assert_eq!(each.collect::<Vec<_>>(), [&json!({}), &json!({})]);

    let bob: Attributes<'_> = [("user", "bob")].into_iter().collect();
    let own = block_on(limiter(OverrideLimits::of(["9/1d"]), None).check(&bob, 1)).unwrap();
    assert_eq!(body(&own).get("override"), None);
}

#[test]
fn a_limit_in_flight_of_an_override_shows_it() {
    let limiter = limiter(OverrideLimits::of(["9~in_flight", "7/1d"]), Some(END));
    let asked = AskedHold::new(tollgate::HoldId::random(), 1);
    let ReserveAnswer::Decided { decision, .. } = block_on(limiter.reserve(&alice(), asked)).unwrap() else {
        panic!("there is room");
    };
    let decision = body(&decision);
    let until = json!({ "until": "2100-01-01T00:00:00.250Z" });
    let each = decision["quotas"].as_array().unwrap().iter().map(|quota| &quota["override"]);
    assert_eq!(each.collect::<Vec<_>>(), [&until, &until]);
}

#[test]
fn unlimited_names_the_override_and_no_quota() {
    let decision = body(&check(OverrideLimits::Unlimited, Some(END)));
    let expected = json!({
        "allowed": true,
        "ground": "unlimited",
        "override": { "until": "2100-01-01T00:00:00.250Z" },
    });
    assert_eq!(decision, expected);
}

#[test]
fn denied_is_a_problem_of_its_own() {
    let decision = check(OverrideLimits::Denied, Some(END));
    let headers = PolicyHeaders::new(decision.policies());
    let limit_headers = headers.of(&decision);
    let denial = DenialBody::of_policies(decision.deny_status(), &decision, &limit_headers);
    let expected = json!({
        "type": "urn:problem-type:tollgate:denied-by-override",
        "title": "Denied by an override",
        "detail": "an override denies the request, whatever the quotas",
        "violated-policies": ["search"],
        "status": 403,
        "allowed": false,
        "policy": "search",
        "ground": "denied_by_override",
        "reason": "denied_by_override",
        "override": { "until": "2100-01-01T00:00:00.250Z" },
    });
    assert_eq!(serde_json::to_value(denial).unwrap(), expected);
    let mut written = http::HeaderMap::new();
    headers.write(&decision, &mut written);
    assert!(written.is_empty(), "{written:?}");
}
