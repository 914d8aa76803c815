//! The RLaaS Users Service, by its own `application.yaml`.

use std::time::Duration;

use tollgate_testkit::servers::published::{self, PublishedWindow};
use tollgate_testkit::servers::{Cluster, Software};

use super::{example, keys, log, refused, serve, still, text, url, written};
use crate::support::{Reply, Server};

/// The time of the document's example: the start of a minute.
const SECOND: i64 = 1_700_000_100;
const MINUTE: Duration = Duration::from_secs(60);

fn check(server: &Server, user: &str) -> Reply {
    server.get(&format!("/check?userId={user}"))
}

#[track_caller]
fn assert_allowed(reply: &Reply) {
    assert_eq!((reply.status, text(reply)), (200, "User is allowed"));
}

#[track_caller]
fn assert_denied(reply: &Reply, seconds: u64) {
    let expected = format!("User is not allowed...Try after {seconds} seconds.");
    assert_eq!((reply.status, text(reply)), (429, expected.as_str()));
    assert_eq!(reply.header("retry-after"), Some(seconds.to_string().as_str()));
}

#[test]
fn its_own_file_starts_the_service_and_both_share_one_count() {
    let store = still(Software::Redis, SECOND);
    let file = example("rlaas/application.yaml");
    let server = serve(&[("REDIS_URL", &url(&store))], &["--import", "rlaas", &file]);
    assert!(server.said.iter().any(|line| line.contains("5/1m for each userId")), "{:?}", server.said);
    assert!(server.said.iter().any(|line| line.contains("/check?userId=alice")), "{:?}", server.said);

    let mut rlaas = store.connection();
    let window = || PublishedWindow::now(&store, MINUTE);
    // In turn: of five, three are admitted here and two there.
    for attempt in 1..=5 {
        match attempt % 2 {
            1 => assert_allowed(&check(&server, "alice")),
            _ => assert_eq!(published::rlaas(&mut rlaas, "alice", window()), attempt),
        }
    }
    assert_eq!(published::rlaas(&mut rlaas, "alice", window()), 6);
    assert_denied(&check(&server, "alice"), 60);
    // Denied attempts are counted, as it counts them.
    assert_eq!(store.command::<u64>(["GET", "rlaas:rate_limit:alice:28333335"]), 7);
    assert_eq!(keys(&store), ["rlaas:rate_limit:alice:28333335"]);

    store.clock().step(59_999);
    assert_denied(&check(&server, "alice"), 1);
    store.clock().step(1);
    assert_allowed(&check(&server, "alice"));
    assert_eq!(store.command::<u64>(["GET", "rlaas:rate_limit:alice:28333336"]), 1);

    let log = log(server);
    assert!(log.contains("on_store_failure is `closed`"), "{log}");
    assert!(log.contains("have no effect here: spring.application.name, management.endpoints"), "{log}");
    assert!(log.contains("rlaas:rate_limit:{userId}:{window}"), "{log}");
}

/// RLaaS answers with the time to live of a key, which the first hit sets to a whole window. So it tells clients to
/// wait up to one window too long.
#[test]
fn the_seconds_to_wait_are_those_to_the_windows_end() {
    let store = still(Software::Redis, SECOND + 52);
    let file = example("rlaas/application.yaml");
    let server = serve(&[("REDIS_URL", &url(&store))], &["--import", "rlaas", &file]);
    let mut rlaas = store.connection();
    let (_, count, ttl) = published::rlaas_script(&mut rlaas, "rlaas:rate_limit:carol", 60).expect("a reply");
    assert_eq!((count, ttl), (1, 60), "what it tells, 8 seconds before the end");
    for user in ["bob", "carol"] {
        let admitted = if user == "carol" { 4 } else { 5 };
        (0..admitted).for_each(|_| assert_allowed(&check(&server, user)));
        assert_denied(&check(&server, user), 8);
    }
    store.clock().step(400);
    assert_denied(&check(&server, "bob"), 8);
}

/// RLaaS counts all requests without a user as one user, probes included.
#[test]
fn a_request_without_a_user_is_an_error_and_counts_nothing() {
    let store = still(Software::Redis, SECOND);
    let file = example("rlaas/application.yaml");
    let server = serve(&[("REDIS_URL", &url(&store))], &["--import", "rlaas", &file]);
    for path in ["/check", "/check?userId=", "/check?user=alice"] {
        server.get(path).assert_problem(400, Some("query.userId"));
    }
    assert_eq!((server.get("/healthz").status, server.admin_get("/metrics").status), (200, 200));
    assert_eq!(keys(&store), [""; 0]);
}

