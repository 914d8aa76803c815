//! Logs that are empty, damaged, sampled or split.

use std::fs;

use serde_json::Value;

use super::{Folder, POLICIES, flowing, line, ten_days};

#[test]
fn a_log_alone_is_answered_with_its_routes_and_clients() {
    let folder = Folder::new();
    let (status, said, error) = folder.run(&["simulate", "access.log"]);
    assert_eq!((status, error.as_str()), (Some(0), ""));
    assert!(said.contains("POST /login") || said.contains("GET /login"), "{said}");
    assert!(said.contains("Busiest clients") && !said.contains("192.0.2.66"), "{said}");
    assert!(!said.contains("denied most often"), "{said}");
    folder.write("empty.log", "");
    assert_eq!(folder.run(&["simulate", "empty.log"]).0, Some(3));
    folder.write("limits.conf", "polices:\n  - name: a\n");
    for (arguments, expected) in [
        (&["policies.yaml"][..], "policies.yaml holds policies; name a log after it"),
        (&["access.log", "--fail-if", "denied > 0"], "--fail-if needs policies"),
        (&["access.log", "--baseline", "policies.yaml"], "--baseline needs policies"),
        (
            &["empty.log", "access.log"],
            "empty.log is empty, so it may be a policy file or a log: write `--config empty.log`",
        ),
        (&["missing", "access.log"], "missing cannot be read"),
        (&["missing.log"], "missing.log"),
        (&["limits.conf", "access.log"], "limits.conf:1:1: unknown key `polices`"),
    ] {
        let (status, said, error) = folder.run(&[&["simulate"], arguments].concat());
        assert_eq!((status, said.as_str()), (Some(2), ""), "{arguments:?} {error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn an_empty_log_is_said_to_give_no_answer() {
    let folder = Folder::new();
    folder.write("empty.log", "");
    let (status, said, _) = folder.run(&["simulate", "policies.yaml", "empty.log"]);
    assert_eq!(status, Some(3));
    assert!(said.starts_with("There are no requests to replay, so there is no answer.\n"), "{said}");
}

/// A log that is half unreadable passed as if it were whole, and one of another day passed with no request at all.
#[test]
fn logs_without_an_answer_have_status_3() {
    let folder = Folder::new();
    let text = fs::read_to_string(folder.path("access.log")).unwrap();
    folder.write("broken.log", &(text.repeat(10) + &"what is this?\n".repeat(3)));
    let (status, said, error) = folder.run(&["simulate", "policies.yaml", "broken.log"]);
    assert_eq!((status, said.as_str()), (Some(3), ""), "{error}");
    assert!(error.contains("3 of 123 lines cannot be read"), "{error}");
    // Lines hold addresses and tokens, and standard error is kept in logs of its own.
    assert!(
        error.contains("  broken.log:121, of the shape: a a a?\n") && !error.contains("what is"),
        "{error}"
    );
    let (.., error) = folder.run(&["simulate", "policies.yaml", "broken.log", "--show-keys"]);
    assert!(error.contains("  broken.log:121: what is this?\n"), "{error}");
    folder.write("unknown.log", &(text.repeat(2) + &"token=hunter2\n".repeat(3)));
    for (flags, quoted) in [(&[][..], false), (&["--show-keys"], true)] {
        let arguments = [&["simulate", "policies.yaml", "unknown.log"], flags].concat();
        let (status, _, error) = folder.run(&arguments);
        assert_eq!((status, error.contains("hunter2")), (Some(2), quoted), "{error}");
        assert!(error.contains("not line 25; if it is the right one, add --format combined"), "{error}");
        assert!(error.contains("the shape of this line: a=a"), "{error}");
    }
    let (status, ..) = folder.run(&["simulate", "policies.yaml", "broken.log", "--max-unparsed", "50%"]);
    assert_eq!(status, Some(0));
    fs::write(folder.path("cut.log.gz"), b"\x1f\x8b\x08\x00").unwrap();
    let (status, _, error) = folder.run(&["simulate", "policies.yaml", "cut.log.gz"]);
    assert_eq!((status, error.contains("cut.log.gz: cannot be read")), (Some(3), true), "{error}");
    let (status, said, _) = folder.simulate(&["--from", "2027-01-01T00:00:00Z"]);
    assert_eq!(status, Some(3), "{said}");
    let note = "(--from, --to). Those in the logs are from 2026-11-23T12:00:00.25+00:00 to 2026-11-23T12:00:09.5+00:00.";
    assert!(
        flowing(&said).contains(note) && !said.contains("--attr") && !said.contains("policy `"),
        "{said}"
    );
}

/// Each of these gave figures that looked right.
#[test]
fn logs_that_do_not_fit_the_flags_are_noted() {
    let folder = Folder::new();
    let noted = |arguments: &[&str], note: &str| {
        let (_, said, error) = folder.simulate(arguments);
        assert!(flowing(&said).contains(&format!(" - {note}")), "{arguments:?}: {said}{error}");
    };
    let (status, said, error) = folder.simulate(&["--attr", "ip=xff:10.0.0.0/8"]);
    assert_eq!((status, said.as_str()), (Some(2), ""), "{error}");
    assert!(error.contains("--attr ip=xff: no request in the logs has X-Forwarded-For; leave"), "{error}");
    let text = fs::read_to_string(folder.path("access.log")).unwrap();
    folder.write("proxied.log", &text.replace("\"Mozilla/5.0\"", "\"Mozilla/5.0\" \"203.0.113.9\""));
    let (_, said, _) =
        folder.run(&["simulate", "policies.yaml", "proxied.log", "--attr", "ip=xff:192.0.2.0/24"]);
    assert!(!said.contains("X-Forwarded-For") && said.contains("They come from 1 of 1 client;"), "{said}");
    let forwarded =
        |entry: &str| text.replace("\"Mozilla/5.0\"", &format!("\"Mozilla/5.0\" \"203.0.113.9, {entry}\""));
    folder.write("hidden.log", &[forwarded("unknown"), forwarded("")].concat());
    for command in [&["simulate", "policies.yaml"][..], &["suggest"]] {
        let arguments = [command, &["hidden.log", "--sort", "--attr", "ip=xff:192.0.2.0/24"]].concat();
        let (_, said, error) = folder.run(&arguments);
        let said = flowing(&said);
        for note in [
            "12 requests: a proxy's entry in X-Forwarded-For is no address, such as `unknown`, so `ip` is that of the proxy.",
            "12 requests: a proxy's entry in X-Forwarded-For is empty, so `ip` is missing; the service answers 400.",
        ] {
            assert!(said.contains(note), "{said}{error}");
        }
    }
    folder.write("own.log", "{\"time\":\"2026-11-23T12:00:00Z\",\"ip\":\"::1\",\"path\":\"/login\"}\n");
    let typo = ["simulate", "policies.yaml", "own.log", "--attr", "user=json:/usr"];
    let (_, said, _) = folder.run(&typo);
    assert!(
        flowing(&said).contains("No request in the logs has `user` in the place that --attr names. "),
        "{said}"
    );
    folder.write("access.log", &text.repeat(9));
    fs::copy(folder.path("access.log"), folder.path("access.log.1")).unwrap();
    noted(
        &["access.log.1"],
        "`access.log` and `access.log.1` look like copies of one log, so its requests count twice.",
    );
    folder.write("access.log.1", &text.repeat(9).replace(":12:00:", ":12:01:"));
    assert!(!folder.simulate(&["access.log.1"]).1.contains("copies"));
    let (status, _, error) =
        folder.simulate(&["--from", "2026-11-24T00:00:00Z", "--to", "2026-11-23T00:00:00Z"]);
    assert_eq!((status, error.as_str()), (Some(2), "error: --from is not before --to\n"));
    let (_, said, _) = folder.run(&["suggest", "access.log", "--match", "path: /logn"]);
    assert!(
        said.contains("No request meets the conditions of --match.")
            && !flowing(&said).contains("take a week"),
        "{said}"
    );
}

/// Estimates looked like counts, and more days were advised where they bring no more clients.
#[test]
fn client_figures_of_a_sample_are_marked_as_estimates() {
    let folder = Folder::new();
    ten_days(&folder);
    folder.write("policies.yaml", &POLICIES.replace("/login", "/"));
    let sampled = ["days.log", "--max-clients", "50"];
    let (_, said, _) = folder.run(&[&["simulate", "policies.yaml"], &sampled[..]].concat());
    assert!(said.contains("\nThey come from about "), "{said}");
    let suggested = |arguments: &[&str]| flowing(&folder.run(&[&["suggest"], arguments].concat()).1);
    let said = suggested(&sampled);
    let advice = "is followed; a larger --max-clients follows more. ";
    assert!(said.contains(advice) && !said.contains("more would be"), "{said}");
    assert!(said.contains(" requests of about "), "{said}");
    assert!(said.contains(" With --max-clients "), "{said}");
    let said = suggested(&["days.log", "--max-clients", "2000"]);
    assert!(said.contains("days more would be enough, with --max-clients "), "{said}");
    let said = suggested(&["days.log"]);
    assert!(said.contains("days more would be enough. "), "{said}");
}

/// A log whose lines are no requests vanished without a word.
#[test]
fn lines_without_a_request_are_told() {
    let folder = Folder::new();
    let text = fs::read_to_string(folder.path("access.log")).unwrap();
    folder.write("access.log", &format!("\n{text}\n"));
    let (_, said, _) = folder.simulate(&["--report", "report.html"]);
    assert!(said.contains("Read 14 lines in 1 file, 2 without a request (14.3 %)\n"), "{said}");
    let page = fs::read_to_string(folder.path("report.html")).unwrap();
    assert!(page.contains("14 lines in 1 file, 2 without a request (14.3 %)."), "{page}");
    let docker = r#"{"log":"GET / 200\n","stream":"stdout","time":"2026-11-23T12:00:00.1Z"}"#;
    folder.write("docker.log", docker);
    let (status, said, error) = folder.run(&["simulate", "policies.yaml", "access.log", "docker.log"]);
    assert_eq!((status, said.as_str()), (Some(2), ""));
    assert!(error.contains("docker.log: no known format") && error.contains("--attr"), "{error}");
}

/// Gaps were in UTC, whatever the zone, and those outside `--from` and `--to` hid those inside.
#[test]
fn gaps_are_in_the_zone_and_between_the_requests_that_are_replayed() {
    let folder = Folder::new();
    // Ten gaps of an hour, which are as many as are told, and one of twenty minutes.
    let minutes = (0..=10).map(|hour| hour * 60).chain([620]);
    let log: String = minutes
        .map(|minute| {
            line("192.0.2.1", 0, "/", 200)
                .replace(":12:00:00", &format!(":{:02}:{:02}:00", minute / 60, minute % 60))
        })
        .collect();
    folder.write("access.log", &log);
    let gaps = |arguments: &[&str]| {
        let (_, said, _) = folder.simulate(&[&["--json", "--tz", "Europe/Berlin"], arguments].concat());
        let json: Value = serde_json::from_str(&said).unwrap();
        let gaps = json["read"]["gaps"].as_array().unwrap().clone();
        let gaps =
            gaps.iter().map(|gap| [&gap["from"], &gap["to"]].map(|time| time.as_str().unwrap().to_owned()));
        gaps.collect::<Vec<_>>()
    };
    let all = gaps(&[]);
    assert_eq!((all.len(), all[0][0].as_str()), (10, "2026-11-23T01:00:00.5+01:00"));
    let last = [["2026-11-23T11:00:00.5+01:00", "2026-11-23T11:20:00.5+01:00"].map(str::to_owned)];
    assert_eq!(gaps(&["--from", "2026-11-23T09:30:00Z"]), last);
    assert_eq!(gaps(&["--to", "2026-11-23T01:00:00Z"]), [[""; 2]; 0]);
}

/// Unreadable lines contain addresses as well.
#[test]
fn unreadable_lines_are_hidden_with_the_keys() {
    let folder = Folder::new();
    let text = fs::read_to_string(folder.path("access.log")).unwrap();
    folder.write("access.log", &(text + "192.0.2.99 is cut o"));
    let arguments = ["--max-unparsed", "50%"];
    for form in [&[][..], &["--json"], &["--md"]] {
        let (status, said, _) = folder.simulate(&[&arguments, form].concat());
        assert_eq!(status, Some(0));
        assert!(!said.contains("192.0.2.99"), "{said}");
        assert_eq!(said.contains("access.log:13"), form != ["--md"], "{said}");
        assert_eq!(said.contains("0.0.0.0 a a a"), form != ["--md"], "{said}");
    }
    let (_, said, _) = folder.simulate(&[&arguments[..], &["--show-keys"]].concat());
    assert!(said.contains("access.log:13: 192.0.2.99 is cut o\n"), "{said}");
}

/// A log of a day with times to the millisecond, none of them twice, or to the second.
fn day_of(random: &mut u32, is_coarse: bool) -> Vec<String> {
    let mut next = |end: u32| {
        *random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (*random >> 8) % end
    };
    let mut millis = 0;
    let lines = (0..400).map(|number| {
        millis += if is_coarse { 1_000 * (1 + next(200)) } else { 1 + next(200_000) };
        let (second, milli) = (1_795_392_000 + u64::from(millis / 1_000), millis % 1_000);
        let time = if is_coarse { second.to_string() } else { format!("{second}.{milli:03}") };
        let (ip, agent) = (next(9), next(3));
        let path = ["/login", "/me", "/%6Cogin?x", "/other"][next(4) as usize];
        let status = if number % 7 == 0 { 429 } else { 200 };
        format!(
            "{{\"ts\":{time},\"ip\":\"192.0.2.{ip}\",\"path\":\"{path}\",\"user\":\"u{}\",\"status\":{status},\
             \"user_agent\":\"agent {agent}\"}}\n",
            ip % 4
        )
    });
    lines.collect()
}

/// How requests are stored changes nothing in the report but the names of files.
#[test]
fn shuffled_split_and_compressed_logs_have_the_report_of_the_plain_one() {
    const LIMITS: &str = "policies:
  - { name: login, match: { path: /login }, key: [ip], quotas: [1/1h, 3/1d@first_hit], candidate: [2/1h] }
  - { name: user, match: { path: /me }, key: [user], quotas: [2/1h@staggered], mode: shadow }
  - { name: all, key: [ip], quotas: [9/day@Europe/Berlin] }
";
    let gzip = |text: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, text).unwrap();
        encoder.finish().unwrap()
    };
    let zstd =
        |text: &[u8]| ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest);
    let folder = Folder::new();
    folder.write("limits.yaml", LIMITS);
    folder.write("old.yaml", POLICIES);
    let report = |log: &str, more: &[&str]| -> Value {
        let arguments = ["simulate", "limits.yaml", log, "--baseline", "old.yaml", "--json", "--show-keys"];
        let classes = ["--class", "one=user_agent: agent 1", "--try-limits", "1"];
        let (status, said, error) = folder.run(&[&arguments[..], &classes, more].concat());
        assert_eq!((status, error.as_str()), (Some(0), ""));
        let mut report: Value = serde_json::from_str(&said).unwrap();
        report["read"]["files"].take();
        report
    };
    let mut random = 1;
    for round in 0..3 {
        let lines = day_of(&mut random, round % 2 == 0);
        let mut cut = || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) as usize % lines.len()
        };
        folder.write("plain.log", &lines.concat());
        let plain = report("plain.log", &[]);
        assert!(plain["denied"].as_u64() > Some(50), "{plain}");
        assert!(plain["compared"]["newly_denied"].as_u64() > Some(0), "{plain}");

        let mut shuffled = lines.clone();
        for place in (1..shuffled.len()).rev() {
            shuffled.swap(place, cut() % (place + 1));
        }
        folder.write("shuffled.log", &shuffled.concat());
        assert_eq!(report("shuffled.log", &["--sort"]), plain, "shuffled, round {round}");

        let (one, two) = lines.split_at(cut());
        let (two, three) = two.split_at(two.len() / 2);
        // Each line is in one of three files, and the second pair of files follow each other.
        let _ = fs::remove_dir_all(folder.path("parts"));
        fs::create_dir(folder.path("parts")).unwrap();
        let of = |lines: &[String], part: usize| -> String {
            lines
                .iter()
                .enumerate()
                .filter(|(place, _)| place % 2 == part)
                .map(|(_, line)| line.as_str())
                .collect()
        };
        let parts = [("b", of(one, 0)), ("a", of(one, 1)), ("z.log", two.concat()), ("c", three.concat())];
        for (name, text) in parts {
            folder.write(&format!("parts/{name}"), &text);
        }
        for order in [&[][..], &["--sort"]] {
            assert_eq!(report("parts", order), plain, "in parts, round {round}, {order:?}");
        }

        for (name, compress) in [("log.gz", &gzip as &dyn Fn(&[u8]) -> Vec<u8>), ("log.zst", &zstd)] {
            let members = [one, two, three].map(|lines| compress(lines.concat().as_bytes()));
            fs::write(folder.path(name), members.concat()).unwrap();
            assert_eq!(report(name, &[]), plain, "{name}, round {round}");
        }
    }
}

