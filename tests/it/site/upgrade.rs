//! The prediction of an upgrade against the same arithmetic in Rust.

use serde_json::json;

use super::browser::Browser;
use super::made::FIXED;
use super::{assert_quiet, browser, on_disk};

/// Time after / time before and its interval, for shares of the time by row of the report on `from`.
fn predicted(from: usize, to: usize, share: impl Fn(&str, &str) -> f64) -> (f64, f64, f64) {
    let report = FIXED.report(from);
    let rows: Vec<(f64, f64, f64)> = report
        .rows
        .iter()
        .filter_map(|row| {
            let relative = row.cells[to].relative?;
            let (low, high) = relative.interval?;
            let weight = share(&row.name, &row.group);
            (weight > 0.0).then_some((weight, relative.ratio, (high / low).ln() / 2.0))
        })
        .collect();
    let sum: f64 = rows.iter().map(|(weight, _, _)| weight).sum();
    let time: f64 = rows.iter().map(|(weight, ratio, _)| weight / sum / ratio).sum();
    let squares: f64 = rows.iter().map(|(weight, ratio, half)| (weight / sum / ratio * half).powi(2)).sum();
    let half = squares.sqrt() / time;
    (time, time * (-half).exp(), time * half.exp())
}

fn sentence(from: &str, to: &str, (time, low, high): (f64, f64, f64)) -> String {
    let signed = |share: f64| format!("{}{:.1} %", if share < 0.0 { "−" } else { "+" }, share.abs() * 100.0);
    let change = format!("{:.1} % {} time", (time - 1.0).abs() * 100.0, if time > 1.0 { "more" } else { "less" });
    let interval = format!("{} to {}", signed(low - 1.0), signed(high - 1.0));
    format!("From {from} to {to} this mix takes {change}, 95 % interval {interval}.")
}

fn write(browser: &mut Browser, weights: &str) {
    browser.evaluate(&format!(
        "(() => {{ const form = document.getElementById('controls'); form.elements.weights.value = {weights:?}; \
         form.dispatchEvent(new Event('submit', {{ cancelable: true }})); }})()"
    ));
}

const ANSWER: &str = "document.querySelector('.answer').textContent";
const ERROR: &str = "document.getElementById('error').textContent";

#[test]
fn an_upgrade_is_predicted_as_times_add_up() {
    let Some(mut browser) = browser() else { return };
    // All groups by their size: every row the same.
    browser.open(&on_disk(&FIXED, "upgrade.html"));
    assert_eq!(browser.text(ANSWER), sentence("17.7", "18.1", predicted(15, 16, |_, _| 1.0)));
    let decisive = "document.querySelectorAll('#decisive tbody tr').length";
    assert_eq!(browser.evaluate(decisive), json!(3));

    browser.open(&on_disk(&FIXED, "upgrade.html#from=10&to=16"));
    write(&mut browser, " name   | time\n--------+------\n writes |  600\n point-1 |  400\n(2 rows)");
    let share = |_: &str, group: &str| match group {
        "writes" => 60.0 / 10.0,
        "point-1" => 40.0 / 11.0,
        _ => 0.0,
    };
    assert_eq!(browser.text(ANSWER), sentence("10.23", "16.11", predicted(7, 14, share)));
    assert_eq!(browser.text(ERROR), "");

    write(&mut browser, "update-index 3\nscan_range=100,1");
    let share = |name: &str, _: &str| {
        if name.starts_with("update-index") { 3.0 } else { f64::from(u8::from(name.starts_with("scan"))) }
    };
    assert_eq!(browser.text(ANSWER), sentence("10.23", "16.11", predicted(7, 14, share)));
    let hash = browser.text("location.hash");
    assert!(hash.contains("weights=update-index"), "a prediction has an address: {hash}");
    browser.open(&on_disk(&FIXED, &format!("upgrade.html{hash}")));
    assert_eq!(browser.text(ANSWER), sentence("10.23", "16.11", predicted(7, 14, share)));
    assert_quiet(&browser, "file://");
}

#[test]
fn weights_that_make_no_sense_get_one_clear_message() {
    let Some(mut browser) = browser() else { return };
    browser.open(&on_disk(&FIXED, "upgrade.html"));
    for (weights, message) in [
        ("", "There is no weight above zero: write a line such as “writes 60”."),
        ("writes 0", "There is no weight above zero: write a line such as “writes 60”."),
        ("writes 60\nreads 40", "Line 2: “reads” is neither a microbenchmark nor a group of this sweep."),
        ("writes -1", "Line 1, “writes -1”: write a name and a number that is not negative, such as “writes 60”."),
        (
            "writes 60\n<img src=x onerror=alert(1)>",
            "Line 2, “<img src=x onerror=alert(1)>”: write a name and a number that is not negative, such as “writes 60”.",
        ),
        ("writes 1e999", "There is no weight above zero: write a line such as “writes 60”."),
    ] {
        write(&mut browser, weights);
        assert_eq!(browser.text(ERROR), message, "{weights}");
        assert_eq!(browser.evaluate("document.querySelector('.answer')"), json!(null), "{weights}");
        assert_eq!(browser.evaluate("document.getElementById('decisive').hidden"), json!(true), "{weights}");
    }
    write(&mut browser, "writes 60%");
    assert_eq!(browser.text(ERROR), "");
    assert_quiet(&browser, "file://");
}
