//! Log lines that lead to the live page.

use crate::support::{Server, tollgate};

#[test]
fn the_line_about_a_denial_leads_to_its_policy() {
    for (flags, link) in [
        (
            &["--public-url", "https://ops.example/tollgate/"][..],
            Some("https://ops.example/tollgate/ui/#/policy/default"),
        ),
        (&[], None),
    ] {
        let server = Server::start(&[&["--limit", "1/1d", "--key", "user"][..], flags].concat());
        for _ in 0..2 {
            server.post("/v1/check", r#"{"attributes": {"user": "alice"}}"#);
        }
        server.signal("TERM");
        let (_, log) = server.wait();
        let line = log.lines().find(|line| line.contains("first denial")).expect("a denial is logged");
        match link {
            Some(link) => assert!(
                line.contains(&format!("view=\"{link}\"")) || line.contains(&format!("view={link}")),
                "{line}"
            ),
            None => assert!(!line.contains("view"), "{line}"),
        }
        assert!(!line.contains("alice"), "{line}");
    }
}

#[test]
fn an_address_that_leads_nowhere_is_refused() {
    for (flags, problem) in [
        (&["--public-url", "ops.example"][..], "http://HOST"),
        (&["--public-url", "https://user:secret@ops.example"], "http://HOST"),
        (&["--public-url", "https://ops.example", "--dashboard", "off"], "--dashboard off"),
        (&["--dashboard", "maybe"], "--dashboard"),
    ] {
        let output = tollgate().args(["serve", "--limit", "5/1d"]).args(flags).output().expect("it runs");
        let error = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {error}");
        assert!(error.contains(problem), "{flags:?}: {error}");
    }
}
