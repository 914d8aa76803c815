//! The fault proxy, before a server that gives back what it gets, and before a real one.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use tollgate_testkit::servers::{ByteDirection, ConnectionEnd, FaultProxy, Server, Software};

const MESSAGE: &[u8] = b"0123456789";

/// A server that gives back what it gets, and tells what each connection had brought when it ended.
fn echo() -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, tell) = (stream.unwrap(), tell.clone());
            thread::spawn(move || {
                let (mut got, mut buffer) = (Vec::new(), [0; 1024]);
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    got.extend_from_slice(&buffer[..length]);
                    // The proxy may have cut this way already.
                    let _ = stream.write_all(&buffer[..length]);
                }
                let _ = tell.send(got);
            });
        }
    });
    (address, told)
}

fn connect(proxy: &FaultProxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

fn ask(stream: &mut TcpStream) -> Vec<u8> {
    let mut reply = vec![0; MESSAGE.len()];
    stream.write_all(MESSAGE).unwrap();
    stream.read_exact(&mut reply).unwrap();
    reply
}

/// Reads to the end: what came, and how it ended.
fn read_out(stream: &mut TcpStream) -> (Vec<u8>, Result<(), ErrorKind>) {
    let mut got = Vec::new();
    let ended = stream.read_to_end(&mut got);
    (got, ended.map(|_| ()).map_err(|error| error.kind()))
}

fn has_nothing_to_read(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    // The other is what comes of a timeout if this process is stopped meanwhile.
    let kinds = [ErrorKind::WouldBlock, ErrorKind::Interrupted];
    let nothing = stream.read(&mut [0]).is_err_and(|error| kinds.contains(&error.kind()));
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    nothing
}

#[test]
fn without_faults_everything_passes_and_is_counted() {
    let (server, told) = echo();
    let proxy = FaultProxy::before(server);
    for connection in 1..=3 {
        let mut stream = connect(&proxy);
        assert_eq!(ask(&mut stream), MESSAGE);
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_out(&mut stream), (vec![], Ok(())));
        assert_eq!(told.recv().unwrap(), MESSAGE);
        for way in [ByteDirection::Request, ByteDirection::Reply] {
            assert_eq!((proxy.arrived(way), proxy.passed(way)), (10 * connection, 10 * connection));
        }
        assert_eq!(proxy.connections(), connection);
    }
}

#[test]
fn a_request_is_cut_at_the_exact_byte() {
    let (server, told) = echo();
    let proxy = FaultProxy::before(server);
    for ending in [ConnectionEnd::Close, ConnectionEnd::Reset] {
        for after in 0..=MESSAGE.len() {
            let mut stream = connect(&proxy);
            proxy.cut(ByteDirection::Request, after as u64, ending);
            stream.write_all(MESSAGE).unwrap();
            let expected =
                if ending == ConnectionEnd::Reset { Err(ErrorKind::ConnectionReset) } else { Ok(()) };
            assert_eq!(read_out(&mut stream).1, expected, "after {after}");
            assert_eq!(told.recv().unwrap(), &MESSAGE[..after]);
        }
    }
}

#[test]
fn a_reply_is_cut_at_the_exact_byte() {
    let (server, told) = echo();
    let proxy = FaultProxy::before(server);
    for ending in [ConnectionEnd::Close, ConnectionEnd::Reset] {
        for after in 0..=MESSAGE.len() {
            let mut stream = connect(&proxy);
            proxy.cut(ByteDirection::Reply, after as u64, ending);
            stream.write_all(MESSAGE).unwrap();
            let expected =
                if ending == ConnectionEnd::Reset { Err(ErrorKind::ConnectionReset) } else { Ok(()) };
            assert_eq!(read_out(&mut stream), (MESSAGE[..after].to_vec(), expected), "after {after}");
            assert_eq!(told.recv().unwrap(), MESSAGE);
        }
    }
}

#[test]
fn a_cut_ends_one_connection_and_leaves_the_others() {
    let (server, _told) = echo();
    let proxy = FaultProxy::before(server);
    let (mut first, mut second) = (connect(&proxy), connect(&proxy));
    assert_eq!(ask(&mut second), MESSAGE);
    proxy.cut(ByteDirection::Reply, 15, ConnectionEnd::Close);
    assert_eq!(ask(&mut first), MESSAGE);
    second.write_all(MESSAGE).unwrap();
    assert_eq!(read_out(&mut second), (MESSAGE[..5].to_vec(), Ok(())));
    assert_eq!(ask(&mut first), MESSAGE);
    assert_eq!(ask(&mut connect(&proxy)), MESSAGE);
}

#[test]
fn a_held_request_is_delivered_late_even_when_its_client_has_gone() {
    let (server, told) = echo();
    let proxy = FaultProxy::before(server);
    let mut stream = connect(&proxy);
    proxy.hold(ByteDirection::Request);
    stream.write_all(MESSAGE).unwrap();
    drop(stream);
    proxy.wait_until_arrived(ByteDirection::Request, 10);
    assert_eq!(told.recv_timeout(Duration::from_millis(100)), Err(mpsc::RecvTimeoutError::Timeout));
    assert_eq!(proxy.passed(ByteDirection::Request), 0);
    proxy.release(ByteDirection::Request);
    assert_eq!(told.recv().unwrap(), MESSAGE);
}

