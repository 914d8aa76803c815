//! Each kind of value at each door, under pairs of policies that share all requests between them.
//!
//! The middleware plays the same pairs in `crates/tollgate-tower/tests/middleware/pairs.rs`.

#![allow(clippy::expect_used, reason = "this is a test")]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use prost::Message;
use serde_json::Value;
use tollgate_testkit::pairs::ChargeFate::{self, Counted, Denied, Error};
use tollgate_testkit::pairs::{ATTRIBUTE, CELLS, PAIRS, STRICT, TELLING};

use crate::grpc_client::{OK, Wire, start};
use crate::support::folder::Folder;
use crate::support::{Server, tollgate};

/// Where a request with a value comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    Json,
    Query,
    ForwardAuth,
    Grpc,
    Explain,
    Simulate,
}

const DOORS: [Door; 6] =
    [Door::Json, Door::Query, Door::ForwardAuth, Door::Grpc, Door::Explain, Door::Simulate];

/// A policy file, and the service that it was started with.
struct House {
    folder: Folder,
    file: String,
    server: Server,
    wire: Wire,
}

/// A request, as it is before it comes to a door.
struct Asked {
    lines: Vec<Vec<u8>>,
    ip: String,
}

impl House {
    async fn open(policies: &str) -> Self {
        let folder = Folder::new();
        let file = folder.write("pair.yaml", policies);
        let server = start(&["--config", &file]);
        let wire = Wire::open(&server).await;
        Self { folder, file, server, wire }
    }

    /// Returns what becomes of this request if it is sent twice.
    async fn fate(&self, door: Door, asked: &Asked) -> ChargeFate {
        match door {
            Door::Json => ChargeFate::of([(); 2].map(|()| self.ask(&asked.json()))),
            Door::Query => ChargeFate::of([(); 2].map(|()| self.ask(&asked.query()))),
            Door::ForwardAuth => ChargeFate::of([(); 2].map(|()| self.ask(&asked.headers()))),
            Door::Grpc => ChargeFate::of([self.call(asked).await, self.call(asked).await]),
            Door::Explain => self.explained(asked),
            Door::Simulate => self.simulated(asked),
        }
    }

    fn ask(&self, request: &[u8]) -> u16 {
        self.server.connect().ask(request).status
    }

    async fn call(&self, asked: &Asked) -> u16 {
        let entry = |key: &str, value: &[u8]| AnyEntry { key: key.to_owned(), value: value.to_vec() };
        let mut entries = vec![entry("ip", asked.ip.as_bytes())];
        entries.extend(asked.lines.iter().map(|line| entry(ATTRIBUTE, line)));
        let request = AnyRequest { domain: "shop".to_owned(), descriptors: vec![AnyDescriptor { entries }] };
        match self.wire.call_any(request).await {
            Ok(response) if response.overall_code == OK => 200,
            Ok(_) => 429,
            Err(status) if status.code() == tonic::Code::InvalidArgument => 400,
            Err(status) => panic!("{status}"),
        }
    }

    fn explained(&self, asked: &Asked) -> ChargeFate {
        let pair = |(name, value): (&str, &[u8])| OsString::from_vec([name.as_bytes(), b"=", value].concat());
        let lines = asked.lines.iter().map(|line| (ATTRIBUTE, &line[..]));
        let pairs = [("ip", asked.ip.as_bytes())].into_iter().chain(lines).map(pair);
        let output =
            tollgate().args(["explain", "--json", &self.file]).args(pairs).output().expect("it runs");
        let Ok(explained) = serde_json::from_slice::<Value>(&output.stdout) else { return ChargeFate::Error };
        let policies = explained["policies"].as_array().expect("a list");
        let charges: Vec<&Value> =
            policies.iter().filter_map(|policy| policy["charges"].as_array()).flatten().collect();
        match explained["outcome"].as_str() {
            Some("refuse") => ChargeFate::Error,
            Some("deny") => ChargeFate::Denied,
            Some("charge") if charges.iter().any(|charge| charge["limit"] == 0) => ChargeFate::Denied,
            Some("charge") if !charges.is_empty() => ChargeFate::Counted,
            _ => ChargeFate::Uncounted,
        }
    }

