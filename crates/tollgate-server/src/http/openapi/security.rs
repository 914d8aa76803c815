//! The authentication of callers, for OpenAPI.

use serde_json::{Map, Value, json};

use crate::access::listener::{Access, Listener};
use crate::access::scope::Scope;
use crate::tls::Security;

/// The name of the scheme for tokens.
const BEARER: &str = "bearer";

/// The name of the scheme for client certificates.
const CERTIFICATE: &str = "certificate";

/// Returns the schemes of these listeners, each with its description.
pub(super) fn schemes(listeners: &[Listener]) -> Map<String, Value> {
    let bearer = json!({
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `serve --tokens`; its principal must have the scope that an operation names",
    });
    let certificate = json!({
        "type": "mutualTLS",
        "description": "A certificate signed by an authority of `serve --tls-client-ca`. Where an operation names a \
         scope, one of the certificate's names must be that of a principal with this scope",
    });
    let is_asked = |scheme: &str| {
        // All operations with a scope share these requirements.
        let required = listeners.iter().flat_map(|listener| requirements_of(listener, Some(Scope::Check)));
        required.into_iter().any(|required| required.get(scheme).is_some())
    };
    let schemes = [(BEARER, bearer), (CERTIFICATE, certificate)];
    let schemes = schemes.into_iter().filter(|(scheme, _)| is_asked(scheme));
    schemes.map(|(name, scheme)| (name.to_owned(), scheme)).collect()
}

/// Returns the alternative credentials for an operation; `None` if it needs none.
pub(super) fn requirements(listeners: &[&Listener], scope: Option<Scope>) -> Option<Value> {
    let nothing = json!({});
    let mut all: Vec<Value> = Vec::new();
    for required in listeners.iter().flat_map(|listener| requirements_of(listener, scope)) {
        if !all.contains(&required) {
            all.push(required);
        }
    }
    all.sort_by_key(|required| *required != nothing);
    (all != [nothing]).then_some(Value::Array(all))
}

fn requirements_of(listener: &Listener, scope: Option<Scope>) -> Vec<Value> {
    let is_mutual = listener.security == Security::Mutual;
    match (scope.map(Scope::name), &listener.access) {
        (Some(scope), Access::Principals(principals)) => {
            let principals = principals.load();
            // Without tokens, all principals have certificates, even if no listener accepts any.
            let has_certificates = is_mutual && principals.have_certificates() || !principals.have_tokens();
            let by_certificate = has_certificates.then(|| json!({ CERTIFICATE: [scope] }));
            let by_token = principals.have_tokens().then(|| match is_mutual {
                // Every connection there needs a certificate, even one of no principal.
                true => json!({ CERTIFICATE: [], BEARER: [scope] }),
                false => json!({ BEARER: [scope] }),
            });
            by_certificate.into_iter().chain(by_token).collect()
        }
        _ if is_mutual => vec![json!({ CERTIFICATE: [] })],
        _ => vec![json!({})],
    }
}
