//! Gates hold, fail, or have no answer.

#![allow(clippy::unwrap_used, reason = "this is a test")]

mod common;

use std::num::NonZeroUsize;

use tollgate::Timestamp;
use tollgate_policy::{Config, Policies, Policy};
use tollgate_simulate::{CheckedReport, Classes, Gate, GateVerdict, Hit, Options, Replay, Report};

use self::common::{OLD, POLICIES, report};

const KEYLESS: &str =
    "1 request, none of them by a counted client: they lack the key, or --max-clients left it out";

fn held(gate: &str) -> GateVerdict {
    let gate: Gate = gate.parse().unwrap();
    gate.check(&report(POLICIES, Some(OLD)), 1).unwrap().held
}

/// 40 attempts to log in within two minutes and a bit; 30 pages of the crawler on each of seven days; 12 visitors who
/// fetch one to twelve pages.
#[test]
fn each_measure_is_held_against_its_bound() {
    let report = report(POLICIES, Some(OLD));
    assert_eq!((report.requests, report.clients), (7 * (12 + 78 + 30) + 40, 14));
    for (gate, is_met) in [
        ("denied > 94", true),
        ("denied > 95", false),
        ("denied >= 95", true),
        ("denied < 96", true),
        ("denied <= 94", false),
        ("denied > 10.79%", true),
        ("denied > 10.8 %", false),
        ("denied_clients > 1", true),
        ("denied_clients > 2", false),
        ("login.denied > 24", true),
        ("login.denied > 25", false),
        ("login:candidate.denied > 30", true),
        ("login:candidate.denied > 31", false),
        ("pages.denied_clients > 0", true),
        ("pages.denied_clients > 7%", true),
        ("pages.denied_clients > 8%", false),
        ("newly_denied > 0", true),
        ("pages.newly_denied > 0", false),
        ("newly_denied_clients > 0", false),
        ("newly_allowed > 34", true),
        ("denied{bot} > 33%", true),
        ("denied{bot} > 34%", false),
        ("denied_clients{others} > 1", false),
        ("pages.denied{bot} > 69", true),
        ("pages.denied{bot} > 70", false),
        ("login.denied{others} > 24", true),
        ("login:candidate.denied{others} > 30", true),
        ("login:candidate.denied_clients{others} > 1", false),
        ("pages.denied_clients{others} > 0", false),
        ("undecided > 0", false),
    ] {
        let expected = if is_met { GateVerdict::Failed } else { GateVerdict::Held };
        assert_eq!(held(gate), expected, "{gate}: {report:#?}");
    }
}

fn policies(text: &str) -> Policies {
    Config::parse("test.yaml", text).unwrap_or_else(|error| panic!("{error}")).into_policies()
}

/// Replays a request of each of these clients a second.
fn replay(policies: Policies, baseline: Policies, options: Options, clients: &[String]) -> Report {
    let mut replay = Replay::new(policies, Some(baseline), options).unwrap();
    for (second, ip) in (0..).zip(clients) {
        let hit = Hit::new(
            Timestamp::from_unix_millis(common::MONDAY + second),
            [("ip", ip.as_str()), ("path", "/login")].into_iter().collect(),
        );
        replay.request(hit).unwrap();
    }
    replay.report()
}

/// `block.newly_denied > 0` held whatever the policy denied, and `block.denied_clients > 0` never had an answer.
#[test]
fn policies_that_deny_without_a_count_are_measured() {
    let old = "policies: [{ name: all, key: [ip], quotas: [100/1m] }]";
    let block = Policy::builder("block").matching("ip", ["192.0.2.2"]).deny().build().unwrap();
    let user = "policies: [{ name: user, match: { ip: 192.0.2.3 }, key: [user], quotas: [1/1m], \
                on_missing_key: deny }]";
    let (all, user) = (policies(old), policies(user));
    let new = all.as_slice().iter().chain(user.as_slice()).cloned().chain([block]);
    let clients = ["192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.3"].map(str::to_owned);
    let report = replay(Policies::of(new).unwrap(), all, Options::default(), &clients);
    for (gate, expected) in [
        ("newly_denied > 2", GateVerdict::Failed),
        ("block.newly_denied > 1", GateVerdict::Failed),
        ("block.newly_denied > 2", GateVerdict::Held),
        ("block.denied_clients > 0", GateVerdict::Failed),
        ("block.denied_clients > 1", GateVerdict::Held),
        ("user.newly_denied > 0", GateVerdict::Failed),
        ("user.newly_denied > 1", GateVerdict::Held),
        ("all.newly_denied > 0", GateVerdict::Held),
    ] {
        let result = gate.parse::<Gate>().unwrap().check(&report, 1).unwrap();
        assert_eq!(result.held, expected, "{gate}: {result:?}");
    }
    // Nobody has the key that the policy counts by.
    let result = "user.denied_clients > 0".parse::<Gate>().unwrap().check(&report, 1).unwrap();
    assert_eq!((result.held, &*result.measured.to_string()), (GateVerdict::NoAnswer, KEYLESS));
}

