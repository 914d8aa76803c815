//! `cargo run --package tollgate --example http_client`: a client that stays under a remote's limit and gets no 429.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tollgate::{Limiter, Waiters};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let remote = listener.local_addr()?;
    tokio::spawn(serve(listener));

    // The remote allows six requests a second, but does not say when its seconds begin. Any second meets at most two of
    // our windows, so half of the limit is always safe.
    let limiter = Limiter::new("3/1s".parse()?);
    let waiters = Arc::new(Waiters::new(limiter, tokio::time::sleep).max_waiters(100));

    let mut requests = JoinSet::new();
    for number in 1..=12 {
        let waiters = Arc::clone(&waiters);
        requests.spawn(async move {
            // The key is the remote: each would have a limit of its own.
            let decision = waiters.until_allowed(remote.ip()).await?;
            let second = decision.state().now().as_unix_millis() / 1_000 % 60;
            let status = get(remote).await?;
            Ok::<_, Box<dyn Error + Send + Sync>>(format!("second {second}: request {number}: {status}"))
        });
    }
    while let Some(request) = requests.join_next().await {
        println!("{}", request??);
    }
    Ok(())
}

/// Sends a request and returns the status line.
async fn get(remote: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(remote).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: remote\r\nconnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}

/// The remote: six requests a second, and 429 for more.
async fn serve(listener: TcpListener) -> io::Result<()> {
    let limiter = Limiter::new("6/1s@first_hit".parse().map_err(io::Error::other)?);
    loop {
        let (stream, client) = listener.accept().await?;
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        // Up to the empty line that ends the head of the request.
        while stream.read_line(&mut line).await? > 2 {
            line.clear();
        }
        let decision = limiter.check(client.ip()).map_err(io::Error::other)?;
        let status = if decision.is_allowed() { "200 OK" } else { "429 Too Many Requests" };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        stream.write_all(answer.as_bytes()).await?;
    }
}
