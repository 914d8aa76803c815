//! Long names of clients, shortened so that different ones stay different.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

/// Characters that are kept of a name.
const LONGEST: usize = 120;

/// The mark between the beginning of a name and its digest.
const MARK: &str = "...#";

/// Returns a name as reports have it: of a long one, its begin and a digest of the whole.
pub(crate) fn shortened(name: &str) -> String {
    cut(name, LONGEST).map_or_else(|| name.to_owned(), |begin| begin.to_owned() + MARK + &digest(name))
}

/// Returns a name of a report for a narrow column. It keeps the digest that it has.
pub(crate) fn narrowed(name: &str, width: usize) -> String {
    let Some(begin) = cut(name, width) else { return name.to_owned() };
    // Only a shortened name is longer than that. In a shorter one, a client may have written a mark of its own.
    let is_shortened = cut(name, LONGEST).is_some();
    let known = name.rsplit_once(MARK).filter(|_| is_shortened).map(|(_, digest)| digest.to_owned());
    begin.to_owned() + MARK + &known.unwrap_or_else(|| digest(name))
}

/// Whether a text says what the name of a client, `ATTRIBUTE=VALUE`, says.
pub(crate) fn is_told_by(name: &str, text: &str) -> bool {
    let Some((_, value)) = name.split_once('=') else { return false };
    match value.rsplit_once(MARK).filter(|_| cut(name, LONGEST).is_some()) {
        Some((begin, _)) => text.starts_with(begin),
        None => text == value,
    }
}

/// The begin of a text with more characters than that.
fn cut(text: &str, characters: usize) -> Option<&str> {
    text.char_indices().nth(characters).and_then(|(end, _)| text.get(..end))
}

fn digest(name: &str) -> String {
    let mut hasher = SipHasher13::new();
    hasher.write(name.as_bytes());
    format!("{:08x}", hasher.finish() >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_begin_alike_stay_different_and_keep_their_digest() {
        let names = ["a", "b"].map(|end| "x".repeat(900) + end);
        let [first, second] = names.map(|name| shortened(&name));
        assert_eq!((first.len(), second.len()), (132, 132));
        assert_ne!(first, second);
        assert_eq!(narrowed(&first, 48).get(48..), first.get(120..));
        let forged = format!("{}...#00000000", "x".repeat(60));
        assert!(!narrowed(&shortened(&forged), 48).ends_with("00000000"));
        assert_eq!(narrowed("ip=192.0.2.7", 48), "ip=192.0.2.7");
    }

    #[test]
    fn texts_tell_a_name_if_they_are_its_value() {
        let long = "x".repeat(200);
        let name = shortened(&format!("token={long}"));
        for (name, text, is_told) in [
            ("token=abc", "abc", true),
            ("token=abc", "abcd", false),
            ("token=a=b", "a=b", true),
            ("token=", "abc", false),
            (&name, &long, true),
            (&name, "xxx", false),
        ] {
            assert_eq!(is_told_by(name, text), is_told, "{name}: {text}");
        }
    }
}
