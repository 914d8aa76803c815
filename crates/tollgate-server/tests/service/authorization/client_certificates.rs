//! Principals that are known by their certificates.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rcgen::SanType;
use serde_json::{Value, json};

use super::{
    ALL_SCOPES, OPERATIONS, Operation, POLICIES, Principal, assert_published, expected, new_token, request,
};
use crate::certificates::{Authority, Client, Identity};
use crate::support::folder::Folder;
use crate::support::{Server, until};

/// Starts a service with mutual TLS and this file of principals.
struct Mutual {
    folder: Folder,
    authority: Authority,
    server: Server,
}

impl Mutual {
    fn start(principals: Option<&str>) -> Self {
        let folder = Folder::new();
        let authority = Authority::new(folder.root(), "authority");
        let Identity { certificate, key } = authority.server(folder.root(), "server");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("it is ours");
        let files = [certificate, key, authority.file.clone()].map(|path| path.display().to_string());
        let tokens = principals.map(|principals| folder.write("tokens.jsonl", principals));
        let mut flags = vec!["--limit", "5/1d", "--key", "user"];
        flags.extend(["--tls-cert", &files[0], "--tls-key", &files[1], "--tls-client-ca", &files[2]]);
        flags.extend(tokens.iter().flat_map(|tokens| ["--tokens", tokens]));
        let server = Server::start(&flags);
        Self { folder, authority, server }
    }

    /// Returns a client with a certificate for this name.
    fn client(&self, uri: &str) -> Client {
        let name = SanType::URI(uri.try_into().expect("a name"));
        let identity = self
            .authority
            .issue(self.folder.root(), "client", |params| params.subject_alt_names = vec![name]);
        Client::new(&self.authority, Some(&identity))
    }
}

const READER: &str = r#"{"name": "reader", "san": "spiffe://prod/reader", "scopes": ["read"]}"#;

/// The description mentioned only tokens, even with client certificates.
#[test]
fn the_description_mentions_client_certificates() {
    let document = |mutual: &Mutual| -> Value {
        let (status, reply) = mutual
            .client("spiffe://prod/reader")
            .get(mutual.server.admin, "/openapi.json")
            .expect("an answer");
        assert_eq!(status, 200, "{reply}");
        serde_json::from_str(reply.split_once("\r\n\r\n").expect("a body").1).expect("JSON")
    };
    let schemes = |document: &Value| -> Vec<String> {
        let schemes = document["components"]["securitySchemes"].as_object().expect("schemes");
        schemes.values().map(|scheme| scheme["type"].as_str().expect("a type").to_owned()).collect()
    };
    let security = |document: &Value, path: &str| document["paths"][path]["get"]["security"].clone();

    let everybody = document(&Mutual::start(None));
    assert_eq!(schemes(&everybody), ["mutualTLS"]);
    for path in ["/v1/check", "/metrics", "/healthz"] {
        assert_eq!(security(&everybody, path), json!([{ "certificate": [] }]), "{path}");
    }

    let certificates = document(&Mutual::start(Some(READER)));
    assert_eq!(schemes(&certificates), ["mutualTLS"]);
    assert_eq!(security(&certificates, "/metrics"), json!([{ "certificate": ["metrics"] }]));
    assert_eq!(security(&certificates, "/healthz"), json!([{ "certificate": [] }]));

    let token = new_token("web", &["--scope", "check"]).1;
    let both = document(&Mutual::start(Some(&format!("{READER}\n{token}\n"))));
    assert_eq!(schemes(&both), ["http", "mutualTLS"]);
    let either = json!([{ "certificate": ["check"] }, { "certificate": [], "bearer": ["check"] }]);
    assert_eq!(security(&both, "/v1/check"), either);
}

