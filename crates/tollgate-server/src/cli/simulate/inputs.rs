//! Which arguments are policies, and which are logs.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use anyhow::anyhow;
use tollgate::{CountDenied, OnStoreFailure};
use tollgate_policy::{Config, Policies};

use super::failure::SimulateFailure;
use crate::args::SimulateArgs;
use crate::settings::flags;

/// Bytes of a file that are looked at.
const LOOK: u64 = 64 << 10;

/// The key of `--limit` if there is no `--key`: the address of the client, as for a proxy that asks a service.
const KEY: &str = "ip";

/// The keys of a policy file.
const KEYS: [&str; 8] = ["store", "mode", "defaults", "tiers", "unmatched", "allow", "deny", "policies"];

const SECOND: &str =
    "it is a policy file, and only one is replayed; to compare with another, name it as --baseline";

/// The policies to replay, and the logs.
pub(super) struct Inputs<'a> {
    pub(super) policies: Policies,
    /// Whether they are those of a file.
    pub(super) is_from_file: bool,
    pub(super) logs: &'a [std::ffi::OsString],
}

/// What an argument names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputKind {
    Policies,
    Log,
    /// It cannot be told, for this reason.
    Unknown(&'static str),
}

impl<'a> Inputs<'a> {
    /// Tells policies and logs apart. Without policies, all arguments are logs.
    pub(super) fn of(args: &'a SimulateArgs) -> Result<Self, SimulateFailure> {
        let paths = &args.paths;
        if let Some(config) = &args.config {
            no_policies(paths, SECOND)?;
            return Self::from_file(config, paths);
        }
        if !args.limits.is_empty() {
            no_policies(paths, "it is a policy file, and --limit stands in place of one; leave one out")?;
            return Self::from_flags(args);
        }
        let Some((first, logs)) = paths.split_first() else { return Self::without_policies(paths) };
        let shown = Path::new(first).display();
        match InputKind::of(first) {
            InputKind::Policies if logs.is_empty() => {
                Err(SimulateFailure::usage(anyhow!("{shown} holds policies; name a log after it")))
            }
            InputKind::Policies => {
                no_policies(logs, SECOND)?;
                Self::from_file(Path::new(first), logs)
            }
            InputKind::Unknown(why) if !logs.is_empty() => Err(SimulateFailure::usage(anyhow!(
                "{shown} {why}, so it may be a policy file or a log: write `--config {shown}` for policies, or name another log \
                 first"
            ))),
            InputKind::Log | InputKind::Unknown(_) => {
                no_policies(logs, "it is a policy file; name it before the logs, or as --config")?;
                Self::without_policies(paths)
            }
        }
    }

    fn from_file(path: &Path, logs: &'a [std::ffi::OsString]) -> Result<Self, SimulateFailure> {
        Ok(Self { policies: Config::load(path)?.into_policies(), is_from_file: true, logs })
    }

    fn from_flags(args: &'a SimulateArgs) -> Result<Self, SimulateFailure> {
        let limits = args.limits.iter().flat_map(|limits| limits.0.clone()).collect();
        let default = [KEY.to_owned()];
        let key = if args.key.is_empty() { &default[..] } else { &args.key };
        let policies = flags::policies(limits, key, CountDenied::No, OnStoreFailure::Open);
        Ok(Self {
            policies: policies.map_err(SimulateFailure::usage)?,
            is_from_file: false,
            logs: &args.paths,
        })
    }

    fn without_policies(logs: &'a [std::ffi::OsString]) -> Result<Self, SimulateFailure> {
        let policies = Policies::of([]).map_err(SimulateFailure::usage)?;
        Ok(Self { policies, is_from_file: false, logs })
    }
}

/// An error if one of the arguments is a policy file. Folders may hold logs and policies.
pub(super) fn no_policies(arguments: &[std::ffi::OsString], why: &str) -> Result<(), SimulateFailure> {
    let is_file =
        |path: &&std::ffi::OsString| Path::new(path).is_file() && InputKind::of(path) == InputKind::Policies;
    match arguments.iter().find(is_file) {
        Some(path) => Err(SimulateFailure::usage(anyhow!("{}: {why}", Path::new(path).display()))),
        None => Ok(()),
    }
}

