//! Proxies that ask at `/forward-auth`, with the configurations of the manual as they stand there.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::free_address;
use crate::manual::{Addresses, file};
use crate::proxy::{Proxy, program};
use crate::support::folder::Folder;
use crate::support::{Connection, Reply, Server, until};
use crate::upstream::{OWN_LIMIT, Upstream};

/// Admits what is not an order, so that a client that could change what the proxy says would be let through.
const POLICIES: &str = "
policies:
  - name: orders
    match: { method: POST, host: shop.example, path: /order }
    key: [ip, header.x-api-key]
    quotas: [2/1d@first_hit]
  # What a client shows to the service behind the proxy is not for Tollgate.
  - { name: secrets, match: { header.authorization: { present: true } }, key: global, quotas: [0/1d] }
unmatched: allow
";

/// What a proxy makes of what the service answers.
struct Made {
    name: &'static str,
    /// Whether an admission tells the client of its limits.
    tells_admitted: bool,
    /// Whether the client gets the body of a denial.
    passes_body: bool,
    /// The status of a request that the service refuses with 400, if the proxy passes on the headers for that.
    refused: Option<u16>,
    /// The status of a request without a host.
    hostless: u16,
    /// The statuses of a path, a key and a host that are not UTF-8, and of more headers than are read.
    odd: [u16; 4],
    /// The status while nothing listens where the service was.
    unanswered: u16,
    /// The status while the service hangs.
    hung: u16,
}

/// A proxy between a service and a server behind it.
struct Stage {
    folder: Folder,
    upstream: Upstream,
    server: Server,
    addresses: Addresses,
}

impl Stage {
    fn new() -> Self {
        Self::with(POLICIES, &[])
    }

    fn with(policies: &str, flags: &[&str]) -> Self {
        let (folder, upstream) = (Folder::new(), Upstream::start());
        let config = folder.write("limits.yaml", policies);
        let server = Server::start(&[&["--config", &config], flags].concat());
        let addresses =
            Addresses { proxy: free_address(), tollgate: server.public, upstream: upstream.address };
        Self { folder, upstream, server, addresses }
    }

    /// Copies a file from the manual.
    fn copy(&self, name: &str) -> String {
        self.folder.write(name, &file("proxies.md", name, self.addresses))
    }

    fn start(&self, command: Command) -> Proxy {
        Proxy::start(command, &self.folder, &[self.addresses.proxy])
    }

    fn order(&self, user: &str, path: &str, more: &[&str]) -> Reply {
        order(self.addresses.proxy, user, path, more)
    }

    fn used(&self, user: &str) -> u64 {
        let attributes = json!({ "method": "POST", "host": "shop.example", "path": "/order", "ip": "127.0.0.1",
                                 "header.x-api-key": user });
        let peek = self.server.post("/v1/peek", &json!({ "attributes": attributes }).to_string());
        peek.json()["used"].as_u64().expect("a count")
    }

