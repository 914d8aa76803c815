//! Runs the recipes of docs/policies.md as the page has them.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate::{ManualClock, MemoryStore, Timestamp};
use tollgate_policy::{Attributes, CheckError, Config, PolicyDecision, PolicyLimiter, Sources};
use tollgate_testkit::{FaultyStore, StoreFault, block_on};

const GUIDE: &str = include_str!("../../../../docs/policies.md");

/// The limiter of a recipe, and the clock of its counters.
struct Played {
    limiter: PolicyLimiter<FaultyStore<MemoryStore<ManualClock>>>,
    clock: ManualClock,
}

/// Returns the recipes: their titles and texts.
fn recipes() -> impl Iterator<Item = (&'static str, &'static str)> {
    let (_, recipes) = GUIDE.split_once("\n## Recipes\n").unwrap();
    let (recipes, _) = recipes.split_once("\n## ").unwrap();
    recipes.split("\n### ").skip(1).map(|recipe| recipe.split_once('\n').unwrap())
}

/// Returns the code blocks in a language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("```{language}\n");
    text.split(&begin).skip(1).map(|block| block.split_once("```").unwrap().0).collect()
}

impl Played {
    /// Returns the recipe with this title, and its additional files.
    fn of(title: &str) -> Self {
        let (_, recipe) = recipes().find(|(other, _)| *other == title).unwrap();
        let [file] = blocks(recipe, "yaml")[..] else { panic!("one file") };
        let sources =
            blocks(recipe, "text").into_iter().fold(Sources::of("t.yaml", file), |sources, table| {
                let name = table.lines().next().unwrap().strip_prefix("# ").unwrap();
                sources.with_table("t.yaml", name, table)
            });
        let config =
            Config::parse_sources(&sources, |_| Vec::new()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(config.warnings(), []);
        // In the middle of a day, so that no window ends by chance.
        let clock = ManualClock::at(Timestamp::from_unix_millis(1_780_000_000_000 / 86_400_000 * 86_400_000));
        let store = MemoryStore::builder().clock(clock.clone()).build();
        Self { limiter: PolicyLimiter::new(FaultyStore::new(store), config.into_policies(), title), clock }
    }

    fn try_check(&self, pairs: &[(&str, &str)], cost: u32) -> Result<PolicyDecision, CheckError> {
        let attributes: Attributes<'_> = pairs.iter().copied().collect();
        block_on(self.limiter.check(&attributes, cost))
    }

    fn is_allowed(&self, pairs: &[(&str, &str)]) -> bool {
        self.try_check(pairs, 1).unwrap().is_allowed()
    }

    /// Returns how many of `tries` requests are admitted now.
    #[track_caller]
    fn admitted(&self, tries: usize, pairs: &[(&str, &str)]) -> usize {
        (0..tries).filter(|_| self.is_allowed(pairs)).count()
    }

    fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

#[test]
fn eleven_recipes_are_there_and_each_is_played() {
    let titles: BTreeSet<&str> = recipes().map(|(title, _)| title).collect();
    assert_eq!(titles.len(), 11, "{titles:?}");
    for title in titles {
        assert!(
            include_str!("recipes.rs").contains(&format!("Played::of(\"{title}\")")),
            "{title} is not played"
        );
    }
}

#[test]
fn guesses_are_limited_by_address_and_by_account() {
    let login = Played::of("Login");
    let guess = |ip: &str, user: &str| {
        login.is_allowed(&[("method", "POST"), ("path", "/login"), ("ip", ip), ("user", user)])
    };
    assert_eq!((0..20).filter(|number| guess(&format!("192.0.2.{number}"), "alice")).count(), 5);
    assert_eq!((0..20).filter(|number| guess("198.51.100.1", &format!("user-{number}"))).count(), 10);
    assert!(
        login.is_allowed(&[("method", "GET"), ("path", "/login"), ("ip", "198.51.100.1")]),
        "the page is not limited"
    );
    login.advance(60);
    assert!(guess("198.51.100.1", "alice"));

    login.limiter.store().begin(StoreFault::unreachable());
    let away = [("method", "POST"), ("path", "/login"), ("ip", "192.0.2.1"), ("user", "bob")];
    assert!(matches!(login.try_check(&away, 1), Err(CheckError::Store(_))), "nobody may guess then");
}

#[test]
fn a_plan_names_its_tier() {
    let api = Played::of("API plans");
    let call = |customer, plan| [("path", "/api/orders"), ("customer", customer), ("plan", plan)];
    assert_eq!(api.admitted(60, &call("a", "free")), 5);
    assert_eq!(api.admitted(60, &call("b", "pro")), 50);
    assert_eq!(api.admitted(60, &call("c", "unheard-of")), 5);
    // After an upgrade, the rest of the larger tier is left.
    assert_eq!(api.admitted(60, &call("a", "pro")), 45);
}

#[test]
fn tenants_in_the_table_have_quotas_of_their_own() {
    let table = Played::of("A table of tenants");
    for (tenant, admitted) in [("acme", 100), ("Smith, Jones & Co", 20), ("internal", 150), ("globex", 10)] {
        assert_eq!(table.admitted(150, &[("tenant", tenant)]), admitted, "{tenant}");
    }
}

#[test]
fn tokens_that_an_answer_did_not_need_are_given_back() {
    let model = Played::of("Tokens of a language model");
    let alice: Attributes<'_> = [("path", "/v1/chat"), ("customer", "alice")].into_iter().collect();
    let used = || {
        let standing = block_on(model.limiter.peek(&alice, 1)).unwrap();
        standing.quotas().map(|quota| quota.state.used()).collect::<Vec<_>>()
    };
    let check = |cost| block_on(model.limiter.check(&alice, cost)).unwrap();
    let decision = check(40_000);
    assert!(decision.is_allowed());
    assert!(!check(20_000).is_allowed(), "what is reserved is taken");
    block_on(model.limiter.settle(&mut decision.receipt(), 1_500)).unwrap();
    assert_eq!(used(), [1, 1_500, 1_500]);
    assert!(check(20_000).is_allowed());
}

#[test]
fn an_upload_takes_its_bytes() {
    let uploads = Played::of("Uploads by bytes");
    let upload = |bytes| [("method", "PUT"), ("path", "/files/a.zip"), ("user", "alice"), ("bytes", bytes)];
    assert!(uploads.is_allowed(&upload("60000000")));
    assert!(!uploads.is_allowed(&upload("60000000")) && uploads.is_allowed(&upload("40000000")));
    assert!(!uploads.is_allowed(&upload("0")), "an empty one takes a unit, and none is left");
    assert!(uploads.try_check(&upload("100000001"), 1).is_err());
    assert!(uploads.try_check(&upload("60000000")[..3], 1).is_err(), "it does not say its size");
    assert!(uploads.is_allowed(&[("method", "GET"), ("path", "/files/a.zip"), ("user", "alice")]));
}

#[test]
fn senders_have_a_share_each_and_a_bound_together() {
    let hooks = Played::of("Webhook senders");
    fn send(sender: &str) -> [(&str, &str); 3] {
        [("method", "POST"), ("path", "/hooks/payments"), ("sender", sender)]
    }
    assert_eq!(hooks.admitted(50, &send("a")), 20);
    let others: usize = ('b'..='k').map(|name| hooks.admitted(10, &send(&name.to_string()))).sum();
    assert_eq!(others, 80);
    let nobody = hooks.try_check(&send("a")[..2], 1).unwrap();
    assert_eq!((nobody.is_allowed(), nobody.deny_status()), (false, 401));
}

#[test]
fn health_checks_are_never_counted() {
    let health = Played::of("Health checks");
    for method in ["GET", "HEAD"] {
        assert_eq!(
            health.admitted(200, &[("method", method), ("path", "/healthz"), ("ip", "192.0.2.1")]),
            200
        );
    }
    assert_eq!(health.admitted(200, &[("method", "GET"), ("path", "/"), ("ip", "192.0.2.1")]), 50);
    assert_eq!(health.admitted(200, &[("method", "POST"), ("path", "/healthz"), ("ip", "192.0.2.2")]), 50);
}

#[test]
fn internal_callers_are_limited_where_they_could_do_harm() {
    let internal = Played::of("Internal callers");
    for (ip, path, admitted) in [
        ("10.1.2.3", "/", 30),
        ("::ffff:10.1.2.3", "/", 30),
        ("fd00::1", "/", 30),
        ("10.1.2.3", "/admin/users", 10),
        ("192.0.2.1", "/", 10),
    ] {
        assert_eq!(internal.admitted(30, &[("ip", ip), ("path", path)]), admitted, "{ip} {path}");
    }
}

#[test]
fn a_batch_has_a_budget_of_its_own() {
    let batch = Played::of("A nightly batch");
    let job = [("caller", "batch"), ("job", "invoices")];
    assert_eq!(batch.admitted(200, &job), 100);
    assert_eq!(batch.admitted(30, &[("caller", "web"), ("user", "alice")]), 10);
    assert_eq!(batch.admitted(30, &[("user", "bob")]), 10, "who does not say what it is, is no batch");
    batch.advance(1);
    let all = batch.try_check(&job, 100).unwrap();
    assert_eq!(all.quotas().map(|quota| quota.state.used()).collect::<Vec<_>>(), [100, 200]);

    let is_allowed = || batch.try_check(&job, 100).unwrap().is_allowed();
    let seconds = (0..).take_while(|_| {
        batch.advance(1);
        is_allowed()
    });
    assert_eq!(seconds.count(), 500_000 / 100 - 2);
    assert_eq!(batch.admitted(30, &[("user", "carol")]), 10, "those who wait have their own");
    // In summer, Berlin's day begins at 22:00 UTC; the clock was at 00:00 UTC.
    batch.advance(22 * 3_600 - 5_000 - 1);
    assert!(!is_allowed());
    batch.advance(1);
    assert!(is_allowed());
}

#[test]
fn callers_on_a_list_are_denied() {
    let lists = Played::of("Lists of the banned");
    let status = |ip: &str, user: &str| {
        let decision = lists.try_check(&[("ip", ip), ("user", user)], 1).unwrap();
        (!decision.is_allowed()).then(|| decision.deny_status())
    };
    assert_eq!(status("192.0.2.77", "alice"), Some(403));
    assert_eq!(status("2001:db8:bad::1", "alice"), Some(403));
    assert_eq!(status("198.51.100.1", "mallory"), Some(403));
    assert_eq!(status("198.51.100.1", "alice"), None);
}

/// A web application was denied from the start: its browsers' preflights have no key, so they were denied, and no
/// request followed.
#[test]
fn a_preflight_needs_no_key_and_uses_nothing_of_the_limit() {
    let recipe = Played::of("Preflights of browsers");
    let preflight = [("method", "OPTIONS"), ("path", "/api/orders"), ("ip", "192.0.2.7")];
    let request = |method| [("method", method), ("path", "/api/orders"), ("header.x-api-key", "alice")];
    assert_eq!(recipe.admitted(60, &preflight), 50, "a flood of preflights is bounded");
    assert_eq!(recipe.admitted(60, &request("POST")), 60);
    assert_eq!(recipe.admitted(60, &request("GET")), 40);
    let keyless = [("method", "POST"), ("path", "/api/orders"), ("ip", "192.0.2.7")];
    let denied = recipe.try_check(&keyless, 1).unwrap();
    assert_eq!((denied.is_allowed(), denied.deny_status()), (false, 401));
    recipe.advance(1);
    assert!(recipe.is_allowed(&preflight));
}
