//! Problems of files, with their places.

use std::fmt;

use thiserror::Error;
use tollgate::{LocalShareError, QuotaError, QuotaErrorKind};

use crate::file::{RawDefaults, RawPolicy};
use crate::{Attributes, ExpressionError, HeaderFormatsError, NetworkError, Position, Printable};

/// A line, and its file if that is another one. Displayed as in `line 3 of api.yaml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    file: Option<Box<str>>,
    line: usize,
}

impl Place {
    /// Returns a place for a message about another place; `names` are those of the files.
    #[must_use]
    pub fn seen_from(here: Position, there: Position, names: &[Box<str>]) -> Self {
        let other = names.get(there.file as usize).filter(|_| there.file != here.file);
        Self { file: other.cloned(), line: there.line }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        self.file.iter().try_for_each(|file| write!(f, " of {file}"))
    }
}

/// A problem that makes a file invalid. The fault of its author. The message shows what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub(crate) at: Position,
    pub(crate) kind: ProblemKind,
}

/// The problem.
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
        first: Place,
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
    /// `count_denied` in a policy with `overdraft`.
    #[error("remove `count_denied`: a policy with `overdraft` charges every request")]
    CountDeniedOfOverdraft,
    /// An invalid quota.
    #[error(transparent)]
    Quota(QuotaError),
    /// Windows that are not valid, as they are written.
    #[error("windows `{0}`: {1}")]
    Windows(Box<str>, QuotaErrorKind),
    /// Header formats that cannot be sent together.
    #[error(transparent)]
    HeaderFormats(HeaderFormatsError),
    /// Two quotas that would count the same units on the same counter.
    #[error("{second} has the same window as {first}: keep one of them")]
    SameWindow {
        /// The first quota, as written if it has variables.
        first: Box<str>,
        /// The quota that repeats its window, likewise.
        second: Box<str>,
    },
    /// A list that must not be empty.
    #[error("expected at least one {0}, found none")]
    Empty(&'static str),
    /// An invalid network.
    #[error("network `{0}`: {1}")]
    Network(Box<str>, NetworkError),
    /// An invalid share.
    #[error("`{0}`: {1}")]
    LocalShare(Box<str>, LocalShareError),
    /// `on_store_failure: local` without a share.
    #[error("`on_store_failure: local` needs `local_share`, such as 1/3 for one of three processes")]
    MissingShare,
    /// A share without `on_store_failure: local`.
    #[error("`local_share` is only valid with `on_store_failure: local`")]
    NeedlessShare,
    /// A name that a policy cannot have.
    #[error("a policy's name has 1 to 64 letters, digits, `-`, `_` and `.`")]
    PolicyName,
    /// Two policies of one name.
    #[error(
        "duplicate policy name `{name}`, already used in {first}: counters and metrics identify policies by name"
    )]
    DuplicatePolicy {
        /// The name as written.
        name: Box<str>,
        /// Its first place.
        first: Place,
    },
    /// An attribute's name that no request can have.
    #[error("an attribute's name has 1 to {} characters", Attributes::MAX_NAME)]
    AttributeName,
    /// The same part twice in one key.
    #[error("duplicate part of the key, already given at {first}")]
    RepeatedIdentity {
        /// Its first place.
        first: Position,
    },
    /// A tier that the file does not have.
    #[error("there is no tier `{0}`: `tiers` has the quotas of each")]
    UnknownTier(Box<str>),
    /// An invalid line of a table.
    #[error("expected a value, a comma and quotas, such as acme,10/1s,1000/1h")]
    TableLine,
    /// A file of a table that cannot be read.
    #[error("cannot read `{name}` in the same folder: {reason}")]
    Table {
        /// The file's name.
        name: Box<str>,
        /// Why not.
        reason: Box<str>,
    },
    /// A regular expression that cannot be used.
    #[error(transparent)]
    Expression(ExpressionError),
    /// More regular expressions than files may have.
    #[error("the files have more than {MAX_EXPRESSIONS} regular expressions")]
    TooManyExpressions,
    /// A cost whose minimum is above its maximum.
    #[error("`min` is above `max`, so no cost would be valid")]
    CostRange,
    /// A limit for a missing attribute that is above the maximum.
    #[error("`on_missing` must not be above `max`")]
    LimitRange,
    /// A condition that is only a variable, which is empty.
    #[error("the variable is empty, so the test would match more than intended")]
    EmptyVariable,
    /// A `*` or `?` of a variable among others that are written.
    #[error(
        "the value of the variable contains `*` or `?`, which would be read as wildcards like those written here"
    )]
    SpecialVariable,
    /// A test for presence or absence that is `false`.
    #[error("expected `true`: write `{0}: true` for the opposite")]
    Opposite(&'static str),
    /// A prefix that every text has.
    #[error("an empty prefix matches every text: write \"*\" if that is what you mean")]
    EmptyPrefix,
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

/// The probable word, or all known words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// The word names an algorithm other than fixed windows.
    algorithm: Option<QuotaErrorKind>,
    meant: Option<&'static str>,
    known: &'static [&'static str],
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

