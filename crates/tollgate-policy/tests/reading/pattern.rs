//! Texts with wildcards, and matching against them.

use std::collections::BTreeSet;

/// A text with wildcards.
#[derive(Debug, Clone)]
pub(crate) struct Pattern(pub(crate) Vec<Piece>);

#[derive(Debug, Clone)]
pub(crate) enum Piece {
    Text(String),
    /// The value of a variable, in which nothing is special.
    Variable(String),
    /// Any number of characters.
    Star,
    /// One character.
    Any,
}

/// What one place of a pattern matches.
#[derive(Clone, Copy)]
enum Place {
    Character(char),
    Star,
    Any,
}

impl Pattern {
    pub(crate) fn of(text: &str) -> Self {
        Self(vec![Piece::Text(text.to_owned())])
    }

    pub(crate) fn fits(&self, text: &str, ignores_case: bool) -> bool {
        let mut places = Vec::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) | Piece::Variable(text) => {
                    places.extend(text.chars().map(Place::Character))
                }
                Piece::Star => places.push(Place::Star),
                Piece::Any => places.push(Place::Any),
            }
        }
        let text: Vec<char> = text.chars().collect();
        // The positions that a match can reach after each place.
        let mut ends = BTreeSet::from([0]);
        for place in places {
            let is_next = |at: usize, character| is_same(character, text[at], ignores_case);
            ends = match place {
                Place::Star => ends.first().map(|first| (*first..=text.len()).collect()).unwrap_or_default(),
                Place::Any => ends.iter().filter(|at| **at < text.len()).map(|at| at + 1).collect(),
                Place::Character(character) => {
                    let ends = ends.iter().filter(|at| **at < text.len() && is_next(**at, character));
                    ends.map(|at| at + 1).collect()
                }
            };
        }
        ends.contains(&text.len())
    }
}

/// Whether two characters are the same, ignoring case.
pub(crate) fn is_same(one: char, other: char, ignores_case: bool) -> bool {
    let is_letter =
        || one.to_lowercase().eq(other.to_lowercase()) || one.to_uppercase().eq(other.to_uppercase());
    one == other || (ignores_case && is_letter())
}
