//! Envoy is in front of a tiny HTTP server, with its filter for rate limits. It uses its own definitions of the
//! messages.

use std::net::SocketAddr;
use std::process::Command;
use std::thread;

use crate::free_address;
use crate::manual::{Addresses, file};
use crate::proxy::{Proxy, program};
use crate::support::folder::Folder;
use crate::support::{Connection, Reply, Server, until};
use crate::upstream::Upstream;

const POLICIES: &str = "
policies:
  - { name: login, match: { domain: shop, generic_key: login }, key: global, quotas: [2/1d] }
  - { name: users, match: { domain: shop, user: '*' }, key: [user], quotas: [1/1d] }
  - { name: both, match: { domain: shop, generic_key: both }, key: global, quotas: [5/1h] }
  - { name: hits, match: { domain: shop, generic_key: hits }, key: global, quotas: [10/1d] }
unmatched: allow
";

/// The same limits as a file of envoyproxy/ratelimit, with features that only such files have.
const SHOP: &str = "
domain: shop
descriptors:
  - { key: generic_key, value: login, rate_limit: { unit: day, requests_per_unit: 2, name: login } }
  - { key: generic_key, value: both, rate_limit: { unit: hour, requests_per_unit: 5 } }
  - { key: generic_key, value: free, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 1 } }
  - { key: user, rate_limit: { unit: day, requests_per_unit: 1, name: each-user } }
  - { key: user, value: 'vip*', rate_limit: { unlimited: true } }
";

/// An Envoy with two listeners.
struct Envoy {
    _process: Proxy,
    /// Lets requests through if the service does not answer.
    open: SocketAddr,
    /// Denies them.
    closed: SocketAddr,
}

impl Envoy {
    /// It waits for the service as long as `timeout`.
    fn start(folder: &Folder, service: SocketAddr, upstream: SocketAddr, timeout: &str) -> Self {
        let (open, closed) = (free_address(), free_address());
        let listeners = [("open", open, false), ("closed", closed, true)];
        let listeners: String = listeners
            .iter()
            .map(|(name, address, denies)| listener(name, *address, *denies, timeout))
            .collect();
        let clusters = [cluster("upstream", upstream, ""), cluster("tollgate", service, HTTP2)].concat();
        let text = format!("static_resources:\n  listeners:{listeners}\n  clusters:{clusters}\n");
        Self { _process: start(folder, &text, &[open, closed]), open, closed }
    }
}

/// An Envoy with this configuration.
pub(crate) fn start(folder: &Folder, text: &str, addresses: &[SocketAddr]) -> Proxy {
    let mut command = Command::new(program("TOLLGATE_ENVOY"));
    command.args(["--config-path", &folder.write("envoy.yaml", text)]).args([
        "--concurrency",
        "1",
        "--disable-hot-restart",
        "--log-level",
        "warning",
    ]);
    Proxy::start(command, folder, addresses)
}

const HTTP2: &str = "
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        \"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: { http2_protocol_options: {} }";

fn cluster(name: &str, address: SocketAddr, protocol: &str) -> String {
    let (ip, port) = (address.ip(), address.port());
    format!(
        "
  - name: {name}
    connect_timeout: 5s
    type: STATIC
    load_assignment:
      cluster_name: {name}
      endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {{ socket_address: {{ address: {ip}, port_value: {port} }} }} }} }}] }}]{protocol}"
    )
}

