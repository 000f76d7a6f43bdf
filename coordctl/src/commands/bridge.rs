//! `coordctl bridge`: sessions on other machines. Keys and settings are the bridge program's
//! business: it is asked.

pub(super) mod told;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use proto::request::Request;
use proto::response::Response;

use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::terminal::line;
use crate::{expect, output, paths};

/// A bridge reads its list of peers again within this time, and there are slow machines.
const KNOWN_WITHIN: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Reach sessions on other machines over a NATS server.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: coordctl bridge add tls://hub:4222 --token-file ~/.config/nats.token\n\
                        coordctl bridge key                      on the other machine, to be told by hand\n\
                        coordctl bridge trust coordd1-… --name desk\n\
                        coordctl bridge allow dates desk\n\
                        coordctl peers"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Set the server, and start the bridge.
    Add(Add),
    /// Stop the bridge. The key and the trusted peers stay.
    Rm,
    /// Print this daemon's key, for the other machine's `coordctl bridge trust`.
    Key,
    /// Trust another daemon by its key.
    Trust {
        /// The whole line that `coordctl bridge key` prints there: the daemon's full fingerprint.
        /// The short one in addresses names a daemon and does not vouch for its key, so it is not
        /// enough here.
        key: String,
        /// The name for that daemon here.
        #[arg(long)]
        name: String,
    },
    /// Stop trusting a daemon.
    Distrust {
        /// The daemon's name or fingerprint.
        peer: String,
    },
    /// List the trusted daemons.
    Ls,
    /// Let a session and another daemon's sessions message each other. Replaces what was allowed
    /// for the two before.
    Allow {
        /// The session.
        session: String,
        /// The other daemon's name or fingerprint.
        peer: String,
        /// Only let its sessions be heard; nothing goes there then, whatever was allowed before.
        #[arg(long = "in", conflicts_with = "outbound")]
        inbound: bool,
        /// Only let this session's agents write there; nothing is heard from there then, whatever
        /// was allowed before.
        #[arg(long = "out")]
        outbound: bool,
    },
    /// Take back what `allow` allowed.
    Deny {
        /// The session.
        session: String,
        /// The other daemon's name or fingerprint.
        peer: String,
    },
    /// List the last rejected messages, of this machine and of others, with the reason.
    Letters,
    /// Show the bridge's status, and why an address is not reachable.
    Status {
        /// An address, as `coordctl peers` prints it.
        address: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
struct Add {
    /// The servers, as `nats://host:4222` or `tls://host:4222`.
    #[arg(required = true)]
    servers: Vec<String>,
    /// A credentials file of NATS.
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,
    /// A file with the seed of an nkey.
    #[arg(long, value_name = "FILE")]
    nkey_file: Option<PathBuf>,
    /// A file with a token.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The certificate authority of the server, if the system does not know it.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// A client certificate for the server.
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// The client certificate's key, in a file that is closed to other users.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// The JetStream domain, for a leaf node.
    #[arg(long)]
    domain: Option<String>,
}

pub(crate) fn run(context: &mut Context, args: Args) -> anyhow::Result<Exit> {
    match args.verb {
        Verb::Add(args) => add(context, args),
        Verb::Rm => {
            program(context, "--remove", &[], "")?;
            context.call(Request::BridgeSet { on: false })?;
            say_so(context, "the bridge is off; messages in transit wait until it is on again")
        }
        Verb::Key => {
            let key = program(context, "--key", &[], "")?;
            printed(context, "key", &key)
        }
        Verb::Trust { key, name } => {
            let fingerprint = program(context, "--trust", &[&key, &name], "")?;
            wait_until_known(context, &fingerprint);
            say_so(
                context,
                &format!(
                    "{name} is trusted; its fingerprint is {fingerprint}\nnothing passes yet: coordctl bridge allow SESSION {name}"
                ),
            )
        }
        Verb::Distrust { peer } => {
            let fingerprint = program(context, "--distrust", &[&peer], "")?;
            say_so(context, &format!("{fingerprint} is no longer trusted"))
        }
        Verb::Ls => ls(context),
        Verb::Allow { session, peer, inbound, outbound } => {
            let both = !inbound && !outbound;
            allow(context, session, &peer, inbound || both, outbound || both)
        }
        Verb::Deny { session, peer } => allow(context, session, &peer, false, false),
        Verb::Letters => letters(context),
        Verb::Status { address } => status(context, address.as_deref()),
    }
}

fn add(context: &mut Context, args: Add) -> anyhow::Result<Exit> {
    let file = |path: Option<PathBuf>| path.map(std::path::absolute).transpose();
    let mut settings = toml::Table::new();
    settings.insert("servers".into(), args.servers.into());
    let files = [
        ("credentials", file(args.credentials)?),
        ("nkey_file", file(args.nkey_file)?),
        ("token_file", file(args.token_file)?),
        ("ca", file(args.ca)?),
        ("certificate", file(args.certificate)?),
        ("key", file(args.key)?),
    ];
    for (name, path) in files {
        if let Some(path) = path {
            settings.insert(name.into(), path.display().to_string().into());
        }
    }
    if let Some(domain) = args.domain {
        settings.insert("domain".into(), domain.into());
    }
    let warning = warning(&settings);
    let key = program(context, "--set-up", &[], &settings.to_string())?;
    if let Some(text) = warning {
        output::note(&text);
    }
    context.call(Request::BridgeSet { on: true })?;
    say_so(
        context,
        &format!(
            "the bridge is on; `coordctl bridge status` shows its status\nthis daemon's key, for the other machine: {key}"
        ),
    )
}

/// The warnings about credentials that go to another machine without TLS.
fn warning(settings: &toml::Table) -> Option<String> {
    let has = |names: &[&str]| names.iter().any(|name| settings.contains_key(*name));
    // With `--ca` or `--certificate` every connection uses TLS.
    if has(&["ca", "certificate"]) {
        return None;
    }
    let servers = settings.get("servers")?.as_array()?;
    let bare = servers.iter().filter_map(toml::Value::as_str).find(|it| is_bare(it))?;
    if has(&["token_file"]) {
        return Some(format!("the token can be read in transit to {bare}; use tls://"));
    }
    has(&["nkey_file", "credentials"]).then(|| {
        format!("anybody between here and {bare} can use the connection as this daemon; use tls://")
    })
}

/// Whether bytes to a server cross a network without encryption.
fn is_bare(server: &str) -> bool {
    let Some(rest) = server.strip_prefix("nats://") else { return false };
    let host = match rest.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => rest.split([':', '/']).next(),
    };
    let host = host.unwrap_or_default();
    let is_loopback = host.parse().map(|it: std::net::IpAddr| it.is_loopback());
    !is_loopback.unwrap_or_else(|_| host.eq_ignore_ascii_case("localhost"))
}

