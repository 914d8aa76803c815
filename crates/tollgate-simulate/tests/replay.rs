//! What a replay reports, on small traffic whose answers can be counted by hand.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::num::NonZeroUsize;

use tollgate::Timestamp;
use tollgate_policy::{Config, Policies, Policy};
use tollgate_simulate::{
    CheckedReport, ClassReport, Classes, DeniedClient, Hit, KnownClients, Note, Options, Replay, Report, Role,
};

/// All notes, one on each line.
fn said(notes: &[Note]) -> String {
    notes.iter().map(|note| format!("{note}\n")).collect()
}

/// 2026-11-23 00:00 UTC, a Monday.
const MONDAY: i64 = 1_795_392_000_000;

fn policies(text: &str) -> Policies {
    Config::parse("test.yaml", text).unwrap_or_else(|error| panic!("{error}")).into_policies()
}

/// Replays requests of clients at these seconds, all for one path.
fn replay(text: &str, baseline: Option<&str>, options: Options, requests: &[(i64, &str)]) -> Report {
    replay_by(policies(text), baseline.map(policies), options, requests)
}

fn replay_by(
    policies: Policies,
    baseline: Option<Policies>,
    options: Options,
    requests: &[(i64, &str)],
) -> Report {
    let mut replay = Replay::new(policies, baseline, options).unwrap();
    for (second, ip) in requests {
        let agent = if ip.starts_with('9') { "crawler-bot/1.0" } else { "Mozilla/5.0" };
        let hit = Hit {
            status: Some(if *second == 0 { 429 } else { 200 }),
            user_agent: Some(agent.as_bytes()),
            path: Some(b"/login"),
            ..Hit::new(
                Timestamp::from_unix_millis(MONDAY + second * 1_000),
                [("ip", *ip), ("path", "/login"), ("user_agent", agent)].into_iter().collect(),
            )
        };
        replay.request(hit).unwrap();
    }
    replay.report()
}

const TWO: &str = "policies: [{ name: login, match: { path: /login }, key: [ip], quotas: [2/1m] }]";
const THREE: &str = "policies: [{ name: login, match: { path: /login }, key: [ip], quotas: [3/1m] }]";

/// One client makes four requests in the first minute, one two, one a single one an hour later.
const REQUESTS: [(i64, &str); 7] = [
    (0, "192.0.2.1"),
    (1, "192.0.2.1"),
    (2, "192.0.2.2"),
    (3, "192.0.2.1"),
    (4, "192.0.2.1"),
    (5, "192.0.2.2"),
    (3_605, "9.9.9.9"),
];

/// Buckets and logs have no windows of their own: these are minutes of the clock. Waits are those of each kind.
#[test]
fn quotas_of_all_kinds_have_windows_waits_and_bursts() {
    // A unit of the bucket comes back in 10 seconds. In the first minute, it has two units at 0 s and one at 10 s.
    let bucket = [0, 0, 0, 5, 10, 70];
    // What comes back within the minute is admitted as well, so no other quota denied it.
    let full = [0, 0, 0, 0, 0, 0, 10, 20, 30, 70];
    // The units at 59 s count half at 90 s, and leave the log at 119 s.
    let others = [59, 59, 60];
    for (quota, seconds, denied, longest_wait, most, burst) in [
        ("6/1m~burst:2", &bucket[..], 2, 10.0, 5, 0.5),
        ("6/1m~burst", &full[..], 0, 0.0, 9, 1.5),
        ("2/1m~sliding", &others[..], 1, 30.0, 2, 1.0),
        ("2/1m~log", &others[..], 1, 59.0, 2, 1.0),
        ("2/1m", &others[..], 0, 0.0, 2, 1.5),
    ] {
        let text = format!("policies: [{{ name: login, key: [ip], quotas: [{quota}] }}]");
        let requests: Vec<(i64, &str)> = seconds.iter().map(|second| (*second, "192.0.2.1")).collect();
        let report = replay(&text, None, Options::default(), &requests);
        let found = &report.policies[0].quotas[0];
        assert_eq!(
            (found.denied, found.windows, found.denied_windows),
            (denied, 2, denied.min(1)),
            "{quota}"
        );
        assert_eq!((found.longest_wait, found.burst), (longest_wait, Some(burst)), "{quota}");
        assert_eq!(found.most.unwrap().max, most, "{quota}");
        let said = CheckedReport::new(report, Vec::new()).to_string();
        assert!(!said.contains("other quotas denied"), "{said}");
    }
}

