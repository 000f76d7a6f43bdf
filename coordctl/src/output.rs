//! Data goes to stdout, all else to stderr; nothing of either from the daemon without passing
//! `terminal`.

use std::io::{self, Write as _};

use serde::Serialize;

use crate::context::Context;
use crate::table::Table;
use crate::terminal;

/// One JSON document, as the response type is.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string(value)?;
    print(&format!("{}\n", terminal::json(&text)))?;
    Ok(())
}

/// Writes ready text to stdout. The caller has cleaned what came from the daemon.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// A line to stdout, cleaned.
pub(crate) fn say(text: &str) -> io::Result<()> {
    print(&format!("{}\n", terminal::clean(text)))
}

/// A line to stderr, cleaned. A closed stderr is no reason to fail.
pub(crate) fn note(text: &str) {
    let _closed = writeln!(io::stderr().lock(), "{}", terminal::clean(text));
}

/// A table to stdout.
pub(crate) fn table(table: &Table) -> io::Result<()> {
    print(&table.render(terminal::columns(io::stdout())))
}

/// A table to stdout; where it has no rows, this note instead.
pub(crate) fn table_or(table: &Table, none: &str) -> io::Result<()> {
    if table.is_empty() {
        note(none);
        return Ok(());
    }
    self::table(table)
}

/// The response as JSON when that was asked for, else what `text` makes of it.
pub(crate) fn respond<T: Serialize>(
    context: &Context,
    response: &T,
    text: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if context.json { json(response) } else { text() }
}
