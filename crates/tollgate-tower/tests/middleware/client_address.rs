//! The address that a request is counted for behind proxies, whatever its headers claim.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fastrand::Rng;
use http::{HeaderName, HeaderValue, Request};
use tollgate::Key;
use tollgate_testkit::block_on;
use tollgate_tower::Head;
use tollgate_tower::key::{
    ClientAddress, ForwardedHeader, Grouping, Identity, KeyExtractor, Peer, TrustedProxies,
};

const PROXIES: [&str; 3] = ["10.0.0.0/24", "2001:db8:ffff::/48", "192.0.2.53"];

fn behind_proxies(header: ForwardedHeader) -> ClientAddress {
    ClientAddress::behind(TrustedProxies::parse(PROXIES).unwrap(), header)
}

fn request(peer: &str, header: ForwardedHeader, lines: &[impl AsRef<[u8]>]) -> Request<()> {
    let mut request = Request::new(());
    let peer: IpAddr = peer.parse().unwrap();
    request.extensions_mut().insert(Peer((peer, 49152).into()));
    for line in lines {
        request.headers_mut().append(header.name(), HeaderValue::from_bytes(line.as_ref()).unwrap());
    }
    request
}

fn key(by: &ClientAddress, request: &Request<()>) -> Key<'static> {
    match block_on(by.extract(Head::from(request)).into_future()).unwrap() {
        Identity::Known(key) => key.into_owned(),
        Identity::Missing(missing) => panic!("{missing} is missing"),
    }
}

