//! Servers that refuse the keys of a batch together, and take some of them alone.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tollgate::{Charge, Key, PolicyQuota, Quota};
use tollgate_redis::{KeyIdentity, RedisError, RedisStore};
use tollgate_testkit::StoreSteps;
use tollgate_testkit::servers::{Server, Settings, Software, cluster_of_one};

use crate::support::{builder, patient_builder, trouble, until};

/// Charges a unit of each quota and key, in one batch: no task of the runtime's only thread runs before all are in it.
async fn charge_together(
    store: &RedisStore,
    asked: &[(&PolicyQuota, String)],
) -> Vec<Result<u64, RedisError>> {
    let keys: Vec<Key<'_>> = asked.iter().map(|(_, key)| Key::from(key.as_str())).collect();
    let charges: Vec<_> =
        asked.iter().zip(&keys).map(|((quota, _), key)| [Charge::new(quota, key, 1)]).collect();
    let requests: Vec<&[Charge<'_>]> = charges.iter().map(|charge| &charge[..]).collect();
    let answers = store.charge_each(&requests).await.into_iter();
    answers.map(|answer| answer.map(|counted| counted[0].used()).map_err(trouble)).collect()
}

/// The user had no right to one policy's keys, and every request that came in one batch with one of that policy was
/// denied access as well.
#[tokio::test]
async fn a_key_that_the_user_may_not_touch_fails_its_own_request_alone() {
    for software in Software::ALL {
        let rights = "~tollgate:1:login:* +@read +@write +evalsha +script|load +time";
        let server = Settings::new(software).user("counter", "s3cret", rights).start();
        let url = format!("redis://counter:s3cret@{}", server.address());
        let store = patient_builder(&url).build().unwrap();
        let [login, search] = ["login", "search"].map(|name| PolicyQuota::new(name, Quota::per_day(9)));
        let users = ["alice", "bob", "carol"].map(str::to_owned);
        let asked: Vec<_> =
            users.into_iter().flat_map(|user| [(&login, user.clone()), (&search, user)]).collect();
        for (place, answer) in charge_together(&store, &asked).await.into_iter().enumerate() {
            let expected = if place % 2 == 0 { Ok(1) } else { Err(RedisError::AccessDenied) };
            assert_eq!(answer, expected, "{place}");
        }
    }
}

/// A service that shards keys behind a proxy looks like one server and refuses a call for keys of two slots. Every
/// request of a batch was told that it can never be counted, although each had a single key.
#[tokio::test]
async fn keys_that_a_server_does_not_take_together_are_charged_one_by_one() {
    let server = cluster_of_one(Software::Redis);
    let shards = Proxy::before(server.address(), Doing::Shard).await;
    let store = patient_builder(&format!("redis://{}", shards.address)).build().unwrap();
    let quota = PolicyQuota::new("test", Quota::per_day(9));
    let asked: Vec<_> = (0..40).map(|user| (&quota, format!("user-{}", user % 20))).collect();
    let mut answers = charge_together(&store, &asked).await;
    answers.sort_unstable_by_key(|answer| *answer.as_ref().unwrap());
    assert_eq!(answers, [[Ok(1); 20], [Ok(2); 20]].concat());
}

/// Gives the server a user who may charge the keys of Bob alone.
fn for_bob(server: Server) -> Server {
    let rights = [
        "resetkeys",
        "~*{bob}*",
        "+@read",
        "+@write",
        "+evalsha",
        "+script|load",
        "+time",
        "+cluster|slots",
        "+asking",
    ];
    server.command::<()>(["ACL", "SETUSER", "counter", "on", ">s3cret"].into_iter().chain(rights));
    server
}

/// A call of a slot that was refused was looked at again only after the replies to all other calls of its batch. Its
/// callers waited for the slowest slot of a server.
#[tokio::test]
async fn callers_of_a_refused_call_do_not_wait_for_the_rest_of_its_batch() {
    let node = for_bob(cluster_of_one(Software::Redis));
    let proxy = Proxy::before(node.address(), Doing::Hold).await;
    node.command::<()>(["CONFIG", "SET", "cluster-announce-port", &proxy.address.port().to_string()]);
    let slot = |key: &str| node.command::<u16>(["CLUSTER", "KEYSLOT", key]);
    // The calls of a batch go in the order of slots.
    let refused = ["alice", "carol", "dave", "erin"].into_iter().find(|key| slot(key) < slot("bob")).unwrap();
    let url = format!("redis+cluster://counter:s3cret@{}", proxy.address);
    let store = patient_builder(&url).identity(KeyIdentity::Plain).build().unwrap();
    until("a connection", async || store.status().is_connected().then_some(())).await;
    proxy.hold_counts();
    let quota = PolicyQuota::new("test", Quota::per_day(9));
    let [refused, bob] = [refused, "bob"].map(Key::from);
    let charge = async |key| store.charge(&[Charge::new(&quota, key, 1)]).await.map_err(trouble);
    // The first two go alone, the next two together.
    let (_, _, refused, bob, _) = tokio::join!(
        charge(&refused),
        charge(&refused),
        async {
            let answer = charge(&refused).await;
            proxy.release();
            answer
        },
        charge(&bob),
        charge(&refused),
    );
    assert_eq!(refused.unwrap_err(), RedisError::AccessDenied);
    assert_eq!(bob.unwrap()[0].used(), 1);
}

/// A call that was made apart from its batch no longer counted as in flight once its callers were told that it took too
/// long, although the server still had it.
#[tokio::test]
async fn a_call_made_apart_stays_under_way_until_it_is_answered() {
    // Shorter than what a server is given to answer at all, so that it keeps its connection.
    const DEADLINE: Duration = Duration::from_millis(30);
    let quota = PolicyQuota::new("test", Quota::per_day(9));
    let stays_under_way = async || {
        let server = for_bob(Server::start(Software::Redis));
        let proxy = Proxy::before(server.address(), Doing::Hold).await;
        let store = builder(&format!("redis://counter:s3cret@{}", proxy.address))
            .identity(KeyIdentity::Plain)
            .deadline(DEADLINE)
            .counters_in_flight(2)
            .build()
            .unwrap();
        until("a connection", async || store.status().is_connected().then_some(())).await;
        proxy.hold_counts();
        // The first two go together, and leave no room for the third.
        let asked = ["alice", "bob", "bob"].map(|key| (&quota, key.to_owned()));
        let together = charge_together(&store, &asked).await;
        let next = charge_together(&store, &[(&quota, "bob".to_owned())]).await;
        let expected = [RedisError::AccessDenied, RedisError::TimedOut, RedisError::Overloaded].map(Err);
        // Again if this machine stood still until the deadline of the first two.
        (together == expected && next == [Err(RedisError::Overloaded)]).then_some(())
    };
    until("a charge that waits behind one that is made apart", stays_under_way).await;
}

/// What a proxy does to replies.
#[derive(Clone, Copy)]
enum Doing {
    /// Says of a Cluster's server that it is a single one, as a service does that has shards behind a proxy.
    Shard,
    /// Lets refusals pass at once, and all else when it is not held.
    Hold,
}

/// What stands before a server, and does something to its replies.
struct Proxy {
    address: SocketAddr,
    is_held: Arc<watch::Sender<bool>>,
}

impl Proxy {
    async fn before(server: SocketAddr, doing: Doing) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self { address: listener.local_addr().unwrap(), is_held: Arc::default() };
        let is_held = Arc::clone(&proxy.is_held);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(Self::carry(client, server, doing, is_held.subscribe()));
            }
        });
        proxy
    }

    /// Keeps the next reply that is no refusal, and all behind it on the same connection.
    fn hold_counts(&self) {
        self.is_held.send_replace(true);
    }

    fn release(&self) {
        self.is_held.send_replace(false);
    }

    async fn carry(
        mut client: TcpStream,
        server: SocketAddr,
        doing: Doing,
        mut is_held: watch::Receiver<bool>,
    ) {
        let Ok(mut server) = TcpStream::connect(server).await else { return };
        let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
            (client.split(), server.split());
        let replies = async {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
                let mut reply = &buffer[..length];
                let single;
                match doing {
                    Doing::Shard => {
                        single = as_single(reply);
                        reply = &single;
                    }
                    Doing::Hold => {
                        let refusals: usize =
                            lines(reply).take_while(|line| line.starts_with(b"-")).map(<[u8]>::len).sum();
                        let (first, rest) = reply.split_at(refusals);
                        to_client.write_all(first).await.unwrap();
                        reply = rest;
                        if !rest.is_empty() {
                            is_held.wait_for(|is_held| !is_held).await.unwrap();
                        }
                    }
                }
                if to_client.write_all(reply).await.is_err() {
                    break;
                }
            }
        };
        tokio::select! {
            _ = copy(&mut from_client, &mut to_server) => {}
            () = replies => {}
        }
    }
}

fn lines(reply: &[u8]) -> impl Iterator<Item = &[u8]> {
    reply.split_inclusive(|byte| *byte == b'\n')
}

/// The greeting, which comes alone, without the mode of the server behind it. Other replies as they are.
fn as_single(reply: &[u8]) -> Vec<u8> {
    let (mode, single) =
        (&b"$4\r\nmode\r\n$7\r\ncluster\r\n"[..], &b"$4\r\nmode\r\n$10\r\nstandalone\r\n"[..]);
    match reply.windows(mode.len()).position(|window| window == mode) {
        Some(at) => [&reply[..at], single, &reply[at + mode.len()..]].concat(),
        None => reply.to_vec(),
    }
}
