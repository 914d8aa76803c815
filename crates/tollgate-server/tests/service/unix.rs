//! Listeners at Unix sockets: their files, who may connect, and the command as their client.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::certificates::Authority;
use crate::support::folder::Folder;
use crate::support::http2::{PREFACE, SETTINGS, settings};
use crate::support::{Connection, Server, get, post, tollgate, undisturbed, until};

const ALICE: &str = r#"{"attributes": {"user": "alice"}}"#;

/// A folder, and the path and the address of a socket in it.
struct Place {
    folder: Folder,
    path: String,
    address: String,
}

impl Place {
    fn new() -> Self {
        let folder = Folder::new();
        let path = folder.path("checks.sock");
        let address = format!("unix:{path}");
        Self { folder, path, address }
    }

    fn start(&self, more: &[&str]) -> Server {
        Server::start(
            &[&["--limit", "5/1d@first_hit", "--key", "user", "--listen", &self.address], more].concat(),
        )
    }

    fn mode(&self) -> u32 {
        fs::symlink_metadata(&self.path).expect("the socket is there").mode()
    }

    fn exists(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok()
    }

    /// Leaves a socket on which nobody listens, as a service that was killed does.
    fn leave_dead(&self) {
        drop(UnixListener::bind(&self.path).expect("a socket can be bound"));
    }
}

/// Returns the exit status and the error of a service that does not start. One that starts is killed.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = tollgate();
    command.envs([("TOLLGATE_LISTEN", "127.0.0.1:0"), ("TOLLGATE_ADMIN_LISTEN", "127.0.0.1:0")]);
    command.args(["serve", "--limit", "5/1d"]).args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut error = String::new();
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped"));
    while lines.read_line(&mut error).is_ok_and(|read| read > 0) {
        if error.contains("started") {
            child.kill().expect("it can be killed");
        }
    }
    (child.wait().expect("it ends").code(), error)
}

fn command(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = tollgate().args(arguments).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn a_socket_is_for_its_owner_and_gone_after_a_stop() {
    let place = Place::new();
    let server = place.start(&[]);
    assert_eq!(place.mode() & 0o7777, 0o600);
    let said = server.said.join("\n");
    assert!(said.contains(&format!("\nchecks  {}\n", place.address)), "{said}");
    let to_try = server.said.last().and_then(|line| line.strip_prefix("try     ")).expect("a line to try");
    assert!(
        to_try.starts_with(&format!("curl -i --unix-socket '{}' 'http://localhost/", place.path)),
        "{to_try}"
    );
    let pasted = Command::new("sh").args(["-c", to_try]).output().expect("a shell is there");
    let answer = String::from_utf8_lossy(&pasted.stdout).into_owned();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}{}", String::from_utf8_lossy(&pasted.stderr));

    server.signal("TERM");
    assert_eq!(server.wait().0.code(), Some(0));
    assert!(!place.exists());
}

#[test]
fn the_description_of_the_service_names_the_socket() {
    let place = Place::new();
    let admin = place.folder.path("admin.sock");
    let flags = ["--admin-listen", &format!("unix:{admin}")];
    let server = place.start(&flags);
    let mut connection = Connection::open_unix(&admin);
    let described = connection.ask(&get("/openapi.json")).json();
    assert_eq!(
        described["servers"],
        serde_json::json!([
            { "url": "http://localhost", "description": format!("checks at {}", place.address) },
            { "url": "http://localhost", "description": format!("admin at unix:{admin}") },
        ])
    );
    drop(server);
}

#[test]
fn a_dead_socket_is_replaced() {
    let place = Place::new();
    place.leave_dead();
    let server = place.start(&[]);
    assert_eq!(Connection::open_unix(&place.path).ask(&post("/v1/check", ALICE)).status, 200);
    // Killed, it leaves its own.
    server.signal("KILL");
    drop(server);
    assert!(place.exists() && UnixStream::connect(&place.path).is_err());
    let server = place.start(&[]);
    assert_eq!(Connection::open_unix(&place.path).ask(&post("/v1/check", ALICE)).status, 200);
    drop(server);
}

