//! A reader of Spring's configuration files, for a few settings: names with dots, positions, and placeholders.
//!
//! Names are compared as Spring does: hyphens and case do not matter. The active profile is unknown here, so a file
//! with several documents is refused.

use granit_parser::{Event, Parser, Span, StrInput};
use tollgate_policy::{Position, Problem, ProblemKind};

/// The settings of one file.
#[derive(Debug, Default)]
pub(super) struct SpringFile(Vec<Setting>);

/// One setting.
#[derive(Debug)]
pub(super) struct Setting {
    /// The name as written, such as `rate-limiter.window-size`.
    pub(super) name: String,
    /// The value as written, with its placeholders.
    pub(super) text: String,
    pub(super) at: Position,
}

/// More than twice the depth of any real setting.
const MAX_DEPTH: usize = 32;

impl SpringFile {
    /// Parses a file.
    ///
    /// # Errors
    ///
    /// If it is not YAML, or has several documents.
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        let (mut reader, mut file) = (Reader(Parser::new_from_str(text)), Self::default());
        let mut documents = 0;
        while let Some((event, span)) = reader.next()? {
            match event {
                Event::DocumentStart(..) => {
                    documents += 1;
                    if documents > 1 {
                        let message = "a second document begins here, such as that of a profile: which documents \
                                       apply is not known here, so merge them into one";
                        return Err(Problem::new(position(span), ProblemKind::Other(message.into())));
                    }
                }
                Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
                event => reader.value(event, span, "", 0, &mut file.0)?,
            }
        }
        Ok(file)
    }

    /// Sets a value from a variable, which overrides the file.
    pub(super) fn set(&mut self, name: &str, text: String) {
        self.0.push(Setting { name: name.to_owned(), text, at: Position::new(1, 1) });
    }

    /// Returns the setting of this name. If there are several, the last one counts, as in Spring.
    pub(super) fn setting(&self, name: &str) -> Option<&Setting> {
        self.0.iter().rev().find(|setting| is_same(&setting.name, name))
    }

    /// Returns the names of all other settings, each once.
    pub(super) fn others(&self, known: &[&str]) -> Vec<&str> {
        let is_known = |name: &str| known.iter().any(|known| is_same(known, name));
        let mut others: Vec<&str> = self.0.iter().map(|setting| setting.name.as_str()).collect();
        others.retain(|name| !is_known(name));
        others.dedup();
        others
    }

    /// Returns the position of the first setting below this name.
    pub(super) fn section(&self, name: &str) -> Option<Position> {
        let below =
            |setting: &&Setting| setting.name.split('.').next().is_some_and(|first| is_same(first, name));
        self.0.iter().find(below).map(|setting| setting.at)
    }
}

impl Setting {
    /// Returns the value, with `${NAME}` and `${NAME:default}` replaced by variables.
    ///
    /// # Errors
    ///
    /// If a variable is not set and has no default, or the placeholder does not end.
    pub(super) fn resolve(&self, variables: &dyn Fn(&str) -> Option<String>) -> Result<String, Problem> {
        let fails = |kind| Problem::new(self.at, kind);
        let (mut resolved, mut rest) = (String::new(), self.text.as_str());
        while let Some((before, from)) = rest.split_once("${") {
            let (placeholder, after) = from.split_once('}').ok_or_else(|| fails(ProblemKind::Variable))?;
            let (name, default) = match placeholder.split_once(':') {
                Some((name, default)) => (name, Some(default)),
                None => (placeholder, None),
            };
            if name.is_empty() || placeholder.contains("${") {
                return Err(fails(ProblemKind::Variable));
            }
            let value = variables(name).or_else(|| default.map(str::to_owned));
            resolved += before;
            resolved += &value.ok_or_else(|| fails(ProblemKind::UnsetVariable(name.into())))?;
            rest = after;
        }
        Ok(resolved + rest)
    }
}

