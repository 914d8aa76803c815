//! `X-Forwarded-For`, wherever a log has it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use tollgate_http::{ForwardedHeader, TrustedProxies};
use tollgate_logs::{Options, Summary};

use crate::{log, read_all};

/// The client and the path of a line of this format, behind proxies in these networks.
fn read(format: Option<&str>, text: &str, trusted: &str) -> (String, Summary) {
    let options = Options {
        format: format.map(|format| format.parse().unwrap()),
        attributes: vec![format!("ip=xff:{trusted}").parse().unwrap()],
        zone: Some(jiff::tz::TimeZone::UTC),
        ..Options::default()
    };
    let (requests, summary, result) = read_all(vec![log(text)], options);
    if let Err(error) = result {
        return (error.to_string(), summary);
    }
    let [request] = &requests[..] else { panic!("{text}: {requests:?}") };
    let words: Vec<&str> = request.split(' ').collect();
    (format!("{} {}", words[1], words[3]), summary)
}

/// The list of the header cannot be told from the next field where it has blanks, except by the fields that follow it.
#[test]
fn lists_without_quotes_end_before_the_fields_that_follow() {
    const NGINX_FIRST: &str = r#"$http_x_forwarded_for - $remote_user [$time_local] "$request" $status"#;
    const NGINX_SECOND: &str =
        r#"$remote_addr $http_x_forwarded_for - $remote_user [$time_local] "$request" $status"#;
    const NGINX_NAKED: &str = r#"$remote_addr [$time_local] $http_x_forwarded_for "$request" $status"#;
    const NGINX_LAST: &str = r#"$remote_addr [$time_local] "$request" $status $http_x_forwarded_for"#;
    const NGINX_INNER: &str =
        r#"$remote_addr [$time_local] "$request" $status $http_x_forwarded_for $request_time"#;
    const NGINX_COMMAS: &str = "$time_iso8601,$remote_addr,$http_x_forwarded_for,$uri,$status";
    const APACHE_FIRST: &str = r#"LogFormat "%{X-Forwarded-For}i %h %l %u %t \"%r\" %>s" a"#;
    const APACHE_SECOND: &str = r#"LogFormat "%h %{X-Forwarded-For}i %l %u %t \"%r\" %>s" a"#;
    const AT: &str = r#"[23/Nov/2026:16:00:00 +0000] "GET /a HTTP/1.1" 200"#;
    let proxies = "10.0.0.0/8,127.0.0.1";
    let cases = [
        (NGINX_FIRST, format!("203.0.113.9, 192.0.2.1, 10.0.0.3 - - {AT}"), "192.0.2.1"),
        (NGINX_FIRST, format!("192.0.2.1 - me {AT}"), "192.0.2.1"),
        (NGINX_FIRST, format!("192.0.2.1:4711,10.0.0.3:80 - - {AT}"), "192.0.2.1"),
        (NGINX_FIRST, format!("[2001:db8::1]:4711 , 10.0.0.3 - - {AT}"), "2001:db8::1"),
        (NGINX_FIRST, format!("- - - {AT}"), "-"),
        (NGINX_SECOND, format!("10.0.0.5 203.0.113.1, 198.51.100.7 - - {AT}"), "198.51.100.7"),
        (NGINX_SECOND, format!("10.0.0.5 - - - {AT}"), "10.0.0.5"),
        (NGINX_SECOND, format!("198.51.100.9 203.0.113.1, 10.0.0.7 - - {AT}"), "198.51.100.9"),
        (
            APACHE_FIRST,
            format!("2001:db8::1, 198.51.100.97, 10.36.42.175 127.0.0.1 - - {AT}"),
            "198.51.100.97",
        ),
        (APACHE_FIRST, format!("192.0.2.1 127.0.0.1 - - {AT}"), "192.0.2.1"),
        (APACHE_FIRST, format!("- 127.0.0.1 - - {AT}"), "127.0.0.1"),
        (APACHE_SECOND, format!("127.0.0.1 192.0.2.9,  192.0.2.1 ,10.0.0.1 - me {AT}"), "192.0.2.1"),
        // What a client writes does not move the fields.
        (APACHE_FIRST, format!("9.9.9.9 8.8.8.8 - x, 192.0.2.1 127.0.0.1 - - {AT}"), "192.0.2.1"),
        (APACHE_FIRST, format!("9.9.9.9 8.8.8.8 - x [1, 192.0.2.1 127.0.0.1 - - {AT}"), "192.0.2.1"),
        (NGINX_FIRST, format!("9.9.9.9 - - x, 192.0.2.1 - - {AT}"), "192.0.2.1"),
        (
            NGINX_NAKED,
            r#"10.0.0.5 [23/Nov/2026:16:00:00 +0000] 9.9.9.9 x, 192.0.2.1 "GET /a HTTP/1.1" 200"#.into(),
            "192.0.2.1",
        ),
        (NGINX_LAST, format!("10.0.0.5 {AT} 9.9.9.9 x, 192.0.2.1, 10.0.0.9"), "192.0.2.1"),
        (NGINX_INNER, format!("10.0.0.5 {AT} 9.9.9.9 0.1, 192.0.2.1 0.250"), "192.0.2.1"),
        (NGINX_COMMAS, "2026-11-23T16:00:00Z,10.0.0.5,9.9.9.9, 192.0.2.1,/a,200".into(), "192.0.2.1"),
    ];
    for (format, line, client) in cases {
        let (read, summary) = read(Some(format), &line, proxies);
        assert_eq!(read, format!("{client} /a"), "{format}: {line}");
        assert_eq!((summary.hidden_clients, summary.unnamed_clients), (0, 0), "{line}");
    }
    // A blank in the last entry may be one of another field: a name of a user, or what a client wrote.
    for line in ["192.0.2.1 127.0.0.1 - a b", "9.9.9.9 8.8.8.8 127.0.0.1 - -"] {
        let text = format!("{line} {AT}\n192.0.2.1 127.0.0.1 - - {AT}\n").repeat(2);
        let (read, summary) = read(Some(APACHE_FIRST), &text, proxies);
        assert!(read.starts_with("2 of 4 lines cannot be read"), "{line}: {read}");
        assert_eq!(summary.unparsed[0].reason, "the line does not match the format");
    }
}

