//! Which model a session uses: the command line, else the configuration, else the environment.

use std::path::{Path, PathBuf};

use proto::agent::{Model, Provider};

use crate::config::Config;
use crate::error::Failure;
use crate::paths::Vars;
use crate::worker;

/// What is used when there is a key and no model is named. Of the names that Claude Code 2.1.332 knows; makers
/// retire them.
const ANTHROPIC_DEFAULT: &str = "claude-opus-5-5";
/// The longest script that is read here only to see whether it parses, 4 MiB.
const SCRIPT_LEN_MAX: u64 = 4 << 20;

/// Where a model may be named, and the folder that file names are relative to.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    pub(crate) config: &'a Config,
    pub(crate) vars: &'a Vars,
    pub(crate) cwd: &'a Path,
}

/// The model to use, or an error that says how to configure one. If the runtime brings its own
/// model (`is_needed` is false), only an explicitly named one is used; keys in the environment are
/// ignored.
pub(crate) fn resolve(
    flag: Option<&str>,
    from: Sources<'_>,
    is_needed: bool,
) -> Result<Option<Model>, Failure> {
    let Sources { config, vars, cwd } = from;
    let var = |name: &str| vars.get(name).map(|it| it.trim()).filter(|it| !it.is_empty());
    let named = flag.map(str::trim).or(config.model.as_deref()).or_else(|| var("COORDD_MODEL"));
    if let Some(text) = named {
        return parse(text, config, vars, cwd).map(Some);
    }
    if !is_needed {
        return Ok(None);
    }
    let has = |names: &[&str]| names.iter().any(|name| var(name).is_some());
    if has(&["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"]) {
        let name = var("ANTHROPIC_MODEL").unwrap_or(ANTHROPIC_DEFAULT);
        return Ok(Some(anthropic(name, config)));
    }
    if has(&["OPENAI_API_KEY", "OPENAI_BASE_URL"]) {
        return match var("OPENAI_MODEL") {
            Some(name) => Ok(Some(openai(name, config))),
            None => {
                Err(Failure::usage("there is a key or an address for OpenAI, but no model name")
                    .hint("set OPENAI_MODEL, or give --model openai:NAME"))
            }
        };
    }
    Err(none())
}

fn none() -> Failure {
    Failure::usage("no model is configured").hint(
        "configure one in any of three ways:\n\
         \x20 - give --model anthropic:NAME or --model openai:NAME\n\
         \x20 - write  model = \"anthropic:NAME\"  into ~/.config/coordd/config.toml\n\
         \x20 - set ANTHROPIC_API_KEY, or OPENAI_API_KEY and OPENAI_MODEL; for a local server\n\
         \x20   OPENAI_BASE_URL and OPENAI_MODEL\n\
         `coordctl demo` and `--model rehearsal` need none: they run a scripted model",
    )
}

/// `rehearsal`, `rehearsal:FILE`, `anthropic:NAME`, `openai:NAME`, `responses:NAME`, or a bare `claude-…` or `gpt-…`.
fn parse(text: &str, config: &Config, vars: &Vars, cwd: &Path) -> Result<Model, Failure> {
    match text.split_once(':') {
        None if text == "rehearsal" => Ok(rehearsal(None)),
        None if text.starts_with("claude-") => Ok(anthropic(text, config)),
        None if ["gpt-", "o1", "o3", "o4"].iter().any(|it| text.starts_with(it)) => {
            Ok(openai(text, config))
        }
        Some(("rehearsal", file)) if !file.is_empty() => script(&cwd.join(file), vars),
        Some(("anthropic", name)) if !name.is_empty() => Ok(anthropic(name, config)),
        Some(("openai", name)) if !name.is_empty() => Ok(openai(name, config)),
        Some(("responses", name)) if !name.is_empty() => {
            Ok(Model { provider: Provider::Responses, ..openai(name, config) })
        }
        _ => Err(Failure::usage(format!("`{text}` is not a model")).hint(
            "valid are anthropic:NAME, openai:NAME, responses:NAME, rehearsal, rehearsal:FILE, and bare names that begin with claude- or gpt-",
        )),
    }
}

