//! The configurations in the manual's pages about proxies.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

/// The addresses in the page stand for these.
#[derive(Clone, Copy)]
pub(crate) struct Addresses {
    pub(crate) proxy: SocketAddr,
    pub(crate) tollgate: SocketAddr,
    pub(crate) upstream: SocketAddr,
}

/// The block of this page that begins with the name of this file, with other ports.
pub(crate) fn file(page: &str, name: &str, addresses: Addresses) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let page = fs::read_to_string(page).expect("the page is there");
    let names = [format!("# {name}\n"), format!("-- {name}\n")];
    let blocks = page.split("\n```").filter_map(|block| Some(block.split_once('\n')?.1));
    let block = blocks.filter(|block| names.iter().any(|name| block.starts_with(name))).collect::<Vec<_>>();
    let [block] = block[..] else { panic!("{} blocks of {name}", block.len()) };
    let Addresses { proxy, tollgate, upstream } = addresses;
    let ports = [("8000", proxy), ("8080", tollgate), ("8081", tollgate), ("3000", upstream)];
    let text = ports.iter().fold(block.to_owned(), |text, (port, address)| {
        let (url, yaml) = (format!(":{port}"), format!(": {port}"));
        text.replace(&url, &format!(":{}", address.port())).replace(&yaml, &format!(": {}", address.port()))
    });
    text + "\n"
}
