//! Clients, as identified by one kind of key.

mod numbers;

use std::collections::HashMap;
use std::hash::Hash as _;

use siphasher::sip128::{Hasher128 as _, SipHasher13};
use tollgate::Key;
use tollgate_policy::{Attributes, Identity};

use self::numbers::Numbers;
use crate::shortened::shortened;

/// The clients of one kind of key: a number for each, counted from 0.
///
/// Where there are more than there is room for, only one key in 2, 4, 8 and so on is followed. Which ones depends on
/// the digests of keys alone, so a client that is followed is followed from its first request to its last.
#[derive(Debug)]
pub(crate) struct FollowedClients {
    identity: Identity,
    numbers: Numbers,
    /// Names of those that somebody asked for.
    names: HashMap<u32, Box<str>>,
    max: usize,
    /// One key in two to the power of this is followed.
    halvings: u32,
}

/// The result of looking up the client of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientLookup {
    /// It has this number.
    Client(u32),
    /// It is not among those that are followed.
    NotFollowed,
    /// There is no room for it: [halve](FollowedClients::halve) first.
    NoRoom,
}

impl FollowedClients {
    pub(crate) fn new(identity: Identity, max: usize) -> Self {
        Self { identity, numbers: Numbers::default(), names: HashMap::new(), max: max.max(1), halvings: 0 }
    }

    pub(crate) const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns how many clients are followed.
    pub(crate) const fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Finds the client with this key, or gives it a number.
    pub(crate) fn find(&mut self, digest: u128) -> ClientLookup {
        if !is_followed(digest, self.halvings) {
            return ClientLookup::NotFollowed;
        }
        if let Some(number) = self.numbers.get(digest) {
            return ClientLookup::Client(number);
        }
        if self.numbers.len() >= self.max {
            return ClientLookup::NoRoom;
        }
        let number = u32::try_from(self.numbers.len()).ok().filter(|number| *number < u32::MAX);
        let Some(number) = number else { return ClientLookup::NoRoom };
        self.numbers.insert(digest, number);
        ClientLookup::Client(number)
    }

    /// Returns the number of the client with this key, if it has one.
    pub(crate) fn known(&self, digest: u128) -> Option<u32> {
        self.numbers.get(digest)
    }

    /// Prefetches the memory for [finding](Self::find) this key.
    pub(crate) fn prefetch(&self, digest: u128) {
        self.numbers.prefetch(digest);
    }

    /// Remembers what this client is called, as a request of it says. Names take more memory than all else, and few are
    /// ever shown.
    pub(crate) fn remember_name(&mut self, number: u32, request: &Attributes<'_>) {
        let identity = &self.identity;
        self.names.entry(number).or_insert_with(|| name(identity, request));
    }

    /// Follows only every other client from now on. Returns the numbers that the ones still followed had before, in the
    /// order of their new ones.
    pub(crate) fn halve(&mut self) -> Vec<u32> {
        self.halvings += 1;
        let before = std::mem::take(&mut self.numbers);
        let followed = before.iter().filter(|(digest, _)| is_followed(*digest, self.halvings));
        let mut kept: Vec<(u32, u128)> = followed.map(|(digest, number)| (number, digest)).collect();
        drop(before);
        kept.sort_unstable();
        (0..).zip(&kept).for_each(|(number, (_, digest))| self.numbers.insert(*digest, number));
        let kept: Vec<u32> = kept.into_iter().map(|(number, _)| number).collect();
        let mut names = std::mem::take(&mut self.names);
        self.names =
            (0..).zip(&kept).filter_map(|(number, before)| Some((number, names.remove(before)?))).collect();
        kept
    }

    pub(crate) fn name(&self, number: u32) -> &str {
        self.names.get(&number).map_or("", AsRef::as_ref)
    }

    /// One client in so many is followed.
    pub(crate) const fn one_in(&self) -> u64 {
        1 << self.halvings
    }
}

/// The client as a report names it, cut if it is long. A network that is one address of IPv4 is written as that.
pub(crate) fn name(identity: &Identity, request: &Attributes<'_>) -> Box<str> {
    let name = identity.describe(request).unwrap_or_default();
    match (identity, name.strip_suffix("/32")) {
        (Identity::Address(..), Some(address)) if !address.contains(':') => address.into(),
        _ => shortened(&name).into(),
    }
}

/// Keeps the items that had these places, in ascending order.
pub(crate) fn keep<T>(items: &mut Vec<T>, places: &[u32]) {
    let mut places = places.iter().copied().peekable();
    let mut place = 0_u32;
    items.retain(|_| {
        let is_kept = places.next_if_eq(&place).is_some();
        place += 1;
        is_kept
    });
    items.shrink_to_fit();
}

/// Returns 128 bits that stand for the key, of which 96 tell clients apart. That two of ten million meet has a chance
/// of less than 10^-15.
pub(crate) fn digest(key: &Key<'_>) -> u128 {
    let mut hasher = SipHasher13::new();
    key.hash(&mut hasher);
    hasher.finish128().as_u128()
}

/// The high bits decide.
const fn is_followed(digest: u128, halvings: u32) -> bool {
    digest.leading_zeros() >= halvings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(subjects: &mut FollowedClients, user: &str) -> ClientLookup {
        let request: Attributes<'_> = [("user", user)].into_iter().collect();
        let found = subjects.find(digest(&Key::from(user)));
        if let ClientLookup::Client(number) = found {
            subjects.remember_name(number, &request);
        }
        found
    }

    /// Half of them are left, each under the name that it had, and the others are not followed again.
    #[test]
    fn halving_keeps_clients_together_with_their_names() {
        let mut subjects = FollowedClients::new(Identity::Attribute("user".into()), 1_000);
        let users: Vec<String> = (0..1_000).map(|number| format!("user-{number}")).collect();
        for (number, user) in (0..).zip(&users) {
            assert_eq!(find(&mut subjects, user), ClientLookup::Client(number));
        }
        assert_eq!(find(&mut subjects, "one more"), ClientLookup::NoRoom);
        let mut values: Vec<u32> = (0..1_000).collect();
        let kept = subjects.halve();
        keep(&mut values, &kept);
        assert_eq!(values, kept);
        assert!((400..600).contains(&subjects.numbers.len()), "{}", subjects.numbers.len());
        for user in &users {
            match find(&mut subjects, user) {
                ClientLookup::Client(number) => assert_eq!(subjects.name(number), format!("user={user}")),
                ClientLookup::NotFollowed => {}
                ClientLookup::NoRoom => panic!("{user}: half of the room is free"),
            }
        }
        assert_eq!(subjects.numbers.len(), kept.len());
        assert_eq!(subjects.one_in(), 2);
    }
}
