//! Generates the reference page of policy files from the JSON Schema.

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

/// Everything after this line of the page is generated.
const MARK: &str = "<!-- The rest is generated. TOLLGATE_WRITE_SNAPSHOTS=1 cargo test --package tollgate-policy --all-features --test policies manual writes it. -->\n";

#[test]
fn the_page_of_the_file_format_is_current() {
    let schema: Value = serde_json::from_str(&tollgate_policy::json_schema()).unwrap();
    let mut reference = String::new();
    section("The file", &schema, &schema, &mut reference);
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        if let Some(title) = name.strip_prefix("Raw") {
            section(title, definition, &schema, &mut reference);
        }
    }

    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/file.md");
    let kept = std::fs::read_to_string(&file).unwrap();
    let (written, _) = kept.split_once(MARK).unwrap();
    let current = format!("{written}{MARK}{reference}");
    if std::env::var_os("TOLLGATE_WRITE_SNAPSHOTS").is_some() {
        std::fs::write(&file, &current).unwrap();
        return;
    }
    assert!(kept == current, "docs/file.md is out of step; TOLLGATE_WRITE_SNAPSHOTS=1 writes:\n{current}");
}

/// A table of the keys of one part of a file.
fn section(title: &str, part: &Value, schema: &Value, page: &mut String) {
    let description = line(&part["description"]);
    writeln!(page, "\n## {title}\n\n{description}\n\n| Key | Value | Means |\n|---|---|---|").unwrap();
    let required = part["required"].as_array();
    for (key, value) in part["properties"].as_object().unwrap() {
        let is_required = required.is_some_and(|required| required.iter().any(|name| name == key));
        let needed = if is_required { ", required" } else { "" };
        writeln!(page, "| `{key}` | {}{needed} | {} |", kind(value, schema), line(&value["description"]))
            .unwrap();
    }
}

/// Describes the possible values.
fn kind(value: &Value, schema: &Value) -> String {
    if let Some(reference) = value["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap();
        return match name.strip_prefix("Raw") {
            Some(title) => format!("[{title}](#{})", title.to_lowercase()),
            None => kind(&schema["$defs"][name], schema),
        };
    }
    if let Some(choices) = value["anyOf"].as_array() {
        let mut kinds: Vec<String> = choices.iter().map(|choice| kind(choice, schema)).collect();
        kinds.dedup();
        return kinds.join(" or ");
    }
    if let Some(words) = value["enum"].as_array() {
        let words: Vec<_> = words.iter().map(|word| format!("`{}`", word.as_str().unwrap())).collect();
        return words.join(", ");
    }
    if let Some(title) = value["items"]["$ref"].as_str().and_then(|items| items.strip_prefix("#/$defs/Raw")) {
        return format!("list of [{title}](#{})", title.to_lowercase());
    }
    if let Some(only) = value["const"].as_bool() {
        return format!("`{only}`");
    }
    match (value["const"].as_str(), value["type"].as_str().unwrap_or("text")) {
        (Some(word), _) => format!("`{word}`"),
        (None, "integer") => format!("number, {} to {}", value["minimum"], value["maximum"]),
        // The items can be lists of the same kind.
        (None, "array") => "list".to_owned(),
        (None, "object") => "mapping".to_owned(),
        (None, "boolean") => "`true`, `false`".to_owned(),
        (None, _) => "text".to_owned(),
    }
}

fn line(text: &Value) -> String {
    text.as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|")
}
