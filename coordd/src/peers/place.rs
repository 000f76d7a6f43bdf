//! Where the sockets between sessions are.
//!
//! Claude Code 2.1.332 looks for them in `$XDG_RUNTIME_DIR/cc-socks`, else
//! `$CLAUDE_CODE_TMPDIR/cc-socks`, else `/tmp/cc-socks`, or `/tmp/cc-socks-<uid>` where that is
//! somebody else's. It answers by itself only to sockets in its own folder or in `/tmp/cc-socks`,
//! so that ours are there too.

use std::path::{Path, PathBuf};

use coordd_core::id::SessionId;

use crate::dir::{Demand, Dir, FileId, euid};
use crate::paths::Paths;

/// The longest path of a socket of a session (D-4): some programs take no more.
const PATH_BYTES_MAX: usize = 99;
/// Characters of a session's id in its socket's name: enough to be the only one.
const ID_CHARS: usize = 12;

/// The folder of the sockets, held.
#[derive(Debug)]
pub(super) struct Place {
    dir: Dir,
    /// What tells this daemon's own socket from that of another one in the same folder.
    mark: String,
}

impl Place {
    /// Opens the first of the folders that can be used, or says what is wrong with each.
    pub(super) fn open(paths: &Paths, mark: &str) -> Result<Self, String> {
        let mut wrong = Vec::new();
        for (base, name) in candidates(paths) {
            let longest = base.join(&name).join(format!("coordd-{}.sock", "x".repeat(ID_CHARS)));
            if longest.as_os_str().len() > PATH_BYTES_MAX {
                wrong.push(format!("{} is too long", base.display()));
                continue;
            }
            let opened = Dir::base(&base).and_then(|base| base.enter(&name, Demand::Shared));
            match opened {
                Ok((dir, _)) => return Ok(Self { dir, mark: mark.to_owned() }),
                Err(error) => wrong.push(coordd_common::chain(&error)),
            }
        }
        Err(wrong.join("; "))
    }

    /// Whether its path still leads to the folder that is held.
    pub(super) fn is_there(&self) -> bool {
        let held = FileId::held(&self.dir);
        held.is_some() && FileId::at(self.dir.path()) == held
    }

    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// The name of a session's socket, or of that for answers to the user. It stays the same over
    /// restarts.
    pub(super) fn name(&self, session: Option<&SessionId>) -> String {
        match session {
            Some(session) => {
                let id: String = session.0.chars().filter(|c| *c != '-').take(ID_CHARS).collect();
                format!("coordd-{id}.sock")
            }
            None => format!("coordd-u{}.sock", self.mark.chars().take(8).collect::<String>()),
        }
    }

    pub(super) fn path(&self, session: Option<&SessionId>) -> PathBuf {
        self.dir.path().join(self.name(session))
    }

    /// Whether this is the path of a socket that a coordd made.
    pub(super) fn is_ours(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        path.parent() == Some(self.dir.path()) && name.starts_with("coordd-")
    }
}

fn candidates(paths: &Paths) -> Vec<(PathBuf, String)> {
    let plain = || "cc-socks".to_owned();
    let mut all = Vec::new();
    if let Some(base) = &paths.xdg_runtime {
        all.push((base.clone(), plain()));
    }
    all.push((paths.tmp.clone(), plain()));
    all.push((PathBuf::from("/tmp"), plain()));
    all.push((PathBuf::from("/tmp"), format!("cc-socks-{}", euid())));
    all
}
