//! How many lines a second are read: `cargo bench -p tollgate-logs [-- combined]`.
//!
//! One thread does all: it reads, parses, puts in order, and looks at the paths of the requests.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a bench measures real time")]

use std::fmt::Write;
use std::io::Cursor;
use std::sync::Arc;
use std::time::Instant;

use tollgate_logs::{Batch, Input, Options, Order, Reader};

const LINES: u64 = 2_000_000;
const ROUNDS: usize = 5;

fn main() {
    // `cargo test --benches` only has to see that it runs.
    let lines = if std::env::args().any(|word| word == "--bench") { LINES } else { 1_000 };
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for (name, line) in [("combined", combined as Line), ("caddy", caddy), ("json", json)] {
        if !wanted.is_empty() && !wanted.iter().any(|word| word == name) {
            continue;
        }
        let mut text = String::new();
        (0..lines).for_each(|number| line(&mut text, number));
        let text = Arc::from(text.into_bytes());
        measure(name, lines, &text, Order::default());
        if name == "combined" {
            measure("combined-sorted", lines, &text, Order::SORT);
        }
    }
}

type Line = fn(&mut String, u64);

fn measure(name: &str, lines: u64, text: &Arc<[u8]>, order: Order) {
    let best = (0..ROUNDS).map(|_| {
        let input = Input::Read(name.to_owned(), Box::new(Cursor::new(Arc::clone(text))));
        let start = Instant::now();
        let mut reader = Reader::open([input], Options { order, ..Options::default() }).unwrap();
        let (mut requests, mut bytes) = (0, 0);
        let mut batch = Batch::default();
        while reader.read(&mut batch).unwrap() {
            requests += batch.len() as u64;
            bytes += batch.requests().filter_map(|request| request.path()).map(<[u8]>::len).sum::<usize>();
        }
        assert!(requests == lines && bytes > 0);
        start.elapsed()
    });
    let best = best.min().unwrap();
    let nanos = best.as_nanos() as f64 / lines as f64;
    println!("RESULT logs/{name} ns_per_line={nanos:.0} lines_per_second={:.0}", 1e9 / nanos);
}

/// 4,000 requests a second.
fn second(number: u64) -> u64 {
    number / 4_000
}

fn combined(text: &mut String, number: u64) {
    let second = second(number);
    writeln!(
        text,
        "192.0.{}.{} - - [23/Nov/2026:16:{:02}:{:02} +0000] \"GET /products/{number}/image?size={} HTTP/1.1\" 200 {} \
         \"https://shop.example/products/{}\" \"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\"",
        number % 251,
        number % 241,
        second / 60,
        second % 60,
        number % 7,
        number % 99_991,
        number % 997,
    )
    .unwrap();
}

fn caddy(text: &mut String, number: u64) {
    writeln!(
        text,
        "{{\"level\":\"info\",\"ts\":{}.{:06},\"logger\":\"http.log.access\",\"msg\":\"handled request\",\"request\":{{\
         \"remote_ip\":\"192.0.{}.{}\",\"remote_port\":\"41342\",\"proto\":\"HTTP/2.0\",\"method\":\"GET\",\"host\":\
         \"shop.example\",\"uri\":\"/products/{number}/image\",\"headers\":{{\"User-Agent\":[\"curl/7.82.0\"],\
         \"Accept\":[\"*/*\"]}},\"tls\":{{\"resumed\":false,\"version\":772}}}},\"user_id\":\"\",\
         \"duration\":0.000929675,\"size\":10900,\"status\":200,\"resp_headers\":{{\"Server\":[\"Caddy\"]}}}}",
        1_795_449_600 + second(number),
        number % 4_000 * 250,
        number % 251,
        number % 241,
    )
    .unwrap();
}

fn json(text: &mut String, number: u64) {
    writeln!(
        text,
        "{{\"time_iso8601\":\"2026-11-23T16:{:02}:{:02}+00:00\",\"remote_addr\":\"192.0.{}.{}\",\"request_method\":\"GET\",\
         \"request_uri\":\"/products/{number}/image?size=1\",\"status\":200,\"body_bytes_sent\":615,\
         \"http_user_agent\":\"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\"}}",
        second(number) / 60,
        second(number) % 60,
        number % 251,
        number % 241,
    )
    .unwrap();
}
