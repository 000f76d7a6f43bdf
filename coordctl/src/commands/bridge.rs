//! `coordctl bridge`: sessions on other machines. Keys and settings are the bridge program's business: it is asked.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::table::Table;
use crate::terminal::line;
use crate::{expect, format, output, paths};
use proto::bridge::{BridgePeerView, BridgeView};
use proto::request::Request;

/// A daemon that says nothing for so long is away: several times what it takes to be heard of again.
const AWAY_MS: u64 = 20_000;

/// Reach sessions on other machines over a NATS server.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: coordctl bridge add nats://hub:4222 --token-file ~/.config/nats.token\n\
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
        /// What `coordctl bridge key` prints there.
        key: String,
        /// What to call it here.
        #[arg(long)]
        name: String,
    },
    /// Trust it no longer.
    Distrust {
        /// Its name or fingerprint.
        peer: String,
    },
    /// List the trusted daemons.
    Ls,
    /// Let a session and a daemon's sessions write to each other.
    Allow {
        /// The session.
        session: String,
        /// The other daemon's name or fingerprint.
        peer: String,
        /// Only let its sessions be heard.
        #[arg(long = "in", conflicts_with = "outbound")]
        inbound: bool,
        /// Only let this session's agents write there.
        #[arg(long = "out")]
        outbound: bool,
    },
    /// Let them do so no longer.
    Deny {
        /// The session.
        session: String,
        /// The other daemon's name or fingerprint.
        peer: String,
    },
    /// Say how the bridge stands, and why an address is not reachable.
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
    /// The server's authority, where it is not one of the system's.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// A certificate to show to the server.
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// Its key.
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
            told(context, "the bridge is off; messages on their way wait until it is on again")
        }
        Verb::Key => {
            let key = program(context, "--key", &[], "")?;
            printed(context, "key", &key)
        }
        Verb::Trust { key, name } => {
            let fingerprint = program(context, "--trust", &[&key, &name], "")?;
            told(
                context,
                &format!(
                    "{name} is trusted; its fingerprint is {fingerprint}\nnothing passes yet: coordctl bridge allow SESSION {name}"
                ),
            )
        }
        Verb::Distrust { peer } => {
            let fingerprint = program(context, "--distrust", &[&peer], "")?;
            told(context, &format!("{fingerprint} is trusted no longer"))
        }
        Verb::Ls => ls(context),
        Verb::Allow { session, peer, inbound, outbound } => {
            let both = !inbound && !outbound;
            allow(context, session, &peer, inbound || both, outbound || both)
        }
        Verb::Deny { session, peer } => allow(context, session, &peer, false, false),
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
    let key = program(context, "--set-up", &[], &settings.to_string())?;
    context.call(Request::BridgeSet { on: true })?;
    told(
        context,
        &format!(
            "the bridge is on; `coordctl bridge status` says how it stands\nthis daemon's key, for the other machine: {key}"
        ),
    )
}

/// Asks the bridge program, which alone knows keys and settings.
fn program(context: &Context, flag: &str, more: &[&str], stdin: &str) -> Result<String, Failure> {
    let program = paths::program(&context.vars, "COORDD_BRIDGE", "coordd-bridge");
    let program = program.ok_or_else(|| {
        Failure::failed("coordd-bridge is not there").hint("install it beside coordctl and coordd")
    })?;
    let failed = |error: std::io::Error| {
        Failure::failed(format!("{} cannot be run: {error}", program.display()))
    };
    // The state folder is this user's alone, as the daemon makes it.
    let state = &context.paths.state_dir;
    std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700)
        .create(state)
        .map_err(failed)?;
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

fn told(context: &Context, text: &str) -> anyhow::Result<Exit> {
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
            (true, false) => "its sessions are heard, and nothing goes there",
            (false, true) => "agents may write there, and nothing is heard from there",
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
        if known.is_empty() {
            output::note("no daemon is trusted; `coordctl bridge trust KEY --name NAME` adds one");
            return Ok(());
        }
        Ok(output::table(&table(&known, &bridge.peers, format::now_ms()))?)
    })?;
    Ok(Exit::Done)
}

/// Who is trusted is in the bridge's own file; what is known of them is the running bridge's word.
fn table(known: &str, peers: &[BridgePeerView], now_ms: u64) -> Table {
    let mut table = Table::new(&["NAME", "FINGERPRINT", "MACHINE", "HEARD", "WAITING", "SESSIONS"]);
    for (fingerprint, name) in known.lines().filter_map(|it| it.split_once(' ')) {
        let it = peers.iter().find(|it| it.fingerprint == fingerprint);
        let count = |of: fn(&BridgePeerView) -> usize| it.map_or(0, of).to_string();
        table.row([
            name.to_owned(),
            fingerprint.to_owned(),
            it.map(|it| it.machine.clone()).unwrap_or_default(),
            match it.map_or(0, |it| it.heard_ms) {
                0 => "never".to_owned(),
                at => format::ago(now_ms, at),
            },
            count(|it| it.rows as usize),
            count(|it| it.sessions.len()),
        ]);
    }
    table
}

