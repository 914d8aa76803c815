//! Every command of the README is played. What needs a shared store is in `stores`.

#![allow(clippy::expect_used, reason = "this is a test")]

use std::fs;
use std::path::Path;

use serde_json::Value;
use tollgate_testkit::manual::{blocks, inline_code};

use crate::support::folder::Folder;
use crate::support::shell::{self, Curl};
use crate::support::{Reply, Server, tollgate};

const README: &str = include_str!("../../../../README.md");

/// What a reader types that no service is started for: the tests themselves.
const NOT_PLAYED: [&str; 1] = ["cargo xtask test"];

/// Played by `cargo xtask test`, or by `cargo xtask prove install`.
const PLAYED_ELSEWHERE: [&str; 3] = [
    "cargo install --locked --profile dist --path crates/tollgate-server",
    "cargo xtask dist",
    "cargo xtask docs",
];

/// A service of the page, and what is asked of it.
#[derive(Debug)]
struct Session<'a> {
    arguments: Vec<String>,
    /// The file of policies before it.
    file: Option<&'a str>,
    asked: Option<&'a str>,
    /// The answer that the page shows.
    shown: Option<&'a str>,
}

/// Returns the services of the page in their order. Fails at a command that no test knows.
fn sessions() -> Vec<Session<'static>> {
    let mut sessions: Vec<Session<'_>> = Vec::new();
    let mut file = None;
    for block in blocks(README) {
        match (block.language, block.text.trim()) {
            ("yaml", text) => file = Some(text),
            ("text", text) => sessions.last_mut().expect("a service before its answer").shown = Some(text),
            ("sh", command) if NOT_PLAYED.contains(&command) => {}
            ("sh", command) if command.starts_with("curl ") || command.starts_with("for ") => {
                let asked = &mut sessions.last_mut().expect("a service before its client").asked;
                assert_eq!(asked.replace(command), None, "two questions for one service");
            }
            ("sh", command) => match shell::arguments(command) {
                Some(arguments) if arguments[0] == "serve" => {
                    let file = file.take();
                    sessions.push(Session { arguments, file, asked: None, shown: None });
                }
                // `stores` runs it with a server.
                Some(arguments) if arguments[0] == "doctor" => {}
                _ => panic!("no test plays {command}"),
            },
            _ => {}
        }
    }
    sessions
}

