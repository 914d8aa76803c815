//! envoyproxy/ratelimit, with its own files and variables.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::servers::published::{self, PublishedWindow};
use tollgate_testkit::servers::{self, ByteDirection, Cluster, FaultProxy, Software};

use super::{example, keys, log, refused, serve, still, text};
use crate::support::{Connection, Reply, Server, tollgate, undisturbed, until};

const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// A second of the year that begins at second 1,671,408,000 + 31,536,000.
const SECOND: i64 = 1_710_000_000;

fn config() -> String {
    example("envoy-ratelimit/config")
}

/// The addresses of its servers, as `REDIS_URL` has them.
fn seeds(cluster: &Cluster) -> String {
    let seeds: Vec<String> = cluster.nodes().iter().map(|node| node.address().to_string()).collect();
    seeds.join(",")
}

fn of_cluster(seeds: &str) -> [(&str, &str); 3] {
    [("REDIS_URL", seeds), ("REDIS_TYPE", "cluster"), ("REDIS_SOCKET_TYPE", "tcp")]
}

fn body(entries: &[(&str, &str)]) -> Value {
    let descriptors =
        entries.iter().map(|(key, value)| json!({ "entries": [{ "key": key, "value": value }] }));
    json!({ "domain": "shop", "descriptors": descriptors.collect::<Vec<_>>() })
}

fn check(server: &Server, entries: &[(&str, &str)]) -> Reply {
    server.post("/json", &body(entries).to_string())
}

/// Writes a new folder with this file.
fn folder(name: &str, text: &str) -> PathBuf {
    let folder =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("envoy-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder can be made");
    fs::write(folder.join("config.yaml"), text).expect("a file can be written");
    folder
}

#[test]
fn its_own_files_start_the_service_and_both_share_one_count() {
    let store = still(Software::Redis, SECOND);
    let address = store.address().to_string();
    let variables = [("REDIS_URL", address.as_str()), ("REDIS_SOCKET_TYPE", "tcp"), ("CACHE_KEY_PREFIX", "")];
    let config = config();
    let theirs = ["--store-layout", "envoy-ratelimit", "--count-denied"];
    let server = serve(&variables, &[&["--import", "envoy-ratelimit", &config][..], &theirs].concat());
    assert!(server.said.iter().any(|line| line.contains("3 limits of 1 domain of ")), "{:?}", server.said);

    let mut theirs = store.connection();
    // In turn: of five, three are admitted here and two there.
    for attempt in 1..=5_u64 {
        match attempt % 2 {
            1 => assert_eq!(check(&server, &[("user", "alice")]).status, 200),
            _ => {
                let window = PublishedWindow::now(&store, YEAR);
                assert_eq!(published::envoy_ratelimit(&mut theirs, "alice", window), attempt);
            }
        }
    }
    let denied = check(&server, &[("user", "alice")]);
    assert_eq!(denied.status, 429);
    let start = SECOND - SECOND % 31_536_000;
    let left = start + 31_536_000 - SECOND;
    let current = json!({ "name": "each-user", "requestsPerUnit": 5, "unit": "YEAR" });
    let status = json!({
        "code": "OVER_LIMIT", "currentLimit": current, "durationUntilReset": format!("{left}s"),
    });
    assert_eq!(denied.json(), json!({ "overallCode": "OVER_LIMIT", "statuses": [status] }));
    // Denied attempts are counted, as it counts them.
    let key = format!("shop_user_alice_{start}");
    assert_eq!(store.command::<u64>(["GET", &key]), 6);

    assert_eq!(check(&server, &[("path", "/search/a")]).status, 200);
    assert_eq!(keys(&store), [format!("shop_path_/search*_{SECOND}"), key]);
    assert!(log(server).contains("while the store is down, on_store_failure is `closed`"));
}

