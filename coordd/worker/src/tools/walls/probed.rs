//! What this machine can do for a box, as the program beside this one finds it out by doing it.
//!
//! That takes some milliseconds, and the answer is the same for every agent: a whole box is remembered in coordd's state folder, for this
//! boot and this very program. Anything less is found out each time, since its user may be mending it. Where a box cannot be built
//! any more, the memory is thrown away.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use coordd_sandbox::{Abilities, Level};
use serde::{Deserialize, Serialize};

use super::WallsError;

/// The program, beside this one.
const PROGRAM_NAME: &str = "coordd-sandbox";

/// Longest answer of a probe, and longest memory of it.
const PROBE_LEN_MAX: usize = 64 * 1024;

/// The memory's name in coordd's state folder.
const FILE_NAME: &str = "sandbox.json";

/// Which program on which boot was asked, and by whom.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Asked {
    boot: String,
    user: u32,
    program: (u64, u64, i64, i64),
}

#[derive(Debug, Serialize, Deserialize)]
struct Remembered {
    asked: Asked,
    abilities: Abilities,
}

/// The program, and what the machine can do. `state` is coordd's state folder.
pub(crate) fn probe(state: &Path) -> Result<(PathBuf, Abilities), WallsError> {
    let own = std::env::current_exe().unwrap_or_default();
    let program = own.with_file_name(PROGRAM_NAME);
    let asked = asked(&program);
    if let Some(abilities) = asked.as_ref().and_then(|asked| remembered(state, asked)) {
        return Ok((program, abilities));
    }
    let abilities = ask(&program)?;
    if let Some(asked) = asked.filter(|_| abilities.level() == Some(Level::Namespaces)) {
        remember(state, &Remembered { asked, abilities: abilities.clone() });
    }
    Ok((program, abilities))
}

/// The next agent finds it out anew.
pub(super) fn forget(state: &Path) {
    // Where it is not there, or stays, it is as before.
    drop(std::fs::remove_file(state.join(FILE_NAME)));
}

fn asked(program: &Path) -> Option<Asked> {
    let found = program.metadata().ok()?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let program = (found.dev(), found.ino(), found.ctime(), found.ctime_nsec());
    Some(Asked { boot, user: coordd_common::processes::euid(), program })
}

fn remembered(state: &Path, asked: &Asked) -> Option<Abilities> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(state.join(FILE_NAME)).ok()?;
    std::io::Read::read_to_end(&mut std::io::Read::take(file, PROBE_LEN_MAX as u64), &mut bytes)
        .ok()?;
    let it: Remembered = serde_json::from_slice(&bytes).ok()?;
    (it.asked == *asked).then_some(it.abilities)
}

fn remember(state: &Path, it: &Remembered) {
    let written = serde_json::to_vec(it)
        .map_err(std::io::Error::from)
        .and_then(|bytes| coordd_common::files::replace(&state.join(FILE_NAME), &bytes, 0o600));
    if let Err(error) = written {
        tracing::debug!(%error, "what the machine can do is not remembered");
    }
}

fn ask(program: &Path) -> Result<Abilities, WallsError> {
    let output = std::process::Command::new(program)
        .arg("--probe")
        .env_clear()
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|source| WallsError::NoProgram { program: program.to_owned(), source })?;
    let said = output.stdout.get(..output.stdout.len().min(PROBE_LEN_MAX)).unwrap_or_default();
    serde_json::from_slice(said).map_err(|_| WallsError::OtherBuild { program: program.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W-13: only a whole box is remembered, for the program and the boot that it was found with.
    #[test]
    fn w13_what_the_machine_can_do_is_found_out_once() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let program = std::env::current_exe().unwrap();
        let asked = || asked(&program).unwrap();
        let whole = Abilities { overlays: true, ..Abilities::default() };
        assert_eq!(remembered(state, &asked()), None);
        remember(state, &Remembered { asked: asked(), abilities: whole.clone() });
        assert_eq!(remembered(state, &asked()), Some(whole));
        for other in [
            Asked { boot: "another".to_owned(), ..asked() },
            Asked { user: 4_711, ..asked() },
            Asked { program: (0, 0, 0, 0), ..asked() },
        ] {
            assert_eq!(remembered(state, &other), None, "{other:?}");
        }
        forget(state);
        assert_eq!(remembered(state, &asked()), None);
        std::fs::write(state.join(FILE_NAME), "{").unwrap();
        assert_eq!(remembered(state, &asked()), None);
    }
}
