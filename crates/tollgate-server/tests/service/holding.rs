//! `tollgate check --hold`: a command that runs while it holds.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::folder::Folder;
use crate::support::{Server, quotas, tollgate, undisturbed};

const POLICIES: &str = "
policies:
  - { name: jobs, key: [user], quotas: [100/1d@first_hit, 1~in_flight] }
";

/// Where the tools of a system are.
const PATH: &str = "/usr/bin:/bin";

/// A service that lets one job of each user run.
struct Jobs {
    server: Server,
    _folder: Folder,
}

/// What a command came to.
#[derive(Debug)]
struct Outcome {
    status: Option<i32>,
    said: String,
    complained: String,
}

impl Jobs {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(flags: &[&str]) -> Self {
        let folder = Folder::new();
        let config = folder.write("p.yaml", POLICIES);
        let server = Server::start(&[&["--config", &config], flags].concat());
        Self { server, _folder: folder }
    }

    fn url(&self) -> String {
        format!("http://{}", self.server.public)
    }

    /// The command, which holds for Alice.
    fn hold(&self, flags: &[&str], command: &[&str]) -> Command {
        let mut tollgate = tollgate();
        tollgate.env("PATH", PATH);
        tollgate.args(["check", "--server", &self.url(), "--hold", "user=alice"]);
        tollgate.args(flags).arg("--").args(command);
        tollgate
    }

    fn run(&self, flags: &[&str], command: &[&str]) -> Outcome {
        let output = self.hold(flags, command).output().expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Outcome { status: output.status.code(), said: text(output.stdout), complained: text(output.stderr) }
    }

    /// A shell command that tries to run another job meanwhile.
    fn another(&self) -> String {
        format!(
            "{} check --server {} --hold user=alice -- echo another",
            env!("CARGO_BIN_EXE_tollgate"),
            self.url()
        )
    }