/// Values that are not UTF-8 were replayed with the sign of a damaged character. The service answers them 400.
/// The next batch is read while one is replayed.
#[test]
fn a_log_of_several_batches_is_replayed_whole_or_not_at_all() {
    let folder = Folder::new();
    let lines = (0..100_000).map(|number| {
        line(
            &format!("192.0.2.{}", number % 250),
            number / 100,
            if number % 3 > 0 { "/login" } else { "/me" },
            200,
        )
    });
    let log: String = lines.collect();
    folder.write("long.log", &log);
    let report = |arguments: &[&str]| {
        let (status, said, error) =
            folder.run(&[&["simulate", "policies.yaml", "long.log", "--json"], arguments].concat());
        assert_eq!((status, error.as_str()), (Some(0), ""));
        serde_json::from_str::<Value>(&said).unwrap()
    };
    let in_batches = report(&[]);
    assert_eq!((&in_batches["requests"], &in_batches["read"]["lines"]), (&100_000.into(), &100_000.into()));
    assert_eq!(in_batches, report(&["--sort"]));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, log.as_bytes()).unwrap();
    let compressed = encoder.finish().unwrap();
    fs::write(folder.path("cut.log.gz"), &compressed[..compressed.len() * 9 / 10]).unwrap();
    let (status, said, error) = folder.run(&["simulate", "policies.yaml", "cut.log.gz"]);
    assert_eq!((status, said.as_str()), (Some(3), ""));
    assert_eq!(error.matches("cut.log.gz: cannot be read").count(), 1, "{error}");
}

