//! The files of the repository, as git knows them.

use std::path::Path;

use anyhow::Result;

use crate::command::{CommandLine, command};

/// Returns the paths of the files that match, in their order: tracked ones that are there, and new ones.
pub(crate) fn files(patterns: &[&str]) -> Result<Vec<String>> {
    files_under(Path::new("."), patterns)
}

/// Returns the same of the repository at `root`. The paths start there.
pub(crate) fn files_under(root: &Path, patterns: &[&str]) -> Result<Vec<String>> {
    let list = command("git ls-files --cached --others --exclude-standard").directory(root.to_owned());
    let mut paths = paths(&list, patterns)?;
    // A file that is tracked may have been removed.
    paths.retain(|path| root.join(path).is_file());
    paths.sort_unstable();
    // A file with conflicts is listed once for each side.
    paths.dedup();
    Ok(paths)
}

/// Returns the paths that this command of git lists, as they are: git quotes some of them otherwise.
pub(crate) fn paths(list: &CommandLine, patterns: &[&str]) -> Result<Vec<String>> {
    let list = list.clone().argument("-z").argument("--").arguments(patterns).read()?;
    Ok(list.split_terminator('\0').map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_with_any_name_are_listed() {
        let root = tempfile::tempdir().unwrap();
        command("git init --quiet").directory(root.path().to_owned()).run().unwrap();
        fs::create_dir(root.path().join("in")).unwrap();
        for name in ["in/ä.json", "in/a b", "in/\"c", "out"] {
            fs::write(root.path().join(name), "any").unwrap();
        }
        command("git add in").directory(root.path().to_owned()).run().unwrap();
        fs::write(root.path().join("in/new"), "any").unwrap();
        fs::remove_file(root.path().join("in/a b")).unwrap();
        assert_eq!(files_under(root.path(), &["in"]).unwrap(), ["in/\"c", "in/new", "in/ä.json"]);
    }
}
