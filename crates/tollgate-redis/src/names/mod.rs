//! The names of counters in the store.
//!
//! They are [our own](own), or those of another system, by a [layout](crate::KeyLayout). The choice is made when the
//! store is built, and everything that depends on it is a method of [`CounterNames`].

mod own;
mod windows;

use std::borrow::Cow;

use sha2::{Digest, Sha256};
use tollgate::{Counter, Key, PolicyInFlight, PolicyQuota, QuotaKind, StoreError, Timestamp};

use self::own::OwnNaming;
pub(crate) use self::windows::WindowTime;
use crate::identity::KeyIdentity;
use crate::layout::{KeyLayout, LayoutNaming, ValueText, values};
use crate::script::{KeyText, WindowSpec};

/// Builds the names of counters.
#[derive(Debug)]
pub(crate) enum CounterNames {
    /// Our own names.
    Own(OwnNaming),
    /// Another system's names.
    Layout(LayoutNaming),
}

/// The names of holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HoldNames<'n>(&'n OwnNaming);

/// The identity, as it is written in names.
#[derive(Debug, Clone)]
pub(crate) struct CounterIdentity {
    digest: u128,
    tag: Tag,
}

#[derive(Debug, Clone)]
enum Tag {
    Digest([u8; 22]),
    Plain(Box<str>),
    /// The values for a layout; none if a value has no text.
    Values(Option<Box<[ValueText]>>),
}

impl CounterNames {
    pub(crate) fn new(prefix: &str, identity: KeyIdentity) -> Self {
        Self::Own(OwnNaming::new(prefix, identity))
    }

    pub(crate) fn with_layout(prefix: &str, layout: KeyLayout) -> Self {
        Self::Layout(LayoutNaming::new(layout, prefix))
    }

    /// The same for a Cluster.
    pub(crate) fn on_cluster(self) -> Self {
        match self {
            Self::Own(_) => self,
            Self::Layout(naming) => Self::Layout(naming.on_cluster()),
        }
    }

    /// The prefix of all names.
    pub(crate) fn head(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Own(naming) => Cow::Borrowed(naming.head()),
            Self::Layout(naming) => Cow::Owned(naming.head()),
        }
    }

    /// A key with the names' beginning that no counter has.
    pub(crate) fn unused(&self) -> Vec<u8> {
        [&self.head(), &b"tollgate-unused"[..]].concat()
    }

    /// The part of a name before the identity.
    pub(crate) fn public<'n>(&self, name: &'n [u8]) -> &'n [u8] {
        let identity = match self {
            Self::Own(_) => name.iter().position(|byte| *byte == b'{'),
            Self::Layout(naming) => Some(naming.head().len()),
        };
        identity.and_then(|at| name.get(..at)).unwrap_or_default()
    }

    /// Returns whether all counters of one key are always in one slot.
    pub(crate) fn have_slot_for_each_key(&self) -> bool {
        match self {
            Self::Own(_) => true,
            Self::Layout(naming) => naming.has_slot_for_each_key(),
        }
    }

    /// One of many keys for probes of the store.
    pub(crate) fn probe(&self, number: u64) -> Key<'static> {
        match self {
            Self::Own(_) => Key::from(number),
            Self::Layout(naming) => naming.probe(number),
        }
    }

    pub(crate) fn counter_identity(&self, key: &Key<'_>) -> CounterIdentity {
        match self {
            Self::Own(naming) => naming.counter_identity(key),
            // Equal names share a counter, so they are remembered together.
            Self::Layout(_) => {
                let values = values(&key.canonical_bytes());
                let digest =
                    values.as_deref().map_or_else(|| KeyIdentity::Digest.digest_bits(key), digest_of_texts);
                CounterIdentity { digest, tag: Tag::Values(values) }
            }
        }
    }

    /// Identifies the counter in tables of this process.
    pub(crate) fn id(&self, quota: &PolicyQuota, identity: &CounterIdentity) -> u128 {
        let scope = match self {
            Self::Layout(naming) if !naming.names_policy() => {
                // A log and windows of one length are different counters.
                naming.length(quota) | u128::from(quota.quota().kind() == QuotaKind::Log) << 127
            }
            _ => quota.scope_digest(),
        };
        identity.digest ^ scope
    }

    /// Returns our own names, which holds need.
    ///
    /// # Errors
    ///
    /// If another system writes the names: it has none for holds.
    pub(crate) fn of_holds(&self) -> Result<HoldNames<'_>, StoreError> {
        match self {
            Self::Own(naming) => Ok(HoldNames(naming)),
            Self::Layout(_) => Err(StoreError::Uncountable(
                "another system's layout of the keys has no holds and no limits in flight",
            )),
        }
    }

    /// Returns the name of a part of shared records: one of our own, also under the layout of another system.
    pub(crate) fn record_part(&self, records: &str, part: &str) -> KeyText {
        match self {
            Self::Own(naming) => naming.record_part(records, part),
            Self::Layout(naming) => {
                OwnNaming::new(naming.prefix(), KeyIdentity::Digest).record_part(records, part)
            }
        }
    }

    /// Returns the name of the counter, and its window at this time. Most windows do not depend on it, and do not ask
    /// for it.
    ///
    /// # Errors
    ///
    /// If a layout has no name for the counter.
    pub(crate) fn of(
        &self,
        counter: &Counter<'_>,
        identity: &CounterIdentity,
        now: impl FnOnce() -> Timestamp,
    ) -> Result<(KeyText, WindowSpec), StoreError> {
        let quota = counter.quota();
        match self {
            Self::Own(naming) => {
                Ok((naming.name(quota, identity.tag.as_bytes()), WindowSpec::of(counter, now)))
            }
            Self::Layout(naming) if quota.quota().kind() == QuotaKind::Log => {
                let (name, length) = naming.sorted_log(quota, identity.tag.values())?;
                Ok((name, WindowSpec::SortedLog { length }))
            }
            Self::Layout(naming) => {
                let window = naming.window(quota, now())?;
                let name = naming.name(quota, identity.tag.values(), window)?;
                let (start, end) = (window.start().as_unix_millis(), window.end().as_unix_millis());
                Ok((name, WindowSpec::Named { start, end }))
            }
        }
    }
}

impl HoldNames<'_> {
    /// The record of a hold. On a Cluster, it is in the slot of an identity.
    pub(crate) fn record(self, id: u128, slot: Option<&CounterIdentity>) -> KeyText {
        self.0.hold(id, slot.map(|identity| identity.tag.as_bytes()))
    }

    /// The counter of units in flight.
    pub(crate) fn in_flight(self, in_flight: &PolicyInFlight, identity: &CounterIdentity) -> KeyText {
        self.0.in_flight(in_flight, identity.tag.as_bytes())
    }
}

impl Tag {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Digest(digest) => digest,
            Self::Plain(plain) => plain.as_bytes(),
            Self::Values(_) => &[],
        }
    }

    fn values(&self) -> Option<&[ValueText]> {
        match self {
            Self::Values(values) => values.as_deref(),
            Self::Digest(_) | Self::Plain(_) => None,
        }
    }
}

/// Returns the digest of values, as a layout writes them.
fn digest_of_texts(texts: &[ValueText]) -> u128 {
    let mut bytes = Sha256::new();
    for text in texts {
        bytes.update((text.len() as u64).to_le_bytes());
        bytes.update(text);
    }
    let mut first = [0; 16];
    first.copy_from_slice(&bytes.finalize()[..16]);
    u128::from_be_bytes(first)
}
