//! What other limits would deny: replayed's point, estimates, and what is not tried.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::fmt::Write as _;
use std::num::NonZeroUsize;

use tollgate::Timestamp;
use tollgate_policy::Config;
use tollgate_simulate::{Basis, CheckedReport, Hit, Note, Options, Replay, Report};

/// All notes, one on each line.
fn said(notes: &[Note]) -> String {
    notes.iter().map(|note| format!("{note}\n")).collect()
}

/// 2026-11-23 00:00 UTC, a Monday.
const MONDAY: i64 = 1_795_392_000_000;

/// Replays requests of clients at these seconds; those of users say who they are.
fn replay(text: &str, options: Options, requests: &[(i64, &str, Option<&str>)]) -> Report {
    let policies = Config::parse("test.yaml", text).unwrap_or_else(|error| panic!("{error}")).into_policies();
    let mut replay = Replay::new(policies, None, options).unwrap();
    for (second, ip, user) in requests {
        let user = user.map(|user| ("user", user));
        let hit = Hit::new(
            Timestamp::from_unix_millis(MONDAY + second * 1_000),
            [("ip", *ip), ("path", "/login")].into_iter().chain(user).collect(),
        );
        replay.request(hit).unwrap();
    }
    replay.report()
}

/// Requests that lack the key were part of replayed's point, and of no other: raising the limit seemed to help them.
#[test]
fn denials_for_a_missing_key_are_no_part_of_a_curve() {
    let text = "policies:
  - { name: users, key: [user], quotas: [2/1m, 100/1h], on_missing_key: deny }
";
    let requests: Vec<_> =
        (0..8).map(|second| (second, "192.0.2.1", (second % 2 == 0).then_some("alice"))).collect();
    let report = replay(text, Options::default(), &requests);
    let curve = &report.policies[0].quotas[0].curve;
    assert_eq!((report.policies[0].denied, curve.basis), (6, Basis::Tried));
    assert_eq!(curve.at(2).map(|point| point.denied), Some(2), "{curve:?}");
    assert_eq!(curve.at(4).map(|point| point.denied), Some(0), "{curve:?}");
}

/// A window that opens at its first unit never opens under a limit of 0, so no window says what other limits deny.
#[test]
fn other_limits_than_0_are_tried_for_windows_that_never_open() {
    let requests: Vec<_> = (0..20).map(|second| (second, "192.0.2.1", None)).collect();
    let text = "policies: [{ name: login, key: [ip], quotas: [0/1m@first_hit] }]";
    let report = replay(text, Options::default(), &requests);
    let curve = &report.policies[0].quotas[0].curve;
    assert_eq!(curve.basis, Basis::Tried);
    assert!(curve.points.len() > 4, "{curve:?}");
    for point in &curve.points {
        assert_eq!(point.denied, 20_u64.saturating_sub(point.limit), "{curve:?}");
    }
}

/// The curve was called exact, and copies of one client stood as evidence for a limit.
#[test]
fn a_curve_of_some_clients_is_called_an_estimate() {
    let clients: Vec<String> =
        (0..4_000).map(|number| format!("10.1.{}.{}", number / 250, number % 250)).collect();
    let requests: Vec<_> = clients.iter().map(|ip| (0, ip.as_str(), None)).collect();
    let text = "policies: [{ name: login, key: [ip], quotas: [2/1m] }]";
    let report = |max_clients| {
        let max_clients = NonZeroUsize::new(max_clients).unwrap();
        replay(text, Options { max_clients, ..Options::default() }, &requests)
    };
    let (all, some) = (report(4_000), report(1_000));
    let one_in = some.policies[0].one_client_in;
    assert!(one_in >= 4, "{one_in}");
    let budget = |report: &Report| report.policies[0].quotas[0].curve.suggested_budget.unwrap();
    assert_eq!(budget(&all), 0.001);
    // At most 1,000 clients are followed, which prove 1 in 334 at most.
    assert!(budget(&some) >= 1.0 / 334.0, "{}", budget(&some));
    let (all, some) = (CheckedReport::new(all, Vec::new()), CheckedReport::new(some, Vec::new()));
    assert!(all.to_string().contains("would deny (exact)"), "{all}");
    assert!(all.html().contains("Exact for every limit"));
    let estimate = format!("estimated from one client in {one_in}");
    assert!(some.to_string().contains(&format!("would deny ({estimate})")), "{some}");
    assert!(!some.html().contains("Exact for every limit"));
    assert!(some.to_string().contains("Figures about clients and\n    windows"), "{some}");
}

