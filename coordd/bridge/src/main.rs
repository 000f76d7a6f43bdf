//! `coordd-bridge`: carries messages between this machine's coordd and those of other machines,
//! over NATS JetStream.
//!
//! coordd starts it with one line of JSON on stdin, and it ends when stdin does. It holds the
//! network, TLS and credentials, so that the daemon has none of them. coordd judges every message
//! that it brings.
//!
//! ```text
//! coordd-bridge                              the bridge process
//! coordd-bridge --key FOLDER                 prints this daemon's key, which is made when there is none
//! coordd-bridge --set-up FOLDER              takes the settings, as TOML, from stdin
//! coordd-bridge --remove FOLDER              removes the settings; the key and the peers stay
//! coordd-bridge --trust FOLDER KEY NAME      trusts a peer, and prints its fingerprint
//! coordd-bridge --distrust FOLDER PEER       trusts it no longer, and prints its fingerprint
//! coordd-bridge --peers FOLDER               prints the peers, one a line: fingerprint, name
//! coordd-bridge --version
//!     for coordctl; they start nothing. Exit 0: done; 1: not, and stderr has one line that says why
//! ```

mod body;
mod engine;
mod envelope;
mod files;
mod home;
mod inbox;
mod keys;
mod limits;
mod link;
mod nats;
mod outbox;
mod refused;
mod settings;
#[cfg(feature = "skew")]
mod skew;
mod subjects;
mod tried;
mod trusted;
mod wire;

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use coordd_common::wall_ms;
use proto::bridge::Bootstrap;
use proto::hello::Credentials;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use crate::engine::{Engine, Parts};
use crate::files::Folder;
use crate::keys::{Identity, PublicKey};
use crate::link::Link;
use crate::settings::Settings;
use crate::trusted::Trusted;

/// The longest line of a bootstrap, and the longest settings: some paths and a token.
const INPUT_LEN_MAX: u64 = 64 * 1024;
/// Bytes that the process may hold: several times what all messages on their way in both directions can come to.
const MEMORY_MAX: u64 = 256 * 1024 * 1024;
/// The queue between the engine and coordd. Short, since each side handles its input at once.
const HOME_LEN_MAX: usize = 64;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        return said(Err(anyhow::anyhow!("the cipher library was set up twice")));
    }
    match arguments.as_slice() {
        [] => {
            set_up_logs();
            if let Err(error) = bound_memory() {
                tracing::warn!(%error, "a server can make this process hold as much as it sends");
            }
            match run() {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    tracing::error!(error = format!("{error:#}"), "the bridge cannot go on");
                    ExitCode::FAILURE
                }
            }
        }
        ["--version" | "-V"] => {
            said(Ok(concat!("coordd-bridge ", env!("CARGO_PKG_VERSION")).to_owned()))
        }
        ["--key", folder] => said(key(folder)),
        ["--set-up", folder] => said(set_up(folder)),
        ["--remove", folder] => said(remove(folder)),
        ["--trust", folder, key, name] => said(trust(folder, key, name)),
        ["--distrust", folder, peer] => said(distrust(folder, peer)),
        ["--peers", folder] => said(peers(folder)),
        _ => said(Err(anyhow::anyhow!(
            "wrong usage: coordd starts this program; see `coordctl bridge --help`"
        ))),
    }
}

/// Bounds what the process can hold. A server may announce a message of 2 GB, or never end a line: this process ends then, and coordd
/// starts another one after a while. What was on its way is still in coordd's hands and on the other side.
fn bound_memory() -> std::io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let hard = getrlimit(Resource::Data).maximum;
    let current = hard.map_or(MEMORY_MAX, |hard| hard.min(MEMORY_MAX));
    Ok(setrlimit(Resource::Data, Rlimit { current: Some(current), maximum: hard })?)
}

/// One line on stdout, or on stderr why not.
fn said(result: anyhow::Result<String>) -> ExitCode {
    let (written, code) = match result {
        Ok(text) => (writeln!(std::io::stdout(), "{text}"), ExitCode::SUCCESS),
        Err(error) => (writeln!(std::io::stderr(), "{error:#}"), ExitCode::FAILURE),
    };
    if written.is_err() { ExitCode::FAILURE } else { code }
}

fn key(folder: &str) -> anyhow::Result<String> {
    let folder = Folder::open(Path::new(folder))?;
    Ok(Identity::open(&folder)?.public().to_string())
}

