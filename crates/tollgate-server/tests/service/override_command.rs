//! `tollgate override`, when the service does not answer as it should, and when the arguments are wrong.
//!
//! Real services answer in `guides`.

#![allow(clippy::expect_used, reason = "this is a test")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::{Value, json};

use crate::support::tollgate;

const SET: [&str; 7] = ["set", "--policy", "search", "--key", "user=alice", "--quota", "500/1m"];
const GET: [&str; 5] = ["get", "--policy", "search", "--key", "user=alice"];
const DELETE: [&str; 5] = ["delete", "--policy", "search", "--key", "user=alice"];

/// Returns the exit status, standard output and standard error.
fn run(server: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output =
        tollgate().arg("override").args(arguments).args(["--server", server]).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Runs the command with a service that gives this answer, and returns the request as well.
fn answered(answer: &str, arguments: &[&str]) -> (String, (Option<i32>, String, String)) {
    let (mut requests, output) = answered_by(&[answer], arguments);
    (requests.remove(0), output)
}

/// The same with an answer for each request. If the command sends fewer, so many are returned.
fn answered_by(answers: &[&str], arguments: &[&str]) -> (Vec<String>, (Option<i32>, String, String)) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::scope(|scope| {
        let ask = move |answer: &&str| {
            let (mut stream, _) = listener.accept().expect("it asks");
            let mut request = Vec::new();
            let mut part = [0; 4096];
            while !is_complete(&request) {
                let read = stream.read(&mut part).expect("it writes");
                if read == 0 && request.is_empty() {
                    return None;
                }
                assert!(read > 0, "the request is cut off");
                request.extend(&part[..read]);
            }
            stream.write_all(answer.as_bytes()).expect("it reads");
            Some(String::from_utf8(request).expect("text"))
        };
        let asked = scope.spawn(move || answers.iter().map_while(ask).collect());
        let output = run(&address, arguments);
        if !asked.is_finished() {
            // Ends the wait for a request that does not come.
            drop(TcpStream::connect(&address));
        }
        (asked.join().expect("no panic"), output)
    })
}

/// Returns whether this is the head of a request, and as much of a body as it says.
fn is_complete(request: &[u8]) -> bool {
    let Some((head, body)) = str::from_utf8(request).expect("text").split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() == length.map_or(0, |length| length.parse().expect("a number"))
}

