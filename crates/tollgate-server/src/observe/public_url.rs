//! The address of the live page, for links in log lines.

use std::str::FromStr;

use http::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The URL under which operators reach the admin listener, such as `https://ops.example/tollgate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl(Box<str>);

/// What the page writes into its own addresses as it is.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

impl PublicUrl {
    /// Returns the address of the page's view of a policy.
    pub(crate) fn policy(&self, name: &str) -> String {
        format!("{}/ui/#/policy/{}", self.0, utf8_percent_encode(name, KEPT))
    }

    /// Returns the address of the page's view of the store.
    pub(crate) fn store(&self) -> String {
        format!("{}/ui/#/store", self.0)
    }
}

impl FromStr for PublicUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected http://HOST or https://HOST, with a port and a path if needed, such as \
                                https://ops.example/tollgate";
        let uri: Uri = text.parse().map_err(|_| EXPECTED)?;
        let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
        let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
        // A name or password in front of the host would be in every log line.
        if !is_web || authority.is_empty() || authority.contains('@') {
            return Err(EXPECTED);
        }
        if uri.query().is_some() || text.contains('#') {
            return Err("expected an address without `?` and `#`: the view is added to it");
        }
        Ok(Self(text.trim_end_matches('/').into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leads_to_a_view_below_any_path() {
        let url: PublicUrl = "https://ops.example/tollgate/".parse().unwrap();
        assert_eq!(url.policy("search/a b"), "https://ops.example/tollgate/ui/#/policy/search%2Fa%20b");
        assert_eq!(url.store(), "https://ops.example/tollgate/ui/#/store");
        let root: PublicUrl = "http://10.0.0.1:8090".parse().unwrap();
        assert_eq!(root.policy("search-2"), "http://10.0.0.1:8090/ui/#/policy/search-2");
    }

    #[test]
    fn is_an_address_of_a_page_without_secrets() {
        for text in [
            "",
            "ops.example",
            "/tollgate",
            "ftp://ops.example",
            "https://",
            "https://user:secret@ops.example",
            "https://ops.example/?a=b",
            "https://ops.example/#/policy",
            "https://ops.example/a b",
        ] {
            assert!(text.parse::<PublicUrl>().is_err(), "{text}");
        }
    }
}
