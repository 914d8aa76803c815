//! Test binaries: cargo builds them, and they run three at a time.
//!
//! Cargo would run them one after another, although many of them mostly wait for servers.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::command::{CommandLine, command, program, target_directory};
use crate::stopwatch::Stopwatch;

/// How many run at the same time: most of them wait for servers most of the time.
const AT_A_TIME: usize = 3;

/// The longest ones, which start first, so that none of them runs alone at the end.
const FIRST: [&str; 7] = ["store", "service", "stores", "network", "faults", "library", "servers"];

/// The binaries of the service, with many tests that each start a service and wait for it.
const WAITING: [&str; 2] = ["service", "stores"];

/// How many tests of such a binary run at the same time, however few the cores.
const WAITING_TESTS: &str = "4";

/// What a line begins with that reports the repetition of a test.
const REPEATED: &str = "REPEATED ";

/// A binary with tests.
#[derive(Debug)]
struct Binary {
    /// Package and target: `tollgate-redis/store`.
    name: String,
    path: PathBuf,
    /// Where cargo runs it.
    directory: PathBuf,
}

/// Cargo's message about one file that it has built. Other messages lack some of these fields.
#[derive(Debug, Deserialize)]
struct Artifact {
    executable: Option<PathBuf>,
    manifest_path: PathBuf,
    profile: Profile,
    target: CargoTarget,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Debug, Deserialize)]
struct CargoTarget {
    name: String,
}

/// Builds what this `cargo test` command would run and returns cargo's messages, which name the test binaries.
pub(crate) fn build(tests: &CommandLine) -> Result<String> {
    eprintln!("$ {tests} --no-run");
    tests.clone().arguments(["--no-run", "--message-format", "json-render-diagnostics"]).read()
}

/// Runs the test binaries that cargo's messages name.
///
/// Prints one line for a binary whose tests pass and the whole output of one that fails.
pub(crate) fn run(messages: &str) -> Result<()> {
    run_all(messages.lines().filter_map(Binary::from_message).collect())
}

/// Returns the commands that run the binaries of the test target with this name.
pub(crate) fn commands(messages: &str, target: &str) -> Vec<CommandLine> {
    let binaries = messages.lines().filter_map(Binary::from_message);
    binaries.filter(|binary| binary.target() == target).map(|binary| binary.command()).collect()
}

