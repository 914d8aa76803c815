//! Texts that are nearly policy files. `cargo xtask prove mutations` tries more of them, and `prove parser` others,
//! guided by coverage.

#![allow(clippy::unwrap_used, reason = "this is a test")]

mod holds;

use std::path::Path;
use std::thread;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;

use tollgate_policy::Config;

use self::holds::holds;

/// Pieces to insert: YAML, and the language of the file.
const PIECES: [&str; 24] = [
    "\n", " ", "  ", "\t", ": ", "- ", "[", "]", "{", "}", ",", "'", "\"", "#", "&a ", "*a", "!t ", "---\n",
    "|\n", "${A}", "${UNSET}", "$${", "null", "\u{feff}",
];

/// A change of a text. Its places are found once the length is known.
#[derive(Debug, Clone)]
enum Change {
    Insert(Index, &'static str),
    Remove(Index, Index),
    Repeat(Index, Index),
    Swap(Index, Index),
}

impl Change {
    fn apply(&self, text: &str) -> String {
        let place = |index: &Index| {
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            *index.get(&places)
        };
        let part = |a: &Index, b: &Index| (place(a).min(place(b)), place(a).max(place(b)));
        match self {
            Self::Insert(at, piece) => {
                let (before, after) = text.split_at(place(at));
                [before, piece, after].concat()
            }
            Self::Remove(a, b) => {
                let (start, end) = part(a, b);
                [&text[..start], &text[end..]].concat()
            }
            Self::Repeat(a, b) => {
                let (start, end) = part(a, b);
                [&text[..end], &text[start..]].concat()
            }
            Self::Swap(a, b) => {
                let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
                if !lines.is_empty() {
                    let (a, b) = (a.index(lines.len()), b.index(lines.len()));
                    lines.swap(a, b);
                }
                lines.concat()
            }
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    let place = any::<Index>;
    prop_oneof![
        4 => (place(), select(&PIECES[..])).prop_map(|(at, piece)| Change::Insert(at, piece)),
        2 => (place(), place()).prop_map(|(a, b)| Change::Remove(a, b)),
        1 => (place(), place()).prop_map(|(a, b)| Change::Repeat(a, b)),
        2 => (place(), place()).prop_map(|(a, b)| Change::Swap(a, b)),
    ]
}

/// Returns the examples, and the texts of other tests.
fn seeds() -> Vec<String> {
    let mut seeds = Vec::new();
    for folder in ["../../examples", "tests/problems", "tests/warnings"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
        seeds.extend(files.map(|path| std::fs::read_to_string(path).unwrap()));
    }
    seeds
}

#[test]
fn every_seed_is_read() {
    let seeds = seeds();
    assert!(seeds.len() > 10, "{}", seeds.len());
    seeds.iter().for_each(|text| holds(text));
}

#[test]
fn a_message_repeats_a_bounded_part_of_the_text() {
    let long = "x".repeat(100_000);
    let quota = |quota| format!("policies: [{{ name: all, key: [a], quotas: [{quota}] }}]");
    let texts = [
        long.clone(),
        format!("{long}: 1"),
        format!("mode: {long}"),
        format!("mode: '${{{long}}}'"),
        quota(long.clone()),
        quota(format!("{{ limit: 1, window: {long} }}")),
    ];
    texts.iter().for_each(|text| {
        assert!(Config::parse("any.yaml", text).is_err());
        holds(text);
    });
}

#[test]
fn reads_texts_that_are_nearly_files() {
    run(1_000);
}

#[test]
#[ignore = "takes its time: cargo xtask prove mutations"]
fn prove() {
    let texts = std::env::var("TOLLGATE_INPUTS").map_or(1_000_000, |texts| texts.parse().unwrap());
    run(texts);
    println!("\nRESULT prove/mutations/files inputs={texts} violations=0");
}

/// Reads this many texts on all cores.
fn run(texts: u32) {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let read = || {
        let cases = texts.div_ceil(cores);
        let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
        let texts = (select(seeds()), prop::collection::vec(change(), 1..6));
        let read = TestRunner::new(config).run(&texts, |(seed, changes)| {
            holds(&changes.iter().fold(seed, |text, change| change.apply(&text)));
            Ok(())
        });
        read.unwrap_or_else(|error| panic!("{error}"));
    };
    thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(read))));
}
