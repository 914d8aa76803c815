//! Reads certificates: their expiry and their names (RFC 5280).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use tollgate::Timestamp;
use x509_cert::Certificate;
use x509_cert::der::asn1::AnyRef;
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::{self, Decode, Tag, Tagged};
use x509_cert::ext::pkix::SubjectAltName;

/// Returns the first instant after the certificate's validity; `None` if it is not a certificate.
pub(super) fn expiry(certificate: &CertificateDer<'_>) -> Option<Timestamp> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let last = certificate.tbs_certificate().validity().not_after.to_unix_duration();
    Some(Timestamp::from_unix_millis(0) + last + Duration::from_secs(1))
}

/// Returns the subject alternative names that are hosts, URIs, addresses or e-mail addresses. A name that is not valid
/// for its kind is left out, so that it cannot be mistaken for another kind.
pub(crate) fn names(certificate: &CertificateDer<'_>) -> Vec<Box<str>> {
    alternative_names(certificate).unwrap_or_default()
}

/// Returns the form of this name in certificates, whatever its kind; `None` if no certificate can have it.
pub(crate) fn shown(name: &str) -> Option<Box<str>> {
    match name.parse() {
        Ok(address) => Some(shown_address(address)),
        Err(_) => shown_email(name).or_else(|| shown_host(name)).or_else(|| shown_uri(name)),
    }
}

fn alternative_names(certificate: &CertificateDer<'_>) -> der::Result<Vec<Box<str>>> {
    let certificate = Certificate::from_der(certificate)?;
    let mut extensions = certificate.tbs_certificate().extensions().into_iter().flatten();
    let Some(extension) = extensions.find(|extension| extension.extn_id == SubjectAltName::OID) else {
        return Ok(Vec::new());
    };
    // Not read as `SubjectAltName`, which refuses all names if one of them is of a kind that it does not know.
    let names = Vec::<AnyRef<'_>>::from_der(extension.extn_value.as_bytes())?;
    Ok(names.into_iter().filter_map(shown_general_name).collect())
}

fn shown_general_name(general: AnyRef<'_>) -> Option<Box<str>> {
    let text = || std::str::from_utf8(general.value()).ok();
    match number(general)? {
        1 => shown_email(text()?),
        2 => shown_host(text()?),
        6 => shown_uri(text()?),
        7 => {
            let address = match general.value() {
                &[a, b, c, d] => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
                bytes => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
            };
            Some(shown_address(address))
        }
        _ => None,
    }
}

fn shown_email(text: &str) -> Option<Box<str>> {
    (is_graphic(text) && text.contains('@') && !text.contains([':', '/'])).then(|| text.into())
}

fn shown_host(text: &str) -> Option<Box<str>> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'*');
    let is_host = !text.is_empty() && text.bytes().all(is_allowed) && !is_address(text);
    is_host.then(|| text.to_ascii_lowercase().into())
}

fn shown_uri(text: &str) -> Option<Box<str>> {
    (is_graphic(text) && text.contains(':') && !is_address(text)).then(|| text.into())
}

fn shown_address(address: IpAddr) -> Box<str> {
    address.to_canonical().to_string().into()
}

fn is_graphic(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// Returns the number of a context-specific tag.
fn number(element: AnyRef<'_>) -> Option<u32> {
    match element.tag() {
        Tag::ContextSpecific { number, .. } => Some(number.value()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, CustomExtension, KeyPair, SanType, date_time_ymd};

    use super::*;

    fn certificate(change: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
        let mut params = CertificateParams::new([]).unwrap();
        change(&mut params);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn names_of_every_kind_are_read() {
        let certificate = certificate(|params| {
            params.subject_alt_names = vec![
                SanType::DnsName("Web.Example".try_into().unwrap()),
                SanType::URI("spiffe://prod/web".try_into().unwrap()),
                SanType::IpAddress("192.0.2.1".parse().unwrap()),
                SanType::IpAddress("2001:db8::1".parse().unwrap()),
                SanType::Rfc822Name("alice@example.com".try_into().unwrap()),
            ];
        });
        let expected = ["web.example", "spiffe://prod/web", "192.0.2.1", "2001:db8::1", "alice@example.com"];
        assert_eq!(names(&certificate).iter().map(|name| &**name).collect::<Vec<_>>(), expected);
    }

    /// An authority that may sign any host must not be able to grant a `spiffe://` identity or an address.
    #[test]
    fn a_name_of_one_kind_is_never_taken_for_another() {
        let certificate = certificate(|params| {
            params.subject_alt_names = vec![
                SanType::DnsName("spiffe://prod/web".try_into().unwrap()),
                SanType::DnsName("192.0.2.1".try_into().unwrap()),
                SanType::DnsName("a b".try_into().unwrap()),
                SanType::URI("web.example".try_into().unwrap()),
                SanType::URI("fe80::1".try_into().unwrap()),
                SanType::Rfc822Name("mailto:alice@example.com".try_into().unwrap()),
                SanType::Rfc822Name("web.example".try_into().unwrap()),
            ];
        });
        assert!(names(&certificate).is_empty());
    }

    #[test]
    fn a_name_is_shown_as_certificates_have_it() {
        for (name, expected) in [
            ("Web.Example", Some("web.example")),
            ("*.example", Some("*.example")),
            ("spiffe://prod/Web", Some("spiffe://prod/Web")),
            ("::ffff:192.0.2.1", Some("192.0.2.1")),
            ("2001:DB8::1", Some("2001:db8::1")),
            ("Alice@example.com", Some("Alice@example.com")),
            ("", None),
            ("a b", None),
            ("CN=web", None),
            ("web.example/", None),
            ("spiffe://prod/a b", None),
        ] {
            assert_eq!(shown(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn a_certificate_without_names_has_none() {
        assert!(names(&certificate(|_| {})).is_empty());
        let other = certificate(|params| {
            params.custom_extensions = vec![CustomExtension::from_oid_content(&[1, 2, 3], vec![4, 1, 0])];
        });
        assert!(names(&other).is_empty());
        assert!(names(&CertificateDer::from(b"nonsense".to_vec())).is_empty());
    }

    /// Years from 2050 are written in another form.
    #[test]
    fn the_expiry_is_read_in_both_forms() {
        let expiry = |year| {
            let certificate = certificate(|params| params.not_after = date_time_ymd(year, 1, 1));
            expiry(&certificate).unwrap().as_unix_millis()
        };
        assert_eq!(expiry(2030), 1_893_456_001_000);
        assert_eq!(expiry(2060), 2_840_140_801_000);
        assert_eq!(super::expiry(&CertificateDer::from(b"nonsense".to_vec())), None);
    }
}
