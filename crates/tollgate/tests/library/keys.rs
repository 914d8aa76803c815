//! Canonical bytes of keys: they can be read back as the key that was written, so no two keys share them (G4).

#![expect(clippy::unwrap_used, reason = "an error here is a failed test")]

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::{Charge, Key, ManualClock, MemoryStore, PolicyQuota, Quota, Step};

#[derive(Debug, Clone, PartialEq)]
enum Value {
    Text(String),
    Bytes(Vec<u8>),
    Number(u64),
    Address(IpAddr),
    Parts(Vec<Value>),
}

impl Value {
    fn key(&self) -> Key<'_> {
        match self {
            Self::Text(text) => text.into(),
            Self::Bytes(bytes) => bytes.as_slice().into(),
            Self::Number(number) => (*number).into(),
            Self::Address(address) => (*address).into(),
            Self::Parts(parts) => Key::parts(parts.iter().map(Self::key)),
        }
    }
}

/// Generates values from a small alphabet, with the bytes that the encoding itself uses.
fn value() -> impl Strategy<Value = Value> {
    let byte = || prop_oneof![0..=6_u8, Just(b'a'), Just(b':'), Just(0x80), any::<u8>()];
    let leaf = prop_oneof![
        "[a:\u{0}-\u{6}]{0,6}".prop_map(Value::Text),
        (120..140_usize).prop_map(|length| Value::Text("a".repeat(length))),
        vec(byte(), 0..6).prop_map(Value::Bytes),
        prop_oneof![0..4_u64, any::<u64>()].prop_map(Value::Number),
        any::<[u8; 4]>().prop_map(|octets| Value::Address(Ipv4Addr::from(octets).into())),
        any::<[u8; 16]>().prop_map(|octets| Value::Address(Ipv6Addr::from(octets).into())),
        any::<[u8; 4]>().prop_map(|octets| Value::Address(Ipv4Addr::from(octets).to_ipv6_mapped().into())),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| vec(inner, 0..4).prop_map(Value::Parts))
}

