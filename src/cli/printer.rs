//! The one place that writes to the terminal. Standard output is data; everything else goes to
//! standard error.

use std::io::{self, IsTerminal as _, Write as _};

use tracing_subscriber::EnvFilter;

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Printer {
    quiet: bool,
    verbose: u8,
}

impl Printer {
    pub(super) const fn new(quiet: bool, verbose: u8) -> Self {
        Self { quiet, verbose }
    }

    /// Whether a live display makes sense: a terminal that is not to be quiet.
    pub(super) fn is_live(self) -> bool {
        !self.quiet && io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
    }

    pub(super) const fn is_verbose(self) -> bool {
        self.verbose > 0
    }

    /// Prints data. A reader that goes away early (`| head`) is not an error.
    #[expect(clippy::unused_self, reason = "whoever prints has been handed the printer")]
    pub(super) fn data(self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let written = out
            .write_all(text.as_bytes())
            .and_then(|()| if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") });
        match written.and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// Says something to the person.
    pub(super) fn say(self, text: &str) {
        if !self.quiet {
            // Nobody is left to be told about a broken standard error.
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }

    /// Says what went wrong where that does not end the call.
    pub(super) fn warn(self, what: &str, error: &anyhow::Error) {
        self.say(&format!("warning: {what}: {error:#}"));
    }

    /// Shows an error with its causes, each said once.
    #[expect(clippy::unused_self, reason = "whoever prints has been handed the printer")]
    pub(super) fn error(self, error: &anyhow::Error) {
        let mut err = io::stderr().lock();
        let _ = writeln!(err, "error: {error}");
        let mut said = error.to_string();
        for cause in error.chain().skip(1).map(ToString::to_string) {
            if !said.contains(&cause) {
                let _ = writeln!(err, "  caused by: {}", cause.trim_end());
                said = cause;
            }
        }
    }
}

/// Starts the internal log: `REGTRACK_LOG` in the syntax of tracing's filters, or `-vv`.
pub(super) fn start_log(verbose: u8) {
    let default = if verbose > 1 { "regtrack=debug,warn" } else { "warn" };
    let filter = EnvFilter::try_from_env("REGTRACK_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    // Fails only when a log is running already, as in tests.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .without_time()
        .try_init();
}
