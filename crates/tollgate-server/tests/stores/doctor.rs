//! Findings and exit statuses of `tollgate doctor` on real servers.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::Value;
use tollgate_testkit::servers::{
    ByteDirection, ClientCertificates, Cluster, FaultProxy, Persistence, Sentinels, Server, Settings,
    Software,
};

use crate::support::{HANG, tollgate};

/// Long enough that a busy machine does not look like a slow store.
const PATIENT: [&str; 4] = ["--store-timeout", "5s", "--store-connect-timeout", "5s"];

/// Returns the exit status, and every check with its level.
fn doctor(arguments: &[&str]) -> (Option<i32>, Vec<(String, String, String)>) {
    doctor_with(&[], &[arguments, &PATIENT].concat())
}

fn doctor_with(
    variables: &[(&str, &str)],
    arguments: &[&str],
) -> (Option<i32>, Vec<(String, String, String)>) {
    let began = Instant::now();
    let mut command = tollgate();
    let output = command.envs(variables.iter().copied()).args(["doctor", "--json"]).args(arguments);
    let output = output.output().expect("it runs");
    // It takes ten seconds at most, but the machine may be slow.
    assert!(began.elapsed() < HANG, "{:?}", began.elapsed());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no report: {error}"));
    let text = |check: &Value, field: &str| check[field].as_str().expect("a text").to_owned();
    let checks = report["checks"].as_array().expect("a list").iter();
    let checks = checks.map(|check| {
        assert_eq!(check["level"] == "pass", check.get("advice").is_none(), "what to do: {check}");
        assert_eq!(check.get("advice").is_none(), check.get("help").is_none(), "{check}");
        let heading = format!("\n### {}\n", text(check, "code"));
        assert!(MANUAL.contains(&heading), "docs/warnings.md lacks {heading}");
        (text(check, "code"), text(check, "level"), text(check, "found"))
    });
    (output.status.code(), checks.collect())
}

fn url(server: &Server) -> String {
    format!("redis://{}", server.address())
}

#[track_caller]
fn level<'a>(checks: &'a [(String, String, String)], code: &str) -> (&'a str, &'a str) {
    let check = checks.iter().find(|(other, ..)| other == code);
    let (_, level, found) = check.unwrap_or_else(|| panic!("no {code} in {checks:?}"));
    (level, found)
}

const MANUAL: &str = include_str!("../../../../docs/warnings.md");

const CODES: [&str; 9] =
    ["connect", "version", "eviction", "persistence", "clock", "round-trip", "rights", "expiry", "exact"];

#[test]
fn a_healthy_store_passes_every_check() {
    for software in [Software::Redis, Software::Valkey] {
        let server = Settings::new(software).persistence(Persistence::EveryWrite).start();
        let (status, checks) = doctor(&["--store", &url(&server)]);
        assert_eq!(status, Some(0), "{checks:?}");
        assert_eq!(checks.iter().map(|(code, ..)| code.as_str()).collect::<Vec<_>>(), CODES);
        assert!(checks.iter().all(|(_, level, _)| level == "pass"), "{checks:?}");
        assert!(level(&checks, "exact").1.contains("limit of 600, 600 passed"));
        assert_eq!(server.command::<u64>(["DBSIZE"]), 0, "it leaves nothing");
    }
}

#[test]
fn prints_a_report_for_people() {
    let server = Server::start(Software::Redis);
    let output =
        tollgate().args(["doctor", "--store", &url(&server)]).args(PATIENT).output().expect("it runs");
    let said = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("warn  persistence"), "{said}");
    assert!(said.lines().any(|line| line.trim_start().starts_with("set appendonly yes")), "{said}");
    assert!(said.ends_with("8 passed, 1 warned, 0 failed\n"), "{said}");
}

#[test]
fn a_store_that_forgets_counters_fails() {
    let forgetful = Settings::new(Software::Redis).config("maxmemory", "50mb");
    let server = forgetful.config("maxmemory-policy", "allkeys-lru").start();
    let (status, checks) = doctor(&["--store", &url(&server)]);
    let (level, found) = level(&checks, "eviction");
    assert_eq!((status, level), (Some(1), "fail"), "{checks:?}");
    assert!(found.contains("allkeys-lru at 52428800 bytes"), "{found}");
}