/// In a sampled log, each client seems to ask for less than it did.
#[test]
fn samples_are_refused_unless_somebody_asks_for_estimates() {
    let folder = Folder::new();
    let google = r#"{"timestamp":"2026-11-23T12:00:00Z","httpRequest":{"requestMethod":"GET","requestUrl":"http://a/login","status":200,"remoteIp":"192.0.2.1"}}"#;
    folder.write("google.log", &format!("{google}\n").repeat(12));
    let own = r#"{"ip":"192.0.2.1","method":"GET","path":"/","status":200,"user":"a","host":"b","bytes":1,"#;
    folder.write("enriched.log", &format!("{}\n", google.replacen('{', own, 1)).repeat(12));
    for command in [&["simulate", "policies.yaml"][..], &["suggest"]] {
        let run = |log, flags: &[&str]| folder.run(&[command, &[log], flags].concat());
        let (status, said, error) = run("google.log", &[]);
        assert_eq!((status, said.as_str()), (Some(3), ""));
        let why = "logs of Cloudflare and Google Cloud may hold only a sample";
        assert!(error.contains(&format!("google.log: {why}")), "{error}");
        // With fields of its own, it is read as plain JSON.
        let (status, said, error) = run("enriched.log", &[]);
        assert_eq!((status, said.as_str()), (Some(3), ""));
        assert!(error.contains(&format!("enriched.log: {why}")), "{error}");
        assert!(error.contains("--estimate") && error.contains("--sample-rate 100%"), "{error}");
        let (_, said, error) = run("google.log", &["--sample-rate", "100%"]);
        assert!(error.is_empty() && !said.contains("sample"), "{error}{said}");
        let (_, said, error) = run("google.log", &["--estimate"]);
        assert!(error.is_empty() && said.contains("may hold only a sample"), "{error}{said}");
        let (status, said, error) = run("access.log", &["--sample-rate", "10%"]);
        assert_eq!((status, said.as_str()), (Some(3), ""));
        assert!(error.contains("the logs hold 10 % of all requests"), "{error}");
        let (_, said, error) = run("access.log", &["--sample-rate", "10%", "--estimate"]);
        assert!(error.is_empty() && said.contains("there were about 120."), "{error}{said}");
    }
    let arguments = ["--sample-rate", "10%", "--estimate", "--min-requests", "1", "--fail-if"];
    let gate = |gate: &str| folder.simulate(&[&arguments[..], &[gate]].concat());
    for (text, expected) in [("denied > 60%", 3), ("denied < 50%", 0), ("denied > 50%", 1)] {
        let (status, said, _) = gate(text);
        assert_eq!(status, Some(expected), "{text}: {said}");
        assert!(said.contains("58.3 % (7 of 12 requests, perhaps in a sample)"), "{said}");
    }
}

