//! A system that refuses threads.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::tempdir;

use crate::support::HANG;

/// A user without any other process.
const USER: &str = "64321";

/// Returns the command that runs another one with so many threads. The limit does not hold for root, and counts all
/// processes of a user.
fn with_threads(threads: u32) -> Command {
    let is_root = fs::metadata("/proc/self").expect("a process").uid() == 0;
    let (program, alone) = match is_root {
        true => ("setpriv", &["--reuid", USER, "--regid", USER, "--clear-groups"][..]),
        // A namespace of its own has no other process.
        false => ("unshare", &["--user"][..]),
    };
    let mut command = Command::new(program);
    command.args(alone).args(["prlimit", &format!("--nproc={threads}")]);
    command
}

/// With too few threads for the runtime, it panicked, and the process lived on without a listener.
#[test]
fn a_start_without_enough_threads_fails_with_advice() {
    let folder = tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    // The build is not where every user can read.
    let program = folder.path().join("tollgate");
    fs::copy(env!("CARGO_BIN_EXE_tollgate"), &program).expect("a copy");
    let start = |threads: u32, command: &[&str]| {
        let mut child = with_threads(threads)
            .arg(&program)
            .args(command)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TOKIO_WORKER_THREADS", "4")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("setpriv, unshare or prlimit is missing: install it, such as with `apt-get install util-linux`");
        let began = Instant::now();
        while child.try_wait().expect("it can be waited for").is_none() {
            if began.elapsed() > HANG {
                let _ = child.kill();
                panic!("it hangs with {threads} threads");
            }
            thread::sleep(Duration::from_millis(10));
        }
        let output = child.wait_with_output().expect("it has ended");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let serve = ["serve", "--limit", "5/1d", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let (code, said) = start(50, &["--version"]);
    assert_eq!(
        code,
        Some(0),
        "this test needs namespaces of users, or root and a temporary folder that all users can enter: {said}"
    );
    // The main thread, the log's, four of the runtime, and one for work that blocks.
    for threads in [1, 2, 3, 4, 5, 6] {
        let (code, said) = start(threads, &serve);
        assert_eq!(code, Some(1), "{threads}: {said}");
        assert!(said.contains("error: ") && said.contains("ulimit -u"), "{threads}: {said}");
    }
    let (code, said) = start(3, &["doctor", "--store", "redis://127.0.0.1:1"]);
    assert!(code == Some(1) && said.contains("ulimit -u"), "{said}");
}
