//! `coordctl send`: words to an agent, to everyone, or to another session.

use proto::address::Address;
use proto::error::ErrorCode;
use proto::message::{Body, SendResult};
use proto::request::Request;
use proto::response::Response;
use proto::view::{PeerKind, PeerView};

use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::push;
use crate::terminal::line;
use crate::{expect, format, live, output};

/// Send a message to a lead, an agent, everyone in a session, or another session.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: coordctl send dates/research-a \"look at leap years too\" --wait")]
pub(crate) struct Args {
    /// SESSION (its lead), SESSION/AGENT, SESSION/*, `uds:/path` or `bridge:ID`.
    to: String,
    /// The text; `-` reads it from stdin.
    text: String,
    /// The text in a few words; it is then sent as a message, not as the user's prompt.
    #[arg(long, value_name = "TEXT")]
    summary: Option<String>,
    /// The session that a bare name or `*` belongs to; for `uds:`, the one that an answer goes to.
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Wait until it is in the receiver's conversation; for `uds:`, until the receiver has nothing
    /// to do.
    #[arg(long)]
    wait: bool,
}

/// Where words go.
#[derive(Debug, PartialEq, Eq)]
enum To {
    Agent {
        session: String,
        agent: String,
    },
    Address {
        session: String,
        to: String,
    },
    /// A session, or an agent whose name only one has.
    Bare(String),
}

pub(crate) fn run(context: &mut Context, args: &Args) -> anyhow::Result<Exit> {
    let text = super::new::text_or_stdin(&args.text)?;
    let summary = args.summary.as_deref();
    let response = match parse(&args.to, args.session.as_deref())? {
        To::Address { session, to } => {
            let summary = summary.unwrap_or_default().to_owned();
            let (body, notify_when_idle) = (Body::text(text), args.wait && is_socket(&to));
            context.call(Request::Send { session, to, body, summary, notify_when_idle })?
        }
        To::Agent { session, agent } => context.call(words(session, agent, text, summary))?,
        To::Bare(name) => bare(context, &name, text, summary)?,
    };
    if args.wait {
        return wait(context, &response);
    }
    output::respond(context, &response, || {
        expect!(&response, Sent { results });
        results.iter().try_for_each(row)
    })?;
    Ok(exit(&response))
}

fn parse(to: &str, session: Option<&str>) -> Result<To, Failure> {
    let usage = |error: proto::address::AddressError| Failure::usage(error.to_string());
    match (to.parse::<Address>().map_err(usage)?, session) {
        (Address::Name(name), _) if name.contains('/') => {
            let (session, agent) = name.split_once('/').unwrap_or((&name, ""));
            Ok(match agent.parse() {
                Ok(Address::Everyone) => {
                    To::Address { session: session.to_owned(), to: agent.to_owned() }
                }
                _ => To::Agent { session: session.to_owned(), agent: agent.to_owned() },
            })
        }
        (Address::Everyone, None) => {
            Err(Failure::usage("`*` means everyone in a session, but no session is named")
                .hint("write SESSION/*, or give --session"))
        }
        (Address::Name(name), None) => Ok(To::Bare(name)),
        (Address::Name(agent), Some(session)) => {
            Ok(To::Agent { session: session.to_owned(), agent })
        }
        (Address::Everyone | Address::Uds(_) | Address::Bridge(_), session) => Ok(To::Address {
            session: session.unwrap_or_default().to_owned(),
            to: to.trim().to_owned(),
        }),
    }
}

/// Whether an address is a program's socket.
fn is_socket(to: &str) -> bool {
    matches!(to.parse(), Ok(Address::Uds(_)))
}

/// The user's words; with a summary they go as a message.
fn words(session: String, agent: String, text: String, summary: Option<&str>) -> Request {
    match summary {
        None => Request::Prompt { session, agent: Some(agent), text },
        Some(summary) => {
            let summary = summary.to_owned();
            let (body, notify_when_idle) = (Body::text(text), false);
            Request::Send { session, to: agent, body, summary, notify_when_idle }
        }
    }
}

fn bare(
    context: &mut Context,
    name: &str,
    text: String,
    summary: Option<&str>,
) -> Result<Response, Failure> {
    if summary.is_none() {
        let prompt = Request::Prompt { session: name.to_owned(), agent: None, text: text.clone() };
        match context.call_or_denied(prompt)? {
            Ok(response) => return Ok(response),
            Err(body) if body.code == ErrorCode::NotFound => {}
            Err(body) => return Err(body.into()),
        }
    }
    match live::find_agent(context, name) {
        Ok(agent) => context.call(words(agent.session, agent.id, text, summary)),
        Err(failure) => {
            // A name as `coordctl peers` shows it.
            expect!(context.call(Request::PeerList {})?, Peers { peers });
            let to = peer_of(&peers, name).map_err(|several| several.unwrap_or(failure))?;
            let (summary, body) = (summary.unwrap_or_default().to_owned(), Body::text(text));
            let (session, notify_when_idle) = (String::new(), false);
            context.call(Request::Send { session, to, body, summary, notify_when_idle })
        }
    }
}

