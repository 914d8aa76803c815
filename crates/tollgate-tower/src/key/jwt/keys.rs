//! The keys that tokens may be signed with.

use std::fmt;

use base64ct::{Base64UrlUnpadded, Encoding};
use serde::Deserialize;
use serde_json::Value;
use spki::SubjectPublicKeyInfoRef;
use spki::der::asn1::{ObjectIdentifier, UintRef};
use spki::der::{self, Document, Reader, SliceReader};
use thiserror::Error;

use super::Algorithm;
use super::material::KeyMaterial;

/// The keys that tokens may be signed with, each with its algorithm.
///
/// ```
/// use tollgate_tower::key::jwt::{Algorithm, Keys};
///
/// // As the issuer publishes them, often at `/.well-known/jwks.json`.
/// let keys = Keys::from_jwks(br#"{ "keys": [
///     { "kty": "OKP", "crv": "Ed25519", "kid": "2026", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" }
/// ] }"#)?;
/// assert_eq!(keys.len(), 1);
///
/// // A public key is no secret, and a secret not everything that is short.
/// let pem = "-----BEGIN PUBLIC KEY-----
/// MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
/// -----END PUBLIC KEY-----
/// ";
/// assert!(Keys::from_pem(Algorithm::Ed25519, pem).is_ok());
/// assert!(Keys::from_pem(Algorithm::Hs256, pem).is_err());
/// assert!(Keys::from_secret(Algorithm::Hs256, pem.as_bytes()).is_err());
/// assert!(Keys::from_secret(Algorithm::Hs256, b"hunter2").is_err());
/// # Ok::<(), tollgate_tower::key::jwt::KeysError>(())
/// ```
#[derive(Default)]
pub struct Keys {
    entries: Vec<KeyEntry>,
    broken: Vec<BrokenKey>,
}

struct KeyEntry {
    id: Option<Box<str>>,
    algorithm: Algorithm,
    material: KeyMaterial,
}

/// A key of a set that cannot be used. Log it: tokens that are signed with it are refused.
#[derive(Debug, Error)]
#[error("key {number} of the set cannot be used: {error}")]
pub struct BrokenKey {
    /// Which one, counted from 1.
    pub number: usize,
    /// Why.
    #[source]
    pub error: KeysError,
}

