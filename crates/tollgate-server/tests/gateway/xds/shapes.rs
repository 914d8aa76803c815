//! Rules of every shape that the translator generates, decided through Envoy and by a naive reading.

use std::net::{Ipv4Addr, SocketAddr};

use crate::free_address;
use crate::support::folder::Folder;
use crate::support::{Connection, Reply, until};
use crate::upstream::Upstream;
use crate::xds::control_plane::ControlPlane;
use crate::xds::front::{self, Neighbours};
use crate::xds::reading::{ClientRequest, Reading};
use crate::xds::rules::Condition::{Address, Header, Method, Path, Query};
use crate::xds::rules::ValueMatch::{Distinct, Exact, Not, Numbered};
use crate::xds::rules::{self, Condition, Cost, Listener, Route, Rule};
use crate::xds::start;

const REQUESTS: usize = 3_000;

const USER: &str = "x-user-id";
const ORG: &str = "x-org-id";

const fn within(range: &'static str) -> Condition {
    Address { range, is_inverted: false, is_distinct: false }
}

const fn each_within(range: &'static str) -> Condition {
    Address { range, is_inverted: false, is_distinct: true }
}

const fn outside(range: &'static str) -> Condition {
    Address { range, is_inverted: true, is_distinct: false }
}

/// A shared rule of a policy, which several routes and listeners have.
fn shared_by_user() -> Rule {
    Rule::new(9, [Header(USER, Distinct)]).shared("eg/policy-1/rule/0")
}

fn first_listener() -> Listener {
    let route = |name, rules| Route { name, rules };
    let routes = vec![
        route("all", vec![Rule::new(20, [])]),
        route(
            "headers",
            vec![
                Rule::new(5, [Header(USER, Exact("one")), Header(ORG, Not("admin"))]),
                Rule::new(3, [Header(USER, Distinct)]),
                Rule::new(4, [Header(ORG, Numbered("org-"))]),
                Rule::new(u32::MAX, [Header(ORG, Exact("admin"))]),
                Rule::new(0, [Header(USER, Exact("two")), Header(ORG, Exact("org-7"))]),
            ],
        ),
        route("methods", vec![Rule::new(6, [Method(&["GET", "PUT"])]), Rule::new(4, [Method(&["POST"])])]),
        route(
            "paths",
            vec![Rule::new(4, [Path(Exact("/paths/a"))]), Rule::new(5, [Path(Numbered("/paths/"))])],
        ),
        route(
            "addresses",
            vec![
                Rule::new(10, [within("192.168.0.0/16")]),
                Rule::new(3, [each_within("10.0.0.0/8")]),
                Rule::new(6, [outside("192.168.0.0/16")]),
                Rule::new(2, [within("192.168.0.10/32")]),
            ],
        ),
        route(
            "admins",
            vec![
                Rule::new(
                    3,
                    [Header(USER, Exact("one")), Header(ORG, Numbered("org-")), Header("x-cost", Not("0"))],
                )
                .shadow(),
                Rule::new(
                    4,
                    [
                        Header(USER, Not("one")),
                        Header(ORG, Exact("admin")),
                        Header("x-cost", Numbered("")),
                        within("192.168.0.0/16"),
                    ],
                ),
                Rule::new(2, [Header(ORG, Exact("admin"))]).shared("eg/policy-2/rule/1"),
            ],
        ),
        route("same-address", vec![Rule::new(4, [within("192.168.0.10/32")])]),
        route(
            "queries",
            vec![
                Rule::new(4, [Query("user", Exact("alice"))]),
                Rule::new(3, [Query("user", Distinct), Query("page", Not("1"))]),
                Rule::new(5, [Query("page", Numbered(""))]),
            ],
        ),
        route(
            "everything",
            vec![
                Rule::new(
                    2,
                    [
                        Header(USER, Exact("one")),
                        Header(ORG, Distinct),
                        Method(&["GET", "POST"]),
                        Path(Not("/everything/a")),
                        each_within("0.0.0.0/0"),
                        Query("page", Exact("1")),
                    ],
                ),
                Rule::new(
                    1,
                    [
                        Header(USER, Not("one")),
                        Header(ORG, Not("admin")),
                        Header("x-cost", Exact("7")),
                        Method(&["PUT"]),
                        Path(Numbered("/everything/")),
                        within("10.0.0.0/8"),
                    ],
                ),
            ],
        ),
        route(
            "shadow",
            vec![
                Rule::new(
                    1,
                    [
                        Header(USER, Exact("one")),
                        Header(ORG, Not("admin")),
                        Header("x-cost", Exact("1")),
                        within("0.0.0.0/0"),
                    ],
                )
                .shadow(),
                Rule::new(3, [Header(USER, Distinct)]).shadow(),
                Rule::new(8, [Header(ORG, Distinct)]),
            ],
        ),
        route("costs", vec![Rule::new(30, []).costing(Cost::FromRequest), fixed_cost()]),
        route(
            "shared",
            vec![
                Rule::new(7, [Header(ORG, Exact("admin"))]),
                shared_by_user(),
                Rule::new(5, [Header(ORG, Distinct)]),
                Rule::new(12, [within("10.0.0.0/8")]).shared("eg/policy-1/rule/1"),
                Rule::new(25, []).shared("eg/policy-2/rule/0"),
            ],
        ),
        route("only-shared", vec![shared_by_user()]),
        route("unlimited", vec![]),
    ];
    Listener { name: "default/eg/http", routes }
}