fn run_all(mut binaries: Vec<Binary>) -> Result<()> {
    if binaries.is_empty() {
        bail!("there are no tests to run");
    }
    binaries.sort_by_key(|binary| {
        FIRST.iter().position(|first| binary.target() == *first).unwrap_or(FIRST.len())
    });
    let count = binaries.len();
    let folder = target_directory()?.join("test-output");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let waiting = Mutex::new(VecDeque::from(binaries));
    let failed = Mutex::new(Vec::new());
    let repeated = Mutex::new(Vec::new());
    // In a closure, so that the lock is not held while a binary runs.
    let next = || lock(&waiting).pop_front();
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(binary) = next() {
                    match binary.run() {
                        Ok(repetitions) => lock(&repeated).extend(repetitions),
                        Err(error) => {
                            eprintln!("{error:#}");
                            lock(&failed).push(binary.name);
                        }
                    }
                }
            });
        }
    });
    let repeated = repeated.into_inner().unwrap_or_else(PoisonError::into_inner);
    repeated.iter().for_each(|line| eprintln!("{line}"));
    eprintln!("{} repetitions of tests, because the machine stood still", repeated.len());
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !failed.is_empty() {
        bail!("{} of {count} test binaries failed: {}", failed.len(), failed.join(", "));
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Binary {
    /// Returns the test binary in a message of cargo, if there is one.
    fn from_message(message: &str) -> Option<Self> {
        let artifact: Artifact = serde_json::from_str(message).ok()?;
        let path = artifact.executable.filter(|_| artifact.profile.test)?;
        let directory = artifact.manifest_path.parent()?.to_owned();
        let package = directory.file_name().and_then(|name| name.to_str())?;
        Some(Self { name: format!("{package}/{}", artifact.target.name), path, directory })
    }

    fn target(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }

    fn command(&self) -> CommandLine {
        let command = program(&self.path).directory(self.directory.clone());
        match WAITING.contains(&self.target()) {
            true => command.environment("RUST_TEST_THREADS", WAITING_TESTS),
            false => command,
        }
    }

    /// Returns a line for each repetition of a test during which the machine stood still.
    fn run(&self) -> Result<Vec<String>> {
        let watch = Stopwatch::start();
        let file = target_directory()?.join("test-output").join(self.name.replace('/', "-"));
        let status = self.command().run_into(&file)?;
        let output = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let output = String::from_utf8_lossy(&output);
        let result = output.lines().rev().find_map(|line| line.strip_prefix("test result: "));
        if !status.success() {
            let line = rerun(&self.directory, self.target());
            bail!("{output}\n{}: failed ({status}); to run it alone: {line}", self.name);
        }
        let result = result.with_context(|| format!("{}: ran no tests:\n{output}", self.name))?;
        let result = result.split("; 0 measured").next().unwrap_or(result);
        eprintln!("{:>6.1} s  {}: {result}", watch.elapsed().as_secs_f64(), self.name);
        Ok(output.lines().filter(|line| line.starts_with(REPEATED)).map(str::to_owned).collect())
    }
}

/// Returns the command that runs one binary again.
fn rerun(directory: &Path, target: &str) -> CommandLine {
    let manifest = directory.join("Cargo.toml");
    let kind = if directory.join("tests").join(target).exists()
        || directory.join("tests").join(format!("{target}.rs")).exists()
    {
        vec!["--test", target]
    } else {
        vec!["--lib", "--bins"]
    };
    command("cargo test --all-features --manifest-path").argument(manifest).arguments(kind)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn messages_without_a_test_binary_are_passed_over() {
        assert!(Binary::from_message("   Compiling tollgate").is_none());
        assert!(Binary::from_message(r#"{"reason":"build-finished","success":true}"#).is_none());
        let library = r#"{"executable":null,"manifest_path":"/a/b/Cargo.toml","profile":{"test":true},"target":{"name":"b"}}"#;
        assert!(Binary::from_message(library).is_none());
        let service = r#"{"executable":"/t/b","manifest_path":"/a/b/Cargo.toml","profile":{"test":false},"target":{"name":"b"}}"#;
        assert!(Binary::from_message(service).is_none());
    }

    #[test]
    fn a_test_binary_is_named_by_package_and_target() {
        let message = r#"{"executable":"/t/store","manifest_path":"/a/redis/Cargo.toml","profile":{"test":true},"target":{"name":"store"}}"#;
        let binary = Binary::from_message(message).unwrap();
        assert_eq!((binary.name.as_str(), binary.target()), ("redis/store", "store"));
        assert_eq!(binary.directory, Path::new("/a/redis"));
    }

    fn binary(name: &str, path: &str) -> Binary {
        Binary { name: format!("any/{name}"), path: path.into(), directory: "/".into() }
    }

    #[test]
    fn a_binary_that_fails_is_named() {
        let error = run_all(vec![binary("fails", "/bin/false")]).unwrap_err();
        assert_eq!(error.to_string(), "1 of 1 test binaries failed: any/fails");
    }

    /// They ran one after another, because the lock on their list was held during each run.
    #[test]
    fn binaries_run_at_the_same_time() {
        let folder = tempfile::tempdir().unwrap();
        let meets = |name: &str, other: &str| {
            let path = folder.path().join(name);
            let script = format!(
                "#!/bin/sh\ncd {}\ntouch {name}-runs\nfor _ in $(seq 600); do\n\
                 test -e {other}-runs && echo 'test result: ok. 1 passed' && exit 0\nsleep 0.1\ndone\nexit 1\n",
                folder.path().display()
            );
            fs::write(&path, script).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            binary(name, path.to_str().unwrap())
        };
        run_all(vec![meets("one", "two"), meets("two", "one")]).unwrap();
    }

    /// A harness that does not run would pass.
    #[test]
    fn a_binary_without_tests_fails() {
        assert!(run_all(vec![binary("nothing", "/bin/true")]).is_err());
        assert!(run_all(Vec::new()).is_err());
    }
}