/// Keys that cannot be used. The fault of their author.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeysError {
    /// The text is not a JSON Web Key Set.
    #[error("expected a JSON Web Key Set")]
    Json(#[source] serde_json::Error),
    /// A key of a set is not an object, or a member has the wrong type (RFC 7517). The key may be secret, so it is not
    /// shown.
    #[error("expected a JSON Web Key")]
    Key,
    /// A member of a key is missing, or its value is not in base64url.
    #[error("`{0}` is missing or not in base64url")]
    Member(&'static str),
    /// No key of the set verifies signatures with a known [`Algorithm`].
    #[error("the set has no key for a supported signature algorithm")]
    NoKey(#[source] Option<Box<BrokenKey>>),
    /// The text is not a public key in PEM.
    #[error("expected a public key in PEM, which begins with -----BEGIN PUBLIC KEY-----")]
    Pem(#[source] der::Error),
    /// The key cannot be used for this algorithm.
    #[error("the key cannot be used for {0}")]
    Mismatch(Algorithm),
    /// An RSA key has too few bits, so many bits that verifying takes long, or an invalid exponent.
    #[error("an RSA key needs 2048 to 8192 bits, and an exponent of at most 32")]
    RsaSize,
    /// A secret has fewer bytes than the hash.
    #[error("the secret needs at least {0} random bytes")]
    ShortSecret(usize),
}

impl Keys {
    /// Returns the keys of a JSON Web Key Set (RFC 7517).
    ///
    /// A key without an algorithm has the usual one of its kind: RS256, ES256, ES384 or EdDSA; a secret must name one.
    /// Keys of other kinds, for other algorithms or other uses are ignored, so that issuers can publish them. A
    /// [broken](Self::broken) key does not affect the others (RFC 7517, section 5).
    ///
    /// # Errors
    ///
    /// If the text is not a key set, or if it has no usable key.
    pub fn from_jwks(json: &[u8]) -> Result<Self, KeysError> {
        let set: JwkSet = serde_json::from_slice(json).map_err(KeysError::Json)?;
        let mut keys = Self::default();
        for (number, jwk) in (1..).zip(set.keys) {
            let entry =
                serde_json::from_value(jwk).map_err(|_| KeysError::Key).and_then(|jwk: Jwk| jwk.entry());
            match entry {
                Ok(entry) => keys.entries.extend(entry),
                Err(error) => keys.broken.push(BrokenKey { number, error }),
            }
        }
        if keys.is_empty() {
            Err(KeysError::NoKey(keys.broken.into_iter().next().map(Box::new)))
        } else {
            Ok(keys)
        }
    }

    /// Returns the signature keys that cannot be used.
    #[must_use]
    pub fn broken(&self) -> &[BrokenKey] {
        &self.broken
    }

    /// One public key in PEM, for this algorithm.
    ///
    /// # Errors
    ///
    /// If the text is not a public key, or one for another algorithm.
    pub fn from_pem(algorithm: Algorithm, pem: &str) -> Result<Self, KeysError> {
        let (label, document) = Document::from_pem(pem.trim_start()).map_err(KeysError::Pem)?;
        if label != "PUBLIC KEY" {
            return Err(KeysError::Pem(der::ErrorKind::Failed.into()));
        }
        let key: SubjectPublicKeyInfoRef<'_> = document.decode_msg().map_err(KeysError::Pem)?;
        let bytes = key.subject_public_key.as_bytes().ok_or(KeysError::Mismatch(algorithm))?;
        let curve = key.algorithm.parameters_oid().ok();
        let material = match (key.algorithm.oid, algorithm) {
            (RSA, _) => {
                let (modulus, exponent) = rsa_numbers(bytes).map_err(KeysError::Pem)?;
                KeyMaterial::rsa(algorithm, modulus.as_bytes(), exponent.as_bytes())?
            }
            (EC, Algorithm::Es256) if curve == Some(P256) => KeyMaterial::point(algorithm, bytes)?,
            (EC, Algorithm::Es384) if curve == Some(P384) => KeyMaterial::point(algorithm, bytes)?,
            (ED25519, Algorithm::Ed25519) => KeyMaterial::point(algorithm, bytes)?,
            _ => return Err(KeysError::Mismatch(algorithm)),
        };
        Ok(KeyEntry { id: None, algorithm, material }.into())
    }

    /// Creates keys from a secret that issuer and service share, for HS256, HS384 or HS512: random bytes, at least as
    /// many as the hash has. Anyone who knows it can sign any token.
    ///
    /// # Errors
    ///
    /// If the algorithm is another, the secret too short, or a key in PEM.
    pub fn from_secret(algorithm: Algorithm, secret: &[u8]) -> Result<Self, KeysError> {
        let material = KeyMaterial::secret(algorithm, secret)?;
        Ok(KeyEntry { id: None, algorithm, material }.into())
    }

    /// Gives this id to keys without one, so that they do not verify tokens that name another.
    #[must_use]
    pub fn named(mut self, id: &str) -> Self {
        for entry in self.entries.iter_mut().filter(|entry| entry.id.is_none()) {
            entry.id = Some(id.into());
        }
        self
    }

    /// Joins two sets of keys, for a rotation.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.entries.extend(others.entries);
        self.broken.extend(others.broken);
        self
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no keys: no token is valid then.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the keys that may have signed a token with this algorithm and key id. A token without a key id, and keys
    /// without an id, are tried by their algorithm.
    pub(super) fn candidates(
        &self,
        algorithm: Algorithm,
        id: Option<&str>,
    ) -> impl Iterator<Item = &KeyMaterial> {
        let entries = self.entries.iter().filter(move |entry| {
            let is_named = entry.id.as_deref().zip(id).is_none_or(|(own, named)| own == named);
            entry.algorithm == algorithm && is_named
        });
        entries.map(|entry| &entry.material)
    }
}

impl From<KeyEntry> for Keys {
    fn from(entry: KeyEntry) -> Self {
        Self { entries: vec![entry], broken: Vec::new() }
    }
}

/// Their ids and algorithms.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.iter().map(|entry| (&entry.id, entry.algorithm))).finish()
    }
}

/// RFC 3279 and RFC 8410.
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// The modulus and the exponent of an `RSAPublicKey` (RFC 8017, appendix A.1.1).
fn rsa_numbers(bytes: &[u8]) -> der::Result<(UintRef<'_>, UintRef<'_>)> {
    let mut reader = SliceReader::new(bytes)?;
    let numbers = reader.sequence(|numbers| Ok::<_, der::Error>((numbers.decode()?, numbers.decode()?)))?;
    reader.finish()?;
    Ok(numbers)
}

#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<Value>,
}

