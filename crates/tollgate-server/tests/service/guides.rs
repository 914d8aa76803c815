//! The files and commands of `docs/language-models.md`, `docs/at-most-n.md` and `docs/change-one-customers-limit.md`, as
//! these guides describe them.

#![allow(clippy::expect_used, reason = "this is a test")]

use serde_json::{Value, json};
use tollgate_testkit::manual::blocks;

use crate::support::folder::Folder;
use crate::support::override_guide::OverrideGuide;
use crate::support::shell::{self, played};
use crate::support::{Reply, Server, quotas, tollgate};

const MODELS: &str = include_str!("../../../../docs/language-models.md");

const AT_MOST_N: &str = include_str!("../../../../docs/at-most-n.md");

/// Returns the section with this title.
fn section<'a>(page: &'a str, title: &str) -> &'a str {
    let sections = page.split("\n## ").skip(1);
    let mut meant = sections.filter_map(|section| section.strip_prefix(title));
    meant.next().expect("the section exists")
}

/// Starts a service with the file of a section.
fn start(section: &str) -> Server {
    let file = blocks(section).into_iter().find(|block| block.language == "yaml").expect("a file");
    Server::start(&["--config", &Folder::new().write("tollgate.yaml", file.text)])
}

fn reserve(server: &Server, attributes: &Value, cost: u32) -> Reply {
    server.post("/v1/reserve", &json!({ "attributes": attributes, "cost": cost }).to_string())
}

/// Settles the hold of this answer.
fn settle(server: &Server, reserved: &Value, cost: u32) -> Value {
    server.post("/v1/settle", &json!({ "hold": reserved["hold"], "cost": cost }).to_string()).json()
}

#[test]
fn one_customers_limit_is_changed_with_counters_in_memory() {
    let mut guide = OverrideGuide::start("--state-dir", |folder, arguments| {
        let mut command = tollgate();
        command.current_dir(folder);
        vec![Server::start_by(command, &arguments.iter().map(String::as_str).collect::<Vec<_>>())]
    });
    guide.play();
    // While the service uses the folder.
    guide.explain("--state-dir state");
}

#[test]
fn a_call_is_reserved_renewed_and_settled() {
    let a_call = section(MODELS, "A call");
    let server = start(a_call);
    let answers = shell::within_a_minute(|| played(a_call, &start(a_call)));
    let [reserved, renewed, settled] = &answers[..] else { panic!("three commands") };
    assert_eq!((&reserved["allowed"], &renewed["status"]), (&json!(true), &json!("renewed")));
    assert_eq!(quotas(settled)[0]["given"], 600, "{settled}");

    // Four answers are in flight at once, and a fifth has no time to wait.
    let alice = json!({ "user": "alice" });
    let holds: Vec<Value> = (0..4).map(|_| reserve(&server, &alice, 1_000).json()).collect();
    let fifth = reserve(&server, &alice, 1_000);
    let denied = fifth.json();
    assert_eq!((fifth.status, fifth.header("retry-after")), (429, Some("1")), "{denied}");
    assert_eq!((&denied["reason"], &denied["retry_after_ms"]), (&json!("in_flight_exceeded"), &Value::Null));

    // A call that failed gives everything back, and frees its place.
    let settled = settle(&server, &holds[0], 0);
    assert_eq!(quotas(&settled)[0]["given"], 1_000, "{settled}");
    assert_eq!(reserve(&server, &alice, 1_000).status, 200);
    // A longer answer than expected is charged.
    let settled = settle(&server, &holds[1], 1_500);
    assert_eq!(quotas(&settled)[0]["charged"], 500, "{settled}");
}

#[test]
fn each_file_of_the_guide_limits_what_it_says() {
    let money = start(section(MODELS, "Money"));
    let call = |unit: &str, cost| reserve(&money, &json!({ "unit": unit, "user": "alice" }), cost).status;
    assert_eq!([call("micro_usd", 19_999_999), call("micro_usd", 2), call("micro_usd", 1)], [200, 429, 200]);
    assert_eq!(call("tokens", 50_000), 200);

    let both = start(section(MODELS, "Money"));
    let [answer] = &played(section(MODELS, "Money"), &both)[..] else { panic!("a batch") };
    assert!(answer["decisions"].as_array().is_some_and(|each| each.len() == 2), "{answer}");
    assert!(
        answer["decisions"].as_array().into_iter().flatten().all(|one| one["hold"].is_string()),
        "{answer}"
    );

    let tools = start(section(MODELS, "Each agent and tool"));
    let call = |tool: &str| reserve(&tools, &json!({ "agent": "a", "tool": tool }), 1).status;
    assert_eq!([call("search"), call("search"), call("search"), call("mail")], [200, 200, 429, 200]);

    let levels = start(section(MODELS, "Organisation, team and user at once"));
    let call = |user: &str, team: &str, cost| {
        let attributes = json!({ "organisation": "acme", "team": team, "user": user });
        reserve(&levels, &attributes, cost).json()
    };
    for user in 0..4 {
        assert_eq!(call(&format!("user{user}"), "web", 50_000)["allowed"], true);
    }
    let denied = call("user5", "web", 1);
    assert_eq!((&denied["allowed"], &denied["policy"]), (&json!(false), &json!("team")), "{denied}");
    // Nothing was taken from the user and the organisation.
    assert_eq!(call("user5", "mail", 50_000)["allowed"], true);

    let share = start(section(MODELS, "A share for critical calls"));
    let call = |priority: &str, cost| reserve(&share, &json!({ "priority": priority }), cost).status;
    assert_eq!([call("usual", 80_000), call("usual", 1), call("critical", 20_000)], [200, 429, 200]);
    assert_eq!(call("critical", 1), 429);
    let nameless = start(section(MODELS, "A share for critical calls"));
    assert_eq!(
        reserve(&nameless, &json!({}), 80_001).status,
        429,
        "a call without a priority is not critical"
    );
}

#[test]
fn a_command_runs_only_while_it_holds_one_of_two_places() {
    let a_command = section(AT_MOST_N, "A command");
    let server = start(a_command);
    let command = blocks(a_command).into_iter().find(|block| block.language == "sh").expect("a command");
    let folder = Folder::new();
    let script = folder.write("export.sh", "#!/bin/sh\necho exported");
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("it is ours");
    let run = || {
        let arguments = shell::arguments(command.text.trim()).expect("a command of tollgate");
        let (check, rest) = arguments.split_first().expect("a subcommand");
        let mut command = tollgate();
        command
            .current_dir(folder.root())
            .arg(check)
            .args(["--server", &format!("http://{}", server.public)]);
        let output = command.args(rest).output().expect("it runs");
        (output.status.code(), String::from_utf8(output.stdout).expect("text"))
    };
    let acme = json!({ "job": "export", "customer": "acme" });
    assert_eq!(run(), (Some(0), "exported\n".into()));
    assert_eq!(reserve(&server, &acme, 1).status, 200);
    assert_eq!(run(), (Some(0), "exported\n".into()));
    let second = reserve(&server, &acme, 1).json();
    assert_eq!(run(), (Some(75), String::new()), "both places are taken");
    let peeked = server.post("/v1/peek", &json!({ "attributes": acme }).to_string()).json();
    assert_eq!(peeked["held"], 2, "{peeked}");

    settle(&server, &second, 0);
    assert_eq!(run(), (Some(0), "exported\n".into()));
    let check = server.post("/v1/check", &json!({ "attributes": acme }).to_string());
    assert_eq!((check.status, &check.json()["reason"]), (400, &json!("needs_hold")));
}