/// Errors told clients to send a token although no principal has one.
#[test]
fn errors_mention_no_token_if_all_principals_have_certificates() {
    let mutual = Mutual::start(Some(READER));
    let ask = |uri: &str, headers: &str| {
        let head = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
        mutual.client(uri).ask(mutual.server.admin, head.as_bytes()).expect("an answer")
    };
    assert_eq!(ask("spiffe://prod/reader", "").0, 200);
    for (uri, headers) in
        [("spiffe://prod/other", ""), ("spiffe://prod/reader", "Authorization: Bearer tg_unknown\r\n")]
    {
        let (status, reply) = ask(uri, headers);
        assert_eq!(status, 403, "{reply}");
        assert!(!reply.to_ascii_lowercase().contains("www-authenticate"), "{reply}");
        assert!(reply.contains("certificate") && reply.contains("`metrics`"), "{reply}");
    }
}

/// A name that no certificate can have let nobody in, without a warning.
#[test]
fn warns_of_names_that_no_certificate_can_have() {
    let warnings = |server: Server| {
        server.signal("TERM");
        let (_, log) = server.wait();
        log.lines().filter(|line| line.contains("WARN")).map(str::to_owned).collect::<Vec<_>>()
    };
    let line = |name: &str, san: &str| {
        format!("{{\"name\": \"{name}\", \"san\": \"{san}\", \"scopes\": [\"check\"]}}\n")
    };
    let good =
        ["spiffe://prod/web", "web.example", "*.example", "10.0.0.1", "2001:db8::1", "ops@web.example"];
    let good: String =
        good.iter().enumerate().map(|(index, san)| line(&format!("good-{index}"), san)).collect();
    let mutual = Mutual::start(Some(&good));
    assert_eq!(warnings(mutual.server), <[String; 0]>::default());

    let bad = ["Web.example", "web .example", "2001:DB8::1", "::ffff:10.0.0.1", "CN=web", "web.example/"];
    let bad: String = bad.iter().enumerate().map(|(index, san)| line(&format!("bad-{index}"), san)).collect();
    let mutual = Mutual::start(Some(&format!("{good}{bad}")));
    // Also when the file is read again.
    let again = line("late", "spiffe://prod/late") + &line("new", "Other.Example");
    mutual.folder.write("tokens.jsonl", &format!("{good}{again}"));
    let client = mutual.client("spiffe://prod/late");
    until("the file is read again", || {
        client.get(mutual.server.public, "/v1/check?user=a").is_ok_and(|(status, _)| status == 200)
    });
    let said = warnings(mutual.server);
    assert_eq!(said.len(), 7, "{said:#?}");
    for (index, said) in said.iter().take(6).enumerate() {
        assert!(said.contains(&format!("bad-{index}")), "{said}");
    }
    assert!(said[0].contains("web.example"), "it says how the name is written: {}", said[0]);
    assert!(said[6].contains("other.example"), "{}", said[6]);

    let folder = Folder::new();
    let tokens = folder.write("t", &format!("{good}{}", new_token("web", &["--scope", "check"]).1));
    let said = warnings(Server::start(&["--limit", "5/1d", "--tokens", &tokens]));
    let [said] = &said[..] else { panic!("{said:#?}") };
    assert!(said.contains("--tls-client-ca") && said.contains("good-0"), "{said}");
}

