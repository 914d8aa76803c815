//! Holds as callers have them: opaque, sealed with a secret of the service, and bounded in length.
//!
//! A hold names counters, and the store finds a counter by its key, which is often a person or a secret. So the whole
//! hold is encrypted, which also proves its origin. A digest of the key would not be enough: anyone could confirm a
//! guessed user name, and layouts of other systems need the key itself.
//!
//! ```text
//! base64url( version 3 │ salt 16 │ ChaCha20-Poly1305( hold ) │ tag 16 )
//! ```
//!
//! Each sealed hold has its own encryption key: HMAC-SHA-256 of its salt under the secret. So it needs no nonce, and one
//! secret can seal any number of holds. Opening takes the same time and gives the same error, whichever part of a sealed
//! hold is wrong.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::{Once, OnceLock};
use std::time::Duration;

use base64ct::{Base64UrlUnpadded, Encoding};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;
use tollgate::{
    HoldId, HoldLength, HoldPlace, Key, Mark, OnStoreFailure, PolicyInFlight, PolicyQuota, Timestamp,
};
use tollgate_policy::{HoldPart, InFlightPart, Overrun, PolicyHold};
use tollgate_redis::SmallFile;
use tracing::warn;

/// Seals and opens holds.
pub(crate) struct HoldSeal {
    /// From a file; otherwise created on first use.
    secret: OnceLock<hmac::Key>,
    random: SystemRandom,
    /// Warns of the first hold that other processes on the same store cannot open.
    unopened_elsewhere: Option<Once>,
}

/// The text is not a hold of this service, or was sealed with another secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("this is not a hold of this service, or the service's secret has changed")]
pub(crate) struct NotAHold;

/// Why a hold is not sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSeal {
    /// Its keys are too long.
    Long,
    NoRandom,
}

/// The reason why there is no secret. The fault of the file's author.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HoldSecretError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The file's name.
        path: Box<Path>,
        /// The system's error.
        source: std::io::Error,
    },
    /// The secret is short enough to guess.
    #[error(
        "the file {path} has fewer than {} bytes; `openssl rand -base64 32` creates a secret",
        HoldSeal::LEAST_SECRET
    )]
    Short {
        /// The file's name.
        path: Box<Path>,
    },
}

/// Versions 1 and 2 were receipts, which had no id and could be used again.
const VERSION: u8 = 3;
const SALT: usize = 16;

impl HoldSeal {
    /// Most characters of a sealed hold.
    pub(crate) const MAX: usize = 8 * 1024;

    const LEAST_SECRET: usize = 32;

    /// Uses the secret in a file, without surrounding white space.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is too short.
    pub(crate) fn from_file(path: &Path) -> Result<Self, HoldSecretError> {
        let file = SmallFile::read(path, SmallFile::MOST_SECRET_BYTES)
            .map_err(|source| HoldSecretError::File { path: path.into(), source })?;
        let secret = file.bytes.trim_ascii();
        if secret.len() < Self::LEAST_SECRET {
            return Err(HoldSecretError::Short { path: path.into() });
        }
        Ok(Self::with_secret(secret))
    }

    /// Uses a secret of this process.
    pub(crate) fn of_process() -> Self {
        Self { secret: OnceLock::new(), random: SystemRandom::new(), unopened_elsewhere: None }
    }

    /// Uses a secret of this process, which may be one of many on its store. Warns when it seals the first hold.
    pub(crate) fn of_one_of_many() -> Self {
        Self { unopened_elsewhere: Some(Once::new()), ..Self::of_process() }
    }

