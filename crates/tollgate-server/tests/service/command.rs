//! Output and exit status of `tollgate check`, `completions`, `man` and `--version`.

#![allow(clippy::expect_used, reason = "this is a test")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use crate::support::{Server, tollgate, until};

/// Returns the exit status, standard output and standard error.
fn check(server: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = tollgate().args(["check", "--server", server]).args(arguments).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn url(server: &Server) -> String {
    format!("http://{}", server.public)
}

#[test]
fn exits_0_when_allowed_and_1_when_denied() {
    let server = Server::start(&["--limit", "5/1d@first_hit", "--key", "user"]);
    let (status, said, _) = check(&url(&server), &["user=alice", "--cost", "4"]);
    assert_eq!(status, Some(0));
    assert_eq!(said, "allowed\n  5/1d@first_hit: 4 of 5 used, 1 remaining, resets in 1 d 0 h\n");

    let (status, said, _) = check(&url(&server), &["user=alice", "--cost", "2"]);
    assert_eq!(status, Some(1));
    assert!(said.starts_with("denied: retry in "), "{said}");
    let (status, said, _) = check(&url(&server), &["user=alice", "--cost", "6"]);
    assert_eq!((status, said.contains("can never be admitted")), (Some(1), true));
    // Host and port are enough.
    assert_eq!(check(&server.public.to_string(), &["user=bob"]).0, Some(0));
}

#[test]
fn reports_a_fallback_and_a_limit_of_0() {
    let full = Server::start(&["--limit", "1/1d@first_hit", "--max-counters", "1", "--when-full", "allow"]);
    assert_eq!(check(&url(&full), &["user=alice"]).0, Some(0));
    let (status, said, _) = check(&url(&full), &["user=bob"]);
    assert_eq!(status, Some(0));
    assert!(said.starts_with("allowed by fallback: the store is full, or could not answer\n"), "{said}");

    let nobody = Server::start(&["--limit", "0/1d"]);
    let (status, said, _) = check(&url(&nobody), &["user=alice"]);
    assert_eq!(status, Some(1));
    assert!(said.starts_with("denied: the limit is 0, and everything is denied\n"), "{said}");
}

#[test]
fn a_peek_takes_nothing_and_exits_by_the_verdict() {
    let server = Server::start(&["--limit", "1/1d@first_hit"]);
    for _ in 0..2 {
        assert_eq!(check(&url(&server), &["user=alice", "--peek"]).0, Some(0));
    }
    assert_eq!(check(&url(&server), &["user=alice"]).0, Some(0));
    assert_eq!(check(&url(&server), &["user=alice", "--peek"]).0, Some(1));
}

#[test]
fn json_prints_the_answer_unchanged() {
    let server = Server::start(&["--limit", "1/1d@first_hit,9/2d@first_hit"]);
    let (status, said, _) = check(&url(&server), &["user=a=b", "path=/", "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((status, answer["quotas"][1]["remaining"].as_u64()), (Some(0), Some(8)));
    assert_eq!(server.get("/v1/check?user=a%3Db&path=/").status, 429);
}

/// The answer of a service can contain control characters.
#[test]
fn json_has_no_control_character() {
    let text = "\u{9b}31m\u{202e}\u{7f}ä😀";
    let body = format!("{{\r\n\"detail\":\t\"{text}\\u001b\"}}");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("it asks");
        let _ = stream.read(&mut [0; 4096]);
        let head = format!("HTTP/1.1 400 Bad Request\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).expect("it reads");
    });
    let (status, said, _) = check(&format!("http://{address}"), &["user=alice", "--json"]);
    serving.join().expect("no panic");
    assert_eq!(status, Some(2));
    assert!(said.trim_end_matches('\n').bytes().all(|byte| matches!(byte, b' '..=b'~')), "{said:?}");
    let answer: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(answer["detail"], format!("{text}\u{1b}"), "it means the same");
}

#[test]
fn json_prints_the_problem_if_there_is_no_decision() {
    let server = Server::start(&["--limit", "1/1d@first_hit", "--key", "user", "--max-counters", "1"]);
    let problem = |arguments: &[&str]| {
        let (status, said, error) = check(&url(&server), arguments);
        let problem: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        assert!(error.starts_with("error: "), "{error}");
        (status, problem["status"].as_u64())
    };
    assert_eq!(problem(&["tenant=t", "--json"]), (Some(2), Some(400)));
    assert_eq!(check(&url(&server), &["user=alice"]).0, Some(0));
    assert_eq!(problem(&["user=bob", "--json"]), (Some(3), Some(503)));
    // Without the flag, standard output stays empty.
    assert_eq!(check(&url(&server), &["user=bob"]).1, "");
}

#[test]
fn exits_2_when_the_arguments_or_the_request_are_invalid() {
    let server = Server::start(&["--limit", "1/1d", "--key", "user"]);
    for arguments in
        [&["alice"][..], &["=alice"], &[], &["user=alice", "--cost", "-1"], &["user=a", "--server", "x:1"]]
    {
        assert_eq!(check(&url(&server), arguments).0, Some(2), "{arguments:?}");
    }
    let refused = |address: &str, message: &str| {
        let (status, said, error) = check(address, &["user=alice"]);
        assert_eq!((status, said.as_str(), error.contains(message)), (Some(2), "", true), "{error}");
    };
    refused("http://127.0.0.1:99999", "the port must be a whole number from 1 to 65535");
    refused("http://user:pw@127.0.0.1", "user and password are not supported");
    let (_, _, error) = check(&url(&server), &["user=alice", "--cost", "-1"]);
    assert!(error.contains("expected a whole number from 0 to 4294967295"), "{error}");
    let (status, _, error) = check(&url(&server), &["tenant=t"]);
    assert_eq!(status, Some(2));
    assert!(error.contains("attributes.user: policy `default`: the request has no key"), "{error}");
    let (status, _, error) = check(&url(&server), &["user=alice", "user=bob"]);
    assert_eq!(status, Some(2));
    assert!(error.contains("the request has no key: `user` is a list"), "{error}");
}

#[test]
fn exits_3_when_there_is_no_answer() {
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let (status, _, error) = check(&format!("http://{closed}"), &["user=alice"]);
    assert_eq!(
        (status, error.contains(&format!("cannot reach http://{closed}"))),
        (Some(3), true),
        "{error}"
    );

    for (answer, message) in [
        ("", "gave no answer"),
        ("-ERR unknown command\r\n", "does not speak HTTP"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "this is not an answer from a tollgate service"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("it asks");
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            stream.write_all(answer.as_bytes()).expect("it reads");
        });
        let (status, _, error) = check(&format!("http://{address}"), &["user=alice"]);
        assert_eq!((status, error.contains(message)), (Some(3), true), "{error}");
        serving.join().expect("no panic");
    }

    let full = Server::start(&["--limit", "1/1d@first_hit", "--max-counters", "1"]);
    assert_eq!(check(&url(&full), &["user=alice"]).0, Some(0));
    let (status, _, error) = check(&url(&full), &["user=bob"]);
    assert_eq!((status, error.contains("the store is full")), (Some(3), true), "{error}");

    let (status, _, error) = check(&format!("http://{}", full.admin), &["user=alice"]);
    assert_eq!(
        (status, error.contains("on the checks listener (`serve --listen`")),
        (Some(3), true),
        "{error}"
    );

    // A service that accepts the connection and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("an address");
    let (status, _, error) = check(&format!("http://{address}"), &["user=alice"]);
    assert_eq!((status, error.contains("within 5s")), (Some(3), true), "{error}");
}

/// A probe had to send a check, which takes a unit from a client.
#[test]
fn health_reports_readiness_and_takes_nothing() {
    let server = Server::start(&["--limit", "1/1d@first_hit", "--drain-delay", "60s"]);
    // The container that serves has variables like these.
    let probe = |server: &str| {
        let mut probe = tollgate();
        probe.env("TOLLGATE_SERVER", server).env("TOLLGATE_TOKEN_FILE", "/nowhere");
        let output = probe.args(["check", "--health"]).output().expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (status, said, _) = probe(&url(&server));
    assert_eq!(status, Some(0));
    assert!(said.starts_with("ready\ngeneration "), "{said}");
    // The admin listener answers the same.
    assert_eq!(probe(&server.admin.to_string()).0, Some(0));
    assert_eq!(check(&url(&server), &["user=alice"]).0, Some(0));

    server.signal("TERM");
    until("it is not ready", || probe(&url(&server)).0 == Some(1));
    let said = probe(&url(&server)).1;
    assert!(said.starts_with("not ready: ") && said.ends_with('\n'), "{said}");

    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    assert_eq!(probe(&closed.to_string()).0, Some(3));
}

/// Another service answers at the address.
#[test]
fn health_of_another_service_exits_3() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("it asks");
        let _ = stream.read(&mut [0; 4096]);
        stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").expect("it reads");
    });
    let (status, said, error) = check(&address, &["--health"]);
    serving.join().expect("no panic");
    assert_eq!((status, said.as_str()), (Some(3), ""));
    assert!(error.contains("answered with status 404"), "{error}");
}

