//! Long texts for a person: through a pager where the output is a terminal, as git does it; else
//! printed.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::{Command, Stdio};

use crate::{output, terminal};

/// Columns of a text where there is no terminal, and at most so many where there is a wide one:
/// longer lines are hard to read.
const COLUMNS: (usize, usize) = (80, 100);

/// The exit code with which a shell says that there is no such program.
const NOT_FOUND: i32 = 127;

/// Columns to which a text for stdout should be wrapped.
pub(crate) fn columns() -> usize {
    terminal::columns(io::stdout()).map_or(COLUMNS.0, |wide| wide.min(COLUMNS.1))
}

/// Shows a text that is longer than the terminal by `$PAGER`, or by `less`; prints it where there
/// is no terminal or no pager.
pub(crate) fn show(text: &str) -> io::Result<()> {
    let fits = terminal::rows(io::stdout()).is_none_or(|rows| text.lines().count() < rows);
    if fits || !io::stdout().is_terminal() {
        return output::print(text);
    }
    let wanted = std::env::var("PAGER").unwrap_or_else(|_| "less".into());
    if wanted.trim().is_empty() || wanted == "cat" || !page(&wanted, text) {
        return output::print(text);
    }
    Ok(())
}

/// Whether a pager has taken the text. One that a person leaves early has.
fn page(pager: &str, text: &str) -> bool {
    let mut command = Command::new("sh");
    command.args(["-c", pager]).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        // Ends when all fits, shows colours, leaves the text on the screen.
        command.env("LESS", "FRX");
    }
    let Ok(mut child) = command.spawn() else { return false };
    if let Some(mut stdin) = child.stdin.take() {
        let _left_early = stdin.write_all(text.as_bytes());
    }
    child.wait().is_ok_and(|status| status.code() != Some(NOT_FOUND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pager_that_is_not_there_has_shown_nothing() {
        assert!(!page("/nowhere/no-such-pager", "text"));
        assert!(page("cat >/dev/null", "text"));
        assert!(page("true", &"a pager that is left at once\n".repeat(100_000)));
    }
}
