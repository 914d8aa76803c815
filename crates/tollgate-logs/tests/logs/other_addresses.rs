//! Logs with addresses in other fields than the client's: that of a proxy may be the one that is read.

use tollgate_logs::{Error, Options, OtherAddresses};

use crate::clients::{CLIENTS, REST, clients, lines, readings};
use crate::{log, read_all};

/// What is noted of a log that is read.
fn noted(text: &str) -> Option<OtherAddresses> {
    let (_, mut summary, result) = read_all(vec![log(text)], Options::default());
    result.unwrap_or_else(|error| panic!("{error}\n{}", text.lines().next().unwrap()));
    summary.files.remove(0).others
}

/// 200 lines of 50 clients, behind so many proxies: `%` is the number of one.
fn proxied(line: &str, proxies: usize) -> String {
    let lines = lines(line);
    lines
        .lines()
        .enumerate()
        .map(|(at, line)| line.replace('%', &(at % proxies).to_string()) + "\n")
        .collect()
}

const JSON: &str = r#"{"time":"2026-05-24T10:00:00Z","remote_addr":"192.0.2.%","OTHER":"203.0.113.@","method":"GET","path":"/#","status":200}"#;

/// A few proxies were the clients of all, and nothing said so, because their addresses are public.
#[test]
fn a_few_clients_before_many_other_addresses_are_refused_with_a_flag_for_each() {
    let csv = |name: &str| {
        let rows = proxied("2026-05-24T10:00:00Z,192.0.2.%,203.0.113.@,GET,/#", 5);
        format!("time,remote_addr,{name},method,path\n{rows}")
    };
    let text = |tail: &str| proxied(&format!("192.0.2.% - - {REST}{tail}"), 5);
    let json = |name: &str| proxied(&JSON.replace("OTHER", name), 5);
    let traefik = r#"{"StartUTC":"2026-05-24T10:00:00Z","ClientHost":"192.0.2.%","RequestMethod":"GET","RequestPath":"/#","request_X-Forwarded-For":"203.0.113.@","DownstreamStatus":200}"#;
    let w3c = format!(
        "#Fields: date time c-ip cs-method cs-uri-stem sc-status X-Forwarded-For\n{}",
        proxied("2026-05-24 10:00:00 192.0.2.% GET /# 200 203.0.113.@", 5)
    );
    let logs = [
        (text(" \"203.0.113.@\""), "X-Forwarded-For"),
        (text(" \"198.51.100.7, 203.0.113.@\""), "X-Forwarded-For"),
        (proxied(traefik, 5), "X-Forwarded-For"),
        (json("x_forwarded_for"), "X-Forwarded-For"),
        (csv("x_forwarded_for"), "X-Forwarded-For"),
        (w3c, "X-Forwarded-For"),
        (json("x_real_ip"), "the field x_real_ip"),
        (json("clientAddress"), "the field clientAddress"),
        (csv("x_real_ip"), "the field x_real_ip"),
        (text(" 0.003 \"203.0.113.@\""), "the text behind the known fields"),
        (text(" \"-\" \"203.0.113.@\""), "the text behind the known fields"),
        (text(" 203.0.113.@ 0.1"), "the text behind the known fields"),
        (
            proxied("192.0.2.% - - [24/May/2026:10:00:00 +0000] \"GET /# HTTP/1.1\" 200 10 203.0.113.@", 5),
            "the text behind the known fields",
        ),
        (
            proxied(&format!("192.0.2.% - - {}", REST.replace("\"-\"", "\"203.0.113.@\"")), 5),
            "the field http_referer",
        ),
    ];
    for (text, place) in &logs {
        let readings = readings(text);
        let places: Vec<&str> = readings.iter().map(|reading| reading.place.as_str()).collect();
        assert_eq!(places[0], *place, "{text:.300}");
        assert_eq!(clients(text, &readings[0].flags, "192.0.2.0/24"), CLIENTS, "{}", readings[0].flags);
        let proxies = clients(text, &readings[1].flags, "");
        assert_eq!(proxies, ["192.0.2.0", "192.0.2.1", "192.0.2.2"], "{}", readings[1].flags);
        assert_eq!((readings.len(), readings[1].different), (2, 5));
    }
}

/// Clients may send the header themselves, so many clients are only noted.
#[test]
fn many_clients_beside_other_addresses_are_noted() {
    let tail = proxied(&format!("192.0.2.% - - {REST} \"203.0.113.@\""), 20);
    let json = |name: &str| proxied(&JSON.replace("OTHER", name), 20);
    let cases = [
        (tail.clone(), "X-Forwarded-For", "remote_addr", "--attr ip=xff:NETWORKS"),
        (json("x_forwarded_for"), "X-Forwarded-For", "remote_addr", "--attr ip=xff:NETWORKS"),
        (
            json("cf_connecting_ip"),
            "the field cf_connecting_ip",
            "remote_addr",
            "--attr ip=json:/cf_connecting_ip",
        ),
    ];
    for (text, place, client, flags) in cases {
        let others = noted(&text).unwrap();
        let found = (others.place.as_str(), others.client.as_str(), others.flags.as_str());
        assert_eq!((found, others.lines, others.requests), ((place, client, flags), 200, 200));
        assert_eq!(clients(&text, flags, "192.0.2.0/24"), CLIENTS);
    }
    // Half of the lines are not most.
    let half: String = tail.lines().enumerate().fold(String::new(), |text, (at, line)| {
        text + &(if at % 2 == 0 { line.replace("\"203", "\"x203") } else { line.to_owned() }) + "\n"
    });
    assert_eq!(noted(&half), None);
}