/// With its keys, the user `/search` of one limit can share a counter with another limit. G4: with ours it never does.
#[test]
fn keys_are_our_own_unless_both_share_a_count() {
    let store = still(Software::Redis, SECOND);
    let address = store.address().to_string();
    let config = folder(
        "keys",
        "domain: shop\ndescriptors:\n\
         - { key: user, rate_limit: { unit: year, requests_per_unit: 1 } }\n\
         - { key: user_agent, rate_limit: { unit: year, requests_per_unit: 1 } }\n",
    );
    let config = config.to_str().expect("a path in UTF-8");
    let redis = [("REDIS_URL", address.as_str()), ("REDIS_SOCKET_TYPE", "tcp")];
    let alike = [("user", "agent_x"), ("user_agent", "x")];
    let both = |variables: &[(&str, &str)], more: &[&str]| {
        let server = serve(variables, &[&["--import", "envoy-ratelimit", config][..], more].concat());
        check(&server, &alike).status
    };
    assert_eq!(both(&redis, &[]), 200);
    assert!(
        keys(&store).iter().all(|key| key.starts_with("tollgate:1:envoy%3Ashop:365d:")),
        "{:?}",
        keys(&store)
    );
    let prefix = [&redis[..], &[("CACHE_KEY_PREFIX", "mine")]].concat();
    assert_eq!(both(&prefix, &[]), 200);
    assert_eq!(keys(&store).iter().filter(|key| key.starts_with("mine:1:")).count(), 2);
    // One counter, of which two units are asked.
    assert_eq!(both(&redis, &["--store-layout", "envoy-ratelimit"]), 429);
}

/// A client could fill the store with keys of 60 KiB, each a header of its own.
#[test]
fn long_values_are_counted_under_short_keys() {
    let store = still(Software::Redis, SECOND);
    let address = store.address().to_string();
    let redis = [("REDIS_URL", address.as_str()), ("REDIS_SOCKET_TYPE", "tcp")];
    let layout = ["--store-layout", "envoy-ratelimit"];
    let server = serve(&redis, &[&["--import", "envoy-ratelimit", &config()][..], &layout].concat());
    let long = "x".repeat(60 * 1024);
    for status in [200, 200, 200, 200, 200, 429] {
        assert_eq!(check(&server, &[("user", &long)]).status, status);
    }
    assert_eq!(check(&server, &[("user", &long[1..])]).status, 200);
    // printf 'x%.0s' $(seq 61440) | sha256sum. The layout writes a digest as it writes a value.
    let digest = "sha256-24ab352665206f8565b519a3bca2c4fc6ce2b9559c33982a88d9ee3ab99defa7";
    assert_eq!(check(&server, &[("user", digest)]).status, 200, "a value has its own counter");
    let at_most = "y".repeat(1024);
    assert_eq!(check(&server, &[("user", &at_most)]).status, 200);
    let start = SECOND - SECOND % 31_536_000;
    let keys = keys(&store);
    assert_eq!(
        keys.iter().filter(|key| key.starts_with("shop_user_sha256-") && key.len() < 100).count(),
        3,
        "{keys:?}"
    );
    assert!(
        keys.contains(&format!("shop_user_{at_most}_{start}")),
        "a value that is not too long is there as it is"
    );
}