/// The doctor overlooked a command that the server's configuration renamed, or advised to allow it to the user.
#[test]
fn advises_to_restore_a_missing_command() {
    let server = Settings::new(Software::Redis)
        .config("rename-command", "EVALSHA \"\"")
        .config("rename-command", "TIME \"\"")
        .config("rename-command", "GET \"\"")
        .start();
    let output =
        tollgate().args(["doctor", "--store", &url(&server)]).args(PATIENT).output().expect("it runs");
    let said = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("it has no EVALSHA, TIME, GET"), "{said}");
    assert_eq!(said.matches("restore the names of these commands").count(), 2, "{said}");
    assert!(!said.contains("+time"), "{said}");
}

#[test]
fn a_store_that_is_full_fails() {
    let server = Settings::new(Software::Redis).config("maxmemory", "1").start();
    let (status, checks) = doctor(&["--store", &url(&server)]);
    let (level, found) = level(&checks, "eviction");
    assert_eq!((status, level), (Some(1), "fail"), "{checks:?}");
    assert!(found.contains("it is full"), "{found}");
}

/// Operators see which keys are wrong, and not whose counters they are.
#[test]
fn checks_the_keys_of_the_layout_and_names_nobody() {
    let server = Server::start(Software::Redis);
    server.command::<()>(["SET", "rlaas:rate_limit:alice:28333335", "3"]);
    server.command::<()>(["SET", "elsewhere:bob", "3"]);
    let (_, checks) = doctor(&["--store", &url(&server), "--store-layout", "rlaas"]);
    let found = level(&checks, "expiry").1;
    assert!(found.contains("1 of 1 keys under rlaas:rate_limit:* never expire"), "{found}");
    assert!(found.contains("rlaas:rate_limit:{...}"), "{found}");
    assert!(!checks.iter().any(|(.., found)| found.contains("alice")), "{checks:?}");
    assert!(level(&checks, "exact").1.contains("limit of 600, 600 passed"), "{checks:?}");
}

/// Tries one setting after another on one server.
#[test]
fn checks_every_relevant_setting() {
    let server = Settings::new(Software::Valkey).config("maxmemory-policy", "allkeys-lru").start();
    let url = url(&server);
    let patient = ["--store", &url];
    let (status, checks) = doctor(&patient);
    assert_eq!(status, Some(0), "{checks:?}");
    assert_eq!(level(&checks, "eviction").0, "warn", "{checks:?}");
    assert!(level(&checks, "eviction").1.contains("allkeys-lru, and no memory limit yet"), "{checks:?}");
    assert_eq!(level(&checks, "persistence").0, "warn", "{checks:?}");

    let _: () = server.command(["CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "200mb"]);
    let _: () = server.command(["ACL", "SETUSER", "default", "-info", "-scan"]);
    let (status, checks) = doctor(&patient);
    assert_eq!(status, Some(0), "{checks:?}");
    assert_eq!((level(&checks, "version").0, level(&checks, "expiry").0), ("warn", "warn"), "{checks:?}");
    assert_eq!(level(&checks, "exact").0, "pass", "{checks:?}");

    let _: () = server.command(["ACL", "SETUSER", "default", "+info", "-time"]);
    let (_, folder): (String, String) = server.command(["CONFIG", "GET", "dir"]);
    std::fs::remove_dir_all(folder).expect("a folder of its own");
    let _: String = server.command(["BGSAVE"]);
    while server.info("rdb_last_bgsave_status") != "err" {
        std::thread::sleep(Duration::from_millis(10));
    }
    let (status, checks) = doctor(&patient);
    assert_eq!(status, Some(1), "{checks:?}");
    assert_eq!(level(&checks, "eviction").0, "pass", "{checks:?}");
    for code in ["persistence", "clock", "rights", "exact"] {
        assert_eq!(level(&checks, code).0, "fail", "{code}: {checks:?}");
    }
    assert!(level(&checks, "persistence").1.contains("it failed to save"), "{checks:?}");
    assert!(level(&checks, "rights").1.contains("may not TIME"), "{checks:?}");
}

/// The store has none of these counters.
#[test]
fn the_advice_names_the_flags_of_the_service() {
    let server = Settings::new(Software::Redis).password("sesame").start();
    let url = format!("redis://:wrong@{}", server.address());
    for form in [&[][..], &["--json"]] {
        let mut command = tollgate();
        let output = command.args(["doctor", "--store", &url]).args(PATIENT).args(form).output();
        let said = String::from_utf8(output.expect("it runs").stdout).expect("text");
        let flags = "in a separate setting (--store-password-file, TOLLGATE_STORE_PASSWORD)";
        assert!(said.contains(flags), "{said}");
    }
}

/// No package of such a server can be installed any more, but its answer to `HELLO` is known.
#[test]
fn fails_for_a_server_that_is_too_old() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("redis://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let fields = ["server", "redis", "version", "6.2.14", "mode", "standalone", "role", "master"];
            let texts = fields.map(|text| format!("${}\r\n{text}\r\n", text.len()));
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(format!("*8\r\n{}", texts.concat()).as_bytes());
        }
    });
    let (status, checks) = doctor(&["--store", &url]);
    let (level, found) = level(&checks, "connect");
    assert_eq!((status, level), (Some(1), "fail"), "{checks:?}");
    assert!(found.contains("Redis 6.2 is too old: use Redis 7.0 or Valkey 7.2, or newer"), "{found}");
}

