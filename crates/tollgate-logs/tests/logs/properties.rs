//! What holds for all logs.

use std::fmt::Write as _;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::collection::vec;
use proptest::prelude::*;
use tollgate_logs::{Options, Order};

use crate::holds::{formats, holds};
use crate::{log, read_all};

/// Lines in the order of time, in milliseconds: several in one, and gaps.
fn steps() -> impl Strategy<Value = Vec<u64>> {
    vec(prop_oneof![Just(0), 1_u64..200, 900_u64..200_000], 1..80)
}

fn lines(steps: &[u64], is_coarse: bool) -> Vec<String> {
    let mut time = 1_795_449_600_000;
    let line = |(number, step): (usize, &u64)| {
        time += step;
        let time = if is_coarse { time / 1_000 } else { time };
        let mut line = String::new();
        writeln!(line, "{{\"ts\":{time},\"path\":\"/{number}\",\"ip\":\"192.0.2.{}\"}}", number % 5).unwrap();
        line
    };
    steps.iter().enumerate().map(line).collect()
}

fn sort(memory: usize) -> Options {
    Options { order: Order::Sort { memory }, ..Options::default() }
}

fn read(texts: Vec<Vec<u8>>, options: Options) -> Vec<String> {
    let (requests, summary, result) = read_all(texts.into_iter().map(log).collect(), options);
    result.unwrap();
    assert_eq!(summary.late, 0);
    requests
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
}

proptest! {
    #[test]
    fn sorting_a_shuffled_log_gives_the_sorted_one(
        // Equal times would be in the order of lines, which shuffling changes.
        steps in vec(1_u64..90_000, 1..80),
        seed: u64,
        memory in prop_oneof![Just(1_usize), Just(2_000), Just(1 << 20)],
    ) {
        let lines = lines(&steps, false);
        let mut shuffled = lines.clone();
        let mut state = seed;
        for place in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            shuffled.swap(place, (state >> 33) as usize % (place + 1));
        }
        let expected = read(vec![lines.concat().into_bytes()], Options::default());
        prop_assert_eq!(read(vec![shuffled.concat().into_bytes()], sort(memory)), expected);
    }

    #[test]
    fn a_log_in_parts_is_the_whole_log(steps in steps(), is_coarse: bool, cuts in vec(0_usize..80, 0..5), is_sorted: bool) {
        let lines = lines(&steps, is_coarse);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(lines.len())).chain([0, lines.len()]).collect();
        cuts.sort_unstable();
        let parts: Vec<_> = cuts.windows(2).map(|cut| lines[cut[0]..cut[1]].concat().into_bytes()).collect();
        let options = || if is_sorted { sort(1_000) } else { Options::default() };
        let whole = read(vec![lines.concat().into_bytes()], options());
        prop_assert_eq!(whole.len(), lines.len());
        prop_assert_eq!(read(parts.clone(), options()), whole.clone());
        let mut backwards = parts;
        backwards.reverse();
        // Files in another order: the same, except that those of one second come in the order of files.
        let sorted = |mut requests: Vec<String>| { requests.sort(); requests };
        if !is_coarse {
            prop_assert_eq!(sorted(read(backwards, options())), sorted(whole));
        }
    }

    #[test]
    fn a_compressed_log_is_the_plain_one(steps in steps(), cut in 0_usize..80) {
        let lines = lines(&steps, true);
        let (first, second) = lines.split_at(cut.min(lines.len()));
        let (first, second) = (first.concat().into_bytes(), second.concat().into_bytes());
        let plain = read(vec![lines.concat().into_bytes()], Options::default());
        for compress in [gzip, zstd] {
            let text = [compress(&first), compress(&second)].concat();
            prop_assert_eq!(read(vec![text], Options::default()), plain.clone());
        }
    }

    #[test]
    fn any_bytes_are_read_or_counted(choice in 0_usize..40, bytes: Vec<u8>) {
        holds(formats().get(choice).copied(), &bytes);
    }

    #[test]
    fn no_damaged_line_makes_a_reader_panic(
        case in 0..crate::formats::CASES.len(),
        damages in vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..4), 1..6),
    ) {
        let case = &crate::formats::CASES[case];
        let mut text = case.text.as_bytes().to_vec();
        for (place, byte, kind) in damages {
            let at = place.index(text.len());
            match kind {
                0 => text[at] = byte,
                1 => text.insert(at, *b"\"\\ []{}%#,:-".get(usize::from(byte) % 12).unwrap()),
                2 if text.len() > 1 => drop(text.remove(at)),
                _ => text.truncate(at + 1),
            }
        }
        holds(Some(case.format.trim_end_matches(" in syslog")), &text);
        holds(None, &text);
    }
}