impl Session<'_> {
    fn needs_a_store(&self) -> bool {
        self.arguments.iter().any(|argument| argument == "--store")
    }

    /// The address for checks, as the page has it.
    fn listen(&self) -> &str {
        let mut arguments = self.arguments.iter();
        let address = arguments.find(|argument| *argument == "--listen").and_then(|_| arguments.next());
        address.map_or("127.0.0.1:8080", String::as_str)
    }

    /// Returns the addresses that the service takes on this machine.
    fn addresses(&self) -> Vec<&str> {
        let flags = self.arguments.windows(2).filter(|pair| pair[1].starts_with("127.0.0.1:"));
        let mut addresses: Vec<&str> = flags.map(|pair| pair[1].as_str()).collect();
        if addresses.is_empty() {
            addresses.extend(["127.0.0.1:8080", "127.0.0.1:8090"]);
        }
        addresses
    }

    /// Starts the service on free ports, with the file of the page in a folder of its own.
    fn start(&self, folder: &Folder) -> Server {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        let arguments = self.arguments.iter().skip(1).map(|argument| {
            if argument.ends_with(".yaml") {
                return folder.write(argument, self.file.expect("the file is on the page"));
            }
            if argument.starts_with("127.0.0.1:") {
                return "127.0.0.1:0".to_owned();
            }
            argument.replace("examples/", &format!("{root}examples/"))
        });
        Server::start(&arguments.collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Asks what the page asks until the answer is a denial, on a new service, within one minute of the clock.
    fn answers(&self) -> Vec<Reply> {
        let asked = self.asked.expect("the page asks it");
        let (times, command) = match asked.split_once("; do\n") {
            Some((times, rest)) => {
                let times = times.strip_prefix("for n in ").expect("a loop over n").split(' ').count();
                (times, rest.strip_suffix("\ndone").expect("the end of the loop"))
            }
            None => (4, asked),
        };
        let curl = Curl::parse(command.trim());
        shell::within_a_minute(|| {
            let folder = Folder::new();
            let server = self.start(&folder);
            let mut replies = Vec::new();
            while replies.len() < times && replies.last().is_none_or(|reply: &Reply| reply.status == 200) {
                replies.push(curl.send(&server));
            }
            replies
        })
    }
}

#[test]
fn the_services_of_the_readme_deny_when_the_page_says() {
    let sessions = sessions();
    let asked: Vec<Vec<Reply>> =
        sessions.iter().filter(|session| !session.needs_a_store()).map(Session::answers).collect();
    let statuses: Vec<Vec<u16>> =
        asked.iter().map(|replies| replies.iter().map(|reply| reply.status).collect()).collect();
    // Two a minute; the same with a cost of two; a file of policies; three of the five units of a proxy's limit.
    assert_eq!(statuses, [vec![200, 200, 429], vec![200, 429], vec![200, 200, 429], vec![200, 429]]);
    for replies in &asked[..3] {
        let denied = replies.last().expect("there are answers");
        assert!(denied.header("retry-after").is_some(), "{denied:?}");
    }
    assert_eq!(sessions.iter().filter(|session| session.needs_a_store()).count(), 1, "`stores` plays one");
}

#[test]
fn all_services_of_the_readme_can_run_at_once_and_each_client_asks_its_own() {
    let sessions = sessions();
    for session in &sessions {
        let url = format!("http://{}/", session.listen());
        assert!(session.asked.is_none_or(|asked| asked.contains(&url)), "{url}: {session:?}");
    }
    let mut addresses: Vec<&str> = sessions.iter().flat_map(Session::addresses).collect();
    let used = addresses.len();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), used, "two services have one address: {addresses:?}");
}

#[test]
fn the_answer_that_the_readme_shows_is_the_real_one() {
    let sessions = sessions();
    let session = sessions.iter().find(|session| session.shown.is_some()).expect("the page shows an answer");
    let shown: Vec<&str> = session.shown.expect("it has one").lines().collect();
    assert_shown(&session.answers()[0], &shown);
}

/// Asserts that a reply is the one that these lines show. Times differ, and `...` stands for omitted text.
pub(crate) fn assert_shown(reply: &Reply, lines: &[&str]) {
    let [status, headers @ .., body] = lines else { panic!("an answer has more lines than {lines:?}") };
    assert_eq!(status.split(' ').nth(1), Some(reply.status.to_string().as_str()));
    for header in headers {
        let (name, shown) = header.split_once(": ").expect("a header");
        let real = reply.header(name).unwrap_or_else(|| panic!("no {name} in {reply:?}"));
        match real.split_once(";t=") {
            Some((limit, _)) => assert_eq!(Some(limit), shown.split(";t=").next(), "{name}"),
            None => assert_eq!(name, "retry-after"),
        }
    }
    let shown = body.strip_prefix('{').and_then(|body| body.strip_suffix('}')).expect("a body");
    let real = reply.json();
    for field in shown.split(',').map(str::trim).filter(|field| *field != "...") {
        let field: Value = serde_json::from_str(&format!("{{{field}}}")).expect("a field");
        let (name, shown) = field.as_object().and_then(|field| field.iter().next()).expect("a field");
        let is_so = if name.ends_with("_ms") { real[name].is_u64() } else { real[name] == *shown };
        assert!(is_so, "{name} is not {shown} in {real}");
    }
}

/// They are drawn by a script, which somebody has to run.
#[test]
fn the_badges_of_the_readme_are_those_of_the_manifest() {
    let licenses = env!("CARGO_PKG_LICENSE").split(" OR ");
    let licenses = licenses.map(|name| (format!("license-{}", name.to_lowercase()), name.to_owned()));
    let rust = ("rust".to_owned(), concat!(env!("CARGO_PKG_RUST_VERSION"), "+").to_owned());
    let badges: Vec<_> = licenses.chain([rust]).collect();
    for (name, value) in &badges {
        assert!(README.contains(&format!("docs/pictures/badge-{name}.svg)](")), "no badge {name}");
        let badge = texts(&format!("badge-{name}.svg"));
        assert_eq!(badge[1..], [value.as_str()], "run docs/pictures/draw.py");
    }
    assert_eq!(README.matches("/badge-").count(), badges.len(), "a badge that is not of the manifest");
}

