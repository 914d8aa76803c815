//! `tollgate doctor --fleet` and the generation of limits, with several services.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::certificates::{Authority, Identity};
use crate::support::folder::Folder;
use crate::support::{Server, tollgate, until};

const LOGIN: &str = "  - { name: login, match: { path: /login }, key: [ip], quotas: [5/1m] }\n";
const ALL: &str = "  - { name: all, key: global, quotas: [1000/1s] }\n";

/// Starts a service with policies in these files.
fn by_files(folder: &Folder, files: &[(&str, &str)]) -> Server {
    for (name, policies) in files {
        folder.write(name, &format!("policies:\n{policies}"));
    }
    Server::start(&["--config", folder.root().to_str().expect("text")])
}

/// Returns the exit status, the answer and the complaints.
fn doctor(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut doctor = tollgate();
    // As in a pod of the service.
    doctor.env("TOLLGATE_STORE", "redis://127.0.0.1:1");
    let output = doctor.arg("doctor").args(arguments).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn generation(server: &Server) -> String {
    let ready = String::from_utf8(server.get("/readyz").body).expect("text");
    let generation = ready.lines().find_map(|line| line.strip_prefix("generation "));
    generation.unwrap_or_else(|| panic!("{ready}")).to_owned()
}

#[test]
fn services_with_the_same_policies_have_one_generation_and_say_it_everywhere() {
    let folders = [Folder::new(), Folder::new(), Folder::new()];
    let one = by_files(&folders[0], &[("a.yaml", &format!("{LOGIN}{ALL}"))]);
    let two = by_files(&folders[1], &[("x.yaml", ALL), ("y.yaml", LOGIN)]);
    let other = by_files(&folders[2], &[("a.yaml", &format!("{LOGIN}{}", ALL.replace("1000", "999")))]);
    let expected = generation(&one);
    assert_eq!(generation(&two), expected);
    assert_ne!(generation(&other), expected);

    assert_eq!(two.admin_get("/v1/policies").json()["generation"], json!(expected));
    assert_eq!(two.metric(&format!("tollgate_generation_info{{generation=\"{expected}\"}}")), Some(1.0));
    let checked =
        tollgate().arg("check-config").arg(folders[1].root()).arg("--json").output().expect("it runs");
    let checked: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    assert_eq!(checked["generation"], json!(expected));
    two.signal("TERM");
    let (_, log) = two.wait();
    assert!(log.contains(&format!(" generation={expected}\n")), "{log}");
}

/// Both have a version that counts their own reloads, which said nothing about the other.
#[test]
fn the_doctor_says_which_replicas_differ_and_waits_until_they_do_not() {
    let folders = [Folder::new(), Folder::new()];
    let one = by_files(&folders[0], &[("a.yaml", &format!("{LOGIN}{ALL}"))]);
    let behind = by_files(&folders[1], &[("a.yaml", LOGIN)]);
    let [first, second] = [&one, &behind].map(|server| server.public.to_string());
    let [new, old] = [&one, &behind].map(generation);

    let (status, said, _) = doctor(&["--fleet", &first, &second]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((status, lines.len()), (Some(1), 3), "{said}");
    assert!(
        lines[0].starts_with("ready ") && lines[0].contains(&first) && lines[0].ends_with(&new),
        "{said}"
    );
    assert!(
        lines[1].starts_with("ready ") && lines[1].contains(&second) && lines[1].ends_with(&old),
        "{said}"
    );
    assert!(
        lines[2].starts_with("not in step: ") && lines[2].contains(&new) && lines[2].contains(&old),
        "{said}"
    );
    let (status, said, _) = doctor(&["--fleet", &first, &second, "--wait", "1s", "--json"]);
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((status, &said["in_step"], said.get("generation")), (Some(1), &json!(false), None), "{said}");
    assert_eq!(
        said["replicas"],
        json!([
            { "address": first, "ready": true, "generation": new },
            { "address": second, "ready": true, "generation": old },
        ])
    );

    // Nobody has taken up the change yet, so all agree on the old one, which is not the one that is waited for.
    let (status, said, _) = doctor(&["--fleet", &second, &second, "--wait", "1m"]);
    assert_eq!((status, said.contains("in step: only 1 replica, ")), (Some(0), true), "{said}");
    let (status, said, _) = doctor(&["--fleet", &second, "--generation", &new, "--wait", "1s"]);
    assert_eq!((status, said.contains(&format!("generation {new} is expected"))), (Some(1), true), "{said}");

    // Each address counts once.
    let (status, said, _) = doctor(&["--fleet", &second, &second, "--replicas", "2"]);
    assert_eq!((status, said.ends_with(", 2 replicas expected\n")), (Some(3), true), "{said}");

    let waiting = std::thread::spawn({
        let (first, second, new) = (first.clone(), second.clone(), new.clone());
        move || doctor(&["--fleet", &first, &second, "--generation", &new, "--wait", "1m"])
    });
    folders[1].write("b.yaml", &format!("policies:\n{ALL}"));
    let (status, said, _) = waiting.join().expect("it ends");
    assert_eq!(
        (status, said.lines().last()),
        (Some(0), Some(&*format!("in step: 2 replicas of generation {new}")))
    );
    assert_eq!(behind.admin_get("/v1/policies").json()["version"], json!(2));
    // The log names it as well.
    behind.signal("TERM");
    let (_, log) = behind.wait();
    assert!(log.contains(&format!("version=2 generation={new} changes=")), "{log}");
}

#[test]
fn a_replica_that_is_down_or_silent_is_named_and_the_doctor_ends() {
    let server = Server::start(&["--limit", "5/1d"]);
    let address = server.public.to_string();
    // It accepts connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent_address = silent.local_addr().expect("an address").to_string();
    let down = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let down = down.expect("an address").to_string();

    // A silent one has all the time of `--wait`, not the five seconds that it has otherwise.
    let began = Instant::now();
    let (status, said, _) = doctor(&["--fleet", &address, &silent_address, "--wait", "1s"]);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert_eq!((status, said.contains(&format!("ready      {address}"))), (Some(3), true), "{said}");
    let began = Instant::now();
    let (status, said, _) = doctor(&["--fleet", &address, &down, "--wait", "2s"]);
    assert!((1..6).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert_eq!((status, said.contains(&format!("no answer  {down}"))), (Some(3), true), "{said}");

    let began = Instant::now();
    let (status, said, _) = doctor(&["--fleet", &address, &down, &silent_address, "nobody.invalid:80"]);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert_eq!(status, Some(3), "{said}");
    for named in [&down, &silent_address, "nobody.invalid:80"] {
        let line = said.lines().find(|line| line.contains(named));
        assert!(line.is_some_and(|line| line.starts_with("no answer  ")), "{named}: {said}");
    }
    assert!(
        said.ends_with(&format!("1 replica of generation {}, 3 without an answer\n", generation(&server))),
        "{said}"
    );

    let (status, _, complaint) = doctor(&["--fleet", &address, "--ca", "/nowhere"]);
    assert_eq!((status, complaint.contains("--ca")), (Some(2), true), "{complaint}");
    let (status, _, complaint) = doctor(&["--fleet", &address, "--store", "redis://127.0.0.1:1"]);
    assert_eq!((status, complaint.contains("--fleet")), (Some(2), true), "{complaint}");
    for wrong in [
        &["--fleet"][..],
        &["--fleet", "nothing"],
        &["--fleet", &address, "--wait", "0s"],
        &["--fleet", &address, "--generation", "1"],
        // What jq prints of a file that is not valid.
        &["--fleet", &address, "--generation", "null"],
        &["--fleet", &address, "--replicas", "0"],
    ] {
        assert_eq!(doctor(wrong).0, Some(2), "{wrong:?}");
    }
}

/// It is ready, and so was every other replica of a fleet that had refused a file.
#[test]
fn a_replica_that_refused_its_file_is_not_in_step() {
    let folder = Folder::new();
    let server = by_files(&folder, &[("a.yaml", LOGIN)]);
    let address = server.public.to_string();
    assert_eq!(doctor(&["--fleet", &address]).0, Some(0));
    folder.write("a.yaml", "policies: [{ name: broken }]");
    until("it has seen the file", || doctor(&["--fleet", &address]).0 == Some(1));
    let (_, said, _) = doctor(&["--fleet", &address]);
    let line =
        format!("behind     {address}  {}  the policy file cannot be used: version 1", generation(&server));
    assert!(said.starts_with(&line) && said.ends_with(", 1 behind\n"), "{said}");
}

#[test]
fn a_replica_that_is_not_ready_still_has_a_generation() {
    let server = Server::start(&["--limit", "5/1d", "--drain-delay", "60s"]);
    let (address, generation) = (server.public.to_string(), generation(&server));
    server.signal("TERM");
    until("it drains", || server.get("/readyz").status == 503);
    assert_eq!(server.get("/readyz").json()["generation"], json!(generation));
    let (status, said, _) = doctor(&["--fleet", &address]);
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.starts_with(&format!("not ready  {address}  {generation}  the service is about to stop\n")),
        "{said}"
    );
}

/// All addresses of a name are asked, also on the admin listener, which does not answer under every name.
#[test]
fn a_name_stands_for_all_its_addresses() {
    let server = Server::start(&["--limit", "5/1d"]);
    for address in [server.public, server.admin] {
        let name = format!("localhost:{}", address.port());
        let (_, said, _) = doctor(&["--fleet", &name, "--json"]);
        let said: Value = serde_json::from_str(&said).expect("JSON");
        let replicas = said["replicas"].as_array().expect("a list");
        let found = replicas.iter().find(|replica| replica["address"] == json!(address.to_string()));
        let found = found.unwrap_or_else(|| panic!("{said}"));
        assert_eq!((&found["ready"], &found["name"]), (&json!(true), &json!(name)));
    }
}

#[test]
fn replicas_with_tls_are_asked_with_certificates() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "authority");
    let text = |path: std::path::PathBuf| path.to_str().expect("text").to_owned();
    let Identity { certificate, key } = authority.server(folder.path(), "server");
    let (certificate, key, ca) = (text(certificate), text(key), text(authority.file.clone()));
    let server = Server::start(&[
        "--limit",
        "5/1d",
        "--tls-cert",
        &certificate,
        "--tls-key",
        &key,
        "--tls-client-ca",
        &ca,
    ]);
    let url = format!("https://localhost:{}", server.public.port());
    let (status, said, _) = doctor(&["--fleet", &url]);
    assert_eq!((status, said.contains("untrusted authority")), (Some(3), true), "{said}");
    let Identity { certificate, key } = authority.issue(folder.path(), "client", |_| ());
    let (certificate, key) = (text(certificate), text(key));
    let own = ["--ca", &ca, "--client-cert", &certificate, "--client-key", &key];
    let (_, said, _) = doctor(&[&["--fleet", &url][..], &own].concat());
    assert!(said.contains(&format!("ready      127.0.0.1:{}", server.public.port())), "{said}");

    // Certificates are for the addresses that have TLS.
    let plain_server = Server::start(&["--limit", "5/1d"]);
    let plain = plain_server.public.to_string();
    let (status, said, _) = doctor(&[&["--fleet", &url, &plain][..], &own].concat());
    assert!(said.contains(&format!("ready      127.0.0.1:{}", server.public.port())), "{status:?} {said}");
    assert!(said.contains(&format!("ready      {plain}")), "{status:?} {said}");
    let mut with_variables = tollgate();
    with_variables.env("TOLLGATE_CA", "/nowhere").env("TOLLGATE_CLIENT_CERT", "/nowhere");
    with_variables.env("TOLLGATE_CLIENT_KEY", "/nowhere").args(["doctor", "--fleet", &plain]);
    let output = with_variables.output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn domains_have_a_generation_too() {
    let (one, two) = (Folder::new(), Folder::new());
    let domain = |name: &str, limit: u32| {
        format!(
            "domain: {name}\ndescriptors: [{{ key: user, rate_limit: {{ unit: day, requests_per_unit: {limit} }} }}]\n"
        )
    };
    one.write("a.yaml", &domain("a", 1));
    one.write("b.yaml", &domain("b", 2));
    two.write("x.yaml", &domain("b", 2));
    two.write("y.yaml", &domain("a", 1));
    let start = |folder: &Folder| {
        Server::start(&["--import", "envoy-ratelimit", folder.root().to_str().expect("text")])
    };
    let servers = [start(&one), start(&two)];
    let [first, second] = servers.each_ref().map(|server| server.public.to_string());
    let (status, said, _) = doctor(&["--fleet", &first, &second]);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(servers[0].admin_get("/v1/policies").json()["generation"], json!(generation(&servers[0])));
    let metric = format!("tollgate_generation_info{{generation=\"{}\"}}", generation(&servers[0]));
    assert_eq!(servers[0].metric(&metric), Some(1.0));
    // Settings decide as well.
    for flags in [&["--count-denied"][..], &["--on-store-failure", "open"]] {
        let import = ["--import", "envoy-ratelimit", two.root().to_str().expect("text")];
        let other = Server::start(&[&import, flags].concat());
        let (status, said, _) = doctor(&["--fleet", &first, &other.public.to_string()]);
        assert_eq!(status, Some(1), "{flags:?}: {said}");
    }
    two.write("y.yaml", &domain("a", 3));
    until("they differ", || doctor(&["--fleet", &first, &second]).0 == Some(1));
}

#[test]
fn the_manual_shows_the_generation_of_its_example() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let checked =
        tollgate().args(["check-config", "examples/shop.yaml"]).current_dir(root).output().expect("it runs");
    let said = String::from_utf8(checked.stdout).expect("text");
    let (_, generation) = said.trim_end().rsplit_once(' ').expect("words");
    let page = include_str!("../../../../docs/reload-and-stop.md");
    let (_, section) = page.split_once("## A fleet in step").expect("the section");
    assert_eq!((page.matches(&said).count(), section.matches(generation).count()), (2, 3), "{said}");
}
