//! Files behind links and in folders that are swapped as a whole, as releases are.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use tempfile::tempdir;

use crate::support::{Connection, Server, tollgate, within};

/// Less than the half minute after which files are read without an event.
const AT_ONCE: Duration = Duration::from_secs(20);

fn policies(limit: u32) -> String {
    format!("policies: [{{ name: a, key: [user], quotas: [{limit}/1d] }}]\n")
}

/// Waits until the live policies have this limit.
#[track_caller]
fn is_live(server: &Server, limit: u32) {
    let quota = format!("{limit}/1d");
    within(AT_ONCE, &quota, || {
        String::from_utf8_lossy(&server.admin_get("/v1/policies").body).contains(&format!("\"{quota}\""))
    });
}

/// Makes the link `current` point to a release, as a deployment does.
fn release(folder: &Path, name: &str) {
    symlink(name, folder.join("next")).expect("a link");
    fs::rename(folder.join("next"), folder.join("current")).expect("a folder of ours");
}

/// A swapped link was seen after half a minute, and so was every later edit, for ever.
#[test]
fn a_release_by_a_swapped_link_is_live_at_once_and_so_are_edits_behind_it() {
    let folder = tempdir().expect("a folder");
    for (name, limit) in [("r1", 1), ("r2", 2)] {
        fs::create_dir(folder.path().join(name)).expect("a folder");
        fs::write(folder.path().join(name).join("tollgate.yaml"), policies(limit)).expect("a file");
    }
    release(folder.path(), "r1");
    let file = folder.path().join("current/tollgate.yaml");
    let file = file.to_str().expect("text");
    let server = Server::start(&["--config", file]);
    is_live(&server, 1);
    release(folder.path(), "r2");
    is_live(&server, 2);
    fs::write(file, policies(3)).expect("a file");
    is_live(&server, 3);
    release(folder.path(), "r1");
    is_live(&server, 1);
    fs::write(file, policies(4)).expect("a file");
    is_live(&server, 4);
}

#[test]
fn a_folder_of_policies_that_is_made_again_is_live_at_once() {
    let folder = tempdir().expect("a folder");
    let config = folder.path().join("config");
    let make = |limit| {
        fs::create_dir(&config).expect("a folder");
        fs::write(config.join("a.yaml"), policies(limit)).expect("a file");
    };
    make(1);
    let server = Server::start(&["--config", config.to_str().expect("text")]);
    for limit in [2, 3] {
        fs::remove_dir_all(&config).expect("a folder");
        make(limit);
        is_live(&server, limit);
    }
    fs::write(config.join("a.yaml"), policies(4)).expect("a file");
    is_live(&server, 4);
}

/// A token that was revoked by a release worked for half a minute more.
#[test]
fn a_token_that_a_release_revokes_is_refused_at_once() {
    let folder = tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    for (release, name) in [("r1", "web"), ("r2", "other")] {
        fs::create_dir(folder.path().join(release)).expect("a folder");
        let (token, line) = (path(&format!("{name}.txt")), path(&format!("{release}/tokens")));
        let arguments =
            ["token", "new", "--name", name, "--scope", "check", "--token-file", &token, "--tokens", &line];
        assert!(tollgate().args(arguments).output().expect("it runs").status.success());
    }
    release(folder.path(), "r1");
    let server = Server::start(&["--limit", "1000000/1d", "--tokens", &path("current/tokens")]);
    let token = fs::read_to_string(path("web.txt")).expect("a token");
    let request =
        format!("GET /v1/check?user=a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\n\r\n", token.trim());
    let status = || Connection::open(server.public).ask(request.as_bytes()).status;
    assert_eq!(status(), 200);
    release(folder.path(), "r2");
    within(AT_ONCE, "it is revoked", || status() == 401);
}