struct Reader<'a>(Parser<'a, StrInput<'a>>);

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, Problem> {
        self.0.next_event().transpose().map_err(|error| {
            let marker = error.marker();
            let at = Position::new(marker.line().max(1), marker.col() + 1);
            Problem::new(at, ProblemKind::Syntax(error.info().into()))
        })
    }

    /// Adds all settings below this name. Entries of a list have the name of the list.
    fn value(
        &mut self,
        event: Event<'a>,
        span: Span,
        name: &str,
        depth: usize,
        settings: &mut Vec<Setting>,
    ) -> Result<(), Problem> {
        let at = position(span);
        if depth > MAX_DEPTH {
            return Err(Problem::new(at, ProblemKind::TooDeep(MAX_DEPTH)));
        }
        match event {
            Event::Scalar(text, ..) => {
                settings.push(Setting { name: name.to_owned(), text: text.into_owned(), at });
            }
            Event::SequenceStart(..) => {
                while let Some((event, span)) = self.next()? {
                    if matches!(event, Event::SequenceEnd) {
                        break;
                    }
                    self.value(event, span, name, depth + 1, settings)?;
                }
            }
            Event::MappingStart(..) => {
                while let Some((event, span)) = self.next()? {
                    let key = match event {
                        Event::MappingEnd => break,
                        Event::Scalar(key, ..) if name.is_empty() => key.into_owned(),
                        Event::Scalar(key, ..) => format!("{name}.{key}"),
                        _ => {
                            return Err(Problem::new(
                                position(span),
                                ProblemKind::Unsupported("keys that are not words"),
                            ));
                        }
                    };
                    let Some((event, span)) = self.next()? else { break };
                    self.value(event, span, &key, depth + 1, settings)?;
                }
            }
            // An alias. If it stands for a setting that is needed, the setting is reported as missing.
            _ => {}
        }
        Ok(())
    }
}

fn position(span: Span) -> Position {
    Position::new(span.start.line().max(1), span.start.col() + 1)
}

/// Returns whether both are the same name in Spring.
fn is_same(one: &str, other: &str) -> bool {
    let letters = |name: &'_ str| {
        let kept: Vec<char> = name.chars().filter(|at| !matches!(at, '-' | '_')).collect();
        kept.into_iter().flat_map(char::to_lowercase).collect::<String>()
    };
    letters(one) == letters(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(text: &str) -> Result<String, ProblemKind> {
        let at = Position::new(1, 1);
        let setting = Setting { name: String::new(), text: text.to_owned(), at };
        let variables = |name: &str| (name == "HOST").then(|| "h".to_owned());
        setting.resolve(&variables).map_err(|problem| problem.kind().clone())
    }

    #[test]
    fn finds_settings_however_their_names_are_written() {
        for text in
            ["a-b:\n  c-d: 5", "a-b.c-d: 5", "aB:\n  cD: 5", "A_B: { c_d: 5 }", "a-b: { c-d: 4 }\na-b.c-d: 5"]
        {
            let file = SpringFile::parse(text).unwrap();
            assert_eq!(file.setting("a-b.c-d").unwrap().text, "5", "{text}");
        }
        let file = SpringFile::parse("x:\n- 1\n- y: 2\na:\n  b: 3").unwrap();
        assert_eq!(file.others(&["a.b"]), ["x", "x.y"]);
        let setting = file.setting("a.b").unwrap();
        assert_eq!((setting.at.line, setting.at.column), (5, 6));
    }

    #[test]
    fn replaces_placeholders_by_variables_or_defaults() {
        assert_eq!(resolved("redis://${HOST}:${PORT:6379}/").unwrap(), "redis://h:6379/");
        assert_eq!(resolved("${NONE:}").unwrap(), "");
        assert_eq!(resolved("${PORT}"), Err(ProblemKind::UnsetVariable("PORT".into())));
        for text in ["${", "${}", "${:x}", "${A:${B:1}}"] {
            assert_eq!(resolved(text), Err(ProblemKind::Variable), "{text}");
        }
    }

    #[test]
    fn refuses_all_but_one_yaml_document_and_names_the_line() {
        for (text, line) in [("a: 1\n---\nb: 2", 2), ("a: [1", 1), ("a:\n\t- 1", 2), ("? [a]\n: 1", 1)] {
            assert_eq!(SpringFile::parse(text).unwrap_err().at().line, line, "{text}");
        }
        assert!(SpringFile::parse(&"[".repeat(100_000)).is_err());
    }
}
