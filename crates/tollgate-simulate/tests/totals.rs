//! What a whole file would deny with another limit: the same as a replay of the file in which that limit is changed.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::fmt::Write as _;

use proptest::prelude::*;
use tollgate::Timestamp;
use tollgate_policy::Config;
use tollgate_simulate::{Basis, Curve, Hit, Options, Point, Replay, Report, Role};

/// An instant that is the start of a minute, and of no window of most of these quotas.
const START: i64 = 1_700_000_040_000;

/// The last one is read twice, as it was sent and as `/search`: it is one of those below `/login/` too.
const PATHS: [&str; 4] = ["/login/now", "/search", "/health", "/login/..%2fsearch"];

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
    candidates: Vec<Quota>,
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
    let list = |quotas: &[Quota]| {
        let quotas: Vec<String> =
            quotas.iter().map(|Quota { limit, rest }| format!("{limit}/{rest}")).collect();
        quotas.join(", ")
    };
    let mut text = "deny: { path: /health }\npolicies:\n".to_owned();
    for (number, Policy { head, tail, quotas, candidates }) in policies.iter().enumerate() {
        let candidate = match candidates.as_slice() {
            [] => String::new(),
            candidates => format!(", candidate: [{}]", list(candidates)),
        };
        let quotas = list(quotas);
        writeln!(text, "  - {{ name: p{number}, {head}, quotas: [{quotas}]{candidate}{tail} }}").unwrap();
    }
    text
}

fn replay(text: &str, requests: &[Request], rungs: usize, max_clients: usize) -> Report {
    let policies = Config::parse("test.yaml", text).unwrap_or_else(|error| panic!("{text}{error}"));
    let options = Options { rungs, max_clients: max_clients.try_into().unwrap(), ..Options::default() };
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
            // Several requests in one millisecond, pauses of more than a window, and requests that are logged late.
            now += if pause > 55 { pause * 3 } else { pause / 8 };
            Request { millis: if pause == 20 { now - 15 } else { now }, ip, user, path, cost }
        });
        timed.collect()
    })
}

fn quota() -> impl Strategy<Value = Quota> {
    (1_u64..8, 5_i64..80, 0_usize..8).prop_map(|(limit, millis, anchor)| {
        let rest = match anchor {
            0..3 => format!("{millis}ms"),
            3..5 => format!("{millis}ms@first_hit"),
            5..7 => format!("{millis}ms@staggered"),
            _ => "day@Europe/Berlin".to_owned(),
        };
        Quota { limit, rest }
    })
}

