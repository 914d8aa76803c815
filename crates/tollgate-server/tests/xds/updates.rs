//! Updates: each is accepted as a whole, or rejected with a reason and without effect.

use std::time::Duration;

use prost::Message;
use prost_types::value::Kind;
use prost_types::{Any, Struct, Value};
use serde_json::json;

use crate::ads::{
    Ads, DiscoveryResponse, RateLimitConfig, RateLimitDescriptor, RateLimitPolicy, RateLimitReplace,
    TYPE_URL, config, limited, response, users,
};
use crate::support::folder::Folder;
use crate::support::{Server, tollgate, until};
use crate::{ask, start, start_with};

#[test]
fn limits_are_live_once_they_are_acknowledged() {
    let ads = Ads::start();
    let variables =
        [("CONFIG_GRPC_XDS_NODE_ID", "envoy-ratelimit"), ("CONFIG_GRPC_XDS_NODE_METADATA", "zone=a")];
    let headers = ("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "x-team:gateway");
    let server = start_with(&[&variables[..], &[headers]].concat(), &ads, &[]);
    let call = ads.hear_call();
    assert_eq!(call.headers["x-team"], "gateway");
    let first = call.request;
    assert_eq!((first.type_url.as_str(), first.version_info.as_str()), (TYPE_URL, ""));
    assert!(first.resource_names.is_empty() && first.response_nonce.is_empty());
    let node = first.node.unwrap();
    assert_eq!(node.id, "envoy-ratelimit");
    let zone = node.metadata.unwrap().fields.remove("zone").and_then(|zone| zone.kind);
    assert_eq!(zone, Some(Kind::StringValue("a".to_owned())));

    ads.publish_valid("1", &[users("shop", 2)]);
    assert_eq!([0; 3].map(|_| ask(&server, "shop", "alice")), [200, 200, 429]);
    // Counters are kept.
    ads.publish_valid("2", &[users("other", 1), users("shop", 4)]);
    assert_eq!([0; 2].map(|_| ask(&server, "other", "alice")), [200, 429]);
    // Denied requests count.
    assert_eq!([0; 2].map(|_| ask(&server, "shop", "alice")), [200, 429]);

    ads.publish_valid("3", &[]);
    assert_eq!([0; 3].map(|_| ask(&server, "other", "alice")), [200; 3]);
    let live = server.admin_get("/v1/policies").json();
    assert_eq!((&live["domains"], &live["version"]), (&json!([]), &json!(4)));
    assert_eq!(live["source"], format!("http://{}", ads.address));
    assert_eq!((&live["xds"]["version"], &live["xds"]["connected"]), (&json!("3"), &json!(true)));
    assert_eq!(
        (&live["reloads"][0]["cause"], &live["reloads"][0]["outcome"]),
        (&json!("xds"), &json!("replaced"))
    );
    assert_eq!(server.metric("tollgate_xds_updates_total{outcome=\"accepted\"}"), Some(3.0));
    assert_eq!(server.metric("tollgate_xds_version_info{version=\"3\"}"), Some(1.0));
    assert!(server.metric("tollgate_xds_accepted_timestamp_seconds") > Some(1e9));
    assert_eq!(server.metric("tollgate_policies_reloads_total{outcome=\"replaced\"}"), Some(3.0));
    assert_eq!(server.metric("tollgate_xds_connected"), Some(1.0));

    let reload = server.admin_post("/v1/policies/reload", "");
    reload.assert_problem(409, None);
    assert!(reload.json()["detail"].as_str().unwrap().contains("over xDS"), "{}", reload.json());
}

/// A fleet may move from files to xDS replica by replica.
#[test]
fn limits_over_xds_have_the_generation_of_the_same_limits_in_files() {
    let ads = Ads::start();
    let server = start(&ads, &[]);
    ads.hear();
    ads.publish_valid("1", &[users("shop", 2), users("other", 1)]);
    let folder = Folder::new();
    let users_of = |domain: &str, limit: u32| {
        let limit = format!("{{ unit: day, requests_per_unit: {limit} }}");
        format!("domain: {domain}\ndescriptors: [{{ key: user, rate_limit: {limit} }}]\n")
    };
    folder.write("a.yaml", &users_of("other", 1));
    folder.write("b.yaml", &users_of("shop", 2));
    // As limits over xDS are counted.
    let import = ["--import", "envoy-ratelimit", folder.root().to_str().unwrap(), "--count-denied"];
    let by_files = Server::start(&import);
    let addresses = [&server, &by_files].map(|server| server.public.to_string());
    let compare = || {
        let compared = tollgate().args(["doctor", "--fleet"]).args(&addresses).output().unwrap();
        (compared.status.code(), String::from_utf8(compared.stdout).unwrap())
    };
    let (status, said) = compare();
    assert_eq!((status, said.contains("in step: 2 replicas")), (Some(0), true), "{said}");
    ads.publish_valid("2", &[users("shop", 3), users("other", 1)]);
    let (status, said) = compare();
    assert_eq!((status, said.contains("not in step: ")), (Some(1), true), "{said}");
}

/// Each case is a response, and a part of each line of the reason.
#[test]
fn invalid_updates_are_rejected_with_a_reason_and_change_nothing() {
    let ads = Ads::start();
    let server = start(&ads, &[]);
    ads.hear();
    ads.publish_valid("good", &[users("shop", 1)]);
    let rate_limit = |policy| RateLimitDescriptor { rate_limit: Some(policy), ..limited("user", "", 1) };
    let policy = RateLimitPolicy { unit: 1, ..Default::default() };
    let nested = |descriptor| RateLimitDescriptor { descriptors: vec![descriptor], ..limited("a", "b", 1) };
    let number = |number| Value { kind: Some(Kind::NumberValue(number)) };
    let metadata = Struct { fields: [("a".to_owned(), number(f64::NAN))].into() };
    let replaces = |name: &str| vec![RateLimitReplace { name: name.to_owned() }];
    let cases: [(&[RateLimitConfig], &[&str]); 14] = [
        (&[config("", vec![])], &["a resource without a name: the configuration needs `domain`"]),
        (
            &[users("shop", 1), RateLimitConfig { name: "two".to_owned(), ..users("shop", 1) }],
            &["resource `two`: domain: duplicate domain `shop`, already given in domain of resource `shop`"],
        ),
        (&[users("shop", 1), users("shop", 2)], &["two resources have the name `shop`"]),
        (
            &[config("shop", vec![limited("", "x", 1), nested(limited("c*", "", 1))])],
            &[
                "resource `shop`: descriptors[0]: a descriptor needs `key`",
                "resource `shop`: descriptors[1].descriptors[0].key: a key has a `*` only if its value",
            ],
        ),
        (
            &[config("shop", vec![limited("a", "b", 1), limited("a", "b", 2)])],
            &[
                "resource `shop`: descriptors[1]: duplicate key `a: b`, already given in descriptors[0]: keep one",
            ],
        ),
        (
            &[config("shop", vec![rate_limit(RateLimitPolicy { unit: 0, ..policy.clone() })])],
            &["resource `shop`: descriptors[0].rate_limit: rate_limit needs `unit`"],
        ),
        (
            &[config("shop", vec![rate_limit(RateLimitPolicy { unit: 9, ..policy.clone() })])],
            &["resource `shop`: descriptors[0].rate_limit.unit: unknown unit `9`"],
        ),
        (
            &[config("shop", vec![rate_limit(RateLimitPolicy { unlimited: true, ..policy.clone() })])],
            &["resource `shop`: descriptors[0].rate_limit.unit: an unlimited rate_limit has no `unit`"],
        ),
        (
            &[config("shop", vec![rate_limit(RateLimitPolicy { replaces: replaces(""), ..policy.clone() })])],
            &["resource `shop`: descriptors[0].rate_limit.replaces[0]: an entry of replaces needs `name`"],
        ),
        (
            &[config(
                "shop",
                vec![rate_limit(RateLimitPolicy {
                    name: "x".to_owned(),
                    replaces: replaces("x"),
                    ..policy.clone()
                })],
            )],
            &["resource `shop`: descriptors[0].rate_limit.replaces[0].name: a limit cannot replace itself"],
        ),
        (
            &[config("shop", vec![RateLimitDescriptor { metadata: Some(metadata), ..limited("a", "b", 1) }])],
            &["resource `shop`: a number of its metadata is not finite"],
        ),
        // The problems of one resource do not hide those of another.
        (
            &[config("b", vec![limited("", "", 1)]), config("a", vec![limited("", "", 1)]), users("shop", 9)],
            &[
                "resource `a`: descriptors[0]: a descriptor needs",
                "resource `b`: descriptors[0]: a descriptor needs",
            ],
        ),
        (
            &[config("shop", (0..30).map(|_| limited("", "", 1)).collect())],
            &["[0]", "[1]", "[2]", "[3]", "[4]", "[5]", "[6]", "[7]", "[8]", "[9]", "and 20 more problems"],
        ),
        (
            &[config(
                "shop",
                vec![limited(&"long\n".repeat(10_000), "*", 1), limited(&"long\n".repeat(10_000), "*", 1)],
            )],
            &["resource `shop`: descriptors[1]: duplicate key `long"],
        ),
    ];
    for (number, (configs, expected)) in cases.into_iter().enumerate() {
        let reason = ads.publish_invalid(&format!("bad {number}"), configs);
        assert_eq!(reason.lines().count(), expected.len(), "{number}: {reason}");
        for (line, expected) in reason.lines().zip(expected) {
            assert!(line.contains(expected), "{number}: {line}");
        }
        assert!(reason.len() < 16_000, "{number}: {} bytes", reason.len());
    }
    let any = |type_url: &str, value: &[u8]| Any { type_url: type_url.to_owned(), value: value.to_vec() };
    let with_resource = |resource| DiscoveryResponse { resources: vec![resource], ..response("x", &[]) };
    let other = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
    for (response, expected) in [
        (with_resource(any(other, b"")), "a resource has the type `type.googleapis.com/envoy.config.cluster"),
        (with_resource(any(TYPE_URL, b"\xff\xff")), "a resource without a name cannot be decoded"),
        (
            DiscoveryResponse { type_url: other.to_owned(), ..response("x", &[users("shop", 9)]) },
            "the response has the type `type.googleapis.com/envoy.config.cluster.v3.Cluster`, but",
        ),
    ] {
        ads.send(&response);
        let reason = ads.hear_rejection("x");
        assert!(reason.starts_with(expected), "{reason}");
    }
    assert_eq!([0; 2].map(|_| ask(&server, "shop", "alice")), [200, 429]);
    assert_eq!(server.metric("tollgate_xds_updates_total{outcome=\"rejected\"}"), Some(17.0));
    assert_eq!(server.metric("tollgate_policies_in_step"), Some(0.0));
    let live = server.admin_get("/v1/policies").json();
    assert_eq!((&live["xds"]["version"], &live["version"]), (&json!("good"), &json!(2)));
    assert!(live["not_live"]["error"].as_str().unwrap().contains("the response has the type"), "{live}");
    let ready = server.get("/readyz");
    assert_eq!(ready.status, 200);
    assert!(String::from_utf8(ready.body).unwrap().contains("the limits over xDS cannot be used"));

    // The last accepted version is that of a rejection, too.
    ads.publish("worse", &[config("", vec![])]);
    assert_eq!(ads.hear().version_info, "good");
    ads.publish_valid("better", &[users("shop", 3)]);
    assert_eq!([0; 2].map(|_| ask(&server, "shop", "alice")), [200, 429]);
    assert_eq!(server.metric("tollgate_policies_in_step"), Some(1.0));
}

/// Servers of go-control-plane send a response again as soon as it is rejected, forever.
#[test]
fn a_response_that_comes_again_is_rejected_twice_a_second() {
    let ads = Ads::start();
    let server = start(&ads, &[]);
    ads.hear();
    let bad = [config("", vec![])];
    ads.publish_invalid("1", &bad);
    for _ in 0..2 {
        ads.publish("1", &bad);
        assert!(ads.hears_nothing(Duration::from_millis(250)));
        ads.hear_rejection("1");
    }
    let rejected = || server.metric("tollgate_xds_updates_total{outcome=\"rejected\"}");
    assert_eq!(rejected(), Some(1.0));
    // A response in the meantime is answered at once, and the earlier one no more.
    ads.publish("1", &bad);
    ads.publish_valid("2", &[users("shop", 1)]);
    assert!(ads.hears_nothing(Duration::from_secs(1)));
    assert_eq!([0; 2].map(|_| ask(&server, "shop", "alice")), [200, 429]);
}

/// Returns a field of protobuf with a length.
fn delimited(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

/// Go's published messages lack these two fields.
#[test]
fn quota_mode_and_metadata_have_their_effect() {
    let ads = Ads::start();
    let server = start_with(&[("RESPONSE_DYNAMIC_METADATA", "true")], &ads, &[]);
    ads.hear();
    // As bytes, because the generated messages could have the wrong numbers. Field 7 is true, and field 8 is a `Struct`
    // with `plan`.
    let quota_mode: &[u8] = &[7 << 3, 1];
    let text = delimited(3, b"gold");
    let metadata = delimited(8, &delimited(1, &[delimited(1, b"plan"), delimited(2, &text)].concat()));
    let first = [limited("a", "", 1).encode_to_vec(), quota_mode.into(), metadata].concat();
    let second = [limited("b", "", 2).encode_to_vec(), quota_mode.into()].concat();
    let value = [delimited(2, b"shop"), delimited(3, &first), delimited(3, &second)].concat();
    let resources = vec![Any { type_url: TYPE_URL.to_owned(), value }];
    ads.send(&DiscoveryResponse { resources, ..response("1", &[]) });
    assert_eq!(ads.hear().error_detail, None);
    let body = json!({
        "domain": "shop",
        "descriptors": [{ "entries": [{ "key": "a", "value": "1" }] }, { "entries": [{ "key": "b", "value": "1" }] }],
    });
    let answers = [0; 3].map(|_| server.post("/json", &body.to_string()));
    // The second limit has room for the second request.
    assert_eq!(answers.each_ref().map(|answer| answer.status), [200, 200, 429]);
    let metadata = answers[0].json()["dynamicMetadata"].to_string();
    assert!(metadata.contains("\"plan\":\"gold\""), "{metadata}");
}

#[test]
fn a_name_that_is_not_that_of_the_domain_has_no_effect_and_is_logged() {
    let ads = Ads::start();
    let server = start(&ads, &[]);
    ads.hear();
    ads.publish_valid("1", &[RateLimitConfig { name: "listener".to_owned(), ..users("shop", 1) }]);
    assert_eq!([0; 2].map(|_| ask(&server, "shop", "alice")), [200, 429]);
    server.signal("TERM");
    let (_, log) = server.wait();
    let warning =
        "resource `listener`: name: the name has no effect: the limits are those of the domain `shop`";
    assert_eq!(log.matches(warning).count(), 1, "{log}");
}

#[test]
fn a_thousand_updates_under_load_are_applied_in_order_and_as_a_whole() {
    let ads = Ads::start();
    let server = start(&ads, &[]);
    ads.hear();
    // The limits of both keys are always the same, so an answer with two different ones would mix two updates.
    let configs = |limit| [config("shop", vec![limited("a", "", limit), limited("b", "", limit)])];
    let body = json!({
        "domain": "shop",
        "descriptors": [{ "entries": [{ "key": "a", "value": "1" }] }, { "entries": [{ "key": "b", "value": "1" }] }],
        "hitsAddend": 1,
    });
    ads.publish_valid("1000", &configs(1_000));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let limits = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut limits = Vec::new();
            let mut connection = server.connect();
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let reply = connection.ask(&crate::support::post("/json", &body.to_string())).json();
                let [first, second] = [0, 1]
                    .map(|number| reply["statuses"][number]["currentLimit"]["requestsPerUnit"].as_u64());
                assert_eq!(first, second, "{reply}");
                limits.extend(first);
            }
            limits
        });
        for version in 1_001..=2_000 {
            // Without waiting for the answer, as a server may do.
            ads.publish(&version.to_string(), &configs(version));
        }
        let answers: Vec<String> = (1_001..=2_000).map(|_| ads.hear().version_info).collect();
        assert!(
            answers.iter().eq((1_001..=2_000).map(|version| version.to_string()).collect::<Vec<_>>().iter())
        );
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        load.join().unwrap()
    });
    assert!(limits.is_sorted() && limits.len() > 10, "{limits:?}");
    let last = server.post("/json", &body.to_string()).json();
    assert_eq!(last["statuses"][0]["currentLimit"]["requestsPerUnit"], 2_000);
    until("the last version is reported", || {
        server.metric("tollgate_xds_version_info{version=\"2000\"}") == Some(1.0)
    });
}
