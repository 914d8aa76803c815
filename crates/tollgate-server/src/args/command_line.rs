//! The words of a command line, and a command line that stands for the environment of another program.

use std::ffi::OsString;

/// The folder of `--import`, as a part of this flag that has variables of its own.
pub(crate) const IMPORT_FOLDER: &str = "--import FOLDER";

/// The words that a command is read from, the name of the program first.
#[derive(Debug, Clone)]
pub struct CommandLine {
    pub(super) words: Vec<OsString>,
    /// Set if the environment of another program was written as flags.
    pub(super) original: Option<OriginalEnvironment>,
}

/// The environment of another program, which was written as flags.
#[derive(Debug, Clone)]
pub struct OriginalEnvironment {
    /// The name of that program.
    pub(crate) program: &'static str,
    /// The flags, for people. They hold no secrets.
    pub(crate) flags: String,
    /// Flags, each with a variable that it came from.
    pub(crate) sources: Vec<(&'static str, &'static str)>,
}

impl OriginalEnvironment {
    /// Returns a line for the log. Nobody has typed these flags, and they open addresses.
    pub(crate) fn note(&self) -> String {
        let Self { program, flags, .. } = self;
        format!(
            "called as `{program}`: the variables of that program set addresses, certificates and logs, and by default \
             every host can reach them; this process acts as `tollgate serve {flags}`"
        )
    }

    /// Returns whether this variable set a flag.
    pub(crate) fn has_used(&self, variable: &str) -> bool {
        self.sources.iter().any(|(_, other)| *other == variable)
    }
}

impl CommandLine {
    /// Returns the words that this process was started with.
    #[must_use]
    pub fn of_process() -> Self {
        Self { words: std::env::args_os().collect(), original: None }
    }

    /// Returns the words of `serve` with these flags, which stand for the environment of another program.
    pub(crate) fn of_serve(
        name: OsString,
        flags: Vec<OsString>,
        program: &'static str,
        sources: Vec<(&'static str, &'static str)>,
    ) -> Self {
        let shown: Vec<_> = flags.iter().map(|flag| flag.to_string_lossy()).collect();
        let original = OriginalEnvironment { program, flags: shown.join(" "), sources };
        let words = [name, "serve".into()].into_iter().chain(flags).collect();
        Self { words, original: Some(original) }
    }

    pub(crate) fn words(&self) -> &[OsString] {
        &self.words
    }
}
