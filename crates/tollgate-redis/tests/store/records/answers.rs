//! What changes answer.

use tollgate_redis::{ChangeAnswer, RecordsVersion};
use tollgate_testkit::block_on;
use tollgate_testkit::servers::Software;

use super::{Reader, delete, fresh, made, set};

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
