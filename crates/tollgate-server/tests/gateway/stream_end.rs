//! Envoy charges the tokens of an answer when its stream ends, with the configuration of the manual. Envoy decides which
//! streams it reports, and the manual lists them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::json;

use crate::envoy::start;
use crate::free_address;
use crate::manual::{Addresses, file};
use crate::proxy::Proxy;
use crate::support::folder::Folder;
use crate::support::{Connection, Server, until};
use crate::upstream::Upstream;

/// The tokens of each answer, and the fixed cost.
const COST: u32 = 7;

/// Routes and filters that answer instead of the model, for the tests.
const ANSWERS_OF_ENVOY: &str = "                      routes:
                        - { match: { path: /direct }, direct_response: { status: 403 } }
                        - { match: { path: /nobody }, route: { cluster: nobody } }
                        - match: { path: /early }
                          route: { cluster: llm }
                          typed_per_filter_config: { early: FAULT }
                        - match: { path: /late }
                          route: { cluster: llm }
                          typed_per_filter_config: { late: FAULT }
";

const FAULT: &str = "{ \"@type\": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault, \
                     abort: { http_status: 503, percentage: { numerator: 100 } } }";

/// Limits and the way to Envoy.
struct Stage {
    server: Server,
    proxy: SocketAddr,
    _envoy: Proxy,
    upstream: Upstream,
    _folder: Folder,
}

impl Stage {
    /// With the manual's configuration, in which this text is replaced.
    fn new(limits: &str, (from, to): (&str, &str)) -> Self {
        let (folder, upstream, proxy) = (Folder::new(), Upstream::start(), free_address());
        let addresses = |tollgate| Addresses { proxy, tollgate, upstream: upstream.address };
        folder.write("llm.yaml", limits);
        let path = folder.root().to_str().expect("text");
        let server = Server::start(&["--import", "envoy-ratelimit", path, "--grpc", "127.0.0.1:0"]);
        let page = file("envoy.md", "envoy.yaml", addresses(server.grpc.expect("its address")));
        assert!(page.contains(from), "{page}");
        let filter = |name: &str| {
            format!(
                "                  - {{ name: {name}, typed_config: {{ \"@type\": \
                 type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault }} }}\n"
            )
        };
        let router = "                  - name: envoy.filters.http.router\n";
        let filters = "                http_filters:\n";
        let cluster = format!(
            "  clusters:\n    - {{ name: nobody, load_assignment: {{ cluster_name: nobody, endpoints: [{{ lb_endpoints: \
             [{{ endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {} }} }} }} }}] }}] }} }}\n",
            free_address().port()
        );
        let page = page
            .replace(from, to)
            // The debug build may need longer than Envoy's 20 ms.
            .replace("timeout: 0.02s", "timeout: 10s")
            .replace("                      routes:\n", &ANSWERS_OF_ENVOY.replace("FAULT", FAULT))
            .replace(filters, &[filters, &filter("early")].concat())
            .replace(router, &[&filter("late"), router].concat())
            .replace("  clusters:\n", &cluster);
        let envoy = start(&folder, &page, &[proxy]);
        Self { server, proxy, _envoy: envoy, upstream, _folder: folder }
    }

    fn limits(rate_limit: &str) -> String {
        format!("{{ domain: llm, descriptors: [{{ key: user, rate_limit: {{ {rate_limit} }} }}] }}\n")
    }

    fn get(&self, path: &str, user: &str) -> u16 {
        Connection::open(self.proxy).ask(request(path, user).as_bytes()).status
    }

    /// Sends a request whose answer does not end.
    fn send(&self, path: &str, user: &str) -> TcpStream {
        let before = self.upstream.requests();
        let mut stream = TcpStream::connect(self.proxy).expect("Envoy listens");
        stream.write_all(request(path, user).as_bytes()).expect("Envoy reads");
        until("the model has the request", || self.upstream.requests() > before);
        stream
    }

    /// The remaining units of the user.
    fn left(&self, user: &str) -> u64 {
        let entries = json!([{ "key": "user", "value": user }]);
        let asked = json!({ "domain": "llm", "descriptors": [{ "entries": entries, "hitsAddend": "0" }] });
        let reply = self.server.post("/json", &asked.to_string()).json();
        reply["statuses"][0]["limitRemaining"].as_u64().unwrap_or(0)
    }