/// From 33 quotas on none was tried, and the report advised to use the flag that had been given.
#[test]
fn many_quotas_get_a_limit_each_until_all_are_used() {
    let mut text = "policies:\n".to_owned();
    for number in 0..20 {
        writeln!(text, "  - {{ name: p{number}, key: [ip], quotas: [4/1m, 100/1h] }}").unwrap();
    }
    let requests = [(0, "192.0.2.1", None)];
    let report = replay(&text, Options { rungs: 4, ..Options::default() }, &requests);
    let tried = report.policies.iter().flat_map(|policy| &policy.quotas);
    assert_eq!(tried.filter(|quota| quota.curve.points.len() > 1).count(), 32);
    let notes = said(&report.notes);
    assert!(notes.contains("32 of 40 quotas") && !notes.contains("--try-limits"), "{notes}");
    let none = replay(&text, Options { rungs: 0, ..Options::default() }, &requests);
    assert!(said(&none.notes).contains("--try-limits"), "{:?}", none.notes);
}

/// The row `20` of a bucket did not say how large its burst is.
#[test]
fn curves_of_buckets_say_what_happens_to_the_burst() {
    let requests: Vec<_> = (0..40).map(|second| (second, "192.0.2.1", None)).collect();
    let forms = |quota: &str| {
        let text = format!("policies: [{{ name: login, key: [ip], quotas: ['{quota}'] }}]");
        let answer = CheckedReport::new(replay(&text, Options::default(), &requests), Vec::new());
        [answer.to_string(), answer.markdown(), answer.html()]
    };
    for (quota, burst) in [
        ("10/1m~burst:7", "ach limit has a burst of 7: 50 is 50/1m~burst:7"),
        ("10/1m~burst", "ach limit is its own burst: 50 is 50/1m~burst, a burst of 50"),
    ] {
        assert!(forms(quota).iter().all(|form| form.contains(burst)), "{:#?}", forms(quota));
    }
    assert!(!forms("10/1m~sliding").iter().any(|form| form.contains("its own burst")));
}

/// The bars stayed, and the quota became `1000/1d…rst:200`.
#[test]
fn names_of_other_kinds_are_whole() {
    let requests: Vec<_> = (0..40).map(|second| (second, "192.0.2.1", None)).collect();
    let text = "policies: [{ name: login, key: [ip], quotas: [20/604799s] }]";
    let text = CheckedReport::new(replay(text, Options::default(), &requests), Vec::new()).to_string();
    for quota in ["    20/604799s~burst:4 ", "    20/604799s~sliding "] {
        assert!(text.contains(quota), "{quota}: {text}");
    }
}

/// No kind is missing without a word.
#[test]
fn kinds_that_are_not_tried_are_named() {
    let kinds = |quotas: &str, more: &str| {
        let text = format!("policies: [{{ name: a, key: [ip], quotas: [{quotas}]{more} }}]");
        let report = replay(&text, Options::default(), &[(0, "192.0.2.1", None)]);
        let kinds = report.policies[0].quotas.iter().flat_map(|quota| &quota.kinds);
        (kinds.map(|kind| kind.quota.clone()).collect::<Vec<_>>().join(" "), said(&report.notes))
    };
    let (tried, notes) = kinds("100/1m", "");
    assert_eq!(tried, "100/1m~burst:20 100/1m~burst 100/1m~sliding 100/1m~log");
    assert!(!notes.contains("kinds"), "{notes}");
    // An exact log of so many entries is too long, and first hits have no other kind of their own.
    let (tried, _) = kinds("1000/1m@first_hit", "");
    assert_eq!(tried, "1000/1m~burst:200 1000/1m~burst 1000/1m~sliding 1000/1m~log:500ms");
    let (tried, _) = kinds("100/1m@staggered", "");
    assert_eq!(tried, "100/1m~burst:20 100/1m~burst 100/1m~sliding@staggered 100/1m~log");
    let (tried, _) = kinds("1/1m~burst", "");
    assert_eq!(tried, "1/1m~sliding 1/1m~log 1/1m");
    let (tried, notes) = kinds("2000000/1m, 90/1m~burst", "");
    assert!(notes.contains("`a` 2000000/1m (a smaller burst, ~burst, ~sliding)"), "{notes}");
    assert!(notes.contains("`a` 90/1m~burst (a fixed window)"), "{notes}");
    assert!(tried.starts_with("2000000/1m~log"), "{tried}");
    for (quotas, more) in [
        ("100/day@Europe/Berlin", ""),
        ("0/1m", ""),
        ("9/1m", ", overrides: [{ when: { ip: 192.0.2.9 }, quotas: [3/1m] }]"),
    ] {
        let (tried, notes) = kinds(quotas, more);
        assert!(tried.is_empty() && notes.contains("No other kinds were tried for 1 quota:"), "{notes}");
    }
    let text = "policies: [{ name: a, key: [ip], quotas: [9/1m] }]";
    let none = replay(text, Options { rungs: 0, ..Options::default() }, &[(0, "192.0.2.1", None)]);
    assert!(said(&none.notes).contains("No other kinds of quotas were tried; --try-limits"));
}

