//! Flags and secrets of the store, and what the log says about it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::servers::{self, Data, Software};

use super::{ALICE, PATIENT, is_from_store, redis, serve, source, until, url};
use crate::support::folder::Folder;
use crate::support::{EVERY_LINE, Server, tollgate};

/// All lines shared one gap, so a line about a foreign value hid an outage. Later, the second of two outages had no
/// line, because it began within ten seconds of the first.
#[test]
fn logs_every_outage() {
    let store = redis();
    let server = serve(&store, "5/1d@first_hit", &[]);
    assert_eq!(server.post("/v1/check", ALICE).status, 200);
    let keys: Vec<String> = store.command(["KEYS", "*"]);
    let _: () = store.command(["SET", &keys[0], "nonsense"]);
    assert_eq!(server.post("/v1/check", ALICE).status, 503);
    for _ in 0..2 {
        store.kill();
        assert_eq!(server.get("/v1/check?user=bob").status, 503);
        store.start_again(Data::Lost);
        until("counted", &server, "/v1/check?user=bob", is_from_store);
    }
    server.signal("TERM");
    let (_, log) = server.wait();
    assert_eq!(log.matches("a counter was overwritten").count(), 1, "{log}");
    // What is wrong is in the error's source.
    assert!(log.contains("holds something other than a count"), "{log}");
    let count = |line: &str| log.matches(line).count();
    let (gone, back) = ("the store does not answer", "the store answers again");
    let gathered = "the store failed again";
    // On a machine that stands still, the second outage begins later and has lines of its own.
    assert!(matches!((count(gone), count(back), count(gathered)), (1, 1, 1) | (2, 2, 0)), "{log}");
    if let Some(line) = log.lines().find(|line| line.contains(gathered)) {
        assert!(line.contains("outages=1") && line.contains(r#"store="answers""#), "{line}");
    }
}

#[test]
fn every_flag_of_the_store_has_an_environment_variable() {
    let store = servers::Settings::new(Software::Redis).password("sesame").start();
    let url = url(&store);
    let mut command = tollgate();
    command.envs([
        ("TOLLGATE_LIMIT", "4/1d@first_hit"),
        ("TOLLGATE_STORE", url.as_str()),
        ("TOLLGATE_STORE_TIMEOUT", PATIENT),
        ("TOLLGATE_STORE_CONNECT_TIMEOUT", PATIENT),
        ("TOLLGATE_STORE_PREFIX", "variable"),
        ("TOLLGATE_IDENTITY", "plain"),
        ("TOLLGATE_LOCAL_DENIALS", "0"),
        ("TOLLGATE_STORE_PASSWORD", "sesame"),
        ("TOLLGATE_ON_STORE_FAILURE", "local"),
        ("TOLLGATE_LOCAL_SHARE", "1/2"),
    ]);
    let server = Server::start_by(command, &[]);
    until("counted", &server, "/v1/check?user=alice", is_from_store);
    let keys: Vec<String> = store.command(["KEYS", "variable:*alice*"]);
    assert_eq!(keys.len(), 1);
    let full = || server.get("/v1/check?user=carol&cost=4");
    assert_eq!((full().status, full().status, source(&full())), (200, 429, json!("store")));
    store.kill();
    let limits: Vec<Value> =
        (0..3).map(|_| server.get("/v1/check?user=bob").json()["limit"].clone()).collect();
    assert_eq!(limits, [2, 2, 2]);
}

#[test]
fn exits_with_2_for_invalid_flags_of_the_store() {
    let fails = |arguments: &[&str]| {
        let output = tollgate().args(["serve", "--limit", "5/1m"]).args(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let with = |more: &[&str]| fails(&[&["--store", "redis://127.0.0.1:1"], more].concat());
    assert!(with(&["--on-store-failure", "local"]).contains("--local-share"));
    assert!(with(&["--local-share", "1/3"]).contains("--on-store-failure local"));
    for share in ["0", "1.5", "4/3", "-1", "a third"] {
        let error = with(&["--on-store-failure", "local", "--local-share", share]);
        assert!(error.contains("above 0 and at most 1"), "{error}");
    }
    for time in ["0ms", "20", "2m", "-1s"] {
        assert!(with(&["--store-timeout", time]).contains("1ms to 60s"), "{time}");
    }
    for count in ["-1", "10000001", "many"] {
        assert!(with(&["--local-denials", count]).contains("from 0 to 10000000"), "{count}");
    }
    assert!(fails(&["--on-store-failure", "closed"]).contains("--store <URL>"));
    assert!(fails(&["--store-prefix", "x"]).contains("--store <URL>"));
    // The start failed with status 1, and the error did not name the flag.
    let sentinels = ["--store", "redis+sentinel://h/p", "--store-sentinel-user", "watcher"];
    assert!(fails(&sentinels).contains("`--store-sentinel-user` needs a password: pass `--store-sentinel-p"));
    let error = fails(&["--store", "redis://ann@h"]);
    assert!(
        error.contains("the store's URL names a user, which needs a password: pass `--store-password-file`")
    );
}

/// The error only showed at the first check.
#[test]
fn reports_a_wrong_password_at_the_start_with_advice() {
    let store = servers::Settings::new(Software::Redis).password("right").start();
    let mut command = tollgate();
    command.env("TOLLGATE_STORE", url(&store)).env("TOLLGATE_STORE_PASSWORD", "wrong");
    command.args(["serve", "--limit", "5/1m", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    // Longer than this machine stands still, or what is said is that connecting takes too long; it is said after twice
    // that time.
    command.args(["--store-connect-timeout", "3s"]);
    let mut service = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let log = BufReader::new(service.stderr.take().expect("its log is piped"));
    let (sender, said) = mpsc::channel();
    thread::spawn(move || log.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let line = |part: &str| {
        let next = || said.recv_timeout(Duration::from_secs(60)).ok();
        std::iter::from_fn(next).find(|line| line.contains(part))
    };
    let warned = line("no connection to the store yet");
    store.command::<()>(["CONFIG", "SET", "requirepass", "wrong"]);
    let mended = line("connected to the store");
    service.kill().expect("it can be killed");
    service.wait().expect("it ends");
    let warned = warned.expect("a warning");
    assert!(warned.contains("wrong user or password") && warned.contains("WARN"), "{warned}");
    assert!(
        warned.contains("TOLLGATE_STORE_PASSWORD") && warned.contains("--store-password-file"),
        "{warned}"
    );
    assert!(mended.is_some());
}

/// No answer and no log line has the password, right or wrong, wherever it comes from.
#[test]
fn a_password_is_in_no_log_and_no_answer() {
    const PASSWORD: &str = "open-sesame";
    let folder = std::env::temp_dir().join(format!("tollgate-secret-{}", std::process::id()));
    std::fs::write(&folder, format!("{PASSWORD}\n")).expect("a file can be written");
    let file = folder.to_str().expect("a path in UTF-8");

    for (right, status) in [(PASSWORD, 200), ("another", 503)] {
        let store = servers::Settings::new(Software::Redis).password(right).start();
        let with_password = format!("redis://:{PASSWORD}@{}", store.address());
        let without = url(&store);
        for (url, flags, variable) in [
            (&with_password, &[][..], None),
            (&without, &["--store-password-file", file], None),
            (&without, &[], Some(("TOLLGATE_STORE_PASSWORD", PASSWORD))),
        ] {
            let mut command = tollgate();
            command.env("RUST_LOG", EVERY_LINE).env("TOLLGATE_STORE", url).envs(variable);
            let exact =
                ["--limit", "5/1d@first_hit", "--on-store-failure", "closed", "--store-timeout", PATIENT];
            let patient = ["--store-connect-timeout", PATIENT];
            let server = Server::start_by(command, &[&exact[..], &patient, flags].concat());
            let reply = server.post("/v1/check", ALICE);
            assert_eq!(reply.status, status, "{:?}", reply.json());
            let mut said = server.said.join("\n");
            for reply in [
                &reply,
                &server.get("/readyz"),
                &server.admin_get("/metrics"),
                &server.admin_get("/openapi.json"),
            ] {
                said += &String::from_utf8_lossy(&reply.body);
            }
            server.signal("TERM");
            said += &server.wait().1;
            assert!(said.contains("counters are shared"), "{said}");
            assert!(!said.contains("sesame"), "{said}");
        }
    }
    let _ = std::fs::remove_file(&folder);

    for arguments in [&["serve", "--help"][..], &["doctor", "--help"], &["serve", "--limit", "5/1mm"]] {
        let mut command = tollgate();
        command.env("TOLLGATE_STORE", "redis://:open-sesame@h").env("TOLLGATE_STORE_PASSWORD", PASSWORD);
        let output = command.args(arguments).output().expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        assert!(!said.is_empty() && !String::from_utf8_lossy(&said).contains("sesame"), "{arguments:?}");
    }
}

/// The log named a key by its plain digest, although the store did not.
#[test]
fn with_a_secret_no_digest_in_store_or_log_can_be_guessed() {
    // SHA-256 of 01 05 'alice', and its HMAC.
    const PLAIN: &str = "xXvTx0caa3RWc8NUkisk5w";
    const KEYED: &str = "zkEp-ll_AWvzt1KHA6QgnQ";
    let (store, folder) = (redis(), Folder::new());
    let file = folder.write("secret", "0123456789abcdef0123456789abcdef\n");
    let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("our own file");
    mode(0o640);
    let with_secret = ["--key", "user", "--identity-secret-file", &file];
    let server = serve(&store, "5/1d@first_hit", &with_secret);
    assert_eq!(server.post("/v1/check", ALICE).status, 200);
    let keys: Vec<String> = store.command(["KEYS", "*"]);
    assert_eq!(keys, [format!("tollgate:1:default:1d@first_hit:{{{KEYED}}}")]);
    store.command::<()>(["SET", &keys[0], "overwritten"]);
    assert_eq!(server.post("/v1/check", ALICE).status, 503);
    server.signal("TERM");
    let log = server.wait().1;
    assert!(log.contains(KEYED) && !log.contains(PLAIN), "{log}");

    let refused = |more: &[&str]| {
        let url = url(&store);
        let all = [&["serve", "--limit", "5/1m", "--store", &url], &with_secret[..], more].concat();
        let output = tollgate().args(all).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).expect("text")
    };
    for plain in [["--identity", "plain"], ["--store-layout", "rlaas"]] {
        assert_eq!(
            refused(&plain),
            "error: `--identity-secret-file` is only valid with digests: leave it out, or leave out `--identity \
             plain` or the key layout\n"
        );
    }
    mode(0o644);
    let exposed = format!(
        "error: `--identity-secret-file`: every user of this machine can access the secret in the file {file} (its \
         mode is 644): run `chmod o= {file}`\n"
    );
    assert_eq!(refused(&[]), exposed);
    mode(0o600);
    folder.write("secret", "too short");
    mode(0o600);
    assert!(refused(&[]).contains(" has 9 bytes, and needs at least 32"));
}

/// Every check of the key fell back until somebody deleted it, and the log did not name the key.
#[test]
fn the_log_names_an_overwritten_counter_and_how_to_repair_it() {
    let store = redis();
    let server = serve(&store, "5/1d@first_hit", &["--key", "user"]);
    assert_eq!(server.post("/v1/check", ALICE).status, 200);
    let keys: Vec<String> = store.command(["KEYS", "*"]);
    store.command::<()>(["SET", &keys[0], "overwritten"]);
    for _ in 0..3 {
        server.post("/v1/check", ALICE).assert_problem(503, None);
    }
    // As the log says.
    assert_eq!(server.admin_post("/v1/reset", ALICE).status, 200);
    assert_eq!(server.post("/v1/check", ALICE).json()["used"], 1);
    server.signal("TERM");
    let (_, log) = server.wait();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("a counter was overwritten")).collect();
    assert_eq!(lines.len(), 1, "once a gap: {log}");
    let named = keys[0].strip_prefix("tollgate:1:").expect("our own layout").replace("%40", "@");
    assert!(lines[0].contains(named.as_str()) && lines[0].contains("/v1/reset"), "{named}: {log}");
    assert!(!lines[0].contains("alice"), "{log}");
}
