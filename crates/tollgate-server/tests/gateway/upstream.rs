//! The tiny server behind the proxies.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What the server says of a limit of its own, for requests of `/`.
pub(crate) const OWN_LIMIT: &str = "\"own\";r=7;t=60";

/// Answers every request with `hello`, for as long as the process lives.
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
                    let (mut line, mut own) = (Vec::new(), String::new());
                    while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                        // The body of the request before it may be in the same line.
                        if String::from_utf8_lossy(&line).contains("POST / HTTP/1.") {
                            own = format!("RateLimit: {OWN_LIMIT}\r\n");
                        }
                        if line == b"\r\n" {
                            seen.fetch_add(1, Ordering::Relaxed);
                            let reply = format!("HTTP/1.1 200 OK\r\n{own}Content-Length: 5\r\n\r\nhello");
                            (&stream).write_all(reply.as_bytes()).expect("the proxy reads");
                            own.clear();
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