    /// Starts a shell, and waits until it says something.
    fn begin(&self, flags: &[&str], script: &str) -> (Child, BufReader<ChildStdout>) {
        let mut command = self.hold(flags, &["sh", "-c", script]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let mut said = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        said.read_line(&mut line).expect("text");
        assert_eq!(line, "ready\n");
        (child, said)
    }

    /// The units that were charged to Alice.
    fn used(&self) -> u64 {
        let peeked = self.server.post("/v1/peek", r#"{"attributes": {"user": "alice"}}"#).json();
        quotas(&peeked).iter().find_map(|quota| quota["used"].as_u64()).expect("a count")
    }

    fn reset(&self) {
        let asked = json!({ "attributes": { "user": "alice" } }).to_string();
        let reset = self.server.admin_post("/v1/reset", &asked);
        assert_eq!(reset.status, 200, "{reset:?}");
    }
}

fn ended(mut child: Child, mut said: impl Read) -> Outcome {
    let (mut out, mut complained) = (String::new(), String::new());
    said.read_to_string(&mut out).expect("text");
    child.stderr.take().expect("its errors").read_to_string(&mut complained).expect("text");
    Outcome { status: child.wait().expect("it ends").code(), said: out, complained }
}

#[test]
fn the_command_runs_alone_and_its_status_is_returned() {
    let jobs = Jobs::start();
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("exit 75", 75)] {
        let outcome = jobs.run(&[], &["sh", "-c", &format!("echo said; {script}")]);
        assert_eq!((outcome.status, &*outcome.said, &*outcome.complained), (Some(status), "said\n", ""));
    }
    // Another one meanwhile is not admitted, and does not run.
    let nested = jobs.run(&["--cost", "5"], &["sh", "-c", &jobs.another()]);
    assert_eq!((nested.status, &*nested.said), (Some(75), ""), "{nested:?}");
    assert!(nested.complained.starts_with("denied"), "{nested:?}");
    assert!(nested.complained.contains("in flight"), "{nested:?}");
    assert_eq!(jobs.used(), 4 + 5, "the costs stay, without that of the denial");
    assert_eq!(jobs.run(&[], &["true"]).status, Some(0));
}

#[test]
fn a_command_may_hold_several_units() {
    let folder = Folder::new();
    let config =
        folder.write("p.yaml", "policies: [{ name: cores, key: [user], quotas: [100/1d, 3~in_flight] }]");
    let jobs = Jobs { server: Server::start(&["--config", &config]), _folder: folder };
    let both = format!("{0} || {1}", jobs.another().replace("--hold", "--hold --units 2"), jobs.another());
    let outcome = jobs.run(&["--units", "2"], &["sh", "-c", &both]);
    assert_eq!((outcome.status, &*outcome.said), (Some(0), "another\n"), "{outcome:?}");
    assert_eq!(outcome.complained.matches("denied").count(), 1, "{outcome:?}");
    assert_eq!(jobs.run(&["--units", "3"], &["true"]).status, Some(0), "it holds no longer");
    assert_eq!(jobs.run(&["--units", "4"], &["true"]).status, Some(75), "there are never so many");
}

/// A command with a misspelt attribute ran without a limit, and nobody learnt of it.
#[test]
fn a_command_that_no_limit_applies_to_is_told_so() {
    let folder = Folder::new();
    let policies = "unmatched: allow
policies: [{ name: jobs, match: { job: backup }, key: global, quotas: 1~in_flight }]";
    let config = folder.write("p.yaml", policies);
    let jobs = Jobs { server: Server::start(&["--config", &config]), _folder: folder };
    let misspelt = jobs.run(&["job=bakcup"], &["sh", "-c", "echo ran; exit 7"]);
    assert_eq!((misspelt.status, &*misspelt.said), (Some(7), "ran\n"));
    assert!(misspelt.complained.starts_with("warning: no limit applies to this request"), "{misspelt:?}");
    let held = jobs.run(&["job=backup"], &["echo", "ran"]);
    assert_eq!((held.status, &*held.said, &*held.complained), (Some(0), "ran\n", ""));
}

/// Where only quotas apply, any number of commands ran at once without a word, and `--units` had no effect.
#[test]
fn a_command_that_no_limit_in_flight_applies_to_is_told_so() {
    let folder = Folder::new();
    let config = folder.write("p.yaml", "policies: [{ name: jobs, key: [user], quotas: 100/1d@first_hit }]");
    let jobs = Jobs { server: Server::start(&["--config", &config]), _folder: folder };
    let ran = jobs.run(&["--cost", "3"], &["sh", "-c", "echo ran; exit 7"]);
    assert_eq!((ran.status, &*ran.said), (Some(7), "ran\n"));
    assert!(ran.complained.starts_with("warning: no limit in flight applies to this request"), "{ran:?}");
    let refused = jobs.run(&["--cost", "3", "--units", "1"], &["echo", "ran"]);
    assert_eq!((refused.status, &*refused.said), (Some(2), ""));
    assert!(refused.complained.starts_with("error: no limit in flight applies"), "{refused:?}");
    assert_eq!(jobs.used(), 3, "what did not run is given back");
}

/// The units of a command that never ran were charged.
#[test]
fn a_command_that_cannot_start_gives_everything_back() {
    let jobs = Jobs::start();
    for (command, status) in [("/nowhere/to-be-found", 127), ("/", 126)] {
        let outcome = jobs.run(&["--cost", "5"], &[command]);
        assert_eq!((outcome.status, &*outcome.said), (Some(status), ""));
        assert!(outcome.complained.starts_with("error: cannot run "), "{outcome:?}");
    }
    assert_eq!(jobs.used(), 0);
    assert_eq!(jobs.run(&[], &["true"]).status, Some(0));
}

#[test]
fn the_command_gets_the_signals_and_decides_what_they_mean() {
    let jobs = Jobs::start();
    // Not HUP, INT or QUIT: under `nohup` and in the background of a shell, tests are started with these ignored.
    for (signal, status) in [("TERM", 9), ("USR1", 10), ("USR2", 11)] {
        let script =
            format!("trap 'echo got; exit {status}' {signal}; echo ready; while :; do sleep 0.02; done");
        let (child, said) = jobs.begin(&[], &script);
        // The shell's own `kill`: small systems have no other.
        let kill = format!("kill -s {signal} {}", child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("a shell is there").success());
        let outcome = ended(child, said);
        assert_eq!((outcome.status, &*outcome.said), (Some(status), "got\n"), "{outcome:?}");
    }
    assert_eq!(jobs.run(&[], &["true"]).status, Some(0), "it holds no longer");
}

/// With `nohup`, a command outlives its terminal.
#[test]
fn the_command_ignores_the_signals_that_were_ignored_before() {
    let jobs = Jobs::start();
    let mut shell = Command::new("sh");
    let script = format!(
        "trap '' HUP; exec {} check --server {} --hold user=alice -- sh -c 'kill -HUP $$; echo lives'",
        env!("CARGO_BIN_EXE_tollgate"),
        jobs.url()
    );
    let output = shell.args(["-c", &script]).output().expect("it runs");
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"lives\n"[..]));
}

