//! Answers at `/json` by random files, with counters in Redis, held against the naive reading of `tollgate-envoy`.
//!
//! A redis server's clock stands still where windows of several lengths begin at one instant, so that names of counters
//! which are joined meet.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use serde_json::Value;
use tollgate_testkit::servers::Software;

use self::draw::{File, Modes, Words};
use self::model::{Model, Reader};
use super::{serve, still, text};
use crate::support::folder::Folder;
use crate::support::{Connection, Server, get, post, until};

#[path = "../../../../tollgate-envoy/tests/reading/draw.rs"]
mod draw;
#[path = "../../../../tollgate-envoy/tests/reading/labels.rs"]
mod labels;
#[path = "../../../../tollgate-envoy/tests/reading/model.rs"]
mod model;

/// Services, each with its own modes.
const SERVICES: u64 = 8;

/// Files for each of them.
const FILES: usize = 10;

/// Requests for each file.
const REQUESTS: usize = 12;

/// 20 seconds into a day.
const SECOND: i64 = 19_700 * 86_400 + 20;

#[test]
fn answers_and_metrics_of_the_service_are_those_of_a_naive_reading() {
    for seed in 0..SERVICES {
        play(seed);
    }
}

fn play(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let modes = draw::modes(&mut rng);
    // Joined texts that are ambiguous are counted in any order.
    let (reader, words) = match rng.bool() {
        true => (Reader::WithLayout, &Words::CLEAR),
        false => (Reader::Tollgate, &Words::ALL),
    };
    let folder = Folder::new();
    let files: Vec<File> = (0..FILES)
        .map(|number| {
            let mut file = draw::file(&mut rng, words);
            file.domain += &format!("-{number}");
            folder.write(&format!("{number}.yaml"), &file.written());
            file
        })
        .collect();
    let store = still(Software::Redis, SECOND);
    let server = start(&folder, &store.address().to_string(), modes, reader);
    let mut models: Vec<Model<'_>> = files.iter().map(|file| Model::new(file, modes, reader)).collect();
    for _ in 0..REQUESTS {
        for (file, model) in files.iter().zip(&mut models) {
            let asked = draw::request(&mut rng, file);
            let reply = server.post("/json", &asked.json().to_string());
            let expected = model.decide(&asked, SECOND as u64);
            let (answer, asked) = (reply.json(), asked.json());
            assert_eq!(answer, expected, "seed {seed} {modes:?} {reader:?}\n{}\n{asked}", file.written());
            assert_eq!(reply.status, if expected["overallCode"] == "OK" { 200 } else { 429 });
        }
    }
    let mut expected = BTreeMap::new();
    for (series, count) in models.iter().flat_map(|model| &model.metrics) {
        *expected.entry(series.clone()).or_default() += count;
    }
    assert_eq!(
        known_metrics(text(&server.admin_get("/metrics"))),
        expected,
        "seed {seed} {modes:?} {reader:?}"
    );
}

fn start(folder: &Folder, store: &str, modes: Modes, reader: Reader) -> Server {
    let variables = [&variables(modes)[..], &[("REDIS_URL", store), ("REDIS_SOCKET_TYPE", "tcp")]].concat();
    let root = folder.root().to_str().expect("a path in UTF-8");
    let mut arguments = vec!["--import", "envoy-ratelimit", root, "--caller-quotas"];
    arguments.extend(["--metric-aliases", "envoy-ratelimit"]);
    if modes.each {
        arguments.push("--count-denied");
    }
    if reader == Reader::WithLayout {
        arguments.extend(["--store-layout", "envoy-ratelimit"]);
    }
    serve(&variables, &arguments)
}

/// Its variables, for both programs.
fn variables(modes: Modes) -> [(&'static str, &'static str); 4] {
    [
        ("SHADOW_MODE", modes.shadow),
        ("QUOTA_MODE", modes.quota),
        ("LIMIT_RESPONSE_HEADERS_ENABLED", modes.headers),
        ("RESPONSE_DYNAMIC_METADATA", modes.metadata),
    ]
    .map(|(name, is_on)| (name, if is_on { "true" } else { "false" }))
}

/// The metrics that a model knows, without zeros.
fn known_metrics(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("ratelimit_service_"));
    let series = lines.filter_map(|line| {
        let (series, count) = line.rsplit_once(' ')?;
        Some((series.to_owned(), count.parse().ok()?))
    });
    // How many denials need no call depends on time.
    let is_known = |series: &str| {
        (series.starts_with("rate_limit_") || series.starts_with("global_shadow_mode"))
            && !series.ends_with("_with_local_cache")
    };
    series.filter(|(series, count)| is_known(series) && *count > 0).collect()
}

