//! Which ways to a server are tried, in which order.

use crate::domain::Source;

use super::error::BuildError;
use super::programs::{missing_for_compiling, require};
use super::{Choice, Request};

/// The choices for each request. `here` tells whether a program is on this machine.
pub(super) fn choices(
    source: &Source,
    requests: &[Request],
    here: &dyn Fn(&str) -> bool,
) -> Result<Vec<Vec<Choice>>, BuildError> {
    match source {
        Source::Auto => auto(requests, here),
        Source::Prebuilt => {
            one_variant(requests)?;
            platform()?;
            require("fetching prebuilt packages", &missing(&["npm"], here))?;
            let hint = || "compile it with --source=source".to_owned();
            requests
                .iter()
                .map(|request| Ok(vec![request.prebuilt_choice().ok_or_else(|| none(request, hint()))?]))
                .collect()
        }
        Source::Archive => {
            require("compiling PostgreSQL", &missing_for_compiling(need_generators(requests), here))?;
            Ok(requests.iter().map(|request| vec![request.archive_choice()]).collect())
        }
        Source::Path(_) => {
            require("compiling PostgreSQL", &missing_for_compiling(need_generators(requests), here))?;
            Ok(requests.iter().map(|request| vec![Choice::Path(request.clone())]).collect())
        }
        Source::Git { revision, .. } => {
            let mut missing = missing(&["git"], here);
            missing.extend(missing_for_compiling(true, here));
            require("compiling PostgreSQL from git", &missing)?;
            let commit = |request: &Request| vec![Choice::Git { request: request.clone(), revision: revision.clone() }];
            Ok(requests.iter().map(commit).collect())
        }
        Source::Prefix(_) => {
            one_variant(requests)?;
            let prefix =
                |request: &Request| Choice::Prefix { release: request.release.clone(), floating: request.floating };
            Ok(requests.iter().map(|request| vec![prefix(request)]).collect())
        }
    }
}

/// Prebuilt first when that can serve all requests; otherwise source first for all, since builds of one
/// toolchain can be compared and a mixture cannot. The other way is the fallback.
fn auto(requests: &[Request], here: &dyn Fn(&str) -> bool) -> Result<Vec<Vec<Choice>>, BuildError> {
    let source_lacks = missing_for_compiling(need_generators(requests), here);
    let prebuilt_lacks = if platform().is_err() { Some("Linux on x86-64") } else { (!here("npm")).then_some("npm") };
    if let (Some(prebuilt), false) = (prebuilt_lacks, source_lacks.is_empty()) {
        return Err(BuildError::NoProvider { prebuilt: prebuilt.to_owned(), source_programs: source_lacks.join(", ") });
    }
    let prebuilt_first =
        requests.iter().all(|request| request.prebuilt().is_some() && request.variant.name.is_default());
    let choices = |request: &Request| {
        let is_default = request.variant.name.is_default();
        let prebuilt = request.prebuilt_choice().filter(|_| prebuilt_lacks.is_none() && is_default);
        let source = source_lacks.is_empty().then(|| request.archive_choice());
        let order = if prebuilt_first { [prebuilt, source] } else { [source, prebuilt] };
        let choices: Vec<Choice> = order.into_iter().flatten().collect();
        if choices.is_empty() {
            let hint = format!(
                "compiling it needs {}: install build-essential bison flex perl (Debian's names)",
                source_lacks.join(", ")
            );
            return Err(none(request, hint));
        }
        Ok(choices)
    };
    requests.iter().map(choices).collect()
}

impl Request {
    fn archive_choice(&self) -> Choice {
        Choice::Archive(self.clone())
    }

    fn prebuilt_choice(&self) -> Option<Choice> {
        let release = self.prebuilt()?.clone();
        let instead_of = (release.version != self.release.version).then_some(self.release.version);
        Some(Choice::Prebuilt { release, instead_of })
    }
}

/// Refuses variants where there is nothing to compile.
fn one_variant(requests: &[Request]) -> Result<(), BuildError> {
    match requests.iter().find(|request| !request.variant.name.is_default()) {
        Some(request) => Err(BuildError::NotCompiled { variant: request.variant.name.to_string() }),
        None => Ok(()),
    }
}

/// From 17 on, archives hold no generated files.
fn need_generators(requests: &[Request]) -> bool {
    requests.iter().any(|request| request.release.version.major.number() >= 1700)
}

