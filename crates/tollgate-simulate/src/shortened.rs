//! Long names of clients, shortened so that different ones stay different.

use std::hash::Hasher as _;

use percent_encoding::percent_decode_str;
use siphasher::sip::SipHasher13;

/// Characters that are kept of a name.
const LONGEST: usize = 120;

/// Characters of a long value that are told from others by themselves.
const TELLING: usize = 32;

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

/// Whether a text contains what the name of a client, `ATTRIBUTE=VALUE, ...`, says: a value as a word of its own, in
/// small or capital letters, perhaps percent-encoded. Of a network, it is the part that its addresses share.
pub(crate) fn is_told_by(name: &str, text: &str) -> bool {
    let is_cut = cut(name, LONGEST).is_some();
    let name = if is_cut { name.rsplit_once(MARK).map_or(name, |(begin, _)| begin) } else { name };
    let text = text.to_lowercase();
    // An encoded text may be a part of another one.
    let decoded = percent_decode_str(&text).decode_utf8_lossy();
    let twice = percent_decode_str(&decoded).decode_utf8_lossy();
    let values = name.split(", ").chain([name]).filter_map(|part| part.split_once('='));
    values.map(|(_, value)| value.split_once("::/").map_or(value, |(network, _)| network).to_lowercase()).any(
        |value| {
            let (begin, is_begin) = cut(&value, TELLING).map_or((&*value, is_cut), |begin| (begin, true));
            [&*text, &*decoded, &*twice].iter().any(|text| contains(text, begin, is_begin))
        },
    )
}

/// Whether a text contains this word; as the begin of a longer one too, if it `is_begin`.
fn contains(text: &str, word: &str, is_begin: bool) -> bool {
    let is_within = |before: Option<char>, after: Option<char>| {
        before.is_some_and(char::is_alphanumeric) && after.is_some_and(char::is_alphanumeric)
    };
    let ends_before = |place: usize| {
        let (before, after) = text.split_at_checked(place).unwrap_or((text, ""));
        !is_within(before.chars().next_back(), after.chars().next())
    };
    !word.is_empty()
        && text.char_indices().any(|(start, _)| {
            text.get(start..).is_some_and(|rest| rest.starts_with(word))
                && ends_before(start)
                && (is_begin || ends_before(start + word.len()))
        })
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

    /// The path `/u/9.1.1.7` stood next to the digest of `ip=9.1.1.7`.
    #[test]
    fn texts_tell_a_name_if_they_contain_its_value() {
        let long = "x".repeat(200);
        let name = shortened(&format!("token={long}"));
        for (name, text, is_told) in [
            ("token=abc", "abc", true),
            ("token=abc", "abcd", false),
            ("token=a=b", "a=b", true),
            ("token=", "abc", false),
            (&name, &long, true),
            (&name, "xxx", false),
            (&name, &format!("/reset/{long}"), true),
            ("ip=9.1.1.7", "/u/9.1.1.7", true),
            ("ip=9.1.1.7", "bot 9.1.1.7; x", true),
            ("ip=9.1.1.7", "/u/19.1.1.7", false),
            ("ip=9.1.1.7", "/u/9.1.1.70", false),
            ("user=Alice@Example.com", "/u/alice%40example.com/x", true),
            ("user=alice@example.com", "/u/alice%2540example.com", true),
            ("user=é", "/u/%C3%A9", true),
            ("user=a.a", "/xa.a.a", true),
            ("ip=9.1.1.7, user=bob", "/users/bob", true),
            ("ip=9.1.1.7, user=bob", "/users/9.1.1.7/", true),
            ("user=bob, ip=1", "/users/bobby", false),
            ("ip=2001:db8:1:2::/64", "/u/2001:db8:1:2::7", true),
            ("ip=2001:db8:1:2::/64", "/u/2001:db8:1:3::7", false),
        ] {
            assert_eq!(is_told_by(name, text), is_told, "{name}: {text}");
        }
    }
}