#[test]
fn a_held_reply_is_delivered_late() {
    let (server, _told) = echo();
    let proxy = FaultProxy::before(server);
    let mut stream = connect(&proxy);
    proxy.hold(ByteDirection::Reply);
    stream.write_all(MESSAGE).unwrap();
    proxy.wait_until_arrived(ByteDirection::Reply, 10);
    assert!(has_nothing_to_read(&mut stream));
    proxy.release(ByteDirection::Reply);
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply, MESSAGE);
}

#[test]
fn delays_do_not_add_up() {
    let (server, _told) = echo();
    let proxy = FaultProxy::before(server);
    let mut stream = connect(&proxy);
    proxy.delay(ByteDirection::Request, Duration::from_secs(1));
    let mut took = || {
        let watch = Stopwatch::start();
        // Ten pieces, each of which comes while the ones before it wait.
        for byte in MESSAGE {
            stream.write_all(&[*byte]).unwrap();
            thread::sleep(Duration::from_millis(5));
        }
        let mut reply = [0; 10];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply, MESSAGE);
        watch.millis()
    };
    // Delays that add up never take less than ten seconds; a machine that stands still may take that once.
    let prompt = (0..5).map(|_| took()).find(|took| *took < 9000);
    assert!(prompt.is_some_and(|took| took >= 1045), "ten pieces that are a second late took {prompt:?} ms");
}

#[test]
fn a_throttled_way_takes_its_time() {
    let (server, _told) = echo();
    let proxy = FaultProxy::before(server);
    let mut stream = connect(&proxy);
    proxy.throttle(ByteDirection::Reply, 50);
    let watch = Stopwatch::start();
    assert_eq!(ask(&mut stream), MESSAGE);
    // The last byte does not wait for its own share to be over.
    assert!(watch.millis() >= 180, "{} ms", watch.millis());
}

#[test]
fn all_connections_are_severed_at_once_and_new_ones_pass() {
    let (server, _told) = echo();
    let proxy = FaultProxy::before(server);
    for (ending, expected) in
        [(ConnectionEnd::Reset, Err(ErrorKind::ConnectionReset)), (ConnectionEnd::Close, Ok(()))]
    {
        let mut streams = [connect(&proxy), connect(&proxy)];
        for stream in &mut streams {
            assert_eq!(ask(stream), MESSAGE);
        }
        proxy.sever(ending);
        for stream in &mut streams {
            assert_eq!(read_out(stream), (vec![], expected));
        }
        assert_eq!(ask(&mut connect(&proxy)), MESSAGE);
    }
}

#[test]
fn refuses_connections_until_it_is_healed_and_keeps_those_it_has() {
    let (server, _told) = echo();
    let proxy = FaultProxy::before(server);
    let mut open = connect(&proxy);
    assert_eq!(ask(&mut open), MESSAGE);
    proxy.refuse();
    assert_eq!(TcpStream::connect(proxy.address()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(ask(&mut open), MESSAGE);
    proxy.heal();
    assert_eq!(ask(&mut connect(&proxy)), MESSAGE);
}

#[test]
fn new_connections_lead_elsewhere_and_open_ones_stay() {
    let ((server, _told), (other, told_other)) = (echo(), echo());
    let proxy = FaultProxy::before(server);
    let mut open = connect(&proxy);
    assert_eq!(ask(&mut open), MESSAGE);
    proxy.lead_to(other);
    let mut new = connect(&proxy);
    assert_eq!(ask(&mut new), MESSAGE);
    new.shutdown(Shutdown::Write).unwrap();
    assert_eq!(told_other.recv().unwrap(), MESSAGE);
    assert_eq!(ask(&mut open), MESSAGE);
}

#[test]
fn a_client_is_reset_while_the_server_is_away() {
    let server = Server::start(Software::Redis);
    let proxy = FaultProxy::before(server.address());
    server.kill();
    assert_eq!(read_out(&mut connect(&proxy)), (vec![], Err(ErrorKind::ConnectionReset)));
}

#[test]
fn a_real_server_counts_a_charge_whose_reply_was_cut() {
    for software in Software::ALL {
        let server = Server::start(software);
        let proxy = FaultProxy::before(server.address());
        let incr = b"INCR counter\r\n";
        for (way, after) in [
            (ByteDirection::Request, incr.len() - 1),
            (ByteDirection::Request, incr.len()),
            (ByteDirection::Reply, 0),
        ] {
            proxy.cut(way, after as u64, ConnectionEnd::Reset);
            let mut stream = connect(&proxy);
            stream.write_all(incr).unwrap();
            assert_eq!(read_out(&mut stream), (vec![], Err(ErrorKind::ConnectionReset)));
        }
        // The server may have read its request only after the client was reset.
        let counted = || server.command::<u64>(["GET", "counter"]);
        let watch = Stopwatch::start();
        while counted() < 2 && watch.millis() < 10_000 {}
        assert_eq!(counted(), 2, "the request that was cut short does not count");
    }
}

struct Stopwatch(std::time::Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "how long bytes take is no time of a store")]
    fn start() -> Self {
        Self(std::time::Instant::now())
    }

    #[expect(clippy::disallowed_methods, reason = "how long bytes take is no time of a store")]
    fn millis(&self) -> u128 {
        self.0.elapsed().as_millis()
    }
}