/// The address of the one that has this name outside of coordd. None fits: nothing; several do: what to write instead.
fn peer_of(peers: &[PeerView], name: &str) -> Result<String, Option<Failure>> {
    let outside = |it: &&PeerView| !matches!(it.kind, PeerKind::Session | PeerKind::Host);
    let named: Vec<&PeerView> = peers
        .iter()
        .filter(outside)
        .filter(|it| it.name.eq_ignore_ascii_case(name) || it.id == name)
        .collect();
    match named.as_slice() {
        [one] => Ok(one.address.clone()),
        [] => Err(None),
        several => {
            let addresses: Vec<String> = several.iter().map(|it| line(&it.address)).collect();
            Err(Some(
                Failure::usage(format!("several outside of coordd are called `{}`", line(name)))
                    .hint(format!("write to one of {}", addresses.join(", "))),
            ))
        }
    }
}

pub(crate) fn row(it: &SendResult) -> anyhow::Result<()> {
    match it {
        SendResult::Accepted { to, id, ahead, note, request_id } => {
            let mut text = format!("{} to {}: {}", line(id), line(to), line(note));
            if *ahead > 0 {
                push!(text, ", {} before it", format::count(u64::from(*ahead), "message"));
            }
            if let Some(request) = request_id {
                push!(text, ", answered by {}", line(request));
            }
            output::say(&text)?;
        }
        // The reason tells whether the receiver or coordd refused, or nobody listened.
        SendResult::Refused { to, reason } if is_socket(to) => {
            output::note(&format!("not delivered to {}: {}", line(to), line(reason)));
        }
        SendResult::Refused { to, reason } => {
            output::note(&format!("{} refused it: {}", line(to), line(reason)));
        }
    }
    Ok(())
}

/// 0 when all took it, 3 when all refused, 1 when some did (M-5).
pub(crate) fn exit(response: &Response) -> Exit {
    let Response::Sent { results } = response else { return Exit::Failed };
    let refused = results.iter().filter(|it| matches!(it, SendResult::Refused { .. })).count();
    match refused {
        0 => Exit::Done,
        n if n == results.len() => Exit::Denied,
        _ => Exit::Failed,
    }
}

/// A prompt's response: an error if its receiver refused it.
pub(crate) fn check(response: &Response) -> Result<(), Failure> {
    expect!(response, Sent { results });
    for it in results {
        if let SendResult::Refused { to, reason } = it {
            return Err(Failure::new(Exit::Denied, format!("{to} refused it: {reason}")));
        }
    }
    Ok(())
}

fn wait(context: &mut Context, response: &Response) -> anyhow::Result<Exit> {
    expect!(response, Sent { results });
    let mut exit = exit(response);
    for it in results {
        if !context.json {
            row(it)?;
        }
        if let SendResult::Accepted { id, .. } = it {
            let one = super::wait::message(context, id, None)?;
            if one != Exit::Done {
                exit = one;
            }
        }
    }
    Ok(exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m1_where_words_go() {
        let to = |to: &str, session| parse(to, session).unwrap();
        assert_eq!(to("dates", None), To::Bare("dates".into()));
        assert_eq!(to("d/w", None), To::Agent { session: "d".into(), agent: "w".into() });
        assert_eq!(to("w", Some("d")), To::Agent { session: "d".into(), agent: "w".into() });
        assert_eq!(to("d/*", None), To::Address { session: "d".into(), to: "*".into() });
        assert_eq!(to("*", Some("d")), To::Address { session: "d".into(), to: "*".into() });
        let uds = To::Address { session: String::new(), to: "uds:/run/x".into() };
        assert_eq!(to("uds:/run/x", None), uds);
        assert!(parse("*", None).unwrap_err().hint.contains("SESSION/*"));
        assert!(parse("uds:x", None).unwrap_err().message.contains("absolute"));
        assert!(parse("tcp:x", None).unwrap_err().message.contains("tcp"));
    }

    #[test]
    fn m5_the_exit_code_tells_some_from_all() {
        let yes = || SendResult::Accepted {
            to: "a".into(),
            id: "m1".into(),
            ahead: 0,
            note: String::new(),
            request_id: None,
        };
        let no = || SendResult::Refused { to: "b".into(), reason: "full".into() };
        let sent = |results| exit(&Response::Sent { results });
        assert_eq!(sent(vec![yes(), yes()]), Exit::Done);
        assert_eq!(sent(vec![yes(), no()]), Exit::Failed);
        assert_eq!(sent(vec![no()]), Exit::Denied);
    }

    /// fA18: who is on the list of peers is found by the name that stands there.
    #[test]
    fn fa18_a_name_of_the_list_of_peers_is_found() {
        let peer = |name: &str, kind: PeerKind, address: &str| PeerView {
            id: format!("id-{address}"),
            name: name.to_owned(),
            kind,
            address: address.to_owned(),
            state: String::new(),
            cwd: String::new(),
            heard_ms: 0,
        };
        let peers = [
            peer("alice", PeerKind::Claude, "uds:/a"),
            peer("bob", PeerKind::Other, "uds:/b"),
            peer("Bob", PeerKind::Bridge, "bridge:m/b"),
            peer("carol", PeerKind::Session, "bridge:c"),
        ];
        assert_eq!(peer_of(&peers, "Alice").unwrap(), "uds:/a");
        assert_eq!(peer_of(&peers, "id-uds:/b").unwrap(), "uds:/b");
        let several = peer_of(&peers, "bob").unwrap_err().unwrap();
        assert!(several.hint.contains("uds:/b, bridge:m/b"), "{}", several.hint);
        // Sessions of coordd are found before.
        assert_eq!(peer_of(&peers, "carol"), Err(None));
        assert_eq!(peer_of(&peers, "nobody"), Err(None));
    }
}
