//! What changes answer.

use std::time::Duration;

use tollgate::{StoreError, Timestamp};
use tollgate_redis::{ChangeAnswer, RecordChange, RecordEnd, RecordMatch, RecordsVersion, SharedRecords};
use tollgate_testkit::block_on;
use tollgate_testkit::servers::Software;

use super::{MOST, Reader, TIME, delete, fresh, made, set};

/// Sets a record that must match.
async fn set_if(records: &SharedRecords, name: &str, matching: RecordMatch, most: u64) -> ChangeAnswer {
    let change = RecordChange::Set { name, text: "new", end: RecordEnd::Never };
    records.change(change, matching, most, TIME).await.unwrap()
}

async fn delete_if(records: &SharedRecords, name: &str, matching: RecordMatch) -> ChangeAnswer {
    records.change(RecordChange::Delete { name }, matching, MOST, TIME).await.unwrap()
}

fn version_of(RecordsVersion { epoch, number }: RecordsVersion) -> RecordMatch {
    RecordMatch::Version { epoch, number }
}

/// The text and the version of the record that was there, and the version of all.
fn mismatch(answer: ChangeAnswer) -> (Option<(String, u64)>, u64) {
    match answer {
        ChangeAnswer::Mismatch { current, version } => {
            (current.map(|record| (record.text.to_string(), record.version)), version.number)
        }
        other => panic!("it matched: {other:?}"),
    }
}

#[test]
fn each_change_raises_the_version_by_one() {
    for software in Software::ALL {
        block_on(async {
            let records = fresh(software).records("test");
            let mut reader = Reader::of(&records).await;
            assert_eq!(reader.state.unwrap().version(), RecordsVersion::default());

            let first = set(&records, "a", "one").await;
            let RecordsVersion { epoch, number } = made(&first);
            assert!(matches!(first, ChangeAnswer::Made { existed: false, until: None, .. }));
            assert!(epoch > 0);
            assert_eq!(number, 1);
            let second = set(&records, "a", "two words\r\n\0").await;
            assert_eq!(made(&second), RecordsVersion { epoch, number: 2 });
            assert!(matches!(second, ChangeAnswer::Made { existed: true, .. }));
            let third = set(&records, "b c:{d}", "").await;
            assert_eq!(made(&third), RecordsVersion { epoch, number: 3 });
            reader.catch_up(&records).await;
            assert_eq!(reader.texts(), [("a", "two words\r\n\0"), ("b c:{d}", "")]);
            assert_eq!(reader.records["a"].version, 2);

            let fourth = delete(&records, "a").await;
            assert_eq!(made(&fourth), RecordsVersion { epoch, number: 4 });
            assert!(matches!(fourth, ChangeAnswer::Made { existed: true, until: None, .. }));
            reader.catch_up(&records).await;
            assert_eq!(reader.texts(), [("b c:{d}", "")]);
            assert_eq!(reader.state.unwrap().version(), RecordsVersion { epoch, number: 4 });
            assert_eq!(reader.loads, 1, "it has followed the log");
            assert_eq!(Reader::of(&records).await.records, reader.records);
        });
    }
}

#[test]
fn a_change_is_made_only_if_the_record_matches() {
    for software in Software::ALL {
        block_on(async {
            let records = fresh(software).records("test");
            let first = made(&set_if(&records, "a", RecordMatch::Absent, MOST).await);
            let there = Some(("new".to_owned(), 1));
            assert_eq!(mismatch(set_if(&records, "a", RecordMatch::Absent, MOST).await), (there.clone(), 1));

            let RecordsVersion { epoch, number } = first;
            for other in [
                RecordMatch::Version { epoch, number: number + 1 },
                RecordMatch::Version { epoch: epoch ^ 1, number },
                RecordMatch::Version { epoch, number: 0 },
            ] {
                assert_eq!(mismatch(set_if(&records, "a", other, MOST).await), (there.clone(), 1));
                assert_eq!(mismatch(delete_if(&records, "a", other).await), (there.clone(), 1));
                assert_eq!(mismatch(set_if(&records, "b", other, MOST).await), (None, 1));
            }
            let second = made(&set_if(&records, "a", version_of(first), MOST).await);
            let there = Some(("new".to_owned(), 2));
            assert_eq!(mismatch(set_if(&records, "a", version_of(first), MOST).await), (there.clone(), 2));
            assert_eq!(mismatch(delete_if(&records, "a", RecordMatch::Absent).await), (there, 2));
            let _ = made(&delete_if(&records, "a", version_of(second)).await);
            for gone in [RecordMatch::Any, RecordMatch::Absent, version_of(second)] {
                assert_eq!(mismatch(delete_if(&records, "a", gone).await), (None, 3));
            }
            assert_eq!(Reader::of(&records).await.state.unwrap().version().number, 3);
        });
    }
}

