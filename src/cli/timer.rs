//! `regtrack weekly --install`: a systemd service and timer that run it every week.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;

use super::Failure;
use super::printer::Printer;

/// First line of every unit that regtrack writes: one without it is somebody else's.
const MARK: &str = "# Written by regtrack weekly --install; regtrack weekly --uninstall removes it.";

const SERVICE: &str = "regtrack-weekly.service";
const TIMER: &str = "regtrack-weekly.timer";

/// Options about the timer.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own on the command line")]
pub(super) struct TimerArgs {
    /// Write a systemd service and timer that run this command every week, and measure nothing now
    #[arg(long, requires = "range", conflicts_with_all = ["week", "dry_run", "fresh", "publish_anyway"])]
    install: bool,
    /// Remove the service and the timer
    #[arg(long, conflicts_with = "install")]
    uninstall: bool,
    /// The units are the calling user's [default]
    #[arg(long, conflicts_with = "system")]
    user: bool,
    /// The units are the machine's
    #[arg(long)]
    system: bool,
    /// When the timer runs, as systemd.time(7) has it
    #[arg(long, value_name = "WHEN", default_value = "Sat 03:00")]
    on_calendar: String,
}

/// Options of this file with a value, which the service does not get.
const WITH_VALUE: [&str; 1] = ["--on-calendar"];

/// Those without one.
const SWITCHES: [&str; 4] = ["--install", "--uninstall", "--user", "--system"];

impl TimerArgs {
    /// Whether this call is about the timer and nothing else.
    pub(super) const fn is_asked_for(&self) -> bool {
        self.install || self.uninstall
    }

    /// Where the units are.
    fn directory(&self) -> anyhow::Result<PathBuf> {
        use etcetera::BaseStrategy as _;
        if self.system {
            return Ok(PathBuf::from("/etc/systemd/system"));
        }
        let strategy = etcetera::choose_base_strategy().context("could not find the user's configuration directory")?;
        Ok(strategy.config_dir().join("systemd/user"))
    }

    /// How systemctl is called.
    fn systemctl(&self) -> &'static str {
        if self.system { "systemctl" } else { "systemctl --user" }
    }
}

