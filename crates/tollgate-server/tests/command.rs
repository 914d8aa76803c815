//! `tollgate check`: what it says, and with which status it exits.

#![allow(clippy::expect_used, reason = "this is a test")]

mod support;

use std::io::{Read, Write};
use std::net::TcpListener;

use support::{Server, tollgate};

/// The exit status, standard output and standard error.
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
    assert_eq!(said, "allowed by default\n  5/1d@first_hit: 4 of 5 used, 1 remaining, resets in 1 d 0 h\n");

    let (status, said, _) = check(&url(&server), &["user=alice", "--cost", "2"]);
    assert_eq!(status, Some(1));
    assert!(said.starts_with("denied by default: retry in "), "{said}");
    let (status, said, _) = check(&url(&server), &["user=alice", "--cost", "6"]);
    assert_eq!((status, said.contains("can never pass")), (Some(1), true));
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
fn json_is_the_answer_as_it_came() {
    let server = Server::start(&["--limit", "1/1d@first_hit,9/2d@first_hit"]);
    let (status, said, _) = check(&url(&server), &["user=a=b", "path=/", "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((status, answer["quotas"][1]["remaining"].as_u64()), (Some(0), Some(8)));
    assert_eq!(server.get("/v1/check?user=a%3Db&path=/").status, 429);
}

#[test]
fn exits_2_when_the_arguments_or_the_request_cannot_be() {
    let server = Server::start(&["--limit", "1/1d", "--key", "user"]);
    for arguments in
        [&["alice"][..], &["=alice"], &[], &["user=alice", "--cost", "-1"], &["user=a", "--server", "x:1"]]
    {
        assert_eq!(check(&url(&server), arguments).0, Some(2), "{arguments:?}");
    }
    assert_eq!(check("https://localhost", &["user=alice"]).0, Some(2));
    let (status, _, error) = check(&url(&server), &["tenant=t"]);
    assert_eq!(status, Some(2));
    assert!(error.contains("attributes.user: the attribute is missing"), "{error}");
    let (status, _, error) = check(&url(&server), &["user=alice", "user=bob"]);
    assert_eq!(status, Some(2));
    assert!(error.contains("the attribute `user` is given twice"), "{error}");
}

#[test]
fn exits_3_when_there_is_no_answer() {
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let (status, _, error) = check(&format!("http://{closed}"), &["user=alice"]);
    assert_eq!((status, error.contains(&format!("cannot reach {closed}"))), (Some(3), true), "{error}");

    for answer in ["", "nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("it asks");
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            stream.write_all(answer.as_bytes()).expect("it reads");
        });
        assert_eq!(check(&format!("http://{address}"), &["user=alice"]).0, Some(3), "{answer}");
        serving.join().expect("no panic");
    }

    let full = Server::start(&["--limit", "1/1d", "--max-keys", "1"]);
    assert_eq!(check(&url(&full), &["user=alice"]).0, Some(0));
    let (status, _, error) = check(&url(&full), &["user=bob"]);
    assert_eq!((status, error.contains("the store is full")), (Some(3), true), "{error}");

    // A service that takes the connection and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("an address");
    let (status, _, error) = check(&format!("http://{address}"), &["user=alice"]);
    assert_eq!((status, error.contains("within 5s")), (Some(3), true), "{error}");
}
