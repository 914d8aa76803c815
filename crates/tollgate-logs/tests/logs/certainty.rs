//! One meaning of a certain client, for the first lines of a log and for all that follow.

use tollgate_logs::{Error, Options, Reading};

use crate::{log, read_all};

const REST: &str = r#"[24/May/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 10 "-" "curl""#;

/// So many lines; `@` is the number of one of 200 clients.
fn lines(line: &str, count: usize) -> String {
    (0..count).map(|number| line.replace('@', &(number % 200).to_string()) + "\n").collect()
}

fn readings(text: &str) -> Vec<Reading> {
    match read_all(vec![log(text)], Options::default()).2 {
        Err(Error::UnclearClient { doubt, .. }) => doubt.readings,
        other => panic!("it is read as one of certain clients: {other:?}\n{}", text.lines().next().unwrap()),
    }
}

/// Only the first 1,000 lines were looked at, and proxies became clients in all others.
#[test]
fn later_lines_with_a_second_address_do_not_fit() {
    let combined = |head: &str| format!("{head} {REST}");
    let json = |fields: &str| {
        format!(r#"{{"time":"2026-05-24T10:00:00Z",{fields},"method":"GET","path":"/a","status":200}}"#)
    };
    let one = json(r#""client_ip":"203.0.113.@""#);
    let cases = [
        (String::new(), combined("203.0.113.@ - -"), combined("10.0.0.1 203.0.113.@ -")),
        (String::new(), combined("203.0.113.@ - -"), combined("10.0.0.1 203.0.113.@ - -")),
        (String::new(), combined("203.0.113.@ - -"), combined("10.0.0.1 - 203.0.113.@")),
        (String::new(), combined("203.0.113.@ - -"), combined("2001:db8::1 - [2001:db8::@]:80")),
        (String::new(), combined("a.example:443 203.0.113.@ - -"), combined("2001:db8::1 203.0.113.@ - -")),
        (String::new(), one.clone(), json(r#""client_ip":"203.0.113.@","remote_addr":"10.0.0.1""#)),
        (
            "time,remote_addr,client_ip,method,path\n".to_owned(),
            "2026-05-24T10:00:00Z,203.0.113.@,203.0.113.@,GET,/a".to_owned(),
            "2026-05-24T10:00:00Z,10.0.0.1,203.0.113.@,GET,/a".to_owned(),
        ),
    ];
    for (header, usual, other) in cases {
        let text = format!("{header}{}{}", lines(&usual, 1_200), lines(&other, 600));
        let (requests, summary, result) = read_all(vec![log(&text)], Options::default());
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Unparsed { unparsed: 600, lines: 1_800, .. }), "{other}: {error}");
        assert_eq!(summary.unparsed[0].reason, "another address may be the client", "{other}");
        assert!(!requests.iter().any(|request| request.contains(" 10.0.0.1 ")), "{other}");
    }
}

/// A visitor chooses the name of a user, and must not make a log unreadable.
#[test]
fn a_few_odd_lines_do_not_fit_wherever_they_are() {
    for odd in ["10.0.0.3 203.0.113.5 - -", "www.example.com 203.0.113.5 - -", "203.0.113.5 - 10.1.1.1"] {
        for place in [0, 500, 1_500] {
            let mut all: Vec<String> =
                lines(&format!("203.0.113.@ - - {REST}"), 2_000).lines().map(str::to_owned).collect();
            all[place] = format!("{odd} {REST}");
            let (requests, summary, result) = read_all(vec![log(all.join("\n") + "\n")], Options::default());
            result.unwrap_or_else(|error| panic!("{odd} {place}: {error}"));
            assert_eq!((requests.len(), summary.unparsed_lines()), (1_999, 1), "{odd} {place}");
        }
    }
}

/// What does not fit is named with the flag that reads it.
#[test]
fn too_many_odd_lines_name_their_flag() {
    for (odd, flag) in [
        ("10.0.0.3 203.0.113.5 - -", "--format combined takes the address in its place"),
        ("203.0.113.5,10.0.0.3 - -", "--attr ip=xff:NETWORKS"),
        ("203.0.113.5, 10.0.0.3 - -", "--attr ip=xff:NETWORKS"),
    ] {
        let text = lines(&format!("203.0.113.@ - - {REST}"), 1_200) + &lines(&format!("{odd} {REST}"), 100);
        let error = read_all(vec![log(text)], Options::default()).2.unwrap_err().to_string();
        assert!(error.contains("--max-unparsed allows more") && error.contains(flag), "{odd}: {error}");
    }
}

/// Half of the lines have a proxy before the client: the name of the format takes what stands in its place.
#[test]
fn mixed_lines_have_a_flag() {
    let text = lines(&format!("203.0.113.@ - - {REST}\n10.0.0.1 203.0.113.@ - - {REST}"), 300);
    assert_eq!(readings(&text)[0].flags, "--format combined");
}

/// The format with fewer fields reads all lines, half of them with the virtual host for the client.
#[test]
fn a_format_without_certain_clients_is_not_offered() {
    let text = lines(
        &format!(
            "a.example:443 203.0.113.@ - - {REST}\na.example:443 203.0.113.@ - - {REST}\n203.0.113.@ - - {REST}"
        ),
        100,
    );
    let error = read_all(vec![log(text)], Options::default()).2.unwrap_err().to_string();
    assert!(error.contains("--format apache-vhost") && !error.contains("--format combined"), "{error}");
}

/// `%v:%p` takes an address of IPv6 for a host and a port.
#[test]
fn addresses_of_proxies_are_no_virtual_hosts() {
    for head in
        ["2001:db8:a::1 203.0.113.@ - -", "203.0.113.@ 2001:db8:a::1 - -", "198.51.100.@:443 203.0.113.@ - -"]
    {
        for count in [1, 400] {
            let text = lines(&format!("{head} {REST}"), count + 1);
            assert_eq!(readings(&text).len(), 2, "{head}");
        }
    }
}

/// The first name stood in the way of the second, though it had no value.
#[test]
fn a_field_without_a_value_leaves_the_client_to_another() {
    for absent in ["\"-\"", "\"\"", "null"] {
        let json = format!(
            r#"{{"time":"2026-05-24T10:00:00Z","remote_addr":{absent},"client_ip":"192.0.2.@","method":"GET","path":"/a"}}"#
        );
        let caddy = format!(
            r#"{{"ts":"2026-05-24T10:00:00Z","msg":"handled request","request":{{"client_ip":{absent},"remote_ip":"192.0.2.@","method":"GET","uri":"/a"}},"status":200}}"#
        );
        let cell = absent.trim_matches('"').replace("null", "-");
        let csv =
            format!("time,remote_addr,client_ip,method,path\n2026-05-24T10:00:00Z,{cell},192.0.2.0,GET,/a");
        for text in [json, caddy, csv] {
            let (requests, _, result) = read_all(vec![log(lines(&text, 1))], Options::default());
            result.unwrap();
            assert!(requests[0].contains(" 192.0.2.0 GET /a"), "{text}: {}", requests[0]);
        }
    }
}

#[test]
fn an_escaped_client_is_read() {
    let text =
        r#"{"time":"2026-05-24T10:00:00Z","client_ip":"\u0031\u00392.0.2.@","method":"GET","path":"/a"}"#;
    let (requests, _, result) = read_all(vec![log(lines(text, 50))], Options::default());
    result.unwrap();
    assert!(requests[7].contains(" 192.0.2.7 GET /a"), "{}", requests[7]);
}
