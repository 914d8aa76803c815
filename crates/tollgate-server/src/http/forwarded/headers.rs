//! The client's own headers: `header.NAME`, for each that a policy names.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate_policy::{Attributes, Identity, Policy, PolicySet};

use super::request::DescribedParts;
use crate::answer::rejection::Rejection;
use crate::request::attributes;

/// The prefix of such attributes' names.
const PREFIX: &str = "header.";

/// The headers that policies use, found once for each version of the policies.
#[derive(Default)]
pub(in super::super) struct NamedHeaders(ArcSwap<NamedHeaderSet>);

/// Those of one version; of version 0, before any policies, none.
#[derive(Default)]
pub(super) struct NamedHeaderSet {
    version: u64,
    /// The attribute, and the header that it is.
    headers: Box<[(Box<str>, HeaderName)]>,
    /// Whether all attributes together are a key. A client that varies its path would then never be denied.
    is_keyless: bool,
}

impl NamedHeaders {
    pub(in super::super) fn new(live: &PolicySet) -> Self {
        Self(ArcSwap::from_pointee(NamedHeaderSet::new(live)))
    }

    /// Returns those of this version.
    pub(super) fn of(&self, set: &PolicySet) -> Arc<NamedHeaderSet> {
        let found = self.0.load_full();
        if found.version == set.version() {
            return found;
        }
        let made = Arc::new(NamedHeaderSet::new(set));
        // Requests that began under an older version do not replace what a newer one has.
        if found.version < set.version() {
            self.0.store(Arc::clone(&made));
        }
        made
    }
}

impl NamedHeaderSet {
    fn new(set: &PolicySet) -> Self {
        let names = set.policies().attributes();
        // A name that no header can have is one that no request has.
        let headers = names.into_iter().filter_map(|attribute| {
            let name = HeaderName::from_bytes(attribute.strip_prefix(PREFIX)?.as_bytes()).ok()?;
            Some((attribute.into(), name))
        });
        let is_keyless =
            set.policies().as_slice().iter().map(Policy::identity).any(|key| *key == Identity::Every);
        Self { version: set.version(), headers: headers.collect(), is_keyless }
    }

    /// Returns which parts of a request's description are used.
    pub(super) fn described_parts(&self) -> DescribedParts {
        if self.is_keyless { DescribedParts::Network } else { DescribedParts::Everything }
    }

    /// Adds those that the request has. Several lines of one header are a list.
    ///
    /// # Errors
    ///
    /// If a value is not UTF-8, or there are more lines than a list may have texts.
    pub(super) fn add_to<'a>(
        &'a self,
        attributes: &mut Attributes<'a>,
        headers: &'a HeaderMap,
    ) -> Result<(), Rejection> {
        for (attribute, name) in &self.headers {
            let bad = |detail: String| Rejection::bad_field(format!("headers.{name}"), detail);
            let lines = headers.get_all(name).iter().map(text).collect::<Option<Vec<&str>>>();
            let lines = lines.ok_or_else(|| bad("the header is not UTF-8".to_owned()))?;
            match lines[..] {
                [] => {}
                [line] => attributes.push(&**attribute, line),
                _ if lines.len() > attributes::MAX_TEXTS => {
                    return Err(bad(format!("more than {} lines of one header", attributes::MAX_TEXTS)));
                }
                _ => attributes.push(&**attribute, lines),
            }
        }
        Ok(())
    }
}

fn text(value: &HeaderValue) -> Option<&str> {
    std::str::from_utf8(value.as_bytes()).ok()
}
