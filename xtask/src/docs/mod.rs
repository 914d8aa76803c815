//! `cargo xtask docs`: the manual as a website, and checks of every page of prose in the repository.

mod links;
mod page;
mod prose;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use self::page::ManualPage;
use self::prose::Measure;
use crate::command::{program, target_directory};
use crate::repository;
use crate::steps::CheckOutcome;
use crate::tools;

/// The pages of the manual.
const MANUAL: &str = "docs";

/// All pages, by their path in the repository.
type Pages = BTreeMap<PathBuf, ManualPage>;

/// Builds the website and prints its path.
pub(crate) fn build() -> Result<()> {
    let book = target_directory()?.join("manual");
    let source = book.join("src");
    // Otherwise the search would find pages that no longer exist.
    if book.exists() {
        fs::remove_dir_all(&book).with_context(|| format!("cannot remove {}", book.display()))?;
    }
    fs::create_dir_all(source.join("pictures")).context("cannot make a folder for the manual")?;
    for file in files(&["docs"])? {
        let inside = file.strip_prefix(MANUAL).context("a page is outside of the manual")?;
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("md") => fs::write(source.join(inside), links::keep_inside(&file)?)?,
            Some("svg" | "png" | "js") => drop(fs::copy(&file, source.join(inside))?),
            _ => {}
        }
    }
    fs::copy("docs/book.toml", book.join("book.toml")).context("cannot copy docs/book.toml")?;
    program(&tools::tool("mdbook")?).argument("build").argument(&book).run()?;
    eprintln!("the manual is at {}", book.join("html/index.html").display());
    Ok(())
}

/// Checks links, anchors and words of all pages, and prints how each part of the prose reads.
pub(crate) fn check() -> Result<CheckOutcome> {
    let pages = read_all()?;
    let mut wrong = links::broken(&pages)?;
    wrong.extend(links::unlisted(&pages)?);
    wrong.extend(prose::turns(&pages));
    let readme = pages.get(Path::new("README.md")).context("there is no README.md")?;
    let manual: Vec<&ManualPage> =
        pages.iter().filter(|(path, _)| path.starts_with(MANUAL)).map(|(_, page)| page).collect();
    println!("{:<26} {:>6} {:>6} {:>15}", "", "words", "grade", "words/sentence");
    println!("{:<26} {}", "README.md", Measure::of([readme]));
    println!("{:<26} {}", "docs/", Measure::of(manual.iter().copied()));
    for (path, page) in pages.iter().filter(|(path, _)| path.starts_with(MANUAL)) {
        println!("  {:<24} {}", path.file_name().unwrap_or_default().display(), Measure::of([page]));
    }
    ensure!(wrong.is_empty(), "{} mistakes:\n{}", wrong.len(), wrong.join("\n"));
    println!("{} pages, no broken link", pages.len());
    Ok(CheckOutcome::Passed)
}

/// Returns the turns in a text at this place that plain English avoids, as lines to print.
pub(crate) fn turns_in(place: &str, text: &str) -> Vec<String> {
    prose::turns_in(place, text)
}

/// Checks the pages and builds the website, as `cargo xtask test` does.
pub(crate) fn check_and_build() -> Result<CheckOutcome> {
    check()?;
    build()?;
    Ok(CheckOutcome::Passed)
}

fn read_all() -> Result<Pages> {
    let markdown = files(&["*.md"])?;
    markdown
        .into_iter()
        .map(|path| {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            Ok((path, ManualPage::parse(&text)))
        })
        .collect()
}

/// Returns the matching files of the repository, including those that are not committed yet.
fn files(patterns: &[&str]) -> Result<Vec<PathBuf>> {
    Ok(repository::files(patterns)?.into_iter().map(PathBuf::from).collect())
}