#[test]
fn a_counter_without_expiry_fails_and_a_foreign_key_does_not() {
    let server = Server::start(Software::Redis);
    let _: () = server.command(["SET", "others", "1"]);
    let _: () = server.command(["SET", "tollgate:1:default:1m:{somebody}", "1"]);
    let (status, checks) = doctor(&["--store", &url(&server)]);
    let (level_, found) = level(&checks, "expiry");
    assert_eq!((status, level_), (Some(1), "fail"), "{checks:?}");
    assert!(found.contains("1 of 1 keys under tollgate:1:*"), "{found}");
    let (status, checks) = doctor(&["--store", &url(&server), "--store-prefix", "other"]);
    assert_eq!((status, level(&checks, "expiry").0), (Some(0), "pass"), "{checks:?}");
}

#[test]
fn a_clock_that_is_off_is_a_warning() {
    let server = Settings::new(Software::Redis).steered_clock().start();
    // Far above the threshold, because a slow machine changes the measured time.
    server.clock().step(-65_000);
    let (status, checks) = doctor(&["--store", &url(&server)]);
    let (level, found) = level(&checks, "clock");
    assert_eq!((status, level), (Some(0), "warn"), "{checks:?}");
    assert!(found.contains(": it is 6") && found.contains("ms behind this machine"), "{found}");
}

#[test]
fn a_user_without_the_rights_fails_with_what_is_missing() {
    let rights =
        "~tollgate:* +@connection +info +acl|whoami +acl|dryrun +script|load +evalsha +time +get +mget +scan";
    let server = Settings::new(Software::Redis).user("limiter", "sesame", rights).start();
    let url = format!("redis://limiter:sesame@{}", server.address());
    let (status, checks) = doctor(&["--store", &url]);
    let (level_, found) = level(&checks, "rights");
    assert_eq!((status, level_), (Some(1), "fail"), "{checks:?}");
    assert!(found.contains("SET, INCRBY, PEXPIRETIME, PTTL, DEL"), "{found}");
    assert_eq!(level(&checks, "exact").0, "fail", "{checks:?}");
}

/// Overrides never expire, and were reported as counters that another program had persisted.
#[test]
fn a_store_with_overrides_passes_every_check() {
    let server = Settings::new(Software::Redis).persistence(Persistence::EveryWrite).start();
    for key in ["head", "records", "ends", "log"] {
        server.command::<()>(["SET", &format!("tollgate:1::~overrides.{key}:{{~overrides}}"), "1"]);
    }
    let (status, checks) = doctor(&["--store", &url(&server)]);
    assert_eq!((status, level(&checks, "expiry").0), (Some(0), "pass"), "{checks:?}");
    server.command::<()>(["SET", "tollgate:1::~overrides.other:{~overrides}", "1"]);
    assert_eq!(level(&doctor(&["--store", &url(&server)]).1, "expiry").0, "fail");
}

