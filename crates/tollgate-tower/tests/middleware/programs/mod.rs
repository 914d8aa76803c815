//! The Rust programs of `README.md`, `docs/library.md`, `docs/middleware.md` and `docs/test-your-app.md` compile, and
//! print what the pages say.
//!
//! Each program lies here as the page has it. A page with another program fails.

use std::process::Command;

use tollgate_testkit::manual::{blocks, inline_code};

#[allow(dead_code, reason = "compiled, not called: servers, and what a page shows in part")]
mod fragments;

/// A program of a page: its text, and the same compiled.
macro_rules! program {
    ($module:ident, $file:literal) => {
        #[allow(dead_code, reason = "not every program is run")]
        mod $module {
            include!($file);

            pub(super) const TEXT: &str = include_str!($file);

            pub(super) fn run() {
                main().unwrap();
            }
        }
    };
}

program!(first, "library_first.rs");
program!(several, "library_several.rs");
program!(refund, "library_refund.rs");
program!(in_flight, "library_in_flight.rs");
program!(redis, "library_redis.rs");
program!(hold, "library_hold.rs");
program!(wait, "library_wait.rs");
program!(layer, "middleware_first.rs");
program!(policies, "middleware_policies.rs");

/// A test of the reader's, which runs with the others here.
mod testing {
    include!("library_testing.rs");

    pub(super) const TEXT: &str = include_str!("library_testing.rs");
}

/// A test of the reader's app.
mod app_testing {
    include!("app_testing.rs");

    pub(super) const TEXT: &str = include_str!("app_testing.rs");
}

const README: &str = include_str!("../../../../../README.md");
const LIBRARY: &str = include_str!("../../../../../docs/library.md");
const MIDDLEWARE: &str = include_str!("../../../../../docs/middleware.md");
const TEST_YOUR_APP: &str = include_str!("../../../../../docs/test-your-app.md");

/// Names a program for the process that runs it.
const RUN: &str = "TOLLGATE_RUN_PROGRAM";

/// The lines around what a program prints.
const MARK: &str = "=== the program";

fn programs(page: &'static str) -> impl Iterator<Item = &'static str> {
    blocks(page).into_iter().filter(|block| block.language == "rust").map(|block| block.text)
}

/// The lines of code, without their indentation and without comments.
fn lines(text: &str) -> String {
    let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//");
    text.lines().map(str::trim).filter(is_code).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_programs_of_the_pages_are_those_that_are_compiled() {
    let whole = [
        first::TEXT,
        several::TEXT,
        refund::TEXT,
        in_flight::TEXT,
        redis::TEXT,
        hold::TEXT,
        wait::TEXT,
        testing::TEXT,
    ];
    assert_eq!(programs(LIBRARY).map(lines).collect::<Vec<_>>(), whole.map(lines));
    let (whole, parts) = programs(MIDDLEWARE).partition::<Vec<_>, _>(|text| text.contains("fn main()"));
    assert_eq!(whole.into_iter().map(lines).collect::<Vec<_>>(), [layer::TEXT, policies::TEXT].map(lines));

    assert_eq!(programs(TEST_YOUR_APP).map(lines).collect::<Vec<_>>(), [app_testing::TEXT].map(lines));

    let readme_programs = programs(README).collect::<Vec<_>>();
    assert_eq!(readme_programs.len(), 2);
    assert_eq!(lines(readme_programs[0]), lines(first::TEXT));
    let compiled = lines(include_str!("fragments.rs"));
    for part in parts.into_iter().chain([readme_programs[1]]) {
        assert!(compiled.contains(&lines(part)), "no fragment is\n{part}");
    }
}

#[test]
#[ignore = "runs one program, in the process that another test starts for it"]
fn runs_the_program_of_the_variable() {
    println!("{MARK}");
    match std::env::var(RUN).unwrap().as_str() {
        "first" => first::run(),
        "several" => several::run(),
        "refund" => refund::run(),
        "in_flight" => in_flight::run(),
        "wait" => wait::run(),
        other => panic!("no program is {other}"),
    }
    println!("{MARK}");
}

/// Runs a program in a process of its own, and returns the lines that it prints.
fn printed_by(program: &str) -> Vec<String> {
    let test = "programs::runs_the_program_of_the_variable";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(RUN, program).args(["--exact", test, "--ignored", "--nocapture"]);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    let printed = said.split(MARK).nth(1).unwrap_or_else(|| panic!("{program} was not run: {said}"));
    printed.trim().lines().map(str::to_owned).collect()
}

/// A minute may end between two of the three.
#[test]
fn the_first_program_allows_two_and_denies_the_third() {
    let expected = ["allowed, 1 left", "allowed, 0 left", "denied, come back in"];
    let is_so = |printed: Vec<String>| {
        eprintln!("{printed:?}");
        printed.len() == 3 && printed.iter().zip(expected).all(|(line, start)| line.starts_with(start))
    };
    assert!((0..3).any(|_| is_so(printed_by("first"))));
}

#[test]
fn the_other_programs_print_what_the_page_says() {
    let printed = printed_by("refund");
    let [line] = &printed[..] else { panic!("one line: {printed:?}") };
    assert!(inline_code(LIBRARY).contains(&line.as_str()), "the page does not say `{line}`");
    assert_eq!(printed_by("several"), ["1 left of 2/1s"]);
    let printed = printed_by("in_flight");
    assert_eq!(printed, ["allowed: false, because Some(InFlightExceeded)", "allowed: true"]);
    assert!(printed.iter().all(|line| inline_code(LIBRARY).contains(&line.as_str())));
    assert_eq!(printed_by("wait"), ["allowed: true"; 5]);
}
