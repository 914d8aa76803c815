//! Reads keys back: which attributes a request had, by the key that it was counted by.

use std::net::IpAddr;

use crate::identity::Identity;
use tollgate_http::Grouping;

/// The attributes in a key, in the order of the identity.
#[derive(Debug, Default)]
struct KeyReading<'a> {
    attributes: Vec<KeyAttribute<'a>>,
    /// Whether bytes are missing at the end.
    is_cut: bool,
}

#[derive(Debug)]
struct KeyAttribute<'a> {
    name: &'a str,
    text: String,
    /// A text that leads to the same key, if there is one.
    value: Option<String>,
}

/// One value of the [canonical bytes](tollgate::Key::canonical_bytes) of a key, whose end may be missing.
#[derive(Debug, Clone, Copy)]
struct KeyValue<'a> {
    kind: u8,
    payload: &'a [u8],
    is_cut: bool,
}

// The kinds of values.
const TEXT: u8 = 1;
const ADDRESS: u8 = 4;
const PARTS: u8 = 5;

/// Stands for what is missing of a text.
const CUT: char = '…';

impl Identity {
    /// Describes a key of this identity, by its [canonical bytes](tollgate::Key::canonical_bytes), as
    /// [`describe`](Self::describe) does: `user=alice`. If only the first bytes of a long key are there, the text ends in
    /// `…`. `None` if no request has such a key. Not for logs, because values may be personal.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Key;
    /// use tollgate_policy::Identity;
    ///
    /// let identity = Identity::Attribute("user".into());
    /// let key = Key::from("alice");
    /// let key = key.canonical_bytes();
    /// assert_eq!(identity.describe_key(&key).as_deref(), Some("user=alice"));
    /// ```
    #[must_use]
    pub fn describe_key(&self, bytes: &[u8]) -> Option<String> {
        KeyReading::new(self, bytes).map(|reading| reading.text())
    }

    /// Returns attributes with which a request has this key, given by its [canonical
    /// bytes](tollgate::Key::canonical_bytes). `None` if bytes are missing, or if the key does not have the value of an
    /// attribute, because that was empty or too long.
    #[must_use]
    pub fn attributes_of_key<'a>(&'a self, bytes: &'a [u8]) -> Option<Vec<(&'a str, String)>> {
        let KeyReading { attributes, is_cut } = KeyReading::new(self, bytes)?;
        let pairs = attributes.into_iter().map(|attribute| Some((attribute.name, attribute.value?)));
        if is_cut { None } else { pairs.collect() }
    }
}

/// Describes a key that consists of a name and of pairs, by its [canonical bytes](tollgate::Key::canonical_bytes), as
/// Envoy's descriptors are counted: `user=alice, path=/login`. Otherwise as
/// [`describe_key`](Identity::describe_key).
#[must_use]
pub fn describe_descriptor(mut bytes: &[u8]) -> Option<String> {
    let value = KeyValue::first(&mut bytes)?;
    let mut reading = KeyReading { is_cut: value.is_cut, ..KeyReading::default() };
    let mut rest = value.parts()?;
    let domain = KeyValue::first(&mut rest)?;
    reading.is_cut |= domain.is_cut;
    reading.read_pairs(rest, value.is_cut)?;
    if bytes.is_empty() { Some(reading.text()) } else { None }
}

impl<'a> KeyReading<'a> {
    fn new(identity: &'a Identity, mut bytes: &'a [u8]) -> Option<Self> {
        let mut reading = Self::default();
        let value = KeyValue::first(&mut bytes)?;
        reading.read(identity, value)?;
        bytes.is_empty().then_some(reading)
    }

    /// Reads the key of an identity.
    fn read(&mut self, identity: &'a Identity, value: KeyValue<'a>) -> Option<()> {
        self.is_cut |= value.is_cut;
        match identity {
            Identity::Global => (value.kind == PARTS && value.payload.is_empty()).then_some(()),
            Identity::Every => self.read_pairs(value.parts()?, value.is_cut),
            Identity::Attribute(name) => self.push_text(name, value),
            Identity::Address(name, grouping) => self.push_address(name, *grouping, value),
            Identity::All(parts) => {
                let mut rest = value.parts()?;
                for part in parts {
                    match KeyValue::first(&mut rest) {
                        Some(value) => self.read(part, value)?,
                        None if value.is_cut => return Some(()),
                        None => return None,
                    }
                }
                rest.is_empty().then_some(())
            }
            Identity::FirstOf(choices) => {
                let read = choices.iter().find_map(|choice| {
                    let mut reading = Self::default();
                    reading.read_choice(choice, value)?;
                    Some(reading)
                });
                let KeyReading { attributes, is_cut } = read?;
                self.attributes.extend(attributes);
                self.is_cut |= is_cut;
                Some(())
            }
        }
    }

