//! Squares for the hours of a week, in five shades.

use std::fmt::Write as _;

use super::{open, square};
use crate::output::number::grouped;

/// Shades besides that of nothing.
const SHADES: u64 = 5;

const ROW: u32 = 24;

/// Draws a value for each hour of these days of the week, with the scale of its shades.
///
/// `shades` is the class of their colours.
pub(crate) fn week(id: &str, title: &str, week: &[(&str, Vec<u64>)], shades: &str) -> String {
    let most = values(week).max().unwrap_or(0);
    let description = format!("{title}: {} in the busiest.", grouped(most));
    let height = ROW * week.len() as u32;
    let mut html = format!(
        "<div class=\"chart {shades}\" data-columns=\"24\">\n<p class=\"unit\">hour of the day</p>\n"
    );
    // Writing into a string does not fail.
    open(&mut html, id, "plot heat", height, title, &description);
    for hour in (0..24_u32).step_by(6) {
        let x = f64::from(hour) / 24.0 * 100.0;
        let _ = writeln!(html, "<text class=\"tick\" x=\"{x:.2}%\" y=\"-6\">{hour}</text>");
    }
    let _ = writeln!(html, "<text class=\"tick\" x=\"100%\" y=\"-6\" text-anchor=\"end\">24</text>");
    for (row, (name, day)) in week.iter().enumerate() {
        let top = ROW * row as u32;
        let _ = writeln!(html, "<text x=\"-8\" y=\"{}\" text-anchor=\"end\">{name}</text>", top + 16);
        for (column, value) in day.iter().enumerate() {
            let _ = write!(
                html,
                "<rect class=\"h{}\" x=\"{:.2}%\" y=\"{top}\" width=\"4.17%\" height=\"{ROW}\"/>",
                shade(*value, most),
                column as f64 / 24.0 * 100.0,
            );
        }
        html.push('\n');
    }
    html.push_str("</svg>\n</div>\n");
    let mut used: Vec<u64> = values(week).map(|value| shade(value, most)).collect();
    used.sort_unstable();
    used.dedup();
    scale(&mut html, most, shades, &used);
    html
}

fn values(week: &[(&str, Vec<u64>)]) -> impl Iterator<Item = u64> {
    week.iter().flat_map(|(_, day)| day.iter().copied())
}

/// The shade of a value: nothing, or one of five equal parts of the greatest.
fn shade(value: u64, most: u64) -> u64 {
    let shade = u128::from(value) * u128::from(SHADES);
    u64::try_from(shade.div_ceil(u128::from(most.max(1)))).unwrap_or(SHADES)
}

/// The values of each shade that is used.
fn scale(html: &mut String, most: u64, shades: &str, used: &[u64]) {
    let _ = writeln!(html, "<ul class=\"scale {shades}\">");
    if used.contains(&0) {
        let _ = writeln!(html, "<li>{}0</li>", square("h0"));
    }
    let mut below = 0;
    for number in 1..=SHADES {
        let last = (u128::from(most) * u128::from(number) / u128::from(SHADES)) as u64;
        if last > below {
            let values = match last - below {
                1 => grouped(last),
                _ => format!("{} to {}", grouped(below + 1), grouped(last)),
            };
            if used.contains(&number) {
                let _ = writeln!(html, "<li>{}{values}</li>", square(&format!("h{number}")));
            }
            below = last;
        }
    }
    html.push_str("</ul>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scale names for each shade exactly the values that have it.
    #[test]
    fn the_scale_says_what_the_shades_are() {
        for most in 1..60 {
            let mut html = String::new();
            scale(&mut html, most, "denials", &[0, 1, 2, 3, 4, 5]);
            for value in 0..=most {
                let shade = shade(value, most);
                let (_, after) = html.split_once(&format!("\"h{shade}\"")).unwrap();
                let said = after.split_once("</svg>").and_then(|(_, rest)| rest.split_once('<')).unwrap().0;
                let (from, to) = said.split_once(" to ").unwrap_or((said, said));
                let range = from.parse::<u64>().unwrap()..=to.parse::<u64>().unwrap();
                assert!(range.contains(&value), "{value} of {most}: {said}");
            }
        }
    }

    /// Most shades of a week with one attack had no square.
    #[test]
    fn the_scale_has_no_shade_that_is_not_used() {
        let html = week("week", "Denied", &[("Tue", vec![0, 100, 7])], "denials");
        let (_, scale) = html.split_once("class=\"scale").unwrap();
        let has = |shade: &str| scale.contains(&format!("\"{shade}\""));
        assert_eq!(["h0", "h1", "h2", "h3", "h4", "h5"].map(has), [true, true, false, false, false, true]);
    }
}
