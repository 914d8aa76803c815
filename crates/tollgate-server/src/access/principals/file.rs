//! The file of principals: one JSON object per line.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use tollgate::Timestamp;
use tollgate_policy::{ConfigError, Policy, Position, Problem, ProblemKind, Sources};

use super::{Credential, Principal};
use crate::access::scope::Scope;
use crate::access::token::Digest;
use crate::live::text_files::{FileFormat, TextFiles, TextPaths};
use crate::request::json::{self, BadField};

/// Room for four hundred bytes per principal.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Far more than any service issues.
const MAX_PRINCIPALS: usize = 10_000;

/// Reporting stops at this number, because so many problems have one cause.
const MAX_PROBLEMS: usize = 100;

/// See the [module](self).
pub(crate) type PrincipalFile = TextFiles<PrincipalFormat>;

/// One principal a line.
#[derive(Debug)]
pub(crate) struct PrincipalFormat;

impl PrincipalFile {
    /// Reads the file for the first time.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not valid.
    pub(crate) fn load(path: &Path) -> Result<(Self, Vec<Principal>), ConfigError> {
        Self::first(TextPaths::One(path.into()), |sources| Ok((PrincipalFormat, parse_all(sources)?)))
    }
}

impl FileFormat for PrincipalFormat {
    type Content = Vec<Principal>;

    fn parse(&self, sources: &Sources) -> Result<Vec<Principal>, ConfigError> {
        parse_all(sources)
    }
}

/// A line in its written form. Errors never repeat its values, because a token may be in the wrong field.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PrincipalLine {
    pub(crate) name: Name,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) sha256: Option<Sha256>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) san: Option<San>,
    pub(crate) scopes: Vec<ScopeName>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) policies: Option<Vec<Name>>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<Expiry>,
}

impl PrincipalLine {
    /// The line of a token.
    pub(crate) fn of_token(
        token: &str,
        name: &str,
        scopes: &[Scope],
        policies: Option<&[String]>,
        expires: Option<jiff::Timestamp>,
    ) -> Self {
        Self {
            name: Name(name.into()),
            sha256: Some(Sha256(Digest::of(token.as_bytes()))),
            san: None,
            scopes: scopes.iter().copied().map(ScopeName).collect(),
            policies: policies.map(|names| names.iter().map(|name| Name(name.as_str().into())).collect()),
            expires: expires.map(Expiry),
        }
    }
}

/// Reads a value and refuses `null`, which would silently lift a restriction.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// The expected form of a text, for errors.
pub(crate) type ExpectedValue = &'static str;