impl InputKind {
    /// By the name, and otherwise by the content: never by the place alone.
    fn of(argument: &OsStr) -> Self {
        let path = Path::new(argument);
        if argument == "-" {
            return Self::Log;
        }
        let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
        match fs::metadata(path) {
            // The error names the file.
            _ if is_yaml => Self::Policies,
            Ok(of) if of.is_dir() => Self::of_folder(path),
            Ok(of) if of.is_file() => Self::of_file(path).unwrap_or(Self::Log),
            Ok(_) => Self::Unknown("can be read only once"),
            Err(_) if argument.as_encoded_bytes().iter().any(|byte| matches!(byte, b'*' | b'?' | b'[')) => {
                Self::Log
            }
            Err(_) => Self::Unknown("cannot be read"),
        }
    }

    /// A folder is one of policies if it has a file that `serve --config` would read.
    fn of_folder(path: &Path) -> Self {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let has_yaml = entries
            .map(|entry| entry.path())
            .any(|path| path.extension().is_some_and(|end| end == "yaml" || end == "yml") && path.is_file());
        if has_yaml { Self::Policies } else { Self::Log }
    }

    fn of_file(path: &Path) -> io::Result<Self> {
        let mut begin = Vec::new();
        File::open(path)?.take(LOOK).read_to_end(&mut begin)?;
        Ok(Self::of_text(&begin))
    }

    /// A policy file begins with one of its keys, or with a mistaken one: a word and a colon alone on a line, before
    /// what can be its value.
    fn of_text(begin: &[u8]) -> Self {
        let text = String::from_utf8_lossy(begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begin));
        let mut lines = text.lines().map(without_marks).filter(|line| !is_comment(line));
        let Some(line) = lines.next() else { return Self::Unknown("is empty") };
        let next = lines.next();
        if line.starts_with('{') {
            return Self::of_object(&text, line, next);
        }
        let is_listed = line.starts_with("- ");
        let line = line.strip_prefix("- ").unwrap_or(line);
        if let Some(key) = line.strip_prefix("? ") {
            return if KEYS.contains(&unquoted(key)) { Self::Policies } else { Self::Log };
        }
        let Some((key, value)) = pair(line) else { return Self::Log };
        let is_word = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        // No file has a key twice.
        let is_known = KEYS.contains(&key) && next.and_then(pair).is_none_or(|(other, _)| other != key);
        let is_key = match is_comment(value) {
            true => is_word && next.is_none_or(|next| is_value(next) || pair(next).is_some()),
            false => is_known || is_listed && key == "name",
        };
        if is_key { Self::Policies } else { Self::Log }
    }

    /// JSON is YAML, and may have its first key on the next line. Each line of a log may be an object, too.
    fn of_object(text: &str, line: &str, next: Option<&str>) -> Self {
        let ends_and_begins = |(line, next): (&str, &str)| line.ends_with('}') && next.starts_with('{');
        let are_many = text.lines().zip(text.lines().skip(1)).any(ends_and_begins);
        let is_known = match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text) {
            Ok(object) => {
                object.contains_key("policies") || object.keys().all(|key| KEYS.contains(&key.as_str()))
            }
            Err(_) => {
                let begin = if line == "{" { next.unwrap_or_default() } else { line.trim_start_matches('{') };
                KEYS.contains(&begin.split_once(':').map_or("", |(key, _)| unquoted(key)))
            }
        };
        if is_known && !are_many { Self::Policies } else { Self::Log }
    }
}

/// A line of a document without what can stand before it: `---`, and the tag of a map.
fn without_marks(line: &str) -> &str {
    let mut line = line.trim_end();
    for mark in ["---", "!!map"] {
        let rest = line.strip_prefix(mark).filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        line = rest.map_or(line, str::trim_start);
    }
    line
}

/// Whether a line or a value is empty, a comment or a directive.
fn is_comment(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || text.starts_with(['#', '%'])
}

