//! A provider's endpoint: base URL and key, from the session's choice and the environment.

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use super::error::ModelError;
use super::secret::Secret;

const ANTHROPIC_DEFAULT: &str = "https://api.anthropic.com";
const OPENAI_DEFAULT: &str = "https://api.openai.com/v1";
const ANTHROPIC_BASE_VARIABLE: &str = "ANTHROPIC_BASE_URL";
const OPENAI_BASE_VARIABLE: &str = "OPENAI_BASE_URL";
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");

/// Looks a variable up, in the environment that the agent was given.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// One address that answers requests.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) url: Url,
    /// Where the models on offer are listed.
    pub(super) models_url: Url,
    /// The URL as it may be shown: without user, password and query.
    pub(super) shown: String,
    pub(super) headers: HeaderMap,
    /// The variables that hold the key, for messages.
    pub(super) key_variables: &'static str,
    pub(super) base_variable: &'static str,
    /// On this machine: no proxy, and time to think before the first byte.
    pub(super) loopback: bool,
    /// The provider's own address, where only the newest spelling of a request is taken.
    pub(super) official: bool,
    secrets: Vec<Secret>,
}

impl Endpoint {
    pub(super) fn anthropic(
        base_url: Option<&str>,
        environment: Environment<'_>,
    ) -> Result<Self, ModelError> {
        let base = Base::find(base_url, environment, ANTHROPIC_BASE_VARIABLE, ANTHROPIC_DEFAULT)?;
        // Both spellings are in use: with and without the version at the end.
        let root = base.text.strip_suffix("/v1").unwrap_or(&base.text);
        let mut endpoint = base.endpoint(&format!("{root}/v1"), "messages")?;
        endpoint.key_variables = "ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN)";
        endpoint.headers.insert(ANTHROPIC_VERSION, HeaderValue::from_static("2023-06-01"));
        if let Some(key) = set(environment, "ANTHROPIC_API_KEY") {
            endpoint.add_secret(API_KEY, "", key, "ANTHROPIC_API_KEY")?;
        }
        if let Some(token) = set(environment, "ANTHROPIC_AUTH_TOKEN") {
            endpoint.add_secret(AUTHORIZATION, "Bearer ", token, "ANTHROPIC_AUTH_TOKEN")?;
        }
        endpoint.with_key_unless_local()
    }

    pub(super) fn openai(
        base_url: Option<&str>,
        environment: Environment<'_>,
    ) -> Result<Self, ModelError> {
        Self::of_openai("chat/completions", base_url, environment)
    }

    pub(super) fn responses(
        base_url: Option<&str>,
        environment: Environment<'_>,
    ) -> Result<Self, ModelError> {
        Self::of_openai("responses", base_url, environment)
    }

    fn of_openai(
        path: &str,
        base_url: Option<&str>,
        environment: Environment<'_>,
    ) -> Result<Self, ModelError> {
        let base = Base::find(base_url, environment, OPENAI_BASE_VARIABLE, OPENAI_DEFAULT)?;
        let mut endpoint = base.endpoint(&base.text, path)?;
        endpoint.key_variables = "OPENAI_API_KEY";
        if let Some(key) = set(environment, "OPENAI_API_KEY") {
            endpoint.add_secret(AUTHORIZATION, "Bearer ", key, "OPENAI_API_KEY")?;
        }
        endpoint.with_key_unless_local()
    }

    /// Takes keys out of what a server said.
    pub(super) fn redact(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| secret.redact(&text))
    }

    fn add_secret(
        &mut self,
        name: HeaderName,
        scheme: &str,
        secret: Secret,
        variable: &'static str,
    ) -> Result<(), ModelError> {
        let mut value = HeaderValue::from_str(&format!("{scheme}{}", secret.reveal()))
            .map_err(|_| ModelError::KeyMalformed { variable })?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        self.secrets.push(secret);
        Ok(())
    }

    /// A server on this machine mostly wants no key; any other does.
    fn with_key_unless_local(self) -> Result<Self, ModelError> {
        if self.secrets.is_empty() && !self.loopback {
            return Err(ModelError::KeyMissing { variables: self.key_variables });
        }
        Ok(self)
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("url", &self.shown).finish_non_exhaustive()
    }
}

/// The base URL, found but not yet a request's URL.
struct Base {
    text: String,
    variable: &'static str,
    official: bool,
}

impl Base {
    fn find(
        chosen: Option<&str>,
        environment: Environment<'_>,
        variable: &'static str,
        default: &str,
    ) -> Result<Self, ModelError> {
        let given = chosen.map(str::to_owned).or_else(|| environment(variable));
        let given = given.map(|it| it.trim().trim_end_matches('/').to_owned());
        let text = given.filter(|it| !it.is_empty()).unwrap_or_else(|| default.to_owned());
        let base = Self { official: text == default, text, variable };
        let url = base.parse(&base.text)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(base.bad("it must begin with http:// or https://".to_owned()));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(base.bad("it must end with its path".to_owned()));
        }
        Ok(base)
    }

    fn endpoint(&self, root: &str, path: &str) -> Result<Endpoint, ModelError> {
        let url = self.parse(&format!("{root}/{path}"))?;
        let models_url = self.parse(&format!("{root}/models"))?;
        let loopback = url.host_str().is_some_and(is_loopback);
        Ok(Endpoint {
            shown: shown(&url),
            url,
            models_url,
            headers: HeaderMap::new(),
            key_variables: "",
            base_variable: self.variable,
            loopback,
            official: self.official,
            secrets: Vec::new(),
        })
    }

    fn parse(&self, url: &str) -> Result<Url, ModelError> {
        Url::parse(url).map_err(|problem| self.bad(problem.to_string()))
    }

    fn bad(&self, problem: String) -> ModelError {
        // What cannot be read as a URL is not shown: a password might be in it.
        let given = Url::parse(&self.text).map_or_else(|_| "…".to_owned(), |url| shown(&url));
        ModelError::BadBaseUrl { given, problem, base_variable: self.variable }
    }
}

