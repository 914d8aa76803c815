//! `cargo xtask dist`: the files of an archive, a package or an image of the service, written to `archive` under the
//! target directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::command::{command, program, target_directory};

/// The commands, besides `tollgate` itself, that have a manual page.
const COMMANDS: [&[&str]; 14] = [
    &["serve"],
    &["check"],
    &["override", "set"],
    &["override", "get"],
    &["override", "list"],
    &["override", "delete"],
    &["doctor"],
    &["check-config"],
    &["explain"],
    &["simulate"],
    &["suggest"],
    &["token", "new"],
    &["completions"],
    &["man"],
];

/// Shells, and the names of their completion files.
const SHELLS: [(&str, &str); 3] = [("bash", "tollgate"), ("zsh", "_tollgate"), ("fish", "tollgate.fish")];

/// Builds the static binary, with these arguments of cargo. Returns its path.
pub(crate) fn static_binary(arguments: &[&str]) -> Result<PathBuf> {
    let version = command("rustc -vV").read()?;
    let target = version.lines().find_map(|line| line.strip_prefix("host: "));
    let target = target.context("rustc does not say which target it builds for")?;
    command("cargo build --locked --profile dist --package tollgate-server --target")
        .argument(target)
        .arguments(arguments)
        // With an explicit target, build scripts are linked as usual.
        .environment("RUSTFLAGS", "-C target-feature=+crt-static")
        // Strips the names of functions, an eighth of the file.
        .environment("CARGO_PROFILE_DIST_STRIP", "symbols")
        .run()?;
    Ok(target_directory()?.join(target).join("dist/tollgate"))
}

/// Builds the static binary, its manual pages and its completions. Returns their folder.
pub(crate) fn build() -> Result<PathBuf> {
    let archive = target_directory()?.join("archive");
    let binary = archive.join("tollgate");
    fs::create_dir_all(&archive)?;
    fs::copy(static_binary(&[])?, &binary)?;
    // Under this name, the program reads the variables of envoyproxy/ratelimit.
    let link = archive.join("ratelimit");
    let _ = fs::remove_file(&link);
    symlink("tollgate", link)?;
    let write = |folder: &str, name: &str, words: &[&str]| {
        let folder = archive.join(folder);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), program(&binary).arguments(words).read()?)?;
        anyhow::Ok(())
    };
    write("man", "tollgate.1", &["man"])?;
    for command in COMMANDS {
        let name = format!("tollgate-{}.1", command.join("-"));
        write("man", &name, &[&["man"], command].concat())?;
    }
    for (shell, name) in SHELLS {
        write(&format!("completions/{shell}"), name, &["completions", shell])?;
    }
    Ok(archive)
}
