//! What a whole file would deny with another limit: the same as a replay of the file in which that limit is changed.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::fmt::Write as _;

use proptest::prelude::*;
use tollgate::Timestamp;
use tollgate_policy::Config;
use tollgate_simulate::{Basis, Curve, Hit, Options, Point, Replay, Report, Role};

/// An instant that is the start of a minute, and of no window of most of these quotas.
const START: i64 = 1_700_000_040_000;

const PATHS: [&str; 4] = ["/login", "/search", "/health", "/login/..%2fsearch"];

/// One request: milliseconds, address, user, path, and its cost.
#[derive(Debug, Clone, Copy)]
struct Request {
    millis: i64,
    ip: u8,
    user: u8,
    path: usize,
    cost: u32,
}

/// One quota: its limit, and what follows it in a file.
#[derive(Debug, Clone)]
struct Quota {
    limit: u64,
    rest: String,
}

#[derive(Debug, Clone)]
struct Policy {
    /// What precedes the quotas in a file, and what follows them.
    head: String,
    tail: String,
    quotas: Vec<Quota>,
}

/// How varied the policies are.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// One quota each, for requests of its own.
    Apart,
    /// Everything that a file can have.
    Any,
}

fn written(policies: &[Policy]) -> String {
    let mut text = "deny: { path: /health }\npolicies:\n".to_owned();
    for (number, Policy { head, tail, quotas }) in policies.iter().enumerate() {
        let quotas: Vec<String> =
            quotas.iter().map(|Quota { limit, rest }| format!("{limit}/{rest}")).collect();
        writeln!(text, "  - {{ name: p{number}, {head}, quotas: [{}]{tail} }}", quotas.join(", ")).unwrap();
    }
    text
}

fn replay(text: &str, requests: &[Request], rungs: usize) -> Report {
    let policies = Config::parse("test.yaml", text).unwrap_or_else(|error| panic!("{text}{error}"));
    let options = Options { rungs, ..Options::default() };
    let mut replay = Replay::new(policies.into_policies(), None, options).unwrap();
    let texts: Vec<[String; 3]> = requests
        .iter()
        .map(|request| {
            [format!("192.0.2.{}", request.ip), format!("u{}", request.user), request.cost.to_string()]
        })
        .collect();
    let hits = requests.iter().zip(&texts).map(|(request, [ip, user, cost])| {
        let user = (request.user > 0).then_some(("user", user.as_str()));
        let attributes = [("ip", ip.as_str()), ("path", PATHS[request.path]), ("units", cost)];
        Hit::new(Timestamp::from_unix_millis(request.millis), attributes.into_iter().chain(user).collect())
    });
    replay.requests(hits).unwrap();
    replay.report()
}