#[test]
fn a_live_socket_and_whatever_is_not_a_socket_stay_as_they_are() {
    let place = Place::new();
    let server = place.start(&[]);
    let (status, error) = refused(&["--listen", &place.address]);
    assert_eq!(status, Some(1));
    let expected = format!("cannot listen on {} (`--listen`): another process listens on it", place.address);
    assert!(error.contains(&expected), "{error}");
    assert_eq!(Connection::open_unix(&place.path).ask(&post("/v1/check", ALICE)).status, 200);

    let file = place.folder.write("file", "mine");
    let link = |name: &str, to: &str| {
        let path = place.folder.path(name);
        symlink(to, &path).expect("a link can be made");
        path
    };
    let links =
        [link("live", &place.path), link("dangling", &place.folder.path("nothing")), link("to-file", &file)];
    fs::create_dir(place.folder.path("folder")).expect("a folder can be made");
    for path in links.iter().chain([&file, &place.folder.path("folder")]) {
        let (status, error) = refused(&["--listen", &format!("unix:{path}")]);
        assert_eq!(status, Some(1));
        assert!(error.contains("a file that is not a socket"), "{path}: {error}");
        assert!(fs::symlink_metadata(path).is_ok(), "{path}");
    }
    assert!(!Path::new(&place.folder.path("nothing")).exists());
    assert_eq!(fs::read_to_string(file).expect("it is there"), "mine");
    drop(server);
}

#[test]
fn a_live_socket_that_accepts_nobody_is_live() {
    let place = Place::new();
    let listener =
        socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).expect("a socket");
    listener.bind(&socket2::SockAddr::unix(&place.path).expect("a path")).expect("it can be bound");
    listener.listen(0).expect("it can listen");
    let _waiting = UnixStream::connect(&place.path).expect("one has room");
    let (status, error) = refused(&["--listen", &place.address]);
    assert_eq!((status, error.contains("another process listens on it")), (Some(1), true), "{error}");
}

/// A service took the socket of one that had bound it and was about to listen for a dead one, and removed it.
#[test]
fn a_service_that_starts_in_the_same_folder_waits_for_the_other() {
    let place = Place::new();
    place.leave_dead();
    let other = fs::File::open(place.folder.root()).expect("the folder is there");
    other.lock().expect("it can be locked");
    let (status, error) = refused(&["--listen", &place.address]);
    assert_eq!(
        (status, error.contains("its folder is locked by another process")),
        (Some(1), true),
        "{error}"
    );
    assert!(place.exists(), "nothing was touched");

    drop(other);
    drop(place.start(&[]));
}

#[test]
fn only_its_own_file_is_removed_at_a_stop() {
    let place = Place::new();
    let server = place.start(&[]);
    fs::rename(&place.path, place.folder.path("moved")).expect("it can be renamed");
    let other = place.start(&[]);
    server.signal("TERM");
    assert_eq!(server.wait().0.code(), Some(0));
    assert_eq!(Connection::open_unix(&place.path).ask(&get("/healthz")).status, 200, "it is another's");
    fs::remove_file(&place.path).expect("it can be removed");
    place.folder.write("checks.sock", "mine");
    other.signal("TERM");
    assert_eq!(other.wait().0.code(), Some(0));
    assert!(place.exists());
}

#[test]
fn a_start_that_fails_leaves_no_socket() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = taken.local_addr().map(|address| (taken, address.to_string())).expect("an address");
    let (status, error) = refused(&["--listen", &place.address, "--admin-listen", &taken.1]);
    assert_eq!((status, place.exists()), (Some(1), false), "{error}");
}

#[test]
fn paths_that_cannot_be_are_named_with_their_flag() {
    let long = format!("unix:/{}", "a".repeat(107));
    for (address, detail) in [
        (long.as_str(), "at most 107 bytes here, and this one has 108"),
        ("unix:checks.sock", "expected the absolute path of a Unix socket"),
        ("unix:///run/checks.sock", "expected the absolute path of a Unix socket"),
        ("unix", "or unix:/PATH"),
    ] {
        for flag in ["--listen", "--admin-listen", "--metrics-listen", "--plain-probes", "--grpc"] {
            let (status, error) = refused(&[flag, address]);
            assert_eq!(status, Some(2), "{error}");
            assert!(error.contains(flag) && error.contains(detail), "{error}");
        }
    }
    let folder = Folder::new();
    let missing = format!("unix:{}", folder.path("missing/checks.sock"));
    let (status, error) = refused(&["--listen", &missing]);
    assert_eq!((status, error.contains("its folder cannot be opened")), (Some(1), true), "{error}");
}

