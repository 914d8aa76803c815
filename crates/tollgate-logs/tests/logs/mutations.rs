//! Lines of every known format, changed as proxies, log drivers and people change them: each client that is read is the
//! right one, or the log is refused.
//!
//! The oracle is the generator: it puts a client of its own into each line, and knows it by the number in the path.
//! It shares nothing with the reader.

use std::collections::BTreeMap;
use std::fmt::Write;

use tollgate_logs::{Batch, Error, Format, Options, Reader, Reading};

use crate::log;

/// What is put into a line.
#[derive(Clone)]
struct Parts {
    /// Texts for the client field.
    client: String,
    /// What stands in the places of `ident` and of the user, where the format has them.
    ident: String,
    user: String,
    number: usize,
}

/// How a format writes a line.
type Line = fn(&Parts) -> String;

const AGENT: &str = "Mozilla/5.0 (X11)";

/// Lines of each known format, by its name.
const LINES: &[(&str, Line)] = &[
    ("common", |p| format!("{} {} {} {} \"{}\" 200 5", p.client, p.ident, p.user, clf(p), request(p))),
    ("combined", combined),
    ("nginx-combined", combined),
    ("apache-combined", combined),
    ("apache-common", |p| format!("{} {} {} {} \"{}\" 200 -", p.client, p.ident, p.user, clf(p), request(p))),
    ("nginx-main", |p| format!("{} \"-\"", combined(p))),
    ("ingress-nginx", |p| {
        format!("{} 33 0.250 [web-80] [] 10.42.0.7:80 615 0.249 200 0123abcd", combined(p))
    }),
    ("traefik", |p| format!("{} 17 \"web@docker\" \"http://10.0.0.5:80\" 12ms", combined(p))),
    ("apache-vhost", |p| format!("a.example:443 {}", combined(p))),
    ("haproxy", |p| {
        format!(
            "{} [{}.000] in be/s 0/0/0/1/9 200 5 - - ---- 1/1/0/0/0 0/0 \"{}\"",
            p.client,
            day(p),
            request(p)
        )
    }),
    ("alb", |p| {
        let at = iso(p);
        format!(
            "h2 {at} app/lb/50d {} 10.0.0.1:80 0.0 0.1 0.0 200 200 3 4 \"{}\" \"{AGENT}\" - - arn:x \"Root=1\" \"-\" \"-\" 0 {at} \"forward\"",
            p.client,
            request(p)
        )
    }),
    ("elb", |p| {
        format!(
            "{} lb {} 10.0.0.1:80 0.0 0.1 0.0 200 200 0 29 \"{}\" \"{AGENT}\" - -",
            iso(p),
            p.client,
            request(p)
        )
    }),
    ("envoy", |p| {
        format!(
            "[{}] \"{}\" 200 - 154 0 226 100 \"{}\" \"{AGENT}\" \"id\" \"h\" \"10.0.2.1:80\"",
            iso(p),
            request(p),
            p.client
        )
    }),
    ("istio", |p| {
        format!(
            "[{}] \"{}\" 200 - via_upstream - \"-\" 0 135 3 1 \"-\" \"{AGENT}\" \"id\" \"h\" \"10.0.2.1:80\" inbound|80|| 127.0.0.1:4 10.4.1.27:80 {} - default",
            iso(p),
            request(p),
            p.client
        )
    }),
    ("api-gateway", |p| {
        format!(
            r#"{{"requestId":"a","ip":{},"requestTime":"{} +0000","httpMethod":"GET","path":"/{}","status":"200"}}"#,
            json(&p.client),
            day(p),
            p.number
        )
    }),
    ("api-gateway-csv", |p| {
        format!(
            "{},{},{},{} +0000,GET,/{},HTTP/1.1,200,5,id,ext",
            p.client,
            p.ident,
            p.user,
            day(p),
            p.number
        )
    }),
    ("api-gateway-http-csv", |p| {
        format!("{},{} +0000,GET,GET /{},HTTP/1.1,200,5,id", p.client, day(p), p.number)
    }),
    ("caddy", |p| {
        format!(
            r#"{{"ts":"{}","msg":"handled request","request":{{"client_ip":{},"method":"GET","uri":"/{}","host":"h"}},"status":200}}"#,
            iso(p),
            json(&p.client),
            p.number
        )
    }),
    ("traefik-json", |p| object(p, "StartUTC", "ClientHost", "RequestMethod", "RequestPath")),
    ("envoy-json", |p| object(p, "start_time", "downstream_remote_address", "method", "path")),
    ("cloudflare", |p| {
        object(p, "EdgeStartTimestamp", "ClientIP", "ClientRequestMethod", "ClientRequestURI")
    }),
    ("google", |p| {
        format!(
            r#"{{"timestamp":"{}","httpRequest":{{"remoteIp":{},"requestMethod":"GET","requestUrl":"/{}"}}}}"#,
            iso(p),
            json(&p.client),
            p.number
        )
    }),
    ("json", |p| object(p, "time", "remote_addr", "method", "uri")),
    ("csv", |p| {
        let head = if p.number == 0 { "time,ip,method,path\n" } else { "" };
        format!("{head}{},{},GET,/{}", iso(p), cell(&p.client), p.number)
    }),
    ("tsv", |p| {
        let head = if p.number == 0 { "time\tip\tmethod\tpath\n" } else { "" };
        format!("{head}{}\t{}\tGET\t/{}", iso(p), p.client, p.number)
    }),
    ("w3c", |p| {
        let head =
            if p.number == 0 { "#Fields: date time c-ip cs-method cs-uri-stem sc-status\n" } else { "" };
        format!("{head}2026-11-23 16:00:{:02} {} GET /{} 200", p.number % 60, p.client, p.number)
    }),
];