    /// Plays all of it, and ends with the service stopped.
    fn play(self, made: &Made) {
        let before = self.upstream.requests();
        let let_through = || (self.upstream.requests() - before) as u64;
        let first = self.order("alice", "/order?page=2&deny=401", &[]);
        assert_eq!((first.status, &first.body[..]), (200, &b"hello"[..]), "{}", made.name);
        match made.tells_admitted {
            true => first.assert_limit_of_a_day("\"orders\";r=1"),
            false => assert_eq!(first.header("ratelimit"), None),
        }
        let policy = made.tells_admitted.then_some("\"orders\";q=2;w=86400");
        assert_eq!(first.header("ratelimit-policy"), policy);
        // What a client says of itself changes nothing, in the headers that the proxy sets.
        let lies = [
            "X-Forwarded-Method: GET",
            "X-Forwarded-Uri: /free",
            "X-Forwarded-Host: free.example",
            "X-Forwarded-For: 198.51.100.1",
        ];
        assert_eq!(self.order("alice", "//%6Frder", &lies).status, 200);
        assert_eq!((self.used("alice"), let_through()), (2, 2));

        let denied = self.order("alice", "/order", &lies);
        assert_eq!(denied.status, 429, "{}", made.name);
        denied.assert_limit_of_a_day("\"orders\";r=0");
        assert_eq!(denied.header("ratelimit-policy"), Some("\"orders\";q=2;w=86400"));
        let wait: u32 = denied.header("retry-after").and_then(|wait| wait.parse().ok()).expect("a number");
        assert!((86_000..=86_400).contains(&wait), "{wait}");
        if made.passes_body {
            let body = denied.json();
            assert_eq!((&body["policy"], &body["version"]), (&json!("orders"), &json!(null)));
        }
        assert_eq!(let_through(), 2, "a denied request was let through");
        println!("RESULT prove/gateway/{}/limit violations=0", made.name);

        assert_eq!(self.order("bob", "/order", &[]).status, 200, "another key");
        let free = self.order("alice", "/", &[]);
        let own = (200, Some(OWN_LIMIT));
        assert_eq!(
            (free.status, free.header("ratelimit")),
            own,
            "another path, whose limit is the service's"
        );
        assert_eq!(let_through(), 4);
        // The other form is a client's.
        let lies = ["X-Original-Method: GET", "X-Original-URI: /free", "X-Original-Host: free.example"];
        for (user, unheard) in [("alice", 429), ("bob", 200)] {
            let status = self.order(user, "/order", &lies).status;
            assert_eq!(status, made.refused.unwrap_or(unheard), "{}", made.name);
        }
        let orders_of_bob = if made.refused.is_some() { 1 } else { 2 };
        let let_through_so_far = 3 + orders_of_bob;
        // Headers that a client names here are for the next hop alone, and some proxies take them out at the end.
        let hides =
            "Connection: close, X-Forwarded-Method, X-Forwarded-Uri, X-Forwarded-Host, X-Forwarded-For";
        for lies in [&[hides][..], &[&[hides], &lies[..]].concat(), &["Connection: close, X-Forwarded-For"]] {
            let status = self.order("alice", "/order", lies).status;
            assert!(status == 429 || Some(status) == made.refused, "{}: {status} to {lies:?}", made.name);
        }
        assert_eq!((self.used("bob"), let_through()), (orders_of_bob, let_through_so_far));
        println!("RESULT prove/gateway/{}/lies violations=0", made.name);

        self.play_odd_requests(made);
        let let_through_so_far = let_through();

        assert_eq!(order_of_a_hung(&self.server, self.addresses.proxy), made.hung, "{}", made.name);
        assert_eq!(let_through(), let_through_so_far);
        println!("RESULT prove/gateway/{}/hung violations=0", made.name);

        let Self { server, upstream, addresses, folder: _folder } = self;
        server.signal("TERM");
        let (status, log) = server.wait();
        assert!(status.success(), "{log}");
        assert_eq!(order(addresses.proxy, "dave", "/order", &[]).status, made.unanswered, "{}", made.name);
        assert_eq!((upstream.requests() - before) as u64, let_through_so_far);
        println!("RESULT prove/gateway/{}/stopped violations=0", made.name);
    }

    /// A load balancer that checks its servers with HTTP/1.0 took nginx for broken, because the answer was 500. Bytes
    /// that are not UTF-8 got 500 too, and operators were paged for what a client had sent.
    fn play_odd_requests(&self, made: &Made) {
        let before = self.upstream.requests();
        // As `option httpchk` of HAProxy asks.
        let check = self.ask(b"OPTIONS / HTTP/1.0\r\n\r\n");
        let many: String = (0..101).map(|number| format!("X-{number}: 1\r\n")).collect();
        let odd: [&[u8]; 4] = [
            b"POST /\xff HTTP/1.1\r\nHost: shop.example\r\n",
            b"POST /order HTTP/1.1\r\nHost: shop.example\r\nX-Api-Key: \xff\r\n",
            b"POST /order HTTP/1.1\r\nHost: shop.example\xff\r\nX-Api-Key: carol\r\n",
            b"POST /order HTTP/1.1\r\nHost: shop.example\r\nX-Api-Key: carol\r\n",
        ];
        let more = ["", "", "", &many];
        let ends = more.map(|more| format!("{more}Content-Length: 0\r\n\r\n"));
        let odd = std::array::from_fn(|place| self.ask(&[odd[place], ends[place].as_bytes()].concat()));
        assert_eq!((check, odd), (made.hostless, made.odd), "{}", made.name);
        let admitted = [check].iter().chain(&odd).filter(|status| **status == 200).count();
        assert_eq!(self.upstream.requests() - before, admitted, "{}", made.name);
        println!("RESULT prove/gateway/{}/odd violations=0", made.name);
    }

