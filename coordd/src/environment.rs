//! The environments of sessions: what the client sent, in one file for each session.
//!
//! It holds keys, so it is in a 0600 file and in memory, and nowhere else: never in the journal,
//! never in a log. The client decides what is in it, by its allow-list (`coordctl` has one,
//! rel-37); what belongs to another program's life is left out here, from any client.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use coordd_core::id::SessionId;

use crate::dir::FileError;
use crate::limits;
use crate::paths::{PathsError, StateDir};

const FILE: &str = "env.json";
/// The longest variable, name and value, in bytes: what Linux gives a program in one piece.
const VARIABLE_BYTES_MAX: usize = 128 * 1024;
/// Never given to an agent, whatever the client says: they belong to another program's life.
const NEVER: [&str; 11] = [
    "CLAUDECODE",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_PID",
    "AI_AGENT",
    "LD_AUDIT",
    "LD_PRELOAD",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "COORDD_TOKEN",
];
/// Nor any that begin with these.
const NEVER_PREFIXES: [&str; 3] = ["CLAUDE_CODE_MESSAGING_", "LISTEN_", "BASH_FUNC_"];

/// Why an environment could not be kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EnvironmentError {
    #[error("could not open the session's state folder")]
    Folder(#[source] PathsError),
    #[error("could not write the session's environment")]
    Write(#[source] FileError),
    #[error("could not write the session's environment as JSON")]
    Json(#[source] serde_json::Error),
}

impl EnvironmentError {
    /// Whether room on the disk would have helped.
    pub(crate) fn is_disk_full(&self) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            let full = |it: &std::io::Error| it.kind() == std::io::ErrorKind::StorageFull;
            if matches!(error.downcast_ref(), Some(FileError::DiskFull { .. }))
                || error.downcast_ref().is_some_and(full)
            {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

/// The environments that are in use.
#[derive(Debug)]
pub(crate) struct Environments {
    state: Arc<StateDir>,
    known: HashMap<SessionId, BTreeMap<String, String>>,
    /// The warnings about environments that could not be read.
    damage: Vec<String>,
}

impl Environments {
    pub(crate) fn new(state: Arc<StateDir>) -> Self {
        Self { state, known: HashMap::new(), damage: Vec::new() }
    }

    /// Keeps an environment, on disk when this returns. After a failure it is in memory alone. What says how
    /// a model is reached is kept from before where the new one says nothing of it.
    pub(crate) fn keep(
        &mut self,
        session: &SessionId,
        env: BTreeMap<String, String>,
    ) -> Result<(), EnvironmentError> {
        let mut env = allowed(env);
        let before = self.known.get(session).cloned().or_else(|| self.read(session).ok());
        keep_models(&mut env, &before.unwrap_or_default());
        self.known.insert(session.clone(), env.clone());
        let dir = self.state.session(&session.0).map_err(EnvironmentError::Folder)?;
        let text = serde_json::to_vec(&env).map_err(EnvironmentError::Json)?;
        dir.write_atomic(FILE, &text).map_err(EnvironmentError::Write)
    }

    /// A session's environment; empty when it cannot be read, which is said (rel-41).
    pub(crate) fn of(&mut self, session: &SessionId) -> BTreeMap<String, String> {
        if let Some(known) = self.known.get(session) {
            return known.clone();
        }
        let env = self.read(session).unwrap_or_else(|why| {
            self.damage.push(format!(
                "the environment of session {session} cannot be used ({why}); `coordctl resume {session}` gives it a new one"
            ));
            BTreeMap::new()
        });
        self.known.insert(session.clone(), env.clone());
        env
    }

    /// What was found damaged since this was last asked.
    pub(crate) fn take_damage(&mut self) -> Vec<String> {
        std::mem::take(&mut self.damage)
    }

    /// Reads the file. What is no environment is kept under another name.
    fn read(&self, session: &SessionId) -> Result<BTreeMap<String, String>, String> {
        let chain = |error: &dyn std::error::Error| coordd_common::chain(error);
        let dir = self.state.session(&session.0).map_err(|error| chain(&error))?;
        let content =
            dir.read(Path::new(FILE), limits::ENV_BYTES_MAX).map_err(|error| chain(&error))?;
        serde_json::from_slice(&content.bytes).map_err(|error| {
            // The error's text quotes the file, and so keys; only the place is told.
            let at = format!("line {} column {}", error.line(), error.column());
            let stamp = crate::clock::wall_ms() / 1000;
            match dir.set_aside(FILE, &format!("{FILE}.corrupt-{stamp}")) {
                Ok(aside) => {
                    format!("damaged at {at}, kept as {}", dir.path().join(aside).display())
                }
                Err(error) => format!("damaged at {at}; {}", chain(&error)),
            }
        })
    }

    pub(crate) fn forget(&mut self, session: &SessionId) {
        self.known.remove(session);
    }
}

/// How each provider's models are reached. A key belongs to its address, so those of one provider are
/// taken together, or none.
const MODELS: [&[&str]; 3] = [
    &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"],
    &["OPENAI_API_KEY", "OPENAI_BASE_URL"],
    &["CLAUDE_CODE_OAUTH_TOKEN"],
];

/// Adds what was there before and is not mentioned now: a shell without the key is no wish to be without one.
fn keep_models(env: &mut BTreeMap<String, String>, before: &BTreeMap<String, String>) {
    for names in MODELS {
        if names.iter().any(|name| env.contains_key(*name)) {
            continue;
        }
        let known = names.iter().filter_map(|name| before.get_key_value(*name));
        let known: Vec<_> = known.map(|(name, value)| (name.clone(), value.clone())).collect();
        env.extend(known);
    }
}

/// Where scratchpads are, when an environment says so.
pub(crate) fn tmp(env: &BTreeMap<String, String>) -> Option<&String> {
    env.get("CLAUDE_CODE_TMPDIR").filter(|it| !it.is_empty())
}

/// The part of an environment that agents get. If it is too large, the largest variables are
/// dropped first.
fn allowed(env: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut kept: Vec<(String, String)> = env
        .into_iter()
        .filter(|(name, value)| {
            let valid = !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0');
            let fits = name.len() + value.len() <= VARIABLE_BYTES_MAX;
            let never = NEVER.contains(&name.as_str())
                || NEVER_PREFIXES.iter().any(|it| name.starts_with(it));
            valid && fits && !never
        })
        .collect();
    kept.sort_by_key(|(name, value)| name.len() + value.len());
    let mut bytes = 0;
    // Half of the bound, since JSON may write a byte as several.
    kept.retain(|(name, value)| {
        bytes += name.len() + value.len() + 8;
        bytes <= limits::ENV_BYTES_MAX / 2
    });
    kept.into_iter().collect()
}

/// The names of the user's own agent definitions: `~/.claude/agents/*.md`, by file name.
pub(crate) fn definitions(home: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(Path::new(home).join(".claude/agents")) else {
        return Vec::new();
    };
    let names = entries.take(limits::DEFINITIONS_MAX).filter_map(|entry| {
        let path = entry.ok()?.path();
        let name = path.file_stem()?.to_str()?.to_owned();
        (path.extension()? == "md" && name.len() <= 64).then_some(name)
    });
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rel37_what_belongs_to_others_is_left_out() {
        let names = [
            "PATH",
            "ANTHROPIC_API_KEY",
            "NOTIFY_SOCKET",
            "LISTEN_FDS",
            "LD_PRELOAD",
            "COORDD_TOKEN",
            "a=b",
        ];
        let env = names.map(|name| (name.to_owned(), "x".to_owned())).into();
        assert_eq!(allowed(env).into_keys().collect::<Vec<_>>(), ["ANTHROPIC_API_KEY", "PATH"]);
        let big = BTreeMap::from([
            ("A".to_owned(), "x".repeat(VARIABLE_BYTES_MAX)),
            ("B".to_owned(), "y\0".to_owned()),
        ]);
        assert!(allowed(big).is_empty());
    }

    #[test]
    fn fm28_a_key_is_kept_where_the_new_environment_has_none() {
        let of = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let before =
            of(&[("ANTHROPIC_API_KEY", "k"), ("ANTHROPIC_BASE_URL", "u"), ("EDITOR", "vi")]);
        for (new, kept) in [
            (&[("PATH", "p")][..], &[("ANTHROPIC_API_KEY", "k"), ("ANTHROPIC_BASE_URL", "u")][..]),
            (
                &[("OPENAI_API_KEY", "o")],
                &[("ANTHROPIC_API_KEY", "k"), ("ANTHROPIC_BASE_URL", "u")],
            ),
            // An old key must not go to a new address.
            (&[("ANTHROPIC_BASE_URL", "other")], &[]),
            (&[("ANTHROPIC_API_KEY", "new")], &[]),
        ] {
            let mut env = of(new);
            keep_models(&mut env, &before);
            let mut expected = of(new);
            expected.extend(of(kept));
            assert_eq!(env, expected);
        }
    }

    #[test]
    fn g5_the_users_own_definitions() {
        let home = tempfile::tempdir().unwrap();
        assert!(definitions(home.path().to_str().unwrap()).is_empty());
        let agents = home.path().join(".claude/agents");
        std::fs::create_dir_all(&agents).unwrap();
        for file in ["reviewer.md", "notes.txt", "auditor.md"] {
            std::fs::write(agents.join(file), "x").unwrap();
        }
        assert_eq!(definitions(home.path().to_str().unwrap()), ["auditor", "reviewer"]);
    }
}