fn combined(p: &Parts) -> String {
    format!("{} {} {} {} \"{}\" 200 5 \"-\" \"{AGENT}\"", p.client, p.ident, p.user, clf(p), request(p))
}

fn day(p: &Parts) -> String {
    format!("23/Nov/2026:16:00:{:02}", p.number % 60)
}

fn clf(p: &Parts) -> String {
    format!("[{} +0000]", day(p))
}

fn iso(p: &Parts) -> String {
    format!("2026-11-23T16:00:{:02}Z", p.number % 60)
}

fn request(p: &Parts) -> String {
    format!("GET /{} HTTP/1.1", p.number)
}

fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn cell(text: &str) -> String {
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

fn object(p: &Parts, time: &str, client: &str, method: &str, target: &str) -> String {
    let client_text = json(&p.client);
    format!(
        r#"{{"{time}":"{}","{client}":{client_text},"{method}":"GET","{target}":"/{}","status":200}}"#,
        iso(p),
        p.number
    )
}

/// What log drivers write before a line.
const PREFIXES: [&str; 9] = [
    "",
    "2026-11-23T16:00:11.123456789Z stdout F ",
    "web-1  | ",
    "<190>Nov 23 16:00:11 web nginx: ",
    "Nov 23 16:00:11 10.0.0.9 nginx[99]: ",
    "<190>1 2026-11-23T16:00:11.123Z web nginx 99 - - ",
    "<190>1 2026-11-23T16:00:11.123Z 10.0.0.9 nginx 99 - [a b=\"192.0.2.1\"] ",
    "[pod/web-7d9f/nginx] ",
    // Docker's JSON is written around the line.
    "{",
];

/// A change of all lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutation {
    None,
    Port,
    Brackets,
    Quotes,
    ProxyBefore,
    ProxyWithPortBefore,
    ListBefore,
    ProxyAfter,
    /// The client stands where the user is expected, behind its proxy.
    ClientAsUser,
    ListInPlace,
    ListInPlaceWithoutBlanks,
    TextBefore(&'static str),
    TextAtStart(&'static str),
    AddressAtStart(&'static str),
    NoBracket(char),
    /// Only a few lines are changed.
    ListInSome,
    ProxyBeforeSome,
    AbsentInSome,
    /// Only lines are changed that stand behind those that are looked at first.
    LateProxyBefore,
    LateProxyAfter,
    LateClientAsUser,
    LateListInPlace,
}

const MUTATIONS: &[Mutation] = &[
    Mutation::None,
    Mutation::Port,
    Mutation::Brackets,
    Mutation::Quotes,
    Mutation::ProxyBefore,
    Mutation::ProxyWithPortBefore,
    Mutation::ListBefore,
    Mutation::ProxyAfter,
    Mutation::ClientAsUser,
    Mutation::ListInPlace,
    Mutation::ListInPlaceWithoutBlanks,
    Mutation::TextBefore("nginx "),
    Mutation::TextBefore("\""),
    Mutation::TextBefore("client="),
    Mutation::TextAtStart("www.example.org "),
    Mutation::TextAtStart("web-7d9f nginx "),
    Mutation::TextAtStart("INFO [nio-exec-1] o.e.Log : "),
    Mutation::TextAtStart("\""),
    Mutation::TextAtStart("2026-11-23 16:00:11.123 "),
    Mutation::AddressAtStart(" "),
    Mutation::AddressAtStart(" | "),
    Mutation::NoBracket('['),
    Mutation::NoBracket(']'),
    Mutation::ListInSome,
    Mutation::ProxyBeforeSome,
    Mutation::AbsentInSome,
    Mutation::LateProxyBefore,
    Mutation::LateProxyAfter,
    Mutation::LateClientAsUser,
    Mutation::LateListInPlace,
];

impl Mutation {
    /// The change of the lines behind the first ones.
    fn later(self) -> Option<Self> {
        match self {
            Self::LateProxyBefore => Some(Self::ProxyBefore),
            Self::LateProxyAfter => Some(Self::ProxyAfter),
            Self::LateClientAsUser => Some(Self::ClientAsUser),
            Self::LateListInPlace => Some(Self::ListInPlace),
            _ => None,
        }
    }

    /// Whether no one format reads the lines, because they are of two kinds.
    fn is_mixed(self) -> bool {
        self == Self::ProxyBeforeSome
    }
}

/// Formats in which a line without a client is usual: Envoy logs it only in `X-Forwarded-For`, with its own entry
/// last. Such requests cannot be decided, and the report says so.
const WITH_LISTS: [&str; 2] = ["envoy", "istio"];

/// Formats whose client always has a port.
const WITH_PORTS: [&str; 4] = ["haproxy", "alb", "elb", "istio"];

/// Formats whose lines do not begin with the client and a time in brackets, so no format is written out for their
/// changes. A reading of one of their fields is shown if it has one address.
const WITHOUT_FLAG: [&str; 15] = [
    "alb",
    "elb",
    "istio",
    "api-gateway",
    "api-gateway-csv",
    "api-gateway-http-csv",
    "caddy",
    "traefik-json",
    "envoy-json",
    "cloudflare",
    "google",
    "json",
    "csv",
    "tsv",
    "w3c",
];

const LINES_OF_A_LOG: usize = 24;

/// So many lines are looked at before a log is read.
const FIRST_LINES: usize = 1_000;

/// The networks of all proxies.
const NETWORKS: &str = "10.0.0.0/8,198.51.100.0/24,2001:db8:ffff::/48";

/// A generator of numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }
}

/// A log and the client of each of its lines, by the path.
struct Case {
    text: String,
    clients: BTreeMap<String, String>,
}

/// `None` if the format has no such place.
fn case(name: &str, line: Line, prefix: &str, mutation: Mutation, random: &mut Random) -> Option<Case> {
    let is_json = line(&parts("192.0.2.1", 1)).starts_with('{');
    let has_user = line(&Parts { user: "@".to_owned(), ..parts("192.0.2.1", 1) }).contains('@');
    let has_v6 = random.below(3) == 0;
    let (mut text, mut clients) = (String::new(), BTreeMap::new());
    // Of one kind, as a log has them.
    let kind_of_proxy = random.below(3);
    let all = mutation;
    let count = LINES_OF_A_LOG + if all.later().is_some() { 3 * FIRST_LINES / 2 } else { 0 };
    for number in 0..count {
        let mutation = match all.later() {
            Some(_) if number < count - LINES_OF_A_LOG => Mutation::None,
            Some(later) => later,
            None => all,
        };
        let is_v6 = has_v6 && random.below(2) == 0;
        let client = match is_v6 {
            true => format!("2001:db8:1:{:x}::{:x}", 1 + random.below(9), 1 + random.below(200)),
            false => format!("203.0.113.{}", random.below(250)),
        };
        let bare =
            |port: usize| if is_v6 { format!("[{client}]:{port}") } else { format!("{client}:{port}") };
        let proxy = match kind_of_proxy {
            0 => format!("10.0.0.{}", random.below(3)),
            1 => format!("198.51.100.{}", random.below(3)),
            _ => format!("2001:db8:ffff::{}", 1 + random.below(3)),
        };
        let proxy_with_port =
            if kind_of_proxy == 2 { format!("[{proxy}]:4711") } else { format!("{proxy}:4711") };
        let usual =
            if WITH_PORTS.contains(&name) { bare(1_024 + random.below(60_000)) } else { client.clone() };
        let is_some = random.below(6) == 0 || number == 7;
        let mut parts = parts(&usual, number);
        let mut start = String::new();
        match mutation {
            Mutation::None | Mutation::NoBracket(_) => {}
            Mutation::Port => parts.client = bare(1_024 + random.below(60_000)),
            Mutation::Brackets if WITH_PORTS.contains(&name) => return None,
            Mutation::Brackets => parts.client = format!("[{client}]"),
            Mutation::Quotes => parts.client = format!("\"{usual}\""),
            Mutation::ProxyBefore => parts.client = format!("{proxy} {usual}"),
            Mutation::ProxyWithPortBefore => parts.client = format!("{proxy_with_port} {usual}"),
            Mutation::ListBefore => parts.client = format!("192.0.2.1, {proxy} {usual}"),
            Mutation::ProxyAfter | Mutation::ClientAsUser if !has_user => return None,
            Mutation::ProxyAfter => parts.ident = proxy,
            Mutation::ClientAsUser => (parts.client, parts.user) = (proxy, client.clone()),
            Mutation::ListInPlace | Mutation::ListInPlaceWithoutBlanks | Mutation::ListInSome
                if WITH_LISTS.contains(&name) =>
            {
                return None;
            }
            Mutation::ListInPlace => parts.client = format!("{usual}, {proxy}"),
            Mutation::ListInPlaceWithoutBlanks => parts.client = format!("{usual},{proxy}"),
            Mutation::ListInSome if is_some => parts.client = format!("{usual}, {proxy}"),
            Mutation::ProxyBeforeSome if is_some => parts.client = format!("{proxy} {usual}"),
            Mutation::AbsentInSome if is_some => parts.client = "-".to_owned(),
            Mutation::ListInSome | Mutation::ProxyBeforeSome | Mutation::AbsentInSome => {}
            Mutation::TextBefore(before) => parts.client = format!("{before}{usual}"),
            Mutation::TextAtStart(before) => start = before.to_owned(),
            Mutation::AddressAtStart(after) => start = format!("{proxy}{after}"),
            Mutation::LateProxyBefore
            | Mutation::LateProxyAfter
            | Mutation::LateClientAsUser
            | Mutation::LateListInPlace => unreachable!("they stand for others"),
        }
        let written = line(&parts);
        let written = match mutation {
            Mutation::NoBracket(_) if !written.contains('[') || is_json => return None,
            Mutation::NoBracket(bracket) => written.replacen(bracket, "", 1),
            _ => written,
        };
        // The header of a table stands alone.
        let (head, written) =
            written.rsplit_once('\n').map_or((None, written.as_str()), |(head, line)| (Some(head), line));
        for line in head.into_iter().chain([format!("{start}{written}").as_str()]) {
            match prefix {
                "{" => writeln!(
                    text,
                    r#"{{"log":{},"stream":"stdout","time":"2026-11-23T16:00:11Z"}}"#,
                    json(&format!("{line}\n"))
                ),
                prefix => writeln!(text, "{prefix}{line}"),
            }
            .unwrap();
        }
        let is_absent = mutation == Mutation::AbsentInSome && is_some;
        clients.insert(format!("/{number}"), if is_absent { String::new() } else { client });
    }
    Some(Case { text, clients })
}

fn parts(client: &str, number: usize) -> Parts {
    Parts { client: client.to_owned(), ident: "-".to_owned(), user: "-".to_owned(), number }
}

/// The clients that are read, by path, of a log in which no line is unreadable.
fn read(text: &str, options: Options) -> Result<BTreeMap<String, String>, Error> {
    let mut reader = Reader::open([log(text)], options)?;
    let (mut batch, mut clients) = (Batch::default(), BTreeMap::new());
    while reader.read(&mut batch)? {
        for request in batch.requests() {
            let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
            clients.insert(text(request.path()), text(request.ip()));
        }
    }
    Ok(clients)
}

fn usual() -> Options {
    Options { zone: Some(jiff::tz::TimeZone::UTC), ..Options::default() }
}

/// Checks one log. Returns whether it was refused.
fn check(name: &'static str, prefix: &str, mutation: Mutation, case: &Case) -> bool {
    let show = || {
        let lines: Vec<&str> = case.text.lines().skip(6).take(3).collect();
        format!("{name}, {mutation:?}, prefix {prefix:?}:\n{}", lines.join("\n"))
    };
    match read(&case.text, usual()) {
        Ok(mut clients) => {
            // An entry that is no address is nobody's, and is counted.
            let is_told = |path: &String, client: &mut String| {
                if client.is_empty() && WITH_LISTS.contains(&name) {
                    client.clone_from(&case.clients[path]);
                }
            };
            clients.iter_mut().for_each(|(path, client)| is_told(path, client));
            // A few later lines that do not fit are left out.
            let mut expected = case.clients.clone();
            if mutation.later().is_some() && clients.len() * 100 >= expected.len() * 99 {
                expected.retain(|path, _| clients.contains_key(path));
            }
            assert_eq!(clients, expected, "wrong clients: {}", show());
            false
        }
        Err(Error::UnclearClient { doubt, .. }) => {
            let is_right = |reading: &Reading| {
                read_by(reading, &case.text).is_some_and(|clients| clients == case.clients)
            };
            // No one format reads both kinds of lines. The flag takes what stands in the usual place.
            assert!(
                !doubt.readings.is_empty() || WITHOUT_FLAG.contains(&name),
                "no flag is offered: {}",
                show()
            );
            assert!(
                mutation.is_mixed() || doubt.readings.is_empty() || doubt.readings.iter().any(is_right),
                "no flag is right: {}\n{doubt}\n{:?}\n{:?}",
                show(),
                doubt.readings.iter().map(|reading| read_by(reading, &case.text)).collect::<Vec<_>>(),
                case.clients
            );
            true
        }
        Err(Error::UnclearFormat { poorer, richer, .. }) => {
            // Each is right about the lines that it reads.
            for format in [poorer, richer] {
                let options = Options { format: Some(format.parse().unwrap()), max_unparsed: 1.0, ..usual() };
                for (path, client) in read(&case.text, options).unwrap() {
                    let is_told = client.is_empty() && WITH_LISTS.contains(&name);
                    assert!(
                        is_told || client == case.clients[&path],
                        "--format {format} is wrong: {}",
                        show()
                    );
                }
            }
            true
        }
        Err(_) => true,
    }
}

/// The clients by the flags of a reading, with the networks of the proxies.
fn read_by(reading: &Reading, text: &str) -> Option<BTreeMap<String, String>> {
    let mut options = usual();
    let (format, attribute) = match reading.flags.split_once(" --attr ") {
        Some((format, attribute)) => (Some(format), Some(attribute)),
        None => (
            Some(reading.flags.as_str()).filter(|flags| flags.starts_with("--format")),
            reading.flags.strip_prefix("--attr "),
        ),
    };
    if let Some(format) = format {
        options.format = Some(format.strip_prefix("--format ")?.trim_matches('\'').parse().unwrap());
    }
    if let Some(attribute) = attribute {
        let networks = NETWORKS;
        options
            .attributes
            .push(attribute.trim_matches('\'').replace(Reading::NETWORKS, networks).parse().unwrap());
    }
    read(text, options).ok()
}

#[test]
fn every_client_is_the_right_one_or_the_log_is_refused() {
    for name in Format::names() {
        assert!(LINES.iter().any(|(known, _)| *known == name), "{name} has no lines here; write some");
    }
    let mut random = Random(45);
    let (mut refused, mut all) = (0, 0);
    for (name, line) in LINES {
        for mutation in MUTATIONS {
            let prefix = PREFIXES[1 + random.below(PREFIXES.len() - 1)];
            let ways = if mutation.later().is_some() { 1 } else { 1 + random.below(2) };
            for prefix in ["", prefix].into_iter().take(ways) {
                let Some(case) = case(name, *line, prefix, *mutation, &mut random) else { continue };
                let is_refused = check(name, prefix, *mutation, &case);
                let is_usual = matches!(mutation, Mutation::None) || matches!(mutation, Mutation::Port);
                assert!(
                    !is_refused || !is_usual,
                    "{name} {prefix:?} {mutation:?}: {:?}",
                    read(&case.text, usual())
                );
                (refused, all) = (refused + usize::from(is_refused), all + 1);
            }
        }
    }
    // Neither are all logs refused, nor none.
    assert!(refused * 4 > all && refused * 10 < all * 9, "{refused} of {all} are refused");
}
