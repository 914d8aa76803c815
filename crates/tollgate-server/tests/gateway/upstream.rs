//! The tiny server behind the proxies.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What the server says of a limit of its own, for requests of `/`.
pub(crate) const OWN_LIMIT: &str = "\"own\";r=7;t=60";

/// An answer of a language model, at `/usage`.
const USAGE: &str = "{\"usage\":{\"total_tokens\":7}}";

/// The same in a stream of events, at `/events`.
const EVENTS: &str =
    "data: {\"text\":\"hello\"}\n\ndata: {\"usage\":{\"total_tokens\":7}}\n\ndata: [DONE]\n\n";

/// The head and the first bytes of a longer answer.
const PART: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{";

/// Answers every request with `hello`, for as long as the process lives. At `/stalls` and `/breaks`, it sends a part of
/// an answer, and then nothing or the end of the connection.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = Arc::clone(&seen);
                thread::spawn(move || {
                    let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
                    let (mut line, mut own, mut path) = (Vec::new(), String::new(), String::new());
                    while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                        // The body of the request before it may be in the same line.
                        if String::from_utf8_lossy(&line).contains("POST / HTTP/1.") {
                            own = format!("RateLimit: {OWN_LIMIT}\r\n");
                        }
                        if let Some(target) = line.strip_prefix(b"GET ") {
                            path = String::from_utf8_lossy(target).into_owned();
                        }
                        if line == b"\r\n" {
                            seen.fetch_add(1, Ordering::Relaxed);
                            let reply = match path.split(' ').next() {
                                Some("/usage") => whole("application/json", "", USAGE),
                                Some("/events") => whole("text/event-stream", "", EVENTS),
                                Some("/stalls" | "/breaks") => PART.to_owned(),
                                _ => whole("text/plain", &own, "hello"),
                            };
                            (&stream).write_all(reply.as_bytes()).expect("the proxy reads");
                            if path.starts_with("/breaks") {
                                return;
                            }
                            own.clear();
                            path.clear();
                        }
                        line.clear();
                    }
                });
            }
        });
        Self { address, requests }
    }

    /// How many requests the proxy has let through.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

/// A whole answer of this type, with a further header.
fn whole(kind: &str, header: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{header}Content-Length: {length}\r\n\r\n{body}")
}
