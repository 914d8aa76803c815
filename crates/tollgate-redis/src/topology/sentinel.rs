//! One primary at a time, which sentinels name.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value, cmd, from_redis_value};
use tokio::time::Instant;

use super::finder::{Find, Finder};
use super::status::ServerStatus;
use crate::node::{Address, Node, Peer, ask_once};
use crate::settings::Checked;
use crate::trouble::{Trouble, Unconnected};

/// One primary at a time, which sentinels name.
///
/// That a server is the primary is not taken from the sentinels: it has to say so itself whenever it is connected
/// to.
pub(crate) struct Sentinel {
    name: Box<str>,
    finder: Finder<Arc<Node>>,
}

struct Search {
    sentinels: Vec<Address>,
    question: Cmd,
    checked: Arc<Checked>,
    /// The primary that was named last.
    last: std::sync::Mutex<Option<Arc<Node>>>,
}

impl Sentinel {
    pub(super) fn start(sentinels: Vec<Address>, name: Box<str>, checked: Arc<Checked>) -> Self {
        let question = cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&*name).take();
        let search = Search { sentinels, question, checked, last: std::sync::Mutex::default() };
        Self { name, finder: Finder::start(Arc::new(search)) }
    }

    pub(super) async fn primary(&self, deadline: Instant) -> Result<Arc<Node>, Trouble> {
        self.finder.found(deadline).await
    }

    /// The primary, if one is known by now.
    pub(super) fn primary_already(&self) -> Option<Arc<Node>> {
        self.finder.found_already()
    }

    /// The primary, if it is another than was asked. Waits for the sentinels if there is patience.
    pub(super) async fn resolve(&self, asked: &Arc<Node>, patience: Option<Instant>) -> Option<Arc<Node>> {
        let primary = match patience {
            Some(deadline) => self.finder.found_anew(deadline).await,
            None => {
                self.finder.look_again();
                self.finder.found_already()
            }
        };
        primary.filter(|primary| !Arc::ptr_eq(primary, asked))
    }

    pub(super) fn status(&self) -> ServerStatus {
        match (self.finder.found_already(), self.finder.trouble()) {
            (Some(primary), _) => ServerStatus::of(&primary),
            (None, trouble) => ServerStatus::unknown(&self.name, &trouble.unwrap_or(Unconnected::Untried)),
        }
    }
}

impl Find for Search {
    type Found = Arc<Node>;

    /// A primary that was cut off from the others, and from the sentinels, goes on taking writes that will be
    /// lost. Asking this often bounds how long we go on sending them.
    const KEEPS: Duration = Duration::from_secs(1);

    async fn find(&self) -> Result<Arc<Node>, Unconnected> {
        let mut sentinels: Vec<_> = self.sentinels.iter().collect();
        fastrand::shuffle(&mut sentinels);
        let mut trouble = Unconnected::NoPrimary;
        for sentinel in sentinels {
            let of_sentinel = |other| Unconnected::OfSentinel(sentinel.clone(), Box::new(other));
            match ask_once(sentinel, Peer::Sentinel, &self.checked, &self.question).await {
                Ok(Value::Nil) => trouble = Unconnected::NoPrimary,
                Ok(told) => match address(sentinel, told) {
                    Some(primary) => return Ok(self.node(primary)),
                    None => trouble = of_sentinel(Unconnected::Unfit("a sentinel names no address")),
                },
                Err(other) => trouble = of_sentinel(other),
            }
        }
        Err(trouble)
    }
}

impl Search {
    /// The node there is already if it is still the primary.
    fn node(&self, primary: Address) -> Arc<Node> {
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &*last {
            Some(node) if *node.address() == primary => node.clone(),
            _ => last.insert(Arc::new(Node::start(primary, self.checked.clone()))).clone(),
        }
    }
}

fn address(sentinel: &Address, told: Value) -> Option<Address> {
    let (host, port): (String, u16) = from_redis_value(told).ok()?;
    sentinel.at(&host, port)
}
