//! The service behind the servers. It knows when each request arrived, and what arrived of it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::client::{KEY, NUMBER, WAIT, micros};
use crate::support::Connection;

/// Answers each request with `hello`, as late as it asks for, for as long as the process lives.
pub(crate) struct App {
    pub(crate) address: SocketAddr,
    arrivals: Arrivals,
}

/// By the numbers of requests.
type Arrivals = Arc<Mutex<HashMap<u64, Arrival>>>;

/// A request that was let through.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arrival {
    pub(crate) at: i64,
    pub(crate) target: Vec<u8>,
    pub(crate) key: Option<Vec<u8>>,
}

/// A request as it was read.
struct Read {
    target: Vec<u8>,
    headers: HashMap<String, Vec<u8>>,
}

impl App {
    /// Starts it. If the server in front of it cannot ask this service, the app does so itself.
    pub(crate) fn start(asks: Option<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let arrivals = Arrivals::default();
        let shared_arrivals = Arc::clone(&arrivals);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let arrivals = Arc::clone(&shared_arrivals);
                thread::spawn(move || serve(stream, asks, &arrivals));
            }
        });
        Self { address, arrivals }
    }

    pub(crate) fn arrival(&self, number: u64) -> Option<Arrival> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }
}

fn serve(stream: TcpStream, asks: Option<SocketAddr>, arrivals: &Arrivals) {
    let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
    while let Some(request) = read(&mut reader) {
        let status = asks.map_or(200, |service| request.ask(service));
        if status == 200 {
            request.arrive(arrivals);
        }
        let reply = format!("HTTP/1.1 {status} Told\r\nContent-Length: 5\r\n\r\nhello");
        // The server may have gone on without it, as its client has.
        if (&stream).write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

/// Reads a request without a body.
fn read(reader: &mut impl BufRead) -> Option<Read> {
    let mut line = || {
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line).ok().filter(|length| *length > 0)?;
        line.truncate(line.trim_ascii_end().len());
        Some(line)
    };
    let first = line()?;
    let (_, rest) = first.split_at(first.iter().position(|byte| *byte == b' ')? + 1);
    let target = rest.strip_suffix(b" HTTP/1.1").or_else(|| rest.strip_suffix(b" HTTP/1.0"))?.to_vec();
    let mut headers = HashMap::new();
    loop {
        let line = line()?;
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { break };
        let name = String::from_utf8_lossy(&line[..colon]).to_ascii_lowercase();
        headers.insert(name, line[colon + 1..].trim_ascii().to_vec());
    }
    Some(Read { target, headers })
}

impl Read {
    fn number(&self, name: &str) -> Option<u64> {
        std::str::from_utf8(self.headers.get(name)?).ok()?.parse().ok()
    }

    /// Asks as a proxy does. Returns the status for the client.
    fn ask(&self, service: SocketAddr) -> u16 {
        let mut head = b"GET /forward-auth HTTP/1.1\r\nHost: tollgate\r\nX-Forwarded-Method: GET\r\n\
                         X-Forwarded-Host: shop.example\r\nX-Forwarded-Uri: "
            .to_vec();
        head.extend_from_slice(&self.target);
        for name in ["x-forwarded-for", KEY] {
            if let Some(value) = self.headers.get(name) {
                head.extend_from_slice(format!("\r\n{name}: ").as_bytes());
                head.extend_from_slice(value);
            }
        }
        head.extend_from_slice(b"\r\n\r\n");
        Connection::open(service).ask(&head).status
    }

    fn arrive(self, arrivals: &Arrivals) {
        let wait = self.number(WAIT);
        let arrival =
            Arrival { at: micros(), key: self.headers.get(KEY).cloned(), target: self.target.clone() };
        if let Some(number) = self.number(NUMBER) {
            arrivals.lock().unwrap_or_else(PoisonError::into_inner).insert(number, arrival);
        }
        // Real time: the answer takes as long as the request says.
        thread::sleep(Duration::from_millis(wait.unwrap_or(0)));
    }
}
