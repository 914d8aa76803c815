//! TLS on the listeners: accepted and refused clients, and changing certificates.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rcgen::{SanType, date_time_ymd};
use rustls::pki_types::ServerName;
use tempfile::TempDir;

use crate::certificates::{Authority, Client, Identity};
use crate::support::folder::Folder;
use crate::support::{Connection, EVERY_LINE, HANG, Server, get, tollgate, undisturbed, until};

const CHECK: &str = "/v1/check?user=alice";

/// An authority, and a service with its certificate.
struct Setup {
    folder: TempDir,
    authority: Authority,
    identity: Identity,
}

impl Setup {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new(folder.path(), "authority");
        let identity = authority.server(folder.path(), "server");
        fs::set_permissions(&identity.key, fs::Permissions::from_mode(0o600)).expect("it is ours");
        Self { folder, authority, identity }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn start(&self, more: &[&str]) -> Server {
        Server::start(&self.arguments(more))
    }

    fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let Identity { certificate, key } = &self.identity;
        let mut arguments = vec!["--limit", "1000000/1d", "--key", "user"];
        arguments.extend(["--tls-cert", text(certificate), "--tls-key", text(key)]);
        arguments.extend(more);
        arguments
    }

    /// Returns a client that trusts the authority and shows this certificate.
    fn client(&self, shows: Option<&Identity>) -> Client {
        Client::new(&self.authority, shows)
    }

    /// Returns a metric. The admin listener needs a client certificate if the checks listener does.
    fn metric(&self, server: &Server, shows: Option<&Identity>, name: &str) -> Option<f64> {
        let (_, text) = self.client(shows).get(server.admin, "/metrics").expect("metrics");
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        text.lines().find_map(value)
    }
}

fn status(client: &Client, address: SocketAddr) -> Option<u16> {
    client.get(address, CHECK).ok().map(|(status, _)| status)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Returns what `openssl s_client` prints about a connection.
fn openssl(setup: &Setup, address: SocketAddr, arguments: &[&str]) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &address.to_string(), "-CAfile", text(&setup.authority.file)])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("openssl is missing: install it, such as with `apt-get install openssl`");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn both_listeners_speak_tls_1_2_and_1_3_and_nothing_older() {
    let setup = Setup::new();
    let server = setup.start(&[]);
    for address in [server.public, server.admin] {
        for (version, protocol) in [("-tls1_2", "h2"), ("-tls1_3", "h2"), ("-tls1_3", "http/1.1")] {
            let said = openssl(&setup, address, &[version, "-alpn", protocol]);
            assert!(said.contains("Verify return code: 0"), "{version}: {said}");
            assert!(said.contains(&format!("ALPN protocol: {protocol}")), "{version}: {said}");
        }
        // Without that, it would refuse to ask.
        let old = openssl(&setup, address, &["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"]);
        assert!(old.contains("Protocol  : TLSv1.1") && old.contains("Cipher is (NONE)"), "{old}");
        assert!(old.contains("SSL alert number"), "it is the service that refuses: {old}");
        let other = openssl(&setup, address, &["-alpn", "spdy/3"]);
        assert!(other.contains("no application protocol"), "{other}");
    }
    assert_eq!(status(&setup.client(None), server.public), Some(200));
    let (_, openapi) = setup.client(None).get(server.admin, "/openapi.json").expect("a description");
    assert!(openapi.contains(&format!("https://{}", server.admin)), "{openapi}");
    assert!(server.said.iter().any(|line| line.contains(&format!("checks  https://{}", server.public))));
    assert!(server.said.iter().any(|line| line.contains("curl -i --cacert CA 'https://")));
}

