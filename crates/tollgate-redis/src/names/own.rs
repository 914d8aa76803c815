//! Our own names: `{prefix}:1:{policy}:{windows}:{{identity}}`.
//!
//! For example `tollgate:1:login:1m:{xXvTx0caa3RWc8NUkisk5w}`. The `1` is the version of this format. The braces are
//! part of the name. They are the only hash tag, so on a Cluster all quotas of one identity are in one slot.
//!
//! Names are injective, because only the last part can contain a `:` or a brace: all others are [escaped](escape).
//! [`KeyIdentity`] documents the last part.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use tollgate::{Key, PolicyInFlight, PolicyQuota};

use super::{CounterIdentity, Tag};
use crate::identity::{KeyIdentity, digest_text};
use crate::key_values::{KeyValue, parse};
use crate::script::KeyText;

/// Names for a store with this prefix.
#[derive(Debug)]
pub(crate) struct OwnNaming {
    head: Box<[u8]>,
    identity: KeyIdentity,
}

impl OwnNaming {
    pub(super) fn new(prefix: &str, identity: KeyIdentity) -> Self {
        let mut head = Vec::new();
        escape(&mut head, prefix.as_bytes());
        head.extend_from_slice(b":1:");
        Self { head: head.into_boxed_slice(), identity }
    }

    /// The prefix of all names.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    pub(super) fn counter_identity(&self, key: &Key<'_>) -> CounterIdentity {
        let digest = self.identity.digest_bits(key);
        let tag = match self.identity {
            KeyIdentity::Plain => Tag::Plain(plain(&key.canonical_bytes())),
            _ => Tag::Digest(digest_text(digest)),
        };
        CounterIdentity { digest, tag }
    }

    pub(super) fn name(&self, quota: &PolicyQuota, tag: &[u8]) -> KeyText {
        self.name_in(quota.policy(), quota.windows(), tag)
    }

    pub(super) fn in_flight(&self, in_flight: &PolicyInFlight, tag: &[u8]) -> KeyText {
        self.name_in(in_flight.policy(), PolicyInFlight::SERIES, tag)
    }

    /// The record of a hold, with this digest of its id: `{prefix}:1::~hold:{{id}}`. In the slot of a tag, it is
    /// `{prefix}:1::~hold.{id}:{{tag}}`. No quota has such windows.
    pub(super) fn hold(&self, id: u128, tag: Option<&[u8]>) -> KeyText {
        let id = digest_text(id);
        match tag {
            None => self.name_in("", "~hold", &id),
            Some(tag) => self.name_in("", &format!("~hold.{}", String::from_utf8_lossy(&id)), tag),
        }
    }

    /// A part of shared records: `{prefix}:1::~{records}.{part}:{{~{records}}}`. All parts are in one slot.
    pub(super) fn record_part(&self, records: &str, part: &str) -> KeyText {
        let mut tag = b"~".to_vec();
        escape(&mut tag, records.as_bytes());
        self.name_in("", &format!("~{records}.{part}"), &tag)
    }

    fn name_in(&self, policy: &str, series: &str, tag: &[u8]) -> KeyText {
        let mut name = Vec::with_capacity(self.head.len() + policy.len() + series.len() + tag.len() + 4);
        name.extend_from_slice(&self.head);
        escape(&mut name, policy.as_bytes());
        name.push(b':');
        escape(&mut name, series.as_bytes());
        name.extend_from_slice(b":{");
        name.extend_from_slice(tag);
        name.push(b'}');
        name.into_boxed_slice()
    }
}