/// One client of 200 is denied. If it is not among those that are followed, gates held as if nobody were.
#[test]
fn a_sample_without_the_denied_client_gives_no_answer() {
    let (two, three) = (common::POLICIES.replace("5/1m", "2/1m"), common::POLICIES);
    let mut answers = 0;
    for denied in 0..20 {
        let mut clients: Vec<String> = (0..200).map(|number| format!("10.0.0.{number}")).collect();
        clients.extend(vec![clients[denied].clone(); 3]);
        let max_clients = NonZeroUsize::new(40).unwrap();
        let options = Options { max_clients, ..Options::default() };
        let report = replay(policies(&two), policies(three), options, &clients);
        assert!(report.one_client_in > 1 && report.denied == 2, "{report:?}");
        for gate in ["denied_clients > 0", "login.denied_clients > 0", "newly_denied_clients > 0"] {
            let result = gate.parse::<Gate>().unwrap().check(&report, 1).unwrap();
            let expected =
                if report.denied_clients > 0 { GateVerdict::Failed } else { GateVerdict::NoAnswer };
            assert_eq!(result.held, expected, "{result:?}");
        }
        answers += u32::from(report.denied_clients > 0);
    }
    assert!((1..20).contains(&answers), "{answers}");
}

/// The client was followed when it was denied, and left out when there were too many.
#[test]
fn a_client_that_is_left_out_after_its_denial_gives_no_answer() {
    let (two, five) = (common::POLICIES.replace("5/1m", "2/1m"), common::POLICIES);
    let mut answers = 0;
    for denied in 0..20 {
        let mut clients = vec![format!("10.0.0.{denied}"); 4];
        clients.extend((0..200).map(|number| format!("10.0.1.{number}")));
        let max_clients = NonZeroUsize::new(40).unwrap();
        let options = Options { max_clients, ..Options::default() };
        let report = replay(policies(&two), policies(five), options, &clients);
        assert!(report.one_client_in > 1 && report.denied == 2, "{report:?}");
        for gate in ["denied_clients > 0", "login.denied_clients > 0", "newly_denied_clients > 0"] {
            let result = gate.parse::<Gate>().unwrap().check(&report, 1).unwrap();
            let expected =
                if report.denied_clients > 0 { GateVerdict::Failed } else { GateVerdict::NoAnswer };
            assert_eq!(result.held, expected, "{result:?}");
        }
        answers += u32::from(report.denied_clients > 0);
    }
    assert!((1..20).contains(&answers), "{answers}");
}

/// 7 of 1,000 are 0.7 %, but as numbers with rounded binary places they are more. So are 14, 28 and 29.
#[test]
fn percentages_are_compared_exactly() {
    let mut report = report(POLICIES, None);
    report.requests = 1_000;
    for denied in 0..=1_000 {
        report.denied = denied;
        let share = format!("{}.{}", denied / 10, denied % 10);
        for (sign, expected) in [
            (">", GateVerdict::Held),
            ("<", GateVerdict::Held),
            (">=", GateVerdict::Failed),
            ("<=", GateVerdict::Failed),
        ] {
            let gate = format!("denied {sign} {share}%");
            assert_eq!(gate.parse::<Gate>().unwrap().check(&report, 1).unwrap().held, expected, "{gate}");
        }
    }
    report.requests = u64::MAX;
    report.denied = u64::MAX - 1;
    for (gate, expected) in
        [("denied < 100%", GateVerdict::Failed), ("denied > 99.9999999999%", GateVerdict::Failed)]
    {
        assert_eq!(gate.parse::<Gate>().unwrap().check(&report, 1).unwrap().held, expected, "{gate}");
    }
    let gate: Gate = "denied > 99999999999999999999999999".parse().unwrap();
    let result = gate.check(&report, 1).unwrap();
    let allowed = "at most 99999999999999999999999999";
    assert_eq!((result.held, result.allowed.as_str()), (GateVerdict::Held, allowed));
}