#[test]
fn a_wider_mode_is_given_from_the_first_moment_and_not_to_an_open_admin_listener() {
    let place = Place::new();
    let server = place.start(&["--unix-mode", "0660"]);
    assert_eq!(place.mode() & 0o7777, 0o660);
    drop(server);

    let admin = format!("unix:{}", place.folder.path("admin.sock"));
    let wide = ["--admin-listen", &admin, "--unix-mode", "0660"];
    let (status, error) = refused(&wide);
    assert_eq!(status, Some(2));
    assert!(error.contains("`--unix-mode 0660` lets other users of this machine"), "{error}");
    let server = place.start(&[&wide[..], &["--insecure-admin"]].concat());
    server.signal("TERM");
    assert!(server.wait().1.contains("--insecure-admin"), "it warns");
    // For its owner alone, it is as safe as one on loopback.
    let server = place.start(&["--admin-listen", &admin, "--unix-mode", "0600"]);
    server.signal("TERM");
    let (_, log) = server.wait();
    assert!(!log.contains("can reach the admin listener"), "{log}");

    for (flags, detail) in [
        (&["--unix-mode", "0660"][..], "`--unix-mode` needs a listener at a Unix socket"),
        (&["--listen", &admin, "--unix-mode", "0777"], "from 0600 to 0666"),
        (&["--listen", &admin, "--unix-mode", "0060"], "from 0600 to 0666"),
    ] {
        let (status, error) = refused(flags);
        assert_eq!((status, error.contains(detail)), (Some(2), true), "{error}");
    }
}

#[test]
fn tokens_are_asked_for_at_a_socket() {
    let place = Place::new();
    let admin = place.folder.path("admin.sock");
    let (_, printed, _) = command(&["token", "new", "--json", "--name", "web", "--scope", "check"]);
    let printed: Value = serde_json::from_str(&printed).expect("JSON");
    let tokens = place.folder.write("tokens.jsonl", printed["line"].as_str().expect("a line"));
    let admin_address = format!("unix:{admin}");
    let server = place.start(&["--tokens", &tokens, "--admin-listen", &admin_address, "--unix-mode", "0666"]);
    let ask = |path: &str, operation: &str, token: &str| {
        let request = format!(
            "POST {operation} HTTP/1.1\r\nHost: a.example\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{ALICE}",
            ALICE.len()
        );
        Connection::open_unix(path).ask(request.as_bytes()).status
    };
    let token = printed["token"].as_str().expect("a token");
    assert_eq!((ask(&place.path, "/v1/check", token), ask(&place.path, "/v1/check", "tg_other")), (200, 401));
    assert_eq!((ask(&admin, "/v1/reset", token), ask(&admin, "/v1/reset", "tg_other")), (403, 401));
    let token_file = place.folder.write("token.txt", token);
    let (status, said, _) =
        command(&["check", "--server", &place.address, "--token-file", &token_file, "user=bob"]);
    assert_eq!((status, said.starts_with("allowed")), (Some(0), true), "{said}");
    drop(server);
}

/// A page that rebinds its name cannot reach a socket, but a proxy in front of it can pass on what a browser sends.
#[test]
fn an_admin_socket_without_tokens_refuses_names_of_pages() {
    let place = Place::new();
    let admin = place.folder.path("admin.sock");
    let server = place.start(&["--admin-listen", &format!("unix:{admin}")]);
    let ask = |host: &str| {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n");
        Connection::open_unix(&admin).ask(request.as_bytes()).status
    };
    assert_eq!((ask("localhost"), ask("evil.example")), (200, 403));
    drop(server);
}

