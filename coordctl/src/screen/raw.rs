//! The user's terminal, taken over and given back: however the program ends, it is as it was.

use proto::screen::Size;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::Write as _;
use std::sync::Mutex;

/// A screen of its own, so that what was there before is there afterwards.
const ENTER: &str = "\x1b[?1049h\x1b[2J\x1b[H";
/// Every mode that a picture can switch on, off again; then the screen as it was.
const LEAVE: &str = "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?9l\x1b[?2004l\x1b[?1l\x1b>\x1b[0 q\x1b[0m\x1b[?25h\x1b[2J\x1b[H\x1b[?1049l";

/// The settings while we have it, for when we come back from being stopped.
static TAKEN: Mutex<Option<Termios>> = Mutex::new(None);

/// Our hold on the terminal. Dropped, also by a panic, it gives it back.
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

    /// Takes it again: a shell that we were stopped under has set it as it likes.
    pub(super) fn again() {
        let taken = TAKEN.lock().ok().and_then(|it| it.clone());
        if let Some(raw) = taken {
            // Where it fails the terminal is gone, which the keyboard tells.
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