/// Installs or removes the units.
pub(super) fn run(args: &TimerArgs, printer: Printer) -> Result<(), Failure> {
    let directory = args.directory()?;
    let units = [directory.join(SERVICE), directory.join(TIMER)];
    for unit in &units {
        refuse_foreign(unit)?;
    }
    if args.uninstall {
        return uninstall(args, &units, printer);
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let program = std::env::current_exe().context("could not find this program's file")?;
    let work = std::env::current_dir().context("could not find the current directory")?;
    let mut variables: Vec<(String, String)> =
        std::env::vars().filter(|(name, _)| name.starts_with("REGTRACK_") || name == "PATH").collect();
    variables.sort();
    let texts = [service(&program, &work, &forwarded(&arguments), &variables)?, timer(&args.on_calendar)?];
    fs::create_dir_all(&directory).with_context(|| format!("could not make {}", directory.display()))?;
    for (unit, text) in units.iter().zip(&texts) {
        fs::write(unit, text).with_context(|| format!("could not write {}", unit.display()))?;
    }
    let systemctl = args.systemctl();
    let mut text = format!("wrote {} and {}\n", units[0].display(), units[1].display());
    let _ = writeln!(text, "to start it: {systemctl} daemon-reload && {systemctl} enable --now {TIMER}");
    if !args.system {
        text += "to have it run while nobody is logged in: loginctl enable-linger\n";
    }
    let flag = if args.system { " --system" } else { "" };
    let _ =
        write!(text, "to look at it: {systemctl} list-timers {TIMER}\nto remove it: regtrack weekly --uninstall{flag}");
    printer.data(&text)?;
    Ok(())
}

fn uninstall(args: &TimerArgs, units: &[PathBuf], printer: Printer) -> Result<(), Failure> {
    let mut removed = Vec::new();
    for unit in units {
        match fs::remove_file(unit) {
            Ok(()) => removed.push(unit.display().to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(anyhow!(error).context(format!("could not remove {}", unit.display())).into()),
        }
    }
    if removed.is_empty() {
        printer.data("there is nothing to remove")?;
        return Ok(());
    }
    let systemctl = args.systemctl();
    let reload = format!("if it was started: {systemctl} stop {TIMER} && {systemctl} daemon-reload");
    printer.data(&format!("removed {}\n{reload}", removed.join(" and ")))?;
    Ok(())
}

/// Fails for a unit of this name that regtrack did not write.
fn refuse_foreign(unit: &Path) -> anyhow::Result<()> {
    match fs::read_to_string(unit) {
        Ok(text) if text.lines().next() == Some(MARK) => Ok(()),
        Ok(_) => {
            Err(anyhow!("'{}' was not written by regtrack; it was left as it is: move it away first", unit.display()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("could not read {}", unit.display())),
    }
}

/// The arguments without those about the timer.
fn forwarded(arguments: &[String]) -> Vec<String> {
    let mut forwarded = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let name = argument.split_once('=').map_or(argument.as_str(), |(name, _)| name);
        if WITH_VALUE.contains(&name) {
            if name == argument {
                rest.next();
            }
        } else if !SWITCHES.contains(&argument.as_str()) {
            forwarded.push(argument.clone());
        }
    }
    forwarded
}

fn service(
    program: &Path,
    work: &Path,
    arguments: &[String],
    variables: &[(String, String)],
) -> anyhow::Result<String> {
    let mut command = quoted(&program.to_string_lossy(), true)?;
    for argument in arguments {
        let _ = write!(command, " {}", quoted(argument, true)?);
    }
    let mut text = format!("{MARK}\n[Unit]\nDescription=PostgreSQL performance of this week (regtrack weekly)\n\n");
    text += "[Service]\nType=oneshot\n";
    // A path is not unquoted there.
    let directory = work.to_string_lossy();
    anyhow::ensure!(
        !directory.chars().any(char::is_control),
        "the name of the current directory has control characters"
    );
    let _ = writeln!(text, "WorkingDirectory={}", directory.replace('%', "%%"));
    for (name, value) in variables {
        let _ = writeln!(text, "Environment={}", quoted(&format!("{name}={value}"), false)?);
    }
    let _ = writeln!(text, "ExecStart={command}");
    // regtrack alone is asked to stop, and its servers end with it; a shutdown of theirs may take ten minutes.
    text += "KillMode=mixed\nTimeoutStopSec=11min\n";
    Ok(text)
}

fn timer(when: &str) -> anyhow::Result<String> {
    let is_plain = !when.trim().is_empty() && !when.chars().any(char::is_control);
    anyhow::ensure!(is_plain, "'{}' is no time for a timer: write one as Sat 03:00", when.escape_debug());
    // After a weekend without power it runs at the next start.
    Ok(format!(
        "{MARK}\n[Unit]\nDescription=regtrack weekly, every week\n\n[Timer]\nOnCalendar={}\nPersistent=true\n\n\
         [Install]\nWantedBy=timers.target\n",
        when.trim().replace('%', "%%")
    ))
}

/// A word as systemd reads it. In a command line `$` stands for a variable as well.
fn quoted(word: &str, is_command: bool) -> anyhow::Result<String> {
    anyhow::ensure!(!word.chars().any(char::is_control), "'{}' has control characters", word.escape_debug());
    let word = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    Ok(format!("\"{}\"", if is_command { word.replace('$', "$$") } else { word }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_service_gets_all_options_but_those_of_the_timer() {
        let all =
            words("weekly 16..18 --install --user --on-calendar Sun --profile smoke --on-calendar=Mon --site-url x");
        assert_eq!(forwarded(&all), words("weekly 16..18 --profile smoke --site-url x"));
    }

    #[test]
    fn words_are_quoted_as_systemd_reads_them() {
        let arguments = ["weekly".to_owned(), "a \"b\" 100% $HOME \\".to_owned()];
        let variables = [("PATH".to_owned(), "/bin:$x".to_owned())];
        let text = service(Path::new("/opt/r"), Path::new("/srv/a b"), &arguments, &variables).unwrap();
        assert!(text.contains("ExecStart=\"/opt/r\" \"weekly\" \"a \\\"b\\\" 100%% $$HOME \\\\\"\n"), "{text}");
        assert!(
            text.contains("WorkingDirectory=/srv/a b\n") && text.contains("Environment=\"PATH=/bin:$x\"\n"),
            "{text}"
        );
        assert!(quoted("a\nb", true).is_err() && timer("Sat\n[x]").is_err() && timer(" ").is_err());
    }

    #[test]
    fn units_of_others_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let unit = dir.path().join(TIMER);
        refuse_foreign(&unit).unwrap();
        fs::write(&unit, timer("Sat 03:00").unwrap()).unwrap();
        refuse_foreign(&unit).unwrap();
        fs::write(&unit, "[Timer]\n").unwrap();
        assert!(refuse_foreign(&unit).unwrap_err().to_string().contains("was not written by regtrack"));
    }
}
