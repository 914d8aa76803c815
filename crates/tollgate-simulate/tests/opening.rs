//! The three sentences that every form of a report opens with.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use tollgate::Timestamp;
use tollgate_policy::Config;
use tollgate_simulate::{CheckedReport, Gate, Hit, Options, Replay};

/// Requests of a log: a client, a path and a status, a second apart.
type Log<'a> = &'a [(&'a str, &'a str, u16)];

fn replayed(policies: &str, baseline: Option<&str>, log: Log<'_>) -> CheckedReport {
    let parse = |text: &str| Config::parse("test.yaml", text).unwrap().into_policies();
    let mut replay = Replay::new(parse(policies), baseline.map(parse), Options::default()).unwrap();
    for (second, (ip, path, status)) in (0..).zip(log) {
        let attributes = [("ip", *ip), ("path", *path)].into_iter().filter(|(_, value)| !value.is_empty());
        let time = Timestamp::from_unix_millis(1_700_000_040_000 + second * 1_000);
        let status = (*status > 0).then_some(*status);
        replay.request(Hit { status, ..Hit::new(time, attributes.collect()) }).unwrap();
    }
    CheckedReport::new(replay.report(), Vec::new())
}

fn opening(policies: &str, log: Log<'_>) -> [String; 3] {
    replayed(policies, None, log).opening()
}

const LOGIN: &str = "policies: [{ name: login, match: { path: /login }, key: [ip], quotas: [1/1m] }]";
const TRIAL: &str =
    "policies: [{ name: login, match: { path: /login }, key: [ip], quotas: [1/1m], mode: shadow }]";
const A: (&str, &str, u16) = ("192.0.2.1", "/login", 200);
const B: (&str, &str, u16) = ("192.0.2.2", "/login", 401);
const OTHER: (&str, &str, u16) = ("192.0.2.3", "/", 200);

#[test]
fn one_denied_request_is_in_the_singular() {
    let [what, whom, _] = opening(LOGIN, &[A, A, OTHER]);
    assert_eq!(what, "Of 3 requests, 1 would be denied (33.3 %), by `login`.");
    assert_eq!(whom, "It comes from 1 of 2 clients; that one sent 2.");
}

#[test]
fn several_clients_are_in_the_plural() {
    let [what, whom, _] = opening(LOGIN, &[A, A, A, B, B, OTHER]);
    assert_eq!(what, "Of 6 requests, 3 would be denied (50 %), all by `login`.");
    assert_eq!(whom, "They come from 2 of 3 clients; one of them alone has 2 (66.7 %).");
}

/// The request that no policy matches was missing from the sum, and those of both policies were counted twice without
/// a word.
#[test]
fn denials_without_a_policy_and_by_several_are_said() {
    let both = "unmatched: deny
policies:
      - { name: a, match: { path: /login }, key: [ip], quotas: [1/1m] }
      - { name: b, match: { path: /login }, key: [ip], quotas: [1/1m] }
    ";
    let [what, ..] = opening(both, &[A, A, A, OTHER]);
    let shares = "2 by `a`, 2 by `b` and 1 because no policy matches, some by several of them";
    assert_eq!(what, format!("Of 4 requests, 3 would be denied (75 %): {shares}."));
}

#[test]
fn several_policies_are_named_with_their_shares() {
    let more = "policies:
      - { name: login, match: { path: /login }, key: [ip], quotas: [1/1m] }
      - { name: page, match: { path: / }, key: [ip], quotas: [1/1m] }
      - { name: closed, match: { path: /closed }, key: [ip], quotas: [0/1m] }
      - { name: shut, match: { path: /shut }, key: [ip], quotas: [0/1m] }
    ";
    let log = [A, A, A, OTHER, OTHER, OTHER, OTHER, ("192.0.2.3", "/closed", 200)];
    let [what, ..] = opening(more, &log);
    assert_eq!(
        what,
        "Of 8 requests, 6 would be denied (75 %): 3 by `page`, 2 by `login` and 1 by another policy."
    );
    let closed = format!("unmatched: deny\n{LOGIN}");
    let [what, ..] = opening(&closed, &[A, A, OTHER]);
    assert_eq!(
        what,
        "Of 3 requests, 2 would be denied (66.7 %): 1 by `login` and 1 because no policy matches."
    );
}

#[test]
fn without_a_denial_they_say_how_much_room_is_left() {
    let [what, whom, good] = opening(&LOGIN.replace("1/1m", "5/1m"), &[A, A, B, OTHER]);
    assert_eq!(what, "Of 4 requests, none would be denied.");
    assert_eq!(whom, "They come from 3 clients; none of them would be denied.");
    assert_eq!(good, "The limit that comes closest is 5/1m of `login`: a client used 2 of 5.");
}

