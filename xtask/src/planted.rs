//! Bugs that a proof has to find: each is put into a copy of the sources, and the copy is built and searched.
//!
//! A bug is a text file. It begins with a sentence that says what is wrong. A line `Found by ...` may follow, for a
//! proof of many parts: it names the part that finds the bug soonest. Each change follows under the path of its file,
//! in the form of a merge conflict: the right source, then the source with the bug. The product's own sources are
//! never changed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::command::{CommandLine, target_directory};
use crate::proof_tests;

/// A proof that can be shown to find bugs.
#[derive(Clone, Copy)]
pub(crate) struct Hunt {
    proof: &'static str,
    /// The files of bugs.
    folder: &'static str,
    /// The package in which most of them are.
    package: &'static str,
    /// The tests among which is the one that searches, `a_planted_bug_is_found`.
    tests: fn() -> Result<CommandLine>,
}

pub(crate) const SIM: Hunt = Hunt {
    proof: "sim",
    folder: "crates/tollgate/src/memory/tests/sim/planted",
    package: "tollgate",
    tests: || Ok(proof_tests::shuttle_tests()),
};

pub(crate) const POLICIES: Hunt = Hunt {
    proof: "policies",
    folder: "crates/tollgate-policy/tests/reading/planted",
    package: "tollgate-policy",
    tests: || Ok(proof_tests::reading_tests()),
};

pub(crate) const ENVOY: Hunt = Hunt {
    proof: "envoy",
    folder: "crates/tollgate-envoy/tests/reading/planted",
    package: "tollgate-envoy",
    tests: || Ok(proof_tests::envoy_tests()),
};

pub(crate) const REDIS: Hunt = Hunt {
    proof: "redis",
    folder: "crates/tollgate-redis/tests/faults/planted",
    package: "tollgate-redis",
    tests: || Ok(proof_tests::planted_fault_tests()),
};

pub(crate) const SIMULATE: Hunt = Hunt {
    proof: "simulate",
    folder: "crates/tollgate-server/tests/truth/planted",
    package: "tollgate-logs",
    tests: proof_tests::truth_tests,
};

pub(crate) const OVERRIDES: Hunt = Hunt {
    proof: "overrides",
    folder: "crates/tollgate-server/tests/overrides/planted",
    package: "tollgate-server",
    tests: || Ok(proof_tests::override_tests()),
};

/// What the workspace is built from.
const SOURCES: [&str; 5] = ["Cargo.lock", "Cargo.toml", "crates", "docs", "xtask"];

#[derive(Debug, PartialEq, Eq)]
struct Bug {
    name: String,
    says: String,
    found_by: Option<String>,
    changes: Vec<PlantedChange>,
}

#[derive(Debug, PartialEq, Eq)]
struct PlantedChange {
    file: String,
    find: String,
    put: String,
}

impl Hunt {
    /// Looks for each bug, and fails unless all are found.
    pub(crate) fn run(self) -> Result<()> {
        let (proof, bugs) = (self.proof, self.bugs()?);
        let copy = target_directory()?.join("planted");
        fs::create_dir_all(&copy).with_context(|| format!("cannot make {}", copy.display()))?;
        SOURCES.iter().try_for_each(|source| replace_all(Path::new(source), &copy.join(source)))?;
        // Each finds its place, before the first is looked for.
        bugs.iter().try_for_each(|bug| restore(bug.plant(&copy)?))?;
        let mut missed = Vec::new();
        for bug in &bugs {
            eprintln!("\n=== {}: {}", bug.name, bug.says);
            let originals = bug.plant(&copy)?;
            let found = self.search(bug, &copy)?;
            restore(originals)?;
            match found {
                Some(found) => println!("RESULT prove/{proof}/planted/{} {found}", bug.name),
                None => {
                    println!("RESULT prove/{proof}/planted/{} found=no", bug.name);
                    missed.push(bug.name.as_str());
                }
            }
        }
        println!("RESULT prove/{proof}/planted bugs={} found={}", bugs.len(), bugs.len() - missed.len());
        ensure!(missed.is_empty(), "not found: {}", missed.join(", "));
        Ok(())
    }

