//! A million records.

use std::time::Instant;

use tollgate_redis::{RecordChange, RecordEnd, RecordMatch};
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{Server, Software};

use super::{Reader, TIME, made};
use crate::servers::store;

const MILLION: u64 = 1_000_000;

/// The seconds of processor time that this process has had: other programs do not change it much.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // In hundredths, as Linux counts them everywhere.
    [11, 12].iter().map(|field| fields[*field].parse::<f64>().unwrap() / 100.0).sum()
}

fn server_cpu(server: &Server) -> f64 {
    ["used_cpu_user", "used_cpu_sys"].iter().map(|field| server.info(field).parse::<f64>().unwrap()).sum()
}

/// With debug assertions it takes minutes; measured on a machine that does nothing else, in release.
#[test]
#[ignore = "measures: cargo test --release -p tollgate-redis --test store a_million -- --ignored --nocapture"]
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn a_million_records_are_loaded_in_two_seconds() {
    for software in Software::ALL {
        let server = Server::start(software);
        block_on(async {
            let records = store(&server).prefix("big").build().unwrap().records("test");
            // As a change writes them, but many at once.
            let fill = "for number = ARGV[1], ARGV[2] do \
                redis.call('HSET', KEYS[1], string.format('search:=%022d', number), \
                string.format('%d 1900000000000 %s', number, ARGV[3])) end \
                redis.call('SET', KEYS[2], '00000000000000aa ' .. ARGV[2] .. ' 00000000000000bb ' .. ARGV[2])";
            let text =
                format!("{{\"key\":\"[user]\",\"quotas\":[\"500/1m\"],\"by\":\"{}\"}}", "x".repeat(90));
            let key = |part| format!("big:1::~test.{part}:{{~test}}");
            for page in 0..100 {
                let (from, to) = (page * MILLION / 100 + 1, (page + 1) * MILLION / 100);
                let (records, head) = (key("records"), key("head"));
                let (from, to) = (from.to_string(), to.to_string());
                server.command::<()>(["EVAL", fill, "2", &records, &head, &from, &to, &text]);
            }
            for _ in 0..3 {
                let (start, spent) = (Instant::now(), [cpu(), server_cpu(&server)]);
                let loaded = records.load(TIME).await.unwrap();
                let took = start.elapsed();
                let ours = cpu() - spent[0];
                assert_eq!(loaded.len() as u64, MILLION);
                println!(
                    "{software:?}: loaded in {took:.2?}; processor time {ours:.2} s, of the server {:.2} s",
                    server_cpu(&server) - spent[1]
                );
                let (start, spent) = (Instant::now(), cpu());
                let length: usize = loaded.into_records().map(|record| record.text.len()).sum();
                assert_eq!(length, text.len() * MILLION as usize);
                println!(
                    "{software:?}: taken out in {:.2?}; processor time {:.2} s",
                    start.elapsed(),
                    cpu() - spent
                );
            }
            let start = Instant::now();
            for number in 0..1_000 {
                let name = number.to_string();
                let change = RecordChange::Set { name: &name, text: &text, end: RecordEnd::Never };
                let _ = made(&records.change(change, RecordMatch::Any, 2 * MILLION, TIME).await.unwrap());
            }
            println!("{software:?}: a thousand changes, one after another, in {:?}", start.elapsed());
            let mut reader =
                Reader { state: Some(records.load(TIME).await.unwrap().state()), ..Reader::default() };
            let start = Instant::now();
            for _ in 0..1_000 {
                let _ = reader.step(&records).await;
            }
            println!("{software:?}: a read in {:?}", start.elapsed() / 1_000);
        });
    }
}