#[test]
fn says_who_is_denied_when_and_for_how_long() {
    let report = replay(TWO, None, Options::default(), &REQUESTS);
    assert_eq!((report.requests, report.denied, report.undecided), (7, 2, 0));
    assert_eq!((report.clients, report.denied_clients, report.refused_in_log), (3, 1, 1));
    assert_eq!(report.first.as_deref(), Some("2026-11-23T00:00:00+00:00"));
    assert_eq!(report.seconds, 3_605.0);
    let client = &report.most_denied[0];
    assert_eq!((client.client.as_str(), client.requests, client.denied), ("ip=192.0.2.1", 4, 2));
    assert_eq!(client.fullest.as_ref().map(|window| window.asked), Some(4));
    let quota = &report.policies[0].quotas[0];
    assert_eq!((quota.windows, quota.denied_windows, quota.longest_wait), (3, 1, 57.0));
    assert_eq!(quota.most.map(|most| (most.p50, most.max)), Some((2, 4)));
    assert_eq!(quota.burst, Some(1.0));
    assert_eq!((report.week[0][0].requests, report.week[0][0].denied), (6, 2));
    assert_eq!((report.week[0][1].requests, report.days.len()), (1, 1));
}

/// What is denied anyway is not what a trial would add.
#[test]
fn says_whom_policies_on_trial_would_deny_that_are_allowed() {
    const SHADOW: &str = "policies:
      - { name: login, match: { path: /login }, key: [ip], quotas: [3/1m] }
      - { name: shadow, mode: shadow, match: { path: /login }, key: [ip], quotas: [1/1m] }";
    let mut report = replay(SHADOW, None, Options::default(), &REQUESTS);
    let listed = |clients: &[DeniedClient]| {
        let listed = clients.iter().map(|client| {
            let DeniedClient { client, requests, denied, fullest, .. } = client.clone();
            (client, requests, denied, fullest.unwrap().policy)
        });
        listed.collect::<Vec<_>>()
    };
    let client =
        |ip: &str, requests, denied, policy: &str| (format!("ip={ip}"), requests, denied, policy.into());
    assert_eq!(listed(&report.most_denied), [client("192.0.2.1", 4, 1, "login")]);
    let on_trial = [client("192.0.2.1", 4, 2, "shadow"), client("192.0.2.2", 2, 1, "shadow")];
    assert_eq!(listed(&report.most_denied_on_trial), on_trial);
    let title = "Clients whose allowed requests would be denied most often by policies on trial";
    let answer = CheckedReport::new(report.clone(), Vec::new());
    assert!(answer.to_string().contains(title) && answer.html().contains(title));
    report.hide_keys();
    assert!(!serde_json::to_string(&report).unwrap().contains("192.0.2."));
    let report = replay(TWO, None, Options::default(), &REQUESTS);
    assert_eq!(report.most_denied_on_trial, []);
}

/// A quota denied 57 requests in shadow mode, and 180 as a candidate of the policy that it was to replace.
#[test]
fn says_that_shadow_policies_charge_nothing_for_what_others_deny() {
    let note = |limit: &str, more: &str| {
        let text = format!(
            "policies: [{{ name: login, key: [ip], quotas: [{limit}/1m], candidate: [1/1m] }},
            {{ name: beside, mode: shadow, match: {{ path: /login }}, key: [ip], quotas: [2/1m]{more} }}]"
        );
        let report = replay(&text, None, Options::default(), &REQUESTS);
        let notes: String = report.notes.iter().map(|note| format!("{note} ")).collect();
        notes.contains("charge nothing").then_some(notes)
    };
    let notes = note("1", "").unwrap();
    assert!(notes.contains("another policy denies: `beside` (4 requests). To see"), "{notes}");
    assert_eq!(note("9", ""), None);
    assert_eq!(note("1", ", overdraft: true"), None);
}

#[test]
fn a_burst_around_a_boundary_is_measured() {
    let requests: Vec<(i64, &str)> = [57, 58, 61, 62].map(|second| (second, "192.0.2.1")).to_vec();
    let report = replay(TWO, None, Options::default(), &requests);
    assert_eq!(report.denied, 0);
    assert_eq!(report.policies[0].quotas[0].burst, Some(2.0));
}

