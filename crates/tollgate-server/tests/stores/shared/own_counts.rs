//! Counts under limits of the caller's own (`/v1/count`): exact across processes, and the answers in an outage.

use std::collections::HashMap;
use std::thread;

use serde_json::{Value, json};
use tollgate_testkit::servers::{self, Software};

use super::{PATIENT, redis, serve, source, url};
use crate::support::{Server, post};

const OWN: &[&str] = &["--caller-quotas"];

const HOUR: i64 = 3_600_000;

/// Returns a count of alice's under this name, with more fields.
fn count(name: &str, more: &Value) -> String {
    let mut body = json!({ "attributes": { "user": "alice" }, "policy": name });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    body.to_string()
}

/// The sum of parallel counts is exact, whatever else runs.
#[test]
fn parallel_counts_through_two_processes_allow_exactly_the_limit() {
    for software in [Software::Redis, Software::Valkey] {
        let store = servers::Server::start(software);
        let processes = [serve(&store, "5/1d", OWN), serve(&store, "5/1d", OWN)];
        let all = |body: &str, threads: usize, times: usize| -> Vec<Value> {
            let (request, processes) = (&post("/v1/count", body), &processes);
            let ask = move |process: &Server| {
                let mut connection = process.connect();
                (0..times).map(|_| connection.ask(request).json()).collect::<Vec<Value>>()
            };
            thread::scope(|scope| {
                let asking = (0..threads).map(|thread| scope.spawn(move || ask(&processes[thread % 2])));
                let asking: Vec<_> = asking.collect();
                asking.into_iter().flat_map(|asking| asking.join().expect("answers")).collect()
            })
        };
        let add = count("login", &json!({ "quotas": ["100/1d@first_hit"] }));
        let answers = all(&add, 16, 25);
        let allowed = answers.iter().filter(|answer| answer["allowed"] == true).count();
        assert_eq!((answers.len(), allowed), (400, 100));
        let mut used: Vec<u64> = answers.iter().filter_map(|answer| answer["used"].as_u64()).collect();
        used.sort_unstable();
        assert_eq!(used, (1..=400).collect::<Vec<u64>>(), "each addition has a number of its own");

        // More is given back than was used.
        let subtract = count("login", &json!({ "window": "1d@first_hit", "operation": "subtract" }));
        let get = count("login", &json!({ "window": "1d@first_hit", "operation": "get" }));
        let answers = all(&subtract, 16, 30);
        let zeros = answers.iter().filter(|answer| answer["used"] == 0).count();
        assert_eq!((answers.len(), zeros), (480, 81), "the 400th and all after it");
        assert_eq!(processes[0].post("/v1/count", &get).json()["used"], 0);
    }
}

/// A process that remembered a denial answered a count by it, or denied what another process had given back.
#[test]
fn counts_and_checks_under_a_limit_share_a_counter_and_counts_are_never_remembered() {
    let store = redis();
    let (one, other) = (serve(&store, "5/1d", OWN), serve(&store, "5/1d", OWN));
    let limits = json!({ "quotas": ["3/1d@first_hit"] });
    let check = || one.post("/v1/check", &count("api", &limits));
    assert_eq!([check(), check(), check(), check()].map(|reply| reply.status), [200, 200, 200, 429]);
    assert_eq!(source(&check()), "local");
    let with = |operation: &str| {
        let mut more = limits.clone();
        more["operation"] = operation.into();
        count("api", &more)
    };
    let added = one.post("/v1/count", &count("api", &limits)).json();
    assert_eq!(
        (&added["allowed"], &added["used"], &added["source"]),
        (&json!(false), &json!(4), &json!("store"))
    );
    assert_eq!(other.post("/v1/count", &with("subtract")).json()["used"], 3);
    assert_eq!(other.post("/v1/count", &with("reset")).json()["used"], 0);
    let got = one.post("/v1/count", &with("get")).json();
    assert_eq!((&got["allowed"], &got["used"], &got["source"]), (&json!(true), &json!(0), &json!("store")));
    // Its own change is forgotten at once.
    assert_eq!(one.post("/v1/count", &with("reset")).status, 200);
    assert_eq!(check().json()["used"], 1);
    let keys: Vec<String> = store.command(["KEYS", "*"]);
    assert!(keys.iter().all(|key| key.starts_with("tollgate:1:api%3Acaller:")), "{keys:?}");
}