/// Requests of a clock's minute were compared with the limit, so a bucket with a small burst seemed to have much room,
/// and a log that was nearly full seemed half empty.
#[test]
fn the_room_of_other_kinds_is_what_they_have_left() {
    let closest = |quota: &str, log: Log<'_>| opening(&LOGIN.replace("1/1m", quota), log)[2].clone();
    let bucket = closest("60/1m~burst:5", &[A, A, A, B]);
    assert_eq!(
        bucket,
        "The limit that comes closest is 60/1m~burst:5 of `login`: a client used 1 of a burst of 5."
    );
    let around_an_edge = [[OTHER; 8].as_slice(), &[A; 4]].concat();
    for (quota, used) in [("5/10s~log", 4), ("5/10s~sliding", 4), ("5/10s", 2)] {
        assert_eq!(
            closest(quota, &around_an_edge),
            format!("The limit that comes closest is {quota} of `login`: a client used {used} of 5.")
        );
    }
}

#[test]
fn a_policy_on_trial_is_judged_by_what_it_would_deny() {
    let [what, whom, _] = opening(TRIAL, &[A, A, B]);
    assert_eq!(what, "Of 3 requests, none would be denied: every policy is on trial.");
    let denials = "`login (shadow)` would deny 1 of 3 requests (33.3 %), from 1 of 2 clients.";
    assert_eq!(whom, format!("If it decided, {denials}"));
    let both = format!("{}, {{ name: all, key: [ip], quotas: [1/1m] }}]", TRIAL.trim_end_matches(']'));
    let [.., good] = opening(&both, &[A, A, B]);
    assert!(good.contains(&format!("On trial, {denials}")), "{good}");
}

#[test]
fn nothing_decided_is_no_answer() {
    let [what, why, advice] = opening(LOGIN, &[OTHER]);
    assert_eq!(what, "No policy decides on any of these requests, so there is no answer.");
    assert_eq!(why, "No condition under `match` fits any of 1 request.");
    assert!(advice.starts_with("Compare the conditions"), "{advice}");
    let [_, why, reason] = opening(LOGIN, &[("", "/login", 200)]);
    assert_eq!(why, "1 request cannot be decided, and would be answered with errors.");
    assert!(reason.starts_with("For 1, the reason is: "), "{reason}");
    assert_eq!(opening(LOGIN, &[])[1..], ["", ""]);
}

/// It was not said whether denied requests were customers or attacks.
#[test]
fn statuses_of_the_log_tell_lost_successes_from_attacks() {
    let statuses = |statuses: &[u16]| {
        let log: Vec<_> = statuses.iter().map(|status| ("192.0.2.1", "/login", *status)).collect();
        opening(LOGIN, &log)[2].clone()
    };
    // The first request is admitted.
    assert_eq!(
        statuses(&[200, 401, 401]),
        "In the log, all 2 had failed anyway (401); no successful request would be lost."
    );
    assert_eq!(statuses(&[401, 200]), "In the log, it had succeeded (200) and would be lost.");
    let mixed = "In the log, 2 of the denied requests had succeeded (200) and would be lost; 1 had failed anyway (404).";
    assert_eq!(statuses(&[401, 200, 404, 200]), mixed);
    let none = "The log has no status of denied requests, so it does not show whether they were any good.";
    assert_eq!(statuses(&[200, 0]), none);
    let [_, whom, good] = opening(TRIAL, &[A, A, B]);
    assert!(whom.starts_with("If it decided, "), "{whom}");
    assert_eq!(good, "In the log, it had succeeded (200) and would be lost.");
}

#[test]
fn errors_and_samples_are_said() {
    let mut answer = replayed(LOGIN, None, &[A, A, ("", "/login", 200)]);
    assert_eq!(
        answer.opening()[0],
        "Of 3 requests, 1 would be denied (33.3 %), by `login`; 1 (33.3 %) would be errors."
    );
    answer.report.one_client_in = 8;
    (answer.report.clients, answer.report.denied_clients) = (1_600, 800);
    answer.report.denied = 900;
    answer.report.policies[0].denied = 900;
    assert_eq!(answer.opening()[1], "They come from about 800 of about 1,600 clients (50 %).");
}

#[test]
fn gates_and_the_baseline_judge() {
    let mut answer = replayed(LOGIN, Some(&LOGIN.replace("1/1m", "2/1m")), &[A, A, A, B, B]);
    let gates = |gates: &[&str], answer: &CheckedReport| {
        let gates = gates.iter().map(|gate| gate.parse::<Gate>().unwrap().check(&answer.report, 1).unwrap());
        gates.collect::<Vec<_>>()
    };
    let compared = "Compared with the baseline, 2 requests and 1 client are newly denied.";
    for (texts, verdict) in [
        (&["denied > 80%"][..], "The gate `denied > 80%` held."),
        (&["denied > 80%", "denied > 90%"], "All 2 gates held."),
        (&["denied > 80%", "denied > 0"], "The gate `denied > 0` failed: 60 % (3 of 5 requests)."),
        (&["denied > 1", "denied > 0"], "2 of 2 gates failed: `denied > 1` measured 60 % (3 of 5 requests)."),
    ] {
        answer.gates = gates(texts, &answer);
        let [.., good] = answer.opening();
        assert!(good.starts_with(&format!("{verdict} {compared}")), "{good}");
    }
    let same = replayed(LOGIN, Some(LOGIN), &[A, A]).opening();
    assert!(same[2].starts_with("Compared with the baseline, nothing changes."), "{same:?}");
}

