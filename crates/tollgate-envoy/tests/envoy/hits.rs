//! What is counted for metrics.

use tollgate::{ManualClock, MemoryStore, Timestamp};
use tollgate_envoy::{
    ChargingMode, Descriptor, DomainVerdicts, Domains, EnvoyLimiter, HitCounts, NearLimit, Override, Request,
    SameDomain, Settings, Unit,
};
use tollgate_policy::Sources;
use tollgate_testkit::block_on;

const CONFIG: &str = "
domain: d
descriptors:
- key: ten
  rate_limit: { unit: day, requests_per_unit: 10 }
- key: trial
  shadow_mode: true
  rate_limit: { unit: day, requests_per_unit: 2 }
- key: free
  rate_limit: { unlimited: true }
- { key: path, value: '/a*', rate_limit: { unit: day, requests_per_unit: 9 } }
- { key: shared, value: '/b*', share_threshold: true, detailed_metric: true,
    rate_limit: { unit: day, requests_per_unit: 9 } }
- { key: told, value_to_metric: true, descriptors: [
      { key: below, rate_limit: { unit: day, requests_per_unit: 9 }, descriptors: [
          { key: third, rate_limit: { unit: day, requests_per_unit: 9 } } ] } ] }
- { key: plain, descriptors: [ { key: all, detailed_metric: true, rate_limit: { unit: day, requests_per_unit: 9 } } ] }
";

type Limiter = EnvoyLimiter<MemoryStore<ManualClock>>;

fn domains(text: &str) -> Domains {
    Domains::parse(&Sources::of("d.yaml", text), SameDomain::Refuse).unwrap()
}

fn limiter(charging: ChargingMode) -> Limiter {
    let clock = ManualClock::at(Timestamp::from_unix_millis(1_700_000_000_000));
    let store = MemoryStore::builder().clock(clock).build();
    let settings = Settings { charging, hits: Some(NearLimit(0.8)), ..Settings::default() };
    EnvoyLimiter::new(store, domains(CONFIG), settings)
}

fn ask(limiter: &Limiter, hits: u64, entries: &[&[(&str, &str)]]) {
    let descriptors = entries
        .iter()
        .map(|entries| Descriptor { hits_addend: Some(hits), ..Descriptor::new(entries.iter().copied()) });
    let request = Request { domain: "d", descriptors: descriptors.collect(), hits_addend: 0 };
    let _ = block_on(limiter.decide(&request)).unwrap();
}

/// The names of the series that have hits, and how many.
fn named(limiter: &Limiter) -> Vec<(String, u64)> {
    let counts = limiter.hits().into_iter().filter(|(_, counts)| counts.total_hits > 0);
    let name = |series: tollgate_envoy::Series| match series.key2 {
        Some(second) => format!("{} {} {second}", series.domain, series.key1),
        None => format!("{} {}", series.domain, series.key1),
    };
    counts.map(|(series, counts)| (name(series), counts.total_hits)).collect()
}

fn of(limiter: &Limiter, key: &str) -> HitCounts {
    limiter.hits().into_iter().find(|(series, _)| &*series.key1 == key).unwrap().1
}

#[test]
fn hits_that_straddle_a_limit_are_divided_where_each_is_charged() {
    let limiter = limiter(ChargingMode::Each);
    ask(&limiter, 7, &[&[("ten", "x")]]);
    let within = HitCounts { total_hits: 7, within_limit: 7, ..HitCounts::default() };
    assert_eq!(of(&limiter, "ten"), within);
    // The ninth and tenth are near the limit, and three are over it.
    ask(&limiter, 6, &[&[("ten", "x")]]);
    let straddled = HitCounts { total_hits: 13, over_limit: 3, near_limit: 2, ..within };
    assert_eq!(of(&limiter, "ten"), straddled);
    ask(&limiter, 2, &[&[("ten", "x")]]);
    assert_eq!(of(&limiter, "ten"), HitCounts { total_hits: 15, over_limit: 5, ..straddled });
    ask(&limiter, 9, &[&[("ten", "y")]]);
    let more = HitCounts { total_hits: 24, within_limit: 16, over_limit: 5, near_limit: 3, ..within };
    assert_eq!(of(&limiter, "ten"), more);
    ask(&limiter, 1, &[&[("ten", "y")]]);
    let near = HitCounts { total_hits: 25, within_limit: 17, near_limit: 4, ..more };
    assert_eq!(of(&limiter, "ten"), near);
}