#[test]
fn the_client_is_the_rightmost_hop_that_is_no_trusted_proxy() {
    // The address of the connection, the header, and the counted address.
    let cases: &[(&str, &[&str], &str)] = &[
        // A client that is not a proxy is counted by its own address, whatever it sends.
        ("192.0.2.7", &[], "192.0.2.7"),
        ("192.0.2.7", &["198.51.100.1"], "192.0.2.7"),
        ("192.0.2.7", &["10.0.0.1, 10.0.0.2"], "192.0.2.7"),
        ("10.0.1.1", &["198.51.100.1"], "10.0.1.1"),
        ("192.0.2.54", &["198.51.100.1"], "192.0.2.54"),
        ("::ffff:192.0.2.7", &["198.51.100.1"], "192.0.2.7"),
        ("64:ff9b::192.0.2.7", &[], "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", &[], "2001:db8:1:2::"),
        // Behind one proxy, the address that this proxy has appended.
        ("10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
        ("192.0.2.53", &["198.51.100.1"], "198.51.100.1"),
        ("::ffff:10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", &["203.0.113.66, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", &["203.0.113.66", "198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", &["10.0.0.9, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", &["garbage, \", unknown, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", &["198.51.100.1:443"], "198.51.100.1"),
        ("10.0.0.1", &["::ffff:198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", &["64:ff9b::c633:6401"], "198.51.100.1"),
        ("10.0.0.1", &["[2001:db8:1:2::9]:443"], "2001:db8:1:2::"),
        ("10.0.0.1", &["2001:db8:1:2::9%eth0"], "2001:db8:1:2::"),
        ("2001:db8:ffff::1", &["198.51.100.1"], "198.51.100.1"),
        // Behind several, the address that the first of them has appended.
        ("10.0.0.1", &["203.0.113.66, 198.51.100.1, 10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", &["198.51.100.1, 2001:db8:ffff::7", "::ffff:10.0.0.3, 192.0.2.53:80"], "198.51.100.1"),
        // Of proxies that are not trusted, the nearest is the client.
        ("10.0.0.1", &["198.51.100.1, 10.0.1.2"], "10.0.1.2"),
        // Without any header, the proxy itself.
        ("10.0.0.1", &[], "10.0.0.1"),
        ("10.0.0.1", &["unknown"], "10.0.0.1"),
        ("10.0.0.1", &["198.51.100.1, unknown"], "10.0.0.1"),
        ("10.0.0.1", &["198.51.100.1, _hidden, 10.0.0.2"], "10.0.0.2"),
        // Whatever is empty before the client's own address is the client's.
        ("10.0.0.1", &["", ",,198.51.100.1"], "198.51.100.1"),
        ("192.0.2.7", &[""], "192.0.2.7"),
        ("10.0.0.1", &["198.51.100.1, 198.51.100.999"], "10.0.0.1"),
        ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
    ];
    for (peer, lines, client) in cases {
        let client: IpAddr = client.parse().unwrap();
        let header = ForwardedHeader::XForwardedFor;
        let found = key(&behind_proxies(header), &request(peer, header, lines));
        assert_eq!(found, Key::from(client), "{lines:?} from {peer} is {client}");

        // The same with the other header, which quotes an address of IPv6 or with a port.
        let header = ForwardedHeader::Forwarded;
        let element = |node: &str| match node.trim() {
            "" => String::new(),
            node if node.contains([':', '"']) => format!("for=\"{}\"", node.replace('"', "\\\"")),
            node => format!("proto=https;for={node}"),
        };
        let lines: Vec<String> =
            lines.iter().map(|line| line.split(',').map(element).collect::<Vec<_>>().join(", ")).collect();
        let found = key(&behind_proxies(header), &request(peer, header, &lines));
        assert_eq!(found, Key::from(client), "{lines:?} from {peer} is {client}");
    }
}

/// For a load balancer whose address changes.
#[test]
fn believes_the_nearest_proxies_at_any_address() {
    let header = ForwardedHeader::XForwardedFor;
    // The number of proxies, the header, and the counted address.
    let cases: &[(usize, &[&str], &str)] = &[
        (0, &["198.51.100.1"], "192.0.2.7"),
        (1, &["198.51.100.1"], "198.51.100.1"),
        (1, &["203.0.113.66, 198.51.100.1"], "198.51.100.1"),
        (1, &["203.0.113.66", "198.51.100.1"], "198.51.100.1"),
        (2, &["203.0.113.66, 198.51.100.1, 10.9.9.9"], "198.51.100.1"),
        // The request skipped one of the proxies, so there are fewer addresses.
        (2, &["198.51.100.1"], "198.51.100.1"),
        (1, &[], "192.0.2.7"),
        (2, &["198.51.100.1, unknown"], "192.0.2.7"),
    ];
    for (count, lines, client) in cases {
        let client: IpAddr = client.parse().unwrap();
        let by = ClientAddress::behind(TrustedProxies::nearest(*count), header);
        let found = key(&by, &request("192.0.2.7", header, lines));
        assert_eq!(found, Key::from(client), "{lines:?} behind {count}");
    }
}

#[test]
fn a_header_of_its_own_names_the_client() {
    let name = HeaderName::from_static("cf-connecting-ip");
    let by = ClientAddress::named_by(TrustedProxies::parse(PROXIES).unwrap(), name.clone());
    // The address of the connection, the header, and the counted address.
    let cases: &[(&str, &[&str], &str)] = &[
        ("10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", &[" [2001:db8:1:2::9]:443 "], "2001:db8:1:2::"),
        ("::ffff:10.0.0.1", &["::ffff:198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", &["10.0.0.2"], "10.0.0.2"),
        // A client that is not a proxy is counted by its own address.
        ("192.0.2.7", &["198.51.100.1"], "192.0.2.7"),
        ("192.0.2.7", &["198.51.100.1", ""], "192.0.2.7"),
        ("10.0.0.1", &["198.51.100.1, 198.51.100.2"], "10.0.0.1"),
        ("10.0.0.1", &["unknown"], "10.0.0.1"),
        ("10.0.0.1", &[], "10.0.0.1"),
    ];
    for (peer, lines, client) in cases {
        let mut request = request(peer, ForwardedHeader::XForwardedFor, &["203.0.113.66"]);
        for line in *lines {
            request.headers_mut().append(&name, HeaderValue::from_static(line));
        }
        let client: IpAddr = client.parse().unwrap();
        assert_eq!(key(&by, &request), Key::from(client), "{lines:?} from {peer} is {client}");
    }
}

/// `9.9.9.9,,10.0.0.1` counted as the trusted proxy, whose address a policy for internal networks exempts. So a client
/// whose address a proxy had left out was not limited at all.
#[test]
fn an_empty_entry_is_invalid_and_not_the_proxy() {
    let refused = |by: &ClientAddress, request: &Request<()>, reason: &str| {
        let invalid = by.of(Head::from(request)).unwrap_err();
        assert!(invalid.to_string().ends_with(reason), "{invalid}: {request:?}");
        assert!(block_on(by.extract(Head::from(request)).into_future()).is_err(), "{request:?}");
        assert_eq!(by.asked_about(request.headers()), Err(invalid), "{request:?}");
    };
    let empty = "has an empty entry";
    let lists: &[&[&str]] = &[
        &["9.9.9.9,,10.0.0.1"],
        &["9.9.9.9, \t , 10.0.0.2, 10.0.0.1"],
        &["198.51.100.1,"],
        &["198.51.100.1", ""],
        &["198.51.100.1", ", 10.0.0.1"],
        &[" "],
        &[""],
    ];
    for lines in lists {
        let header = ForwardedHeader::XForwardedFor;
        refused(&behind_proxies(header), &request("10.0.0.1", header, lines), empty);
        let header = ForwardedHeader::Forwarded;
        let element =
            |node: &str| if node.trim().is_empty() { node.to_owned() } else { format!("for={node}") };
        for nobody in [",,", ",for=,", ",for=\"\","] {
            let line = |line: &&str| {
                let elements: Vec<String> = line.split(',').map(|it| element(it.trim())).collect();
                elements.join(",").replace(",,", nobody)
            };
            let lines: Vec<String> = lines.iter().map(line).collect();
            refused(&behind_proxies(header), &request("10.0.0.1", header, &lines), empty);
        }
    }
    let header = ForwardedHeader::XForwardedFor;
    let nearest = ClientAddress::behind(TrustedProxies::nearest(3), header);
    refused(&nearest, &request("192.0.2.7", header, &["9.9.9.9,,198.51.100.1"]), empty);
    // A header for the client alone.
    let named = ClientAddress::named_by(
        TrustedProxies::parse(PROXIES).unwrap(),
        http::HeaderName::from_static(header.name()),
    );
    refused(&named, &request("10.0.0.1", header, &[" "]), empty);
    refused(&named, &request("10.0.0.1", header, &["198.51.100.1"; 2]), "is given more than once");
}

#[test]
fn the_header_that_was_not_chosen_is_never_read() {
    let [forwarded, legacy] = [ForwardedHeader::Forwarded, ForwardedHeader::XForwardedFor];
    let proxy = Key::from(IpAddr::from([10, 0, 0, 1]));
    assert_eq!(key(&behind_proxies(legacy), &request("10.0.0.1", forwarded, &["for=198.51.100.1"])), proxy);
    assert_eq!(key(&behind_proxies(forwarded), &request("10.0.0.1", legacy, &["198.51.100.1"])), proxy);
}

#[test]
fn groups_addresses_by_a_chosen_prefix() {
    let header = ForwardedHeader::XForwardedFor;
    let by = behind_proxies(header).grouped(Grouping::new(24, 48).unwrap());
    let of = |node: &str| key(&by, &request("10.0.0.1", header, &[node]));
    assert_eq!(of("198.51.100.1"), of("::ffff:198.51.100.200"));
    assert_ne!(of("198.51.100.1"), of("198.51.101.1"));
    assert_eq!(of("2001:db8:1:2::"), of("[2001:db8:1:3::]"));
    assert_ne!(of("2001:db8:1::"), of("2001:db8:2::"));
}

/// A client that can connect without an address could choose one.
#[test]
fn without_an_address_of_the_connection_no_header_is_believed() {
    let by = behind_proxies(ForwardedHeader::XForwardedFor);
    let request = Request::get("/").header("x-forwarded-for", "198.51.100.1").body(()).unwrap();
    assert!(matches!(
        block_on(by.extract(Head::from(&request)).into_future()).unwrap(),
        Identity::Missing(_)
    ));
}

/// Clients send anything, in any spelling, over one to three proxies. The same client always has the same key,
/// different clients never share one, and no client gets the key of another.
#[test]
fn ten_thousand_spellings_neither_split_nor_merge_clients() {
    let mut rng = Rng::with_seed(0x70_11_6A_7E);
    let (mut key_of, mut client_of) = (HashMap::new(), HashMap::new());
    let by = [ForwardedHeader::Forwarded, ForwardedHeader::XForwardedFor].map(behind_proxies);
    for _ in 0..10_000 {
        let which = rng.usize(..2);
        let header = [ForwardedHeader::Forwarded, ForwardedHeader::XForwardedFor][which];
        // Few enough to meet each client in many spellings.
        let client = Client::any(&mut rng);
        let (peer, lines) = travel(&mut rng, header, &client);
        let request = request(&peer.to_string(), header, &lines);
        let found = key(&by[which], &request);

        let says = || {
            format!(
                "{client:?} from {peer}: {:?}",
                lines.iter().map(|line| line.escape_ascii().to_string()).collect::<Vec<_>>()
            )
        };
        assert_eq!(key_of.entry(client).or_insert_with(|| found.clone()), &found, "split: {}", says());
        assert_eq!(*client_of.entry(found).or_insert(client), client, "merged: {}", says());
    }
    assert!(key_of.len() > 1_000, "{} clients are few", key_of.len());
}

/// One client: an IPv4 address, or a /64 of IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Client {
    Ipv4(u32),
    Ipv6(u64),
}

impl Client {
    /// Returns a client that is not a trusted proxy.
    fn any(rng: &mut Rng) -> Self {
        // Includes the ends and the neighbours of the trusted networks.
        match rng.u8(..4) {
            0 => {
                Self::Ipv4(choice(rng, &[0x09ff_ffff, 0x0a00_0100, 0xc000_0234, 0xc000_0236, 0x7f00_0001, 1]))
            }
            1 => Self::Ipv4(0xc633_6400 + rng.u32(..1_000)),
            2 => Self::Ipv6(choice(
                rng,
                &[0x2001_0db8_fffe_ffff, 0x2001_0db9_0000_0000, 0xfe80_0000_0000_0000, 2],
            )),
            _ => Self::Ipv6(0x2001_0db8_0001_0000 + rng.u64(..1_000)),
        }
    }

    /// Returns one of the client's addresses.
    fn address(self, rng: &mut Rng) -> IpAddr {
        match self {
            Self::Ipv4(bits) => match rng.u8(..4) {
                0 => Ipv6Addr::from_bits(0xffff_0000_0000 | u128::from(bits)).into(),
                1 => Ipv6Addr::from_bits((0x64_ff9b << 96) | u128::from(bits)).into(),
                _ => Ipv4Addr::from_bits(bits).into(),
            },
            Self::Ipv6(network) => {
                Ipv6Addr::from_bits((u128::from(network) << 64) | u128::from(rng.u64(..))).into()
            }
        }
    }
}

/// Returns the way of a request from its client over trusted proxies: the address of the last connection, and the lines
/// of the header, which begin with the client's own.
fn travel(rng: &mut Rng, header: ForwardedHeader, client: &Client) -> (IpAddr, Vec<Vec<u8>>) {
    let mut lines: Vec<Vec<u8>> = (0..rng.usize(..3)).map(|_| garbage(rng, header)).collect();
    let mut from = client.address(rng);
    for _ in 0..rng.usize(..4) {
        let element = element(rng, header, from);
        // Some proxies append to the last line, others add a line.
        match lines.last_mut() {
            Some(line) if rng.bool() => {
                line.extend([choice(rng, &[", ", ",", " ,\t"]).as_bytes(), &element].concat())
            }
            _ => lines.push(element),
        }
        from = choice(rng, &["10.0.0.1", "10.0.0.255", "2001:db8:ffff::1", "192.0.2.53", "::ffff:10.0.0.0"])
            .parse()
            .unwrap();
    }
    (from, lines)
}

/// Returns how a proxy writes the address of its peer.
fn element(rng: &mut Rng, header: ForwardedHeader, address: IpAddr) -> Vec<u8> {
    let node = spelling(rng, address);
    if header == ForwardedHeader::XForwardedFor {
        return node.into_bytes();
    }
    let node = match node.contains([':', '[', '%']) || rng.bool() {
        true => format!(
            "\"{}\"",
            node.chars()
                .map(|c| if rng.u8(..20) == 0 { format!("\\{c}") } else { c.into() })
                .collect::<String>()
        ),
        false => node,
    };
    let mut pairs = vec![format!("{}={node}", choice(rng, &["for", "For", "FOR", "fOr"]))];
    for other in ["proto=https", "by=_proxy", "host=\"a,b;for=198.51.100.1\"", "secret=\"\\\"\\\\\""] {
        if rng.u8(..4) == 0 {
            pairs.insert(rng.usize(..=pairs.len()), other.to_owned());
        }
    }
    pairs.join(choice(rng, &[";", "; ", " ;"])).into_bytes()
}

fn spelling(rng: &mut Rng, address: IpAddr) -> String {
    let port = choice(rng, &["", "", ":1", ":49152", ":_p"]);
    let ipv6 = match address {
        IpAddr::V4(address) => return format!("{address}{port}"),
        IpAddr::V6(address) => address,
    };
    let groups = ipv6.segments();
    let plain = match rng.u8(..4) {
        0 => groups.map(|group| format!("{group:04x}")).join(":"),
        1 => groups.map(|group| format!("{group:X}")).join(":"),
        2 => {
            let octets = ipv6.octets();
            let tail = Ipv4Addr::new(octets[12], octets[13], octets[14], octets[15]);
            format!(
                "{}:{tail}",
                groups[..6].iter().map(|group| format!("{group:x}")).collect::<Vec<_>>().join(":")
            )
        }
        _ => ipv6.to_string(),
    };
    let zone = choice(rng, &["", "", "%eth0", "%25eth1"]);
    match port.is_empty() && rng.bool() {
        true => format!("{plain}{zone}"),
        false => format!("[{plain}{zone}]{port}"),
    }
}

/// Returns what a client may send in the header to pass for another.
fn garbage(rng: &mut Rng, header: ForwardedHeader) -> Vec<u8> {
    let mut line = Vec::new();
    for _ in 0..rng.usize(..5) {
        match rng.u8(..4) {
            0 => {
                let address = Client::any(rng).address(rng);
                line.extend(element(rng, header, address));
            }
            1 => line.extend(element(rng, header, IpAddr::from([10, 0, 0, 1]))),
            2 => line.extend(choice(
                rng,
                &[
                    &b"\""[..],
                    b"for=\"",
                    b"\\",
                    b"unknown",
                    b"for=_x;",
                    b"for=\"a\\\"",
                    b"\xff\xfe",
                    b"[",
                    b"%",
                ],
            )),
            // Any bytes that a header's value may hold.
            _ => line.extend((0..rng.usize(..8)).map(|_| rng.u8(0x20..0x7f))),
        }
        line.extend(choice(rng, &[&b","[..], b", ", b"", b";"]));
    }
    line
}

fn choice<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.usize(..choices.len())]
}

/// A proxy that asks about a request has no address of its own that matters.
#[test]
fn a_proxy_that_asks_is_believed_like_one_that_is_trusted() {
    let all = ["203.0.113.66", "198.51.100.1", "10.0.0.2", "2001:db8:ffff::1", "unknown"];
    let header = ForwardedHeader::XForwardedFor;
    for (first, last) in all.iter().flat_map(|first| all.iter().map(move |last| (first, last))) {
        for lines in
            [vec![format!("{first}, 198.51.100.9, {last}")], vec![(*first).to_owned(), (*last).to_owned()]]
        {
            let request = request("10.0.0.1", header, &lines);
            let told = |by: ClientAddress| {
                let of = by.of(Head::from(&request)).unwrap().filter(|_| *last != "unknown");
                (by.asked_about(request.headers()).unwrap(), of)
            };
            for by in [
                behind_proxies(header),
                ClientAddress::behind(TrustedProxies::nearest(1), header),
                ClientAddress::behind(TrustedProxies::nearest(2), header),
            ] {
                let (asked_about, of) = told(by);
                assert_eq!(asked_about, of, "{lines:?}");
            }
        }
    }
    let one = request("10.0.0.1", header, &["198.51.100.1"]);
    let named =
        ClientAddress::named_by(TrustedProxies::nearest(1), http::HeaderName::from_static(header.name()));
    assert_eq!(named.asked_about(one.headers()), named.of(Head::from(&one)));
    assert_eq!(named.asked_about(request("10.0.0.1", header, &[""; 0]).headers()), Ok(None));
}
