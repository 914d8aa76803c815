//! A proxy's process.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use crate::support::folder::Folder;
use crate::support::until;

/// A proxy that is killed when it is dropped.
pub(crate) struct Proxy(Child);

/// The program that `cargo xtask` names.
pub(crate) fn program(variable: &str) -> OsString {
    std::env::var_os(variable).expect("`cargo xtask prove gateway` names the proxies")
}

impl Proxy {
    /// Starts it in this folder, and waits until it listens on all addresses.
    pub(crate) fn start(mut command: Command, folder: &Folder, addresses: &[SocketAddr]) -> Self {
        let log = folder.path("proxy.log");
        let stderr = File::create(&log).expect("a file");
        let stdout = stderr.try_clone().expect("a handle");
        let child = command
            .current_dir(folder.root())
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .expect("the proxy starts");
        let mut proxy = Self(child);
        until("the proxy listens", || {
            let ended = proxy.0.try_wait().expect("it is a child");
            assert!(ended.is_none(), "{}", fs::read_to_string(&log).unwrap_or_default());
            addresses.iter().all(|address| TcpStream::connect(address).is_ok())
        });
        proxy
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