#[test]
fn all_or_nothing_every_hit_of_a_denial_is_over_the_limit() {
    let limiter = limiter(ChargingMode::AllOrNothing);
    ask(&limiter, 7, &[&[("ten", "x")]]);
    ask(&limiter, 6, &[&[("ten", "x")]]);
    let counts = HitCounts { total_hits: 13, within_limit: 7, over_limit: 6, ..HitCounts::default() };
    assert_eq!(of(&limiter, "ten"), counts);
    ask(&limiter, 3, &[&[("trial", "x")]]);
    let over = HitCounts { total_hits: 3, over_limit: 3, shadow_mode: 3, ..HitCounts::default() };
    assert_eq!(of(&limiter, "trial"), over);
}

#[test]
fn series_have_the_names_of_the_file_or_values_where_it_asks_for_them() {
    let limiter = limiter(ChargingMode::AllOrNothing);
    let entries: [&[(&str, &str)]; 7] = [
        &[("ten", "secret")],
        &[("path", "/abc")],
        &[("shared", "/bcd")],
        &[("told", "x"), ("below", "y")],
        &[("told", "x"), ("below", "y"), ("third", "z")],
        &[("plain", "x"), ("all", "192.0.2.7")],
        &[("free", "x")],
    ];
    ask(&limiter, 1, &entries);
    let expected = [
        ("d path_/a*", 1),
        ("d plain_x all_192_0_2_7", 1),
        ("d shared_/b*", 1),
        ("d ten", 1),
        ("d told_x below", 2),
    ];
    assert_eq!(named(&limiter), expected.map(|(name, hits)| (name.to_owned(), hits)));
    let names: Vec<_> = limiter.hits().into_iter().map(|(series, _)| series.key1).collect();
    assert!(names.contains(&"trial".into()), "limits of the file are there from the start: {names:?}");
}

/// No file asks for the values of such descriptors, and they may be keys of clients.
#[test]
fn limits_of_descriptors_have_the_keys_of_their_entries() {
    let limiter = limiter(ChargingMode::AllOrNothing);
    let descriptor = Descriptor {
        limit: Some(Override::new(5, Unit::Hour)),
        ..Descriptor::new([("a", "b:c"), ("d", "")])
    };
    let request = Request { domain: "d", descriptors: [descriptor].into_iter().collect(), hits_addend: 2 };
    let _ = block_on(limiter.decide(&request)).unwrap();
    assert_eq!(named(&limiter), [("d a d".to_owned(), 2)]);
}

#[test]
fn figures_stay_when_limits_are_replaced() {
    let limiter = limiter(ChargingMode::AllOrNothing);
    ask(&limiter, 7, &[&[("ten", "x")]]);
    ask(&limiter, 7, &[&[("ten", "x")]]);
    let descriptors = [Descriptor::new([("ten", "x")])].into_iter().collect();
    let unknown = Request { domain: "e", descriptors, hits_addend: 0 };
    let _ = block_on(limiter.decide(&unknown)).unwrap();
    limiter.replace(domains(&CONFIG.replace("requests_per_unit: 10", "requests_per_unit: 20")));
    ask(&limiter, 7, &[&[("ten", "x")]]);
    let counts = HitCounts { total_hits: 21, within_limit: 14, over_limit: 7, ..HitCounts::default() };
    assert_eq!(of(&limiter, "ten"), counts);
    let live = limiter.live();
    let verdicts: Vec<_> = live.verdicts().collect();
    assert_eq!(verdicts, [("d", DomainVerdicts { allowed: 2, denied: 1 })]);
    assert_eq!(limiter.unknown_domains(), 1);
}

/// Every limit that a file ever had kept its series, and values of clients kept theirs.
#[test]
fn series_of_limits_that_are_gone_are_dropped() {
    let limiter = limiter(ChargingMode::AllOrNothing);
    let hits = || {
        let told: [&[(&str, &str)]; 2] = [&[("told", "x"), ("below", "y")], &[("plain", "x"), ("all", "z")]];
        ask(&limiter, 1, &[&[("ten", "x")], told[0], told[1]]);
    };
    hits();
    let expected = [("d plain_x all_z", 1), ("d ten", 1), ("d told_x below", 1)];
    assert_eq!(named(&limiter), expected.map(|(name, hits)| (name.to_owned(), hits)));
    limiter.replace(domains(&CONFIG.replace("key: ten", "key: eleven").replace("key: plain", "key: plane")));
    hits();
    assert_eq!(named(&limiter), [("d told_x below".to_owned(), 2)]);
    assert!(limiter.hits().iter().all(|(series, _)| &*series.key1 != "ten"));
    limiter.replace(domains(&CONFIG.replace("domain: d", "domain: e")));
    assert!(limiter.hits().iter().all(|(series, _)| &*series.domain == "e"));
}