/// The addresses of servers, and a header that says what the log says.
#[test]
fn other_addresses_that_are_no_clients_are_not_noted() {
    let text = |tail: &str| proxied(&format!("192.0.2.% - - {REST}{tail}"), 5);
    let logs = [
        text(" \"-\""),
        text(" \"198.51.100.7, 192.0.2.%\""),
        text(" \"192.0.2.%, 198.51.100.@\""),
        text(" 10.0.0.@:8080 0.1"),
        text(" 0.1 198.51.100.7"),
        proxied(&JSON.replace("OTHER", "upstream_addr"), 5),
        proxied(&JSON.replace("OTHER", "server_ip"), 5),
        proxied(&JSON.replace("OTHER", "x_real_ip").replace("203.0.113.@", "192.0.2.%"), 5),
        proxied(&JSON.replace("OTHER", "ua").replace("203.0.113.@", "1.2.3"), 5),
    ];
    for text in logs {
        assert_eq!(noted(&text), None, "{text:.200}");
    }
}

/// The last entry was taken: that of a proxy.
#[test]
fn lists_that_alone_tell_the_client_are_refused_with_the_flag_for_networks() {
    let envoy = r#"[2026-05-24T10:00:00.000Z] "GET /# HTTP/1.1" 200 - 0 5 1 1 "203.0.113.@, 192.0.2.5" "curl" "id" "h" "10.0.2.1:80""#;
    let json = JSON.replace(r#""remote_addr":"192.0.2.%","#, "").replace("OTHER", "x_forwarded_for");
    let json = json.replace("203.0.113.@", "203.0.113.@, 192.0.2.5");
    let w3c = format!(
        "#Fields: date time cs-method cs-uri-stem sc-status x-forwarded-for\n{}",
        lines("2026-05-24 10:00:00 GET /# 200 203.0.113.@,+192.0.2.5")
    );
    for text in [lines(envoy), lines(&json), w3c] {
        let readings = readings(&text);
        let [reading] = &readings[..] else { panic!("{readings:?}") };
        assert_eq!(reading.flags, "--attr ip=xff:NETWORKS");
        assert_eq!((reading.different, reading.lines), (50, 200));
        assert_eq!(clients(&text, &reading.flags, "192.0.2.0/24"), CLIENTS);
        // One entry is the address that the last proxy has heard from. Clients add others to a few.
        let alone = text.replace(", 192.0.2.5", "").replace(",+192.0.2.5", "");
        let few = alone.replacen("203.0.113.1", "198.51.100.1,203.0.113.1", 1);
        assert!(read_all(vec![log(&few)], Options::default()).2.is_ok(), "{few:.200}");
    }
}

/// `--attr ip=xff:` read nothing, because the format has no such field.
#[test]
fn a_walk_without_the_header_is_refused_with_a_format_that_has_it() {
    let options =
        || Options { attributes: vec!["ip=xff:192.0.2.0/24".parse().unwrap()], ..Options::default() };
    for tail in [" 0.003 \"203.0.113.@\"", " \"-\" \"203.0.113.@\"", " 203.0.113.@"] {
        let text = proxied(&format!("192.0.2.% - - {REST}{tail}"), 50);
        let Err(Error::UnclearClient { doubt, .. }) = read_all(vec![log(&text)], options()).2 else {
            panic!("{tail}: it is read")
        };
        assert_eq!(clients(&text, &doubt.readings[0].flags, "192.0.2.0/24"), CLIENTS);
    }
    for tail in ["", " 0.003", " \"203.0.113.@\""] {
        let text = proxied(&format!("192.0.2.% - - {REST}{tail}"), 50);
        assert!(read_all(vec![log(&text)], options()).2.is_ok(), "{tail}");
    }
}

/// Nobody was counted, and the report was about 0 clients.
#[test]
fn logs_without_a_client_are_refused_if_it_is_needed() {
    let options = || Options { needs_client: true, ..Options::default() };
    let json = JSON.replace(r#""remote_addr":"192.0.2.%","#, "");
    let w3c = format!(
        "#Fields: date time x-client-ip cs-method cs-uri-stem sc-status\n{}",
        lines("2026-05-24 10:00:00 203.0.113.@ GET /# 200")
    );
    let nested = json.replace(r#""OTHER":"203.0.113.@""#, r#""client":{"ip":"203.0.113.@"}"#);
    for (text, flags) in [
        (lines(&json.replace("OTHER", "RemoteAddr")), "--attr ip=json:/RemoteAddr"),
        (lines(&nested), "--attr ip=json:/client/ip"),
        (w3c, "--attr ip=field:x-client-ip"),
    ] {
        let Err(Error::UnclearClient { doubt, .. }) = read_all(vec![log(&text)], options()).2 else {
            panic!("{flags}: it is read")
        };
        assert_eq!(doubt.readings[0].flags, flags);
        assert_eq!(clients(&text, flags, ""), CLIENTS);
        assert!(read_all(vec![log(&text)], Options::default()).2.is_ok());
    }
    for text in [lines(&format!("- - - {REST}")), lines(&json.replace("203.0.113.@", "x"))] {
        assert!(matches!(read_all(vec![log(&text)], options()).2, Err(Error::NoClient { .. })));
    }
    let forwarded = lines(&json.replace("OTHER", "x_forwarded_for"));
    assert!(read_all(vec![log(forwarded)], options()).2.is_ok());
}
