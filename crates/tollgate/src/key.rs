//! Keys: the values that requests are counted by.
//!
//! A key is one value or a list of values. Its canonical bytes have the kind and the length of each value before the
//! value, so no two different keys have the same bytes: `("a:b", "c")` is not `("a", "b:c")`, and the number 49 is not
//! the text `1`, although 49 is the byte of `1`.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use smallvec::SmallVec;
use xxhash_rust::xxh64::Xxh64;

/// The value that requests are counted by: a text, a number, an address, bytes, or several of them.
///
/// Your own types become keys by `impl From<&User> for Key<'_>`; see the [guide](crate::guide#keys).
///
/// A key made from a borrowed text or bytes borrows them, and numbers and addresses fit in place, so making
/// such a key allocates nothing. Several parts are written into one buffer.
///
/// Different keys never share a counter: equality is that of the canonical bytes, which are injective. Parts
/// keep their order and their grouping.
///
/// `Debug` hides the value, because a key may be a person or a secret.
///
/// # Examples
///
/// ```
/// use tollgate::Key;
///
/// let user = Key::from("alice");
/// let user_on_path = Key::from(("alice", "/search"));
/// let dynamic = Key::parts(["alice", "/search"]);
///
/// assert_eq!(user_on_path, dynamic);
/// assert_ne!(Key::from(("a:b", "c")), Key::from(("a", "b:c")));
/// assert_ne!(Key::from("1"), Key::from(1_u64));
/// assert_eq!(format!("{user:?}"), "Key(text, 5 bytes)");
/// ```
#[derive(Clone)]
pub struct Key<'a> {
    kind: Kind,
    payload: Payload<'a>,
}

/// The kind of a value. The numbers are part of the canonical bytes and never change.
///
/// It fills a whole word, because keys are moved by words, and reading a word right after writing one of its bytes
/// stalls.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
enum Kind {
    Text = 1,
    Bytes = 2,
    Number = 3,
    Address = 4,
    Parts = 5,
    Negative = 6,
}

#[derive(Clone)]
enum Payload<'a> {
    /// Short values, and their length.
    Inline([u8; INLINE], u8),
    Borrowed(&'a [u8]),
    Owned(Box<[u8]>),
}

/// The bytes that a key holds in place: enough for a pair of short texts, in a key of six words in all.
const INLINE: usize = 38;

/// The head of a value in the canonical bytes: its kind and its length in LEB128, at most 11 bytes.
type Head = SmallVec<[u8; 11]>;

impl<'a> Key<'a> {
    /// Creates a key from these parts, in this order. A list of one part differs from the part.
    pub fn parts<P: Into<Key<'a>>>(parts: impl IntoIterator<Item = P>) -> Key<'static> {
        let mut payload = SmallVec::<[u8; 64]>::new();
        for part in parts {
            part.into().write_to(&mut payload);
        }
        Key { kind: Kind::Parts, payload: Payload::own(&payload) }
    }

    /// Returns the same key with owned bytes.
    #[must_use]
    pub fn into_owned(self) -> Key<'static> {
        let payload = match self.payload {
            Payload::Inline(bytes, length) => Payload::Inline(bytes, length),
            Payload::Borrowed(bytes) => Payload::own(bytes),
            Payload::Owned(bytes) => Payload::Owned(bytes),
        };
        Key { kind: self.kind, payload }
    }

    /// Returns the bytes by which this key is stored and hashed. Each value has one byte for its kind (1 text, 2 bytes,
    /// 3 number, 4 address, 5 parts, 6 negative number), its length in LEB128, then the value. Texts are in UTF-8,
    /// addresses in network order, and parts as their own canonical bytes in sequence. A number is its absolute value
    /// in network order, in 8 bytes if it fits, else in 16.
    #[must_use]
    pub fn canonical_bytes(&self) -> Cow<'_, [u8]> {
        let mut bytes = SmallVec::<[u8; 64]>::new();
        self.write_to(&mut bytes);
        Cow::Owned(bytes.into_vec())
    }

    /// Gives the [canonical bytes](Self::canonical_bytes) to `write`, in order and in several pieces. It allocates
    /// nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Key;
    ///
    /// let (key, mut bytes) = (Key::from("alice"), Vec::new());
    /// key.write_canonical_bytes(|piece| bytes.extend_from_slice(piece));
    /// assert_eq!(bytes, *key.canonical_bytes());
    /// ```
    pub fn write_canonical_bytes(&self, mut write: impl FnMut(&[u8])) {
        write(&self.head());
        write(self.payload());
    }

    /// Returns the key with these [canonical bytes](Self::canonical_bytes); `None` if no key has them.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Key;
    ///
    /// let key = Key::from(("alice", 7_u64));
    /// assert_eq!(Key::from_canonical_bytes(&key.canonical_bytes()), Some(key));
    /// assert_eq!(Key::from_canonical_bytes(b"alice"), None);
    /// ```
    #[must_use]
    pub fn from_canonical_bytes(bytes: &[u8]) -> Option<Key<'static>> {
        let (kind, payload, rest) = first_value(bytes)?;
        rest.is_empty().then(|| Key { kind, payload: Payload::own(payload) })
    }

    /// XXH64 with seed 0 of the canonical bytes: the shift of staggered windows.
    pub(crate) fn xxh64(&self) -> u64 {
        let mut hasher = Xxh64::new(0);
        hasher.update(&self.head());
        hasher.update(self.payload());
        hasher.digest()
    }

    /// The canonical bytes without the length; injective if they are used as a whole.
    pub(crate) fn kind_and_payload(&self) -> (u8, &[u8]) {
        (self.kind as u8, self.payload())
    }

    fn head(&self) -> Head {
        let mut head = Head::new();
        head.push(self.kind as u8);
        write_length(&mut head, self.payload().len());
        head
    }

    fn payload(&self) -> &[u8] {
        match &self.payload {
            Payload::Inline(bytes, length) => bytes.get(..usize::from(*length)).unwrap_or(bytes),
            Payload::Borrowed(bytes) => bytes,
            Payload::Owned(bytes) => bytes,
        }
    }

    fn write_to<const N: usize>(&self, bytes: &mut SmallVec<[u8; N]>)
    where
        [u8; N]: smallvec::Array<Item = u8>,
    {
        self.write_canonical_bytes(|piece| bytes.extend_from_slice(piece));
    }
}