#[tokio::test]
async fn http_2_is_spoken_where_the_client_chooses_it() {
    let setup = Setup::new();
    let server = setup.start(&[]);
    let mut config = (*setup.client(None).0).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = tokio::net::TcpStream::connect(server.public).await.expect("the server listens");
    let name = ServerName::from(server.public.ip());
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .expect("it is trusted");
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut requests, connection) =
        hyper::client::conn::http2::handshake(hyper_util::rt::TokioExecutor::new(), io)
            .await
            .expect("it speaks HTTP/2");
    tokio::spawn(connection);
    let request = http::Request::get(format!("https://localhost{CHECK}"));
    let request = request.body(http_body_util::Empty::<bytes::Bytes>::new()).expect("a request");
    let reply = requests.send_request(request).await.expect("an answer");
    assert_eq!((reply.status(), reply.version()), (http::StatusCode::OK, http::Version::HTTP_2));
}

#[test]
fn clients_without_tls_are_counted_and_logged_once() {
    let setup = Setup::new();
    let server = setup.start(&[]);
    for _ in 0..3 {
        let reply = Connection::open(server.public).ask(&get(CHECK));
        reply.assert_problem(400, None);
        assert!(reply.json()["detail"].as_str().is_some_and(|detail| detail.contains("https://")));
    }
    let mut garbage = Connection::open(server.public);
    garbage.send(b"\0\x01\x02\x03garbage");
    assert!(garbage.is_closed());
    let mut record = Connection::open(server.public);
    record.send(b"\x16\x03\x01\x00\x04\xff\xff\xff\xff");
    assert!(record.is_closed() || record.is_closed());
    drop(TcpStream::connect(server.public).expect("it listens"));
    let mut begun = TcpStream::connect(server.public).expect("it listens");
    begun.write_all(b"\x16\x03\x01\x02").expect("it reads");
    drop(begun);

    let failed = |reason: &str| {
        let name = format!("tollgate_tls_handshakes_failed_total{{listener=\"checks\",reason=\"{reason}\"}}");
        setup.metric(&server, None, &name)
    };
    until("all are counted", || failed("gone") == Some(2.0));
    assert_eq!((failed("plain"), failed("protocol")), (Some(4.0), Some(1.0)));
    assert_eq!((failed("timeout"), failed("certificate")), (Some(0.0), Some(0.0)));
    server.signal("TERM");
    let log = server.wait().1;
    assert_eq!(log.matches("a TLS handshake failed").count(), 1, "{log}");
}

/// A handshake has five seconds, even if bytes arrive, and holds a place meanwhile.
#[test]
fn slow_handshakes_are_cut_and_hold_a_place_until_then() {
    undisturbed(|| {
        let setup = Setup::new();
        let server = setup.start(&["--max-connections", "2"]);
        let began = Instant::now();
        let mut silent = Connection::open(server.public);
        let mut slow = Connection::open(server.public);
        slow.send(b"\x16\x03\x01\x02\x00");
        let waiting = {
            let (client, address) = (setup.client(None), server.public);
            thread::spawn(move || (status(&client, address), began.elapsed()))
        };
        while slow.try_send(b"\x01") {
            thread::sleep(Duration::from_millis(500));
            assert!(began.elapsed() < HANG, "a slow handshake is waited for");
        }
        assert!(silent.is_closed());
        let (status, waited) = waiting.join().expect("no panic");
        assert_eq!(status, Some(200));
        assert!(waited > Duration::from_millis(4_500), "{waited:?}");
        let name = "tollgate_tls_handshakes_failed_total{listener=\"checks\",reason=\"timeout\"}";
        assert_eq!(setup.metric(&server, None, name), Some(2.0));
    });
}

/// Clients that never end a handshake have no more places than others.
#[test]
fn a_handshake_counts_among_the_connections_of_its_client() {
    let setup = Setup::new();
    let server = setup.start(&["--max-connections-per-peer", "1"]);
    let silent = Connection::open(server.public);
    let refused = "tollgate_http_connections_refused_total{listener=\"checks\"}";
    for _ in 0..5 {
        assert_eq!(status(&setup.client(None), server.public), None);
    }
    assert_eq!(setup.metric(&server, None, refused), Some(5.0));
    drop(silent);
    until("there is room again", || status(&setup.client(None), server.public) == Some(200));
}

