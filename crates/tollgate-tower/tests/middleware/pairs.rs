//! Each kind of value of a header, under pairs of policies that share all requests between them.
//!
//! The service plays the same pairs in `crates/tollgate-server/tests/service/values.rs`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body_util::Full;
use tollgate::MemoryStore;
use tollgate_policy::{Config, PolicyLimiter};
use tollgate_testkit::block_on;
use tollgate_testkit::pairs::ChargeFate::{self, Counted, Denied, Error};
use tollgate_testkit::pairs::{ATTRIBUTE, CELLS, PAIRS, STRICT, TELLING};
use tollgate_tower::key::{Header, Peer};
use tollgate_tower::{AttributeSources, RateLimitLayer, Rule};
use tower::ServiceExt;
use tower_layer::Layer;

use crate::support::clock;

const NAME: HeaderName = HeaderName::from_static("x-key");

/// Returns the fate of each kind of value.
fn fates(policies: &str, header: &Header) -> Vec<(&'static str, ChargeFate)> {
    let policies = Config::parse("pair.yaml", policies).unwrap().into_policies();
    let store = MemoryStore::builder().clock(clock()).build();
    let limiter = Arc::new(PolicyLimiter::new(store, policies, "pair.yaml"));
    let sources = AttributeSources::new().with(ATTRIBUTE, header.clone());
    let layer = RateLimitLayer::builder(Rule::policies(&limiter, sources)).build().unwrap();
    let inner = |_: Request<()>| async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())) };
    let limited = layer.layer(tower::service_fn(inner));
    let cells = (0..).zip(CELLS).map(|(number, cell)| {
        let ask = || {
            let mut request = Request::new(());
            request.extensions_mut().insert(Peer(SocketAddr::from(([192, 0, 2, number], 1))));
            for line in cell.lines(0) {
                request.headers_mut().append(NAME, HeaderValue::from_bytes(&line).unwrap());
            }
            block_on(limited.clone().oneshot(request)).unwrap().status().as_u16()
        };
        (cell.name, ChargeFate::of([ask(), ask()]))
    });
    cells.collect()
}

/// The table of the manual: a value is counted, or counts as missing and is denied, or is an error.
#[test]
fn the_middleware_reads_each_kind_of_value_as_the_manual_says() {
    let plain = [
        ("none", Denied),
        ("empty", Denied),
        ("one string", Counted),
        ("an address", Counted),
        ("two lines", Error),
        ("two equal lines", Error),
        ("an empty line and another", Error),
        ("not UTF-8", Error),
        ("two lines, one of them not UTF-8", Error),
        ("too long", Counted),
        ("two lines, one of them too long", Error),
    ];
    assert_eq!(fates(TELLING, &Header::new(NAME).plain()), plain);
    // A hash is text, whatever it is made of.
    let hashed = plain.map(|(cell, fate)| (cell, if cell == "not UTF-8" { Counted } else { fate }));
    assert_eq!(fates(TELLING, &Header::new(NAME)), hashed);
}

#[test]
fn no_kind_of_value_is_a_way_past_both_policies_of_a_pair() {
    for header in [Header::new(NAME), Header::new(NAME).plain()] {
        for policies in PAIRS.iter().chain(STRICT) {
            for (cell, fate) in fates(policies, &header) {
                assert_ne!(fate, ChargeFate::Uncounted, "{cell} under {policies}");
            }
        }
    }
}
