//! Reads certificates: their expiry and their names (RFC 5280).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use der::asn1::AnyRef;
use der::{Reader, SliceReader, Tag, Tagged};
use rustls::pki_types::CertificateDer;
use tollgate::Timestamp;

/// The encoding of `id-ce-subjectAltName`, 2.5.29.17.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// Returns the first instant after the certificate's validity; `None` if it is not a certificate.
pub(super) fn expiry(certificate: &CertificateDer<'_>) -> Option<Timestamp> {
    let fields = fields(certificate).ok()?;
    // Follows the serial number, algorithm and issuer.
    let validity = fields.get(3)?;
    let [_, not_after] = parts(validity.value()).ok()?[..] else { return None };
    let last = match not_after.tag() {
        Tag::UtcTime => not_after.decode_as::<der::asn1::UtcTime>().ok()?.to_unix_duration(),
        Tag::GeneralizedTime => not_after.decode_as::<der::asn1::GeneralizedTime>().ok()?.to_unix_duration(),
        _ => return None,
    };
    Some(Timestamp::from_unix_millis(0) + last + Duration::from_secs(1))
}

/// Returns the subject alternative names that are hosts, URIs, addresses or e-mail addresses. A name that is not valid
/// for its kind is left out, so that it cannot be mistaken for another kind.
pub(crate) fn names(certificate: &CertificateDer<'_>) -> Vec<Box<str>> {
    let names = alternative_names(certificate).unwrap_or_default();
    names.into_iter().filter_map(name).collect()
}

/// Returns the form of this name in certificates, whatever its kind; `None` if no certificate can have it.
pub(crate) fn shown(name: &str) -> Option<Box<str>> {
    match name.parse() {
        Ok(address) => Some(of_address(address)),
        Err(_) => of_email(name).or_else(|| of_host(name)).or_else(|| of_uri(name)),
    }
}

/// Returns the fields of the certificate, without its version.
fn fields<'a>(certificate: &'a CertificateDer<'_>) -> der::Result<Vec<AnyRef<'a>>> {
    // The signed part; the signature follows it.
    let mut fields = parts(first(element(certificate)?.value())?.value())?;
    if fields.first().is_some_and(|first| context(*first) == Some(0)) {
        fields.remove(0);
    }
    Ok(fields)
}

fn alternative_names<'a>(certificate: &'a CertificateDer<'_>) -> der::Result<Vec<AnyRef<'a>>> {
    let fields = fields(certificate)?;
    let Some(extensions) = fields.iter().find(|field| context(**field) == Some(3)) else {
        return Ok(Vec::new());
    };
    for extension in parts(element(extensions.value())?.value())? {
        // Its kind, whether it is critical, and its value.
        let extension = parts(extension.value())?;
        let is_it = extension
            .first()
            .is_some_and(|kind| kind.tag() == Tag::ObjectIdentifier && kind.value() == SUBJECT_ALT_NAME);
        if let (true, Some(held)) = (is_it, extension.last()) {
            return parts(element(held.value())?.value());
        }
    }
    Ok(Vec::new())
}

fn name(general: AnyRef<'_>) -> Option<Box<str>> {
    let text = || std::str::from_utf8(general.value()).ok();
    match context(general)? {
        1 => of_email(text()?),
        2 => of_host(text()?),
        6 => of_uri(text()?),
        7 => {
            let address = match general.value() {
                &[a, b, c, d] => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
                bytes => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
            };
            Some(of_address(address))
        }
        _ => None,
    }
}

fn of_email(text: &str) -> Option<Box<str>> {
    (is_graphic(text) && text.contains('@') && !text.contains([':', '/'])).then(|| text.into())
}

fn of_host(text: &str) -> Option<Box<str>> {
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'*');
    let is_host = !text.is_empty() && text.bytes().all(is_of_host) && !is_address(text);
    is_host.then(|| text.to_ascii_lowercase().into())
}

fn of_uri(text: &str) -> Option<Box<str>> {
    (is_graphic(text) && text.contains(':') && !is_address(text)).then(|| text.into())
}

fn of_address(address: IpAddr) -> Box<str> {
    address.to_canonical().to_string().into()
}

fn is_graphic(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// Returns the number of a context-specific tag.
fn context(element: AnyRef<'_>) -> Option<u32> {
    match element.tag() {
        Tag::ContextSpecific { number, .. } => Some(number.value()),
        _ => None,
    }
}

fn first(bytes: &[u8]) -> der::Result<AnyRef<'_>> {
    SliceReader::new(bytes)?.decode()
}

/// Parses exactly one element.
fn element(bytes: &[u8]) -> der::Result<AnyRef<'_>> {
    let mut reader = SliceReader::new(bytes)?;
    let element = reader.decode()?;
    reader.finish()?;
    Ok(element)
}

/// Parses a sequence of elements.
fn parts(bytes: &[u8]) -> der::Result<Vec<AnyRef<'_>>> {
    let mut reader = SliceReader::new(bytes)?;
    let mut parts = Vec::new();
    while !reader.is_finished() {
        parts.push(reader.decode()?);
    }
    Ok(parts)
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