#[test]
fn hours_are_those_of_the_zone() {
    let zone = jiff::tz::TimeZone::get("America/New_York").unwrap();
    let report = replay(TWO, None, Options { zone, ..Options::default() }, &REQUESTS);
    assert_eq!(report.week[6][19].requests, 6, "Sunday, 19:00");
    assert_eq!(report.days[0].day, "2026-11-22");
    assert_eq!(report.first.as_deref(), Some("2026-11-22T19:00:00-05:00"));
}

#[test]
fn compares_with_other_policies_in_one_pass() {
    let report = replay(TWO, Some(THREE), Options::default(), &REQUESTS);
    let compared = report.compared.unwrap();
    assert_eq!((compared.denied_before, compared.newly_denied, compared.newly_allowed), (1, 1, 0));
    assert_eq!((compared.newly_denied_clients, compared.newly_allowed_clients), (0, 0));
    assert_eq!(report.policies[0].newly_denied, 1);
    let one = TWO.replace("2/1m", "1/1m");
    let report = replay(&one, Some(TWO), Options::default(), &REQUESTS);
    let compared = report.compared.unwrap();
    assert_eq!((compared.newly_denied, compared.newly_denied_clients), (2, 1));
    assert_eq!(compared.most_newly_denied[0].client, "ip=192.0.2.2");
    let report = replay(THREE, Some(TWO), Options::default(), &REQUESTS);
    assert_eq!(report.compared.unwrap().newly_allowed, 1);
}

#[test]
fn trials_are_reported_apart_and_deny_nobody() {
    let text = "policies: [{ name: login, key: [ip], quotas: [3/1m], candidate: [1/1m] },
        { name: shadow, mode: shadow, key: [ip], quotas: [2/1m] }]";
    let report = replay(text, None, Options { rungs: 0, ..Options::default() }, &REQUESTS);
    let denied: Vec<(&str, Role, u64)> =
        report.policies.iter().map(|policy| (policy.policy.as_str(), policy.role, policy.denied)).collect();
    let expected = [("login", Role::Enforced, 1), ("login", Role::Candidate, 4), ("shadow", Role::Shadow, 2)];
    assert_eq!(denied, expected);
    assert_eq!(report.denied, 1);
}

#[test]
fn a_request_that_lacks_a_key_is_no_denial() {
    let text = "policies: [{ name: user, key: [user], quotas: [1/1m] }]";
    let report = replay(text, None, Options::default(), &REQUESTS);
    assert_eq!((report.denied, report.undecided), (0, 7));
    let reason = &report.undecided_reasons[0];
    assert_eq!((reason.requests, reason.reason.contains("`user` is missing")), (7, true), "{reason:?}");
}

#[test]
fn exempt_and_denying_policies_are_counted() {
    let text = "policies: [{ name: partner, match: { ip: { cidr: [9.0.0.0/8] } }, exempt: true },
        { name: all, key: global, quotas: [3/1m] }]";
    let banned = Policy::builder("banned").matching("ip", ["192.0.2.2"]).deny().build().unwrap();
    let all = policies(text);
    let all = Policies::of(all.as_slice().iter().cloned().chain([banned])).unwrap();
    let report = replay_by(all, None, Options::default(), &REQUESTS);
    let figures: Vec<(&str, u64, u64)> = report
        .policies
        .iter()
        .map(|policy| (policy.policy.as_str(), policy.requests, policy.denied))
        .collect();
    assert_eq!(figures, [("partner", 1, 0), ("banned", 2, 2), ("all", 4, 1)]);
    assert_eq!(report.denied, 3);
}

#[test]
fn classes_divide_requests_and_clients() {
    let classes = Classes::parse(&["bot=user_agent: '*bot*'".to_owned()], None).unwrap();
    let report = replay(TWO, None, Options { classes, ..Options::default() }, &REQUESTS);
    let figures: Vec<(&str, u64, u64, u64, u64)> = report
        .classes
        .iter()
        .map(|class| {
            (class.class.as_str(), class.requests, class.denied, class.clients, class.denied_clients)
        })
        .collect();
    assert_eq!(figures, [("bot", 1, 0, 1, 0), ("others", 6, 2, 2, 1)]);
}