    /// Builds the copy and looks for its bug. Returns how long a search it took.
    fn search(self, bug: &Bug, copy: &Path) -> Result<Option<String>> {
        // In a target directory of its own: in ours, cargo would take the copy for the original.
        let target = copy.join("target").display().to_string();
        let package = format!("profile.models.package.{}", self.package);
        let mut tests = (self.tests)()?
            // Most bugs are found sooner than well optimized code is built, and each changes few lines.
            .arguments(["--config", &format!("{package}.opt-level=1")])
            .arguments(["--config", &format!("{package}.codegen-units=64")])
            .environment("CARGO_INCREMENTAL", "1")
            .directory(copy.to_owned())
            .environment("CARGO_TARGET_DIR", target);
        if let Some(found_by) = &bug.found_by {
            tests = tests.environment("TOLLGATE_FOUND_BY", found_by);
        }
        tests.clone().argument("--no-run").run()?;
        let (said, outcome) =
            tests.arguments(["a_planted_bug_is_found", "--", "--ignored", "--nocapture"]).say()?;
        let found = said.lines().find_map(|line| line.strip_prefix("FOUND "));
        let Some(found) = found.filter(|_| outcome.is_ok()) else { return Ok(None) };
        let (figures, promise) = found.split_once(" by=").unwrap_or((found, ""));
        eprintln!("{promise}");
        Ok(Some(figures.to_owned()))
    }

    fn bugs(self) -> Result<Vec<Bug>> {
        let folder = self.folder;
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(folder).with_context(|| format!("cannot list {folder}"))? {
            files.push(entry.with_context(|| format!("cannot list {folder}"))?.path());
        }
        files.sort();
        let read = |file: PathBuf| {
            let text =
                fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Bug::parse(name, &text).with_context(|| format!("{} is not a bug", file.display()))
        };
        files.into_iter().map(read).collect()
    }
}

impl Bug {
    fn parse(name: String, text: &str) -> Result<Self> {
        let (head, rest) = text.split_once("\n\n").context("it has no sentence above its changes")?;
        let (says, found_by) = match head.split_once("\nFound by ") {
            Some((says, found_by)) => (says, Some(found_by.to_owned())),
            None => (head, None),
        };
        let mut changes = Vec::new();
        for change in rest.split(">>>>>>>\n").filter(|change| !change.trim().is_empty()) {
            let (file, both) = change.split_once("\n<<<<<<<\n").context("a change has no `<<<<<<<`")?;
            let (find, put) = both.split_once("\n=======\n").context("a change has no `=======`")?;
            let put = put.strip_suffix('\n').unwrap_or(put);
            changes.push(PlantedChange {
                file: file.trim().to_owned(),
                find: find.to_owned(),
                put: put.to_owned(),
            });
        }
        ensure!(!changes.is_empty(), "it changes nothing");
        Ok(Self { name, says: says.to_owned(), found_by, changes })
    }

