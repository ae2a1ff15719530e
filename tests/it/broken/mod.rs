//! Everything that a person can get wrong, once each: one clear message on standard error, nothing on
//! standard output, a status that is not zero, and nothing changed on the disk.
//! `SNAPSHOTS=overwrite cargo test broken` accepts the messages as they are now.

#![expect(clippy::needless_raw_string_hashes, reason = "snapbox writes them so")]

mod catalogue;
mod machine;
mod options;
mod releases;
mod results;
mod site;
mod tables;
mod weekly;

use snapbox::data::Inline;
use snapbox::{assert_data_eq, str};

use regtrack::store::Store;

use crate::sandbox::Sandbox;

/// Status for what the person or the machine is to blame for, and clap's for a wrong command line.
const ERROR: i32 = 1;
const USAGE: i32 = 2;

const TABLE: &str = "col-1 : x.pg9023_def.x9a2_bee.pk1\ncol-2 : x.pg162_def.x9a2_bee.pk1\n\ncol-1\tcol-2\n\
    10000\t9500\tpoint-query.pre_range=100\n3000\t9000\tupdate-one_range=100\n";

/// A run that ended as it should; what it said is still to be checked.
#[must_use]
struct Refusal(String);

impl Refusal {
    fn says(self, message: Inline) {
        assert_data_eq!(self.0, message);
    }
}

/// Runs the program and checks everything but the message.
fn refused(sandbox: &Sandbox, arguments: &[&str], status: i32) -> Refusal {
    let before = sandbox.tree();
    let run = sandbox.run(arguments);
    assert_eq!((run.status, run.stdout.as_str()), (status, ""), "{arguments:?}: {}", run.stderr);
    assert_eq!(sandbox.tree(), before, "{arguments:?}");
    Refusal(run.stderr)
}

/// With `results` made from a table.
fn imported() -> Sandbox {
    let sandbox = Sandbox::with_npm();
    sandbox.file("qps.abs.tsv", TABLE);
    sandbox.ok(&["import", "qps.abs.tsv"]);
    sandbox
}

/// A path inside the one sweep of [`imported`].
fn in_sweep(sandbox: &Sandbox, name: &str) -> String {
    let store = Store::open(sandbox.path("results")).unwrap();
    format!("results/sweeps/{}/{name}", store.current().unwrap().id)
}
