//! Every way in which a file can change.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::{limit, live_limit, live_version, serve};
use crate::support::folder::Folder;
use crate::support::{Server, quotas, tollgate, undisturbed, until};

/// Asserts that this many changes became live because they were noticed, and none because of the look at the file every
/// half minute, which would also be in time on a slow machine.
#[track_caller]
fn assert_noticed(server: Server, changes: usize) {
    server.signal("TERM");
    let (_, log) = server.wait();
    let replaced: Vec<_> = log.lines().filter(|line| line.contains("policies are replaced")).collect();
    assert_eq!(replaced.len(), changes, "{log}");
    assert!(replaced.iter().all(|line| !line.contains(r#"cause="interval""#)), "{log}");
}

/// Returns the number of quotas that apply to a request.
fn live_quotas(server: &Server) -> usize {
    quotas(&server.get("/v1/check?cost=0").json()).len()
}

#[test]
fn notices_every_way_to_change_the_file() {
    let folder = Folder::new();
    let file = folder.write("t.yaml", &limit(1));
    let server = serve(&file, &[]);
    // Written in place.
    fs::write(&file, limit(2)).expect("a file can be written");
    until("written in place", || live_limit(&server) == 2);
    // As editors do it: the new file replaces the old one.
    fs::rename(folder.write(".t.yaml.swp", &limit(3)), &file).expect("it can be renamed");
    until("renamed over", || live_limit(&server) == 3);
    // The old one moved away first.
    fs::rename(&file, folder.path("t.yaml~")).expect("it can be renamed");
    folder.write("t.yaml", &limit(4));
    until("written anew", || live_limit(&server) == 4);
    assert!(server.get("/readyz").body.starts_with(b"ready\n"));
    assert_noticed(server, 3);
}

/// Half of a file is valid if it ends between two policies. It went live until the editor continued, and requests for
/// the policies of the other half were not limited.
#[test]
fn a_slowly_written_file_goes_live_as_a_whole() {
    undisturbed(|| {
        let policy =
            |name: &str, limit| format!("  - {{ name: {name}, key: global, quotas: [{limit}/1d] }}\n");
        let folder = Folder::new();
        let before = format!("policies:\n{}{}{}", policy("a", 1), policy("b", 1), policy("c", 1));
        let path = folder.write("t.yaml", &before);
        let server = serve(&path, &[]);
        let mut file = fs::File::create(&path).expect("it is truncated");
        for piece in ["policies:\n", &policy("a", 2), &policy("b", 2), &policy("c", 2)] {
            // Longer than the time between two looks.
            thread::sleep(Duration::from_millis(400));
            file.write_all(piece.as_bytes()).expect("a file can be written");
        }
        drop(file);
        let live = || server.admin_get("/v1/policies").json()["policies"].to_string();
        until("it is whole", || live().matches("2/1d").count() == 3);
        assert_eq!(live_version(&server), 2);
        server.signal("TERM");
        let (_, log) = server.wait();
        assert!(!log.contains("policies stay as they are"), "{log}");
    });
}

/// A file that is renamed into place is complete, and goes live at once. The service remembered this after a rename
/// that a signal or a write followed, so half of a file that was then written in place went live.
#[test]
fn a_write_after_a_rename_may_be_incomplete() {
    undisturbed(|| {
        for is_asked in [true, false] {
            let policy =
                |name: &str, limit| format!("  - {{ name: {name}, key: global, quotas: [{limit}/1d] }}\n");
            let whole = |limit| format!("policies:\n{}{}", policy("a", limit), policy("b", limit));
            let folder = Folder::new();
            let path = folder.write("t.yaml", &whole(1));
            let server = serve(&path, &[]);
            folder.write("t.yaml", &whole(2));
            thread::sleep(Duration::from_millis(30));
            if is_asked {
                server.signal("HUP");
                until("it is renamed and read", || live_limit(&server) == 2);
                // Longer than what happens to one file takes.
                thread::sleep(Duration::from_millis(300));
            }
            fs::write(&path, format!("policies:\n{}", policy("a", 3))).expect("it can be written");
            for _ in 0..8 {
                thread::sleep(Duration::from_millis(100));
                assert_eq!(live_quotas(&server), 2, "half of it is live");
            }
            fs::write(&path, whole(3)).expect("it can be written");
            until("it is whole", || live_limit(&server) == 3);
        }
    });
}

#[test]
fn a_file_cut_short_is_live_at_once_by_request_and_else_after_a_while() {
    let folder = Folder::new();
    let two = format!("{}# and a comment that makes it longer\n", limit(3));
    let path = folder.write("t.yaml", &two);
    let server = serve(&path, &[]);
    fs::write(&path, limit(2)).expect("a file can be written");
    server.admin_post("/v1/policies/reload", "");
    assert_eq!(live_limit(&server), 2);
    fs::write(&path, "policies: []\n").expect("a file can be written");
    until("it is live by itself", || live_limit(&server) == Value::Null);
    // Without a line end it may be cut as well.
    fs::write(&path, limit(4).trim_end()).expect("a file can be written");
    until("it is live by itself", || live_limit(&server) == 4);
    assert_noticed(server, 3);
}

#[test]
fn a_folder_is_followed_with_its_new_and_removed_files() {
    let folder = Folder::new();
    folder.write("10-all.yaml", &limit(3));
    let server = serve(folder.root().to_str().expect("text"), &[]);
    assert_eq!(live_quotas(&server), 1);

    let more = "policies: [{ name: more, key: global, quotas: [2/1d@first_hit] }]\n";
    folder.write("20-more.yaml", more);
    until("a new file", || live_version(&server) == 2);
    assert_eq!(live_quotas(&server), 2);

    // One name in two files: both places are told, and nothing changes.
    folder.write("30-again.yaml", more);
    let reload = server.admin_post("/v1/policies/reload", "");
    reload.assert_problem(422, None);
    let told = reload.json()["detail"].to_string();
    let place = |name: &str| folder.path(name);
    assert!(
        told.contains(&format!(
            "{}:1:12: duplicate policy name `more`, already used",
            place("30-again.yaml")
        )),
        "{told}"
    );
    assert!(told.contains(&format!("in line 1 of {}", place("20-more.yaml"))), "{told}");
    assert_eq!(live_version(&server), 2);

    fs::remove_file(folder.path("30-again.yaml")).expect("it can be removed");
    fs::remove_file(folder.path("20-more.yaml")).expect("it can be removed");
    until("two files are gone", || live_version(&server) == 3);
    assert_eq!(live_quotas(&server), 1);
    assert_noticed(server, 2);
}

#[test]
fn a_table_in_its_own_file_is_reloaded() {
    let folder = Folder::new();
    let text = "policies:
  - { name: all, key: global, quotas: [3/1d@first_hit], overrides: { by: user, values_from: users.csv } }
  - { name: banned, match: { user: { one_of_from: banned.txt } }, key: global, quotas: [0/1d] }
";
    folder.write("users.csv", "alice,5/1d@first_hit\n");
    folder.write("banned.txt", "# nobody\n");
    let server = serve(&folder.write("t.yaml", text), &[]);
    let limit = |user: &str| server.get(&format!("/v1/check?cost=0&user={user}")).json()["limit"].clone();
    assert_eq!((limit("alice"), limit("bob")), (5.into(), 3.into()));
    folder.write("users.csv", "alice,5/1d@first_hit\nbob,7/1d@first_hit\n");
    until("a table with a line more", || limit("bob") == 7);
    folder.write("banned.txt", "bob\n");
    until("a list with a line more", || limit("bob") == 0);
    let error = "t.yaml:2:93: cannot read `users.csv` in the same folder";
    fs::remove_file(folder.path("users.csv")).expect("it can be removed");
    let reload = server.admin_post("/v1/policies/reload", "");
    assert!(reload.json()["detail"].to_string().contains(error), "{}", reload.json());
    assert_eq!(limit("alice"), 5);
    assert_noticed(server, 2);
}

#[test]
fn files_may_be_named_one_by_one() {
    let folder = Folder::new();
    let (all, more) = (folder.write("all.yaml", &limit(3)), folder.path("more.yaml"));
    folder.write("more.yaml", "policies: [{ name: more, key: global, quotas: [2/1d@first_hit] }]\n");
    let server = serve(&all, &["--config", &more]);
    assert_eq!(live_quotas(&server), 2);
    folder.write("more.yaml", "policies: []\n");
    until("the second file", || live_version(&server) == 2);
    assert_eq!(live_quotas(&server), 1);
    assert_noticed(server, 1);
}

/// Opening a pipe waits for its writer. A pipe in place of the file silently stopped all later reloads, even after the
/// file was back.
#[test]
fn refuses_a_pipe_in_place_of_the_file_and_continues() {
    let folder = Folder::new();
    let path = folder.write("t.yaml", &limit(1));
    let server = serve(&path, &[]);
    fs::remove_file(&path).expect("it can be removed");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo is there");
    assert!(made.success());
    let reload = server.admin_post("/v1/policies/reload", "");
    reload.assert_problem(422, None);
    assert!(String::from_utf8_lossy(&reload.body).contains("it is not a regular file"));
    server.signal("HUP");
    folder.write("t.yaml", &limit(2));
    until("a file is back", || live_limit(&server) == 2);
    assert_noticed(server, 1);

    fs::remove_file(&path).expect("it can be removed");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo is there");
    assert!(made.success());
    let output = tollgate().args(["serve", "--config"]).arg(&path).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("cannot read") && error.contains("it is not a regular file"), "{error}");
}

/// As kubelet updates a ConfigMap: the file is a link through `..data`, which is replaced.
#[test]
fn notices_the_update_of_a_config_map() {
    let folder = Folder::new();
    let publish = |name: &str, text: &str| {
        fs::create_dir(folder.path(name)).expect("a folder can be made");
        folder.write(&format!("{name}/tollgate.yaml"), text);
        symlink(name, folder.path("..data_tmp")).expect("a link can be made");
        fs::rename(folder.path("..data_tmp"), folder.path("..data")).expect("it can be renamed");
    };
    publish("..2026_11_21_1", &limit(1));
    let file = folder.path("tollgate.yaml");
    symlink("..data/tollgate.yaml", &file).expect("a link can be made");
    let server = serve(&file, &[]);
    assert_eq!(live_limit(&server), 1);
    publish("..2026_11_21_2", &limit(2));
    fs::remove_dir_all(folder.path("..2026_11_21_1")).expect("it can be removed");
    until("the first swap", || live_limit(&server) == 2);
    publish("..2026_11_21_3", &limit(3));
    until("the second swap", || live_limit(&server) == 3);
    assert_noticed(server, 2);
}