macro_rules! text {
    ($(#[$doc:meta])* $name:ident($value:ty), $read:expr, $write:expr, $expected:expr) => {
        $(#[$doc])*
        #[derive(Clone, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub(crate) struct $name(pub(crate) $value);

        impl TryFrom<String> for $name {
            type Error = ExpectedValue;

            fn try_from(text: String) -> Result<Self, ExpectedValue> {
                let read: fn(String) -> Option<$value> = $read;
                read(text).map(Self).ok_or($expected)
            }
        }

        impl From<$name> for String {
            fn from($name(value): $name) -> Self {
                let write: fn($value) -> String = $write;
                write(value)
            }
        }
    };
}

text!(
    /// The name of a principal or of a policy.
    Name(Box<str>),
    |text| Policy::is_name(&text).then(|| text.into()),
    Into::into,
    "expected 1 to 64 letters, digits, `-`, `_` and `.`"
);
text!(
    /// The digest of a token, in hexadecimal digits.
    Sha256(Digest),
    |text| Digest::parse(&text),
    Digest::to_hex,
    "expected the SHA-256 of a token, in 64 hexadecimal digits"
);
text!(
    /// A subject alternative name.
    San(Box<str>),
    |text| (1..=1024).contains(&text.len()).then(|| text.into()),
    Into::into,
    "expected a name of 1 to 1024 bytes, such as spiffe://prod/web or web.example"
);
text!(
    /// The name of a scope.
    ScopeName(Scope),
    |text| Scope::of_name(&text),
    |scope| scope.name().to_owned(),
    "expected check, peek, count, change, read, metrics, policies or overrides"
);
text!(
    /// When a principal expires.
    Expiry(jiff::Timestamp),
    |text| text.parse().ok(),
    |time| time.to_string(),
    "expected a time and its offset, such as 2027-01-01T00:00:00Z"
);

/// Parses the only file among these.
fn parse_all(sources: &Sources) -> Result<Vec<Principal>, ConfigError> {
    let file = sources.names().zip(sources.texts()).next();
    let (name, text) = file.unwrap_or_default();
    parse(name, text)
}

/// Reads all lines.
///
/// # Errors
///
/// If a line is invalid; the error names every such line.
pub(crate) fn parse(file: &str, text: &str) -> Result<Vec<Principal>, ConfigError> {
    let mut problems = Vec::new();
    let mut problem = |line, column, detail: &dyn fmt::Display| {
        problems
            .push(Problem::new(Position::new(line, column), ProblemKind::Other(detail.to_string().into())));
    };
    if text.len() > MAX_BYTES {
        problem(1, 1, &format_args!("the file is larger than {} MiB", MAX_BYTES / 1024 / 1024));
        return Err(ConfigError::invalid(file, problems));
    }
    let mut principals = Vec::new();
    let (mut names, mut credentials) = (HashMap::new(), HashMap::new());
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    for (number, line) in lines.filter(|(_, line)| !is_skipped(line)).take(MAX_PRINCIPALS + 1) {
        if principals.len() == MAX_PRINCIPALS {
            problem(number, 1, &format_args!("there are more than {MAX_PRINCIPALS} principals"));
            break;
        }
        let principal = match read(line) {
            Ok(principal) => principal,
            Err(Wrong { column, detail }) => {
                problem(number, column, &detail);
                continue;
            }
        };
        if let Some(first) = again(&mut names, principal.name.clone(), number) {
            let detail =
                format_args!("duplicate principal `{}`, already given in line {first}", principal.name);
            problem(number, column_of(line, "name"), &detail);
        }
        // Two principals with one token could not be told apart.
        let (field, credential) = match &principal.credential {
            Credential::Token(digest) => ("sha256", digest.to_hex()),
            Credential::Certificate(name) => ("san", name.to_string()),
        };
        if let Some(first) = again(&mut credentials, (field, credential), number) {
            let detail = format_args!("duplicate `{field}`, already given in line {first}");
            problem(number, column_of(line, field), &detail);
        }
        principals.push(principal);
    }
    if principals.is_empty() && problems.is_empty() {
        let detail = "there are no principals: add one with `tollgate token new`";
        problems.push(Problem::new(Position::new(1, 1), ProblemKind::Other(detail.into())));
    }
    if problems.is_empty() {
        return Ok(principals);
    }
    problems.truncate(MAX_PROBLEMS);
    Err(ConfigError::invalid(file, problems))
}

/// Returns the line of the principal with this name.
pub(crate) fn line_of(name: &str, text: &str) -> Option<usize> {
    let mut lines = text.lines().zip(1..).filter(|(line, _)| !is_skipped(line));
    lines
        .find(|(line, _)| read(line).is_ok_and(|principal| *principal.name == *name))
        .map(|(_, number)| number)
}

/// Returns the text to append to a file so that it also has this line.
///
/// # Errors
///
/// If the file would not be valid then.
pub(crate) fn addition(file: &str, text: &str, line: &str) -> Result<String, ConfigError> {
    let line_end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let addition = format!("{line_end}{line}\n");
    parse(file, &format!("{text}{addition}")).map(|_| addition)
}

/// Remembers the line of this value. Returns an earlier line with the same value.
fn again<K: std::hash::Hash + Eq>(lines: &mut HashMap<K, usize>, key: K, line: usize) -> Option<usize> {
    match lines.entry(key) {
        Entry::Occupied(first) => Some(*first.get()),
        Entry::Vacant(place) => {
            place.insert(line);
            None
        }
    }
}

fn is_skipped(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

/// The problem of a line, and the column where it is.
struct Wrong {
    column: usize,
    detail: String,
}

fn read(line: &str) -> Result<Principal, Wrong> {
    let wrong =
        |field: &str, detail: &str| Wrong { column: column_of(line, field), detail: detail.to_owned() };
    serde_json::from_str::<IgnoredAny>(line).map_err(|error| {
        // The bytes before the first wrong one.
        let before = line.get(..error.column().saturating_sub(1)).unwrap_or_default();
        Wrong { column: before.chars().count() + 1, detail: "invalid JSON from here on".to_owned() }
    })?;
    let read = json::read::<PrincipalLine>(line.as_bytes());
    let PrincipalLine { name, sha256, san, scopes, policies, expires } =
        read.map_err(|BadField { field, detail }| wrong(&field, &format!("{field}: {detail}")))?;
    let credential = match (sha256, san) {
        (Some(Sha256(digest)), None) => Credential::Token(digest),
        (None, Some(San(name))) => Credential::Certificate(name),
        (Some(_), Some(_)) => return Err(wrong("san", "a principal has either `sha256` or `san`, not both")),
        (None, None) => return Err(wrong("", "a principal needs `sha256` (of a token) or `san`")),
    };
    if scopes.is_empty() {
        return Err(wrong("scopes", "scopes: expected at least one"));
    }
    let policies = policies.map(|names| names.into_iter().map(|Name(name)| name).collect::<BTreeSet<_>>());
    if policies.as_ref().is_some_and(BTreeSet::is_empty) {
        return Err(wrong("policies", "policies: expected at least one; without `policies`, it may use all"));
    }
    Ok(Principal {
        name: name.0.into(),
        credential,
        scopes: scopes.into_iter().map(|ScopeName(scope)| scope).collect(),
        policies: policies.map(Arc::new),
        expires: expires.map(|Expiry(time)| Timestamp::from_unix_millis(time.as_millisecond())),
    })
}

/// Returns the column at which a field begins, or the first column if the line lacks the field.
fn column_of(line: &str, field: &str) -> usize {
    let name = field.split(['.', '[']).next().unwrap_or_default();
    let before = line.find(&format!("\"{name}\"")).and_then(|place| line.get(..place));
    before.map_or(1, |before| before.chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn line(more: &str) -> String {
        format!(r#"{{"name": "web", "sha256": "{ABC}", "scopes": ["check"]{more}}}"#)
    }

    #[track_caller]
    fn says(text: &str, error: &str) {
        assert_eq!(parse("t.jsonl", text).unwrap_err().to_string(), error, "{text}");
    }

    #[test]
    fn a_principal_is_a_line() {
        let san = r#"{"name": "job", "san": "spiffe://prod/job", "scopes": ["read", "policies"]}"#;
        let text = format!("# comment\n\n  \n{}\r\n{san}", line(r#", "policies": ["a", "b"]"#));
        let [web, job] = &parse("t.jsonl", &text).unwrap()[..] else { panic!("two") };
        assert_eq!((&*web.name, &web.credential), ("web", &Credential::Token(Digest::of(b"abc"))));
        assert_eq!(web.policies.as_ref().map(|names| names.len()), Some(2));
        assert!(web.scopes.has(Scope::Check) && !web.scopes.has(Scope::Peek));
        assert_eq!(job.credential, Credential::Certificate("spiffe://prod/job".into()));
        assert!(job.scopes.has(Scope::Metrics), "who may read may read metrics");
    }

    #[test]
    fn an_error_names_line_and_column_and_repeats_nothing() {
        let secret = "tg_canary";
        for (more, error) in [
            (
                r#", "x": "tg_canary""#,
                "116: x: unknown field `x`, expected one of `name`, `sha256`, `san`, `scopes`, `policies`, `expires`",
            ),
            (
                r#", "expires": "tg_canary""#,
                "116: expires: expected a time and its offset, such as 2027-01-01T00:00:00Z",
            ),
            (r#", "expires": null"#, "116: expires: expected a string"),
            (r#", "policies": null"#, "116: policies: expected a list"),
            (r#", "policies": "tg_canary""#, "116: policies: expected a list"),
            (
                r#", "policies": []"#,
                "116: policies: expected at least one; without `policies`, it may use all",
            ),
            (
                r#", "policies": ["a", "tg:canary"]"#,
                "116: policies[1]: expected 1 to 64 letters, digits, `-`, `_` and `.`",
            ),
            (r#", "san": "x""#, "116: a principal has either `sha256` or `san`, not both"),
        ] {
            says(&format!("\n{}\n", line(more)), &format!("t.jsonl:2:{error}"));
            assert!(!error.contains(secret));
        }
        says("{\"name\": \"ä\", \"sha256\": tg_canary}", "t.jsonl:1:26: invalid JSON from here on");
        says(
            r#"{"name": "web", "sha256": "tg_canary", "scopes": ["check"]}"#,
            "t.jsonl:1:17: sha256: expected the SHA-256 of a token, in 64 hexadecimal digits",
        );
        says(&line("").replace("[\"check\"]", "[]"), "t.jsonl:1:95: scopes: expected at least one");
        says(
            &line("").replace("check", "tg_canary"),
            "t.jsonl:1:95: scopes[0]: expected check, peek, count, change, read, metrics, policies or overrides",
        );
        says("[]", "t.jsonl:1:1: body: expected an object");
        says("# nobody\n", "t.jsonl:1:1: there are no principals: add one with `tollgate token new`");
    }

    #[test]
    fn names_and_tokens_are_given_once() {
        let (one, other) = (line(""), line("").replace("web", "web2"));
        says(&format!("{one}\n{other}"), "t.jsonl:2:18: duplicate `sha256`, already given in line 1");
        let renamed = one.replace("ba78", "ffff");
        says(&format!("{one}\n{renamed}"), "t.jsonl:2:2: duplicate principal `web`, already given in line 1");
        let upper = other.replace(ABC, &ABC.to_uppercase());
        says(&format!("{one}\n{upper}"), "t.jsonl:2:18: duplicate `sha256`, already given in line 1");
    }

    #[test]
    fn a_file_has_its_bounds() {
        let lines = |count: usize| {
            let one = |index| {
                line("").replace("web", &format!("p{index}")).replace("ba7816bf", &format!("{index:08x}"))
            };
            (0..count).map(one).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(parse("t.jsonl", &lines(MAX_PRINCIPALS)).unwrap().len(), MAX_PRINCIPALS);
        says(&lines(MAX_PRINCIPALS + 1), "t.jsonl:10001:1: there are more than 10000 principals");
        says(&" ".repeat(MAX_BYTES + 1), "t.jsonl:1:1: the file is larger than 4 MiB");
    }
}