/// A key as a set has it (RFC 7518, section 6, and RFC 8037).
#[derive(Deserialize)]
struct Jwk {
    kty: Box<str>,
    #[serde(rename = "use")]
    usage: Option<Box<str>>,
    key_ops: Option<Vec<Box<str>>>,
    alg: Option<Box<str>>,
    kid: Option<Box<str>>,
    crv: Option<Box<str>>,
    n: Option<Box<str>>,
    e: Option<Box<str>>,
    x: Option<Box<str>>,
    y: Option<Box<str>>,
    k: Option<Box<str>>,
}

impl Jwk {
    /// `None` if it is for something else.
    fn entry(&self) -> Result<Option<KeyEntry>, KeysError> {
        let is_for_signatures = self.usage.as_deref().is_none_or(|usage| usage == "sig");
        let verifies = self.key_ops.as_deref().is_none_or(|ops| ops.iter().any(|op| **op == *"verify"));
        let usual = match (&*self.kty, self.crv.as_deref()) {
            ("RSA", _) => Some(Algorithm::Rs256),
            ("EC", Some("P-256")) => Some(Algorithm::Es256),
            ("EC", Some("P-384")) => Some(Algorithm::Es384),
            ("OKP", Some("Ed25519")) => Some(Algorithm::Ed25519),
            ("oct", _) => None,
            _ => return Ok(None),
        };
        let said = self.alg.as_deref().map(Algorithm::named);
        if !is_for_signatures || !verifies || said == Some(None) {
            return Ok(None);
        }
        let algorithm = said.flatten().or(usual).ok_or(KeysError::Member("alg"))?;
        let material = match &*self.kty {
            "RSA" => KeyMaterial::rsa(algorithm, &bytes("n", &self.n)?, &bytes("e", &self.e)?)?,
            "EC" => {
                let (x, y) = (bytes("x", &self.x)?, bytes("y", &self.y)?);
                if x.len() != y.len() {
                    return Err(KeysError::Mismatch(algorithm));
                }
                // 4: both coordinates follow.
                KeyMaterial::point(algorithm, &[&[4], &*x, &*y].concat())?
            }
            "OKP" => KeyMaterial::point(algorithm, &bytes("x", &self.x)?)?,
            _ => KeyMaterial::secret(algorithm, &bytes("k", &self.k)?)?,
        };
        Ok(Some(KeyEntry { id: self.kid.clone(), algorithm, material }))
    }
}

fn bytes(name: &'static str, value: &Option<Box<str>>) -> Result<Vec<u8>, KeysError> {
    let value = value.as_deref().ok_or(KeysError::Member(name))?;
    Base64UrlUnpadded::decode_vec(value).map_err(|_| KeysError::Member(name))
}
