//! The labels under which envoyproxy/ratelimit counts the hits of a limit.

/// The owner of a counter of hits. Levels below the second are counted with those above them.
///
/// The labels are those of envoyproxy/ratelimit, which joins the names of all levels by dots and divides the text there
/// again: a dot in a name divides it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Series {
    /// The domain.
    pub domain: Box<str>,
    /// The key of the first level, with its value behind `_` if it has one. It is empty for a limit that came with a
    /// descriptor without entries.
    pub key1: Box<str>,
    /// The same of the second level, if there is one.
    pub key2: Option<Box<str>>,
}

/// The maximum length of a label, in bytes.
const MAX_LABEL: usize = 128;

/// The name of a level in metrics.
pub(crate) fn level(key: &str, value: &str) -> Box<str> {
    let name = if value.is_empty() { key.to_owned() } else { format!("{key}_{value}") };
    shortened(&name).into()
}

pub(crate) fn shortened(name: &str) -> &str {
    let end = (0..=MAX_LABEL.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
    name.get(..end.unwrap_or_default()).unwrap_or_default()
}

/// Replaces `:`, `|` and the dots of IPv4 addresses, which would mean something in a name.
pub(crate) fn sanitized(name: &str) -> String {
    let mut sanitized = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let address = address_length(rest);
        let (text, after) = rest.split_at(address.unwrap_or(first.len_utf8()));
        match address {
            Some(_) => sanitized.push_str(&text.replace('.', "_")),
            None => sanitized.push(if matches!(first, ':' | '|') { '_' } else { first }),
        }
        rest = after;
    }
    sanitized
}

/// The length of what looks like an IPv4 address at the beginning: four times one to three digits, with dots between.
fn address_length(text: &str) -> Option<usize> {
    let mut length = 0;
    for number in 0..4 {
        if number > 0 {
            text.get(length..)?.strip_prefix('.')?;
            length += 1;
        }
        let digits = text.bytes().skip(length).take(3).take_while(u8::is_ascii_digit).count();
        length += Some(digits).filter(|digits| *digits > 0)?;
    }
    Some(length)
}

impl Series {
    /// The series of a limit at these levels.
    pub(crate) fn new(domain: &str, levels: impl IntoIterator<Item = Box<str>>) -> Self {
        let levels: Vec<Box<str>> = levels.into_iter().collect();
        let name = sanitized(&format!("{domain}.{}", levels.join(".")));
        let mut parts = name.split('.').map(Box::from);
        let mut next = || parts.next();
        Self { domain: next().unwrap_or_default(), key1: next().unwrap_or_default(), key2: next() }
    }

    /// The series of a domain for all that are too many.
    pub(crate) fn others(domain: Box<str>) -> Self {
        Self { domain, key1: "other".into(), key2: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A dashboard did not find limits whose names have dots, or an address within a longer text. The names are what
    /// its mapping for Prometheus makes of such limits.
    #[test]
    fn labels_are_those_of_envoyproxy_ratelimit() {
        let labels = |domain, levels: &[(&str, &str)]| {
            let Series { domain, key1, key2 } =
                Series::new(domain, levels.iter().map(|(key, value)| level(key, value)));
            format!("{domain} {key1} {}", key2.as_deref().unwrap_or("-"))
        };
        for (domain, levels, expected) in [
            ("d", &[("key", "")][..], "d key -"),
            ("d", &[("a:b", "c|d.e")], "d a_b_c_d e"),
            (
                "d",
                &[("remote_address", "192.0.2.7"), ("k", "v"), ("third", "")],
                "d remote_address_192_0_2_7 k_v",
            ),
            ("d", &[("from", "x1.2.3.4567"), ("to", "999.9.9.9:80")], "d from_x1_2_3_4567 to_999_9_9_9_80"),
            ("d", &[("v", "1.2.3")], "d v_1 2"),
            ("shop.example:1", &[("é", "ü")], "shop example_1 é_ü"),
            ("d", &[], "d  -"),
        ] {
            assert_eq!(labels(domain, levels), expected);
        }
        assert_eq!(level("k", &"é".repeat(1_000)).len(), MAX_LABEL);
    }
}
