//! Landlock: the second fence behind the view, and the only one where there are no namespaces.

use std::path::{Path, PathBuf};

use coordd_sandbox::{Level, Policy};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};

use crate::error::BoxError;

/// The newest kernel that this was tried with. An older one enforces what it knows.
const KNOWN: ABI = ABI::V7;

/// Most names of one folder that are granted one by one, and of all of them.
const NAMES_MAX: usize = 20_000;

/// Puts the fence around the process and all that it starts.
pub(crate) fn put_on(policy: &Policy) -> Result<(), BoxError> {
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))
        .map_err(failed)?
        .scope(Scope::from_all(KNOWN))
        .map_err(failed)?;
    let ruleset = match policy.level {
        Level::Namespaces => ruleset,
        Level::Landlock => ruleset.handle_access(AccessNet::from_all(KNOWN)).map_err(failed)?,
    };
    let mut ruleset = ruleset.create().map_err(failed)?;
    let reading = AccessFs::from_read(KNOWN);
    match policy.level {
        Level::Namespaces => ruleset = grant(ruleset, Path::new("/"), reading)?,
        Level::Landlock => {
            // Nothing can be taken out of a folder that is granted, so all but what is hidden is granted one by one. Names
            // are no secrets.
            ruleset = grant(ruleset, Path::new("/"), AccessFs::ReadDir.into())?;
            for path in all_but(policy) {
                ruleset = grant(ruleset, &path, reading)?;
            }
        }
    }
    let all = AccessFs::from_all(KNOWN);
    // Devices are written to; that they can be made is nobody's.
    let device = reading | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    for name in ["null", "zero", "full", "random", "urandom", "tty", "pts", "ptmx"] {
        ruleset = grant(ruleset, &Path::new("/dev").join(name), device)?;
    }
    ruleset = grant(ruleset, Path::new("/dev/shm"), all)?;
    let writable = policy.writable.iter().map(|it| &it.at.0);
    for path in writable.chain(policy.overlays.iter().map(|it| &it.at.0)) {
        ruleset = grant(ruleset, path, all)?;
    }
    let status = ruleset.restrict_self().map_err(failed)?;
    match (status.ruleset, policy.level) {
        (RulesetStatus::NotEnforced, Level::Landlock) => {
            Err(BoxError::Landlock("this kernel does not enforce it".to_owned()))
        }
        (_, _) => Ok(()),
    }
}

/// Grants what a path allows by its kind; what is gone is passed over.
fn grant(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, BoxError> {
    let Ok(metadata) = path.metadata() else { return Ok(ruleset) };
    let access = if metadata.is_dir() { access } else { access & AccessFs::from_file(KNOWN) };
    if access.is_empty() {
        return Ok(ruleset);
    }
    let Ok(held) = PathFd::new(path) else { return Ok(ruleset) };
    ruleset.add_rule(PathBeneath::new(held, access)).map_err(failed)
}

/// What can be read without a folder that leads to something hidden being granted as a whole.
fn all_but(policy: &Policy) -> Vec<PathBuf> {
    let mut hidden: Vec<PathBuf> = policy.hidden.iter().map(|it| it.0.clone()).collect();
    hidden.push("/run".into());
    let mut granted = Vec::new();
    let mut open = vec![PathBuf::from("/")];
    while let Some(folder) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            if hidden.iter().any(|it| path.starts_with(it)) {
                continue;
            }
            if hidden.iter().any(|it| it.starts_with(&path)) {
                open.push(path);
            } else if granted.len() < NAMES_MAX && !path.is_symlink() {
                granted.push(path);
            }
        }
    }
    granted
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` hands it over")]
fn failed(error: landlock::RulesetError) -> BoxError {
    BoxError::Landlock(error.to_string())
}
