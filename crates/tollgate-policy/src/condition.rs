//! Conditions on attributes.

use std::fmt;
use std::net::IpAddr;

use crate::scalar::Scalar;
use crate::{Expression, List, Network, UndecidedValue, Value, View};

/// A condition: an attribute, and a test of its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub(crate) attribute: Box<str>,
    pub(crate) test: Test,
}

/// A test of a value, or of its absence. A list passes if one of its texts does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Test {
    /// The value matches one of these patterns.
    OneOf(Box<[Pattern]>),
    /// The value matches one of these patterns in upper or lower case. Made by [`ignoring_case`](Self::ignoring_case).
    IgnoringCase(Lowercase),
    /// The whole value matches this expression.
    Matches(Expression),
    /// The value is an address in one of these networks.
    Within(Box<[Network]>),
    /// The value is in a list from a file.
    In(List),
    /// There is a value that [a key can use](Value::counted): one text, which is not empty.
    Present,
    /// The opposite: there is no value, or it is empty or a list.
    Absent,
    /// All of these hold.
    All(Box<[Test]>),
    /// The other test fails: for a list, if none of its texts passes. An absent value passes.
    Not(Box<Test>),
}

/// Patterns in lower case, which are compared with values in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lowercase(pub(crate) Box<[Pattern]>);

/// A form of texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pattern {
    /// This text.
    Exact(Box<str>),
    /// Texts that begin with this one, which is written `/api/*`.
    Prefix(Box<str>),
    /// Texts of this form: `*` matches any characters or none, `?` one character.
    Glob(Box<str>),
}

impl Condition {
    /// Returns the condition that this holds of the attribute of this name.
    #[must_use]
    pub fn new(attribute: &str, test: Test) -> Self {
        Self { attribute: attribute.into(), test }
    }

    /// Returns the name of the attribute.
    #[must_use]
    pub fn attribute(&self) -> &str {
        &self.attribute
    }

    /// Returns the test that must hold.
    #[must_use]
    pub const fn test(&self) -> &Test {
        &self.test
    }

    /// Returns whether it holds of this request.
    ///
    /// # Errors
    ///
    /// If the value of its attribute is not known.
    #[inline]
    pub fn holds<V: View>(&self, view: &V) -> Result<bool, UndecidedValue<'_>> {
        let attribute = &self.attribute;
        match view.value(attribute) {
            Ok(value) => Ok(self.test.holds(value.map(|texts| Value::in_view(view, attribute, texts)))),
            Err(unknown) => Err(UndecidedValue { attribute, unknown }),
        }
    }
}

impl Test {
    /// Returns a test for values that match one of these, ignoring case.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_policy::{Pattern, Test, Value};
    ///
    /// let gold = Test::ignoring_case([Pattern::new("Gold*")]);
    /// assert!(gold.holds(Some(Value::of("plan", "GOLD-2"))));
    /// assert!(!gold.holds(Some(Value::of("plan", "old"))));
    /// ```
    #[must_use]
    pub fn ignoring_case(patterns: impl IntoIterator<Item = Pattern>) -> Self {
        let lower = |pattern: Pattern| match pattern {
            Pattern::Exact(text) => Pattern::Exact(lowercase(&text).into()),
            Pattern::Prefix(text) => Pattern::Prefix(lowercase(&text).into()),
            Pattern::Glob(text) => Pattern::Glob(lowercase(&text).into()),
        };
        Self::IgnoringCase(Lowercase(patterns.into_iter().map(lower).collect()))
    }

    /// Returns whether it holds for this value, or for a missing one.
    #[must_use]
    pub fn holds(&self, value: Option<Value<'_>>) -> bool {
        match self {
            Self::OneOf(patterns) => {
                value.is_some_and(|value| value.any(|text| patterns.iter().any(|it| it.fits(text))))
            }
            Self::IgnoringCase(Lowercase(patterns)) => value.is_some_and(|value| {
                let fits = |text: &str| {
                    let text = lowercase(text);
                    patterns.iter().any(|it| it.fits(&text))
                };
                value.any(fits)
            }),
            Self::Matches(expression) => value.is_some_and(|value| value.any(|it| expression.fits(it))),
            Self::Within(networks) => value.is_some_and(|value| {
                let mut hosts = value.texts().filter_map(address).map(Network::host);
                hosts.any(|host| networks.iter().any(|network| network.covers(&host)))
            }),
            Self::In(list) => value.is_some_and(|value| list.has(value)),
            Self::Present => value.is_some_and(Value::is_present),
            Self::Absent => !value.is_some_and(Value::is_present),
            Self::All(tests) => tests.iter().all(|test| test.holds(value)),
            Self::Not(test) => !test.holds(value),
        }
    }

