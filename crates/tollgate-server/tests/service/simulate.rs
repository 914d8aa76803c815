//! `tollgate simulate` and `tollgate suggest`: what they print about logs, and with which status they exit.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Server, tollgate};

/// A folder with a log of nginx and policies.
struct Folder(TempDir);

const POLICIES: &str = "policies:
  - { name: login, match: { path: /login }, key: [ip], quotas: [3/1m] }
  - { name: user, match: { path: /me }, key: [user], quotas: [3/1m], on_missing_key: skip }
";

impl Folder {
    /// Two clients log in at noon, one ten times within a minute and one twice.
    fn new() -> Self {
        let folder = Self(TempDir::new().unwrap());
        let mut log = String::new();
        for second in 0..10 {
            log += &line("192.0.2.66", second, "/login", 401);
            if second < 2 {
                log += &line("192.0.2.1", second, "/login?next=/", 200);
            }
        }
        folder.write("access.log", &log);
        folder.write("policies.yaml", POLICIES);
        folder
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a command in the folder: its status, and what it prints.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = tollgate().current_dir(self.0.path()).args(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    fn simulate(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        self.run(&[&["simulate", "policies.yaml", "access.log"], arguments].concat())
    }
}

fn line(ip: &str, second: u32, target: &str, status: u16) -> String {
    let (minute, second) = (second / 60, second % 60);
    format!(
        "{ip} - - [23/Nov/2026:12:{minute:02}:{second:02} +0000] \"GET {target} HTTP/1.1\" {status} 12 \"-\" \"Mozilla/5.0\"\n"
    )
}

/// Returns what is printed as one line, however lines break.
fn flowing(said: &str) -> String {
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_policy_file_behind_the_logs_is_said_to_be_there() {
    let (status, said, error) = Folder::new().run(&["simulate", "access.log", "policies.yaml"]);
    assert_eq!((status, said.as_str()), (Some(2), ""));
    let expected = "error: policies.yaml: it is a policy file; name it before the logs, or as --config\n";
    assert_eq!(error, expected, "no line of the log is shown");
}

/// The error was that no log format fits the policies.
#[test]
fn a_second_policy_file_is_no_log() {
    let folder = Folder::new();
    fs::copy(folder.path("policies.yaml"), folder.path("old.yaml")).unwrap();
    for arguments in [
        &["simulate", "policies.yaml", "old.yaml", "access.log"][..],
        &["simulate", "--config", "policies.yaml", "access.log", "old.yaml"],
        &["suggest", "old.yaml", "access.log"],
    ] {
        let (status, _, error) = folder.run(arguments);
        assert_eq!(status, Some(2), "{error}");
        assert!(error.starts_with("error: old.yaml: it is a policy file, and "), "{error}");
    }
}

#[test]
fn a_period_is_by_the_clock_of_the_zone() {
    let folder = Folder::new();
    let replayed = |arguments: &[&str]| {
        let (status, said, error) = folder.simulate(&[arguments, &["--json"]].concat());
        let said = serde_json::from_str::<Value>(&said).ok();
        (status, said.and_then(|said| said["requests"].as_u64()), error)
    };
    let (status, first_half, error) = replayed(&["--to", "2026-11-23T12:00:05Z"]);
    assert_eq!(status, Some(0), "{error}");
    assert!(first_half.is_some_and(|requests| (1..12).contains(&requests)), "{first_half:?}");
    let berlin = replayed(&["--to", "2026-11-23 13:00:05", "--from", "2026-11-23", "--tz", "Europe/Berlin"]);
    assert_eq!(berlin.1, first_half, "{berlin:?}");
    let (status, _, error) = replayed(&["--to", "2026-11-23 12:00:05"]);
    let expected =
        "error: --to: the time has no zone; write 2026-11-23T12:00:05Z for UTC, or name its zone with --tz\n";
    assert_eq!((status, error.as_str()), (Some(2), expected));
}

#[test]
fn a_misspelled_attribute_is_named_with_the_right_one() {
    let folder = Folder::new();
    folder.write("policies.yaml", &POLICIES.replace("path: /login", "paht: /login"));
    let (_, said, _) = folder.simulate(&[]);
    assert!(flowing(&said).contains("has `paht`, which is used here: did you mean `path`?"), "{said}");
}

/// The advice was to use another flag.
#[test]
fn a_limit_takes_the_place_of_a_policy_file() {
    let folder = Folder::new();
    folder.write("limit.yaml", "policies: [{ name: default, key: [ip], quotas: [3/1m] }]");
    let json = |arguments: &[&str]| -> Value {
        let (status, said, error) = folder.run(&[&["simulate", "--json"], arguments].concat());
        assert_eq!((status, error.as_str()), (Some(0), ""), "{arguments:?}");
        serde_json::from_str(&said).unwrap()
    };
    let by_flags = json(&["--limit", "3/1m", "--key", "ip", "access.log"]);
    let by_file = json(&["limit.yaml", "access.log"]);
    assert_eq!(by_flags["denied"], 7);
    assert_eq!(by_flags["policies"], by_file["policies"]);
    assert_eq!(json(&["--config", "limit.yaml", "access.log"])["denied"], 7);
    // Denials by route, without writing policies.
    assert_eq!(by_flags["routes"][0]["route"], "/login");
    assert_eq!(
        (&by_flags["routes"][0]["requests"], &by_flags["routes"][0]["denied"]),
        (&12.into(), &7.into())
    );
    assert_eq!(by_file.get("routes"), None);
    // Two of them, without a key.
    assert_eq!(json(&["access.log", "--limit", "3/1m,2/1h"])["denied"], 8);
    let (status, ..) =
        folder.run(&["simulate", "access.log", "--limit", "3/1m", "--fail-if", "default.denied > 0"]);
    assert_eq!(status, Some(1));
    for (arguments, expected) in [
        (&["--limit", "3/1m", "policies.yaml", "access.log"][..], "--limit stands in place of one"),
        (&["--limit", "3/1m", "--config", "policies.yaml", "access.log"], "cannot be used with"),
        (&["--key", "ip", "access.log"], "--limit"),
        (&["--limit", "3/0m", "access.log"], "--limit"),
    ] {
        let (status, said, error) = folder.run(&[&["simulate"], arguments].concat());
        assert_eq!((status, said.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_log_alone_is_answered_with_its_routes_and_clients() {
    let folder = Folder::new();
    let (status, said, error) = folder.run(&["simulate", "access.log"]);
    assert_eq!((status, error.as_str()), (Some(0), ""));
    assert!(said.contains("POST /login") || said.contains("GET /login"), "{said}");
    assert!(said.contains("Busiest clients") && !said.contains("192.0.2.66"), "{said}");
    assert!(!said.contains("denied most often"), "{said}");
    folder.write("empty.log", "");
    assert_eq!(folder.run(&["simulate", "empty.log"]).0, Some(3));
    folder.write("limits.conf", "polices:\n  - name: a\n");
    for (arguments, expected) in [
        (&["policies.yaml"][..], "policies.yaml holds policies; name a log after it"),
        (&["access.log", "--fail-if", "denied > 0"], "--fail-if needs policies"),
        (&["access.log", "--baseline", "policies.yaml"], "--baseline needs policies"),
        (
            &["empty.log", "access.log"],
            "empty.log is empty, so it may be a policy file or a log: write `--config empty.log`",
        ),
        (&["missing", "access.log"], "missing cannot be read"),
        (&["missing.log"], "missing.log"),
        (&["limits.conf", "access.log"], "limits.conf:1:1: unknown key `polices`"),
    ] {
        let (status, said, error) = folder.run(&[&["simulate"], arguments].concat());
        assert_eq!((status, said.as_str()), (Some(2), ""), "{arguments:?} {error}");
        assert!(error.contains(expected), "{error}");
    }
}

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
fn an_empty_log_is_said_to_give_no_answer() {
    let folder = Folder::new();
    folder.write("empty.log", "");
    let (status, said, _) = folder.run(&["simulate", "policies.yaml", "empty.log"]);
    assert_eq!(status, Some(3));
    assert!(said.starts_with("There are no requests to replay, so there is no answer.\n"), "{said}");
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

#[test]
fn gates_decide_the_status_and_print_what_was_measured() {
    let folder = Folder::new();
    let gate = |gate: &str| {
        let (status, said, _) = folder.simulate(&["--fail-if", gate, "--min-requests", "1"]);
        (status, flowing(&said))
    };
    for (text, expected, measured) in [
        ("denied > 60%", 0, "held `denied > 60%`: 58.3 % (7 of 12 requests); allowed: at most 60 %"),
        (
            "login.denied_clients > 0",
            1,
            "FAILED `login.denied_clients > 0`: 50 % (1 of 2 clients); allowed: at most 0",
        ),
    ] {
        let (status, said) = gate(text);
        assert!(status == Some(expected) && said.contains(measured), "{said}");
    }
    assert_eq!(gate("user.denied > 0").0, Some(3));
    let (status, ..) = folder.simulate(&["--fail-if", "denied > 60%", "--min-requests", "1000"]);
    assert_eq!(status, Some(3));
    let (status, ..) = folder.simulate(&["--fail-if", "user.denied > 0", "--fail-if", "login.denied > 0"]);
    assert_eq!(status, Some(1));
}

/// A gate over a handful of requests passed like one over a week.
#[test]
fn a_gate_over_all_requests_needs_a_thousand_unless_told_otherwise() {
    let folder = Folder::new();
    let gate = |gate: &str| {
        let (status, said, _) = folder.simulate(&["--fail-if", gate]);
        (status, flowing(&said))
    };
    let few = "no answer `denied > 60%`: 12 requests that a policy decides on, of at least 1,000 needed; allowed: at most 60 %";
    let (status, said) = gate("denied > 60%");
    assert!(status == Some(3) && said.contains(few), "{said}");
    // One policy or class may see few requests, and still deny the wrong ones.
    assert_eq!(gate("login.denied_clients > 1").0, Some(0));
    let (status, ..) = folder.simulate(&["--fail-if", "login.denied_clients > 1", "--min-requests", "13"]);
    assert_eq!(status, Some(3));
}

#[test]
fn what_is_wrong_has_status_2_and_is_named() {
    let folder = Folder::new();
    folder.write("wrong.yaml", "policies: [{ name: x }]");
    for (arguments, named) in [
        (&["policies.yaml", "nowhere.log"][..], "nowhere.log: no such file"),
        (&["policies.yaml", "access.log/1"], "access.log/1: cannot be opened"),
        (&["nowhere.yaml", "access.log"], "nowhere.yaml"),
        (&["wrong.yaml", "access.log"], "wrong.yaml:1:12: a policy needs `key`"),
        (&["policies.yaml", "access.log", "--fail-if", "logn.denied > 0"], "no policy `logn`"),
        (&["policies.yaml", "access.log", "--fail-if", "denied"], "expected [POLICY.]MEASURE"),
        (&["policies.yaml", "access.log", "--class", "bot"], "expected NAME=CONDITIONS"),
        (&["policies.yaml", "access.log", "--report", "nowhere/report.html"], "nowhere/report.html"),
        (&["policies.yaml", "access.log", "--report", "access.log"], "access.log exists and is not a page"),
        (
            &["policies.yaml", "access.log", "--report", "policies.yaml"],
            "policies.yaml exists and is not a page",
        ),
        (&["policies.yaml", "access.log", "--tz", "Mars/Base"], "time zone"),
        (&["policies.yaml", "access.log", "--format", "apach"], "unknown format"),
    ] {
        let (status, said, error) = folder.run(&[&["simulate"], arguments].concat());
        assert_eq!((status, said.as_str()), (Some(2), ""), "{arguments:?}: {error}");
        assert!(error.contains(named), "{arguments:?}: {error}");
    }
    assert_eq!(fs::read_to_string(folder.path("policies.yaml")).unwrap(), POLICIES);
}

/// A log that is half unreadable passed as if it were whole, and one of another day passed with no request at all.
#[test]
fn logs_without_an_answer_have_status_3() {
    let folder = Folder::new();
    let text = fs::read_to_string(folder.path("access.log")).unwrap();
    folder.write("broken.log", &(text.repeat(10) + &"what is this?\n".repeat(3)));
    let (status, said, error) = folder.run(&["simulate", "policies.yaml", "broken.log"]);
    assert_eq!((status, said.as_str()), (Some(3), ""), "{error}");
    assert!(error.contains("3 of 123 lines cannot be read"), "{error}");
    // Lines hold addresses and tokens, and standard error is kept in logs of its own.
    assert!(
        error.contains("  broken.log:121, of the shape: a a a?\n") && !error.contains("what is"),
        "{error}"
    );
    let (.., error) = folder.run(&["simulate", "policies.yaml", "broken.log", "--show-keys"]);
    assert!(error.contains("  broken.log:121: what is this?\n"), "{error}");
    folder.write("unknown.log", &(text.repeat(2) + &"token=hunter2\n".repeat(3)));
    for (flags, quoted) in [(&[][..], false), (&["--show-keys"], true)] {
        let arguments = [&["simulate", "policies.yaml", "unknown.log"], flags].concat();
        let (status, _, error) = folder.run(&arguments);
        assert_eq!((status, error.contains("hunter2")), (Some(2), quoted), "{error}");
        assert!(error.contains("not line 25; if it is the right one, add --format combined"), "{error}");
        assert!(error.contains("the shape of this line: a=a"), "{error}");
    }
    let (status, ..) = folder.run(&["simulate", "policies.yaml", "broken.log", "--max-unparsed", "50%"]);
    assert_eq!(status, Some(0));
    fs::write(folder.path("cut.log.gz"), b"\x1f\x8b\x08\x00").unwrap();
    let (status, _, error) = folder.run(&["simulate", "policies.yaml", "cut.log.gz"]);
    assert_eq!((status, error.contains("cut.log.gz: cannot be read")), (Some(3), true), "{error}");
    let (status, said, _) = folder.simulate(&["--from", "2027-01-01T00:00:00Z"]);
    assert_eq!(status, Some(3), "{said}");
    let note = "(--from, --to). Those in the logs are from 2026-11-23T12:00:00.25+00:00 to 2026-11-23T12:00:09.5+00:00.";
    assert!(
        flowing(&said).contains(note) && !said.contains("--attr") && !said.contains("policy `"),
        "{said}"
    );
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
    assert!(note.ends_with(" Requests that cannot be decided are not counted."), "{note}");
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

/// Each of these gave figures that looked right.
#[test]
fn logs_that_do_not_fit_the_flags_are_noted() {
    let folder = Folder::new();
    let noted = |arguments: &[&str], note: &str| {
        let (_, said, error) = folder.simulate(arguments);
        assert!(flowing(&said).contains(&format!(" - {note}")), "{arguments:?}: {said}{error}");
    };
    let (status, said, error) = folder.simulate(&["--attr", "ip=xff:10.0.0.0/8"]);
    assert_eq!((status, said.as_str()), (Some(2), ""), "{error}");
    assert!(error.contains("--attr ip=xff: no request in the logs has X-Forwarded-For; leave"), "{error}");
    let text = fs::read_to_string(folder.path("access.log")).unwrap();
    folder.write("proxied.log", &text.replace("\"Mozilla/5.0\"", "\"Mozilla/5.0\" \"203.0.113.9\""));
    let (_, said, _) =
        folder.run(&["simulate", "policies.yaml", "proxied.log", "--attr", "ip=xff:192.0.2.0/24"]);
    assert!(!said.contains("X-Forwarded-For") && said.contains("They come from 1 of 1 client;"), "{said}");
    let forwarded =
        |entry: &str| text.replace("\"Mozilla/5.0\"", &format!("\"Mozilla/5.0\" \"203.0.113.9, {entry}\""));
    folder.write("hidden.log", &[forwarded("unknown"), forwarded("")].concat());
    for command in [&["simulate", "policies.yaml"][..], &["suggest"]] {
        let arguments = [command, &["hidden.log", "--sort", "--attr", "ip=xff:192.0.2.0/24"]].concat();
        let (_, said, error) = folder.run(&arguments);
        let said = flowing(&said);
        for note in [
            "12 requests: a proxy's entry in X-Forwarded-For is no address, such as `unknown`, so `ip` is that of the proxy.",
            "12 requests: a proxy's entry in X-Forwarded-For is empty, so `ip` is missing; the service answers 400.",
        ] {
            assert!(said.contains(note), "{said}{error}");
        }
    }
    folder.write("own.log", "{\"time\":\"2026-11-23T12:00:00Z\",\"ip\":\"::1\",\"path\":\"/login\"}\n");
    let typo = ["simulate", "policies.yaml", "own.log", "--attr", "user=json:/usr"];
    let (_, said, _) = folder.run(&typo);
    assert!(
        flowing(&said).contains("No request in the logs has `user` in the place that --attr names. "),
        "{said}"
    );
    folder.write("access.log", &text.repeat(9));
    fs::copy(folder.path("access.log"), folder.path("access.log.1")).unwrap();
    noted(
        &["access.log.1"],
        "`access.log` and `access.log.1` look like copies of one log, so its requests count twice.",
    );
    folder.write("access.log.1", &text.repeat(9).replace(":12:00:", ":12:01:"));
    assert!(!folder.simulate(&["access.log.1"]).1.contains("copies"));
    let (status, _, error) =
        folder.simulate(&["--from", "2026-11-24T00:00:00Z", "--to", "2026-11-23T00:00:00Z"]);
    assert_eq!((status, error.as_str()), (Some(2), "error: --from is not before --to\n"));
    let (_, said, _) = folder.run(&["suggest", "access.log", "--match", "path: /logn"]);
    assert!(
        said.contains("No request meets the conditions of --match.")
            && !flowing(&said).contains("take a week"),
        "{said}"
    );
}

/// Estimates looked like counts, and more days were advised where they bring no more clients.
#[test]
fn client_figures_of_a_sample_are_marked_as_estimates() {
    let folder = Folder::new();
    ten_days(&folder);
    folder.write("policies.yaml", &POLICIES.replace("/login", "/"));
    let sampled = ["days.log", "--max-clients", "50"];
    let (_, said, _) = folder.run(&[&["simulate", "policies.yaml"], &sampled[..]].concat());
    assert!(said.contains("\nThey come from about "), "{said}");
    let suggested = |arguments: &[&str]| flowing(&folder.run(&[&["suggest"], arguments].concat()).1);
    let said = suggested(&sampled);
    let advice = "is followed; a larger --max-clients follows more. ";
    assert!(said.contains(advice) && !said.contains("more would be"), "{said}");
    assert!(said.contains(" requests of about "), "{said}");
    assert!(said.contains(" With --max-clients "), "{said}");
    let said = suggested(&["days.log", "--max-clients", "2000"]);
    assert!(said.contains("days more would be enough, with --max-clients "), "{said}");
    let said = suggested(&["days.log"]);
    assert!(said.contains("days more would be enough. "), "{said}");
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
fn json_markdown_and_the_page_have_the_same_figures_and_no_keys() {
    let folder = Folder::new();
    let (status, said, _) = folder.simulate(&["--json", "--report", "report.html"]);
    let json: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((status, json["requests"].as_u64(), json["denied"].as_u64()), (Some(0), Some(12), Some(7)));
    assert_eq!(json["read"]["files"][0]["requests"], 12);
    assert_eq!(json["policies"][0]["quotas"][0]["curve"]["basis"], "calculated");
    let page = fs::read_to_string(folder.path("report.html")).unwrap();
    assert!(
        page.contains("<h1>Of 12 requests, 7 would be denied (58.3\u{a0}%), all by <code>login</code>.</h1>"),
        "{page}"
    );
    let (_, markdown, _) = folder.simulate(&["--md", "--fail-if", "denied > 0", "--min-requests", "1"]);
    assert!(markdown.starts_with("### Replay of 12 requests: the gate failed\n"), "{markdown}");
    let (_, said, _) = folder.simulate(&["--json", "--fail-if", "denied > 0"]);
    let gates = &serde_json::from_str::<Value>(&said).unwrap()["gates"];
    assert_eq!((&gates[0]["part"], &gates[0]["all"]), (&Value::from(7), &Value::from(12)), "{gates}");
    for text in [&said, &page, &markdown] {
        assert!(!text.contains("192.0.2."), "{text}");
    }
    let (_, shown, _) = folder.simulate(&["--json", "--show-keys", "--report", "report.html"]);
    assert!(shown.contains("192.0.2.66"));
    assert!(fs::read_to_string(folder.path("report.html")).unwrap().contains("192.0.2.66"));
}

/// A log whose lines are no requests vanished without a word.
#[test]
fn lines_without_a_request_are_told() {
    let folder = Folder::new();
    let text = fs::read_to_string(folder.path("access.log")).unwrap();
    folder.write("access.log", &format!("\n{text}\n"));
    let (_, said, _) = folder.simulate(&["--report", "report.html"]);
    assert!(said.contains("Read 14 lines in 1 file, 2 without a request (14.3 %)\n"), "{said}");
    let page = fs::read_to_string(folder.path("report.html")).unwrap();
    assert!(page.contains("14 lines in 1 file, 2 without a request (14.3 %)."), "{page}");
    let docker = r#"{"log":"GET / 200\n","stream":"stdout","time":"2026-11-23T12:00:00.1Z"}"#;
    folder.write("docker.log", docker);
    let (status, said, error) = folder.run(&["simulate", "policies.yaml", "access.log", "docker.log"]);
    assert_eq!((status, said.as_str()), (Some(2), ""));
    assert!(error.contains("docker.log: no known format") && error.contains("--attr"), "{error}");
}

/// Gaps were in UTC, whatever the zone, and those outside `--from` and `--to` hid those inside.
#[test]
fn gaps_are_in_the_zone_and_between_the_requests_that_are_replayed() {
    let folder = Folder::new();
    // Ten gaps of an hour, which are as many as are told, and one of twenty minutes.
    let minutes = (0..=10).map(|hour| hour * 60).chain([620]);
    let log: String = minutes
        .map(|minute| {
            line("192.0.2.1", 0, "/", 200)
                .replace(":12:00:00", &format!(":{:02}:{:02}:00", minute / 60, minute % 60))
        })
        .collect();
    folder.write("access.log", &log);
    let gaps = |arguments: &[&str]| {
        let (_, said, _) = folder.simulate(&[&["--json", "--tz", "Europe/Berlin"], arguments].concat());
        let json: Value = serde_json::from_str(&said).unwrap();
        let gaps = json["read"]["gaps"].as_array().unwrap().clone();
        let gaps =
            gaps.iter().map(|gap| [&gap["from"], &gap["to"]].map(|time| time.as_str().unwrap().to_owned()));
        gaps.collect::<Vec<_>>()
    };
    let all = gaps(&[]);
    assert_eq!((all.len(), all[0][0].as_str()), (10, "2026-11-23T01:00:00.5+01:00"));
    let last = [["2026-11-23T11:00:00.5+01:00", "2026-11-23T11:20:00.5+01:00"].map(str::to_owned)];
    assert_eq!(gaps(&["--from", "2026-11-23T09:30:00Z"]), last);
    assert_eq!(gaps(&["--to", "2026-11-23T01:00:00Z"]), [[""; 2]; 0]);
}

/// Unreadable lines contain addresses as well.
#[test]
fn unreadable_lines_are_hidden_with_the_keys() {
    let folder = Folder::new();
    let text = fs::read_to_string(folder.path("access.log")).unwrap();
    folder.write("access.log", &(text + "192.0.2.99 is cut o"));
    let arguments = ["--max-unparsed", "50%"];
    for form in [&[][..], &["--json"], &["--md"]] {
        let (status, said, _) = folder.simulate(&[&arguments, form].concat());
        assert_eq!(status, Some(0));
        assert!(!said.contains("192.0.2.99"), "{said}");
        assert_eq!(said.contains("access.log:13"), form != ["--md"], "{said}");
        assert_eq!(said.contains("0.0.0.0 a a a"), form != ["--md"], "{said}");
    }
    let (_, said, _) = folder.simulate(&[&arguments[..], &["--show-keys"]].concat());
    assert!(said.contains("access.log:13: 192.0.2.99 is cut o\n"), "{said}");
}

/// The names of attributes come from files of policies, which somebody may have sent in a pull request.
#[test]
fn names_in_notes_are_neither_control_characters_nor_markup() {
    let folder = Folder::new();
    folder.write(
        "policies.yaml",
        "policies: [{ name: a, key: [\"x\\e[31m\\n# `<b>|y\"], quotas: [3/1m], on_missing_key: skip }]",
    );
    let (status, said, error) = folder.simulate(&[]);
    assert_eq!(status, Some(3), "{error}");
    assert!(said.contains("No request in the logs has `x\\u{1b}[31m\\n# '<b>|y`, which"), "{said}");
    assert!(!said.contains('\x1b'), "{said}");
    let (_, said, _) = folder.simulate(&["--md"]);
    assert!(said.contains("- No request in the logs has `x\\u{1b}[31m\\n# '<b>|y`, which"), "{said}");
    assert!(said.contains("`--attr x\\u{1b}[31m\\n# '<b>|y=SOURCE` to name its place"), "{said}");
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

/// A log of a day with times to the millisecond, none of them twice, or to the second.
fn day_of(random: &mut u32, is_coarse: bool) -> Vec<String> {
    let mut next = |end: u32| {
        *random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (*random >> 8) % end
    };
    let mut millis = 0;
    let lines = (0..400).map(|number| {
        millis += if is_coarse { 1_000 * (1 + next(200)) } else { 1 + next(200_000) };
        let (second, milli) = (1_795_392_000 + u64::from(millis / 1_000), millis % 1_000);
        let time = if is_coarse { second.to_string() } else { format!("{second}.{milli:03}") };
        let (ip, agent) = (next(9), next(3));
        let path = ["/login", "/me", "/%6Cogin?x", "/other"][next(4) as usize];
        let status = if number % 7 == 0 { 429 } else { 200 };
        format!(
            "{{\"ts\":{time},\"ip\":\"192.0.2.{ip}\",\"path\":\"{path}\",\"user\":\"u{}\",\"status\":{status},\
             \"user_agent\":\"agent {agent}\"}}\n",
            ip % 4
        )
    });
    lines.collect()
}

/// How requests are stored changes nothing in the report but the names of files.
#[test]
fn shuffled_split_and_compressed_logs_have_the_report_of_the_plain_one() {
    const LIMITS: &str = "policies:
  - { name: login, match: { path: /login }, key: [ip], quotas: [1/1h, 3/1d@first_hit], candidate: [2/1h] }
  - { name: user, match: { path: /me }, key: [user], quotas: [2/1h@staggered], mode: shadow }
  - { name: all, key: [ip], quotas: [9/day@Europe/Berlin] }
";
    let gzip = |text: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, text).unwrap();
        encoder.finish().unwrap()
    };
    let zstd =
        |text: &[u8]| ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest);
    let folder = Folder::new();
    folder.write("limits.yaml", LIMITS);
    folder.write("old.yaml", POLICIES);
    let report = |log: &str, more: &[&str]| -> Value {
        let arguments = ["simulate", "limits.yaml", log, "--baseline", "old.yaml", "--json", "--show-keys"];
        let classes = ["--class", "one=user_agent: agent 1", "--try-limits", "1"];
        let (status, said, error) = folder.run(&[&arguments[..], &classes, more].concat());
        assert_eq!((status, error.as_str()), (Some(0), ""));
        let mut report: Value = serde_json::from_str(&said).unwrap();
        report["read"]["files"].take();
        report
    };
    let mut random = 1;
    for round in 0..3 {
        let lines = day_of(&mut random, round % 2 == 0);
        let mut cut = || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) as usize % lines.len()
        };
        folder.write("plain.log", &lines.concat());
        let plain = report("plain.log", &[]);
        assert!(plain["denied"].as_u64() > Some(50), "{plain}");
        assert!(plain["compared"]["newly_denied"].as_u64() > Some(0), "{plain}");

        let mut shuffled = lines.clone();
        for place in (1..shuffled.len()).rev() {
            shuffled.swap(place, cut() % (place + 1));
        }
        folder.write("shuffled.log", &shuffled.concat());
        assert_eq!(report("shuffled.log", &["--sort"]), plain, "shuffled, round {round}");

        let (one, two) = lines.split_at(cut());
        let (two, three) = two.split_at(two.len() / 2);
        // Each line is in one of three files, and the second pair of files follow each other.
        let _ = fs::remove_dir_all(folder.path("parts"));
        fs::create_dir(folder.path("parts")).unwrap();
        let of = |lines: &[String], part: usize| -> String {
            lines
                .iter()
                .enumerate()
                .filter(|(place, _)| place % 2 == part)
                .map(|(_, line)| line.as_str())
                .collect()
        };
        let parts = [("b", of(one, 0)), ("a", of(one, 1)), ("z.log", two.concat()), ("c", three.concat())];
        for (name, text) in parts {
            folder.write(&format!("parts/{name}"), &text);
        }
        for order in [&[][..], &["--sort"]] {
            assert_eq!(report("parts", order), plain, "in parts, round {round}, {order:?}");
        }

        for (name, compress) in [("log.gz", &gzip as &dyn Fn(&[u8]) -> Vec<u8>), ("log.zst", &zstd)] {
            let members = [one, two, three].map(|lines| compress(lines.concat().as_bytes()));
            fs::write(folder.path(name), members.concat()).unwrap();
            assert_eq!(report(name, &[]), plain, "{name}, round {round}");
        }
    }
}

/// Values that are not UTF-8 were replayed with the sign of a damaged character. The service answers them 400.
/// The next batch is read while one is replayed.
#[test]
fn a_log_of_several_batches_is_replayed_whole_or_not_at_all() {
    let folder = Folder::new();
    let lines = (0..100_000).map(|number| {
        line(
            &format!("192.0.2.{}", number % 250),
            number / 100,
            if number % 3 > 0 { "/login" } else { "/me" },
            200,
        )
    });
    let log: String = lines.collect();
    folder.write("long.log", &log);
    let report = |arguments: &[&str]| {
        let (status, said, error) =
            folder.run(&[&["simulate", "policies.yaml", "long.log", "--json"], arguments].concat());
        assert_eq!((status, error.as_str()), (Some(0), ""));
        serde_json::from_str::<Value>(&said).unwrap()
    };
    let in_batches = report(&[]);
    assert_eq!((&in_batches["requests"], &in_batches["read"]["lines"]), (&100_000.into(), &100_000.into()));
    assert_eq!(in_batches, report(&["--sort"]));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, log.as_bytes()).unwrap();
    let compressed = encoder.finish().unwrap();
    fs::write(folder.path("cut.log.gz"), &compressed[..compressed.len() * 9 / 10]).unwrap();
    let (status, said, error) = folder.run(&["simulate", "policies.yaml", "cut.log.gz"]);
    assert_eq!((status, said.as_str()), (Some(3), ""));
    assert_eq!(error.matches("cut.log.gz: cannot be read").count(), 1, "{error}");
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

/// In a sampled log, each client seems to ask for less than it did.
#[test]
fn samples_are_refused_unless_somebody_asks_for_estimates() {
    let folder = Folder::new();
    let google = r#"{"timestamp":"2026-11-23T12:00:00Z","httpRequest":{"requestMethod":"GET","requestUrl":"http://a/login","status":200,"remoteIp":"192.0.2.1"}}"#;
    folder.write("google.log", &format!("{google}\n").repeat(12));
    let own = r#"{"ip":"192.0.2.1","method":"GET","path":"/","status":200,"user":"a","host":"b","bytes":1,"#;
    folder.write("enriched.log", &format!("{}\n", google.replacen('{', own, 1)).repeat(12));
    for command in [&["simulate", "policies.yaml"][..], &["suggest"]] {
        let run = |log, flags: &[&str]| folder.run(&[command, &[log], flags].concat());
        let (status, said, error) = run("google.log", &[]);
        assert_eq!((status, said.as_str()), (Some(3), ""));
        let why = "logs of Cloudflare and Google Cloud may hold only a sample";
        assert!(error.contains(&format!("google.log: {why}")), "{error}");
        // With fields of its own, it is read as plain JSON.
        let (status, said, error) = run("enriched.log", &[]);
        assert_eq!((status, said.as_str()), (Some(3), ""));
        assert!(error.contains(&format!("enriched.log: {why}")), "{error}");
        assert!(error.contains("--estimate") && error.contains("--sample-rate 100%"), "{error}");
        let (_, said, error) = run("google.log", &["--sample-rate", "100%"]);
        assert!(error.is_empty() && !said.contains("sample"), "{error}{said}");
        let (_, said, error) = run("google.log", &["--estimate"]);
        assert!(error.is_empty() && said.contains("may hold only a sample"), "{error}{said}");
        let (status, said, error) = run("access.log", &["--sample-rate", "10%"]);
        assert_eq!((status, said.as_str()), (Some(3), ""));
        assert!(error.contains("the logs hold 10 % of all requests"), "{error}");
        let (_, said, error) = run("access.log", &["--sample-rate", "10%", "--estimate"]);
        assert!(error.is_empty() && said.contains("there were about 120."), "{error}{said}");
    }
    let arguments = ["--sample-rate", "10%", "--estimate", "--min-requests", "1", "--fail-if"];
    let gate = |gate: &str| folder.simulate(&[&arguments[..], &[gate]].concat());
    for (text, expected) in [("denied > 60%", 3), ("denied < 50%", 0), ("denied > 50%", 1)] {
        let (status, said, _) = gate(text);
        assert_eq!(status, Some(expected), "{text}: {said}");
        assert!(said.contains("58.3 % (7 of 12 requests, perhaps in a sample)"), "{said}");
    }
}

#[test]
fn known_clients_are_shown_apart_and_have_gates() {
    let folder = Folder::new();
    folder.write("known.txt", "# our office\n192.0.2.1\n");
    let simulate = |gate: &str| folder.simulate(&["--known", "./known.txt", "--fail-if", gate]);
    let (status, said, error) = simulate("login.denied_clients{known} > 0");
    assert_eq!(status, Some(0), "{error}");
    let has = |said: &str, row: &str| said.lines().any(|line| line.split_whitespace().eq(row.split(' ')));
    assert!(
        has(&said, "login known 2 0 0 % 1 0 0 %") && has(&said, "login others 10 7 70 % 1 1 100 %"),
        "{said}"
    );
    assert!(said.contains("0 % (0 of 1 client)"), "{said}");
    assert_eq!(simulate("login.denied{others} > 0").0, Some(1));
    folder.write("known.txt", "192.0.2.0/24\n");
    assert_eq!(simulate("login.denied_clients{known} > 0").0, Some(1));
    let (_, said, error) = folder.run(&["suggest", "access.log", "--known", "known.txt"]);
    assert!(has(&said, "known clients 2 12 - 2 10 10"), "{error}{said}");
    folder.write("known.txt", "alice\n");
    let (status, _, error) = simulate("denied > 0");
    assert_eq!((status, error.matches("known.txt:1").count()), (Some(2), 1), "{error}");
    let (status, _, error) = folder.simulate(&["--class", "others=path: /login"]);
    assert_eq!((status, error.contains("class `others`: this name is taken")), (Some(2), true), "{error}");
    let (status, _, error) = folder.simulate(&["--known", "nowhere.txt"]);
    assert_eq!((status, error.contains("--known: cannot read nowhere.txt")), (Some(2), true), "{error}");
}

/// A list with the wrong values was taken without a word.
#[test]
fn lists_of_known_clients_that_name_nobody_are_told() {
    let folder = Folder::new();
    folder.write("known.txt", "198.51.100.7\n");
    let note = "No counted request comes from a client of --known: none has its `ip` in that list.";
    let suggest =
        |more: &[&str]| folder.run(&[&["suggest", "access.log", "--known", "known.txt"], more].concat());
    for form in [&[][..], &["--json"]] {
        let (_, said, error) = suggest(form);
        assert!(flowing(&said).contains(note), "{error}{said}");
    }
    // The error named a column of a text that the user had not written.
    let expected =
        "--match: expected conditions as in the `match` of a policy, such as 'path: /login', found `/login`";
    assert!(suggest(&["--match", "/login"]).2.contains(expected));
    // It named the flag of another command.
    let (_, _, error) = suggest(&["--match", "path: { near: /login }"]);
    assert!(error.contains("--match:") && !error.contains("--class"), "{error}");
    // Known clients that --match leaves out are not counted.
    folder.write("known.txt", "192.0.2.66\n");
    assert!(flowing(&suggest(&["--match", "path: /other"]).1).contains(note));
    assert!(!flowing(&suggest(&[]).1).contains(note));
    for (arguments, flag) in [
        (&["suggest", "access.log", "--key", "global"][..], "--key"),
        (&["simulate", "policies.yaml", "access.log", "--client", "global"], "--client"),
    ] {
        let (status, said, error) = folder.run(&[arguments, &["--known", "known.txt"]].concat());
        let expected = format!("--known: {flag} global counts all clients as one");
        assert_eq!((status, said.as_str(), error.contains(&expected)), (Some(2), "", true), "{error}");
    }
}

/// Somebody who met a bound had to read the source to know it.
#[test]
fn bounds_are_in_the_help() {
    let help = |command: &str| {
        let (status, said, _) = Folder::new().run(&[command, "--help"]);
        assert_eq!(status, Some(0));
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let simulate = help("simulate");
    for bound in [
        "eight live counters per client: 16 million by default",
        "32 for all quotas together",
        "at most 250 classes",
    ] {
        assert!(simulate.contains(bound), "{bound}: {simulate}");
    }
    for said in [simulate, help("suggest")] {
        for bound in ["lines longer than 64 KiB", "at most 16 MiB", "more than a minute out of order"] {
            assert!(said.contains(bound), "{bound}: {said}");
        }
    }
}

/// It said nothing of what it had read, and so nothing of lines that it could not read.
#[test]
fn suggest_says_what_it_has_read() {
    let folder = Folder::new();
    let text = fs::read_to_string(folder.path("access.log")).unwrap();
    folder.write("access.log", &format!("\n{text}secret is cut o"));
    let arguments = ["suggest", "access.log", "--max-unparsed", "50%"];
    let (_, said, _) = folder.run(&arguments);
    let read = "Read 14 lines in 1 file, 1 without a request (7.14 %), 1 unreadable (7.14 %)\n";
    assert!(said.contains(read) && said.contains("access.log:14, of the shape: a a a a\n"), "{said}");
    let (_, said, _) = folder.run(&[&arguments[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&json["read"]["others"], &json["read"]["unparsed_lines"]), (&1.into(), &1.into()));
    assert!(!said.contains("secret"), "{said}");
}

/// Four hundred clients in ten days, each with up to six requests at once.
fn ten_days(folder: &Folder) {
    let mut log = String::new();
    for client in 0..400_u32 {
        let (day, minute) = (1 + client / 40, client % 40);
        for second in 0..=client % 6 {
            let _ = writeln!(
                log,
                "10.0.{}.{} - - [{day:02}/Nov/2026:10:{minute:02}:{second:02} +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \
                 \"Mozilla/5.0\"",
                client / 200,
                client % 200
            );
        }
    }
    folder.write("days.log", &log);
}

#[test]
fn a_suggestion_is_a_file_that_the_service_takes() {
    let folder = Folder::new();
    ten_days(&folder);
    let (status, said, error) = folder.run(&["suggest", "days.log", "--budget", "2%"]);
    assert_eq!(status, Some(0), "{error}");
    assert!(
        said.contains("Limit 10/1m\n") && said.contains("on the rest of the period: denies 0 of"),
        "{said}"
    );
    assert!(!said.contains("10.0.0."), "{said}");
    let (status, policy, _) =
        folder.run(&["suggest", "days.log", "--budget", "2%", "--yaml", "--match", "path: /"]);
    assert_eq!(status, Some(0));
    let file = folder.write("suggested.yaml", &policy);
    assert_eq!(folder.run(&["check-config", "suggested.yaml", "--deny-warnings"]).0, Some(0), "{policy}");
    let server = Server::start(&["--config", file.to_str().unwrap()]);
    for _ in 0..30 {
        assert_eq!(server.get("/v1/check?ip=192.0.2.7&path=/").status, 200);
    }
}

/// There was no limit, and the status was 3.
#[test]
fn few_clients_give_the_limit_that_they_prove() {
    let folder = Folder::new();
    ten_days(&folder);
    let (status, said, error) = folder.run(&["suggest", "days.log"]);
    assert_eq!(status, Some(0), "{error}");
    assert!(
        said.contains("\nThis log can prove a limit for 1 client in ") && said.contains("Limit 10/1m\n"),
        "{said}"
    );
    assert!(flowing(&said).contains("2,995 clients"), "{said}");
    let (status, policy, _) = folder.run(&["suggest", "days.log", "--yaml"]);
    assert_eq!(status, Some(0));
    assert!(policy.contains("# This log can prove a limit for 1 client in "), "{policy}");
    folder.write("suggested.yaml", &policy);
    assert_eq!(folder.run(&["check-config", "suggested.yaml", "--deny-warnings"]).0, Some(0), "{policy}");
    let (_, said, _) = folder.run(&["suggest", "days.log", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["budget"].as_f64(), Some(0.001));
    assert!(said["quota"]["proven_budget"].as_f64().unwrap() > 0.001, "{said}");
    assert_eq!(folder.run(&["suggest", "days.log", "--budget", "60%"]).0, Some(2));
}

#[test]
fn two_clients_give_no_suggestion() {
    let folder = Folder::new();
    let (status, said, error) = folder.run(&["suggest", "access.log", "--yaml"]);
    assert_eq!((status, said.as_str()), (Some(3), ""), "{error}");
    assert!(error.contains("No limit for 1m"), "{error}");
}

/// What the guide shows is what a reader gets, apart from the lines that it leaves out.
#[test]
fn the_guide_shows_what_the_command_prints() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = fs::read_to_string(root.join("docs/simulate.md")).unwrap();
    let block = guide.split("```console\n$ tollgate ").nth(1).unwrap().split("```").next().unwrap();
    let mut lines = block.lines();
    let arguments = lines.next().unwrap().split(' ');
    let output = tollgate().current_dir(&root).args(arguments).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let mut printed = said.lines();
    let mut may_skip = false;
    for line in lines {
        let is_next = |printed: &&str| printed.trim_end() == line;
        match line {
            "..." => may_skip = true,
            _ if may_skip => may_skip = !printed.by_ref().any(|printed| is_next(&printed)),
            _ => assert!(printed.next().as_ref().is_some_and(is_next), "{line}\n{said}"),
        }
    }
    assert!(block.ends_with("...\n") && said.contains("Caveats"), "{said}");
}

/// They named files that nobody had.
#[test]
fn the_commands_of_the_guide_work_in_a_fresh_clone() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = fs::read_to_string(root.join("docs/simulate.md")).unwrap().replace("\\\n", "");
    let blocks = guide.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let commands = blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("tollgate "));
    let mut played = 0;
    let is_played = |command: &&str| command.contains("examples/simulate/") && !command.ends_with("&&");
    for command in commands.filter(is_played) {
        // Every other part stands between quotes, and may have blanks.
        let parts = command.split('\'').enumerate().flat_map(|(place, part)| match place % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        });
        let arguments: Vec<&str> = parts.collect();
        let output = tollgate().current_dir(&root).args(&arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_ne!(output.status.code(), Some(2), "{command}: {error}");
        played += 1;
    }
    assert!(played >= 5, "{played}");
}

/// The workflow's gates are understood, and fail on the example.
#[test]
fn the_gates_of_the_workflow_work() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let workflow = fs::read_to_string(root.join("examples/simulate/workflow.yml")).unwrap();
    let gates: Vec<&str> =
        workflow.split("--fail-if '").skip(1).filter_map(|rest| rest.split('\'').next()).collect();
    assert_eq!(gates.len(), 3, "{gates:?}");
    let policies = "examples/simulate/policies.yaml";
    let arguments = ["simulate", policies, "examples/simulate/access.log", "--baseline", policies, "--md"];
    let mut command = tollgate();
    command.current_dir(&root).args(arguments);
    command.args(["--min-requests", "1"]);
    gates.iter().for_each(|gate| _ = command.args(["--fail-if", gate]));
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("| FAILED | `denied > 0.1%` | 19.5 % (30 of 154 requests) | at most 0.1 % |"),
        "{said}"
    );
    assert!(said.contains("| held | `newly_denied_clients > 0` |"), "{said}");
}

/// They were counted alone, so nobody could see which lines were meant.
#[test]
fn late_lines_are_shown_as_unreadable_ones_are() {
    let folder = Folder::new();
    let mut log: String = (0..600).map(|_| line("192.0.2.1", 59, "/login", 200)).collect();
    log += &line("192.0.2.1", 59, "/login", 200).replace(":12:", ":13:").repeat(600);
    log += &line("192.0.2.66", 7, "/late?token=abc", 200);
    folder.write("access.log", &log);
    let (status, said, _) = folder.simulate(&[]);
    assert_eq!(status, Some(0), "{said}");
    let shown = "1 late line, too far behind those before them: access.log:1201, of the shape: 0.0.0.0 - - [0/a/0:0:0:0 +0] ";
    assert!(flowing(&said).contains(shown) && !said.contains("token"), "{said}");
    let (_, said, _) = folder.simulate(&["--show-keys"]);
    assert!(said.contains("    access.log:1201: 192.0.2.66 - - ") && said.contains("token=abc"), "{said}");
    let (_, said, _) = folder.simulate(&["--json"]);
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["read"]["late_examples"][0]["place"], "access.log:1201");
    assert_eq!(report["read"]["late_examples"][0]["text"], Value::Null);
    // Too many of them.
    let (status, _, error) = folder.simulate(&["--max-unparsed", "0%"]);
    assert_eq!(status, Some(3));
    let shown = "1 line: too far behind those before them\n  access.log:1201, of the shape: ";
    assert!(error.contains(shown) && !error.contains("token"), "{error}");
}

/// Runs a command on a terminal, by `script` of util-linux, and returns what it prints there.
fn on_a_terminal(folder: &Folder, variables: &[(&str, &str)], command: &str) -> String {
    let program = tollgate().get_program().to_str().unwrap().to_owned();
    let mut script = std::process::Command::new("script");
    script.current_dir(folder.0.path()).args([
        "-qec",
        &format!("{{ {program} {command}; }} 2>errors.txt"),
        "typescript",
    ]);
    script.env_remove("NO_COLOR").env("TERM", "xterm").envs(variables.iter().copied());
    let output = script.output().unwrap_or_else(|error| panic!("install `script` of util-linux: {error}"));
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The report had no colour. In a pipe, escape codes are rubbish, and not everybody can see red.
#[test]
fn colour_is_for_terminals_that_want_it() {
    let folder = Folder::new();
    let command = "simulate policies.yaml access.log --fail-if 'denied < 1' --min-requests 1";
    let said = on_a_terminal(&folder, &[], command);
    for set_off in [
        "\u{1b}[1mOf 12 requests, 7 would be denied (58.3 %), all by `login`.\u{1b}[0m",
        "\u{1b}[32mheld\u{1b}[0m",
        "\u{1b}[31m58.3 %\u{1b}[0m",
        "\u{1b}[2m  Read 12 lines in 1 file\u{1b}[0m",
    ] {
        assert!(said.contains(set_off), "{said}");
    }
    let said = on_a_terminal(&folder, &[], "suggest access.log || true");
    assert!(said.starts_with("\u{1b}[1mNo limit for 1m"), "{said}");
    for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let said = on_a_terminal(&folder, &[variable], command);
        assert!(said.contains("Of 12 requests") && !said.contains('\u{1b}'), "{variable:?}: {said}");
    }
    assert!(on_a_terminal(&folder, &[("NO_COLOR", "")], command).contains('\u{1b}'), "empty is not set");
    for arguments in [&[][..], &["--md"], &["--json"]] {
        assert!(!folder.simulate(arguments).1.contains('\u{1b}'), "{arguments:?}");
    }
}