#[test]
fn a_drain_ends_handshakes() {
    undisturbed(|| {
        let setup = Setup::new();
        let server = setup.start(&[]);
        let _silent = Connection::open(server.public);
        let mut begun = Connection::open(server.public);
        begun.send(b"\x16\x03\x01\x02\x00\x01");
        let mut kept = setup.client(None).open(server.public).expect("a connection");
        kept.write_all(&get(CHECK)).expect("it reads");
        kept.read_exact(&mut [0; 12]).expect("an answer");
        let began = Instant::now();
        server.signal("TERM");
        let (status, log) = server.wait();
        assert_eq!(status.code(), Some(0));
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        assert!(!log.contains("connections were left"), "{log}");
    });
}

#[test]
fn a_client_needs_a_certificate_of_the_authority() {
    let setup = Setup::new();
    let (folder, other) = (setup.path(), Authority::new(setup.path(), "other"));
    let named = |params: &mut rcgen::CertificateParams| {
        params.subject_alt_names = vec![
            SanType::URI("spiffe://prod/web".try_into().expect("a name")),
            SanType::DnsName("web.example".try_into().expect("a name")),
        ];
    };
    let web = setup.authority.issue(folder, "web", named);
    let nobody = setup.authority.issue(folder, "nobody", |_| {});
    let expired =
        setup.authority.issue(folder, "expired", |params| params.not_after = date_time_ymd(2020, 1, 1));
    let later =
        setup.authority.issue(folder, "later", |params| params.not_before = date_time_ymd(2999, 1, 1));
    let stranger = other.issue(folder, "stranger", named);
    let mut traced = tollgate();
    traced.env("RUST_LOG", "tollgate_server=trace");
    let authority = text(&setup.authority.file);
    let server = Server::start_by(traced, &setup.arguments(&["--tls-client-ca", authority]));

    for address in [server.public, server.admin] {
        let status = |shows| setup.client(shows).get(address, "/healthz").ok().map(|(status, _)| status);
        assert_eq!(status(Some(&web)), Some(200));
        assert_eq!(status(Some(&nobody)), Some(200), "the authority vouches for it");
        for (what, shows) in [
            ("none", None),
            ("another authority's", Some(&stranger)),
            ("an expired one", Some(&expired)),
            ("one of later", Some(&later)),
        ] {
            assert_eq!(status(shows), None, "{what}");
        }
    }
    // A session that is resumed would not show a certificate again.
    let client = setup.client(Some(&web));
    for _ in 0..3 {
        let mut connection = client.open(server.public).expect("a connection");
        connection.write_all(&get("/healthz")).expect("it reads");
        connection.read_exact(&mut [0; 12]).expect("an answer");
        assert_eq!(connection.conn.handshake_kind(), Some(rustls::HandshakeKind::Full));
    }
    let name = "tollgate_tls_handshakes_failed_total{listener=\"checks\",reason=\"certificate\"}";
    assert_eq!(setup.metric(&server, Some(&web), name), Some(4.0));
    server.signal("TERM");
    let log = server.wait().1;
    let names = |line: &&str| line.contains("certificate of a client");
    let named: Vec<&str> = log.lines().filter(names).collect();
    assert!(named.iter().any(|line| line.contains("spiffe://prod/web")), "{log}");
    assert!(named.iter().any(|line| line.contains("web.example")), "{log}");
}

/// curl only reported a lost connection. With TLS 1.3, a client sends its request before the service has verified its
/// certificate, and the unread bytes made the system reset the connection.
#[test]
fn a_client_without_a_certificate_is_told_why() {
    let setup = Setup::new();
    let server = setup.start(&["--tls-client-ca", text(&setup.authority.file)]);
    for _ in 0..20 {
        let mut connection = setup.client(None).open(server.public).expect("it listens");
        let request = get(&format!("/v1/check?user={}", "a".repeat(30_000)));
        let asked = connection.write_all(&request).and_then(|()| connection.read(&mut [0]));
        let error = asked.expect_err("it is not let in").to_string();
        assert!(error.contains("CertificateRequired"), "{error}");
        connection.sock.peer_addr().expect("it is not reset");
    }
}