pub(super) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // These fail only for URLs that can hold no user.
    url.set_username("").ok();
    url.set_password(None).ok();
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.ends_with(".localhost")
        || address.parse::<std::net::IpAddr>().is_ok_and(|it| it.is_loopback())
}

/// A variable that is empty counts as not set. Blanks around a key come from files and pasting.
fn set(environment: Environment<'_>, variable: &str) -> Option<Secret> {
    let value = environment(variable)?.trim().to_owned();
    (!value.is_empty()).then(|| Secret::new(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| pairs.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
    }

    /// base URL and key by the usual variables.
    #[test]
    fn urls_are_built_from_choice_then_environment_then_default() {
        let key = [("ANTHROPIC_API_KEY", "k-123456"), ("OPENAI_API_KEY", "o-123456")];
        for (base, url) in [
            (None, "https://api.anthropic.com/v1/messages"),
            (Some("http://localhost:8080/"), "http://localhost:8080/v1/messages"),
            (Some("http://localhost:8080/v1/"), "http://localhost:8080/v1/messages"),
            (Some("https://gate.example/anthropic"), "https://gate.example/anthropic/v1/messages"),
        ] {
            assert_eq!(Endpoint::anthropic(base, &from(&key)).unwrap().url.as_str(), url);
        }
        for (base, url) in [
            (None, "https://api.openai.com/v1/chat/completions"),
            (Some("http://[::1]:11434/v1"), "http://[::1]:11434/v1/chat/completions"),
        ] {
            assert_eq!(Endpoint::openai(base, &from(&key)).unwrap().url.as_str(), url);
        }
        let variable = [("OPENAI_BASE_URL", "http://127.0.0.1:9/v1"), ("OPENAI_API_KEY", " ")];
        let endpoint = Endpoint::openai(None, &from(&variable)).unwrap();
        assert_eq!(endpoint.url.as_str(), "http://127.0.0.1:9/v1/chat/completions");
        assert!(endpoint.loopback && endpoint.headers.is_empty() && !endpoint.official);
        let chosen = Endpoint::openai(Some("http://127.0.0.1:8/v1"), &from(&variable)).unwrap();
        assert_eq!(chosen.url.port(), Some(8));
    }

    #[test]
    fn a_missing_key_names_the_variable() {
        for (result, variable) in [
            (Endpoint::anthropic(None, &from(&[])), "ANTHROPIC_API_KEY"),
            (Endpoint::openai(None, &from(&[])), "OPENAI_API_KEY"),
            (
                Endpoint::openai(Some("http://10.0.0.1/v1"), &from(&[("OPENAI_API_KEY", "")])),
                "OPENAI_API_KEY",
            ),
        ] {
            let message = result.unwrap_err().to_string();
            assert!(message.contains(variable) && message.contains("set "), "{message}");
        }
    }

    #[test]
    fn bad_base_urls_are_named_without_their_password() {
        for (base, said) in [
            ("api.example.com", "relative URL"),
            ("ftp://u:hunter22@x/", "http://"),
            ("https://u:hunter22@x/?k=v", "end with its path"),
            ("https://u:hunter22@[x/", "invalid"),
        ] {
            let error = Endpoint::openai(Some(base), &from(&[])).unwrap_err();
            let message = error.to_string();
            assert!(message.contains(said), "{message}");
            assert!(message.contains("OPENAI_BASE_URL") && !message.contains("hunter22"));
            assert!(!format!("{error:?}").contains("hunter22"));
        }
    }

    /// D-9: no secrets in logs.
    #[test]
    fn keys_are_sent_but_never_shown() {
        let both = [("ANTHROPIC_API_KEY", "sk-key-1\n"), ("ANTHROPIC_AUTH_TOKEN", "tok-123")];
        let endpoint = Endpoint::anthropic(Some("https://u:pw@h/"), &from(&both)).unwrap();
        assert_eq!(endpoint.headers["x-api-key"], "sk-key-1");
        assert_eq!(endpoint.headers["authorization"], "Bearer tok-123");
        assert_eq!(endpoint.headers["anthropic-version"], "2023-06-01");
        assert_eq!(endpoint.shown, "https://h/v1/messages");
        let debug = format!("{endpoint:?} {:?} {:?}", endpoint.headers, endpoint.secrets);
        for secret in ["sk-key-1", "tok-123", "pw"] {
            assert!(!debug.contains(secret), "{debug}");
        }
        assert_eq!(endpoint.redact("no sk-key-1, no tok-123"), "no [key], no [key]");
        let broken = [("OPENAI_API_KEY", "abc\ndefgh")];
        let message = Endpoint::openai(None, &from(&broken)).unwrap_err().to_string();
        assert!(message.contains("OPENAI_API_KEY") && !message.contains("defgh"), "{message}");
    }
}
