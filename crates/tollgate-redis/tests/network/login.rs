//! Every way to reach one server, and what is said when it fails.

use tollgate_redis::RedisError;
use tollgate_redis::{Advice, Password, Setting, SettingsError, StoreUrl, Tls};
use tollgate_testkit::servers::{ClientCertificates, Cluster, Sentinels, Server, Settings, Software};

use crate::support::{Caller, builder, patient, patient_builder, until};

#[tokio::test(flavor = "multi_thread")]
async fn serves_over_tls_with_its_own_authority_and_a_client_certificate() {
    for software in Software::ALL {
        let server = Settings::new(software).tls(ClientCertificates::Required).start();
        let certificates = server.certificates();
        let url = format!("rediss://{}", server.tls_address());
        let trusting = Tls::new().with_ca_file(&certificates.authority).unwrap();
        let client = &certificates.client;
        let known = trusting.clone().with_client_files(&client.certificate, &client.key).unwrap();

        let caller = Caller::new(patient_builder(&url).tls(known));
        assert_eq!(caller.charge("alice").await, Ok(1));
        assert!(caller.store.status().is_connected());

        let stranger = Caller::new(patient_builder(&url).tls(trusting));
        let error = stranger.charge("alice").await.unwrap_err();
        assert!(!error.may_have_charged(), "{error}");
        assert!(!stranger.store.status().is_connected());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_a_server_whose_certificate_nobody_vouches_for() {
    let server = Settings::new(Software::Redis).tls(ClientCertificates::Ignored).start();
    let stranger = Settings::new(Software::Redis).tls(ClientCertificates::Ignored).start();
    let url = format!("rediss://{}", server.tls_address());
    let tls = Tls::new().with_ca_file(&stranger.certificates().authority).unwrap();
    let caller = Caller::new(patient_builder(&url).tls(tls));
    let error = caller.charge("alice").await.unwrap_err();
    assert_eq!(error, RedisError::Misconfigured("a TLS connection to it cannot be set up"));
    let status = caller.store.status();
    let trouble = status.servers()[0].trouble().unwrap();
    assert!(trouble.starts_with("TLS: invalid peer certificate"), "{trouble}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_needs_few_rights() {
    const RIGHTS: &str = "~tollgate:* +@read +@write +evalsha +script|load +time";
    for software in Software::ALL {
        let server = Settings::new(software)
            .user("counter", "s3cret", RIGHTS)
            .user("loader", "s3cret", "~tollgate:* +@read +@write +script|load +time")
            .user("reader", "s3cret", "~tollgate:* +@read +evalsha +time")
            .start();
        let caller = |user: &str| patient(&format!("redis://{user}:s3cret@{}", server.address()));

        assert_eq!(caller("counter").charge("alice").await, Ok(1));
        assert_eq!(caller("loader").charge("alice").await, Err(RedisError::AccessDenied));
        let reader = caller("reader");
        assert_eq!(reader.charge("alice").await, Err(RedisError::AccessDenied));
        let status = reader.store.status();
        let trouble = status.servers()[0].trouble().unwrap();
        assert_eq!(trouble, "the user has no right to load scripts (SCRIPT LOAD)");
    }
}

/// Without `PTTL` or `MGET` a user was connected, and the first request that needs it failed: a `first_hit` window that
/// is open already, a request with several quotas.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_right_is_found_when_the_connection_is_set_up_and_named() {
    const RIGHTS: [&str; 17] = [
        "evalsha",
        "time",
        "get",
        "mget",
        "set",
        "incrby",
        "pexpiretime",
        "pttl",
        "del",
        "pexpireat",
        "zadd",
        "zcard",
        "zcount",
        "zmscore",
        "zpopmin",
        "zrange",
        "zrem",
    ];
    for software in Software::ALL {
        let server = Server::start(software);
        let set_up = |rights: &[&str]| {
            let rights = rights.iter().map(|right| format!("+{right}"));
            let basis = ["resetkeys", "nocommands", "on", ">s3cret", "~tollgate:*", "+script|load"];
            let words = ["ACL", "SETUSER", "counter"].into_iter().chain(basis).map(str::to_owned);
            server.command::<()>(words.chain(rights));
            patient(&format!("redis://counter:s3cret@{}", server.address()))
        };
        for missing in RIGHTS {
            let given: Vec<_> = RIGHTS.into_iter().filter(|right| *right != missing).collect();
            let caller = set_up(&given);
            assert_eq!(caller.charge("alice").await, Err(RedisError::AccessDenied), "{software:?} {missing}");
            let status = caller.store.status();
            let said = format!("the user has no right to run {}", missing.to_uppercase());
            assert_eq!(status.servers()[0].trouble(), Some(&*said), "{software:?}");
            let advice = status.servers()[0].advice().unwrap().to_string();
            assert!(advice.contains(&format!("+{missing}")), "{advice}");
        }
        let some = RIGHTS.into_iter().filter(|right| !["mget", "pttl"].contains(right));
        let caller = set_up(&some.collect::<Vec<_>>());
        assert_eq!(caller.charge("alice").await, Err(RedisError::AccessDenied));
        let all = "the user has no right to run MGET, PTTL";
        assert_eq!(caller.store.status().servers()[0].trouble(), Some(all));
        assert_eq!(server.command::<u64>(["DBSIZE"]), 0, "what is tried leaves nothing behind");

        // Once they are given, the store is used.
        set_up(&RIGHTS);
        caller.until_served("alice").await;
    }
}

/// A member that takes over a slot is asked with `ASKING`, which nobody misses before.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_of_a_cluster_needs_asking() {
    let rights = "~tollgate:* +@read +@write +evalsha +script|load +time +cluster|slots";
    let cluster = Cluster::with(&Settings::new(Software::Redis).user("counter", "s3cret", rights));
    let caller = patient(&format!("redis+cluster://counter:s3cret@{}", cluster.nodes()[0].address()));
    assert_eq!(caller.charge("alice").await, Err(RedisError::AccessDenied));
    let status = caller.store.status();
    let said = status.servers().iter().find_map(|server| server.trouble());
    assert_eq!(said, Some("the user has no right to run ASKING"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_said_and_never_shown() {
    let server = Settings::new(Software::Redis).password("right").start();
    for (url, trouble) in [
        (format!("redis://:Sesame@{}", server.address()), "wrong user or password"),
        (format!("redis://nobody:Sesame@{}", server.address()), "wrong user or password"),
        (format!("redis://{}", server.address()), "the server requires a password"),
    ] {
        let shown = format!("{:?}", builder(&url));
        assert!(!shown.contains("Sesame"), "{shown}");
        let caller = patient(&url);
        let error = caller.charge("alice").await.unwrap_err();
        assert_eq!(error, RedisError::AccessDenied);
        let status = caller.store.status();
        assert_eq!(status.servers()[0].trouble(), Some(trouble));
        // Which flags and variables there are for it, only the program knows.
        let advice = status.servers()[0].advice().unwrap();
        assert_eq!(advice.setting(), Some(Setting::Login));
        assert!(!["--", "TOLLGATE"].iter().any(|word| advice.to_string().contains(word)), "{advice}");
        let shown = format!("{error} {error:?} {status:?} {:?}", caller.store);
        assert!(!shown.contains("Sesame"), "{shown}");
    }
    let caller = patient(&format!("redis://:right@{}", server.address()));
    assert_eq!(caller.charge("alice").await, Ok(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_is_needless_is_said() {
    let server = Server::start(Software::Redis);
    let caller = patient(&format!("redis://:Sesame@{}", server.address()));
    // The default user of such a server takes any password.
    assert_eq!(caller.charge("alice").await, Ok(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_from_elsewhere_goes_before_the_one_in_the_url() {
    let server = Settings::new(Software::Redis).password("right").start();
    let url = format!("redis://:wrong@{}", server.address());
    let with = patient_builder(&url).password(Password::new("right"));
    assert_eq!(Caller::new(with).charge("alice").await, Ok(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_have_a_login_of_their_own() {
    let sentinels = Sentinels::start(Software::Redis);
    for sentinel in sentinels.sentinels() {
        sentinel.command::<()>(["ACL", "SETUSER", "default", "resetpass", ">Sesame"]);
        let rights = ["+hello", "+sentinel|get-master-addr-by-name"];
        sentinel.command::<()>(["ACL", "SETUSER", "watcher", "on", ">Sesame"].iter().chain(&rights));
    }
    let url = format!("redis+sentinel://{}/{}", sentinels.sentinels()[0].address(), Sentinels::NAME);
    let with_none = || patient_builder(&url);
    let sesame = || Password::new("Sesame");

    for with in [
        with_none().sentinel_password(sesame()),
        with_none().sentinel_user("watcher").sentinel_password(sesame()),
    ] {
        assert!(Caller::new(with).charge("alice").await.is_ok());
    }
    for (with, trouble) in [
        (with_none(), "the server requires a password"),
        // What is the servers' is not sent to the sentinels.
        (with_none().password(sesame()), "the server requires a password"),
        (with_none().sentinel_password(Password::new("Open")), "wrong user or password"),
    ] {
        let caller = Caller::new(with);
        assert_eq!(caller.charge("alice").await, Err(RedisError::AccessDenied));
        let asked = format!("asking the sentinel {}: {trouble}", sentinels.sentinels()[0].address());
        let status = caller.store.status();
        assert_eq!(status.servers()[0].trouble(), Some(&*asked));
        assert_eq!(status.servers()[0].advice().and_then(Advice::setting), Some(Setting::SentinelLogin));
    }

    let error = with_none().sentinel_user("watcher").build().unwrap_err();
    assert!(matches!(error, SettingsError::SentinelPasswordMissing), "{error}");
    let error = builder("redis://127.0.0.1").sentinel_password(sesame()).build().unwrap_err();
    assert!(matches!(error, SettingsError::SentinelsMissing), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_in_the_database_that_is_named() {
    for software in Software::ALL {
        let server = Server::start(software);
        for url in [
            format!("redis://{}/3", server.address()),
            format!("unix:{}?db=4", server.socket().display()),
            format!("unix://{}", server.socket().display()),
        ] {
            assert_eq!(patient(&url).charge("alice").await, Ok(1), "{url}");
        }
        let keyspace: String = server.command(["INFO", "keyspace"]);
        for database in ["db0:keys=1,", "db3:keys=1,", "db4:keys=1,"] {
            assert!(keyspace.contains(database), "{keyspace}");
        }
        let error = patient(&format!("redis://{}/99", server.address())).charge("alice").await;
        assert_eq!(error, Err(RedisError::Misconfigured("the server does not have the database")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_another_kind_is_refused_with_what_to_say() {
    let single = Server::start(Software::Redis);
    let cluster = Cluster::start(Software::Redis);
    let sentinels = Sentinels::start(Software::Redis);
    let sentinel = &sentinels.sentinels()[0];
    for (url, what) in [
        (
            format!("redis://{}", cluster.nodes()[0].address()),
            "the server is part of a cluster: use redis+cluster://",
        ),
        (
            format!("redis+cluster://{}", single.address()),
            "the server is not part of a cluster: use redis://",
        ),
        (
            format!("redis://{}", sentinel.address()),
            "the server is a sentinel: use redis+sentinel:// and name the primary",
        ),
        (
            format!("redis+sentinel://{}/tollgate", single.address()),
            "a server that should name the primary is not a sentinel",
        ),
    ] {
        assert_eq!(patient(&url).charge("alice").await, Err(RedisError::Misconfigured(what)), "{url}");
    }
    let replica = format!("redis://{}", sentinels.replica().address());
    assert_eq!(patient(&replica).charge("alice").await, Err(RedisError::NotReady));
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_programs_that_are_no_store() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        // Every connection is answered: one that is not would only be seen to be silent.
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
                // To hang up on what was not read would take the answer back.
                while stream.read(&mut [0; 512]).is_ok_and(|read| read > 0) {}
            });
        }
    });
    let error = patient(&url).charge("alice").await.unwrap_err();
    assert!(matches!(error, RedisError::Misconfigured(_)), "{error}");
}

#[tokio::test]
async fn settings_that_contradict_each_other_are_refused() {
    let url = |url: &str| url.parse::<StoreUrl>().unwrap();
    let build = |url| tollgate_redis::RedisStore::builder(url).build().err();
    assert!(matches!(build(url("redis://alice@localhost")), Some(SettingsError::PasswordMissing)));
    let server = Settings::new(Software::Redis).tls(ClientCertificates::Ignored).start();
    let tls = Tls::new().with_ca_file(&server.certificates().authority).unwrap();
    let built = builder("redis://localhost").tls(tls).build();
    assert!(matches!(built.err(), Some(SettingsError::TlsUnused)));
    let error = Tls::new().with_ca_file(&server.certificates().client.key).unwrap_err();
    assert!(error.to_string().ends_with("holds no certificate in PEM"), "{error}");
}

/// An administrator took a right away while the store was connected. Every call failed with "the store rejects the
/// counting script", and nothing named the right.
#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_is_taken_away_later_is_named() {
    const RIGHTS: &str = "~tollgate:* +@read +@write +evalsha +script|load +time";
    for software in Software::ALL {
        let server = Settings::new(software).user("counter", "s3cret", RIGHTS).start();
        let caller = patient(&format!("redis://counter:s3cret@{}", server.address()));
        caller.until_served("alice").await;
        server.command::<()>(["ACL", "SETUSER", "counter", "-time"]);
        // A new counter: of one that exists, the expiry tells the time.
        assert_eq!(caller.charge("bob").await, Err(RedisError::AccessDenied));
        until("the right is named", async || {
            let _ = caller.charge("bob").await;
            let status = caller.store.status();
            (status.servers()[0].trouble() == Some("the user has no right to run TIME")).then_some(())
        })
        .await;
        server.command::<()>(["ACL", "SETUSER", "counter", "+time"]);
        caller.until_served("bob").await;
    }
}