/// A scraper has no certificate.
#[test]
fn metrics_are_answered_over_tls_to_clients_without_a_certificate() {
    let setup = Setup::new();
    let authority = text(&setup.authority.file);
    let server = setup.start(&["--tls-client-ca", authority, "--metrics-listen", "127.0.0.1:0"]);
    let metrics = server.metrics.expect("it listens for metrics");
    assert!(server.said.iter().any(|line| line.contains(&format!("metrics https://{metrics}"))));
    let client = setup.client(None);
    let metrics_status = |path: &str| client.get(metrics, path).expect("no certificate is needed").0;
    assert_eq!(["/metrics", "/healthz", "/readyz"].map(metrics_status), [200; 3]);
    assert_eq!([CHECK, "/v1/policies"].map(metrics_status), [404; 2]);
    Connection::open(metrics).ask(&get("/metrics")).assert_problem(400, None);
    for address in [server.public, server.admin] {
        let error = client.get(address, "/healthz").expect_err("a certificate is needed").to_string();
        assert!(error.contains("CertificateRequired"), "{error}");
    }
}

/// A load balancer could not probe a service that demands client certificates: plain `GET /healthz` was answered 400 on
/// every listener.
#[test]
fn plain_probes_are_answered_without_tls_and_tell_health_alone() {
    let setup = Setup::new();
    let authority = text(&setup.authority.file);
    let server = setup.start(&["--tls-client-ca", authority, "--plain-probes", "127.0.0.1:0"]);
    let probes = server.probes.expect("it listens for probes");
    assert!(server.said.iter().any(|line| line.contains(&format!("probes  http://{probes}"))));
    let status = |path: &str| Connection::open(probes).ask(&get(path)).status;
    assert_eq!(["/healthz", "/readyz"].map(status), [200; 2]);
    let others = ["/metrics", "/openapi.json", "/v1/policies", CHECK, "/forward-auth", "/healthcheck"];
    assert_eq!(others.map(status), [404; 6]);
    let error = setup.client(None).get(probes, "/healthz").expect_err("it speaks no TLS").to_string();
    assert!(!error.contains("CertificateRequired"), "{error}");
    // All other listeners stay closed to plain HTTP.
    for address in [server.public, server.admin] {
        Connection::open(address).ask(&get("/healthz")).assert_problem(400, None);
    }
    let web = setup.authority.issue(setup.path(), "web", |_| {});
    let open = setup.metric(&server, Some(&web), r#"tollgate_http_connections{listener="probes"}"#);
    assert!(open.is_some());
}

/// Other forms of requests, and the limits of Envoy's service, have paths of their own on other listeners.
#[test]
fn plain_probes_tell_health_alone_whatever_the_service_answers_elsewhere() {
    const PATHS: [&str; 8] = [
        "/check?userId=a",
        "/api/v1/rate_limit?user_id=a",
        "/evaluate?name=a&key=b",
        "/actuator/prometheus",
        "/json",
        "/v1/policies",
        "/metrics",
        CHECK,
    ];
    let folder = Folder::new();
    folder.write(
        "limits.yaml",
        "domain: d\ndescriptors: [{ key: k, rate_limit: { unit: day, requests_per_unit: 5 } }]\n",
    );
    let root = folder.root().to_str().expect("a path in UTF-8");
    let forms = [("rlaas", "userId"), ("leetdezine", "user"), ("spring-starter", "name,key")];
    let forms = forms.map(|(form, key)| vec!["--limit", "5/1d", "--key", key, "--answers", form]);
    for arguments in forms.into_iter().chain([vec!["--import", "envoy-ratelimit", root]]) {
        let server = Server::start(&[&arguments[..], &["--plain-probes", "127.0.0.1:0"]].concat());
        let probes = server.probes.expect("it listens for probes");
        let statuses = |method: &str| {
            let request =
                |path: &str| format!("{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
            PATHS.map(|path| Connection::open(probes).ask(request(path).as_bytes()).status)
        };
        for method in ["GET", "POST"] {
            assert_eq!(statuses(method), [404; 8], "{method} with {arguments:?}");
        }
        assert_eq!(Connection::open(probes).ask(&get("/readyz")).status, 200, "{arguments:?}");
    }
}

/// A load balancer takes a service that drains out of its list only if its probe says so.
#[test]
fn plain_probes_are_not_ready_during_a_drain() {
    let server = Server::start(&["--limit", "5/1d", "--plain-probes", "127.0.0.1:0", "--drain-delay", "30s"]);
    let probes = server.probes.expect("it listens for probes");
    let status = |path: &str| Connection::open(probes).ask(&get(path)).status;
    assert_eq!(["/healthz", "/readyz"].map(status), [200, 200]);
    server.signal("TERM");
    until("it drains", || status("/readyz") == 503);
    assert_eq!(status("/healthz"), 200);
}

/// TLS was on all listeners or on none, so a proxy with a certificate excluded a Prometheus that speaks plain HTTP.
#[test]
fn listeners_without_tls_stay_plain_and_are_open_to_nobody_else() {
    let setup = Setup::new();
    let authority = text(&setup.authority.file);
    let listeners = ["--grpc", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"];
    let mutual = ["--tls-client-ca", authority];
    let server = setup.start(&[&listeners[..], &mutual, &["--tls-on", "grpc,checks"]].concat());
    let plain = |address: Option<SocketAddr>, path: &str| {
        Connection::open(address.expect("it listens")).ask(&get(path)).status
    };
    assert_eq!(plain(Some(server.admin), "/v1/policies"), 200);
    assert_eq!(plain(server.metrics, "/metrics"), 200);
    assert_eq!(plain(Some(server.public), CHECK), 400);
    for address in [Some(server.public), server.grpc] {
        let error = setup.client(None).get(address.expect("it listens"), "/healthz");
        let error = error.expect_err("a certificate is needed").to_string();
        assert!(error.contains("CertificateRequired"), "{error}");
    }
    let web = setup.authority.issue(setup.path(), "web", |_| {});
    assert_eq!(status(&setup.client(Some(&web)), server.public), Some(200));
    // Certificates protect the admin listener no more, so its pages do not choose its name either.
    let rebound = b"GET /v1/policies HTTP/1.1\r\nHost: limits.example\r\n\r\n";
    assert_eq!(Connection::open(server.admin).ask(rebound).status, 403);

    for (more, expected) in [
        (&["--tls-on", "grpc", "--admin-listen", "0.0.0.0:0"][..], "can be reached by other hosts"),
        (&["--tls-on", "metrics", "--metrics-listen", "none"], "`--tls-on metrics` needs an address"),
        (&["--tls-on", "checks", "--listen", "none"], "`--tls-on checks` needs an address"),
    ] {
        let arguments = setup.arguments(&[&["--grpc", "127.0.0.1:0"], &mutual[..], more].concat());
        let refused = tollgate().arg("serve").args(arguments).output().expect("it runs");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

/// With client certificates, other hosts may reach the admin listener, under any host name: a page that rebinds its
/// host name to the service has no certificate for that name.
#[test]
fn mutual_tls_protects_the_admin_listener_and_tls_alone_does_not() {
    let setup = Setup::new();
    let authority = text(&setup.authority.file);
    let web = setup.authority.issue(setup.path(), "web", |_| {});
    let request = b"GET /v1/policies HTTP/1.1\r\nHost: limits.example\r\nConnection: close\r\n\r\n";
    let status = |server: &Server, shows| {
        let address = SocketAddr::from(([127, 0, 0, 1], server.admin.port()));
        setup.client(shows).ask(address, request).expect("an answer").0
    };
    assert_eq!(status(&setup.start(&[]), None), 403);

    let open = ["--admin-listen", "0.0.0.0:0"];
    let refused = tollgate().arg("serve").args(setup.arguments(&open)).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let server = setup.start(&[&open[..], &["--tls-client-ca", authority]].concat());
    assert_eq!(status(&server, Some(&web)), 200);
    let try_it = server.said.last().expect("a line to try");
    assert!(try_it.contains("curl -i --cacert CA --cert CERTIFICATE --key KEY 'https://"), "{try_it}");
    server.signal("TERM");
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(!log.contains("WARN"), "{log}");
}

/// Clients connect all the time while certificates change, in every way.
#[test]
fn no_client_notices_a_change_of_certificates_under_load() {
    let setup = Setup::new();
    let folder = setup.path().join("secret");
    let publish = |version: &str| {
        // As Kubernetes does: a folder of both files, and a link to it that is replaced.
        let Identity { certificate, key } = setup.authority.server(setup.path(), version);
        let data = folder.join(version);
        fs::create_dir_all(&data).expect("a folder");
        fs::rename(certificate, data.join("tls.crt")).expect("a file");
        fs::rename(key, data.join("tls.key")).expect("a file");
        let next = folder.join("..next");
        symlink(version, &next).expect("a link");
        fs::rename(next, folder.join("..data")).expect("a link");
    };
    publish("first");
    for name in ["tls.crt", "tls.key"] {
        symlink(format!("..data/{name}"), folder.join(name)).expect("a link");
    }
    let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
    let arguments = ["--limit", "1000000/1d", "--key", "user"];
    let tls = ["--tls-cert", text(&certificate), "--tls-key", text(&key)];
    let server = Server::start(&[&arguments[..], &tls].concat());
    let (is_over, asked, failed) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    let replaced = || setup.metric(&server, None, "tollgate_tls_reloads_total{outcome=\"replaced\"}");
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let client = setup.client(None);
                while !is_over.load(Ordering::Relaxed) {
                    asked.fetch_add(1, Ordering::Relaxed);
                    if status(&client, server.public) != Some(200) {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let changes = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 1..=10 {
                publish(&format!("v{round}"));
                until("a link that is replaced is noticed", || replaced() == Some(f64::from(round)));
            }
            for round in 11..=20 {
                // One after the other, and at once by a signal: what does not fit is refused then.
                let next = setup.authority.server(setup.path(), &format!("v{round}"));
                fs::write(&certificate, fs::read(next.certificate).expect("a file")).expect("a file");
                server.signal("HUP");
                thread::sleep(Duration::from_millis(5));
                fs::write(&key, fs::read(next.key).expect("a file")).expect("a file");
                server.signal("HUP");
                until("a signal has them read", || replaced() == Some(f64::from(round)));
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        changes.expect("every change is noticed");
    });
    assert_eq!(failed.into_inner(), 0);
    assert!(asked.into_inner() > 20);
    assert_eq!(setup.metric(&server, None, "tollgate_tls_in_step"), Some(1.0));
}

#[test]
fn an_invalid_certificate_keeps_the_last_valid_one() {
    let setup = Setup::new();
    let server = setup.start(&[]);
    let metric = |name: &str| setup.metric(&server, None, name);
    let failed = || metric("tollgate_tls_reloads_total{outcome=\"failed\"}").expect("a count");
    for bad in ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA"] {
        let before = failed();
        fs::write(&setup.identity.certificate, bad).expect("a file");
        server.signal("HUP");
        until("it is refused", || failed() > before);
        assert_eq!(metric("tollgate_tls_in_step"), Some(0.0));
        assert_eq!(status(&setup.client(None), server.public), Some(200));
    }
    server.signal("TERM");
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0));
    assert!(log.contains("certificates stay as they are\n`--tls-cert`: "), "{log}");
    assert!(log.contains("server.crt: its PEM is damaged, or ends too early"), "{log}");
}

#[test]
fn an_expiry_is_a_metric_and_a_warning() {
    let setup = Setup::new();
    let server = setup.start(&[]);
    let expiry = "tollgate_tls_certificate_expiry_timestamp_seconds";
    // The end of the year 4095, unless somebody says otherwise.
    assert!(setup.metric(&server, None, expiry).is_some_and(|expiry| expiry > 60e9));
    let expired =
        setup.authority.issue(setup.path(), "expired", |params| params.not_after = date_time_ymd(2020, 1, 1));
    fs::copy(expired.key, &setup.identity.key).expect("a file");
    fs::copy(expired.certificate, &setup.identity.certificate).expect("a file");
    fs::set_permissions(&setup.identity.key, fs::Permissions::from_mode(0o644)).expect("it is ours");
    server.signal("HUP");
    until("a client refuses it", || status(&setup.client(None), server.public).is_none());
    server.signal("TERM");
    let (_, log) = server.wait();
    assert!(log.contains("the certificate has expired") && log.contains("2020-01-01"), "{log}");
    let warning =
        log.lines().find(|line| line.contains("every user of this machine can read the private key"));
    assert!(warning.is_some_and(|line| line.contains("mode=644")), "{log}");
    assert_eq!(log.matches("every user of this machine").count(), 1, "it was not so at the start: {log}");
}

#[test]
fn exits_with_2_for_unusable_files() {
    let setup = Setup::new();
    let folder = setup.path();
    let other = setup.authority.server(folder, "other-server");
    let file = |name: &str, text: &str| {
        fs::write(folder.join(name), text).expect("a file");
        folder.join(name)
    };
    let (empty, broken) = (file("empty", ""), file("broken", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n"));
    let locked = file(
        "locked",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nc2VjcmV0\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    let unfit = file("unfit", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let Identity { certificate, key } = &setup.identity;
    // Where somebody listens already, so that it ends whatever it makes of the files.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let says = |arguments: &[&str]| {
        let serve = ["serve", "--limit", "5/1d", "--listen", &address];
        let output = tollgate().args(serve).args(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    for (certificate, key, expected) in [
        (&empty, key, "`--tls-cert`: {}: it contains no certificate in PEM format"),
        (&unfit, key, "`--tls-cert`: {}: invalid peer certificate: BadEncoding"),
        (&folder.join("away"), key, "`--tls-cert`: {}: No such file or directory"),
        (certificate, &empty, "`--tls-key`: {}: it contains no private key in PEM format"),
        (certificate, &broken, "`--tls-key`: {}: its PEM is damaged, or ends too early"),
        (certificate, &locked, "`--tls-key`: {}: its private key is encrypted"),
        (certificate, &other.key, "`--tls-key`: {}: it is not the key of the first certificate in"),
        (certificate, &folder.to_path_buf(), "`--tls-key`: {}: it is not a regular file"),
    ] {
        let named = if expected.starts_with("`--tls-cert") { certificate } else { key };
        let error = says(&["--tls-cert", text(certificate), "--tls-key", text(key)]);
        assert!(error.contains(&expected.replace("{}", text(named))), "{error}");
        assert!(!error.contains("c2VjcmV0"), "{error}");
    }
    let tls = ["--tls-cert", text(certificate), "--tls-key", text(key)];
    let error = says(&[&tls[..], &["--tls-client-ca", text(&empty)]].concat());
    assert!(error.contains("`--tls-client-ca`: ") && error.contains("no certificate in PEM"), "{error}");
    assert!(says(&tls[..2]).contains("--tls-key <FILE>"));
    assert!(says(&["--tls-client-ca", text(certificate)]).contains("--tls-cert <FILE>"));
}

#[test]
fn check_works_over_tls() {
    let setup = Setup::new();
    let authority = text(&setup.authority.file);
    let client = setup.authority.issue(setup.path(), "client", |_| {});
    let other = Authority::new(setup.path(), "other");
    let (open, mutual) = (setup.start(&[]), setup.start(&["--tls-client-ca", authority]));
    let plain = Server::start(&["--limit", "5/1d"]);
    let check = |server: &str, arguments: &[&str]| {
        let output = tollgate().args(["check", "user=alice", "--server", server]).args(arguments).output();
        let output = output.expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let [open_url, mutual_url, plain_url] =
        [&open, &mutual, &plain].map(|server| format!("https://{}", server.public));
    let shown = ["--client-cert", text(&client.certificate), "--client-key", text(&client.key)];
    let ca = ["--ca", authority];
    assert_eq!(check(&open_url, &ca).0, Some(0));
    assert_eq!(check(&mutual_url, &[&ca[..], &shown].concat()).0, Some(0));
    let named = format!("https://localhost:{}", open.public.port());
    assert_eq!(check(&named, &ca).0, Some(0));

    for (server, arguments, status, expected) in [
        (&open_url, vec![], 3, "name the authority with --ca"),
        (&open_url, vec!["--ca", text(&other.file)], 3, "name the authority with --ca"),
        (
            &mutual_url,
            ca.to_vec(),
            3,
            "requires a client certificate: name one with --client-cert and --client-key",
        ),
        (&plain_url, ca.to_vec(), 3, "no secure connection to https://"),
        (
            &open_url.replace("https", "http"),
            vec![],
            2,
            "this listener speaks TLS: ask it with https:// URLs",
        ),
        (&open_url.replace("https", "http"), ca.to_vec(), 2, "require an https:// URL"),
        (&open_url, vec!["--ca", text(&setup.identity.key)], 2, "holds no certificate in PEM"),
    ] {
        let (code, said) = check(server, &arguments);
        assert_eq!(code, Some(status), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

/// At every log level, and with every failure.
#[test]
fn no_key_is_ever_shown() {
    let setup = Setup::new();
    let mut traced = tollgate();
    traced.env("RUST_LOG", EVERY_LINE);
    let authority = text(&setup.authority.file);
    let client = setup.authority.issue(setup.path(), "client", |_| {});
    let server = Server::start_by(traced, &setup.arguments(&["--tls-client-ca", authority]));
    assert_eq!(status(&setup.client(Some(&client)), server.public), Some(200));
    assert_eq!(status(&setup.client(None), server.public), None);
    let key = fs::read_to_string(&setup.identity.key).expect("a file");
    fs::write(&setup.identity.key, key.replace("-----END", "-----BEGIN")).expect("a file");
    server.signal("HUP");
    let failed = "tollgate_tls_reloads_total{outcome=\"failed\"}";
    until("it is refused", || setup.metric(&server, Some(&client), failed) == Some(1.0));
    let (_, metrics) = setup.client(Some(&client)).get(server.admin, "/metrics").expect("metrics");
    let said = server.said.join("\n");
    server.signal("TERM");
    let log = server.wait().1;
    assert!(log.contains("handshake failed") && log.contains("certificates stay as they are"), "{log}");
    // Its lines, and its bytes as debug output shows them.
    let secrets: Vec<&str> = key.lines().filter(|line| !line.starts_with("---")).collect();
    assert!(!secrets.is_empty());
    for shown in [&log, &metrics, &said] {
        assert!(!shown.contains("-----BEGIN") && !shown.contains("PRIVATE KEY"), "{shown}");
        assert!(!secrets.iter().any(|secret| shown.contains(secret)), "{shown}");
        let digits = "[45, 45, 45, 45, 45, 66";
        assert!(!shown.contains(digits), "{shown}");
    }
}

/// Most clients end TLS without a close alert, and each counted as a broken connection.
#[test]
fn a_client_that_ends_tls_without_an_alert_is_not_counted_as_broken() {
    let setup = Setup::new();
    let server = setup.start(&[]);
    let cut = |reason: &str| {
        let name = format!("tollgate_http_connections_cut_total{{reason=\"{reason}\"}}");
        setup.metric(&server, None, &name).expect("a count")
    };
    let open = || setup.metric(&server, None, "tollgate_http_connections{listener=\"checks\"}");
    for _ in 0..20 {
        let mut stream = setup.client(None).open(server.public).expect("it listens");
        stream.write_all(&get(CHECK)).expect("it reads");
        let mut reply = [0; 4096];
        let read = stream.read(&mut reply).expect("an answer");
        assert!(reply[..read].starts_with(b"HTTP/1.1 200"));
        drop(stream);
    }
    until("they have ended", || open() == Some(0.0));
    assert_eq!(cut("broken"), 0.0);

    // One that breaks off within a request is.
    let mut stream = setup.client(None).open(server.public).expect("it listens");
    stream
        .write_all(b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
        .expect("it reads");
    drop(stream);
    until("it has ended", || cut("broken") == 1.0);
}
