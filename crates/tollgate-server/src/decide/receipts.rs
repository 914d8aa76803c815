//! Receipts as callers hold them: opaque, sealed with a secret of the service, and bounded in length.
//!
//! A receipt names counters, and the store finds a counter by its key, which is often a person or a secret. So the
//! whole receipt is encrypted, which also proves its origin. A digest of the key would not be enough: anyone could
//! confirm a guessed user name, and layouts of other systems need the key itself.
//!
//! ```text
//! base64url( version 2 │ salt 16 │ ChaCha20-Poly1305( items ) │ tag 16 )
//! ```
//!
//! Each receipt has its own encryption key: HMAC-SHA-256 of its salt under the secret. So it needs no nonce, and one
//! secret can seal any number of receipts. Opening takes the same time and gives the same error, whichever part of a
//! receipt is wrong.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

use base64ct::{Base64UrlUnpadded, Encoding};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;
use tollgate::{Key, Mark, OnStoreFailure, PolicyQuota, Receipt, ReceiptItem, Timestamp};
use tollgate_redis::SmallFile;

/// Seals and opens receipts.
pub(crate) struct Receipts {
    /// From a file; otherwise created on first use.
    secret: OnceLock<hmac::Key>,
    random: SystemRandom,
}

/// The text is not a receipt of this service, or was sealed with another secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("this is not a receipt of this service, or the service's secret has changed")]
pub(crate) struct NotAReceipt;

/// The reason why there is no secret. The fault of the file's author.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReceiptSecretError {
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
        Receipts::LEAST_SECRET
    )]
    Short {
        /// The file's name.
        path: Box<Path>,
    },
}

/// Version 1 had no costs, so such receipts could not be settled.
const VERSION: u8 = 2;
const SALT: usize = 16;
const FIXED_COST: u8 = 0;
const ASKED_COST: u8 = 1;

impl Receipts {
    /// Most characters of a receipt.
    pub(crate) const MAX: usize = 8 * 1024;

    const LEAST_SECRET: usize = 32;

    /// Uses the secret in a file, without surrounding white space.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is too short.
    pub(crate) fn from_file(path: &Path) -> Result<Self, ReceiptSecretError> {
        let file = SmallFile::read(path, SmallFile::MOST_SECRET_BYTES)
            .map_err(|source| ReceiptSecretError::File { path: path.into(), source })?;
        let secret = file.bytes.trim_ascii();
        if secret.len() < Self::LEAST_SECRET {
            return Err(ReceiptSecretError::Short { path: path.into() });
        }
        Ok(Self::with_secret(secret))
    }

    /// Uses a secret of this process.
    pub(crate) fn of_process() -> Self {
        Self { secret: OnceLock::new(), random: SystemRandom::new() }
    }

    fn with_secret(secret: &[u8]) -> Self {
        Self { secret: hmac::Key::new(hmac::HMAC_SHA256, secret).into(), random: SystemRandom::new() }
    }

    /// Seals a receipt for the caller. Returns `None` if the receipt has no items, would be longer than
    /// [`MAX`](Self::MAX), or the system has no random numbers.
    pub(crate) fn seal(&self, receipt: &Receipt) -> Option<String> {
        if receipt.items().is_empty() {
            return None;
        }
        let mut sealed = written(receipt)?;
        let mut salt = [0; SALT];
        self.random.fill(&mut salt).ok()?;
        let tag =
            self.key(&salt)?.seal_in_place_separate_tag(nonce(), Aad::from([VERSION]), &mut sealed).ok()?;
        let sealed = [&[VERSION], &salt[..], &sealed, tag.as_ref()].concat();
        let text = Base64UrlUnpadded::encode_string(&sealed);
        (text.len() <= Self::MAX).then_some(text)
    }

    /// Opens a sealed receipt.
    ///
    /// # Errors
    ///
    /// If the text is not a receipt of this service.
    pub(crate) fn open(&self, text: &str) -> Result<Receipt, NotAReceipt> {
        if text.len() > Self::MAX {
            return Err(NotAReceipt);
        }
        let mut bytes = Base64UrlUnpadded::decode_vec(text).map_err(|_| NotAReceipt)?;
        let (head, sealed) = bytes.split_at_mut_checked(1 + SALT).ok_or(NotAReceipt)?;
        let (version, salt) = head.split_first().ok_or(NotAReceipt)?;
        if *version != VERSION {
            return Err(NotAReceipt);
        }
        let key = self.key(salt).ok_or(NotAReceipt)?;
        let opened = key.open_in_place(nonce(), Aad::from([VERSION]), sealed).map_err(|_| NotAReceipt)?;
        read(opened).ok_or(NotAReceipt)
    }