    /// Changes the copy. Returns the files as they were.
    fn plant(&self, copy: &Path) -> Result<Vec<(PathBuf, String)>> {
        let mut originals: Vec<(PathBuf, String)> = Vec::new();
        for PlantedChange { file, find, put } in &self.changes {
            let path = copy.join(file);
            let text =
                fs::read_to_string(&path).with_context(|| format!("{}: cannot read {file}", self.name))?;
            let places = text.matches(find.as_str()).count();
            if places != 1 {
                bail!("{}: {file} has the text {places} times and should have it once:\n{find}", self.name);
            }
            let planted = text.replacen(find.as_str(), put, 1);
            if !originals.iter().any(|(original, _)| *original == path) {
                originals.push((path.clone(), text));
            }
            fs::write(&path, planted).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(originals)
    }
}

fn restore(originals: Vec<(PathBuf, String)>) -> Result<()> {
    originals.into_iter().try_for_each(|(file, text)| {
        fs::write(&file, text).with_context(|| format!("cannot restore {}", file.display()))
    })
}

/// Leaves nothing of an earlier copy: cargo would build a file that has been moved or deleted since.
fn replace_all(from: &Path, to: &Path) -> Result<()> {
    if to.is_dir() {
        fs::remove_dir_all(to).with_context(|| format!("cannot remove {}", to.display()))?;
    }
    copy_all(from, to)
}

fn copy_all(from: &Path, to: &Path) -> Result<()> {
    let context = || format!("cannot copy {}", from.display());
    if from.is_dir() {
        fs::create_dir_all(to).with_context(context)?;
        for entry in fs::read_dir(from).with_context(context)? {
            let name = entry.with_context(context)?.file_name();
            copy_all(&from.join(&name), &to.join(&name))?;
        }
        return Ok(());
    }
    fs::copy(from, to).map(drop).with_context(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_is_a_sentence_and_its_changes() {
        let text = "It is wrong.\nFound by hang\n\na.rs\n<<<<<<<\none\n=======\ntwo\n>>>>>>>\n\nb.rs\n<<<<<<<\n gone\n=======\n>>>>>>>\n";
        let change = |file: &str, find: &str, put: &str| PlantedChange {
            file: file.to_owned(),
            find: find.to_owned(),
            put: put.to_owned(),
        };
        let expected = Bug {
            name: "wrong".to_owned(),
            says: "It is wrong.".to_owned(),
            found_by: Some("hang".to_owned()),
            changes: vec![change("a.rs", "one", "two"), change("b.rs", " gone", "")],
        };
        assert_eq!(Bug::parse("wrong".to_owned(), text).unwrap(), expected);
    }

    /// `store.rs` became `store/mod.rs`, and the copy had both, which does not build.
    #[test]
    fn a_file_that_was_deleted_is_not_in_the_next_copy() {
        let folder = target_directory().unwrap().join("tests/planted-copy");
        let (from, to) = (folder.join("from"), folder.join("to"));
        let write = |file: &str| {
            fs::create_dir_all(from.join("src")).unwrap();
            fs::write(from.join("src").join(file), "").unwrap();
        };
        write("store.rs");
        replace_all(&from, &to).unwrap();
        assert!(to.join("src/store.rs").exists());
        fs::remove_dir_all(&from).unwrap();
        write("other.rs");
        replace_all(&from, &to).unwrap();
        assert!(to.join("src/other.rs").exists() && !to.join("src/store.rs").exists());
        fs::remove_dir_all(&folder).unwrap();
    }

    /// A server does not know a changed script by its digest. For bugs in a part that two scripts share, only one of
    /// them was sent by its text once, and nothing found them because the other one did not run.
    #[test]
    fn a_script_with_a_bug_is_sent_by_its_text() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let scripts = root.join("crates/tollgate-redis/src/script");
        let scripts = [("text.in", "encode/mod.rs"), ("hold/text.in", "encode/holds.rs")]
            .map(|(parts, encoder)| (fs::read_to_string(scripts.join(parts)).unwrap(), encoder));
        let mut bugs = 0;
        for entry in fs::read_dir(root.join(REDIS.folder)).unwrap() {
            let file = entry.unwrap().path();
            let bug = Bug::parse(file.display().to_string(), &fs::read_to_string(&file).unwrap()).unwrap();
            let changed: Vec<&str> = bug.changes.iter().map(|change| change.file.as_str()).collect();
            let parts = changed.iter().filter_map(|file| file.rsplit_once("script/lua/"));
            let parts: Vec<String> = parts.map(|(_, part)| format!("lua/{part}\"")).collect();
            for (script, encoder) in &scripts {
                let has_bug = parts.iter().any(|part| script.contains(part));
                let is_sent = changed.iter().any(|file| file.ends_with(encoder));
                assert!(is_sent || !has_bug, "{}: {encoder} sends a digest", bug.name);
                bugs += usize::from(has_bug);
            }
        }
        assert!(bugs >= 40, "{bugs} scripts with bugs");
    }

    /// A bug whose text is gone would be one that nobody looks for any more.
    #[test]
    fn every_bug_finds_its_place() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (Hunt { folder, .. }, least) in
            [(SIM, 65), (POLICIES, 41), (ENVOY, 23), (REDIS, 32), (SIMULATE, 13), (OVERRIDES, 17)]
        {
            let mut bugs = 0;
            for entry in fs::read_dir(root.join(folder)).unwrap() {
                let file = entry.unwrap().path();
                let bug =
                    Bug::parse(file.display().to_string(), &fs::read_to_string(&file).unwrap()).unwrap();
                for PlantedChange { file, find, .. } in &bug.changes {
                    let text = fs::read_to_string(root.join(file)).unwrap();
                    assert_eq!(text.matches(find.as_str()).count(), 1, "{}: {find}", bug.name);
                }
                bugs += 1;
            }
            assert!(bugs >= least, "{bugs} bugs");
        }
    }
}
