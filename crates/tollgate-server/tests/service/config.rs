//! Output and exit status of `tollgate check-config` and `tollgate explain`.

#![allow(clippy::expect_used, reason = "this is a test")]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Server, tollgate};

const SHOP: &str = "
policies:
  - name: search
    match: { path: /search, method: [GET, POST] }
    key: { first_of: [user, ip] }
    quotas: [10/1s, 10000/day@Europe/Berlin]
    overrides:
      - when: { tier: gold }
        quotas: [100/1s]
        candidate: [50/1s@first_hit]
  - name: clients
    key: [{ address: ip }]
    quotas: [30/1m]
    mode: shadow
  - name: login
    match: { path: /login }
    key: [user]
    quotas: [5/1m]
    cost: { attribute: tokens, max: 3 }
  - name: health
    match: { path: [/healthz, \"/internal/*\"] }
    exempt: true
  - name: old
    key: global
    quotas: [1/1m]
    enabled: false
  - name: writes
    match: { method: { not: GET }, any: [{ path: /api/* }, { path: /upload, plan: [pro, team] }] }
    key: [user]
    quotas: [7/1m]
    overrides:
      - when: { any: [{ plan: pro }, { tier: gold, path: /api/* }] }
        quotas: [70/1m]
      - when: { tier: own }
        quotas: [{ limit: { attribute: quota }, max: 500, window: 1m }]
";

/// Runs the command in the folder of the file. Returns its exit status and output.
fn run(command: &str, file: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let folder = file.parent().expect("it is in a folder");
    let name = file.file_name().expect("it has a name");
    let output =
        tollgate().current_dir(folder).arg(command).arg(name).args(arguments).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let (status, mut said) = (output.status.code(), text(output.stdout));
    // Without this line, which each explanation for people ends with.
    if command == "explain" && status == Some(0) && !arguments.contains(&"--json") {
        let report =
            said.strip_suffix("overrides of a running service are not known: see --store and --state-dir\n");
        said = report.unwrap_or_else(|| panic!("{said}")).to_owned();
    }
    (status, said, text(output.stderr))
}

/// Writes a file in the folder of tests.
fn file(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("it can be written");
    path
}

/// All mistakes of a file are reported at once. Some hid others: a policy with an invalid cost hid its duplicate name,
/// an attribute without a name hid the table, and quotas with one window were reported only for the first of several
/// lists. A tier with an invalid quota was reported as an unknown tier.
#[test]
fn no_mistake_of_a_file_hides_another() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/service/mistakes");
    let (status, said, _) = run("check-config", &folder.join("limits.yaml"), &["--json"]);
    let report: Value = serde_json::from_str(&said).expect("JSON");
    let errors = report["errors"].as_array().expect("a list");
    let mut told: Vec<Value> =
        errors.iter().map(|error| json!([error["file"], error["line"], error["column"]])).collect();
    let mut marked: Vec<Value> = ["limits.yaml", "tenants.csv", "more.csv", "banned.txt"]
        .iter()
        .flat_map(|name| marks(&folder, name))
        .collect();
    told.sort_by_key(Value::to_string);
    marked.sort_by_key(Value::to_string);
    assert_eq!(told, marked, "{said}");
    assert!(marked.len() >= 50 && status == Some(1), "{} mistakes", marked.len());
}

/// Returns the places above a `^` in a comment, and the beginnings of the lines above a `#<`.
fn marks(folder: &Path, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join(name)).expect("it is there");
    let (mut marks, mut above) = (Vec::new(), 0);
    for (line, number) in text.lines().zip(1..) {
        match line.strip_prefix('#') {
            Some("<") => marks.push(json!([name, above, 1])),
            Some(mark) if mark.trim_matches([' ', '^']).is_empty() => {
                marks.extend(line.match_indices('^').map(|(at, _)| json!([name, above, at + 1])));
            }
            _ => above = number,
        }
    }
    marks
}

#[test]
fn all_errors_are_shown_with_their_places() {
    let file = file("errors.yaml", "polices: []\npolicies:\n  - { name: a, key: [user], quotas: [5/1q] }\n");
    let (status, said, _) = run("check-config", &file, &[]);
    assert_eq!(status, Some(1));
    assert_eq!(
        said,
        "errors.yaml:1:1: error: unknown key `polices` in the file: did you mean `policies`?
errors.yaml:3:38: error: quota `5/1q`, column 4: unknown unit: expected ms, s, m, h, d or w (or month or year with a zone)
errors.yaml is not valid: 2 errors
"
    );

    let (status, said, _) = run("check-config", &file, &["--json"]);
    let report: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(
        (status, &report["valid"], &report["errors"][0]),
        (
            Some(1),
            &json!(false),
            &json!({
                "file": "errors.yaml",
                "line": 1,
                "column": 1,
                "message": "unknown key `polices` in the file: did you mean `policies`?"
            })
        )
    );
}

#[test]
fn a_folder_is_checked_and_explained_as_one_file() {
    let folder = file("unused.yaml", "").with_file_name("folder");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("it can be written");
    write("a.yaml", "policies: [{ name: a, key: [user], quotas: [5/1m] }]\n");
    write(
        "b.yml",
        "defaults: { deny_status: 403 }\npolicies:\n  - { name: b, key: [user], quotas: [100/1d] }\n",
    );
    let (status, said, _) = run("check-config", &folder, &[]);
    assert_eq!((status, said.lines().count()), (Some(0), 3), "{said}");
    assert!(said.starts_with("folder/b.yml:3:5: warning: policy `b`: 100/1d has no shorter quota"), "{said}");
    assert!(said.contains("\nfolder is valid: 2 policies, 1 warning, generation "), "{said}");
    let (_, said, _) = run("explain", &folder, &["user=alice"]);
    assert!(said.contains("\nb (folder/b.yml, line 3) counts user=alice\n"), "{said}");

    write("c.yaml", "policies:\n  - { name: a, key: [user], quotas: [5/1m] }\n");
    let (status, said, _) = run("check-config", &folder, &["--json"]);
    let report: Value = serde_json::from_str(&said).expect("JSON");
    let message = "duplicate policy name `a`, already used in line 1 of folder/a.yaml: counters and metrics identify \
                   policies by name";
    let error = json!({ "file": "folder/c.yaml", "line": 2, "column": 5, "message": message });
    assert_eq!((status, &report["errors"]), (Some(1), &json!([error])));
    let (status, said, _) = run("check-config", &folder.join("a.yaml"), &["c.yaml", "b.yml"]);
    assert_eq!(status, Some(1));
    assert!(
        said.starts_with("c.yaml:2:5: error: duplicate policy name `a`, already used in line 1 of a.yaml"),
        "{said}"
    );
}

#[test]
fn a_store_that_cannot_be_is_an_error_and_its_url_is_not_repeated() {
    let file = file("store.yaml", "store: { url: \"http://:sesame@h\" }\npolicies: []\n");
    let (status, said, _) = run("check-config", &file, &[]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.starts_with("store.yaml:1:15: error: the store's URL must begin with redis://"), "{said}");
    assert!(!said.contains("sesame"), "{said}");
}

#[test]
fn a_store_url_whose_variable_is_not_set_is_one_error() {
    let file = file("unset.yaml", "store: { url: \"${TOLLGATE_TEST_UNSET}\" }\npolicies: []\n");
    let (status, said, _) = run("check-config", &file, &[]);
    assert_eq!(status, Some(1));
    assert_eq!(
        said,
        "unset.yaml:1:15: error: the environment variable `TOLLGATE_TEST_UNSET` is not set (write `$${` for a literal `${`)
unset.yaml is not valid: 1 error
"
    );
}

#[test]
fn warnings_have_codes_and_fail_only_where_that_is_asked() {
    let file = file("warnings.yaml", "policies: [{ name: a, key: [user], quotas: [10/1s, 1000/1m] }]");
    let (status, said, _) = run("check-config", &file, &[]);
    assert_eq!(status, Some(0));
    assert_eq!(
        said,
        "warnings.yaml:1:12: warning: policy `a`: 1000/1m can never deny: 10/1s always denies first \
         [quota-never-binds]
help: docs/warnings.md#quota-never-binds
warnings.yaml is valid: 1 policy, 1 warning, generation 01b94233f07b1ec4
"
    );
    let (status, said, _) = run("check-config", &file, &["--deny-warnings", "--json"]);
    let report: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(status, Some(1));
    assert_eq!(
        report,
        json!({
            "file": "warnings.yaml",
            "valid": true,
            "policies": 1,
            "generation": "01b94233f07b1ec4",
            "errors": [],
            "warnings": [{
                "code": "quota-never-binds",
                "file": "warnings.yaml",
                "line": 1,
                "column": 12,
                "policy": "a",
                "message": "1000/1m can never deny: 10/1s always denies first",
                "help": "docs/warnings.md#quota-never-binds"
            }]
        })
    );
}

/// With the layout of envoyproxy/ratelimit, (`x_y`, `z`) and (`x`, `y_z`) shared a counter, and nothing said so.
#[test]
fn values_that_a_key_layout_joins_are_a_warning_if_they_may_contain_its_separator() {
    for (key, is_doubtful, is_with_a_named_value) in [
        ("[user, route]", true, false),
        // A choice has the names of its attributes as well.
        ("[{ first_of: [[user, route], ip] }]", true, true),
        ("[user, ip]", false, false),
        ("[user]", false, false),
        ("global", false, false),
    ] {
        let counting = format!("{{ name: a, key: {key}, quotas: [10/1s] }}");
        let exempt = "{ name: e, match: { path: /e }, exempt: true }";
        let file = file("joined.yaml", &format!("policies: [{counting}, {exempt}]"));
        let warns = |layout: &str| {
            let (_, said, _) = run("check-config", &file, &["--store-layout", layout]);
            assert!(!said.contains("policy `e`"), "{said}");
            said.contains("[joined-values]")
        };
        assert_eq!(warns("{prefix}{*}_{window_start}"), is_doubtful, "{key}");
        assert_eq!(warns("l:{user}:{*}:{window}"), is_with_a_named_value, "{key}");
    }
}

/// The same policy from a file was a warning, and from flags it was none.
#[test]
fn joined_values_are_a_warning_for_policies_from_flags_too() {
    for (key, is_doubtful) in [("user,route", true), ("user", false)] {
        let limit = ["--limit", "5/1m", "--key", key, "--store", "redis://127.0.0.1:1"];
        let layout = ["--store-layout", "{prefix}{*}_{window_start}"];
        let server = Server::start(&[&limit[..], &layout].concat());
        server.signal("TERM");
        let (_, log) = server.wait();
        let warned: Vec<&str> = log.lines().filter(|line| line.contains("[joined-values]")).collect();
        assert_eq!(warned.len(), usize::from(is_doubtful), "{key}: {log}");
        assert!(
            warned.iter().all(|line| line.contains("WARN") && line.contains(" policy `default`: ")),
            "{log}"
        );
    }
}

#[test]
fn a_file_that_is_not_there_is_a_wrong_argument() {
    for command in ["check-config", "explain"] {
        let (status, said, error) = run(command, &file("some.yaml", "").with_file_name("none.yaml"), &[]);
        assert_eq!((status, said.as_str()), (Some(2), ""));
        assert!(error.starts_with("error: cannot read none.yaml: "), "{error}");
    }
}

#[test]
fn the_readings_of_a_path_are_explained() {
    const LIMITS: &str = "
policies:
  - { name: health, match: { path: /healthz }, exempt: true }
  - { name: all, key: [ip], quotas: [5/1m] }
  - { name: api, match: { path: '/api/*' }, key: [ip], quotas: [6/1m] }
  - { name: login, match: { path: /login }, key: [ip], quotas: [7/1m] }
";
    let file = file("limits.yaml", LIMITS);
    let explain = |path: &str, more: &[&str]| {
        let arguments = [&[path, "ip=192.0.2.1", "--at", "2026-11-21T16:00:00Z"], more].concat();
        let (status, said, error) = run("explain", &file, &arguments);
        assert_eq!((status, error.as_str()), (Some(0), ""));
        said
    };
    assert_eq!(
        explain("path=/api/..%2fhealthz", &[]),
        "allowed if all 2 quotas have room (at 2026-11-21T16:00:00Z)
the path is read twice: as it was sent, `/api/..%2fhealthz`, and normalized, `/healthz`
all (line 4) counts ip=192.0.2.1/32
  takes 1 of 5/1m, from 2026-11-21T16:00:00Z to 2026-11-21T16:01:00Z; at most 10 in any minute
api (line 5) counts ip=192.0.2.1/32
  matches only the sent path
  takes 1 of 6/1m, from 2026-11-21T16:00:00Z to 2026-11-21T16:01:00Z; at most 12 in any minute
health (line 3) does not match: path: /healthz does not match `/api/..%2fhealthz`; it matches only the normalized path \
and would have to match both
login (line 6) does not match: path: /login does not match `/healthz`; path: /login does not match `/api/..%2fhealthz`
"
    );
    let said: serde_json::Value =
        serde_json::from_str(&explain("path=/api/../login", &["--json"])).expect("JSON");
    assert_eq!(said["path"], serde_json::json!({ "sent": "/api/../login", "normalized": "/login" }));
    let readings =
        said["policies"].as_array().expect("a list").iter().map(|policy| policy["only_as"].as_str());
    assert_eq!(readings.collect::<Vec<_>>(), [None, None, Some("sent"), Some("normalized")]);
    assert!(!explain("path=/login", &[]).contains("twice"));
}

#[test]
fn overdrafts_are_explained_with_what_they_admit_and_record() {
    let text = "policies:
  - { name: bytes, key: [user], quotas: [300/1d], overdraft: true }
  - { name: requests, match: { path: /both }, key: [user], quotas: [500/1d] }
";
    let file = file("overdraft.yaml", text);
    let explain = |arguments: &[&str]| {
        let at = ["user=alice", "--cost", "400", "--at", "2026-11-21T16:00:00Z"];
        let (status, said, error) = run("explain", &file, &[arguments, &at].concat());
        assert_eq!((status, error.as_str()), (Some(0), ""));
        said
    };
    let said = explain(&[]);
    let window = "from 2026-11-21T00:00:00Z to 2026-11-22T00:00:00Z";
    let expected = format!(
        "allowed if its quota has a unit left (at 2026-11-21T16:00:00Z)
bytes (line 2) counts user=alice
  takes 400 of 300/1d, even if it is denied, {window}
"
    );
    assert!(said.starts_with(&expected), "{said}");
    let said = explain(&["path=/both"]);
    let expected = "allowed if all 2 quotas have room; for an overdraft, one unit is enough (at";
    assert!(said.starts_with(expected) && said.contains(&format!("takes 400 of 500/1d, {window}")), "{said}");
    let said: Value = serde_json::from_str(&explain(&["path=/both", "--json"])).expect("JSON");
    let overdraft = |policy: usize| &said["policies"][policy]["charges"][0]["overdraft"];
    assert_eq!((overdraft(0), overdraft(1)), (&json!(true), &Value::Null));
}

/// Such requests were said to be allowed if their quota has room, which it never has.
#[test]
fn a_cost_that_can_never_pass_is_explained_as_denied() {
    let text = "policies:
  - { name: window, match: { path: /window }, key: [user], quotas: [100/1m] }
  - { name: bucket, match: { path: /bucket }, key: [user], quotas: ['100/1m~burst:20', 1000/1h] }
  - { name: none, match: { path: /none }, key: [user], quotas: [0/1d], overdraft: true }
  - { name: tried, match: { path: /tried }, key: [user], quotas: [1/1m], mode: shadow }
";
    let file = file("never.yaml", text);
    let explain = |path: &str, cost: &str, json: &[&str]| {
        let arguments =
            [&["user=alice", path, "--cost", cost, "--at", "2026-11-21T16:00:00Z"], json].concat();
        let (status, said, error) = run("explain", &file, &arguments);
        assert_eq!((status, error.as_str()), (Some(0), ""));
        said
    };
    let bucket =
        "denied, whatever is used: it costs 21, and 100/1m~burst:20 of `bucket` has room for 20 at most";
    for (path, cost, expected) in [
        ("path=/window", "100", "allowed if its quota has room"),
        (
            "path=/window",
            "101",
            "denied, whatever is used: it costs 101, and 100/1m of `window` has room for 100 at most",
        ),
        ("path=/bucket", "20", "allowed if all 2 quotas have room"),
        ("path=/bucket", "21", bucket),
        ("path=/none", "1", "denied: the limit of `none` is 0, and everything is denied"),
        ("path=/tried", "2", "allowed: no policy counts it"),
    ] {
        let said = explain(path, cost, &[]);
        assert!(said.starts_with(&format!("{expected} (at ")), "{said}");
    }
    let said =
        |cost| serde_json::from_str::<Value>(&explain("path=/bucket", cost, &["--json"])).expect("JSON");
    let never = said("21");
    assert_eq!(
        (&never["outcome"], &never["reason"], &never["message"]),
        (&json!("deny"), &json!("cost_exceeds_limit"), &json!(bucket))
    );
    let perhaps = said("20");
    assert_eq!((&perhaps["outcome"], &perhaps["reason"]), (&json!("charge"), &Value::Null));
}

/// A request was denied because no policy matches its path as sent. `explain` said that the policy of the other reading
/// exempted it.
#[test]
fn it_is_said_which_reading_of_a_path_no_policy_matches() {
    let file = file(
        "unmatched.yaml",
        "unmatched: deny
policies: [{ name: api, match: { path: '/api/*' }, key: global, quotas: [5/1m] }]
",
    );
    let explain = |path: &str| {
        let (status, said, _) = run("explain", &file, &[path, "--at", "2026-11-21T16:00:00Z"]);
        assert_eq!(status, Some(0));
        said
    };
    let told = |reading: &str, only: &str| {
        format!(
            "api (line 2) matches only the {only} path and counts nothing: no policy matches {reading}
"
        )
    };
    for (path, reading, only) in [
        ("path=/x/../api/y", "`/x/../api/y`, the path as sent", "normalized"),
        ("path=/api/../x", "`/x`, the normalized path", "sent"),
    ] {
        let said = explain(path);
        assert!(
            said.starts_with(&format!("denied: no policy matches {reading}, and `unmatched` is `deny`")),
            "{said}"
        );
        assert!(said.ends_with(&told(reading, only)), "{said}");
    }
    assert!(explain("path=/x").starts_with("denied: no policy matches it, and `unmatched` is `deny`"));
}

/// A request with a value that is too long is refused, and its policies were said to exempt it.
#[test]
fn no_policy_exempts_a_request_that_is_refused() {
    let file = file("long.yaml", "policies: [{ name: each, key: [user], quotas: [5/1m] }]\n");
    let (_, said, _) = run("explain", &file, &["user=alice", "--max-attribute-bytes", "4"]);
    assert!(said.starts_with("refused as a caller error: "), "{said}");
    assert!(said.ends_with("each (line 1) matches and counts nothing: the request is refused\n"), "{said}");
}

#[test]
fn a_request_is_explained() {
    let file = file("shop.yaml", SHOP);
    let explain = |arguments: &[&str]| {
        let at = ["--at", "2026-11-21T16:00:00Z"];
        let (status, said, error) = run("explain", &file, &[arguments, &at].concat());
        assert_eq!((status, error.as_str()), (Some(0), ""));
        said
    };

    let said = explain(&["path=/search", "method=GET", "user=alice", "tier=silver", "ip=2001:db8::1"]);
    assert_eq!(
        said,
        "allowed if all 2 quotas have room (at 2026-11-21T16:00:00Z)
search (line 3) counts user=alice
  takes 1 of 10/1s, from 2026-11-21T16:00:00Z to 2026-11-21T16:00:01Z; at most 20 in any second
  takes 1 of 10000/day@Europe/Berlin, from 2026-11-21T00:00:00+01:00 to 2026-11-22T00:00:00+01:00; at most 20000 in any day
clients (line 11) counts ip=2001:db8::/64
  tries 1 of 30/1m, from 2026-11-21T16:00:00Z to 2026-11-21T16:01:00Z; at most 60 in any minute (shadow)
login (line 15) does not match: path: /login does not match `/search`
health (line 20) does not match: path: [/healthz, /internal/*] does not match `/search`
old (line 23) does not match: it is off
writes (line 27) does not match: method: { not: GET } does not match `GET`; none of `any` holds: path: /api/* does \
not match `/search`, path: /upload does not match `/search`
"
    );
    let said = explain(&["path=/upload", "method=PUT", "user=alice", "ip=192.0.2.1"]);
    assert!(said.contains(
        "\nwrites (line 27) does not match: none of `any` holds: path: /api/* does not match `/upload`, plan: [pro, \
         team] does not hold: there is no `plan`\n"
    ));
    let own = ["path=/api/x", "method=PUT", "user=alice", "ip=192.0.2.1", "tier=own"];
    let said = explain(&[&own[..], &["quota=300"]].concat());
    assert!(said.contains("\n  uses the quotas in line 34, for tier: own\n  takes 1 of 300/1m, "), "{said}");
    let said = explain(&own);
    assert!(
        said.starts_with("refused as a caller error: policy `writes`: the attribute `quota`, which sets"),
        "{said}"
    );
    assert!(said.contains(
        "\nwrites (line 27) matches and counts nothing: the attribute `quota`, which sets the limit, is missing\n"
    ));
    let said = explain(&["path=/api/x", "method=PUT", "user=alice", "ip=192.0.2.1", "tier=gold"]);
    assert!(said.contains(
        "\nwrites (line 27) counts user=alice\n  uses the quotas in line 32, for any: [{ plan: pro }, { tier: gold, path: \
         /api/* }]\n  takes 1 of 70/1m, "
    ));

    let said = explain(&["path=/search", "method=PUT", "user=alice", "--cost", "3"]);
    assert!(said.starts_with("allowed: no policy counts it (at "), "{said}");
    assert!(said.contains("\nsearch (line 3) does not match: method: [GET, POST] does not match `PUT`\n"));
    assert!(
        said.contains(
            "\nclients (line 11) matches and counts nothing: its key needs `ip`, which is missing\n"
        )
    );

    let said = explain(&["path=/search", "method=GET", "tier=gold", "ip=192.0.2.1", "--cost", "3"]);
    assert!(
        said.contains(
            "search (line 3) counts ip=192.0.2.1/32
  uses the quotas in line 8, for tier: gold
  takes 3 of 100/1s, from 2026-11-21T16:00:00Z to 2026-11-21T16:00:01Z; at most 200 in any second
  tries 3 of 50/1s@first_hit, from the first request on; if it is this one until 2026-11-21T16:00:01Z; at most 100 in any second (candidate)
"
        ),
        "{said}"
    );
}

#[test]
fn it_is_said_who_is_on_a_list() {
    let text = "deny: { user: [mallory] }\nallow: { ip: 10.0.0.0/8 }\npolicies: [{ name: each, key: [user], quotas: [1/1m] }]\n";
    let file = file("lists.yaml", text);
    let explain = |arguments: &[&str]| run("explain", &file, arguments).1;
    let said = explain(&["user=mallory", "ip=192.0.2.1"]);
    assert!(said.starts_with("denied: `deny` denies everything that it matches (at "), "{said}");
    assert!(said.contains("\ndeny (line 1) denies the request\n"), "{said}");
    assert!(said.contains("\neach (line 3) matches and counts nothing: `deny` decides before"), "{said}");
    assert!(
        said.contains(
            "\nallow (line 2) does not match: none of `any` holds: ip: { cidr: [10.0.0.0/8] } does not match"
        ),
        "{said}"
    );
    let said = explain(&["user=mallory", "ip=10.0.0.1"]);
    assert!(said.starts_with("allowed and not counted: `allow` exempts it (at "), "{said}");
    assert!(
        said.contains("\ndeny (line 1) matches and counts nothing: `allow` exempts the request\n"),
        "{said}"
    );
}

#[test]
fn it_is_said_why_a_request_is_not_counted() {
    let file = file("ends.yaml", SHOP);
    let explain = |arguments: &[&str]| run("explain", &file, arguments).1;

    let said = explain(&["path=/internal/metrics", "user=alice", "ip=192.0.2.1"]);
    assert!(said.starts_with("allowed and not counted: `health` exempts it (at "), "{said}");
    assert!(said.contains("\nhealth (line 20) exempts the request\n"), "{said}");
    assert!(said.contains("\nclients (line 11) matches and counts nothing: `health` exempts the request\n"));

    let said = explain(&["path=/login", "ip=192.0.2.1"]);
    assert!(said.starts_with("refused as a caller error: policy `login`: "), "{said}");
    assert!(
        said.contains(
            "\nlogin (line 15) matches and counts nothing: its key needs `user`, which is missing\n"
        )
    );
    assert!(said.contains(
        "\nclients (line 11) matches and counts nothing: `login` decides before anything is counted\n"
    ));

    let said = explain(&["path=/search", "method=GET"]);
    assert!(said.contains(
        "\nsearch (line 3) matches and counts nothing: its key needs one of [user, ip], and the request has none\n"
    ));

    let said = explain(&["path=/login", "user=alice", "tokens=4"]);
    assert!(said.contains(
        "\nlogin (line 15) matches and counts nothing: the attribute `tokens` sets the cost and may be at most 3\n"
    ));
}

#[test]
fn an_explanation_is_there_for_programs() {
    let file = file("json.yaml", SHOP);
    let arguments =
        ["path=/login", "user=alice", "tokens=2", "--at", "2026-11-21T17:00:30.5+01:00", "--json"];
    let (status, said, _) = run("explain", &file, &arguments);
    let report: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(status, Some(0));
    assert_eq!(
        (&report["at"], &report["outcome"], &report["message"]),
        (&json!(1_795_276_830_500_i64), &json!("charge"), &json!("allowed if its quota has room"))
    );
    assert_eq!(
        report["policies"][2],
        json!({
            "policy": "login",
            "line": 15,
            "mode": "enforce",
            "matches": true,
            "exempt": false, "denies": false,
            "counts": "user=alice",
            "charges": [{
                "quota": "5/1m",
                "limit": 5,
                "cost": 2,
                "most_in_any_window": 10,
                "window": { "start": 1_795_276_800_000_i64, "end": 1_795_276_860_000_i64 }
            }],
            "trials": []
        })
    );
    assert_eq!(report["policies"][4]["because"], json!(["it is off"]));
}

#[test]
fn names_what_cannot_be_explained() {
    let invalid = file("invalid.yaml", "policies: 7");
    let (status, said, error) = run("explain", &invalid, &["user=alice"]);
    assert_eq!((status, said.as_str()), (Some(1), ""));
    assert_eq!(error, "invalid.yaml:1:11: expected a list, with `- ` before each entry, found `7`\n");

    let valid = file("valid.yaml", SHOP);
    for (arguments, message) in [
        (&["alice"][..], "expected NAME=VALUE"),
        (&["--at", "noon"], "expected a time and its offset, such as 2026-11-21T16:00:00Z"),
    ] {
        let (status, _, error) = run("explain", &valid, arguments);
        assert_eq!(status, Some(2), "{error}");
        assert!(error.contains(message), "{error}");
    }
}

/// Text from files and requests was printed unchanged: control characters could hide lines, and line breaks forged
/// them.
#[test]
fn no_control_character_reaches_the_terminal() {
    let hostile = r#""\e[2J\nINFO all is well\u202e""#;
    let escaped = r"\u{1b}[2J\nINFO all is well\u{202e}";
    let wrong = file(
        "hostile.yaml",
        &format!("policies: [{{ {hostile}: 1, name: a, key: [u], quotas: [{hostile}] }}]\n"),
    );
    let (_, said, _) = run("check-config", &wrong, &[]);
    assert_eq!((said.lines().count(), said.matches(escaped).count()), (3, 2), "{said:?}");
    let (_, _, said) = run("explain", &wrong, &["u=a"]);
    assert_eq!((said.lines().count(), said.matches(escaped).count()), (2, 2), "{said:?}");

    let valid =
        format!("policies: [{{ name: a, match: {{ path: {hostile} }}, key: [u], quotas: [5/1m] }}]\n");
    let valid = file("hostile-valid.yaml", &valid);
    let value = "u=\u{1b}[2J\nINFO all is well\u{202e}";
    let path = "path=\u{1b}[2J\nINFO all is well\u{202e}";
    // In a condition as a file has it.
    let quoted = r#""\x1B[2J\nINFO all is well\u{202e}""#;
    for (attributes, counts) in [
        (&[value, path][..], (1, 0)),
        (&[value, "path=/"], (0, 1)),
        (&[value, path, "path=/"], (1, 0)),
        // As a list has it.
        (&["path=/", "path=/a\u{1b}[2J\nINFO all is well\u{202e}"], (0, 1)),
    ] {
        let (_, said, error) = run("explain", &valid, attributes);
        assert_eq!((said.matches(escaped).count(), said.matches(quoted).count()), counts, "{said:?}");
        let is_plain = |text: &str| !text.contains(['\u{1b}', '\u{202e}']) && !text.contains("\nINFO");
        assert!(is_plain(&said) && is_plain(&error), "{said:?} {error:?}");
    }
}

/// A check cannot end a hold, so a file that needs one has to be found out before its requests fail.
#[test]
fn limits_in_flight_are_explained() {
    let text = "policies:
  - { name: tokens, match: { path: /v1/* }, key: [user], quotas: [1000/1m, 20~in_flight:30s], candidate: 5~in_flight }
  - { name: runs, match: { path: /v1/* }, key: global, quotas: 2~in_flight }
";
    let file = file("in-flight.yaml", text);
    let (status, said, _) =
        run("explain", &file, &["user=alice", "path=/v1/x", "--at", "1970-01-01T00:00:00Z"]);
    assert_eq!(status, Some(0), "{said}");
    for line in [
        "a hold is allowed if a unit in flight is free and the quota has room; a check is refused with needs_hold, \
         because `tokens`, `runs` limit units in flight (at 1970-01-01T00:00:00Z)",
        "  holds 1 of 20~in_flight:30s; at most 20 at once",
        "  compares with 1 of 5~in_flight; at most 5 at once (candidate)",
        "  holds 1 of 2~in_flight; at most 2 at once",
    ] {
        assert!(said.lines().any(|other| other == line), "{line}\n{said}");
    }
    let (_, said, _) = run("explain", &file, &["user=alice", "path=/v1/x", "--json"]);
    let report: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(report["outcome"], "hold");
    assert_eq!(report["policies"][0]["in_flight"], json!({ "written": "20~in_flight:30s", "limit": 20 }));
    assert_eq!(report["policies"][0]["trials"][0]["in_flight"]["limit"], 5);

    let file =
        self::file("none-in-flight.yaml", "policies: [{ name: no, key: [user], quotas: 0~in_flight }]");
    let (_, said, _) = run("explain", &file, &["user=alice"]);
    assert!(said.starts_with("denied: the limit of `no` is 0, and everything is denied"), "{said}");
}

/// Keys of another system have no place for holds, and holds of several keys need several slots of a Cluster.
#[test]
fn limits_in_flight_need_a_store_that_has_holds() {
    let text = "policies:
  - { name: tokens, key: [user], quotas: 20~in_flight }
  - { name: runs, key: [path], quotas: 2~in_flight }
";
    let file = file("in-flight-store.yaml", text);
    let check = |arguments: &[&str]| {
        let (status, said, _) = run("check-config", &file, arguments);
        (status, said)
    };
    assert_eq!(check(&[]).0, Some(0));
    let (status, said) =
        check(&["--store-layout", "limit:{policy}:{user}:{windows}:{window}", "--store", "redis://x"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("policy `tokens` cannot be counted: it limits units in flight, and the key layout"),
        "{said}"
    );
    let (status, said) = check(&["--store", "redis+cluster://x"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("policy `runs` cannot be counted: one request may match it and policy `tokens`"),
        "{said}"
    );
    assert_eq!(check(&["--store", "redis+cluster://x", "--store-across-slots", "reserve"]).0, Some(0));
}
