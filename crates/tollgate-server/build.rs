//! Finds out what `tollgate --version --verbose` says of a build, and lists the files of the live page.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=TOLLGATE_COMMIT");
    // `cargo run` passes these on to the service, which warns of unknown variables that begin with `TOLLGATE_`.
    println!("cargo::rustc-env=BUILT_COMMIT={}", commit());
    println!("cargo::rustc-env=BUILT_TARGET={}", env::var("TARGET").unwrap_or_default());
    list_page_files()
}

/// Writes a table of the files in `page/` that browsers get, so that a new file needs no line of code.
fn list_page_files() -> io::Result<()> {
    println!("cargo::rerun-if-changed=page");
    let folder = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("page");
    let mut files = Vec::new();
    if folder.is_dir() {
        collect(&folder, &mut files)?;
    }
    files.sort();
    let mut table = String::from("const PAGE_FILES: &[(&str, &[u8])] = &[\n");
    for file in &files {
        let name = file.strip_prefix(&folder).unwrap_or(file).to_string_lossy().replace('\\', "/");
        table += &format!("    ({name:?}, include_bytes!({file:?})),\n");
    }
    table += "];\n";
    let written = PathBuf::from(env::var("OUT_DIR").unwrap_or_default()).join("page_files.rs");
    // A new time of the file alone would compile everything again.
    if fs::read_to_string(&written).is_ok_and(|known| known == table) {
        return Ok(());
    }
    fs::write(written, table)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if path.is_dir() {
            collect(&path, files)?;
        } else if matches!(extension, "html" | "css" | "js" | "svg") {
            files.push(path);
        }
    }
    Ok(())
}

/// The commit that is built, as far as it is known.
fn commit() -> String {
    let given = env::var("TOLLGATE_COMMIT").ok().filter(|commit| !commit.is_empty());
    if let Some(commit) = given.or_else(packaged) {
        return commit;
    }
    // Otherwise everything would be compiled again after each commit.
    if env::var("PROFILE").is_ok_and(|profile| profile != "release") {
        return "unknown (not a release build)".to_owned();
    }
    checked_out().unwrap_or_else(|| "unknown".to_owned())
}

/// That of a package, in which cargo has noted it.
fn packaged() -> Option<String> {
    let noted = fs::read_to_string(".cargo_vcs_info.json").ok()?;
    noted.split_once("\"sha1\": \"")?.1.split('"').next().map(str::to_owned)
}

/// Tracked files that a binary may be made of. No test is, so the edit of a test neither builds a binary again nor marks
/// it.
const SOURCES: [&str; 10] = [
    ":(top)Cargo.*",
    ":(top).cargo/*",
    ":(top)crates/*/Cargo.toml",
    ":(top)crates/*/build.rs",
    ":(top)crates/*/page/*",
    ":(top)crates/*/src/*",
    ":(top,exclude)*/tests/*",
    ":(top,exclude)*/tests.rs",
    ":(top,exclude)crates/tollgate-instructions/*",
    ":(top,exclude)crates/tollgate-testkit/*",
];

/// That of the checkout, marked if its sources differ from it.
fn checked_out() -> Option<String> {
    let with_sources = |words: &[&str]| git(&[words, &["--"], &SOURCES].concat());
    for file in with_sources(&["ls-files"])?.lines() {
        println!("cargo::rerun-if-changed={file}");
    }
    println!("cargo::rerun-if-changed={}", git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    let commit = git(&["rev-parse", "HEAD"])?;
    let differs = !with_sources(&["diff", "--name-only", "HEAD"])?.is_empty();
    Some(if differs { commit + ", changed" } else { commit })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
