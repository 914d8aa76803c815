//! Each of the three restarts, while limits hold: the control plane, the service, and Envoy. All connections are over
//! TLS with certificates on both sides, as in a cluster.

use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use tollgate_testkit::servers::{self, Software};

use crate::certificates::{Authority, Identity};
use crate::free_address;
use crate::proxy::Proxy;
use crate::support::folder::Folder;
use crate::support::{Connection, Server, get, until};
use crate::upstream::Upstream;
use crate::xds::control_plane::ControlPlane;
use crate::xds::front::{self, Neighbours};
use crate::xds::rules::{self, Condition, Listener, Route, Rule, ValueMatch};

/// Addresses that outlive the processes, the store, and certificates of one authority.
struct Stage {
    folder: Folder,
    upstream: Upstream,
    redis: servers::Server,
    control_plane: SocketAddr,
    limiter: SocketAddr,
    envoy: SocketAddr,
    authority: Authority,
    /// Of the control plane, the service and Envoy.
    identities: [Identity; 3],
}

/// Writes certificates of a new authority over those that are there.
fn certificates(folder: &Folder) -> (Authority, [Identity; 3]) {
    let authority = Authority::new(folder.root(), "authority");
    let identities = ["control-plane", "limiter", "envoy"].map(|name| authority.server(folder.root(), name));
    (authority, identities)
}

impl Stage {
    fn new() -> Self {
        let (folder, redis) = (Folder::new(), servers::Server::start(Software::Redis));
        let (authority, identities) = certificates(&folder);
        Self {
            folder,
            upstream: Upstream::start(),
            redis,
            control_plane: free_address(),
            limiter: free_address(),
            envoy: free_address(),
            authority,
            identities,
        }
    }

    fn control_plane(&self) -> ControlPlane {
        ControlPlane::start_tls(self.control_plane, &self.identities[0], &self.authority)
    }

    fn envoy(&self) -> Proxy {
        let neighbours = Neighbours {
            limiter: self.limiter,
            upstream: self.upstream.address,
            tls: Some((&self.identities[2], &self.authority)),
        };
        // The limits are no part of the routes.
        front::start(&self.folder, &[(listener(1), self.envoy)], neighbours)
    }

    fn get_at(&self, path: &str, user: &str) -> u16 {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nX-User: {user}\r\n\r\n");
        Connection::open(self.envoy).ask(request.as_bytes()).status
    }

    fn get(&self, user: &str) -> u16 {
        self.get_at("/orders", user)
    }

    /// Sends as many requests as a user may send, and one more.
    #[track_caller]
    fn assert_limit(&self, limit: usize, user: &str) {
        let statuses: Vec<_> = (0..=limit).map(|_| self.get(user)).collect();
        assert_eq!(statuses, [vec![200; limit], vec![429]].concat());
    }

