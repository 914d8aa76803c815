//! Journals as crashes, disks and people leave them.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tollgate::Timestamp;
use tollgate_policy::OverridesVersion;

use super::folder::{JOURNAL, NEW_JOURNAL};
use super::line::{self, LinePlace};
use super::*;
use crate::overrides::text::{LimitsText, LimitsWord, RecordText};

/// The overrides of a journal, by name.
type State = BTreeMap<String, JournalRecord>;

/// A folder with a journal, and what the journal should hold after each write.
struct Written {
    folder: TempDir,
    /// The length of the file after each write, and the state then.
    writes: Vec<(usize, State)>,
    bytes: Vec<u8>,
}

fn record(name: &str, version: u64) -> JournalRecord {
    let limits = if version.is_multiple_of(2) {
        LimitsText::List([format!("{version}/1m").into()].into())
    } else {
        LimitsText::Word(LimitsWord::Denied)
    };
    let text = RecordText {
        key: "[user]".into(),
        limits,
        label: version.is_multiple_of(3).then(|| "plan".into()),
        note: Some("a note\nof two lines\0".into()),
        by: Some("billing".into()),
        at: 1_700_000_000_000,
    };
    let until = (version % 3 == 1).then(|| Timestamp::from_unix_millis(version as i64));
    JournalRecord { name: name.into(), version, until, text }
}

fn name(number: usize) -> String {
    format!("search:tenant=t{number}")
}

fn state_of(records: impl IntoIterator<Item = JournalRecord>) -> State {
    records.into_iter().map(|record| (record.name.to_string(), record)).collect()
}

fn read(folder: &Path, on_damage: OnDamage) -> Result<(JournalFile, State), JournalError> {
    let (file, records) = OpenJournal::open(folder, on_damage)?.into_records().unwrap();
    Ok((file, state_of(records.map(Result::unwrap))))
}

/// Applies changes to the file and to the state, with the right numbers: sets to a name, or deletes it.
fn write(file: &mut JournalFile, state: &mut State, changes: &[(String, bool)]) {
    let (mut lines, mut freed) = (Vec::new(), 0);
    for (number, (name, is_set)) in (file.version().number + 1..).zip(changes) {
        let replaced = if *is_set {
            let record = record(name, number);
            lines.push(JournalChange::Set(record.clone()));
            state.insert(name.clone(), record)
        } else {
            lines.push(JournalChange::Delete { name: name.as_str().into(), version: number });
            state.remove(name)
        };
        freed += replaced.map_or(0, |record| line_length(&record));
    }
    file.append(&lines, freed).unwrap();
}

/// Writes some journal: its last write has three changes.
fn written() -> Written {
    let folder = tempfile::tempdir().unwrap();
    let (mut file, mut state) = read(folder.path(), OnDamage::Refuse).unwrap();
    let path = folder.path().join(JOURNAL);
    let mut writes = vec![(fs::read(&path).unwrap().len(), state.clone())];
    let set = |number| (name(number), true);
    for changes in [
        vec![set(1)],
        vec![set(2), set(3), set(1)],
        vec![(name(2), false)],
        vec![set(4), (name(3), false), set(2)],
    ] {
        write(&mut file, &mut state, &changes);
        writes.push((fs::read(&path).unwrap().len(), state.clone()));
    }
    let bytes = fs::read(&path).unwrap();
    Written { folder, writes, bytes }
}

impl Written {
    fn path(&self) -> PathBuf {
        self.folder.path().join(JOURNAL)
    }

    /// The states before and after the last write.
    fn last_two(&self) -> (usize, &State, &State) {
        let [.., (before, earlier), (_, last)] = &*self.writes else { panic!("too few") };
        (*before, earlier, last)
    }

    /// Writes these bytes instead of the journal.
    fn put(&self, bytes: &[u8]) {
        fs::write(self.path(), bytes).unwrap();
    }

    fn damage(&self) -> JournalDamage {
        match read(self.folder.path(), OnDamage::Refuse).expect_err("it is damaged") {
            JournalError::Damaged { first, .. } => first,
            error => panic!("{error}"),
        }
    }
}

#[test]
fn a_journal_reads_back_under_the_same_version() {
    let written = written();
    let (file, state) = read(written.folder.path(), OnDamage::Refuse).unwrap();
    assert_eq!(&state, written.last_two().2);
    let version = file.version();
    drop(file);
    let (file, _) = read(written.folder.path(), OnDamage::Refuse).unwrap();
    assert_eq!((file.version(), version.number), (version, 8));
}