/// A script that can be read and is JSON, and that the agent process could play.
fn script(path: &Path, vars: &Vars) -> Result<Model, Failure> {
    let cure = "give a rehearsal script, or `--model rehearsal` for the built-in one";
    let named = |what: String| {
        Failure::usage(format!("the rehearsal file {} {what}", path.display())).hint(cure)
    };
    let path = path.canonicalize().map_err(|error| named(format!("cannot be read: {error}")))?;
    let len = path.metadata().map_err(|error| named(format!("cannot be read: {error}")))?.len();
    if len > SCRIPT_LEN_MAX {
        return Err(named(format!("is {len} bytes long; {SCRIPT_LEN_MAX} are allowed")));
    }
    let text = std::fs::read_to_string(&path)
        .map_err(|error| named(format!("cannot be read: {error}")))?;
    serde_json::from_str::<serde_json::Value>(&text)
        .map_err(|error| named(format!("does not parse: {error}")))?;
    worker::check(vars, "--check-rehearsal", &[path.as_os_str()]).map_err(|why| {
        Failure::usage(format!("the rehearsal file cannot be played: {why}")).hint(cure)
    })?;
    Ok(rehearsal(Some(path)))
}

/// Fails when a model needs a key and the agents would get none.
pub(crate) fn check_key(model: &Model, env: &Vars) -> Result<(), Failure> {
    let (base, official, keys): (_, _, &[&str]) = match model.provider {
        Provider::Anthropic => (
            "ANTHROPIC_BASE_URL",
            "https://api.anthropic.com",
            &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"],
        ),
        Provider::Openai | Provider::Responses => {
            ("OPENAI_BASE_URL", "https://api.openai.com", &["OPENAI_API_KEY"])
        }
        Provider::Rehearsal => return Ok(()),
    };
    let set = |name: &str| env.get(name).map(|it| it.trim()).filter(|it| !it.is_empty());
    let url = model.base_url.as_deref().or_else(|| set(base)).unwrap_or(official);
    // Another server may need no key, so nothing is checked for it.
    if !url.starts_with(official) || keys.iter().any(|key| set(key).is_some()) {
        return Ok(());
    }
    let message = format!("{} needs a key, and none is set", crate::words::model(model));
    Err(Failure::usage(message).hint(format!(
        "set {} in the environment in which you run coordctl; for another server, {base}",
        keys.join(" or ")
    )))
}

fn anthropic(name: &str, config: &Config) -> Model {
    Model {
        provider: Provider::Anthropic,
        name: name.to_owned(),
        base_url: config.anthropic.base_url.clone(),
        rehearsal_file: None,
    }
}

fn openai(name: &str, config: &Config) -> Model {
    Model {
        provider: Provider::Openai,
        name: name.to_owned(),
        base_url: config.openai.base_url.clone(),
        rehearsal_file: None,
    }
}

