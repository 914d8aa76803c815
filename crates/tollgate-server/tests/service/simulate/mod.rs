//! `tollgate simulate` and `tollgate suggest`: what they print about logs, and with which status they exit.

#![allow(clippy::unwrap_used, reason = "this is a test")]

mod arguments;
mod gates;
mod logs;
mod output;
mod replays;
mod suggestions;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::support::tollgate;

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
