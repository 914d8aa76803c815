//! Bounds of a replay that take gigabytes to reach, tried with small ones.

use std::net::Ipv4Addr;

use tollgate::Timestamp;
use tollgate_policy::Config;

use super::*;
use crate::class::Classes;
use crate::output::CheckedReport;

const POLICIES: &str = "policies:
  - { name: a, key: [ip], quotas: [1/1h] }
  - { name: b, key: [ip], quotas: [2/1h] }
  - { name: c, key: [user], quotas: [2/1h] }
";

/// A replay of requests of these clients, each of which is in all classes one after another. An attribute of theirs
/// may be damaged.
fn fill(clients: u32, classes: u32, max_class_bytes: usize, damaged: Option<&str>) -> Replay {
    let policies = Config::parse("test.yaml", POLICIES).unwrap().into_policies();
    let classes: Vec<String> = (0..classes).map(|class| format!("c{class}=path: /{class}")).collect();
    let options =
        Options { classes: Classes::parse(&classes, None).unwrap(), rungs: 0, ..Options::default() };
    let mut replay = Replay::new(policies, None, options).unwrap();
    replay.noter.max_class_bytes = max_class_bytes;
    for class in 0..classes.len() {
        for client in 0..clients {
            let (ip, path) = (Ipv4Addr::from_bits(client).to_string(), format!("/{class}"));
            let attributes = [("ip", &ip), ("user", &ip), ("path", &path)];
            let attributes = attributes.into_iter().map(|(name, value)| (name, value.as_str())).collect();
            replay.request(Hit { damaged, ..Hit::new(Timestamp::EPOCH, attributes) }).unwrap();
            let taken = replay.noter.all.classes.bytes() + replay.noter.tracks.class_bytes();
            assert!(taken <= max_class_bytes, "{taken}");
        }
    }
    replay
}

/// With a gate for each policy and class, memory grew with the product of policies, classes and clients.
#[test]
fn the_clients_of_classes_take_bounded_memory() {
    let whole = fill(20_000, 3, usize::MAX, None);
    let taken = whole.noter.all.classes.bytes() + whole.noter.tracks.class_bytes();
    // 4 tables of 3 classes, each with a set of all clients and, except for the first class, of the denied ones.
    assert!(taken > 4 * 3 * 20_000 / 8, "{taken}");
    let bounded = fill(20_000, 3, taken / 2, None);
    let (whole, bounded) = (whole.report(), bounded.report());
    let note = "Fewer clients are followed than --max-clients allows";
    assert!(!said(&whole).contains(note));
    assert!(said(&bounded).contains(note), "{:?}", bounded.notes);
    // Requests stay exact, and clients are estimates.
    assert_eq!((whole.requests, whole.denied), (bounded.requests, bounded.denied));
    // Addresses take most, so fewer of them are followed.
    let one_in: Vec<u64> = bounded.policies.iter().map(|policy| policy.one_client_in).collect();
    assert!(one_in[0] > 1 && one_in[1] > 1, "{one_in:?}");
    for (whole, bounded) in whole.policies.iter().zip(&bounded.policies) {
        for (whole, bounded) in whole.classes.iter().zip(&bounded.classes) {
            assert_eq!((whole.requests, whole.denied), (bounded.requests, bounded.denied));
            for (whole, bounded) in
                [(whole.clients, bounded.clients), (whole.denied_clients, bounded.denied_clients)]
            {
                assert!(whole.abs_diff(bounded) * 10 <= whole, "{bounded} of {whole}");
            }
        }
    }
}

/// Examples of as many clients as are kept, and of one more.
#[test]
fn examples_that_had_no_room_are_said_to_be_missing() {
    let text = "policies: [{ name: none, key: [ip], quotas: [0/1m] }]";
    let report = |clients: u32| {
        let policies = Config::parse("test.yaml", text).unwrap().into_policies();
        let mut replay = Replay::new(policies, None, Options { rungs: 0, ..Options::default() }).unwrap();
        let attributes = || [("ip", "192.0.2.1")].into_iter().collect();
        let hit = || Hit { path: Some(b"/first"), ..Hit::new(Timestamp::EPOCH, attributes()) };
        replay.request(hit()).unwrap();
        (1..clients).for_each(|client| replay.noter.all.examples.note(client, &hit(), |_| 1));
        replay.report()
    };
    let note = "So many clients are denied that not every first path and program is kept: those in the lists may be \
                from a later request, or missing.";
    assert!(!said(&report(200_000)).contains(note));
    let report = report(200_001);
    assert!(said(&report).contains(note), "{:?}", report.notes);
    assert_eq!(report.most_denied[0].path.as_deref(), Some("/first"));
}