/// The scripted model, with a script of its own or the one that is built in.
pub(crate) fn rehearsal(file: Option<PathBuf>) -> Model {
    Model {
        provider: Provider::Rehearsal,
        name: String::new(),
        base_url: None,
        rehearsal_file: file.map(|file| file.to_string_lossy().into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(
        flag: Option<&str>,
        config: &str,
        pairs: &[(&str, &str)],
    ) -> Result<Model, Failure> {
        let vars =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let config = &Config::parse(config).unwrap();
        let from = Sources { config, vars: &vars, cwd: Path::new("/work") };
        resolve(flag, from, true).map(Option::unwrap)
    }

    fn shown(flag: Option<&str>, config: &str, pairs: &[(&str, &str)]) -> String {
        crate::words::model(&resolved(flag, config, pairs).unwrap())
    }

    #[test]
    fn the_flag_wins_over_the_configuration_over_the_environment() {
        let config = "model = \"openai:from-config\"";
        let env = [("COORDD_MODEL", "claude-from-env"), ("ANTHROPIC_API_KEY", "k")];
        assert_eq!(shown(Some("claude-from-flag"), config, &env), "anthropic:claude-from-flag");
        assert_eq!(shown(None, config, &env), "openai:from-config");
        assert_eq!(shown(None, "", &env), "anthropic:claude-from-env");
        assert_eq!(shown(None, "", &env[1..]), format!("anthropic:{ANTHROPIC_DEFAULT}"));
    }

    #[test]
    fn fm26_the_environment_names_provider_and_model() {
        let anthropic = [("ANTHROPIC_AUTH_TOKEN", "t"), ("ANTHROPIC_MODEL", "claude-x")];
        assert_eq!(shown(None, "", &anthropic), "anthropic:claude-x");
        let local = [("OPENAI_BASE_URL", "http://localhost"), ("OPENAI_MODEL", "qwen")];
        assert_eq!(shown(None, "", &local), "openai:qwen");
        let error = resolved(None, "", &[("OPENAI_API_KEY", "k")]).unwrap_err();
        assert!(error.hint.contains("OPENAI_MODEL"));
        let blank = resolved(None, "", &[("ANTHROPIC_API_KEY", " ")]).unwrap_err();
        assert_eq!(blank.message, "no model is configured");
    }

    #[test]
    fn no_model_says_the_three_ways_and_the_scripted_one() {
        let error = resolved(None, "", &[]).unwrap_err();
        assert_eq!(error.exit, crate::error::Exit::Usage);
        for way in
            ["--model", "config.toml", "ANTHROPIC_API_KEY", "coordctl demo", "--model rehearsal"]
        {
            assert!(error.hint.contains(way), "{way}");
        }
    }

    #[test]
    fn forms_of_a_name() {
        assert_eq!(shown(Some("gpt-x"), "", &[]), "openai:gpt-x");
        assert_eq!(shown(Some("openai:a:b"), "", &[]), "openai:a:b");
        assert_eq!(shown(Some("responses:a:b"), "", &[]), "responses:a:b");
        assert_eq!(shown(Some("rehearsal"), "", &[]), "rehearsal (scripted)");
        for bad in ["", "llama", "anthropic:", "mistral:x"] {
            let error = resolved(Some(bad), "", &[]).unwrap_err();
            assert!(error.hint.contains("anthropic:NAME"), "{bad}");
        }
    }

    #[test]
    fn the_configuration_gives_the_address() {
        let config = "[openai]\nbase_url = \"http://localhost:8080/v1\"";
        let model = resolved(Some("openai:x"), config, &[]).unwrap();
        assert_eq!(model.base_url.as_deref(), Some("http://localhost:8080/v1"));
    }

    /// a session whose runs could only fail is not made.
    #[test]
    fn a_missing_key_is_noticed_before_anything_starts() {
        let vars = |pairs: &[(&str, &str)]| -> Vars {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let check = |flag: &str, config: &str, pairs: &[(&str, &str)]| {
            check_key(&resolved(Some(flag), config, pairs).unwrap(), &vars(pairs))
        };
        let error = check("claude-x", "", &[]).unwrap_err();
        assert!(error.hint.contains("ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"), "{}", error.hint);
        assert_eq!(error.exit, crate::error::Exit::Usage);
        assert!(check("claude-x", "", &[("ANTHROPIC_API_KEY", " ")]).is_err());
        assert!(check("openai:x", "", &[("ANTHROPIC_API_KEY", "k")]).is_err());
        let official = [("OPENAI_BASE_URL", "https://api.openai.com/v1/")];
        assert!(check("openai:x", "", &official).is_err());
        for (flag, config, pairs) in [
            ("claude-x", "", &[("ANTHROPIC_AUTH_TOKEN", "t")][..]),
            ("claude-x", "", &[("ANTHROPIC_BASE_URL", "http://gateway")]),
            ("claude-x", "[anthropic]\nbase_url = \"http://gateway\"", &[]),
            ("openai:x", "", &[("OPENAI_API_KEY", "k")]),
            ("openai:x", "", &[("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")]),
            ("rehearsal", "", &[]),
        ] {
            assert_eq!(check(flag, config, pairs), Ok(()), "{flag} {config} {pairs:?}");
        }
    }

    #[test]
    fn a_rehearsal_file_is_looked_at_before_anything_starts() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| format!("rehearsal:{}", folder.path().join(name).display());
        let error = resolved(Some(&at("missing.json")), "", &[]).unwrap_err();
        assert!(error.message.contains("missing.json") && error.message.contains("cannot be read"));
        std::fs::write(folder.path().join("bad.json"), "{\"agents\": [").unwrap();
        let error = resolved(Some(&at("bad.json")), "", &[]).unwrap_err();
        assert!(
            error.message.contains("does not parse") && error.message.contains("line 1"),
            "{error}"
        );
        std::fs::write(folder.path().join("good.json"), "{}").unwrap();
        let (name, refuses) =
            worker::tests::stand_in(folder.path(), "echo \"$2:1:2: unknown field\" >&2; exit 1");
        let error = resolved(Some(&at("good.json")), "", &[(&name, &refuses)]).unwrap_err();
        assert!(error.message.ends_with("good.json:1:2: unknown field"), "{error}");
        assert_eq!(error.exit, crate::error::Exit::Usage);
        let model = resolved(Some(&at("good.json")), "", &[]).unwrap();
        assert!(model.rehearsal_file.unwrap().ends_with("/good.json"));
    }
}
