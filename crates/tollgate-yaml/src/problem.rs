//! Problems of files, with their places.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::hint::Hint;
use crate::position::Position;
use crate::printable::Printable;

/// A line, and its file if that is another one. Displayed as in `line 3 of api.yaml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePlace(PlaceName);

#[derive(Debug, Clone, PartialEq, Eq)]
enum PlaceName {
    Line {
        file: Option<Box<str>>,
        line: usize,
    },
    /// A place of values that are in no file.
    Named(Box<str>),
}

impl FilePlace {
    /// Returns a place for a message about another place; `names` are those of the files.
    #[must_use]
    pub fn seen_from(here: Position, there: Position, names: &[Box<str>]) -> Self {
        let other = names.get(there.file as usize).filter(|_| there.file != here.file);
        Self(PlaceName::Line { file: other.cloned(), line: there.line })
    }

    /// Returns a place of values that are in no file, under this name.
    #[must_use]
    pub const fn named(name: Box<str>) -> Self {
        Self(PlaceName::Named(name))
    }
}

impl fmt::Display for FilePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            PlaceName::Line { file: None, line } => write!(f, "line {line}"),
            PlaceName::Line { file: Some(file), line } => write!(f, "line {line} of {file}"),
            PlaceName::Named(name) => f.write_str(name),
        }
    }
}

/// A problem that makes a file invalid. The fault of its author. The message shows what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub(crate) at: Position,
    pub(crate) kind: ProblemKind,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The file is not YAML.
    #[error("not valid YAML: {0}")]
    Syntax(Box<str>),
    /// An unsupported feature of YAML, left out so that a file means what it seems to mean.
    #[error("{0} are not supported: write the value itself")]
    Unsupported(&'static str),
    /// Lists and mappings within each other, deeper than any setting is.
    #[error("nested more than {0} deep")]
    TooDeep(usize),
    /// The file has more than one document.
    #[error("a second document begins here, but a file has only one")]
    SecondDocument,
    /// A value of another shape.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// The expected value.
        expected: Box<str>,
        /// The actual value.
        found: Box<str>,
    },
    /// A key that the section does not have.
    #[error("unknown key `{key}` in {section}: {hint}")]
    UnknownKey {
        /// The key as written.
        key: Box<str>,
        /// The section.
        section: &'static str,
        /// The probable meaning.
        hint: Hint,
    },
    /// An unknown word.
    #[error("unknown {what} `{written}`: {hint}")]
    UnknownWord {
        /// The expected value.
        what: &'static str,
        /// The word as written.
        written: Box<str>,
        /// The probable meaning.
        hint: Hint,
    },
    /// The same key twice in one mapping, or in several files that are read as one.
    #[error("duplicate key `{key}`, already given in {first}: keep one of them")]
    DuplicateKey {
        /// The key.
        key: Box<str>,
        /// Its first place.
        first: FilePlace,
    },
    /// A required key that is missing.
    #[error("{section} needs `{key}`")]
    MissingKey {
        /// The section.
        section: &'static str,
        /// The missing key.
        key: &'static str,
    },
    /// Two keys that contradict each other.
    #[error("{section} has no `{key}`")]
    Needless {
        /// The section, and why it cannot have the key.
        section: &'static str,
        /// The key that does not belong.
        key: &'static str,
    },
    /// A list that must not be empty.
    #[error("expected at least one {0}, found none")]
    Empty(&'static str),
    /// A file of a table that cannot be read.
    #[error("cannot read `{name}` in the same folder: {reason}")]
    Table {
        /// The file's name.
        name: Box<str>,
        /// Why not.
        reason: Box<str>,
    },
    /// A problem of one kind of file.
    #[error(transparent)]
    Specific(SpecificProblem),
    /// A problem that the user of the file found, in its words.
    #[error("{0}")]
    Other(Box<str>),
    /// An environment variable that is not set.
    #[error("the environment variable `{0}` is not set (write `$${{` for a literal `${{`)")]
    UnsetVariable(Box<str>),
    /// `${` without an environment variable.
    #[error("expected an environment variable such as ${{REDIS_URL}} (write `$${{` for a literal `${{`)")]
    Variable,
}

/// A problem that only one kind of file has: the error of the crate that knows these files.
#[derive(Debug, Clone, Error)]
#[error(transparent)]
pub struct SpecificProblem(Arc<dyn Error + Send + Sync>);

impl SpecificProblem {
    /// Returns the error, if it is of this type.
    #[must_use]
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }
}

impl PartialEq for SpecificProblem {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}

impl Eq for SpecificProblem {}

