//! Routes, the busiest clients, and limits for routes, without policies: against a small computation of its own.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use jiff::tz::TimeZone;
use tollgate::Timestamp;
use tollgate_policy::{Identity, Policies};
use tollgate_simulate::suggest::{Per, Suggestion, Survey, SurveyOptions};
use tollgate_simulate::{CheckedReport, Classes, Hit, Options, Replay, Report};

/// 2026-11-23 00:00 UTC, a Monday.
const MONDAY: i64 = 1_795_392_000_000;

/// A request: milliseconds since Monday, the number of its client, method, path, route, status.
struct Visit {
    millis: i64,
    client: u32,
    method: &'static str,
    path: String,
    /// The route that a person would name.
    route: &'static str,
    status: u16,
}

fn report(requests: &[Visit]) -> Report {
    let options = Options { routes: true, ..Options::default() };
    let mut replay = Replay::new(Policies::of([]).unwrap(), None, options).unwrap();
    let names: Vec<String> = requests.iter().map(|asked| name(asked.client)).collect();
    let hits = requests.iter().zip(&names).map(|(asked, name)| Hit {
        status: Some(asked.status),
        user_agent: Some(b"Mozilla/5.0"),
        method: Some(asked.method.as_bytes()),
        path: Some(asked.path.as_bytes()),
        ..Hit::new(
            Timestamp::from_unix_millis(MONDAY + asked.millis),
            [("ip", name.as_str())].into_iter().collect(),
        )
    });
    replay.requests(hits).unwrap();
    replay.report()
}

fn name(client: u32) -> String {
    std::net::Ipv4Addr::from_bits(0x0a00_0000 + client).to_string()
}

/// A week of a shop, whose busy clients ask for much more than others.
fn shop(seed: u64, clients: u32) -> Vec<Visit> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut requests = Vec::new();
    for client in 0..clients {
        for _ in 0..random.u32(1..4) {
            let start = random.i64(0..7 * 86_400_000);
            let most = (1.0 / random.f64().max(0.005)) as i64;
            for place in 0..most {
                let (method, path, route, status) = match random.u32(0..10) {
                    0 => {
                        ("POST", "/login".to_owned(), "/login", if random.u8(0..4) == 0 { 401 } else { 200 })
                    }
                    1..4 => ("GET", format!("/users/{}", random.u32(1..90_000)), "/users/{id}", 200),
                    4..6 => (
                        "GET",
                        format!("/items/{:032x}/reviews", random.u128(..)),
                        "/items/{id}/reviews",
                        200,
                    ),
                    6 => (
                        "GET",
                        format!("/api/v1/name-{}", words(random.u32(0..2_000))),
                        "/api/v1/{name}",
                        200,
                    ),
                    7 => ("GET", format!("/{}.php", words(random.u32(0..3_000))), "/{not found}", 404),
                    _ => ("GET", "/".to_owned(), "/", 200),
                };
                let millis = start + place * random.i64(50..4_000);
                requests.push(Visit { millis, client, method, path, route, status });
            }
        }
    }
    requests.sort_by_key(|asked| asked.millis);
    requests
}

