//! Gates and lists of known clients.

use std::fs;
use std::path::PathBuf;

use super::{Folder, flowing};
use crate::support::tollgate;

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