#[test]
fn a_user_without_the_rights_for_overrides_is_warned_and_counts() {
    const COUNTING: &str = "~tollgate:* +evalsha +script|load +time +get +mget +set +incrby +pexpiretime +pttl +del +pexpireat +zadd +zcard +zcount +zmscore +zpopmin +zrange +zrem +ping +hello +info +scan +acl|whoami +acl|dryrun";
    let server = Settings::new(Software::Redis).user("limiter", "sesame", COUNTING).start();
    let url = format!("redis://limiter:sesame@{}", server.address());
    let (status, checks) = doctor(&["--store", &url]);
    let (found, exact) = (level(&checks, "rights"), level(&checks, "exact"));
    assert_eq!((status, found.0, exact.0), (Some(0), "warn", "pass"), "{checks:?}");
    let lacking = "it may not HGET, HSET, HDEL, HLEN, HSCAN under tollgate:1::~overrides.*";
    assert!(found.1.ends_with(lacking), "{checks:?}");
    let output = tollgate().args(["doctor", "--store", &url]).args(PATIENT).output().expect("it runs");
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(said.contains("--max-overrides 0"), "{said}");
    let advice = said.lines().find(|line| line.contains("ACL SETUSER")).expect(&said);
    let granted = advice.split(" limiter ").nth(1).and_then(|rights| rights.split(';').next()).expect(&said);
    server.command::<()>(["ACL", "SETUSER", "limiter"].into_iter().chain(granted.split_whitespace()));
    let (_, checks) = doctor(&["--store", &url]);
    assert_eq!(level(&checks, "rights").0, "pass", "{checks:?}");
}

/// For a user without GET, the doctor reported a foreign value that did not exist.
#[test]
fn names_the_command_that_a_user_lacks() {
    const RIGHTS: &str = "+evalsha +script|load +time +get +mget +set +incrby +pexpiretime +pttl +del +pexpireat +zadd +zcard +zcount +zmscore +zpopmin +zrange +zrem +ping +hello +info +scan";
    for (software, missing, check) in [
        (Software::Redis, "+time", "clock"),
        (Software::Redis, "+get", "rights"),
        (Software::Valkey, "+get", "rights"),
    ] {
        for asking in ["", " +acl|whoami +acl|dryrun", " +acl|whoami"] {
            let rights = format!("~tollgate:* {}{asking}", RIGHTS.replace(&format!("{missing} "), ""));
            let server = Settings::new(software).user("limiter", "sesame", &rights).start();
            let url = format!("redis://limiter:sesame@{}", server.address());
            let output =
                tollgate().args(["doctor", "--store", &url]).args(PATIENT).output().expect("it runs");
            let said = String::from_utf8(output.stdout).expect("text");
            assert_eq!(output.status.code(), Some(1), "{said}");
            let mut lines = said.lines().skip_while(|line| !line.starts_with(&format!("fail  {check}")));
            let (found, advice) = (lines.next().expect(&said), lines.next().expect(&said));
            let command = missing.trim_start_matches('+');
            assert!(found.to_lowercase().contains(command) && advice.contains(missing), "{said}");
            assert!(!said.contains("is no count"), "{said}");
        }
    }
}

/// The user may not ask for its own rights, and the error of the script does not name the missing one.
#[test]
fn reports_unknown_rights_if_counting_fails() {
    let rights = "~tollgate:* +evalsha +script|load +ping +hello +info +time +get";
    let server = Settings::new(Software::Redis).user("limiter", "sesame", rights).start();
    let url = format!("redis://limiter:sesame@{}", server.address());
    let output = tollgate().args(["doctor", "--store", &url]).args(PATIENT).output().expect("a doctor");
    let text = String::from_utf8(output.stdout).expect("text");
    let exact = text.split("fail  exact").last().expect("a last check");
    assert!(exact.contains("+pexpiretime") && exact.contains("+acl|dryrun"), "{text}");
}

/// The rights in the advice are enough.
#[test]
fn a_user_with_the_rights_that_it_advises_passes() {
    let rights = "~tollgate:* +evalsha +script|load +time +get +mget +set +incrby +pexpiretime +pttl +del +pexpireat +zadd +zcard +zcount +zmscore +zpopmin +zrange +zrem +ping +hello +info";
    let server = Settings::new(Software::Redis).user("limiter", "sesame", rights).start();
    let url = format!("redis://limiter:sesame@{}", server.address());
    let (status, checks) = doctor(&["--store", &url]);
    assert_eq!((status, level(&checks, "exact").0), (Some(0), "pass"), "{checks:?}");
}

