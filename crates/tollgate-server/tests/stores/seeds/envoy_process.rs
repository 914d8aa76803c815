//! The process as Envoy Gateway starts it: called `ratelimit`, without arguments, with variables alone.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use rcgen::SanType;
use tollgate_testkit::servers::{self, ClientCertificates, Data, Software};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::{keys, log, text};
use crate::ads::{self, Ads};
use crate::certificates::{Authority, Client, Identity};
use crate::grpc_client::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use crate::grpc_client::{OK, OVER_LIMIT, Wire, request};
use crate::support::folder::Folder;
use crate::support::{Connection, HANG, Reply, Server, get, tollgate, until};

const USER: &[(&str, &str)] = &[("user", "alice")];

const LIMITS: &str =
    "domain: shop\ndescriptors: [{ key: user, rate_limit: { unit: year, requests_per_unit: 2 } }]\n";

/// The volumes of its container, and a link to the program.
struct Pod {
    folder: Folder,
    authority: Authority,
    variables: Vec<(&'static str, String)>,
}

impl Pod {
    /// The variables are those of Envoy Gateway's deployment, with two differences: ports are free ones, and limits are
    /// in files.
    fn new(redis: SocketAddr) -> Self {
        let folder = Folder::new();
        let program = folder.root().join("ratelimit");
        symlink(env!("CARGO_BIN_EXE_tollgate"), program).expect("a link can be made");
        fs::create_dir_all(folder.root().join("data/ratelimit/config")).expect("a folder can be made");
        folder.write("data/ratelimit/config/shop.yaml", LIMITS);
        let authority = Authority::new(folder.root(), "ca");
        authority.server(folder.root(), "tls");
        let path = |name: &str| folder.path(name);
        let variables = vec![
            ("RUNTIME_ROOT", path("data")),
            ("RUNTIME_SUBDIRECTORY", "ratelimit".to_owned()),
            ("RUNTIME_IGNOREDOTFILES", "true".to_owned()),
            ("RUNTIME_WATCH_ROOT", "false".to_owned()),
            ("LOG_LEVEL", "info".to_owned()),
            ("USE_STATSD", "false".to_owned()),
            ("CONFIG_TYPE", "FILE".to_owned()),
            ("CONFIG_GRPC_XDS_SERVER_URL", "envoy-gateway:18001".to_owned()),
            ("CONFIG_GRPC_XDS_NODE_ID", "envoy-ratelimit".to_owned()),
            ("GRPC_PORT", "0".to_owned()),
            ("GRPC_SERVER_USE_TLS", "true".to_owned()),
            ("GRPC_SERVER_TLS_CERT", path("tls.crt")),
            ("GRPC_SERVER_TLS_KEY", path("tls.key")),
            ("GRPC_SERVER_TLS_CA_CERT", path("ca.crt")),
            ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true".to_owned()),
            ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", path("tls.crt")),
            ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", path("tls.key")),
            ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", path("ca.crt")),
            ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true".to_owned()),
            ("PORT", "0".to_owned()),
            ("REDIS_SOCKET_TYPE", "tcp".to_owned()),
            ("REDIS_URL", redis.to_string()),
            ("USE_PROMETHEUS", "true".to_owned()),
            ("PROMETHEUS_ADDR", ":0".to_owned()),
            ("PROMETHEUS_MAPPER_YAML", "/etc/statsd-exporter/conf.yaml".to_owned()),
            // Of our own: a busy machine changes no count, and several processes run side by side.
            ("TOLLGATE_STORE_TIMEOUT", "30s".to_owned()),
            ("TOLLGATE_STORE_CONNECT_TIMEOUT", "30s".to_owned()),
            ("TOLLGATE_ADMIN_LISTEN", "127.0.0.1:0".to_owned()),
        ];
        Self { folder, authority, variables }
    }

