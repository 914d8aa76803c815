//! Names of types.

use std::collections::BTreeMap;

use super::source::SourceFile;

/// Words of programs that mean the same everywhere. A crate may have each once, however many crates there are.
const IDIOMS: [&str; 10] =
    ["Settings", "Error", "Request", "Response", "Report", "Reader", "Kind", "Table", "Node", "Step"];

/// How many crates may have a type of one name.
const MAX_CRATES: usize = 2;

/// What participles end with, and some nouns.
const ENDINGS: [&str; 20] = [
    "ed", "en", "wn", "ing", "ept", "eld", "aid", "ound", "old", "ade", "ent", "ant", "ust", "ought", "un",
    "one", "ead", "oken", "eft", "ost",
];

/// Nouns with such an ending.
const NOUNS: [&str; 37] = [
    "Argument",
    "Beginning",
    "Client",
    "Content",
    "Cost",
    "Encoding",
    "Ending",
    "Event",
    "Feed",
    "Field",
    "Finding",
    "Fold",
    "Folding",
    "Greeting",
    "Ground",
    "Grouping",
    "Head",
    "Hold",
    "Instant",
    "Judgement",
    "Matching",
    "Meaning",
    "Moment",
    "Naming",
    "Opening",
    "Overrun",
    "Reading",
    "Ruling",
    "Run",
    "Screen",
    "Segment",
    "Setting",
    "Standing",
    "Token",
    "Warning",
    "Wrapping",
    "Zone",
];

/// Where types of one name stand, by crate.
type NamePlaces<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// Returns names that stand for several types in a crate, or for types of more than two crates.
pub(super) fn repeated(files: &[SourceFile]) -> Vec<String> {
    let is_repeated = |(name, places): &(&str, NamePlaces<'_>)| {
        places.values().any(|files| files.len() > 1) || places.len() > MAX_CRATES && !IDIOMS.contains(name)
    };
    types(files).into_iter().filter(is_repeated).map(|(name, places)| describe(name, &places)).collect()
}

/// Returns names that consist of a participle.
pub(super) fn participles(files: &[SourceFile]) -> Vec<String> {
    let is_participle = |name: &str| {
        let is_one_word = !name.chars().skip(1).any(char::is_uppercase);
        is_one_word && ENDINGS.iter().any(|ending| name.ends_with(ending)) && !NOUNS.contains(&name)
    };
    let types = types(files).into_iter().filter(|(name, _)| is_participle(name));
    types.map(|(name, places)| describe(name, &places)).collect()
}

fn describe(name: &str, places: &NamePlaces<'_>) -> String {
    format!("{name}: {}", places.values().flatten().copied().collect::<Vec<_>>().join(", "))
}

/// Returns the types of the product that stand outside of functions and inner modules.
fn types(files: &[SourceFile]) -> BTreeMap<&str, NamePlaces<'_>> {
    let mut types: BTreeMap<&str, NamePlaces<'_>> = BTreeMap::new();
    let files = files.iter().filter(|file| file.module().is_some() && !file.path.starts_with("bench/"));
    for file in files {
        for name in file.product().filter_map(|(_, line)| type_name(line)) {
            types.entry(name).or_default().entry(file.package()).or_default().push(&file.path);
        }
    }
    types
}

/// Returns the name of the type that a line without indentation declares.
fn type_name(line: &str) -> Option<&str> {
    let words = line.strip_prefix("pub").map_or(line, |line| match line.strip_prefix('(') {
        Some(scope) => scope.split_once(')').map_or(line, |(_, after)| after),
        None => line,
    });
    let words = words.strip_prefix(' ').unwrap_or(words);
    let words = words.strip_prefix("unsafe ").unwrap_or(words);
    let after =
        ["struct ", "enum ", "trait ", "type ", "union "].iter().find_map(|kind| words.strip_prefix(kind))?;
    after.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> Vec<SourceFile> {
        files.iter().map(|(path, text)| SourceFile::new((*path).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn a_name_stands_once_in_a_crate_and_in_two_crates() {
        let files = files(&[
            ("crates/a/src/b.rs", "pub(crate) struct Twice;\nenum Shared {}\npub struct Kind;\n"),
            ("crates/a/src/c.rs", "pub trait Twice {}\nmod d {\n    struct Shared;\n}\n"),
            ("crates/b/src/lib.rs", "type Shared = u8;\nenum Kind {}\n"),
            ("crates/c/src/lib.rs", "enum Kind {}\nstruct Thrice;\n"),
            ("crates/d/src/lib.rs", "struct Thrice;\n"),
            ("xtask/src/main.rs", "struct Thrice;\n"),
        ]);
        assert_eq!(
            repeated(&files),
            [
                "Thrice: crates/c/src/lib.rs, crates/d/src/lib.rs, xtask/src/main.rs",
                "Twice: crates/a/src/b.rs, crates/a/src/c.rs"
            ]
        );
    }

    #[test]
    fn a_participle_needs_a_noun() {
        let files = files(&[("crates/a/src/lib.rs", "struct Held;\nstruct HeldBytes;\nstruct Warning;\n")]);
        assert_eq!(participles(&files), ["Held: crates/a/src/lib.rs"]);
    }
}