    fn with_secret(secret: &[u8]) -> Self {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret).into();
        Self { secret, random: SystemRandom::new(), unopened_elsewhere: None }
    }

    /// Seals a hold for the caller.
    ///
    /// # Errors
    ///
    /// If it would be longer than [`MAX`](Self::MAX), or the system has no random numbers.
    pub(crate) fn seal(&self, hold: &PolicyHold) -> Result<String, NoSeal> {
        let mut sealed = written(hold).ok_or(NoSeal::Long)?;
        let mut salt = [0; SALT];
        self.random.fill(&mut salt).map_err(|_| NoSeal::NoRandom)?;
        let key = self.key(&salt).ok_or(NoSeal::NoRandom)?;
        // It fails only for texts far longer than any hold.
        let tag = key
            .seal_in_place_separate_tag(nonce(), Aad::from([VERSION]), &mut sealed)
            .map_err(|_| NoSeal::Long)?;
        let sealed = [&[VERSION], &salt[..], &sealed, tag.as_ref()].concat();
        let text = Base64UrlUnpadded::encode_string(&sealed);
        if text.len() > Self::MAX {
            return Err(NoSeal::Long);
        }
        if let Some(first) = &self.unopened_elsewhere {
            first.call_once(|| {
                warn!(
                    "no other process can renew or settle the holds of this one, not even after a restart: set --hold-secret-file"
                );
            });
        }
        Ok(text)
    }

    /// Opens a sealed hold.
    ///
    /// # Errors
    ///
    /// If the text is not a hold of this service.
    pub(crate) fn open(&self, text: &str) -> Result<PolicyHold, NotAHold> {
        if text.len() > Self::MAX {
            return Err(NotAHold);
        }
        let mut bytes = Base64UrlUnpadded::decode_vec(text).map_err(|_| NotAHold)?;
        let (head, sealed) = bytes.split_at_mut_checked(1 + SALT).ok_or(NotAHold)?;
        let (version, salt) = head.split_first().ok_or(NotAHold)?;
        if *version != VERSION {
            return Err(NotAHold);
        }
        let key = self.key(salt).ok_or(NotAHold)?;
        let opened = key.open_in_place(nonce(), Aad::from([VERSION]), sealed).map_err(|_| NotAHold)?;
        read(opened).ok_or(NotAHold)
    }

    fn key(&self, salt: &[u8]) -> Option<LessSafeKey> {
        let mut context = hmac::Context::with_key(self.secret()?);
        context.update(b"tollgate hold");
        context.update(salt);
        Some(LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, context.sign().as_ref()).ok()?))
    }

    fn secret(&self) -> Option<&hmac::Key> {
        if let Some(secret) = self.secret.get() {
            return Some(secret);
        }
        let made = hmac::Key::generate(hmac::HMAC_SHA256, &self.random).ok()?;
        // If two threads create a secret, both use the first.
        Some(self.secret.get_or_init(|| made))
    }
}

/// A constant, because each key seals a single hold.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// The kinds of parts.
mod part {
    pub(super) const IN_FLIGHT: u8 = 0;
    pub(super) const FIXED: u8 = 1;
    pub(super) const ASKED: u8 = 2;
}

/// Encodes a hold: id, place and length, then its parts. A part with the same key as the previous one leaves it out.
fn written(hold: &PolicyHold) -> Option<Vec<u8>> {
    let mut bytes = hold.id().as_bytes().to_vec();
    bytes.push(place_number(hold.place()));
    bytes.extend(hold.length().millis().to_be_bytes());
    let mut previous = None;
    for InFlightPart { in_flight, key, units } in hold.in_flight() {
        bytes.push(part::IN_FLIGHT);
        write(&mut bytes, in_flight.policy().as_bytes())?;
        write(&mut bytes, in_flight.in_flight().to_string().as_bytes())?;
        write_share(&mut bytes, hold.place(), in_flight.on_store_failure())?;
        bytes.extend(units.to_be_bytes());
        write_key(&mut bytes, key, &mut previous)?;
    }
    for HoldPart { quota, key, cost, is_asked, units, mark, overrun } in hold.parts() {
        bytes.push(if *is_asked { part::ASKED } else { part::FIXED });
        write(&mut bytes, quota.policy().as_bytes())?;
        write(&mut bytes, quota.quota().to_string().as_bytes())?;
        write_share(&mut bytes, hold.place(), quota.on_store_failure())?;
        bytes.extend(cost.to_be_bytes());
        bytes.extend(units.to_be_bytes());
        bytes.extend(mark.time().as_unix_millis().to_be_bytes());
        bytes.push((*overrun == Overrun::Cap).into());
        write_key(&mut bytes, key, &mut previous)?;
    }
    Some(bytes)
}

/// Writes the share of its limit that this process counts a part against, if it does.
fn write_share(
    bytes: &mut Vec<u8>,
    place: HoldPlace,
    on_store_failure: Option<OnStoreFailure>,
) -> Option<()> {
    match (place, on_store_failure) {
        (HoldPlace::Process, Some(OnStoreFailure::Local(share))) => {
            write(bytes, share.to_string().as_bytes())
        }
        // Nothing else is counted in a process.
        (HoldPlace::Process, _) => None,
        (HoldPlace::Store | HoldPlace::Nowhere, _) => Some(()),
    }
}