    fn with(mut self, more: &[(&'static str, &str)]) -> Self {
        for (name, value) in more {
            self.variables.retain(|(other, _)| other != name);
            self.variables.push((name, (*value).to_owned()));
        }
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.folder.root().join("ratelimit"));
        command.env_clear().envs(self.variables.iter().map(|(name, value)| (name, value)));
        // It writes nowhere, so it needs no folder of its own.
        command.current_dir("/proc").stderr(Stdio::piped());
        command
    }

    fn start(&self) -> Server {
        Server::of_command(self.command())
    }

    /// Returns the error of a start that fails with status 2.
    fn refused(&self) -> String {
        let output = self.command().output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        said
    }

    /// Opens a connection of a proxy that shows this certificate, if any.
    async fn proxy(&self, server: &Server, shows: Option<&Identity>) -> std::io::Result<Wire> {
        Wire::open_tls(server, &Client::new(&self.authority, shows).0).await
    }

    fn identity(&self, name: &str, host: &'static str) -> Identity {
        let name_of_host = SanType::DnsName(host.try_into().expect("a name"));
        self.authority.issue(self.folder.root(), name, |params| params.subject_alt_names = vec![name_of_host])
    }
}

fn asked(address: Option<SocketAddr>, path: &str) -> Reply {
    Connection::open(address.expect("it listens")).ask(&get(path))
}

/// Returns whether the store has a counter of the limits. Probes leave a key there as well.
fn is_counted(store: &servers::Server) -> bool {
    keys(store).iter().any(|key| key.starts_with("tollgate:1:envoy%3Ashop:365d:"))
}

fn open_to_all(file: &Path) {
    fs::set_permissions(file, fs::Permissions::from_mode(0o644)).expect("it is our file");
}

/// Returns whether the log warns that everyone can read this file.
fn warns_of_secret(log: &str, file: &str) -> bool {
    log.lines().any(|line| line.contains("can read this secret") && line.contains(file))
}

fn health(server: &Server) -> (u16, String) {
    let reply = asked(server.probes, "/healthcheck");
    (reply.status, text(&reply).to_owned())
}

async fn health_over_grpc(proxy: &Wire) -> i32 {
    let mut client = HealthClient::with_origin(proxy.clone(), Wire::origin());
    let service = "ratelimit".to_owned();
    client.check(HealthCheckRequest { service }).await.expect("its health").into_inner().status
}

/// No probe and no scrape could reach a service whose gRPC demanded client certificates: TLS was on all listeners.
#[tokio::test]
async fn grpc_demands_certificates_while_probes_and_metrics_are_plain() {
    let store = servers::Server::start(Software::Redis);
    let pod = Pod::new(store.address());
    let server = pod.start();
    let envoy = pod.identity("envoy", "envoy.example");
    let anonymous = pod.proxy(&server, None).await.expect("a handshake of TLS 1.3 ends before the client's");
    assert!(anonymous.call(request(&[USER])).await.is_err(), "a certificate is demanded");
    let proxy = pod.proxy(&server, Some(&envoy)).await.expect("a connection");
    let mut codes = Vec::new();
    for _ in 0..3 {
        codes.push(proxy.call(request(&[USER])).await.expect("a decision").overall_code);
    }
    assert_eq!(codes, [OK, OK, OVER_LIMIT]);
    assert!(is_counted(&store), "{:?}", keys(&store));

    assert_eq!(health(&server), (200, "OK".to_owned()));
    let metrics = asked(server.metrics, "/metrics");
    let hits = "ratelimit_service_rate_limit_total_hits{domain=\"shop\",key1=\"user\"} 3";
    assert!(text(&metrics).contains(hits), "{}", text(&metrics));
    // Nothing else is open to other hosts, and the admin listener, on loopback, speaks no TLS.
    let others = ["/json", "/v1/policies", "/v1/check?user=alice", "/openapi.json"];
    assert_eq!(others.map(|path| asked(server.probes, path).status), [404; 4]);
    assert_eq!(others.map(|path| asked(server.metrics, path).status), [404; 4]);
    let json = asked(server.probes, "/json").json();
    assert!(json["detail"].as_str().is_some_and(|detail| detail.contains("`serve --listen none`")), "{json}");
    assert_eq!(server.admin_get("/v1/policies").json()["decides"], "domains");
    let listeners: Vec<&str> = server.said.iter().filter_map(|line| line.split("://").next()).collect();
    assert_eq!(listeners[1..], ["admin   http", "metrics http", "probes  http", "grpc    https"]);

    let log = log(server);
    let line = log.lines().find(|line| line.contains("called as `ratelimit`")).expect("it says so");
    assert!(line.contains("acts as `tollgate serve --import envoy-ratelimit /"), "{line}");
    assert!(line.contains(" --grpc [::]:0 --plain-probes [::]:0 --listen none "), "{line}");
    assert!(line.contains(" --tls-on grpc "), "{line}");
    let without_effect =
        log.lines().find(|line| line.contains("have no effect here")).expect("some have none");
    assert!(without_effect.contains("USE_STATSD") && without_effect.contains("PROMETHEUS_MAPPER_YAML"));
    assert!(!without_effect.contains("GRPC_SERVER") && !without_effect.contains("PORT"), "{without_effect}");
}

/// In a cluster with IPv6 alone, all probes failed: `0.0.0.0` stood for the addresses of IPv4. The kubelet connects over
/// the family of the pod's first address.
#[tokio::test]
async fn all_listeners_are_reached_over_both_families() {
    let store = servers::Server::start(Software::Redis);
    let plain = [("GRPC_SERVER_USE_TLS", "false")];
    let every = [("HOST", "0.0.0.0"), ("GRPC_HOST", "0.0.0.0"), ("PROMETHEUS_ADDR", "0.0.0.0:0")];
    for given in [&[][..], &every] {
        let mut server = Pod::new(store.address()).with(&plain).with(given).start();
        let ports = [server.probes, server.metrics, server.grpc].map(|address| address.expect("open").port());
        for ip in [IpAddr::from(Ipv6Addr::LOCALHOST), Ipv4Addr::LOCALHOST.into()] {
            let [probes, metrics, grpc] = ports.map(|port| Some(SocketAddr::new(ip, port)));
            assert_eq!(asked(probes, "/healthcheck").status, 200, "{ip}");
            assert_eq!(asked(metrics, "/metrics").status, 200, "{ip}");
            server.grpc = grpc;
            assert!(Wire::open(&server).await.call(request(&[USER])).await.is_ok(), "{ip}");
        }
    }
}

#[tokio::test]
async fn a_name_can_be_demanded_of_clients() {
    let store = servers::Server::start(Software::Redis);
    let pod = Pod::new(store.address()).with(&[("GRPC_CLIENT_TLS_SAN", "envoy.example")]);
    let server = pod.start();
    for (name, host, is_admitted) in [("envoy", "envoy.example", true), ("other", "other.example", false)] {
        let proxy = pod.proxy(&server, Some(&pod.identity(name, host))).await.expect("a connection");
        assert_eq!(proxy.call(request(&[USER])).await.is_ok(), is_admitted, "{host}");
    }
}

/// Its environment as it is, but for ports and the paths of its volumes. Limits come over mutual TLS, and Envoy may send
/// limits of its own, because it shows a certificate.
#[tokio::test]
async fn the_environment_of_envoy_gateway_starts_a_service_that_has_its_limits() {
    let store = servers::Server::start(Software::Redis);
    let pod = Pod::new(store.address());
    let gateway = Ads::start_tls(&pod.authority.server(pod.folder.root(), "gateway"), &pod.authority);
    let address = gateway.address.to_string();
    let pod = pod.with(&[
        ("RUNTIME_ROOT", "/data"),
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        ("CONFIG_GRPC_XDS_SERVER_URL", &address),
    ]);
    let server = pod.start();
    until("it is healthy without limits", || health(&server).0 == 200);
    assert_eq!(gateway.hear().node.expect("it has a name").id, "envoy-ratelimit");
    gateway.publish_valid("1", &[ads::users("shop", 2)]);
    let proxy =
        pod.proxy(&server, Some(&pod.identity("envoy", "envoy.example"))).await.expect("a connection");
    let mut codes = Vec::new();
    for _ in 0..3 {
        codes.push(proxy.call(request(&[USER])).await.expect("a decision").overall_code);
    }
    assert_eq!(codes, [OK, OK, OVER_LIMIT]);
    let mut limited = request(&[USER]);
    limited.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit: 9, unit: 4 });
    assert_eq!(proxy.call(limited).await.expect("a decision").overall_code, OK);