/// A client was in the class of its first such request alone, and was denied there whatever it was denied for.
#[test]
fn a_client_may_be_in_several_classes_and_denied_in_some() {
    let classes = ["even=path: /even", "odd=path: /odd"].map(str::to_owned);
    let classes = Classes::parse(&classes, None).unwrap();
    let policies = policies("policies: [{ name: odd, match: { path: /odd }, key: [ip], quotas: [1/1h] }]");
    let mut replay = Replay::new(policies, None, Options { classes, ..Options::default() }).unwrap();
    for (second, path) in (0..).zip(["/even", "/odd", "/odd", "/odd", "/"]) {
        let hit = Hit::new(
            Timestamp::from_unix_millis(MONDAY + second),
            [("ip", "192.0.2.1"), ("path", path)].into_iter().collect(),
        );
        replay.request(hit).unwrap();
    }
    let report = replay.report();
    let figures: Vec<_> = report
        .classes
        .iter()
        .map(|class| (class.class.as_str(), class.clients, class.denied_clients))
        .collect();
    assert_eq!(figures, [("even", 1, 0), ("odd", 1, 1), ("others", 1, 0)]);
}

/// An office in the list is known, whatever program it uses.
#[test]
fn known_clients_are_a_class_that_goes_before_others() {
    let bots = ["bot=user_agent: '*bot*'".to_owned()];
    let known = |attribute, text| KnownClients { attribute, file: "known.txt", text };
    let class_figures = |known| {
        let classes = Classes::parse(&bots, Some(known)).unwrap_or_else(|error| panic!("{error}"));
        let report = replay(TWO, None, Options { classes, ..Options::default() }, &REQUESTS);
        let figures = |classes: &[ClassReport]| -> Vec<(String, u64, u64)> {
            classes.iter().map(|class| (class.class.clone(), class.requests, class.denied_clients)).collect()
        };
        assert_eq!(figures(&report.classes), figures(&report.policies[0].classes));
        let is_noted =
            report.notes.iter().any(|note| note.to_string() == "No request is in the class `bot`.");
        assert_eq!(is_noted, report.classes[1].requests == 0);
        figures(&report.classes)
    };
    let class = |name: &str, requests, denied| (name.to_owned(), requests, denied);
    let by_address = class_figures(known("ip", "# offices\n192.0.2.1\n9.0.0.0/8\n"));
    assert_eq!(by_address, [class("known", 5, 1), class("bot", 0, 0), class("others", 2, 0)]);
    let by_program = class_figures(known("user_agent", "Mozilla/5.0\n"));
    assert_eq!(by_program, [class("known", 6, 1), class("bot", 1, 0), class("others", 0, 0)]);
    let error = Classes::parse(&[], Some(known("ip", "192.0.2.1\nalice\n"))).unwrap_err().to_string();
    assert!(error.contains("known.txt:2"), "{error}");
}

/// The service answers such a request 400. The replay counted it.
#[test]
fn a_value_that_is_too_long_cannot_be_decided_on() {
    let undecided = |bytes: usize, options: Options| {
        let policies = policies("policies: [{ name: all, key: [path], quotas: [5/1h] }]");
        let mut replay = Replay::new(policies, None, options).unwrap();
        let path = "/".to_owned() + &"a".repeat(bytes - 1);
        let hit = Hit::new(
            Timestamp::from_unix_millis(MONDAY),
            [("ip", "192.0.2.1"), ("path", path.as_str())].into_iter().collect(),
        );
        replay.request(hit).unwrap();
        let report = replay.report();
        (report.undecided, report.undecided_reasons.first().map(|reason| reason.reason.clone()))
    };
    assert_eq!(undecided(1_024, Options::default()), (0, None));
    let (requests, reason) = undecided(1_025, Options::default());
    assert_eq!(requests, 1);
    assert!(reason.as_ref().is_some_and(|reason| reason.contains("longer than 1024 bytes")), "{reason:?}");
    let max_attribute_bytes = NonZeroUsize::new(2_000).unwrap();
    assert_eq!(undecided(1_025, Options { max_attribute_bytes, ..Options::default() }), (0, None));
}

