//! Suggested limits, and the commands of the guide.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::{Folder, flowing, ten_days};
use crate::support::{Server, tollgate};

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
