//! The address of a node as proxies write it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Parses an address in any common spelling: with or without a port, IPv6 in brackets or bare, with a zone. Port and
/// zone are dropped: the port differs between connections, and the zone only means something to the proxy.
///
/// `None` for everything else: `unknown`, obfuscated identifiers (`_hidden`), paths of sockets, garbage. So are
/// octets with leading zeros, because some read them as octal. In `2001:db8::1:8080` the last group is no port.
pub(super) fn address(node: &[u8]) -> Option<IpAddr> {
    let node = std::str::from_utf8(node).ok()?.trim_matches([' ', '\t']);
    if let Some(bracketed) = node.strip_prefix('[') {
        let (address, port) = bracketed.split_once(']')?;
        return (port.is_empty() || is_port(port)).then_some(ipv6(address)?.into());
    }
    if let Some(address) = ipv6(node) {
        return Some(address.into());
    }
    let (address, port) = node.find(':').map_or((node, None), |at| (&node[..at], Some(&node[at..])));
    let address: Ipv4Addr = address.parse().ok()?;
    port.is_none_or(is_port).then_some(address.into())
}

fn ipv6(text: &str) -> Option<Ipv6Addr> {
    match text.split_once('%') {
        None => text.parse().ok(),
        Some((_, "")) => None,
        Some((address, _zone)) => address.parse().ok(),
    }
}

/// `:` and the port: a number, or in the terms of RFC 7239 an obfuscated one, such as `_p`.
fn is_port(text: &str) -> bool {
    let Some(port) = text.strip_prefix(':') else { return false };
    let is_number = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_obfuscated = port.strip_prefix('_').is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    });
    is_number || is_obfuscated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_many_spellings() {
        let cases = [
            ("192.0.2.7", &["192.0.2.7:80", "192.0.2.7:_p", " 192.0.2.7\t", "192.0.2.7:65535"][..]),
            (
                "2001:db8::1",
                &[
                    "[2001:db8::1]",
                    "[2001:db8::1]:4711",
                    "[2001:db8::1]:_p-1",
                    "2001:DB8::1",
                    "2001:0db8:0:0:0:0:0:0001",
                    "2001:db8::0.0.0.1",
                    "[2001:db8::1%25eth0]:80",
                    "2001:db8::1%eth0",
                ][..],
            ),
            ("::ffff:192.0.2.7", &["[::ffff:c000:207]:80", "::FFFF:192.0.2.7"][..]),
            ("2001:db8::1:8080", &["[2001:db8::1:8080]"][..]),
        ];
        for (plain, spellings) in cases {
            let expected: IpAddr = plain.parse().unwrap();
            for spelling in spellings.iter().chain([&plain]) {
                assert_eq!(address(spelling.as_bytes()), Some(expected), "{spelling}");
            }
        }
    }

    #[test]
    fn returns_none_for_anything_but_an_address() {
        let nodes = [
            "",
            " ",
            "unknown",
            "_hidden",
            "_SEVKISEK",
            "localhost",
            "unix:",
            "unix:/run/proxy.sock",
            "192.0.2",
            "192.0.2.7.1",
            "192.0.2.256",
            "192.0.2.07",
            "0xc0000207",
            "3221225991",
            "192.0.2.7:",
            "192.0.2.7:x",
            "192.0.2.7:123456",
            "192.0.2.7:+80",
            "192.0.2.7:80:80",
            "192.0.2.7:_",
            "192.0.2.7:_a b",
            "192.0.2.7%eth0",
            "192.0.2.7/32",
            "192.0.2.7,192.0.2.8",
            "192.0.2.7 192.0.2.8",
            "[192.0.2.7]",
            "[192.0.2.7]:80",
            "[",
            "[]",
            "[::1",
            "::1]",
            "[::1]80",
            "[::1]:",
            "[ ::1]",
            "[::1%]",
            "::1%",
            "[[::1]]",
            ":::1",
            "1::2::3",
            "2001:db8::g",
            "\"::1\"",
            "'192.0.2.7'",
            "١٩٢.0.2.7",
            "192.0.2.7\0",
        ];
        for node in nodes {
            assert_eq!(address(node.as_bytes()), None, "{node:?}");
        }
        assert_eq!(address(b"192.0.2.7\xff"), None);
    }
}