    fn key(&self, salt: &[u8]) -> Option<LessSafeKey> {
        let mut context = hmac::Context::with_key(self.secret()?);
        context.update(b"tollgate receipt");
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

/// A constant, because each key seals a single receipt.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// Encodes the items: policy, quota, units, mark, the cost unless it is fixed, and key. An item with the same key as
/// the previous one leaves it out.
fn written(receipt: &Receipt) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut previous: Option<&Key<'_>> = None;
    for item in receipt.items() {
        write(&mut bytes, item.quota().policy().as_bytes())?;
        write(&mut bytes, item.quota().quota().to_string().as_bytes())?;
        bytes.extend(item.units().to_be_bytes());
        bytes.extend(item.mark().time().as_unix_millis().to_be_bytes());
        match item.cost() {
            Some(cost) => {
                bytes.push(ASKED_COST);
                bytes.extend(cost.to_be_bytes());
            }
            None => bytes.push(FIXED_COST),
        }
        let key = if previous == Some(item.key()) { Cow::default() } else { item.key().canonical_bytes() };
        write(&mut bytes, &key)?;
        previous = Some(item.key());
        if bytes.len() > Receipts::MAX {
            return None;
        }
    }
    Some(bytes)
}

fn write(bytes: &mut Vec<u8>, field: &[u8]) -> Option<()> {
    bytes.extend(u16::try_from(field.len()).ok()?.to_be_bytes());
    bytes.extend(field);
    Some(())
}

fn read(mut bytes: &[u8]) -> Option<Receipt> {
    let mut items = Vec::new();
    let mut previous: Option<Key<'static>> = None;
    while !bytes.is_empty() {
        let policy = str::from_utf8(field(&mut bytes)?).ok()?;
        let quota = str::from_utf8(field(&mut bytes)?).ok()?.parse().ok()?;
        let units = u32::from_be_bytes(*take(&mut bytes)?);
        let mark = Mark::at(Timestamp::from_unix_millis(i64::from_be_bytes(*take(&mut bytes)?)));
        let cost = match *take(&mut bytes)? {
            [ASKED_COST] => Some(u32::from_be_bytes(*take(&mut bytes)?)),
            [FIXED_COST] => None,
            [_] => return None,
        };
        let key = match field(&mut bytes)? {
            [] => previous?,
            key => Key::from_canonical_bytes(key)?,
        };
        // The policy may be gone. During an outage, the caller learns that nothing was settled, and can try again.
        let quota = PolicyQuota::new(policy, quota).with_on_store_failure(OnStoreFailure::Closed);
        let item = ReceiptItem::new(quota, key.clone(), units, mark);
        items.push(match cost {
            Some(cost) => item.with_cost(cost),
            None => item.fixed(),
        });
        previous = Some(key);
    }
    Some(items.into_iter().collect())
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
impl fmt::Debug for Receipts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipts").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{Limiter, MemoryStore, Quota};

    use super::*;

    fn taken(key: &str) -> Receipt {
        let quotas: [Quota; 2] =
            ["5/1m@first_hit", "9/day@Europe/Berlin"].map(|quota| quota.parse().unwrap());
        let limiter = quotas
            .into_iter()
            .fold(Limiter::builder("api"), |builder, quota| builder.quota(quota))
            .build(MemoryStore::new())
            .unwrap();
        let charged = limiter.check_cost(key, 3).unwrap().into_receipt();
        let quota = PolicyQuota::new("outage", Quota::per_day(9));
        let uncounted = ReceiptItem::new(quota, Key::from(key.to_owned()), 0, Mark::at(Timestamp::EPOCH));
        let items = charged.into_iter().enumerate();
        let items = items.map(|(index, item)| if index == 0 { item.fixed() } else { item });
        items.chain([uncounted.with_cost(3)]).collect()
    }

    fn said(receipt: &Receipt) -> Vec<(String, Mark, Vec<u8>)> {
        let items = receipt.items().iter();
        items
            .map(|item| {
                let (quota, units, cost) = (item.quota(), item.units(), item.cost());
                let charged = format!("{} {}: {units} of {cost:?}", quota.policy(), quota.quota());
                (charged, item.mark(), item.key().canonical_bytes().into_owned())
            })
            .collect()
    }

    #[test]
    fn a_receipt_opens_again_and_is_opaque_before() {
        let (receipts, receipt) = (Receipts::of_process(), taken("alice"));
        let (one, other) = (receipts.seal(&receipt).unwrap(), receipts.seal(&receipt).unwrap());
        assert_ne!(one, other, "two receipts cannot be compared");
        let opened = receipts.open(&one).unwrap();
        assert_eq!((said(&opened), said(&opened).len()), (said(&receipt), 3));
        let bytes = Base64UrlUnpadded::decode_vec(&one).unwrap();
        let has = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
        assert!(!has(b"alice") && !has(b"api") && !has(b"1m@"));
        assert_eq!(receipts.seal(&Receipt::default()), None);
    }

    #[test]
    fn refuses_receipts_that_are_changed_cut_or_sealed_elsewhere() {
        let (receipts, receipt) = (Receipts::of_process(), taken("alice"));
        let text = receipts.seal(&receipt).unwrap();
        let bytes = Base64UrlUnpadded::decode_vec(&text).unwrap();
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 1;
            assert!(receipts.open(&Base64UrlUnpadded::encode_string(&changed)).is_err(), "byte {index}");
            assert!(
                receipts.open(&Base64UrlUnpadded::encode_string(&bytes[..index])).is_err(),
                "cut at {index}"
            );
        }
        for none in ["", "A", "alice", "=", "ä", &format!("{text}A"), &"A".repeat(Receipts::MAX + 1)] {
            assert!(receipts.open(none).is_err(), "{none}");
        }
        assert!(Receipts::of_process().open(&text).is_err());
        let with = |secret: &[u8]| Receipts::with_secret(secret);
        let text = with(&[7; 32]).seal(&receipt).unwrap();
        assert_eq!(said(&with(&[7; 32]).open(&text).unwrap()), said(&receipt));
        assert!(with(&[8; 32]).open(&text).is_err());
    }

    #[test]
    fn a_receipt_is_bounded() {
        let receipts = Receipts::of_process();
        let longest = receipts.seal(&taken(&"x".repeat(5_000))).unwrap();
        assert!(longest.len() > 6_000 && longest.len() <= Receipts::MAX);
        assert_eq!(receipts.seal(&taken(&"x".repeat(7_000))), None);
        assert_eq!(receipts.seal(&taken(&"x".repeat(70_000))), None);
    }
}
