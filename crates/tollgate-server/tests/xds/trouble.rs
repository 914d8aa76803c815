//! What happens before the first limits, and without the server.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use crate::ads::{Ads, Port, users};
use crate::certificates::{Authority, Identity};
use crate::support::folder::Folder;
use crate::support::{Server, until};
use crate::{ask, command, start, start_with};

#[test]
fn without_limits_the_service_is_not_ready_and_decides_nothing() {
    let ads = Ads::start();
    let server = start(&ads, &[]);
    ads.hear();
    let states = || ["/readyz", "/healthcheck", "/healthz"].map(|path| server.get(path).status);
    let detail = || server.get("/readyz").json()["detail"].as_str().unwrap().to_owned();
    let in_step = || server.metric("tollgate_policies_in_step");
    assert_eq!(states(), [503, 500, 200]);
    assert_eq!(ask(&server, "shop", "alice"), 503);
    assert_eq!((detail().as_str(), in_step()), ("no limits have arrived over xDS yet", Some(0.0)));
    // An invalid update is none.
    ads.publish_invalid("1", &[users("", 1)]);
    assert_eq!(states(), [503, 500, 200]);
    let expected = "the limits that have arrived over xDS are not valid";
    assert_eq!((detail().as_str(), in_step()), (expected, Some(0.0)));
    // A probe that fails showed nobody why: the body was empty.
    assert_eq!(server.get("/healthcheck").body, format!("{expected}\n").into_bytes());
    // The generation of no limits would look like an agreement.
    let generations = || {
        let metrics = String::from_utf8(server.admin_get("/metrics").body).unwrap();
        metrics.lines().filter(|line| line.starts_with("tollgate_generation_info{")).count()
    };
    let is_listed = || server.admin_get("/v1/policies").json()["generation"].is_string();
    let is_shown = || String::from_utf8(server.get("/readyz").body).unwrap().contains("generation");
    assert_eq!((generations(), is_listed(), is_shown()), (0, false, false));
    // Without limits is a configuration, too.
    ads.publish_valid("2", &[]);
    assert_eq!(states(), [200; 3]);
    assert_eq!((generations(), is_listed(), is_shown(), in_step()), (1, true, true, Some(1.0)));
    assert_eq!(ask(&server, "shop", "alice"), 200);
}

#[test]
fn the_service_can_start_without_limits_and_admit_everything() {
    let port = Port::reserve();
    let server = {
        let url = format!("http://{}", port.address);
        let command = command(&[("FORCE_START_WITHOUT_INITIAL_CONFIG", "true")]);
        Server::start_by(command, &["--import", "envoy-ratelimit", "--xds", &url])
    };
    assert_eq!(["/readyz", "/healthcheck"].map(|path| server.get(path).status), [200; 2]);
    let ready = String::from_utf8(server.get("/readyz").body).unwrap();
    assert!(
        ready.contains("the xDS server is not connected: without limits, every request is admitted"),
        "{ready}"
    );
    assert_eq!(ask(&server, "shop", "alice"), 200);
    assert_eq!(server.metric("tollgate_xds_connected"), Some(0.0));
    assert_eq!(server.metric("tollgate_unknown_domain_checks_total"), Some(1.0));
    // The server comes later.
    let ads = Ads::start_on(&port, None);
    ads.hear();
    until("it is connected", || server.metric("tollgate_xds_connected") == Some(1.0));
    let ready = String::from_utf8(server.get("/readyz").body).unwrap();
    assert!(ready.contains("no limits have arrived over xDS: every request is admitted"), "{ready}");
    ads.publish_valid("1", &[users("shop", 1)]);
    assert_eq!([0; 2].map(|_| ask(&server, "shop", "alice")), [200, 429]);
    server.signal("TERM");
    let (_, log) = server.wait();
    assert!(
        log.contains("no connection to the xDS server: without limits, every request is admitted"),
        "{log}"
    );
}

#[test]
fn the_last_limits_stay_while_the_server_is_away() {
    let port = Port::reserve();
    let ads = Ads::start_on(&port, None);
    let server = start(&ads, &[]);
    ads.hear();
    ads.publish_valid("7", &[users("shop", 1)]);
    assert_eq!([0; 2].map(|_| ask(&server, "shop", "alice")), [200, 429]);
    for lose in [Ads::end_stream, Ads::cut] {
        lose(&ads);
        // Another server may use the same version for other limits, so the client does not name its own.
        let again = ads.hear();
        assert_eq!((again.version_info.as_str(), again.response_nonce.as_str()), ("", ""));
        assert_eq!(ask(&server, "shop", "alice"), 429);
    }
    drop(ads);
    until("it notices", || server.metric("tollgate_xds_connected") == Some(0.0));
    assert_eq!(ask(&server, "shop", "alice"), 429);
    let ready = server.get("/readyz");
    assert_eq!(ready.status, 200);
    assert!(String::from_utf8(ready.body).unwrap().contains("the xDS server is not connected"));
    let age = || server.metric("tollgate_policies_age_seconds").unwrap();
    until("the age of the limits grows", || age() > 3.0);
    let ads = Ads::start_on(&port, None);
    ads.hear();
    // Until the server has sent something, it may have other limits.
    until("the age of the limits grows", || age() > 6.0);
    assert_eq!(server.metric("tollgate_xds_connected"), Some(1.0));
    ads.publish_valid("7", &[users("shop", 50)]);
    assert_eq!(ask(&server, "shop", "alice"), 200);
    // It does not grow while the server has nothing newer.
    assert!(ads.hears_nothing(Duration::from_secs(4)));
    assert!(age() < 3.0);
    server.signal("TERM");
    let (_, log) = server.wait();
    assert!(log.contains("no connection to the xDS server: the last limits stay live"), "{log}");
}

