//! Every command of `docs/holds-and-refunds.md` and `docs/limits-in-a-call.md`, in the order of the pages.

#![allow(clippy::expect_used, reason = "this is a test")]

use serde_json::{Value, json};
use tollgate_testkit::manual::{blocks, inline_code};

use crate::support::folder::Folder;
use crate::support::shell::{self, Curl, played};
use crate::support::{Server, quotas};

const COSTS: &str = include_str!("../../../../docs/holds-and-refunds.md");
const ASKING: &str = include_str!("../../../../docs/limits-in-a-call.md");
const POLICIES: &str = include_str!("../../../../docs/policies.md");

fn start(page: &str, section: &str) -> Server {
    let is_service = |code: &&str| code.starts_with("tollgate serve --limit");
    let own = inline_code(section).into_iter().find(is_service);
    let command = own.or_else(|| inline_code(page).into_iter().find(is_service));
    let arguments = command.and_then(shell::arguments).expect("the page names a service");
    Server::start(&arguments[1..].iter().map(String::as_str).collect::<Vec<_>>())
}

/// Returns the sections of a page, without its beginning.
fn sections(page: &str) -> Vec<&str> {
    page.split("\n## ").skip(1).collect()
}

/// Plays the commands of a section, and returns the answers and those that the section shows.
fn commands_and_answers(section: &str, server: &Server) -> (Vec<Value>, Vec<Value>) {
    let shown = blocks(section).into_iter().filter(|block| block.language == "text");
    let shown = shown.flat_map(|block| block.text.lines()).map(|line| line.parse().expect("JSON")).collect();
    let commands = blocks(section).into_iter().filter(|block| block.language == "sh");
    let commands: Vec<String> = commands
        .flat_map(|block| block.text.replace("\\\n", " ").lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let answers = commands.iter().map(|command| Curl::parse(command).send(server).json()).collect();
    (answers, shown)
}

/// All but the times is as the page shows it.
fn assert_shown(answer: &Value, shown: &Value) {
    for (field, shown) in shown.as_object().expect("an object") {
        let is_time =
            ["reset_after_ms", "retry_after_ms", "block_after_ms", "window"].contains(&field.as_str());
        assert!(
            is_time && answer[field].is_null() == shown.is_null() || answer[field] == *shown,
            "{field}: {answer}"
        );
    }
    let fields = |value: &Value| value.as_object().map(serde_json::Map::len);
    assert_eq!(fields(answer), fields(shown), "{answer}");
}

#[test]
fn the_commands_about_costs_answer_as_their_page_says() {
    let [settling, in_flight, statuses, ids, sealed, records, overdraft, envoy] = sections(COSTS)[..] else {
        panic!("other sections")
    };

    let answers = shell::within_a_minute(|| played(settling, &start(COSTS, settling)));
    let [_, settled] = &answers[..] else { panic!("a reservation and a settlement") };
    assert_eq!(
        (&settled["status"], &quotas(settled)[0]["given"]),
        (&json!("settled"), &json!(600)),
        "{settled}"
    );

    let folder = Folder::new();
    let file = blocks(in_flight).into_iter().find(|block| block.language == "yaml").expect("a file");
    let server = Server::start(&["--config", &folder.write("tollgate.yaml", file.text)]);
    let answers = played(in_flight, &server);
    let [reserved, renewed, settled] = &answers[..] else { panic!("a hold from its beginning to its end") };
    assert_eq!(
        (&reserved["expires_after_ms"], &renewed["expires_after_ms"]),
        (&json!(20_000), &json!(20_000))
    );
    assert_eq!(*settled, json!({ "status": "settled", "quotas": [] }));

    let [answer] = &played(records, &start(COSTS, records))[..] else { panic!("a record") };
    assert_eq!(quotas(answer)[0]["used"], 3, "{answer}");

    let folder = Folder::new();
    let file = blocks(overdraft).into_iter().find(|block| block.language == "yaml").expect("a file");
    let server = Server::start(&["--config", &folder.write("tollgate.yaml", file.text)]);
    let commands = blocks(overdraft).into_iter().filter(|block| block.language == "sh");
    let commands = commands.flat_map(|block| block.text.lines()).collect::<Vec<_>>();
    let [reported, denied] =
        <[&str; 2]>::try_from(commands).expect("two calls").map(|command| Curl::parse(command).send(&server));
    assert_eq!((reported.status, &quotas(&reported.json())[0]["used"]), (200, &json!(150_000)));
    denied.assert_problem(429, None);

    for section in [statuses, ids, sealed, envoy] {
        assert!(blocks(section).iter().all(|block| block.language != "sh"), "commands that nobody plays");
    }
}

#[test]
fn the_commands_about_single_calls_answer_as_their_page_says() {
    let [given, counted, blocked, narrowed] = sections(ASKING)[..] else { panic!("other sections") };

    let [answer] = &played(given, &start(ASKING, given))[..] else { panic!("a check with limits") };
    let limits = quotas(answer);
    assert_eq!([&limits[0]["limit"], &limits[1]["limit"]], [&json!(5), &json!(100)]);
    assert_eq!(answer["policy"], "downloads:caller");

    let (answers, shown) = commands_and_answers(counted, &start(ASKING, counted));
    let [added, subtracted, looked, batch] = &answers[..] else { panic!("other commands: {answers:?}") };
    for (answer, shown) in [added, subtracted, looked].into_iter().zip(&shown) {
        assert_shown(answer, shown);
    }
    assert_eq!(shown.len(), 3);
    let used = |place: usize| batch["counts"][place]["used"].as_u64();
    assert_eq!((used(0), used(1)), (Some(1), Some(1)), "{batch}");

    let (answers, shown) = commands_and_answers(blocked, &start(ASKING, blocked));
    assert_eq!((answers.len(), shown.len()), (2, 2));
    answers.iter().zip(&shown).for_each(|(answer, shown)| assert_shown(answer, shown));

    let folder = Folder::new();
    let file = blocks(POLICIES).into_iter().find(|block| block.language == "yaml");
    let file = folder.write("tollgate.yaml", file.expect("a first file").text);
    let server = Server::start(&["--config", &file]);
    let [answer] = &played(narrowed, &server)[..] else { panic!("one quota is set") };
    let set = quotas(answer);
    assert_eq!((set.len(), &set[0]["quota"], &set[0]["used"]), (1, &json!("100/1m"), &json!(3)), "{answer}");
}