/// A process that is killed leaves the beginning of its last write, a machine perhaps zeros.
#[test]
fn a_last_write_that_is_cut_anywhere_is_left_out_and_the_next_one_follows() {
    let written = written();
    let (before, earlier, last) = written.last_two();
    for cut in before..written.bytes.len() {
        for zeros in [false, true] {
            let mut bytes = written.bytes.clone();
            bytes[cut..].fill(0);
            written.put(if zeros { &bytes } else { &bytes[..cut] });
            let (mut file, mut state) = read(written.folder.path(), OnDamage::Refuse)
                .unwrap_or_else(|error| panic!("cut at {cut}, {zeros}: {error}"));
            let whole = written.bytes[before..cut].iter().filter(|byte| **byte == b'\n').count() as u64;
            assert_eq!(file.version().number, 5 + whole, "cut at {cut}, {zeros}");
            if whole == 0 {
                assert_eq!(&state, earlier);
            }
            write(&mut file, &mut state, &[(name(9), true)]);
            drop(file);
            let (_, again) = read(written.folder.path(), OnDamage::Refuse).unwrap();
            assert_eq!(again, state, "cut at {cut}, {zeros}");
        }
    }
    // A part of a write that never arrived, before one that did.
    let line_feed = before + written.bytes[before..].iter().position(|byte| *byte == b'\n').unwrap();
    let mut bytes = written.bytes.clone();
    bytes[before + 5..line_feed - 5].fill(0);
    written.put(&bytes);
    let (_, state) = read(written.folder.path(), OnDamage::Refuse).unwrap();
    assert_eq!(&state, earlier);
    assert_ne!(earlier, last);
}

#[test]
fn any_other_changed_byte_is_refused_by_its_line_and_the_rest_is_recovered() {
    let written = written();
    let lines = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    for place in 0..written.bytes.len() {
        let mut bytes = written.bytes.clone();
        bytes[place] ^= 1;
        written.put(&bytes);
        let damage = written.damage();
        assert_eq!(damage.line, 1 + lines(&written.bytes[..place]), "{place}: {damage}");
        let start = written.bytes[..place].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        assert_eq!(damage.offset, start as u64);
    }
    // Of a write that was answered, zeros are damage, too.
    let second = written.writes[1].0;
    let mut bytes = written.bytes.clone();
    bytes[second + 20..second + 30].fill(0);
    written.put(&bytes);
    assert_eq!(written.damage().line, 3);

    let (file, state) = read(written.folder.path(), OnDamage::Recover).unwrap();
    let mut expected = written.last_two().2.clone();
    assert_eq!(state, expected, "what the damaged line had set was replaced later");
    assert_eq!(file.version().number, 8);
    drop(file);
    let kept = written.folder.path().join(format!("{JOURNAL}.damaged.1"));
    assert_eq!(fs::read(&kept).unwrap(), bytes);

    // Without the last line of the journal, an override is as it was before.
    let mut bytes = written.bytes.clone();
    let end = bytes.len() - 10;
    bytes[end] ^= 1;
    written.put(&bytes);
    let (file, state) = read(written.folder.path(), OnDamage::Recover).unwrap();
    expected.remove(&name(2));
    assert_eq!(state, expected);
    let recovered = file.version();
    drop(file);
    assert_eq!(fs::read(written.folder.path().join(format!("{JOURNAL}.damaged.2"))).unwrap(), bytes);

    // Nothing is damaged now, so it is the same again.
    let (file, state) = read(written.folder.path(), OnDamage::Recover).unwrap();
    assert_eq!((file.version(), state), (recovered, expected));
}

#[test]
fn lines_that_are_missing_or_repeated_are_damage() {
    let written = written();
    let lines: Vec<&[u8]> = written.bytes.split_inclusive(|byte| *byte == b'\n').collect();
    for missing in 0..lines.len() - 1 {
        let left: Vec<u8> = [&lines[..missing], &lines[missing + 1..]].concat().concat();
        written.put(&left);
        assert_eq!(written.damage().line, missing as u64 + 1, "{missing}");
    }
    for repeated in 0..lines.len() {
        let more: Vec<u8> = [&lines[..=repeated], &lines[repeated..]].concat().concat();
        written.put(&more);
        assert_eq!(written.damage().line, repeated as u64 + 2, "{repeated}");
    }
    written.put(b"");
    assert_eq!(written.damage().to_string(), "line 1 (byte 0): the file ends in it");
}

