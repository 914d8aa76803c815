//! Logs that do not show for certain who their clients are.

use tollgate_logs::{Error, Options, Reading};

use crate::{log, read_all};

/// So many lines; `@` is the number of one of 50 clients, and `#` that of the line.
pub(crate) fn lines(line: &str) -> String {
    (0..200)
        .map(|number| line.replace('@', &(number % 50).to_string()).replace('#', &number.to_string()) + "\n")
        .collect()
}

pub(crate) const REST: &str = r#"[24/May/2026:10:00:00 +0000] "GET /# HTTP/1.1" 200 10 "-" "curl""#;

/// The readings of a log that is refused.
pub(crate) fn readings(text: &str) -> Vec<Reading> {
    match read_all(vec![log(text)], Options::default()).2 {
        Err(Error::UnclearClient { doubt, .. }) => doubt.readings,
        other => panic!("it is read as one of certain clients: {other:?}\n{}", text.lines().next().unwrap()),
    }
}

/// The words of a shell, in which `\'` outside of quotes is a quote itself.
fn shell_words(text: &str) -> Vec<String> {
    let (mut words, mut is_quoted, mut is_word) = (Vec::<String>::new(), false, false);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character.is_whitespace() && !is_quoted {
            is_word = false;
            continue;
        }
        if !std::mem::replace(&mut is_word, true) {
            words.push(String::new());
        }
        let word = words.last_mut().unwrap();
        match character {
            '\'' => is_quoted = !is_quoted,
            '\\' if !is_quoted => word.extend(characters.next()),
            other => word.push(other),
        }
    }
    words
}

/// What a shell makes of the flags, with networks for the placeholder.
fn options(flags: &str, networks: &str) -> Options {
    let mut options = Options::default();
    let mut words = shell_words(flags).into_iter();
    while let Some(flag) = words.next() {
        let value = words.next().unwrap();
        match flag.as_str() {
            "--format" => options.format = Some(value.parse().unwrap()),
            "--attr" => options.attributes.push(value.replace(Reading::NETWORKS, networks).parse().unwrap()),
            other => panic!("unknown flag {other}"),
        }
    }
    options
}

/// The clients of the first lines, by a reading's flags, which have to read all lines.
pub(crate) fn clients(text: &str, flags: &str, networks: &str) -> [String; 3] {
    let (requests, summary, result) = read_all(vec![log(text)], options(flags, networks));
    result.unwrap_or_else(|error| panic!("{flags}: {error}"));
    assert_eq!((requests.len(), summary.unparsed_lines()), (200, 0), "{flags}");
    [0, 1, 2].map(|place| requests[place].split(' ').nth(1).unwrap().to_owned())
}

pub(crate) const CLIENTS: [&str; 3] = ["203.0.113.0", "203.0.113.1", "203.0.113.2"];
const PROXY: [&str; 3] = ["10.0.0.5"; 3];

/// 2,000 lines of 200 clients were read as those of two: of the proxies.
#[test]
fn a_proxy_before_the_client_is_refused_with_a_flag_for_each() {
    let heads = [
        "10.0.0.5 203.0.113.@ - -",
        "10.0.0.5 203.0.113.@ - frank",
        "10.0.0.5 203.0.113.@ - John Doe",
        "10.0.0.5 - 203.0.113.@",
        "10.0.0.5:4711 203.0.113.@ - -",
        "10.0.0.5 - 203.0.113.@ -",
        "10.0.0.5 - xff:203.0.113.@",
        "10.0.0.5 -/203.0.113.@ -",
        "10.0.0.5 \"203.0.113.@\" - -",
        "<10.0.0.5> client=203.0.113.@ - -",
    ];
    let tails = ["", " \"http://router\" 0.005 [x] 10.1.2.3:80"];
    for head in heads {
        for tail in tails {
            let text = lines(&format!("{head} {REST}{tail}"));
            let readings = readings(&text);
            assert_eq!(readings.len(), 2, "{head}");
            assert_eq!(clients(&text, &readings[0].flags, ""), PROXY, "{head}");
            assert_eq!(clients(&text, &readings[1].flags, ""), CLIENTS, "{head}");
            assert_eq!((readings[0].different, readings[1].different), (1, 50), "{head}");
            assert_eq!(readings[1].lines, 200);
        }
    }
}

