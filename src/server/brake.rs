//! The planted slowdown: a library that is compiled here and loaded into one server.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::ServerError;
use crate::domain::Brake;
use crate::process;

/// Our own code; it becomes part of no release's build.
const SOURCE: &str = include_str!("brake.c");

const LIBRARY: &str = "regtrack_brake.so";

const COMPILE_DEADLINE: Duration = Duration::from_secs(60);

/// Compiles the library into the data directory `data`, where the server's account can read it and where it goes when
/// the cluster goes, and says what the server's environment needs.
pub(super) fn environment(brake: Brake, data: &Path) -> Result<[(&'static str, String); 2], ServerError> {
    let library = compile(data)?;
    let amount = match brake {
        Brake::Nanoseconds(ns) => ("REGTRACK_BRAKE_NS", ns.to_string()),
        Brake::Loops(loops) => ("REGTRACK_BRAKE_LOOPS", loops.to_string()),
    };
    Ok([("LD_PRELOAD", library.to_string_lossy().into_owned()), amount])
}

/// The loader only warns of a library that it cannot load, and the server would run without its brake.
pub(super) fn check_loaded(pid: u32) -> Result<(), ServerError> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    if maps.contains(LIBRARY) { Ok(()) } else { Err(ServerError::BrakeNotLoaded { pid }) }
}

fn compile(data: &Path) -> Result<PathBuf, ServerError> {
    let (source, library) = (data.join("regtrack_brake.c"), data.join(LIBRARY));
    let error = |path: &Path| {
        let path = path.to_owned();
        |source| ServerError::Directory { path, source }
    };
    fs::write(&source, SOURCE).map_err(error(&source))?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
    process::run(&mut compiler, COMPILE_DEADLINE, None).map_err(|source| ServerError::BrakeCompile { source })?;
    fs::set_permissions(&library, Permissions::from_mode(0o755)).map_err(error(&library))?;
    Ok(library)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_library_compiles_and_loads() {
        let directory = tempfile::tempdir().unwrap();
        let [(preload, library), (name, value)] = environment(Brake::Nanoseconds(1000), directory.path()).unwrap();
        assert_eq!((name, value.as_str()), ("REGTRACK_BRAKE_NS", "1000"));
        let mut cat = Command::new("cat");
        cat.env(preload, library).arg("/proc/self/maps");
        let maps = process::run(&mut cat, Duration::from_secs(10), None).unwrap();
        assert!(maps.contains(LIBRARY), "{maps}");
        assert!(matches!(check_loaded(std::process::id()), Err(ServerError::BrakeNotLoaded { .. })));
    }

    #[test]
    fn what_was_received_is_braked_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        // A program of its own, since this one may not be given a library.
        let source = directory.path().join("probe.c");
        let text = "#include <stdio.h>\n#include <sys/socket.h>\nint main(void) { int s[2]; char c[8];\n\
            socketpair(AF_UNIX, SOCK_STREAM, 0, s); send(s[0], \"abc\", 3, 0);\n\
            long got = recv(s[1], c, sizeof c, 0); long none = recv(s[1], c, sizeof c, MSG_DONTWAIT);\n\
            printf(\"%ld %ld %.3s\", got, none, c); }\n";
        fs::write(&source, text).unwrap();
        let probe = directory.path().join("probe");
        let mut compiler = Command::new("cc");
        compiler.arg("-O2").arg("-o").arg(&probe).arg(&source);
        process::run(&mut compiler, COMPILE_DEADLINE, None).unwrap();
        let run = |brake| {
            let begin = Instant::now();
            let mut command = Command::new(&probe);
            command.envs(environment(brake, directory.path()).unwrap());
            let run_begin = Instant::now();
            let said = process::run(&mut command, Duration::from_secs(20), None).unwrap();
            assert_eq!(said, "3 -1 abc");
            assert!(begin <= run_begin);
            run_begin.elapsed()
        };
        let (long, short) = (Duration::from_millis(400), run(Brake::Nanoseconds(1)));
        let braked = run(Brake::Nanoseconds(400_000_000));
        assert!(braked >= long && braked < short + 2 * long, "once: {braked:?}, without: {short:?}");
        assert!(run(Brake::Loops(400_000_000)) > short);
    }
}
