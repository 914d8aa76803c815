//! Where limits come from, and what that changes.

#![allow(clippy::expect_used, reason = "this is a test")]

use std::process::Output;

use serde_json::json;

use crate::ads::{Ads, users};
use crate::certificates::{Authority, Client};
use crate::command;
use crate::support::Server;
use crate::support::folder::Folder;

/// Returns the error of a service that does not start.
fn refused(variables: &[(&str, &str)], arguments: &[&str]) -> String {
    let Output { status, stderr, .. } =
        command(variables).arg("serve").args(arguments).output().expect("it starts");
    assert!(!status.success());
    String::from_utf8(stderr).expect("text")
}

#[test]
fn one_source_of_limits_is_needed() {
    let folder = Folder::new();
    folder.write("shop.yaml", "domain: shop\n");
    let root = folder.root().to_str().expect("text");
    let import = ["--import", "envoy-ratelimit"];
    let sotw = [("CONFIG_TYPE", "GRPC_XDS_SOTW")];
    for (variables, arguments, expected) in [
        (&[][..], &import[..], "name the folder of their files, or the server that sends them over xDS"),
        (&[("CONFIG_TYPE", "FILE")], &import, "name the folder of their files"),
        (
            &sotw,
            &[&import[..], &[root]].concat(),
            "or over xDS (CONFIG_TYPE=GRPC_XDS_SOTW), but not from both",
        ),
        (
            &[],
            &[&import[..], &[root, "--xds", "http://a:1"]].concat(),
            "or over xDS (--xds), but not from both",
        ),
        (
            &[("CONFIG_TYPE", "FILE")],
            &[&import[..], &["--xds", "http://a:1"]].concat(),
            "CONFIG_TYPE: `FILE` conflicts with `--xds`",
        ),
        (&[("CONFIG_TYPE", "REST")], &import, "CONFIG_TYPE: expected FILE or GRPC_XDS_SOTW, found `REST`"),
        (
            &[],
            &["--import", "valkey-env", "--xds", "http://a:1"],
            "`--xds` is only for `--import envoy-ratelimit`",
        ),
        (&[], &["--limit", "5/1m", "--xds", "http://a:1"], "`--xds` is only for `--import envoy-ratelimit`"),
        (&[], &[&import[..], &["--xds", "ftp://a:1"]].concat(), "expected http://HOST[:PORT]"),
        (&[("XDS_CLIENT_BACKOFF_JITTER", "x"), sotw[0]], &import, "XDS_CLIENT_BACKOFF_JITTER: expected true"),
    ] {
        let said = refused(variables, arguments);
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn variables_of_xds_are_named_if_they_have_no_effect() {
    let note = |variables: &[(&str, &str)], arguments: &[&str]| {
        let server = Server::start_by(command(variables), arguments);
        server.signal("TERM");
        let (_, log) = server.wait();
        log.lines().find(|line| line.contains("have no effect here")).unwrap_or_default().to_owned()
    };
    let folder = Folder::new();
    folder.write("shop.yaml", "domain: shop\n");
    let root = folder.root().to_str().expect("text");
    let variables = [("CONFIG_GRPC_XDS_NODE_ID", "x"), ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true")];
    let files = note(&variables, &["--import", "envoy-ratelimit", root]);
    assert!(files.contains("CONFIG_GRPC_XDS_NODE_ID, FORCE_START_WITHOUT_INITIAL_CONFIG, XDS_"), "{files}");
    let ads = Ads::start();
    let url = format!("http://{}", ads.address);
    let over_xds = ["--import", "envoy-ratelimit", "--xds", &url];
    assert_eq!(note(&variables, &over_xds), "");
    let unknown = note(&[("CONFIG_GRPC_XDS_NODE_NAME", "x")], &over_xds);
    assert!(unknown.contains("here: CONFIG_GRPC_XDS_NODE_NAME source="), "{unknown}");
}

/// Limits over xDS cannot have `overdraft`, so denied requests count by default.
#[test]
fn denied_requests_count_unless_a_flag_says_otherwise() {
    for (flags, expected, is_said) in [
        (&[][..], [200, 429, 429], true),
        (&["--count-denied=false"], [200, 429, 200], false),
        (&["--count-denied"], [200, 429, 429], false),
    ] {
        let ads = Ads::start();
        let server = crate::start(&ads, flags);
        ads.hear();
        ads.publish_valid("1", &[users("shop", 3)]);
        let asks = [2, 2, 1].map(|cost| {
            let descriptors = json!([{ "entries": [{ "key": "user", "value": "alice" }] }]);
            let body = json!({ "domain": "shop", "descriptors": descriptors, "hitsAddend": cost });
            server.post("/json", &body.to_string()).status
        });
        assert_eq!(asks, expected, "{flags:?}");
        server.signal("TERM");
        let (_, log) = server.wait();
        assert_eq!(log.contains("`--count-denied=false` turns this off"), is_said, "{log}");
    }
}

/// Envoy Gateway takes limits from the metadata of a request, and sends them with a descriptor.
#[test]
fn clients_with_certificates_may_bring_limits() {
    let folder = Folder::new();
    let root = folder.root();
    let authority = Authority::new(root, "authority");
    let (identity, client) = (authority.server(root, "server"), authority.issue(root, "envoy", |_| {}));
    let text = |path: &std::path::Path| path.to_str().expect("text").to_owned();
    let (certificate, key, ca) = (text(&identity.certificate), text(&identity.key), text(&authority.file));
    let tls = ["--tls-cert", &certificate, "--tls-key", &key, "--tls-client-ca", &ca];
    let limit = json!({ "requestsPerUnit": 1, "unit": "DAY" });
    let descriptors = json!([{ "entries": [{ "key": "user", "value": "alice" }], "limit": limit }]);
    let body = json!({ "domain": "shop", "descriptors": descriptors }).to_string();
    let request = format!(
        "POST /json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    for (flags, expected) in
        [(&[][..], [200, 429]), (&["--caller-quotas=false"], [400, 400]), (&["--caller-quotas"], [200, 429])]
    {
        let ads = Ads::start();
        let server = crate::start(&ads, &[&tls[..], flags].concat());
        ads.hear();
        ads.publish_valid("1", &[users("shop", 100)]);
        let client = Client::new(&authority, Some(&client));
        let asks = [0; 2].map(|_| client.ask(server.public, request.as_bytes()).expect("an answer").0);
        assert_eq!(asks, expected, "{flags:?}");
    }
    // Without certificates on every listener for checks, everyone could set their own limits.
    for flags in [&[][..], &[&tls[..], &["--tls-on", "admin"]].concat()] {
        let ads = Ads::start();
        let server = crate::start(&ads, flags);
        ads.hear();
        ads.publish_valid("1", &[users("shop", 100)]);
        assert_eq!(server.post("/json", &body).status, 400);
    }
}
