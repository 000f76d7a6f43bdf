//! The environment that agents get: the caller's, reduced to an allow-list (W-1).
//!
//! An agent works as the caller would, with the same PATH, toolchains and keys; but not with what
//! describes the caller's own process, such as another tool's session or systemd's sockets.

use crate::config::Config;
use crate::paths::Vars;

/// Where agents find Claude Code, when not in PATH.
pub(crate) const CLAUDE: &str = "COORDD_CLAUDE";

/// Variables that pass by their whole name.
const NAMES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "COLORTERM",
    "TMPDIR",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "SSH_AUTH_SOCK",
    "CLAUDE_CODE_TMPDIR",
    "CLAUDE_CODE_SIMPLE",
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "VIRTUAL_ENV",
    "JAVA_HOME",
    "CC",
    "CXX",
    "LD",
    "AR",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "MAKEFLAGS",
    "PKG_CONFIG_PATH",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "CPATH",
    "CMAKE_PREFIX_PATH",
    "NVM_DIR",
    "PNPM_HOME",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_HOST",
    "DOCKER_HOST",
    "KUBECONFIG",
    "CI",
];

/// Variables that pass by the prefix of their name.
const PREFIXES: &[&str] = &[
    "LC_",
    "XDG_",
    "ANTHROPIC_",
    "OPENAI_",
    "COORDD_",
    "CARGO_",
    "RUSTUP_",
    "RUST",
    "GO",
    "NODE_",
    "NPM_CONFIG_",
    "npm_config_",
    "PYTHON",
    "PIP_",
    "UV_",
    "CONDA_",
    "MAVEN_",
    "GRADLE_",
    "GIT_",
    "NIX_",
];

/// Variables that never pass, even where the configuration names them.
const NEVER: &[&str] = &[
    "CLAUDECODE",
    "CLAUDE_CODE_SESSION_ID",
    "AI_AGENT",
    "NOTIFY_SOCKET",
    // What coordd sets for the tools of an agent, which may call coordctl.
    "COORDD_TOKEN",
    "COORDD_SESSION",
    "COORDD_SCRATCHPAD",
    "COORDD_TOOL_CALL",
    // What a git hook sets would turn an agent's git to the hook's repository.
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    // The caller's terminal session.
    "XDG_SESSION_ID",
    "XDG_VTNR",
    "XDG_SEAT",
    // Set by cargo for the program it runs, not for the user.
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_PATH",
];

/// As [`NEVER`], by the beginning of the name.
const NEVER_PREFIXES: &[&str] =
    &["CLAUDE_CODE_MESSAGING_", "LISTEN_", "CARGO_PKG_", "CARGO_BIN_", "COORDD_AGENT"];

/// Whether a variable describes the caller's process, not the caller.
pub(crate) fn is_the_callers_own(name: &str) -> bool {
    NEVER.contains(&name) || NEVER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The agents' environment: the caller's, reduced to the allow-list and the configuration's names.
pub(crate) fn for_agents(vars: &Vars, config: &Config) -> Vars {
    let mut env = allowed(vars, &config.env_allow);
    if let Some(path) = &config.claude_path {
        env.entry(CLAUDE.to_owned()).or_insert_with(|| path.to_string_lossy().into_owned());
    }
    env
}

/// The variables that pass. `more` are names that the configuration adds.
fn allowed(vars: &Vars, more: &[String]) -> Vars {
    let passes = |name: &str| {
        let listed = NAMES.contains(&name)
            || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            || more.iter().any(|it| it == name);
        listed && !is_the_callers_own(name)
    };
    vars.iter()
        .filter(|(name, _)| passes(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The environment of this process. What is not UTF-8 cannot be passed on, and is left out.
pub(crate) fn current() -> Vars {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(names: &[&str], more: &[&str]) -> Vec<String> {
        let vars = names.iter().map(|name| ((*name).to_owned(), "x".to_owned())).collect();
        let more: Vec<String> = more.iter().map(|it| (*it).to_owned()).collect();
        allowed(&vars, &more).into_keys().collect()
    }

    #[test]
    fn w1_the_callers_tools_pass() {
        let names = [
            "ANTHROPIC_API_KEY",
            "CARGO_HOME",
            "COORDD_MODEL",
            "GIT_AUTHOR_NAME",
            "HOME",
            "LC_ALL",
            "OPENAI_BASE_URL",
            "PATH",
            "RUSTFLAGS",
            "XDG_RUNTIME_DIR",
            "http_proxy",
        ];
        assert_eq!(passed(&names, &[]), names);
    }

    #[test]
    fn w1_what_describes_the_callers_process_never_passes() {
        let names = [
            "CLAUDECODE",
            "CLAUDE_CODE_SESSION_ID",
            "CLAUDE_CODE_MESSAGING_SOCKET",
            "AI_AGENT",
            "NOTIFY_SOCKET",
            "LISTEN_FDS",
            "LISTEN_PID",
            "COORDD_TOKEN",
            "GIT_DIR",
            "AWS_SECRET_ACCESS_KEY",
        ];
        assert_eq!(passed(&names, &["CLAUDECODE", "COORDD_TOKEN"]), Vec::<String>::new());
    }

    /// the variable of the caller wins over the configuration.
    #[test]
    fn r2_agents_are_told_where_claude_code_is() {
        let config = Config::parse("claude_path = \"/opt/claude\"").unwrap();
        let claude = |vars: Vars| for_agents(&vars, &config).remove(CLAUDE).unwrap();
        assert_eq!(claude(Vars::new()), "/opt/claude");
        assert_eq!(claude(Vars::from([(CLAUDE.to_owned(), "/mine".to_owned())])), "/mine");
    }

    #[test]
    fn the_configuration_adds_names() {
        assert_eq!(passed(&["AWS_PROFILE", "AWS_REGION"], &["AWS_PROFILE"]), ["AWS_PROFILE"]);
    }
}
