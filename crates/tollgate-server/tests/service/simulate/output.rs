//! The formats of a report, names in it, and colours.

use std::fs;

use serde_json::Value;

use super::Folder;
use crate::support::tollgate;

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
