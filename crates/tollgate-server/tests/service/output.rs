//! Output that cannot be written. No decision, reload or drain fails, and every exit status stays the same, except that
//! a success exits with 4 if standard output did not take the answer.

#![allow(clippy::expect_used, reason = "this is a test")]

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, PipeReader, pipe};
use std::path::PathBuf;
use std::process::Stdio;

use crate::support::{Server, tollgate};

/// Opens a device without room.
fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").expect("the system has it")
}

/// Returns a pipe whose reader is closed.
fn closed() -> Stdio {
    pipe().expect("a pipe").1.into()
}

/// Returns a pipe that fills up, because nobody reads it.
fn unread() -> (PipeReader, Stdio) {
    let (reader, writer) = pipe().expect("a pipe");
    (reader, writer.into())
}

/// A file that is removed at the end.
struct Written(PathBuf);

impl Written {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-output-{}-{name}", std::process::id()));
        fs::write(&path, text).expect("a file can be written");
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path in UTF-8")
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

const POLICY: &str = "policies: [{ name: all, key: [user], quotas: [1/1d@first_hit] }]\n";

/// Logging panicked: a denial closed its connection, a reload was answered 503, and SIGTERM ended with status 101.
#[test]
fn decides_reloads_and_drains_if_the_log_cannot_be_written() {
    let file = Written::new("serve.yaml", POLICY);
    let (reader, unread) = unread();
    for (stderr, name) in [(full().into(), "full"), (closed(), "closed"), (unread, "not read")] {
        let server = Server::start_logging_to(stderr, &["--config", file.path()]);
        assert_eq!(server.get("/v1/check?user=alice").status, 200, "{name}");
        assert_eq!(server.get("/v1/check?user=alice").status, 429, "{name}");
        // Each of these is a line of 100 KB, of which the first fills any pipe.
        fs::write(&file.0, format!("policies: [{}]\n", "{},".repeat(2_000))).expect("a file can be written");
        for _ in 0..3 {
            assert_eq!(server.admin_post("/v1/policies/reload", "").status, 422, "{name}");
        }
        fs::write(&file.0, POLICY).expect("a file can be written");
        assert_eq!(server.admin_post("/v1/policies/reload", "").status, 200, "{name}");
        assert_eq!(server.get("/v1/check?user=bob").status, 200, "{name}");
        server.signal("TERM");
        assert_eq!(server.wait().0.code(), Some(0), "{name}");
    }
    drop(reader);
}

/// An invalid `RUST_LOG` was printed by code that panics if standard error is full, and not as a log line.
#[test]
fn logs_an_invalid_filter_of_the_log() {
    let mut command = tollgate();
    command.env("RUST_LOG", "tollgate=loud");
    let server = Server::start_by(command, &["--limit", "5/1d"]);
    server.signal("TERM");
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    let mut lines = log.lines();
    let first = lines.next().expect("a line");
    assert!(first.contains("WARN") && first.contains("RUST_LOG cannot be used"), "{log}");
    assert!(lines.next().is_some_and(|line| line.contains("started")), "{log}");
}

#[test]
fn starts_and_logs_it_if_standard_output_is_full() {
    let mut child = tollgate()
        .args(["serve", "--limit", "5/1d", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
        .stdout(full())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let log = BufReader::new(child.stderr.take().expect("its log is piped"));
    let lines = log.lines().map(|line| line.expect("text"));
    let mut warned = false;
    let started = lines
        .inspect(|line| warned |= line.contains("cannot write to standard output"))
        .find(|line| line.contains("started"));
    let started = started.expect("a line of its start");
    assert!(warned && started.contains("checks=127.0.0.1:") && started.contains("rule="), "{started}");
    let _ = child.kill();
    let _ = child.wait();
}

/// Returns the exit status of a command, and its standard error if that is piped.
fn run(arguments: &[&str], stdout: impl Into<Stdio>, stderr: impl Into<Stdio>) -> (Option<i32>, String) {
    let child = tollgate().args(arguments).stdout(stdout).stderr(stderr).spawn().expect("it starts");
    let output = child.wait_with_output().expect("it ends");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

/// If standard error was full, `check` and `check-config` exited with 101. If standard output was full, they exited
/// with 0, and a failed gate did not say that its report was lost.
#[test]
fn commands_keep_their_exit_status_if_output_cannot_be_written() {
    let server = Server::start(&["--limit", "1/1d@first_hit", "--key", "user"]);
    let url = format!("http://{}", server.public);
    let (valid, invalid) =
        (Written::new("valid.yaml", POLICY), Written::new("invalid.yaml", "policies: [{}]\n"));
    let log = Written::new("access.log", "::1 - - [23/Nov/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n");
    let by_ip = Written::new("by-ip.yaml", "policies: [{ name: all, key: [ip], quotas: [0/1d] }]\n");
    let replayed = ["simulate", by_ip.path(), log.path(), "--min-requests", "1", "--fail-if", "denied > 0"];
    let (valid, invalid) = (valid.path(), invalid.path());
    assert_eq!(server.get("/v1/check?user=denied").status, 200);
    for (arguments, status) in [
        (&["check", "--server", &url, "user=allowed", "--peek"][..], 0),
        (&["check", "--server", &url, "user=denied"], 1),
        (&["check", "--server", &url, "tenant=t"], 2),
        (&["check", "--server", "http://127.0.0.1:1", "user=a"], 3),
        (&["check-config", valid], 0),
        (&["check-config", invalid], 1),
        (&["check-config", "/nowhere"], 2),
        (&["explain", valid, "user=a"], 0),
        (&["explain", invalid, "user=a"], 1),
        (&["explain", "/nowhere", "user=a"], 2),
        (&replayed, 1),
        (&["doctor", "--store", "redis://127.0.0.1:1"], 1),
        (&["doctor", "--store", "http://h"], 2),
        // It asks the store each time.
        (&["doctor", "--store", "redis://127.0.0.1:1", "--local-denials", "5"], 2),
        (&["--help"], 0),
        (&["--version"], 0),
        (&["--version", "--verbose"], 0),
        (&["--verbose"], 2),
        (&["--version", "serve"], 2),
        (&["completions", "zsh"], 0),
        (&["completions", "cmd"], 2),
        (&["man", "token", "new"], 0),
        (&["man", "tokens"], 2),
        (&["check", "--server", &url, "--health"], 0),
        (&["check", "--server", "http://127.0.0.1:1", "--health"], 3),
        (&["check", "--health", "user=a"], 2),
        (&["serve"], 2),
        (&["serve", "--config", "/nowhere"], 2),
        (&["serve", "--limit", "5/1d", "--listen", "192.0.2.1:80"], 1),
    ] {
        assert_eq!(run(arguments, closed(), closed()).0, Some(status), "{arguments:?}, nobody reads it");
        assert_eq!(run(arguments, Stdio::null(), full()).0, Some(status), "{arguments:?}, 2>/dev/full");
        let (ended, said) = run(arguments, full(), Stdio::piped());
        assert_eq!(ended, Some(if status == 0 { 4 } else { status }), "{arguments:?}, >/dev/full");
        let is_told = said.contains("cannot write to standard output: No space left");
        let answer = tollgate().args(arguments).output().expect("it runs").stdout;
        assert_eq!(is_told, !answer.is_empty(), "{arguments:?}: {said}");
    }
}
