//! The labels of metrics, as envoyproxy/ratelimit and its mapping for Prometheus make them.

use super::draw::{AskedDescriptor, Branch};
use super::model::Reader;

/// The names of all levels are joined by dots, and divided there again. `path` is empty if the limit came with the
/// descriptor.
pub(crate) fn labels(domain: &str, descriptor: &AskedDescriptor, path: &[&Branch], reader: Reader) -> String {
    let levels: Vec<String> = match path {
        // Its values may be of clients, and no file asks for them.
        [] if reader != Reader::Original => descriptor.entries.iter().map(|(key, _)| key.clone()).collect(),
        [] => {
            let levels = descriptor.entries.iter().map(|(key, value)| joined(key, value));
            // It writes a dot behind what is not empty.
            levels.skip_while(String::is_empty).collect()
        }
        _ => levels(descriptor, path),
    };
    let text = sanitized(&format!("{domain}.{}", levels.join(".")));
    let labels = ["domain", "key1", "key2"].iter().zip(text.split('.'));
    labels.map(|(label, value)| format!("{label}=\"{value}\"")).collect::<Vec<_>>().join(",")
}

/// envoyproxy/ratelimit creates such limits again for metrics with values, and forgets their metadata.
pub(crate) fn loses_metadata(descriptor: &AskedDescriptor, path: &[&Branch]) -> bool {
    let last = path[path.len() - 1];
    let named = path.iter().map(|branch| joined(&branch.key, branch.value.as_deref().unwrap_or_default()));
    if last.detailed { last.children.0.is_empty() } else { named.ne(levels(descriptor, path)) }
}

fn levels(descriptor: &AskedDescriptor, path: &[&Branch]) -> Vec<String> {
    let each = || descriptor.entries.iter().zip(path);
    let is_any_shared = each().any(|((_, value), branch)| is_shared(branch, value));
    let is_detailed = path[path.len() - 1].detailed;
    each().map(|((key, value), branch)| level(branch, is_detailed, is_any_shared, key, value)).collect()
}

fn joined(key: &str, value: &str) -> String {
    if value.is_empty() { key.to_owned() } else { format!("{key}_{value}") }
}

/// A value that is written like the pattern is found as a value.
fn is_shared(branch: &Branch, value: &str) -> bool {
    branch.share && branch.value.as_deref() != Some(value)
}

fn level(branch: &Branch, is_detailed: bool, is_any_shared: bool, key: &str, value: &str) -> String {
    let is_open = branch.value.as_ref().is_none_or(|pattern| pattern.contains('*'));
    match &branch.value {
        Some(pattern) if is_shared(branch, value) => joined(key, pattern),
        _ if is_detailed && !is_any_shared => format!("{key}_{value}"),
        _ if is_detailed || branch.tells && is_open => joined(key, value),
        pattern => joined(key, pattern.as_deref().unwrap_or_default()),
    }
}

/// `:` and `|` become `_`, and so do the dots of whatever looks like an IPv4 address.
fn sanitized(text: &str) -> String {
    let mut text: Vec<char> = text.chars().map(|c| if ":|".contains(c) { '_' } else { c }).collect();
    let mut start = 0;
    while start < text.len() {
        match numbers(&text[start..], 4) {
            None => start += 1,
            Some(end) => {
                let address = text[start..start + end].iter_mut();
                address.filter(|c| **c == '.').for_each(|dot| *dot = '_');
                start += end;
            }
        }
    }
    text.into_iter().collect()
}

/// Where as many numbers of up to three digits end, with dots between them.
fn numbers(text: &[char], left: usize) -> Option<usize> {
    (1..=3).rev().find_map(|length| {
        let digits = text.get(..length)?;
        let rest = &text[length..];
        match digits.iter().all(char::is_ascii_digit) {
            false => None,
            true if left == 1 => Some(length),
            true if rest.first() == Some(&'.') => Some(length + 1 + numbers(&rest[1..], left - 1)?),
            true => None,
        }
    })
}