/// Reads what happens to a part while the store is down.
fn read_share(bytes: &mut &[u8], place: HoldPlace) -> Option<OnStoreFailure> {
    match place {
        HoldPlace::Process => {
            let share = str::from_utf8(field(bytes)?).ok()?;
            Some(OnStoreFailure::Local(share.parse().ok()?))
        }
        // The policy may be gone. During an outage, the caller learns that nothing was changed, and can try again.
        HoldPlace::Store | HoldPlace::Nowhere => Some(OnStoreFailure::Closed),
    }
}

const fn place_number(place: HoldPlace) -> u8 {
    match place {
        HoldPlace::Store => 0,
        HoldPlace::Process => 1,
        HoldPlace::Nowhere => 2,
    }
}

fn write(bytes: &mut Vec<u8>, field: &[u8]) -> Option<()> {
    // Otherwise the text would be too long anyway; a long key is not copied for each part.
    if bytes.len() + field.len() > HoldSeal::MAX {
        return None;
    }
    bytes.extend(u16::try_from(field.len()).ok()?.to_be_bytes());
    bytes.extend(field);
    Some(())
}

fn write_key<'a>(
    bytes: &mut Vec<u8>,
    key: &'a Key<'static>,
    previous: &mut Option<&'a Key<'static>>,
) -> Option<()> {
    let text = if *previous == Some(key) { Cow::default() } else { key.canonical_bytes() };
    *previous = Some(key);
    write(bytes, &text)
}

fn read(mut bytes: &[u8]) -> Option<PolicyHold> {
    let id = HoldId::from_bytes(*take(&mut bytes)?);
    let place = match *take(&mut bytes)? {
        [0] => HoldPlace::Store,
        [1] => HoldPlace::Process,
        [2] => HoldPlace::Nowhere,
        [_] => return None,
    };
    let length = HoldLength::new(Duration::from_millis(number(&mut bytes)?.into())).ok()?;
    let (mut in_flight, mut parts) = (Vec::new(), Vec::new());
    let mut previous = None;
    while !bytes.is_empty() {
        let [kind] = *take(&mut bytes)?;
        let policy = str::from_utf8(field(&mut bytes)?).ok()?;
        let limit = str::from_utf8(field(&mut bytes)?).ok()?;
        let on_store_failure = read_share(&mut bytes, place)?;
        if kind == part::IN_FLIGHT {
            let limit = PolicyInFlight::new(policy, limit.parse().ok()?);
            let units = number(&mut bytes)?;
            let key = read_key(&mut bytes, &mut previous)?;
            in_flight.push(InFlightPart {
                in_flight: limit.with_on_store_failure(on_store_failure),
                key,
                units,
            });
            continue;
        }
        let is_asked = match kind {
            part::ASKED => true,
            part::FIXED => false,
            _ => return None,
        };
        let quota = PolicyQuota::new(policy, limit.parse().ok()?).with_on_store_failure(on_store_failure);
        let (cost, units) = (number(&mut bytes)?, number(&mut bytes)?);
        let mark = Mark::at(Timestamp::from_unix_millis(i64::from_be_bytes(*take(&mut bytes)?)));
        let overrun = match *take(&mut bytes)? {
            [0] => Overrun::Charge,
            [1] => Overrun::Cap,
            [_] => return None,
        };
        let key = read_key(&mut bytes, &mut previous)?;
        parts.push(HoldPart { quota, key, cost, is_asked, units, mark, overrun });
    }
    Some(PolicyHold::new(id, place, length, parts, in_flight))
}

fn number(bytes: &mut &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*take(bytes)?))
}

fn read_key(bytes: &mut &[u8], previous: &mut Option<Key<'static>>) -> Option<Key<'static>> {
    let key = match field(bytes)? {
        [] => previous.take()?,
        key => Key::from_canonical_bytes(key)?,
    };
    *previous = Some(key.clone());
    Some(key)
}

fn field<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u16::from_be_bytes(*take(bytes)?);
    let (field, rest) = bytes.split_at_checked(usize::from(length))?;
    *bytes = rest;
    Some(field)
}

fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(taken)
}

