//! `regtrack selftest` on a real server: a planted slowdown that nobody can miss.

use serde_json::Value;

use super::{Place, text};

/// Several times what a point query takes.
const BRAKE_NS: f64 = 300_000.0;

fn trials<'a>(test: &'a Value, cost: &str) -> &'a Vec<Value> {
    let costs = test["costs"].as_array().unwrap();
    let found = costs.iter().find(|entry| entry["cost"] == cost).unwrap_or_else(|| panic!("no {cost}: {test:#}"));
    found["trials"].as_array().unwrap()
}

#[test]
fn a_planted_slowdown_is_measured_in_its_size() {
    let Some(place) = Place::for_test("a_planted_slowdown_is_measured_in_its_size") else { return };
    let clusters = place.path().to_str().unwrap();
    let brake = format!("{BRAKE_NS}ns");
    let arguments = [
        "selftest",
        "18",
        "--source",
        "prebuilt",
        "--launches",
        "2",
        "--seconds",
        "0.2",
        "--rows",
        "2000",
        "--bench",
        "point-query.pre*",
        "--brake",
        &brake,
        "--clusters",
        clusters,
        "--json",
    ];
    let output = place.run(&arguments);
    // 3: on a busy machine two launches of a fifth of a second can be anything.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output));
    let test: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&test["launches"], &test["failed"]), (&2.into(), &0.into()), "{test:#}");
    assert_eq!(test["false_alarms"]["of"], 2, "time and CPU time: {test:#}");
    for cost in ["time", "backend_cpu"] {
        let [again, slower] = trials(&test, cost).as_slice() else { panic!("{cost}: {test:#}") };
        let number = |trial: &Value, name: &str| trial[name].as_f64().unwrap();
        assert!(again["target"].as_str().unwrap().ends_with(" again") && number(again, "planted") == 0.0, "{again:#}");
        let target = slower["target"].as_str().unwrap();
        assert!(target.ends_with(&format!(" +{brake}")), "{target}");
        // A pause of this thread or of the backend is part of the time; a brake's end is never early.
        let (planted, measured) = (number(slower, "planted"), number(slower, "measured"));
        assert!(measured > 0.7 * planted && planted > 1.0, "{cost}: {slower:#}");
    }
    place.assert_no_servers();
    let left = std::fs::read_dir(place.path()).unwrap().count();
    assert_eq!(left, 0, "nothing stays");
}

#[test]
fn one_server_is_tried() {
    let Some(place) = Place::for_test("one_server_is_tried") else { return };
    let output = place.run(&["selftest", "17,18"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("name one release"), "{}", text(&output));
}