/// Reads one value off the front of canonical bytes, using only their specification.
fn read(bytes: &mut &[u8]) -> Value {
    let (kind, rest) = bytes.split_first().unwrap();
    let digits = rest.iter().take_while(|byte| **byte >= 0x80).count() + 1;
    let length = rest[..digits].iter().rev().fold(0, |length, digit| length << 7 | usize::from(digit & 0x7f));
    let (mut payload, rest) = rest[digits..].split_at(length);
    *bytes = rest;
    match kind {
        1 => Value::Text(String::from_utf8(payload.to_vec()).unwrap()),
        2 => Value::Bytes(payload.to_vec()),
        3 => Value::Number(u64::from_be_bytes(payload.try_into().unwrap())),
        4 => Value::Address(match <[u8; 4]>::try_from(payload) {
            Ok(octets) => octets.into(),
            Err(_) => <[u8; 16]>::try_from(payload).unwrap().into(),
        }),
        5 => {
            let mut parts = Vec::new();
            while !payload.is_empty() {
                parts.push(read(&mut payload));
            }
            Value::Parts(parts)
        }
        kind => panic!("unknown kind {kind}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn canonical_bytes_read_back_as_the_key_they_were_written_from(value in value()) {
        let bytes = value.key().canonical_bytes().into_owned();
        let mut rest = bytes.as_slice();
        prop_assert_eq!(read(&mut rest), value);
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn different_keys_have_different_bytes_and_are_not_equal(one in value(), other in value()) {
        let (a, b) = (one.key(), other.key());
        prop_assert_eq!(a.canonical_bytes() == b.canonical_bytes(), one == other);
        prop_assert_eq!(a == b, one == other);
    }

    #[test]
    fn an_owned_key_is_the_key(value in value()) {
        let key = value.key();
        let owned = key.clone().into_owned();
        prop_assert_eq!(&owned, &key);
        prop_assert_eq!(&Key::from(&key), &key);
        prop_assert_eq!(owned.canonical_bytes(), key.canonical_bytes());
    }
}

#[test]
fn keys_of_one_payload_and_different_kinds_are_different() {
    let number = 1_u64.to_be_bytes();
    let parts = Key::parts(["a"]).canonical_bytes().into_owned();
    let same_payload = [
        [Key::from("a"), Key::from(b"a")],
        [Key::from(1_u64), Key::from(&number)],
        [Key::from(IpAddr::from([127, 0, 0, 1])), Key::from(&[127, 0, 0, 1])],
        [Key::parts(["a"]), Key::from(&parts[2..])],
    ];
    for [one, other] in same_payload {
        assert_ne!(one, other);
        assert_ne!(one.canonical_bytes(), other.canonical_bytes());
    }
}

#[test]
fn one_value_is_one_key_whatever_its_type() {
    let (v4, v6) = (Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
    let same = [
        [Key::from(7_u64), Key::from(7_u32)],
        [Key::from(u64::from(u32::MAX)), Key::from(u32::MAX)],
        [Key::from(7_u64), Key::from(7_usize)],
        [Key::from(IpAddr::V4(v4)), Key::from(v4)],
        [Key::from(IpAddr::V6(v6)), Key::from(v6)],
        [Key::from("a"), Key::from(Cow::Borrowed("a"))],
        [Key::from("a"), Key::from(Cow::<str>::Owned("a".to_owned()))],
        [Key::from(b"a"), Key::from(vec![b'a'])],
    ];
    for [one, other] in same {
        assert_eq!(one, other);
        assert_eq!(one.canonical_bytes(), other.canonical_bytes());
    }
}

/// Numbers, addresses and owned texts are keys of any lifetime, so they can be combined with a borrowed text.
#[test]
fn parts_of_all_types_go_together() {
    let name = String::from("alice");
    let triple = Key::from((7_u32, name.as_str(), (IpAddr::from([127, 0, 0, 1]), name.clone())));
    let parts = [Key::from(7_u64), Key::from("alice"), Key::from((Ipv4Addr::LOCALHOST, "alice"))];
    assert_eq!(triple, Key::parts(parts));
}

#[test]
fn a_key_hides_its_value() {
    for key in [Key::from("secret"), Key::from(b"secret"), Key::from(("secret", "secret"))] {
        assert!(!format!("{key:?}").contains("secret"));
    }
    assert_eq!(format!("{:?}", Key::from(4711_u64)), "Key(number, 8 bytes)");
}

/// Policy, windows and kind of key were mixed into a seed of 64 bits, which only shifts the hash of short keys. So a
/// text and other bytes shared one counter in most processes.
#[test]
fn a_store_tells_kinds_and_quotas_apart() {
    let quotas = ["a", "b"].map(|policy| PolicyQuota::new(policy, Quota::per_day(1 << 30)));
    let digit = |digit: usize| b'0' + u8::try_from(digit).unwrap();
    let names = (0..10_000).map(|at| [at / 1_000 % 10, at / 100 % 10, at / 10 % 10, at % 10].map(digit));
    let names: Vec<[u8; 8]> = names.map(|[a, b, c, d]| [b'u', b's', b'e', b'r', a, b, c, d]).collect();
    for _ in 0..4 {
        let store = MemoryStore::builder().clock(ManualClock::default()).build();
        let texts = names.iter().map(|name| Key::from(std::str::from_utf8(name).unwrap()));
        let bytes = names.iter().map(|name| Key::from(name.as_slice()));
        let numbers = names.iter().map(|name| Key::from(u64::from_le_bytes(*name)));
        for key in texts.chain(bytes).chain(numbers) {
            for quota in &quotas {
                let counted = store.take(Step::Charge(&[Charge::new(quota, &key, 1)])).unwrap();
                assert_eq!(counted[0].used(), 1, "{key:?} of {}", quota.policy());
            }
        }
    }
}

/// Long keys are hashed in blocks, and the longest in blocks of blocks.
#[test]
fn long_keys_that_differ_in_one_byte_have_counters_of_their_own() {
    let quota = PolicyQuota::new("", Quota::per_day(1 << 30));
    let store = MemoryStore::builder().clock(ManualClock::default()).build();
    let is_new = |key: &[u8]| {
        let key = Key::from(key);
        store.take(Step::Charge(&[Charge::new(&quota, &key, 1)])).unwrap()[0].used() == 1
    };
    for length in [5, 6, 7, 8, 191, 192, 193, 198, 383, 384, 385, 3_648, 3_649, 70_000] {
        let mut key = vec![0; length];
        assert!(is_new(&key), "{length} bytes");
        let places: BTreeSet<usize> = (0..length).step_by(length.div_ceil(500)).chain([length - 1]).collect();
        for place in places {
            key[place] ^= 1;
            assert!(is_new(&key), "{length} bytes, byte {place}");
            key[place] ^= 1;
        }
    }
}

/// Every possible key can be read back from its bytes, and other bytes are never taken for a key.
#[test]
fn a_key_comes_back_from_its_canonical_bytes() {
    let address: IpAddr = "2001:db8::1".parse().unwrap();
    let keys = [
        Key::from("alice"),
        Key::from(""),
        Key::from(&[0xff_u8, 0][..]),
        Key::from(7_u64),
        Key::from(u128::MAX),
        Key::from(-7_i64),
        Key::from(address),
        Key::from((("a", "b"), 7_u64, address)),
        Key::parts(std::iter::empty::<Key<'_>>()),
        Key::from("x".repeat(70_000)),
    ];
    for key in &keys {
        let bytes = key.canonical_bytes();
        assert_eq!(Key::from_canonical_bytes(&bytes).as_ref(), Some(key));
        assert_eq!(Key::from_canonical_bytes(&bytes[..bytes.len() - 1]), None, "cut");
        assert_eq!(Key::from_canonical_bytes(&[&bytes[..], b"\x01\x00"].concat()), None, "and another");
    }
    for none in [
        &[][..],
        b"\x00\x00",
        b"\x07\x00",
        b"\x01\x01\xff",
        b"\x01\x80\x00",
        b"\x03\x01\x07",
        b"\x03\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01",
        b"\x04\x05\0\0\0\0\0",
        b"\x05\x01\x01",
        b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    ] {
        assert_eq!(Key::from_canonical_bytes(none), None, "{none:?}");
    }
    assert_eq!(Key::from_canonical_bytes(&b"\x05\x02".repeat(100_000)), None, "too deep");
}

/// The digests were those of a hash without a key. Since callers may bring limits of their own, they choose names of
/// policies, and could compute two whose counters are one.
#[test]
fn another_process_has_another_digest_of_a_policy() {
    const IS_OTHER_PROCESS: &str = "TOLLGATE_TEST_PRINTS_A_DIGEST";
    let digest = PolicyQuota::new("name", Quota::per_minute(5)).scope_digest();
    assert_eq!(digest, PolicyQuota::new("name", Quota::per_minute(9)).scope_digest());
    if std::env::var_os(IS_OTHER_PROCESS).is_some() {
        println!("digest={digest}.");
        return;
    }
    let mut other = Command::new(std::env::current_exe().unwrap());
    other.args(["--exact", "keys::another_process_has_another_digest_of_a_policy", "--nocapture"]);
    let output = other.env(IS_OTHER_PROCESS, "1").output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let (_, printed) = output.split_once("digest=").unwrap_or_else(|| panic!("no digest in {output}"));
    let others: u128 = printed.split_once('.').unwrap().0.parse().unwrap();
    assert_ne!(digest, others);
}
