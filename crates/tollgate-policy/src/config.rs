//! A whole file: read, checked and compiled.

use std::fmt;
use std::fs::File;
use std::path::Path;

use tollgate_yaml::{
    At, ConfigError, Extras, FromNode, Node, Position, Problem, Problems, Sources, VariableLookup,
};

use crate::changes::Changes;
use crate::file::{RawFile, advice};
use crate::policies::Policies;
use crate::resolve::resolve;
use crate::warning::Warning;

/// The contents of a valid file.
#[derive(Debug)]
pub struct Config {
    pub(crate) store: Option<StoreSettings>,
    pub(crate) store_url_at: Option<Position>,
    pub(crate) layout_at: Option<Position>,
    pub(crate) prefix_at: Option<Position>,
    pub(crate) policies: Policies,
    pub(crate) warnings: Box<[Warning]>,
    pub(crate) files: Box<[Box<str>]>,
}

/// The store of counters.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreSettings {
    pub(crate) url: Box<str>,
    pub(crate) prefix: Option<Box<str>>,
    pub(crate) layout: Option<Box<str>>,
    pub(crate) reserves_across_slots: bool,
}

impl Config {
    /// The maximum size of a file, as of all [`Sources`].
    pub const MAX_BYTES: u64 = Sources::MAX_BYTES;

    /// Reads a file, or [all files of a folder](Sources::read); variables are those of the process's environment.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or is not valid; the error contains every problem.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        Self::parse_sources(&Sources::read([path])?, |_| Vec::new())
    }

    /// Returns the text of a file, to be compared before it is parsed. A pipe is waited for until its writer has
    /// closed it.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is not text, or is larger than [`MAX_BYTES`](Self::MAX_BYTES).
    pub fn read(path: impl AsRef<Path>) -> Result<String, ConfigError> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let open = File::open(path);
        let open = open.map_err(|source| ConfigError::unreadable(&file, source))?;
        Sources::text_of(&file, open)
    }

    /// Reads the text of a file that messages call `file`; variables are those of the process's environment.
    ///
    /// # Errors
    ///
    /// If the text is not valid; then every problem is named.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfigError> {
        Self::parse_sources(&Sources::of(file, text), |_| Vec::new())
    }

    /// Reads the texts of files, as [`parse`](Self::parse) does, and calls `check` for further problems, which are
    /// reported together with the files' own.
    ///
    /// `check` also sees invalid files, as far as they can be understood, without the policies that have problems.
    ///
    /// # Errors
    ///
    /// If a text is not valid, or `check` finds a problem; then every problem is named.
    pub fn parse_sources(
        sources: &Sources,
        check: impl FnOnce(&Self) -> Vec<Problem>,
    ) -> Result<Self, ConfigError> {
        Self::parse_all(sources, &|name| std::env::var(name).ok(), check)
    }

    /// Reads the text of a file with variables of one's own.
    ///
    /// # Errors
    ///
    /// If the text is not valid; then every problem is named.
    pub fn parse_with(file: &str, text: &str, variables: &VariableLookup<'_>) -> Result<Self, ConfigError> {
        Self::parse_all(&Sources::of(file, text), variables, |_| Vec::new())
    }

    fn parse_all(
        sources: &Sources,
        variables: &VariableLookup<'_>,
        check: impl FnOnce(&Self) -> Vec<Problem>,
    ) -> Result<Self, ConfigError> {
        let files: Box<[Box<str>]> = sources.all_names().collect();
        let mut problems = Problems::with_advice(advice);
        let mut raw = Vec::new();
        for (number, text) in (0..).zip(sources.policies()) {
            let root = Node::parse(text, number, Some(Extras { sources, variables }), &mut problems);
            raw.extend(root.and_then(|root| At::<RawFile>::read(&root, &mut problems)));
        }
        let is_any_read = !raw.is_empty();
        let config = resolve(raw, sources, files, &mut problems);
        if is_any_read {
            problems.extend(check(&config));
        }
        if problems.is_empty() {
            return Ok(config);
        }
        Err(ConfigError::Invalid { files: config.files, problems: problems.into_sorted() })
    }

    /// Returns the name in messages of the files that were read together.
    #[must_use]
    pub fn files(&self) -> &[Box<str>] {
        &self.files
    }

    /// Returns the name in messages of the file that contains this place.
    #[must_use]
    pub fn file_of(&self, at: Position) -> &str {
        self.files.get(at.file as usize).map_or("", AsRef::as_ref)
    }

    /// Returns the policies.
    #[must_use]
    pub const fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Returns the policies, to make them live.
    #[must_use]
    pub fn into_policies(self) -> Policies {
        self.policies
    }

    /// Returns the store of the counters; without one, they are in memory.
    #[must_use]
    pub const fn store(&self) -> Option<&StoreSettings> {
        self.store.as_ref()
    }

    /// Returns the place of the store's URL in the file, if there is one. The store checks whether it is valid.
    #[must_use]
    pub const fn store_url_at(&self) -> Option<Position> {
        self.store_url_at
    }

    /// Returns the place of the key layout in the file, if there is one.
    #[must_use]
    pub const fn layout_at(&self) -> Option<Position> {
        self.layout_at
    }

    /// Returns the place of the key prefix in the file, if there is one.
    #[must_use]
    pub const fn prefix_at(&self) -> Option<Position> {
        self.prefix_at
    }

    /// Returns the warnings, in the order of the file.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the changes from the file before to this one.
    #[must_use]
    pub fn changes_since(&self, before: &Self) -> Changes {
        Changes::between(before, self)
    }
}

impl StoreSettings {
    /// Returns the server.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the prefix of all keys, if the file sets one.
    #[must_use]
    pub fn prefix(&self) -> Option<&str> {
        self.prefix.as_deref()
    }

    /// Returns the key layout for sharing counters with another system, if the file sets one: a name or a template,
    /// which the store can parse.
    #[must_use]
    pub fn layout(&self) -> Option<&str> {
        self.layout.as_deref()
    }

    /// Whether, on a Cluster, a request that counts several keys is charged slot by slot. Otherwise it cannot be
    /// counted there.
    #[must_use]
    pub const fn reserves_across_slots(&self) -> bool {
        self.reserves_across_slots
    }
}

/// Without the URL, which may hold a password.
impl fmt::Debug for StoreSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreSettings").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