    let log = log(server);
    let without_effect =
        log.lines().find(|line| line.contains("have no effect here")).expect("some have none");
    assert!(without_effect.contains("RUNTIME_ROOT") && !without_effect.contains("XDS"), "{without_effect}");
}

/// At this level, the log did not say that all hosts can reach the service, that denied requests count, and that its
/// callers may bring limits.
#[test]
fn what_nobody_has_asked_for_is_a_warning() {
    let store = servers::Server::start(Software::Redis);
    let pod = Pod::new(store.address());
    let gateway = Ads::start_tls(&pod.authority.server(pod.folder.root(), "gateway"), &pod.authority);
    let address = gateway.address.to_string();
    let other_key = pod.authority.server(pod.folder.root(), "other").key;
    open_to_all(&other_key);
    let other_key = other_key.to_str().expect("text");
    let pod = pod.with(&[
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        ("CONFIG_GRPC_XDS_SERVER_URL", &address),
        ("LOG_LEVEL", "warn"),
    ]);
    let warnings = |pod: &Pod| {
        let log = log(pod.start());
        assert!(!log.contains(" INFO "), "{log}");
        log
    };
    let log = warnings(&pod);
    for expected in
        ["every host can reach them", "so denied requests count", "may send limits in descriptors"]
    {
        assert!(
            log.lines().any(|line| line.contains(" WARN ") && line.contains(expected)),
            "{expected}: {log}"
        );
    }
    // It is the key of the listener too, which has a warning of its own.
    assert!(!log.contains("can read this secret"), "{log}");
    let other_certificate = other_key.replace(".key", ".crt");
    let pod = pod.with(&[
        ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", &other_certificate),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", other_key),
        ("TOLLGATE_COUNT_DENIED", "false"),
    ]);
    let log = warnings(&pod);
    assert!(!log.contains("denied requests count"), "{log}");
    assert!(warns_of_secret(&log, other_key), "{log}");
}

