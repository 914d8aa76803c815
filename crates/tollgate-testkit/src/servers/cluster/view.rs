//! A cluster as one of its nodes sees it.

/// One line of `CLUSTER NODES`.
#[derive(Debug)]
pub(super) struct NodeLine {
    pub(super) id: String,
    pub(super) port: u16,
    pub(super) failed: bool,
    pub(super) linked: bool,
    pub(super) primary: Option<String>,
    /// First and last of each range.
    slots: Vec<(u16, u16)>,
}

impl NodeLine {
    /// From `id ip:port@bus flags primary ping pong epoch link slots...`.
    pub(super) fn parse(line: &str) -> Self {
        let words: Vec<_> = line.split(' ').collect();
        let [id, address, flags, primary, _, _, _, link, slots @ ..] = words.as_slice() else {
            panic!("not a line of CLUSTER NODES: {line}");
        };
        let port = address.split('@').next().and_then(|address| address.rsplit(':').next());
        // What is in brackets is being moved.
        let slots = slots.iter().filter(|slots| !slots.starts_with('[')).map(|slots| {
            let (first, last) = slots.split_once('-').unwrap_or((slots, slots));
            (first.parse().expect("a slot"), last.parse().expect("a slot"))
        });
        Self {
            id: (*id).to_owned(),
            port: port.and_then(|port| port.parse().ok()).expect("an address with a port"),
            failed: flags.split(',').any(|flag| flag == "fail" || flag == "fail?"),
            linked: *link == "connected" && !flags.contains("handshake"),
            primary: Some((*primary).to_owned()).filter(|primary| primary != "-"),
            slots: slots.collect(),
        }
    }

    pub(super) fn serves(&self, slot: u16) -> bool {
        self.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }
}
