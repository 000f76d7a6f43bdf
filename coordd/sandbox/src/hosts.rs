//! Which hosts can be reached from a box, by name.

use std::net::IpAddr;

/// Most entries: a list that a person writes.
const ENTRIES_MAX: usize = 256;
/// Longest name of a host, as in the DNS.
const NAME_LEN_MAX: usize = 253;

/// What can be reached without a port of its own: web servers.
const PORTS: [u16; 2] = [80, 443];

/// Names for what build tools need.
const PRESETS: [(&str, &[&str]); 6] = [
    ("cargo", &["crates.io", "index.crates.io", "static.crates.io"]),
    ("npm", &["registry.npmjs.org", "registry.yarnpkg.com"]),
    ("pypi", &["pypi.org", "files.pythonhosted.org"]),
    ("go", &["proxy.golang.org", "sum.golang.org"]),
    ("debian", &["deb.debian.org", "security.debian.org"]),
    (
        "github",
        &[
            "github.com",
            "api.github.com",
            "codeload.github.com",
            "raw.githubusercontent.com",
            "objects.githubusercontent.com",
            "release-assets.githubusercontent.com",
        ],
    ),
];

/// Hosts that can be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(Vec<Entry>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// Lower case, without a dot at its end.
    name: String,
    /// All below the name as well, and not the name itself.
    below: bool,
    port: Option<u16>,
}

/// Why a list of hosts is not followed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// No host, no preset.
    #[error(
        "{0:?} is no host; write a name as in example.com, *.example.com or example.com:8443, or one of cargo, npm, pypi, go, debian, github"
    )]
    Bad(String),
    /// Longer than a person writes.
    #[error("{0} hosts are named; at most {ENTRIES_MAX} are looked at")]
    TooMany(usize),
}

impl Hosts {
    /// Reads a list of hosts and presets.
    pub fn parse(texts: &[String]) -> Result<Self, HostError> {
        if texts.len() > ENTRIES_MAX {
            return Err(HostError::TooMany(texts.len()));
        }
        let mut entries = Vec::new();
        for text in texts {
            if let Some((_, names)) = PRESETS.iter().find(|it| it.0 == text) {
                let names = names.iter().map(|it| Entry {
                    name: (*it).to_owned(),
                    below: false,
                    port: None,
                });
                entries.extend(names);
            } else {
                entries.push(entry(text).ok_or_else(|| HostError::Bad(text.clone()))?);
            }
        }
        Ok(Self(entries))
    }

    /// Whether a host can be reached at a port.
    #[must_use]
    pub fn allows(&self, host: &str, port: u16) -> bool {
        let host = plain(host);
        self.0.iter().any(|it| {
            let named = if it.below {
                host.strip_suffix(it.name.as_str()).is_some_and(|rest| rest.ends_with('.'))
            } else {
                host == it.name
            };
            named && it.port.map_or(PORTS.contains(&port), |own| own == port)
        })
    }

    /// Whether the user named this very host, so that it may be on this machine or in its network.
    #[must_use]
    pub fn names_address(&self, host: &str) -> bool {
        let host = plain(host);
        (host == "localhost" || host.parse::<IpAddr>().is_ok())
            && self.0.iter().any(|it| !it.below && it.name == host)
    }
}

fn plain(host: &str) -> String {
    let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
    host.trim_end_matches('.').to_ascii_lowercase()
}

fn entry(text: &str) -> Option<Entry> {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => {
            (name, Some(port.parse().ok().filter(|it| *it != 0)?))
        }
        _ => (text, None),
    };
    let (name, below) = name.strip_prefix("*.").map_or((name, false), |rest| (rest, true));
    let name = plain(name);
    let label = |it: &str| {
        !it.is_empty()
            && it.len() <= 63
            && it.chars().all(|it| it.is_ascii_alphanumeric() || it == '-' || it == '_')
    };
    let is_address = name.parse::<IpAddr>().is_ok() && !below;
    let is_name = name.len() <= NAME_LEN_MAX && name.split('.').all(label);
    // `*.com` would be half of the world, and a lone word is a preset that there is not.
    let enough = name == "localhost" || name.contains('.');
    (is_address || (is_name && enough && (!below || name.contains('.')))).then_some(Entry {
        name,
        below,
        port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(texts: &[&str]) -> Result<Hosts, HostError> {
        Hosts::parse(&texts.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>())
    }

    /// W-13: names and ports, and nothing that only looks like them.
    #[test]
    fn w13_only_what_is_named_is_reached() {
        let it = hosts(&["cargo", "*.example.com", "x.org:8443", "127.0.0.1:99", "localhost:7"])
            .unwrap();
        for (host, port, expected) in [
            ("static.crates.io", 443, true),
            ("STATIC.crates.io.", 80, true),
            ("static.crates.io", 22, false),
            ("crates.io.evil.org", 443, false),
            ("evilcrates.io", 443, false),
            ("a.example.com", 443, true),
            ("a.b.example.com", 443, true),
            ("example.com", 443, false),
            ("badexample.com", 443, false),
            ("x.org", 8443, true),
            ("x.org", 443, false),
            ("127.0.0.1", 99, true),
            ("127.0.0.1", 80, false),
            ("", 443, false),
        ] {
            assert_eq!(it.allows(host, port), expected, "{host} {port}");
        }
        assert!(it.names_address("127.0.0.1") && it.names_address("localhost"));
        assert!(!it.names_address("a.example.com") && !it.names_address("10.0.0.1"));
        assert!(!Hosts::default().allows("crates.io", 443));
    }

    /// W-13: nonsense is refused as a whole, and said.
    #[test]
    fn w13_nonsense_is_no_host() {
        for bad in [
            "",
            "*",
            "*.com",
            "com",
            "crgo",
            "a b.c",
            "http://x.org",
            "x.org/",
            "x.org:0",
            "x.org:x",
            "x..org",
            "-.",
            ".",
            "x.org:99999",
        ] {
            assert_eq!(hosts(&["cargo", bad]), Err(HostError::Bad(bad.to_owned())), "{bad}");
        }
        assert!(hosts(&["[::1]:80", "::1", "1.2.3.4", "a_b.example.com"]).is_ok());
        assert_eq!(hosts(&["a.b"; 257]), Err(HostError::TooMany(257)));
    }
}
