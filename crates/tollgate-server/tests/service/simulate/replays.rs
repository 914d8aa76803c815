//! Who would be denied, and by which policies.

use std::fs;

use serde_json::Value;

use super::{Folder, POLICIES, flowing, line};
use crate::support::Server;

/// A replay that read paths only normalized would count fewer requests than the service does.
#[test]
fn both_readings_of_a_logged_path_are_matched() {
    let folder = Folder::new();
    let log =
        ["/api/..%2fhealthz", "/api/../healthz", "/api//../healthz?a=b", "/healthz", "/healthz?a=/../b"];
    folder.write("paths.log", &log.map(|target| line("192.0.2.1", 1, target, 200)).concat());
    folder.write(
        "paths.yaml",
        "policies:
  - { name: all, key: [ip], quotas: [2/1m] }
  - { name: health, match: { path: /healthz }, exempt: true }
",
    );
    let (_, said, _) = folder.run(&["simulate", "paths.yaml", "paths.log", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((said["requests"].as_u64(), said["denied"].as_u64()), (Some(5), Some(1)), "{said}");
}

#[test]
fn one_command_says_who_would_be_denied() {
    let (status, said, error) = Folder::new().simulate(&[]);
    assert_eq!((status, error.as_str()), (Some(0), ""));
    assert!(said.contains("Read 12 lines in 1 file\n"), "{said}");
    assert!(said.contains("Of 12 requests, 7 would be denied (58.3 %), all by `login`.\n"), "{said}");
    assert!(said.contains("\nThey come from 1 of 2 clients; that one sent 10.\n"), "{said}");
    assert!(
        flowing(&said).contains("`user` counts no request, so check its conditions. In the log, all 7 had failed anyway (401); no successful request would be lost. "),
        "{said}"
    );
    // What a file or a pipe takes names nobody.
    assert!(!said.contains("192.0.2.66") && said.contains("client-"), "{said}");
    assert!(said.contains("No request in the logs has `user`"), "{said}");
    let (_, said, _) = Folder::new().simulate(&["--show-keys"]);
    assert!(said.contains("ip=192.0.2.66"), "{said}");
}

/// A condition that nothing meets had figures of 0, like a limit that nobody exceeds.
#[test]
fn policies_that_count_no_request_are_named() {
    let folder = Folder::new();
    let noted = |policies: &str| {
        folder.write("policies.yaml", policies);
        let (_, said, _) = folder.simulate(&[]);
        let said = flowing(&said.replace("\n  - ", "\u{1}").replace("\n\n", "\u{1}"));
        let mut notes = said.split('\u{1}');
        let is_note =
            |note: &str| note.starts_with("The policy `") || note.starts_with("These policies count");
        let note = notes.find(|note| is_note(note.trim()));
        note.map(|note| note.trim().to_owned())
    };
    let one = "The policy `user` counts no request. Check its conditions, and whether its key is in the log.";
    assert_eq!(noted(POLICIES).unwrap(), one);
    let undecided = POLICIES.replace("path: /me", "path: /login").replace(", on_missing_key: skip", "");
    let note = noted(&undecided).unwrap();
    assert!(note.ends_with(" Requests that would be answered with an error count for no policy."), "{note}");
    let idle =
        |name: char| format!("  - {{ name: {name}, match: {{ path: /gone }}, key: [ip], quotas: [1/1m] }}\n");
    let many = |last: char| POLICIES.to_owned() + &('a'..=last).map(idle).collect::<String>();
    for (last, listed) in [('d', "`a`, `b`, `c`, `d`"), ('f', "`a`, `b`, `c`, `d` and 2 others")] {
        let expected = format!("These policies count no request: `user`, {listed}. Check their conditions");
        let note = noted(&many(last)).unwrap();
        assert!(note.starts_with(&expected), "{note}");
    }
    // These need not count any.
    let login = "policies:\n  - { name: login, match: { path: /login }, key: [ip], candidate: [3/1m], quotas: [9/1m] }\n";
    for more in [
        "deny: [{ ip: 198.51.100.1 }]\n",
        "allow: [{ ip: 198.51.100.1 }]\n",
        "  - { name: off, mode: off, match: { path: /gone }, key: [ip], quotas: [1/1m] }\n",
        "  - { name: free, match: { path: /gone }, key: [ip], quotas: unlimited }\n",
    ] {
        assert_eq!(noted(&format!("{login}{more}")), None, "{more}");
    }
}

/// Policies of another site had the answer that nobody would be denied.
#[test]
fn a_replay_in_which_no_policy_matches_has_status_3() {
    let folder = Folder::new();
    let gone = POLICIES.replace("/login", "/gone");
    folder.write("policies.yaml", &gone);
    for arguments in [&[][..], &["--fail-if", "denied > 0.1%"]] {
        let (status, said, _) = folder.simulate(arguments);
        assert_eq!(status, Some(3), "{said}");
        assert!(
            said.starts_with("No policy decides on any of these requests, so there is no answer.\n"),
            "{said}"
        );
    }
    // A policy in shadow mode has an answer, although it does not decide.
    folder.write("policies.yaml", &POLICIES.replace("name: login,", "name: login, mode: shadow,"));
    assert_eq!(folder.simulate(&[]).0, Some(0));
}

#[test]
fn policies_are_compared_in_one_pass() {
    let folder = Folder::new();
    folder.write("old.yaml", &POLICIES.replace("quotas: [3/1m] }\n", "quotas: [5/1m] }\n"));
    let (status, said, _) =
        folder.simulate(&["--baseline", "old.yaml", "--json", "--fail-if", "login.newly_denied_clients > 0"]);
    let json: Value = serde_json::from_str(&said).unwrap();
    let compared = &json["compared"];
    assert_eq!((status, compared["newly_denied"].as_u64()), (Some(0), Some(2)), "{compared}");
    assert_eq!((&compared["denied_before"], &compared["newly_denied_clients"]), (&5.into(), &0.into()));
}

/// The service and the replay of a log of the same requests deny the same ones.
#[test]
fn denies_what_a_live_service_denied() {
    let folder = Folder::new();
    let text = "policies:
  - { name: login, match: { path: /login }, key: [ip], quotas: [4/1d@first_hit] }
  - { name: all, key: [ip], quotas: [9/1d@first_hit, 100/7d@first_hit] }
";
    let policies = folder.write("live.yaml", text);
    let server = Server::start(&["--config", policies.to_str().unwrap()]);
    let mut random = 7_u32;
    let (mut log, mut denied) = (String::new(), 0);
    for second in 0..120 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let ip = format!("192.0.2.{}", random >> 16 & 7);
        let path = if random >> 24 & 1 == 0 { "/login" } else { "/%6Cogin/../search" };
        let reply = server.get(&format!("/v1/check?ip={ip}&path={}", path.replace('%', "%25")));
        denied += u64::from(reply.status == 429);
        log += &line(&ip, second, path, if reply.status == 429 { 429 } else { 200 });
    }
    folder.write("live.log", &log);
    let (status, said, error) = folder.run(&["simulate", "live.yaml", "live.log", "--json", "--show-keys"]);
    assert_eq!(status, Some(0), "{error}");
    let json: Value = serde_json::from_str(&said).unwrap();
    assert!(denied > 20, "{denied}");
    assert_eq!(json["denied"].as_u64(), Some(denied));
    assert_eq!(json["refused_in_log"].as_u64(), Some(denied));
}

#[test]
fn requests_with_values_that_are_no_text_cannot_be_decided_on() {
    let folder = Folder::new();
    let text = fs::read_to_string(folder.path("access.log")).unwrap();
    let damaged = text.replace("/login", r"/login\xFF").replace("Mozilla", r"\xFE");
    folder.write("damaged.log", &(damaged + &text));
    let arguments = ["simulate", "policies.yaml", "damaged.log", "--class", "x=user_agent: x*"];
    let (status, said, error) = folder.run(&arguments);
    assert_eq!((status, error.as_str()), (Some(0), ""));
    assert!(said.contains("12 requests (50 %) cannot be decided"), "{said}");
    assert!(said.contains("12: `path` is not UTF-8"), "{said}");
    assert!(said.contains("Of 24 requests, 7 would be denied"), "{said}");
}

/// Answers of 400 bytes each: an overdraft admits them while a byte is left, and is charged for those that it denies. No
/// curve can be calculated from its windows, so other limits are tried.
#[test]
fn overdrafts_deny_once_nothing_is_left_under_every_limit() {
    let folder = Folder::new();
    let log: String =
        (0..6).map(|second| line("192.0.2.1", second, "/a", 200).replace(" 12 ", " 400 ")).collect();
    folder.write("bytes.log", &log);
    let report = |overdraft: bool| -> Value {
        let cost = "cost: { attribute: bytes, max: 1000000 }";
        let text = format!(
            "policies: [{{ name: bytes, key: [ip], quotas: [1000/1d], {cost}, overdraft: {overdraft} }}]"
        );
        folder.write("bytes.yaml", &text);
        let (status, said, error) =
            folder.run(&["simulate", "bytes.yaml", "bytes.log", "--json", "--try-limits", "2"]);
        assert_eq!((status, error.as_str()), (Some(0), ""));
        serde_json::from_str(&said).unwrap()
    };
    let points = |report: &Value| -> Vec<(u64, u64)> {
        let points = report["policies"][0]["quotas"][0]["curve"]["points"].as_array().unwrap();
        let number = |point: &Value, name: &str| point[name].as_u64().unwrap();
        points.iter().map(|point| (number(point, "limit"), number(point, "denied"))).collect()
    };
    let (strict, overdraft) = (report(false), report(true));
    assert_eq!((&strict["denied"], &overdraft["denied"]), (&4.into(), &3.into()));
    assert_eq!(points(&strict), [(500, 5), (1_000, 4), (1_500, 3)]);
    assert_eq!(points(&overdraft), [(500, 4), (1_000, 3), (1_500, 2)]);
}

/// The service answers them 400, and counts nothing.
#[test]
fn requests_with_long_values_cannot_be_decided_on() {
    let folder = Folder::new();
    let (status, said, _) = folder.simulate(&["--max-attribute-bytes", "9"]);
    assert_eq!(status, Some(0));
    assert!(said.contains("10 requests (83.3 %) cannot be decided"), "{said}");
    assert!(said.contains("10: `ip` is longer than 9 bytes"), "{said}");
}
