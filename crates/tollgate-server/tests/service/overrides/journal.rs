//! Overrides in a folder: crashes, damage and a full disk, with real processes.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use serde_json::{Value, json};

use super::{POLICIES, ask, new_token, of_user, request};
use crate::support::folder::Folder;
use crate::support::{Connection, Server, tollgate, until};

/// A folder in which services run one after another.
struct Place {
    folder: Folder,
    token: String,
    flags: Vec<String>,
}

impl Place {
    fn new() -> Self {
        let folder = Folder::new();
        let (token, line) = new_token("ops", &["--scope", "check,overrides"]);
        let (config, tokens) =
            (folder.write("p.yaml", POLICIES), folder.write("t.jsonl", &format!("{line}\n")));
        let state = folder.path("state");
        let flags = ["--config", &config, "--tokens", &tokens, "--state-dir", &state].map(str::to_owned);
        Self { folder, token, flags: flags.into() }
    }

    fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        self.flags.iter().map(String::as_str).chain(more.iter().copied()).collect()
    }

    fn start(&self, more: &[&str]) -> Server {
        Server::start(&self.arguments(more))
    }

    /// Starts a service that cannot start. Returns its exit status and standard error.
    fn refused(&self) -> (Option<i32>, String) {
        // An address that no host here has, so that a start that should be refused ends in any case.
        let listen = ["--listen", "192.0.2.1:1"];
        let output = tollgate().arg("serve").args(&self.flags).args(listen).output().expect("it runs");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    }

    fn journal(&self) -> String {
        self.folder.path("state/overrides.journal")
    }

    fn bearer(&self) -> String {
        format!("Authorization: Bearer {}", self.token)
    }

    fn put(&self, server: &Server, body: &Value) -> (u16, Value) {
        let reply = ask(server.admin, "PUT", "/v1/overrides", &[&self.bearer()], &body.to_string());
        (reply.status, reply.json())
    }

    fn list(&self, server: &Server) -> Value {
        ask(server.admin, "GET", "/v1/overrides?limit=1000", &[&self.bearer()], "").json()
    }

    /// Returns the limit that a check of this user's searches is decided by.
    fn limit(&self, server: &Server, user: &str) -> Value {
        let body = json!({ "attributes": { "path": "/search", "user": user }, "cost": 0 }).to_string();
        ask(server.public, "POST", "/v1/check", &[&self.bearer()], &body).json()["limit"].clone()
    }
}

/// The limits of one tenant's override, in the order in which they were set.
#[derive(Clone, Copy, Default)]
struct SetLimits {
    /// The last one of which a client has the answer.
    answered: u32,
    /// The last one that was sent.
    sent: u32,
}