#[test]
fn fails_in_time_if_the_store_is_down_hangs_or_refuses_the_password() {
    let server = Settings::new(Software::Redis).password("sesame").start();
    let away = "redis://127.0.0.1:1";
    let wrong = format!("redis://:wrong-sesame@{}", server.address());
    for url in [away, &wrong] {
        let (status, checks) = doctor(&["--store", url]);
        assert_eq!((status, level(&checks, "connect").0), (Some(1), "fail"), "{checks:?}");
        assert_eq!(checks.len(), 1, "{checks:?}");
        assert!(!format!("{checks:?}").contains("sesame"), "{checks:?}");
    }
    server.pause();
    let (status, checks) = doctor(&["--store", &format!("redis://:sesame@{}", server.address())]);
    assert_eq!((status, level(&checks, "connect").0), (Some(1), "fail"), "{checks:?}");
    server.resume();
}

/// Each of many keys needs a round trip. On a distant store they took far too long, and no time was left for the
/// charges.
#[test]
fn examines_a_distant_store_in_time() {
    let server = Server::start(Software::Redis);
    for key in 0..300 {
        let key = format!("tollgate:1:default:1m:{{{key}}}");
        let _: () = server.command(["SET", &key, "1", "PX", "600000"]);
    }
    let proxy = FaultProxy::before(server.address());
    proxy.delay(ByteDirection::Reply, Duration::from_millis(40));
    let url = format!("redis://{}", proxy.address());
    let flags = ["--store", &url, "--store-connect-timeout", "5s", "--store-timeout", "20ms"];
    let (_, checks) = doctor_with(&[], &flags);
    assert_eq!(level(&checks, "round-trip").0, "fail", "{checks:?}");
    assert!(level(&checks, "expiry").1.contains("no time to check them all"), "{checks:?}");
    assert_eq!(level(&checks, "exact").0, "pass", "{checks:?}");
}

#[test]
fn connects_over_tls_with_an_authority_and_a_client_certificate() {
    let server = Settings::new(Software::Redis).tls(ClientCertificates::Required).start();
    let certificates = server.certificates();
    let url = format!("rediss://{}", server.tls_address());
    let path = |path: &std::path::Path| path.to_str().expect("a path in UTF-8").to_owned();
    let (authority, ours) = (path(&certificates.authority), &certificates.client);
    let (certificate, key) = (path(&ours.certificate), path(&ours.key));
    let with_certificate = ["--store", &url, "--store-ca", &authority, "--store-cert", &certificate];
    let (status, checks) = doctor(&[&with_certificate, &["--store-key", &key][..]].concat());
    assert_eq!(status, Some(0), "{checks:?}");
    let (status, checks) = doctor(&["--store", &url, "--store-ca", &authority]);
    assert_eq!((status, level(&checks, "connect").0), (Some(1), "fail"), "{checks:?}");
}

#[test]
fn examines_every_server_of_a_cluster_and_fails_for_unserved_slots() {
    let cluster = Cluster::start(Software::Redis);
    let seeds: Vec<String> = cluster.nodes().iter().map(|node| node.address().to_string()).collect();
    let url = format!("redis+cluster://{}", seeds.join(","));
    let (status, checks) = doctor(&["--store", &url]);
    assert_eq!(status, Some(0), "{checks:?}");
    let served = checks.iter().filter(|(code, level, _)| code == "cluster" && level == "pass").count();
    assert_eq!(served, 3, "{checks:?}");
    assert_eq!(level(&checks, "exact").0, "pass", "{checks:?}");

    for node in cluster.nodes() {
        let _: () = node.command(["ACL", "SETUSER", "default", "-cluster|info"]);
    }
    let (status, checks) = doctor(&["--store", &url]);
    assert_eq!((status, level(&checks, "cluster").0), (Some(0), "warn"), "{checks:?}");

    for node in cluster.nodes() {
        let _: () = node.command(["ACL", "SETUSER", "default", "+cluster|info", "-asking"]);
    }
    let primary = cluster.primary_of(0);
    let _: () = primary.command(["CLUSTER", "DELSLOTS", "0"]);
    let (status, checks) = doctor(&["--store", &url]);
    assert_eq!(status, Some(1), "{checks:?}");
    let (_, _, found) =
        checks.iter().find(|(code, level, _)| code == "cluster" && level == "fail").expect("a failed check");
    assert!(found.contains("16383 of 16384"), "{found}");
    // Without it, the server that takes over a slot cannot be found.
    let (level, found) = level(&checks, "rights");
    assert!(level == "fail" && found.contains("may not ASKING"), "{checks:?}");
}