/// The walk stopped at `+proxy`: all requests had one client.
#[test]
fn columns_of_iis_have_ports_and_plus_signs() {
    let text = |forwarded: &str| {
        format!(
            "#Software: Microsoft Internet Information Services 10.0\r\n#Fields: date time s-ip cs-method cs-uri-stem \
             cs-uri-query s-port cs-username c-ip cs(User-Agent) sc-status time-taken X-Forwarded-For\r\n2026-11-23 \
             16:00:10 10.0.0.1 GET /a - 80 - 10.0.0.9 Mozilla/5.0+(X) 200 500 {forwarded}\r\n"
        )
    };
    let cases = [
        ("203.0.113.9:4711,+192.0.2.1:50123,+10.0.0.3:443", "192.0.2.1"),
        ("[2001:db8::1]:50123,+10.0.0.3", "2001:db8::1"),
        ("192.0.2.1", "192.0.2.1"),
        ("-", "10.0.0.9"),
        // No array: clients may send quotes.
        ("[\"9.9.9.9\"],+192.0.2.1", "192.0.2.1"),
    ];
    for (forwarded, client) in cases {
        assert_eq!(read(None, &text(forwarded), "10.0.0.0/8").0, format!("{client} /a"), "{forwarded}");
    }
    let cloudfront = "#Fields: date time c-ip cs-method cs-uri-stem sc-status x-forwarded-for\n2019-12-04\t21:02:31\t\
                      10.0.0.9\tGET\t/a\t200\t203.0.113.9,%20192.0.2.1\n";
    assert_eq!(read(None, cloudfront, "10.0.0.0/8").0, "192.0.2.1 /a");
}