/// Its script declares one key and counts on another, which a Cluster refuses if the other key is in another slot.
#[test]
fn it_works_on_a_cluster_where_its_own_script_does_not() {
    const YEARS: i64 = 315_360_000;
    let cluster = Cluster::start(Software::Redis).calm();
    let seeds: Vec<String> = cluster.nodes().iter().map(|node| node.address().to_string()).collect();
    let file = written(
        "cluster.yaml",
        &format!("rate-limiter: {{ use-algo: fixed-window-algo, window-size: {YEARS}, max-requests: 5 }}\n"),
    );
    let store = format!("redis+cluster://{}", seeds.join(","));
    let server = serve(&[], &["--import", "rlaas", &file, "--store", &store]);
    let (mut users, mut failed, mut shared) = (0.., 0, 0);
    while failed < 3 || shared < 2 {
        let user = format!("user-{}", users.next().expect("no end"));
        (0..5).for_each(|_| assert_allowed(&check(&server, &user)));
        assert_eq!(check(&server, &user).status, 429);
        let declared = format!("rlaas:rate_limit:{user}");
        let window = PublishedWindow::now(&cluster.nodes()[0], Duration::from_secs(YEARS as u64));
        let used = format!("{declared}:{}", window.index());
        let [asked, holder] = [&declared, &used].map(|name| cluster.primary_of(cluster.slot_of(name)));
        let its_own = published::rlaas_script(&mut asked.connection(), &declared, YEARS);
        if asked.address() == holder.address() {
            assert!(matches!(its_own, Ok((0, 7, _))), "{its_own:?}");
            shared += 1;
        } else {
            assert!(its_own.is_err(), "{its_own:?}");
            assert_eq!(holder.command::<u64>(["GET", &used]), 6);
            failed += 1;
        }
    }
}

#[test]
fn refuses_during_an_outage_unless_a_flag_says_otherwise() {
    let store = still(Software::Redis, SECOND);
    store.kill();
    let (redis, file) = (url(&store), example("rlaas/application.yaml"));
    let start =
        |more: &[&str]| serve(&[("REDIS_URL", &redis)], &[&["--import", "rlaas", &file], more].concat());
    check(&start(&[]), "alice").assert_problem(503, None);
    let open = start(&["--on-store-failure", "open"]);
    let reply = check(&open, "alice");
    assert_allowed(&reply);
    assert_eq!(reply.header("tollgate-source"), Some("fallback"));
    let fallback = r#"tollgate_fallback_decisions_total{policy="rlaas",verdict="allowed"}"#;
    assert_eq!(open.metric(fallback), Some(1.0));
}

