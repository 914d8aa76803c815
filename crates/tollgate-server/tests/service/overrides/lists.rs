//! The list of overrides.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Service, of_user};

fn ids(page: &Value) -> Vec<String> {
    let overrides = page["overrides"].as_array().expect("a list");
    overrides.iter().map(|one| one["id"].as_str().expect("an id").to_owned()).collect()
}

/// All pages of a query, one after another.
fn all(service: &Service, query: &str) -> Vec<Vec<String>> {
    let (mut pages, mut after) = (Vec::new(), String::new());
    loop {
        let page = service.list(&format!("?{query}{after}"));
        pages.push(ids(&page));
        let Some(next) = page["next"].as_str() else { return pages };
        // As clients do with any text.
        let next = next.replace('%', "%25").replace('^', "%5E").replace('=', "%3D").replace('+', "%2B");
        after = format!("&after={next}");
    }
}

#[test]
fn a_list_has_pages_and_filters() {
    let service = Service::start();
    let mut expected = BTreeSet::new();
    for index in 0..7 {
        let mut body = of_user(&format!("user-{index}"), &json!(["50/1h"]));
        body["label"] = json!(if index % 2 == 0 { "even" } else { "odd" });
        expected.insert(service.set(&body)["id"].as_str().expect("an id").to_owned());
    }
    for text in ["a+b", "a/b c", "acme", "é^=%"] {
        let body =
            json!({ "policy": "login", "attributes": { "tenant": { "prefix": text } }, "quotas": "denied" });
        expected.insert(service.set(&body)["id"].as_str().expect("an id").to_owned());
    }
    for limit in [1, 2, 3, 10, 11, 1000] {
        let pages = all(&service, &format!("limit={limit}"));
        assert!(pages.iter().all(|page| page.len() <= limit), "{pages:?}");
        assert_eq!(pages.len(), 11_usize.div_ceil(limit), "{pages:?}");
        let listed: Vec<String> = pages.concat();
        assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), expected);
        assert_eq!(listed.len(), 11, "each once");
        assert!(listed.iter().take(4).all(|id| id.starts_with("login:")), "{listed:?}");
    }
    assert_eq!(all(&service, "policy=search&limit=5").concat().len(), 7);
    assert_eq!(all(&service, "label=odd&limit=2").concat().len(), 3);
    assert_eq!(all(&service, "policy=login&label=odd").concat().len(), 0);
    assert_eq!(all(&service, "policy=exports").concat().len(), 0);
    for (query, field) in
        [("?limit=0", "query.limit"), ("?user=alice", "query.user"), ("?label=", "query.label")]
    {
        service.admin("GET", &format!("/v1/overrides{query}"), &[], "").assert_problem(400, Some(field));
    }
}

/// An override whose policy is gone was set by somebody, who has to find it.
#[test]
fn an_override_without_its_policy_is_listed_and_can_be_deleted() {
    let service = Service::start();
    let id = service.set(&of_user("alice", &json!(["50/1h"])))["id"].clone();
    service.folder.write("p.yaml", "policies: [{ name: other, key: [user], quotas: [1/1h] }]");
    assert_eq!(service.admin("POST", "/v1/policies/reload", &[], "{}").status, 200);
    let listed = &service.list("")["overrides"][0];
    assert_eq!((&listed["state"], &listed["id"]), (&json!("inert"), &id));
    assert_eq!(listed["reason"], "there is no policy `search`");
    let named = service.delete(&json!({ "policy": "search", "attributes": { "user": "alice" } }));
    named.assert_problem(409, Some("policy"));
    assert!(named.json()["detail"].as_str().is_some_and(|detail| detail.contains("by its `id`")));

    service.folder.write("p.yaml", "policies: [{ name: search, key: [customer], quotas: [1/1h] }]");
    assert_eq!(service.admin("POST", "/v1/policies/reload", &[], "{}").status, 200);
    let got = service.get(&json!({ "id": id })).json();
    assert_eq!((&got["state"], &got["key"]), (&json!("inert"), &json!("user")));
    assert!(got["reason"].as_str().is_some_and(|reason| reason.contains("has another key")), "{got}");
    assert_eq!(service.admin("POST", "/v1/policies/reload", &[], "{}").status, 200);
    assert_eq!(service.delete(&json!({ "id": id })).status, 200);
    assert_eq!(service.list("")["overrides"], json!([]));
    // Nobody looks at the list after a reload that takes a denial back, so the log reports it once.
    service.server.signal("TERM");
    let (_, log) = service.server.wait();
    let told: Vec<&str> =
        log.lines().filter(|line| line.contains("overrides of this policy do not apply")).collect();
    assert!(
        matches!(*told, [first, second] if first.contains("there is no policy") && second.contains("another key")),
        "{log}"
    );
}

/// Who looks at a policy sees that other limits apply to some of its clients.
#[test]
fn the_live_page_counts_the_overrides_of_each_policy() {
    let service = Service::start();
    for user in ["alice", "bob"] {
        service.set(&of_user(user, &json!(["6/1h"])));
    }
    let live = service.admin("GET", "/v1/live", &[], "").json();
    let rows = live["policies"].as_array().expect("rows").iter();
    let counts: Vec<_> = rows.map(|row| (row["name"].as_str(), row["overrides"].as_u64())).collect();
    assert_eq!(counts, [(Some("staff"), Some(0)), (Some("search"), Some(2)), (Some("login"), Some(0))]);
}
