//! Key material.

use ring::hmac;
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};

use super::{Algorithm, KeysError};

/// A key in the form of its algorithm, so that no other algorithm can be used with it.
pub(super) enum KeyMaterial {
    Secret(hmac::Key),
    Rsa(&'static RsaParameters, RsaPublicKeyComponents<Box<[u8]>>),
    /// A point of a curve, for ECDSA or Ed25519.
    Point(UnparsedPublicKey<Box<[u8]>>),
}

impl KeyMaterial {
    /// Returns a secret that is at least as long as the hash (RFC 7518, section 3.2) and not a public key.
    pub(super) fn secret(algorithm: Algorithm, secret: &[u8]) -> Result<Self, KeysError> {
        let (hash, bytes) = match algorithm {
            Algorithm::Hs256 => (hmac::HMAC_SHA256, 32),
            Algorithm::Hs384 => (hmac::HMAC_SHA384, 48),
            Algorithm::Hs512 => (hmac::HMAC_SHA512, 64),
            _ => return Err(KeysError::Mismatch(algorithm)),
        };
        // Anybody could sign with a public key.
        if secret.trim_ascii_start().starts_with(b"-----BEGIN") {
            return Err(KeysError::Mismatch(algorithm));
        }
        if secret.len() < bytes {
            return Err(KeysError::ShortSecret(bytes));
        }
        Ok(Self::Secret(hmac::Key::new(hash, secret)))
    }

    /// A modulus and an exponent, both as unsigned numbers in network order.
    pub(super) fn rsa(algorithm: Algorithm, modulus: &[u8], exponent: &[u8]) -> Result<Self, KeysError> {
        let parameters = match algorithm {
            Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            _ => return Err(KeysError::Mismatch(algorithm)),
        };
        let (n, e) = (without_zeros(modulus), without_zeros(exponent));
        // The same bounds as those of the parameters, where a key that is outside of them fails with every token.
        let bits = n.len() * 8 - n.first().map_or(0, |byte| byte.leading_zeros() as usize);
        if !(2048..=8192).contains(&bits) || !(1..=4).contains(&e.len()) || *e == [1] {
            return Err(KeysError::RsaSize);
        }
        Ok(Self::Rsa(parameters, RsaPublicKeyComponents { n, e }))
    }

    /// A point: for ECDSA uncompressed, as SEC 1 has it; for Ed25519 its 32 bytes.
    pub(super) fn point(algorithm: Algorithm, point: &[u8]) -> Result<Self, KeysError> {
        let (verification, length): (&'static dyn signature::VerificationAlgorithm, _) = match algorithm {
            Algorithm::Es256 => (&signature::ECDSA_P256_SHA256_FIXED, 65),
            Algorithm::Es384 => (&signature::ECDSA_P384_SHA384_FIXED, 97),
            Algorithm::Ed25519 => (&signature::ED25519, 32),
            _ => return Err(KeysError::Mismatch(algorithm)),
        };
        if point.len() != length {
            return Err(KeysError::Mismatch(algorithm));
        }
        Ok(Self::Point(UnparsedPublicKey::new(verification, point.into())))
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Secret(secret) => hmac::verify(secret, message, signature).is_ok(),
            Self::Rsa(parameters, key) => key.verify(parameters, message, signature).is_ok(),
            Self::Point(point) => point.verify(message, signature).is_ok(),
        }
    }
}

fn without_zeros(number: &[u8]) -> Box<[u8]> {
    let zeros = number.iter().take_while(|&&byte| byte == 0).count();
    number.iter().skip(zeros).copied().collect()
}