    /// Starts the service as Envoy Gateway does: called `ratelimit`, without arguments, with these variables.
    fn limiter(&self) -> Server {
        let program = self.folder.root().join("ratelimit");
        if !program.exists() {
            symlink(env!("CARGO_BIN_EXE_tollgate"), &program).expect("a link can be made");
        }
        let text = |path: &Path| path.to_str().expect("text").to_owned();
        let Identity { certificate, key } = &self.identities[1];
        let (certificate, key, authority) = (text(certificate), text(key), text(&self.authority.file));
        let (plane, redis) = (self.control_plane.to_string(), self.redis.address().to_string());
        let port = self.limiter.port().to_string();
        let variables = [
            ("RUNTIME_ROOT", "/data"),
            ("RUNTIME_SUBDIRECTORY", "ratelimit"),
            ("RUNTIME_IGNOREDOTFILES", "true"),
            ("RUNTIME_WATCH_ROOT", "false"),
            ("LOG_LEVEL", "info"),
            ("USE_STATSD", "false"),
            ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
            ("CONFIG_GRPC_XDS_SERVER_URL", &plane),
            ("CONFIG_GRPC_XDS_NODE_ID", "envoy-ratelimit"),
            ("GRPC_SERVER_USE_TLS", "true"),
            ("GRPC_SERVER_TLS_CERT", &certificate),
            ("GRPC_SERVER_TLS_KEY", &key),
            ("GRPC_SERVER_TLS_CA_CERT", &authority),
            ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
            ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", &certificate),
            ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", &key),
            ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", &authority),
            ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true"),
            ("REDIS_SOCKET_TYPE", "tcp"),
            ("REDIS_URL", &redis),
            ("USE_PROMETHEUS", "true"),
            ("PROMETHEUS_ADDR", ":0"),
            ("PROMETHEUS_MAPPER_YAML", "/etc/statsd-exporter/conf.yaml"),
            // Not Envoy Gateway's: free ports, patience on a busy machine, and reconnection within a second.
            ("GRPC_PORT", &port),
            ("PORT", "0"),
            ("TOLLGATE_ADMIN_LISTEN", "127.0.0.1:0"),
            ("TOLLGATE_STORE_TIMEOUT", "30s"),
            ("TOLLGATE_STORE_CONNECT_TIMEOUT", "30s"),
            ("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "100ms"),
            ("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "500ms"),
        ];
        let mut command = Command::new(program);
        command.env_clear().envs(variables).stderr(Stdio::piped());
        Server::of_command(command)
    }
}

/// Sets the limit of each user.
fn set(plane: &mut ControlPlane, version: &str, requests: u32) {
    plane.apply(version, &rules::domains(&[listener(requests)]));
}

fn listener(requests: u32) -> Listener {
    let rule = Rule::new(requests, [Condition::Header("x-user", ValueMatch::Distinct)]);
    let plan = Rule::new(1_000, []).with_own_limit();
    let routes = [("orders", rule), ("plans", plan)].map(|(name, rule)| Route { name, rules: vec![rule] });
    Listener { name: "default/eg/http", routes: routes.into() }
}

#[test]
#[ignore = "it needs Envoy and go-control-plane, which `cargo xtask prove xds` builds"]
fn prove_limits_hold_while_the_control_plane_restarts() {
    let stage = Stage::new();
    // The service is there first, and admits until it has limits.
    let (_server, _envoy) = (stage.limiter(), stage.envoy());
    assert_eq!([(); 3].map(|()| stage.get("early")), [200; 3]);
    let mut plane = stage.control_plane();
    set(&mut plane, "1", 3);
    stage.assert_limit(3, "alice");

    // Without a control plane, the last limits hold.
    drop(plane);
    assert_eq!(stage.get("alice"), 429);
    stage.assert_limit(3, "bob");
    // A new one begins with version 1 again, and with other limits.
    let mut plane = stage.control_plane();
    set(&mut plane, "1", 5);
    stage.assert_limit(5, "carol");
    // Another one has the same version, and no limits at all.
    drop(plane);
    let mut plane = stage.control_plane();
    plane.set("1", &[]);
    until("no limits are live", || stage.get("carol") == 200);
    set(&mut plane, "2", 4);
    stage.assert_limit(4, "dave");
    // All its connections end at once, and a set follows.
    plane.disconnect();
    set(&mut plane, "3", 1);
    stage.assert_limit(1, "erin");
    println!("RESULT prove/xds/control_plane_restarts violations=0");
}

#[test]
#[ignore = "it needs Envoy and go-control-plane, which `cargo xtask prove xds` builds"]
fn prove_limits_hold_while_the_service_and_envoy_restart() {
    let stage = Stage::new();
    let mut plane = stage.control_plane();
    let (server, envoy) = (stage.limiter(), stage.envoy());
    set(&mut plane, "1", 3);
    stage.assert_limit(3, "alice");
    // Counters outlive the service. While it is down, Envoy admits.
    drop(server);
    assert_eq!(stage.get("alice"), 200);
    let server = stage.limiter();
    until("the limits are live again", || stage.get("alice") == 429);
    stage.assert_limit(3, "bob");
    // The service starts while the control plane is down, and has no limits until it comes.
    drop((plane, server));
    let _server = stage.limiter();
    assert_eq!(stage.get("alice"), 200);
    let mut plane = stage.control_plane();
    set(&mut plane, "1", 3);
    until("the limits are live again", || stage.get("alice") == 429);
    println!("RESULT prove/xds/service_restarts violations=0");

    drop(envoy);
    let _envoy = stage.envoy();
    assert_eq!(stage.get("alice"), 429);
    stage.assert_limit(3, "carol");
    println!("RESULT prove/xds/envoy_restarts violations=0");
}

/// `envoy-gateway certgen --overwrite` makes a new authority.
#[test]
#[ignore = "it needs Envoy and go-control-plane, which `cargo xtask prove xds` builds"]
fn prove_limits_hold_while_all_certificates_are_replaced() {
    let mut stage = Stage::new();
    let mut plane = stage.control_plane();
    let (_server, envoy) = (stage.limiter(), stage.envoy());
    set(&mut plane, "1", 3);
    stage.assert_limit(3, "alice");
    (stage.authority, stage.identities) = certificates(&stage.folder);
    // Only certificates of the new authority are good for these.
    drop((plane, envoy));
    let mut plane = stage.control_plane();
    set(&mut plane, "2", 5);
    let _envoy = stage.envoy();
    until("Envoy reaches the service", || stage.get("alice") == 429);
    stage.assert_limit(5, "bob");
    println!("RESULT prove/xds/certificates violations=0");
}

/// Envoy brings limits only over connections with certificates. Probes and metrics have none.
#[test]
#[ignore = "it needs Envoy and go-control-plane, which `cargo xtask prove xds` builds"]
fn prove_the_process_is_the_one_that_envoy_gateway_starts() {
    let stage = Stage::new();
    let mut plane = stage.control_plane();
    let (server, _envoy) = (stage.limiter(), stage.envoy());
    set(&mut plane, "1", 3);
    assert_eq!([(); 3].map(|()| stage.get_at("/plans", "alice")), [200, 200, 429]);
    let probe = server.get("/healthcheck");
    assert_eq!((probe.status, &probe.body[..]), (200, &b"OK"[..]));
    let metrics = Connection::open(server.metrics.expect("it listens")).ask(&get("/metrics"));
    let metrics = String::from_utf8(metrics.body).expect("metrics are text");
    let denials = "ratelimit_service_rate_limit_over_limit{domain=\"default/eg/http\"";
    assert!(metrics.contains(denials), "{metrics}");
    let mut plain = Connection::open(stage.limiter);
    plain.try_send(&get("/"));
    assert!(plain.reply().is_none_or(|reply| reply.status == 400));
    println!("RESULT prove/xds/process violations=0");
}
