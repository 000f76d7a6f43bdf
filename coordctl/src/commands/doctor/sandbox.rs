//! Whether commands of agents can be put into a box, and what is in the way.

use coordd_sandbox::{Abilities, Obstacle};

use super::{Check, fail, ok, warn};
use crate::context::Context;
use crate::paths;

/// What this machine can do to hold commands, and what is in the way.
pub(super) fn check(context: &Context) -> Check {
    const WHAT: &str = "sandbox for commands";
    let Some(program) = paths::program(&context.vars, "COORDD_SANDBOX", "coordd-sandbox") else {
        return warn(
            WHAT,
            "coordd-sandbox is not found beside coordctl or in PATH: install it beside coordd. Until then commands are asked for",
        );
    };
    let mut command = std::process::Command::new(&program);
    command.arg("--probe").stdin(std::process::Stdio::null());
    let said =
        crate::signals::unblocked(|| command.output()).map(|it| it.stdout).unwrap_or_default();
    match serde_json::from_slice::<Abilities>(&said) {
        Ok(abilities) => abilities_check(WHAT, &abilities),
        Err(_) => fail(
            WHAT,
            format!(
                "{} does not work, or is of another build: install the programs of one build",
                program.display()
            ),
        ),
    }
}

fn abilities_check(what: &'static str, it: &Abilities) -> Check {
    let why = |obstacle: &Option<Obstacle>| {
        obstacle.as_ref().map(|it| format!("{}. {}", it.what, it.remedy)).unwrap_or_default()
    };
    match it.level() {
        Some(coordd_sandbox::Level::Namespaces) if it.no_landlock.is_some() => {
            ok(what, format!("namespaces and seccomp; no second fence: {}", why(&it.no_landlock)))
        }
        Some(coordd_sandbox::Level::Namespaces) => ok(what, "namespaces, Landlock and seccomp"),
        Some(coordd_sandbox::Level::Landlock) => warn(
            what,
            format!(
                "Landlock and seccomp alone, so that what changes something is asked for: {}",
                why(&it.no_namespaces)
            ),
        ),
        None => warn(
            what,
            format!(
                "none, so that commands are asked for: {}; {}",
                why(&it.no_namespaces),
                why(&it.no_landlock)
            ),
        ),
    }
}