/// What is new is counted for policies that decide. For trials it was always 0.
#[test]
fn new_denials_are_not_measured_for_trials() {
    let shadow = POLICIES.replace("name: pages,", "name: pages, mode: shadow,");
    let report = report(&shadow, Some(OLD));
    for gate in [
        "login:candidate.newly_denied > 0",
        "pages.newly_denied > 0",
        "pages.newly_denied_clients > 0",
        "pages.newly_denied_clients{bot} > 0",
    ] {
        let error = gate.parse::<Gate>().unwrap().check(&report, 1).unwrap_err().to_string();
        assert!(error.contains("only denied and denied_clients can be measured for"), "{error}");
    }
}

/// A threshold over no samples passed, in another tool, and a renamed route was never limited again.
#[test]
fn a_gate_over_nothing_has_no_answer() {
    let none = report("policies: [{ name: gone, match: { path: /gone }, key: [ip], quotas: [1/1m] }]", None);
    for gate in ["gone.denied > 0", "gone.denied_clients > 0", "gone.denied < 5"] {
        let result = gate.parse::<Gate>().unwrap().check(&none, 1).unwrap();
        assert_eq!(result.held, GateVerdict::NoAnswer, "{gate}");
    }
    // No robot logs in.
    assert_eq!(held("login.denied{bot} > 0"), GateVerdict::NoAnswer);
    let few: Gate = "denied > 0".parse().unwrap();
    assert_eq!(few.check(&none, 10_000).unwrap().held, GateVerdict::NoAnswer);
    assert_eq!(few.check(&report(POLICIES, None), 1).unwrap().held, GateVerdict::Failed);
}

/// Requests that match no policy, or that all would be errors, were taken for requests that are allowed.
#[test]
fn a_gate_over_requests_that_no_policy_decides_on_has_no_answer() {
    let unmatched = "policies: [{ name: gone, match: { path: /gone }, key: [ip], quotas: [1/1m] }]";
    let keyless = "policies: [{ name: api, key: [user], quotas: [1/1m] }]";
    for policies in [unmatched, keyless] {
        let nothing = report(policies, Some(policies));
        for gate in [
            "denied > 0.1%",
            "denied < 1",
            "denied_clients > 0",
            "denied{bot} > 0",
            "denied_clients{others} > 0",
            "newly_denied > 0",
            "newly_denied_clients > 0",
            "newly_allowed > 0",
        ] {
            let result = gate.parse::<Gate>().unwrap().check(&nothing, 1).unwrap();
            let measured = "0 requests that a policy decides on, of at least 1 needed";
            assert_eq!(
                (result.held, &*result.measured.to_string()),
                (GateVerdict::NoAnswer, measured),
                "{gate}"
            );
        }
    }
    // That requests are errors, and that a limit is gone, are answers.
    let held = |policies: &str, gate: &str| {
        gate.parse::<Gate>().unwrap().check(&report(policies, Some(OLD)), 1).unwrap().held
    };
    assert_eq!(held(keyless, "undecided > 1%"), GateVerdict::Failed);
    assert_eq!(held(unmatched, "newly_allowed > 0"), GateVerdict::Failed);
    assert_eq!(held(unmatched, "undecided > 1%"), GateVerdict::Held);
    // Clients on a list are exempt by a policy, and denied without one.
    for text in ["allow: { ip: 0.0.0.0/0 }", "unmatched: deny"] {
        let listed = format!("{text}\n{unmatched}");
        assert_ne!(held(&listed, "denied > 100%"), GateVerdict::NoAnswer, "{text}");
    }
}

/// Nobody can be named, so no client was denied, and the gate held.
#[test]
fn denials_without_a_key_are_no_answer_about_clients() {
    let policies = "policies: [{ name: api, key: [user], quotas: [1/1m], on_missing_key: deny }]";
    let keyless = report(policies, None);
    let held = |gate: &str| gate.parse::<Gate>().unwrap().check(&keyless, 1).unwrap().held;
    assert_eq!(
        (held("api.denied > 0"), held("api.denied_clients > 0")),
        (GateVerdict::Failed, GateVerdict::NoAnswer)
    );
}

/// The policies of before could decide on none of the requests, and "nothing is newly denied" held.
#[test]
fn requests_that_one_version_decides_show_no_differences() {
    let by = |key: &str| policies(&format!("policies: [{{ name: api, key: [{key}], quotas: [5/1m] }}]"));
    let mut replay = Replay::new(by("user"), Some(by("tenant")), Options::default()).unwrap();
    for second in 0..20 {
        let attributes = [("user", "bob"), ("ip", "192.0.2.1")].into_iter().collect();
        replay.request(Hit::new(Timestamp::from_unix_millis(common::MONDAY + second), attributes)).unwrap();
    }
    let report = replay.report();
    for gate in ["newly_denied > 0", "newly_denied_clients > 0", "newly_allowed > 0"] {
        let result = gate.parse::<Gate>().unwrap().check(&report, 1).unwrap();
        assert_eq!(result.held, GateVerdict::NoAnswer, "{gate}: {result:?}");
    }
}