    /// Reads names and values in turn.
    fn read_pairs(&mut self, mut rest: &'a [u8], is_cut: bool) -> Option<()> {
        while !rest.is_empty() {
            let name = KeyValue::first(&mut rest)?;
            match (name.whole_text(), KeyValue::first(&mut rest)) {
                (Some(name), Some(value)) => self.push_text(name, value)?,
                _ if is_cut => break,
                _ => return None,
            }
        }
        Some(())
    }

    /// Returns the attributes for people.
    fn text(&self) -> String {
        let Self { attributes, is_cut } = self;
        if attributes.is_empty() && !is_cut {
            return "all requests".to_owned();
        }
        let mut texts: Vec<String> =
            attributes.iter().map(|KeyAttribute { name, text, .. }| format!("{name}={text}")).collect();
        if *is_cut && !texts.last().is_some_and(|text| text.ends_with(CUT)) {
            texts.push(CUT.to_string());
        }
        texts.join(", ")
    }

    /// Reads the key of a choice, which is under the names of its attributes.
    fn read_choice(&mut self, choice: &'a Identity, value: KeyValue<'a>) -> Option<()> {
        let names = match choice {
            Identity::Global | Identity::Every | Identity::FirstOf(_) => return self.read(choice, value),
            Identity::Attribute(name) | Identity::Address(name, _) => NamesOf::One(name),
            Identity::All(_) => NamesOf::All(choice),
        };
        let mut rest = value.parts()?;
        let names_match = names.are(KeyValue::first(&mut rest)?);
        match KeyValue::first(&mut rest) {
            Some(key) if names_match => self.read(choice, key)?,
            None if names_match && value.is_cut => self.is_cut = true,
            _ => return None,
        }
        self.is_cut |= value.is_cut;
        rest.is_empty().then_some(())
    }

    fn push_text(&mut self, name: &'a str, value: KeyValue<'a>) -> Option<()> {
        self.is_cut |= value.is_cut;
        let attribute = match value.kind {
            TEXT => {
                let mut text = value.text()?.to_owned();
                let whole = (!value.is_cut).then(|| text.clone());
                if value.is_cut {
                    text.push(CUT);
                }
                KeyAttribute { name, text, value: whole }
            }
            // A stand-in for an empty or long value.
            PARTS => {
                let stand_in = KeyValue::first(&mut value.parts()?).and_then(KeyValue::text);
                KeyAttribute { name, text: format!("({})", stand_in.unwrap_or_default()), value: None }
            }
            _ => return None,
        };
        self.attributes.push(attribute);
        Some(())
    }

    fn push_address(&mut self, name: &'a str, grouping: Grouping, value: KeyValue<'a>) -> Option<()> {
        if value.is_cut {
            return Some(());
        }
        let address = match *value.payload {
            [a, b, c, d] => IpAddr::from([a, b, c, d]),
            _ => IpAddr::from(<[u8; 16]>::try_from(value.payload).ok()?),
        };
        let attribute = KeyAttribute {
            name,
            text: grouping.network(address).to_string(),
            value: Some(address.to_string()),
        };
        (value.kind == ADDRESS).then(|| self.attributes.push(attribute))
    }
}

/// The names that a choice puts into its key.
enum NamesOf<'a> {
    One(&'a str),
    All(&'a Identity),
}

impl NamesOf<'_> {
    fn are(&self, value: KeyValue<'_>) -> bool {
        match self {
            Self::One(name) => value.whole_text() == Some(name),
            Self::All(choice) => {
                let mut names = smallvec::SmallVec::<[&str; 4]>::new();
                choice.names(&mut names);
                let Some(mut rest) = value.parts() else { return false };
                let mut given = std::iter::from_fn(|| KeyValue::first(&mut rest));
                let are_same =
                    names.iter().all(|name| given.next().and_then(KeyValue::whole_text) == Some(name));
                are_same && given.next().is_none() && !value.is_cut
            }
        }
    }
}

impl<'a> KeyValue<'a> {
    /// Takes the first value.
    fn first(bytes: &mut &'a [u8]) -> Option<Self> {
        let (kind, mut rest) = bytes.split_first()?;
        let (mut length, mut shift) = (0_usize, 0);
        // Unsigned LEB128.
        loop {
            let (byte, after) = rest.split_first()?;
            (length, rest) = (length | usize::from(byte & 0x7f).checked_shl(shift)?, after);
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
        }
        let is_cut = rest.len() < length;
        let (payload, rest) = rest.split_at(length.min(rest.len()));
        *bytes = rest;
        Some(Self { kind: *kind, payload, is_cut })
    }

    /// The bytes of its parts.
    fn parts(self) -> Option<&'a [u8]> {
        (self.kind == PARTS).then_some(self.payload)
    }

    /// The text, or its beginning.
    fn text(self) -> Option<&'a str> {
        let valid = match std::str::from_utf8(self.payload) {
            Ok(text) => Some(text),
            Err(error) if self.is_cut => std::str::from_utf8(self.payload.get(..error.valid_up_to())?).ok(),
            Err(_) => None,
        };
        valid.filter(|_| self.kind == TEXT)
    }

    fn whole_text(self) -> Option<&'a str> {
        self.text().filter(|_| !self.is_cut)
    }
}

