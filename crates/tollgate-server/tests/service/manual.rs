//! The reference pages of the manual are what the command and the service themselves say.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Command, CommandFactory};
use serde_json::Value;
use tollgate_server::args::Args;

use crate::http_examples::{POLICIES, examples};
use crate::metrics::{family, scrapes};
use crate::support::Server;

/// What comes after this line of a page is generated.
const MARK: &str = "<!-- The rest is generated. TOLLGATE_WRITE_SNAPSHOTS=1 cargo test --package tollgate-server --test service manual writes it. -->\n";

#[test]
fn the_page_of_the_command_line_is_current() {
    let mut command = Args::command();
    command.build();
    let mut reference = String::new();
    describe(&command, "tollgate", &mut reference);
    expect_reference("cli.md", &reference);
}

#[test]
fn the_page_of_the_http_api_is_current() {
    let all_operations = [
        "--limit",
        "5/1d",
        "--metrics-listen",
        "127.0.0.1:0",
        "--plain-probes",
        "127.0.0.1:0",
        "--test-clock",
    ];
    let document = Server::start(&all_operations).admin_get("/openapi.json").json();
    let mut reference = String::from("\n## Every operation\n");
    let operations = operations(&document);
    let common = common_answers(&operations, &mut reference);
    let examples = examples();
    for (name, operation) in &operations {
        operation_of(name, operation, &common, &examples[&**name], &mut reference);
    }
    reference.push_str("\n## Every body\n");
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        body(name, schema, &mut reference);
    }
    expect_reference("http.md", &reference);
    assert!(
        fs::read_to_string(page("http.md")).unwrap().contains(POLICIES),
        "the page has the file of its examples"
    );
}

/// By the first words that a line has whatever it is about. In all crates, because the service is made of them.
#[test]
fn the_page_of_warnings_has_every_line_of_the_log() {
    let page = fs::read_to_string(page("warnings.md")).unwrap();
    let mut lines = 0;
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders: Vec<PathBuf> = fs::read_dir(crates)
        .unwrap()
        .map(|entry| entry.unwrap().path().join("src"))
        // Of tests alone.
        .filter(|folder| folder.is_dir() && !folder.parent().unwrap().ends_with("tollgate-testkit"))
        .collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            if entry.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let source = fs::read_to_string(&entry).unwrap();
            for call in source.split("warn!(").skip(1).chain(source.split("error!(").skip(1)) {
                // A variable or a colon ends its words.
                let Some(message) = call.split('"').nth(1) else { continue };
                let words = message.split(['{', '}', '\\', ';', ',']).flat_map(|part| part.split(": "));
                let mut words = words.map(|words| words.get(..28).unwrap_or(words).trim());
                let Some(words) = words.find(|words| words.len() > 10) else { continue };
                lines += 1;
                assert!(page.contains(words), "{}: {words}", entry.display());
            }
        }
    }
    assert!(lines > 25, "{lines}");
}

#[test]
fn the_page_of_metrics_is_current() {
    let scrapes = scrapes();
    let labels = labels(scrapes.iter().map(|(_, text)| text.as_str()));
    let mut known = BTreeSet::new();
    let mut reference = String::new();
    for (flag, text) in &scrapes {
        let title = if flag.is_empty() { "Every metric".to_owned() } else { format!("With `{flag}`") };
        write!(reference, "\n## {title}\n\n| Metric | Type | Means |\n|---|---|---|\n").unwrap();
        for metric in described(text) {
            if known.insert(metric.name.clone()) {
                let labels = labels.get(&metric.name).map(|labels| format!("{{{labels}}}"));
                let labels = labels.unwrap_or_default();
                writeln!(reference, "| `{}{labels}` | {} | {} |", metric.name, metric.kind, metric.help)
                    .unwrap();
            }
        }
    }
    expect_reference("metrics.md", &reference);

    let page = fs::read_to_string(page("metrics.md")).unwrap();
    let words = page.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    for word in words.filter(|word| word.starts_with("tollgate_")) {
        assert!(known.contains(&family(word)), "{word} is not exported");
    }
}

/// A metric as a scrape describes it.
struct Described {
    name: String,
    kind: String,
    help: String,
}

