//! Whether the addresses of a log may be those of proxies.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use tollgate_logs::{Field, LogFile, OtherAddresses, Request};
use tollgate_simulate::{code, percentage};

/// Addresses of a log's requests: all at first, then one in two, then one in four, and so on. So a long log takes
/// hardly more time than a short one. Which are taken is random, because logs have patterns, and the same each time.
#[derive(Debug)]
pub(super) struct SeenClients {
    addresses: Vec<IpAddr>,
    /// One request in this many is taken.
    step: u64,
    /// Requests until the next one is taken.
    left: u64,
    /// The state of a linear congruential generator.
    random: u64,
}

/// Addresses that are kept. A share of them is exact to less than a percent.
const MOST: usize = 1 << 14;

/// Fewer requests show nothing.
const LEAST: usize = 20;

/// The share of private addresses, and that of one address, from which it is probably a proxy's.
const PRIVATE: f64 = 0.95;
const ONE: f64 = 0.5;

impl Default for SeenClients {
    fn default() -> Self {
        Self { addresses: Vec::new(), step: 1, left: 1, random: 1 }
    }
}

impl SeenClients {
    /// Notes the client of a request.
    pub(super) fn note(&mut self, request: &Request<'_>) {
        self.left -= 1;
        if self.left > 0 {
            return;
        }
        self.left = 1 + self.below(self.step * 2 - 1);
        let Some(text) = request.text(Field::Ip).and_then(|text| std::str::from_utf8(text).ok()) else {
            return;
        };
        if let Ok(address) = text.parse::<IpAddr>() {
            self.push(address.to_canonical());
        }
    }

    fn push(&mut self, address: IpAddr) {
        if self.addresses.len() == MOST {
            let mut addresses = std::mem::take(&mut self.addresses);
            addresses.retain(|_| self.below(2) == 0);
            self.addresses = addresses;
            self.step *= 2;
        }
        self.addresses.push(address);
    }

    /// Returns a number below the bound.
    fn below(&mut self, bound: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % bound
    }

    /// Returns a note if most requests may come from a proxy. It names no address.
    pub(super) fn note_of_proxy(&self, is_walked: bool) -> Option<String> {
        let all = self.addresses.len();
        if all < LEAST {
            return None;
        }
        let about = if self.step > 1 { "About " } else { "" };
        let share =
            |count: usize| format!("{about}{}", percentage((count as f64 / all as f64 * 1e3).floor() / 1e3));
        let private = self.addresses.iter().filter(|address| is_private(address)).count();
        let mut counts: HashMap<&IpAddr, usize> = HashMap::new();
        self.addresses.iter().for_each(|address| *counts.entry(address).or_default() += 1);
        let greatest = counts.values().max().copied().unwrap_or(0);
        let is_private = private as f64 >= PRIVATE * all as f64;
        let is_one = counts.len() > 1 && greatest as f64 > ONE * all as f64;
        let what = match (is_private, is_one) {
            (true, _) => format!("{} of the requests come from private addresses", share(private)),
            (false, true) => format!("{} of the requests come from one address", share(greatest)),
            (false, false) => return None,
        };
        let way = match is_walked {
            false => format!(
                "If the log has X-Forwarded-For, {} finds the clients behind it.",
                code("--attr ip=xff:NETWORKS")
            ),
            true => format!("Perhaps its network is missing in {}.", code("--attr ip=xff:NETWORKS")),
        };
        Some(format!("{what}, perhaps from a proxy: then limits by address count the proxy. {way}"))
    }
}

/// Whether the answer is about clients with addresses: decisions depend on them, or nothing but clients is shown.
pub(super) fn needs_client(decisive: &BTreeSet<String>, others: &BTreeSet<String>) -> bool {
    let has_ip = |names: &BTreeSet<String>| names.contains(Field::Ip.name());
    has_ip(decisive) || (decisive.is_empty() && has_ip(others))
}

/// Returns a note that the clients in a log may be proxies, because another field has other addresses.
pub(super) fn note_of_others(file: &LogFile, others: &OtherAddresses) -> String {
    let share = (others.lines as f64 / others.requests.max(1) as f64 * 100.0).floor() / 100.0;
    format!(
        "{}: {} of the first lines have another address in {}. If {} is your proxy, use {}.",
        code(&file.name),
        percentage(share),
        others.place,
        code(&others.client),
        code(&others.flags)
    )
}

/// Whether clients of the internet cannot have this address: it is of a private network, of a carrier's (RFC 6598),
/// of a link, or of the machine itself.
fn is_private(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            v4.is_private() || v4.is_loopback() || v4.is_link_local() || (first == 100 && second & 0xc0 == 64)
        }
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(addresses: impl Iterator<Item = String>) -> Option<String> {
        let mut seen = SeenClients::default();
        addresses.for_each(|address| seen.push(address.parse().unwrap()));
        seen.note_of_proxy(false)
    }

    #[test]
    fn private_addresses_and_a_busy_one_are_noted() {
        let private = [
            "10.1.2.3",
            "172.31.0.1",
            "192.168.0.1",
            "127.0.0.1",
            "100.64.0.1",
            "100.127.9.9",
            "::1",
            "fd00::1",
        ];
        let said = note(private.iter().cycle().take(100).map(|address| (*address).to_owned())).unwrap();
        assert!(said.starts_with("100 % of the requests come from private addresses, perhaps"), "{said}");
        let public = ["172.32.0.1", "100.128.0.1", "100.63.0.1", "192.0.2.1", "2001:db8::1"];
        assert_eq!(note(public.iter().cycle().take(100).map(|address| (*address).to_owned())), None);
        let mixed = |count: usize| {
            (0..100).map(move |number| format!("{}.0.0.{number}", if number < count { 10 } else { 9 }))
        };
        assert!(note(mixed(95)).is_some() && note(mixed(94)).is_none());
        let one = |count: usize| {
            (0..100).map(move |number| format!("9.0.0.{}", if number < count { 200 } else { number }))
        };
        let said = note(one(51)).unwrap();
        assert!(said.starts_with("51 % of the requests come from one address, perhaps"), "{said}");
        assert_eq!(note(one(50)), None);
        // One client alone is no proxy.
        assert_eq!(note(one(100)), None);
        assert_eq!(note(mixed(19).take(19)), None);
    }

    #[test]
    fn shares_of_a_long_log_are_those_of_all_its_requests() {
        let mut seen = SeenClients::default();
        // In pairs, of which a regular sample would see one half.
        for number in 0..(1_u32 << 20) {
            seen.left -= 1;
            if seen.left == 0 {
                seen.left = 1 + seen.below(seen.step * 2 - 1);
                let address = if number % 2 == 0 { [9, 0, 0, 1] } else { [9, 0, 1, number as u8] };
                seen.push(IpAddr::from(address));
            }
        }
        assert!((7_000..=MOST).contains(&seen.addresses.len()), "{}", seen.addresses.len());
        let busy = seen.addresses.iter().filter(|address| address.to_string() == "9.0.0.1").count();
        let share = busy as f64 / seen.addresses.len() as f64;
        assert!((0.48..0.52).contains(&share), "{share}");
        seen.addresses.fill(IpAddr::from([10, 0, 0, 1]));
        let said = seen.note_of_proxy(true).unwrap();
        assert!(said.starts_with("About 100 % of the requests come from private"), "{said}");
        assert!(said.ends_with("Perhaps its network is missing in `--attr ip=xff:NETWORKS`."), "{said}");
    }
}