#[test]
fn the_hold_is_renewed_while_the_command_runs() {
    // A machine that stands still for the length of the hold loses it.
    undisturbed(|| {
        let jobs = Jobs::start();
        let outcome =
            jobs.run(&["--expires-after", "1s"], &["sh", "-c", &format!("sleep 2.5; {}", jobs.another())]);
        assert_eq!((outcome.status, &*outcome.said), (Some(75), ""), "{outcome:?}");
        assert!(outcome.complained.starts_with("denied"), "{outcome:?}");
    });
}

#[test]
fn the_command_gets_sigterm_when_its_hold_is_lost() {
    let jobs = Jobs::start();
    let wait = "echo ready; while :; do sleep 0.02; done";
    let (child, said) = jobs.begin(&["--expires-after", "1s"], wait);
    jobs.reset();
    let outcome = ended(child, said);
    assert_eq!(outcome.status, Some(143), "{outcome:?}");
    assert!(outcome.complained.starts_with("error: the hold is lost"), "{outcome:?}");

    // With the flag, it goes on; what it says next shows that it has been told nothing.
    let flags = ["--expires-after", "1s", "--keep-running"];
    let folder = Folder::new();
    let end = folder.write("end", "");
    let script = format!("echo ready; while test -e {end}; do sleep 0.02; done; echo done");
    let (mut child, said) = jobs.begin(&flags, &script);
    jobs.reset();
    let mut complained = BufReader::new(child.stderr.take().expect("its errors"));
    let mut line = String::new();
    complained.read_line(&mut line).expect("text");
    assert!(line.starts_with("warning: the hold is lost"), "{line}");
    std::fs::remove_file(&end).expect("it is there");
    let mut rest = String::new();
    BufReader::new(said).read_to_string(&mut rest).expect("text");
    assert_eq!((child.wait().expect("it ends").code(), &*rest), (Some(0), "done\n"));
}

/// Without an answer, nobody knows whether another command runs by then.
#[test]
fn the_command_gets_sigterm_when_the_service_does_not_answer_for_the_length() {
    let jobs = Jobs::start();
    let (child, said) = jobs.begin(&["--expires-after", "1s"], "echo ready; while :; do sleep 0.02; done");
    jobs.server.signal("KILL");
    let outcome = ended(child, said);
    assert_eq!(outcome.status, Some(143), "{outcome:?}");
    assert!(outcome.complained.contains("did not renew the hold"), "{outcome:?}");
    assert!(outcome.complained.contains("was not settled"), "{outcome:?}");
}