/// Names of programs may be as long as a line of a log, and there may be millions of them. Those that began alike
/// were told apart nowhere.
#[test]
fn long_names_of_clients_are_cut_and_stay_different() {
    let policies = policies("policies: [{ name: all, key: [ip], quotas: [1/1h] }]");
    let client = tollgate_policy::Identity::of_word("user_agent").unwrap();
    let mut replay = Replay::new(policies, None, Options { client, ..Options::default() }).unwrap();
    let agents = ["a", "b"].map(|last| "x".repeat(900) + last);
    for agent in [&agents[0], &agents[0], &agents[1], &agents[1], &agents[1]] {
        let hit = Hit {
            user_agent: Some(agent.as_bytes()),
            ..Hit::new(
                Timestamp::from_unix_millis(MONDAY),
                [("ip", "192.0.2.1"), ("user_agent", agent.as_str())].into_iter().collect(),
            )
        };
        replay.request(hit).unwrap();
    }
    let report = replay.report();
    let [most, other] = &report.most_denied[..] else { panic!("{report:?}") };
    assert!(most.client.starts_with("user_agent=xxx") && most.client.len() == 132, "{most:?}");
    assert_eq!((most.denied, other.denied, report.clients), (3, 1, 2));
    assert_ne!(most.client, other.client);
    let text = CheckedReport::new(report.clone(), Vec::new()).to_string();
    for client in [most, other] {
        let digest = client.client.rsplit('#').next().unwrap();
        assert!(text.contains(&format!("x...#{digest} ")), "{text}");
    }
}

#[test]
fn hidden_keys_are_the_same_for_the_same_requests_and_differ_for_others() {
    let hidden = |requests: &[(i64, &str)]| {
        let mut report = replay(TWO, None, Options::default(), requests);
        report.hide_keys();
        assert!(!serde_json::to_string(&report).unwrap().contains("192.0.2.1"));
        report.most_denied[0].client.clone()
    };
    assert_eq!(hidden(&REQUESTS), hidden(&REQUESTS));
    assert_ne!(hidden(&REQUESTS), hidden(&REQUESTS[..6]));
}

/// 4,000 clients, of which a thousand can be followed: all figures about requests are exact, and those about clients
/// are near the truth.
#[test]
fn figures_about_requests_stay_exact_where_clients_are_too_many() {
    let clients: Vec<String> =
        (0..4_000).map(|number| format!("10.1.{}.{}", number / 250, number % 250)).collect();
    let requests: Vec<(i64, &str)> = (0..3)
        .flat_map(|round| {
            clients
                .iter()
                .enumerate()
                .filter(move |(number, _)| number % 4 < 2 || round == 0)
                .map(move |(_, ip)| (round, ip.as_str()))
        })
        .collect();
    let max_clients = NonZeroUsize::new(1_000).unwrap();
    let all = replay(TWO, None, Options::default(), &requests);
    let some = replay(TWO, None, Options { max_clients, ..Options::default() }, &requests);
    assert_eq!((all.denied, all.denied_clients, all.one_client_in), (2_000, 2_000, 1));
    assert_eq!((some.requests, some.denied), (all.requests, all.denied));
    assert!(some.one_client_in >= 4, "{}", some.one_client_in);
    let near = |estimate: u64, truth: u64| estimate.abs_diff(truth) * 10 < truth;
    assert!(
        near(some.clients, 4_000) && near(some.denied_clients, 2_000),
        "{} {}",
        some.clients,
        some.denied_clients
    );
    let windows = some.policies[0].quotas[0].windows;
    assert!(near(windows, all.policies[0].quotas[0].windows), "{windows}");
    // Whoever is listed is one of those that are denied, under its own name.
    assert_eq!(some.most_denied.len(), 20);
    for client in &some.most_denied {
        let address = client.client.strip_prefix("ip=").unwrap();
        let number = clients.iter().position(|other| other == address).unwrap();
        assert_eq!((number % 4 < 2, client.requests, client.denied), (true, 3, 1), "{address}");
    }
    assert!(some.notes.iter().any(|note| note.to_string().contains("estimates")));
}

/// Another quota denies most requests, and the window of this one opens at its first unit: requests that it never
/// took are no windows of their own.
#[test]
fn windows_that_were_never_opened_are_not_counted() {
    let text = "policies: [{ name: login, key: [ip], quotas: [0/1h, 5/1m@first_hit] }]";
    let report = replay(text, None, Options { rungs: 0, ..Options::default() }, &REQUESTS);
    let quotas = &report.policies[0].quotas;
    assert_eq!((quotas[0].windows, quotas[0].denied), (3, 7));
    assert_eq!((quotas[1].windows, quotas[1].denied, quotas[1].most), (0, 0, None));
}