#[test]
fn a_denied_request_takes_nothing_of_other_limits_and_unlimited_ones_replace() {
    let server = serve(&[], &["--import", "envoy-ratelimit", &config()]);
    for _ in 0..5 {
        assert_eq!(check(&server, &[("user", "alice")]).status, 200);
    }
    let both = check(&server, &[("user", "alice"), ("user", "bob")]);
    assert_eq!(both.status, 429);
    let codes = |reply: &Reply| {
        let json = reply.json();
        let statuses = json["statuses"].as_array().expect("statuses").clone();
        statuses.iter().map(|status| status["code"].as_str().expect("a code").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(codes(&both), ["OVER_LIMIT", "OK"]);
    assert_eq!(check(&server, &[("user", "bob")]).json()["statuses"][0]["limitRemaining"], 4);
    let gold = check(&server, &[("user", "alice"), ("plan", "gold")]);
    let unlimited = json!({ "code": "OK", "limitRemaining": 4_294_967_295_u32 });
    let expected = json!({ "overallCode": "OK", "statuses": [{ "code": "OK" }, unlimited] });
    assert_eq!((gold.status, gold.json()), (200, expected));
    assert!(server.metric("tollgate_checks_total{source=\"store\"}").is_some_and(|checks| checks >= 7.0));
}

#[test]
fn accepts_requests_as_curl_sends_them_and_names_mistakes() {
    let server = serve(&[], &["--import", "envoy-ratelimit", &config(), "--caller-quotas"]);
    let body = body(&[("user", "carol")]).to_string();
    let head = "POST /json HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded";
    let request = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let mut connection: Connection = server.connect();
    assert_eq!(connection.ask(request.as_bytes()).status, 200);
    for (body, field) in [
        ("", None),
        ("{", None),
        (r#"{"domain": "shop", "descriptors": [{"entry": []}]}"#, Some("descriptors[0]")),
        (r#"{"descriptors": [{"entries": [{"key": "user"}]}]}"#, Some("domain")),
        (r#"{"domain": "shop"}"#, Some("descriptors")),
        (
            r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "a"}], "limit": {}}]}"#,
            Some("descriptors[0].limit"),
        ),
    ] {
        server.post("/json", body).assert_problem(400, field);
    }
    assert_eq!(server.get("/json").status, 405);
    let health = server.get("/healthcheck");
    assert_eq!((health.status, text(&health)), (200, "OK"));
}

#[test]
fn headers_and_metadata_are_sent_as_its_variables_say() {
    let variables = [
        ("LIMIT_RESPONSE_HEADERS_ENABLED", "true"),
        ("LIMIT_RESET_HEADER", "X-Reset"),
        ("RESPONSE_DYNAMIC_METADATA", "1"),
        ("SHADOW_MODE", "true"),
        ("STATSD_HOST", "localhost"),
        ("NEAR_LIMIT_RATIO", "0.9"),
    ];
    let server = serve(&variables, &["--import", "envoy-ratelimit", &config()]);
    let replies: Vec<Reply> = (0..6).map(|_| check(&server, &[("user", "dave")])).collect();
    assert!(replies.iter().all(|reply| reply.status == 200), "nobody is denied in shadow mode");
    let last = replies[5].json();
    assert_eq!(last["statuses"][0]["code"], "OVER_LIMIT");
    let headers = last["responseHeadersToAdd"].as_array().expect("headers");
    let names: Vec<&Value> = headers.iter().map(|header| &header["key"]).collect();
    assert_eq!(names, ["RateLimit-Limit", "RateLimit-Remaining", "X-Reset"]);
    let metadata = json!({ "domain": "shop", "descriptors": [{ "entries": ["user=dave"] }] });
    assert_eq!(last["dynamicMetadata"], metadata);
    let log = log(server);
    assert!(log.contains("have no effect here: STATSD_HOST"), "{log}");
    assert!(log.contains("counters are in memory"), "{log}");
    assert!(!log.contains("on_store_failure"), "there is no store that could fail: {log}");
}

#[test]
fn files_are_read_again_and_mistakes_keep_the_last_good_limits() {
    let limit = |requests: u32| {
        format!(
            "domain: shop\ndescriptors:\n- key: user\n  rate_limit: {{ unit: year, requests_per_unit: {requests} }}\n"
        )
    };
    let folder = folder("reload", &limit(1));
    let path = folder.to_str().expect("a path in UTF-8");
    let log = folder.join("log");
    let stderr = fs::File::create(&log).expect("a file can be made");
    let arguments = ["--import", "envoy-ratelimit", path];
    let server = Server::start_logging_to(stderr, &arguments);
    let is_said = |said: &str| fs::read_to_string(&log).is_ok_and(|log| log.contains(said));
    assert_eq!(check(&server, &[("user", "erin")]).status, 200);
    assert_eq!(check(&server, &[("user", "erin")]).status, 429);
    fs::write(folder.join("config.yaml"), limit(2).replace("year", "years")).expect("a file can be written");
    server.signal("HUP");
    // Otherwise the next text could be there before this one is read.
    until("the mistake is told", || is_said("config.yaml:4:23: unknown unit `years`: did you mean `year`?"));
    assert_eq!(check(&server, &[("user", "erin")]).status, 429);
    fs::write(folder.join("config.yaml"), limit(3)).expect("a file can be written");
    server.signal("HUP");
    // Its counter is kept: one of three is used.
    until("the limit is raised", || check(&server, &[("user", "erin")]).status == 200);
    until("the log says so", || is_said("domains are replaced"));
}