fn printed(arguments: &[&str]) -> String {
    let output = tollgate().args(arguments).output().expect("it runs");
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_verbose_version_names_the_build() {
    let version = format!("tollgate {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(printed(&["--version"]), version);
    assert_eq!(printed(&["-V"]), version);
    let said = printed(&["--version", "--verbose"]);
    let rest = said.strip_prefix(&version).expect("the version first");
    let names: Vec<&str> = rest.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["commit", "features", "target"]);
    let target = rest.lines().last().expect("a line");
    assert!(target.contains(std::env::consts::ARCH) && target.contains("linux"), "{target}");
}

#[test]
fn completions_have_every_command() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = printed(&["completions", shell]);
        for word in ["serve", "check-config", "drain-delay", "health"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    // Bash loads it, and has a completion for the command then.
    let line = "source /dev/stdin && complete -p tollgate";
    let mut bash = std::process::Command::new("bash")
        .args(["-c", line])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    let mut input = bash.stdin.take().expect("it is piped");
    input.write_all(printed(&["completions", "bash"]).as_bytes()).expect("it reads");
    drop(input);
    assert!(bash.wait().expect("it ends").success());
}

/// The help listed the exit statuses of a few commands only, and the manual pages listed none.
#[test]
fn help_and_manual_list_exit_statuses() {
    for (command, meaning) in [
        (&["serve"][..], "a second signal stopped it at once"),
        (&["check"], "denied; with --health, not ready"),
        (&["doctor"], "something fails"),
        (&["check-config"], "they are not valid"),
        (&["override", "set"], "the message says whether the change may have been made"),
        (&["token", "new"], "the system provides no random bytes"),
        (&[], "the answer is no (denied, not ready, not valid), or the command failed"),
    ] {
        let help = printed(&[command, &["--help"]].concat());
        assert!(help.contains("Exit status:") && help.contains(meaning), "{help}");
        let page = printed(&[&["man"], command].concat()).replace("\\-", "-");
        let title = [&["tollgate"], command].concat().join("-");
        assert!(page.contains(&format!(".TH {title} 1")), "{page}");
        let statuses = page.split_once("EXIT STATUS").expect("a section").1;
        assert!(statuses.contains(meaning), "{page}");
    }
    // The page has the variables of flags as well.
    assert!(printed(&["man", "serve"]).contains("TOLLGATE_LIMIT"));
}