/// With this variable, envoyproxy/ratelimit is unhealthy until it has a domain, and again without one.
#[tokio::test]
async fn a_service_that_needs_domains_is_unhealthy_without_one() {
    let store = servers::Server::start(Software::Redis);
    let needs = [("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "true"), ("GRPC_SERVER_USE_TLS", "false")];
    let pod = Pod::new(store.address());
    let gateway = Ads::start_tls(&pod.authority.server(pod.folder.root(), "gateway"), &pod.authority);
    let address = gateway.address.to_string();
    let xds = [("CONFIG_TYPE", "GRPC_XDS_SOTW"), ("CONFIG_GRPC_XDS_SERVER_URL", address.as_str())];
    let server = pod.with(&xds).with(&needs).start();
    gateway.hear();
    let grpc = Wire::open(&server).await;
    let states = || (health(&server).0, asked(server.probes, "/readyz").status);
    // It decides although it is not ready.
    assert_eq!(states(), (500, 503));
    assert_eq!(grpc.call(request(&[USER])).await.expect("a decision").overall_code, OK);
    for (version, configs, expected) in [
        ("1", &[][..], (500, 503)),
        ("2", &[ads::users("shop", 9)], (200, 200)),
        ("3", &[], (500, 503)),
        ("4", &[ads::users("shop", 9)], (200, 200)),
    ] {
        gateway.publish_valid(version, configs);
        assert_eq!(states(), expected, "{version}");
        let status = if expected.0 == 200 { ServingStatus::Serving } else { ServingStatus::NotServing };
        let reported = async {
            while health_over_grpc(&grpc).await != i32::from(status) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(HANG, reported).await.expect("it is reported");
    }
    assert!(!log(server).contains("HEALTHY_WITH"), "it has an effect");

    let pod = Pod::new(store.address()).with(&needs);
    let server = pod.start();
    until("it is healthy with files", || health(&server).0 == 200);
}

/// Renewed certificates come into the mounted folder while the process runs.
#[tokio::test]
async fn renewed_certificates_are_shown_to_new_connections() {
    let store = servers::Server::start(Software::Redis);
    let pod = Pod::new(store.address());
    let server = pod.start();
    let other = Authority::new(pod.folder.root(), "ca");
    // The authority of the clients is renewed as well.
    other.server(pod.folder.root(), "tls");
    let envoy = other.issue(pod.folder.root(), "envoy", |_| {});
    let client = Client::new(&other, Some(&envoy)).0;
    let mut code = None;
    while code != Some(OK) {
        if let Ok(proxy) = Wire::open_tls(&server, &client).await {
            code = proxy.call(request(&[USER])).await.ok().map(|response| response.overall_code);
        }
        tokio::task::yield_now().await;
    }
}

/// Envoy Gateway restarts whoever fails its liveness probe three times, at `/healthcheck`. During an outage of Redis,
/// it would restart all limiters, again and again.
#[test]
fn a_service_stays_healthy_during_an_outage_unless_it_is_told_otherwise() {
    let store = servers::Server::start(Software::Redis);
    store.kill();
    let impatient = [("TOLLGATE_STORE_TIMEOUT", "100ms"), ("TOLLGATE_STORE_CONNECT_TIMEOUT", "100ms")];
    let pod = Pod::new(store.address()).with(&impatient);
    let [kept, lost] = [&[][..], &[("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "true")]].map(|more| {
        let pod = Pod::new(store.address()).with(&impatient).with(more);
        let server = pod.start();
        let (status, reason) = health(&server);
        assert_eq!((status, reason.contains("store")), (500, true), "Redis has never answered: {reason}");
        (pod, server)
    });
    store.start_again(Data::Lost);
    for (_, server) in [&kept, &lost] {
        until("it is healthy", || health(server).0 == 200);
    }
    store.kill();
    until("the outage is noticed", || health(&lost.1).0 == 500);
    until("it is noticed here too", || asked(kept.1.probes, "/readyz").status == 503);
    assert_eq!(health(&kept.1), (200, "OK".to_owned()));
    drop(pod);
}

#[test]
fn a_service_that_drains_is_unhealthy() {
    let store = servers::Server::start(Software::Redis);
    let server = Pod::new(store.address()).with(&[("TOLLGATE_DRAIN_DELAY", "30s")]).start();
    until("it is healthy", || health(&server).0 == 200);
    server.signal("TERM");
    until("it drains", || health(&server) == (500, "the service is about to stop\n".to_owned()));
}

#[tokio::test]
async fn redis_is_reached_over_mutual_tls() {
    let store = servers::Settings::new(Software::Redis).tls(ClientCertificates::Required).start();
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    let certificates = store.certificates();
    let authority = text(&certificates.authority);
    open_to_all(&certificates.client.key);
    let (certificate, key) = (text(&certificates.client.certificate), text(&certificates.client.key));
    let pod = Pod::new(store.tls_address()).with(&[
        ("REDIS_TLS", "true"),
        ("REDIS_TLS_CACERT", &authority),
        ("REDIS_TLS_CLIENT_CERT", &certificate),
        ("REDIS_TLS_CLIENT_KEY", &key),
    ]);
    let server = pod.start();
    let proxy =
        pod.proxy(&server, Some(&pod.identity("envoy", "envoy.example"))).await.expect("a connection");
    assert_eq!(proxy.call(request(&[USER])).await.expect("a decision").overall_code, OK);
    assert!(is_counted(&store), "{:?}", keys(&store));
    let log = log(server);
    assert!(!log.contains("REDIS_TLS"), "all of them have an effect");
    assert!(warns_of_secret(&log, &key), "{log}");

    let without_key = pod.with(&[("REDIS_TLS_CLIENT_KEY", "")]).refused();
    assert!(
        without_key
            .contains("REDIS_TLS_CLIENT_KEY: expected the path of a file, because its certificate is set"),
        "{without_key}"
    );
}

#[test]
fn what_cannot_be_used_is_named_by_its_variable() {
    let store = servers::Server::start(Software::Redis);
    for (variable, value, expected) in [
        (
            "GRPC_PORT",
            "tcp://10.0.0.1:80",
            "error: GRPC_PORT: expected a port from 0 to 65535, found `tcp://",
        ),
        ("GRPC_SERVER_TLS_CERT", "/none", "error: `GRPC_SERVER_TLS_CERT`: /none: No such file"),
        ("GRPC_SERVER_TLS_CA_CERT", "/none", "error: `GRPC_SERVER_TLS_CA_CERT`: /none: No such file"),
        ("GRPC_CLIENT_TLS_CACERT", "/none", "error: GRPC_SERVER_TLS_CA_CERT: expected the same file"),
        ("REDIS_TLS", "yes", "error: `--import`: REDIS_TLS: expected true or false, found `yes`"),
        ("RUNTIME_ROOT", "/none", "`RUNTIME_ROOT`: cannot read /none/ratelimit/config: No such file"),
        ("TOLLGATE_IMPORT", "envoy-ratelimit,/none", "`TOLLGATE_IMPORT`: cannot read /none: No such file"),
        (
            "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
            "maybe",
            "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: expected true or false, found `maybe`",
        ),
        ("TOLLGATE_LIMIT", "5/1m", "TOLLGATE_LIMIT"),
    ] {
        let error = Pod::new(store.address()).with(&[(variable, value)]).refused();
        assert!(error.contains(expected), "{variable}={value}: {error}");
    }
}

/// The image sets addresses for `tollgate serve`. With them, checks would be open to every host, on the port of the
/// probes.
#[test]
fn variables_of_our_own_override_those_of_the_original_except_addresses() {
    let store = servers::Server::start(Software::Redis);
    let own = [
        ("TOLLGATE_LISTEN", "127.0.0.1:0"),
        ("TOLLGATE_METRICS_LISTEN", "127.0.0.1:0"),
        ("USE_PROMETHEUS", "false"),
        ("TOLLGATE_LOG_LEVEL", "warn"),
        ("LOG_LEVEL", "info"),
    ];
    let server = Pod::new(store.address()).with(&own).start();
    let opened = |name: &str| server.said.iter().any(|line| line.starts_with(name));
    assert_eq!(
        ["grpc", "probes", "admin", "checks", "metrics"].map(opened),
        [true, true, true, false, false]
    );
    assert!(!log(server).contains("INFO"), "the level is `warn`");
}

/// With arguments, the name has no meaning.
#[test]
fn the_program_is_itself_if_it_is_told_what_to_do() {
    let pod = Pod::new(([127, 0, 0, 1], 1).into());
    for mut command in [pod.command(), tollgate()] {
        let output = command.arg("--version").output().expect("it runs");
        assert!(String::from_utf8_lossy(&output.stdout).starts_with("tollgate "), "{output:?}");
    }
    let nothing = tollgate().output().expect("it runs");
    assert_eq!(nothing.status.code(), Some(2), "under its own name it asks what to do");
}