fn set_up(folder: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(INPUT_LEN_MAX).read_to_string(&mut text);
    read.context("reading the settings from stdin")?;
    let (settings, unknown) = Settings::parse(&text).context("the settings are not valid")?;
    anyhow::ensure!(unknown.is_empty(), "nobody here knows the setting {}", unknown.join(", "));
    let folder = Folder::open(Path::new(folder))?;
    // Secrets are looked at now, while somebody is there to be told.
    for path in [&settings.nkey_file, &settings.token_file].into_iter().flatten() {
        settings::secret(path)?;
    }
    if let Some(path) = &settings.key {
        settings::closed(path)?;
    }
    if let Some(path) = &settings.credentials {
        nats::check_credentials(path)?;
    }
    settings.write(&folder)?;
    Ok(Identity::open(&folder)?.public().to_string())
}

fn remove(folder: &str) -> anyhow::Result<String> {
    let removed = Settings::remove(&Folder::open(Path::new(folder))?)?;
    Ok(if removed { "removed" } else { "there was none" }.to_owned())
}

fn trust(folder: &str, key: &str, name: &str) -> anyhow::Result<String> {
    let folder = Folder::open(Path::new(folder))?;
    let key: PublicKey = key.parse()?;
    Trusted::add(&folder, Identity::open(&folder)?.public(), &key, name)?;
    Ok(key.fingerprint().to_string())
}

fn distrust(folder: &str, peer: &str) -> anyhow::Result<String> {
    Ok(Trusted::remove(&Folder::open(Path::new(folder))?, peer)?.to_string())
}

fn peers(folder: &str) -> anyhow::Result<String> {
    let all = Trusted::read(&Folder::open(Path::new(folder))?)?;
    let lines = all.iter().map(|(key, peer)| format!("{key} {}", peer.name));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

fn run() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let ended = LocalSet::new().block_on(&runtime, live());
    // A pending name look-up must not keep the process alive.
    runtime.shutdown_timeout(std::time::Duration::from_millis(100));
    ended
}

async fn live() -> anyhow::Result<()> {
    let mut stdin = BufReader::new(tokio::io::stdin().take(INPUT_LEN_MAX));
    let mut first = String::new();
    stdin.read_line(&mut first).await.context("reading the bootstrap from stdin")?;
    let boot: Bootstrap = serde_json::from_str(&first)
        .context("stdin does not hold a bootstrap: coordd starts this program")?;
    let folder = Folder::open(Path::new(&boot.folder))?;
    // Only one bridge process at a time: the next one waits here until this one has exited.
    let _only = folder.lock("process.lock")?;
    let settings = Settings::read(&folder)?;
    let settings =
        settings.context("no server is set up; run `coordctl bridge add nats://HOST:4222`")?;
    let own = Identity::open(&folder)?;
    let fingerprint = own.public().fingerprint();
    tracing::info!(%fingerprint, server = settings.label(), "the bridge begins");
    let (wire, ends) = wire::wire();
    let (to_home, from_engine) = mpsc::channel(HOME_LEN_MAX);
    let (to_engine, from_home) = mpsc::channel(HOME_LEN_MAX);
    let engine = Engine::new(Parts {
        own,
        trusted: Trusted::read(&folder)?,
        folder,
        wire,
        home: to_home,
        server: settings.label(),
        machine: machine(),
    });
    let link = Link {
        socket: PathBuf::from(&boot.socket),
        credentials: Credentials {
            agent: proto::bridge::AGENT.to_owned(),
            incarnation: boot.incarnation,
            token: boot.token,
            pid: std::process::id(),
        },
        to_engine,
        from_engine,
    };
    let mut rest = Vec::new();
    tokio::select! {
        () = engine.run(from_home) => Ok(()),
        ended = link.run() => ended.map_err(Into::into),
        ended = nats::carry(&settings, &fingerprint, ends) => ended.map_err(Into::into),
        // The daemon that started this process is gone, or wants it gone.
        _ = stdin.read_to_end(&mut rest) => Ok(()),
    }
}

fn machine() -> String {
    let name = nix::unistd::gethostname().ok();
    body::cut(&name.and_then(|name| name.into_string().ok()).unwrap_or_default())
}

fn set_up_logs() {
    let level = tracing_subscriber::EnvFilter::try_from_default_env();
    let level =
        level.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,async_nats=warn"));
    tracing_subscriber::fmt()
        .with_env_filter(level)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
}

/// Random bits for jitter and unique names; not for secrets.
fn chance() -> u64 {
    getrandom::u64().unwrap_or_default()
}