#[test]
fn sentinels_lead_it_to_the_primary() {
    let sentinels = Sentinels::start(Software::Redis);
    let addresses: Vec<String> =
        sentinels.sentinels().iter().map(|sentinel| sentinel.address().to_string()).collect();
    let url = format!("redis+sentinel://{}/{}", addresses.join(","), Sentinels::NAME);
    let (status, checks) = doctor(&["--store", &url]);
    assert_eq!(status, Some(0), "{checks:?}");
    assert!(level(&checks, "connect").1.contains(&sentinels.primary().address().to_string()), "{checks:?}");

    let (status, checks) = doctor(&["--store", &url.replace(Sentinels::NAME, "other")]);
    let (level_, found) = level(&checks, "connect");
    assert_eq!((status, level_), (Some(1), "fail"), "{checks:?}");
    assert!(found.contains("no sentinel knows the primary"), "{found}");

    // Sentinels have a login of their own, which may also come from a file or a variable.
    for sentinel in sentinels.sentinels() {
        let _: () = sentinel.command(["ACL", "SETUSER", "default", "resetpass", ">sesame"]);
    }
    let (status, checks) =
        doctor_with(&[("TOLLGATE_STORE_PASSWORD", "sesame")], &[&["--store", &url], &PATIENT[..]].concat());
    let (level_, found) = level(&checks, "connect");
    assert_eq!((status, level_), (Some(1), "fail"), "{checks:?}");
    let is_named = |address: &String| {
        found.contains(&format!("asking the sentinel {address}: the server requires a password"))
    };
    assert!(addresses.iter().any(is_named), "{found}");
    let file = std::env::temp_dir().join(format!("tollgate-sentinel-{}", std::process::id()));
    std::fs::write(&file, "sesame\n").expect("a file can be written");
    let path = file.to_str().expect("a path in UTF-8");
    let from_file = ["--store-sentinel-user", "default", "--store-sentinel-password-file", path];
    let variable = ("TOLLGATE_STORE_SENTINEL_PASSWORD", "sesame");
    for (variables, more) in [(&[][..], &from_file[..]), (&[variable], &[])] {
        let (status, checks) = doctor_with(variables, &[&["--store", &url], &PATIENT[..], more].concat());
        assert_eq!(status, Some(0), "{checks:?}");
        assert!(!format!("{checks:?}").contains("sesame"), "{checks:?}");
    }
    let _ = std::fs::remove_file(&file);
}

#[test]
fn exits_with_2_for_invalid_flags_and_repeats_no_secret() {
    let fails = |arguments: &[&str]| {
        let output = tollgate().arg("doctor").args(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(fails(&[]).contains("--store <URL>"));
    let error = fails(&["--store", "http://limiter:sesame@127.0.0.1"]);
    assert!(error.contains("`--store`") && !error.contains("sesame"), "{error}");
    let error = fails(&["--store", "redis://127.0.0.1", "--store-password-file", "/nowhere"]);
    assert!(error.contains("`--store-password-file`") && error.contains("/nowhere"), "{error}");
    assert!(error.contains("No such file"), "{error}");
    let error = fails(&["--store", "redis+sentinel://h/p", "--store-sentinel-password-file", "/nowhere"]);
    assert!(error.contains("`--store-sentinel-password-file`") && error.contains("/nowhere"), "{error}");
    let error = fails(&["--store", "redis+sentinel://h/p", "--store-sentinel-user", "watcher"]);
    assert!(error.contains("`--store-sentinel-user` needs a password"), "{error}");
    let error = fails(&["--store", "rediss://127.0.0.1", "--store-ca", "/nowhere"]);
    assert!(error.contains("/nowhere") && error.contains("No such file"), "{error}");
}
