//! What the log says of a store that stops answering.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::routing::get as on_get;
use tollgate::{
    Answer, AnswerError, FallbackStore, HoldKeeper, Limiter, LocalShare, MemoryStore, OnStoreFailure,
    QuotaStates, SharedLimiter, Step, StepDeadline, Store, StoreError,
};
use tollgate_policy::{Config, PolicyLimiter, WhenFull};
use tollgate_testkit::{FaultyStore, StoreFault, Unreachable};
use tollgate_tower::key::{Header, PeerAddress};
use tollgate_tower::{AttributeSources, OnStoreError, RateLimitLayer, Rule};
use tracing::subscriber::DefaultGuard;

use crate::support::{a_day, get, send, serve};

/// What is logged while it lives, on this thread: that of the test and of the services that it starts.
struct Log {
    text: Arc<Mutex<Vec<u8>>>,
    _guard: DefaultGuard,
}

#[derive(Clone)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn start() -> Self {
        let text = Arc::<Mutex<Vec<u8>>>::default();
        let lines = Lines(Arc::clone(&text));
        let subscriber =
            tracing_subscriber::fmt().with_writer(move || lines.clone()).with_ansi(false).without_time();
        Self { text, _guard: tracing::subscriber::set_default(subscriber.finish()) }
    }

    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.text.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| line.split_once(": ").unwrap().1.to_owned()).collect()
    }
}

type Shared = FaultyStore<MemoryStore>;
type Of = fn(Shared) -> Rule;

fn shared() -> Shared {
    FaultyStore::new(MemoryStore::new())
}

fn rule<S: Store + 'static>(store: S) -> Rule {
    let limiter: SharedLimiter<S> = Limiter::builder("search").quota(a_day(40)).build_shared(store).unwrap();
    Rule::new(limiter).key(Header::new("x-user".parse().unwrap()))
}

fn policies(store: Shared, on_failure: &str) -> Rule {
    let limits = format!(
        "policies: [{{ name: a, key: [ip], quotas: [9/1d@first_hit], on_store_failure: {on_failure} }}]"
    );
    let policies = Config::parse("limits.yaml", &limits).unwrap().into_policies();
    let limiter = PolicyLimiter::new(store, policies, "limits.yaml").when_full(WhenFull::Allow);
    Rule::policies(&Arc::new(limiter), AttributeSources::new().with("ip", PeerAddress::new()))
}

/// No quota tells where the store's answer came from.
fn in_flight(store: Shared, on_failure: &str) -> Rule {
    let limits = format!("policies: [{{ name: a, key: global, quotas: [9~in_flight], {on_failure} }}]");
    let policies = Config::parse("limits.yaml", &limits).unwrap().into_policies();
    let limiter = Arc::new(PolicyLimiter::new(store, policies, "limits.yaml"));
    let (keeper, task) = HoldKeeper::new(tokio::time::sleep);
    tokio::spawn(task);
    Rule::policies(&limiter, AttributeSources::new()).keeper(&keeper)
}

fn app(rule: Rule) -> Router {
    let layer = RateLimitLayer::builder(rule).build().unwrap();
    Router::new().route("/", on_get(|| async {})).layer(layer)
}

