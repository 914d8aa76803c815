//! Who may do what: the principals of `--tokens`.
//!
//! A principal is whoever shows a token, or a client certificate with a name. The file holds the digests of tokens and
//! never a token itself. What is granted to a request is what its listener grants, of that what its principal's scopes
//! grant, and of the policies those that the principal names.

mod file;
mod last_token;
mod live;
mod token;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::ArcSwap;
use tollgate::Timestamp;

pub(crate) use self::file::{Line, PrincipalFile};
pub(crate) use self::last_token::LastToken;
pub(crate) use self::live::LivePrincipals;
use self::token::Digest;
pub use self::token::NoRandomness;
pub(crate) use self::token::generate;
use crate::caller::{Caller, Peer};
use crate::reload::in_short;
use crate::scope::{Scope, Scopes};

/// The principals that are live. Clones share them.
pub(crate) type SharedPrincipals = Arc<ArcSwap<Principals>>;

/// Everybody who is known.
#[derive(Debug)]
pub(crate) struct Principals {
    /// How often the principals were replaced before.
    version: u64,
    entries: Box<[Entry]>,
    /// The places of entries.
    tokens: HashMap<Digest, usize>,
    certificates: HashMap<Box<str>, usize>,
}

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    name: Box<str>,
    credential: Credential,
    scopes: Scopes,
    /// The policies that it may touch, if not all.
    policies: Option<Arc<BTreeSet<Box<str>>>>,
    expires: Option<Timestamp>,
}

/// What a principal is recognised by.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Credential {
    Token(Digest),
    /// A subject alternative name of a verified client certificate.
    Certificate(Box<str>),
}

#[derive(Debug)]
struct Entry {
    principal: Principal,
    /// In Unix seconds, 0 if never. Kept when the file is read again, by name.
    last_used: Arc<AtomicI64>,
}

/// The token of a request.
#[derive(Clone, Copy)]
pub(crate) enum Presented<'a> {
    Nothing,
    Token(&'a [u8]),
    /// Something that can be no token.
    Nonsense,
}

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unauthorized {
    /// It shows neither a token nor a certificate that is known.
    Nobody,
    /// Its `Authorization` is no bearer token.
    NoBearer,
    /// Its token is not known.
    Unknown,
    Expired,
    /// The principal is known and lacks the scope.
    Scope,
}

impl Principal {
    /// Whether it is recognised by a token.
    pub(crate) fn has_token(&self) -> bool {
        matches!(self.credential, Credential::Token(_))
    }
}

impl Principals {
    fn new(principals: Vec<Principal>, earlier: Option<&Self>) -> Self {
        let version = earlier.map_or(0, |earlier| earlier.version + 1);
        let earlier = earlier.into_iter().flat_map(|earlier| &earlier.entries);
        let last_used: HashMap<&str, &Arc<AtomicI64>> =
            earlier.map(|entry| (&*entry.principal.name, &entry.last_used)).collect();
        let (mut tokens, mut certificates) = (HashMap::new(), HashMap::new());
        for (place, principal) in principals.iter().enumerate() {
            match &principal.credential {
                Credential::Token(digest) => drop(tokens.insert(*digest, place)),
                Credential::Certificate(name) => drop(certificates.insert(name.clone(), place)),
            }
        }
        let entries = principals.into_iter().map(|principal| Entry {
            last_used: last_used.get(&*principal.name).map(|used| Arc::clone(used)).unwrap_or_default(),
            principal,
        });
        Self { version, entries: entries.collect(), tokens, certificates }
    }

    /// Lets a request in that needs this scope.
    ///
    /// # Errors
    ///
    /// If nobody who is known asks, or somebody who may not.
    pub(crate) fn authorize(
        &self,
        scope: Scope,
        presented: Presented<'_>,
        peer: &Peer,
        now: Timestamp,
    ) -> Result<Caller, Unauthorized> {
        let Entry { principal, last_used } = self.find(presented, peer)?;
        if principal.expires.is_some_and(|expires| expires <= now) {
            return Err(Unauthorized::Expired);
        }
        let seconds = now.as_unix_millis().div_euclid(1000);
        // Relaxed: a figure of its own. It is written once a second, so that cores do not fight for it.
        if last_used.load(Ordering::Relaxed) != seconds {
            last_used.store(seconds, Ordering::Relaxed);
        }
        if !principal.scopes.has(scope) {
            return Err(Unauthorized::Scope);
        }
        Ok(Caller::new(principal.policies.clone()))
    }