#[test]
fn formats_that_are_given_are_not_doubted() {
    let text = lines(&format!("10.0.0.5 203.0.113.@ - - {REST}"));
    for format in ["combined", "common"] {
        let options = Options { format: Some(format.parse().unwrap()), ..Options::default() };
        let (requests, _, result) = read_all(vec![log(&text)], options);
        result.unwrap();
        assert!(requests[0].contains(" 10.0.0.5 GET /"), "{}", requests[0]);
    }
}

/// Such a log was read as one without any client, and all of its requests were undecided.
#[test]
fn text_before_the_client_is_refused_with_a_flag_that_reads_it() {
    let heads = [
        "www.example.org 203.0.113.@ - -",
        "web-7d9f nginx 203.0.113.@ - -",
        "web-7d9f-# nginx 203.0.113.@ - frank",
        "2026-05-24 10:00:00.123 INFO [http-exec-1] o.e.AccessLog : 203.0.113.@ - -",
        "\"203.0.113.@ - -",
        "\"203.0.113.@\" - -",
        "client=203.0.113.@; - -",
        "203.0.113.@",
        "203.0.113.@ frank",
        "shop 203.0.113.@ - John Doe",
        "203.0.113.@, - -",
        "'203.0.113.@' - -",
    ];
    for head in heads {
        let text = lines(&format!("{head} {REST}"));
        let readings = readings(&text);
        let [reading] = &readings[..] else { panic!("one reading: {head}: {readings:?}") };
        assert_eq!(clients(&text, &reading.flags, ""), CLIENTS, "{head}");
    }
}