#[test]
fn a_killed_process_loses_no_change_that_it_has_answered() {
    const CLIENTS: u32 = 3;
    const TENANTS: u32 = 5;
    let place = Place::new();
    let limits = Mutex::new(BTreeMap::<String, SetLimits>::new());
    let note = |tenant: &str, change: &dyn Fn(&mut SetLimits)| {
        change(limits.lock().expect("nobody panics").entry(tenant.to_owned()).or_default());
    };
    let mut server = place.start(&[]);
    for round in 0..3 {
        let answers = AtomicU32::new(0);
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                let mut connection = Connection::open(server.admin);
                let (place, answers, note) = (&place, &answers, &note);
                scope.spawn(move || {
                    for number in 1.. {
                        let (tenant, limit) =
                            (format!("{client}-{}", number % TENANTS), round * 10_000 + number);
                        let body = json!({
                            "policy": "search", "attributes": { "user": { "is": tenant } },
                            "quotas": [format!("{limit}/1m")],
                        });
                        note(&tenant, &|limits| limits.sent = limit);
                        let put = request("PUT", "/v1/overrides", &[&place.bearer()], &body.to_string());
                        // The connection breaks when the process is killed.
                        let reply = connection.try_send(&put).then(|| connection.reply()).flatten();
                        let Some(reply) = reply else { return };
                        assert_eq!(reply.status, 200, "{}", reply.json());
                        note(&tenant, &|limits| limits.answered = limit);
                        answers.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            until("there are changes", || answers.load(Ordering::Relaxed) > 40);
            server.signal("KILL");
        });
        drop(server);
        server = place.start(&[]);
        let listed = place.list(&server);
        for (tenant, SetLimits { answered, sent }) in &*limits.lock().expect("nobody panics") {
            let id = format!("search:user={tenant}");
            let mut all = listed["overrides"].as_array().expect("a list").iter();
            let limit = all.find(|one| one["id"] == *id).and_then(|one| one["quotas"][0].as_str());
            let limit = limit.and_then(|limit| limit.strip_suffix("/1m")?.parse().ok()).unwrap_or(0);
            assert!((*answered..=*sent).contains(&limit), "{tenant}: {limit} of {answered} to {sent}");
        }
    }
}

#[test]
fn a_second_process_is_refused_by_the_number_of_the_first() {
    let place = Place::new();
    let server = place.start(&[]);
    let expected = format!(
        "error: `--state-dir`: {} is in use by the process {}: each process needs a folder of its own\n",
        place.folder.path("state"),
        server.id()
    );
    assert_eq!(place.refused(), (Some(2), expected));
    // One that is killed leaves no lock.
    server.signal("KILL");
    drop(server);
    place.start(&[]);
}

#[test]
fn a_damaged_file_is_refused_by_name_and_place_and_can_be_recovered() {
    let place = Place::new();
    let server = place.start(&[]);
    for user in ["alice", "bob", "carol"] {
        assert_eq!(place.put(&server, &of_user(user, &json!(["7/1h"]))).0, 200);
    }
    let version = place.list(&server)["overrides_version"].clone();
    drop(server);
    let mut bytes = fs::read(place.journal()).expect("a journal");
    let lines: Vec<usize> =
        bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
    // In the line that sets Bob's.
    bytes[lines[1] + 30] ^= 4;
    fs::write(place.journal(), &bytes).expect("it is written");

    let expected = format!(
        "error: `--state-dir`: {} is damaged: line 3 (byte {}): its checksum does not match; `--recover` starts with the \
         overrides that can be read\n",
        place.journal(),
        lines[1] + 1
    );
    assert_eq!(place.refused(), (Some(2), expected));
    assert_eq!(fs::read(place.journal()).expect("a journal"), bytes, "nothing was changed");

    let server = place.start(&["--recover"]);
    let limits = ["alice", "bob", "carol"].map(|user| place.limit(&server, user));
    assert_eq!(limits, [json!(7), json!(5), json!(7)]);
    assert_ne!(
        place.list(&server)["overrides_version"],
        version,
        "no override that is left has a version from before"
    );
    server.signal("TERM");
    let (_, log) = server.wait();
    let kept = format!("{}.damaged.1", place.journal());
    assert_eq!(fs::read(&kept).expect("the damaged file"), bytes);
    for part in [&kept, "line 3 (byte", "overrides=2", "leave out `--recover` at the next start"] {
        assert!(log.contains(part), "{part}: {log}");
    }
    let server = place.start(&[]);
    assert_eq!(place.list(&server)["overrides"].as_array().map(Vec::len), Some(2));
}

/// A file may not grow any further, so a write arrives in part, as on a full disk.
#[test]
fn what_the_disk_does_not_take_is_an_error_and_not_live() {
    let place = Place::new();
    let mut command = Command::new("sh");
    let limited = "trap '' XFSZ; ulimit -f 4; exec \"$0\" \"$@\"";
    command.env_clear().args(["-c", limited, env!("CARGO_BIN_EXE_tollgate")]);
    let server = Server::start_by(command, &place.arguments(&[]));
    let mut taken = Vec::new();
    let (status, body, user) = loop {
        let user = format!("user-{}", taken.len());
        let mut set = of_user(&user, &json!(["7/1h"]));
        set["note"] = "n".repeat(150).into();
        match place.put(&server, &set) {
            (200, _) => taken.push(user),
            (status, body) => break (status, body, user),
        }
        assert!(taken.len() < 100, "the disk is never full");
    };
    assert_eq!((status, &body["reason"]), (503, &json!("store_unavailable")), "{body}");
    assert!(body["detail"].as_str().is_some_and(|detail| detail.contains("nothing was changed")), "{body}");
    assert_eq!(place.limit(&server, &user), 5, "it is not live");
    assert!(taken.len() > 3, "{taken:?}");
    assert!(taken.iter().all(|user| place.limit(&server, user) == 7));
    // A smaller one may have room: the part that was written is no more in its way.
    let (status, _) = place.put(&server, &of_user("a", &json!("denied")));
    server.signal("TERM");
    let (_, log) = server.wait();
    assert!(log.contains("File too large") && !log.contains(&user), "{log}");
    let server = place.start(&[]);
    let listed = place.list(&server);
    let expected = taken.len() + usize::from(status == 200);
    assert_eq!(listed["overrides"].as_array().map(Vec::len), Some(expected), "{listed}");
}