/// Writes every byte other than letters, digits and `-._~/@+` as `%` and two digits.
fn escape(text: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    // Nearly always.
    if bytes.iter().all(|byte| IS_PLAIN[usize::from(*byte)]) {
        text.extend_from_slice(bytes);
        return;
    }
    for &byte in bytes {
        if IS_PLAIN[usize::from(byte)] {
            text.push(byte);
        } else {
            text.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}

/// Whether a byte is not escaped. A table: this is asked of every byte of a name.
const IS_PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let marks = b"-._~/@+";
    let mut at = 0;
    while at < marks.len() {
        table[marks[at] as usize] = true;
        at += 1;
    }
    table
};

/// Writes the values in these canonical bytes as [`KeyIdentity::Plain`] does.
fn plain(canonical: &[u8]) -> Box<str> {
    let mut text = Vec::new();
    let mut rest = canonical;
    while let Some(after) = plain_value(&mut text, rest) {
        rest = after;
    }
    String::from_utf8(text).unwrap_or_default().into_boxed_str()
}

/// Writes the first value and returns the bytes after it.
fn plain_value<'a>(text: &mut Vec<u8>, canonical: &'a [u8]) -> Option<&'a [u8]> {
    let (value, after) = parse(canonical)?;
    match value {
        KeyValue::Text([]) => text.push(b'\''),
        KeyValue::Text(value) => escape(text, value),
        KeyValue::Number(number) => text.extend_from_slice(format!("#{number}").as_bytes()),
        KeyValue::Negative(number) => text.extend_from_slice(format!("#-{number}").as_bytes()),
        KeyValue::V4(address) => text.extend_from_slice(format!("={}", Ipv4Addr::from(address)).as_bytes()),
        KeyValue::V6(address) => text.extend_from_slice(format!("={}", Ipv6Addr::from(address)).as_bytes()),
        KeyValue::Parts(parts) => plain_parts(text, parts),
        KeyValue::Bytes(bytes) => plain_hex(text, "$".to_owned(), bytes),
        KeyValue::Other(kind, bytes) => plain_hex(text, format!("${kind}$"), bytes),
    }
    Some(after)
}

fn plain_hex(text: &mut Vec<u8>, mut hex: String, bytes: &[u8]) {
    bytes.iter().for_each(|byte| {
        let _ = write!(hex, "{byte:02x}");
    });
    text.extend_from_slice(hex.as_bytes());
}