#[test]
fn an_outage_is_answered_as_the_call_says() {
    let store = redis();
    let url = url(&store);
    let server =
        Server::start(&["--limit", "5/1d", "--store", &url, "--store-timeout", PATIENT, "--caller-quotas"]);
    let quotas = |more: &Value| {
        let mut body = json!({ "quotas": ["2/1d", "9/2d"] });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        count("login", &body)
    };
    assert_eq!(server.post("/v1/count", &quotas(&json!({ "cost": 2 }))).json()["used"], 2);
    store.kill();
    let fallback = json!({ "allowed": true, "policy": "login:caller", "source": "fallback" });
    for open in [json!({}), json!({ "on_store_failure": "open", "cost": 3 }), json!({ "operation": "get" })] {
        let reply = server.post("/v1/count", &quotas(&open));
        assert_eq!((reply.status, reply.json()), (200, fallback.clone()), "{open}");
    }
    let bare = server.post("/v1/count", &count("login", &json!({ "window": "1d" }))).json();
    assert_eq!(bare, json!({ "policy": "login:caller", "source": "fallback" }));
    for closed in [
        json!({ "on_store_failure": "closed" }),
        json!({ "on_store_failure": "closed", "operation": "get" }),
        json!({ "operation": "subtract" }),
        json!({ "operation": "set", "used": 1 }),
        json!({ "operation": "reset" }),
    ] {
        let reply = server.post("/v1/count", &quotas(&closed));
        reply.assert_problem(503, None);
        assert_eq!(reply.json()["reason"], "store_unavailable", "{closed}");
    }
    let batch = json!({ "requests": [
        serde_json::from_str::<Value>(&quotas(&json!({}))).expect("JSON"),
        serde_json::from_str::<Value>(&quotas(&json!({ "operation": "reset" }))).expect("JSON"),
    ] });
    let counts = server.post("/v1/count/batch", &batch.to_string()).json()["counts"].clone();
    assert_eq!((&counts[0], &counts[1]["status"]), (&fallback, &json!(503)));
    let checks = |source: &str| server.metric(&format!("tollgate_checks_total{{source=\"{source}\"}}"));
    assert_eq!((checks("store"), checks("fallback_open"), checks("none")), (Some(1.0), Some(4.0), Some(1.0)));
}

/// A caller that kept its limits to itself could not be closed while only the store was gone.
#[test]
fn a_check_under_own_limits_is_refused_in_an_outage_if_it_says_so() {
    let store = redis();
    let url = url(&store);
    let server =
        Server::start(&["--limit", "5/1d", "--store", &url, "--store-timeout", PATIENT, "--caller-quotas"]);
    let with = |setting: &Value| {
        let mut more = json!({ "quotas": ["9/1d"] });
        more.as_object_mut().expect("an object").extend(setting.as_object().expect("an object").clone());
        count("login", &more)
    };
    let (unset, open, closed) =
        (json!({}), json!({ "on_store_failure": "open" }), json!({ "on_store_failure": "closed" }));
    for setting in [&unset, &open, &closed] {
        assert_eq!(source(&server.post("/v1/check", &with(setting))), "store", "{setting}");
    }
    store.kill();
    for path in ["/v1/check", "/v1/peek", "/v1/reserve"] {
        for setting in [&unset, &open] {
            let reply = server.post(path, &with(setting));
            assert_eq!((reply.status, source(&reply)), (200, "fallback".into()), "{path} {setting}");
        }
        let refused = server.post(path, &with(&closed));
        refused.assert_problem(503, None);
        assert_eq!(refused.json()["reason"], "store_unavailable", "{path}");
    }
    let entries =
        [&unset, &closed].map(|setting| serde_json::from_str::<Value>(&with(setting)).expect("JSON"));
    for path in ["/v1/check/batch", "/v1/reserve/batch"] {
        let reply = server.post(path, &json!({ "requests": entries }).to_string()).json();
        let decisions = &reply["decisions"];
        assert_eq!((&decisions[0]["source"], &decisions[1]["status"]), (&json!("fallback"), &json!(503)));
    }
}

