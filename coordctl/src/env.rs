//! The environment that agents get: the caller's, reduced to an allow-list (W-1).
//!
//! An agent works as the caller would, with the same PATH, toolchains and keys; but not with what
//! describes the caller's own process, such as another tool's session or systemd's sockets.

use crate::config::Config;
use crate::paths::Vars;

/// Where agents find Claude Code, when not in PATH.
pub(crate) const CLAUDE: &str = "COORDD_CLAUDE";

/// Variables that pass, each by its whole name: what begins alike may be another program's password (`RUSTDESK_PASSWORD`), or a
/// key that is for publishing and not for working (`CARGO_REGISTRY_TOKEN`). The configuration adds others.
const NAMES: &[&str] = &[
    // The user, the machine, the terminal.
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TZ",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "TMPDIR",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "CI",
    "SSH_AUTH_SOCK",
    // Language.
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_ADDRESS",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_IDENTIFICATION",
    "LC_MEASUREMENT",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NAME",
    "LC_NUMERIC",
    "LC_PAPER",
    "LC_TELEPHONE",
    "LC_TIME",
    // Folders.
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_BIN_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_DATA_DIRS",
    // Models.
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_BETAS",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_MODEL",
    "OPENAI_ORGANIZATION",
    "OPENAI_ORG_ID",
    "OPENAI_PROJECT",
    "OPENAI_PROJECT_ID",
    // Claude Code.
    "CLAUDE_CODE_TMPDIR",
    "CLAUDE_CODE_SIMPLE",
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
    // The network.
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
    "NODE_EXTRA_CA_CERTS",
    // C and its kin.
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
    "CMAKE_BUILD_PARALLEL_LEVEL",
    "CMAKE_GENERATOR",
    // Rust.
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "CARGO_BUILD_JOBS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_HTTP_CAINFO",
    "CARGO_HTTP_PROXY",
    "CARGO_INCREMENTAL",
    "CARGO_NET_GIT_FETCH_WITH_CLI",
    "CARGO_NET_OFFLINE",
    "CARGO_TERM_COLOR",
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTDOCFLAGS",
    "RUSTFLAGS",
    "RUSTUP_DIST_SERVER",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUSTUP_UPDATE_ROOT",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "RUST_MIN_STACK",
    "RUST_TEST_THREADS",
    // Go.
    "GOARCH",
    "GOBIN",
    "GOCACHE",
    "GOENV",
    "GOEXPERIMENT",
    "GOFLAGS",
    "GOMAXPROCS",
    "GOMODCACHE",
    "GONOPROXY",
    "GONOSUMDB",
    "GOOS",
    "GOPATH",
    "GOPRIVATE",
    "GOPROXY",
    "GOROOT",
    "GOSUMDB",
    "GOTMPDIR",
    "GOTOOLCHAIN",
    "GOWORK",
    // JavaScript.
    "NODE_ENV",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NPM_CONFIG_CACHE",
    "NPM_CONFIG_PREFIX",
    "NPM_CONFIG_REGISTRY",
    "NPM_CONFIG_USERCONFIG",
    "npm_config_cache",
    "npm_config_prefix",
    "npm_config_registry",
    "npm_config_userconfig",
    "NVM_DIR",
    "PNPM_HOME",
    // Python.
    "VIRTUAL_ENV",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
    "PYTHONHOME",
    "PYTHONIOENCODING",
    "PYTHONPATH",
    "PYTHONPYCACHEPREFIX",
    "PYTHONUNBUFFERED",
    "PYTHONUTF8",
    "PYTHONWARNINGS",
    "PIP_CACHE_DIR",
    "PIP_CERT",
    "PIP_DISABLE_PIP_VERSION_CHECK",
    "PIP_EXTRA_INDEX_URL",
    "PIP_INDEX_URL",
    "PIP_REQUIRE_VIRTUALENV",
    "UV_CACHE_DIR",
    "UV_INDEX_URL",
    "UV_OFFLINE",
    "UV_PROJECT_ENVIRONMENT",
    "UV_PYTHON",
    "CONDA_DEFAULT_ENV",
    "CONDA_EXE",
    "CONDA_PREFIX",
    "CONDA_PYTHON_EXE",
    "CONDA_SHLVL",
    // Java.
    "JAVA_HOME",
    "MAVEN_HOME",
    "MAVEN_OPTS",
    "GRADLE_HOME",
    "GRADLE_OPTS",
    "GRADLE_USER_HOME",
    // Git and its servers.
    "GIT_AUTHOR_DATE",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_DATE",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSL_CAINFO",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_HOST",
    // Containers and Nix.
    "DOCKER_HOST",
    "KUBECONFIG",
    "NIX_PATH",
    "NIX_PROFILES",
    "NIX_REMOTE",
    "NIX_SSL_CERT_FILE",
    // coordd's own programs.
    "COORDD_BIN",
    "COORDD_BRIDGE",
    CLAUDE,
    "COORDD_FIRST_TOOL",
    "COORDD_MODEL",
    "COORDD_ORPHAN_LIMIT_S",
    "COORDD_SANDBOX",
    "COORDD_SILENCE_S",
    "COORDD_SOCKET",
    "COORDD_STATE_DIR",
    "COORDD_WORKER",
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
    if let Some(silence_s) = config.silence_s {
        env.entry("COORDD_SILENCE_S".to_owned()).or_insert_with(|| silence_s.to_string());
    }
    env
}