#[test]
fn a_record_that_would_be_one_too_many_is_refused() {
    for software in Software::ALL {
        block_on(async {
            let records = fresh(software).records("test");
            assert_eq!(set_if(&records, "a", RecordMatch::Any, 0).await, ChangeAnswer::TooMany);
            let _ = made(&set_if(&records, "a", RecordMatch::Any, 2).await);
            let _ = made(&set_if(&records, "b", RecordMatch::Any, 2).await);
            assert_eq!(set_if(&records, "c", RecordMatch::Any, 2).await, ChangeAnswer::TooMany);
            // Another bound, and one that exists.
            let _ = made(&set_if(&records, "b", RecordMatch::Any, 2).await);
            let _ = made(&set_if(&records, "b", RecordMatch::Any, 0).await);
            let _ = made(&delete(&records, "b").await);
            let _ = made(&set_if(&records, "c", RecordMatch::Any, 2).await);
            assert_eq!(mismatch(set_if(&records, "c", RecordMatch::Absent, 2).await).1, 6);
        });
    }
}

#[test]
fn an_end_is_after_the_stores_time() {
    for software in Software::ALL {
        block_on(async {
            let server = crate::servers::shared(software);
            let records = fresh(software).records("test");
            let set_until = async |end| {
                let change = RecordChange::Set { name: "a", text: "", end };
                records.change(change, RecordMatch::Any, MOST, TIME).await
            };
            for passed in [
                RecordEnd::At(server.time()),
                RecordEnd::At(Timestamp::EPOCH),
                RecordEnd::At(Timestamp::from_unix_millis(i64::MIN)),
                RecordEnd::After(Duration::ZERO),
            ] {
                let before = server.time();
                let ChangeAnswer::EndPassed { now } = set_until(passed).await.unwrap() else {
                    panic!("{passed:?} has not passed");
                };
                assert!((before..=server.time()).contains(&now), "{now:?}");
            }
            let end = Timestamp::from_unix_millis(server.time().as_unix_millis() + 3_600_000);
            let answer = set_until(RecordEnd::At(end)).await.unwrap();
            assert!(matches!(answer, ChangeAnswer::Made { until: Some(until), .. } if until == end));
            assert_eq!(Reader::of(&records).await.records["a"].until, Some(end));

            // A part of a millisecond is one.
            let answer = set_until(RecordEnd::After(Duration::from_nanos(1_000_001))).await.unwrap();
            let ChangeAnswer::Made { now, until: Some(until), .. } = answer else { panic!("{answer:?}") };
            assert_eq!(until.since(now), Duration::from_millis(2));

            for far in [
                RecordEnd::After(Duration::MAX),
                RecordEnd::After(Duration::from_secs(101 * 365 * 86_400)),
                RecordEnd::At(Timestamp::from_unix_millis(i64::MAX)),
            ] {
                assert!(matches!(set_until(far).await, Err(StoreError::Uncountable(_))), "{far:?}");
            }
            let answer = set_until(RecordEnd::After(Duration::from_secs(100 * 365 * 86_400))).await.unwrap();
            assert!(matches!(answer, ChangeAnswer::Made { until: Some(_), .. }));
        });
    }
}

#[test]
fn names_and_texts_have_bounds() {
    block_on(async {
        let records = fresh(Software::Redis).records("test");
        let set = async |name: usize, text: usize| {
            let (name, text) = ("n".repeat(name), "t".repeat(text));
            let change = RecordChange::Set { name: &name, text: &text, end: RecordEnd::Never };
            records.change(change, RecordMatch::Any, MOST, TIME).await
        };
        for (name, text) in [(0, 1), (4_097, 1), (1, 8_193)] {
            assert!(matches!(set(name, text).await, Err(StoreError::Uncountable(_))), "{name} {text}");
        }
        let _ = made(&set(4_096, 8_192).await.unwrap());
        assert_eq!(Reader::of(&records).await.records.len(), 1);
    });
}

/// Several sets of records, and several services, do not meet.
#[test]
fn another_name_and_another_prefix_are_other_records() {
    block_on(async {
        let (one, other) = (fresh(Software::Redis), fresh(Software::Redis));
        let _ = made(&set(&one.records("a"), "x", "1").await);
        for records in [one.records("b"), other.records("a")] {
            assert_eq!(Reader::of(&records).await.texts(), []);
        }
        assert_eq!(Reader::of(&one.clone().records("a")).await.texts(), [("x", "1")]);
    });
}