/// Every client uses every operation on both listeners with its certificate. Only subject alternative names count, and
/// of several the first that the file knows.
#[test]
fn a_certificate_is_a_principal_by_its_alternative_names() {
    let folder = Folder::new();
    let authority = Authority::new(folder.root(), "authority");
    let uri = |name: &str| SanType::URI(name.try_into().expect("a name"));
    let host = |name: &str| SanType::DnsName(name.try_into().expect("a name"));
    let mut file = String::new();
    let mut clients = Vec::new();
    let mut client = |name: &'static str, names: Vec<SanType>, scopes: &'static [&'static str]| {
        let identity = authority.issue(folder.root(), name, |params| params.subject_alt_names = names);
        let is_known = !scopes.is_empty();
        let principal = Principal { name, shown: Vec::new(), is_known, scopes, policy: None };
        clients.push((principal, Client::new(&authority, Some(&identity))));
    };
    for scope in ALL_SCOPES {
        file += &format!(
            "{{\"name\": \"{scope}\", \"san\": \"spiffe://prod/{scope}\", \"scopes\": [\"{scope}\"]}}\n"
        );
        client(scope, vec![uri(&format!("spiffe://prod/{scope}"))], std::slice::from_ref(scope));
    }
    let all = ALL_SCOPES.join("\", \"");
    file += &format!("{{\"name\": \"root\", \"san\": \"root.example\", \"scopes\": [\"{all}\"]}}\n");
    client("several", vec![uri("spiffe://prod/other"), host("Root.Example")], ALL_SCOPES);
    client("wrong", vec![uri("spiffe://prod/checks"), host("x.root.example")], &[]);
    client("root.example", Vec::new(), &[]);

    let (policies, tokens) = (folder.write("p.yaml", POLICIES), folder.write("tokens.jsonl", &file));
    let Identity { certificate, key } = authority.server(folder.root(), "server");
    let files = [certificate, key, authority.file.clone()].map(|path| path.display().to_string());
    let state = folder.path("state");
    let mut flags = vec!["--config", &policies, "--tokens", &tokens, "--state-dir", &state];
    flags.extend(["--answers", "spring-starter"]);
    flags.push("--caller-quotas");
    flags.extend(["--tls-cert", &files[0], "--tls-key", &files[1], "--tls-client-ca", &files[2]]);
    let server = Server::start(&flags);

    let (mut cells, mut wrong) = (0, String::new());
    for (principal, client) in &clients {
        for (listener, address) in [("checks", server.public), ("admin", server.admin)] {
            for operation in &OPERATIONS {
                let Operation { method, path, headers, body, .. } = operation;
                let headers = [&["Host: evil.example", "Connection: close"], &headers[..]].concat();
                let request = request(method, path, &headers, body);
                let (status, said) = client.ask(address, &request).expect("an answer comes");
                // No principal has a token, so there is none to ask for.
                let expected = match expected(principal, operation, listener).0 {
                    401 => 403,
                    status => status,
                };
                if status != expected {
                    let cell = format!("{} {method} {path} on {listener}", principal.name);
                    wrong += &format!("{cell}: {status} in place of {expected}: {said}\n");
                }
                cells += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "of {cells} cells:\n{wrong}");
    assert_eq!(cells, clients.len() * 2 * OPERATIONS.len());
    assert_published(cells, "more cells");
}

/// A token overrides the certificate of the connection.
#[test]
fn a_token_overrides_a_certificate() {
    let folder = Folder::new();
    let authority = Authority::new(folder.root(), "authority");
    let uri = |name: &str| SanType::URI(name.try_into().expect("a name"));
    let checks = authority.issue(folder.root(), "checks", |params| {
        params.subject_alt_names = vec![uri("spiffe://prod/checks")]
    });
    let (token, line) = new_token("peeks", &["--scope", "peek"]);
    let san = r#"{"name": "checks", "san": "spiffe://prod/checks", "scopes": ["check"]}"#;
    let tokens = folder.write("tokens.jsonl", &format!("{line}\n{san}\n"));
    let Identity { certificate, key } = authority.server(folder.root(), "server");
    let files = [certificate, key, authority.file.clone()].map(|path| path.display().to_string());
    let mut flags = vec!["--limit", "5/1d", "--key", "key", "--tokens", &tokens];
    flags.extend(["--tls-cert", &files[0], "--tls-key", &files[1], "--tls-client-ca", &files[2]]);
    let server = Server::start(&flags);
    let client = Client::new(&authority, Some(&checks));
    let status = |path: &str, authorization: Option<&str>| {
        let mut headers = vec!["Host: localhost", "Connection: close"];
        headers.extend(authorization);
        let body = r#"{"attributes": {"key": "alice"}}"#;
        client.ask(server.public, &request("POST", path, &headers, body)).expect("an answer comes").0
    };
    let bearer = format!("Authorization: Bearer {token}");
    assert_eq!((status("/v1/check", None), status("/v1/peek", None)), (200, 403));
    assert_eq!((status("/v1/check", Some(&bearer)), status("/v1/peek", Some(&bearer))), (403, 200));
    assert_eq!(status("/v1/check", Some("Authorization: Bearer tg_unknown")), 401);
    let try_it = server.said.last().expect("a line to try");
    assert!(try_it.contains("--key KEY -H \"Authorization: Bearer $(cat token.txt)\" 'https://"), "{try_it}");
}