fn plain_parts(text: &mut Vec<u8>, parts: &[u8]) {
    text.push(b'(');
    let mut rest = parts;
    while let Some(after) = plain_value(text, rest) {
        if !after.is_empty() {
            text.push(b',');
        }
        rest = after;
    }
    text.push(b')');
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};
    use std::net::IpAddr;

    use proptest::prelude::*;
    use tollgate::{Counter, Timestamp};

    use super::*;
    use crate::identity::IdentitySecret;
    use crate::names::CounterNames;
    use crate::slot;

    fn name(prefix: &str, identity: KeyIdentity, policy: &str, quota: &str, key: &Key<'_>) -> String {
        let names = CounterNames::new(prefix, identity);
        let quota = PolicyQuota::new(policy, quota.parse().unwrap());
        String::from_utf8(named(&names, &quota, key).into_vec()).unwrap()
    }

    fn named(names: &CounterNames, quota: &PolicyQuota, key: &Key<'_>) -> KeyText {
        names.of(&Counter::new(quota, key), &names.counter_identity(key), || Timestamp::EPOCH).unwrap().0
    }

    /// Names of live counters, which the next version has to find again.
    #[test]
    fn names_stay_what_they_are() {
        let digest = |policy, quota, key: Key<'_>| name("tollgate", KeyIdentity::Digest, policy, quota, &key);
        let expected = [
            // SHA-256 of 01 05 'alice', and so on.
            (digest("login", "5/1m", "alice".into()), "tollgate:1:login:1m:{xXvTx0caa3RWc8NUkisk5w}"),
            (digest("login", "9/60s", "alice".into()), "tollgate:1:login:1m:{xXvTx0caa3RWc8NUkisk5w}"),
            (
                digest("login", "5/1m~burst:9", "alice".into()),
                "tollgate:1:login:1m~burst:{xXvTx0caa3RWc8NUkisk5w}",
            ),
            (
                digest("login", "5/1m~sliding", "alice".into()),
                "tollgate:1:login:1m~sliding:{xXvTx0caa3RWc8NUkisk5w}",
            ),
            (
                digest("login", "5/1m~log:1s", "alice".into()),
                "tollgate:1:login:1m~log%3A1s:{xXvTx0caa3RWc8NUkisk5w}",
            ),
            (
                digest("a:b{c}", "5/1h@first_hit", 7_u64.into()),
                "tollgate:1:a%3Ab%7Bc%7D:1h@first_hit:{FtP9gXavUhVb5xriBnjfaA}",
            ),
            (
                digest("", "5/day@Europe/Berlin", ("a", "b").into()),
                "tollgate:1::day@Europe/Berlin:{HxdWW5xkUxrQ-CXlH2-kOA}",
            ),
        ];
        for (name, expected) in expected {
            assert_eq!(name, expected);
        }
    }

    #[test]
    fn all_parts_of_shared_records_are_in_one_slot() {
        let naming = OwnNaming::new("shop", KeyIdentity::Digest);
        let name = |part| String::from_utf8(naming.record_part("overrides", part).into_vec()).unwrap();
        assert_eq!(name("head"), "shop:1::~overrides.head:{~overrides}");
        assert_eq!(slot::of(name("head").as_bytes()), slot::of(name("log").as_bytes()));
    }

    #[test]
    fn plain_names_can_be_read() {
        let plain = |key: Key<'_>| {
            let name = name("shop", KeyIdentity::Plain, "login", "5/1m", &key);
            name.strip_prefix("shop:1:login:1m:").unwrap().to_owned()
        };
        assert_eq!(plain("alice@example.org".into()), "{alice@example.org}");
        assert_eq!(plain("a:b{} %ü".into()), "{a%3Ab%7B%7D%20%25%C3%BC}");
        assert_eq!(plain("".into()), "{'}");
        assert_eq!(plain(49_u64.into()), "{#49}");
        assert_eq!(plain((&[0_u8, 255]).into()), "{$00ff}");
        assert_eq!(plain(IpAddr::from([10, 0, 0, 1]).into()), "{=10.0.0.1}");
        assert_eq!(plain(Ipv6Addr::LOCALHOST.into()), "{=::1}");
        assert_eq!(plain(("alice", Key::from((1_u64, ""))).into()), "{(alice,(#1,'))}");
        assert_eq!(plain(Key::parts([""; 0])), "{()}");
    }

    #[test]
    fn a_default_name_has_about_45_bytes() {
        let name = name("tollgate", KeyIdentity::Digest, "login", "5/1m", &"x".repeat(1000).as_str().into());
        assert_eq!(name.len(), 44);
    }

    fn key() -> impl Strategy<Value = Key<'static>> {
        let leaf = prop_oneof![
            "[ab:{}%'#$=(,)\\x00é]{0,4}".prop_map(Key::from),
            proptest::collection::vec(any::<u8>(), 0..3).prop_map(Key::from),
            (0..300_u64).prop_map(Key::from),
            any::<IpAddr>().prop_map(Key::from),
        ];
        leaf.prop_recursive(2, 6, 3, |inner| proptest::collection::vec(inner, 0..3).prop_map(Key::parts))
    }

    fn keyed() -> KeyIdentity {
        KeyIdentity::Keyed(IdentitySecret::new(b"0123456789abcdef0123456789abcdef").unwrap())
    }

    /// Up to three of these in a row.
    fn texts() -> Vec<String> {
        let one = [":", "1", "a", "{", "%3A"].map(str::to_owned);
        let longer = |texts: &[String]| -> Vec<String> {
            texts.iter().flat_map(|text| one.iter().map(move |one| format!("{text}{one}"))).collect()
        };
        let two = longer(&one);
        [vec![String::new()], one.to_vec(), longer(&two), two].concat()
    }

    /// G4: no prefix runs into a policy.
    #[test]
    fn prefixes_and_policies_are_told_apart() {
        let key = Key::from("alice");
        let mut seen = HashSet::new();
        for prefix in texts() {
            let names = CounterNames::new(&prefix, KeyIdentity::Digest);
            for policy in texts() {
                let quota = PolicyQuota::new(&policy, "5/1m".parse().unwrap());
                assert!(seen.insert(named(&names, &quota, &key)), "{prefix:?}, {policy:?}");
            }
        }
    }

    proptest! {
        /// G4: what differs has another name, in either form, and the only hash tag is around the identity.
        #[test]
        fn different_counters_have_different_names(
            counters in proptest::collection::vec(
                ("[a:1{}%]{0,3}", "[a:1m{}%]{0,3}", prop::sample::select(vec!["1m", "1h", "1m@first_hit"]), key()),
                2..40,
            ),
            identity in prop::sample::select(vec![KeyIdentity::Digest, keyed(), KeyIdentity::Plain]),
        ) {
            let mut seen = HashMap::new();
            for (prefix, policy, windows, key) in counters {
                let name = name(&prefix, identity.clone(), &policy, &format!("5/{windows}"), &key);
                let (head, tag) = name.split_once('{').unwrap();
                prop_assert!(head.ends_with(':') && !head.contains('}'), "{}", name);
                prop_assert!(tag.len() > 1 && tag.find('}') == Some(tag.len() - 1), "{}", name);
                let counter = (prefix, policy, windows, key.canonical_bytes().into_owned());
                let known = seen.entry(name).or_insert_with(|| counter.clone());
                prop_assert_eq!(known, &counter);
            }
        }
    }
}