/// `no client is newly denied (1 request newly denied)` read as a contradiction.
#[test]
fn more_denials_of_denied_clients_are_no_contradiction() {
    let baseline = LOGIN.replace("1/1m", "2/1m");
    let answer = replayed(LOGIN, Some(&baseline), &[A, A, A, OTHER]);
    let said =
        "Compared with the baseline, 1 request is newly denied, only of clients that were denied already.";
    assert!(answer.opening()[2].starts_with(said), "{:?}", answer.opening());
    let answer = replayed(&baseline, Some(LOGIN), &[A, A, A, B, B]);
    let said = "Compared with the baseline, 2 requests and 1 client are newly allowed.";
    assert!(answer.opening()[2].starts_with(said), "{:?}", answer.opening());
}

/// Its figures were those of a limit that nobody exceeds, and only a caveat said so.
#[test]
fn policies_that_count_no_request_are_in_the_answer() {
    let dead = |names: &[&str]| {
        let dead: String = names
            .iter()
            .map(|name| format!(", {{ name: {name}, match: {{ path: /logn }}, key: [ip], quotas: [1/1m] }}"))
            .collect();
        opening(&format!("{}{dead}]", LOGIN.trim_end_matches(']')), &[A, OTHER])[2].clone()
    };
    assert!(dead(&["a"]).starts_with("`a` counts no request, so check its conditions."), "{}", dead(&["a"]));
    let two = dead(&["a", "b"]);
    assert!(two.starts_with("`a` and `b` count no request, so check their conditions."), "{two}");
    let three = dead(&["a", "b", "c"]);
    assert!(three.starts_with("`a` and 2 other policies count no request, so check"), "{three}");
}

/// `all by default` read like `by default`.
#[test]
fn limits_without_a_file_are_named_by_themselves() {
    let limit = "policies: [{ name: default, key: [ip], quotas: [2/1m, 9/1h] }]";
    assert_eq!(
        opening(limit, &[A, A, A])[0],
        "Of 3 requests, 1 would be denied (33.3 %), by 2/1m and 9/1h per ip."
    );
    assert_eq!(opening(limit, &[A])[0], "Of 1 request, none would be denied by 2/1m and 9/1h per ip.");
}

/// No sentence said when.
#[test]
fn denials_within_a_short_time_are_an_incident() {
    let mut log = vec![OTHER; 200];
    log.splice(100..105, [A; 5]);
    let [_, whom, _] = opening(LOGIN, &log);
    assert_eq!(
        whom,
        "They come from 1 of 2 clients, all within 4 seconds (`--from 2023-11-14T22:15:41Z --to 2023-11-14T22:15:45Z`); \
         that one sent 5."
    );
    // A straggler.
    log.splice(100..115, [A; 15]);
    log.splice(10..12, [B; 2]);
    let [_, whom, _] = opening(LOGIN, &log);
    assert!(whom.contains(", 93.3 % of them within 14 seconds (`--from "), "{whom}");
    // Denials at all times.
    assert!(!opening(LOGIN, &[A; 200])[1].contains("within"));
}

/// Without policies, the answer is what the log holds.
#[test]
fn without_policies_they_say_what_the_log_holds() {
    let policies = Config::parse("test.yaml", "policies: []").unwrap().into_policies();
    let mut replay = Replay::new(policies, None, Options { routes: true, ..Options::default() }).unwrap();
    for visit in 0..20_i64 {
        for client in visit..20 {
            let ip = format!("192.0.2.{client}");
            let attributes = [("ip", ip.as_str()), ("path", "/a"), ("method", "GET")].into_iter().collect();
            let time = Timestamp::from_unix_millis(1_700_000_040_000 + visit * 300_000);
            replay.request(Hit { path: Some(b"/a"), ..Hit::new(time, attributes) }).unwrap();
        }
    }
    let [what, whom, limit] = CheckedReport::new(replay.report(), Vec::new()).opening();
    assert_eq!(what, "The log has 210 requests from 20 clients on 1 route, in 95 minutes.");
    assert_eq!(whom, "The busiest client sent 20 (9.52 %), and the busiest route is `/a` with 210 (100 %).");
    assert!(
        limit.starts_with(
            "With 95 % confidence, a limit of 1/1m on `/a` denies at most 1 client in 7; in this log, "
        ),
        "{limit}"
    );
}
