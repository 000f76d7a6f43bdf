//! `coordctl peers`: other sessions that can be messaged.

use proto::request::Request;
use proto::view::{PeerKind, PeerView};

use crate::context::Context;
use crate::error::Exit;
use crate::table::Table;
use crate::{expect, format, output};

/// List other sessions that you can message, of coordd and of other programs, with their addresses.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: coordctl peers\n\
                        coordctl send uds:/run/user/1000/cc-socks/4711.sock \"is the build green?\"")]
pub(crate) struct Args {}

pub(crate) fn run(context: &mut Context) -> anyhow::Result<Exit> {
    let response = context.call(Request::PeerList {})?;
    output::respond(context, &response, || {
        expect!(&response, Peers { peers });
        let none = "none: no session of coordd, and no other program lists one";
        Ok(output::table_or(&table(peers, coordd_common::wall_ms()), none)?)
    })?;
    Ok(Exit::Done)
}

fn table(peers: &[PeerView], now_ms: u64) -> Table {
    let mut table = Table::new(&["NAME", "KIND", "STATE", "HEARD", "ADDRESS", "FOLDER"]);
    for it in peers {
        let kind = match it.kind {
            PeerKind::Session => "coordd session",
            PeerKind::Claude => "Claude Code",
            PeerKind::Other => "other",
            PeerKind::Bridge => "other machine",
            PeerKind::Host => "host",
        };
        let heard = match it.heard_ms {
            0 => String::new(),
            at => format::ago(now_ms, at),
        };
        table.row([
            it.name.clone(),
            kind.to_owned(),
            it.state.clone(),
            heard,
            it.address.clone(),
            it.cwd.clone(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m9_a_row_ends_with_the_exact_address() {
        let it = PeerView {
            id: "0f3c".into(),
            name: "alice\u{1b}[2J".into(),
            kind: PeerKind::Claude,
            address: "uds:/run/x/4711.sock".into(),
            state: "idle".into(),
            cwd: "/w".into(),
            heard_ms: 0,
        };
        assert_eq!(
            table(&[it], 0).render(None),
            "NAME   KIND         STATE  HEARD  ADDRESS               FOLDER\n\
             alice  Claude Code  idle          uds:/run/x/4711.sock  /w\n"
        );
    }
}
