//! The report in each of its forms, compared with files that people have looked at.

#![allow(clippy::unwrap_used, reason = "this is a test")]

mod common;

use std::path::Path;

use tollgate::Timestamp;
use tollgate_policy::{Config, Identity};
use tollgate_simulate::{CheckedReport, Gate, Hit, Note, Options, ReadFile, ReadReport, Replay, UnreadLines};

use self::common::{OLD, POLICIES, report};

fn answer() -> CheckedReport {
    let mut report = report(POLICIES, Some(OLD));
    report.hide_keys();
    report.read = Some(ReadReport {
        files: vec![ReadFile {
            name: "access.log".to_owned(),
            format: Some("nginx-combined".to_owned()),
            instant: Some("logs when requests end".to_owned()),
            precision: Some("to the second".to_owned()),
            lines: 882,
            requests: report.requests,
        }],
        lines: 882,
        others: 5,
        unparsed_lines: 2,
        ..ReadReport::default()
    });
    let gates = ["denied > 0.1%", "newly_denied_clients > 0"];
    let gates = gates.map(|gate| gate.parse::<Gate>().unwrap().check(&report, 1).unwrap());
    CheckedReport::new(report, gates.to_vec())
}

/// TOLLGATE_WRITE_SNAPSHOTS=1 writes the file.
fn expect(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reports").join(name);
    if std::env::var_os("TOLLGATE_WRITE_SNAPSHOTS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert!(text == expected, "{} has changed:\n{text}", path.display());
}

#[test]
fn the_text_is_as_it_was() {
    expect("report.txt", &answer().to_string());
}

#[test]
fn the_markdown_is_as_it_was() {
    expect("report.md", &answer().markdown());
}

/// It is posted to pull requests, and listed the clients with the paths and user agents that they sent.
#[test]
fn the_markdown_names_no_client_and_begins_with_the_changes() {
    let markdown = answer().markdown();
    for part in ["client-", "evil", "crawler", "/login", "/pages/2"] {
        assert!(!markdown.contains(part), "{part}: {markdown}");
    }
    let first = markdown.lines().find(|line| line.starts_with("#### "));
    assert_eq!(first, Some("#### Compared with the policies of --baseline"));
    for kept in ["#### Denied requests by their status in the log", "#### Classes", "#### Peak load"] {
        assert!(markdown.contains(kept), "{kept}: {markdown}");
    }
}

#[test]
fn the_json_is_as_it_was() {
    let json: serde_json::Value = serde_json::from_str(&answer().json()).unwrap();
    expect("report.json", &(serde_json::to_string_pretty(&json).unwrap() + "\n"));
}

#[test]
fn the_page_is_as_it_was() {
    expect("report.html", &answer().html());
}

/// It can be opened from a mail: nothing is fetched, names that strangers chose stay text, and the script writes text
/// alone.
#[test]
fn the_page_needs_nothing_else_and_makes_no_html() {
    let page = answer().html();
    assert_eq!(page.matches("<script").count(), 1);
    for part in ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "fetch(", "import", "eval"] {
        assert!(!page.contains(part), "{part}");
    }
    // Links lead to parts of the page alone.
    assert_eq!(page.matches("href=").count(), page.matches("<a href=\"#").count());
    for part in ["src=", "url(", "@import", "style=\"", "<b>`x`", "http:", "https:"] {
        assert!(!page.contains(part), "{part}");
    }
    assert!(page.contains("evil|&lt;b&gt;`x`"));
    assert!(page.contains("default-src 'none'"));
}

/// Thousands of policies and years of days still give a page that a browser opens at once.
#[test]
fn the_page_stays_below_a_megabyte() {
    let mut answer = answer();
    let (policy, day) = (answer.report.policies[2].clone(), answer.report.days[0].clone());
    answer.report.policies.extend((0..3_000).map(|_| policy.clone()));
    answer.report.days.extend((0..3_000).map(|_| day.clone()));
    let length = answer.html().len();
    assert!(length < 1_000_000, "{length}");
}

