//! The files of the live page.

use std::io::Read as _;

use super::ask;
use crate::support::Server;

/// The policy of a page without scripts from elsewhere, and without HTML from text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

/// Behind a proxy that serves the listener at `/tollgate/`, an absolute address would lead to the proxy's own root.
#[test]
fn the_admin_listener_leads_to_the_page_from_its_root() {
    let server = Server::start(&["--limit", "5/1d"]);
    for path in ["/", "/ui"] {
        let reply = ask(server.admin, "GET", path, "");
        assert_eq!((reply.status, reply.header("location")), (302, Some("./ui/")), "{path}");
        assert_eq!(reply.header("content-security-policy"), Some(POLICY));
    }
    let page = ask(server.admin, "GET", "/ui/", "");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.body.starts_with(b"<!doctype html>"));
    assert_eq!(page.header("content-security-policy"), Some(POLICY));
    for (name, value) in [
        ("cache-control", "no-cache"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(page.header(name), Some(value));
    }
    let missing = ask(server.admin, "GET", "/ui/missing.js", "");
    assert_eq!(missing.status, 404);
    assert_eq!(ask(server.admin, "POST", "/ui/", "Content-Length: 0\r\n").status, 405);
    for path in ["/", "/ui/", "/ui/missing.js"] {
        let elsewhere = ask(server.public, "GET", path, "");
        assert_eq!(elsewhere.status, 404, "{path}");
        let detail = elsewhere.json()["detail"].to_string();
        assert!(detail.contains("--admin-listen"), "{detail}");
    }
}

/// The page asks for its files by relative addresses, and each of them may be read with HEAD, compressed, and not at all.
#[test]
fn a_file_is_sent_once_and_compressed_if_the_browser_takes_it() {
    let server = Server::start(&["--limit", "5/1d"]);
    let plain = ask(server.admin, "GET", "/ui/main.js", "");
    assert_eq!(plain.header("content-type"), Some("text/javascript; charset=utf-8"));
    assert_eq!(plain.body, include_bytes!("../../../page/main.js"));
    let packed = ask(server.admin, "GET", "/ui/main.js", "Accept-Encoding: br, gzip\r\n");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed.body[..]).read_to_end(&mut unpacked).expect("it is gzip");
    assert_eq!(unpacked, plain.body);
    let tags = [&plain, &packed].map(|reply| reply.header("etag").expect("a tag").to_owned());
    assert_ne!(tags[0], tags[1]);
    for tag in &tags {
        let known = ask(server.admin, "GET", "/ui/main.js", &format!("If-None-Match: {tag}\r\n"));
        assert_eq!((known.status, known.body.len()), (304, 0));
        assert_eq!(known.header("content-security-policy"), Some(POLICY));
    }
    let head = ask(server.admin, "HEAD", "/ui/main.js", "");
    assert_eq!(head.header("content-length"), Some(&*plain.body.len().to_string()));
    let icon = ask(server.admin, "GET", "/ui/icon.svg", "");
    assert_eq!((icon.status, icon.header("content-type")), (200, Some("image/svg+xml")));
    // For the compiler alone.
    assert_eq!(ask(server.admin, "GET", "/ui/types.d.ts", "").status, 404);
}

#[test]
fn without_the_page_its_paths_name_the_flag() {
    let server = Server::start(&["--limit", "5/1d", "--dashboard", "off"]);
    let data = ["/v1/live", "/v1/live/series", "/v1/policies/history"];
    for path in ["/", "/ui", "/ui/", "/ui/main.js"].into_iter().chain(data) {
        let reply = ask(server.admin, "GET", path, "");
        assert_eq!(reply.status, 404, "{path}");
        let detail = reply.json()["detail"].to_string();
        assert!(detail.contains("--dashboard off"), "{detail}");
    }
}