/// hyper's handshake does not wait for the server, so whatever listens was taken for a server with our limits.
#[test]
fn a_server_that_is_silent_is_not_connected() {
    let port = Port::reserve();
    let _listener = port.listen();
    let url = format!("http://{}", port.address);
    let command = command(&[("FORCE_START_WITHOUT_INITIAL_CONFIG", "true")]);
    let server = Server::start_by(command, &["--import", "envoy-ratelimit", "--xds", &url]);
    until("the age of the limits grows", || server.metric("tollgate_policies_age_seconds") > Some(2.5));
    assert_eq!(server.metric("tollgate_xds_connected"), Some(0.0));
    until("the time for a connection is over", || {
        server.metric("tollgate_policies_age_seconds") > Some(10.5)
    });
    server.signal("TERM");
    let (_, log) = server.wait();
    assert!(log.contains("no connection opened within 10s") && !log.contains("connected to"), "{log}");
}

/// It counted as connected between its answers, and the log had a line for each.
#[test]
fn a_server_without_the_method_is_not_connected() {
    let folder = Folder::new();
    let policies = folder.write("p.yaml", "policies: [{ name: all, key: global, quotas: 5/1d }]");
    let other = Server::start(&["--config", &policies, "--grpc", "127.0.0.1:0"]);
    let mut command = command(&[("FORCE_START_WITHOUT_INITIAL_CONFIG", "true")]);
    command.env("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "100ms");
    command.env("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "200ms");
    let url = format!("http://{}", other.grpc.expect("an address"));
    let server = Server::start_by(command, &["--import", "envoy-ratelimit", "--xds", &url]);
    until("the age of the limits grows", || {
        assert_eq!(server.metric("tollgate_xds_connected"), Some(0.0));
        server.metric("tollgate_policies_age_seconds") > Some(2.5)
    });
    assert_eq!(server.metric("tollgate_policies_in_step"), Some(0.0), "no limits have arrived");
    server.signal("TERM");
    let (_, log) = server.wait();
    assert_eq!(log.matches("no connection to the xDS server").count(), 1, "{log}");
    assert!(log.contains("not implemented"), "{log}");
}

/// Each response reset the waits, so such a server was asked twice a second forever.
#[test]
fn waits_grow_even_if_each_stream_brings_something() {
    let ads = Ads::start();
    let command = {
        let mut command = command(&[("XDS_CLIENT_BACKOFF_JITTER", "false")]);
        command.env("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "100ms");
        command.env("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "10s");
        command
    };
    let url = format!("http://{}", ads.address);
    let _server = Server::start_by(command, &["--import", "envoy-ratelimit", "--xds", &url]);
    // Streams begin after 0, 100, 300 and 700 milliseconds, and the next one after 1.5 seconds.
    for version in ["1", "2", "3", "4"] {
        assert_eq!(ads.hear().version_info, "");
        ads.publish_valid(version, &[users("shop", 1)]);
        ads.end_stream();
    }
    assert!(ads.hears_nothing(Duration::from_millis(600)));
    assert_eq!(ads.hear().version_info, "");
}

#[test]
fn a_signal_makes_it_connect_again() {
    let ads = Ads::start();
    let server = start(&ads, &[]);
    ads.hear();
    ads.publish_valid("1", &[users("shop", 1)]);
    server.signal("HUP");
    assert_eq!(ads.hear().version_info, "");
    assert_eq!(ask(&server, "shop", "alice"), 200);
}

#[test]
fn a_response_that_is_too_large_changes_nothing() {
    let ads = Ads::start();
    let server = start_with(&[("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "1000")], &ads, &[]);
    ads.hear();
    ads.publish_valid("1", &[users("shop", 1)]);
    ads.publish("2", &[users(&"long".repeat(250), 1)]);
    // It cannot be answered, so another stream follows.
    assert_eq!(ads.hear().version_info, "");
    assert_eq!([0; 2].map(|_| ask(&server, "shop", "alice")), [200, 429]);
    assert_eq!(server.metric("tollgate_xds_updates_total{outcome=\"rejected\"}"), Some(1.0));
    let live = server.admin_get("/v1/policies").json();
    let error = live["not_live"]["error"].as_str().unwrap();
    assert!(error.contains("1000") && error.contains("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES"), "{error}");
    ads.publish_valid("3", &[users("shop", 2)]);
}

/// The client proves itself and demands a proof, and follows both when their files change.
#[test]
fn certificates_are_followed() {
    let folder = Folder::new();
    let root = folder.root();
    let (authority, other) = (Authority::new(root, "authority"), Authority::new(root, "other"));
    let identity = authority.server(root, "control-plane");
    let client = authority.issue(root, "limiter", |_| {});
    let ads = Ads::start_tls(&identity, &authority);
    let path = |name: &str| folder.path(name);
    // As secrets of Kubernetes are mounted: files are links into a folder, and the link to that folder is swapped.
    let certs = root.join("certs");
    fs::create_dir(&certs).unwrap();
    for name in ["ca.crt", "tls.crt", "tls.key"] {
        symlink(Path::new("..data").join(name), certs.join(name)).unwrap();
    }
    let installed = Cell::new(0);
    let install = |authority: &Authority, Identity { certificate, key }: &Identity| {
        let (fresh, link) =
            (format!("..{}", installed.replace(installed.get() + 1)), certs.join("..data.new"));
        let folder = certs.join(&fresh);
        fs::create_dir(&folder).unwrap();
        fs::copy(&authority.file, folder.join("ca.crt")).unwrap();
        fs::copy(certificate, folder.join("tls.crt")).unwrap();
        fs::copy(key, folder.join("tls.key")).unwrap();
        symlink(&fresh, &link).unwrap();
        fs::rename(&link, certs.join("..data")).unwrap();
    };
    install(&authority, &client);
    let (ca, certificate, key) = (path("certs/ca.crt"), path("certs/tls.crt"), path("certs/tls.key"));
    let variables = [
        ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", ca.as_str()),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", &certificate),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", &key),
    ];
    let url = format!("https://localhost:{}", ads.address.port());
    let arguments = ["--import", "envoy-ratelimit", "--xds", &url];
    let server = Server::start_by(command(&variables), &arguments);
    ads.hear();
    ads.publish_valid("1", &[users("shop", 1)]);

    // A renewed certificate is shown by a new connection, although the old one still works.
    install(&authority, &authority.issue(root, "limiter", |_| {}));
    assert_eq!(ads.hear().version_info, "");
    ads.publish_valid("2", &[users("shop", 2)]);

    // A server that proves nothing gets no request, and changes nothing.
    install(&other, &client);
    until("it notices", || server.metric("tollgate_xds_connected") == Some(0.0));
    assert!(ads.hears_nothing(Duration::from_secs(1)));
    assert_eq!([0; 3].map(|_| ask(&server, "shop", "alice")), [200, 200, 429]);
    install(&authority, &client);
    ads.hear();
    ads.publish_valid("3", &[users("shop", 3)]);

    // A client that the server refuses.
    install(&authority, &other.issue(root, "stranger", |_| {}));
    until("it notices", || server.metric("tollgate_xds_connected") == Some(0.0));
    install(&authority, &client);
    ads.hear();
    ads.publish_valid("4", &[users("shop", 4)]);
    server.signal("TERM");
    let (_, log) = server.wait();
    assert!(log.contains("UnknownIssuer"), "{log}");
}

#[test]
fn the_name_of_the_server_is_verified() {
    let folder = Folder::new();
    let root = folder.root();
    let authority = Authority::new(root, "authority");
    let client = authority.issue(root, "limiter", |_| {});
    let identity = authority.issue(root, "control-plane", |params| {
        params.subject_alt_names = vec![rcgen::SanType::DnsName("envoy-gateway".try_into().expect("a name"))];
    });
    let ads = Ads::start_tls(&identity, &authority);
    let address = ads.address.to_string();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (ca, certificate, key) = (text(&authority.file), text(&client.certificate), text(&client.key));
    let variables = [
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        ("CONFIG_GRPC_XDS_SERVER_URL", address.as_str()),
        ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
        ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", &ca),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", &certificate),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", &key),
    ];
    let server = Server::start_by(command(&variables), &["--import", "envoy-ratelimit"]);
    assert!(ads.hears_nothing(Duration::from_secs(1)));
    server.signal("TERM");
    let (_, log) = server.wait();
    assert!(log.contains("not valid for name") || log.contains("NotValidForName"), "{log}");

    let named = [&variables[..], &[("CONFIG_GRPC_XDS_SERVER_TLS_SAN", "envoy-gateway")]].concat();
    let _server = Server::start_by(command(&named), &["--import", "envoy-ratelimit"]);
    ads.hear();
}
