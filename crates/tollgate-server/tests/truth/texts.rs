//! Users, paths and clients that a careless reader of logs would mix up. Of each, only what a server lets through is used:
//! the app has to get the same bytes.

use crate::app::App;
use crate::client::Request;
use crate::front::{Front, Kind};

/// What clients choose from.
pub(crate) struct Texts {
    pub(crate) users: Vec<Vec<u8>>,
    /// The `n`-th one begins with `/p/n`, in one spelling or another.
    pub(crate) paths: Vec<Vec<u8>>,
    /// How many bytes from 0x00 to 0xFF a user may have as they are.
    pub(crate) bytes: usize,
}

/// A client: its headers and address, and its name in a report.
pub(crate) struct Client {
    pub(crate) forwarded: Option<&'static str>,
    pub(crate) over_ipv6: bool,
    pub(crate) name: &'static str,
}

pub(crate) const CLIENTS: [Client; 8] = [
    Client { forwarded: None, over_ipv6: false, name: "ip=127.0.0.1" },
    Client { forwarded: None, over_ipv6: true, name: "ip=::/64" },
    // It is no proxy, so nobody believes it.
    Client { forwarded: Some("192.0.2.66"), over_ipv6: true, name: "ip=::/64" },
    Client { forwarded: Some("192.0.2.7"), over_ipv6: false, name: "ip=192.0.2.7" },
    Client { forwarded: Some("192.0.2.8"), over_ipv6: false, name: "ip=192.0.2.8" },
    Client { forwarded: Some("2001:db8:1:2::3"), over_ipv6: false, name: "ip=2001:db8:1:2::/64" },
    Client { forwarded: Some("2001:DB8:1:2:0:0:ffff:4"), over_ipv6: false, name: "ip=2001:db8:1:2::/64" },
    Client { forwarded: Some("2001:db8:1:3::3"), over_ipv6: false, name: "ip=2001:db8:1:3::/64" },
];

/// How many bytes stand in one name.
const BYTES: usize = 16;

/// A query with which the line of a log has 8 KB. Servers take request lines of 8,190 bytes.
const LONG_QUERY: usize = 7_900;

impl Texts {
    pub(crate) fn of(kind: Kind, front: &Front, app: &App) -> Self {
        let passes = |request: Request| {
            let answer = request.ask(front.address, app);
            let arrived = app.arrival(answer.number).unwrap_or_default();
            answer.status == Some(200) && arrived.target == request.target && arrived.key == request.key
        };
        let named = |user: Vec<u8>| Request { key: Some(user), ..Request::to("/free") };
        // Of UTF-8, which alone the service takes: all leading bytes, and all that follow.
        let leads = (0xc2..=0xf4_u8).filter_map(|lead| {
            let second = match lead {
                0xe0 => 0xa0,
                0xf4 => 0x80,
                _ => 0x90,
            };
            let longest = [lead, second, 0x80, 0x80];
            (2..=4).find_map(|length| Some(std::str::from_utf8(longest.get(..length)?).ok()?.to_owned()))
        });
        let follow = (0x80..=0xbf_u32).filter_map(|code| char::from_u32(code).map(String::from));
        let ascii = (0x00..=0x7f_u8).map(|byte| char::from(byte).to_string());
        let all: Vec<String> = ascii.chain(follow).chain(leads).collect();
        let (raw, coded): (Vec<String>, Vec<String>) =
            all.into_iter().partition(|text| passes(named(format!("<{text}>").into_bytes())));
        let mut users: Vec<Vec<u8>> =
            raw.chunks(BYTES).map(|texts| format!("<{}>", texts.concat()).into_bytes()).collect();
        let coded: String =
            coded.iter().flat_map(|text| text.bytes()).map(|byte| format!("%{byte:02X}")).collect();
        users.push(coded.into_bytes().into_iter().take(100).collect());
        users.extend(
            [&br#"quo"te"#[..], br"back\slash", br"\x22", b"#22", b"%22", b"[a] \"b\" - {c|d}"]
                .map(<[u8]>::to_vec),
        );
        users.retain(|user| passes(named(user.clone())));
        let paths = paths().into_iter().filter(|path| passes(Request::to(path.clone()))).collect();
        let mut bytes: Vec<u8> = raw.concat().into_bytes();
        bytes.sort_unstable();
        bytes.dedup();
        if !kind.logs_headers() {
            users.clear();
        }
        Self { users, paths, bytes: bytes.len() }
    }
}

fn paths() -> Vec<Vec<u8>> {
    let coded = |bytes: std::ops::RangeInclusive<u8>| {
        let is_plain = |byte: &u8| !b"./".contains(byte);
        bytes.filter(is_plain).map(|byte| format!("%{byte:02X}")).collect::<String>()
    };
    let long = |byte: &str| format!("?q={}", byte.repeat(LONG_QUERY / byte.len()));
    let spellings = [
        "/p/1".to_owned(),
        "/p/1".to_owned(),
        "//p/1".to_owned(),
        "/p/./1".to_owned(),
        "/%70/x/../1".to_owned(),
        "/p/1?page=2&q=a%20b?c".to_owned(),
        "/p/1?q=\"x\"\\".to_owned(),
        "/p/2".to_owned(),
        format!("/p/2{}", long("x")),
        format!("/p/2{}", long("\"")),
        "/p/3/quo\"te".to_owned(),
        "/p/4/back\\slash".to_owned(),
        format!("/p/5/{}", coded(0x01..=0x1f)),
        format!("/p/6/{}", coded(0x20..=0x7f)),
        format!("/p/7/{}", coded(0x80..=0xff)),
        "/p/8/%00".to_owned(),
        "/p/9/{a|b}[c]^`".to_owned(),
        "/p/10/\u{fc}\u{20ac}\u{1f600}".to_owned(),
        "/p/11/\u{1}\u{1f}\u{7f}".to_owned(),
    ];
    spellings.map(String::into_bytes).to_vec()
}