    /// Returns whether it contains an empty list, which no file can express.
    pub(crate) fn has_empty_list(&self) -> bool {
        match self {
            Self::OneOf(patterns) => patterns.is_empty(),
            Self::IgnoringCase(Lowercase(patterns)) => patterns.is_empty(),
            Self::Within(networks) => networks.is_empty(),
            Self::All(tests) => tests.is_empty() || tests.iter().any(Self::has_empty_list),
            Self::Not(test) => test.has_empty_list(),
            // An empty list of a file may have something in it tomorrow.
            Self::In(_) | Self::Matches(_) | Self::Present | Self::Absent => false,
        }
    }
}

/// The text with each letter in lower case, by way of upper case, so that all forms of a letter become one: Greek has
/// two small sigmas. A character always becomes one character, whatever its neighbours. So `?` stays one, and a text
/// that begins with another still does.
fn lowercase(text: &str) -> String {
    let lower = |character: char| {
        let upper = alone(character.to_uppercase()).unwrap_or(character);
        alone(upper.to_lowercase()).unwrap_or(upper)
    };
    text.chars().map(lower).collect()
}

/// The character, if it is only one.
fn alone(mut characters: impl Iterator<Item = char>) -> Option<char> {
    characters.next().filter(|_| characters.next().is_none())
}

/// The address that a value is, if it is one.
pub(crate) fn address(value: &str) -> Option<IpAddr> {
    value.parse().ok()
}

impl Pattern {
    /// The pattern as it is written where a text stands for one: `*` and `?` are special.
    #[must_use]
    pub fn new(text: &str) -> Self {
        match text.find(['*', '?']) {
            None => Self::Exact(text.into()),
            Some(at) => match text.split_at(at) {
                (prefix, "*") => Self::Prefix(prefix.into()),
                _ => Self::Glob(text.into()),
            },
        }
    }

    /// Returns whether the value has this form.
    #[must_use]
    pub fn fits(&self, value: &str) -> bool {
        match self {
            Self::Exact(text) => value == text.as_ref(),
            Self::Prefix(prefix) => value.starts_with(prefix.as_ref()),
            Self::Glob(pattern) => glob(pattern, value),
        }
    }
}

/// Returns whether the value has the form of the glob. A star first matches nothing; on a mismatch, the last one takes
/// another byte. Earlier stars need no second try, because the last one can take whatever they could take, so the time
/// is at most the product of both lengths.
fn glob(pattern: &str, value: &str) -> bool {
    // Most values end otherwise, which is seen at once.
    let (mut pattern, mut value) = (pattern.as_bytes(), value.as_bytes());
    let end = pattern.rsplit(|byte| matches!(byte, b'*' | b'?')).next().unwrap_or(pattern);
    if !value.ends_with(end) {
        return false;
    }
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern, value) {
            ([], []) => return true,
            ([b'*', after @ ..], _) => {
                // The star takes nothing yet.
                retry = Some((after, value));
                pattern = after;
            }
            // A character and not a byte, so what follows of it is taken as well. Where a star has taken its
            // beginning, both together have taken that one character.
            ([b'?', after @ ..], [_, rest @ ..]) => {
                let more = rest.iter().take_while(|byte| is_continuation(**byte)).count();
                (pattern, value) = (after, rest.get(more..).unwrap_or_default());
            }
            ([expected, after @ ..], [found, rest @ ..]) if expected == found => {
                (pattern, value) = (after, rest);
            }
            _ => {
                let Some((after_star, [_, taken @ ..])) = retry else { return false };
                // The star takes all that cannot stand behind it.
                let start = match after_star {
                    [b'?', ..] | [] => Some(0),
                    [next, ..] => taken.iter().position(|byte| byte == next),
                };
                let Some(rest) = start.and_then(|start| taken.get(start..)) else { return false };
                retry = Some((after_star, rest));
                (pattern, value) = (after_star, rest);
            }
        }
    }
}