/// `all 4` next to a limit of 3 that denies nothing looked like a mistake.
#[test]
fn a_quota_that_others_spare_is_said_to_be() {
    let text = "policies: [{ name: login, key: [ip], quotas: [2/1m, 3/1h] }]";
    let said = |requests: &[(i64, &str)]| {
        let report = replay(text, None, Options { rungs: 0, ..Options::default() }, requests);
        CheckedReport::new(report, Vec::new()).to_string()
    };
    let words = "all 4\n  other quotas denied everything that it would have denied\n";
    assert_eq!(said(&REQUESTS).matches(words).count(), 1, "{}", said(&REQUESTS));
    assert!(!said(&REQUESTS[..3]).contains("other quotas denied"));
}

/// Each denial was a window of its own, so that everybody seemed to ask for one at most.
#[test]
fn denials_before_a_window_opens_are_no_windows() {
    let text = "policies: [{ name: login, key: [ip], quotas: [0/1m@first_hit] }]";
    let report = replay(text, None, Options::default(), &REQUESTS);
    let quota = &report.policies[0].quotas[0];
    assert_eq!((quota.denied, quota.windows, quota.denied_windows, quota.most), (7, 0, 0, None));
    assert_eq!(report.most_denied[0].fullest, None);
    let said = CheckedReport::new(report, Vec::new()).to_string();
    assert!(
        said.contains(
            "login 0/1m@first_hit\n  denies 7 requests that cost more than it ever admits at once; waiting does not\n    help\n"
        ),
        "{said}"
    );
    assert!(said.contains("what other limits would deny"), "{said}");
}

/// They were told to wait for 0 seconds.
#[test]
fn requests_above_the_limit_are_told_apart_from_those_that_can_wait() {
    let text = "policies: [{ name: login, key: [ip], quotas: [3/1m], cost: 4 }]";
    let said = |text: &str, requests: &[(i64, &str)]| {
        CheckedReport::new(replay(text, None, Options::default(), requests), Vec::new()).to_string()
    };
    let above = said(text, &REQUESTS);
    let line = "  denies 7 requests that cost more than it ever admits at once; waiting does not\n    help\n";
    assert!(above.contains(&format!("  denies in 3 of 3 windows\n{line}")), "{above}");
    let cost = text.replace("cost: 4", "cost: { attribute: units, max: 9 }");
    let mut replay = Replay::new(policies(&cost), None, Options::default()).unwrap();
    for (second, units) in [(30, "2"), (31, "2"), (32, "4"), (33, "9")] {
        let attributes = [("ip", "192.0.2.1"), ("units", units)].into_iter().collect();
        replay.request(Hit::new(Timestamp::from_unix_millis(MONDAY + second * 1_000), attributes)).unwrap();
    }
    let both = CheckedReport::new(replay.report(), Vec::new()).to_string();
    let lines =
        "  denies in 1 of 1 window; the longest wait is 29 seconds\n  denies 2 requests that cost more than";
    assert!(both.contains(lines), "{both}");
}

/// The page said that they wait for 0 seconds, and not how many they are.
#[test]
fn the_page_tells_requests_above_the_limit_apart() {
    let page = |text: &str| {
        let page = CheckedReport::new(replay(text, None, Options::default(), &REQUESTS), Vec::new()).html();
        let start = page.find("<h3>How tight each limit is").unwrap();
        page[start..].split("</table>").next().unwrap().to_owned()
    };
    let cells = |cells: &[&str]| -> String { cells.iter().map(|cell| format!("<td>{cell}</td>")).collect() };
    let title = "<th scope=\"col\">above the limit</th>";
    let above = page("policies: [{ name: login, key: [ip], quotas: [3/1m], cost: 4 }]");
    // Of 7 denied requests all are above the limit, in all of 3 windows.
    assert!(above.contains(title) && above.contains(&cells(&["7", "7", "3 of 3", ""])), "{above}");
    let waiting = page(TWO);
    assert!(!waiting.contains(title) && waiting.contains("57 seconds"), "{waiting}");
}

