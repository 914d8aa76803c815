//! Small files that flags name: secrets, tokens, certificates and settings.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::tempdir;

use crate::support::{Server, tollgate};

/// Longer than the time for which an inherited pipe is waited.
const PATIENT: Duration = Duration::from_secs(30);

/// Runs a command that reads this file and should end by itself. Returns its status, and what it prints.
fn run(arguments: &[&str], stdin: impl Into<Stdio>) -> (Option<i32>, String) {
    let mut command = tollgate();
    command.args(arguments).stdin(stdin).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let began = Instant::now();
    while child.try_wait().expect("it can be waited for").is_none() {
        if began.elapsed() > PATIENT {
            let _ = child.kill();
            panic!("it hangs: {}", arguments.join(" "));
        }
        thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("it has ended");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// `--hold-secret-file /dev/zero` filled the memory, and a pipe without a writer kept the start waiting for ever.
#[test]
fn a_file_that_is_not_a_regular_one_is_refused_by_every_flag() {
    let folder = tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let pipe = path("pipe");
    assert!(Command::new("mkfifo").args(["-m", "600", &pipe]).status().expect("mkfifo").success());
    fs::write(path("some"), "some").expect("a file");
    let (some, directory) = (path("some"), path("directory"));
    fs::create_dir(&directory).expect("a folder");
    let limit = ["serve", "--limit", "5/1d", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let stored = [&limit[..], &["--store", "rediss://user@127.0.0.1:1"]].concat();
    for file in [pipe.as_str(), "/dev/zero", &directory] {
        let commands: Vec<Vec<&str>> = vec![
            [&limit[..], &["--hold-secret-file", file]].concat(),
            [&limit[..], &["--tokens", file]].concat(),
            [&limit[..], &["--tls-cert", file, "--tls-key", &some]].concat(),
            [&stored[..], &["--store-password-file", file]].concat(),
            [&stored[..], &["--identity-secret-file", file]].concat(),
            [&stored[..], &["--store-ca", file]].concat(),
            [&stored[..], &["--store-cert", file, "--store-key", file]].concat(),
            vec!["serve", "--import", "rlaas", file],
            vec!["doctor", "--store", "redis://127.0.0.1:1", "--store-password-file", file],
            vec!["check", "user=a", "--token-file", file],
            vec!["check", "user=a", "--server", "https://127.0.0.1:1", "--ca", file],
        ];
        for command in commands {
            let (code, said) = run(&command, Stdio::null());
            assert!(code.is_some_and(|code| code > 0), "{command:?}: {said}");
            assert!(said.contains("not a regular file"), "{command:?}: {said}");
            assert!(said.contains(file), "the file is named: {command:?}: {said}");
        }
    }
    for flag in ["--hold-secret-file", "--store-password-file", "--identity-secret-file"] {
        let refusal = |file: &str| {
            run(&[&limit[..], &["--store", "redis://127.0.0.1:1", flag, file]].concat(), Stdio::null()).1
        };
        let missing = path("missing");
        for (file, reason) in [
            (
                &pipe,
                "it is not a regular file, but a named pipe; use a regular file, or `<(...)`, `/dev/fd/3`",
            ),
            (&directory, "it is not a regular file, but a folder"),
            (&missing, "No such file or directory"),
        ] {
            let said = refusal(file);
            assert!(said.contains(&format!("`{flag}`: cannot read {file}: {reason}")), "{said}");
        }
    }
    // A folder of policies is read.
    for file in [pipe.as_str(), "/dev/zero"] {
        let (code, said) = run(&["serve", "--config", file], Stdio::null());
        assert!(code == Some(2) && said.contains("not a regular file"), "{said}");
        let (code, said) =
            run(&["token", "new", "--name", "a", "--scope", "check", "--tokens", file], Stdio::null());
        assert!(code.is_some_and(|code| code > 0) && said.contains("not a regular file"), "{said}");
    }
}

#[test]
fn a_file_that_is_too_large_for_a_secret_is_refused() {
    let folder = tempdir().expect("a folder");
    let file = folder.path().join("large");
    fs::write(&file, "x".repeat(2 * 1024 * 1024)).expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let file = file.to_str().expect("text");
    let stored = ["serve", "--limit", "5/1d", "--store", "rediss://user@127.0.0.1:1"];
    for (command, expected) in [
        (vec!["serve", "--limit", "5/1d", "--hold-secret-file", file], "larger than 65536 bytes"),
        ([&stored[..], &["--store-password-file", file]].concat(), "larger than 65536 bytes"),
        ([&stored[..], &["--identity-secret-file", file]].concat(), "more than 4096 bytes"),
        ([&stored[..], &["--store-ca", file]].concat(), "larger than 1048576 bytes"),
        (vec!["check", "user=a", "--token-file", file], "larger than 65536 bytes"),
    ] {
        let (_, said) = run(&command, Stdio::null());
        assert!(said.contains(expected), "{command:?}: {said}");
    }
}

/// Shells pass secrets in this way: `--token-file <(command)`, or `3<file` with `/dev/fd/3`.
#[test]
fn an_inherited_descriptor_is_read() {
    let folder = tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (token, tokens) = (path("token"), path("tokens"));
    let new =
        ["token", "new", "--name", "a", "--scope", "check", "--token-file", &token, "--tokens", &tokens];
    assert_eq!(run(&new, Stdio::null()).0, Some(0));
    let server = Server::start(&["--limit", "100/1d", "--tokens", &tokens]);
    let address = server.public.to_string();
    for file in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let check = ["check", "user=a", "--server", &address, "--token-file", file];
        let regular = fs::File::open(&token).expect("a file");
        assert_eq!(run(&check, regular), (Some(0), String::new()), "{file}");

        let mut command = tollgate();
        command.args(check).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let text = fs::read(&token).expect("a file");
        let mut pipe = child.stdin.take().expect("it is piped");
        for piece in text.chunks(20) {
            pipe.write_all(piece).expect("it is read");
            thread::sleep(Duration::from_millis(20));
        }
        drop(pipe);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{file}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn an_inherited_pipe_that_nobody_closes_or_that_never_ends_is_given_up() {
    let check = ["check", "user=a", "--token-file", "/dev/stdin"];
    let (code, said) = run(&check, Stdio::piped());
    assert!(code == Some(2) && said.contains("did not close the pipe within 10s"), "{said}");

    let mut endless = Command::new("yes").stdout(Stdio::piped()).spawn().expect("yes");
    let (code, said) = run(&check, endless.stdout.take().expect("it is piped"));
    assert!(code == Some(2) && said.contains("larger than 65536 bytes"), "{said}");
    let _ = endless.kill();
    let _ = endless.wait();
}