/// Returns whether a byte of UTF-8 continues a character.
const fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// Written as in a file: parsing it gives the same condition.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", Scalar(&self.attribute), self.test)
    }
}

/// As it is written in a file, if it can be: a list is one of its texts, and braces are tests that hold together.
///
/// No file can combine two tests of one kind. They are printed with the key repeated.
impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneOf(patterns) => match patterns.as_ref() {
                [pattern] if pattern.is_read_from_a_text() => pattern.fmt(f),
                [_] => write!(f, "{{ {} }}", NamedTest(self)),
                patterns => list(f, patterns),
            },
            test => write!(
                f,
                "{{ {}{} }}",
                NamedTest(test),
                if test.ignores_case() { ", ignore_case: true" } else { "" }
            ),
        }
    }
}

impl Test {
    /// Returns whether braces must contain `ignore_case`.
    fn ignores_case(&self) -> bool {
        match self {
            Self::IgnoringCase(_) => true,
            Self::Matches(expression) => expression.ignores_case(),
            Self::All(tests) => tests.iter().any(Self::ignores_case),
            _ => false,
        }
    }
}

/// A test under its name, as it stands between braces.
struct NamedTest<'a>(&'a Test);

impl fmt::Display for NamedTest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Test::OneOf(patterns) | Test::IgnoringCase(Lowercase(patterns)) => match patterns.as_ref() {
                [Pattern::Exact(text)] => write!(f, "equal: {}", Scalar(text)),
                [Pattern::Prefix(prefix)] => write!(f, "prefix: {}", Scalar(prefix)),
                [Pattern::Glob(glob)] => write!(f, "glob: {}", Scalar(glob)),
                patterns => {
                    f.write_str("one_of: ")?;
                    list(f, patterns)
                }
            },
            Test::Matches(expression) => write!(f, "regex: {}", Scalar(expression.as_str())),
            Test::Within(networks) => {
                f.write_str("cidr: ")?;
                let networks: Vec<String> = networks.iter().map(Network::to_string).collect();
                list(f, &networks.iter().map(|network| Scalar(network)).collect::<Vec<_>>())
            }
            Test::In(list) => write!(f, "{}: {}", list.key(), Scalar(list.file())),
            Test::Present => f.write_str("present: true"),
            Test::Absent => f.write_str("absent: true"),
            // All of them hold, whatever the braces.
            Test::All(tests) => {
                for (index, test) in tests.iter().enumerate() {
                    write!(f, "{}{}", if index == 0 { "" } else { ", " }, NamedTest(test))?;
                }
                Ok(())
            }
            Test::Not(test) => write!(f, "not: {test}"),
        }
    }
}

fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, values: &[T]) -> fmt::Result {
    f.write_str("[")?;
    for (index, value) in values.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        write!(f, "{separator}{value}")?;
    }
    f.write_str("]")
}

impl Pattern {
    /// Returns whether it can be written as a plain text. With literal `*` and `?`, and for a glob that ends like a
    /// prefix, it needs a named test.
    fn is_read_from_a_text(&self) -> bool {
        match self {
            Self::Exact(text) | Self::Prefix(text) => !text.contains(['*', '?']),
            Self::Glob(_) => true,
        }
    }
}

