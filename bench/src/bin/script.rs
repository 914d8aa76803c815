//! What the script of a shared store costs beyond the one that users write by hand, and for what.
//!
//! The server itself measures how long each script runs (`usec_per_call` of `INFO commandstats`), so neither the
//! network nor the client is in the figures. Each call charges one of 2,000 counters that exist.

use anyhow::{Context, Result};
use clap::Parser;
use redis::{cmd, pipe};
use tollgate_bench_harness::affinity::pin_this_thread;
use tollgate_bench_harness::samples::{Samples, figure};
use tollgate_testkit::servers::{Server, ServerConnection, Software, cluster_of_one};

/// Measures parts of the script on a server of its own.
#[derive(Debug, Parser)]
struct Args {
    /// The store is valkey-server instead of redis-server
    #[arg(long)]
    valkey: bool,
    /// The store is a node of a Cluster, which checks the slot of each key that a script names
    #[arg(long)]
    slots: bool,
    /// Rounds; the figure is their median
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// One round: shows that the bench runs, not how fast anything is
    #[arg(long)]
    quick: bool,
}

const OURS: &str = include!("../../../crates/tollgate-redis/src/script/text.in");

/// What users write by hand.
const PLAIN: &str = "
    local used = tonumber(redis.call('GET', KEYS[1]) or '0')
    if used + 1 > tonumber(ARGV[1]) then return { 0, used } end
    used = redis.call('INCRBY', KEYS[1], 1)
    if used == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
    return { 1, used }";

const TIME_AND_EXPIRY: &str = "
    local time = redis.call('TIME')
    local now, ends = time[1] * 1000 + math.floor(time[2] / 1000), redis.call('PEXPIRETIME', KEYS[1])";

/// The same, without asking for the time.
const EXPIRY_AND_LIFE: &str = "
    local ends = redis.call('PEXPIRETIME', KEYS[1])
    local now = ends - redis.call('PTTL', KEYS[1])";

const UNPACK: &str = "
    local op, times, counters, requests, units, one, other, windows, a, b =
      struct.unpack('<sdddsddsdd', ARGV[3])";

const HOUR_MS: i64 = 3_600_000;
const COUNTERS: usize = 2_000;
const CALLS: usize = 20_000;
/// Calls that are sent together.
const AT_ONCE: usize = 200;

fn main() -> Result<()> {
    let args = Args::parse();
    let software = if args.valkey { Software::Valkey } else { Software::Redis };
    // The server's threads inherit it.
    pin_this_thread(0)?;
    let server = if args.slots { cluster_of_one(software) } else { Server::start(software) };
    pin_this_thread(1)?;
    let packed_reply = PLAIN.replace("return { 1, used }", "return cmsgpack.pack({ 1, used })");
    let scripts = [
        ("empty", "return 1".to_owned()),
        ("plain", PLAIN.to_owned()),
        ("plain-time-and-expiry", TIME_AND_EXPIRY.to_owned() + PLAIN),
        ("plain-expiry-and-life", EXPIRY_AND_LIFE.to_owned() + PLAIN),
        ("plain-packed-argument", UNPACK.to_owned() + PLAIN),
        ("plain-packed-reply", packed_reply),
        ("ours", OURS.to_owned()),
    ];
    let mut measured: Vec<Samples> = scripts.iter().map(|_| Samples::default()).collect();
    let rounds = if args.quick { 1 } else { args.rounds };
    // The first round warms up.
    for round in 0..=rounds {
        for ((_, script), samples) in scripts.iter().zip(&mut measured) {
            let micros = micros_a_call(&mut server.connection(), script)?;
            if round > 0 {
                samples.push(micros);
            }
        }
    }
    let plain = measured[1].median();
    for ((name, _), samples) in scripts.iter().zip(&measured) {
        let (micros, ratio) = (figure(samples.median()), figure(samples.median() / plain));
        println!("RESULT script/{name} us={micros} ratio={ratio}");
    }
    Ok(())
}

/// Microseconds that the server needs for one call of the script.
fn micros_a_call(connection: &mut ServerConnection, script: &str) -> Result<f64> {
    let digest: String = cmd("SCRIPT").arg("LOAD").arg(script).query(connection)?;
    let (seconds, _): (i64, i64) = cmd("TIME").query(connection)?;
    let nth = seconds * 1_000 / HOUR_MS;
    let (start, ends) = (nth * HOUR_MS, (nth + 1) * HOUR_MS);
    let names: Vec<String> = (0..COUNTERS).map(|number| format!("counter:{number:016}")).collect();
    let mut fill = pipe();
    fill.cmd("FLUSHALL").ignore();
    // As ours has them: a number of the window above the count, until a second after its end.
    let count = if script == OURS { (nth % 899 + 1) * 10_i64.pow(13) + 5 } else { 5 };
    let expiry = ends + 1_000;
    names.iter().for_each(|name| _ = fill.cmd("SET").arg(name).arg(count).arg("PXAT").arg(expiry).ignore());
    fill.cmd("CONFIG").arg("RESETSTAT").ignore();
    fill.query::<()>(connection)?;

    let limit = i64::from(u32::MAX);
    let mut ours = b"charge\0".to_vec();
    let numbers = |into: &mut Vec<u8>, numbers: &[i64]| {
        numbers.iter().for_each(|number| into.extend_from_slice(&(*number as f64).to_le_bytes()));
    };
    numbers(&mut ours, &[1, 1, 1]);
    ours.extend_from_slice(b"1\0");
    numbers(&mut ours, &[limit, 0]);
    ours.extend_from_slice(b"open\0");
    numbers(&mut ours, &[start, HOUR_MS]);
    for some in 0..CALLS / AT_ONCE {
        let mut calls = pipe();
        for name in names.iter().cycle().skip(some * AT_ONCE % COUNTERS).take(AT_ONCE) {
            let call = calls.cmd("EVALSHA").arg(&digest).arg(1).arg(name);
            match script == OURS {
                true => call.arg(&ours),
                false => call.arg(limit).arg(HOUR_MS).arg(&ours),
            };
            calls.ignore();
        }
        calls.query::<()>(connection)?;
    }
    let stats: String = cmd("INFO").arg("commandstats").query(connection)?;
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:"));
    let micros =
        line.into_iter().flat_map(|line| line.split(',')).find_map(|it| it.strip_prefix("usec_per_call="));
    micros
        .context("the server does not say how long scripts ran")?
        .parse()
        .context("usec_per_call is no number")
}