/// A service without `--hold-secret-file` does not know its holds after a restart. The command got SIGTERM for no reason
/// that anybody could see.
#[test]
fn the_reason_is_said_why_a_hold_is_not_renewed() {
    let jobs = Jobs::start();
    let (child, said) = jobs.begin(&["--expires-after", "1s"], "echo ready; while :; do sleep 0.02; done");
    let address = jobs.server.public.to_string();
    jobs.server.signal("KILL");
    let _ = jobs.server.wait();
    let _restarted = Jobs::start_with(&["--listen", &address]);
    let outcome = ended(child, said);
    assert_eq!(outcome.status, Some(143), "{outcome:?}");
    let reason = "has expired: the service rejected the request: hold: this is not a hold of this service";
    assert!(outcome.complained.contains(reason), "{outcome:?}");
}

/// It was settled for as long as three calls may take, and no signal but KILL could end it.
#[test]
fn a_signal_bounds_the_settlement_too() {
    let jobs = Jobs::start();
    let (mut child, said) =
        jobs.begin(&[], "trap 'echo got; exit 9' TERM; echo ready; while :; do sleep 0.02; done");
    jobs.server.signal("STOP");
    let began = Instant::now();
    let script = format!("while kill -s TERM {} 2>/dev/null; do sleep 0.1; done", child.id());
    let mut kill = Command::new("sh").args(["-c", &script]).spawn().expect("a shell is there");
    let mut complained = String::new();
    child.stderr.take().expect("its errors").read_to_string(&mut complained).expect("text");
    let status = child.wait().expect("it ends").code();
    kill.wait().expect("it ends");
    jobs.server.signal("CONT");
    drop(said);
    assert_eq!(status, Some(9), "{complained}");
    assert!(complained.contains("a signal came before the hold was settled"), "{complained}");
    assert!(began.elapsed() < Duration::from_secs(5), "one call alone takes that long");
}

/// With `on_store_failure: open`, commands run uncounted while the store is down, and nobody learnt of it.
#[test]
fn a_command_that_nobody_counted_is_told_so() {
    let folder = Folder::new();
    let config = folder.write("p.yaml", POLICIES);
    let server = Server::start(&["--config", &config, "--store", "redis://127.0.0.1:1"]);
    let jobs = Jobs { server, _folder: folder };
    let outcome = jobs.run(&[], &["echo", "ran"]);
    assert_eq!((outcome.status, &*outcome.said), (Some(0), "ran\n"), "{outcome:?}");
    assert!(outcome.complained.contains("the store could not count the hold"), "{outcome:?}");
}

#[test]
fn without_an_answer_the_command_does_not_run() {
    let jobs = Jobs::start();
    let ask = |server: &str, more: &[&str]| {
        let mut command = tollgate();
        command
            .env("PATH", PATH)
            .args(["check", "--server", server, "--hold"])
            .args(more)
            .args(["--", "echo", "ran"]);
        let output = command.output().expect("it runs");
        assert_eq!(output.stdout, b"");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    let (status, complained) = ask("http://127.0.0.1:1", &["user=alice"]);
    assert!(status == Some(75) && complained.contains("cannot reach"), "{complained}");
    let (status, complained) = ask(&jobs.url(), &["tenant=t"]);
    assert!(status == Some(2) && complained.contains("user"), "{complained}");
    for wrong in [
        &["--peek"][..],
        &["--json"],
        &["--health"],
        &["--expires-after", "0.5s"],
        &["--expires-after", "2h"],
        &["--units", "0"],
        &["--units", "-1"],
        &["--units", "1001"],
    ] {
        assert_eq!(ask(&jobs.url(), &[&["user=alice"], wrong].concat()).0, Some(2), "{wrong:?}");
    }
    let without =
        |arguments: &[&str]| tollgate().arg("check").args(arguments).output().expect("it runs").status.code();
    assert_eq!(without(&["--hold", "user=alice"]), Some(2));
    assert_eq!(without(&["user=alice", "--", "true"]), Some(2));
    assert_eq!(without(&["user=alice", "--keep-running"]), Some(2));
    assert_eq!(without(&["user=alice", "--units", "2"]), Some(2));
}