/// Written as in a list; a text with a literal `*` or `?` is written as a named test.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(text) if !self.is_read_from_a_text() => write!(f, "{{ equal: {} }}", Scalar(text)),
            Self::Prefix(text) if !self.is_read_from_a_text() => write!(f, "{{ prefix: {} }}", Scalar(text)),
            Self::Exact(text) | Self::Glob(text) => Scalar(text).fmt(f),
            Self::Prefix(prefix) => Scalar(&format!("{prefix}*")).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Texts;

    #[test]
    fn a_star_stands_for_any_characters_and_a_question_mark_for_one() {
        let fits = |pattern: &str, value: &str| Pattern::new(pattern).fits(value);
        assert!(fits("/users/*/photos", "/users/1/2/photos"));
        assert!(fits("/users/*/photos", "/users//photos"));
        assert!(!fits("/users/*/photos", "/users/photos"));
        assert!(fits("*.css", "a.css.css"));
        assert!(!fits("*.css", "a.css.js"));
        assert!(fits("v?", "vä"));
        assert!(!fits("v?", "v"));
        assert!(fits("**", "") && fits("*", "") && !fits("?", ""));
        assert!(fits("*a*b*", "xxaxxbxx") && !fits("*a*b*", "xxbxxaxx"));
    }

    /// By the definition, character for character.
    fn reference(pattern: &[char], value: &[char]) -> bool {
        match (pattern, value) {
            ([], []) => true,
            (['*', after @ ..], _) => (0..=value.len()).any(|taken| reference(after, &value[taken..])),
            (['?', after @ ..], [_, rest @ ..]) => reference(after, rest),
            ([expected, after @ ..], [found, rest @ ..]) => expected == found && reference(after, rest),
            _ => false,
        }
    }

    #[test]
    fn a_glob_does_as_defined_for_characters_of_any_length() {
        let words = |alphabet: [char; 4]| {
            let longer = move |words: &Vec<Vec<char>>| {
                let words =
                    words.iter().flat_map(|word| alphabet.map(|next| [word.as_slice(), &[next]].concat()));
                Some(words.collect())
            };
            std::iter::successors(Some(vec![Vec::new()]), longer).take(5).flatten().collect::<Vec<_>>()
        };
        let (patterns, values) = (words(['a', 'ä', '?', '*']), words(['a', 'ä', '€', '*']));
        for pattern in &patterns {
            for value in &values {
                let (pattern_text, value_text) = (String::from_iter(pattern), String::from_iter(value));
                assert_eq!(
                    glob(&pattern_text, &value_text),
                    reference(pattern, value),
                    "{pattern_text} {value_text}"
                );
            }
        }
    }

    #[test]
    fn a_glob_of_many_stars_is_not_exponential() {
        assert!(!Pattern::new(&"*a".repeat(50)).fits(&"a".repeat(49)));
        assert!(!Pattern::new(&format!("{}b", "*a".repeat(50))).fits(&"a".repeat(2_000)));
    }

    /// Texts were compared as `str::to_lowercase` writes them. It makes two characters of some, and another sigma at
    /// the end of a word, so `?` did not fit the one, and a prefix not the words that begin with it.
    #[test]
    fn a_letter_is_one_letter_in_lower_case_wherever_it_stands() {
        let fits = |pattern: &str, value: &str| {
            Test::ignoring_case([Pattern::new(pattern)]).holds(Some(Value::of("x", value)))
        };
        assert!(fits("?", "İ") && !fits("i*", "İ"));
        assert!(fits("ΟΔΟΣ*", "οδοσα") && fits("ΟΔΟΣ*", "ΟΔΟΣΑ") && fits("οδος", "ΟΔΟΣ"));
        assert!(fits("*É?", "xéß") && !fits("ss", "ß"));
    }

    /// A client that sent a header twice was passed over by the policy whose key is the header, and by the policy for
    /// requests without the header: it was never limited.
    #[test]
    fn values_that_no_key_can_use_are_absent() {
        let exact = Test::OneOf([Pattern::new("a")].into());
        assert!(!exact.holds(None));
        assert!(Test::Not(exact.into()).holds(None));
        let list = ["a".into(), "b".into()];
        let values = [None, Some("".into()), Some(Texts::List(&list))];
        for value in values.map(|texts: Option<Texts<'_>>| texts.map(|texts| Value::of("x", texts))) {
            assert!(Test::Absent.holds(value) && !Test::Present.holds(value), "{value:?}");
        }
        let one = Some(Value::of("x", "a"));
        assert!(Test::Present.holds(one) && !Test::Absent.holds(one));
    }
}