fn fixed_cost() -> Rule {
    Rule::new(16, [Method(&["GET"])]).costing(Cost::Fixed(5))
}

/// Has routes of the same names, whose own limits count apart.
fn second_listener() -> Listener {
    let rules = vec![Rule::new(7, []), shared_by_user(), Rule::new(2, [Header(USER, Exact("three"))])];
    let routes = vec![
        Route { name: "all", rules: vec![Rule::new(15, [])] },
        Route { name: "shared", rules },
        Route { name: "only-shared", rules: vec![shared_by_user()] },
    ];
    Listener { name: "default/eg/other", routes }
}

pub(crate) fn send(address: SocketAddr, request: &ClientRequest) -> Reply {
    let headers: String =
        request.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let (method, target, from) = (request.method, request.target(), request.address);
    let text = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {from}\r\n{headers}\
         Content-Length: 0\r\n\r\n"
    );
    Connection::open(address).ask(text.as_bytes())
}

/// A random request for one of these routes.
fn random(random: &mut fastrand::Rng, listener: &Listener) -> ClientRequest {
    fn one<T: Copy>(random: &mut fastrand::Rng, all: &[T]) -> T {
        all[random.usize(..all.len())]
    }
    let route = listener.routes[random.usize(..listener.routes.len())].name;
    let method = one(random, &["GET", "POST", "PUT", "DELETE"]);
    let path = format!("/{route}{}", one(random, &["/a", "/1", "/22", "/", ""]));
    let user = one(random, &[None, Some("one"), Some("two"), Some("three"), Some("")]);
    let org = one(random, &[None, Some("admin"), Some("org-7"), Some("org-"), Some("other")]);
    let headers = user.map(|user| (USER, user)).into_iter().chain(org.map(|org| (ORG, org)));
    let cost = one(random, &["0", "1", "2", "7"]);
    let headers = headers.chain([("x-cost", cost)]).collect();
    let user = one(random, &[None, Some("alice"), Some("bob")]);
    let page = one(random, &[None, Some("1"), Some("2"), Some("x")]);
    let query = user.map(|user| ("user", user)).into_iter().chain(page.map(|page| ("page", page)));
    let address = one(random, &["192.168.0.10", "192.168.7.7", "10.0.0.1", "10.0.0.2", "172.16.0.1"]);
    let address: Ipv4Addr = address.parse().expect("an address");
    ClientRequest { method, path, headers, query: query.collect(), address }
}

