//! Authorization: the principals of `--tokens`.
//!
//! A principal is a caller with a known token, or with a client certificate that has a known name. The file holds the
//! digests of tokens, never the tokens. A request gets the scopes that both its listener and its principal grant, and
//! may use only the policies that the principal lists.

mod file;
mod live;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::ArcSwap;
use tollgate::Timestamp;

pub(crate) use self::file::{PrincipalFile, PrincipalLine, addition, line_of};
pub(crate) use self::live::LivePrincipals;
use crate::access::caller::Caller;
use crate::access::counted_series::CountedSeries;
use crate::access::peer::ConnectionPeer;
use crate::access::scope::{Scope, Scopes};
use crate::access::token::Digest;
pub use crate::access::token::NoRandomness;
pub(crate) use crate::access::token::generate;
use crate::live::record::Changes;

/// The live principals. Clones share them.
pub(crate) type SharedPrincipals = Arc<ArcSwap<Principals>>;

/// All known principals.
#[derive(Debug)]
pub(crate) struct Principals {
    /// How many times the principals were replaced.
    version: u64,
    entries: Box<[PrincipalEntry]>,
    /// The index of the principal for each digest.
    tokens: HashMap<Digest, usize>,
    certificates: HashMap<Box<str>, usize>,
}

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    name: Arc<str>,
    credential: Credential,
    scopes: Scopes,
    /// The policies that it may use, or `None` for all.
    policies: Option<Arc<BTreeSet<Box<str>>>>,
    expires: Option<Timestamp>,
}

/// The identification of a principal.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Credential {
    Token(Digest),
    /// A subject alternative name of a verified client certificate.
    Certificate(Box<str>),
}

#[derive(Debug)]
struct PrincipalEntry {
    principal: Principal,
    /// In Unix seconds, 0 if never used. A reload keeps it, by name.
    last_used: Arc<AtomicI64>,
    /// The series that it counts. A reload keeps them, by name.
    series: Arc<CountedSeries>,
}

