//! The regtrack command.

use std::process::ExitCode;

fn main() -> ExitCode {
    regtrack::cli::main()
}
