//! Programs that get and run servers, and the account that servers run under.

use std::process::Command;
use std::time::Duration;

use super::Check;
use crate::domain::{Finding, FindingStatus};
use crate::process;
use crate::server::Account;

/// Longest time that a program may take to say its version.
const DEADLINE: Duration = Duration::from_secs(15);

/// A program by its names in the order of preference, and the arguments that make it say its version.
struct Program {
    check: Check,
    names: &'static [&'static str],
    version: &'static [&'static str],
    package: &'static str,
}

const COMPILING: &str = "compiles releases that have no prebuilt package";
const GENERATING: &str = "compiles archives from 17 on, and commits; older archives do not need it";

const COMPILER: Program = Program {
    check: Check::new("compiler", COMPILING),
    // As in `build`, and in PostgreSQL's configure.
    names: &["gcc", "cc", "clang"],
    version: &["--version"],
    package: "build-essential",
};
const MAKE: Program = Program {
    check: Check::new("make", COMPILING),
    names: &["make"],
    version: &["--version"],
    package: "build-essential",
};
const NPM: Program = Program {
    check: Check::new("npm", "fetches prebuilt servers, from 10 on"),
    names: &["npm"],
    version: &["--version"],
    package: "npm",
};
/// Nice to have: each is needed for some sources, releases or options only.
const OTHERS: [Program; 5] = [
    Program { check: Check::new("flex", GENERATING), names: &["flex"], version: &["--version"], package: "flex" },
    Program { check: Check::new("bison", GENERATING), names: &["bison"], version: &["--version"], package: "bison" },
    Program {
        check: Check::new("perl", GENERATING),
        names: &["perl"],
        version: &["-e", "print \"perl $^V\""],
        package: "perl",
    },
    Program {
        check: Check::new("git", "exports commits for --source git=REPO"),
        names: &["git"],
        version: &["--version"],
        package: "git",
    },
    Program {
        check: Check::new("valgrind", "counts instructions: sweep --instructions"),
        names: &["valgrind"],
        version: &["--version"],
        package: "valgrind",
    },
];
const SETPRIV: Program = Program {
    check: Check::new("setpriv", "starts every server, so that it steps down from root and ends with regtrack"),
    names: &["setpriv"],
    version: &["--version"],
    package: "util-linux",
};

/// The programs by which servers are got. Without npm and without a compiler none can be, except those
/// that are installed already.
pub(super) fn getting_servers() -> Vec<Finding> {
    let [compiler, make, npm] = [&COMPILER, &MAKE, &NPM].map(Program::look);
    let is_here = |finding: &Finding| finding.status == FindingStatus::Ok;
    let hopeful = is_here(&npm) || (is_here(&compiler) && is_here(&make));
    let mut findings = vec![compiler, make];
    findings.extend(OTHERS.iter().map(Program::look));
    findings.push(npm);
    for finding in findings.iter_mut().filter(|finding| !hopeful && finding.is_bad()) {
        if ["compiler", "make", "npm"].contains(&finding.check.as_str()) {
            finding.status = FindingStatus::Fail;
            finding.found += "; without npm, or a compiler and make, only --source prefix=DIR gets servers";
        }
    }
    findings
}

/// What starts servers, and who they run as.
pub(super) fn running_servers(run_as: Option<&str>) -> Vec<Finding> {
    let mut setpriv = SETPRIV.look();
    if setpriv.is_bad() {
        setpriv.status = FindingStatus::Fail;
    }
    vec![setpriv, account(run_as)]
}

fn account(run_as: Option<&str>) -> Finding {
    let check = Check::new("account", "PostgreSQL refuses to run as root, so root needs an unprivileged account");
    match Account::choose(run_as) {
        Ok(account) if account.is_other() => check.ok(format!("root; servers run as {}", account.name)),
        Ok(account) => check.ok(format!("not root; servers run as {}", account.name)),
        Err(error) => check.fail(error.to_string(), "sudo useradd --system --no-create-home postgres"),
    }
}

impl Program {
    /// The first of its names that is here, with its version.
    fn look(&self) -> Finding {
        for name in self.names {
            match process::run(Command::new(name).args(self.version), DEADLINE, None) {
                Ok(text) => return self.check.ok(first_line(&text)),
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    let text = error.to_string();
                    let line = text.lines().next().unwrap_or_default();
                    return self.check.warn(line, format!("sudo apt-get install --reinstall {}", self.package));
                }
            }
        }
        self.check.warn("not on the search path", format!("sudo apt-get install {}", self.package))
    }
}

fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("here, without a version")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &'static [&'static str], version: &'static [&'static str]) -> Finding {
        Program { check: Check::new("x", "y"), names: name, version, package: "some-package" }.look()
    }

    #[test]
    fn a_program_is_found_by_any_of_its_names_with_its_version() {
        let found = program(&["regtrack-no-such-program", "echo"], &["tool 1.2"]);
        assert_eq!((found.status, found.found.as_str()), (FindingStatus::Ok, "tool 1.2"));
    }

    #[test]
    fn a_missing_program_comes_with_its_package_and_a_broken_one_with_its_reason() {
        let missing = program(&["regtrack-no-such-program"], &[]);
        assert_eq!(missing.mend.as_deref(), Some("sudo apt-get install some-package"));
        let broken = program(&["false"], &[]);
        assert_eq!(broken.status, FindingStatus::Warn);
        assert!(broken.found.contains("'false' failed"), "{broken:?}");
    }

    #[test]
    fn an_account_that_does_not_exist_is_a_failure() {
        let finding = account(Some("regtrack-no-such-account"));
        assert_eq!(finding.status, FindingStatus::Fail, "{finding:?}");
    }
}
