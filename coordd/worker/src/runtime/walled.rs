//! Whether an agent's commands run in a box, and what is said about it: to the model with the first command, to people in status
//! views. There is never none in silence.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use coordd_sandbox::{Abilities, Hosts, Level};
use proto::agent::{Bootstrap, Runtime};

use crate::tools::ToolContext;
use crate::tools::permissions::{Permissions, state_of};
use crate::tools::walls::{self, PathRules, Site, Walls};

/// Puts the agent's commands into a box, where there is one. Returns what to call that in a status view.
pub(super) fn put_up(
    boot: &Bootstrap,
    rules: &mut Permissions,
    tools: &mut ToolContext,
) -> Result<String, String> {
    if boot.folder_only {
        return alone(boot, rules, tools);
    }
    if boot.runtime != Runtime::Native {
        return Ok(String::new());
    }
    if boot.permissions.sandbox.off {
        return Ok("not boxed: switched off".to_owned());
    }
    let (program, abilities) = match walls::probe(state_of(Path::new(&boot.state_dir))) {
        Ok(probed) => probed,
        Err(error) => {
            let why = coordd_common::chain(&error);
            tracing::warn!(why, "no box for commands");
            return Ok(without(tools, &why));
        }
    };
    let Some(level) = abilities.level() else {
        let why = why_not(&abilities);
        tracing::warn!(why, "no box for commands");
        return Ok(without(tools, &why));
    };
    let why_partly = why_not(&abilities);
    build(boot, (program, abilities), level, rules, tools)?;
    match level {
        Level::Namespaces => {
            rules.use_box(&boot.permissions.sandbox.outside).map_err(|it| it.to_string())?;
            Ok("boxed".to_owned())
        }
        Level::Landlock => {
            rules.use_fence();
            // Nothing can be protected inside of a workspace that is writable: what was asked without a box is asked.
            tools.remark = remark(&format!(
                "The sandbox of this machine is partial ({why_partly}): commands have no network and see no keys, but those that \
                 change something are asked for as if there were none."
            ));
            Ok(format!("partly boxed: {why_partly}"))
        }
    }
}

/// Gives the tools their walls.
fn build(
    boot: &Bootstrap,
    probed: (PathBuf, Abilities),
    level: Level,
    rules: &Permissions,
    tools: &mut ToolContext,
) -> Result<(), String> {
    let path_rules = PathRules {
        hidden: rules.hidden(),
        kept: rules.kept(),
        beginnings: beginnings(boot, &tools.cwd),
    };
    let hosts = Hosts::parse(&boot.permissions.sandbox.hosts).map_err(|it| it.to_string())?;
    tools.walls = Some(Arc::new(Walls::new(probed, level, &site(boot), path_rules, hosts)));
    Ok(())
}

/// Work for another machine runs in a whole box or not at all.
fn alone(
    boot: &Bootstrap,
    rules: &mut Permissions,
    tools: &mut ToolContext,
) -> Result<String, String> {
    let missing = |why: &str| {
        Err(format!("work for another machine runs in a sandbox alone, and there is none: {why}"))
    };
    if boot.runtime != Runtime::Native {
        return missing("the runtime of this worker is another program; start native workers");
    }
    let (program, abilities) = match walls::probe(state_of(Path::new(&boot.state_dir))) {
        Ok(probed) => probed,
        Err(error) => return missing(&coordd_common::chain(&error)),
    };
    if abilities.level() != Some(Level::Namespaces) {
        return missing(&why_not(&abilities));
    }
    build(boot, (program, abilities), Level::Namespaces, rules, tools)?;
    rules.use_box(&[]).map_err(|it| it.to_string())?;
    Ok("boxed, with its folder and the system alone".to_owned())
}

fn without(tools: &mut ToolContext, why: &str) -> String {
    tools.remark = remark(&format!(
        "There is no sandbox on this machine: {why}. Commands run with all that the user may do, and are asked for by the rules."
    ));
    format!("not boxed: {why}")
}

fn remark(text: &str) -> Arc<Mutex<Option<String>>> {
    Arc::new(Mutex::new(Some(text.to_owned())))
}

fn why_not(abilities: &Abilities) -> String {
    let obstacle = abilities.no_namespaces.as_ref().or(abilities.no_landlock.as_ref());
    obstacle.map(|it| format!("{}; {}", it.what, it.remedy)).unwrap_or_default()
}

fn site(boot: &Bootstrap) -> Site {
    let variable =
        |name: &str| boot.env.get(name).filter(|it| it.starts_with('/')).map(PathBuf::from);
    Site {
        agent_state: PathBuf::from(&boot.state_dir),
        socket: PathBuf::from(&boot.socket),
        home: variable("HOME"),
        temp: variable("CLAUDE_CODE_TMPDIR").unwrap_or_else(|| "/tmp".into()),
        folder_only: boot.folder_only,
    }
}

/// The folders in which rules that forbid begin, where they name one outside of the workspace.
fn beginnings(boot: &Bootstrap, cwd: &Path) -> Vec<PathBuf> {
    let home = boot.env.get("HOME").map(Path::new);
    let patterns = boot.permissions.deny.iter().filter_map(|rule| {
        let (tool, rest) = rule.trim().split_once('(')?;
        let pattern = rest.strip_suffix(')')?.trim();
        matches!(tool, "Read" | "Edit" | "Write" | "Grep" | "Glob").then_some(pattern)
    });
    let literal = |pattern: &str| {
        let end = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
        pattern.get(..end).unwrap_or_default().to_owned()
    };
    let begins = |pattern: &str| {
        let path = if let Some(rest) = pattern.strip_prefix("//") {
            Path::new("/").join(literal(rest))
        } else if let Some(rest) = pattern.strip_prefix("~/") {
            home?.join(literal(rest))
        } else {
            cwd.join(literal(pattern.trim_start_matches(['/', '.'])))
        };
        // What ends in the middle of a name begins in its folder.
        let path = if path.exists() { path } else { path.parent()?.to_owned() };
        (path != Path::new("/") && !path.starts_with(cwd)).then_some(path)
    };
    patterns.filter_map(begins).collect()
}