/// They are refused before any policy is asked, and passed the bound.
#[test]
fn the_clients_of_damaged_requests_take_bounded_memory() {
    let whole = fill(20_000, 6, usize::MAX, Some("path"));
    let bounded = fill(20_000, 6, whole.noter.all.classes.bytes() / 2, Some("path"));
    assert!(bounded.noter.is_short_of_class_bytes);
    assert_eq!(
        (bounded.noter.all.verdicts.requests, bounded.noter.all.verdicts.undecided),
        (120_000, 120_000)
    );
}

/// Each quota had 128 MiB for this, and those that needed more were not measured without a word.
#[test]
fn admissions_that_are_remembered_take_bounded_memory_in_all() {
    let text = "policies:
  - { name: a, key: [ip], quotas: [9/1m] }
  - { name: b, key: [ip], quotas: [9/1d] }
  - { name: c, key: [ip], quotas: [9/7d] }
";
    let policies = Config::parse("test.yaml", text).unwrap().into_policies();
    let mut replay = Replay::new(policies, None, Options { rungs: 0, ..Options::default() }).unwrap();
    replay.noter.tracks.max_admissions = 1_000;
    for client in 0..2_000 {
        let ip = Ipv4Addr::from_bits(client).to_string();
        let attributes = [("ip", ip.as_str())].into_iter().collect();
        let time = Timestamp::from_unix_millis(i64::from(client) * 1_000);
        replay.request(Hit::new(time, attributes)).unwrap();
        let remembered: usize =
            replay.noter.tracks.iter().flat_map(|track| &track.quotas).map(|quota| quota.burst.len()).sum();
        assert!(remembered <= 1_000, "{remembered}");
    }
    let report = replay.report();
    let measured: Vec<bool> = report.policies.iter().map(|policy| policy.quotas[0].burst.is_some()).collect();
    assert_eq!(measured, [true, false, false]);
    let note = "The most admitted in any interval was not measured for 2 quotas: there were more admissions in a window's \
                length than are remembered.";
    assert!(report.notes.iter().any(|said| said.to_string() == note), "{:?}", report.notes);
}

/// All sets of so many pairs fit, so following fewer clients always helps.
#[test]
fn more_policies_and_classes_than_memory_bears_are_refused() {
    let text = |policies: usize| -> String {
        let lines =
            (0..policies).map(|policy| format!("  - {{ name: p{policy}, key: [ip], quotas: [1/1h] }}\n"));
        format!("policies:\n{}", lines.collect::<String>())
    };
    let classes: Vec<String> = (0..250).map(|class| format!("c{class}=path: /{class}")).collect();
    let new = |policies| {
        let policies = Config::parse("test.yaml", &text(policies)).unwrap().into_policies();
        let options =
            Options { classes: Classes::parse(&classes, None).unwrap(), rungs: 0, ..Options::default() };
        Replay::new(policies, None, options).map(drop)
    };
    assert!(new(400).is_ok());
    let error = new(401).unwrap_err();
    assert_eq!(
        error.to_string(),
        "401 policies times 250 classes are more than 100000 pairs; give fewer classes"
    );
    let mut set = clients::bits::Bits::default();
    set.insert(4_095);
    // A policy has three, and its candidates two.
    assert!(set.bytes() * 5 * ByClass::MAX_PAIRS < ByClass::MAX_BYTES);
}

/// Deciding fails while requests still come, and while decisions still wait to be noted.
#[test]
fn decisions_before_an_error_are_noted() {
    let text = "policies: [{ name: a, key: [ip], quotas: [1/1h] }, { name: b, key: [user], quotas: [1/1h] }]";
    let ips: Vec<String> = (0..20_000).map(|client| Ipv4Addr::from_bits(client / 2).to_string()).collect();
    let hits = ips.iter().map(|ip| {
        let attributes = [("ip", ip.as_str()), ("user", ip.as_str())].into_iter().collect();
        Hit::new(Timestamp::EPOCH, attributes)
    });
    let hits: Vec<Hit<'_>> = hits.collect();
    let replayed = |at_once: usize, max_counters: usize| {
        let policies = Config::parse("test.yaml", text).unwrap().into_policies();
        let mut replay = Replay::with_counters(policies, None, Options::default(), max_counters).unwrap();
        let error =
            hits.chunks(at_once).find_map(|hits| replay.requests(hits.iter().cloned()).err()).unwrap();
        assert!(matches!(error, ReplayError::Store(_)), "{error}");
        replay.report()
    };
    // In the first part, in the second, and in one whose memory was used before.
    for (max_counters, least, most) in [(500, 0, 1), (1_500, 1, 2), (9_000, 6, 16)] {
        let one_by_one = replayed(1, max_counters);
        let (requests, quota) = (one_by_one.requests, &one_by_one.policies[0].quotas[0]);
        assert!((least * PART..most * PART).contains(&(requests as usize)), "{requests}");
        assert!(quota.denied > requests / 3);
        let at_once = CheckedReport::new(replayed(20_000, max_counters), Vec::new());
        assert_eq!(at_once.json(), CheckedReport::new(one_by_one, Vec::new()).json());
    }
}

fn said(report: &crate::report::Report) -> String {
    report.notes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
