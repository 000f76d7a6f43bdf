//! The daemon's own settings: the `[daemon]` table of `config.toml`.
//!
//! The rest of the file belongs to `coordctl` and is not looked at. A setting that is misspelt is
//! refused, because a limit that silently does not hold is worse than none. It must not read
//! anything from a working directory (rel-38).

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::dir::euid;

/// Longest file that is read. Settings are a few lines.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Every key of the table.
const KEYS: [&str; 5] = ["home", "listed", "scratchpad", "starts_per_minute", "workers"];

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("{} cannot be read; fix its permissions or move it away", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("others can write {p}; run: chmod go-w {p}", p = path.display())]
    WritableByOthers { path: PathBuf },
    #[error("{} belongs to user {uid}; make it yours or move it away", path.display())]
    ForeignOwner { path: PathBuf, uid: u32 },
    #[error("{} has more than {FILE_BYTES_MAX} bytes; shorten it", path.display())]
    TooLong { path: PathBuf },
    #[error("{} is not valid TOML; fix the place that is named", path.display())]
    NotToml { path: PathBuf, source: toml::de::Error },
    #[error("{} has the unknown setting `{key}` in [daemon]; known settings: {}", path.display(), KEYS.join(", "))]
    UnknownKey { path: PathBuf, key: String },
    #[error("{}: a setting in [daemon] has a value of the wrong type; fix the setting that is named", path.display())]
    BadValue { path: PathBuf, source: toml::de::Error },
    #[error("{}: `{key}` in [daemon] is {value}; it must be from {least} to {most}", path.display())]
    OutOfRange { path: PathBuf, key: &'static str, value: u32, least: u32, most: u32 },
    #[error("{}: `home` in [daemon] is {value:?}; it must be an absolute path", path.display())]
    HomeNotAbsolute { path: PathBuf, value: PathBuf },
}

/// The daemon's settings.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Workers that run at once; more wait (W-7).
    pub(crate) workers: u32,
    /// Workers that are started in a minute, over all sessions; more wait, and 0 is without limit
    /// (W-7).
    pub(crate) starts_per_minute: u32,
    /// Whether sessions have a scratchpad (S-2).
    pub(crate) scratchpad: bool,
    /// Whether sessions are listed where Claude Code looks for others (M-10). A program that knows
    /// their addresses reaches them all the same.
    pub(crate) listed: bool,
    /// Where `.claude/teams` is, in place of the user's home.
    pub(crate) home: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self { workers: 20, starts_per_minute: 60, scratchpad: true, listed: true, home: None }
    }
}

impl Config {
    /// Reads the settings. A file that is not there means the defaults.
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |source| ConfigError::Unreadable { path: path.into(), source };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(Self::default());
            }
            Err(error) => return Err(unreadable(error)),
        };
        let metadata = file.metadata().map_err(unreadable)?;
        if metadata.uid() != euid() && metadata.uid() != 0 {
            return Err(ConfigError::ForeignOwner { path: path.into(), uid: metadata.uid() });
        }
        if metadata.mode() & 0o002 != 0 {
            return Err(ConfigError::WritableByOthers { path: path.into() });
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(ConfigError::TooLong { path: path.into() });
        }
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let mut file: toml::Table =
            text.parse().map_err(|source| ConfigError::NotToml { path: path.into(), source })?;
        let Some(daemon) = file.remove("daemon") else { return Ok(Self::default()) };
        if let Some(table) = daemon.as_table()
            && let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str()))
        {
            return Err(ConfigError::UnknownKey { path: path.into(), key: key.clone() });
        }
        let config: Self = daemon
            .try_into()
            .map_err(|source| ConfigError::BadValue { path: path.into(), source })?;
        config.check(path)?;
        Ok(config)
    }

    fn check(&self, path: &Path) -> Result<(), ConfigError> {
        // More processes than that are surely a mistake.
        let ranges = [
            ("workers", self.workers, 1, 1000),
            ("starts_per_minute", self.starts_per_minute, 0, 10_000),
        ];
        for (key, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(ConfigError::OutOfRange { path: path.into(), key, value, least, most });
            }
        }
        match &self.home {
            Some(home) if !home.is_absolute() => {
                Err(ConfigError::HomeNotAbsolute { path: path.into(), value: home.clone() })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, Path::new("config.toml"))
    }

    #[test]
    fn what_is_not_set_has_its_default_and_the_rest_of_the_file_is_not_ours() {
        let config = parse("model = 'x'\n[daemon]\nworkers = 3\n[client]\nanything = 1\n").unwrap();
        assert_eq!(config, Config { workers: 3, ..Config::default() });
        assert_eq!(parse("").unwrap(), Config::default());
        assert_eq!(Config::read(Path::new("/nonexistent/config.toml")).unwrap(), Config::default());
    }

    #[test]
    fn a_misspelt_setting_is_named() {
        let error = parse("[daemon]\nworker = 3\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "config.toml has the unknown setting `worker` in [daemon]; known settings: home, listed, scratchpad, \
             starts_per_minute, workers"
        );
    }

    #[test]
    fn every_key_can_be_set() {
        let config = parse(
            "[daemon]\nhome = '/h'\nlisted = false\nscratchpad = false\nstarts_per_minute = 2\nworkers = 1\n",
        );
        let home = Some(PathBuf::from("/h"));
        let expected =
            Config { workers: 1, starts_per_minute: 2, scratchpad: false, listed: false, home };
        assert_eq!(config.unwrap(), expected);
    }

    #[test]
    fn a_value_that_makes_no_sense_is_refused() {
        assert!(matches!(
            parse("[daemon]\nworkers = 0"),
            Err(ConfigError::OutOfRange { value: 0, .. })
        ));
        assert!(matches!(parse("[daemon]\nworkers = 'x'"), Err(ConfigError::BadValue { .. })));
        assert!(matches!(parse("daemon = 3"), Err(ConfigError::BadValue { .. })));
        assert!(matches!(parse("[daemon]\nhome = 'x'"), Err(ConfigError::HomeNotAbsolute { .. })));
        assert!(matches!(parse("[daemon"), Err(ConfigError::NotToml { .. })));
    }

    #[test]
    fn rel38_a_file_that_others_can_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        fs::write(&path, "[daemon]\nworkers = 2\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(Config::read(&path).unwrap().workers, 2);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(Config::read(&path), Err(ConfigError::WritableByOthers { .. })));
    }
}