    fn ask(&self, request: &[u8]) -> u16 {
        Connection::open(self.addresses.proxy).ask(request).status
    }
}

fn order(proxy: SocketAddr, user: &str, path: &str, more: &[&str]) -> Reply {
    let more: String = more.iter().map(|header| format!("{header}\r\n")).collect();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: Shop.Example\r\nAuthorization: Bearer sesame\r\nX-Api-Key: {user}\r\n\
         {more}Content-Length: 7\r\n\r\nitem=42"
    );
    Connection::open(proxy).ask(request.as_bytes())
}

/// Returns the status of an order while the service takes connections and answers nothing.
fn order_of_a_hung(server: &Server, proxy: SocketAddr) -> u16 {
    // Traefik takes 30 seconds, and nginx 60 without its timeouts.
    const SOON: Duration = Duration::from_secs(45);
    server.signal("STOP");
    // A thread that runs meanwhile would still answer.
    until("all threads stand still", || stand_still(server));
    let begun = Instant::now();
    let status = order(proxy, "dave", "/order", &[]).status;
    let taken = begun.elapsed();
    server.signal("CONT");
    assert!(taken < SOON, "{taken:?}");
    status
}

/// Whether all threads of the service are stopped, as Linux reports for each after its name.
fn stand_still(server: &Server) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.id())).expect("its threads");
    tasks.flatten().all(|task| {
        fs::read_to_string(task.path().join("stat"))
            .is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T')))
    })
}

/// `change` gets the configuration with its include.
fn nginx(stage: &Stage, change: impl Fn(String) -> String) -> Proxy {
    let include = file("proxies.md", "tollgate.conf", stage.addresses);
    let text =
        file("proxies.md", "nginx.conf", stage.addresses).replace("include tollgate.conf;\n", &include);
    start_nginx(stage, &change(text), &[stage.addresses.proxy])
}

/// In one process that can be killed, with its files in this folder.
fn start_nginx(stage: &Stage, text: &str, addresses: &[SocketAddr]) -> Proxy {
    let own = "http {\n    access_log /dev/null;\n    client_body_temp_path body;\n    proxy_temp_path proxy;\n    \
               fastcgi_temp_path fastcgi;\n    uwsgi_temp_path uwsgi;\n    scgi_temp_path scgi;\n";
    stage.folder.write("nginx.conf", &text.replacen("http {\n", own, 1));
    let mut command = Command::new(program("TOLLGATE_NGINX"));
    command.args(["-p", stage.folder.root().to_str().expect("text"), "-c", "nginx.conf", "-e", "error.log"]);
    command.args(["-g", "daemon off; master_process off; pid nginx.pid;"]);
    Proxy::start(command, &stage.folder, addresses)
}

const NGINX: Made = Made {
    name: "nginx",
    tells_admitted: true,
    passes_body: false,
    refused: Some(400),
    hostless: 200,
    odd: [400, 400, 400, 400],
    unanswered: 500,
    hung: 500,
};

#[test]
#[ignore = "it needs nginx, which `cargo xtask prove gateway` unpacks"]
fn prove_nginx() {
    let stage = Stage::new();
    let _nginx = nginx(&stage, |text| text);
    stage.play(&NGINX);
}

