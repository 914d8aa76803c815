//! Servers that refuse the keys of a batch together, and take some of them alone.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tollgate::{Charge, Key, PolicyQuota, Quota};
use tollgate_redis::{RedisError, RedisStore};
use tollgate_testkit::StoreSteps;
use tollgate_testkit::servers::{Settings, Software, cluster_of_one};

use crate::support::{patient_builder, trouble};

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
    let shards = ShardingProxy::before(server.address()).await;
    let store = patient_builder(&format!("redis://{}", shards.address)).build().unwrap();
    let quota = PolicyQuota::new("test", Quota::per_day(9));
    let asked: Vec<_> = (0..40).map(|user| (&quota, format!("user-{}", user % 20))).collect();
    let mut answers = charge_together(&store, &asked).await;
    answers.sort_unstable_by_key(|answer| *answer.as_ref().unwrap());
    assert_eq!(answers, [[Ok(1); 20], [Ok(2); 20]].concat());
}

/// What stands before the shards of such a service: it says of itself that it is a single server.
struct ShardingProxy {
    address: SocketAddr,
}

impl ShardingProxy {
    async fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self { address: listener.local_addr().unwrap() };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(Self::carry(client, server));
            }
        });
        proxy
    }

    async fn carry(mut client: TcpStream, server: SocketAddr) {
        let mut server = TcpStream::connect(server).await.unwrap();
        let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
            (client.split(), server.split());
        let replies = async {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
                let reply = as_single(&buffer[..length]);
                if to_client.write_all(&reply).await.is_err() {
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

/// The greeting, which comes alone, without the mode of the server behind it. Other replies as they are.
fn as_single(reply: &[u8]) -> Vec<u8> {
    let (mode, single) =
        (&b"$4\r\nmode\r\n$7\r\ncluster\r\n"[..], &b"$4\r\nmode\r\n$10\r\nstandalone\r\n"[..]);
    match reply.windows(mode.len()).position(|window| window == mode) {
        Some(at) => [&reply[..at], single, &reply[at + mode.len()..]].concat(),
        None => reply.to_vec(),
    }
}