/// One request had an address, so the gate held as if all newly denied ones were that client's.
#[test]
fn newly_denied_requests_without_a_client_are_no_answer_about_clients() {
    let with_user_limit =
        |limit: u32| policies(&format!("policies: [{{ name: api, key: [user], quotas: [{limit}/1m] }}]"));
    let mut replay = Replay::new(with_user_limit(5), Some(with_user_limit(500)), Options::default()).unwrap();
    for second in 0..20 {
        let ip = (second == 0).then_some(("ip", "192.0.2.1"));
        let attributes = [("user", "bob")].into_iter().chain(ip).collect();
        replay.request(Hit::new(Timestamp::from_unix_millis(common::MONDAY + second), attributes)).unwrap();
    }
    let report = replay.report();
    for (gate, expected) in [
        ("newly_denied > 14", GateVerdict::Failed),
        ("denied_clients > 0", GateVerdict::NoAnswer),
        ("newly_denied_clients > 0", GateVerdict::NoAnswer),
        ("newly_denied_clients >= 1", GateVerdict::NoAnswer),
        ("newly_denied_clients < 1", GateVerdict::NoAnswer),
        // The fifteen requests are of so many clients at most.
        ("newly_denied_clients > 15", GateVerdict::Held),
        ("newly_denied_clients >= 0", GateVerdict::Failed),
        ("newly_denied_clients <= 15", GateVerdict::Failed),
        ("api.denied_clients > 0", GateVerdict::Failed),
    ] {
        let result = gate.parse::<Gate>().unwrap().check(&report, 1).unwrap();
        assert_eq!(result.held, expected, "{gate}: {result:?}");
        if expected == GateVerdict::NoAnswer {
            assert!(
                result.measured.to_string().starts_with("15 requests, none of them by a counted client"),
                "{result:?}"
            );
        }
    }
}