impl Payload<'_> {
    #[inline]
    fn own(bytes: &[u8]) -> Payload<'static> {
        let mut inline = [0; INLINE];
        match inline.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Payload::Inline(inline, bytes.len() as u8)
            }
            None => Payload::Owned(bytes.into()),
        }
    }
}

/// The deepest nesting of parts. No real key is nearly as deep.
const MAX_DEPTH: usize = 16;

/// The first value of canonical bytes, and what follows it.
fn first_value(bytes: &[u8]) -> Option<(Kind, &[u8], &[u8])> {
    first_value_within(bytes, MAX_DEPTH)
}

fn first_value_within(bytes: &[u8], depth: usize) -> Option<(Kind, &[u8], &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let (length, rest) = read_length(rest)?;
    let (payload, rest) = rest.split_at_checked(length)?;
    let number = || match *payload {
        [_, _, _, _, _, _, _, _] => true,
        // A number that fits into 8 bytes has no more.
        _ => payload.len() == 16 && payload.iter().take(8).any(|byte| *byte != 0),
    };
    let (kind, is_valid) = match kind {
        1 => (Kind::Text, std::str::from_utf8(payload).is_ok()),
        2 => (Kind::Bytes, true),
        3 => (Kind::Number, number()),
        4 => (Kind::Address, matches!(length, 4 | 16)),
        5 => (Kind::Parts, are_values(payload, depth.checked_sub(1)?)),
        6 => (Kind::Negative, length == 8),
        _ => return None,
    };
    is_valid.then_some((kind, payload, rest))
}

fn are_values(mut bytes: &[u8], depth: usize) -> bool {
    while !bytes.is_empty() {
        let Some((_, _, rest)) = first_value_within(bytes, depth) else { return false };
        bytes = rest;
    }
    true
}

/// A length in its shortest form, and what follows it.
fn read_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut length = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(9) {
        length |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            let is_shortest = index == 0 || *byte != 0;
            let rest = bytes.get(index + 1..)?;
            return is_shortest.then_some((usize::try_from(length).ok()?, rest));
        }
    }
    None
}

/// Unsigned LEB128: seven bits a byte, the lowest first, the high bit set on all but the last.
pub(crate) fn write_length<const N: usize>(bytes: &mut SmallVec<[u8; N]>, mut length: usize)
where
    [u8; N]: smallvec::Array<Item = u8>,
{
    while length >= 0x80 {
        bytes.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
}

impl<'a> From<&'a str> for Key<'a> {
    fn from(text: &'a str) -> Self {
        Self { kind: Kind::Text, payload: Payload::Borrowed(text.as_bytes()) }
    }
}

impl<'a> From<&'a String> for Key<'a> {
    fn from(text: &'a String) -> Self {
        text.as_str().into()
    }
}

impl From<String> for Key<'_> {
    fn from(text: String) -> Self {
        Self { kind: Kind::Text, payload: Payload::Owned(text.into_bytes().into_boxed_slice()) }
    }
}

impl From<Box<str>> for Key<'_> {
    fn from(text: Box<str>) -> Self {
        Self { kind: Kind::Text, payload: Payload::Owned(text.into_boxed_bytes()) }
    }
}

impl From<Arc<str>> for Key<'_> {
    fn from(text: Arc<str>) -> Self {
        Self { kind: Kind::Text, payload: Payload::own(text.as_bytes()) }
    }
}