/// A word for each number.
fn words(number: u32) -> String {
    const SYLLABLES: [&str; 16] =
        ["ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "wa"];
    [number / 256, number / 16, number].map(|digit| SYLLABLES[digit as usize % 16]).concat()
}

#[test]
fn figures_of_routes_are_those_of_a_count_by_hand() {
    let requests = shop(1, 600);
    let report = report(&requests);
    assert_eq!(report.requests, requests.len() as u64);
    let mut expected: BTreeMap<(&str, &str), Vec<&Visit>> = BTreeMap::new();
    requests.iter().for_each(|asked| expected.entry((asked.method, asked.route)).or_default().push(asked));
    let found: BTreeSet<(&str, &str)> =
        report.routes.iter().map(|route| (route.method.as_deref().unwrap(), route.route.as_str())).collect();
    assert_eq!(found, expected.keys().copied().collect());
    for route in &report.routes {
        let visits = &expected[&(route.method.as_deref().unwrap(), route.route.as_str())];
        let clients: BTreeSet<u32> = visits.iter().map(|asked| asked.client).collect();
        assert_eq!((route.requests, route.clients), (visits.len() as u64, clients.len() as u64));
        for (length, busiest) in [(1_000, &route.busiest_second), (60_000, &route.busiest_minute)] {
            let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
            visits.iter().for_each(|asked| *counts.entry(asked.millis / length).or_default() += 1);
            assert_eq!(busiest.as_ref().unwrap().requests, *counts.values().max().unwrap());
        }
        let failed = visits.iter().filter(|asked| asked.status / 100 == 4).count() as u64;
        let said = route.statuses.iter().find(|count| count.class == "4xx");
        assert_eq!(said.map_or(0, |count| count.requests), failed);
    }
    assert!(report.routes.is_sorted_by(|one, next| one.requests >= next.requests));
}

/// What `suggest --match` says of the requests of a route.
fn suggestion(visits: &[&Visit]) -> Suggestion {
    let mut survey = Survey::new(SurveyOptions {
        identity: Identity::of_word("ip").unwrap(),
        window: "1/1m".parse().unwrap(),
        companion: None,
        budget: 0.001,
        budget_per: Per::Client,
        max_clients: NonZeroUsize::new(1_000_000).unwrap(),
        matching: Classes::default(),
        conditions: None,
        known: Classes::default(),
        zone: TimeZone::UTC,
    });
    for asked in visits {
        let name = name(asked.client);
        let attributes = [("ip", name.as_str())].into_iter().collect();
        survey.request(&Hit::new(Timestamp::from_unix_millis(MONDAY + asked.millis), attributes));
    }
    survey.suggest()
}

/// The limits are those that `suggest` gives for the requests of each route alone, and their effect is counted by hand.
#[test]
fn limits_of_routes_are_those_of_suggest_and_deny_what_they_say() {
    let mut requests = shop(3, 3_000);
    // On the last day, one client asks for much more than all before.
    requests.extend((0..150).map(|place| Visit {
        millis: 6 * 86_400_000 + 3_600_000 + place * 300,
        client: 1_000_000,
        method: "GET",
        path: "/".to_owned(),
        route: "/",
        status: 200,
    }));
    requests.sort_by_key(|asked| asked.millis);
    let report = report(&requests);
    let mut with_limit = 0;
    for route in &report.routes {
        let visits: Vec<&Visit> = requests
            .iter()
            .filter(|asked| asked.route == route.route && Some(asked.method) == route.method.as_deref())
            .collect();
        let expected = suggestion(&visits).quota;
        let Some(suggested) = &route.suggested else { panic!("{}", route.route) };
        assert_eq!((Some(suggested.limit), Some(suggested.budget)), (expected.limit, expected.proven_budget));
        assert_eq!(
            (suggested.fitted_clients, suggested.held_out),
            (expected.fitted_clients, expected.held_out)
        );
        // No limit above the least that so many clients prove: with 95 % confidence, one of them would exceed it.
        let one_in = (1.0 / suggested.budget).round();
        assert!((1.0 - 1.0 / one_in).powf(suggested.fitted_clients as f64) <= 0.05);
        let mut minutes: BTreeMap<(u32, i64), u64> = BTreeMap::new();
        visits
            .iter()
            .for_each(|asked| *minutes.entry((asked.client, asked.millis / 60_000)).or_default() += 1);
        let above = minutes.iter().filter(|(_, asked)| **asked > suggested.limit);
        let denied: u64 = above.clone().map(|(_, asked)| asked - suggested.limit).sum();
        let denied_clients: BTreeSet<u32> = above.map(|((client, _), _)| *client).collect();
        assert_eq!((suggested.denied, suggested.denied_clients), (denied, denied_clients.len() as u64));
        with_limit += u64::from(denied > 0);
    }
    assert!(report.routes.len() == 6 && with_limit > 0, "{:?}", report.routes);
}

#[test]
fn every_form_of_the_report_shows_the_routes() {
    let answer = CheckedReport::new(report(&shop(4, 100)), Vec::new());
    let markdown = answer.markdown();
    assert!(markdown.contains("| `GET /users/{id}` | ") && !markdown.contains("| policy |"), "{markdown}");
    for said in [answer.to_string(), answer.json(), answer.html()] {
        assert!(said.contains("/users/{id}"), "{said}");
    }
}

#[test]
fn the_busiest_clients_are_those_with_most_requests() {
    for seed in 0..20 {
        let requests = shop(seed, 100);
        let report = report(&requests);
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        requests.iter().for_each(|asked| *counts.entry(asked.client).or_default() += 1);
        let mut most: Vec<u64> = counts.values().copied().collect();
        most.sort_unstable_by(|a, b| b.cmp(a));
        most.truncate(20);
        let found: Vec<u64> = report.busiest_clients.iter().map(|client| client.requests).collect();
        assert_eq!(found, most, "{seed}");
        for busy in &report.busiest_clients {
            let client = (0..100).find(|client| busy.client == format!("ip={}", name(*client))).unwrap();
            assert_eq!(counts[&client], busy.requests);
        }
    }
}

/// The client's digest stood next to a route that named it.
#[test]
fn clients_in_routes_are_hidden_with_their_names() {
    for (client, max_clients) in [("user", 1_000), ("user", 100), ("[user, ip]", 1_000)] {
        let identity = match client {
            "user" => Identity::of_word("user").unwrap(),
            _ => Identity::of_list(["user", "ip"].map(|word| Identity::of_word(word).unwrap()).into()),
        };
        let options = Options {
            routes: true,
            client: identity,
            max_clients: NonZeroUsize::new(max_clients).unwrap(),
            ..Options::default()
        };
        let mut replay = Replay::new(Policies::of([]).unwrap(), None, options).unwrap();
        for number in 0..400 {
            // Of several attributes, only the busiest clients are known by each.
            let user = words(if client == "user" { number % 90 } else { number % 15 });
            let path = format!("/users/{user}/items");
            let attributes = [("user", user.as_str()), ("ip", "192.0.2.1")].into_iter().collect();
            let time = Timestamp::from_unix_millis(MONDAY + i64::from(number) * 1_000);
            replay.request(Hit { path: Some(path.as_bytes()), ..Hit::new(time, attributes) }).unwrap();
            // More clients than are followed.
            let other = format!("other-{number}");
            let attributes = [("user", other.as_str()), ("ip", "192.0.2.1")].into_iter().collect();
            replay.request(Hit { path: Some(b"/"), ..Hit::new(time, attributes) }).unwrap();
        }
        let mut report = replay.report();
        assert!(report.routes.iter().any(|route| route.route == "/users/bababa/items"));
        report.hide_keys();
        let routes: Vec<&str> = report.routes.iter().map(|route| route.route.as_str()).collect();
        for route in &routes {
            assert!(*route == "/" || route.starts_with("/users/client-"), "{client}: {route}");
        }
    }
}

/// Four addresses tried passwords, and the limit that the report suggested let all of it through, without a mark.
#[test]
fn a_limit_that_an_attack_sets_has_a_note() {
    let shop = shop(5, 3_000);
    let attack = (0..4).flat_map(|client| {
        (0..250).map(move |place| Visit {
            millis: 2 * 86_400_000 + place * 300,
            client: 2_000_000 + client,
            method: "POST",
            path: "/attacked".to_owned(),
            route: "/attacked",
            status: 401,
        })
    });
    let usual = (0..3_000).map(|client| Visit {
        millis: i64::from(client) * 200_000,
        client,
        method: "POST",
        path: "/attacked".to_owned(),
        route: "/attacked",
        status: 200,
    });
    let mut requests: Vec<Visit> = shop.into_iter().chain(attack).chain(usual).collect();
    requests.sort_by_key(|asked| asked.millis);
    let answer = CheckedReport::new(report(&requests), Vec::new());
    let set_by = |route: &tollgate_simulate::RouteReport| route.suggested.as_ref().unwrap().set_by.clone();
    for route in &answer.report.routes {
        assert_eq!(set_by(route).is_some(), route.route == "/attacked", "{route:?}");
    }
    let attacked = answer.report.routes.iter().find(|route| route.route == "/attacked").unwrap();
    let set_by = set_by(attacked).unwrap();
    assert_eq!((set_by.clients, set_by.requests, set_by.failed, set_by.limit_without), (4, 1_000, 1_000, 1));
    let remark = "set by 4 clients with 100 % errors; without them 1/1m";
    for said in [answer.to_string(), answer.markdown(), answer.html()] {
        assert!(said.contains(remark), "{said}");
    }
}