/// What is new could be asked of all clients together, and of no policy or class.
#[test]
fn newly_denied_clients_are_counted_by_policy_and_class() {
    let before = "policies:
  - { name: login, match: { path: /login }, key: [ip], quotas: [100/1m] }
  - { name: pages, match: { path: /pages/* }, key: [ip], quotas: [11/1m] }
";
    let report = report(POLICIES, Some(before));
    for (gate, expected) in [
        ("newly_denied_clients > 0", GateVerdict::Failed),
        ("newly_denied_clients > 1", GateVerdict::Held),
        ("login.newly_denied_clients > 0", GateVerdict::Failed),
        ("login.newly_denied_clients > 1", GateVerdict::Held),
        // The crawler was denied before.
        ("pages.newly_denied_clients > 0", GateVerdict::Held),
        ("newly_denied_clients{bot} > 0", GateVerdict::Held),
        ("newly_denied_clients{others} > 0", GateVerdict::Failed),
        ("newly_denied{others} > 24", GateVerdict::Failed),
        ("newly_denied{others} > 25", GateVerdict::Held),
        ("login.newly_denied{others} > 24", GateVerdict::Failed),
        ("login.newly_denied_clients{others} > 0", GateVerdict::Failed),
        ("login.newly_denied_clients{bot} > 0", GateVerdict::NoAnswer),
        ("pages.newly_denied_clients{bot} > 0", GateVerdict::Held),
    ] {
        let result = gate.parse::<Gate>().unwrap().check(&report, 1).unwrap();
        assert_eq!(result.held, expected, "{gate}: {result:?}");
    }
    // A policy goes by the requests that it matches: that another one denied a client elsewhere is no excuse.
    let with_page_limit = |limit: u32| POLICIES.replace("5/1m", &format!("{limit}/1m"));
    let mut replay =
        Replay::new(policies(&with_page_limit(1)), Some(policies(&with_page_limit(9))), Options::default())
            .unwrap();
    for (second, path) in (0..).zip(["/pages/1"; 25].into_iter().chain(["/login"; 2])) {
        let attributes = [("ip", "192.0.2.1"), ("path", path)].into_iter().collect();
        replay.request(Hit::new(Timestamp::from_unix_millis(common::MONDAY + second), attributes)).unwrap();
    }
    let report = replay.report();
    let held = |gate: &str| gate.parse::<Gate>().unwrap().check(&report, 1).unwrap().held;
    assert_eq!(held("newly_denied_clients > 0"), GateVerdict::Held);
    assert_eq!(held("login.newly_denied_clients > 0"), GateVerdict::Failed);
}

#[test]
fn one_that_failed_decides_for_all() {
    let report = report(POLICIES, None);
    let results = |gates: &[&str]| {
        let gates = gates.iter().map(|gate| gate.parse::<Gate>().unwrap().check(&report, 1).unwrap());
        CheckedReport::new(report.clone(), gates.collect()).held()
    };
    assert_eq!(results(&[]), GateVerdict::Held);
    assert_eq!(results(&["denied > 99%", "unparsed > 0"]), GateVerdict::NoAnswer);
    assert_eq!(results(&["unparsed > 0", "denied > 0", "denied > 99%"]), GateVerdict::Failed);
}

#[test]
fn gates_on_unmeasured_values_are_errors() {
    for (gate, error) in [
        ("denied", "expected [POLICY.]MEASURE"),
        ("denied = 3", "expected [POLICY.]MEASURE"),
        ("refused > 3", "unknown measure `refused`"),
        ("denied > many", "expected a number"),
        ("denied > -1", "expected a number"),
        ("denied > inf", "expected a number"),
        ("denied > .", "expected a number"),
        ("denied > 1e3", "expected a number"),
        ("denied > 0.1234567890123", "expected a number"),
        // It was one request in ten.
        ("denied > 0.1", "0.1 is no count; for a share, write 0.1%"),
        ("denied{bot > 1", "expected [POLICY.]MEASURE"),
    ] {
        let found = gate.parse::<Gate>().unwrap_err().to_string();
        assert!(found.contains(error), "{found}");
    }
    let report = report(POLICIES, None);
    for (gate, error) in [
        ("logn.denied > 0", "no policy `logn`: expected one of login, login:candidate, pages"),
        ("denied{robot} > 0", "no class `robot`"),
        ("login.denied{robot} > 0", "no class `robot`"),
        ("logn.denied{bot} > 0", "no policy `logn`"),
        (
            "login.undecided{bot} > 0",
            "only denied, denied_clients, newly_denied and newly_denied_clients can be measured for one class",
        ),
        ("newly_denied > 0", "--baseline"),
        ("login.newly_denied > 0", "--baseline"),
        ("login.newly_denied_clients{bot} > 0", "--baseline"),
        ("login.undecided > 0", "only denied, denied_clients, newly_denied and newly_denied_clients can"),
        ("late{bot} > 0", "only denied, denied_clients, newly_denied and newly_denied_clients can"),
    ] {
        let found = gate.parse::<Gate>().unwrap().check(&report, 1).unwrap_err().to_string();
        assert!(found.contains(error), "{found}");
    }
}

/// Nobody should wait for an hour of logs to learn that a policy has another name.
#[test]
fn a_wrong_gate_is_found_before_anything_is_replayed() {
    let policies = Config::parse("test.yaml", POLICIES).unwrap().into_policies();
    let replay = Replay::new(policies, None, Options::default()).unwrap();
    let gates = |gates: &[&str]| {
        replay.expect_gates(&gates.iter().map(|gate| gate.parse().unwrap()).collect::<Vec<Gate>>())
    };
    assert_eq!(gates(&["denied > 0", "login.denied > 3"]), Ok(()));
    assert!(gates(&["denied > 0", "gone.denied > 3"]).is_err());
}

/// The same as when there is a report.
#[test]
fn wrong_gates_are_found_by_names_alone() {
    let report = report(POLICIES, None);
    let classes = Classes::parse(&["bot=user_agent: '*bot*'".to_owned()], None).unwrap();
    let replay = Replay::new(policies(POLICIES), None, Options { classes, ..Options::default() }).unwrap();
    for gate in [
        "denied > 0",
        "login:candidate.denied > 0",
        "logn.denied > 0",
        "pages:candidate.denied > 0",
        "denied{bot} > 0",
        "denied_clients{others} > 0",
        "login.denied{robot} > 0",
        "login.late > 0",
        "newly_denied{bot} > 0",
        "newly_allowed > 0",
        "login:candidate.newly_denied > 0",
    ] {
        let gate: Gate = gate.parse().unwrap();
        let found = replay.expect_gates(std::slice::from_ref(&gate));
        assert_eq!(found, gate.check(&report, 1).map(drop), "{gate}");
    }
}