/// The metrics of a scrape in the OpenMetrics format, by the names of their samples.
fn described(text: &str) -> Vec<Described> {
    let comments =
        |start: &'static str| text.lines().filter_map(move |line| line.strip_prefix(start)?.split_once(' '));
    let helps: BTreeMap<&str, &str> = comments("# HELP ").collect();
    let described = comments("# TYPE ").map(|(name, kind)| Described {
        name: match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        },
        kind: if kind == "info" { "gauge" } else { kind }.to_owned(),
        help: helps[name].trim_end_matches('.').to_owned(),
    });
    described.collect()
}

/// The names of the labels of each metric, as far as these scrapes have series of it.
fn labels<'a>(scrapes: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
    let series = scrapes.flat_map(str::lines).filter_map(|line| line.split_once('{'));
    let labels = series.filter_map(|(name, rest)| {
        let labels = rest.rsplit_once('}')?.0.split(',').filter_map(|label| Some(label.split_once('=')?.0));
        let labels: Vec<&str> = labels.filter(|label| *label != "le").collect();
        (!labels.is_empty()).then(|| (family(name), labels.join(",")))
    });
    labels.collect()
}

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

/// Fails unless the generated part of a page is this one; `TOLLGATE_WRITE_SNAPSHOTS=1` writes it.
fn expect_reference(page_name: &str, reference: &str) {
    let file = page(page_name);
    let kept = fs::read_to_string(&file).unwrap();
    let (written, _) = kept.split_once(MARK).unwrap();
    let current = format!("{written}{MARK}{reference}");
    if std::env::var_os("TOLLGATE_WRITE_SNAPSHOTS").is_some() {
        fs::write(&file, &current).unwrap();
        return;
    }
    assert!(
        kept == current,
        "docs/{page_name} is out of step; TOLLGATE_WRITE_SNAPSHOTS=1 writes:\n{current}"
    );
}

/// A section for each command that does something, with its arguments.
fn describe(command: &Command, name: &str, page: &mut String) {
    if !command.has_subcommands() {
        let about = command.get_long_about().or(command.get_about()).unwrap();
        writeln!(page, "\n## {name}\n\n{about}.\n").unwrap();
        let shown = |argument: &&Arg| !argument.is_hide_set() && argument.get_id() != "help";
        for argument in command.get_arguments().filter(shown) {
            writeln!(page, "- {}", entry(argument)).unwrap();
        }
        if let Some(more) = command.get_after_help() {
            writeln!(page, "\n{more}").unwrap();
        }
    }
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        describe(below, &format!("{name} {}", below.get_name()), page);
    }
}

/// One argument: how it is written, what it does, which words it takes, and where its value comes from if it is not
/// given.
fn entry(argument: &Arg) -> String {
    let value = argument.to_string();
    let help = argument.get_long_help().or(argument.get_help()).unwrap().to_string();
    let mut entry = format!("`{value}`: {}.", help.trim_end_matches('.').replace('\n', " "));
    if argument.is_required_set() {
        entry.push_str(" Required.");
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if argument.get_action().takes_values() && !defaults.is_empty() {
        write!(entry, " Default: `{}`.", defaults.join(",")).unwrap();
    }
    if let Some(variable) = argument.get_env() {
        write!(entry, " Variable: `{}`.", variable.to_string_lossy()).unwrap();
    }
    for word in argument.get_possible_values() {
        let help = word.get_help().map(|help| format!(": {}", help.to_string().trim_end_matches('.')));
        write!(entry, "\n  - `{}`{}", word.get_name(), help.unwrap_or_default()).unwrap();
    }
    entry
}

/// Returns the operations by name, such as `GET /metrics`.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let operations = paths.flat_map(|(path, methods)| {
        // What has the words of GET is the same under another method.
        let is_repeated = |method: &str, operation: &Value| {
            method != "get" && operation["summary"] == methods["get"]["summary"]
        };
        let own = methods.as_object().unwrap().iter();
        own.filter(move |(method, operation)| !is_repeated(method, operation))
            .map(move |(method, operation)| (format!("{} {path}", method.to_uppercase()), operation))
    });
    operations.collect()
}