    /// Who asks. A token goes before a certificate, and one that is not known is nobody's, whatever certificate it comes
    /// with. Of several names in a certificate the first that is known counts.
    ///
    /// A token is looked up by its SHA-256. How long that takes tells at most something of digests that are stored, and
    /// nobody can choose tokens by their digests: the table hashes them with a random key, whole digests are compared
    /// in constant time, and a digest leads back to no token of 256 random bits.
    fn find(&self, presented: Presented<'_>, peer: &Peer) -> Result<&Entry, Unauthorized> {
        let (place, otherwise) = match presented {
            Presented::Token(token) => {
                let look_up = || self.tokens.get(&Digest::of(token)).copied();
                (peer.last_token.place(self.version, token, look_up), Unauthorized::Unknown)
            }
            Presented::Nonsense => (None, Unauthorized::NoBearer),
            Presented::Nothing => {
                let place = peer.names.iter().find_map(|name| self.certificates.get(name));
                (place.copied(), Unauthorized::Nobody)
            }
        };
        place.and_then(|place| self.entries.get(place)).ok_or(otherwise)
    }

    /// Whether a token can help whoever asks.
    pub(crate) fn have_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Whether a certificate can.
    pub(crate) fn have_certificates(&self) -> bool {
        !self.certificates.is_empty()
    }

    /// Each that was used since the process started, and when last, in Unix seconds.
    pub(crate) fn last_used(&self) -> impl Iterator<Item = (&str, i64)> {
        let all = self.entries.iter();
        let all = all.map(|entry| (&*entry.principal.name, entry.last_used.load(Ordering::Relaxed)));
        all.filter(|(_, seconds)| *seconds != 0)
    }

    /// What is different in these others; `None` if nothing is.
    fn changes(&self, after: &[Principal]) -> Option<String> {
        let before: HashMap<&str, &Principal> =
            self.entries.iter().map(|entry| (&*entry.principal.name, &entry.principal)).collect();
        let names: BTreeSet<&str> = after.iter().map(|principal| &*principal.name).collect();
        let new = after.iter().filter_map(|principal| match before.get(&*principal.name) {
            None => Some(format!("`{}` is new", principal.name)),
            Some(before) => (*before != principal).then(|| format!("`{}` has changed", principal.name)),
        });
        let gone = self.entries.iter().map(|entry| &*entry.principal.name);
        let gone = gone.filter(|name| !names.contains(name)).map(|name| format!("`{name}` is gone"));
        let text = in_short(new.chain(gone), "; ");
        (!text.is_empty()).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `web` by a token, `job` and `other` by names of certificates.
    fn principals() -> Principals {
        let principal = |name: &str, credential, scope| Principal {
            name: name.into(),
            credential,
            scopes: [scope].into_iter().collect(),
            policies: None,
            expires: Some(Timestamp::from_unix_millis(1_000)),
        };
        let certificate = |name: &str| Credential::Certificate(name.into());
        let all = vec![
            principal("web", Credential::Token(Digest::of(b"tg_web")), Scope::Check),
            principal("job", certificate("spiffe://prod/job"), Scope::Read),
            principal("other", certificate("other.example"), Scope::Change),
        ];
        Principals::new(all, None)
    }

    fn ask(scope: Scope, presented: Presented<'_>, names: &[&str], now: i64) -> Result<(), Unauthorized> {
        let names = names.iter().map(|name| (*name).into()).collect();
        let peer = Peer { names, ..Peer::default() };
        let now = Timestamp::from_unix_millis(now);
        principals().authorize(scope, presented, &peer, now).map(drop)
    }

    #[test]
    fn a_certificate_is_recognised_by_the_first_name_that_is_known() {
        let ask = |scope, names: &[&str]| ask(scope, Presented::Nothing, names, 0);
        assert_eq!(ask(Scope::Read, &[]), Err(Unauthorized::Nobody));
        assert_eq!(ask(Scope::Read, &["spiffe://prod/jobs", "SPIFFE://prod/job"]), Err(Unauthorized::Nobody));
        assert_eq!(ask(Scope::Read, &["unknown", "spiffe://prod/job", "other.example"]), Ok(()));
        assert_eq!(ask(Scope::Change, &["spiffe://prod/job", "other.example"]), Err(Unauthorized::Scope));
    }

    #[test]
    fn a_token_goes_before_a_certificate() {
        let job = &["spiffe://prod/job"];
        assert_eq!(ask(Scope::Check, Presented::Token(b"tg_web"), job, 0), Ok(()));
        assert_eq!(ask(Scope::Read, Presented::Token(b"tg_web"), job, 0), Err(Unauthorized::Scope));
        assert_eq!(ask(Scope::Read, Presented::Nonsense, job, 0), Err(Unauthorized::NoBearer));
        for nobodys in [Presented::Token(b"tg_we"), Presented::Token(b"")] {
            assert_eq!(ask(Scope::Read, nobodys, job, 0), Err(Unauthorized::Unknown));
        }
    }

    #[test]
    fn a_principal_expires_at_the_instant_that_it_names() {
        let web = Presented::Token(b"tg_web");
        assert_eq!(ask(Scope::Check, web, &[], 999), Ok(()));
        assert_eq!(ask(Scope::Check, web, &[], 1_000), Err(Unauthorized::Expired));
        assert_eq!(
            ask(Scope::Read, Presented::Nothing, &["spiffe://prod/job"], 1_000),
            Err(Unauthorized::Expired)
        );
    }
}