/// Leaves out the secret.
impl fmt::Debug for HoldSeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldSeal").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tollgate::Quota;

    use super::*;

    fn hold(key: &str) -> PolicyHold {
        let (key, other) = (Key::from(key.to_owned()), Key::from("another".to_owned()));
        let local = OnStoreFailure::Local("1/3".parse().unwrap());
        let in_flight = |limit: &str, key: &Key<'static>, units| InFlightPart {
            in_flight: PolicyInFlight::new("api", limit.parse().unwrap()).with_on_store_failure(local),
            key: key.clone(),
            units,
        };
        let part = |quota: &str, key: &Key<'static>, is_asked, overrun| HoldPart {
            quota: PolicyQuota::new("api", quota.parse::<Quota>().unwrap()).with_on_store_failure(local),
            key: key.clone(),
            cost: 3,
            is_asked,
            units: if is_asked { 3 } else { 0 },
            mark: Mark::at(Timestamp::from_unix_millis(if is_asked { 1_700_000_000_000 } else { -7 })),
            overrun,
        };
        PolicyHold::new(
            HoldId::from_bytes([7; 16]),
            HoldPlace::Process,
            "90s".parse().unwrap(),
            vec![
                part("5/1m@first_hit", &key, true, Overrun::Cap),
                part("9/day@Europe/Berlin", &key, false, Overrun::Charge),
                part("7/1s~burst:9", &other, true, Overrun::Charge),
            ],
            vec![in_flight("20~in_flight:30s", &key, 1), in_flight("9~in_flight", &other, 1_000)],
        )
    }

    fn said(hold: &PolicyHold) -> Vec<String> {
        let bytes = |key: &Key<'_>| key.canonical_bytes().into_owned();
        let head = format!("{} {:?} {}", hold.id(), hold.place(), hold.length());
        let in_flight = hold.in_flight().iter().map(|InFlightPart { in_flight, key, units }| {
            let share = in_flight.on_store_failure();
            format!("{in_flight:?} {:?} {units} {share:?}", bytes(key))
        });
        let parts = hold.parts().iter().map(|part| {
            let HoldPart { quota, key, cost, is_asked, units, mark, overrun } = part;
            let share = quota.on_store_failure();
            let (policy, quota, key) = (quota.policy(), quota.quota(), bytes(key));
            format!("{policy} {quota} {key:?} {cost} {is_asked} {units} {mark:?} {overrun:?} {share:?}")
        });
        std::iter::once(head).chain(in_flight).chain(parts).collect()
    }

    #[test]
    fn a_hold_opens_again_and_is_opaque_before() {
        let (seal, hold) = (HoldSeal::of_process(), hold("alice"));
        let (one, other) = (seal.seal(&hold).unwrap(), seal.seal(&hold).unwrap());
        assert_ne!(one, other, "two sealed holds cannot be compared");
        let opened = seal.open(&one).unwrap();
        assert_eq!((said(&opened), said(&opened).len()), (said(&hold), 6));
        let bytes = Base64UrlUnpadded::decode_vec(&one).unwrap();
        let has = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
        assert!(!has(b"alice") && !has(b"api") && !has(b"1m@") && !has(&[7; 16]));
    }

    #[test]
    fn refuses_holds_that_are_changed_cut_or_sealed_elsewhere() {
        let (seal, hold) = (HoldSeal::of_process(), hold("alice"));
        let text = seal.seal(&hold).unwrap();
        let bytes = Base64UrlUnpadded::decode_vec(&text).unwrap();
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 1;
            assert!(seal.open(&Base64UrlUnpadded::encode_string(&changed)).is_err(), "byte {index}");
            assert!(seal.open(&Base64UrlUnpadded::encode_string(&bytes[..index])).is_err(), "cut at {index}");
        }
        for none in ["", "A", "alice", "=", "ä", &format!("{text}A"), &"A".repeat(HoldSeal::MAX + 1)] {
            assert!(seal.open(none).is_err(), "{none}");
        }
        assert!(HoldSeal::of_process().open(&text).is_err());
        let with = |secret: &[u8]| HoldSeal::with_secret(secret);
        let text = with(&[7; 32]).seal(&hold).unwrap();
        assert_eq!(said(&with(&[7; 32]).open(&text).unwrap()), said(&hold));
        assert!(with(&[8; 32]).open(&text).is_err());
    }

    #[test]
    fn a_sealed_hold_is_bounded() {
        let seal = HoldSeal::of_process();
        let longest = seal.seal(&hold(&"x".repeat(2_500))).unwrap();
        assert!(longest.len() > 6_000 && longest.len() <= HoldSeal::MAX);
        assert_eq!(seal.seal(&hold(&"x".repeat(3_500))), Err(NoSeal::Long));
        assert_eq!(seal.seal(&hold(&"x".repeat(70_000))), Err(NoSeal::Long));
    }
}