/// The token of a request.
#[derive(Clone, Copy)]
pub(crate) enum PresentedCredential<'a> {
    Nothing,
    Token(&'a [u8]),
    /// A value that cannot be a token.
    Nonsense,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessRefusal {
    /// The request has neither a token nor a known certificate.
    Nobody,
    /// The `Authorization` header has no bearer token.
    NoBearer,
    /// The token is unknown.
    Unknown,
    Expired,
    /// The principal is known, but lacks the scope.
    Scope,
    /// The scope needs a principal, and the listener asks for none.
    NotAsked,
}

impl Principal {
    /// Returns whether a token identifies it.
    pub(crate) fn has_token(&self) -> bool {
        matches!(self.credential, Credential::Token(_))
    }
}

impl Principals {
    fn new(principals: Vec<Principal>, earlier: Option<&Self>) -> Self {
        let version = earlier.map_or(0, |earlier| earlier.version + 1);
        let earlier = earlier.into_iter().flat_map(|earlier| &earlier.entries);
        let kept: HashMap<&str, &PrincipalEntry> =
            earlier.map(|entry| (&*entry.principal.name, entry)).collect();
        let (mut tokens, mut certificates) = (HashMap::new(), HashMap::new());
        for (place, principal) in principals.iter().enumerate() {
            match &principal.credential {
                Credential::Token(digest) => drop(tokens.insert(*digest, place)),
                Credential::Certificate(name) => drop(certificates.insert(name.clone(), place)),
            }
        }
        let entries = principals.into_iter().map(|principal| {
            let (last_used, series) = match kept.get(&*principal.name) {
                Some(entry) => (Arc::clone(&entry.last_used), Arc::clone(&entry.series)),
                None => (Arc::default(), Arc::new(CountedSeries::new())),
            };
            PrincipalEntry { principal, last_used, series }
        });
        Self { version, entries: entries.collect(), tokens, certificates }
    }

    /// Authorizes a request that needs this scope.
    ///
    /// # Errors
    ///
    /// If the caller is unknown, or lacks the right.
    pub(crate) fn authorize(
        &self,
        scope: Scope,
        presented: PresentedCredential<'_>,
        peer: &ConnectionPeer,
        now: Timestamp,
    ) -> Result<Caller, AccessRefusal> {
        let PrincipalEntry { principal, last_used, series } = self.find(presented, peer)?;
        if principal.expires.is_some_and(|expires| expires <= now) {
            return Err(AccessRefusal::Expired);
        }
        let seconds = now.as_unix_millis().div_euclid(1000);
        // Relaxed: an independent figure. Written once a second at most, so that cores do not compete for it.
        if last_used.load(Ordering::Relaxed) != seconds {
            last_used.store(seconds, Ordering::Relaxed);
        }
        if !principal.scopes.has(scope) {
            return Err(AccessRefusal::Scope);
        }
        let caller = Caller::new(principal.policies.clone());
        Ok(match scope {
            Scope::Count => caller.counting(Arc::clone(series)),
            Scope::Change | Scope::Overrides => caller.named(Arc::clone(&principal.name)),
            Scope::Read => caller.seeing_keys(principal.scopes.has(Scope::Keys)),
            _ => caller,
        })
    }

    /// Finds the caller. A token overrides a certificate, and an unknown token is refused even with a known
    /// certificate. If a certificate has several names, the first known one counts.
    ///
    /// A token is looked up by its SHA-256. The time of a look-up reveals at most something about stored digests, and
    /// nobody can choose tokens by their digests. The table hashes digests with a random key, whole digests are
    /// compared in constant time, and no digest leads back to a token of 256 random bits.
    fn find(
        &self,
        presented: PresentedCredential<'_>,
        peer: &ConnectionPeer,
    ) -> Result<&PrincipalEntry, AccessRefusal> {
        let (place, otherwise) = match presented {
            PresentedCredential::Token(token) => {
                let look_up = || self.tokens.get(&Digest::of(token)).copied();
                (peer.last_token.place(self.version, token, look_up), AccessRefusal::Unknown)
            }
            PresentedCredential::Nonsense => (None, AccessRefusal::NoBearer),
            PresentedCredential::Nothing => {
                let place = peer.names.iter().find_map(|name| self.certificates.get(name));
                (place.copied(), AccessRefusal::Nobody)
            }
        };
        place.and_then(|place| self.entries.get(place)).ok_or(otherwise)
    }

    /// Returns whether any principal has a token.
    pub(crate) fn have_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Returns whether any principal has a certificate.
    pub(crate) fn have_certificates(&self) -> bool {
        !self.certificates.is_empty()
    }

    /// Returns each principal that was used since the process started, with the Unix second of its last use.
    pub(crate) fn last_used(&self) -> impl Iterator<Item = (&str, i64)> {
        let all = self.entries.iter();
        let all = all.map(|entry| (&*entry.principal.name, entry.last_used.load(Ordering::Relaxed)));
        all.filter(|(_, seconds)| *seconds != 0)
    }

    /// Describes the changes to these other principals; `None` if there are none.
    fn changes(&self, after: &[Principal]) -> Option<Changes> {
        let before: HashMap<&str, &Principal> =
            self.entries.iter().map(|entry| (&*entry.principal.name, &entry.principal)).collect();
        let names: BTreeSet<&str> = after.iter().map(|principal| &*principal.name).collect();
        let new = after.iter().filter_map(|principal| match before.get(&*principal.name) {
            None => Some(format!("`{}` is new", principal.name)),
            Some(before) => (*before != principal).then(|| format!("`{}` has changed", principal.name)),
        });
        let gone = self.entries.iter().map(|entry| &*entry.principal.name);
        let gone = gone.filter(|name| !names.contains(name)).map(|name| format!("`{name}` is gone"));
        Changes::of(new.chain(gone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `web` with a token, `job` and `other` with certificate names.
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

    fn ask(
        scope: Scope,
        presented: PresentedCredential<'_>,
        names: &[&str],
        now: i64,
    ) -> Result<(), AccessRefusal> {
        let names = names.iter().map(|name| (*name).into()).collect();
        let peer = ConnectionPeer { names, ..ConnectionPeer::default() };
        let now = Timestamp::from_unix_millis(now);
        principals().authorize(scope, presented, &peer, now).map(drop)
    }

    #[test]
    fn a_certificate_is_recognised_by_the_first_name_that_is_known() {
        let ask = |scope, names: &[&str]| ask(scope, PresentedCredential::Nothing, names, 0);
        assert_eq!(ask(Scope::Read, &[]), Err(AccessRefusal::Nobody));
        assert_eq!(
            ask(Scope::Read, &["spiffe://prod/jobs", "SPIFFE://prod/job"]),
            Err(AccessRefusal::Nobody)
        );
        assert_eq!(ask(Scope::Read, &["unknown", "spiffe://prod/job", "other.example"]), Ok(()));
        assert_eq!(ask(Scope::Change, &["spiffe://prod/job", "other.example"]), Err(AccessRefusal::Scope));
    }

    #[test]
    fn a_token_goes_before_a_certificate() {
        let job = &["spiffe://prod/job"];
        assert_eq!(ask(Scope::Check, PresentedCredential::Token(b"tg_web"), job, 0), Ok(()));
        assert_eq!(
            ask(Scope::Read, PresentedCredential::Token(b"tg_web"), job, 0),
            Err(AccessRefusal::Scope)
        );
        assert_eq!(ask(Scope::Read, PresentedCredential::Nonsense, job, 0), Err(AccessRefusal::NoBearer));
        for nobodys in [PresentedCredential::Token(b"tg_we"), PresentedCredential::Token(b"")] {
            assert_eq!(ask(Scope::Read, nobodys, job, 0), Err(AccessRefusal::Unknown));
        }
    }

    #[test]
    fn a_principal_expires_at_the_instant_that_it_names() {
        let web = PresentedCredential::Token(b"tg_web");
        assert_eq!(ask(Scope::Check, web, &[], 999), Ok(()));
        assert_eq!(ask(Scope::Check, web, &[], 1_000), Err(AccessRefusal::Expired));
        assert_eq!(
            ask(Scope::Read, PresentedCredential::Nothing, &["spiffe://prod/job"], 1_000),
            Err(AccessRefusal::Expired)
        );
    }
}