/// Needs the binary of envoyproxy/ratelimit.
#[test]
#[ignore = "needs another program: TOLLGATE_ORIGINAL=PATH"]
fn answers_and_metrics_of_the_original_are_those_of_a_naive_reading() {
    let program = std::env::var("TOLLGATE_ORIGINAL").expect("the path of envoyproxy/ratelimit");
    let (mut requests, mut denied) = (0, 0);
    for seed in 0..16 {
        let mut rng = Rng::with_seed(seed);
        let modes = Modes {
            each: true,
            shadow: seed & 1 > 0,
            quota: seed & 2 > 0,
            headers: seed & 4 > 0,
            metadata: seed & 8 > 0,
        };
        let folder = Folder::new();
        std::fs::create_dir_all(folder.root().join("limits/config")).expect("a folder can be made");
        let files: Vec<File> = (0..4 * FILES)
            .map(|number| {
                let mut file = draw::file(&mut rng, &Words::CLEAR);
                file.domain += &format!("-{number}");
                folder.write(&format!("limits/config/{number}.yaml"), &file.written());
                file
            })
            .collect();
        let store = tollgate_testkit::servers::Server::start(Software::Redis);
        let original = Original::start(&program, &folder, &store.address().to_string(), modes);
        let mut models: Vec<Model<'_>> =
            files.iter().map(|file| Model::new(file, modes, Reader::Original)).collect();
        for _ in 0..REQUESTS {
            for (file, model) in files.iter().zip(&mut models) {
                let mut asked = draw::request(&mut rng, file);
                for asked in &mut asked.descriptors {
                    // It knows neither refunds nor limits by the week.
                    asked.negative = false;
                    asked.limit = asked.limit.filter(|(_, (unit, _))| *unit != "WEEK");
                }
                let second = early_second();
                let reply = Connection::open(original.http).ask(&post("/json", &asked.json().to_string()));
                let expected = model.decide(&asked, second);
                let shown = || format!("seed {seed} {modes:?}\n{}\n{}", file.written(), asked.json());
                let answer = text(&reply).replace("  unit:", " unit:");
                let answer: Value = serde_json::from_str(&answer)
                    .unwrap_or_else(|error| panic!("{error}: {answer}\n{}", shown()));
                assert_eq!(answer, expected, "{}", shown());
                assert_eq!(reply.status, if expected["overallCode"] == "OK" { 200 } else { 429 });
                requests += 1;
                denied += u64::from(reply.status == 429);
            }
        }
        let mut expected = BTreeMap::new();
        for (series, count) in models.iter().flat_map(|model| &model.metrics) {
            *expected.entry(series.clone()).or_default() += count;
        }
        let metrics = || known_metrics(&original.scrape());
        let patience = Instant::now();
        while metrics() != expected && patience.elapsed() < Duration::from_secs(5) {
            thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(metrics(), expected, "seed {seed} {modes:?}");
        println!("seed {seed} {modes:?}: {} series", expected.len());
    }
    println!("RESULT original requests={requests} denied={denied} violations=0");
}

/// A running envoyproxy/ratelimit, which is killed when it is dropped.
struct Original {
    process: Child,
    http: SocketAddr,
    metrics: SocketAddr,
}

impl Original {
    fn start(program: &str, folder: &Folder, store: &str, modes: Modes) -> Self {
        let free = || TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("an address");
        let [http, grpc, debug, metrics] = [(); 4].map(|()| free());
        let process = Command::new(program)
            .envs(variables(modes))
            .envs([("REDIS_URL", store), ("REDIS_SOCKET_TYPE", "tcp"), ("RUNTIME_SUBDIRECTORY", "limits")])
            .envs([("RUNTIME_WATCH_ROOT", "false"), ("USE_STATSD", "false"), ("USE_PROMETHEUS", "true")])
            .envs([("HOST", "127.0.0.1"), ("GRPC_HOST", "127.0.0.1"), ("DEBUG_HOST", "127.0.0.1")])
            .envs([("STATS_FLUSH_INTERVAL", "1s"), ("LOG_LEVEL", "ERROR")])
            .env("RUNTIME_ROOT", folder.root())
            .env("PORT", http.port().to_string())
            .env("GRPC_PORT", grpc.port().to_string())
            .env("DEBUG_PORT", debug.port().to_string())
            .env("PROMETHEUS_ADDR", metrics.to_string())
            .spawn()
            .expect("it starts");
        let original = Self { process, http, metrics };
        until("it answers", || TcpStream::connect(http).is_ok() && TcpStream::connect(metrics).is_ok());
        until("it is ready", || Connection::open(http).ask(&get("/healthcheck")).status == 200);
        original
    }

    /// It sends long answers in chunks, but not to such an old client.
    fn scrape(&self) -> String {
        let mut stream = TcpStream::connect(self.metrics).expect("it listens");
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        answer
    }
}

impl Drop for Original {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until a second has begun and has most of its time left.
fn early_second() -> u64 {
    loop {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        if (10..700).contains(&now.subsec_millis()) {
            return now.as_secs();
        }
        thread::sleep(Duration::from_millis(20));
    }
}
