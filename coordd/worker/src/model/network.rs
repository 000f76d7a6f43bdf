//! What a session's environment says about the network: the proxy that leads out, and the roots that are
//! trusted. The box has a proxy of its own, which is for tools alone.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use reqwest::{Certificate, ClientBuilder, NoProxy, Proxy, Url};

use super::endpoint::{Endpoint, Environment, shown};
use super::error::ModelError;

/// A file of roots is read this far: a whole system's have some 250 kilobytes.
const ROOTS_LEN_MAX: u64 = 16 * 1024 * 1024;
/// Files in a folder of roots: a system has about 300, each often twice.
const ROOT_FILES_MAX: usize = 4_096;

/// The proxy and the roots of a session.
#[derive(Debug, Default)]
pub(super) struct Network {
    proxy: Option<Through>,
    roots: Roots,
}

/// A proxy, with what it is not for.
struct Through {
    url: Url,
    variable: &'static str,
    direct: Option<String>,
}

impl std::fmt::Debug for Through {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Through").field("url", &shown(&self.url)).finish_non_exhaustive()
    }
}

/// Where roots are: in their place of the system's, and beside them.
#[derive(Debug, Default)]
struct Roots {
    instead: Vec<(&'static str, PathBuf)>,
    beside: Vec<(&'static str, PathBuf)>,
}

impl Network {
    /// What holds for this endpoint. A server on this machine needs no proxy.
    pub(super) fn of(
        endpoint: &Endpoint,
        environment: Environment<'_>,
    ) -> Result<Self, ModelError> {
        let proxy = if endpoint.loopback { None } else { proxy_for(&endpoint.url, environment)? };
        let path = |variable: &'static str| {
            let value = environment(variable).filter(|it| !it.trim().is_empty())?;
            Some((variable, PathBuf::from(value.trim())))
        };
        let roots = Roots {
            instead: ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().filter_map(path).collect(),
            beside: ["NODE_EXTRA_CA_CERTS"].into_iter().filter_map(path).collect(),
        };
        Ok(Self { proxy, roots })
    }

    /// Sets a client up for it.
    pub(super) fn apply(
        &self,
        builder: ClientBuilder,
        endpoint: &Endpoint,
    ) -> Result<ClientBuilder, ModelError> {
        // Nothing but the session's own environment counts: this process may have another one.
        let mut builder = builder.no_proxy();
        if let Some(through) = &self.proxy {
            builder = builder.proxy(through.proxy()?);
        }
        let is_tls = |url: &Url| url.scheme() == "https";
        let needs_tls =
            is_tls(&endpoint.url) || self.proxy.as_ref().is_some_and(|it| is_tls(&it.url));
        if !needs_tls {
            return Ok(builder.tls_certs_only(std::iter::empty()));
        }
        if !self.roots.instead.is_empty() {
            let all = self.roots.instead.iter().chain(&self.roots.beside);
            let roots = all.map(read).collect::<Result<Vec<_>, _>>()?;
            return Ok(builder.tls_certs_only(roots.into_iter().flatten()));
        }
        let roots = self.roots.beside.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(builder.tls_certs_merge(roots.into_iter().flatten()))
    }

    /// For the middle of a message: nothing, or through what a server is asked.
    pub(super) fn through(&self) -> String {
        self.proxy.as_ref().map_or_else(String::new, |through| {
            format!(" through the proxy {} ({})", shown(&through.url), through.variable)
        })
    }
}

impl Through {
    fn proxy(&self) -> Result<Proxy, ModelError> {
        let mut bare = self.url.clone();
        // These fail only for URLs that can hold no user.
        bare.set_username("").ok();
        bare.set_password(None).ok();
        let proxy = Proxy::all(bare)
            .map_err(|source| bad_proxy(self.variable, source.without_url().to_string()))?;
        let direct = self.direct.as_deref().and_then(NoProxy::from_string);
        let proxy = proxy.no_proxy(direct);
        if self.url.username().is_empty() && self.url.password().is_none() {
            return Ok(proxy);
        }
        let user = decoded(self.url.username());
        let password = decoded(self.url.password().unwrap_or_default());
        Ok(proxy.basic_auth(&user, &password))
    }
}

/// The proxy for an address: in small letters first, as other programs take it, and that for all last.
fn proxy_for(url: &Url, environment: Environment<'_>) -> Result<Option<Through>, ModelError> {
    let names: &[&str] = if url.scheme() == "https" {
        &["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    } else {
        &["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]
    };
    let set = |name: &&'static str| {
        let value = environment(name)?.trim().to_owned();
        (!value.is_empty()).then_some((*name, value))
    };
    let Some((variable, value)) = names.iter().find_map(set) else { return Ok(None) };
    let direct = ["no_proxy", "NO_PROXY"].iter().find_map(set).map(|(_, value)| value);
    let direct = direct.map(|list| listed(&list, url));
    if direct.as_deref() == Some("*") {
        return Ok(None);
    }
    let with_scheme = if value.contains("://") { value } else { format!("http://{value}") };
    let url = Url::parse(&with_scheme).map_err(|error| bad_proxy(variable, error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https" | "socks4" | "socks4a" | "socks5" | "socks5h") {
        let problem = format!("`{}` is no kind of proxy that is known", url.scheme());
        return Err(bad_proxy(variable, problem));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(bad_proxy(variable, "it names no host".to_owned()));
    }
    Ok(Some(Through { url, variable, direct }))
}

/// A list of addresses that need no proxy, with those whose port is another one left out; a star is all.
fn listed(list: &str, url: &Url) -> String {
    let port = url.port_or_known_default();
    let entries = list.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty());
    let mut kept = Vec::new();
    for entry in entries {
        match entry.rsplit_once(':') {
            _ if entry == "*" => return "*".to_owned(),
            Some((host, at)) if !host.contains(':') && at.parse::<u16>().is_ok() => {
                if at.parse().ok() == port {
                    kept.push(host.trim_start_matches('*'));
                }
            }
            Some(_) | None => kept.push(entry.trim_start_matches('*')),
        }
    }
    kept.join(",")
}

fn bad_proxy(variable: &'static str, problem: String) -> ModelError {
    ModelError::BadProxy { variable, problem }
}

/// Undoes `%40` and its like, in which users and passwords stand in URLs.
fn decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let pair = behind.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        let byte = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let coded = byte.filter(|_| *first == b'%');
        out.push(coded.unwrap_or(*first));
        let taken = if coded.is_some() { 2 } else { 0 };
        rest = behind.get(taken..).unwrap_or_default();
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The roots in a file, or in the files of a folder.
fn read((variable, path): &(&'static str, PathBuf)) -> Result<Vec<Certificate>, ModelError> {
    let unreadable = |source| ModelError::RootsUnreadable { variable, path: path.clone(), source };
    if !path.is_dir() {
        let bytes = bytes_of(path).map_err(unreadable)?;
        return Certificate::from_pem_bundle(&bytes)
            .ok()
            .filter(|roots| !roots.is_empty())
            .ok_or_else(|| ModelError::NoRoots { variable, path: path.clone() });
    }
    let mut roots = Vec::new();
    for entry in path.read_dir().map_err(unreadable)?.take(ROOT_FILES_MAX) {
        // A folder of roots holds other files too.
        let bytes = entry.ok().and_then(|entry| bytes_of(&entry.path()).ok()).unwrap_or_default();
        roots.extend(Certificate::from_pem_bundle(&bytes).unwrap_or_default());
    }
    if roots.is_empty() {
        return Err(ModelError::NoRoots { variable, path: path.clone() });
    }
    Ok(roots)
}

fn bytes_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = File::open(path)?;
    // A pipe or a device would never end.
    if !file.metadata()?.is_file() {
        return Ok(Vec::new());
    }
    let mut bytes = Vec::new();
    file.take(ROOTS_LEN_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
