//! What a bisect may promise, counted over planted steps.

use super::hunt::{Trouble, hunt};

/// Planted steps of each size.
const CASES: u32 = 200;

#[test]
fn a_step_of_three_percent_in_2500_commits_is_found() {
    let bag = hunt(0.03, Trouble::None, 0.99, CASES);
    assert!(bag.found() >= 0.99, "{bag:?}");
    assert!(bag.builds.iter().all(|builds| *builds <= 15), "{bag:?}");
}

#[test]
fn a_step_of_two_percent_is_found() {
    let bag = hunt(0.02, Trouble::None, 0.99, CASES);
    assert!(bag.found() >= 0.95, "{bag:?}");
    assert!(bag.builds.iter().filter(|builds| **builds > 15).count() <= 2, "{bag:?}");
}

#[test]
fn claims_of_95_percent_are_right_as_often() {
    for size in [0.02, 0.03] {
        let bag = hunt(size, Trouble::None, 0.95, CASES);
        assert!(bag.honesty() >= 0.93, "{size}: {bag:?}");
        assert!(bag.open <= CASES / 20, "{size}: {bag:?}");
    }
}

/// Launches are not always as the search assumes, and commits not always to be had. A list of commits that cannot be
/// built apart counts as the answer if the right one is in it.
#[test]
fn trouble_makes_few_answers_wrong() {
    for trouble in Trouble::ALL {
        let bag = hunt(0.03, trouble, 0.99, CASES / 2);
        assert!(bag.found() >= 0.95, "{}: {bag:?}", trouble.name());
    }
}

#[test]
fn ends_that_do_not_differ_are_not_searched() {
    let bag = hunt(0.0, Trouble::None, 0.99, CASES / 2);
    // One false alarm in a hundred is what the ends' test allows.
    assert!(bag.open >= CASES / 2 - 4, "{bag:?}");
}
