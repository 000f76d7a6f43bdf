//! The user's terminal while lines are typed into it: no echo, key by key, pastes announced. However the program ends, and
//! while it is stopped, the terminal is as it was before.

use std::io::Write as _;
use std::sync::Mutex;

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

/// Pastes are announced.
const ENTER: &str = "\x1b[?2004h";
const LEAVE: &str = "\x1b[?2004l";
/// What is typed goes from the row that it is drawn on.
const ERASE: &str = "\r\x1b[K";

/// The settings before and with us, while we have the terminal.
static HELD: Mutex<Option<(Termios, Termios)>> = Mutex::new(None);

/// Our hold on the terminal. Dropped, also by a panic, it gives it back.
#[derive(Debug)]
pub(crate) struct Hold(());

impl Hold {
    pub(crate) fn take() -> std::io::Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let mut ours = before.clone();
        // Signals of keys stay: Ctrl-C and Ctrl-Z mean what they always mean.
        ours.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        ours.special_codes[SpecialCodeIndex::VMIN] = 1;
        ours.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(std::io::stdin(), OptionalActions::Now, &ours)?;
        if let Ok(mut held) = HELD.lock() {
            *held = Some((before, ours));
        }
        let hold = Self(());
        write(ENTER);
        Ok(hold)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        restore();
        if let Ok(mut held) = HELD.lock() {
            *held = None;
        }
    }
}

/// Gives the terminal back, where we have it: before the program ends by a signal, or is stopped. [`again`] takes it again.
pub(crate) fn give_back() {
    if held().is_some() {
        write(ERASE);
    }
    restore();
}

fn restore() {
    if let Some((before, _)) = held() {
        // Where it fails the terminal is gone, and there is nobody to tell.
        write(LEAVE);
        let _set = tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
    }
}

/// Takes it again, after having been stopped: a shell has set it as it likes.
pub(crate) fn again() {
    if let Some((_, ours)) = held() {
        let _set = tcsetattr(std::io::stdin(), OptionalActions::Now, &ours);
        write(ENTER);
    }
}

fn held() -> Option<(Termios, Termios)> {
    HELD.lock().ok().and_then(|held| held.clone())
}

fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    let _gone = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