/// In RLaaS, a window of 0 seconds means no limit, half a second leaves counters forever, and an unknown algorithm is a
/// stack trace.
#[test]
fn invalid_settings_stop_the_start_with_their_position() {
    let settings = |algorithm: &str, window: &str, limit: &str| {
        format!("rate-limiter:\n  use-algo: {algorithm}\n  window-size: {window}\n  max-requests: {limit}\n")
    };
    let valid = "fixed-window-algo";
    for (place, (text, said)) in [
        (settings("sliding-window-algo", "60", "16777216"), "4:17: "),
        (
            settings("token-bucket", "60", "5"),
            "2:13: unknown algorithm `token-bucket`: expected `fixed-window-algo` or `sliding-window-algo`",
        ),
        (
            settings(valid, "0", "5"),
            "3:16: expected a whole number from 1 for `rate-limiter.window-size`, found `0`",
        ),
        (settings(valid, "0.5", "5"), "3:16: expected a whole number from 1"),
        (settings(valid, "-60", "5"), "3:16: expected a whole number from 1"),
        (settings(valid, "1m", "5"), "3:16: expected a whole number from 1"),
        (settings(valid, "315619201", "5"), "3:16: "),
        (
            settings(valid, "60", "-1"),
            "4:17: expected a whole number from 0 for `rate-limiter.max-requests`, found `-1`",
        ),
        (settings(valid, "60", "${NO_SUCH}"), "4:17: the environment variable `NO_SUCH` is not set"),
        ("rate-limiter:\n  max-requests: 5\n".to_owned(), "2:17: RLaaS needs `rate-limiter.use-algo`"),
        ("rate-limiter:\n  max-requests: 5\n".to_owned(), "2:17: RLaaS needs `rate-limiter.window-size`"),
        (String::new(), "1:1: RLaaS needs `rate-limiter.use-algo`"),
        ("a: [1".to_owned(), "1:"),
        (
            settings(valid, "60", "5") + "---\nspring.config.activate.on-profile: prod\n",
            "5:1: a second document begins here, such as that of a profile",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let file = written(&format!("wrong-{place}.yaml"), &text);
        let error = refused(&[("REDIS_URL", "redis://127.0.0.1:1")], &["--import", "rlaas", &file]);
        assert!(error.contains(&format!("{file}:{said}")), "{text}\n{error}");
    }
}

/// RLaaS's default. A request that is denied is not counted, and the wait lasts until the oldest request leaves, not for
/// a whole window.
#[test]
fn its_sliding_window_is_a_log() {
    let store = still(Software::Redis, SECOND);
    let redis = url(&store);
    let settings = |limit| {
        format!(
            "rate-limiter:\n  use-algo: sliding-window-algo\n  window-size: 60\n  max-requests: {limit}\n"
        )
    };
    let file = written("sliding.yaml", &settings(2));
    let server = serve(&[("REDIS_URL", &redis)], &["--import", "rlaas", &file]);
    let mut rlaas = store.connection();
    let mut rlaas_admits =
        |user| published::rlaas_sliding(&mut rlaas, user, store.time().as_unix_millis(), (60, 2));
    assert!(server.said.iter().any(|line| line.contains("2/1m~log for each userId")), "{:?}", server.said);
    // A denial is remembered by another clock than this one, which jumps.
    let both_are_allowed = || ["alice", "bob"].iter().for_each(|user| assert_allowed(&check(&server, user)));
    both_are_allowed();
    store.clock().step(20_000);
    both_are_allowed();
    assert_denied(&check(&server, "alice"), 40);
    store.clock().step(40_000);
    assert_allowed(&check(&server, "bob"));
    assert_denied(&check(&server, "bob"), 20);
    // Both count in one set, while a fleet moves over.
    assert!(!rlaas_admits("bob"));
    assert!(rlaas_admits("carol"));
    assert_allowed(&check(&server, "carol"));
    assert!(!rlaas_admits("carol"));
    assert_denied(&check(&server, "carol"), 60);
    assert_eq!(keys(&store), ["alice", "bob", "carol"].map(|user| format!("rlaas:rate_limit:{user}")));
    assert!(log(server).contains("`2/1m~log`, which is counted in RLaaS's sorted sets"));

    // More requests than a log has entries are counted in steps.
    let file = written("sliding-many.yaml", &settings(1_000));
    let server = serve(&[("REDIS_URL", &redis)], &["--import", "rlaas", &file]);
    assert!(server.said.iter().any(|line| line.contains("1000/1m~log:500ms")), "{:?}", server.said);
    assert!(log(server).contains("`1000/1m~log:500ms`, which does not read RLaaS's sorted sets"));
    // The layout of its keys has no steps.
    let said = refused(&[("REDIS_URL", &redis)], &["--import", "rlaas", &file, "--store-layout", "rlaas"]);
    assert!(said.contains("can only hold logs of single milliseconds"), "{said}");
}

/// The service started, did not answer RLaaS's own path, and told the other system's callers that `userId` is missing.
#[test]
fn answers_its_callers_in_its_own_format_only() {
    let store = still(Software::Redis, SECOND);
    let (redis, file) = (url(&store), example("rlaas/application.yaml"));
    let import = |answers| ["--import", "rlaas", &file, "--answers", answers];
    let said = refused(&[("REDIS_URL", &redis)], &import("leetdezine"));
    assert!(said.contains("`--answers leetdezine` conflicts with `--import rlaas`"), "{said}");
    assert_allowed(&check(&serve(&[("REDIS_URL", &redis)], &import("rlaas")), "alice"));
}

#[test]
fn placeholders_are_read_and_the_address_of_its_store_is_never_repeated() {
    // A comma in a file's name separates nothing.
    let text = "rateLimiter.useAlgo: fixed-window-algo\nrate_limiter: { window_size: \"${WINDOW:60}\", max-requests: \"${LIMIT}\" }\n";
    let file = written("relaxed,local.yaml", text);
    let import = ["--import", "rlaas", file.as_str()];
    let store = still(Software::Redis, SECOND);
    let server = serve(&[("REDIS_URL", &url(&store)), ("LIMIT", "1")], &import);
    assert_allowed(&check(&server, "alice"));
    assert_denied(&check(&server, "alice"), 60);
    let variable = format!("rlaas,{file}");
    serve(&[("REDIS_URL", &url(&store)), ("LIMIT", "1"), ("TOLLGATE_IMPORT", &variable)], &[]);

    let missing = refused(&[("LIMIT", "1")], &import);
    assert!(missing.contains("REDIS_URL") && missing.contains("--store"), "{missing}");
    let wrong = refused(&[("LIMIT", "1"), ("REDIS_URL", "http://:sesame@h")], &import);
    assert!(wrong.contains("REDIS_URL cannot be used") && !wrong.contains("sesame"), "{wrong}");
    for import in [&["--import", "rlaas"][..], &["--import", "rlass", "f"], &["--import", "valkey-env", "f"]]
    {
        let said = refused(&[], import);
        assert!(said.contains("; expected `rlaas FILE`"), "{said}");
    }
    let said = refused(&[], &["--import", "envoy-ratelimits", "folder"]);
    assert!(said.contains("`envoy-ratelimits` is not a system that can be imported; expected"), "{said}");
    let said = refused(&[], &["--import", "envoy-ratelimit"]);
    assert!(said.contains("`envoy-ratelimit` needs limits: name the folder"), "{said}");
    let spaced = refused(&[("TOLLGATE_IMPORT", "rlaas application.yaml")], &[]);
    assert!(spaced.contains("in TOLLGATE_IMPORT, `rlaas,FILE`"), "{spaced}");
    let properties = written("application.properties", "rate-limiter.window-size=60\n");
    let said = refused(&[], &["--import", "rlaas", &properties]);
    assert!(said.contains(&format!("{properties} is a properties file, and only YAML is read")), "{said}");
    let unread = refused(&[], &["--import", "rlaas", "/no/such.yaml"]);
    assert!(unread.contains("cannot read /no/such.yaml"), "{unread}");
}

/// Variables that Spring reads were silently ignored, and the numbers of the file counted.
#[test]
fn variables_override_the_file_as_with_spring() {
    let store = still(Software::Redis, SECOND);
    let file = example("rlaas/application.yaml");
    let import = ["--import", "rlaas", file.as_str()];
    let server = serve(
        &[
            ("SPRING_DATA_REDIS_URL", &url(&store)),
            ("RATELIMITER_MAXREQUESTS", "1"),
            ("RATE_LIMITER_WINDOW_SIZE", "120"),
            ("RATELIMITER_COLOUR", "hunter2"),
        ],
        &import,
    );
    assert!(server.said.iter().any(|line| line.contains("1/2m for each userId")), "{:?}", server.said);
    assert_allowed(&check(&server, "alice"));
    assert_denied(&check(&server, "alice"), 60);
    let log = log(server);
    assert!(
        log.contains("variables that have no effect here: RATELIMITER_COLOUR") && !log.contains("hunter2"),
        "{log}"
    );

    for (variable, value) in [
        ("RATELIMITER_MAXREQUESTS", "many"),
        ("RATE_LIMITER_MAX_REQUESTS", "-1"),
        ("RATELIMITER_WINDOWSIZE", "0"),
        ("RATELIMITER_USEALGO", "token-bucket"),
    ] {
        let said = refused(&[("REDIS_URL", &url(&store)), (variable, value)], &import);
        assert!(said.contains(variable) && said.contains(value), "{said}");
    }
}

#[test]
fn its_operators_find_health_and_metrics_where_they_were() {
    let store = still(Software::Redis, SECOND);
    let file = example("rlaas/application.yaml");
    let server = serve(&[("REDIS_URL", &url(&store))], &["--import", "rlaas", &file]);
    for health in [server.get("/actuator/health"), server.admin_get("/actuator/health")] {
        assert_eq!((health.status, health.json()), (200, serde_json::json!({ "status": "UP" })));
    }
    let metrics = server.admin_get("/actuator/prometheus");
    assert_eq!(metrics.status, 200);
    assert!(String::from_utf8_lossy(&metrics.body).contains("tollgate_decisions"));
    server.get("/actuator/prometheus").assert_problem(404, None);
    store.kill();
    let began = std::time::Instant::now();
    while server.get("/actuator/health").status != 503 {
        assert!(began.elapsed() < crate::support::HANG, "checks are refused, and it says that it is up");
    }
    // Without the import, these paths do not exist.
    let usual = Server::start(&["--limit", "5/1d"]);
    usual.get("/actuator/health").assert_problem(404, None);
}