/// The key and the value of a line. YAML demands a space between them.
fn pair(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let value = Some(value).filter(|value| value.is_empty() || value.starts_with([' ', '\t']))?;
    Some((unquoted(key), value.trim())).filter(|(key, _)| !key.contains([' ', '\t', '[', '"']))
}

/// Whether the line after a key can belong to its value: it is an item of a list, or a pair that stands deeper.
fn is_value(line: &str) -> bool {
    let inner = line.trim_start();
    let is_deeper = inner.len() < line.len();
    inner == "-"
        || inner.starts_with("- ")
        || is_deeper && (pair(inner).is_some() || inner.starts_with(['{', '[', '&', '!', '<']))
}

fn unquoted(key: &str) -> &str {
    key.trim().trim_matches(['"', '\''])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_told_from_logs_by_their_first_key() {
        for text in [
            "policies:\n  - name: a\n",
            "# Limits\n---\n\npolicies: []\n",
            "\u{feff}store: redis://a\r\n",
            "{ policies: [] }",
            "{\n  \"policies\": []\n}",
            "{\"policies\":[]}",
            // With a mistake, they are still no log.
            "polices:\n  - name: a\n",
            "- name: a\n",
            "deny : { ip: [192.0.2.1] }\n",
            "--- {policies: []}\n",
            "--- # Limits\npolicies: []\n",
            "!!map\npolicies: []\n",
            "--- !!map {policies: []}\n",
            "? policies\n: []\n",
            "tiers:\n  gold: { limit: 5 }\npolicies:\n- name: a\n",
            "policies:\n",
            "{\"store\": \"redis://a\", \"policies\": []}\n",
            "{\n\"store\": \"redis://a\",\n\"policies\": [\n{\"name\": \"a\"},\n{\"name\": \"b\"}\n]\n}\n",
        ] {
            assert_eq!(InputKind::of_text(text.as_bytes()), InputKind::Policies, "{text}");
        }
        for text in [
            "192.0.2.1 - - [16/Nov/2026:09:45:11 +0000] \"GET / HTTP/1.1\" 200 512\n",
            "- - - [16/Nov/2026:09:45:11 +0000] \"GET / HTTP/1.1\" 200 512\n",
            "::1 - - [16/Nov/2026:09:45:11 +0000] \"GET / HTTP/1.1\" 200 512\n",
            "#Version: 1.0\n#Fields: date time cs-uri-stem\n2026-11-16 09:45:11 /\n",
            "{\"ip\":\"192.0.2.1\",\"path\":\"/\"}\n{\"ip\":\"192.0.2.1\",\"path\":\"/\"}\n",
            "{\n  \"ip\": \"192.0.2.1\"\n}\n",
            "INFO:     127.0.0.1:54321 - \"GET / HTTP/1.1\" 200 OK\n",
            "time:2026-11-16T09:45:11Z\tip:192.0.2.1\tpath:/\n",
            "\u{1f}\u{8b}\u{8}",
            // Their first field or heading is one that policies have, too.
            "{\"store\":\"berlin\",\"time\":1}\n{\"store\":\"bonn\",\"time\":2}\n",
            "{\"store\":\"berlin\",\"time\":1}\n",
            "{\n  \"mode\": \"a\",\n  \"time\": 1\n}\n{\n  \"mode\": \"a\",\n  \"time\": 2\n}\n",
            "requests:\n192.0.2.1 - - [16/Nov/2026:09:45:11 +0000] \"GET / HTTP/1.1\" 200 512\n",
            "deny:\n  192.0.2.1 - - [16/Nov/2026:09:45:11 +0000] \"GET / HTTP/1.1\" 200 512\n",
            "requests:\n{\"ip\":\"192.0.2.1\"}\n",
            "mode:a\ttime:2026-11-16T09:45:11Z\tip:192.0.2.1\n",
            "deny: tcp 192.0.2.1\ndeny: tcp 192.0.2.2\n",
        ] {
            assert_eq!(InputKind::of_text(text.as_bytes()), InputKind::Log, "{text}");
        }
        assert_eq!(InputKind::of_text(b"\n# nothing\n"), InputKind::Unknown("is empty"));
    }
}