/// Its dashboards look for this name: its mapping for Prometheus has no rule for it.
#[test]
fn denials_without_the_store_have_the_name_of_its_local_cache() {
    let folder = folder(
        "local",
        "domain: shop\ndescriptors:\n- { key: none--at, value: all, rate_limit: { unit: year, requests_per_unit: 0 } }\n",
    );
    let store = still(Software::Redis, SECOND);
    let path = folder.to_str().expect("a path in UTF-8");
    let url = super::url(&store);
    let import =
        ["--import", "envoy-ratelimit", path, "--metric-aliases", "envoy-ratelimit", "--store", &url];
    let server = serve(&[], &import);
    for _ in 0..5 {
        assert_eq!(check(&server, &[("none--at", "all")]).status, 429);
    }
    let name = "ratelimit_service_rate_limit_shop_none_at_all_over_limit_with_local_cache";
    assert!(server.metric(name).is_some_and(|denials| denials >= 1.0));
}

/// `GET /v1/policies` said that there are no limits, while domains decided. And an administrator who asked for a reload
/// was reported new limits when nothing had changed.
#[test]
fn the_live_domains_are_listed_and_unchanged_files_replace_nothing() {
    let limits =
        "domain: shop\ndescriptors:\n- { key: user, rate_limit: { unit: year, requests_per_unit: 1 } }\n";
    let folder = folder("listed", limits);
    fs::write(folder.join("more.yaml"), "domain: bar\n").expect("a file can be written");
    let path = folder.to_str().expect("a path in UTF-8");
    let server = serve(&[], &["--import", "envoy-ratelimit", path]);
    let live = || server.admin_get("/v1/policies").json();
    let domains = json!([{ "name": "bar", "limits": 0 }, { "name": "shop", "limits": 1 }]);
    let generation = "875cffbac6bd137e";
    assert_eq!(
        live(),
        json!({
            "decides": "domains",
            "version": 1,
            "generation": generation,
            "source": path,
            "domains": domains
        })
    );
    let reload = || server.admin_post("/v1/policies/reload", "{}").json();
    assert_eq!(reload(), json!({ "replaced": false, "version": 1 }));
    fs::write(folder.join("config.yaml"), format!("# new\n{limits}")).expect("a file can be written");
    assert_eq!(reload(), json!({ "replaced": false, "version": 1 }), "a comment is no limit");
    fs::write(folder.join("config.yaml"), limits.replace(": 1 ", ": 2 ")).expect("a file can be written");
    server.admin_post("/v1/policies/reload", "{}");
    // The service itself may have looked at the file as well.
    assert_eq!(live()["version"], 2);
    assert_ne!(live()["generation"], generation);
    fs::write(folder.join("config.yaml"), "domain: shop\nfoo: 1\n").expect("a file can be written");
    assert_eq!(server.admin_post("/v1/policies/reload", "{}").status, 422);
    let live = live();
    for error in [&live["not_live"]["error"], &live["reloads"][0]["error"]] {
        assert!(error.to_string().contains("unknown key `foo`"), "{live}");
    }
}

#[test]
fn on_a_cluster_limits_are_charged_together() {
    let cluster = Cluster::start(Software::Redis).calm();
    let seeds = seeds(&cluster);
    let variables = of_cluster(&seeds);
    let server = serve(&variables, &["--import", "envoy-ratelimit", &config()]);
    let two = [("user", "frank"), ("user", "grace")];
    for _ in 0..5 {
        assert_eq!(check(&server, &two).status, 200);
    }
    assert_eq!(check(&server, &two).status, 429);
}

