//! One server: its addresses, its data, its end.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::panic;
use std::path::Path;
use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tollgate_testkit::servers::{ClientCertificates, Data, Persistence, Server, Settings, Software};

fn set(server: &Server) {
    server.command::<()>(["SET", "colour", "blue"]);
}

fn get(server: &Server) -> Option<String> {
    server.command(["GET", "colour"])
}

/// What a stranger's PING is answered with.
fn ping(server: &Server) -> std::io::Result<String> {
    ping_within(server, Duration::from_secs(60))
}

fn ping_within(server: &Server, limit: Duration) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(server.address())?;
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(b"PING\r\n")?;
    let mut reply = [0; 64];
    loop {
        match stream.read(&mut reply) {
            // This process was stopped meanwhile: whatever has a timeout fails then.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            read => return Ok(String::from_utf8_lossy(&reply[..read?]).into_owned()),
        }
    }
}

#[test]
fn each_software_answers_on_its_port_and_is_what_it_says() {
    for (software, field) in [(Software::Redis, "redis_version:"), (Software::Valkey, "valkey_version:")] {
        let server = Server::start(software);
        assert_eq!(ping(&server).unwrap(), "+PONG\r\n");
        let info: String = server.command(["INFO", "server"]);
        assert!(info.contains(field), "{info}");
    }
}

#[test]
fn a_kept_restart_has_what_was_acknowledged() {
    for software in Software::ALL {
        let server = Settings::new(software).persistence(Persistence::EveryWrite).start();
        set(&server);
        let address = server.address();
        server.restart(Data::Kept);
        assert_eq!(get(&server).as_deref(), Some("blue"));
        assert_eq!(server.address(), address);
        assert_eq!(ping(&server).unwrap(), "+PONG\r\n");
    }
}

#[test]
fn a_lost_restart_has_nothing() {
    for software in Software::ALL {
        let server = Settings::new(software).persistence(Persistence::EveryWrite).start();
        set(&server);
        server.restart(Data::Lost);
        assert_eq!(get(&server), None);
    }
}

#[test]
#[should_panic(expected = "a server without persistence keeps nothing")]
fn nothing_is_kept_without_persistence() {
    Server::start(Software::Redis).restart(Data::Kept);
}

#[test]
fn a_killed_server_refuses_connections() {
    let server = Server::start(Software::Redis);
    server.kill();
    assert_eq!(ping(&server).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_paused_server_takes_bytes_and_answers_when_it_is_resumed() {
    let server = Server::start(Software::Redis);
    server.pause();
    let unanswered = ping_within(&server, Duration::from_millis(100)).unwrap_err();
    assert_eq!(unanswered.kind(), std::io::ErrorKind::WouldBlock);
    server.resume();
    assert_eq!(ping(&server).unwrap(), "+PONG\r\n");
}

#[test]
fn a_server_and_its_folder_are_gone_when_a_test_panics_even_when_it_is_paused() {
    for pause in [|_: &Server| {}, Server::pause] {
        let mut left = None;
        let panicked = panic::catch_unwind(panic::AssertUnwindSafe(|| {
            let server = Server::start(Software::Redis);
            left = Some((TcpStream::connect(server.address()).unwrap(), server.socket()));
            pause(&server);
            panic!("a test that fails");
        }));
        assert!(panicked.is_err());
        let (mut stream, socket) = left.unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let read = stream.read(&mut [0]);
        let is_over = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(
            read.as_ref().map_or_else(is_over, |&read| read == 0),
            "somebody is at the other end: {read:?}"
        );
        assert!(!Path::exists(socket.parent().unwrap()));
    }
}

#[test]
fn a_port_that_somebody_took_meanwhile_is_named() {
    for software in Software::ALL {
        let server = Server::start(software);
        server.kill();
        let _taker = TcpListener::bind(server.address()).unwrap();
        let panicked = panic::catch_unwind(panic::AssertUnwindSafe(|| server.start_again(Data::Lost)));
        let message = *panicked.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(message, format!("somebody took the port {} while nobody listened", server.address()));
    }
}

#[test]
fn users_have_the_rights_they_were_given() {
    let server = Settings::new(Software::Redis)
        .password("general")
        .user("counter", "secret", "~counters:* +set")
        .start();
    assert!(ping(&server).unwrap().starts_with("-NOAUTH"));
    let mut connection = server.connection();
    redis::cmd("AUTH").arg("counter").arg("secret").exec(&mut connection).unwrap();
    redis::cmd("SET").arg("counters:1").arg(1).exec(&mut connection).unwrap();
    let denied = redis::cmd("SET").arg("other").arg(1).exec(&mut connection).unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Server(ServerErrorKind::NoPerm));
    // The default user needs the password that was set.
    redis::cmd("AUTH").arg("general").exec(&mut connection).unwrap();
}

#[test]
fn lines_of_configuration_are_in_force() {
    let server = Settings::new(Software::Redis).config("maxmemory", "12mb").start();
    let values: Vec<String> = server.command(["CONFIG", "GET", "maxmemory"]);
    assert_eq!(values, ["maxmemory", "12582912"]);
}

#[test]
#[should_panic(expected = "Bad directive")]
fn a_server_that_cannot_start_says_why() {
    let _ = Settings::new(Software::Redis).config("no-such-setting", "1").start();
}

#[test]
fn an_error_reply_is_an_error() {
    let server = Server::start(Software::Redis);
    set(&server);
    let error: RedisError = server.try_command::<u64>(["INCR", "colour"]).unwrap_err();
    assert!(error.to_string().contains("not an integer"), "{error}");
}

#[test]
fn tls_is_spoken_with_certificates_of_the_tests_authority() {
    for (software, clients, has_certificate, admitted) in [
        (Software::Redis, ClientCertificates::Ignored, false, true),
        (Software::Redis, ClientCertificates::Required, false, false),
        (Software::Redis, ClientCertificates::Required, true, true),
        (Software::Valkey, ClientCertificates::Required, true, true),
    ] {
        let server = Settings::new(software).tls(clients).start();
        let reply = ping_over_tls(&server, has_certificate);
        assert_eq!(reply.is_ok(), admitted, "{clients:?}: {reply:?}");
    }
}

fn ping_over_tls(server: &Server, with_certificate: bool) -> redis::RedisResult<String> {
    use redis::{Client, ClientTlsConfig, TlsCertificates};
    use std::fs;

    // Others may have been faster.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let certificates = server.certificates();
    let client_tls = with_certificate.then(|| ClientTlsConfig {
        client_cert: fs::read(&certificates.client.certificate).unwrap(),
        client_key: fs::read(&certificates.client.key).unwrap(),
    });
    let root_cert = Some(fs::read(&certificates.authority).unwrap());
    let url = format!("rediss://{}", server.tls_address());
    let client = Client::build_with_tls(url, TlsCertificates { client_tls, root_cert })?;
    redis::cmd("PING").query(&mut client.get_connection_with_timeout(Duration::from_secs(60))?)
}