/// Windows that start at another instant for each client, counted denials, overdrafts and trials: a kind that was tried
/// denies what a replay with it in the file denies.
#[test]
fn a_tried_kind_denies_what_its_own_replay_denies() {
    let mut random = fastrand::Rng::with_seed(47);
    let mut second = 0;
    let requests: Vec<(i64, &str, Option<&str>)> = std::iter::repeat_with(|| {
        second += random.i64(0..9);
        (second, ["192.0.2.1", "192.0.2.2", "192.0.2.3"][random.usize(0..3)], None)
    })
    .take(400)
    .collect();
    let mut differences = 0;
    for quota in ["4/1m@staggered", "4/1m~sliding@staggered", "4/1m~burst:2"] {
        for (others, more) in [
            ("", ""),
            (", 30/5m~log", ""),
            ("", ", count_denied: true"),
            (", 20/5m~burst:9", ", overdraft: true"),
            ("", ", cost: 2"),
            (", 20/5m~sliding", ", mode: shadow"),
        ] {
            let with = |quota: &str, rungs| {
                let text = format!("policies: [{{ name: a, key: [ip], quotas: [{quota}{others}]{more} }}]");
                replay(&text, Options { rungs, ..Options::default() }, &requests)
            };
            let report = with(quota, 1);
            assert!(report.policies[0].quotas[0].kinds.len() >= 4);
            for kind in &report.policies[0].quotas[0].kinds {
                let own = with(&kind.quota, 0);
                let own = &own.policies[0];
                let found = (kind.denied, kind.denied_clients);
                assert_eq!(found, (own.denied, own.denied_clients), "{quota}{others}{more}: {}", kind.quota);
                differences += usize::from(kind.denied != report.policies[0].denied);
            }
        }
    }
    assert!(differences > 40, "{differences}");
}

#[test]
fn a_limit_that_requests_state_is_said_not_to_be_tried() {
    let text = "policies:
  - { name: plans, key: [ip], quotas: [{ limit: { attribute: user, on_missing: 3 }, max: 9, window: 1h }] }
";
    let report = replay(text, Options::default(), &[(0, "192.0.2.1", None)]);
    let notes = said(&report.notes);
    assert!(notes.contains("limits that come from requests") && !notes.contains("--try-limits"), "{notes}");
}

/// A limit in the policy stopped an attack on passwords, and the curve suggested one that lets all of it through.
#[test]
fn a_suggested_limit_that_an_attack_sets_is_said_to_be_set_by_it() {
    let text = "policies: [{ name: login, key: [ip], quotas: [5/1m] }]";
    let clients: Vec<String> =
        (0..3_000).map(|number| format!("10.1.{}.{}", number / 250, number % 250)).collect();
    let curve = |status, options| {
        let policies = Config::parse("test.yaml", text).unwrap().into_policies();
        let mut replay = Replay::new(policies, None, options).unwrap();
        let mut request = |second: i64, ip: &str, status| {
            let time = Timestamp::from_unix_millis(MONDAY + second * 1_000);
            let hit = Hit { status: Some(status), ..Hit::new(time, [("ip", ip)].into_iter().collect()) };
            replay.request(hit).unwrap();
        };
        (0..).zip(&clients).for_each(|(second, ip)| request(second, ip, 200));
        for number in 0..1_000 {
            request(
                3_600 + number / 20,
                ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"][number as usize % 4],
                status,
            );
        }
        CheckedReport::new(replay.report(), Vec::new())
    };
    let attacked = curve(401, Options::default());
    let found = &attacked.report.policies[0].quotas[0].curve;
    let set_by = found.set_by.as_ref().unwrap();
    assert_eq!((found.suggested, set_by.limit_without), (Some(300), 1));
    assert_eq!((set_by.clients, set_by.requests, set_by.failed), (4, 1_000, 1_000));
    let remark = "set by 4 clients with 100 % errors; without them 1";
    for said in [attacked.to_string(), attacked.markdown(), attacked.html()] {
        let flowing = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flowing.contains(remark), "{said}");
    }
    assert_eq!(curve(200, Options::default()).report.policies[0].quotas[0].curve.set_by, None);
    // A client keeps its errors if fewer clients are followed.
    let some = Options { max_clients: NonZeroUsize::new(2_000).unwrap(), ..Options::default() };
    let some = curve(401, some);
    let quota = &some.report.policies[0].quotas[0];
    let followed = quota.curve.set_by.as_ref().map_or(0, |set_by| set_by.failed / 500);
    assert_eq!(quota.most.unwrap().max == 250, followed > 0, "{quota:?}");
}