fn requests(paths: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Request>> {
    let request = (0_i64..60, 0_u8..5, 0_u8..4, paths, 1_u32..4);
    proptest::collection::vec(request, 1..120).prop_map(|requests| {
        let mut now = START;
        let timed = requests.into_iter().map(|(pause, ip, user, path, cost)| {
            // Several requests in one millisecond, and pauses of more than a window.
            now += if pause > 55 { pause * 3 } else { pause / 8 };
            Request { millis: now, ip, user, path, cost }
        });
        timed.collect()
    })
}

fn quota() -> impl Strategy<Value = Quota> {
    (1_u64..8, 5_i64..80, any::<bool>()).prop_map(|(limit, millis, is_first_hit)| {
        let anchor = if is_first_hit { "@first_hit" } else { "" };
        Quota { limit, rest: format!("{millis}ms{anchor}") }
    })
}

fn policies(kind: Kind) -> impl Strategy<Value = Vec<Policy>> {
    let quotas = proptest::collection::vec(quota(), 1..if kind == Kind::Apart { 2 } else { 3 });
    let policy = (0..4_usize, 0..4_usize, quotas, 0..6_usize);
    proptest::collection::vec(policy, 1..4).prop_map(move |policies| {
        let count = if kind == Kind::Apart { 2 } else { policies.len() };
        let policies = policies.into_iter().take(count).enumerate();
        let policies = policies.map(|(number, (matching, key, mut quotas, more))| {
            quotas.dedup_by(|one, other| one.rest == other.rest);
            let matching = if kind == Kind::Apart { number } else { matching };
            let matching = ["match: { path: /login }, ", "match: { path: /search }, ", ""][matching % 3];
            let key = ["[ip]", "[ip]", "[user]", "global"][key];
            let tail = match more {
                _ if kind == Kind::Apart => "",
                0 => ", cost: { attribute: units, max: 1000 }",
                1 => ", mode: shadow",
                2 => ", overrides: [{ when: { user: u1 }, quotas: [4/30ms] }]",
                3 => ", candidate: [2/20ms]",
                _ => "",
            };
            let missing = if key == "[user]" { ", on_missing_key: deny" } else { "" };
            Policy { head: format!("{matching}key: {key}"), tail: format!("{tail}{missing}"), quotas }
        });
        policies.collect()
    })
}

/// Compares each point of each quota of the file with a replay under its limit. Returns how many totals there were, of requests
/// and of clients.
fn check(policies: &[Policy], requests: &[Request]) -> Result<(usize, usize), TestCaseError> {
    let report = replay(&written(policies), requests, 3);
    let mut totals = (0, 0);
    for (number, policy) in policies.iter().enumerate() {
        let name = format!("p{number}");
        for of_role in report.policies.iter().filter(|report| report.policy == name) {
            let own = of_role.quotas.iter().filter(|quota| quota.of_override_in_line.is_none());
            let points = own.enumerate().flat_map(|(place, quota)| {
                quota.curve.points.iter().map(move |point| (place, point, &quota.curve))
            });
            for (place, point, curve) in points {
                if of_role.role != Role::Enforced {
                    prop_assert_eq!((point.total_denied, point.total_denied_clients), (None, None));
                    continue;
                }
                let mut changed = policies.to_vec();
                changed[number].quotas[place].limit = point.limit;
                let under = replay(&written(&changed), requests, 0);
                totals.0 += usize::from(point.total_denied.is_some());
                totals.1 += usize::from(point.total_denied_clients.is_some());
                is_of(point, curve, &under, policy)?;
            }
        }
    }
    Ok(totals)
}

fn is_of(point: &Point, curve: &Curve, under: &Report, policy: &Policy) -> Result<(), TestCaseError> {
    if let Some(total) = point.total_denied {
        prop_assert_eq!(total, under.denied, "{:?} of {:?}", point, policy);
    }
    if let Some(total) = point.total_denied_clients {
        prop_assert_eq!(total, under.denied_clients, "{:?} of {:?}", point, policy);
    }
    if curve.basis == Basis::Tried {
        prop_assert!(point.total_denied.is_some() && point.total_denied_clients.is_some());
    }
    Ok(())
}

proptest! {
    // Each case is dozens of replays.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    /// A row for another limit showed only that quota's own denials: 5, where a file with that limit denied 391.
    #[test]
    fn a_total_is_what_the_changed_file_denies(policies in policies(Kind::Any), requests in requests(0..PATHS.len())) {
        check(&policies, &requests)?;
    }

    /// Without a path that two policies match in its two readings, every point has a total, and those of policies that count
    /// the clients of the report have their clients too.
    #[test]
    fn a_calculated_total_is_what_the_changed_file_denies(policies in policies(Kind::Apart), requests in requests(0..3)) {
        let (of_requests, of_clients) = check(&policies, &requests)?;
        prop_assert!(of_requests > 0);
        if policies.iter().all(|policy| policy.head.ends_with("[ip]")) {
            prop_assert_eq!(of_clients, of_requests);
        }
    }
}

/// The reproduction: one policy for all requests, and one for some of them with a low limit.
#[test]
fn a_row_for_another_limit_has_the_denials_of_all_policies() {
    let text = |limit: u64| {
        format!(
            "policies:\n  - {{ name: all, key: [ip], quotas: [{limit}/1m] }}\n  \
               - {{ name: login, match: {{ path: /login }}, key: [ip], quotas: [3/1m] }}\n"
        )
    };
    let requests: Vec<Request> = (0..600)
        .map(|number| Request {
            millis: START + i64::from(number) * 100,
            ip: (number % 20) as u8,
            user: 0,
            path: usize::from(number % 3 != 0),
            cost: 1,
        })
        .collect();
    let report = replay(&text(20), &requests, 12);
    let curve = &report.policies[0].quotas[0].curve;
    let point = curve.at(100).unwrap();
    let under = replay(&text(100), &requests, 0);
    assert_eq!((point.denied, point.total_denied), (0, Some(under.denied)));
    assert!(under.denied > 0 && point.total_denied_clients == Some(under.denied_clients));
    let today = curve.at(20).unwrap();
    assert_eq!(
        (today.total_denied, today.total_denied_clients),
        (Some(report.denied), Some(report.denied_clients))
    );
    assert!(today.denied > 0 && today.total_denied > Some(today.denied));
}
