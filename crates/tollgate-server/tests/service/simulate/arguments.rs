//! Files, flags and values that the commands take or refuse.

use std::fs;

use serde_json::Value;

use super::{Folder, POLICIES, flowing};

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
fn errors_have_status_2_and_name_the_fault() {
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