fn missing(names: &[&'static str], here: &dyn Fn(&str) -> bool) -> Vec<&'static str> {
    names.iter().copied().filter(|name| !here(name)).collect()
}

fn none(request: &Request, hint: String) -> BuildError {
    BuildError::NotPrebuilt { version: request.release.version, hint }
}

/// Refuses platforms that the packages are not made for.
pub(super) fn platform() -> Result<(), BuildError> {
    if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Ok(());
    }
    let platform = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    Err(BuildError::Platform { platform })
}

#[cfg(test)]
mod tests {
    use super::super::recipe::tests::variant;
    use super::*;
    use crate::domain::Release;

    fn release(version: &str, prebuilt: Option<&str>) -> Release {
        Release {
            version: version.parse().unwrap(),
            date: None,
            tag: String::new(),
            archive: format!("postgresql-{version}.tar.bz2"),
            sha256: None,
            prebuilt: prebuilt.map(str::to_owned),
        }
    }

    fn exact(version: &str, prebuilt: Option<&str>) -> Request {
        Request {
            release: release(version, prebuilt),
            floating: false,
            prebuilt_fallback: None,
            fixups: Vec::new(),
            variant: variant("o2", &[]),
        }
    }

    fn floating_18() -> Request {
        let fallback = Some(release("18.4", Some("18.4.0-beta.17")));
        Request { floating: true, prebuilt_fallback: fallback, ..exact("18.6", None) }
    }

    fn plan(source: &Source, requests: &[Request], programs: &[&str]) -> Result<Vec<String>, BuildError> {
        let rows = choices(source, requests, &|name| programs.contains(&name))?;
        let words = |row: Vec<Choice>| row.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Ok(rows.into_iter().map(words).collect())
    }

    const ALL: [&str; 6] = ["npm", "gcc", "make", "bison", "flex", "perl"];

    #[test]
    fn auto_prefers_prebuilt_when_all_requests_have_one() {
        let requests = [exact("10.23", Some("10.23.0-beta.6")), floating_18()];
        let rows = plan(&Source::Auto, &requests, &ALL).unwrap();
        assert_eq!(rows, ["prebuilt 10.23, source 10.23", "prebuilt 18.4, source 18.6"]);
    }

    #[test]
    fn auto_prefers_source_for_all_when_one_request_has_no_package() {
        let requests = [exact("9.6.24", None), floating_18()];
        let rows = plan(&Source::Auto, &requests, &ALL).unwrap();
        assert_eq!(rows, ["source 9.6.24", "source 18.6, prebuilt 18.4"]);
    }

    #[test]
    fn auto_uses_what_is_there() {
        let requests = [exact("10.23", Some("10.23.0-beta.6"))];
        assert_eq!(plan(&Source::Auto, &requests, &["npm"]).unwrap(), ["prebuilt 10.23"]);
        assert_eq!(plan(&Source::Auto, &requests, &["cc", "make"]).unwrap(), ["source 10.23"]);
    }

    #[test]
    fn nothing_to_work_with_is_one_error_that_says_what_to_install() {
        let error = plan(&Source::Auto, &[floating_18()], &["make"]).unwrap_err().to_string();
        assert!(error.contains("npm, or build-essential bison flex perl"), "{error}");
    }

    #[test]
    fn a_named_release_is_never_replaced_by_another_minor() {
        let request = Request { floating: false, ..floating_18() };
        let error = plan(&Source::Prebuilt, &[request], &ALL).unwrap_err().to_string();
        assert!(error.contains("18.6 has no prebuilt package"), "{error}");
    }

    #[test]
    fn auto_refuses_a_release_that_only_a_missing_compiler_could_provide() {
        let error = plan(&Source::Auto, &[exact("9.6.24", None)], &["npm"]).unwrap_err().to_string();
        assert!(error.contains("9.6.24") && error.contains("build-essential"), "{error}");
    }

    #[test]
    fn git_needs_the_generators_whatever_the_version() {
        let git = Source::Git { repository: "repo".into(), revision: None };
        let error = plan(&git, &[exact("9.6.24", None)], &["gcc", "make", "perl"]).unwrap_err().to_string();
        assert!(error.contains("git, bison, flex"), "{error}");
        let prefix = Source::Prefix("/usr".into());
        assert_eq!(plan(&prefix, &[floating_18()], &[]).unwrap(), ["installed 18"]);
    }
}
