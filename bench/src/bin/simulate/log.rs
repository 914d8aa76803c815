//! Logs as a busy shop has them, the same in every run.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use tollgate_bench_harness::keys::Random;

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The format `combined` of nginx.
    Combined,
    /// JSON with the names of nginx's variables.
    Json,
}

/// Who makes the requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traffic {
    clients: u32,
    /// Whether every other request is a client's first.
    is_growing: bool,
}

/// Lines of one second.
const RATE: u64 = 2_000;

/// 2026-11-23 00:00 UTC, a Monday.
const DAY: u64 = 23;

const PATHS: [&str; 16] = [
    "/",
    "/login",
    "/search?q=shoes&page=2",
    "/products/4711",
    "/products/4711/images/1.jpg",
    "/static/app.4f2a.js",
    "/static/app.4f2a.css",
    "/api/v1/items?limit=50",
    "/cart",
    "/login",
    "/products/815/reviews",
    "/favicon.ico",
    "/categories/garden/tools",
    "/api/v1/session",
    "/static/logo.svg",
    "/checkout/address",
];

const AGENTS: [&str; 4] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1",
    "curl/7.88.1",
];

impl Traffic {
    /// These clients, of whom few make most requests.
    pub(crate) const fn of(clients: u32) -> Self {
        Self { clients, is_growing: false }
    }

    /// Every other request is of a client that has made none before, until there are so many; the others are of clients
    /// that have.
    pub(crate) const fn growing_to(clients: u32) -> Self {
        Self { clients, is_growing: true }
    }
}

/// Makes lines, one after the other.
pub(crate) struct Lines {
    form: Form,
    traffic: Traffic,
    random: Random,
    number: u64,
    /// From 0 to 255, as addresses have them.
    octets: Vec<String>,
    /// What follows the time, for each path and program.
    tails: Vec<String>,
    /// What stands between the address and the tail, in this second.
    middle: String,
}

impl Lines {
    pub(crate) fn new(form: Form, traffic: Traffic) -> Self {
        let tails = PATHS.iter().enumerate().flat_map(|(place, path)| {
            AGENTS.iter().map(move |agent| {
                let sent = 615 + 997 * place;
                match form {
                    Form::Combined => format!(
                        "\"GET {path} HTTP/1.1\" 200 {sent} \"https://shop.example/\" \"{agent}\"\n"
                    ),
                    Form::Json => format!(
                        "\"request_method\":\"GET\",\"request_uri\":\"{path}\",\"status\":200,\"body_bytes_sent\":{sent},\
                         \"http_referer\":\"https://shop.example/\",\"http_user_agent\":\"{agent}\"}}\n"
                    ),
                }
            })
        });
        Self {
            form,
            traffic,
            random: Random::new(1),
            number: 0,
            octets: (0..256).map(|octet| octet.to_string()).collect(),
            tails: tails.collect(),
            middle: String::new(),
        }
    }

    /// Appends the next line.
    pub(crate) fn push(&mut self, text: &mut Vec<u8>) {
        if self.number.is_multiple_of(RATE) {
            self.middle = middle(self.form, self.number / RATE);
        }
        let client = self.client();
        let tail = self.random.below(self.tails.len() as u32) as usize;
        self.number += 1;
        if self.form == Form::Json {
            text.extend_from_slice(b"{\"remote_addr\":\"");
        }
        // From 16.0.0.0 on.
        for (place, octet) in (client + (16 << 24)).to_be_bytes().into_iter().enumerate() {
            if place > 0 {
                text.push(b'.');
            }
            text.extend_from_slice(self.octets[usize::from(octet)].as_bytes());
        }
        text.extend_from_slice(self.middle.as_bytes());
        text.extend_from_slice(self.tails[tail].as_bytes());
    }

    fn client(&mut self) -> u32 {
        let Traffic { clients, is_growing } = self.traffic;
        if !is_growing {
            // The product of three is skewed as the third power of one is.
            let share = [(); 3].map(|()| f64::from(self.random.below(1 << 24)) / f64::from(1 << 24));
            return (f64::from(clients) * share.iter().product::<f64>()) as u32;
        }
        let met = (self.number / 2) as u32;
        let new = if self.number.is_multiple_of(2) { met } else { self.random.below(met + 1) };
        // Scattered by a prime, so that addresses do not come in order.
        (u64::from(new.min(clients - 1)) * 7_368_787 % u64::from(clients)) as u32
    }
}

/// The time of a second, and what stands around it.
fn middle(form: Form, second: u64) -> String {
    let (day, hour, minute, second) =
        (DAY + second / 86_400, second / 3_600 % 24, second / 60 % 60, second % 60);
    match form {
        Form::Combined => format!(" - - [{day:02}/Nov/2026:{hour:02}:{minute:02}:{second:02} +0000] "),
        Form::Json => {
            format!("\",\"time_iso8601\":\"2026-11-{day:02}T{hour:02}:{minute:02}:{second:02}+00:00\",")
        }
    }
}

/// Writes a file with so many lines.
pub(crate) fn write(path: &Path, form: Form, count: u64, traffic: Traffic) -> Result<()> {
    let wrong = || format!("cannot write {}", path.display());
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).with_context(wrong)?);
    let (mut lines, mut text) = (Lines::new(form, traffic), Vec::new());
    for _ in 0..count {
        text.clear();
        lines.push(&mut text);
        file.write_all(&text).with_context(wrong)?;
    }
    file.flush().with_context(wrong)
}
