//! Who asked most often? `cargo run --package tollgate-logs --example busiest -- '/var/log/nginx/access.log*'`

use std::collections::HashMap;
use std::error::Error;

use tollgate_logs::{Batch, Options, Reader};

fn main() -> Result<(), Box<dyn Error>> {
    let logs: Vec<_> = std::env::args_os().skip(1).collect();
    let mut reader = Reader::open(&logs, Options::default())?;
    let mut requests: HashMap<Vec<u8>, u64> = HashMap::new();
    let mut batch = Batch::default();
    while reader.read(&mut batch)? {
        for ip in batch.requests().filter_map(|request| request.ip()) {
            *requests.entry(ip.to_vec()).or_default() += 1;
        }
    }
    let mut clients: Vec<_> = requests.into_iter().collect();
    clients.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    for (client, requests) in clients.iter().take(10) {
        println!("{requests:>10}  {}", client.escape_ascii());
    }
    let summary = reader.summary();
    println!(
        "{} requests in {} lines, {} unreadable",
        summary.requests,
        summary.lines,
        summary.unparsed_lines()
    );
    Ok(())
}
