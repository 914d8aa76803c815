//! Regular expressions, matched directly by their definition.

use std::collections::BTreeSet;

use fastrand::Rng;

use crate::pattern::is_same;

#[derive(Debug, Clone)]
pub(crate) enum Expression {
    Character(char),
    /// Any character but the end of a line.
    Any,
    OneOf {
        is_not: bool,
        characters: Vec<char>,
    },
    Sequence(Vec<Expression>),
    Either(Vec<Expression>),
    Repeated {
        least: usize,
        most: Option<usize>,
        of: Box<Expression>,
    },
}

impl Expression {
    pub(crate) fn draw(random: &mut Rng, alphabet: &[char], depth: usize) -> Self {
        let character = |random: &mut Rng| alphabet[random.usize(..alphabet.len())];
        let several = |random: &mut Rng| {
            (0..random.usize(1..4)).map(|_| Self::draw(random, alphabet, depth.saturating_sub(1))).collect()
        };
        match random.u32(..if depth == 0 { 5 } else { 10 }) {
            0..3 => Self::Character(character(random)),
            3 => Self::Any,
            4 => {
                let characters = (0..random.usize(1..3)).map(|_| character(random)).collect();
                Self::OneOf { is_not: random.bool(), characters }
            }
            5 | 6 => Self::Sequence(several(random)),
            7 => Self::Either(several(random)),
            _ => {
                let least = random.usize(..3);
                let most = random.bool().then(|| least + random.usize(..2));
                Self::Repeated { least, most, of: Self::draw(random, alphabet, depth - 1).into() }
            }
        }
    }

    pub(crate) fn fits(&self, text: &str, ignores_case: bool) -> bool {
        let text: Vec<char> = text.chars().collect();
        self.ends(&text, 0, ignores_case).contains(&text.len())
    }

    /// Returns where a match that begins here may end.
    fn ends(&self, text: &[char], at: usize, ignores_case: bool) -> BTreeSet<usize> {
        let one = |fits: &dyn Fn(char) -> bool| text.get(at).filter(|it| fits(**it)).map(|_| at + 1);
        let is = |one: char, other: char| is_same(one, other, ignores_case);
        match self {
            Self::Character(character) => one(&|it| is(*character, it)).into_iter().collect(),
            Self::Any => one(&|it| it != '\n').into_iter().collect(),
            Self::OneOf { is_not, characters } => {
                one(&|it| characters.iter().any(|other| is(*other, it)) != *is_not).into_iter().collect()
            }
            Self::Sequence(parts) => parts.iter().fold(BTreeSet::from([at]), |ends, part| {
                ends.into_iter().flat_map(|at| part.ends(text, at, ignores_case)).collect()
            }),
            Self::Either(choices) => choices.iter().flat_map(|it| it.ends(text, at, ignores_case)).collect(),
            Self::Repeated { least, most, of } => {
                let again = |ends: &BTreeSet<usize>| -> BTreeSet<usize> {
                    ends.iter().flat_map(|at| of.ends(text, *at, ignores_case)).collect()
                };
                let mut ends = (0..*least).fold(BTreeSet::from([at]), |ends, _| again(&ends));
                // After as many repetitions as there are characters, nothing new is found.
                for _ in 0..most.map_or(text.len() + 1, |most| most - least) {
                    let more = again(&ends);
                    ends.extend(more);
                }
                ends
            }
        }
    }

    /// Returns a text that matches, or nearly does.
    pub(crate) fn example(&self, random: &mut Rng) -> String {
        match self {
            Self::Character(character) => character.to_string(),
            Self::Any => "a".to_owned(),
            Self::OneOf { is_not: true, .. } => "b".to_owned(),
            Self::OneOf { characters, .. } => characters.first().map(char::to_string).unwrap_or_default(),
            Self::Sequence(parts) => parts.iter().map(|part| part.example(random)).collect(),
            Self::Either(choices) => choices[random.usize(..choices.len())].example(random),
            Self::Repeated { least, most, of } => {
                let times = random.usize(*least..=most.unwrap_or(least + 2));
                (0..times).map(|_| of.example(random)).collect()
            }
        }
    }

    pub(crate) fn written(&self) -> String {
        match self {
            Self::Character(character) => escaped(*character),
            Self::Any => ".".to_owned(),
            Self::OneOf { is_not, characters } => {
                let characters: String = characters.iter().map(|it| escaped(*it)).collect();
                format!("[{}{characters}]", if *is_not { "^" } else { "" })
            }
            Self::Sequence(parts) => parts.iter().map(Self::in_group).collect(),
            Self::Either(choices) => choices.iter().map(Self::written).collect::<Vec<_>>().join("|"),
            Self::Repeated { least, most, of } => {
                let times = match (least, most) {
                    (0, None) => "*".to_owned(),
                    (1, None) => "+".to_owned(),
                    (0, Some(1)) => "?".to_owned(),
                    (least, None) => format!("{{{least},}}"),
                    (least, Some(most)) => format!("{{{least},{most}}}"),
                };
                format!("(?:{}){times}", of.written())
            }
        }
    }

    fn in_group(&self) -> String {
        match self {
            Self::Either(_) => format!("(?:{})", self.written()),
            _ => self.written(),
        }
    }
}

fn escaped(character: char) -> String {
    match character {
        '\n' => "\\n".to_owned(),
        '.' | '*' | '?' => format!("\\{character}"),
        _ => character.to_string(),
    }
}