#[test]
#[ignore = "it needs nginx, which `cargo xtask prove gateway` unpacks"]
fn prove_nginx_with_several_servers_that_include_one_file() {
    let (stage, other) = (Stage::new(), free_address());
    stage.copy("tollgate.conf");
    let text = file("proxies.md", "nginx.conf", stage.addresses);
    let (before, rest) = text.split_once("    server {\n").expect("a server");
    let (server, _) = rest.split_once("\n    }\n").expect("its end");
    let listens = format!("listen {}", stage.addresses.proxy);
    assert!(server.contains(&listens) && server.contains("include tollgate.conf;"));
    let closed = "location /closed { deny all; }\n        location /own { auth_request off; deny all; }";
    let server = server.replace("location / {", &format!("{closed}\n        location / {{"));
    let second = server.replace(&listens, &format!("listen {other}"));
    let text = format!("{before}    server {{\n{server}\n    }}\n    server {{\n{second}\n    }}\n}}\n");
    let _nginx = start_nginx(&stage, &text, &[stage.addresses.proxy, other]);
    let statuses =
        [stage.addresses.proxy, other, other].map(|server| order(server, "alice", "/order", &[]).status);
    assert_eq!((statuses, stage.upstream.requests()), ([200, 200, 429], 2), "they share a limit");
    // A 403 of nginx itself was answered 400, as if Tollgate had refused the request.
    for path in ["/closed", "/own"] {
        let reply = order(other, "alice", path, &[]);
        assert_eq!((reply.status, reply.header("retry-after")), (403, None), "{path}");
    }
    assert_eq!(order(other, "alice", "/order", &["X-Api-Key: bob"]).status, 400, "Tollgate refuses it");
    println!("RESULT prove/gateway/nginx/servers violations=0");
}

/// Some services read dot segments next to escaped slashes in a third way, so a limit on `/order` was avoided.
#[test]
#[ignore = "it needs nginx, which `cargo xtask prove gateway` unpacks"]
fn prove_nginx_refuses_paths_with_dot_segments() {
    let stage = Stage::new();
    let dots = file("proxies.md", "dots.conf", stage.addresses);
    let _nginx = nginx(&stage, |text| {
        text.replacen("server {\n        listen", &format!("server {{\n{dots}        listen"), 1)
    });
    for path in ["/x%2fy/../order", "/a//../order", "/%2E%2e/order", "/order/..", "/order/.?x=1", "/a%2f./b"]
    {
        assert_eq!(stage.order("alice", path, &[]).status, 400, "{path}");
    }
    for path in ["/projects/a%2Fb", "/.well-known/x", "/a/...", "/free?u=/../order"] {
        assert_eq!(stage.order("alice", path, &[]).status, 200, "{path}");
    }
    println!("RESULT prove/gateway/nginx/dots violations=0");
}

/// What nginx logs in front of the service is replayed through the same policies: the same requests of the same users are
/// denied, however they spell their path and their name.
#[test]
#[ignore = "it needs nginx, which `cargo xtask prove gateway` unpacks"]
fn prove_nginx_log_is_replayed_to_the_same_denials() {
    const FORMAT: &str = "log_format replayed '$remote_addr - $remote_user [$time_local] \"$request\" $status \"$host\" \
                          \"$http_x_api_key\"';";
    let stage = Stage::new();
    let nginx = nginx(&stage, |text| {
        let server = format!("{FORMAT}\n    server {{\n        access_log access.log replayed;\n");
        text.replacen("server {\n        listen", &format!("{server}        listen"), 1)
    });
    let users = ["alice", "bob", "quo\"te", "back\\slash", "[br] ack-et", "üñí"];
    let paths = ["/order", "//%6Frder", "/order?page=2&q=\"x\"", "/a/../order", "/free", "/order/%2e"];
    let (mut random, mut denied) = (1_u32, BTreeMap::<String, u64>::new());
    for _ in 0..120 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let user = users[(random >> 8) as usize % users.len()];
        let reply = stage.order(user, paths[(random >> 16) as usize % paths.len()], &[]);
        assert!([200, 429].contains(&reply.status), "{}", reply.status);
        if reply.status == 429 {
            *denied.entry(format!("header.x-api-key={user}")).or_default() += 1;
        }
    }
    // It logs a request after it has answered it.
    let log = stage.folder.path("access.log");
    until("all requests are logged", || {
        std::fs::read(&log).is_ok_and(|log| log.split(|byte| *byte == b'\n').count() > 120)
    });
    drop(nginx);
    let mut simulate = crate::support::tollgate();
    simulate.args(["simulate", &stage.folder.path("limits.yaml"), &stage.folder.path("access.log")]);
    simulate.args([
        "--format",
        FORMAT,
        "--attr",
        "header.x-api-key=header:X-Api-Key",
        "--client",
        "header.x-api-key",
    ]);
    let output = simulate.args(["--json", "--show-keys"]).output().expect("it runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&report["requests"], &report["undecided"]), (&json!(120), &json!(0)), "{report}");
    let replayed = report["most_denied"].as_array().expect("a list").iter().map(|client| {
        let name = client["client"].as_str().expect("a name").to_owned();
        (name, client["denied"].as_u64().expect("a number"))
    });
    assert_eq!(replayed.collect::<BTreeMap<_, _>>(), denied);
    assert_eq!(denied.len(), users.len());
    println!("RESULT prove/gateway/nginx/replayed violations=0");
}