fn listener(name: &str, address: SocketAddr, denies: bool, timeout: &str) -> String {
    let (ip, port) = (address.ip(), address.port());
    let generic = |key: &str| format!("- actions: [{{ generic_key: {{ descriptor_value: {key} }} }}]");
    let user = "- actions: [{ request_headers: { header_name: x-user, descriptor_key: user } }]";
    let route = |path: &str, limits: &str| {
        format!(
            "
              - match: {{ prefix: {path} }}
                route: {{ cluster: upstream }}
                typed_per_filter_config:
                  envoy.filters.http.ratelimit:
                    \"@type\": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
                    rate_limits:
                    {limits}"
        )
    };
    let hits = format!("{}\n                      hits_addend: {{ number: 3 }}", generic("hits"));
    let limit = "{ dynamic_metadata: { metadata_key: { key: limits, path: [{ key: of_plan }] } } }";
    let brought = format!("{}\n                      limit: {limit}", generic("plan"));
    let routes = [
        route("/login", &generic("login")),
        route("/both", &format!("{}\n                    {user}", generic("both"))),
        route("/hits", &hits),
        route("/brought", &brought),
        route("/", &generic("free")),
    ];
    let routes = routes.concat();
    format!(
        "
  - name: {name}
    address: {{ socket_address: {{ address: {ip}, port_value: {port} }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: {name}
          route_config:
            virtual_hosts:
            - name: all
              domains: [\"*\"]
              routes:{routes}
          http_filters:
          - name: envoy.filters.http.set_metadata
            typed_config:
              \"@type\": type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config
              metadata:
              - {{ metadata_namespace: limits, value: {{ of_plan: {{ requests_per_unit: 2, unit: HOUR }} }} }}
          - name: envoy.filters.http.ratelimit
            typed_config:
              \"@type\": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: shop
              timeout: {timeout}
              failure_mode_deny: {denies}
              enable_x_ratelimit_headers: DRAFT_VERSION_03
              rate_limit_service:
                transport_api_version: V3
                grpc_service: {{ envoy_grpc: {{ cluster_name: tollgate }} }}
          - name: envoy.filters.http.router
            typed_config: {{ \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}"
    )
}

fn get(address: SocketAddr, path: &str, user: &str) -> Reply {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nX-User: {user}\r\n\r\n");
    Connection::open(address).ask(request.as_bytes())
}

/// Returns the status, and the remaining units in Envoy's header.
fn asked(address: SocketAddr, path: &str, user: &str) -> (u16, Option<u32>) {
    let reply = get(address, path, user);
    (reply.status, reply.header("x-ratelimit-remaining").and_then(|left| left.parse().ok()))
}

#[test]
#[ignore = "it needs Envoy, which `cargo xtask prove gateway` installs"]
fn the_configuration_in_the_manual_denies() {
    let (folder, upstream, proxy) = (Folder::new(), Upstream::start(), free_address());
    let addresses = |tollgate| Addresses { proxy, tollgate, upstream: upstream.address };
    let policies = folder.write("limits.yaml", &file("grpc.md", "limits.yaml", addresses(proxy)));
    let server = Server::start(&["--config", &policies, "--grpc", "127.0.0.1:0"]);
    let page = file("grpc.md", "envoy.yaml", addresses(server.grpc.expect("its address")));
    // The debug build may need longer than Envoy's 20 ms.
    let _envoy = start(&folder, &page.replace("timeout: 0.02s", "timeout: 10s"), &[proxy]);

    let logins = || (0..4).map(|_| asked(proxy, "/login", "alice").0).collect::<Vec<_>>();
    // Two windows have room for four, but not three.
    let denied = [logins(), logins(), logins()].concat().iter().filter(|status| **status == 429).count();
    assert!(denied >= 8, "{denied}");
    let (status, left) = asked(proxy, "/", "alice");
    assert!(status == 200 && left.is_some_and(|left| (95..=99).contains(&left)), "{status}, {left:?}");
}

#[test]
#[ignore = "it needs Envoy, which `cargo xtask prove gateway` installs"]
fn prove() {
    let folder = Folder::new();
    let policies = folder.write("p.yaml", POLICIES);
    let flags = ["--config", &policies, "--grpc", "127.0.0.1:0", "--caller-quotas", "--grpc-limit-headers"];
    let server = Server::start(&flags);
    let envoy = Envoy::start(&folder, server.grpc.expect("its address"), Upstream::start().address, "10s");
    let Envoy { open, closed, .. } = envoy;

    let first = get(open, "/login", "alice");
    assert_eq!((first.status, &first.body[..]), (200, &b"hello"[..]));
    assert_eq!(first.header("x-ratelimit-limit"), Some("2, 2;w=86400;name=\"login\""));
    assert_eq!(first.header("ratelimit-policy"), Some("\"login\";q=2;w=86400"), "our own headers");
    assert_eq!(asked(open, "/login", "alice"), (200, Some(0)));
    let denied = get(open, "/login", "alice");
    assert_eq!((denied.status, denied.header("x-envoy-ratelimited")), (429, Some("true")));
    let reset: u32 =
        denied.header("x-ratelimit-reset").and_then(|reset| reset.parse().ok()).expect("a number");
    assert!((1..=86_400).contains(&reset), "{reset}");
    assert_eq!(denied.header("retry-after").and_then(|wait| wait.parse().ok()), Some(reset));
    println!("RESULT prove/gateway/limit violations=0");

    // Alice's own limit denies her, and she takes nothing from the shared limit.
    assert_eq!(asked(open, "/both", "alice"), (200, Some(0)));
    for _ in 0..3 {
        assert_eq!(asked(open, "/both", "alice").0, 429);
    }
    let shared = get(open, "/both", "bob");
    assert!(
        shared.header("x-ratelimit-limit").is_some_and(|limits| limits.contains("5;w=3600;name=\"both\""))
    );
    for user in ["carol", "dave", "erin"] {
        assert_eq!(asked(open, "/both", user).0, 200, "{user}");
    }
    assert_eq!(asked(open, "/both", "frank").0, 429, "the sixth of five");
    println!("RESULT prove/gateway/descriptors violations=0");

    assert_eq!(asked(open, "/hits", "alice"), (200, Some(7)));
    assert_eq!(asked(open, "/hits", "alice"), (200, Some(4)));
    println!("RESULT prove/gateway/hits_addend violations=0");

    let brought: Vec<_> = (0..3).map(|_| asked(open, "/brought", "alice")).collect();
    assert_eq!(brought, [(200, Some(1)), (200, Some(0)), (429, Some(0))]);
    println!("RESULT prove/gateway/override violations=0");

    assert_eq!(asked(open, "/free", "alice"), (200, None), "no limit");
    assert_eq!(asked(closed, "/login", "alice").0, 429, "the same counter");

    // The service stops, and Envoy follows its setting for failures.
    server.signal("TERM");
    let (status, log) = server.wait();
    assert!(status.success(), "{log}");
    assert_eq!(asked(open, "/login", "alice"), (200, None));
    assert_eq!(asked(closed, "/login", "alice").0, 500);
    println!("RESULT prove/gateway/failure_mode violations=0");
}

/// Envoy can log the header, because it is in the answer to the client.
#[test]
#[ignore = "it needs Envoy, which `cargo xtask prove gateway` installs"]
fn prove_trials() {
    let folder = Folder::new();
    let tried = "policies: [{ name: tried, key: global, quotas: [1/1d@first_hit], mode: shadow }]";
    let policies = folder.write("p.yaml", tried);
    let server = Server::start(&["--config", &policies, "--grpc", "127.0.0.1:0", "--trials-header"]);
    let envoy = Envoy::start(&folder, server.grpc.expect("its address"), Upstream::start().address, "10s");
    for trials in [None, Some("\"tried\"")] {
        let reply = get(envoy.open, "/login", "alice");
        assert_eq!((reply.status, reply.header("tollgate-trials")), (200, trials));
    }
    println!("RESULT prove/gateway/trials violations=0");
}

/// The files of envoyproxy/ratelimit decide.
#[test]
#[ignore = "it needs Envoy, which `cargo xtask prove gateway` installs"]
fn prove_imported() {
    let (folder, files) = (Folder::new(), Folder::new());
    files.write("shop.yaml", SHOP);
    let path = files.root().to_str().expect("text");
    let flags = ["--grpc", "127.0.0.1:0", "--caller-quotas", "--import", "envoy-ratelimit", path];
    let server = Server::start(&flags);
    let envoy = Envoy::start(&folder, server.grpc.expect("its address"), Upstream::start().address, "10s");
    let ask = |path: &str, user: &str| asked(envoy.open, path, user);

    let first = get(envoy.open, "/login", "alice");
    assert_eq!(first.header("x-ratelimit-limit"), Some("2, 2;w=86400;name=\"login\""));
    assert_eq!([ask("/login", "alice"), ask("/login", "alice")], [(200, Some(0)), (429, Some(0))]);
    assert_eq!([ask("/both", "alice").0, ask("/both", "alice").0], [200, 429]);
    let vips: Vec<u16> = (0..5).map(|_| ask("/both", "vip-bob").0).collect();
    assert_eq!(vips, [200, 200, 200, 200, 429], "the denial took nothing of the five of all");
    assert_eq!([ask("/free", "alice").0, ask("/free", "alice").0], [200, 200], "a shadow denies nobody");
    let brought: Vec<u16> = (0..3).map(|_| ask("/brought", "alice").0).collect();
    assert_eq!(brought, [200, 200, 429]);
    println!("RESULT prove/gateway/imported violations=0");
}

/// Under load, decisions come within Envoy's default timeout. Where they do not, `failure_mode_deny` answers 500.
#[test]
#[ignore = "it needs Envoy, which `cargo xtask prove gateway` installs"]
fn prove_under_load() {
    const CLIENTS: usize = 16;
    const REQUESTS: usize = 500;
    let folder = Folder::new();
    let server = Server::start(&["--limit", "1000000000/1h", "--grpc", "127.0.0.1:0"]);
    let service = server.grpc.expect("its address");
    let envoy = Envoy::start(&folder, service, Upstream::start().address, "0.02s");
    let closed = envoy.closed;
    // The first call opens the connection between the two.
    until("the service is asked", || asked(closed, "/login", "alice").0 == 200);
    let client = move || {
        let mut connection = Connection::open(closed);
        let request = b"GET /login HTTP/1.1\r\nHost: localhost\r\nX-User: alice\r\n\r\n";
        (0..REQUESTS).filter(|_| connection.ask(request).status != 200).count()
    };
    let clients: Vec<_> = (0..CLIENTS).map(|_| thread::spawn(client)).collect();
    let late: usize = clients.into_iter().map(|client| client.join().expect("it ends")).sum();
    let requests = CLIENTS * REQUESTS;
    println!("RESULT prove/gateway/load requests={requests} late={late}");
    // A machine that stands still for a moment makes some late, and never all of them.
    assert!(late * 20 <= requests, "{late} of {requests}");
}

/// A client can send bytes that no text of a message may have. Envoy admits calls that are errors.
#[test]
#[ignore = "it needs Envoy, which `cargo xtask prove gateway` installs"]
fn prove_headers_that_are_no_text() {
    let folder = Folder::new();
    let policies = folder.write("p.yaml", POLICIES);
    let server = Server::start(&["--config", &policies, "--grpc", "127.0.0.1:0"]);
    let envoy = Envoy::start(&folder, server.grpc.expect("its address"), Upstream::start().address, "10s");
    let ask = || {
        let head = b"GET /both HTTP/1.1\r\nHost: localhost\r\nX-User: \xff\xfe\r\n\r\n";
        Connection::open(envoy.open).ask(head).status
    };
    assert_eq!([ask(), ask()], [200, 429]);
    println!("RESULT prove/gateway/no_text violations=0");
}

/// A client can send a header without a value, and Envoy makes an entry of it.
#[test]
#[ignore = "it needs Envoy, which `cargo xtask prove gateway` installs"]
fn prove_empty_headers() {
    let (folder, files) = (Folder::new(), Folder::new());
    let policies = folder.write("p.yaml", POLICIES);
    files.write("shop.yaml", SHOP);
    let imported = files.root().to_str().expect("text");
    for limits in [&["--config", &policies][..], &["--import", "envoy-ratelimit", imported]] {
        let server = Server::start(&[limits, &["--grpc", "127.0.0.1:0"]].concat());
        let service = server.grpc.expect("its address");
        let envoy = Envoy::start(&folder, service, Upstream::start().address, "10s");
        assert_eq!([asked(envoy.open, "/both", "").0, asked(envoy.open, "/both", "").0], [200, 429]);
    }
    println!("RESULT prove/gateway/empty violations=0");
}
