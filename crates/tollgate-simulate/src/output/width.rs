//! Texts that fit the columns of a terminal.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Columns of a terminal that every line fits.
pub(crate) const COLUMNS: usize = 80;

/// Characters of a client's name that are shown.
pub(crate) const CLIENT_WIDTH: usize = 40;

/// Returns the lines of a text, which end between words. All but the first are indented by two more, if the first is
/// at all.
pub(crate) fn wrapped(text: &str, indent: usize, columns: usize) -> Vec<String> {
    let hanging = if indent == 0 { 0 } else { indent + 2 };
    let mut lines = Vec::new();
    let mut line = " ".repeat(indent);
    let mut is_empty = true;
    // A number and its `%` stay together.
    let text = text.replace(" %", "\u{a0}%");
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let gap = usize::from(!is_empty);
        if !is_empty && line.width() + gap + word.width() > columns {
            lines.push(std::mem::replace(&mut line, " ".repeat(hanging)));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        for character in word.chars().map(|character| if character == '\u{a0}' { ' ' } else { character }) {
            // A word that is longer than a line.
            if line.width() + character.width().unwrap_or(0) > columns {
                lines.push(std::mem::replace(&mut line, " ".repeat(hanging)));
            }
            line.push(character);
        }
        is_empty = false;
    }
    lines.push(line);
    lines
}

/// Returns a text that is shortened in the middle to fit so many columns.
pub(crate) fn fitted(text: &str, columns: usize) -> String {
    const MARK: char = '…';
    if text.width() <= columns {
        return text.to_owned();
    }
    let end = (columns / 2).min(14);
    let end: String = taken(text.chars().rev(), end).chars().rev().collect();
    let begin = taken(text.chars(), columns.saturating_sub(end.width() + 1));
    format!("{begin}{MARK}{end}")
}

/// The first characters that fit so many columns.
fn taken(characters: impl Iterator<Item = char>, columns: usize) -> String {
    let mut width = 0;
    let fits = |character: &char| {
        width += character.width().unwrap_or(0);
        width <= columns
    };
    characters.take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_inside_of_longer_ones() {
        let lines = wrapped(&format!("a {} b", "x".repeat(100)), 2, COLUMNS);
        assert!(lines.iter().all(|line| line.width() <= COLUMNS), "{lines:?}");
        assert_eq!(lines.concat().replace(' ', "").len(), 102);
        assert_eq!(wrapped(&"word ".repeat(17), 0, COLUMNS).len(), 2);
        assert_eq!(wrapped("", 0, COLUMNS), [""]);
    }

    #[test]
    fn long_texts_lose_their_middle() {
        assert_eq!(fitted("search:candidate", 16), "search:candidate");
        assert_eq!(fitted("a-very-long-name-of-a-policy:candidate", 20), "a-very-lo…:candidate");
        assert_eq!(fitted("日本語日本語日本語", 9).width(), 9);
        assert!(fitted("日本語日本語日本語", 10).width() <= 10);
    }
}
