//! Where the examples listen: on this machine, on port 3000 or the one that the variable `PORT` says.

use std::env;

use tokio::net::TcpListener;

/// Listens there.
///
/// # Errors
///
/// If that is no port, or cannot be listened on; it says how to take another.
pub(crate) async fn here() -> Result<TcpListener, String> {
    let port = env::var("PORT").unwrap_or_else(|_| "3000".to_owned());
    let address = format!("127.0.0.1:{port}");
    let listener = TcpListener::bind(&address).await;
    listener.map_err(|error| format!("cannot listen on {address}: {error}; PORT=3001 takes another port"))
}