fn status(context: &mut Context, address: Option<&str>) -> anyhow::Result<Exit> {
    let response = context.call(Request::BridgeStatus {})?;
    output::respond(context, &response, || {
        expect!(&response, Bridge { bridge });
        for it in said(bridge) {
            output::say(&it)?;
        }
        if let Some(address) = address {
            output::say(&format!("{address}: {}", reach(bridge, address, format::now_ms())))?;
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}

/// How it stands, a line each.
fn said(it: &BridgeView) -> Vec<String> {
    if let Some(why) = broken(it) {
        let waiting = if it.rows == 0 { Vec::new() } else { vec![waiting(it)] };
        return [vec![why], waiting].concat();
    }
    let copies = match it.replicas {
        0 | 1 => "one server keeps what is on its way; what it loses is sent again".to_owned(),
        more => format!("{more} servers keep what is on its way"),
    };
    let mut lines = vec![
        format!("connected to {} as {}", it.server, it.own),
        copies,
        waiting(it),
        format!("{} daemons are trusted", it.peers.len()),
    ];
    for (reason, count) in &it.refused {
        lines.push(format!("refused from outside, {count} times: {reason}"));
    }
    lines
}

fn waiting(it: &BridgeView) -> String {
    format!("{} messages are on their way", it.rows)
}

/// What keeps everything from passing, if something does.
fn broken(it: &BridgeView) -> Option<String> {
    if !it.on {
        return Some(
            "there is no bridge; `coordctl bridge add nats://HOST:4222` sets one up".into(),
        );
    }
    if !it.running {
        return Some(
            "the bridge process does not run; its log is bridge.log in the state folder".into(),
        );
    }
    if !it.trouble.is_empty() {
        return Some(format!("{}: {}", it.server, it.trouble));
    }
    (!it.connected).then(|| format!("{}: the server does not answer yet", it.server))
}

/// Why an address is reachable or not (L2).
fn reach(it: &BridgeView, address: &str, now_ms: u64) -> String {
    if let Some(why) = broken(it) {
        return why;
    }
    let parts = address.strip_prefix("bridge:").and_then(|it| it.split_once('/'));
    let Some((fingerprint, session)) = parts else {
        return "this is no address on another machine; `coordctl peers` prints them".to_owned();
    };
    let Some(peer) = it.peers.iter().find(|it| it.fingerprint == fingerprint) else {
        return "unknown: no daemon of that fingerprint is trusted; see `coordctl bridge ls`"
            .to_owned();
    };
    if peer.heard_ms == 0 || now_ms.saturating_sub(peer.heard_ms) > AWAY_MS {
        let since = match peer.heard_ms {
            0 => "was not heard of since the bridge began".to_owned(),
            at => format!("was last heard of {}", format::ago(now_ms, at)),
        };
        return format!(
            "{} {since}: it is asleep or off, or does not trust this daemon; messages wait for it",
            peer.name
        );
    }
    if peer.sessions.iter().any(|it| it.session == session) {
        return format!("reachable on {}", peer.name);
    }
    format!(
        "{} is there, and tells of no such session: there is none, or its user has not allowed it with `coordctl bridge allow`",
        peer.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::bridge::RemoteView;

    fn view() -> BridgeView {
        let session =
            RemoteView { session: "s1".into(), name: "dates".into(), ..RemoteView::default() };
        let peer = BridgePeerView {
            fingerprint: "aaaaaaaaaaaaaaaa".into(),
            name: "desk".into(),
            heard_ms: 1_000_000,
            sessions: vec![session],
            ..BridgePeerView::default()
        };
        BridgeView {
            on: true,
            running: true,
            connected: true,
            server: "nats://hub".into(),
            peers: vec![peer],
            ..BridgeView::default()
        }
    }

    #[test]
    fn l2_each_cause_has_its_own_words() {
        let address = "bridge:aaaaaaaaaaaaaaaa/s1";
        let why = |it: &BridgeView, address: &str| reach(it, address, 1_000_500);
        assert_eq!(why(&view(), address), "reachable on desk");
        let cases = [
            (BridgeView { on: false, ..view() }, address, "bridge add"),
            (BridgeView { running: false, ..view() }, address, "bridge.log"),
            (BridgeView { connected: false, ..view() }, address, "does not answer"),
            (
                BridgeView { trouble: "the server refuses the credentials".into(), ..view() },
                address,
                "credentials",
            ),
            (view(), "bridge:bbbbbbbbbbbbbbbb/s1", "no daemon of that fingerprint"),
            (view(), "bridge:aaaaaaaaaaaaaaaa/s2", "bridge allow"),
            (view(), "s1", "no address"),
        ];
        for (it, address, want) in cases {
            assert!(why(&it, address).contains(want), "{want}: {}", why(&it, address));
        }
        assert!(reach(&view(), address, 1_000_000 + AWAY_MS + 1).contains("asleep"));
    }

    #[test]
    fn l1_trusted_daemons_are_listed_whether_or_not_they_are_there() {
        let known = "aaaaaaaaaaaaaaaa desk\nbbbbbbbbbbbbbbbb tower";
        assert_eq!(
            table(known, &view().peers, 1_000_000).render(None),
            "NAME   FINGERPRINT       MACHINE  HEARD     WAITING  SESSIONS\n\
             desk   aaaaaaaaaaaaaaaa           just now  0        1\n\
             tower  bbbbbbbbbbbbbbbb           never     0        0\n"
        );
    }
}
