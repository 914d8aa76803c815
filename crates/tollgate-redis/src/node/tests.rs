use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_testkit::servers::{Server, Software};

use super::Node;
use super::breaker::Breaker;
use super::connection::Connection;
use super::state::{Link, NodeState};
use crate::address::Address;
use crate::calls::Calls;
use crate::resp::{RespValue, command};
use crate::settings::Settings;
use crate::time::instant;
use crate::trouble::ConnectTrouble;

const SCRIPT: &str = "return redis.call('INCR', KEYS[1])";

/// What `SCRIPT LOAD` answers for it.
const SHA1: &str = "61636018f4e6b5817b89791bbed242f93fa089e3";

fn node(server: &Server, change: impl FnOnce(&mut Settings)) -> Arc<Node> {
    let mut settings = Settings::new(format!("redis://{}", server.address()).parse().unwrap());
    settings.connect_timeout = Duration::from_secs(60);
    change(&mut settings);
    let address = Address::Tcp("127.0.0.1".into(), server.address().port());
    Arc::new(Node::start(address, settings.check(&[SCRIPT]).unwrap()))
}

fn evalsha() -> Calls {
    Calls::of(&command("EVALSHA").arg(SHA1).arg("1").arg("counter"))
}

fn in_a_minute() -> crate::time::Instant {
    instant() + Duration::from_secs(60)
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_that_miss_the_script_load_it_once() {
    let server = Server::start(Software::Redis);
    let node = node(&server, |settings| settings.connections = 1);
    assert_eq!(node.call(&evalsha(), in_a_minute()).await, Ok(RespValue::Int(1)));
    server.command::<()>(["SCRIPT", "FLUSH"]);
    server.command::<()>(["CONFIG", "RESETSTAT"]);
    let mut calls = JoinSet::new();
    for _ in 0..500 {
        let node = node.clone();
        calls.spawn(async move { node.call(&evalsha(), in_a_minute()).await });
    }
    for answer in calls.join_all().await {
        assert!(matches!(answer, Ok(RespValue::Int(_))), "{answer:?}");
    }
    assert_eq!(server.command::<u64>(["GET", "counter"]), 501);
    let stats: String = server.command(["INFO", "commandstats"]);
    assert!(stats.contains("cmdstat_script|load:calls=1,"), "{stats}");
}

/// A reply that went to the next caller once made strangers see each other's data in a well-known service.
#[tokio::test(flavor = "multi_thread")]
async fn calls_that_are_given_up_hand_their_replies_to_nobody() {
    let server = Server::start(Software::Redis);
    let node = node(&server, |_| {});
    let mut callers = JoinSet::new();
    for caller in 0..20 {
        let node = node.clone();
        callers.spawn(async move {
            let (mut given_up, mut patience) = (0, Duration::from_millis(1));
            for call in 0..1_000 {
                let mine = format!("{caller}-{call}");
                let echo = Calls::of(&command("ECHO").arg(&mine));
                let answer = timeout(patience, node.call(&echo, in_a_minute())).await;
                // About as long as a reply takes, so that some come and some do not.
                patience =
                    if answer.is_ok() { patience / 2 } else { patience * 3 / 2 + Duration::from_micros(50) };
                match answer {
                    Ok(reply) => assert_eq!(reply, Ok(RespValue::Bulk(mine.into_bytes()))),
                    Err(_) => given_up += 1,
                }
            }
            given_up
        });
    }
    let given_up: u32 = callers.join_all().await.iter().sum();
    assert!((100..19_900).contains(&given_up), "{given_up} of 20,000 given up: the test tells nothing");
}

/// The task that keeps the connection was told before it was noted why it is closed, and could be the first to note
/// that it is gone, for no reason. Then calls waited for another one until their deadline, and were told in the end
/// that the server cannot be reached, be it that it had said that it is a replica.
#[tokio::test]
async fn why_a_connection_is_closed_is_known_when_its_keeper_hears_of_it() {
    struct Keeper {
        shared: Arc<NodeState>,
        heard: OnceLock<Option<ConnectTrouble>>,
    }

    impl Wake for Keeper {
        fn wake(self: Arc<Self>) {
            let _ = self.heard.set(self.shared.links.borrow().trouble.clone());
        }
    }

    let settings = Settings::new("redis://127.0.0.1".parse().unwrap());
    let address = Address::Tcp("127.0.0.1".into(), 6379);
    let shared = Arc::new(NodeState::new(address, settings.check(&[SCRIPT]).unwrap()));
    let breaker = Breaker::new(Duration::from_secs(10), instant(), Arc::default());
    let (connection, _pump) = Connection::new(tokio::io::empty(), breaker);
    let link = Arc::new(Link { connection, renew: Notify::new() });
    shared.open(link.clone());

    let keeper = Arc::new(Keeper { shared: shared.clone(), heard: OnceLock::new() });
    let mut renewed = pin!(link.renew.notified());
    assert!(renewed.as_mut().poll(&mut Context::from_waker(&Waker::from(keeper.clone()))).is_pending());
    shared.close(&link, Some(ConnectTrouble::Replica));
    assert_eq!(keeper.heard.get(), Some(&Some(ConnectTrouble::Replica)));
}
