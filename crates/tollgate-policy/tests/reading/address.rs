//! Addresses and networks, bit by bit.

/// An address: 32 or 128 bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address(Vec<bool>);

impl Address {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.contains(':') {
            false => Some(Self(bits(&bytes_of_ipv4(text)?))),
            true => Some(Self(bits(&bytes_of_ipv6(text)?))),
        }
    }

    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(bits(bytes))
    }

    /// Returns the IPv4 address of a mapped one.
    pub(crate) fn unmapped(self) -> Self {
        self.behind([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
    }

    /// Returns the IPv4 address behind a translator.
    pub(crate) fn untranslated(self) -> Self {
        self.behind([0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0])
    }

    fn behind(self, prefix: [u8; 12]) -> Self {
        if self.0.len() == 128 && self.0.starts_with(&bits(&prefix)) {
            Self(self.0[96..].to_vec())
        } else {
            self
        }
    }

    /// Returns the first bits, by which clients are grouped: this many of IPv4, and this many of IPv6.
    pub(crate) fn client(&self, ipv4: usize, ipv6: usize) -> String {
        let (family, length) = if self.0.len() == 32 { (4, ipv4) } else { (6, ipv6) };
        let bits = self.0.iter().take(length).map(|bit| if *bit { '1' } else { '0' });
        format!("IPv{family} {}", bits.collect::<String>())
    }

    /// Returns the usual spelling; for IPv6, that of RFC 5952.
    pub(crate) fn spelled(&self) -> String {
        let bytes = bytes(&self.0);
        if bytes.len() == 4 {
            return bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(".");
        }
        let groups: Vec<u16> =
            bytes.chunks(2).map(|pair| u16::from(pair[0]) << 8 | u16::from(pair[1])).collect();
        let written =
            |groups: &[u16]| groups.iter().map(|it| format!("{it:x}")).collect::<Vec<_>>().join(":");
        // The longest run of at least two zeros; the first one if there are several.
        for length in (2..=8).rev() {
            for start in 0..=8 - length {
                if groups[start..start + length].iter().all(|group| *group == 0) {
                    return format!("{}::{}", written(&groups[..start]), written(&groups[start + length..]));
                }
            }
        }
        written(&groups)
    }
}

/// Whether a written address is in a written network.
pub(crate) fn is_within(network: &str, address: &str) -> bool {
    let Some(address) = Address::parse(address).map(Address::unmapped) else { return false };
    let (first, length) = match network.split_once('/') {
        Some((first, length)) => (first, length.parse().expect("a length")),
        None => (network, 128),
    };
    let first = Address::parse(first).expect("an address");
    let behind = first.0.len() - first.clone().unmapped().0.len();
    let first = first.unmapped().0;
    let length = usize::min(length - behind.min(length), first.len());
    address.0.len() == first.len() && address.0[..length] == first[..length]
}

fn bytes_of_ipv4(text: &str) -> Option<Vec<u8>> {
    let parts: Vec<&str> = text.split('.').collect();
    let byte = |part: &&str| {
        let is_number = !part.is_empty() && part.chars().all(|digit| digit.is_ascii_digit());
        let is_short = *part == "0" || !part.starts_with('0');
        (is_number && is_short && part.len() <= 3).then(|| part.parse::<u8>().ok()).flatten()
    };
    if parts.len() == 4 { parts.iter().map(byte).collect() } else { None }
}

fn bytes_of_ipv6(text: &str) -> Option<Vec<u8>> {
    let Some((before, after)) = text.split_once("::") else {
        let bytes = groups(text)?;
        return (bytes.len() == 16).then_some(bytes);
    };
    // Only the end of an address may be written as IPv4.
    if before.contains('.') {
        return None;
    }
    let part = |text: &str| if text.is_empty() { Some(Vec::new()) } else { groups(text) };
    let (before, after) = (part(before)?, part(after)?);
    let zeros = 16_usize.checked_sub(before.len() + after.len()).filter(|zeros| *zeros >= 2)?;
    Some([before, vec![0; zeros], after].concat())
}

/// Parses groups of hexadecimal digits. The last two may be written as an IPv4 address.
fn groups(text: &str) -> Option<Vec<u8>> {
    let groups: Vec<&str> = text.split(':').collect();
    let mut bytes = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        if number + 1 == groups.len() && group.contains('.') {
            bytes.extend(bytes_of_ipv4(group)?);
            continue;
        }
        if group.is_empty() || group.len() > 4 || !group.chars().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let group = u16::from_str_radix(group, 16).ok()?;
        bytes.extend(group.to_be_bytes());
    }
    Some(bytes)
}

fn bits(bytes: &[u8]) -> Vec<bool> {
    bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect()
}

fn bytes(bits: &[bool]) -> Vec<u8> {
    bits.chunks(8).map(|byte| byte.iter().fold(0, |all, bit| all << 1 | u8::from(*bit))).collect()
}