#[test]
#[ignore = "it needs Envoy and go-control-plane, which `cargo xtask prove xds` builds"]
fn prove_rules_of_every_shape_decide_as_they_read() {
    let (folder, upstream) = (Folder::new(), Upstream::start());
    let (limiter, addresses) = (free_address(), [free_address(), free_address()]);
    let mut plane = ControlPlane::start(free_address());
    let _server = start(plane.address, limiter, &[], &[]);
    let listeners = [first_listener(), second_listener()];
    plane.apply("1", &rules::domains(&listeners));
    let listeners: Vec<_> = listeners.into_iter().zip(addresses).collect();
    let neighbours = Neighbours { limiter, upstream: upstream.address, tls: None };
    let _envoy = front::start(&folder, &listeners, neighbours);

    let seed = std::env::var("TOLLGATE_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let (mut numbers, mut reading) = (fastrand::Rng::with_seed(seed), Reading::default());
    let mut denials = 0;
    for number in 0..REQUESTS {
        let (listener, address) = &listeners[usize::from(numbers.u8(..4) == 0)];
        let request = random(&mut numbers, listener);
        let expected = reading.decide(listener, &request);
        let reply = send(*address, &request);
        let story = format!("seed {seed}, request {number} of {}: {request:?}", listener.name);
        assert_eq!(reply.status, expected.status, "{story}");
        if let Some(left) = expected.remaining {
            let told = reply.header("x-ratelimit-remaining").and_then(|told| told.parse().ok());
            assert_eq!(told, Some(left), "{story}");
        }
        denials += usize::from(expected.status == 429);
    }
    assert!((REQUESTS / 5..REQUESTS * 4 / 5).contains(&denials), "{denials} denials");
    println!("RESULT prove/xds/shapes requests={REQUESTS} denials={denials} violations=0");
}

/// Envoy shows the limit with the length of its window in seconds.
#[test]
#[ignore = "it needs Envoy and go-control-plane, which `cargo xtask prove xds` builds"]
fn prove_units_are_those_of_the_set() {
    let (folder, upstream) = (Folder::new(), Upstream::start());
    let (limiter, address) = (free_address(), free_address());
    let units = [
        ("second", "SECOND", 1),
        ("minute", "MINUTE", 60),
        ("hour", "HOUR", 3_600),
        ("day", "DAY", 86_400),
        ("week", "WEEK", 604_800),
        ("month", "MONTH", 2_592_000),
        ("year", "YEAR", 31_536_000),
    ];
    let route = |(name, unit, _)| Route { name, rules: vec![Rule::new(100, []).per(unit)] };
    let listener = Listener { name: "default/eg/http", routes: units.map(route).into() };
    let mut plane = ControlPlane::start(free_address());
    let _server = start(plane.address, limiter, &[], &[]);
    let listeners = [(listener, address)];
    plane.apply("1", &rules::domains([&listeners[0].0]));
    let neighbours = Neighbours { limiter, upstream: upstream.address, tls: None };
    let _envoy = front::start(&folder, &listeners, neighbours);
    for (name, _, seconds) in units {
        let path = format!("/{name}");
        let from = Ipv4Addr::LOCALHOST;
        let request = ClientRequest { method: "GET", path, headers: vec![], query: vec![], address: from };
        let reply = send(address, &request);
        let told = reply.header("x-ratelimit-limit").expect("a limit");
        assert!(told.starts_with(&format!("100, 100;w={seconds}")), "{name}: {told}");
    }
    println!("RESULT prove/xds/units violations=0");
}

/// The tokens of an answer are charged when its stream ends, although the set cannot ask for an overdraft.
#[test]
#[ignore = "it needs Envoy and go-control-plane, which `cargo xtask prove xds` builds"]
fn prove_answers_are_charged_beyond_the_limit() {
    let (folder, upstream) = (Folder::new(), Upstream::start());
    let (limiter, address) = (free_address(), free_address());
    let rule = Rule::new(10, [Header(USER, Distinct)]).costing(Cost::FromAnswer);
    let listener =
        Listener { name: "default/eg/http", routes: vec![Route { name: "tokens", rules: vec![rule] }] };
    let listeners = [(listener, address)];
    let mut plane = ControlPlane::start(free_address());
    let server = start(plane.address, limiter, &[], &[]);
    plane.apply("1", &rules::domains([&listeners[0].0]));
    let neighbours = Neighbours { limiter, upstream: upstream.address, tls: None };
    let _envoy = front::start(&folder, &listeners, neighbours);
    let ask = || {
        let request = format!("GET /tokens HTTP/1.1\r\nHost: localhost\r\n{USER}: alice\r\n\r\n");
        let reply = Connection::open(address).ask(request.as_bytes());
        let left = reply.header("x-ratelimit-remaining").map(str::to_owned);
        (reply.status, left.expect("what is left"))
    };
    let decisions = || {
        let name = "tollgate_domain_decisions_total";
        let of = |verdict: &str| {
            server.metric(&format!("{name}{{domain=\"default/eg/http\",verdict=\"{verdict}\"}}"))
        };
        let all = [of("allowed"), of("denied")].map(|count| count.unwrap_or(0.0));
        all.iter().sum::<f64>()
    };
    // 1 for each request, and 7 for each answer.
    for (number, expected) in [(200, "9"), (200, "1"), (429, "0")].into_iter().enumerate() {
        assert_eq!(ask(), (expected.0, expected.1.to_owned()), "request {number}");
        if expected.0 == 200 {
            until("the stream's charge", || decisions() >= (2 * number + 2) as f64);
        }
    }
    println!("RESULT prove/xds/answers violations=0");
}