impl ProblemKind {
    /// Returns a problem that only one kind of file has.
    #[must_use]
    pub fn specific(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Specific(SpecificProblem(Arc::new(error)))
    }
}

impl Problem {
    /// Creates a problem that the user of the file found, beyond the checks of the file itself.
    #[must_use]
    pub const fn new(at: Position, kind: ProblemKind) -> Self {
        Self { at, kind }
    }

    /// Returns its place.
    #[must_use]
    pub const fn at(&self) -> Position {
        self.at
    }

    /// Returns the problem.
    #[must_use]
    pub const fn kind(&self) -> &ProblemKind {
        &self.kind
    }

    /// Returns the message, on one line. Messages repeat parts of the file, and may be as long as a whole file; the
    /// middle of a long one is left out.
    #[must_use]
    pub fn message(&self) -> String {
        let whole = Printable(&self.kind).to_string();
        let begin = whole.char_indices().nth(MESSAGE_BEGIN).map_or(whole.len(), |(end, _)| end);
        let end = whole.char_indices().rev().nth(MESSAGE_END).map_or(0, |(begin, _)| begin);
        match (whole.get(..begin), whole.get(end..)) {
            (Some(begin), Some(end)) if begin.len() + end.len() < whole.len() => format!("{begin} ... {end}"),
            _ => whole,
        }
    }
}

/// The number of characters that are kept at the beginning of a long message, and about as many at its end: more than
/// in any message that repeats at most a line.
const MESSAGE_BEGIN: usize = 400;
const MESSAGE_END: usize = 200;

/// `line:column: problem`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.message())
    }
}

/// All problems of files that are read together.
#[derive(Debug, Default)]
pub struct Problems {
    all: Vec<Problem>,
    advice: Option<Advice>,
    /// The number of values so far that are costly to read.
    costly: usize,
}

/// Returns advice about an unknown word among these known ones, in place of the nearest of them.
pub type Advice = fn(&str, &'static [&'static str]) -> Option<Box<str>>;

/// Places in a file, in its order.
#[derive(Debug)]
pub struct ProblemPlaces(Vec<Position>);

impl ProblemPlaces {
    /// Returns whether there is a problem from the first place up to the other.
    #[must_use]
    pub fn is_any_between(&self, from: Position, to: Position) -> bool {
        let first = self.0.partition_point(|place| *place < from);
        self.0.get(first).is_some_and(|place| *place < to)
    }
}

impl Problems {
    /// Returns no problems yet, with advice for unknown words.
    #[must_use]
    pub fn with_advice(advice: Advice) -> Self {
        Self { advice: Some(advice), ..Self::default() }
    }

    /// Returns the hint for an unknown word.
    #[must_use]
    pub fn hint(&self, written: &str, known: &'static [&'static str]) -> Hint {
        Hint::new(written, known, self.advice.and_then(|advice| advice(written, known)))
    }

    /// Counts a value that is costly to read, before it is read. Returns how many there are.
    pub fn count_costly(&mut self) -> usize {
        self.costly += 1;
        self.costly
    }

    /// Notes a problem.
    pub fn add(&mut self, at: Position, kind: impl Into<ProblemKind>) {
        self.all.push(Problem { at, kind: kind.into() });
    }

    /// Notes these problems.
    pub fn extend(&mut self, others: impl IntoIterator<Item = Problem>) {
        self.all.extend(others);
    }

    /// Returns the places of the problems so far.
    #[must_use]
    pub fn places(&self) -> ProblemPlaces {
        let mut places: Vec<Position> = self.all.iter().map(|problem| problem.at).collect();
        places.sort_unstable();
        ProblemPlaces(places)
    }

    /// Returns the number of problems so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Notes the error, if there is one.
    pub fn take<T>(&mut self, at: Position, result: Result<T, impl Into<ProblemKind>>) -> Option<T> {
        result.map_err(|kind| self.add(at, kind)).ok()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns them in the order of the file. A value whose variable is missing was checked as the text `${NAME}`, and
    /// one whose file cannot be read as nothing, so no other problem is reported for it. The variable's problem comes
    /// first: the order keeps that of the notes, and variables are replaced before anything is read.
    #[must_use]
    pub fn into_sorted(mut self) -> Box<[Problem]> {
        self.all.sort_by_key(|problem| problem.at);
        self.all.dedup_by(|later, first| {
            let is_replaced = matches!(
                first.kind,
                ProblemKind::UnsetVariable(_) | ProblemKind::Variable | ProblemKind::Table { .. }
            );
            // A tier is looked at for each policy that has it.
            later == first || is_replaced && later.at == first.at
        });
        self.all.into()
    }
}
