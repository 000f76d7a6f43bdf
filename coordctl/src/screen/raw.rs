//! The user's terminal in raw mode, and restored however the program ends.

use std::io::Write as _;
use std::sync::Mutex;

use proto::screen::Size;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Switches to the alternate screen, so that the user's own is intact afterwards.
const ENTER: &str = "\x1b[?1049h\x1b[2J\x1b[H";
/// Switches off every mode that a picture can switch on, and then leaves the alternate screen.
const LEAVE: &str = "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?9l\x1b[?2004l\x1b[?1l\x1b>\x1b[0 q\x1b[0m\x1b[?25h\x1b[2J\x1b[H\x1b[?1049l";

/// The settings while we have it, for when we come back from being stopped.
static TAKEN: Mutex<Option<Termios>> = Mutex::new(None);

/// A guard that restores the terminal when it is dropped, also by a panic.
pub(super) struct Raw {
    before: Termios,
}

impl Raw {
    pub(super) fn enter() -> std::io::Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &raw)?;
        if let Ok(mut taken) = TAKEN.lock() {
            *taken = Some(raw);
        }
        let raw = Self { before };
        write(ENTER)?;
        Ok(raw)
    }

    /// Sets raw mode again: after Ctrl-Z the shell has changed the settings.
    pub(super) fn again() {
        let taken = TAKEN.lock().ok().and_then(|it| it.clone());
        if let Some(raw) = taken {
            // If this fails the terminal is gone; reading the keyboard reports that.
            let _set = tcsetattr(std::io::stdin(), OptionalActions::Now, &raw);
            let _written = write(ENTER);
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // There is nobody to tell when the terminal is gone.
        let _written = write(LEAVE);
        let _set = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.before);
    }
}

/// The size of the user's terminal.
pub(super) fn size() -> Option<Size> {
    let size = tcgetwinsize(std::io::stdout()).ok()?;
    let (rows, columns) = (size.ws_row, size.ws_col);
    (rows > 0 && columns > 0).then_some(Size { rows, columns })
}

pub(super) fn write(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