/// Flags were looked for in one form of a time, and for three addresses.
#[test]
fn flags_are_found_for_other_times_and_for_many_addresses() {
    let text =
        lines(r#"10.0.0.5 203.0.113.@ - - [2026-05-24T10:00:00Z] "GET /# HTTP/1.1" 200 10 "-" "curl""#);
    let flags: Vec<String> = readings(&text).into_iter().map(|reading| reading.flags).collect();
    assert_eq!(clients(&text, &flags[0], ""), PROXY);
    assert_eq!(clients(&text, &flags[1], ""), CLIENTS);
    let text = lines(&format!("10.0.0.5 10.0.0.6 10.0.0.7 203.0.113.@ - - {REST}"));
    let readings = readings(&text);
    assert_eq!((readings.len(), readings[3].place.as_str()), (4, "the 4th address"));
    assert_eq!(clients(&text, &readings[3].flags, ""), CLIENTS);
    // A user with a blank in one line of nine.
    let text: String = lines(&format!("10.0.0.5 203.0.113.@ - U {REST}"))
        .lines()
        .enumerate()
        .map(|(place, line)| line.replace(" U ", if place % 9 == 0 { " John Doe " } else { " - " }) + "\n")
        .collect();
    assert_eq!(clients(&text, &self::readings(&text)[1].flags, ""), CLIENTS);
}

/// The flag for these fitted one example only.
#[test]
fn a_format_is_proposed_that_reads_the_lines() {
    let lines_of = [
        "203.0.113.@ - - [24/May/2026:10:00:00 +0000] GET /# HTTP/1.1 200 10",
        "[24/May/2026:10:00:00 +0000] 203.0.113.@ \"GET /# HTTP/1.1\" 200 10 \"-\" \"curl\"",
        "ts=2026-05-24T10:00:00Z level=info msg=\"request done\" remote=203.0.113.@ method=GET path=/# status=200 dur=3ms",
        "2026-05-24T10:00:00Z heroku[router]: at=info method=GET path=\"/#\" host=a.example fwd=\"203.0.113.@\" status=200",
        "2026-05-24T10:00:00Z,203.0.113.@,GET,/#,200",
        "2026-05-24T10:00:00Z, 203.0.113.@, GET, /#, 200",
        "2026-05-24T10:00:00Z|203.0.113.@|GET|/#|200",
        "web-1 | 2026-05-24T10:00:00Z 203.0.113.@ GET /# 200",
    ];
    for line in lines_of {
        let text = lines(line);
        let error = read_all(vec![log(&text)], Options::default()).2.unwrap_err();
        let Error::UnknownFormat { format: Some(format), .. } = &error else { panic!("{line}: {error}") };
        assert!(error.to_string().contains(&format!("--format '{format}'")), "{error}");
        assert_eq!(clients(&text, &format!("--format '{format}'"), ""), CLIENTS, "{format}");
    }
    // Nobody knows which of two addresses is the client's, and a list has no single one.
    for line in [
        "203.0.113.@ 10.0.0.1 2026-05-24T10:00:00Z GET /#",
        "fwd=\"203.0.113.@, 10.0.0.1\" time=2026-05-24T10:00:00Z path=/#",
    ] {
        let error = read_all(vec![log(lines(line))], Options::default()).2.unwrap_err();
        assert!(matches!(error, Error::UnknownFormat { format: None, .. }), "{error}");
    }
}

/// `kubectl logs --prefix` names the pod and the container.
#[test]
fn the_prefix_of_kubectl_is_cut_off() {
    let text = lines(&format!("[pod/web-7d9f-x2k4p/controller] 203.0.113.@ - - {REST}"));
    let (requests, summary, result) = read_all(vec![log(text)], Options::default());
    result.unwrap();
    assert!(requests[0].contains(" 203.0.113.0 GET /"), "{}", requests[0]);
    assert_eq!(summary.files[0].format.as_deref(), Some("combined in kubectl"));
    // The name of a container of Compose is no address.
    let text = lines(&format!("10.0.0.5 | 203.0.113.@ - - {REST}"));
    let readings = readings(&text);
    assert_eq!(clients(&text, &readings[1].flags, ""), CLIENTS);
}

#[test]
fn virtual_hosts_with_names_are_no_doubt() {
    for (host, is_certain) in [
        ("a.example:443", true),
        // A server without a name calls itself by its address.
        ("172.17.0.2:80", true),
        ("172.17.0.2:@443", false),
    ] {
        let text = lines(&format!("{host} 203.0.113.@ - - {REST}"));
        let (requests, _, result) = read_all(vec![log(&text)], Options::default());
        assert_eq!(result.is_ok(), is_certain, "{host}");
        if is_certain {
            assert!(requests[0].contains(" 203.0.113.0 GET /"), "{}", requests[0]);
        } else {
            let readings = readings(&text);
            assert_eq!(clients(&text, &readings[0].flags, ""), ["172.17.0.2"; 3]);
            assert_eq!(readings[1].flags, "--format apache-vhost");
            assert_eq!(clients(&text, &readings[1].flags, ""), CLIENTS);
        }
    }
}

#[test]
fn lists_in_the_place_of_the_client_are_refused_with_a_flag_for_the_networks() {
    for (head, place) in [
        ("203.0.113.@, 10.0.0.5 - -", 0),
        ("203.0.113.@,10.0.0.5 - -", 0),
        ("198.51.100.1, 203.0.113.@, 10.0.0.6 10.0.0.5 - -", 0),
        ("10.0.0.5 203.0.113.@, 10.0.0.6 - -", 1),
        ("10.0.0.5 203.0.113.@,10.0.0.6 - -", 1),
    ] {
        let text = lines(&format!("{head} {REST}"));
        let readings = readings(&text);
        let list = &readings[place];
        assert!(list.flags.ends_with(" --attr ip=xff:NETWORKS"), "{head}: {}", list.flags);
        assert_eq!(clients(&text, &list.flags, "10.0.0.0/8"), CLIENTS, "{head}: {}", list.flags);
        if let Some(proxy) = readings.iter().find(|other| !std::ptr::eq(*other, list)) {
            assert_eq!(clients(&text, &proxy.flags, ""), PROXY, "{head}");
        }
    }
}

#[test]
fn two_fields_with_addresses_are_refused_with_a_flag_for_each() {
    let json = r#"{"time":"2026-05-24T10:00:00Z","remote_addr":"10.0.0.5","client_ip":"203.0.113.@","method":"GET","path":"/#","status":200}"#;
    let csv = format!(
        "time,remote_addr,client_ip,method,path\n{}",
        lines("2026-05-24T10:00:00Z,10.0.0.5,203.0.113.@,GET,/#")
    );
    for text in [lines(json), csv] {
        let readings = readings(&text);
        assert_eq!(readings.len(), 2);
        assert_eq!(readings[0].place, "the field remote_addr");
        assert_eq!(clients(&text, &readings[0].flags, ""), PROXY);
        assert_eq!(clients(&text, &readings[1].flags, ""), CLIENTS);
        // A name of the format does not say which field is meant.
        let format = if text.starts_with('{') { "json" } else { "csv" };
        let options = Options { format: Some(format.parse().unwrap()), ..Options::default() };
        assert!(matches!(read_all(vec![log(&text)], options).2, Err(Error::UnclearClient { .. })));
    }
    let same = lines(&json.replace("10.0.0.5", "203.0.113.@:80"));
    let (requests, _, result) = read_all(vec![log(&same)], Options::default());
    result.unwrap();
    assert!(requests[0].contains(" 203.0.113.0 GET /"), "{}", requests[0]);
    let list = lines(&json.replace("10.0.0.5", "203.0.113.@, 10.0.0.5").replace("client_ip", "x"));
    let readings = readings(&list);
    assert_eq!(readings[0].flags, "--attr ip=xff:NETWORKS");
    assert_eq!(clients(&list, &readings[0].flags, "10.0.0.0/8"), CLIENTS);
}

/// Behind the first lines, a line with another text for its client is one that does not fit.
#[test]
fn later_lines_without_one_client_do_not_fit() {
    let usual = lines(&format!("203.0.113.@ - - {REST}")).repeat(6);
    let others = [
        "203.0.113.1,10.0.0.5 - -",
        "web nginx 203.0.113.1 - -",
        "\"203.0.113.1\" - -",
        "203.0.113.1, 10.0.0.5 - -",
    ];
    for other in others {
        let text = format!("{usual}{other} {REST}\n[::1]:80 - - {REST}\n- - - {REST}");
        let (requests, summary, result) = read_all(vec![log(text)], Options::default());
        result.unwrap();
        assert_eq!(requests.len(), 1_202, "{other}");
        assert_eq!(
            (summary.unparsed[0].reason, summary.unparsed[0].lines),
            ("the client is not one address", 1)
        );
    }
    let named = format!("{usual}\nh.example - - {REST}");
    let options = Options { format: Some("combined".parse().unwrap()), ..Options::default() };
    assert_eq!(read_all(vec![log(named)], options).0.len(), 1_201);
}

#[test]
fn clients_with_names_are_told() {
    for (head, has_names) in [("h@.example - -", true), ("203.0.113.@ - -", false), ("- - -", false)] {
        let (requests, summary, result) =
            read_all(vec![log(lines(&format!("{head} {REST}")))], Options::default());
        result.unwrap();
        assert_eq!((requests.len(), summary.files[0].has_names), (200, has_names), "{head}");
    }
}

#[test]
fn a_list_alone_asks_for_the_networks() {
    let text = lines(&format!("203.0.113.@, 10.0.0.5 - - {REST}"));
    let error = read_all(vec![log(text)], Options::default()).2.unwrap_err().to_string();
    assert!(
        error.starts_with("test.log: line 1 has a list of addresses in the place of the client; a flag"),
        "{error}"
    );
    assert!(error.contains("\n  NETWORKS are those of your own proxies, such as 10.0.0.0/8"), "{error}");
}

/// The message shows no address, and all flags.
#[test]
fn the_refusal_shows_shapes_and_flags() {
    let text = lines(&format!("10.0.0.5 203.0.113.@ - - {REST}"));
    let error = read_all(vec![log(text)], Options::default()).2.unwrap_err().to_string();
    let expected = "test.log: line 1 does not show for certain who its client is; a flag must choose one of these
  the 1st address (1 different in 200 lines):
    --format '$remote_addr $proxy - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
    \"$http_referer\" \"$http_user_agent\"'
  the 2nd address (50 different in 200 lines):
    --format '$proxy $remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \
    \"$http_user_agent\"'
  the shape of the line: 0.0.0.0 0.0.0.0 - - [0/a/0:0:0:0 +0] \"a /0 a/0.0\" 0 0 \"-\" \"a\"";
    assert_eq!(error, expected);
}
