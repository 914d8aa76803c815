//! A case that reads a log.

use std::fmt::Write as _;
use std::io::Cursor;

use anyhow::{Result, ensure};
use tollgate_logs::{Batch, Input, Options, Reader};

use crate::CaseRun;

/// A line of a log in the combined format. All are read in the first run.
pub(crate) fn line(runs: usize) -> Result<CaseRun> {
    let mut text = String::new();
    for number in 0..runs {
        writeln!(
            text,
            "192.0.2.{} - - [23/Nov/2026:16:17:{:02} +0000] \"GET /products/{number} HTTP/1.1\" 200 512 \"-\" \
             \"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\"",
            number % 251,
            number * 60 / runs,
        )?;
    }
    let mut lines = Some(text);
    Ok(Box::new(move || {
        let Some(text) = lines.take() else { return Ok(()) };
        let input = Input::Read("combined".to_owned(), Box::new(Cursor::new(text.into_bytes())));
        let mut reader = Reader::open([input], Options::default())?;
        let (mut requests, mut batch) = (0, Batch::default());
        while reader.read(&mut batch)? {
            requests += batch.len();
        }
        ensure!(requests == runs, "{requests} requests were read");
        Ok(())
    }))
}
