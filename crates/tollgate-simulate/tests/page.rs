//! The page of a report in a real browser: its script, its accessibility, and that it fetches nothing.
//!
//! `cargo xtask test` installs the tools and runs this. `TOLLGATE_LOOK_AT_PAGE` is the path of the copy of `look.mjs` that
//! lies next to them.
//! With a folder in `TOLLGATE_PICTURES`, pictures of the page are kept there.

#![allow(clippy::unwrap_used, reason = "this is a test")]

mod common;

use std::process::Command;

use tollgate_simulate::{Answer, Gate, Held, ReadFile, ReadGap, ReadReport, UnreadLine, UnreadLines};

use self::common::{OLD, POLICIES, report};

/// A report with every section that a page may have.
fn answer() -> Answer {
    // Requests of `/pages/2` lack the key of the last policy.
    let users = "  - { name: users, match: { path: /pages/2 }, key: [user], quotas: [20/1m, 9/1s] }\n";
    let before = OLD.replace("10/1m", "100/1m").replace("15/1m", "5/1m");
    let mut report = report(&format!("{POLICIES}{users}"), Some(&before));
    let file = ReadFile {
        name: "access.log".to_owned(),
        format: Some("nginx-combined".to_owned()),
        instant: Some("logs when requests end".to_owned()),
        precision: Some("to the second".to_owned()),
        lines: 882,
        requests: report.requests,
    };
    let example = UnreadLine { place: "access.log:12".to_owned(), shape: "a 0".to_owned(), text: None };
    let unparsed = UnreadLines { reason: "no time".to_owned(), lines: 2, examples: vec![example] };
    let (from, to) = ("2026-11-23T00:00:00Z".to_owned(), "2026-11-23T02:00:00Z".to_owned());
    report.read = Some(ReadReport {
        files: vec![file; 600],
        lines: 882,
        others: 5,
        unparsed_lines: 2,
        unparsed: vec![unparsed],
        late: 3,
        gaps: vec![ReadGap { from, to, seconds: 7_200.0 }],
        ..ReadReport::default()
    });
    let gates = ["denied > 99%", "newly_denied_clients > 0", "login.denied{bot} > 0"];
    let gates = gates.map(|gate| gate.parse::<Gate>().unwrap().check(&report, 1).unwrap());
    assert_eq!(gates.each_ref().map(|gate| gate.held), [Held::Held, Held::Failed, Held::NoAnswer]);
    Answer::new(report, gates.to_vec())
}

/// Rules of accessibility were held against a page without gates, files and lines that could not be read.
#[test]
fn the_page_that_a_browser_looks_at_has_every_section() {
    let page = answer().html();
    for part in [
        "<h2>Gates</h2>",
        "<h2>What was read</h2>",
        "<caption>Lines that could not be read",
        "<caption>Times without requests",
        "<caption>Why requests cannot be decided",
        "<caption>Policies",
        "<caption>Quotas",
        "<caption>Differences",
        "<caption>Clients that are newly denied",
        "<caption>Clients that are newly allowed",
        "<h2>What other limits would deny</h2>",
        "<h2>When</h2>",
        "<caption>Clients that are denied most often",
        "<caption>Clients whose allowed r",
        "<caption>Classes",
        " of 600 files: ",
        "only one can decide",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
#[ignore = "needs node, packages from npm and a browser; `cargo xtask test` has them"]
fn the_page_is_right_in_a_real_browser() {
    let script = std::env::var("TOLLGATE_LOOK_AT_PAGE").unwrap();
    let page = std::env::temp_dir().join(format!("tollgate-page-{}.html", std::process::id()));
    std::fs::write(&page, answer().html()).unwrap();
    let output = Command::new("node")
        .arg(script)
        .arg(&page)
        .args(std::env::var_os("TOLLGATE_PICTURES"))
        .output()
        .expect("node is missing; install it with: sudo apt-get install nodejs npm");
    std::fs::remove_file(page).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.trim(), "[]");
}
