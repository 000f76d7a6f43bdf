//! `coordctl scratchpad`: the files that a session's agents share.

use proto::request::Request;
use proto::response::FileRow;
use serde::Serialize;

use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::table::Table;
use crate::{expect, format, live, output};

/// List or show the files of a session's scratchpad.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: coordctl scratchpad show dates spec.md")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List the files.
    Ls {
        /// The session.
        session: String,
    },
    /// Print one file.
    Show {
        /// The session.
        session: String,
        /// The file, relative to the scratchpad.
        path: String,
    },
    /// Print the scratchpad's path.
    Path {
        /// The session.
        session: String,
    },
}

pub(crate) fn run(context: &mut Context, args: Args) -> anyhow::Result<Exit> {
    match args.verb {
        Verb::Ls { session } => ls(context, session),
        Verb::Show { session, path } => show(context, session, path),
        Verb::Path { session } => path(context, &session),
    }
}

fn ls(context: &mut Context, session: String) -> anyhow::Result<Exit> {
    let response = context.call(Request::ScratchpadList { session })?;
    output::respond(context, &response, || {
        expect!(&response, Files { root, files, truncated });
        if files.is_empty() {
            output::note(&format!("no files in {root}"));
            return Ok(());
        }
        output::table(&table(files, coordd_common::wall_ms()))?;
        if *truncated {
            output::note("there are more files than are listed");
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}

fn table(files: &[FileRow], now_ms: u64) -> Table {
    let mut table = Table::new(&["SIZE", "WRITTEN", "FILE"]);
    for it in files {
        table.row([format::bytes(it.bytes), format::ago(now_ms, it.modified_ms), it.path.clone()]);
    }
    table
}

fn show(context: &mut Context, session: String, path: String) -> anyhow::Result<Exit> {
    let response = context.call(Request::ScratchpadShow { session, path })?;
    output::respond(context, &response, || {
        expect!(&response, File { text, bytes, truncated });
        output::print(&crate::terminal::clean(text))?;
        if !text.is_empty() && !text.ends_with('\n') {
            output::print("\n")?;
        }
        if *truncated {
            output::note(&format!("this is only the beginning of {}", format::bytes(*bytes)));
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}

fn path(context: &mut Context, session: &str) -> anyhow::Result<Exit> {
    let response = context.call(Request::SessionShow { session: session.to_owned() })?;
    let (session, _) = live::detail(response)?;
    let Some(path) = &session.scratchpad else {
        let failure = Failure::failed(format!("session {} has no scratchpad", session.name));
        return Err(failure.hint("it was made with scratchpad = false or --no-scratchpad").into());
    };
    output::respond(context, &Place { path }, || Ok(output::say(path)?))?;
    Ok(Exit::Done)
}

/// What `path --json` prints.
#[derive(Debug, Serialize)]
struct Place<'a> {
    path: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l1_as_json_the_path_is_all_there_is() {
        assert_eq!(serde_json::to_string(&Place { path: "/s" }).unwrap(), r#"{"path":"/s"}"#);
    }
}