/// The service knew that a limit on trial would deny requests, and nginx knew whose they were, so nobody saw both.
#[test]
#[ignore = "it needs nginx, which `cargo xtask prove gateway` unpacks"]
fn prove_nginx_logs_whose_requests_a_trial_would_deny() {
    let tried = POLICIES.replace("quotas: [2/1d@first_hit]", "quotas: [1/1d@first_hit]\n    mode: shadow");
    let stage = Stage::with(&tried, &["--trials-header"]);
    let log = file("proxies.md", "trials.conf", stage.addresses);
    let nginx = nginx(&stage, |text| {
        assert!(text.contains("    server {\n"));
        text.replacen("    server {\n", &format!("{log}    server {{\n"), 1)
    });
    for (user, path) in
        [("alice", "/order"), ("alice", "/order?q=\"x\""), ("bob", "/order"), ("bob", "/free")]
    {
        let reply = stage.order(user, path, &["Tollgate-Trials: \"forged\""]);
        assert_eq!((reply.status, reply.header("tollgate-trials")), (200, None), "a client never gets it");
    }
    let file = stage.folder.path("trials.log");
    until("the request is logged", || fs::read_to_string(&file).is_ok_and(|log| log.ends_with('\n')));
    // It writes its lines in order, so no other line comes later.
    drop(nginx);
    let lines = fs::read_to_string(&file).expect("a log");
    let line: Value = serde_json::from_str(&lines).expect("one line");
    let logged = (&line["client"], &line["path"], &line["trials"]);
    assert_eq!(logged, (&json!("127.0.0.1"), &json!("/order"), &json!("\"orders\"")));
    println!("RESULT prove/gateway/nginx/trials violations=0");
}

/// As ingress-nginx describes requests. A host that hides the path from a careless reader of the URL is refused.
#[test]
#[ignore = "it needs nginx, which `cargo xtask prove gateway` unpacks"]
fn prove_nginx_with_original_headers() {
    let stage = Stage::new();
    let _nginx = nginx(&stage, |text| {
        let original = "proxy_set_header X-Original-Method $request_method;\n    proxy_set_header X-Original-URL \
                        $scheme://$http_host$request_uri;";
        let kept = text.lines().filter(|line| !line.contains("X-Forwarded-Uri") && !line.contains("-Host"));
        let changed = kept.map(|line| if line.contains("X-Forwarded-Method") { original } else { line });
        changed.collect::<Vec<_>>().join("\n")
    });
    let statuses: Vec<u16> = (0..3).map(|_| stage.order("alice", "/order?a=/b", &[]).status).collect();
    assert_eq!(statuses, [200, 200, 429]);
    for host in ["shop.example?", "shop.example#", "x@shop.example"] {
        let request =
            format!("POST /order HTTP/1.1\r\nHost: {host}\r\nX-Api-Key: alice\r\nContent-Length: 0\r\n\r\n");
        let reply = Connection::open(stage.addresses.proxy).ask(request.as_bytes());
        assert_eq!(reply.status, 400, "{host}");
    }
    assert_eq!((stage.used("alice"), stage.upstream.requests()), (2, 2));
    println!("RESULT prove/gateway/nginx/original violations=0");
}

