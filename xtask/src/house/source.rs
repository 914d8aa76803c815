//! Files of Rust: their code without comments and texts, and their comments.

use std::fs;

use anyhow::{Context, Result};

use crate::repository;

/// What begins the tests at the end of a file.
const TESTS: &str = "#[cfg(test)]\nmod tests {";

/// A file of a crate.
#[derive(Debug)]
pub(super) struct SourceFile {
    /// From the root of the repository.
    pub(super) path: String,
    text: String,
    /// The text with spaces in place of comments and of the contents of string literals.
    pub(super) code: String,
    /// The index of the first line of the tests.
    tests: usize,
}

impl SourceFile {
    /// Reads all files that are committed or new.
    pub(super) fn read_all() -> Result<Vec<Self>> {
        let mut paths = repository::files(&["crates", "xtask", "bench"])?;
        paths.retain(|path| path.ends_with(".rs") && !path.contains("/messages/"));
        let read = |path: String| {
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
            Ok(Self::new(path, text))
        };
        paths.into_iter().map(read).collect()
    }

    pub(super) fn new(path: String, text: String) -> Self {
        let code = code(&text);
        let is_all_tests = path.contains("/tests/") || path.ends_with("tests.rs");
        let tests = if is_all_tests {
            0
        } else {
            code.find(TESTS).map_or(usize::MAX, |at| code[..at].lines().count())
        };
        Self { path, text, code, tests }
    }

    /// The folder of its crate: `crates/tollgate`.
    pub(super) fn package(&self) -> &str {
        self.path.split("/src/").next().unwrap_or_default()
    }

    /// Returns the path of its module in its crate, if it is a part of the product.
    pub(super) fn module(&self) -> Option<Vec<&str>> {
        let (_, file) = self.path.split_once("/src/")?;
        let mut module: Vec<&str> = file.strip_suffix(".rs")?.split('/').collect();
        if matches!(module[..], [.., "mod"] | ["lib" | "main"]) {
            module.pop();
        }
        (self.tests > 0).then_some(module)
    }

    /// Returns its code without tests.
    pub(super) fn product(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.lines().enumerate().take(self.tests)
    }

    /// Whether a line is in a test.
    pub(super) fn is_test(&self, line: usize) -> bool {
        line >= self.tests
    }

    /// Whether its tests stop tokio's clock.
    pub(super) fn pauses_time(&self) -> bool {
        ["start_paused", "time::pause("].iter().any(|word| self.code.contains(word))
    }

    /// Whether a comment that begins with these words stands before this line, or before the line that it continues.
    pub(super) fn has_comment_before(&self, line: usize, words: &str) -> bool {
        let lines: Vec<&str> = self.text.lines().take(line).collect();
        let comment = |lines: &[&str]| {
            let lines = lines.iter().rev().map_while(|line| line.trim_start().strip_prefix("// ")).last();
            lines.is_some_and(|first| first.starts_with(words))
        };
        comment(&lines)
            || lines.split_last().is_some_and(|(last, lines)| last.ends_with('=') && comment(lines))
    }

    /// Returns each comment with the number of its first line.
    pub(super) fn comments(&self) -> Vec<(usize, String)> {
        let mut blocks: Vec<(usize, String)> = Vec::new();
        let mut last = None;
        for (number, line) in (1..).zip(self.text.lines()) {
            let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
            let comment = comment.trim_start_matches(['/', '!']).trim();
            match blocks.last_mut() {
                Some((_, text)) if last == Some(number - 1) && !comment.is_empty() => {
                    text.push(' ');
                    text.push_str(comment);
                }
                _ => blocks.push((number, comment.to_owned())),
            }
            last = Some(number);
        }
        blocks
    }
}

/// Replaces comments and the contents of string literals by spaces. Lines stay where they are.
fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '"' => quoted_length(rest),
            'r' if !code.ends_with(|c: char| c.is_alphanumeric() || c == '_') => {
                raw_length(rest).unwrap_or(1)
            }
            '\'' if rest[1..].starts_with('\\') => rest[3..].find('\'').map_or(1, |end| end + 4),
            '\'' if rest.chars().nth(2) == Some('\'') => rest.chars().take(3).map(char::len_utf8).sum(),
            _ => c.len_utf8(),
        };
        let (part, after) = rest.split_at(length);
        if length == c.len_utf8() {
            code.push(c);
        } else {
            code.extend(part.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        }
        rest = after;
    }
    code
}

/// The length of the string literal at the start.
fn quoted_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !is_escaped => return at + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

/// The length of the raw string literal at the start, if there is one.
fn raw_length(text: &str) -> Option<usize> {
    let hashes = text[1..].len() - text[1..].trim_start_matches('#').len();
    text[1 + hashes..].starts_with('"').then_some(())?;
    let end = format!("\"{}", "#".repeat(hashes));
    let begin = hashes + 2;
    Some(text[begin..].find(&end).map_or(text.len(), |at| begin + at + end.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_has_no_comments_and_no_texts() {
        let text =
            "let a = \"x\\\"//y\"; // no\nlet b = r#\"z\"\"#; let c = '\"'; fn d<'a>() {} /* e */ for f\n";
        let lines: Vec<String> =
            code(text).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines, ["let a = ;", "let b = ; let c = ; fn d<'a>() {} for f"]);
    }

    #[test]
    fn a_file_knows_its_module_and_its_tests() {
        let text = "struct A;\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        let file = SourceFile::new("crates/a/src/b/mod.rs".to_owned(), text.to_owned());
        assert_eq!((file.package(), file.module()), ("crates/a", Some(vec!["b"])));
        assert_eq!(file.product().filter(|(_, line)| !line.is_empty()).count(), 1);
        assert!(!file.is_test(0) && file.is_test(4));
        let tests = SourceFile::new("crates/a/src/b/tests.rs".to_owned(), String::new());
        assert_eq!(tests.module(), None);
    }
}
