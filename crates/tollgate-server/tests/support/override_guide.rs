//! Plays the guide `docs/change-one-customers-limit.md` as its reader would.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tollgate_testkit::manual::{Block, blocks};

use super::folder::Folder;
use super::shell::{self, Curl};
use super::{Reply, Server, until};

const GUIDE: &str = include_str!("../../../../docs/change-one-customers-limit.md");

/// The guide, played up to some block, and the services that its reader has started.
pub(crate) struct OverrideGuide {
    folder: Folder,
    /// The commands ask the first one. All of them must decide alike.
    services: Vec<Server>,
    blocks: std::vec::IntoIter<Block<'static>>,
}

/// What a user gets for a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Limit(u64),
    Denied,
}

impl OverrideGuide {
    /// Prepares the files, and starts services by the command of the guide that has this flag.
    pub(crate) fn start(flag: &str, start: impl Fn(&Path, &[String]) -> Vec<Server>) -> Self {
        let folder = Folder::new();
        let mut blocks = blocks(GUIDE).into_iter();
        let file = blocks.next().expect("a file");
        assert_eq!(file.language, "yaml");
        folder.write("tollgate.yaml", file.text);
        let tokens = blocks.next().expect("commands that make tokens");
        let mut guide = Self { folder, services: Vec::new(), blocks };
        guide.run(tokens.text);
        for _ in 0..2 {
            let command = guide.blocks.next().expect("a command that starts a service");
            let arguments = shell::arguments(command.text.trim()).expect("a command of tollgate");
            assert_eq!(arguments[0], "serve", "{command:?}");
            if arguments.iter().any(|argument| argument == flag) {
                guide.services.extend(start(guide.folder.root(), &arguments[1..]));
            }
        }
        assert!(!guide.services.is_empty(), "no command has {flag}");
        guide
    }

    /// Plays all commands in their order, and expects after each what the guide says.
    pub(crate) fn play(&mut self) {
        // Raise a limit for two hours.
        self.expect("acme/alice", Fate::Limit(5));
        let set = self.run_next();
        assert!(set.starts_with("set search:="), "{set}");
        self.expect("acme/alice", Fate::Limit(500));
        self.expect("acme/bob", Fate::Limit(5));
        let peeked = shell::within_a_minute(|| self.run(self.blocks.as_slice()[0].text));
        self.next("sh");
        self.expect_shown(&peeked);
        let replaced = self.ask_next();
        assert_eq!(
            (replaced.status, &replaced.json()["replaced"]),
            (200, &Value::Bool(true)),
            "{replaced:?}"
        );
        assert!(replaced.header("etag").is_some(), "{replaced:?}");

        // Block a customer.
        self.run_next();
        self.expect("acme/mallory", Fate::Denied);
        let denied = self.peek(&self.services[0], "acme/mallory");
        assert_eq!(denied["reason"], "denied_by_override", "{denied}");

        // A whole company.
        self.run_next();
        let replaced = self.ask_next();
        assert_eq!(
            (replaced.status, &replaced.json()["replaced"]),
            (200, &Value::Bool(true)),
            "{replaced:?}"
        );
        for (user, fate) in [
            ("acme/bob", Fate::Limit(50)),
            ("acme/alice", Fate::Limit(500)),
            ("acme/mallory", Fate::Denied),
            ("globex/eve", Fate::Limit(5)),
        ] {
            self.expect(user, fate);
        }

        // See what there is.
        let listed = self.run_next();
        self.expect_shown(&listed);
        let listed = self.ask_next();
        assert_eq!(listed.json()["overrides"].as_array().map(Vec::len), Some(3), "{listed:?}");
        let got = self.run_next();
        let shown: Vec<&str> = got.lines().filter(|line| !line.starts_with(' ')).collect();
        assert_eq!(shown, ["search:=ov8f5PC1NzTP--ULkRrgrw", "search:user^acme/"]);

        // Take it back.
        self.run_next();
        self.expect("acme/alice", Fate::Limit(50));
        assert_eq!(self.ask_next().status, 200);
        self.expect("acme/mallory", Fate::Limit(50));
        self.run_next();
        for user in ["acme/alice", "acme/mallory", "acme/bob"] {
            self.expect(user, Fate::Limit(5));
        }

        // An answer with both versions.
        let answer = self.next("text");
        for field in ["\"version\":", "\"overrides_version\":"] {
            assert!(answer.text.contains(field), "{answer:?}");
        }
        let peeked = self.peek(&self.services[0], "acme/bob");
        assert!(peeked["version"].is_u64() && peeked["overrides_version"].is_string(), "{peeked}");

        // From a billing job.
        let billed = self.run_next();
        let verbs: Vec<&str> = billed.lines().filter_map(|line| line.split(" search:").next()).collect();
        assert!(verbs.contains(&"set") && verbs.contains(&"replaced"), "{billed}");
        self.expect("acme/bob", Fate::Limit(200));
        assert_eq!(self.blocks.next(), None, "no test plays this");
    }

