//! What others made of a file: compares a team's file with its last right state, and undoes what is
//! no team file.

use std::path::{Path, PathBuf};

use proto::team::TeamFile;

use super::tasks::TaskEdit;
use super::{CONFIG, FILE_BYTES_MAX, TeamFiles, TeamFilesError, parse, set_aside, try_lock};
use crate::dir::FileError;

/// What somebody else did to a file of a team.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outside {
    /// It is another team file now.
    Edited(TeamFile),
    /// It was no team file. It was set aside, and the last right state written again.
    Damaged { team: String, aside: PathBuf },
    /// It was removed, and the last right state was written again.
    Deleted { team: String },
    /// A task's file says something else now, or is new.
    TaskEdited(Box<TaskEdit>),
    /// A task's file was none. It was set aside, and the last right state written again where there
    /// was one.
    TaskDamaged { team: String, number: u32, aside: PathBuf, restored: bool },
    /// Files of tasks were removed, and their last right states were written again.
    TasksDeleted { team: String, numbers: Vec<u32> },
}

pub(super) enum Verdict {
    Same,
    /// No team file, but it may become one.
    Unsettled,
    Outside(Outside),
}

impl TeamFiles {
    /// Compares a team's file with its last right state.
    pub(super) fn judge(&self, team: &str, is_final: bool) -> Result<Verdict, TeamFilesError> {
        let mut state = self.lock();
        let Some(known) = state.teams.get_mut(team) else { return Ok(Verdict::Same) };
        let folder = self.folder("teams", team)?;
        let lock = || try_lock(&folder, team);
        let restore = |known: &[u8]| {
            folder
                .write_atomic(CONFIG, known)
                .map_err(|source| TeamFilesError::File { team: team.to_owned(), source })
        };
        let content = match folder.read(Path::new(CONFIG), FILE_BYTES_MAX) {
            Ok(content) if content.bytes == known.bytes && !content.cut => {
                return Ok(Verdict::Same);
            }
            Ok(content) => Some(content),
            // A writer that replaces it may be between two steps.
            Err(FileError::Missing { .. }) if !is_final => return Ok(Verdict::Unsettled),
            Err(FileError::Missing { .. }) => {
                let Some(_lock) = lock()? else { return Ok(Verdict::Unsettled) };
                restore(&known.bytes)?;
                return Ok(Verdict::Outside(Outside::Deleted { team: team.to_owned() }));
            }
            Err(_) => None,
        };
        if let Some(found) = content.as_ref().and_then(|it| parse(it, team)) {
            known.bytes = content.map(|it| it.bytes).unwrap_or_default();
            if found == known.team {
                return Ok(Verdict::Same);
            }
            known.team = found.clone();
            return Ok(Verdict::Outside(Outside::Edited(found)));
        }
        if !is_final {
            return Ok(Verdict::Unsettled);
        }
        let Some(_lock) = lock()? else { return Ok(Verdict::Unsettled) };
        // It may have become one until the lock was had.
        let now = folder.read(Path::new(CONFIG), FILE_BYTES_MAX);
        if now.is_ok_and(|it| parse(&it, team).is_some()) {
            return Ok(Verdict::Unsettled);
        }
        let aside = set_aside(&folder, team, CONFIG)?;
        restore(&known.bytes)?;
        Ok(Verdict::Outside(Outside::Damaged { team: team.to_owned(), aside }))
    }
}