/// They were counted alone, so nobody could see which lines were meant.
#[test]
fn late_lines_are_shown_as_unreadable_ones_are() {
    let folder = Folder::new();
    let mut log: String = (0..600).map(|_| line("192.0.2.1", 59, "/login", 200)).collect();
    log += &line("192.0.2.1", 59, "/login", 200).replace(":12:", ":13:").repeat(600);
    log += &line("192.0.2.66", 7, "/late?token=abc", 200);
    folder.write("access.log", &log);
    let (status, said, _) = folder.simulate(&[]);
    assert_eq!(status, Some(0), "{said}");
    let shown = "1 late line, too far behind those before them: access.log:1201, of the shape: 0.0.0.0 - - [0/a/0:0:0:0 +0] ";
    assert!(flowing(&said).contains(shown) && !said.contains("token"), "{said}");
    let (_, said, _) = folder.simulate(&["--show-keys"]);
    assert!(said.contains("    access.log:1201: 192.0.2.66 - - ") && said.contains("token=abc"), "{said}");
    let (_, said, _) = folder.simulate(&["--json"]);
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["read"]["late_examples"][0]["place"], "access.log:1201");
    assert_eq!(report["read"]["late_examples"][0]["text"], Value::Null);
    // Too many of them.
    let (status, _, error) = folder.simulate(&["--max-unparsed", "0%"]);
    assert_eq!(status, Some(3));
    let shown = "1 line: too far behind those before them\n  access.log:1201, of the shape: ";
    assert!(error.contains(shown) && !error.contains("token"), "{error}");
}