    /// Expects that `explain` knows the override that the guide leaves behind, with these flags.
    pub(crate) fn explain(&self, flags: &str) {
        let explain = |user: &str| {
            self.run(&format!("tollgate explain tollgate.yaml {flags} path=/search user={user}"))
        };
        let (bob, eve) = (explain("acme/bob"), explain("globex/eve"));
        assert!(bob.contains("  by override search:=") && bob.contains("  takes 1 of 200/1m, "), "{bob}");
        assert!(eve.contains("  takes 1 of 5/1m, ") && !eve.contains("by override"), "{eve}");
        let version = "the overrides are those of version ";
        assert!(bob.contains(version) && eve.contains(version), "{bob}{eve}");
    }

    /// Runs the next commands.
    fn run_next(&mut self) -> String {
        let commands = self.next("sh");
        self.run(commands.text)
    }

    /// Sends the next request.
    fn ask_next(&mut self) -> Reply {
        let command = self.next("sh");
        Curl::parse_in(self.folder.root(), command.text.trim()).send(&self.services[0])
    }

    #[track_caller]
    fn next(&mut self, language: &str) -> Block<'static> {
        let block = self.blocks.next().expect("there are more blocks");
        assert_eq!(block.language, language, "{block:?}");
        block
    }

    /// Runs commands in a shell, which ends at the first that fails. Returns their output.
    #[track_caller]
    fn run(&self, commands: &str) -> String {
        let program = Path::new(env!("CARGO_BIN_EXE_tollgate"));
        let folder = program.parent().expect("it is in a folder").display();
        let mut shell = Command::new("sh");
        shell.env_clear().env("PATH", format!("{folder}:/usr/bin:/bin")).current_dir(self.folder.root());
        if let Some(service) = self.services.first() {
            shell.env("TOLLGATE_SERVER", service.public.to_string());
            shell.env("TOLLGATE_ADMIN_SERVER", service.admin.to_string());
        }
        let output = shell.args(["-ec", commands]).output().expect("a shell is there");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let (said, error) = (text(output.stdout), text(output.stderr));
        assert!(output.status.success(), "{commands}: {said}{error}");
        said
    }

    fn peek(&self, service: &Server, user: &str) -> Value {
        let token = std::fs::read_to_string(self.folder.path("app.txt")).expect("the token of the app");
        let path = format!("/v1/check?path=/search&user={user}&cost=0");
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
            token.trim()
        );
        service.connect().ask(request.as_bytes()).json()
    }

    /// Expects that all services decide so. Those that were not asked for a change have a moment to learn of it.
    #[track_caller]
    fn expect(&self, user: &str, fate: Fate) {
        let of = |service: &Server| {
            let peeked = self.peek(service, user);
            match peeked["limit"].as_u64() {
                Some(limit) => Fate::Limit(limit),
                None => {
                    assert_eq!(peeked["allowed"], false, "{peeked}");
                    Fate::Denied
                }
            }
        };
        assert_eq!(of(&self.services[0]), fate, "{user}");
        for service in &self.services[1..] {
            until("the other service knows the change", || of(service) == fate);
        }
    }

    /// Expects that this output is the one that the guide shows next, but for times and versions.
    #[track_caller]
    fn expect_shown(&mut self, output: &str) {
        let shown = self.next("text");
        let fixed = |text: &str| {
            let text = text.replace("1 min 0 s", "60 s");
            let words = text.split([' ', '\n']).filter(|word| !word.is_empty());
            let is_time = |word: &str| word.ends_with('Z') && word.contains("T");
            let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
            let is_version = |word: &str| word.len() > 17 && word.as_bytes()[16] == b'.';
            let fixed = |word: &str| match is_time(word) || is_number(word) || is_version(word) {
                true => "...".to_owned(),
                false => word.to_owned(),
            };
            words.map(fixed).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(fixed(output), fixed(shown.text), "{output}");
    }
}