/// Long names and many of everything passed the bound, and tables ended after 500 rows without a word: the only
/// policy with traffic was not among them.
#[test]
fn the_page_shows_what_matters_and_says_what_it_leaves_out() {
    let mut answer = answer();
    let policy = answer.report.policies[2].clone();
    let class = policy.classes[0].clone();
    answer.report.policies = (0..900)
        .map(|number| {
            let mut policy = policy.clone();
            policy.policy = format!("p{number:04}{}", "<".repeat(59));
            policy.classes = (0..4)
                .map(|number| {
                    let mut class = class.clone();
                    class.class = format!("class{number}{}", "&".repeat(50));
                    class
                })
                .collect();
            if number != 800 {
                (policy.requests, policy.denied, policy.denied_clients) = (0, 0, 0);
                policy.quotas.iter_mut().for_each(|quota| (quota.requests, quota.denied) = (0, 0));
                policy.classes.iter_mut().for_each(|class| (class.requests, class.denied) = (1, 0));
            }
            policy
        })
        .collect();
    let read = answer.report.read.as_mut().unwrap();
    let file = read.files[0].clone();
    read.files = (0..900)
        .map(|number| ReadFile { name: format!("{number}/{}", "d'".repeat(300)), ..file.clone() })
        .collect();
    let page = answer.html();
    assert!(page.len() < 1_000_000, "{}", page.len());
    let table = |caption: &str| {
        let begin = page
            .find(&format!("<table aria-label=\"{caption}\""))
            .unwrap_or_else(|| panic!("{caption}: {page}"));
        page[begin..].split("</table>").next().unwrap()
    };
    for caption in ["Policies", "How tight each limit is", "Classes"] {
        assert!(table(caption).contains("p0800"), "{}", table(caption));
    }
    for said in [" of 900 policies", " of 900 quotas", " of 900 files"] {
        assert!(page.contains(said), "{said}");
    }
    // Each that is shown could be as long.
    let quota = answer.report.policies[800].quotas[0].clone();
    for policy in &mut answer.report.policies {
        (policy.requests, policy.denied) = (1_000, 900);
        policy.quotas = vec![quota.clone()];
    }
    answer.report.notes = (0..900).map(|_| Note::OfLogs("<".repeat(900))).collect();
    answer.report.read.as_mut().unwrap().unparsed =
        (0..60).map(|_| UnreadLines { reason: "'".repeat(900), lines: 3, examples: Vec::new() }).collect();
    let page = answer.html();
    assert!(page.len() < 1_000_000, "{}", page.len());
}

/// The digest in the first column protected nothing: the name stood in the next one.
#[test]
fn a_hidden_key_is_not_printed_as_a_program_or_a_path() {
    for (client, attribute) in
        [("user_agent", "user_agent"), ("path", "path"), ("token", "user_agent"), ("token", "path")]
    {
        let text = format!("policies: [{{ name: api, key: [{client}], quotas: [1/1m], candidate: [0/1m] }}]");
        let policies = |text: &str| Config::parse("test.yaml", text).unwrap().into_policies();
        let before = policies(&text.replace("1/1m", "9/1m"));
        let options = Options { client: Identity::of_word(client).unwrap(), ..Options::default() };
        let mut replay = Replay::new(policies(&text), Some(before), options).unwrap();
        for second in 0..4 {
            let secret = if attribute == "path" { "/reset/SECRET" } else { "Program SECRET" };
            let mut hit =
                Hit::new(Timestamp::from_unix_millis(second), [(client, secret)].into_iter().collect());
            hit = Hit { user_agent: Some(b"Mozilla/5.0"), path: Some(b"/login"), ..hit };
            match attribute {
                "path" => hit.path = Some(b"/reset/SECRET"),
                _ => hit.user_agent = Some(b"Program SECRET"),
            }
            replay.request(hit).unwrap();
        }
        let mut report = replay.report();
        assert!(CheckedReport::new(report.clone(), Vec::new()).to_string().contains("SECRET"));
        report.hide_keys();
        let answer = CheckedReport::new(report, Vec::new());
        for said in [answer.to_string(), answer.html(), answer.markdown(), answer.json()] {
            assert!(!said.contains("SECRET"), "{client}, {attribute}: {said}");
        }
        // The other one is still told.
        let other = if attribute == "path" { "Mozilla/5.0" } else { "/login" };
        assert!(answer.to_string().contains(other), "{answer}");
    }
}

/// A reviewer saw figures, and not what they were figures of.
#[test]
fn the_markdown_says_what_was_read() {
    let said = answer().markdown();
    let expected = "Read 882 lines in 1 file, 5 without a request (0.567 %), 2 unreadable (0.227 %): nginx-combined format, \
                    times to the second; logs when requests end.\n";
    assert!(said.contains(expected), "{said}");
}

/// Whoever reads the page or a comment of a pull request does not have the manual at hand.
#[test]
fn the_marks_of_curves_are_explained_wherever_they_are_printed() {
    let answer = answer();
    let curves = answer.report.policies.iter().flat_map(|policy| &policy.quotas).count();
    // A terminal shows all curves below each other.
    for (text, times) in [(answer.to_string(), 1), (answer.markdown(), curves)] {
        let words = "replayed is the limit in the policies";
        assert_eq!(text.matches(words).count(), times, "{text}");
    }
    let page = answer.html();
    assert_eq!(page.matches("<b>replayed</b> is the limit in the policies").count(), 1, "{page}");
}