#[test]
#[ignore = "it needs nginx, which `cargo xtask prove gateway` unpacks"]
fn prove_nginx_that_lets_through_while_nobody_answers() {
    let stage = Stage::new();
    let open = file("proxies.md", "open.conf", stage.addresses);
    let _nginx = nginx(&stage, |text| {
        let asks = "    internal;\n    proxy_pass http://tollgate";
        assert!(text.contains(asks));
        let opens = format!("    error_page 502 504 = @open;\n{asks}");
        let denied = "location @denied {";
        text.replace(asks, &opens).replace(denied, &format!("{open}{denied}"))
    });
    let statuses: Vec<u16> = (0..3).map(|_| stage.order("alice", "/order", &[]).status).collect();
    assert_eq!(statuses, [200, 200, 429]);
    let refused = stage.order("alice", "/order", &["X-Original-URI: /free"]);
    assert_eq!(refused.status, 400, "an answer, and none that lets through");
    let Stage { server, upstream, addresses, folder: _folder } = stage;
    assert_eq!(order_of_a_hung(&server, addresses.proxy), 200);
    server.signal("TERM");
    assert!(server.wait().0.success());
    assert_eq!(order(addresses.proxy, "alice", "/order", &[]).status, 200);
    assert_eq!(upstream.requests(), 4);
    println!("RESULT prove/gateway/nginx/open violations=0");
}

/// With one of the files in the manual.
fn caddy(name: &str, made: &Made) {
    let stage = Stage::new();
    let config = stage.folder.write("Caddyfile", &file("proxies.md", name, stage.addresses));
    let mut command = Command::new(program("TOLLGATE_CADDY"));
    command.args(["run", "--config", &config, "--adapter", "caddyfile"]);
    let folder = stage.folder.root();
    command.env("HOME", folder).env("XDG_DATA_HOME", folder).env("XDG_CONFIG_HOME", folder);
    command.env("CADDY_ADMIN", free_address().to_string());
    let _caddy = stage.start(command);
    stage.play(made);
}

const CADDY: Made = Made {
    name: "caddy",
    tells_admitted: true,
    passes_body: true,
    refused: Some(400),
    hostless: 400,
    odd: [200, 400, 400, 431],
    unanswered: 502,
    hung: 504,
};

#[test]
#[ignore = "it needs Caddy, which `cargo xtask prove gateway` unpacks"]
fn prove_caddy() {
    caddy("Caddyfile", &CADDY);
}

#[test]
#[ignore = "it needs Caddy, which `cargo xtask prove gateway` unpacks"]
fn prove_short_caddy() {
    caddy("short/Caddyfile", &Made { name: "short-caddy", tells_admitted: false, ..CADDY });
}

#[test]
#[ignore = "it needs Traefik, which `cargo xtask prove gateway` installs"]
fn prove_traefik() {
    let stage = Stage::new();
    stage.copy("dynamic.yaml");
    let mut command = Command::new(program("TOLLGATE_TRAEFIK"));
    command.arg(format!("--configFile={}", stage.copy("traefik.yaml")));
    let _traefik = stage.start(command);
    // It listens before it has read its routes.
    until("Traefik knows its routes", || stage.order("alice", "/", &[]).status == 200);
    let made = Made {
        name: "traefik",
        tells_admitted: false,
        passes_body: true,
        refused: None,
        hostless: 400,
        // It passes on no header but those of the list.
        odd: [200, 400, 400, 200],
        unanswered: 500,
        hung: 500,
    };
    stage.play(&made);
}

#[test]
#[ignore = "it needs HAProxy, which `cargo xtask prove gateway` unpacks"]
fn prove_haproxy() {
    let stage = Stage::new();
    stage.copy("tollgate.lua");
    let config = stage.copy("haproxy.cfg");
    let mut command = Command::new(program("TOLLGATE_HAPROXY"));
    command.args(["-db", "-f", &config]);
    if let Some(libraries) = std::env::var_os("TOLLGATE_HAPROXY_LIBRARIES") {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    let _haproxy = stage.start(command);
    let made = Made {
        name: "haproxy",
        tells_admitted: true,
        passes_body: false,
        refused: Some(400),
        hostless: 400,
        odd: [400, 400, 400, 400],
        unanswered: 503,
        hung: 503,
    };
    stage.play(&made);
}
