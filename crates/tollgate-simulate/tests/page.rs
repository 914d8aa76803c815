//! The page of a report in a real browser: its script, its accessibility, and that it fetches nothing.
//!
//! `cargo xtask test` installs the tools and runs this. `TOLLGATE_LOOK_AT_PAGE` is the path of the copy of `look.mjs` that
//! lies next to them.
//! With a folder in `TOLLGATE_PICTURES`, pictures of the page are kept there.

#![allow(clippy::unwrap_used, reason = "this is a test")]

mod common;

use std::process::Command;

use tollgate_simulate::Answer;

use self::common::{OLD, POLICIES, report};

#[test]
#[ignore = "needs node, packages from npm and a browser; `cargo xtask test` has them"]
fn the_page_is_right_in_a_real_browser() {
    let script = std::env::var("TOLLGATE_LOOK_AT_PAGE").unwrap();
    let page = std::env::temp_dir().join(format!("tollgate-page-{}.html", std::process::id()));
    std::fs::write(&page, Answer::new(report(POLICIES, Some(OLD)), Vec::new()).html()).unwrap();
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
