//! The content of requests: paths, queries and bodies, each with the expected answer.

use super::random::Random;

/// The expected answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// A decision, or another requested answer.
    Taken,
    /// A status of 400 to 499.
    Refused,
    /// Any status below 500.
    Either,
}

pub(super) struct Asked {
    pub(super) method: &'static str,
    pub(super) target: Vec<u8>,
    /// Besides those that its form needs, in lower case.
    pub(super) headers: Vec<(&'static str, String)>,
    /// Without a body, there is no `Content-Type` either.
    pub(super) body: Option<Vec<u8>>,
    pub(super) expected: Expected,
}

const CHECKS: &[&str] = &["/v1/check", "/v1/peek"];
const CHANGES: &[&str] = &["/v1/reset", "/v1/set", "/v1/refund"];

/// Invalid bodies of checks.
const WRONG_CHECKS: &[&[u8]] = &[
    b"",
    b"{",
    b"[]",
    b"null",
    b"\"\"",
    b"{}",
    b"{\"attributes\": null}",
    b"{\"attributes\": []}",
    b"{\"attributes\": {\"user\": 7}}",
    b"{\"attributes\": {\"user\": {}}}",
    b"{\"attributes\": {\"user\": \"\\ud800\"}}",
    b"{\"attributes\": {\"user\": \"\xff\"}}",
    b"{\"attributes\": {\"user\": \"\xc0\xaf\"}}",
    b"{\"attributes\": {\"user\": \"\xed\xa0\x80\"}}",
    b"{\"attributes\": {\"user\": \"a\", \"user\": \"b\"}}",
    b"{\"attributes\": {\"\": \"a\"}}",
    b"{\"attributes\": {\"user\": \"a\"}} x",
    b"{\"attributes\": {\"user\": \"a\"},}",
    b"{'attributes': {'user': 'a'}}",
    b"\xef\xbb\xbf{\"attributes\": {\"user\": \"a\"}}",
    b"\xff\xfe{\0}\0",
    b"{\"attributes\": {\"user\": \"a\"}, \"price\": 1}",
    b"{\"attributes\": {\"user\": \"a\nb\"}}",
    b"{\"attributes\": {}}",
];

/// Invalid costs.
const WRONG_COSTS: &[&str] = &[
    "-1",
    "-0.5",
    "0.1",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999999999999",
    "1e400",
    "-1e400",
    "1e-7",
    "5e-324",
    "1.7976931348623157e308",
    "NaN",
    "Infinity",
    "0x10",
    "01",
    "+1",
    "1.",
    ".5",
    "1e",
    "\"1\"",
    "true",
    "null",
    "[1]",
];

const COSTS: &[&str] = &["0", "1", "2.0", "4294967295", "1e3", "-0"];

/// Invalid queries of checks.
const WRONG_QUERIES: &[&[u8]] = &[
    b"user=%",
    b"user=%4",
    b"user=%zz",
    b"user=%ff",
    b"user=%C0%AF",
    b"=a",
    b"user=a&user=b",
    b"user=a&cost=-1",
    b"user=a&cost=",
    b"user=a&cost=4294967296",
    b"user=a&cost=99999999999999999999999",
    b"user=a&cost=1&cost=1",
    b"user=a&cost=1e3",
    b"",
    b"user=",
    b"%00",
];

/// Returns a request that is valid HTTP, for the checks or the admin listener.
pub(super) fn asked(random: &mut Random, is_admin: bool) -> Asked {
    match random.below(13) {
        0 | 1 => get(&[&b"/v1/check?"[..], random.pick(WRONG_QUERIES)].concat(), Expected::Refused),
        2 => {
            let user = random.pick(&["alice", "a%20b", "%C3%A9", "+", "%00", "a;b", "[x]", "%25"]);
            get(format!("/v1/check?user={user}").as_bytes(), of_checks(is_admin))
        }
        3 => {
            let mut query = b"user=alice&cost=1&a=%41".to_vec();
            (0..=random.below(3)).for_each(|_| random.damage(&mut query));
            // The rest can stand in a target.
            query.retain(|byte| byte.is_ascii_alphanumeric() || b"&=%+;.-_~".contains(byte));
            get(&[&b"/v1/check?"[..], &query].concat(), Expected::Either)
        }
        4 => {
            const NOWHERE: &[&[u8]] = &[b"//", b"/nothing", b"/v1", b"/v1/check/", b"/v1/%63heck", b"/.."];
            get(random.pick(NOWHERE), Expected::Refused)
        }
        5 => {
            let length = random.pick(&[&1025, &2000, &8000]);
            get(format!("/v1/check?user={}", "x".repeat(*length)).as_bytes(), Expected::Refused)
        }
        6 => {
            let cost = random.pick(WRONG_COSTS);
            let body = format!("{{\"attributes\": {{\"user\": \"a\"}}, \"cost\": {cost}}}");
            post(random.pick(CHECKS), body.into(), Expected::Refused)
        }
        7 => {
            let cost = random.pick(COSTS);
            let body = format!(
                "{{\"cost\": {cost}, \"attributes\": {{\"user\": \"\\u0000\\n{}\"}}}}",
                random.next()
            );
            post(random.pick(CHECKS), body.into(), of_checks(is_admin))
        }
        8 => post(random.pick(CHANGES), random.pick(WRONG_CHECKS).to_vec(), Expected::Refused),
        9 => {
            let mut body = br#"{"attributes": {"user": "alice", "path": "/"}, "cost": 1}"#.to_vec();
            (0..=random.below(4)).for_each(|_| random.damage(&mut body));
            let path = if random.once_in(2) { random.pick(CHECKS) } else { random.pick(CHANGES) };
            post(path, body, Expected::Either)
        }
        10 => nested(random),
        11 => forwarded(random, is_admin),
        _ => post(random.pick(CHECKS), random.pick(WRONG_CHECKS).to_vec(), Expected::Refused),
    }
}

fn of_checks(is_admin: bool) -> Expected {
    if is_admin { Expected::Refused } else { Expected::Taken }
}

fn get(target: &[u8], expected: Expected) -> Asked {
    Asked { method: "GET", target: target.to_vec(), headers: Vec::new(), body: None, expected }
}

fn post(path: &str, body: Vec<u8>, expected: Expected) -> Asked {
    Asked { method: "POST", target: path.into(), headers: Vec::new(), body: Some(body), expected }
}

/// A request that a proxy asks about, described well or badly.
fn forwarded(random: &mut Random, is_admin: bool) -> Asked {
    const RIGHT: [(&str, &str); 4] = [
        ("x-forwarded-method", "GET"),
        ("x-forwarded-uri", "/a?b"),
        ("x-forwarded-host", "a.example:80"),
        ("x-forwarded-for", "nonsense, ::1, 192.0.2.1"),
    ];
    const WRONG: &[(usize, &str)] = &[
        (0, "G T"),
        (0, "\""),
        (0, "purge"),
        (1, "/a#b"),
        (1, "a"),
        (1, "?/"),
        (1, "http://a/"),
        (2, "a b"),
        (2, "a,b"),
        (2, "[::1"),
        (2, "a:99999999999999999999"),
        (2, "a/b"),
        (3, "nonsense"),
        (3, "192.0.2.1,"),
        (3, "192.0.2.1, for=192.0.2.2"),
        (3, "999.0.0.1"),
    ];
    let mut headers: Vec<(&str, String)> =
        RIGHT.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    let mut query = random.pick(&["", "?deny=403", "?deny=429&x=%ff"]);
    let expected = match random.below(6) {
        0 => of_checks(is_admin),
        1 => {
            headers.remove(random.below(headers.len()));
            Expected::Refused
        }
        2 => {
            let (place, value) = *random.pick(&WRONG.iter().collect::<Vec<_>>());
            headers[place].1 = value.to_owned();
            Expected::Refused
        }
        3 if random.once_in(2) => {
            headers.push((random.pick(&["x-original-method", "x-original-uri"]), "/".to_owned()));
            Expected::Refused
        }
        3 => {
            let twice = headers[random.below(3)].clone();
            headers.push(twice);
            Expected::Refused
        }
        4 => {
            query = random.pick(&["?deny=200", "?deny=403&deny=403", "?deny=", "?x&deny=-1"]);
            Expected::Refused
        }
        _ => {
            let place = random.below(headers.len());
            let mut value = headers[place].1.clone().into_bytes();
            (0..=random.below(8)).for_each(|_| random.damage(&mut value));
            // The rest can stand in a field.
            value.retain(|byte| (0x20..0x7f).contains(byte));
            headers[place].1 = String::from_utf8_lossy(value.trim_ascii()).into_owned();
            Expected::Either
        }
    };
    let method = random.pick(&["GET", "PUT", "OPTIONS", "DELETE"]);
    let target = format!("/forward-auth{query}").into_bytes();
    Asked { method, target, headers, body: None, expected }
}

/// Returns a body that is deep, wide or long.
fn nested(random: &mut Random) -> Asked {
    let body = match random.below(4) {
        0 => "[".repeat(10_000),
        1 => "{\"a\":".repeat(3_000),
        2 => {
            let names: Vec<String> = (0..65).map(|index| format!("\"{index}\": \"\"")).collect();
            format!("{{\"attributes\": {{{}}}}}", names.join(","))
        }
        _ => format!("{{\"attributes\": {{\"user\": \"{}\"}}}}", "é".repeat(600)),
    };
    post(random.pick(CHECKS), body.into(), Expected::Refused)
}