#[test]
fn proxies_ask_over_a_socket_only_if_they_are_trusted() {
    let place = Place::new();
    let asked = |more: &str| {
        let request = format!(
            "GET /forward-auth HTTP/1.1\r\nHost: a\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /\r\n\
             X-Forwarded-Host: a.example\r\nX-Forwarded-For: 198.51.100.9{more}\r\n\r\n"
        );
        Connection::open_unix(&place.path).ask(request.as_bytes())
    };
    let by_ip = ["--limit", "5/1d@first_hit", "--key", "ip", "--listen", &place.address];
    let server = Server::start(&[&by_ip[..], &["--trusted-proxy", "10.0.0.0/8"]].concat());
    let refused_proxy = asked("");
    refused_proxy.assert_problem(400, None);
    let detail = refused_proxy.json()["detail"].as_str().expect("a text").to_owned();
    assert!(detail.contains("--trusted-proxy unix"), "{detail}");
    // The connection has no address that could be meant instead.
    let keyless = Connection::open_unix(&place.path).ask(&post("/v1/check", r#"{"attributes": {}}"#));
    keyless.assert_problem(400, Some("attributes.ip"));
    let keyed = r#"{"attributes": {"ip": "198.51.100.9"}}"#;
    let peeked = Connection::open_unix(&place.path).ask(&post("/v1/peek", keyed)).json();
    assert_eq!(peeked["used"], 0, "nothing was charged");
    server.signal("TERM");
    assert!(server.wait().1.contains("--trusted-proxy unix"), "the operator is told");

    let server = Server::start(&[&by_ip[..], &["--trusted-proxy", "unix, 10.0.0.0/8"]].concat());
    assert_eq!((asked("").status, asked(", 10.0.0.1").status), (200, 200));
    let peeked = Connection::open_unix(&place.path).ask(&post("/v1/peek", keyed)).json();
    assert_eq!(peeked["used"], 2);
    drop(server);

    let (status, error) = refused(&["--trusted-proxy", "unix"]);
    assert_eq!((status, error.contains("needs `--listen unix:/PATH`")), (Some(2), true), "{error}");
}

#[test]
fn a_certificate_is_for_listeners_of_tcp_alone() {
    let place = Place::new();
    let authority = Authority::new(place.folder.root(), "authority");
    let identity = authority.server(place.folder.root(), "server");
    let (certificate, key) = (identity.certificate.display().to_string(), identity.key.display().to_string());
    let authority = authority.file.display().to_string();
    let tls = ["--tls-cert", &certificate, "--tls-key", &key, "--tls-client-ca", &authority];
    let server = place.start(&tls);
    assert!(server.said.iter().any(|line| line.starts_with("admin   https://")), "{:?}", server.said);
    assert_eq!(Connection::open_unix(&place.path).ask(&post("/v1/check", ALICE)).status, 200);
    drop(server);

    let admin = format!("unix:{}", place.folder.path("admin.sock"));
    let listen = ["--listen", &place.address];
    for (flags, detail) in [
        (&["--tls-on", "checks"][..], "a Unix socket is served without TLS"),
        (&["--admin-listen", &admin], "`--tls-cert` has no effect"),
        // Client certificates identify nobody here.
        (
            &["--admin-listen", &admin, "--unix-mode", "0660", "--grpc", "127.0.0.1:0"],
            "`--unix-mode 0660` lets",
        ),
    ] {
        let (status, error) = refused(&[&listen[..], &tls, flags].concat());
        assert_eq!((status, error.contains(detail)), (Some(2), true), "{error}");
    }
}

#[test]
fn a_thousand_requests_on_one_connection_are_answered() {
    let place = Place::new();
    let server = place.start(&[]);
    let mut connection = Connection::open_unix(&place.path);
    let allowed = (0..1_000).filter(|_| connection.ask(&post("/v1/check", ALICE)).status == 200).count();
    assert_eq!(allowed, 5);
    assert_eq!(server.metric("tollgate_http_connections{listener=\"checks\"}"), Some(1.0));
}

#[test]
fn http_2_and_grpc_are_spoken_at_a_socket() {
    let place = Place::new();
    let grpc = place.folder.path("grpc.sock");
    let server = place.start(&["--grpc", &format!("unix:{grpc}")]);
    for path in [&place.path, &grpc] {
        let mut connection = Connection::open_unix(path);
        connection.send(&[PREFACE, &settings(&[])].concat());
        assert_eq!(connection.frame().map(|(kind, ..)| kind), Some(SETTINGS), "{path}");
    }
    drop(server);
}

#[test]
fn connections_of_one_user_are_bounded_and_half_requests_are_cut() {
    let place = Place::new();
    let server = place.start(&["--max-connections-per-peer", "3"]);
    let mut halves = ["POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Le", "G"].map(|half| {
        let mut connection = Connection::open_unix(&place.path);
        connection.send(half.as_bytes());
        connection
    });
    let mut third = Connection::open_unix(&place.path);
    assert_eq!(third.ask(&post("/v1/check", ALICE)).status, 200);
    let mut fourth = Connection::open_unix(&place.path);
    assert!(fourth.is_closed());
    assert_eq!(server.metric("tollgate_http_connections_refused_total{listener=\"checks\"}"), Some(1.0));
    // As over TCP, a head has five seconds.
    assert!(halves.iter_mut().all(Connection::is_closed));
    assert_eq!(third.ask(&post("/v1/check", ALICE)).status, 200);
    until("the places are free", || {
        let mut next = Connection::open_unix(&place.path);
        next.try_send(&get("/healthz")) && next.reply().is_some()
    });
}

#[test]
fn a_drain_removes_the_file_first_and_answers_all_that_are_connected() {
    undisturbed(|| {
        let place = Place::new();
        let server = place.start(&["--max-connections", "1"]);
        let mut first = Connection::open_unix(&place.path);
        assert_eq!(first.ask(&get("/healthz")).status, 200);
        let body = r#"{"attributes": {"user": "bob"}}"#;
        let request = post("/v1/check", body);
        let (start, end) = request.split_at(request.len() - 3);
        first.send(start);
        let mut waiting: Vec<Connection> = (0..3).map(|_| Connection::open_unix(&place.path)).collect();
        for connection in &mut waiting {
            connection.send(&post("/v1/check", ALICE));
        }
        server.signal("TERM");
        until("the file is gone", || !place.exists());
        // The path is free for the next service, while this one still answers.
        let next = place.start(&[]);
        first.send(end);
        for connection in [&mut first].into_iter().chain(&mut waiting) {
            let reply = connection.reply().expect("an answer");
            assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
        }
        assert_eq!(server.wait().0.code(), Some(0));
        assert_eq!(Connection::open_unix(&place.path).ask(&get("/healthz")).status, 200);
        drop(next);
    });
}

#[test]
fn a_second_signal_leaves_no_file() {
    let place = Place::new();
    let server = place.start(&["--drain-delay", "60s"]);
    server.signal("TERM");
    let mut connection = Connection::open_unix(&place.path);
    until("it drains", || connection.ask(&get("/readyz")).status == 503);
    server.signal("TERM");
    let _ = server.wait();
    assert!(!place.exists());
}

#[test]
fn the_command_asks_at_a_socket() {
    let place = Place::new();
    let server = place.start(&["--plain-probes", &format!("unix:{}", place.folder.path("probes.sock"))]);
    let check = |more: &[&str]| command(&[&["check", "--server", &place.address], more].concat());
    assert_eq!(check(&["--health"]).0, Some(0));
    let (status, said, _) = check(&["user=alice", "--cost", "5"]);
    assert_eq!((status, said.starts_with("allowed\n")), (Some(0), true));
    assert_eq!(check(&["user=alice"]).0, Some(1));
    let (status, _, error) = check(&["user=alice", "--ca", "/nothing"]);
    assert_eq!(status, Some(2));
    assert!(error.contains(&format!("but {} is called without TLS", place.address)), "{error}");

    let probes = format!("unix:{}", place.folder.path("probes.sock"));
    let (status, said, error) = command(&["doctor", "--fleet", &place.address, &probes]);
    assert_eq!(status, Some(0), "{said}{error}");
    assert!(said.contains(&place.address) && said.contains("in step: 2 replicas"), "{said}");

    drop(server);
    let (status, _, error) = check(&["user=alice"]);
    assert_eq!(status, Some(3));
    assert!(error.contains(&format!("cannot reach {}", place.address)), "{error}");
    let (status, _, error) = command(&["check", "--server", "unix:a", "user=alice"]);
    assert_eq!((status, error.contains("absolute path of a Unix socket")), (Some(2), true), "{error}");
}
