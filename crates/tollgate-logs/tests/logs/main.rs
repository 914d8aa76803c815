//! Logs read through the public interface.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "this is a test")]

mod certainty;
mod clients;
mod formats;
mod forwarded;
mod holds;
mod linear;
mod mutations;
mod order;
mod other_addresses;
mod properties;
mod reading;
mod servers;
mod templates;
mod wrapped;

use std::fmt::Write;
use std::io::Cursor;

use tollgate_logs::{Batch, Error, Input, Options, Reader, Request, Summary};

/// A log in memory.
fn log(text: impl AsRef<[u8]>) -> Input {
    Input::Read("test.log".to_owned(), Box::new(Cursor::new(text.as_ref().to_vec())))
}

/// What is read of the inputs: each request as a line, and the summary.
fn read_all(inputs: Vec<Input>, options: Options) -> (Vec<String>, Summary, Result<(), Error>) {
    let attributes = options.attributes.len();
    let mut requests = Vec::new();
    let mut reader = match Reader::open(inputs, options) {
        Ok(reader) => reader,
        Err(error) => return (requests, Summary::default(), Err(error)),
    };
    let mut batch = Batch::default();
    let result = loop {
        match reader.read(&mut batch) {
            Ok(true) => requests.extend(batch.requests().map(|request| shown(&request, attributes))),
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    // Nothing comes after the end, and after an error.
    assert!(matches!(reader.read(&mut batch), Ok(false)) && batch.is_empty());
    (requests, reader.summary().clone(), result)
}

/// The requests of one log.
fn requests(text: impl AsRef<[u8]>, options: Options) -> Vec<String> {
    let (requests, _, result) = read_all(vec![log(text)], options);
    result.unwrap();
    requests
}

/// `time ip method path?query status bytes`, and what else there is by name.
fn shown(request: &Request<'_>, attributes: usize) -> String {
    let text =
        |value: Option<&[u8]>| value.map_or_else(|| "-".to_owned(), |value| value.escape_ascii().to_string());
    let time = jiff::Timestamp::from_microsecond(request.time_micros()).unwrap();
    let mut line =
        format!("{time} {} {} {}", text(request.ip()), text(request.method()), text(request.path()));
    if request.query().is_some() {
        write!(line, "?{}", text(request.query())).unwrap();
    }
    match request.status() {
        Some(status) => write!(line, " {status}").unwrap(),
        None => line.push_str(" -"),
    }
    match request.bytes() {
        Some(bytes) => write!(line, " {bytes}").unwrap(),
        None => line.push_str(" -"),
    }
    let fields = [
        ("host", request.host()),
        ("user", request.user()),
        ("agent", request.user_agent()),
        ("referer", request.referer()),
    ];
    for (name, value) in fields {
        if value.is_some() {
            write!(line, " {name}={}", text(value)).unwrap();
        }
    }
    for place in 0..attributes {
        write!(line, " {place}={}", text(request.attribute(place))).unwrap();
    }
    line
}