    /// Waits until Envoy has sent what it sends for all earlier streams. It sends in the order in which streams end, and
    /// this one ends last.
    fn settle(&self, witness: &str) {
        let before = self.left(witness);
        assert_eq!(self.get("/usage", witness), 200);
        until("the charge of the last stream", || self.left(witness) < before);
    }
}

fn request(path: &str, user: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nX-User: {user}\r\n\r\n")
}

/// Plays the streams that the manual lists. Returns the cost of each.
fn costs(stage: &Stage, whole: u64) -> [u64; 9] {
    let answered =
        ["/usage", "/events", "/hello", "/nobody", "/late", "/early", "/direct"].map(|path| (path, path));
    for (path, user) in answered {
        stage.get(path, user);
    }
    drop(stage.send("/stalls", "/stalls"));
    // The connection of the model ends, and Envoy answers with an error.
    let answer = stage.send("/breaks", "/breaks").read(&mut [0]);
    assert!(answer.is_ok_and(|length| length == 1));
    let cost = |user: &str| whole - stage.left(user);
    stage.settle("witness");
    let [usage, events, hello, nobody, late, early, direct] = answered.map(|(_, user)| cost(user));
    [usage, events, hello, nobody, late, early, direct, cost("/stalls"), cost("/breaks")]
}

const FROM_METADATA: &str = "{ format: \"%DYNAMIC_METADATA(llm:tokens)%\" }";

#[test]
#[ignore = "it needs Envoy, which `cargo xtask prove gateway` installs"]
fn prove_tokens_are_charged_when_a_stream_ends() {
    let any = free_address();
    let limits = file("envoy.md", "config/llm.yaml", Addresses { proxy: any, tollgate: any, upstream: any });
    let stage = Stage::new(&limits, ("", ""));
    let cost = u64::from(COST);
    assert_eq!(costs(&stage, 1000), [cost, cost, 0, 0, 0, 0, 0, 0, 0]);

    // With two answers, the budget is used up, and a denial costs nothing.
    let stage = Stage::new(&Stage::limits("unit: day, requests_per_unit: 10, overdraft: true"), ("", ""));
    for left in [3, 0] {
        assert_eq!(stage.get("/usage", "alice"), 200);
        until("the charge", || stage.left("alice") == left);
    }
    assert_eq!([stage.get("/usage", "alice"), stage.get("/usage", "alice")], [429; 2]);
    println!("RESULT prove/gateway/stream_end violations=0");
}

/// Denied clients pay for each try, which the manual warns of.
#[test]
#[ignore = "it needs Envoy, which `cargo xtask prove gateway` installs"]
fn prove_a_fixed_cost_is_charged_for_streams_that_were_denied() {
    let fixed = (FROM_METADATA, "{ number: 7 }");
    let stage = Stage::new(&Stage::limits("unit: day, requests_per_unit: 1000, overdraft: true"), fixed);
    let cost = u64::from(COST);
    let [usage, events, hello, nobody, late, early, direct, _, _] = costs(&stage, 1000);
    assert_eq!([usage, events, hello, nobody, late, early, direct], [cost, cost, cost, cost, cost, 0, 0]);
    until("the stream of the client that left", || stage.left("/stalls") == 1000 - cost);
    until("the stream of the model that broke off", || stage.left("/breaks") == 1000 - cost);

    // Without an overdraft, units can be given back to denied clients that never took them.
    let negative = (FROM_METADATA, "{ number: 7, is_negative_hits: true }");
    let stage = Stage::new(&Stage::limits("unit: day, requests_per_unit: 10"), negative);
    stage.server.post(
        "/json",
        &json!({ "domain": "llm", "descriptors": [
        { "entries": [{ "key": "user", "value": "alice" }], "hitsAddend": "10" },
    ] })
        .to_string(),
    );
    assert_eq!(stage.get("/usage", "alice"), 429);
    until("the units", || stage.left("alice") == 7);
    println!("RESULT prove/gateway/fixed_at_stream_end violations=0");
}