impl Hint {
    /// A word counts as a misspelling of the nearest known one if they differ in at most two fifths of the longer one.
    #[must_use]
    pub fn new(written: &str, known: &'static [&'static str]) -> Self {
        let algorithm = QuotaErrorKind::of_algorithm(written);
        if known == RawDefaults::KEYS && RawPolicy::KEYS.contains(&written) {
            return Self { algorithm, meant: None, known: &[] };
        }
        let written = written.to_ascii_lowercase().replace('-', "_");
        let distances =
            known.iter().map(|word| (strsim::osa_distance(&written, &word.replace('-', "_")), *word));
        let nearest = distances.min_by_key(|(distance, _)| *distance);
        let is_near = |(distance, word): &(usize, &str)| 5 * distance <= 2 * word.len().max(written.len());
        let meant = nearest.filter(is_near).map(|(_, word)| word);
        Self { algorithm, meant, known }
    }

    /// Returns the word that was probably meant.
    #[must_use]
    pub const fn meant(&self) -> Option<&'static str> {
        self.meant
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.algorithm, self.meant) {
            (Some(algorithm), _) => algorithm.fmt(f),
            (None, Some(meant)) => write!(f, "did you mean `{meant}`?"),
            // The defaults lack it, and policies have it.
            (None, None) if self.known.is_empty() => f.write_str("set it on each policy"),
            // The defaults lack it, and policies have it.
            (None, None) if self.known.is_empty() => f.write_str("set it on each policy"),
            (None, None) => write!(f, "expected {}", self.known.join(", ")),
        }
    }
}

/// `line:column: problem`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.message())
    }
}

/// All problems of files that are read together, and the number of their expressions.
#[derive(Debug, Default)]
pub struct Problems(Vec<Problem>, usize);

/// Regular expressions in files that are read together. The compiled size of each has a separate bound.
const MAX_EXPRESSIONS: usize = 1_000;

/// Places in a file, in its order.
pub(crate) struct Places(Vec<Position>);

impl Places {
    /// Returns whether there is a problem from the first place up to the other.
    pub(crate) fn is_any_between(&self, from: Position, to: Position) -> bool {
        let first = self.0.partition_point(|place| *place < from);
        self.0.get(first).is_some_and(|place| *place < to)
    }
}

impl Problems {
    /// Counts an expression, before it is compiled.
    pub(crate) fn count_expression(&mut self) -> Result<(), ProblemKind> {
        self.1 += 1;
        if self.1 > MAX_EXPRESSIONS { Err(ProblemKind::TooManyExpressions) } else { Ok(()) }
    }

    /// Notes a problem.
    pub fn add(&mut self, at: Position, kind: ProblemKind) {
        self.0.push(Problem { at, kind });
    }

    pub(crate) fn extend(&mut self, others: Vec<Problem>) {
        self.0.extend(others);
    }

    /// Returns the places of the problems so far.
    pub(crate) fn places(&self) -> Places {
        let mut places: Vec<Position> = self.0.iter().map(|problem| problem.at).collect();
        places.sort_unstable();
        Places(places)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Notes the error, if there is one.
    pub fn take<T>(&mut self, at: Position, result: Result<T, ProblemKind>) -> Option<T> {
        result.map_err(|kind| self.add(at, kind)).ok()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns them in the order of the file. A value whose variable is missing was checked as the text `${NAME}`, and
    /// one whose file cannot be read as nothing, so no other problem is reported for it. The variable's problem comes
    /// first: the order keeps that of the notes, and variables are replaced before anything is read.
    #[must_use]
    pub fn into_sorted(mut self) -> Box<[Problem]> {
        self.0.sort_by_key(|problem| problem.at);
        self.0.dedup_by(|later, first| {
            let of_variable = matches!(
                first.kind,
                ProblemKind::UnsetVariable(_) | ProblemKind::Variable | ProblemKind::Table { .. }
            );
            // A tier is looked at for each policy that has it.
            later == first || of_variable && later.at == first.at
        });
        self.0.into()
    }
}
