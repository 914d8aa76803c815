//! Headers, paths, tokens and keys that are nearly valid. Whatever is changed in a real one, nothing panics, no client
//! passes for another, and no token is valid unless it was signed.
//!
//! A seed repeats one input.

#![cfg(feature = "jwt")]
#![allow(clippy::unwrap_used, reason = "this is a test")]

mod headers;
mod tokens;

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use fastrand::Rng;

use self::headers::Headers;
use self::tokens::Tokens;

#[test]
fn withstands_input_that_is_nearly_right() {
    run(1, 20_000);
}

#[test]
#[ignore = "takes its time: cargo xtask prove mutations"]
fn prove() {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    run(number("TOLLGATE_SEED").unwrap_or(1), number("TOLLGATE_INPUTS").unwrap_or(1_000_000));
}

/// Tries the inputs of these seeds on all cores.
fn run(first: u64, inputs: u64) {
    let (next, violations, valid) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        let (headers, tokens) = (Headers::new(), Tokens::new());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= inputs || violations.load(Ordering::Relaxed) > 0 {
                break;
            }
            let seed = first.wrapping_add(number);
            let mut random = Rng::with_seed(seed);
            let tried = catch_unwind(AssertUnwindSafe(|| match random.u32(..8) {
                0..3 => headers.try_one(&mut random),
                _ => tokens.try_one(&mut random),
            }));
            match tried {
                Ok(is_valid) => _ = valid.fetch_add(u64::from(is_valid), Ordering::Relaxed),
                Err(_) => {
                    violations.fetch_add(1, Ordering::Relaxed);
                    println!(
                        "VIOLATION seed={seed}: run it again: cargo xtask prove mutations --seed {seed} --inputs 1"
                    );
                }
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
    let (violations, valid) = (violations.into_inner(), valid.into_inner());
    println!("\nRESULT prove/mutations/requests inputs={inputs} valid={valid} violations={violations}");
    assert_eq!(violations, 0);
    assert!(inputs < 1_000 || valid * 100 > inputs, "only {valid} of {inputs} are valid, so little is tried");
}

/// Changes a text in several places.
fn mutate(random: &mut Rng, text: &mut Vec<u8>, pieces: &[&str]) {
    for _ in 0..random.usize(..4) {
        let at = random.usize(..=text.len());
        let end = (at + random.usize(..12)).min(text.len());
        match random.u32(..7) {
            0 if at < text.len() => text[at] = random.u8(..),
            1 if at < text.len() => text[at] ^= 1 << random.u32(..8),
            2 => drop(text.drain(at..end)),
            3 => {
                let copy = text[at..end].to_vec();
                let to = random.usize(..=text.len());
                text.splice(to..to, copy);
            }
            4 => text.truncate(at),
            5 if random.u32(..50) == 0 => {
                let piece = pieces[random.usize(..pieces.len())];
                text.splice(at..at, piece.bytes().cycle().take(random.usize(..8_192)).collect::<Vec<_>>());
            }
            _ => drop(text.splice(at..end, pieces[random.usize(..pieces.len())].bytes())),
        }
    }
}