/// The variables that pass. `more` are names that the configuration adds.
fn allowed(vars: &Vars, more: &[String]) -> Vars {
    let passes = |name: &str| {
        let listed = NAMES.contains(&name) || more.iter().any(|it| it == name);
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
            // Names that only begin as ours do.
            "COORDD_DEPLOY_KEY",
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

    /// fP21: what only begins like a variable of the user's tools is somebody else's, and often a secret.
    #[test]
    fn fp21_what_only_begins_alike_does_not_pass() {
        let foreign = [
            "GOOGLE_API_KEY",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GOOGLE_CLOUD_PROJECT",
            "GODADDY_API_SECRET",
            "GOG_TOKEN",
            "GOTIFY_TOKEN",
            "GOCD_PASSWORD",
            "GOPASS_AGE_PASSWORD",
            "RUSTDESK_PASSWORD",
            "RUSTFS_SECRET_KEY",
            "RUST_ANALYZER_TOKEN",
            "RUSTUP_SECRET",
            "PYTHONANYWHERE_API_TOKEN",
            "PYTHON_KEYRING_PASSWORD",
            "PIP_PASSWORD",
            "UV_PUBLISH_TOKEN",
            "UV_INDEX_PRIVATE_PASSWORD",
            "CONDA_TOKEN",
            "CARGO_REGISTRY_TOKEN",
            "CARGO_REGISTRIES_OURS_TOKEN",
            "NPM_TOKEN",
            "NPM_CONFIG__AUTH",
            "npm_config__authtoken",
            "NODE_AUTH_TOKEN",
            "MAVEN_PASSWORD",
            "GRADLE_PUBLISH_SECRET",
            "GITLAB_TOKEN",
            "GIT_PASSWORD",
            "GIT_ASKPASS",
            "GIT_TOKEN",
            "NIX_GITHUB_PRIVATE_TOKEN",
            "XDG_SECRET",
            "XDG_SESSION_COOKIE",
            "LC_PASSWORD",
            "ANTHROPIC_ADMIN_KEY",
            "OPENAI_ADMIN_KEY",
            "PATHS",
            "HOMEBREW_GITHUB_API_TOKEN",
            "CIRCLE_TOKEN",
            "CCACHE_SECRET",
            "LDAP_PASSWORD",
            "LANGSMITH_API_KEY",
            "TERMINUS_TOKEN",
            "DOCKER_HOST_PASSWORD",
        ];
        assert_eq!(passed(&foreign, &[]), Vec::<String>::new());
        let mut all: Vec<_> = NAMES.to_vec();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), NAMES.len(), "each once");
        let passing: Vec<_> = all.iter().filter(|name| !is_the_callers_own(name)).collect();
        assert_eq!(passing.len(), NAMES.len(), "what never passes need not be listed");
    }

    #[test]
    fn the_configuration_adds_names() {
        assert_eq!(passed(&["AWS_PROFILE", "AWS_REGION"], &["AWS_PROFILE"]), ["AWS_PROFILE"]);
    }
}