/// Starts a service over a Cluster, and returns what it answers to a request of 20 users while one server hangs: how much is
/// left of each user's five. Does `meanwhile` while the request waits.
fn left_while_a_server_hangs(meanwhile: impl FnOnce(&Server)) -> Vec<u64> {
    let cluster = Cluster::start(Software::Redis).calm();
    let seeds = seeds(&cluster);
    let variables = of_cluster(&seeds);
    let config = config();
    let mut command = tollgate();
    command.envs(variables);
    let each_open = ["--count-denied", "--on-store-failure", "open", "--store-timeout", "2s"];
    let server =
        Server::start_by(command, &[&["--import", "envoy-ratelimit", &config][..], &each_open].concat());
    let names: Vec<String> = (0..20).map(|name| format!("user-{name}")).collect();
    let users: Vec<(&str, &str)> = names.iter().map(|name| ("user", name.as_str())).collect();
    let left = || {
        let answer: Value = serde_json::from_slice(&check(&server, &users).body).expect("an answer");
        let statuses = answer["statuses"].as_array().expect("statuses").clone();
        statuses.iter().filter_map(|status| status["limitRemaining"].as_u64()).collect::<Vec<u64>>()
    };
    until("every server counts", || server.admin_get("/readyz").status == 200);
    assert_eq!(left(), [4; 20]);
    cluster.primary_of(0).pause();
    thread::scope(|scope| {
        let left = scope.spawn(left);
        meanwhile(&server);
        left.join().expect("an answer")
    })
}

/// One server that did not answer took the answers of all limits of the call with it, and every descriptor was admitted
/// uncounted.
#[test]
fn a_server_that_hangs_takes_no_answers_of_others_with_it() {
    let left = left_while_a_server_hangs(|_| ());
    assert!(left.iter().filter(|left| **left == 3).count() >= 5, "{left:?}");
}

/// If the service stood still when the deadline passed, the answers of all limits were lost, because a second timer had
/// passed as well. A busy machine sufficed.
#[test]
fn a_service_that_stands_still_keeps_the_answers_that_arrived() {
    let left = left_while_a_server_hangs(|server| {
        // Real time: half of the deadline, within which the other servers have answered.
        thread::sleep(Duration::from_secs(1));
        server.signal("STOP");
        // Real time: the deadline passes while the service is stopped.
        thread::sleep(Duration::from_millis(1_500));
        server.signal("CONT");
    });
    assert!(left.iter().filter(|left| **left == 3).count() >= 5, "{left:?}");
}

/// A call with a refund took two deadlines.
#[test]
fn the_steps_of_a_call_share_the_timeout() {
    undisturbed(|| {
        let store = servers::Server::start(Software::Redis);
        let proxy = FaultProxy::before(store.address());
        let address = proxy.address().to_string();
        let variables = [("REDIS_URL", address.as_str()), ("REDIS_SOCKET_TYPE", "tcp")];
        let mut command = tollgate();
        command.envs(variables);
        let config = config();
        let server =
            Server::start_by(command, &["--import", "envoy-ratelimit", &config, "--store-timeout", "5s"]);
        let mut both = body(&[("user", "alice"), ("user", "bob")]);
        both["descriptors"][1]["hitsAddend"] = 1.into();
        both["descriptors"][1]["isNegativeHits"] = true.into();
        let left = || {
            let answer = server.post("/json", &both.to_string()).json();
            let statuses = answer["statuses"].as_array().expect("statuses").clone();
            statuses.iter().map(|status| status["limitRemaining"].as_u64()).collect::<Vec<_>>()
        };
        assert_eq!(left(), [Some(4), Some(5)]);
        // More than half of the timeout for each step.
        proxy.delay(ByteDirection::Reply, Duration::from_secs(3));
        assert_eq!(left(), [Some(3), None]);
    });
}

