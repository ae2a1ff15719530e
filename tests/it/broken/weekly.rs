//! Weeks, publishing and timers.

use super::*;

#[test]
fn a_week_that_does_not_exist() {
    refused(&Sandbox::with_npm(), &["weekly", "16", "--week", "2025-W53"], USAGE).says(str![[r#"
error: invalid value '2025-W53' for '--week <WEEK>': '2025-W53' is not a week: write one as 2026-W49

For more information, try '--help'.

"#]]);
}

#[test]
fn a_week_to_go_on_with_where_there_is_none() {
    refused(&imported(), &["weekly", "--no-refresh"], ERROR).says(str![[r#"
error: there is no week in 'results' to go on with; name the releases to measure, such as 16..18

"#]]);
}

#[test]
fn someone_elses_directory_to_publish_in() {
    let sandbox = imported();
    sandbox.file("photos/cat.jpg", "meow");
    // Before hours of measuring, not after.
    let arguments = ["weekly", "16", "--no-refresh", "--publish", "photos"];
    refused(&sandbox, &arguments, ERROR).says(str![[r#"
error: 'photos' holds 'cat.jpg' and no site of regtrack; it was left as it is: publish to an empty place, or to one below it

"#]]);
    sandbox.ok(&["report", "--site", "site"]);
    refused(&sandbox, &["publish", "photos", "--site", "site"], ERROR).says(str![[r#"
error: 'photos' holds 'cat.jpg' and no site of regtrack; it was left as it is: publish to an empty place, or to one below it

"#]]);
}

#[test]
fn a_site_that_is_none() {
    let sandbox = imported();
    refused(&sandbox, &["publish", "www", "--site", "results"], ERROR).says(str![[r#"
error: there is no site of regtrack in 'results': write one first, with `regtrack report --site`

"#]]);
}

#[test]
fn a_branch_without_git() {
    refused(&imported(), &["report", "--publish", "git:pages"], ERROR).says(str![[r#"
error: could not find the repository of 'git:.#pages'
  caused by: the program 'git' is not on this machine

"#]]);
}

#[test]
fn a_unit_of_someone_else() {
    let sandbox = Sandbox::with_npm();
    sandbox.ok(&["weekly", "16", "--install"]);
    let unit = sandbox.path("../home/.config/systemd/user/regtrack-weekly.timer");
    assert!(unit.exists());
    sandbox.ok(&["weekly", "--uninstall"]);
    assert!(!unit.exists());
    sandbox.file("../home/.config/systemd/user/regtrack-weekly.timer", "[Timer]\nOnCalendar=daily\n");
    let shown = refused(&sandbox, &["weekly", "16", "--install"], ERROR).0;
    assert!(shown.contains("regtrack-weekly.timer' was not written by regtrack; it was left as it is"), "{shown}");
    let shown = refused(&sandbox, &["weekly", "--uninstall"], ERROR).0;
    assert!(shown.contains("was not written by regtrack"), "{shown}");
}

#[test]
fn a_timer_for_nothing() {
    refused(&Sandbox::with_npm(), &["weekly", "--install"], USAGE).says(str![[r#"
error: the following required arguments were not provided:
  <RANGE>

Usage: regtrack weekly --install <RANGE>

For more information, try '--help'.

"#]]);
    refused(&Sandbox::with_npm(), &["weekly", "16", "--install", "--on-calendar", ""], ERROR).says(str![[r#"
error: '' is no time for a timer: write one as Sat 03:00

"#]]);
}
