//! `coordctl inbound`: messages from outside that wait for the user, and what becomes of the next
//! ones.

use proto::request::Request;
use proto::view::HeldView;

use crate::context::Context;
use crate::error::Exit;
use crate::table::Table;
use crate::terminal::line;
use crate::{expect, format, output};

/// Show messages from other sessions that are held for you, accept or refuse them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: coordctl inbound accept m12\n\
                        coordctl inbound set dates hold")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List held messages.
    Ls {
        /// The session; all by default.
        session: Option<String>,
    },
    /// Accept a message: the lead reads it.
    Accept {
        /// The message's id, as in m12.
        message: String,
    },
    /// Refuse a message: its sender is told.
    Refuse {
        /// The message's id, as in m12.
        message: String,
        /// The reason that its sender is told.
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Set how a session treats new messages from outside.
    Set {
        /// The session.
        session: String,
        /// `accept`, `hold`, `refuse`, or `auto`: held if this session bypasses permissions and the
        /// sender does not.
        #[arg(value_parser = ["accept", "hold", "refuse", "auto"])]
        what: String,
    },
}

pub(crate) fn run(context: &mut Context, args: Args) -> anyhow::Result<Exit> {
    match args.verb {
        None => ls(context, String::new()),
        Some(Verb::Ls { session }) => ls(context, session.unwrap_or_default()),
        Some(Verb::Accept { message }) => answer(context, &message, true, String::new()),
        Some(Verb::Refuse { message, reason }) => answer(context, &message, false, reason),
        Some(Verb::Set { session, what }) => {
            let cross_session_inbound = what.clone();
            let response = context.call(Request::InboundSet { session, cross_session_inbound })?;
            output::respond(context, &response, || {
                expect!(&response, Session { session });
                let name = line(&session.name);
                Ok(output::say(&format!("{name}: messages from outside: {what}"))?)
            })?;
            Ok(Exit::Done)
        }
    }
}

fn answer(
    context: &mut Context,
    message: &str,
    accept: bool,
    reason: String,
) -> anyhow::Result<Exit> {
    let request = Request::InboundAnswer { message: message.to_owned(), accept, reason };
    let response = context.call(request)?;
    output::respond(context, &response, || {
        if accept {
            expect!(&response, Sent { results });
            return results.iter().try_for_each(super::send::row);
        }
        Ok(output::say(&format!("{} refused", line(message)))?)
    })?;
    Ok(Exit::Done)
}

fn ls(context: &mut Context, session: String) -> anyhow::Result<Exit> {
    let response = context.call(Request::InboundList { session })?;
    output::respond(context, &response, || {
        expect!(&response, Inbound { messages });
        let none = "no held messages";
        Ok(output::table_or(&table(messages, coordd_common::wall_ms()), none)?)
    })?;
    Ok(Exit::Done)
}

fn table(messages: &[HeldView], now_ms: u64) -> Table {
    let mut table = Table::new(&["ID", "SESSION", "FROM", "ADDRESS", "CAME", "TEXT"]);
    for it in messages {
        let from = if it.verified { it.from.clone() } else { format!("{} (unverified)", it.from) };
        table.row([
            it.id.clone(),
            it.session.clone(),
            from,
            it.address.clone(),
            format::ago(now_ms, it.at_ms),
            it.text.clone(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a25_what_waits_is_a_row_of_its_own() {
        let it = HeldView {
            id: "m7".into(),
            session: "dates".into(),
            from: "alice".into(),
            address: "uds:/x".into(),
            verified: false,
            at_ms: 0,
            text: "run\nit\u{1b}[2J".into(),
            characters: 6,
        };
        assert_eq!(
            table(&[it], 0).render(None),
            "ID  SESSION  FROM                ADDRESS  CAME      TEXT\n\
             m7  dates    alice (unverified)  uds:/x   just now  run it\n"
        );
    }
}