/// A service whose clock the test moves.
trait Clocked {
    fn server(&self) -> &Server;
    fn now(&self) -> i64;
    fn advance(&self, millis: i64);
}

/// Counts in memory.
struct InMemory(Server);

impl Clocked for InMemory {
    fn server(&self) -> &Server {
        &self.0
    }

    fn now(&self) -> i64 {
        self.0.admin_post("/v1/clock", r#"{"advance_ms": 0}"#).json()["now"].as_i64().expect("a time")
    }

    fn advance(&self, millis: i64) {
        let body = json!({ "advance_ms": millis }).to_string();
        assert_eq!(self.0.admin_post("/v1/clock", &body).status, 200);
    }
}

/// Counts in a server with a clock that the test moves, and that runs by itself as well.
struct InServer(servers::Server, Server);

impl Clocked for InServer {
    fn server(&self) -> &Server {
        &self.1
    }

    fn now(&self) -> i64 {
        let [seconds, micros]: [String; 2] =
            self.0.command::<Vec<String>>(["TIME"]).try_into().expect("a time");
        let number = |text: String| text.parse::<i64>().expect("a number");
        number(seconds) * 1_000 + number(micros) / 1_000
    }

    fn advance(&self, millis: i64) {
        self.0.clock().step(millis);
    }
}

/// What one key has used in the windows of one series: the ledger's own arithmetic.
#[derive(Debug, Default, Clone, Copy)]
struct Entry {
    start: i64,
    used: u64,
}

/// A block of a key in one series.
#[derive(Debug, Default, Clone, Copy)]
struct Block {
    /// The earliest and the latest time at which it may end.
    ends: (i64, i64),
    used: u64,
}

/// How long blocks live.
const BLOCK: i64 = 600_000;

/// A series of an hour: whether its windows start with the first unit.
const SERIES: [(&str, bool); 2] = [("1h", false), ("1h@first_hit", true)];

/// Random operations get the answers of a ledger.
fn play(clocked: &impl Clocked, seed: u64) {
    let mut random = seed;
    let mut draw = |below: u64| {
        // Xorshift.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut ledger = HashMap::<(usize, u64), Entry>::new();
    let mut blocks = HashMap::<(usize, u64), Block>::new();
    let mut connection = clocked.server().connect();
    for step in 0..400 {
        if draw(12) == 0 {
            clocked.advance(i64::try_from(draw(80)).expect("small") * 60_000);
        }
        let (series, user) = (usize::try_from(draw(2)).expect("small"), draw(3));
        let (windows, is_first_hit) = SERIES[series];
        let (limit, units) = (draw(12), draw(5));
        let is_bare = draw(3) == 0;
        let operation = ["add", "add", "add", "subtract", "get", "set", "reset"]
            [usize::try_from(draw(7)).expect("small")];
        let mut body =
            json!({ "attributes": { "user": user.to_string() }, "policy": "login", "operation": operation });
        match is_bare {
            true => body["window"] = windows.into(),
            false => body["quotas"] = json!([format!("{limit}/{windows}")]),
        }
        let has_block = !is_bare && ["add", "get", "reset"].contains(&operation) && draw(2) == 0;
        if has_block {
            body["block"] = "10m".into();
        }
        match operation {
            "set" => body["used"] = units.into(),
            "reset" => {}
            _ => body["cost"] = units.into(),
        }
        let before = clocked.now();
        let answer = connection.ask(&post("/v1/count", &body.to_string())).json();
        let after = clocked.now();
        let said = format!("seed {seed}, step {step}, between {before} and {after}: {body} -> {answer}");
        let time = |name: &str| answer["window"][name].as_i64();
        // A key that is blocked has none.
        let window = match answer["blocked"].as_bool() {
            Some(true) => (0, 0),
            _ => (time("start").expect(&said), time("end").expect(&said)),
        };

        let entry = ledger.entry((series, user)).or_default();
        // It has ended, or was never opened.
        let is_open = entry.start > 0 && before < entry.start + HOUR;
        if !is_open {
            // In a server, time passes: a window that ends during the call is open before and closed after it.
            assert!(entry.start == 0 || after >= entry.start + HOUR, "{said}");
            *entry = Entry::default();
        }
        let block = blocks.get(&(series, user)).copied().unwrap_or_default();
        if after - after.rem_euclid(HOUR) != before - before.rem_euclid(HOUR)
            || before < block.ends.1 && block.ends.0 <= after
            || is_open && after >= entry.start + HOUR
        {
            // Nobody knows which window was meant: begin again.
            ledger.clear();
            blocks.clear();
            for user in 0..3 {
                for (windows, _) in SERIES {
                    let reset = json!({ "attributes": { "user": user.to_string() }, "policy": "login", "operation": "reset", "quotas": [format!("1/{windows}")], "block": "10m" });
                    let _ = connection.ask(&post("/v1/count", &reset.to_string()));
                }
            }
            continue;
        }
        let block = blocks.entry((series, user)).or_default();
        if has_block && operation == "reset" {
            *block = Block::default();
        }
        if has_block && operation != "reset" {
            let is_blocked = before < block.ends.1;
            let begins = !is_blocked && operation == "add" && units > 0 && entry.used + units > limit;
            assert_eq!(answer["blocked"], is_blocked || begins, "{said}");
            if begins {
                *block = Block { ends: (before + BLOCK, after + BLOCK), used: entry.used + units };
                assert_eq!(answer["block_after_ms"], BLOCK, "{said}");
                *entry = Entry::default();
            }
            if is_blocked || begins {
                assert_eq!(
                    (&answer["allowed"], &answer["used"]),
                    (&json!(false), &json!(block.used)),
                    "{said}"
                );
                assert_eq!((&answer["window"], &answer["remaining"]), (&Value::Null, &json!(0)), "{said}");
                let left = answer["block_after_ms"].as_i64().expect(&said);
                assert!((block.ends.0 - after..=block.ends.1 - before).contains(&left), "{said}");
                assert_eq!(answer["reset_after_ms"], left, "{said}");
                let can_fit = units.max(1) <= limit;
                assert_eq!(
                    answer["retry_after_ms"],
                    if can_fit { json!(left) } else { Value::Null },
                    "{said}"
                );
                continue;
            }
        }
        let used = match operation {
            "add" => entry.used + units,
            "subtract" => entry.used.saturating_sub(units),
            "set" => units,
            "reset" => 0,
            _ => entry.used,
        };
        assert_eq!(answer["used"], used, "{said}");
        assert_eq!(window.1 - window.0, HOUR, "{said}");
        match (is_first_hit, entry.start > 0 && operation != "reset") {
            (false, _) => assert_eq!(window.0, before - before.rem_euclid(HOUR), "{said}"),
            (true, true) => assert_eq!(window.0, entry.start, "{said}"),
            (true, false) => assert!((before..=after).contains(&window.0), "{said}"),
        }
        let is_opened = used > 0 || entry.start > 0 && operation != "reset";
        *entry = Entry { start: if is_opened { window.0 } else { 0 }, used };

        // A look with cost 0 is answered like one with cost 1.
        let (fits, can_fit) = match operation {
            "add" => (used <= limit, units <= limit),
            _ => (used + units.max(1) <= limit, units.max(1) <= limit),
        };
        let is_verdict = !is_bare && ["add", "get"].contains(&operation);
        assert_eq!(answer["allowed"], if is_verdict { json!(fits) } else { Value::Null }, "{said}");
        assert_eq!(
            answer["remaining"],
            if is_bare { Value::Null } else { json!(limit.saturating_sub(used)) },
            "{said}"
        );
        let reset = answer["reset_after_ms"].as_i64().expect(&said);
        assert!((window.1 - after..=window.1 - before).contains(&reset), "{said}");
        let waits = is_verdict && !fits && can_fit;
        assert_eq!(answer["retry_after_ms"], if waits { json!(reset) } else { Value::Null }, "{said}");
    }
}

#[test]
fn random_operations_get_the_answers_of_a_ledger() {
    for seed in 1..=3 {
        play(&InMemory(Server::start(&["--limit", "5/1d", "--test-clock", "--caller-quotas"])), seed);
    }
    for (software, seed) in [(Software::Redis, 11), (Software::Valkey, 12)] {
        let store = servers::Settings::new(software).steered_clock().start();
        let server = serve(&store, "5/1d", OWN);
        play(&InServer(store, server), seed);
    }
}
