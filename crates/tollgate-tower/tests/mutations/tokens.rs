//! Tokens that are changed before or after they are signed, and changed sets of keys.

use base64ct::{Base64UrlUnpadded, Encoding};
use fastrand::Rng;
use ring::hmac;
use serde_json::Value;
use tollgate::{ManualClock, Timestamp};
use tollgate_tower::key::jwt::{Algorithm, Keys, Verifier};

const KEYS: &str = include_str!("../jwt/keys.json");
const TOKENS: &str = include_str!("../jwt/tokens.json");
const PEMS: [&str; 4] = [
    include_str!("../jwt/rsa.pem"),
    include_str!("../jwt/p256.pem"),
    include_str!("../jwt/p384.pem"),
    include_str!("../jwt/ed25519.pem"),
];

const AUDIENCE: &str = "https://api.example.org";
const NOW: i64 = 1_700_000_300;
/// No token is valid beyond it, whatever the leeway.
const LEEWAY: i64 = 600;

const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;
const CLAIMS: &str = r#"{"aud":["https://api.example.org","other"],"iss":"https://login.example.org","sub":"alice","number":4711,"nbf":1700000000,"exp":1700000600,"realm_access":{"roles":["a"]}}"#;

const PIECES: [&str; 26] = [
    ".",
    "..",
    "=",
    "-",
    "_",
    "+",
    "/",
    "eyJ",
    "\"",
    "\\",
    "\\u0000",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "1e999",
    "-1",
    "99999999999999999999",
    "\"exp\":1,",
    "\"alg\":\"none\"",
    "HS512",
    "\u{e9}",
    "\"aud\":\"x\",",
];

/// Further members of a header or of claims.
const MEMBERS: [&str; 14] = [
    r#""crit":["exp"]"#,
    r#""kid":"main""#,
    r#""alg":"none""#,
    r#""exp":1"#,
    r#""exp":"soon""#,
    r#""exp":1700000100.5"#,
    r#""exp":null"#,
    r#""nbf":9999999999"#,
    r#""nbf":true"#,
    r#""aud":"other""#,
    r#""aud":[]"#,
    r#""aud":[["https://api.example.org"]]"#,
    r#""sub":7"#,
    r#""sub":["alice"]"#,
];

pub(crate) struct Tokens {
    verifier: Verifier,
    /// Tokens that others have signed.
    signed: Vec<String>,
    secret: Vec<u8>,
}

impl Tokens {
    pub(crate) fn new() -> Self {
        let secret: Vec<u8> = (0..64).collect();
        let keys = Keys::from_jwks(KEYS.as_bytes()).unwrap();
        let keys = keys.and(Keys::from_secret(Algorithm::Hs256, &secret).unwrap());
        let samples: Vec<Value> = serde_json::from_str(TOKENS).unwrap();
        let signed = samples.iter().map(|sample| sample["token"].as_str().unwrap().to_owned()).collect();
        Self { verifier: verifier(keys), signed, secret }
    }

    /// Tries one input. Returns whether it was valid.
    pub(crate) fn try_one(&self, random: &mut Rng) -> bool {
        match random.u32(..4) {
            0 => self.touched(random),
            1 | 2 => self.signed_after(random),
            _ => self.keys(random),
        }
    }

    /// A token that was changed after it was signed is invalid.
    fn touched(&self, random: &mut Rng) -> bool {
        let mut text = self.signed[random.usize(..self.signed.len())].clone().into_bytes();
        super::mutate(random, &mut text, &PIECES);
        let text = String::from_utf8_lossy(&text);
        let is_valid = self.verifier.verify(&text).is_ok();
        assert!(!is_valid || self.signed.iter().any(|signed| *signed == text), "{text}");
        is_valid
    }

    /// A correctly signed token is valid only if its content is.
    fn signed_after(&self, random: &mut Rng) -> bool {
        let (mut header, mut claims) = (HEADER.to_owned(), CLAIMS.to_owned());
        let which = if random.u32(..3) == 0 { &mut header } else { &mut claims };
        if random.bool() {
            // For a repeated name, the last member counts.
            let member = MEMBERS[random.usize(..MEMBERS.len())];
            which.insert_str(which.len() - 1, &format!(",{member}"));
        }
        let mut text = which.clone().into_bytes();
        super::mutate(random, &mut text, &PIECES);
        *which = String::from_utf8_lossy(&text).into_owned();
        let part = |text: &str| Base64UrlUnpadded::encode_string(text.as_bytes());
        let message = format!("{}.{}", part(&header), part(&claims));
        let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.secret), message.as_bytes());
        let token = format!("{message}.{}", Base64UrlUnpadded::encode_string(signature.as_ref()));
        let Ok(found) = self.verifier.verify(&token) else { return false };
        let header = match serde_json::from_str::<Value>(&header) {
            Ok(header) => header,
            // A number beyond all floats is valid JSON in an unknown member. This test cannot read it.
            Err(error) if error.to_string().starts_with("number out of range") => return true,
            Err(error) => panic!("{error}: {header}"),
        };
        let claims: Value = serde_json::from_str(&claims).unwrap();
        assert_eq!(header["alg"], "HS256", "{header}");
        assert!(header.get("crit").is_none_or(Value::is_null), "{header}");
        let audiences = claims["aud"].as_array().cloned().unwrap_or(vec![claims["aud"].clone()]);
        assert!(audiences.iter().any(|audience| audience == AUDIENCE), "{claims}");
        assert!(claims["exp"].as_f64().unwrap() > (NOW - LEEWAY) as f64, "{claims}");
        let not_before = claims.get("nbf").map(|nbf| nbf.as_f64().unwrap());
        assert!(not_before.is_none_or(|nbf| nbf < (NOW + LEEWAY) as f64), "{claims}");
        assert_eq!(found.text("sub"), claims["sub"].as_str(), "{claims}");
        true
    }

    /// Changed keys verify nothing that their owner has not signed, and invalid keys cannot be used.
    fn keys(&self, random: &mut Rng) -> bool {
        let mut text = match random.u32(..5) {
            0 => PEMS[random.usize(..PEMS.len())].as_bytes().to_vec(),
            _ => KEYS.as_bytes().to_vec(),
        };
        super::mutate(random, &mut text, &PIECES);
        let algorithms = [Algorithm::Rs256, Algorithm::Es256, Algorithm::Es384, Algorithm::Ed25519];
        let algorithm = algorithms[random.usize(..algorithms.len())];
        let pem_keys = std::str::from_utf8(&text).ok().and_then(|text| Keys::from_pem(algorithm, text).ok());
        let Some(keys) = pem_keys.or_else(|| Keys::from_jwks(&text).ok()) else { return false };
        let verifier = verifier(keys);
        let mut token = self.signed[random.usize(..self.signed.len())].clone();
        token.truncate(token.len() - 2);
        assert!(verifier.verify(&token).is_err(), "{token}");
        true
    }
}

fn verifier(keys: Keys) -> Verifier {
    let clock = ManualClock::at(Timestamp::from_unix_millis(NOW * 1_000));
    Verifier::new(keys, [AUDIENCE]).clock(clock)
}