/// Of several lines of the header, only the first was read: it may be the client's own.
#[test]
fn several_lines_of_the_header_are_one_list() {
    let line = |headers: &str| {
        format!(
            r#"{{"ts":1646861401.5,"msg":"handled request","request":{{"remote_ip":"10.0.0.9","method":"GET","uri":"/a","headers":{{"X-Forwarded-For":{headers}}}}},"status":200}}"#
        )
    };
    let cases = [
        (r#"["203.0.113.9, 192.0.2.1"]"#, "192.0.2.1"),
        (r#"["203.0.113.9","192.0.2.1, 10.0.0.3"]"#, "192.0.2.1"),
        (r#"[ "203.0.113.9" , "192.0.2.1" ]"#, "192.0.2.1"),
        (r#"["\",9.9.9.9,\"","192.0.2.1"]"#, "192.0.2.1"),
        (r#"["192.0.2.1"]"#, "192.0.2.1"),
        (r#""192.0.2.1""#, "192.0.2.1"),
        ("[]", "10.0.0.9"),
    ];
    for (headers, client) in cases {
        assert_eq!(read(None, &line(headers), "10.0.0.0/8").0, format!("{client} /a"), "{headers}");
    }
}

/// Where a server logs no address, its proxy stands between: the last entry is the address that it has heard from.
#[test]
fn the_last_entry_is_the_address_of_a_line_without_another() {
    const FORMAT: &str = r#"$http_x_forwarded_for - $remote_user [$time_local] "$request" $status"#;
    let at = r#"- - [23/Nov/2026:16:00:00 +0000] "GET /a HTTP/1.1" 200"#;
    let options = || Options { format: Some(FORMAT.parse().unwrap()), ..Options::default() };
    for (forwarded, client, hidden, unnamed) in [
        ("192.0.2.1, 198.51.100.7", "198.51.100.7", 0, 0),
        ("192.0.2.1, [2001:db8::1]:80", "2001:db8::1", 0, 0),
        ("192.0.2.1, unknown", "-", 1, 0),
        ("192.0.2.1,", "-", 0, 1),
        ("-", "-", 0, 0),
    ] {
        let (requests, summary, result) = read_all(vec![log(format!("{forwarded} {at}"))], options());
        result.unwrap();
        assert_eq!(requests, [format!("2026-11-23T16:00:00.5Z {client} GET /a 200 -")], "{forwarded}");
        assert_eq!((summary.hidden_clients, summary.unnamed_clients), (hidden, unnamed), "{forwarded}");
    }
}

/// The walk ended at the proxy silently.
#[test]
fn hops_that_are_no_address_are_counted() {
    let line = |forwarded: &str| {
        format!(r#"10.0.0.1 - - [23/Nov/2026:16:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "-" "{forwarded}""#)
    };
    let cases = [
        ("192.0.2.1, 10.0.0.3", "192.0.2.1", 0, 0),
        ("unknown", "10.0.0.1", 1, 0),
        ("192.0.2.1, _hidden, 10.0.0.3", "10.0.0.3", 1, 0),
        ("192.0.2.1, 10.0.0.3:x", "10.0.0.1", 1, 0),
        ("192.0.2.1, , 10.0.0.3", "-", 0, 1),
        // It is not read: a client wrote it.
        ("unknown, 192.0.2.1", "192.0.2.1", 0, 0),
        (",192.0.2.1", "192.0.2.1", 0, 0),
        ("-", "10.0.0.1", 0, 0),
    ];
    for (forwarded, client, hidden, unnamed) in cases {
        let (read, summary) = read(None, &line(forwarded), "10.0.0.0/8");
        assert_eq!(read, format!("{client} /a"), "{forwarded}");
        assert_eq!((summary.hidden_clients, summary.unnamed_clients), (hidden, unnamed), "{forwarded}");
    }
}

/// Returns an address without its port, brackets and zone. The test has its own reader, independent of the code.
fn address(entry: &str) -> Option<IpAddr> {
    let is_port = |port: &str| match port.strip_prefix('_') {
        Some(name) => !name.is_empty(),
        None => (1..6).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit()),
    };
    let v6 = |text: &str| match text.split_once('%') {
        Some((address, zone)) => (!zone.is_empty()).then(|| address.parse::<Ipv6Addr>().ok())?,
        None => text.parse().ok(),
    };
    let found: Option<IpAddr> = match entry.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((inner, ""))) => v6(inner).map(IpAddr::from),
        Some(Some((inner, port))) => {
            v6(inner).filter(|_| port.strip_prefix(':').is_some_and(is_port)).map(IpAddr::from)
        }
        Some(None) => None,
        None => v6(entry).map(IpAddr::from).or_else(|| match entry.split_once(':') {
            None => entry.parse::<Ipv4Addr>().ok().map(IpAddr::from),
            Some((host, port)) => host.parse::<Ipv4Addr>().ok().filter(|_| is_port(port)).map(IpAddr::from),
        }),
    };
    found.map(|address| address.to_canonical())
}

/// The client behind proxies in 10.0.0.0/8 and fd00::/8, walked without code of the crates; `None` if an entry that
/// such a proxy should have filled in is empty.
fn walked(peer: &str, header: &str) -> Option<IpAddr> {
    let is_proxy = |address: &IpAddr| match address {
        IpAddr::V4(address) => address.octets()[0] == 10,
        IpAddr::V6(address) => address.segments()[0] >> 8 == 0xfd,
    };
    let mut reached = address(peer).unwrap();
    let mut entries: Vec<&str> = header.split(',').map(|entry| entry.trim_matches([' ', '\t'])).collect();
    while is_proxy(&reached) {
        match entries.pop() {
            Some("") => return None,
            Some(entry) => match address(entry) {
                Some(next) => reached = next,
                None => break,
            },
            None => break,
        }
    }
    Some(reached)
}

proptest! {
    /// The header has one meaning, that of the service, and it is the documented one.
    #[test]
    fn the_client_is_that_of_the_service(
        peer in "10\\.0\\.0\\.[1-3]|192\\.0\\.2\\.[1-3]",
        hops in proptest::collection::vec(
            "( |\t)?(10\\.0\\.0\\.[1-9]{1,2}|192\\.0\\.2\\.[1-9]|192\\.0\\.2\\.07|2001:db8::[1-3](:80|%eth0)?|::ffff:10\\.0\\.0\\.1|\
             \\[(fd00|2001:db8)::[1-3](%1)?\\]|unknown|_h|\\[|\\[::1|::1\\]|192\\.0\\.2|a b|)(:[0-9]{1,6}|:_p|:)?( |\t)?",
            1..6,
        ),
    ) {
        let trusted = ["10.0.0.0/8", "fd00::/8"];
        let header = hops.join(",");
        let hops = ForwardedHeader::XForwardedFor.hops(std::iter::once(header.as_bytes()));
        let service = TrustedProxies::parse(trusted).unwrap().client(peer.parse().unwrap(), hops);
        let line = serde_json::json!({
            "time": "2026-11-23T16:00:00Z", "path": "/a", "remote_addr": peer, "x_forwarded_for": header,
        });
        prop_assert_eq!(service.ok(), walked(&peer, &header), "{}", header);
        let (read, _) = read(None, &line.to_string(), &trusted.join(","));
        let client = read.split(' ').next().unwrap();
        match service {
            // The header has one line with no text at all, which a log cannot tell from none.
            Err(_) if header.is_empty() => prop_assert_eq!(client, peer),
            Err(_) => prop_assert_eq!(client, "-"),
            Ok(address) => {
                let parsed: std::net::IpAddr = client.parse().unwrap();
                prop_assert_eq!(parsed.to_canonical(), address, "{}", header);
            }
        }
    }
}
