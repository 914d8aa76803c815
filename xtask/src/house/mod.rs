//! `cargo xtask house`: rules about modules, names, tests and comments that no lint has.

mod circles;
mod names;
mod source;

use anyhow::{Result, ensure};

use self::source::SourceFile;
use crate::docs;
use crate::steps::CheckOutcome;

/// A rule: its name, and what breaks it.
type HouseRule = (&'static str, fn(&[SourceFile]) -> Vec<String>);

const RULES: [HouseRule; 6] = [
    ("sleeping tests", sleeping_tests),
    ("wording of comments", wording),
    ("circles of imports", circles::all),
    ("names", names::repeated),
    ("participles without a noun", names::participles),
    ("locals named `of_...`", locals),
];

/// Prints what breaks a rule, and fails if anything does.
pub(crate) fn check() -> Result<CheckOutcome> {
    let files = SourceFile::read_all()?;
    let mut count = 0;
    for (name, broken) in RULES {
        let lines = broken(&files);
        println!("{name}: {}", lines.len());
        lines.iter().for_each(|line| println!("  {line}"));
        count += lines.len();
    }
    ensure!(count == 0, "{count} places break a rule of the house");
    Ok(CheckOutcome::Passed)
}

/// Returns locals and parameters that are named after what they belong to instead of what they hold.
fn locals(files: &[SourceFile]) -> Vec<String> {
    let is_local = |line: &str| {
        // A function, a method, a field or a name of another crate is not a local.
        line.match_indices("of_").any(|(at, _)| {
            let (before, after) = (&line[..at], &line[at..]);
            let end = after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(after.len());
            let binds = before.ends_with(['|', '(', ' ']) && !before.ends_with("fn ");
            let binds_here = before.rsplit_once("let ").is_some_and(|(_, after)| !after.contains('='))
                || after.contains("=>") && !before.contains("=>")
                || before.contains('|') && !before.contains("||")
                || before.trim_start().starts_with("for ") && !before.contains(" in ");
            binds && binds_here && !after[end..].starts_with('(')
        })
    };
    lines_where(files, |_, lines, index| is_local(lines[index]))
}

/// Returns the places where a test waits for time to pass, except in a loop that polls, and where tokio's time is
/// paused. Faults of stores begin and end after random times, and a comment that begins with "Real time:" gives the
/// reason of an exception.
fn sleeping_tests(files: &[SourceFile]) -> Vec<String> {
    const FAULTS: [&str; 2] = ["tollgate-redis/tests/faults/", "tollgate-server/tests/overrides/"];
    let may_sleep = |file: &SourceFile, lines: &[&str], index: usize| {
        is_in_a_loop(lines, index)
            || FAULTS.iter().any(|folder| file.path.contains(folder))
            || file.pauses_time() && !lines[index].contains("thread::sleep(")
            || file.has_comment_before(index, "Real time:")
    };
    let sleeps = |file: &SourceFile, lines: &[&str], index: usize| {
        // A method of this name belongs to a clock.
        let line = lines[index].replace("fn sleep(", "").replace(".sleep(", "");
        file.is_test(index) && line.contains("sleep(") && !may_sleep(file, lines, index)
    };
    lines_where(files, sleeps)
}

/// Whether a line is in the body of a loop, judged by how far lines are indented.
fn is_in_a_loop(lines: &[&str], index: usize) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut inner = indent(lines[index]);
    for line in lines[..index].iter().rev().filter(|line| !line.trim().is_empty()) {
        if indent(line) < inner {
            inner = indent(line);
            let line = line.trim_start();
            if ["while ", "loop {", "for "].iter().any(|word| line.starts_with(word))
                || [": loop {", ".any(|"].iter().any(|word| line.contains(word))
            {
                return true;
            }
            if line.contains("fn ") {
                return false;
            }
        }
    }
    false
}

/// Returns turns in comments, and so in `--help`, that plain English avoids.
fn wording(files: &[SourceFile]) -> Vec<String> {
    let blocks = files.iter().flat_map(|file| {
        file.comments().into_iter().map(move |(line, text)| (format!("{}:{line}", file.path), text))
    });
    blocks.flat_map(|(place, text)| docs::turns_in(&place, &text)).collect()
}

/// Returns the places of the lines of code that the condition holds for.
fn lines_where(files: &[SourceFile], holds: impl Fn(&SourceFile, &[&str], usize) -> bool) -> Vec<String> {
    let mut places = Vec::new();
    for file in files {
        let lines: Vec<&str> = file.code.lines().collect();
        let matching = (0..lines.len()).filter(|index| holds(file, &lines, *index));
        places.extend(matching.map(|index| format!("{}:{}: {}", file.path, index + 1, lines[index].trim())));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile::new(path.to_owned(), text.to_owned())
    }

    #[test]
    fn a_local_is_no_function() {
        let text = "fn of_debian() {}\nlet of_file = 1;\nlet file = of_debian();\nrun(|of_line| of_line + 1);\nif let Some(of_map) = map.of_key {}\nSome(of_key) => of_key,\nNone => of_key,\n";
        assert_eq!(
            locals(&[file("crates/a/src/b.rs", text)]),
            [
                "crates/a/src/b.rs:2: let of_file = 1;",
                "crates/a/src/b.rs:4: run(|of_line| of_line + 1);",
                "crates/a/src/b.rs:5: if let Some(of_map) = map.of_key {}",
                "crates/a/src/b.rs:6: Some(of_key) => of_key,"
            ]
        );
    }

    #[test]
    fn a_test_may_sleep_only_while_it_polls() {
        let text = "fn polls() {\n    while waits() {\n        sleep(TICK);\n    }\n    sleep(LONG);\n    // Real time: a server counts.\n    sleep(LONG);\n}\n";
        assert_eq!(
            sleeping_tests(&[file("crates/a/tests/b.rs", text)]),
            ["crates/a/tests/b.rs:5: sleep(LONG);"]
        );
        let product =
            format!("{text}#[cfg(test)]\nmod tests {{\n    fn test() {{\n        sleep(LONG);\n    }}\n}}\n");
        assert_eq!(sleeping_tests(&[file("crates/a/src/b.rs", &product)]).len(), 1);
    }

    #[test]
    fn a_turn_is_found_across_lines_of_a_comment() {
        let text = "/// The flag goes\n/// before the file.\nstruct Flag; // fine\n";
        let found = wording(&[file("crates/a/src/b.rs", text)]);
        assert_eq!(found, ["crates/a/src/b.rs:1: \"goes before\" reads badly; instead: \"overrides\""]);
    }
}