/// It said that no denied request opened a window. They had windows, but nobody counted them.
#[test]
fn denials_of_clients_that_are_not_followed_are_said_to_be() {
    let options = || Options { max_clients: NonZeroUsize::MIN, ..Options::default() };
    let reports = (1..=20).map(|denied| {
        let mut requests: Vec<(i64, String)> =
            (1..=20).map(|client| (i64::from(client), format!("192.0.2.{client}"))).collect();
        requests.extend((30..35).map(|second| (second, format!("192.0.2.{denied}"))));
        let requests: Vec<(i64, &str)> = requests.iter().map(|(second, ip)| (*second, ip.as_str())).collect();
        replay(TWO, None, options(), &requests)
    });
    let is_left_out = |report: &Report| report.policies[0].quotas[0].denied_windows == 0;
    let (left_out, followed): (Vec<_>, Vec<_>) = reports.partition(is_left_out);
    assert!(left_out.len() >= 15 && left_out.len() + followed.len() == 20, "{}", left_out.len());
    for report in left_out {
        let said = CheckedReport::new(report, Vec::new()).to_string();
        let line =
            "  denies 4 requests of clients that are not followed; the longest wait is 29\n    seconds\n";
        assert!(said.contains(line), "{said}");
    }
}

/// They had a curve of one point, and no word about it.
#[test]
fn limits_of_overrides_are_said_not_to_be_tried() {
    let text = "policies:
  - name: login
    key: [ip]
    quotas: [2/1m]
    overrides:
      - { when: { ip: 192.0.2.1 }, quotas: [3/1m] }
      - { when: { ip: 192.0.2.99 }, quotas: [4/1m] }
";
    let report = replay(text, None, Options::default(), &REQUESTS);
    let notes = said(&report.notes);
    assert!(notes.contains("1 quota of overrides"), "{notes}");
    let none = replay(&text.replace("192.0.2.1 }", "192.0.2.98 }"), None, Options::default(), &REQUESTS);
    assert!(!said(&none.notes).contains("of overrides. They"), "{:?}", none.notes);
}

/// Another thread decides ahead, with its own clock, while clients get new numbers. Other limits are tried after that.
#[test]
fn requests_at_once_come_to_the_same_as_one_by_one() {
    let text = "policies:
  - { name: login, match: { path: /login }, key: [ip], quotas: [2/1m] }
  - { name: all, key: [user], quotas: [3/1m, 5/1h], candidate: [2/1m] }
";
    let clients: Vec<String> = (0..200).map(|client| format!("192.0.2.{client}")).collect();
    let mut hits = Vec::new();
    for second in 0..6_500 {
        let client = clients[second * second % 977 % 200].as_str();
        let late = if second.is_multiple_of(11) { 3_000 } else { 0 };
        let time = Timestamp::from_unix_millis(MONDAY + second as i64 * 1_000 - late);
        let attributes = [("ip", client), ("user", client), ("path", "/login")].into_iter().collect();
        let damaged = second.is_multiple_of(13).then_some("path");
        hits.push(Hit { damaged, ..Hit::new(time, attributes) });
    }
    let json = |at_once: usize, threads: usize| {
        let threads = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let options = Options {
            max_clients: NonZeroUsize::new(50).unwrap(),
            rungs: 2,
            classes: Classes::parse(&["odd=ip: '*1'".to_owned()], None).unwrap(),
            ..Options::default()
        };
        let baseline = policies("policies: [{ name: all, key: [user], quotas: [4/1m] }]");
        let mut replay = Replay::new(policies(text), Some(baseline), options).unwrap();
        hits.chunks(at_once)
            .for_each(|hits| threads.install(|| replay.requests(hits.iter().cloned()).unwrap()));
        let report = replay.report();
        let tried = &report.policies[0].quotas[0].curve;
        assert!(report.one_client_in > 1 && tried.points.len() > 2, "{tried:?}");
        assert!(tried.points.iter().any(|point| point.denied_clients > 0), "{tried:?}");
        CheckedReport::new(report, Vec::new()).json()
    };
    let one_by_one = json(1, 1);
    // The last part may be full, and may be the first.
    for (at_once, threads) in [(16, 2), (1_024, 2), (6_144, 2), (6_500, 2), (6_500, 1), (6_500, 3)] {
        assert_eq!(json(at_once, threads), one_by_one, "{at_once} at once on {threads} threads");
    }
}