impl<'a> From<Cow<'a, str>> for Key<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        match text {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        }
    }
}

impl<'a> From<&'a [u8]> for Key<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { kind: Kind::Bytes, payload: Payload::Borrowed(bytes) }
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Key<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        bytes.as_slice().into()
    }
}

impl From<Vec<u8>> for Key<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self { kind: Kind::Bytes, payload: Payload::Owned(bytes.into_boxed_slice()) }
    }
}

/// Numbers are keys by their values: `7_i64`, `7_u128`, `7_u32` and `7_usize` are the same key as `7_u64`.
impl From<u64> for Key<'_> {
    fn from(number: u64) -> Self {
        Key { kind: Kind::Number, payload: Payload::own(&number.to_be_bytes()) }
    }
}

impl From<u128> for Key<'_> {
    fn from(number: u128) -> Self {
        match u64::try_from(number) {
            Ok(number) => number.into(),
            Err(_) => Key { kind: Kind::Number, payload: Payload::own(&number.to_be_bytes()) },
        }
    }
}

impl From<i64> for Key<'_> {
    fn from(number: i64) -> Self {
        let kind = if number < 0 { Kind::Negative } else { Kind::Number };
        Key { kind, payload: Payload::own(&number.unsigned_abs().to_be_bytes()) }
    }
}

impl From<u32> for Key<'_> {
    fn from(number: u32) -> Self {
        u64::from(number).into()
    }
}

impl From<usize> for Key<'_> {
    fn from(number: usize) -> Self {
        // No target has addresses of more than 64 bits.
        (number as u64).into()
    }
}

/// An IPv4 address and its IPv6-mapped form are different keys; convert them first if they should be the same.
impl From<IpAddr> for Key<'_> {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => address.into(),
        }
    }
}

impl From<Ipv4Addr> for Key<'_> {
    #[inline]
    fn from(address: Ipv4Addr) -> Self {
        Self { kind: Kind::Address, payload: Payload::own(&address.octets()) }
    }
}

impl From<Ipv6Addr> for Key<'_> {
    fn from(address: Ipv6Addr) -> Self {
        Self { kind: Kind::Address, payload: Payload::own(&address.octets()) }
    }
}

impl<'a> From<&'a Key<'_>> for Key<'a> {
    fn from(key: &'a Key<'_>) -> Self {
        let payload = match &key.payload {
            Payload::Inline(bytes, length) => Payload::Inline(*bytes, *length),
            Payload::Borrowed(bytes) => Payload::Borrowed(bytes),
            Payload::Owned(bytes) => Payload::Borrowed(bytes),
        };
        Self { kind: key.kind, payload }
    }
}

impl<'a, A: Into<Key<'a>>, B: Into<Key<'a>>> From<(A, B)> for Key<'_> {
    fn from((first, second): (A, B)) -> Self {
        Key::parts([first.into(), second.into()])
    }
}

impl<'a, A: Into<Key<'a>>, B: Into<Key<'a>>, C: Into<Key<'a>>> From<(A, B, C)> for Key<'_> {
    fn from((first, second, third): (A, B, C)) -> Self {
        Key::parts([first.into(), second.into(), third.into()])
    }
}

impl PartialEq<Key<'_>> for Key<'_> {
    fn eq(&self, other: &Key<'_>) -> bool {
        self.kind == other.kind && self.payload() == other.payload()
    }
}

impl Eq for Key<'_> {}

/// Hashes the canonical bytes.
impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.write_canonical_bytes(|bytes| state.write(bytes));
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Text => "text",
            Kind::Bytes => "bytes",
            Kind::Number | Kind::Negative => "number",
            Kind::Address => "address",
            Kind::Parts => "parts",
        };
        write!(f, "Key({kind}, {} bytes)", self.payload().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_bytes_say_kind_and_length_before_the_value() {
        assert_eq!(*Key::from("alice").canonical_bytes(), *b"\x01\x05alice");
        assert_eq!(*Key::from(&[7_u8, 8]).canonical_bytes(), *b"\x02\x02\x07\x08");
        assert_eq!(*Key::from(1_u64).canonical_bytes(), *b"\x03\x08\0\0\0\0\0\0\0\x01");
        assert_eq!(*Key::from(IpAddr::from([127, 0, 0, 1])).canonical_bytes(), *b"\x04\x04\x7f\0\0\x01");
        assert_eq!(*Key::from(("a", "bc")).canonical_bytes(), *b"\x05\x07\x01\x01a\x01\x02bc");
        assert_eq!(*Key::from(-2_i64).canonical_bytes(), *b"\x06\x08\0\0\0\0\0\0\0\x02");
        assert_eq!(Key::from(u128::MAX).canonical_bytes()[..3], [3, 16, 0xff]);
        let long = "x".repeat(300);
        assert_eq!(Key::from(&long).canonical_bytes()[..3], [1, 0xac, 0x02]);
    }
}
