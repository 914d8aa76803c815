//! `cargo xtask dist`: the files of an archive, a package or an image of the service, in `dist` under the target
//! directory.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::command::{command, program, target_directory};

/// The commands that have a manual page each, besides `tollgate` itself.
const COMMANDS: [&[&str]; 8] = [
    &["serve"],
    &["check"],
    &["doctor"],
    &["check-config"],
    &["explain"],
    &["token", "new"],
    &["completions"],
    &["man"],
];

/// Shells, and what files with completions are called there.
const SHELLS: [(&str, &str); 3] = [("bash", "tollgate"), ("zsh", "_tollgate"), ("fish", "tollgate.fish")];

/// Builds the static binary, its manual pages and its completions. Returns their folder.
pub(crate) fn build() -> Result<PathBuf> {
    let version = command("rustc -vV").read()?;
    let target = version.lines().find_map(|line| line.strip_prefix("host: "));
    let target = target.context("rustc does not say which target it builds for")?;
    command("cargo build --locked --release --package tollgate-server --target")
        .argument(target)
        // With a target, what runs during the build is linked as usual.
        .environment("RUSTFLAGS", "-C target-feature=+crt-static")
        // Names of functions, which take an eighth of the file.
        .environment("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .run()?;
    let dist = target_directory()?.join("dist");
    let binary = dist.join("tollgate");
    fs::create_dir_all(&dist)?;
    fs::copy(target_directory()?.join(target).join("release/tollgate"), &binary)?;
    let write = |folder: &str, name: &str, words: &[&str]| {
        let folder = dist.join(folder);
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
    Ok(dist)
}