fn quotas(range: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Quota>> {
    proptest::collection::vec(quota(), range).prop_map(|mut quotas| {
        quotas.dedup_by(|one, other| one.rest == other.rest);
        quotas
    })
}

fn policies(kind: Kind) -> impl Strategy<Value = Vec<Policy>> {
    let (most, tried) = if kind == Kind::Apart { (2, 1) } else { (3, 3) };
    let policy = (0..4_usize, 0..4_usize, quotas(1..most), quotas(0..tried), 0..8_usize);
    proptest::collection::vec(policy, 1..4).prop_map(move |policies| {
        let count = if kind == Kind::Apart { 2 } else { policies.len() };
        let policies = policies.into_iter().take(count).enumerate();
        let policies = policies.map(|(number, (matching, key, quotas, candidates, more))| {
            let matching = if kind == Kind::Apart { number } else { matching };
            let matching = ["match: { path: /login/* }, ", "match: { path: /search }, ", ""][matching % 3];
            let key = ["[ip]", "[ip]", "[user]", "global"][key];
            let tail = match more {
                _ if kind == Kind::Apart => "",
                0 => ", cost: { attribute: units, max: 1000 }",
                1 => ", mode: shadow",
                // The window of one of them may be that of the quota.
                2 => ", overrides: [{ when: { user: u1 }, quotas: [4/30ms] }, { when: { path: /login/* }, quotas: [3/day@Europe/Berlin] }]",
                3 => ", count_denied: true, cost: { attribute: units, max: 1000 }",
                4 => ", overdraft: true, cost: { attribute: units, max: 1000 }",
                _ => "",
            };
            let missing = if key == "[user]" { ", on_missing_key: deny" } else { "" };
            let tail = format!("{tail}{missing}");
            Policy { head: format!("{matching}key: {key}"), tail, quotas, candidates }
        });
        policies.collect()
    })
}

/// Compares each point of each quota of the file with a replay under its limit. Returns how many totals there were,
/// of requests and of clients.
fn check(
    policies: &[Policy],
    requests: &[Request],
    max_clients: usize,
) -> Result<(usize, usize), TestCaseError> {
    let report = replay(&written(policies), requests, 3, max_clients);
    let mut totals = (0, 0);
    for (policy_index, policy_report) in report.policies.iter().enumerate() {
        let Some(number) =
            policy_report.policy.strip_prefix('p').and_then(|number| number.parse::<usize>().ok())
        else {
            continue;
        };
        let own = policy_report.quotas.iter().filter(|quota| quota.of_override_in_line.is_none());
        let points = own.enumerate().flat_map(|(place, quota)| {
            quota.curve.points.iter().map(move |point| (place, point, &quota.curve))
        });
        for (place, point, curve) in points {
            let mut changed = policies.to_vec();
            let Policy { quotas, candidates, .. } = &mut changed[number];
            let list = if policy_report.role == Role::Candidate { candidates } else { quotas };
            list[place].limit = point.limit;
            let under = replay(&written(&changed), requests, 0, max_clients);
            totals.0 += usize::from(point.total_denied.is_some());
            totals.1 += usize::from(point.total_denied_clients.is_some());
            let replayed = under.policies[policy_index].quotas[place].curve.at(point.limit).unwrap();
            is_of(point, curve, policy_report.role, &under, replayed)?;
        }
    }
    Ok(totals)
}

/// The point is replayed's of a file with its limit.
fn is_of(
    point: &Point,
    curve: &Curve,
    role: Role,
    under: &Report,
    replayed: Point,
) -> Result<(), TestCaseError> {
    let is_sample = under.one_client_in > 1 || under.policies.iter().any(|policy| policy.one_client_in > 1);
    if curve.basis == Basis::Tried || !is_sample {
        prop_assert_eq!(point.denied, replayed.denied, "{:?} of {:?}", point, curve);
        prop_assert!(
            point.total_denied.is_none_or(|total| total == under.denied),
            "{:?} {}",
            point,
            under.denied
        );
    }
    prop_assert_eq!(point.denied_clients, replayed.denied_clients, "{:?} of {:?}", point, curve);
    if let Some(clients) = point.total_denied_clients {
        prop_assert_eq!(clients, under.denied_clients, "{:?} of {:?}", point, curve);
    }
    if curve.basis == Basis::Tried {
        let has_total = role == Role::Enforced;
        prop_assert_eq!(
            (point.total_denied.is_some(), point.total_denied_clients.is_some()),
            (has_total, has_total)
        );
    }
    Ok(())
}

proptest! {
    // Each case is dozens of replays.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    /// A row for another limit showed only that quota's own denials: 5, where a file with that limit denied 391.
    #[test]
    fn a_point_is_what_the_changed_file_denies(
        policies in policies(Kind::Any),
        requests in requests(0..PATHS.len()),
        max_clients in prop::sample::select(&[1_000, 2, 3][..]),
    ) {
        check(&policies, &requests, max_clients)?;
    }

    /// Without a path that two policies match in its two readings, every point has a total, and those of policies
    /// that count the clients of the report have their clients too.
    #[test]
    fn a_calculated_total_is_what_the_changed_file_denies(policies in policies(Kind::Apart), requests in requests(0..3)) {
        let (with_totals, with_client_totals) = check(&policies, &requests, 1_000)?;
        prop_assert!(with_totals > 0);
        if policies.iter().all(|policy| policy.head.ends_with("[ip]")) {
            prop_assert_eq!(with_client_totals, with_totals);
        }
    }
}

/// Two policies that seem to be apart meet in a path that has two readings. What one denies is no charge of the other,
/// so its windows do not show what other limits deny: the row for 3 said 10, and the file with 3 denied 11.
#[test]
fn policies_that_meet_in_one_request_have_no_other_limits() {
    let policy = |matching: &str, limit, rest: &str, tail: &str| Policy {
        head: format!("match: {{ path: {matching} }}, key: [ip]"),
        tail: tail.to_owned(),
        quotas: vec![Quota { limit, rest: rest.to_owned() }],
        candidates: Vec::new(),
    };
    let requests = |paths: &[usize]| -> Vec<Request> {
        let request = |(second, path): (i64, &usize)| Request {
            millis: START + second,
            ip: 1,
            user: 0,
            path: *path,
            cost: 1,
        };
        (0..).zip(paths.iter().cycle().take(40)).map(request).collect()
    };
    for (rest, other_rest, tail) in
        [("1m", "1m", ""), ("23ms@first_hit", "15ms", ""), ("1m", "23ms", ", mode: shadow")]
    {
        let policies = [policy("/login/*", 2, rest, ""), policy("/search", 3, other_rest, tail)];
        let totals = |paths: &[usize]| check(&policies, &requests(paths), 1_000).unwrap();
        let (apart_totals, met_totals) = (totals(&[0, 1]), totals(&[0, 1, 3]));
        assert!(apart_totals.0 > 2 && apart_totals.0 == apart_totals.1, "{apart_totals:?}");
        // One that decides is not changed by one on trial.
        let is_trial = !tail.is_empty();
        assert!(if is_trial { met_totals.0 > 2 } else { met_totals == (2, 2) }, "{met_totals:?}");
        let report = replay(&written(&policies), &requests(&[0, 1, 3]), 3, 1_000);
        let rows: Vec<(usize, usize)> = report.policies[1..]
            .iter()
            .map(|policy| (policy.quotas[0].curve.points.len(), policy.quotas[0].kinds.len()))
            .collect();
        assert_eq!(rows[1], (1, 0), "its own limit");
        assert!((rows[0] == (1, 0)) != is_trial, "{rows:?}");
        let note = "such as the path `/a/..%2fb` with its two readings: ";
        let notes: Vec<String> = report.notes.iter().map(ToString::to_string).collect();
        let named = notes.iter().find_map(|said| said.split_once(note)).expect("a note").1;
        let expected =
            if is_trial { "`p1 (shadow)` (13 requests)." } else { "`p0` (13 requests), `p1` (13 requests)." };
        assert_eq!(named, expected);
    }
}

/// Of two lists that apply to the readings of a path, the stricter one decides; which one that is, depends on the
/// limit.
#[test]
fn a_tried_limit_may_be_less_strict_than_that_of_an_override() {
    let policies = [Policy {
        head: "key: [ip]".to_owned(),
        tail: ", overrides: [{ when: { path: /login/* }, quotas: [5/1m] }]".to_owned(),
        quotas: vec![Quota { limit: 4, rest: "1m".to_owned() }],
        candidates: Vec::new(),
    }];
    let requests: Vec<Request> =
        (0..20).map(|number| Request { millis: START + number, ip: 1, user: 0, path: 3, cost: 1 }).collect();
    check(&policies, &requests, 1_000).unwrap();
    let report = replay(&written(&policies), &requests, 3, 1_000);
    // The list `deny` comes first.
    let curve = &report.policies[1].quotas[0].curve;
    let points: Vec<(u64, u64)> = curve.points.iter().map(|point| (point.limit, point.denied)).collect();
    assert_eq!(points, [(2, 18), (4, 16), (6, 15), (8, 15)]);
}

/// The reproduction: one policy for all requests, and one for some of them with a low limit.
#[test]
fn a_row_for_another_limit_has_the_denials_of_all_policies() {
    let text = |limit: u64| {
        format!(
            "policies:\n  - {{ name: all, key: [ip], quotas: [{limit}/1m] }}\n  \
               - {{ name: login, match: {{ path: /login/* }}, key: [ip], quotas: [3/1m] }}\n"
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
    let report = replay(&text(20), &requests, 12, 1_000);
    let curve = &report.policies[0].quotas[0].curve;
    let point = curve.at(100).unwrap();
    let under = replay(&text(100), &requests, 0, 1_000);
    assert_eq!((point.denied, point.total_denied), (0, Some(under.denied)));
    assert!(under.denied > 0 && point.total_denied_clients == Some(under.denied_clients));
    let replayed = curve.at(20).unwrap();
    assert_eq!(
        (replayed.total_denied, replayed.total_denied_clients),
        (Some(report.denied), Some(report.denied_clients))
    );
    assert!(replayed.denied > 0 && replayed.total_denied > Some(replayed.denied));
}
