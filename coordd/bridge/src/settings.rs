//! Which server, and how this daemon shows it who it is. Secrets stay in the files that their owner
//! named.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files::{self, FileError, Folder};

const SETTINGS_FILE: &str = "server.toml";

/// Servers that one bridge may be given. A cluster tells the rest itself.
const SERVERS_MAX: usize = 16;

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{SETTINGS_FILE} is not valid; set up the bridge again with `coordctl bridge add`")]
    Malformed {
        #[source]
        source: toml::de::Error,
    },
    #[error(
        "{given} is not a server address; give one such as nats://host:4222 or tls://host:4222"
    )]
    Server { given: String },
    #[error(
        "everyone on this machine can see a password in the address; put it into a file and use --token-file"
    )]
    Secret,
    #[error("give 1 to {SERVERS_MAX} servers")]
    Servers,
    #[error("give one of --credentials, --nkey-file and --token-file")]
    TwoWays,
    #[error("--certificate and --key go together")]
    HalfCertificate,
    #[error("{} does not exist; give the path of a file", path.display())]
    Missing { path: PathBuf },
    #[error("{} is not a text of one line", path.display())]
    NotALine { path: PathBuf },
}

/// What is kept.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) servers: Vec<String>,
    /// A credentials file of NATS: a token with a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) credentials: Option<PathBuf>,
    /// A file with the seed of an nkey.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) nkey_file: Option<PathBuf>,
    /// A file with a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    /// An authority of one's own, in place of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<PathBuf>,
    /// The JetStream domain, where the stream is not the server's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) domain: Option<String>,
}

impl Settings {
    /// None when no bridge was set up.
    pub(crate) fn read(folder: &Folder) -> Result<Option<Self>, SettingsError> {
        let Some(bytes) = folder.read(SETTINGS_FILE)? else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes);
        let (found, unknown) = Self::parse(&text)?;
        if !unknown.is_empty() {
            tracing::warn!(?unknown, "a later build wrote settings that are not known here");
        }
        found.check()?;
        Ok(Some(found))
    }

    /// Settings, and the names in the text that are not known: of a later build, or wrong.
    pub(crate) fn parse(text: &str) -> Result<(Self, Vec<String>), SettingsError> {
        let malformed = |source| SettingsError::Malformed { source };
        let given: toml::Table = toml::from_str(text).map_err(malformed)?;
        let found: Self = toml::from_str(text).map_err(malformed)?;
        let known = toml::Table::try_from(&found).unwrap_or_default();
        let unknown = given.keys().filter(|key| !known.contains_key(*key)).cloned().collect();
        Ok((found, unknown))
    }

    pub(crate) fn write(&self, folder: &Folder) -> Result<(), SettingsError> {
        self.check()?;
        let text = toml::to_string(self).unwrap_or_default();
        Ok(folder.write(SETTINGS_FILE, text.as_bytes())?)
    }

    pub(crate) fn remove(folder: &Folder) -> Result<bool, SettingsError> {
        Ok(folder.remove(SETTINGS_FILE)?)
    }

    fn check(&self) -> Result<(), SettingsError> {
        if self.servers.is_empty() || self.servers.len() > SERVERS_MAX {
            return Err(SettingsError::Servers);
        }
        for given in &self.servers {
            let rest = given.strip_prefix("nats://").or_else(|| given.strip_prefix("tls://"));
            let rest = rest.ok_or_else(|| SettingsError::Server { given: given.clone() })?;
            if rest.contains('@') {
                return Err(SettingsError::Secret);
            }
            if rest.is_empty() || given.parse::<async_nats::ServerAddr>().is_err() {
                return Err(SettingsError::Server { given: given.clone() });
            }
        }
        let ways = [&self.credentials, &self.nkey_file, &self.token_file];
        if ways.into_iter().flatten().count() > 1 {
            return Err(SettingsError::TwoWays);
        }
        if self.certificate.is_some() != self.key.is_some() {
            return Err(SettingsError::HalfCertificate);
        }
        Ok(())
    }

    /// Whether every connection is by TLS.
    pub(crate) fn wants_tls(&self) -> bool {
        let by_address = self.servers.iter().any(|it| it.starts_with("tls://"));
        by_address || self.ca.is_some() || self.certificate.is_some()
    }

    /// All servers, for people.
    pub(crate) fn label(&self) -> String {
        self.servers.join(", ")
    }
}

/// A file with a secret that another reads: it is there, and closed to others.
pub(crate) fn closed(path: &Path) -> Result<(), SettingsError> {
    let missing = || SettingsError::Missing { path: path.to_owned() };
    files::read(path)?.map(drop).ok_or_else(missing)
}

/// The one line in a file that holds a secret, closed to others.
pub(crate) fn secret(path: &Path) -> Result<String, SettingsError> {
    let bytes =
        files::read(path)?.ok_or_else(|| SettingsError::Missing { path: path.to_owned() })?;
    let text = String::from_utf8(bytes).unwrap_or_default();
    let line = text.trim();
    if line.is_empty() || line.lines().count() != 1 {
        return Err(SettingsError::NotALine { path: path.to_owned() });
    }
    Ok(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(server: &str) -> Settings {
        Settings { servers: vec![server.to_owned()], ..Settings::default() }
    }

    #[test]
    fn m7_settings_are_kept_and_checked() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::open(&base.path().join("bridge")).unwrap();
        assert_eq!(Settings::read(&folder).unwrap(), None);
        let good = Settings { ca: Some("/etc/ca.pem".into()), ..with("tls://hub:4222") };
        good.write(&folder).unwrap();
        assert_eq!(Settings::read(&folder).unwrap(), Some(good.clone()));
        assert!(good.wants_tls() && !with("nats://hub").wants_tls());
        for wrong in ["", "hub:4222", "http://hub", "nats://", "nats://a b"] {
            assert!(with(wrong).write(&folder).is_err(), "{wrong:?}");
        }
        let secret = with("nats://user:word@hub:4222");
        assert!(matches!(secret.write(&folder), Err(SettingsError::Secret)));
        let two = Settings {
            token_file: Some("/a".into()),
            nkey_file: Some("/b".into()),
            ..with("nats://hub")
        };
        assert!(matches!(two.write(&folder), Err(SettingsError::TwoWays)));
        assert!(Settings::remove(&folder).unwrap());
    }

    #[test]
    fn rel1_a_key_that_others_can_read_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("client.key");
        assert!(matches!(closed(&path), Err(SettingsError::Missing { .. })));
        std::fs::write(&path, "key").unwrap();
        let set = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set(0o644);
        let said = closed(&path).unwrap_err().to_string();
        assert!(said.contains("chmod go="), "{said}");
        set(0o600);
        closed(&path).unwrap();
    }

    #[test]
    fn m7_what_a_later_build_set_is_passed_over_and_named() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::open(&base.path().join("bridge")).unwrap();
        let text = "servers = [\"nats://hub\"]\nlater = true\n";
        folder.write(SETTINGS_FILE, text.as_bytes()).unwrap();
        assert_eq!(Settings::read(&folder).unwrap(), Some(with("nats://hub")));
        assert_eq!(Settings::parse(text).unwrap().1, ["later"]);
    }
}