/// A quota whose limit a request states was taken for any quota with the same windows, such as one of an override.
#[test]
fn stated_limits_are_booked_on_their_own_quota() {
    let rows: String = (0..2_000).map(|row| format!("t{row}: [{}/1h], ", 100 + row)).collect();
    let text = format!(
        "policies:
  - name: plans
    key: [user]
    quotas: [{{ limit: {{ attribute: user, on_missing: 3 }}, max: 9, window: 1h }}]
    candidate: [{{ limit: {{ attribute: user }}, max: 8, window: 1h }}]
    overrides: {{ by: host, values: {{ {rows} }} }}
"
    );
    let mut replay = Replay::new(policies(&text), None, Options::default()).unwrap();
    for second in 0..300 {
        let user = ["5", "7", "50"][second as usize % 3];
        let attributes = [("user", user)].into_iter().collect();
        replay.request(Hit::new(Timestamp::from_unix_millis(MONDAY + second), attributes)).unwrap();
    }
    let report = replay.report();
    assert_eq!((report.requests, report.denied, report.undecided), (300, 300 - 5 - 7 - 9, 0));
    for (policy, denied, windows) in [(&report.policies[0], 279, 3), (&report.policies[1], 280, 3)] {
        let [quota] = &policy.quotas[..] else { panic!("{:#?}", policy.quotas) };
        assert_eq!((quota.denied, quota.windows, quota.of_override_in_line), (denied, windows, None));
        // Each client had as much as its own limit allows.
        assert_eq!(quota.burst, Some(1.0));
    }
    let said = CheckedReport::new(report, Vec::new()).to_string();
    assert!(said.contains("plans 9/1h (at most; `user` sets the limit)\n"), "{said}");
}

#[test]
fn clients_that_are_newly_allowed_are_listed() {
    let mut report = replay(THREE, Some(TWO), Options::default(), &REQUESTS);
    let one = replay(
        "policies: [{ name: login, key: [ip], quotas: [4/1m] }]",
        Some(TWO),
        Options::default(),
        &REQUESTS,
    );
    let compared = |report: &Report| serde_json::to_value(report.compared.as_ref().unwrap()).unwrap();
    // One request more is allowed, of a client that is still denied another.
    let before = compared(&report);
    assert_eq!((&before["newly_allowed"], &before["same"]), (&1.into(), &6.into()), "{before}");
    assert_eq!(before["most_newly_allowed"], serde_json::json!([]));
    let after = compared(&one);
    let listed = &after["most_newly_allowed"][0];
    assert_eq!((&after["newly_allowed_clients"], &after["same"]), (&1.into(), &5.into()), "{after}");
    assert_eq!(
        (&listed["client"], &listed["denied"], &listed["denied_before"]),
        (&"ip=192.0.2.1".into(), &0.into(), &2.into())
    );
    assert_eq!(listed["path"], "/login");
    let answer = CheckedReport::new(one.clone(), Vec::new());
    for said in [answer.to_string(), answer.html()] {
        assert!(said.contains("Clients that are newly allowed"), "{said}");
    }
    let text = answer.to_string();
    assert!(text.lines().any(|line| line.split_whitespace().eq(["the", "same", "5"])), "{text}");
    assert!(answer.markdown().contains("| the same | 5 |  |"), "{}", answer.markdown());
    report.hide_keys();
    let mut hidden = one;
    hidden.hide_keys();
    assert!(!serde_json::to_string(&hidden).unwrap().contains("192.0.2."));
}

/// A number alone does not say whether it is much.
#[test]
fn answers_of_429_in_the_log_are_told_as_a_share() {
    let report = replay(TWO, None, Options::default(), &REQUESTS);
    let note = "1 request (14.3 %) was answered 429 or 503 when the log was written: it shows traffic under limits that were \
                there already.";
    assert!(report.notes.iter().any(|said| said.to_string() == note), "{:?}", report.notes);
}

/// A log does not say when a request ends, so nobody knows how many were in flight.
#[test]
fn limits_in_flight_are_skipped_with_a_note() {
    let text = "policies:
  - { name: login, match: { path: /login }, key: [ip], quotas: [2/1m, 1~in_flight] }
  - { name: runs, match: { path: /login }, key: [ip], quotas: 0~in_flight }
  - { name: tried, key: [ip], quotas: 100/1m, candidate: 1~in_flight }";
    let report = replay(text, Some(text), Options::default(), &REQUESTS);
    let plain = replay(TWO, Some(TWO), Options::default(), &REQUESTS);
    assert_eq!((report.requests, report.denied), (plain.requests, plain.denied));
    let notes = said(&report.notes);
    assert!(notes.contains("when each request ends: `login`, `runs`, `tried`. Other quotas"), "{notes}");
    assert!(!notes.contains("no request:") && !said(&plain.notes).contains("in flight"), "{notes}");
}