    fn simulated(&self, asked: &Asked) -> ChargeFate {
        let value = match asked.lines.as_slice() {
            [] => Vec::new(),
            [line] => [b",\"key\":\"", &line[..], b"\""].concat(),
            lines => [b",\"key\":[\"", &lines.join(&b"\",\""[..])[..], b"\"]"].concat(),
        };
        let start =
            format!(r#"{{"time":"2026-11-23T16:00:10Z","ip":"{}","method":"GET","path":"/""#, asked.ip);
        let line = [start.as_bytes(), &value, b"}\n"].concat();
        let log = self.folder.path("requests.log");
        std::fs::write(&log, line.repeat(2)).expect("a file");
        let attribute = format!("{ATTRIBUTE}=json:/key");
        let output = tollgate()
            .args(["simulate", "--json", "--try-limits", "0", "--attr", &attribute, &self.file])
            .arg(&log)
            .output()
            .expect("it runs");
        let Ok(report) = serde_json::from_slice::<Value>(&output.stdout) else { return ChargeFate::Error };
        match ["requests", "denied", "undecided"].map(|name| report[name].as_u64()) {
            [Some(2), Some(1), Some(0)] => ChargeFate::Counted,
            [Some(2), Some(2), Some(0)] => ChargeFate::Denied,
            [Some(2), Some(0), Some(2)] => ChargeFate::Error,
            _ => ChargeFate::Uncounted,
        }
    }
}

impl Asked {
    fn json(&self) -> Vec<u8> {
        let value = match self.lines.as_slice() {
            [] => Vec::new(),
            [line] => [b",\"", ATTRIBUTE.as_bytes(), b"\":\"", line, b"\""].concat(),
            lines => {
                let texts = lines.join(&b"\",\""[..]);
                [b",\"", ATTRIBUTE.as_bytes(), b"\":[\"", &texts, b"\"]"].concat()
            }
        };
        let body = [format!(r#"{{"attributes":{{"ip":"{}""#, self.ip).as_bytes(), &value, b"}}"].concat();
        let head = format!(
            "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), &body].concat()
    }

    fn query(&self) -> Vec<u8> {
        let value = |line: &Vec<u8>| format!("&{ATTRIBUTE}={}", percent_encode(line, NON_ALPHANUMERIC));
        let values: String = self.lines.iter().map(value).collect();
        format!("GET /v1/check?ip={}{values} HTTP/1.1\r\nHost: localhost\r\n\r\n", self.ip).into_bytes()
    }

    fn headers(&self) -> Vec<u8> {
        let name = ATTRIBUTE.strip_prefix("header.").expect("a header");
        let head = format!(
            "GET /forward-auth HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: \
             /\r\nX-Forwarded-Host: a.example\r\nX-Forwarded-For: {}\r\n",
            self.ip
        );
        let line = |line: &Vec<u8>| [name.as_bytes(), b": ", line, b"\r\n"].concat();
        let lines: Vec<u8> = self.lines.iter().flat_map(line).collect();
        [head.as_bytes(), &lines, b"\r\n"].concat()
    }
}

/// A call whose values may have any bytes.
#[derive(Clone, PartialEq, Message)]
struct AnyRequest {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<AnyDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyDescriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<AnyEntry>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyEntry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// Returns the fate of each kind of value at each door.
async fn fates(policies: &str) -> Vec<(&'static str, [ChargeFate; 6])> {
    let house = House::open(policies).await;
    let mut fates = Vec::new();
    for (number, cell) in CELLS.iter().enumerate() {
        let mut door_fates = [ChargeFate::Uncounted; 6];
        for (door, fate) in DOORS.into_iter().zip(&mut door_fates) {
            let place = door as u8;
            let asked = Asked { lines: cell.lines(place), ip: format!("10.0.{place}.{number}") };
            *fate = house.fate(door, &asked).await;
        }
        fates.push((cell.name, door_fates));
    }
    fates
}

/// The table of the manual: a value is counted, or counts as missing and is denied, or is an error.
#[tokio::test]
async fn each_door_reads_each_kind_of_value_as_the_manual_says() {
    let expected = [
        ("none", [Denied; 6]),
        ("empty", [Denied, Denied, Denied, Counted, Denied, Denied]),
        ("one string", [Counted; 6]),
        ("an address", [Counted; 6]),
        ("two lines", [Denied, Error, Denied, Denied, Denied, Denied]),
        ("two equal lines", [Denied, Error, Denied, Denied, Denied, Denied]),
        ("an empty line and another", [Denied, Error, Denied, Denied, Denied, Denied]),
        ("not UTF-8", [Error, Error, Error, Counted, Error, Error]),
        ("two lines, one of them not UTF-8", [Error, Error, Error, Denied, Error, Denied]),
        ("too long", [Error, Error, Counted, Counted, Error, Error]),
        ("two lines, one of them too long", [Error, Error, Denied, Denied, Error, Denied]),
    ];
    let found = fates(TELLING).await;
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected, "at {DOORS:?}");
    }
    assert_eq!(found.len(), expected.len());
}

/// A header sent twice was skipped by the policy whose key it is, and by the policy for requests without it.
#[tokio::test]
async fn no_kind_of_value_is_a_way_past_both_policies_of_a_pair() {
    for policies in PAIRS.iter().chain(STRICT) {
        for (cell, fates) in fates(policies).await {
            for (door, fate) in DOORS.into_iter().zip(fates) {
                assert_ne!(fate, ChargeFate::Uncounted, "{cell} at {door:?} under {policies}");
                // Envoy admits what is an error.
                let is_admitted =
                    door == Door::Grpc && fate == ChargeFate::Error && !STRICT.contains(policies);
                assert!(!is_admitted, "{cell} at {door:?} under {policies}");
            }
        }
    }
}
