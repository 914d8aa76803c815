//! Each of the three restarts, while limits hold: the control plane, the service, and Envoy. All connections are over
//! TLS with certificates on both sides, as in a cluster.

use std::net::SocketAddr;
use std::path::Path;

use tollgate_testkit::servers::{self, Software};

use crate::certificates::{Authority, Identity};
use crate::free_address;
use crate::support::folder::Folder;
use crate::support::{Connection, Server, until};
use crate::upstream::Upstream;
use crate::xds::control_plane::ControlPlane;
use crate::xds::front::{self, Neighbours};
use crate::xds::rules::{self, Condition, Listener, Route, Rule, ValueMatch};
use crate::xds::start;

/// Certificates of one authority, as Envoy Gateway makes them.
struct Certificates {
    authority: Authority,
    control_plane: Identity,
    limiter: Identity,
    envoy: Identity,
}

impl Certificates {
    fn new(folder: &Folder) -> Self {
        let authority = Authority::new(folder.root(), "authority");
        let server = |name| authority.server(folder.root(), name);
        let (control_plane, limiter, envoy) = (server("control-plane"), server("limiter"), server("envoy"));
        Self { authority, control_plane, limiter, envoy }
    }

    fn plane(&self, address: SocketAddr) -> ControlPlane {
        ControlPlane::start_tls(address, &self.control_plane, &self.authority)
    }

    /// Starts the service with the variables that Envoy Gateway sets for TLS.
    fn limiter(&self, plane: SocketAddr, grpc: SocketAddr, redis: &str) -> Server {
        let text = |path: &Path| path.to_str().expect("text").to_owned();
        let Identity { certificate, key } = &self.limiter;
        let (certificate, key, authority) = (text(certificate), text(key), text(&self.authority.file));
        let variables = [
            ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
            ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", &certificate),
            ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", &key),
            ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", &authority),
        ];
        let store = ["--store", redis, "--store-timeout", "30s", "--store-connect-timeout", "30s"];
        let tls = ["--tls-cert", &certificate, "--tls-key", &key, "--tls-client-ca", &authority];
        start(plane, grpc, &variables, &[&store[..], &tls].concat())
    }
}

fn listener(requests: u32) -> Listener {
    let rule = Rule::new(requests, [Condition::Header("x-user", ValueMatch::Distinct)]);
    let plan = Rule::new(1_000, []).with_own_limit();
    let routes = [("orders", rule), ("plans", plan)].map(|(name, rule)| Route { name, rules: vec![rule] });
    Listener { name: "default/eg/http", routes: routes.into() }
}

#[test]
#[ignore = "it needs Envoy and go-control-plane, which `cargo xtask prove xds` builds"]
fn prove_limits_hold_through_restarts() {
    let (folder, upstream) = (Folder::new(), Upstream::start());
    let certificates = Certificates::new(&folder);
    let redis = servers::Server::start(Software::Redis);
    let url = format!("redis://{}", redis.address());
    let (control, limiter, address) = (free_address(), free_address(), free_address());
    let serve = || certificates.limiter(control, limiter, &url);
    let neighbours = Neighbours {
        limiter,
        upstream: upstream.address,
        tls: Some((&certificates.envoy, &certificates.authority)),
    };
    let get_at = |path: &str, user: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nX-User: {user}\r\n\r\n");
        Connection::open(address).ask(request.as_bytes()).status
    };
    let get = |user: &str| get_at("/orders", user);
    let statuses = |user: &str, count: usize| (0..count).map(|_| get(user)).collect::<Vec<_>>();

    // The service is there first, and admits until it has limits.
    let mut server = serve();
    let mut envoy = front::start(&folder, &[(listener(3), address)], neighbours);
    assert_eq!(statuses("early", 5), [200; 5]);
    let mut plane = certificates.plane(control);
    plane.apply("1", &rules::domains(&[listener(3)]));
    assert_eq!(statuses("alice", 5), [200, 200, 200, 429, 429]);
    println!("RESULT prove/xds/first_set violations=0");

    // With client certificates, Envoy may bring limits.
    assert_eq!([(); 4].map(|()| get_at("/plans", "alice")), [200, 200, 429, 429]);
    println!("RESULT prove/xds/own_limit violations=0");

    // Without a control plane, the last limits hold.
    drop(plane);
    assert_eq!(statuses("alice", 1), [429]);
    assert_eq!(statuses("bob", 4), [200, 200, 200, 429]);
    // A new one begins with version 1 again, and with other limits.
    let mut plane = certificates.plane(control);
    plane.apply("1", &rules::domains(&[listener(5)]));
    assert_eq!(statuses("carol", 6), [200, 200, 200, 200, 200, 429]);
    // Another one has the same version, and no limits at all.
    drop(plane);
    let mut plane = certificates.plane(control);
    plane.set("1", &[]);
    until("no limits are live", || get("carol") == 200);
    plane.apply("2", &rules::domains(&[listener(5)]));
    assert_eq!(statuses("dave", 6), [200, 200, 200, 200, 200, 429]);
    println!("RESULT prove/xds/control_plane_restarts violations=0");

    // Counters outlive the service. While it is down, Envoy admits.
    drop(server);
    assert_eq!(get("dave"), 200);
    server = serve();
    until("the limits are live again", || get("dave") == 429);
    assert_eq!(get("erin"), 200);
    // The service starts while the control plane is down, and has no limits until it comes.
    drop(plane);
    drop(server);
    server = serve();
    until("Envoy reaches the service", || get("dave") == 200);
    let mut plane = certificates.plane(control);
    plane.apply("7", &rules::domains(&[listener(5)]));
    assert_eq!(get("dave"), 429);
    println!("RESULT prove/xds/service_restarts violations=0");

    drop(envoy);
    envoy = front::start(&folder, &[(listener(5), address)], neighbours);
    assert_eq!([get("dave"), get("erin")], [429, 200]);
    println!("RESULT prove/xds/envoy_restarts violations=0");

    // All connections of the control plane end at once, and a set follows.
    plane.disconnect();
    plane.apply("8", &rules::domains(&[listener(1)]));
    assert_eq!(statuses("frank", 2), [200, 429]);
    println!("RESULT prove/xds/reconnection violations=0");

    // Without TLS, nobody is served.
    let mut plain = Connection::open(limiter);
    plain.try_send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(plain.reply().is_none_or(|reply| reply.status == 400));
    drop((server, envoy));
}