/// `docs/pictures/draw.py` has played it, but perhaps with another version.
#[test]
fn the_terminal_of_the_readme_shows_what_the_service_answers() {
    let lines = texts("terminal-light.svg");
    assert_eq!(texts("terminal-dark.svg"), lines);
    let mut commands = lines.split(String::is_empty);
    let [started, banner] = commands.next().expect("a start") else { panic!("{lines:?}") };
    let started = started.strip_prefix("$ ").and_then(|started| started.strip_suffix(" &"));
    let arguments = started.and_then(shell::arguments).expect("it starts the service");
    let in_readme = blocks(README).into_iter().find(|block| block.language == "sh");
    assert_eq!(started, in_readme.map(|block| block.text.trim()));
    let asked: Vec<&[String]> = commands.collect();
    assert_eq!(asked.len(), 3);

    let arguments: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    let (said, replies) = shell::within_a_minute(|| {
        let server = Server::start(&arguments);
        let ask = |lines: &&[String]| Curl::parse(&lines[0]["$ ".len()..]).send(&server);
        (server.said[0].clone(), asked.iter().map(ask).collect::<Vec<_>>())
    });
    let without_version = |line: &str| line.split_once(':').map(|(_, limits)| limits.to_owned());
    assert_eq!(without_version(&said), without_version(banner));
    for (reply, lines) in replies.iter().zip(asked) {
        assert_shown(reply, &lines[1..].iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// Returns the texts of a picture, in their order.
fn texts(picture: &str) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures").join(picture);
    let picture = fs::read_to_string(file).expect("the picture is there");
    let texts = picture.lines().filter_map(|line| line.strip_prefix("<text ")?.split_once('>'));
    let text = |(_, text): (&str, &str)| {
        let text = text.strip_suffix("</text>").expect("the end of a text");
        let signs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#x27;", "'"), ("&amp;", "&")];
        signs.iter().fold(text.to_owned(), |text, (sign, letter)| text.replace(sign, letter))
    };
    texts.map(text).collect()
}

#[test]
fn each_user_of_the_readme_has_a_count_of_its_own() {
    let sessions = sessions();
    let by_user = sessions.iter().find(|session| session.arguments.iter().any(|word| word == "--key"));
    let session = by_user.expect("a service that counts by user");
    let used = shell::within_a_minute(|| {
        let server = session.start(&Folder::new());
        let users = ["bob", "carol", "carol&path=/other"];
        users.map(|user| server.get(&format!("/v1/check?user={user}")).json()["used"].clone())
    });
    assert_eq!(used, [1, 1, 2]);
}

/// A command that no test plays fails here, unless it is listed.
#[test]
fn every_command_in_a_sentence_of_the_readme_runs() {
    let folder = Folder::new();
    for command in inline_code(README) {
        if let Some(arguments) = shell::arguments(command) {
            let [name, file, log] = &arguments[..] else { panic!("no test plays {command}") };
            assert_eq!(name, "simulate", "no test plays {command}");
            let policies =
                sessions().into_iter().find_map(|session| session.file).expect("a file of policies");
            let line = "192.0.2.7 - alice [21/Nov/2026:17:38:13 +0000] \"GET /search HTTP/1.1\" 200 5\n";
            let (file, log) = (folder.write(file, policies), folder.write(log, &line.repeat(3)));
            let output = tollgate().args(["simulate", &file, &log]).output().expect("it runs");
            let (said, error) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{said}{error}");
            assert!(said.contains("denied"), "{said}");
        } else if command.starts_with("cargo ") {
            assert!(PLAYED_ELSEWHERE.contains(&command), "no test plays {command}");
        }
    }
}
