//! Measures of prose: words, reading grade, length of sentences, and turns that plain English avoids.

use std::fmt;

use super::Pages;
use super::page::ManualPage;

/// Turns of phrase that make readers stumble, in lower case, each with a replacement.
const TURNS: [(&str, &str); 24] = [
    ("who is counted", "name the key"),
    ("whom it counts", "name the key"),
    ("who comes back", "\"clients that return\""),
    ("of what is no", "name the thing"),
    ("and so is what", "write two sentences"),
    ("so it is with", "\"the same holds for\""),
    ("so does who", "name the actor"),
    ("goes before", "\"overrides\""),
    ("what there is to say", "name the content"),
    ("sees to it", "\"ensures\""),
    ("is not to be had", "\"is unavailable\""),
    ("for want of", "\"without\" or \"because there is no\""),
    ("tells of", "\"reports\""),
    ("told of", "\"reported\""),
    ("beside", "\"next to\" or \"compared with\""),
    ("takes the place", "\"replaces\""),
    ("in the place of", "\"instead of\""),
    ("anew", "\"again\", \"start over\""),
    ("on its way", "\"in flight\""),
    ("under way", "\"in flight\""),
    ("is away", "\"is down\""),
    ("counts apart", "\"counts separately\""),
    ("what is left", "\"the remaining units\""),
    ("at its start", "\"at startup\""),
];

/// What a sentence ends with.
const ENDS: [char; 3] = ['.', '!', '?'];

/// Returns the turns found in prose, as lines to print.
pub(super) fn turns(pages: &Pages) -> Vec<String> {
    let mut found = Vec::new();
    for (path, page) in pages {
        for block in &page.blocks {
            found.extend(turns_in(&format!("{}:{}", path.display(), block.line), &block.text));
        }
    }
    found
}

/// Returns the turns found in a text at this place, as lines to print.
pub(super) fn turns_in(place: &str, text: &str) -> Vec<String> {
    let text = format!(" {} ", text.to_lowercase().replace(|c: char| !c.is_alphanumeric(), " "));
    let found = TURNS.iter().filter(|(turn, _)| text.contains(&format!(" {turn} ")));
    found.map(|(turn, better)| format!("{place}: \"{turn}\" reads badly; instead: {better}")).collect()
}

/// The size of prose, and how hard it is to read.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct Measure {
    /// Words in everything but code blocks.
    all_words: usize,
    /// Words in whole sentences.
    words: usize,
    sentences: usize,
    syllables: usize,
}

impl Measure {
    pub(super) fn of<'a>(pages: impl IntoIterator<Item = &'a ManualPage>) -> Self {
        let mut measure = Self::default();
        for block in pages.into_iter().flat_map(|page| &page.blocks) {
            let words: Vec<&str> = block.text.split_whitespace().filter(|word| is_word(word)).collect();
            measure.all_words += words.len();
            if block.is_sentences {
                measure.words += words.len();
                measure.syllables += words.iter().map(|word| syllables(word)).sum::<usize>();
                measure.sentences += sentences(&block.text);
            }
        }
        measure
    }

    /// Returns the Flesch-Kincaid grade: the years of school that a reader needs.
    fn grade(self) -> f64 {
        let (words, sentences) = (self.words.max(1) as f64, self.sentences.max(1) as f64);
        0.39 * words / sentences + 11.8 * self.syllables as f64 / words - 15.59
    }

    fn sentence_length(self) -> f64 {
        self.words as f64 / self.sentences.max(1) as f64
    }
}

/// A row of the table that [`check`](super::check) prints.
impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>6} {:>6.1} {:>15.1}", self.all_words, self.grade(), self.sentence_length())
    }
}

fn is_word(word: &str) -> bool {
    word.chars().any(char::is_alphanumeric)
}

/// Counts the sentences of a block: each end that something follows, and the end of the block.
fn sentences(text: &str) -> usize {
    let words: Vec<&str> = text.split_whitespace().collect();
    let ends = words.iter().filter(|word| {
        let word = word.trim_end_matches([')', '"', '*']);
        word.ends_with(ENDS)
    });
    let is_open = words.last().is_some_and(|word| !word.trim_end_matches([')', '"']).ends_with(ENDS));
    ends.count() + usize::from(is_open)
}

/// Counts groups of vowels, the best estimate without a dictionary. A name in code counts as one word.
fn syllables(word: &str) -> usize {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    if !word.chars().all(|c| c.is_ascii_alphabetic() || c == '\'' || c == '-') {
        return 1;
    }
    let word = word.to_ascii_lowercase();
    let is_vowel = |c: char| "aeiouy".contains(c);
    let groups = word.split(|c| !is_vowel(c)).filter(|group| !group.is_empty()).count();
    let is_mute =
        word.ends_with('e') && !word.ends_with("le") || word.ends_with("ed") && !word.ends_with("ted");
    groups.saturating_sub(usize::from(is_mute)).max(1)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn names_a_turn_by_its_line_and_no_part_of_another_word() {
        let text = "# Title\n\nThe flag goes\nbefore the file.\n\nA cargo goes beforehand.\n";
        let pages = Pages::from([(PathBuf::from("a.md"), ManualPage::parse(text))]);
        assert_eq!(turns(&pages), ["a.md:3: \"goes before\" reads badly; instead: \"overrides\""]);
    }

    #[test]
    fn measures_whole_sentences() {
        let page = ManualPage::parse(
            "# A heading of six words here\n\nThe cat sat. The dog (a big one) ran!\n\n| no | row |\n|---|---|\n",
        );
        let measure = Measure::of([&page]);
        assert_eq!((measure.all_words, measure.words, measure.sentences), (17, 9, 2));
        assert_eq!(measure.syllables, 9);
        assert!(measure.grade() < 2.0, "{measure:?}");
    }

    #[test]
    fn counts_syllables() {
        let words =
            ["limit", "rate", "table", "counted", "changed", "window", "every", "x-ratelimit", "5/1m"];
        assert_eq!(words.map(syllables), [2, 1, 2, 2, 1, 2, 3, 4, 1]);
    }
}
