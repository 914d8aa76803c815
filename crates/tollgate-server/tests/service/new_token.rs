//! Files that `tollgate token new` writes.

#![allow(clippy::expect_used, reason = "this is a test")]

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::support::folder::Folder;
use crate::support::{Server, get, tollgate, until};

/// The exit status of `token new`, and what it said on standard output and standard error.
fn new(name: &str, token_file: &str, tokens: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let mut command = tollgate();
    command.args(["token", "new", "--scope", "check", "--name", name]);
    let output = command.args(["--token-file", token_file, "--tokens", tokens]).args(more).output();
    let output = output.expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn mode(path: &str) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

fn read(path: &str) -> String {
    fs::read_to_string(path).expect("a file")
}

/// The status of a check with the token in this file.
fn check(server: &Server, token_file: &str) -> u16 {
    let head = format!("HTTP/1.1\r\nAuthorization: Bearer {}", read(token_file).trim());
    let request = String::from_utf8(get("/v1/check?user=alice")).expect("text");
    server.connect().ask(request.replacen("HTTP/1.1", &head, 1).as_bytes()).status
}

/// The manual cut both out of the output with `grep`, into files that everybody could read.
#[test]
fn writes_a_private_token_and_a_line_that_the_service_takes() {
    let folder = Folder::new();
    let [one, other, tokens] = ["one.txt", "other.txt", "tokens.jsonl"].map(|name| folder.path(name));
    let (status, said, _) = new("one", &one, &tokens, &[]);
    assert_eq!(status, Some(0));
    assert_eq!(
        said,
        format!("The token is in {one}, which only you can read.\n\nIts line is in {tokens}.\n")
    );
    assert_eq!((mode(&one), mode(&tokens)), (0o600, 0o600));
    assert_eq!((read(&one).lines().count(), read(&tokens).lines().count()), (1, 1));

    let server = Server::start(&["--limit", "9/1d@first_hit", "--tokens", &tokens]);
    assert_eq!(check(&server, &one), 200);
    // A file that was written by hand may end without a line break.
    fs::write(&tokens, read(&tokens).trim_end()).expect("it is ours");
    let (status, said, _) = new("other", &other, &tokens, &["--json"]);
    assert_eq!(status, Some(0));
    let printed: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(printed["token"], serde_json::Value::Null, "it is in its file alone");
    assert!(read(&tokens).ends_with(&format!("}}\n{}\n", printed["line"].as_str().expect("a line"))));
    until("the new token is taken", || check(&server, &other) == 200);
    assert_eq!(check(&server, &one), 200);
}

#[test]
fn overwrites_nothing_and_leaves_nothing_behind_if_it_fails() {
    let folder = Folder::new();
    let [token, tokens] = ["token.txt", "tokens.jsonl"].map(|name| folder.path(name));
    let kept = folder.write("kept", "kept\n");
    let fails = |name: &str, token_file: &str, tokens: &str, message: &str| {
        let (status, said, error) = new(name, token_file, tokens, &[]);
        assert_eq!((status, said.as_str()), (Some(1), ""), "{error}");
        assert!(error.contains(message), "{error}");
    };
    fails("web", &kept, &tokens, &format!("error: `--token-file`: cannot create {kept}: File exists"));
    assert_eq!(read(&kept), "kept\n");
    assert!(fs::metadata(&tokens).is_err(), "there is a file without a token");
    fails("web", &token, &token, &format!("`--token-file`: cannot create {token}: File exists"));
    assert!(fs::metadata(&token).is_err());
    fails("web", &token, &kept, &format!("`--tokens`: {kept}:1:1: invalid JSON from here on"));
    fails("web", &token, &folder.path("no/tokens"), "cannot write");
    assert_eq!(new("web", &token, &tokens, &[]).0, Some(0));
    let (before, second) = (read(&tokens), folder.path("second.txt"));
    let taken = format!(
        "`--tokens`: {tokens}:1: the name `web` is taken: choose another name; or, to replace its token, run the \
         command without `--tokens`, with the flags that line 1 was created with, and replace that line with the one \
         that it prints"
    );
    fails("web", &second, &tokens, &taken);
    assert!(fs::metadata(&second).is_err(), "there is a token without a line");
    assert_eq!(read(&tokens), before);
}

/// The disk was full in the middle of a line, and no service could read the file from then on.
#[test]
fn a_line_that_cannot_be_written_whole_leaves_the_file_unchanged() {
    let folder = Folder::new();
    let [token, second, tokens] = ["token.txt", "second.txt", "tokens.jsonl"].map(|name| folder.path(name));
    assert_eq!(new("web", &token, &tokens, &[]).0, Some(0));
    let line = read(&tokens);
    // Up to the limit of 1,024 bytes, there is room for some bytes of the next line.
    let before = format!("{line}#{}\n", "x".repeat(1_000 - line.len() - 2));
    fs::write(&tokens, &before).expect("it is ours");
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 2; exec \"$@\"", "sh"]).arg(tollgate().get_program());
    limited.args(["token", "new", "--scope", "check", "--name", "api"]);
    let output = limited.args(["--token-file", &second, "--tokens", &tokens]).output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("File too large"), "{error}");
    assert_eq!(read(&tokens), before);
    assert!(fs::metadata(&second).is_err(), "there is a token without a line");
}

/// Both had found the name free, and the file was invalid with both lines.
#[test]
fn two_runs_at_once_take_turns() {
    let folder = Folder::new();
    let [token, second, tokens] = ["token.txt", "second.txt", "tokens.jsonl"].map(|name| folder.path(name));
    let [other, others] = ["other.txt", "others.jsonl"].map(|name| folder.path(name));
    assert_eq!(new("web", &token, &tokens, &[]).0, Some(0));
    assert_eq!(new("api", &other, &others, &[]).0, Some(0));
    let mut file = File::options().append(true).open(&tokens).expect("it is there");
    file.lock().expect("a lock");
    let mut command = tollgate();
    command.args(["token", "new", "--scope", "check", "--name", "api"]);
    command.args(["--token-file", &second, "--tokens", &tokens]).stderr(Stdio::piped());
    let run = command.spawn().expect("it runs");
    let waiter = format!(" {} ", run.id());
    until("it waits for its turn", || {
        let locks = read("/proc/locks");
        locks.lines().any(|line| line.contains("->") && line.contains(&waiter))
    });
    file.write_all(read(&others).as_bytes()).expect("it is written");
    file.unlock().expect("it is locked");
    let output = run.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("the name `api` is taken"), "{error}");
    assert!(fs::metadata(&second).is_err(), "there is a token without a line");
    assert_eq!(read(&tokens).lines().count(), 2);
}