#[cfg(test)]
mod tests {
    use tollgate::Key;

    use super::*;
    use crate::Attributes;

    fn identities() -> Vec<Identity> {
        let user = || Identity::Attribute("user".into());
        let ip = || Identity::Address("ip".into(), Grouping::default());
        let pair = || Identity::All([user(), ip()].into());
        vec![
            Identity::Global,
            Identity::Every,
            user(),
            ip(),
            pair(),
            Identity::All([pair(), user()].into()),
            Identity::FirstOf([Identity::Attribute("account".into()), user(), ip()].into()),
            Identity::FirstOf([pair(), Identity::FirstOf([ip(), user()].into()), Identity::Global].into()),
        ]
    }

    fn requests() -> Vec<Attributes<'static>> {
        let of = |pairs: &[(&'static str, &'static str)]| pairs.iter().copied().collect();
        vec![
            of(&[("ip", "192.0.2.7"), ("user", "alice")]),
            of(&[("ip", "2001:db8::7"), ("user", "<img src=x>, ip=1")]),
            of(&[("account", "é"), ("user", "b")]),
            of(&[("ip", "::ffff:192.0.2.1")]),
            of(&[]),
        ]
    }

    /// The text is the one that a person would get who has the request, and the attributes lead to the same key.
    #[test]
    fn a_key_is_read_back_as_what_it_was_made_of() {
        let mut read = 0;
        for (identity, request) in identities()
            .iter()
            .flat_map(|identity| requests().into_iter().map(move |one| (identity.clone(), one)))
        {
            let Ok(key) = identity.key(&request) else { continue };
            let bytes = key.canonical_bytes();
            let described = identity.describe(&request).unwrap();
            assert_eq!(identity.describe_key(&bytes), Some(described), "{identity}");
            let attributes = identity.attributes_of_key(&bytes).unwrap();
            let again: Attributes<'_> = attributes.iter().map(|(name, value)| (*name, &**value)).collect();
            assert_eq!(identity.key(&again).unwrap(), key, "{identity}");
            read += 1;
        }
        assert!(read > 25, "{read}");
    }

    #[test]
    fn the_beginning_of_a_key_says_that_it_is_one() {
        let long = "é".repeat(100);
        let request: Attributes<'_> = [("user", &*long), ("ip", "192.0.2.7")].into_iter().collect();
        for identity in identities() {
            let Ok(key) = identity.key(&request) else { continue };
            let bytes = key.canonical_bytes();
            for length in (1..bytes.len()).filter(|_| bytes.len() > 128) {
                let part = &bytes[..length];
                let text = identity.describe_key(part);
                assert!(text.is_none_or(|text| text.ends_with(CUT)), "{identity}: {length}");
                assert_eq!(identity.attributes_of_key(part), None, "{identity}: {length}");
            }
            let most = identity.describe_key(&bytes[..bytes.len().min(128)]).unwrap();
            assert!(most.contains("user=é") == (bytes.len() > 128), "{identity}: {most}");
        }
    }

    /// A policy's key was changed, and the keys of its earlier version are still known.
    #[test]
    fn a_key_of_another_identity_is_not_read() {
        let user = Identity::Attribute("user".into());
        for key in [Key::from(7_u64), Key::from(("a", "b", "c")), Key::from(("a", 7_u64))] {
            let bytes = key.canonical_bytes();
            assert_eq!(Identity::Address("ip".into(), Grouping::default()).describe_key(&bytes), None);
            assert_eq!(Identity::All([user.clone(), user.clone()].into()).describe_key(&bytes), None);
        }
        assert_eq!(user.describe_key(b""), None);
        assert_eq!(user.describe_key(b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), None);
        assert_eq!(user.describe_key(b"\x01\x01ab"), None);
        assert_eq!(user.describe_key(b"\x01\x02\xff\xff"), None);
    }

    #[test]
    fn a_descriptor_is_its_pairs() {
        let value = Key::parts(["/api/*"]);
        let parts = ["shop", "user", "alice", "path"].map(Key::from).into_iter().chain([value]);
        let bytes = Key::parts(parts).canonical_bytes().into_owned();
        assert_eq!(describe_descriptor(&bytes).as_deref(), Some("user=alice, path=(/api/*)"));
        assert_eq!(describe_descriptor(&bytes[..17]).as_deref(), Some("user=a…"));
        assert_eq!(describe_descriptor(&Key::from("alice").canonical_bytes()), None);
    }

    #[test]
    fn a_stand_in_is_shown_and_is_no_value() {
        let user = Identity::Attribute("user".into());
        let key = Key::parts([Key::from("nobody")]);
        assert_eq!(user.describe_key(&key.canonical_bytes()).as_deref(), Some("user=(nobody)"));
        assert_eq!(user.attributes_of_key(&key.canonical_bytes()), None);
    }
}
