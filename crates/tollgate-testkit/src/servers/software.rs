//! Which program a server is, and where this machine has it.

use std::env;
use std::path::{Path, PathBuf};

/// A program that speaks RESP and runs scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Software {
    /// `redis-server`, or what `TOLLGATE_REDIS_SERVER` names.
    Redis,
    /// `valkey-server`, or what `TOLLGATE_VALKEY_SERVER` names.
    Valkey,
}

impl Software {
    /// Every one that the stores are tested with.
    pub const ALL: [Self; 2] = [Self::Redis, Self::Valkey];

    /// The name of its program.
    #[must_use]
    pub const fn program(self) -> &'static str {
        match self {
            Self::Redis => "redis-server",
            Self::Valkey => "valkey-server",
        }
    }

    /// The environment variable that names another program.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Redis => "TOLLGATE_REDIS_SERVER",
            Self::Valkey => "TOLLGATE_VALKEY_SERVER",
        }
    }

    /// Where its program is.
    ///
    /// # Panics
    ///
    /// If this machine does not have it (the message says how to get it), or if the variable names no file.
    #[must_use]
    pub fn path(self) -> PathBuf {
        if let Some(named) = env::var_os(self.variable()) {
            let named = PathBuf::from(named);
            assert!(named.is_file(), "{} names {}, which is no file", self.variable(), named.display());
            return named;
        }
        let folders = env::var_os("PATH").unwrap_or_default();
        find(self.program(), env::split_paths(&folders)).unwrap_or_else(|| panic!("{}", self.missing()))
    }

    fn missing(self) -> String {
        let install = match self {
            Self::Redis => "sudo apt-get install redis-server",
            Self::Valkey => "sudo apt-get install valkey-server (in Debian 12 from bookworm-backports)",
        };
        format!(
            "{} is missing. `cargo xtask servers`, run as root on Debian, installs it; else install Redis 7.0 or \
             Valkey 7.2, or newer, for example by {install}, or set {} to its path",
            self.program(),
            self.variable(),
        )
    }
}

fn find(program: &str, mut folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    folders.find_map(|folder| Some(folder.join(program)).filter(|path| Path::is_file(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_in_the_folder_that_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("redis-server");
        let folders = || ["/nowhere".into(), folder.path().to_owned()].into_iter();
        assert_eq!(find("redis-server", folders()), None);
        std::fs::write(&program, "").unwrap();
        assert_eq!(find("redis-server", folders()), Some(program));
    }

    #[test]
    fn names_a_missing_program_and_the_command_that_installs_it() {
        let message = Software::Valkey.missing();
        for part in ["valkey-server is missing", "apt-get install valkey-server", "TOLLGATE_VALKEY_SERVER"] {
            assert!(message.contains(part), "{message}");
        }
    }
}