/// Returns the rows for the answers of an operation: the status, the type of the body, and the meaning.
fn answers(operation: &Value) -> Vec<[String; 3]> {
    let replies = operation["responses"].as_object().unwrap().iter();
    let answers = replies.flat_map(|(status, reply)| {
        let content = reply["content"].as_object().into_iter().flatten().next();
        let body = content.and_then(|(_, content)| reference(&content["schema"])).unwrap_or_default();
        let description = cell(&reply["description"]);
        let meanings: Vec<String> = description.split(". Or: ").map(str::to_owned).collect();
        meanings.into_iter().map(move |meaning| [status.clone(), body.clone(), meaning])
    });
    answers.collect()
}

/// A section with the answers that many operations have. Returns these.
fn common_answers(operations: &[(String, &Value)], page: &mut String) -> Vec<[String; 3]> {
    const MANY: usize = 5;
    let mut having = BTreeMap::<[String; 3], Vec<&str>>::new();
    for (name, operation) in operations {
        answers(operation).into_iter().for_each(|answer| having.entry(answer).or_default().push(name));
    }
    having.retain(|_, names| names.len() >= MANY);
    page.push_str("\n### Answers of many operations\n\n| Status | Body | Means |\n|---|---|---|\n");
    for [status, body, meaning] in having.keys() {
        writeln!(page, "| {status} | {body} | {meaning} |").unwrap();
    }
    having.into_keys().collect()
}

/// A section with what an operation does, where it is served, what it takes and how it answers.
fn operation_of(name: &str, operation: &Value, common: &[[String; 3]], example: &str, page: &mut String) {
    let listeners: Vec<_> =
        operation["tags"].as_array().unwrap().iter().map(|tag| tag.as_str().unwrap()).collect();
    let summary = operation["summary"].as_str().unwrap();
    write!(page, "\n### {name}\n\n{summary}. Listeners: {}.", listeners.join(", ")).unwrap();
    if let Some(body) = reference(&operation["requestBody"]["content"]["application/json"]["schema"]) {
        write!(page, " Body: {body}.").unwrap();
    }
    let (common, own): (Vec<_>, Vec<_>) =
        answers(operation).into_iter().partition(|answer| common.contains(answer));
    let statuses: BTreeSet<&str> = common.iter().map(|[status, ..]| status.as_str()).collect();
    if !statuses.is_empty() {
        let statuses = statuses.into_iter().collect::<Vec<_>>().join(", ");
        write!(page, " Also [answers of many operations](#answers-of-many-operations): {statuses}.").unwrap();
    }
    page.push_str("\n\n| Status | Body | Means |\n|---|---|---|\n");
    for [status, body, meaning] in own {
        writeln!(page, "| {status} | {body} | {meaning} |").unwrap();
    }
    write!(page, "\n{example}").unwrap();
}

/// A section with the fields of a body, or with the values of a word.
fn body(name: &str, schema: &Value, page: &mut String) {
    writeln!(page, "\n### {name}\n\n{}", cell(&schema["description"])).unwrap();
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<_> = words.iter().map(|word| format!("`{}`", word.as_str().unwrap())).collect();
        writeln!(page, "\nOne of {}.", words.join(", ")).unwrap();
    }
    let Some(fields) = schema["properties"].as_object() else { return };
    page.push_str("\n| Field | Type | Means |\n|---|---|---|\n");
    let required = schema["required"].as_array();
    for (field, schema) in fields {
        let is_required = required.is_some_and(|required| required.iter().any(|name| name == field));
        let optional = if is_required { "" } else { ", optional" };
        writeln!(page, "| `{field}` | {}{optional} | {} |", kind(schema), cell(&schema["description"]))
            .unwrap();
    }
}

/// The type of a value, or the name of its schema.
fn kind(schema: &Value) -> String {
    if let Some(reference) = reference(schema) {
        return reference;
    }
    if let Some(items) = schema.get("items") {
        return format!("list of {}", kind(items));
    }
    match &schema["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => String::new(),
    }
}

/// The name of the schema that this one refers to.
fn reference(schema: &Value) -> Option<String> {
    let direct = schema["$ref"].as_str();
    let name = direct.or_else(|| schema["allOf"][0]["$ref"].as_str())?.rsplit('/').next()?;
    Some(format!("`{name}`"))
}

fn cell(text: &Value) -> String {
    text.as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|")
}