fn reply(status: &str, body: &Value) -> String {
    let body = body.to_string();
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn record() -> Value {
    json!({
        "id": "search:=xXvTx0caa3RWc8NUkisk5w",
        "policy": "search",
        "key": "[user]",
        "target": { "key": "xXvTx0caa3RWc8NUkisk5w" },
        "quotas": ["500/1m", "20~in_flight"],
        "label": "ticket-7",
        "by": "support",
        "changed": "2026-11-29T08:00:00Z",
        "version": "000000000000000a.7",
        "state": "active",
        "replaced": false,
        "overrides_version": "000000000000000a.7",
        "stale": false,
    })
}

/// Returns the body of a request.
fn body(request: &str) -> Value {
    let (_, body) = request.split_once("\r\n\r\n").expect("a body");
    serde_json::from_str(body).expect("JSON")
}

#[test]
fn a_change_is_sent_with_its_condition_and_shown_for_people() {
    let (request, (status, said, error)) = answered(
        &reply("200 OK", &record()),
        &[&SET[..], &["--quota", "20~in_flight", "--for", "2h", "--if-match", "000000000000000a.6"]].concat(),
    );
    assert!(request.starts_with("PUT /v1/overrides HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("if-match: \"000000000000000a.6\"\r\n"), "{request}");
    let expected = json!({
        "policy": "search", "attributes": { "user": "alice" }, "quotas": ["500/1m", "20~in_flight"], "for": "2h",
    });
    assert_eq!(body(&request), expected);
    assert_eq!((status, error.as_str()), (Some(0), ""));
    let shown = "set search:=xXvTx0caa3RWc8NUkisk5w
  for        one key, by `[user]`
  limits     500/1m, 20~in_flight
  until      no end
  label      ticket-7
  changed    2026-11-29T08:00:00Z by support
  version    000000000000000a.7
";
    assert_eq!(said, shown);
}

#[test]
fn each_way_to_name_a_target_is_sent_as_the_service_reads_it() {
    let sent = |arguments: &[&str]| {
        let set = ["set", "--policy", "search", "--unlimited", "--if-absent"];
        let (request, (status, ..)) = answered(&reply("200 OK", &record()), &[&set, arguments].concat());
        assert_eq!(status, Some(0));
        assert!(request.contains("if-none-match: *\r\n"), "{request}");
        let body = body(&request);
        assert_eq!(body["quotas"], "unlimited");
        body["attributes"].clone()
    };
    assert_eq!(sent(&["--key", "user=a=b", "--key", "tenant=t"]), json!({ "user": "a=b", "tenant": "t" }));
    assert_eq!(sent(&["--key", "global"]), json!({}));
    assert_eq!(sent(&["--is", "tenant=acme"]), json!({ "tenant": { "is": "acme" } }));
    assert_eq!(sent(&["--prefix", "tenant=acme-"]), json!({ "tenant": { "prefix": "acme-" } }));

    let (request, _) = answered(&reply("200 OK", &record()), &["get", "--id", "search:tenant^acme-"]);
    assert!(request.starts_with("POST /v1/overrides/get "), "{request}");
    assert_eq!(body(&request), json!({ "id": "search:tenant^acme-" }));
}

/// A change whose answer is lost may have been made, and a repetition could undo somebody else's.
#[test]
fn a_lost_answer_to_a_change_says_that_it_may_have_been_made() {
    let unknown = json!({ "detail": "the store did not answer", "reason": "outcome_unknown" });
    let cut_off = "HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{";
    for answer in ["", cut_off, &reply("503 Service Unavailable", &unknown), &reply("200 OK", &json!({}))] {
        for change in [&SET[..], &DELETE] {
            let (_, (status, said, error)) = answered(answer, change);
            assert_eq!((status, said.as_str()), (Some(3), ""), "{error}");
            assert!(error.contains("may have been made: `tollgate override get`"), "{error}");
            assert!(!error.contains("alice"), "a key is in {error}");
        }
        let (_, (status, _, error)) = answered(answer, &GET);
        assert!(status == Some(3) && !error.contains("may have been made"), "{error}");
    }
    // Nothing was sent.
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let (status, _, error) = run(&closed.to_string(), &SET);
    assert!(status == Some(3) && !error.contains("may have been made"), "{error}");
    let refused = json!({ "detail": "the store cannot be reached", "reason": "store_unavailable" });
    let (_, (status, _, error)) = answered(&reply("503 Service Unavailable", &refused), &SET);
    assert!(status == Some(3) && !error.contains("may have been made"), "{error}");
}

#[test]
fn the_exit_status_tells_a_no_from_a_wrong_request() {
    for (answer, reason, status) in [
        ("404 Not Found", Some("no_override"), 1),
        ("412 Precondition Failed", Some("precondition_failed"), 1),
        ("409 Conflict", Some("no_state_dir"), 2),
        ("400 Bad Request", None, 2),
        ("401 Unauthorized", None, 2),
        ("403 Forbidden", None, 2),
        // Another listener, or another service.
        ("404 Not Found", None, 3),
    ] {
        let mut problem = json!({ "detail": "because" });
        if let Some(reason) = reason {
            problem["reason"] = reason.into();
        }
        let (_, (exited, said, error)) = answered(&reply(answer, &problem), &DELETE);
        assert_eq!((exited, said.as_str()), (Some(status), ""), "{answer}");
        assert!(error.contains("because"), "{error}");
        // The problem is the answer of the service as well.
        let (_, (exited, said, _)) = answered(&reply(answer, &problem), &[&DELETE[..], &["--json"]].concat());
        assert_eq!((exited, said), (Some(status), format!("{problem}\n")), "{answer}");
    }
}

#[test]
fn a_list_is_a_table_without_control_characters_and_names_its_next_page() {
    let mut page = json!({
        "overrides_version": "000000000000000a.9",
        "stale": true,
        "overrides": [record(), record(), record()],
        "next": "search:tenant^acme-",
    });
    page["overrides"][1]["until"] = "1970-01-01T00:00:00Z".into();
    page["overrides"][1]["state"] = "ended".into();
    page["overrides"][1]["label"] = Value::Null;
    page["overrides"][2]["quotas"] = "denied".into();
    page["overrides"][2]["state"] = "inert".into();
    page["overrides"][2]["reason"] = "no such policy\u{1b}[2J".into();
    let list = ["list", "--policy", "search", "--label", "ticket-7", "--after", "search:a%20b"];
    let (request, (status, said, error)) = answered(&reply("200 OK", &page), &list);
    let asked =
        "GET /v1/overrides?policy=search&label=ticket%2D7&after=search%3Aa%2520b&limit=100 HTTP/1.1\r\n";
    assert!(request.starts_with(asked), "{request}");
    assert_eq!(status, Some(0));
    assert!(error.contains("warning: the service has had no answer from the store"), "{error}");
    let lines: Vec<&str> = said.lines().collect();
    let [titles, active, ended, inert, summary] = lines[..] else { panic!("{said}") };
    let column = |title: &str| titles.find(title).expect("it has the column");
    assert!(active[column("LIMITS")..].starts_with("500/1m, 20~in_flight  "), "{said}");
    assert!(active[column("LABEL")..].starts_with("ticket-7"), "{said}");
    assert!(ended[column("UNTIL")..].starts_with("1970-01-01T00:00:00Z ("), "{said}");
    assert!(ended[column("NO EFFECT")..].starts_with("it has ended"), "{said}");
    assert!(inert[column("NO EFFECT")..].starts_with("no such policy"), "{said}");
    assert!(!said.contains('\u{1b}'), "{said:?}");
    let more =
        "3 overrides, at version 000000000000000a.9; more with --all, or with --after search:tenant^acme-";
    assert_eq!(summary, more);
}

#[test]
fn all_pages_of_a_list_are_one_table_or_a_line_of_json_each() {
    let page = |next: Option<&str>| {
        let mut page =
            json!({ "overrides_version": "000000000000000a.9", "stale": false, "overrides": [record()] });
        if let Some(next) = next {
            page["next"] = next.into();
        }
        page
    };
    // One without an override, as a filter may leave it.
    let mut empty = page(Some("search:b=c"));
    empty["overrides"] = json!([]);
    let pages = [page(Some("search:a=b")), empty, page(None)];
    let answers = pages.each_ref().map(|page| reply("200 OK", page));
    let answers = answers.each_ref().map(String::as_str);

    let (requests, (status, said, _)) = answered_by(&answers, &["list", "--all"]);
    let asked: Vec<&str> = requests.iter().filter_map(|request| request.split(' ').nth(1)).collect();
    let path = |after: &str| format!("/v1/overrides?{after}limit=1000");
    assert_eq!(asked, [path(""), path("after=search%3Aa%3Db&"), path("after=search%3Ab%3Dc&")]);
    assert_eq!(status, Some(0));
    assert_eq!((said.lines().count(), said.matches("search:=").count()), (4, 2), "{said}");
    assert!(said.ends_with("\n2 overrides, at version 000000000000000a.9\n"), "{said}");

    let (_, (status, said, _)) = answered_by(&answers, &["list", "--all", "--json"]);
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((status, lines.as_slice()), (Some(0), &pages[..]));

    // What came before a page fails is not lost.
    let (_, (status, said, error)) = answered_by(&[answers[0], ""], &["list", "--all"]);
    assert!(status == Some(3) && said.contains("search:=") && !error.is_empty(), "{said}{error}");
}

#[test]
fn a_change_that_came_too_late_names_the_version_that_is_there() {
    let problem = json!({ "detail": "there is another override", "current": record() });
    let (_, (status, said, error)) = answered(&reply("412 Precondition Failed", &problem), &SET);
    assert_eq!((status, said.as_str()), (Some(1), ""));
    assert_eq!(error, "error: there is another override: its version is 000000000000000a.7\n");
}

/// The service would not see these, or could only guess.
#[test]
fn arguments_that_contradict_each_other_are_refused() {
    let target = ["--policy", "search", "--key", "user=alice"];
    for (arguments, message) in [
        (&["set", "--policy", "search", "--quota", "5/1m"][..], "--key"),
        (&["set", "--key", "user=alice", "--quota", "5/1m"], "--policy"),
        (&[&["set"][..], &target].concat(), "--quota"),
        (&[&["set"][..], &target, &["--quota", "5/1m", "--deny"]].concat(), "cannot be used with"),
        (&[&["set"][..], &target, &["--is", "tenant=a", "--deny"]].concat(), "cannot be used with"),
        (&[&["set"][..], &target, &["--deny", "--key", "user=bob"]].concat(), "`user` is given twice"),
        (&[&["set"][..], &target, &["--deny", "--key", "global"]].concat(), "`global` is a whole key"),
        (
            &[&["set"][..], &target, &["--deny", "--for", "2h", "--until", "2027-01-01T00:00:00Z"]].concat(),
            "cannot be used with",
        ),
        (&[&["set"][..], &target, &["--deny", "--until", "tomorrow"]].concat(), "2027-01-01T00:00:00Z"),
        (&[&["set"][..], &target, &["--deny", "--if-match", "7"]].concat(), "expected a version"),
        (&["get", "--policy", "search"], "--key"),
        (&["get", "--key", "user=alice"], "--policy"),
        (&["get", "--policy", "search", "--id", "search:a=b"], "cannot be used with"),
        (&["delete", "--id", "search:a=b", "--key", "user=alice"], "cannot be used with"),
        (&["list", "--all", "--after", "search:a=b"], "cannot be used with"),
    ] {
        let (status, said, error) = run("127.0.0.1:1", arguments);
        assert_eq!((status, said.as_str()), (Some(2), ""), "{arguments:?}: {error}");
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
}

/// An empty variable counted as a wrong value in commands below other commands.
#[test]
fn an_empty_variable_counts_as_unset_and_an_error_names_the_variable() {
    let with = |server: &str| {
        let output = tollgate()
            .env("TOLLGATE_ADMIN_SERVER", server)
            .arg("override")
            .args(GET)
            .output()
            .expect("it runs");
        String::from_utf8(output.stderr).expect("text")
    };
    assert!(with("").contains("127.0.0.1:8090"), "{}", with(""));
    assert!(with("ftp://a").contains("TOLLGATE_ADMIN_SERVER"), "{}", with("ftp://a"));
}
