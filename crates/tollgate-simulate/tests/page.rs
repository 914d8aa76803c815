//! The page of a report: its structure, and in a real browser its scripts, its accessibility, and that it fetches
//! nothing.
//!
//! `cargo xtask test` installs the tools and runs this. `TOLLGATE_LOOK_AT_PAGE` is the path of the copy of `look.mjs`
//! that lies next to them.
//! With a folder in `TOLLGATE_PICTURES`, the pages and pictures of them are kept there.

#![allow(clippy::unwrap_used, reason = "this is a test")]

mod common;
#[path = "page/scenes.rs"]
mod scenes;
#[allow(dead_code, reason = "the other test that uses it needs more")]
#[path = "common/traffic.rs"]
mod traffic;

use std::process::Command;

use tollgate_simulate::CheckedReport;

use self::scenes::{busy, empty, everything, example, overview};

/// The parts of a text between these two.
fn parts<'a>(text: &'a str, begin: &str, end: &str) -> Vec<&'a str> {
    text.split(begin).skip(1).map(|part| part.split(end).next().unwrap()).collect()
}

/// Rules of accessibility were held against a page without gates, files and lines that could not be read.
#[test]
fn the_page_that_a_browser_looks_at_has_every_section() {
    let page = everything().html();
    for part in [
        "<p class=\"kicker\">Replay of 880 requests from 14 clients, ",
        "1 of 3 gates failed</h2>",
        "<h2>Policies</h2>",
        "<h3>Policies</h3>",
        "<h3>How tight each limit is</h3>",
        "<h3>Denied requests by their status in the log</h3>",
        "<h3>Peak load</h3>",
        "<h2>Other limits</h2>",
        "<h3>Compared with the policies of --baseline</h3>",
        "<h3>Clients that are newly denied</h3>",
        "<h3>Clients that are newly allowed",
        "<h3>Clients that are denied most often</h3>",
        "<h3>Clients whose allowed r",
        "<h3>Classes</h3>",
        "<h3>Requests over time</h3>",
        "<h3>Requests by day</h3>",
        "<h2>What was read</h2>",
        "cannot be decided, and would be answered with errors:",
        "<h3>Lines that could not be read</h3>",
        "<h3>Times without requests</h3>",
        " of 600 files: ",
        "only one can decide",
        "<h2>Caveats</h2>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

/// The page began with what was read, in which nobody was interested.
#[test]
fn the_answer_comes_first_and_what_was_read_last() {
    let answer = everything();
    let page = answer.html();
    let places = answer.opening().map(|sentence| sentence.split('`').next().unwrap().to_owned());
    let order = places.iter().map(String::as_str).chain([
        "1 of 3 gates failed",
        "<section id=\"policies\">",
        "<section id=\"load\">",
        "<section id=\"limits\">",
        "<section id=\"clients\">",
        "<section id=\"when\">",
        "<section id=\"read\">",
        "<section id=\"caveats\">",
    ]);
    let places: Vec<usize> = order
        .map(|part| page.find(&part.replace(" %", "\u{a0}%")).unwrap_or_else(|| panic!("{part}: {page}")))
        .collect();
    assert!(places.is_sorted(), "{places:?}: {page}");
}

/// A link said `Losses and load`, and led to `What is lost, and what load is left`.
#[test]
fn each_link_says_the_title_that_it_leads_to() {
    for (name, answer) in pages() {
        let page = answer.html();
        let links = parts(parts(&page, "<nav", "</nav>")[0], "<a href=\"#", "</a>");
        assert_eq!(links.len(), page.matches("<section id=").count(), "{name}");
        for link in links {
            let (id, title) = link.split_once("\">").unwrap();
            assert!(page.contains(&format!("<section id=\"{id}\">\n<h2>{title}</h2>")), "{name}: {link}");
        }
    }
}

/// With `--limit`, the text said what is denied of each route and client, and the page did not.
#[test]
fn routes_and_busiest_clients_show_what_is_denied() {
    let overview = overview();
    let heads = |page: &str, caption: &str| {
        let table = parts(page, &format!("<table aria-label=\"{caption}\">"), "</thead>")[0].to_owned();
        table.contains("<th scope=\"col\">denied</th>")
    };
    let mut limited = busy();
    limited.report.routes = overview.report.routes.clone();
    limited.report.busiest_clients = overview.report.busiest_clients.clone();
    for caption in ["Routes", "Busiest clients"] {
        assert!(heads(&limited.html(), caption), "{caption}");
        assert!(!heads(&overview.html(), caption), "{caption}");
    }
    assert!(overview.html().contains("<h3>Peak load</h3>"));
}

/// The page of an empty log did not say which policies it was replayed with.
#[test]
fn policies_are_listed_also_without_requests() {
    assert!(empty().html().contains("<h3>Policies</h3>"));
}

/// 1.4 % of errors and a saving of load looked like denials, and 0.003 % had a bar of one pixel.
#[test]
fn red_bars_are_for_denied_requests_alone() {
    assert!(!overview().html().contains("class=\"share\""));
    for (name, answer) in pages() {
        let page = answer.html();
        for bar in parts(&page, "<svg class=\"share", "</svg>") {
            let wide: f64 = parts(bar, "<rect width=\"", "\"")[0].parse().unwrap();
            assert!(wide >= 1.0, "{name}: {bar}");
        }
    }
}

/// The map of a single attack was one square among 167 empty ones.
#[test]
fn one_hour_with_denials_is_no_map() {
    let mut answer = everything();
    let map = "<h3>Denied requests by hour of the week</h3>";
    assert!(!answer.html().contains(map));
    answer.report.week[0][3].denied = 1;
    assert!(answer.html().contains(map));
}

/// Axes had no titles and often one tick, and values could be read off nowhere.
#[test]
fn every_chart_has_a_title_units_ticks_and_a_table() {
    for (name, answer) in pages() {
        let page = answer.html();
        let figures = parts(&page, "<figure>", "</figure>");
        assert_eq!(figures.is_empty(), name == "empty", "{name}");
        for figure in figures {
            assert!(figure.contains("<figcaption><h3>"), "{name}: {figure}");
            assert!(
                figure.matches("<p class=\"unit").count() >= if figure.contains("heat") { 1 } else { 2 },
                "{figure}"
            );
            assert!(figure.matches("class=\"tick").count() >= 3, "{name}: {figure}");
            for picture in parts(figure, "<svg class=\"plot\"", "<p class=\"unit") {
                assert!(picture.matches("text-anchor=\"end\">").count() >= 3, "{name}: {picture}");
                assert!(picture.contains("<title") && picture.contains("<desc"), "{picture}");
            }
            // Each point of the chart is a row of the table, or a cell.
            let rows = parts(figure, "<tbody>", "</tbody>")[0].matches("<tr>").count();
            match parts(figure, "data-at=\"", "\"").first() {
                Some(places) => assert!((3..=rows).contains(&places.split(' ').count()), "{figure}"),
                None => assert_eq!(
                    (figure.matches("width=\"4.17%\"").count(), (1..=7).contains(&rows)),
                    (rows * 24, true),
                    "{figure}"
                ),
            }
        }
    }
}

/// The candidate's second quota was a level line of what the whole candidate denies.
#[test]
fn a_limit_that_makes_no_difference_is_a_sentence() {
    let page = busy().html();
    let said = "<span class=\"whole\">300/1m</span></code> denies nothing with any limit from ";
    assert!(page.contains(said), "{page}");
    assert!(!page.contains("<h3>everything (shadow) 300/1m</h3>"));
}

/// Curves began at 1 where 10 to 40 were tried, and ended far beyond the last denial.
#[test]
fn a_curve_shows_the_limits_near_todays() {
    let limits = |page: &str, title: &str| {
        let figure = parts(page, &format!("<h3>{title}</h3>"), "</figure>")[0].to_owned();
        let ticks: Vec<u64> = parts(&figure, "<text class=\"tick", "</text>")
            .iter()
            .map(|tick| tick.rsplit('>').next().unwrap().replace(',', "").parse().unwrap())
            .collect();
        (ticks[0], *ticks.last().unwrap())
    };
    assert_eq!(limits(&everything().html(), "pages 20/1m"), (5, 20));
    let (_, last) = limits(&busy().html(), "assets 120/1m");
    assert!(last < 60, "{last}");
}

/// The log has whole seconds, and the page said `09:45:11.25` and `49.5 seconds`.
#[test]
fn no_fraction_of_a_second_is_invented() {
    for (name, answer) in pages() {
        let page = answer.html();
        let body = page.split("<body>").nth(1).unwrap().split("<script>").next().unwrap();
        for part in ["seconds", ":"] {
            let is_fraction = |text: &str| {
                let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                text.rsplit_once('.').is_some_and(|(whole, rest)| {
                    whole.ends_with(|end: char| end.is_ascii_digit()) && digits(rest)
                })
            };
            let before = body.match_indices(part).map(|(place, _)| body[..place].trim_end());
            for text in before.filter_map(|text| text.rsplit(['>', ' ', ':']).next()) {
                assert!(!is_fraction(text), "{name}: {text} {part}");
            }
        }
    }
}

#[test]
fn a_page_is_always_the_same() {
    assert_eq!(everything().html(), everything().html());
}

/// The pages that a browser opens.
fn pages() -> [(&'static str, CheckedReport); 5] {
    [
        ("everything", everything()),
        ("busy", busy()),
        ("overview", overview()),
        ("example", example()),
        ("empty", empty()),
    ]
}

#[test]
#[ignore = "needs node, packages from npm and a browser; `cargo xtask test` has them"]
fn the_pages_are_right_in_a_real_browser() {
    let script = std::env::var("TOLLGATE_LOOK_AT_PAGE").unwrap();
    let pictures = std::env::var_os("TOLLGATE_PICTURES");
    for (name, answer) in pages() {
        let folder = pictures.clone().map_or_else(std::env::temp_dir, Into::into);
        let page = folder.join(format!("{name}.html"));
        std::fs::write(&page, answer.html()).unwrap();
        let output = Command::new("node")
            .arg(&script)
            .arg(&page)
            .args(&pictures)
            .output()
            .expect("node is missing; install it with: sudo apt-get install nodejs npm");
        std::fs::remove_file(page).unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(said.trim(), "[]", "{name}");
    }
}
