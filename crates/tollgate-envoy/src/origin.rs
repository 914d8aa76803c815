//! Where configurations come from, for messages about their places.

use std::fmt::Write;

use thiserror::Error;
use tollgate_yaml::{FilePlace, Position, Printable, Problem, Problems};

/// What the positions of a configuration mean.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// Lines and columns of files with these names.
    Files(&'a [Box<str>]),
    Values(&'a ValuePlaces),
}

/// The places of values that are not in files. The line of a position is the number of its place, from 1.
#[derive(Default)]
pub(crate) struct ValuePlaces {
    /// The names of the values in messages.
    names: Vec<Box<str>>,
    /// The last step to each place, and the position of the place before it. A value itself has no step.
    steps: Vec<Option<(Position, PlaceStep)>>,
}

/// The step from a value to one that it contains.
pub(crate) enum PlaceStep {
    Key(Box<str>),
    Index(usize),
}

/// Configurations that are not valid. The fault of their author. Displayed as every problem with its place, one a line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", problems.join("\n"))]
pub struct InvalidConfigs {
    problems: Box<[String]>,
}

impl Origin<'_> {
    /// Returns a place for a message about another place.
    pub(crate) fn seen_from(self, here: Position, there: Position) -> FilePlace {
        match self {
            Self::Files(names) => FilePlace::seen_from(here, there, names),
            Self::Values(places) if here.file == there.file => FilePlace::named(places.path(there).into()),
            Self::Values(places) => {
                let path = format!("{} of {}", places.path(there), places.name(there));
                FilePlace::named(path.into())
            }
        }
    }

    /// Returns a place for a message, such as `shop.yaml:3:5`.
    pub(crate) fn place(self, at: Position) -> Box<str> {
        match self {
            Self::Files(names) => {
                let name = names.get(at.file as usize).map_or("", AsRef::as_ref);
                format!("{name}:{at}").into()
            }
            Self::Values(places) => {
                let (name, path) = (Printable(places.name(at)), places.path(at));
                let colon = if path.is_empty() { "" } else { ": " };
                format!("{name}{colon}{path}").into()
            }
        }
    }
}

impl ValuePlaces {
    /// Returns the position of another value, which messages call `name`.
    pub(crate) fn add_value(&mut self, name: &str) -> Position {
        let file = self.names.len() as u32;
        self.names.push(name.into());
        self.steps.push(None);
        Position { file, line: self.steps.len(), column: 1 }
    }

    /// Adds a place one step below another one, and returns its position.
    pub(crate) fn add(&mut self, from: Position, step: PlaceStep) -> Position {
        self.steps.push(Some((from, step)));
        Position { line: self.steps.len(), ..from }
    }

    fn name(&self, at: Position) -> &str {
        self.names.get(at.file as usize).map_or("", AsRef::as_ref)
    }

    /// Returns the steps to a place, such as `descriptors[0].key`.
    fn path(&self, at: Position) -> String {
        let step = |at: Position| self.steps.get(at.line.checked_sub(1)?)?.as_ref();
        let steps = std::iter::successors(step(at), |(from, _)| step(*from));
        let mut steps: Vec<&PlaceStep> = steps.map(|(_, step)| step).collect();
        steps.reverse();
        let mut path = String::new();
        for step in steps {
            let dot = if path.is_empty() { "" } else { "." };
            // Writing into a text cannot fail.
            let _ = match step {
                PlaceStep::Key(key) => write!(path, "{dot}{}", Printable(key)),
                PlaceStep::Index(index) => write!(path, "[{index}]"),
            };
        }
        path
    }
}

impl InvalidConfigs {
    pub(crate) fn new(problems: Problems, origin: Origin<'_>) -> Self {
        let problems = problems.into_sorted();
        let line = |problem: &Problem| format!("{}: {}", origin.place(problem.at()), problem.message());
        Self { problems: problems.iter().map(line).collect() }
    }

    /// Returns every problem with its place, in the order of the configurations.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        self.problems.iter().map(String::as_str)
    }
}
