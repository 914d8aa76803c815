//! The start of a TLS connection: a handshake within a time limit, and the handling of those that fail.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, warn};

use crate::access::peer::ConnectionPeer;
use crate::metrics::Handshakes;
use crate::net::drain::Phase;
use crate::observe::log_gap::LogGap;
use crate::tls::{Alpn, HandshakeFailure, Security, ServerTls, certificate_names};

/// The same as for the head of a request.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// The limit for a handshake that is unfinished when the drain begins: its client has sent no request yet.
const DRAIN_TIME_LIMIT: Duration = Duration::from_secs(1);

/// The pause in the log after a line about failed handshakes.
const LOG_GAP: Duration = Duration::from_secs(60);

/// The first byte of a TLS connection: a handshake record.
const HANDSHAKE: u8 = 22;

/// The answer to clients that speak HTTP where TLS is expected.
const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: application/problem+json\r\n\
    Content-Length: 99\r\n\
    Connection: close\r\n\r\n\
    {\"title\":\"Bad Request\",\"status\":400,\"detail\":\"this listener speaks TLS: ask it with https:// URLs\"}";

/// The TLS of one listener.
pub(crate) struct ListenerTls {
    server: Arc<ServerTls>,
    security: Security,
    alpn: Alpn,
    handshakes: Handshakes,
    failure_logged: LogGap,
}

/// A failed handshake.
struct FailedHandshake {
    reason: HandshakeFailure,
    error: io::Error,
    /// The connection, if it is still open.
    open_stream: Option<TcpStream>,
}

impl ListenerTls {
    pub(crate) fn new(
        server: Arc<ServerTls>,
        security: Security,
        alpn: Alpn,
        handshakes: Handshakes,
    ) -> Self {
        Self { server, security, alpn, handshakes, failure_logged: LogGap::default() }
    }

    /// Performs the handshake. Returns the stream and its peer, named by the client's certificate; `None` if it fails.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        phase: &Phase,
    ) -> Option<(Box<TlsStream<TcpStream>>, ConnectionPeer)> {
        let time_is_up = async {
            tokio::select! {
                () = tokio::time::sleep(TIME_LIMIT) => {}
                () = phase.draining() => tokio::time::sleep(DRAIN_TIME_LIMIT).await,
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = self.handshake(stream) => outcome,
            () = time_is_up => Err(FailedHandshake::new(HandshakeFailure::Timeout, io::ErrorKind::TimedOut.into(), None)),
        };
        match outcome {
            Ok(stream) => {
                let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                let names = shown.map(certificate_names).unwrap_or_default().into();
                Some((Box::new(stream), ConnectionPeer { names, ..ConnectionPeer::default() }))
            }
            Err(FailedHandshake { reason, error, open_stream }) => {
                self.note(reason, &error);
                if let Some(stream) = open_stream.filter(|_| reason != HandshakeFailure::Gone) {
                    part(stream).await;
                }
                None
            }
        }
    }

    async fn handshake(&self, mut stream: TcpStream) -> Result<TlsStream<TcpStream>, FailedHandshake> {
        let mut first = [0];
        match stream.peek(&mut first).await {
            Ok(1) if first != [HANDSHAKE] => {
                // Clients of other protocols would not understand the answer.
                if first[0].is_ascii_uppercase() {
                    let _ = stream.write_all(PLAIN_HTTP).await;
                }
                let error = io::Error::new(io::ErrorKind::InvalidData, "this is not TLS");
                Err(FailedHandshake::new(HandshakeFailure::Plain, error, Some(stream)))
            }
            Ok(_) => {
                let config = self.server.config(self.security, self.alpn);
                let handshake = TlsAcceptor::from(config).accept(stream);
                let failed =
                    |(error, stream)| FailedHandshake::new(HandshakeFailure::of(&error), error, Some(stream));
                handshake.into_fallible().await.map_err(failed)
            }
            Err(error) => Err(FailedHandshake::new(HandshakeFailure::Gone, error, None)),
        }
    }

    fn note(&self, reason: HandshakeFailure, error: &io::Error) {
        self.handshakes.failed(reason);
        let (listener, is_gone) = (self.handshakes.listener(), reason == HandshakeFailure::Gone);
        let reason = reason.name();
        debug!(listener, reason, %error, "handshake failed");
        if !is_gone && self.failure_logged.passes(LOG_GAP) {
            warn!(listener, reason, %error, "a TLS handshake failed; failures are logged at most once a minute, but all are counted");
        }
    }
}

/// Closes the connection once the client has read why. The system would reset it immediately if it contained unread
/// bytes.
async fn part(mut stream: TcpStream) {
    const TIME_LIMIT: Duration = Duration::from_secs(1);
    const MAX_BYTES: u64 = 64 * 1024;
    let _ = stream.shutdown().await;
    let mut rest = stream.take(MAX_BYTES);
    let _ = tokio::time::timeout(TIME_LIMIT, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
}

impl FailedHandshake {
    fn new(reason: HandshakeFailure, error: io::Error, open_stream: Option<TcpStream>) -> Self {
        Self { reason, error, open_stream }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_plain_http_is_whole() {
        let text = std::str::from_utf8(PLAIN_HTTP).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{}", body.len());
        assert!(serde_json::from_str::<serde_json::Value>(body).is_ok());
    }
}