/// The manual told users to look at the log of the layer, which was silent through an outage.
#[tokio::test]
async fn an_outage_has_one_line_when_it_begins_and_one_when_it_ends() {
    let by_rule = "the store does not answer: `Rule::on_store_error` decides rule=\"RULE\" \
                   error=\"the store at 10.0.0.1:6379 could not count: the store cannot be reached\"";
    let by_fallback = "the fallback decided on a request rule=\"RULE\"";
    let rules: [(Of, &str, &str); 8] = [
        (rule, by_rule, "search"),
        (|store| rule(store).on_store_error(OnStoreError::Admit), by_rule, "search"),
        (|store| rule(FallbackStore::new(store, OnStoreFailure::Open)), by_fallback, "search"),
        (
            |store| rule(FallbackStore::new(store, OnStoreFailure::Local(LocalShare::new(1, 1).unwrap()))),
            by_fallback,
            "search",
        ),
        (|store| policies(store, "closed"), by_rule, "limits.yaml"),
        (|store| policies(store, "open"), by_fallback, "limits.yaml"),
        (|store| in_flight(store, "on_store_failure: closed"), by_rule, "limits.yaml"),
        (|store| in_flight(store, "on_store_failure: open"), by_fallback, "limits.yaml"),
    ];
    for (of, gone, name) in rules {
        let gone = gone.replace("RULE", name);
        let back = format!("the store answers again rule=\"{name}\" failed=5");
        let (log, store) = (Log::start(), shared());
        let address = serve(app(of(store.clone()))).await;
        let ask = async || send(address, "GET /", &[("x-user", "s3cret")]).await;
        ask().await;
        assert_eq!(log.lines(), [""; 0]);
        let StoreFault::Fails(error) = StoreFault::unreachable() else { panic!("another fault") };
        store.begin(StoreFault::Fails(error.at("10.0.0.1:6379")));
        for _ in 0..5 {
            ask().await;
        }
        assert_eq!(log.lines(), [&*gone]);
        store.end();
        for _ in 0..5 {
            ask().await;
        }
        assert_eq!(log.lines(), [&*gone, &back]);
        // A store that comes and goes has no line each time.
        for _ in 0..5 {
            store.begin(StoreFault::unreachable());
            ask().await;
            store.end();
            ask().await;
        }
        assert_eq!(log.lines().len(), 2);
    }
}

/// A store that answers at once, if it answers.
#[derive(Clone)]
struct AtOnce {
    store: Arc<MemoryStore>,
    is_away: Arc<AtomicBool>,
}

impl Store for AtOnce {
    fn step_until<'a>(
        &'a self,
        step: Step<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<QuotaStates, StoreError>> + Send> {
        if self.is_away.load(Ordering::Relaxed) {
            return Answer::Now(Err(StoreError::trouble(Unreachable)));
        }
        self.store.step_until(step, deadline)
    }

    fn step_each_until<'a>(
        &'a self,
        steps: &'a [Step<'a>],
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Vec<Result<QuotaStates, StoreError>>> + Send> {
        self.store.step_each_until(steps, deadline)
    }
}

#[tokio::test]
async fn an_outage_of_a_store_that_answers_at_once_ends_with_a_line() {
    let (log, is_away) = (Log::start(), Arc::new(AtomicBool::new(true)));
    let store = AtOnce { store: Arc::default(), is_away: Arc::clone(&is_away) };
    let address = serve(app(rule(store))).await;
    for away in [true, false] {
        is_away.store(away, Ordering::Relaxed);
        send(address, "GET /", &[("x-user", "alice")]).await;
    }
    assert_eq!(
        log.lines().last().map(String::as_str),
        Some("the store answers again rule=\"search\" failed=1")
    );
}

/// One overwritten counter among healthy ones logged an outage and its end every ten seconds, for as long as it
/// stayed.
#[tokio::test]
async fn trouble_of_one_key_is_no_outage() {
    for of in
        [rule, |store| rule(store).on_store_error(OnStoreError::Admit), |store| policies(store, "closed")]
    {
        let of: Of = of;
        let (log, store) = (Log::start(), shared());
        let address = serve(app(of(store.clone()))).await;
        let error = StoreError::trouble(AnswerError::Nonsense).for_one_key();
        store.begin(StoreFault::Fails(error));
        send(address, "GET /", &[("x-user", "alice")]).await;
        store.end();
        send(address, "GET /", &[("x-user", "bob")]).await;
        assert_eq!(log.lines(), [""; 0]);
    }
}

/// A full store is no outage. Its requests are refused or admitted by a choice of their own.
#[tokio::test]
async fn a_full_store_is_no_outage() {
    for of in [|store| rule(store).when_full(OnStoreError::Admit), |store| policies(store, "open")] {
        let (log, store) = (Log::start(), shared());
        let address = serve(app(of(store.clone()))).await;
        store.begin(StoreFault::Fails(StoreError::Full));
        get(address, "/").await;
        assert_eq!(send(address, "GET /", &[("x-user", "alice")]).await.status, 200);
        assert_eq!(log.lines(), [""; 0]);
    }
}