#[test]
fn invalid_settings_stop_the_start() {
    let folder = folder("wrong", "domain: a\n");
    fs::write(folder.join("second.yaml"), "domain: a\nfoo: 1\n").expect("a file can be written");
    let path = folder.to_str().expect("a path in UTF-8");
    let said = refused(&[], &["--import", "envoy-ratelimit", path]);
    assert!(said.contains("second.yaml:1:9: duplicate domain `a`, already given in line 1 of "), "{said}");
    assert!(said.contains("second.yaml:2:1: unknown key `foo` in the file"), "{said}");
    let import = ["--import", "envoy-ratelimit", &config()];
    let said = refused(&[("BACKEND_TYPE", "memcache")], &import);
    assert!(said.contains("BACKEND_TYPE: expected redis"), "{said}");
    let said = refused(&[("REDIS_URL", "main"), ("REDIS_TYPE", "sentinel")], &import);
    assert!(said.contains("REDIS_URL: expected the name of the primary"), "{said}");
    // Envoy Gateway starts its service so. Tollgate started as well, and admitted everything.
    let said = refused(&[("CONFIG_TYPE", "GRPC_XDS_SOTW")], &import);
    assert!(said.contains("or over xDS (CONFIG_TYPE=GRPC_XDS_SOTW), but not from both"), "{said}");
    let said = refused(&[("NEAR_LIMIT_RATIO", "80%")], &import);
    assert!(said.contains("NEAR_LIMIT_RATIO: expected a number from 0 to 1, found `80%`"), "{said}");
    let said = refused(&[], &["--limit", "5/1d", "--metric-aliases", "envoy-ratelimit"]);
    assert!(said.contains("`--metric-aliases envoy-ratelimit` is about the limits of envoyproxy"), "{said}");
    let headers = [&import[..], &["--grpc", "127.0.0.1:0", "--grpc-limit-headers"]].concat();
    let said = refused(&[], &headers);
    assert!(said.contains("set LIMIT_RESPONSE_HEADERS_ENABLED=true"), "{said}");
    let secret = folder.join("secret").to_str().expect("a path in UTF-8").to_owned();
    fs::write(&secret, "0123456789abcdef0123456789abcdef").expect("a file can be written");
    let state = folder.join("state").to_str().expect("a path in UTF-8").to_owned();
    let needless = [
        ("--answers", "rlaas"),
        ("--trusted-proxy", "10.0.0.0/8"),
        ("--hold-secret-file", &secret),
        ("--state-dir", &state),
        ("--max-overrides", "5"),
    ];
    for (flag, value) in needless {
        let said = refused(&[], &[&import[..], &[flag, value]].concat());
        let expected =
            format!("`{flag}` cannot be used with the limits of envoyproxy/ratelimit: they answer over");
        assert!(said.contains(&expected), "{said}");
    }
    let layout = [&import[..], &["--store", "redis://127.0.0.1", "--store-layout", "rlaas"]].concat();
    let said = refused(&[], &layout);
    assert!(
        said.contains("`--store-layout` cannot be used with the limits of envoyproxy/ratelimit"),
        "{said}"
    );
    assert!(
        refused(&[], &["--import", "envoy-ratelimit"]).contains("or the server that sends them over xDS")
    );
}

/// Files with another extension were silently skipped.
#[test]
fn logs_settings_without_effect() {
    let folder = folder("nothing", "domain: shop\ndescriptors:\n- { key: user, shadow_mode: true }\n");
    fs::write(folder.join("users.conf"), "domain: users\n").expect("a file can be written");
    let path = folder.to_str().expect("a path in UTF-8");
    let log = log(serve(&[], &["--import", "envoy-ratelimit", path]));
    assert!(log.contains("because their names do not end in .yaml or .yml: users.conf"), "{log}");
    assert!(log.contains("config.yaml:3:29: `shadow_mode` has no effect without `rate_limit`"), "{log}");
    let prefix = [("CACHE_KEY_PREFIX", "p")];
    let in_memory = self::log(serve(&prefix, &["--import", "envoy-ratelimit", path]));
    assert!(in_memory.contains("CACHE_KEY_PREFIX has no effect here: counters are in memory"), "{in_memory}");
    let store = still(Software::Redis, SECOND);
    let url = super::url(&store);
    let overridden = ["--import", "envoy-ratelimit", path, "--store", &url, "--store-prefix", "q"];
    let overridden = self::log(serve(&prefix, &overridden));
    assert!(
        overridden.contains("CACHE_KEY_PREFIX has no effect here: `--store-prefix` overrides it"),
        "{overridden}"
    );
}