/// Asks the bridge program, which alone knows keys and settings.
fn program(context: &Context, flag: &str, more: &[&str], stdin: &str) -> Result<String, Failure> {
    let program = paths::program(&context.vars, "COORDD_BRIDGE", "coordd-bridge");
    let program = program.ok_or_else(|| {
        Failure::failed("coordd-bridge is not installed")
            .hint("install it beside coordctl and coordd")
    })?;
    let failed = |error: std::io::Error| {
        Failure::failed(format!("{} cannot be run: {error}", program.display()))
    };
    // The state folder is this user's alone, as the daemon makes it.
    let state = &context.paths.state_dir;
    coordd_common::files::make_closed_folder(state).map_err(failed)?;
    let mut child = Command::new(&program)
        .arg(flag)
        .arg(state.join("bridge"))
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut to) = child.stdin.take() {
        to.write_all(stdin.as_bytes()).map_err(failed)?;
    }
    let out = child.wait_with_output().map_err(failed)?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).trim_end().to_owned());
    }
    let why = String::from_utf8_lossy(&out.stderr);
    Err(Failure::failed(line(why.trim_end())))
}

/// Waits until the bridge knows the peer, so that the user's next command finds it. Without a
/// running bridge there is nothing to wait for.
fn wait_until_known(context: &mut Context, fingerprint: &str) {
    let began = std::time::Instant::now();
    while began.elapsed() < KNOWN_WITHIN {
        match context.call_running(Request::BridgeStatus {}) {
            Ok(Response::Bridge { bridge }) if bridge.running => {
                if bridge.peers.iter().any(|peer| peer.fingerprint == fingerprint) {
                    return;
                }
            }
            Ok(_) | Err(_) => return,
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn say_so(context: &Context, text: &str) -> anyhow::Result<Exit> {
    printed(context, "said", text)
}

fn printed(context: &Context, name: &str, text: &str) -> anyhow::Result<Exit> {
    if context.json {
        let document: std::collections::BTreeMap<_, _> = [(name, text)].into();
        output::json(&document)?;
    } else {
        output::say(text)?;
    }
    Ok(Exit::Done)
}

fn allow(
    context: &mut Context,
    session: String,
    peer: &str,
    inbound: bool,
    outbound: bool,
) -> anyhow::Result<Exit> {
    let request = Request::BridgeAllow { session, peer: peer.to_owned(), inbound, outbound };
    let response = context.call(request)?;
    output::respond(context, &response, || {
        expect!(&response, Session { session });
        let may = match (inbound, outbound) {
            (true, true) => "messages pass in both directions",
            (true, false) => "messages pass from there to here only",
            (false, true) => "messages pass from here to there only",
            (false, false) => "nothing passes",
        };
        Ok(output::say(&format!("{} and {peer}: {may}", session.name))?)
    })?;
    Ok(Exit::Done)
}

fn ls(context: &mut Context) -> anyhow::Result<Exit> {
    let known = program(context, "--peers", &[], "")?;
    let response = context.call(Request::BridgeStatus {})?;
    output::respond(context, &response, || {
        expect!(&response, Bridge { bridge });
        let none = "no daemon is trusted; `coordctl bridge trust KEY --name NAME` adds one";
        Ok(output::table_or(&told::table(&known, &bridge.peers, coordd_common::wall_ms()), none)?)
    })?;
    Ok(Exit::Done)
}

fn letters(context: &mut Context) -> anyhow::Result<Exit> {
    let response = context.call(Request::BridgeStatus {})?;
    output::respond(context, &response, || {
        expect!(&response, Bridge { bridge });
        let none = "no message was rejected, neither here nor there";
        Ok(output::table_or(&told::letters_table(&bridge.letters, coordd_common::wall_ms()), none)?)
    })?;
    Ok(Exit::Done)
}

fn status(context: &mut Context, address: Option<&str>) -> anyhow::Result<Exit> {
    let response = context.call(Request::BridgeStatus {})?;
    output::respond(context, &response, || {
        expect!(&response, Bridge { bridge });
        for it in told::said(bridge) {
            output::say(&it)?;
        }
        if let Some(address) = address {
            output::say(&format!(
                "{address}: {}",
                told::reach(bridge, address, coordd_common::wall_ms())
            ))?;
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(server: &str, more: &str) -> toml::Table {
        toml::from_str(&format!("servers = [\"tls://hub\", \"{server}\"]\n{more} = \"/f\"\n"))
            .unwrap()
    }

    #[test]
    fn m7_credentials_without_tls_over_a_network_are_warned_of() {
        let said = warning(&settings("nats://hub:4222", "token_file")).unwrap();
        assert!(said.contains("nats://hub:4222") && said.contains("use tls://"), "{said}");
        for way in ["nkey_file", "credentials"] {
            assert!(warning(&settings("nats://[fd00::1]:4222", way)).is_some(), "{way}");
        }
        for way in ["domain", "ca", "certificate"] {
            assert_eq!(warning(&settings("nats://hub", way)), None, "{way}");
        }
        for near in ["tls://hub", "nats://localhost:4222", "nats://127.0.0.1", "nats://[::1]:4222"]
        {
            assert_eq!(warning(&settings(near, "token_file")), None, "{near}");
        }
        assert!(warning(&settings("nats://localhost.example", "token_file")).is_some());
        assert!(warning(&settings("nats://127.0.0.1.example", "token_file")).is_some());
    }
}