#[test]
fn a_journal_of_another_version_is_not_touched() {
    let written = written();
    let mut lines = Vec::new();
    line::write(&mut lines, LinePlace::First, r#"{"tollgate_overrides":2,"more":[]}"#);
    written.put(&lines);
    for on_damage in [OnDamage::Refuse, OnDamage::Recover] {
        let error = read(written.folder.path(), on_damage).unwrap_err().to_string();
        assert!(error.ends_with("has form 2, and this version of tollgate reads form 1"), "{error}");
    }
    assert_eq!(fs::read(written.path()).unwrap(), lines);
}

#[test]
fn changes_go_on_while_a_new_journal_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(52);
    let (mut file, mut state) = read(folder.path(), OnDamage::Refuse).unwrap();
    let change = |file: &mut JournalFile, state: &mut State, random: &mut fastrand::Rng| {
        let changes = (0..random.usize(1..4)).map(|_| {
            let name = name(random.usize(..20));
            let is_set = !state.contains_key(&name) || random.u8(..3) > 0;
            (name, is_set)
        });
        let mut changes: Vec<_> = changes.collect();
        // A second delete of a name would be none.
        changes.sort();
        changes.dedup_by(|one, other| one.0 == other.0);
        write(file, state, &changes);
    };
    for round in 0..200 {
        change(&mut file, &mut state, &mut random);
        if round % 7 == 0 {
            let start = file.begin_snapshot(state.len() as u64);
            let snapshot = start.write(state.values().cloned().map(Ok)).unwrap();
            for _ in 0..random.usize(..4) {
                change(&mut file, &mut state, &mut random);
            }
            let longer = file.length();
            file.adopt(&start, snapshot).unwrap();
            assert!(
                file.length() <= longer
                    && fs::metadata(folder.path().join(JOURNAL)).unwrap().len() == file.length()
            );
            change(&mut file, &mut state, &mut random);
        }
        if round % 5 == 0 {
            let version = file.version();
            drop(file);
            // As if the process had been killed while it wrote a new journal.
            fs::write(folder.path().join(NEW_JOURNAL), "half").unwrap();
            let (opened, read) = read(folder.path(), OnDamage::Refuse).unwrap();
            assert_eq!((opened.version(), &read), (version, &state), "{round}");
            file = opened;
        }
    }
}

#[test]
fn a_record_that_is_missing_after_the_first_line_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let (mut file, mut state) = read(folder.path(), OnDamage::Refuse).unwrap();
    write(&mut file, &mut state, &[(name(1), true), (name(2), true)]);
    let start = file.begin_snapshot(2);
    let snapshot = start.write(state.values().cloned().map(Ok)).unwrap();
    file.adopt(&start, snapshot).unwrap();
    for with_change in [false, true] {
        if with_change {
            write(&mut file, &mut state, &[(name(3), true)]);
        }
        let path = folder.path().join(JOURNAL);
        let bytes = fs::read(&path).unwrap();
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let left = [&lines[..2], &lines[3..]].concat().concat();
        fs::write(&path, left).unwrap();
        let survey = survey::Survey::of(&File::open(&path).unwrap()).unwrap();
        let damage: Vec<String> = survey.damage.iter().map(ToString::to_string).collect();
        assert_eq!(damage.len(), 1, "{damage:?}");
        assert!(damage[0].ends_with("1 records are listed, and there were 2"), "{damage:?}");
        fs::write(&path, bytes).unwrap();
    }
}

#[test]
fn one_process_has_the_folder_and_no_other_user_may_change_it() {
    let written = written();
    let folder = written.folder.path();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&written.path()), 0o600);

    let open = OpenJournal::open(folder, OnDamage::Refuse).unwrap();
    let error = OpenJournal::open(folder, OnDamage::Refuse).unwrap_err().to_string();
    let expected = format!(
        "{} is in use by the process {}: each process needs a folder of its own",
        folder.display(),
        std::process::id()
    );
    assert_eq!(error, expected);
    drop(open);

    for (path, mode, restored) in
        [(folder, 0o770, 0o700), (folder, 0o702, 0o700), (&written.path(), 0o620, 0o600)]
    {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let error = OpenJournal::open(folder, OnDamage::Refuse).unwrap_err().to_string();
        assert!(error.contains(&format!("(its mode is {mode:04o}): run `chmod go-w`")), "{error}");
        fs::set_permissions(path, Permissions::from_mode(restored)).unwrap();
    }

    let elsewhere = folder.join("elsewhere");
    fs::rename(written.path(), &elsewhere).unwrap();
    symlink(&elsewhere, written.path()).unwrap();
    assert!(OpenJournal::open(folder, OnDamage::Refuse).is_err(), "a link may lead anywhere");

    let new = folder.join("new");
    drop(OpenJournal::open(&new, OnDamage::Refuse).unwrap());
    assert_eq!(mode(&new), 0o700);
    let error = OpenJournal::open(&folder.join("none/new"), OnDamage::Refuse).unwrap_err().to_string();
    assert!(error.contains("none/new: No such file or directory"), "{error}");
}

#[test]
fn epochs_of_two_journals_differ() {
    let versions: Vec<OverridesVersion> = (0..2)
        .map(|_| read(tempfile::tempdir().unwrap().path(), OnDamage::Refuse).unwrap().0.version())
        .collect();
    assert_ne!(versions[0].epoch, versions[1].epoch);
    assert_eq!((versions[0].number, versions[1].number), (0, 0));
}
