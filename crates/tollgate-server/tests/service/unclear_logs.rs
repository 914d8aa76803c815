//! Logs that do not show for certain who their clients are, at the command line: the flags that a refusal prints are typed
//! into a shell.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::tollgate;

const POLICIES: &str = "policies:
  - { name: all, key: [ip], quotas: [8/1m] }
";

/// So many requests of fifty clients, two seconds apart; `@` is the number of the client.
fn folder(line: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    let mut text = String::new();
    for number in 0..200 {
        let (minute, second) = (number / 30, number % 30 * 2);
        let line = line.replace('@', &(number % 50).to_string());
        let line = line.replace("TIME", &format!("2026-05-24T10:{minute:02}:{second:02}Z"));
        writeln!(text, "{}", line.replace("CLF", &format!("[24/May/2026:10:{minute:02}:{second:02} +0000]")))
            .unwrap();
    }
    fs::write(folder.path().join("access.log"), text).unwrap();
    fs::write(folder.path().join("policies.yaml"), POLICIES).unwrap();
    folder
}

/// Runs a command line in the folder by a shell. Returns its status and what it prints.
fn shell(folder: &TempDir, command: &str) -> (Option<i32>, String, String) {
    let program = tollgate().get_program().to_owned();
    let mut shell = Command::new("sh");
    shell
        .current_dir(folder.path())
        .args(["-c", &format!("\"$TOLLGATE\" {command}")])
        .env("TOLLGATE", program);
    let output = shell.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Text for people is broken into lines.
fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The clients that each of the printed flags finds.
fn clients_by_flags(folder: &TempDir, error: &str) -> Vec<u64> {
    let flags = error.lines().filter_map(|line| line.strip_prefix("    "));
    let clients = flags.map(|flags| {
        let flags = flags.replace("NETWORKS", "10.0.0.0/8");
        let (status, said, error) =
            shell(folder, &format!("simulate policies.yaml access.log --json {flags}"));
        assert_eq!(status, Some(0), "{flags}: {error}");
        let report: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(report["read"]["unparsed_lines"], 0, "{flags}");
        report["clients"].as_u64().unwrap()
    });
    clients.collect()
}

/// Two proxies were "2 clients", and 83 % of all requests denied.
#[test]
fn the_flags_of_a_refusal_read_the_log() {
    let rest = r#"CLF "GET /a HTTP/1.1" 200 10 "-" "curl""#;
    let cases: [(String, &[u64]); 7] = [
        (format!("10.0.0.5 203.0.113.@ - - {rest}"), &[1, 50]),
        (format!("10.0.0.5 203.0.113.@, 10.0.0.7 - - {rest}"), &[1, 50]),
        (format!("198.51.100.9, 203.0.113.@, 10.0.0.7 10.0.0.5 - - {rest}"), &[50, 1]),
        (format!("203.0.113.@, 10.0.0.7 - - {rest}"), &[50]),
        (format!("web-7d9f nginx 203.0.113.@ - - {rest}"), &[50]),
        (format!("\"203.0.113.@ - - {rest}"), &[50]),
        (
            r#"{"time":"TIME","remote_addr":"10.0.0.5","client_ip":"203.0.113.@","method":"GET","path":"/a"}"#.into(),
            &[1, 50],
        ),
    ];
    for (line, expected) in cases {
        let folder = folder(&line);
        for command in ["simulate policies.yaml access.log", "suggest access.log"] {
            let (status, said, error) = shell(&folder, command);
            assert_eq!((status, said.as_str()), (Some(2), ""), "{line}");
            assert!(error.contains("line 1 ") && !error.contains("203.0.113"), "{error}");
            let (_, _, shown) = shell(&folder, &format!("{command} --show-keys"));
            assert!(shown.contains(": 203.0.113.0") || shown.contains(", 203.0.113.0"), "{shown}");
        }
        let (_, _, error) = shell(&folder, "simulate policies.yaml access.log");
        assert_eq!(clients_by_flags(&folder, &error), expected, "{error}");
    }
}

/// A few public addresses were the clients of all requests, and nothing said so.
#[test]
fn other_addresses_are_refused_or_noted_first() {
    let line = |client: &str, tail: &str| {
        format!(r#"{client} - - CLF "GET /a HTTP/1.1" 200 10 "-" "curl" {tail}"203.0.113.@""#)
    };
    let noted = "100 % of the first lines have another address in X-Forwarded-For. If `remote_addr` is your proxy, use \
                 `--attr ip=xff:NETWORKS`.";
    for tail in ["", "0.003 "] {
        let folder = folder(&line("10.0.0.9", tail));
        for command in ["simulate policies.yaml access.log", "simulate access.log", "suggest access.log"] {
            let (status, said, error) = shell(&folder, command);
            assert_eq!((status, said.as_str()), (Some(2), ""), "{command}");
            let flags: Vec<&str> = error.lines().filter_map(|line| line.strip_prefix("    ")).collect();
            assert_eq!(flags[1], "--attr ip=field:remote_addr", "{error}");
        }
        let (_, _, error) = shell(&folder, "simulate policies.yaml access.log");
        assert_eq!(clients_by_flags(&folder, &error), [50, 1], "{error}");
    }
    let folder = folder(&line("192.0.2.@", ""));
    for command in ["simulate policies.yaml access.log", "simulate access.log", "suggest access.log"] {
        let (_, said, error) = shell(&folder, &format!("{command} --json"));
        let report: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{error}"));
        let note = report["notes"][0].as_str().unwrap();
        assert_eq!(note, format!("`access.log`: {noted}"));
        // Nobody is asked again who has chosen.
        let (_, said, _) = shell(&folder, &format!("{command} --json --attr ip=field:remote_addr"));
        assert!(!said.contains("another address"), "{said}");
    }
}

/// The report was about 0 clients, with status 0.
#[test]
fn logs_without_clients_are_refused_where_clients_are_counted() {
    let folder =
        folder(r#"{"time":"TIME","RemoteAddr":"203.0.113.@","user":"me","method":"GET","path":"/a"}"#);
    for command in ["simulate policies.yaml access.log", "simulate access.log", "suggest access.log"] {
        let (status, said, error) = shell(&folder, command);
        assert_eq!((status, said.as_str()), (Some(2), ""), "{command}");
        assert!(error.contains("--attr ip=json:/RemoteAddr"), "{error}");
        assert_eq!(shell(&folder, &format!("{command} --attr ip=json:/RemoteAddr")).2, "");
    }
    for command in ["simulate access.log --limit 9/1m --key user", "suggest access.log --key user"] {
        let (status, _, error) = shell(&folder, command);
        assert!(status != Some(2), "{command}: {error}");
    }
    let folder = self::folder(r#"{"time":"TIME","user":"me","method":"GET","path":"/a"}"#);
    let (status, _, error) = shell(&folder, "simulate policies.yaml access.log");
    assert!(status == Some(2) && error.contains("none of the first lines has the address"), "{error}");
}

/// Limits by address then count the proxy, and nothing said so.
#[test]
fn addresses_that_are_perhaps_those_of_proxies_are_noted() {
    let line =
        |client: &str| format!(r#"{client} - - CLF "GET /a HTTP/1.1" 200 10 "-" "curl" "203.0.113.@""#);
    let private = "100 % of the requests come from private addresses, perhaps from a proxy";
    let cases = [
        (line("10.0.0.@"), "", Some(private)),
        (line("100.64.1.@"), "", Some(private)),
        (line("203.0.113.@"), "", None),
        (line("10.0.0.@"), "--attr ip=xff:10.0.0.0/8", None),
        (
            line("10.0.0.@"),
            "--attr ip=xff:10.9.0.0/16",
            Some("Perhaps its network is missing in `--attr ip=xff:NETWORKS`"),
        ),
    ];
    for (line, flags, expected) in cases {
        let folder = folder(&line);
        for command in ["simulate policies.yaml access.log", "suggest access.log"] {
            let (_, said, error) = shell(&folder, &format!("{command} {flags}"));
            assert!(error.is_empty(), "{error}");
            let said = on_one_line(&said);
            match expected {
                Some(expected) => assert!(said.contains(expected), "{said}"),
                None => assert!(!said.contains("perhaps from a proxy"), "{said}"),
            }
        }
    }
    let folder = folder(&line("h@.example"));
    let (_, said, _) = shell(&folder, "simulate policies.yaml access.log");
    assert!(on_one_line(&said).contains("Clients in `access.log` are names of hosts"), "{said}");
}
