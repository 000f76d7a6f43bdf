//! The command line of Claude Code in a terminal that coordd runs: as its user would call it, with
//! its earlier conversation.
//!
//! Observed with Claude Code 2.1.150 and 2.1.332. It starts nothing.

use std::path::Path;

use coordd_common::chain;
use proto::agent::Bootstrap;

use super::super::marks;
use super::command::{self, CommandError, Invocation};
use super::history::{History, HistoryError};

/// The terminal type for programs: what the screen model understands.
const TERMINAL: [(&str, &str); 2] = [("TERM", "xterm-256color"), ("COLORTERM", "truecolor")];

#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error(
        "this process was not told what to start: coordd and coordd-worker have different versions; update both"
    )]
    NotTold,
    #[error(transparent)]
    Command(CommandError),
    #[error(transparent)]
    History(HistoryError),
}

/// The call for this agent, or why there is none.
pub(in crate::runtime) fn in_terminal(boot: &Bootstrap) -> Result<Invocation, String> {
    call(boot).map_err(|error| chain(&error))
}

fn call(boot: &Bootstrap) -> Result<Invocation, CallError> {
    let wanted = boot.terminal.as_ref().ok_or(CallError::NotTold)?;
    let program = command::find(&boot.env).map_err(CallError::Command)?;
    let config = command::config_folder(&boot.env);
    let history = History::open(Path::new(&boot.state_dir), config).map_err(CallError::History)?;
    let mut args = wanted.arguments.clone();
    // The user may have chosen one.
    let names_one =
        |it: &String| ["--session-id", "--resume", "-r", "--continue", "-c"].contains(&it.as_str());
    if !args.iter().any(names_one) {
        let flag = if history.exists() { "--resume" } else { "--session-id" };
        args.extend([flag.to_owned(), history.session]);
    }
    let mut env = command::user_environment(&boot.env);
    env.extend(marks(boot));
    env.extend(wanted.env.clone());
    // Updates are off: the user decides on them, and may not be looking at this terminal.
    env.insert("DISABLE_AUTOUPDATER".to_owned(), "1".to_owned());
    env.extend(TERMINAL.map(|(name, value)| (name.to_owned(), value.to_owned())));
    Ok(Invocation { program, args, env })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt as _;

    use proto::agent::InTerminal;

    use super::*;
    use crate::runtime::tests::bootstrap;

    /// T-2: a member in its team, in the environment of its user, who is not told that another
    /// Claude Code runs it.
    #[test]
    fn t2_e1_the_call_makes_a_member_and_goes_on_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("claude");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let home = folder.path().display().to_string();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut boot = bootstrap(folder.path());
        std::fs::create_dir(&boot.state_dir).unwrap();
        boot.env = BTreeMap::from([
            pair("HOME", &home),
            pair("PATH", &home),
            pair("CLAUDECODE", "1"),
            pair("TERM", "dumb"),
            pair("EDITOR", "vi"),
        ]);
        assert!(in_terminal(&boot).unwrap_err().contains("update both"));
        let arguments = ["--agent-id", "m1@alpha"].map(str::to_owned).to_vec();
        boot.terminal = Some(InTerminal { arguments, env: BTreeMap::from([pair("TEAMS", "1")]) });
        let first = in_terminal(&boot).unwrap();
        assert_eq!(first.program, program);
        assert_eq!(first.args[..3], ["--agent-id", "m1@alpha", "--session-id"]);
        let value = |name: &str| first.env.get(name).map(String::as_str);
        assert_eq!(value("TERM"), Some("xterm-256color"));
        assert_eq!(
            (value("TEAMS"), value("EDITOR"), value("CLAUDECODE")),
            (Some("1"), Some("vi"), None)
        );
        assert_eq!(value("COORDD_AGENT_ID"), Some("a1"));
        let projects = folder.path().join(".claude/projects/-here");
        std::fs::create_dir_all(&projects).unwrap();
        std::fs::write(projects.join(format!("{}.jsonl", first.args[3])), "").unwrap();
        let second = in_terminal(&boot).unwrap();
        assert_eq!(second.args[2..], ["--resume".to_owned(), first.args[3].clone()]);
        if let Some(terminal) = &mut boot.terminal {
            terminal.arguments.push("--continue".to_owned());
        }
        assert_eq!(in_terminal(&boot).unwrap().args.last().unwrap(), "--continue");
        boot.env.insert("PATH".to_owned(), "/nowhere".to_owned());
        assert!(in_terminal(&boot).unwrap_err().contains("no program `claude` in PATH"));
    }
}
